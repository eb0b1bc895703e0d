(** Wrong: the divergence taken to increase with e^epsilon, so that the lower end of a bracket would bound it from below.
    fails with: while it is expected to have type "is_true (H (R:=R) (T:=T) t P Q <= H (R:=R) (T:=T) t' P Q)" *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions DataProcessing.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Theorem direction (R : realFieldType) (T : finType) (P Q : T -> R) t t' : (forall o, 0 <= Q o) -> t <= t' ->
  H t P Q <= H t' P Q.
  (* right:   H t' P Q <= H t P Q. *)
Proof.
move=> Q0 le.
exact (H_decreasing P Q0 le).
Qed.
