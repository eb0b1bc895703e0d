(** * Groups (Lemma 7, docs/theory/sampling-is-noise.md)

  In the page's words: "For laws P_0, P_1, ..., P_g and any real e_1 + ... + e_g = epsilon,
  H_epsilon(P_0||P_g) <= sum over i of e^(e_1 + ... + e_(i-1)) H_(e_i)(P_(i-1)||P_i)." A change of g records is a chain of g
  changes of one record, so the single-record profile may stand in every place.

  | here          | on the page                                                                 |
  |---------------|-----------------------------------------------------------------------------|
  | t i           | e^(e_(i+1)), each at least 0; places are counted from 0                     |
  | upto t i      | e^(e_1 + ... + e_i), the product of the first i                             |
  | chain nb g    | two tables that g changes lead from one to the other                        |

  That the least of these bounds is the profile of the composed power functions is not covered here. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions DataProcessing.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Groups.
Variable R : realFieldType.
Definition upto (t : nat -> R) (i : nat) : R := \prod_(j < i) t j.
Fixpoint chain (X : Type) (nb : X -> X -> Prop) (g : nat) (x y : X) : Prop :=
  if g is g'.+1 then exists z, chain nb g' x z /\ nb z y else x = y.

Lemma two_steps (T : finType) (s t : R) (P Q Q' : T -> R) : 0 <= s -> H (s * t) P Q' <= H s P Q + s * H t Q Q'.
Proof.
move=> s0; rewrite /H mulr_sumr -big_split /=; apply: ler_sum => o _.
rewrite -posM //; apply: pos_le; last by rewrite addr_ge0 ?pos_ge0.
have -> : P o - s * t * Q' o = (P o - s * Q o) + s * (Q o - t * Q' o) by rewrite mulrBr addrA subrK mulrA.
by apply: ler_add; exact: pos_ge.
Qed.
Lemma upto_ge0 (t : nat -> R) i : (forall j, 0 <= t j) -> 0 <= upto t i.
Proof. by move=> t0; apply: prodr_ge0 => j _. Qed.
Lemma H_same (T : finType) (P : T -> R) : H 1 P P = 0.
Proof. by apply: big1 => o _; rewrite mul1r subrr pos_0. Qed.

Theorem hybrid (T : finType) (P : nat -> T -> R) (t : nat -> R) g : (forall i, 0 <= t i) ->
  H (upto t g) (P 0%N) (P g) <= \sum_(i < g) upto t i * H (t i) (P i) (P i.+1).
Proof.
move=> t0; elim: g => [|g IH]; first by rewrite /upto !big_ord0 H_same.
rewrite big_ord_recr /= {1}/upto big_ord_recr /=.
by apply: le_trans (two_steps _ _ (P g) _ (upto_ge0 g t0)) _; rewrite ler_add2r.
Qed.

(** A mechanism's profile for one change bounds it for chains of g changes. *)
Theorem groups (X : Type) (T : finType) (nb : X -> X -> Prop) (M : X -> T -> R) (t delta : nat -> R) g :
  (forall i, 0 <= t i) -> (forall i, bounds nb M (t i) (delta i)) ->
  bounds (chain nb g) M (upto t g) (\sum_(i < g) upto t i * delta i).
Proof.
move=> t0 one; elim: g => [|g IH] x y /=; first by move=> <-; rewrite /upto !big_ord0 H_same.
case=> z [xz zy]; rewrite big_ord_recr /= {1}/upto big_ord_recr /=.
apply: le_trans (two_steps _ _ (M z) _ (upto_ge0 g t0)) _.
by apply: ler_add; [exact: IH | apply: ler_wpmul2l; [exact: upto_ge0 | exact: one]].
Qed.

(** Pure epsilon: g times that of one record. *)
Theorem groups_pure (X : Type) (T : finType) (nb : X -> X -> Prop) (M : X -> T -> R) (t : R) g :
  0 <= t -> bounds nb M t 0 -> bounds (chain nb g) M (t ^+ g) 0.
Proof.
move=> t0 one; have := @groups X T nb M (fun=> t) (fun=> 0) g (fun=> t0) (fun=> one).
by rewrite /upto prodr_const card_ord big1 // => i _; rewrite mulr0.
Qed.
End Groups.
