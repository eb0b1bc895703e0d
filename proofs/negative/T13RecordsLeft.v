(** Wrong: T13's bracket with n - G - 1 in the place of n - G, as if the changed record could not stay unread.
    fails with: not a valid ring equation *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions DataProcessing Arithmetic Tables ThreeOutcomes T5 T13.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Wrong.
Variable R : realFieldType.
Add Field field_R : (field_laws R).
Ltac ringR := to_field R; ring.
Ltac fieldR := to_field R; field; of_field.
Variables (C : finType) (n m : nat) (q : R).
Notation k := #|C|.
Hypotheses (q01 : 0 < q <= 1) (n0 : (0 < n)%N) (k2 : (1 < k)%N) (mn : (m <= n)%N).
Notation lambda := (k%:R * (1 - q) / q).
Definition bracket (t : R) (S T G : nat) : R :=
  lambda * (S%:R - t * T%:R) - (n%:R - G%:R - 1) * (t - 1).
  (* right:   lambda * (S%:R - t * T%:R) - (n%:R - G%:R) * (t - 1). *)
Theorem divergence t (x y : table C n) a : (forall r, r != a -> x r = y r) ->
  forall o, release q mn x o - t * release q mn y o =
    (\sum_w draws m (@reference R C q) w * bracket t (times (Some (x a)) w) (times (Some (y a)) w) (times None w)
             * common R mn x a w o) / n`!%:R.
Proof.
move=> xy o.
have sumx : release q mn x o = (\sum_w \sum_p weight q mn (x a) w p * common R mn x a w o) / n`!%:R.
  rewrite (release_sum q mn x a); congr (_ / _); apply: eq_bigr => w _; apply: eq_bigr => p _.
  exact: rest_common.
have sumy : release q mn y o = (\sum_w \sum_p weight q mn (y a) w p * common R mn x a w o) / n`!%:R.
  rewrite (release_sum q mn y a); congr (_ / _); apply: eq_bigr => w _; apply: eq_bigr => p _.
  rewrite -rest_common; case fr: (free mn w p); last by rewrite weight_not_free ?fr // !mul0r.
  by congr (_ * _); apply: eq_bigr => s /eqP sp; rewrite (shown_same R o xy fr sp).
rewrite sumx sumy mulrA -mulrBl mulr_sumr -sumrB; congr (_ / _); apply: eq_bigr => w _.
rewrite -!mulr_suml !weight_sum //.
rewrite /bracket; ringR.
Qed.
End Wrong.
