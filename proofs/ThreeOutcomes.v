(** * The pair of three outcomes
  Several theorems reduce two laws P and Q on many cells to one pair on three outcomes. The page of T5 writes it
  *P = (b + gs, b, 1 - 2b - gs), Q = (b, b + gs, 1 - 2b - gs)*; here s stands for gs.

  [three_outcomes]: (P, Q) is an image of the pair, by a kernel that depends on P and Q, if they are at most s apart in
  total variation and if b (p_c - q_c)_+ and b (q_c - p_c)_+ are in every cell at most s min(p_c, q_c).

  | here      | on the theory pages                                    |
  |-----------|--------------------------------------------------------|
  | P3 b s    | (b + s, b, 1 - 2b - s)                                 |
  | Q3 b s    | (b, b + s, 1 - 2b - s)                                 |
  | Some true | the first outcome                                      |
  | Some false| the second                                             |
  | None      | the third                                              |
  | u c, v c  | d_c^+ and d_c^- of T5, times s over g                  | *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions DataProcessing Arithmetic.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section ThreeOutcomes.
Variable R : realFieldType.
Add Field field_R : (field_laws R).
Ltac ringR := to_field R; ring.
Ltac fieldR := to_field R; field; of_field.
Variables (b s : R).

Definition P3 (o : option bool) : R := match o with Some true => b + s | Some false => b | None => 1 - b - b - s end.
Definition Q3 (o : option bool) : R := match o with Some true => b | Some false => b + s | None => 1 - b - b - s end.

Lemma sum3 (F : option bool -> R) : \sum_o F o = F (Some true) + F (Some false) + F None.
Proof. by rewrite (bigD1 None) //= (bigD1 (Some true)) //= (bigD1 (Some false)) //= big1 => [|[[]|]] //; ringR. Qed.

Hypotheses (b0 : 0 <= b) (s0 : 0 <= s) (r0 : 0 <= 1 - b - b - s).

Lemma P3_law : law P3.
Proof. by split=> [[[]|]|]; [exact: addr_ge0 | | | rewrite sum3 /=; ringR]. Qed.
Lemma Q3_law : law Q3.
Proof. by split=> [[[]|]|]; [| exact: addr_ge0 | | rewrite sum3 /=; ringR]. Qed.

(* P and Q have at most s of mass apart, and in every cell enough in common *)
Theorem three_outcomes (C : finType) (P Q : C -> R) :
  law P -> law Q -> \sum_c pos (P c - Q c) <= s ->
  (forall c, b * (pos (P c - Q c) + pos (Q c - P c)) <= s * (P c - pos (P c - Q c))) ->
  image P3 Q3 P Q.
Proof.
move=> lP lQ hs hb; case: (lP) (lQ) => P0 P1 [Q0 Q1].
pose u c := pos (P c - Q c); pose v c := pos (Q c - P c).
have u0 c : 0 <= u c by exact: pos_ge0.
have v0 c : 0 <= v c by exact: pos_ge0.
have uv c : u c = P c - Q c + v c by rewrite /u pos_opp opprB.
pose h : R := \sum_c u c.
have hv : \sum_c v c = h by rewrite /h (eq_bigr _ (fun c _ => uv c)) big_split /= sumrB P1 Q1 subrr add0r.
have h0 : 0 <= h by apply: sumr_ge0.
have hs' : h <= s by [].
have small (x : R) : 0 <= x <= h -> s * (x / s) = x.
  move=> /andP[x0 xh]; case: (eqVneq s 0) => [z|nz]; last by rewrite mulrC divfK.
  by rewrite z mul0r; apply/eqP; rewrite eq_le x0 -[0]z (le_trans xh).
have one (w : C -> R) c : (forall c, 0 <= w c) -> \sum_c w c = h -> s * (w c / s) = w c.
  by move=> w0 wh; apply: small; rewrite w0 -wh (bigD1 c) //= ler_addl sumr_ge0.
have su c := one u c u0 erefl.
have sv c := one v c v0 hv.
have sh : s * (h / s) = h by rewrite small // lexx h0.
(* what no source or target explains *)
pose r c := P c - u c - b * (u c / s + v c / s).
have rq c : r c = Q c - v c - b * (u c / s + v c / s) by rewrite /r uv; ringR.
have r0' c : 0 <= r c.
  have := hb c; rewrite -/(u c) -/(v c) /r => hbc.
  case: (eqVneq s 0) => [z|nz].
    have -> : u c / s + v c / s = 0 by rewrite z invr0 !mulr0 addr0.
    by rewrite mulr0 subr0; move: (uv c) => /eqP; rewrite -subr_eq => /eqP; rewrite subr_ge0; case: (leP 0 (P c - Q c)) => k;
      [rewrite /u pos_id // ler_subl_addr ler_addl | rewrite /u pos_0 // ltW].
  have sp : 0 < s by rewrite lt0r nz.
  by rewrite subr_ge0 -mulrDl mulrA ler_pdivr_mulr // [X in _ <= X]mulrC.
pose tot : R := \sum_c r c.
have tot0 : 0 <= tot by apply: sumr_ge0.
have totE : tot = 1 - h - b * (h / s + h / s).
  rewrite /tot /r !sumrB P1 -mulr_sumr big_split /= -!mulr_suml hv -/h; ringR.
pose nu c := if tot == 0 then P c else r c / tot.
have nuE c : tot * nu c = r c.
  rewrite /nu; case: eqP => [z|/eqP nz]; last by rewrite mulrC divfK.
  rewrite z mul0r; apply/eqP; rewrite eq_le r0' /=.
  by rewrite -[X in _ <= X]z /tot (bigD1 c) //= ler_addl sumr_ge0.
have nu0 c : 0 <= nu c by rewrite /nu; case: eqP => // _; rewrite divr_ge0.
have nu1 : \sum_c nu c = 1.
  by rewrite /nu; case: eqP => [_|/eqP nz]; [| rewrite -mulr_suml divff].
have k0 : 0 <= 1 - h / s.
  rewrite subr_ge0; case: (eqVneq s 0) => [->|nz]; first by rewrite invr0 mulr0 ler01.
  by rewrite ler_pdivr_mulr ?mul1r // lt0r nz.
exists (fun o c => match o with Some true => u c / s + (1 - h / s) * nu c
                              | Some false => v c / s + (1 - h / s) * nu c | None => nu c end).
split; first case=> [[]|].
- split=> [c|]; first by rewrite addr_ge0 ?mulr_ge0 ?invr_ge0.
  rewrite big_split /= -mulr_suml -mulr_sumr nu1 -/h; ringR.
- split=> [c|]; first by rewrite addr_ge0 ?mulr_ge0 ?invr_ge0.
  rewrite big_split /= -mulr_suml -mulr_sumr nu1 hv; ringR.
- by split.
have key c : (1 - h / s) * nu c * (b + b + s) + (1 - b - b - s) * nu c = r c.
  have e : h = s * (h / s) by rewrite sh.
  rewrite -nuE totE; move: (h / s) e => z ->; ringR.
split=> c; rewrite /push sum3 /=.
  transitivity (r c + (b + s) * (u c / s) + b * (v c / s)); last by rewrite -key; ringR.
  by rewrite mulrDl su /r; ringR.
transitivity (r c + b * (u c / s) + (b + s) * (v c / s)); last by rewrite -key; ringR.
by rewrite mulrDl sv rq; ringR.
Qed.
End ThreeOutcomes.
