(** Wrong: the pair of several draws with b = s/e^lambda in the place of s/(e^lambda - 1).
    fails with: Cannot apply lemma in_common *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions DataProcessing Arithmetic Tables ThreeOutcomes T5 T7.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Wrong.
Variables (R : realFieldType) (C : finType) (P Q : C -> R) (s L : R).
Hypotheses (lP : law P) (lQ : law Q) (L1 : 1 < L) (s0 : 0 <= s) (tv : \sum_c pos (P c - Q c) <= s).
Hypotheses (pq : forall c, P c <= L * Q c) (qp : forall c, Q c <= L * P c).
Notation ratio :=
  L.
  (* right:   (L - 1). *)
Theorem one_pair : image (P3 (s / ratio) s) (Q3 (s / ratio) s) P Q.
Proof.
have r0 : 0 < ratio by rewrite ?subr_gt0 // (lt_trans ltr01 L1).
apply: (three_outcomes s0 lP lQ tv) => c.
rewrite -mulrA; apply: ler_left => //; rewrite mulrC ler_pdivr_mulr // mulrC.
exact: in_common.
Qed.
End Wrong.
