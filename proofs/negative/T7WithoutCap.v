(** Wrong: T7 without its third bound, C_i, which is not in the published paper. The page has tables for which it fails.
    fails with: The term "ok" has type *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions DataProcessing Arithmetic Tables ThreeOutcomes T5 T7.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Wrong.
Variables (R : realFieldType) (C : finType) (n : nat) (E : R).
Hypotheses (n0 : (0 < n)%N) (k2 : (1 < #|C|)%N) (E1 : 1 <= E).
Definition published (d : nat -> R) : Prop :=
  (forall i, (i * #|C| < n)%N -> d i <= tau C n E i) /\
  (forall i, (i.+2 * #|C| <= n)%N -> d i.+1 <= Rec C n E i.+1 (d i)) /\
  (forall i, (i.+1 * #|C| < n)%N -> d i <= d i.+1).
  (* right:   (forall i, (i.+1 * #|C| < n)%N -> d i.+1 <= Cap C n E i.+1 (d i)). *)
Theorem private_schedule d : probabilities C n d -> increasing C n d -> published d -> private C n E d.
Proof.
move=> p inc ok.
exact (T7_private n0 k2 E1 p inc ok).
Qed.
End Wrong.
