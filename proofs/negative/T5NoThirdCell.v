(** Wrong: T5's equality for two cells and g < n. The page of T5 has the exact profile of two cells, which is smaller.
    fails with: The term "hk" has type *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions DataProcessing Arithmetic Tables ThreeOutcomes T5.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Theorem equality (R : realFieldType) (C : finType) (n : nat) (q : R) g m t :
  0 <= q <= 1 -> (0 < n)%N -> (1 < #|C|)%N -> (g <= n)%N ->
  (1 < #|C|)%N \/ g = n ->
  (* right:   (2 < #|C|)%N \/ g = n -> *)
  exact (neighbours g) (@release R C n q m) t
    (H t (draws m (P3 (q / #|C|%:R) (g%:R * ((1 - q) / n%:R)))) (draws m (Q3 (q / #|C|%:R) (g%:R * ((1 - q) / n%:R))))).
Proof.
move=> q01 n0 k2 gn hk.
exact (T5_exact q01 n0 k2 m t gn hk).
Qed.
