(** * Definitions
  Everything that the theorems of this folder are about. All is finite and exact: probabilities are numbers of any
  ordered field R, such as the rationals or the reals, and t stands in the place of e^epsilon.

  | here                 | on the theory pages                                                                      |
  |----------------------|------------------------------------------------------------------------------------------|
  | t                    | e^epsilon                                                                                |
  | pos x                | x_+, the larger of 0 and x                                                               |
  | law P                | P is a probability measure on finitely many outcomes                                     |
  | kernel K             | K s is a law for every s: a probability kernel, or a *mechanism* where s is a table      |
  | push K P             | PK: draw s by P, then an outcome by K s                                                  |
  | both P Q             | an outcome of P and, independent of it, one of Q                                         |
  | H t P Q              | the hockey-stick divergence of P and Q at epsilon                                        |
  | dominates P Q P' Q'  | (P', Q') has no larger divergence than (P, Q) at any epsilon                             |
  | image P Q P' Q'      | (P', Q') is obtained from (P, Q) by one kernel, which does not see the table             |
  | bounds nb M t delta  | M is (epsilon, delta)-differentially private for the neighbours nb                       |
  | attains nb M t delta | some neighbours have this divergence                                                     |
  | exact nb M t delta   | both: delta is the value of the privacy profile at epsilon                               |
  | Seq A n              | sequences of n outcomes                                                                  |
  | run K h n            | n outcomes, each by a law that depends on all earlier ones; h are those before the first | *)
From mathcomp Require Import all_ssreflect all_algebra.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Definitions.
Variable R : realFieldType.

Definition pos (x : R) : R := Num.max 0 x.

(** A law, and a kernel. A mechanism is a kernel from tables, which may be of any type. *)
Definition law (T : finType) (P : T -> R) : Prop := (forall o, 0 <= P o) /\ \sum_o P o = 1.
Definition kernel (S : Type) (T : finType) (K : S -> T -> R) : Prop := forall s, law (K s).
Definition push (S T : finType) (K : S -> T -> R) (P : S -> R) : T -> R := fun o => \sum_s P s * K s o.
Definition both (S T : finType) (P : S -> R) (Q : T -> R) : S * T -> R := fun o => P o.1 * Q o.2.

(** The hockey-stick divergence, and pairs that dominate others. *)
Definition H (T : finType) (t : R) (P Q : T -> R) : R := \sum_o pos (P o - t * Q o).
Definition dominates (S T : finType) (P Q : S -> R) (P' Q' : T -> R) : Prop :=
  forall t, 0 <= t -> H t P' Q' <= H t P Q.
Definition image (S T : finType) (P Q : S -> R) (P' Q' : T -> R) : Prop :=
  exists K : S -> T -> R, kernel K /\ P' =1 push K P /\ Q' =1 push K Q.

(** The privacy profile of a mechanism. Which tables are neighbours is said by the relation [nb]. *)
Definition bounds (X : Type) (T : finType) (nb : X -> X -> Prop) (M : X -> T -> R) (t delta : R) : Prop :=
  forall x y, nb x y -> H t (M x) (M y) <= delta.
Definition attains (X : Type) (T : finType) (nb : X -> X -> Prop) (M : X -> T -> R) (t delta : R) : Prop :=
  exists x y, nb x y /\ H t (M x) (M y) = delta.
Definition exact (X : Type) (T : finType) (nb : X -> X -> Prop) (M : X -> T -> R) (t delta : R) : Prop :=
  bounds nb M t delta /\ attains nb M t delta.

(** Sequences, and outcomes that are drawn one after the other. *)
Fixpoint Seq (A : finType) (n : nat) : finType :=
  if n is n'.+1 then [finType of A * Seq A n'] else [finType of unit].
Fixpoint run (A : finType) (K : seq A -> A -> R) (h : seq A) (n : nat) : Seq A n -> R :=
  if n is n'.+1 then fun o => K h o.1 * run K (rcons h o.1) o.2 else fun _ => 1.
End Definitions.
