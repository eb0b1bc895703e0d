(** Wrong: T4's equality without a third cell (k >= 2 and any n; false for k = n = 2, T4_two_cells in TwoCells.v).
    fails with: The term "size" has type *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions DataProcessing Urn T4.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Wrong.
Variables (R : realFieldType) (C : finType) (alpha : C -> R) (l t : C) (n m : nat).
Hypotheses (al0 : forall c, 0 < alpha c) (lst : least alpha l t).
Lemma reached (T : R) : (0 < n)%N ->
  (1 < #|C|)%N \/ n = 1%N ->
  (* right:   (2 < #|C|)%N \/ n = 1%N -> *)
  exists x y : table C n, replaced n x y /\ replaced n y x /\
    pair3 (alpha l) (alpha t) (others alpha n l t) m T <= H T (release alpha m x) (release alpha m y) /\
    pair3' (alpha l) (alpha t) (others alpha n l t) m T <= H T (release alpha m y) (release alpha m x).
Proof.
move=> n0 size.
exact (T4_reached m lst T n0 size).
Qed.
End Wrong.
