(** Wrong: tau_i with the count of the other cell, i + 1, in the place of i.
    fails with: not a valid ring equation *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions DataProcessing Arithmetic Tables ThreeOutcomes T5 T7.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Wrong.
Variable R : realFieldType.
Add Field field_R : (field_laws R).
Ltac ringR := to_field R; ring.
Ltac fieldR := to_field R; field; of_field.
Variables (C : finType) (n : nat) (E : R).
Hypotheses (n0 : (0 < n)%N) (k2 : (1 < #|C|)%N) (E1 : 1 <= E).
Definition bound (i : nat) : R := let N := n%:R / #|C|%:R in
  (E - 1) * N / (1 + (E - 1) * (N - i.+1%:R)).
  (* right:   (E - 1) * N / (1 + (E - 1) * (N - i%:R)). *)
Theorem smallest_cell i d : (i.+1 * #|C| <= n)%N -> (d <= bound i) = (f C n i.+1 d <= E * f C n i d).
Proof.
move=> iN; have iN1 : i.+1%:R <= n%:R / #|C|%:R :> R by rewrite le_N.
have iN0 : i%:R <= n%:R / #|C|%:R :> R by apply: le_trans iN1; rewrite ler_nat.
rewrite /bound ler_pdivl_mulr; last first.
  by apply: (lt_le_trans ltr01); rewrite ler_addl mulr_ge0 // subr_ge0.
rewrite -subr_ge0 -[RHS]subr_ge0; congr (_ <= _).
rewrite /f natS; ringR.
Qed.
End Wrong.
