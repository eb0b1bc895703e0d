(** Wrong: a new value may have the label v, so that the release can show it where no record has it.
    fails with: The LHS of mul0r *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions DataProcessing Records T1.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Wrong.
Variables (R : realFieldType) (C : finType) (theta : R) (base : seq C -> C -> R) (n m g : nat).
Hypotheses (theta0 : 0 < theta) (gn : (g <= n)%N).
(** How the mass theta of a new value is spread over the labels. *)
Hypothesis base_ge0 : forall h c, 0 <= base h c.
Hypothesis base_sum : forall h, \sum_c base h c = theta.
Variable v : C.
Hypothesis no_atom : forall h,
  base h v = theta.
  (* right:   base h v = 0. *)
Fixpoint shows (k : nat) : Seq C k -> bool := if k is k'.+1 then fun o => (o.1 == v) || shows o.2 else fun _ => false.
Lemma never x h k (o : Seq C k) : v \notin x -> v \notin h -> shows o ->
  run (draw (theta + n%:R) (mass base x)) h o = 0.
Proof.
move=> vx; elim: k h o => [//|k IH] h o vh /=; case: (eqVneq o.1 v) => [->|ne] /= so.
  by rewrite /draw /mass no_atom !(count_memPn _) // !addr0 mul0r mul0r.
by rewrite IH ?mulr0 // mem_rcons in_cons negb_or eq_sym ne.
Qed.
End Wrong.
