(** Wrong: a table of j units is paid for as j - 1.
    fails with: No applicable tactic. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Coq Require Import ZArith Lia.
From Discreet Require Import Definitions DataProcessing Records T6 T20 Filter T20Sums.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.
Delimit Scope Z_scope with Z. Delimit Scope nat_scope with N.

Section Wrong.
Variable R : realFieldType.
Variables (w : nat) (p : Z -> R) (N : noise w p) (even : forall z, p (- z)%Z = p z).
Variables (D : eqType) (g n : nat).
Notation Lu := (n + w)%N.
Variables (C L : nat).
Hypothesis large : (C * (n + w) <= L)%N.
Notation plus := (@plus w n L).
Notation sums_table j c k := (@sums_table R w p L j c k).
Lemma sums_dominated per j c c' k : small n c k -> small n c' k -> (j <= C)%N ->
  noises_dominate N g per (noisy_counts p Lu c k) (noisy_counts p Lu c' k) ->
  noises_dominate N g (per * j.-1)
  (* right:   noises_dominate N g (per * j) *)
    (sums_table j c k) (sums_table j c' k).
Proof.
move=> sc sc' jC d; elim: j jC => [|j IH] jC.
  have same : sums_table 0 c k =1 sums_table 0 c' k by move=> o; rewrite /T20Sums.sums_table; apply: noisy_ext => i _; rewrite !mul0n.
  rewrite muln0 => t t0; rewrite (H_ext t (fun o => erefl (sums_table 0 c k o)) (fun o => esym (same o))).
  by apply: (same_dominated (noises N g 0)) => //; exact: (sums_law N large).
have le : (j <= C)%N by exact: ltnW.
rewrite /noises_dominate (_ : noises N g _ = product (nseq per (unit N g) ++ nseq (per * j) (unit N g))); last first.
  by rewrite -nseqD -mulnS.
apply: dominates_trans (product_cat _ _) _.
apply: (@dominates_trans _ _ _ _ _ _ (both (noisy_counts p Lu c k) (sums_table j c k))
          (both (noisy_counts p Lu c' k) (sums_table j c' k))).
  apply: both_dominates (IH le) => //; try exact: first_law; try exact: second_law; try exact: (sums_law N large);
    exact: (noisy_counts_law N (leqnn _)).
apply: image_dominates; exists (zip_with R plus (k := k)); split; first exact: zip_kernel.
by split=> o; rewrite (sums_step N large).
Qed.

End Wrong.
