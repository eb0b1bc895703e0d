(** Wrong: a replaced record costs one noise per unit of a table, as an added one does.
    fails with: Cannot apply lemma (units_dominated *)
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

Variables (kinds : seq bool) (ask_table : seq (outcome L k) -> option (D -> nat))
  (ask_score : seq (outcome L k) -> option ((D -> nat) * (nat -> nat))).
Lemma units_replaced x y : (size x <= n)%N -> (size y <= n)%N -> replaced g x y ->
  noises_dominate N g (1 * count_mem true kinds + count_mem false kinds)
  (* right:   noises_dominate N g (2 * count_mem true kinds + count_mem false kinds) *)
    (units p kinds ask_table ask_score x) (units p kinds ask_table ask_score y).
Proof. by move=> sx sy r; apply: (@units_dominated _ _ _ N even _ _ _ _ _ large kinds ask_table ask_score 2) => // [|cell]; [left | exact: (lemmaC_table_replaced N even k large)]. Qed.
End Wrong.
