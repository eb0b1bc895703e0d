(** Wrong: a table with counts N is released as q N + Z, though its noise has the scale of q^2 units.
    fails with: The LHS of residue *)
From mathcomp Require Import all_ssreflect all_algebra.
From Coq Require Import ZArith Lia.
From Discreet Require Import Definitions DataProcessing Records T6 T20 Filter T20Sums.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.
Delimit Scope Z_scope with Z. Delimit Scope nat_scope with N.

Section Wrong.
Variables (R : realFieldType) (w : nat) (p : Z -> R) (L : nat).
Variables (single rho : nat -> Z -> R).
Notation star := (star w p). Notation factor := (factor rho).
Hypothesis lemmaA : forall q a, single q a = rho q a * sum_of w p (q * q) a.
Hypothesis residue : forall q a i, rho q (a - Z.of_nat (q * q * i))%Z = rho q a.
Definition shift_of (q i : nat) : Z :=
  Z.of_nat (q * i).
  (* right:   Z.of_nat (q * q * i). *)
Lemma noisy_factor q (c : nat -> nat) l (o : Seq (window L) l) :
  noisy (single q) (fun i => shift_of q (c i)) o = factor q o * noisy (star q) (fun i => shift_of q (c i)) o.
Proof.
rewrite /T20Sums.factor !noisy_indep; elim: l c o => [|l IH] c o /=; first by rewrite mulr1.
by rewrite IH lemmaA residue mulrACA.
Qed.
End Wrong.
