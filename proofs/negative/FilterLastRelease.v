(** Wrong: a release is allowed as long as something is left, whatever it costs.
    fails with: No applicable tactic. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions DataProcessing Filter.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Wrong.
Variables (R : realFieldType) (A : finType) (silent : A -> R).
Hypothesis silent_law : law silent.
Variables Kx Ky : seq A -> A -> R.
Hypotheses (kx : kernel Kx) (ky : kernel Ky).

(** ** Units *)
Section Units.
Variables (unit : pair R) (cost : seq A -> nat).
Definition copies (c : nat) : pair R := product (nseq c unit).
Hypothesis units_dominate : forall h, dominates (@first _ (copies (cost h))) (@second _ (copies (cost h))) (Kx h) (Ky h).
Fixpoint units_filter (K : seq A -> A -> R) (left : nat) (h : seq A) (n : nat) : Seq A n -> R :=
  if n is n'.+1 then fun o =>
    if (0 < left)%N then
    (* right:     if (cost h <= left)%N then *)
      K h o.1 * units_filter K (left - cost h) (rcons h o.1) o.2
    else silent o.1 * units_filter K left (rcons h o.1) o.2
  else fun _ => 1.
Lemma units_filter_law K left h n : kernel K -> law (units_filter K left h (n := n)).
Proof.
move=> kK; elim: n left h => [|n IH] left h; first exact: unit_law.
suff step (S : A -> R) left' : law S -> law (fun o : Seq A n.+1 => S o.1 * units_filter K left' (rcons h o.1) o.2).
  by rewrite /=; case: (_ <= _)%N; exact: step.
move=> [s0 s1]; split=> [o|]; first by apply: mulr_ge0 => //; case: (IH left' (rcons h o.1)).
rewrite -(pair_bigA _ (fun a o => S a * units_filter K left' (rcons h a) o)) /= -s1.
by apply: eq_bigr => a _; rewrite -mulr_sumr; have [_ e] := IH left' (rcons h a); rewrite e mulr1.
Qed.
Lemma filter_of_units (U n : nat) :
  dominates (@first _ (copies U)) (@second _ (copies U))
            (units_filter Kx U [::] (n := n)) (units_filter Ky U [::] (n := n)).
Proof.
elim: n U [::] => [|n IH] left h; first by apply: same_dominated; exact: unit_law.
rewrite /=; case: leqP => [le|_].
  have e : copies left = product (nseq (cost h) unit ++ nseq (left - cost h) unit) by rewrite -nseqD subnKC.
  rewrite e; apply: dominates_trans (product_cat _ _) _.
  apply: (adaptive_composition (Mx := Kx h) (My := Ky h) (P2 := @first _ (copies (left - cost h)))
            (Q2 := @second _ (copies (left - cost h)))
            (Nx := fun a => units_filter Kx (left - cost h) (rcons h a) (n := n))
            (Ny := fun a => units_filter Ky (left - cost h) (rcons h a) (n := n))) => //.
  - by move=> a; exact: units_filter_law.
  - by move=> a; exact: units_filter_law.
  - exact: first_law.
  - exact: second_law.
  - exact: units_dominate.
apply: (dominates_trans (product_cat [::] (nseq left unit))).
apply: (adaptive_composition (Mx := silent) (My := silent) (P2 := @first _ (copies left)) (Q2 := @second _ (copies left))
          (Nx := fun a => units_filter Kx left (rcons h a) (n := n))
          (Ny := fun a => units_filter Ky left (rcons h a) (n := n))) => //.
- by move=> a; exact: units_filter_law.
- by move=> a; exact: units_filter_law.
- exact: first_law.
- exact: second_law.
- exact: (same_dominated (product [::])).
Qed.
End Units.
End Wrong.
