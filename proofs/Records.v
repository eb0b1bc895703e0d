(** * Tables of records
  Tables of records of any type, and their neighbours, for T1, T6 and T20.

  | here                     | on the theory pages                                                         |
  |--------------------------|-----------------------------------------------------------------------------|
  | x, y : seq D             | tables; the order of their records does not matter                          |
  | replaced g x y           | y is x with g of its records replaced                                       |
  | added_or_removed g x y   | one is the other with g records added                                       |
  | counts cell x i          | how many records of x are in cell i, where each record is in one cell       | *)
From mathcomp Require Import all_ssreflect.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.

Section Tables.
Variable D : eqType.
(** y is x with the records a replaced by the records b, g of each; the order of records does not matter. *)
Definition replaced (g : nat) (x y : seq D) : Prop :=
  exists common a b, [/\ perm_eq x (common ++ a), perm_eq y (common ++ b), size a = g & size b = g].
(** y is x with g records added, or x is y with g records added. *)
Definition added_to (g : nat) (x y : seq D) : Prop := exists a, perm_eq y (x ++ a) /\ size a = g.
Definition added_or_removed (g : nat) (x y : seq D) : Prop := added_to g x y \/ added_to g y x.

(** How many records are in cell i, where each record has one cell. *)
Definition counts (cell : D -> nat) (x : seq D) (i : nat) : nat := count (fun r => cell r == i) x.
Lemma counts_sum cell x k : (\sum_(i < k) counts cell x i <= size x).
Proof.
elim: x => [|r x IH]; first by rewrite big1.
rewrite /= big_split /= -addn1 addnC leq_add //.
case: (ltnP (cell r) k) => lt; last first.
  by rewrite big1 // => i _; case: eqP => // e; move: lt; rewrite e leqNgt ltn_ord.
rewrite (bigD1 (Ordinal lt)) //= eqxx big1 // => i ne; case: eqP => // e.
by case/eqP: ne; apply: val_inj.
Qed.
Lemma counts_le cell x i : (counts cell x i <= size x). Proof. exact: count_size. Qed.
Lemma replaced_sym g x y : replaced g x y -> replaced g y x.
Proof. by case=> c [a [b [h1 h2 h3 h4]]]; exists c, b, a; split. Qed.
Lemma gains_replaced g x y cell k : replaced g x y -> (\sum_(i < k) (counts cell y i - counts cell x i) <= g).
Proof.
case=> c [a [b [px py _ <-]]]; apply: leq_trans (counts_sum cell b k); apply: leq_sum => i _.
by rewrite /counts (permP px) (permP py) !count_cat leq_subLR -addnA leq_add2l leq_addl.
Qed.
End Tables.
