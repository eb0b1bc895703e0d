(** Wrong: the pure epsilon of T5 with n + 1 in the place of n, as for records that are added.
    fails with: not a valid field equation *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions DataProcessing Arithmetic Tables ThreeOutcomes T5.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Wrong.
Variable R : realFieldType.
Add Field field_R : (field_laws R).
Ltac ringR := to_field R; ring.
Ltac fieldR := to_field R; field; of_field.
Variables (C : finType) (n m : nat) (q t : R).
Notation k := #|C|.
Hypotheses (q01 : 0 <= q <= 1) (q0 : 0 < q) (n0 : (0 < n)%N) (k2 : (1 < k)%N).
Definition factor : R :=
  1 + (1 - q) * k%:R / (n.+1%:R * q).
  (* right:   1 + (1 - q) * k%:R / (n%:R * q). *)
Theorem necessary : bounds (@neighbours C n 1) (@release R C n q m) t 0 -> factor ^+ m <= t.
Proof.
have b0 : 0 < q / k%:R by rewrite divr_gt0 // ltr0n ltnW.
have bL : q / k%:R * factor = q / k%:R + (1 - q) / n%:R.
  rewrite /factor; fieldR; do !split; apply/eqP; rewrite ?pnatr_eq0 -?lt0n ?lt0r_neq0 // ltnW //.
move=> pr; have [x [y [l [xy ex ey]]]] := lone_record q n0 k2.
have /H_le0/(_ [ffun=> l]) := pr x y xy; rewrite /release /draws.
rewrite (eq_bigr (fun=> q / k%:R + (1 - q) / n%:R)) => [|i _]; last by rewrite ffunE.
rewrite [X in _ <= _ * X](eq_bigr (fun=> q / k%:R)) => [|i _]; last by rewrite ffunE.
by rewrite !prodr_const card_ord -bL exprMn mulrC ler_pmul2r // exprn_gt0.
Qed.
End Wrong.
