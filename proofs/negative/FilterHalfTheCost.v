(** Wrong: each release is private at twice the epsilon that it costs.
    fails with: Cannot apply lemma private *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions DataProcessing Filter.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Wrong.
Variables (R : realFieldType) (A : finType) (silent : A -> R).
Hypothesis silent_law : law silent.
Variables Kx Ky : seq A -> A -> R.
Hypotheses (kx : kernel Kx) (ky : kernel Ky).

Section Sums.
Variables et d : seq A -> R.
Hypotheses (et1 : forall h, 1 <= et h) (d0 : forall h, 0 <= d h).
Hypothesis private : forall h,
  H (et h * et h) (Kx h) (Ky h) <= d h.
  (* right:   H (et h) (Kx h) (Ky h) <= d h. *)
Fixpoint sums_filter (K : seq A -> A -> R) (T D : R) (h : seq A) (n : nat) : Seq A n -> R :=
  if n is n'.+1 then fun o =>
    if (et h <= T) && (d h <= D) then K h o.1 * sums_filter K (T / et h) (D - d h) (rcons h o.1) o.2
    else silent o.1 * sums_filter K T D (rcons h o.1) o.2
  else fun _ => 1.
Lemma sums_filter_law K T D h n : kernel K -> law (sums_filter K T D h (n := n)).
Proof.
move=> kK; elim: n T D h => [|n IH] T D h; first exact: unit_law.
suff step (S : A -> R) T' D' : law S -> law (fun o : Seq A n.+1 => S o.1 * sums_filter K T' D' (rcons h o.1) o.2).
  by rewrite /=; case: (_ && _); exact: step.
move=> [s0 s1]; split=> [o|]; first by apply: mulr_ge0 => //; case: (IH T' D' (rcons h o.1)).
rewrite -(pair_bigA _ (fun a o => S a * sums_filter K T' D' (rcons h a) o)) /= -s1.
by apply: eq_bigr => a _; rewrite -mulr_sumr; have [_ e] := IH T' D' (rcons h a); rewrite e mulr1.
Qed.
Lemma filter_of_sums (T D : R) (n : nat) : 1 <= T -> 0 <= D ->
  H T (sums_filter Kx T D [::] (n := n)) (sums_filter Ky T D [::] (n := n)) <= D.
Proof.
move: ([::] : seq A) => h; elim: n T D h => [|n IH] T D h T1 D0.
  by rewrite /H /= (sum_unit (fun _ => pos (1 - T * 1))) mulr1 pos_0 // subr_le0.
have et0 : 0 < et h by exact: lt_le_trans ltr01 (et1 h).
rewrite /=; case: (boolP ((et h <= T) && (d h <= D))) => [/andP[leT leD]|_].
  have left1 : 1 <= T / et h by rewrite ler_pdivl_mulr // mul1r.
  have left0 : 0 <= D - d h by rewrite subr_ge0.
  rewrite /H -(pair_bigA _ (fun a o => pos (Kx h a * sums_filter Kx (T / et h) (D - d h) (rcons h a) o -
     T * (Ky h a * sums_filter Ky (T / et h) (D - d h) (rcons h a) o)))) /=.
  apply: (@le_trans _ _ (\sum_a (Kx h a * (D - d h) + pos (Kx h a - et h * Ky h a)))).
    apply: ler_sum => a _; have := IH _ _ (rcons h a) left1 left0 => next.
    have T_ : T = et h * (T / et h) by rewrite mulrCA divff ?mulr1 // lt0r_neq0.
    rewrite [X in X <= _](eq_bigr (fun o => pos (Kx h a * sums_filter Kx (T / et h) (D - d h) (rcons h a) o -
       et h * (T / et h) * (Ky h a * sums_filter Ky (T / et h) (D - d h) (rcons h a) o)))); last by rewrite -T_.
    apply: one_more next => //; try exact: sums_filter_law; try exact: le_trans ler01 left1.
      by case: (kx h).
    by case: (ky h).
  rewrite big_split /= -mulr_suml; have [_ ->] := kx h; rewrite mul1r.
  by rewrite -ler_subr_addl opprB addrCA subrr addr0; exact: private.
rewrite /H -(pair_bigA _ (fun a o => pos (silent a * sums_filter Kx T D (rcons h a) o -
   T * (silent a * sums_filter Ky T D (rcons h a) o)))) /=.
have [s0 s1] := silent_law; rewrite -[X in _ <= X]mul1r -s1 mulr_suml; apply: ler_sum => a _.
rewrite (eq_bigr (fun o => silent a * pos (sums_filter Kx T D (rcons h a) o - T * sums_filter Ky T D (rcons h a) o))).
  by rewrite -mulr_sumr; apply: ler_wpmul2l => //; exact: IH.
by move=> o _; rewrite mulrCA -mulrBr posM.
Qed.
End Sums.
End Wrong.
