(** * T7: why its third bound is needed
  docs/theory/data-specific-reveal-or-obscure.md, "What is not private".

  *The schedule max(0, (13), w/(u - v)) fails when k and N are large and q falls fast: at the largest cell of the table with
  the larger smallest count, d_i > C_i(d_(i-1)).* [T7_needs_cap]: so for k = 50, n = 150, e^epsilon = 6/5 and
  d = (3/8, 13/32, 1/2, 1), which is that schedule. It keeps the first two bounds of T7, with equality but for tau_1.

  | here      | on the page                                          |
  |-----------|------------------------------------------------------|
  | D         | the k = 50 cells                                     |
  | repaired  | the d_i of that schedule                             | *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions DataProcessing Arithmetic Tables T5 T7.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Cap.
Variable R : realFieldType.
Add Field field_R : (field_laws R).
Ltac ringR := to_field R; ring.
Ltac fieldR := to_field R; field; of_field.
Notation D := (ordinal_finType 50).
Notation E := (6%:R / 5%:R : R).
Definition repaired (i : nat) : R := nth 1 [:: 3%:R / 8%:R; 13%:R / 32%:R; 1 / 2%:R] i.

Lemma whole : 150%:R / #|D|%:R = 3%:R :> R.
Proof. by rewrite card_ord -[150%N]/(3 * 50)%N natrM mulfK // pnatr_eq0. Qed.
Lemma nz m : m.+1%:R != 0 :> R. Proof. by rewrite pnatr_eq0. Qed.
Ltac positive := do !split; apply/eqP; apply: lt0r_neq0; repeat first [exact: ltr01 | apply: addr_gt0 | apply: mulr_gt0].
Ltac numbers := rewrite !natS; fieldR; positive.

Theorem T7_needs_cap :
  [/\ probabilities D 150 repaired, increasing D 150 repaired,
      forall i, (i * #|D| < 150)%N -> repaired i <= tau D 150 E i,
      forall i, (i.+2 * #|D| <= 150)%N -> repaired i.+1 <= Rec D 150 E i.+1 (repaired i)
    & ~ private D 150 E repaired].
Proof.
have hE : E - 1 = 1 / 5%:R by rewrite (natS R 5) mulrDl divff ?nz // addrAC subrr add0r.
have prob : probabilities D 150 repaired.
  move=> i _; rewrite /repaired; case: i => [|[|[|i]]] /=; rewrite ?nth_nil ?ler01 ?lexx //.
  - by rewrite divr_ge0 ?ler0n // ler_pdivr_mulr ?ltr0n // mul1r ler_nat.
  - by rewrite divr_ge0 ?ler0n // ler_pdivr_mulr ?ltr0n // mul1r ler_nat.
  - by rewrite divr_ge0 ?ler0n ?ler01 // ler_pdivr_mulr ?ltr0n // mul1r ler1n.
split => //.
- move=> i _; rewrite /repaired; case: i => [|[|[|i]]] /=; rewrite ?nth_nil //.
  + by rewrite ler_pdivr_mulr ?ltr0n // mulrAC ler_pdivl_mulr ?ltr0n // -!natrM ler_nat.
  + by rewrite ler_pdivr_mulr ?ltr0n // mulrAC mul1r ler_pdivl_mulr ?ltr0n // -!natrM ler_nat.
  + by rewrite ler_pdivr_mulr ?ltr0n // mul1r ler1n.
- move=> i; rewrite card_ord; case: i => [|[|[|i]]] // _; rewrite /repaired /tau whole hE /=; last 1 first.
  + rewrite le_eqVlt; apply/orP; left; apply/eqP; numbers.
  + rewrite le_eqVlt; apply/orP; left; apply/eqP; numbers.
  + rewrite -subr_ge0 (_ : _ - _ = 5%:R / (7%:R * 32%:R)); last by numbers.
    by rewrite divr_ge0 ?mulr_ge0 ?ler0n.
- move=> i; rewrite card_ord; case: i => [|[|i]] // _; rewrite /repaired /Rec whole hE /=.
  + rewrite le_eqVlt; apply/orP; left; apply/eqP; numbers.
  + rewrite le_eqVlt; apply/orP; left; apply/eqP; numbers.
move=> pr; have E1 : 1 <= E by rewrite -subr_ge0 hE divr_ge0 ?ler01 ?ler0n.
have k2 : (1 < #|D|)%N by rewrite card_ord.
have k3 : (2 < #|D|)%N by rewrite card_ord.
have [_ [_ hc]] := T7_necessary (isT : (0 < 150)%N) k2 E1 k3 prob pr.
have k1E : 50%:R - 1 = 7%:R * 7%:R :> R by rewrite (natS R 49) addrK -natrM.
have := hc 1%N; rewrite card_ord => /(_ isT); rewrite /repaired /Cap whole hE card_ord k1E /=.
apply/negP; rewrite -ltNge -subr_gt0 (_ : _ - _ = 1 / (4%:R * 4%:R * 5%:R * (7%:R * 7%:R))); last by numbers.
by rewrite divr_gt0 ?ltr01 // !mulr_gt0 ?ltr0n.
Qed.
End Cap.
