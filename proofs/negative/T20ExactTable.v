(** Wrong: the table R of a score is made of exact counts, and moves along with the table.
    fails with: No applicable tactic. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Coq Require Import ZArith.
From Discreet Require Import Definitions DataProcessing Records T6 T20.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.
Delimit Scope Z_scope with Z. Delimit Scope nat_scope with N.

Section Wrong.
Variable R : realFieldType.
Variables (w : nat) (p : Z -> R) (N : noise w p) (even : forall z, p (- z)%Z = p z).
Variables (D : eqType) (g n L k : nat).
Hypothesis large : (n + w <= L)%N.
Implicit Types x y : seq D.

Variable exact_counts : seq D -> nat -> nat.
Definition score (cell : D -> nat) (Rf : nat -> nat) (x : seq D) : nat := \sum_(i < k) (counts cell x i - Rf i)%N.
Lemma score_gain cell x y (h : nat) : (\sum_(i < k) (counts cell y i - counts cell x i) <= h)%N ->
  (score cell (exact_counts y) y <= score cell (exact_counts x) x + h)%N.
  (* right:   (score cell (exact_counts x) y <= score cell (exact_counts x) x + h)%N. *)
Proof.
move=> le_h; apply: (@leq_trans (score cell (exact_counts x) x + \sum_(i < k) (counts cell y i - counts cell x i))); last first.
  by rewrite leq_add2l.
rewrite /score -big_split /=; apply: leq_sum => i _; rewrite leq_subLR addnA.
apply: (@leq_trans (counts cell x i + (counts cell y i - counts cell x i))); first by rewrite -leq_subLR.
by rewrite leq_add2r -leq_subLR.
Qed.
End Wrong.
