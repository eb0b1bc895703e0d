(** * Brackets of e^x, without axioms

  No real number is assumed. In any ordered field, t *is* e^x when it is the limit of the partial sums of
  1 + x + x^2/2! + ..., in the usual sense; the real number e^x is one such t. Proved: for x >= 0 and 2 x <= N + 2,

    S_N <= t <= S_N + 2 x^(N+1)/(N+1)!,   S_N = sum of x^k/k! for k <= N,

  and the same with both ends rounded outwards to multiples of 2^-64, which Coq computes.

  | here                | meaning                                                                                         |
  |---------------------|-------------------------------------------------------------------------------------------------|
  | series x N          | S_N                                                                                             |
  | exponential x t     | t = e^x: the limit of S_N                                                                       |
  | lower n d, upper n d| integers with lower / 2^64 <= e^(n/d) <= upper / 2^64                                           | *)
From mathcomp Require Import all_ssreflect all_algebra.
From Coq Require Import ZArith Lia.
From Discreet Require Import Definitions Arithmetic DataProcessing Urn T4 DirichletMultinomial ExactSum.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.
Delimit Scope nat_scope with N.

Section Series.
Variable R : realFieldType.
Implicit Types x t : R.
Definition series x (N : nat) : R := \sum_(k < N.+1) x ^+ k / k`!%:R.
Definition exponential x t : Prop :=
  forall e, 0 < e -> exists N, forall M, (N <= M)%N -> `|series x M - t| < e.

Lemma seriesS x N : series x N.+1 = series x N + x ^+ N.+1 / N.+1`!%:R.
Proof. by rewrite /series big_ord_recr. Qed.
Lemma term_ge0 x k : 0 <= x -> 0 <= x ^+ k / k`!%:R.
Proof. by move=> x0; rewrite divr_ge0 ?exprn_ge0 ?ler0n. Qed.
Lemma series_up x N M : 0 <= x -> (N <= M)%N -> series x N <= series x M.
Proof.
move=> x0 /subnKC <-; elim: (M - N)%N => [|k IH]; first by rewrite addn0.
by rewrite addnS seriesS; apply: le_trans IH _; rewrite ler_addl term_ge0.
Qed.
Definition above x N : R := series x N + 2%:R * (x ^+ N.+1 / N.+1`!%:R).
Lemma above_down x N M : 0 <= x -> 2%:R * x <= N.+2%:R -> (N <= M)%N -> above x M <= above x N.
Proof.
move=> x0 h /subnKC <-; elim: (M - N)%N => [|k IH]; first by rewrite addn0.
rewrite addnS; apply: le_trans IH; rewrite /above seriesS -addrA ler_add2l.
set j := (N + k)%N; have hj : 2%:R * x <= j.+2%:R by apply: le_trans h _; rewrite ler_nat !ltnS leq_addr.
rewrite [X in _ <= X]mulr_natl mulr2n ler_add2l.
have f0 n : 0 < n`!%:R :> R by rewrite ltr0n fact_gt0.
rewrite [j.+2`!]factS natrM invfM exprS.
have -> : 2%:R * (x * x ^+ j.+1 * (j.+2%:R^-1 * j.+1`!%:R^-1)) = (2%:R * x / j.+2%:R) * (x ^+ j.+1 / j.+1`!%:R).
  by rewrite !mulrA -!mulrA [x ^+ _ * (_ * _)]mulrCA.
by apply: ler_pimull; [exact: term_ge0 | rewrite ler_pdivr_mulr ?ltr0n // mul1r].
Qed.

Theorem exponential_bracket x t N : 0 <= x -> 2%:R * x <= N.+2%:R -> exponential x t ->
  series x N <= t /\ t <= above x N.
Proof.
move=> x0 h lim; split; rewrite leNgt; apply/negP => lt.
  have e0 : 0 < series x N - t by rewrite subr_gt0.
  have [K hK] := lim _ e0.
  have := hK (maxn K N) (leq_maxl _ _); rewrite ltNge => /negP; apply.
  apply: le_trans (ler_norm _); rewrite ler_add2r; exact: series_up (leq_maxr _ _).
have e0 : 0 < t - above x N by rewrite subr_gt0.
have [K hK] := lim _ e0.
have := hK (maxn K N) (leq_maxl _ _); rewrite ltNge => /negP; apply.
rewrite distrC; apply: le_trans (ler_norm _); rewrite ler_add2l ler_opp2.
apply: le_trans (above_down x0 h (leq_maxr K N)).
by rewrite /above ler_addl mulr_ge0 ?ler0n ?term_ge0.
Qed.
End Series.

(** ** The computation: [sums n d N] is (S_N, x^N/N!) for x = n/d, over the common denominator N! d^N. *)
Definition terms : nat := 40.
Definition scale : Z := (2 ^ 64)%Z.
Fixpoint sums (n d : Z) (N : nat) : Z * Z * Z :=
  if N is N'.+1 then
    let '(sum, power, den) := sums n d N' in
    let factor := (Z.of_nat N * d)%Z in (sum * factor + power * n, power * n, den * factor)%Z
  else (1, 1, 1)%Z.
Definition below_at (N : nat) (n d : Z) : Z := let '(sum, power, den) := sums n d N in (scale * sum / den)%Z.
Definition above_at (N : nat) (n d : Z) : Z :=
  let '(sum, power, den) := sums n d N.+1 in (scale * (sum + power) / den + 1)%Z.
Definition lower : Z -> Z -> Z := below_at terms.
Definition upper : Z -> Z -> Z := above_at terms.

Section Computed.
Variable R : realFieldType.
Add Field field_R : (field_laws R).
Notation z := (zr R).
Lemma sumsS n d N : sums n d N.+1 =
  let '(sum, power, den) := sums n d N in
  let factor := (Z.of_nat N.+1 * d)%Z in (sum * factor + power * n, power * n, den * factor)%Z.
Proof. by []. Qed.
Lemma sums_series n d N : (0 < d)%Z -> let '(sum, power, den) := sums n d N in
  [/\ (0 < den)%Z, z sum / z den = series (z n / z d) N & z power / z den = (z n / z d) ^+ N / N`!%:R].
Proof.
move=> d0; elim: N => [|N]; first by rewrite /= /series big_ord1 expr0 fact0 divr1.
rewrite sumsS; case: (sums n d N) => [[sum power] den] [den0 es ep].
set factor := (_ * d)%Z; have f0 : (0 < factor)%Z by rewrite /factor; lia.
have ef : z factor = N.+1%:R * z d by rewrite /factor zrM zr_nat.
clearbody factor.
have zf0 : z factor != 0 by rewrite lt0r_neq0 // zr_gt0.
have zd0 : z d != 0 by rewrite lt0r_neq0 // zr_gt0.
have zden0 : z den != 0 by rewrite lt0r_neq0 // zr_gt0.
have ep' : z (power * n)%Z / z (den * factor)%Z = (z n / z d) ^+ N.+1 / N.+1`!%:R.
  rewrite !zrM [(_ * z factor)^-1]invfM mulrACA ep ef factS natrM exprSr !invfM.
  move: ((z n / z d) ^+ N) ((N`!%:R : R)^-1) ((N.+1%:R : R)^-1) ((z d)^-1) (z n) => x f g i k; ring_in R.
split=> //; first by apply: Z.mul_pos_pos.
by rewrite zrD mulrDl ep' seriesS -es !zrM invfM mulrACA divff // mulr1.
Qed.

Lemma scale_gt0 : 0 < z scale. Proof. exact: zr_gt0. Qed.
Lemma below_at_most n d N : (0 < d)%Z -> z (below_at N n d) / z scale <= series (z n / z d) N.
Proof.
move=> d0; have := sums_series n N d0; rewrite /below_at; case: (sums n d N) => [[sum power] den] [den0 <- _].
rewrite ler_pdivr_mulr ?scale_gt0 // mulrAC ler_pdivl_mulr ?zr_gt0 // -!zrM; apply: zr_le.
by have := Z.mul_div_le (scale * sum) den den0; lia.
Qed.
Lemma above_at_least n d N : (0 < d)%Z -> above (z n / z d) N <= z (above_at N n d) / z scale.
Proof.
move=> d0; have -> : above (z n / z d) N = series (z n / z d) N.+1 + (z n / z d) ^+ N.+1 / N.+1`!%:R.
  by rewrite /above seriesS -addrA mulr_natl mulr2n.
have := sums_series n N.+1 d0; rewrite /above_at; case: (sums n d N.+1) => [[sum power] den] [den0 <- <-].
rewrite -mulrDl -zrD ler_pdivr_mulr ?zr_gt0 // mulrAC ler_pdivl_mulr ?scale_gt0 // -!zrM; apply: zr_le.
by have := Z.mul_succ_div_gt (scale * (sum + power)) den den0; lia.
Qed.

Theorem exponential_in_integers n d (t : R) : (0 <= n)%Z -> (0 < d)%Z -> (2 * n <= 42 * d)%Z ->
  exponential (z n / z d) t -> z (lower n d) / z scale <= t /\ t <= z (upper n d) / z scale.
Proof.
move=> n0 d0 nd lim; have zd0 := zr_gt0 R d0.
have x0 : 0 <= z n / z d by rewrite divr_ge0 ?(ltW zd0) // zr_ge0.
have x1 : 2%:R * (z n / z d) <= terms.+2%:R.
  by rewrite mulrA ler_pdivr_mulr // -[2%:R]/(z 2) -[terms.+2%:R]/(z 42) -!zrM; exact: zr_le.
have [h1 h2] := exponential_bracket x0 x1 lim.
by split; [apply: le_trans (below_at_most _ _ d0) h1 | apply: le_trans h2 (above_at_least _ _ d0)].
Qed.
End Computed.
