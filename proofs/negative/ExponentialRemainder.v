(** Wrong: what is left of the series after N terms bounded by its next term alone, not by twice it.
    fails with: does not match any subterm of the goal *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Exponential.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Wrong.
Variable R : realFieldType.
Definition above_by (x : R) N : R :=
  series x N + 1%:R * (x ^+ N.+1 / N.+1`!%:R).
  (* right:   series x N + 2%:R * (x ^+ N.+1 / N.+1`!%:R). *)
Lemma above_by_down x j : 0 <= x -> 2%:R * x <= j.+2%:R -> above_by x j.+1 <= above_by x j.
Proof.
move=> x0 hj; rewrite /above_by seriesS -addrA ler_add2l.
rewrite [X in _ <= X]mulr_natl mulr2n ler_add2l.
have f0 n : 0 < n`!%:R :> R by rewrite ltr0n fact_gt0.
rewrite [j.+2`!]factS natrM invfM exprS.
have -> : 2%:R * (x * x ^+ j.+1 * (j.+2%:R^-1 * j.+1`!%:R^-1)) = (2%:R * x / j.+2%:R) * (x ^+ j.+1 / j.+1`!%:R).
  by rewrite !mulrA -!mulrA [x ^+ _ * (_ * _)]mulrCA.
by apply: ler_pimull; [exact: term_ge0 | rewrite ler_pdivr_mulr ?ltr0n // mul1r].
Qed.
End Wrong.
