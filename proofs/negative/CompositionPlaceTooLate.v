(** Wrong: the pair of a place is chosen by the outcomes before it.
    fails with: Cannot apply lemma dom *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions DataProcessing.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Wrong.
Variable R : realFieldType.
(** Chosen by what came out. *)
Variables (A : finType) (choice : seq A -> nat).
Definition dominated_at (p : nat -> pair R) (Kx Ky : seq A -> A -> R) (n : nat) : Prop :=
  forall h, (size h < n)%N -> dominates (@first _ (p (choice h))) (@second _ (p (choice h))) (Kx h) (Ky h).
  (* right:   forall h, (size h < n)%N -> dominates (@first _ (p (size h))) (@second _ (p (size h))) (Kx h) (Ky h). *)
Lemma composition (ps : seq (pair R)) (d : pair R) (Kx Ky : seq A -> A -> R) :
  kernel Kx -> kernel Ky -> dominated_at (nth d ps) Kx Ky (size ps) ->
  dominates (@first _ (product ps)) (@second _ (product ps))
            (run Kx [::] (n := size ps)) (run Ky [::] (n := size ps)).
Proof.
move=> kx ky dom.
suff all_h (qs : seq (pair R)) (h : seq A) :
    (forall h', (size h' < size qs)%N -> dominates (@first _ (nth d qs (size h'))) (@second _ (nth d qs (size h')))
                                                 (Kx (h ++ h')) (Ky (h ++ h'))) ->
    dominates (@first _ (product qs)) (@second _ (product qs)) (run Kx h (n := size qs)) (run Ky h (n := size qs)).
  by apply: all_h => h' lt; exact: dom.
elim: qs h => [|q qs IH] h D /=; first by move=> t _.
apply: (adaptive_composition (Mx := Kx h) (My := Ky h) (Nx := fun a => run Kx (rcons h a) (n := size qs))
          (Ny := fun a => run Ky (rcons h a) (n := size qs))) => //.
- by move=> a; exact: run_law.
- by move=> a; exact: run_law.
- exact: first_law.
- exact: second_law.
- by have := D [::] isT; rewrite cats0.
- move=> a; apply: IH => h' lt; have := D (a :: h'); rewrite -cat_rcons; exact.
Qed.
End Wrong.
