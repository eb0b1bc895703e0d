(** Wrong: the pure epsilon as log(1 + (m - 1) / alpha_min), with one draw less.
    fails with: while it is expected to have type *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions Urn T4 T4Pure.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Theorem pure (R : realFieldType) (C : finType) (alpha : C -> R) (l i : C) (n m : nat) (t : R) :
  (forall c, 0 < alpha c) -> least alpha l i -> (0 < n)%N ->
  1 + m.-1%:R / alpha l <= t ->
  (* right:   1 + m%:R / alpha l <= t -> *)
  bounds (replaced n) (fun x : table C n => release alpha m x) t 0.
Proof.
move=> al0 lst n0 ht.
exact (proj2 (pure_epsilon m t al0 lst n0) ht).
Qed.
