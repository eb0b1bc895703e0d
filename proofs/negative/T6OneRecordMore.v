(** Wrong: the pair of g records is to cover g + 1 that a table loses.
    fails with: Cannot apply lemma leq_trans *)
From mathcomp Require Import all_ssreflect all_algebra.
From Coq Require Import ZArith.
From Discreet Require Import Definitions DataProcessing Records T6.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.
Delimit Scope Z_scope with Z. Delimit Scope nat_scope with N.

Section Wrong.
Variable R : realFieldType.
Variables (w : nat) (p : Z -> R).
Hypothesis N : noise w p.
Variables (g L n : nat).
Hypothesis large : (n + w <= L)%N.
Notation Z0 := (Z0 w p g). Notation Zup := (Zup w p g). Notation Zdown := (Zdown w p g).
Notation noisy_counts := (noisy_counts p L). Notation small := (small n).
(** Steps 1 to 4 together. *)
Lemma unit_table k c c' : small c k -> small c' k ->
  (\sum_(i < k) (c' i - c i) <= g)%N -> (\sum_(i < k) (c i - c' i) <= g.+1)%N ->
  (* right:   (\sum_(i < k) (c' i - c i) <= g)%N -> (\sum_(i < k) (c i - c' i) <= g)%N -> *)
  dominates (both Z0 Z0) (both Zup Zdown) (noisy_counts c k) (noisy_counts c' k).
Proof.
move=> sc sc' up down.
pose hi i := maxn (c i) (c' i); pose lo i := minn (c i) (c' i).
have shi : small hi k by move=> i lt; rewrite geq_max sc ?sc'.
have slo : small lo k by move=> i lt; apply: leq_trans (geq_minl _ _) (sc i lt).
pose f i := (c i <= c' i)%N.
apply: (@dominates_trans _ _ _ _ _ _ (both (noisy_counts c k) (noisy_counts c k))
          (both (noisy_counts hi k) (noisy_counts lo k))).
  apply: (adaptive_composition (Nx := fun _ => noisy_counts c k) (Ny := fun _ => noisy_counts lo k)).
  - exact: (noisy_counts_law N large).
  - exact: (noisy_counts_law N large).
  - by move=> _; exact: (noisy_counts_law N large).
  - by move=> _; exact: (noisy_counts_law N large).
  - exact: (Z0_law N g).
  - exact: (Zdown_law N g).
  - apply: (one_direction N large (s := true)) => // [i _|]; first exact: leq_maxl.
    apply: leq_trans up; apply: leq_sum => i _; rewrite /hi.
    by case: (leqP (c i) (c' i)) => h //; rewrite subnn.
  - move=> _; apply: (one_direction N large (s := false)) => // [i _|]; first exact: geq_minl.
    apply: leq_trans down; apply: leq_sum => i _; rewrite /lo.
    by case: (leqP (c i) (c' i)) => h //; rewrite subnn.
apply: image_dominates; exists (@pick R L f k); split; first exact: pick_kernel.
split=> o; rewrite (pick_noisy N large) //; apply: noisy_ext => i _; rewrite /f /hi /lo; first by case: (_ <= _)%N.
by case: (leqP (c i) (c' i)).
Qed.

End Wrong.
