(** Wrong: the pair of T4 made of any two cells, not of those of the two smallest prior masses.
    fails with: The term "lst" has type *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions Urn T4.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Wrong.
Variables (R : realFieldType) (C : finType) (alpha : C -> R) (l t : C) (n m : nat).
Hypotheses (al0 : forall c, 0 < alpha c)
  (lst : l != t).
  (* right:   (lst : least alpha l t). *)
Theorem bound (T : R) : bounds (replaced n) (fun x : table C n => release alpha m x) T
  (worst (alpha l) (alpha t) (others alpha n l t) m T).
Proof. exact (T4_bound m al0 lst T). Qed.
End Wrong.
