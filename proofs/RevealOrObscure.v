(** * Reveal-or-Obscure: its closed forms
  docs/theory/reveal-or-obscure.md. Its guarantee is T5 ([T5_one_draw], [T5_pure]).

  *Averaged over tables of independent records of a population P, a draw has the law Q = (1 - q)P + q/k.*
  *d_TV(Q, P) = q d_TV(1/k, P) <= alpha = q (1 - 1/k), with equality for a population on one cell.*
  *With q = k alpha/(k - 1), n = (k(1 - alpha) - 1)/(alpha (e^epsilon - 1)) records give accuracy alpha < 1 - 1/k at
  epsilon.*

  - [output_law], [accuracy], [accuracy_bound], [accuracy_attained], [sample_complexity].

  | here               | on the page                                                             |
  |--------------------|-------------------------------------------------------------------------|
  | draws n P          | the law of a table of n independent records of P                        |
  | cell q x           | the law of one draw from the table x                                    |
  | uniform            | 1/k                                                                     |
  | drawn P            | Q                                                                       |
  | H 1 P Q            | d_TV(P, Q)                                                              |
  | E                  | e^epsilon                                                               | *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions DataProcessing Arithmetic Tables ThreeOutcomes T5.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section RevealOrObscure.
Variable R : realFieldType.
Add Field field_R : (field_laws R).
Ltac ringR := to_field R; ring.
Ltac fieldR := to_field R; field; of_field.
Variables (C : finType) (n : nat) (q : R) (P : C -> R).
Notation k := #|C|.
Hypotheses (q01 : 0 <= q <= 1) (n0 : (0 < n)%N) (k2 : (1 < k)%N) (lP : law P).
Definition uniform : C -> R := fun _ => k%:R^-1.
Definition drawn : C -> R := fun c => (1 - q) * P c + q / k%:R.

Lemma marginal i c : \sum_(x : table C n) draws n P x * (x i == c)%:R = P c.
Proof.
have e (x : table C n) : draws n P x * (x i == c)%:R = \prod_j (P (x j) * (if j == i then (x j == c)%:R else 1)).
  by rewrite big_split /= /draws; congr (_ * _); rewrite -big_mkcond /= big_pred1_eq.
rewrite (eq_bigr _ (fun x _ => e x)) -(bigA_distr_bigA (fun j a => P a * (if j == i then (a == c)%:R else 1))) /=.
rewrite (bigD1 i) //= [X in _ * X]big1 ?mulr1 => [|j /negbTE ji].
  rewrite (bigD1 c) //= !eqxx mulr1 big1 ?addr0 // => a /negbTE ->; by rewrite mulr0.
by rewrite (eq_bigr P) => [|a _]; [case: lP | rewrite ji mulr1].
Qed.
Theorem output_law c : \sum_(x : table C n) draws n P x * cell q x c = drawn c.
Proof.
have all : \sum_(x : table C n) draws n P x = 1.
  rewrite -(bigA_distr_bigA (fun=> P)) /= big1 // => i _; by case: lP.
rewrite /cell (eq_bigr (fun x => q / k%:R * draws n P x + (1 - q) / n%:R * \sum_i (draws n P x * (x i == c)%:R))); last first.
  by move=> x _; rewrite /count_in natr_sum -mulr_sumr; ringR.
rewrite big_split /= -!mulr_sumr all exchange_big /= (eq_bigr (fun=> P c)) => [|i _]; last exact: marginal.
rewrite sumr_const card_ord -[P c *+ n]mulr_natr /drawn mulr1 addrC; congr (_ + _).
by rewrite [P c * _]mulrC mulrA divfK // pnatr_eq0 -lt0n.
Qed.

Theorem accuracy : H 1 drawn P = q * H 1 uniform P.
Proof.
rewrite /H mulr_sumr; apply: eq_bigr => c _; rewrite -posM; last by case/andP: q01.
by congr pos; rewrite /drawn /uniform; ringR.
Qed.
Theorem accuracy_bound : H 1 drawn P <= q * (1 - k%:R^-1).
Proof.
have k0 : 0 < k%:R :> R by rewrite ltr0n ltnW.
have P01 c : 0 <= P c <= 1.
  by case: lP => p0 <-; rewrite p0 (bigD1 c) //= ler_addl sumr_ge0.
rewrite accuracy; apply: ler_left; first by case/andP: q01.
apply: (@le_trans _ _ (\sum_c (k%:R^-1 - k%:R^-1 * P c))).
  apply: ler_sum => c _; have /andP[p0 p1] := P01 c; apply: pos_le; rewrite /uniform.
    rewrite mul1r ler_add2l ler_opp2 -[X in _ <= X]mul1r; apply: ler_right => //.
    by rewrite invf_le1 // ler1n ltnW.
  by rewrite subr_ge0 -[X in _ <= X]mulr1; apply: ler_left; rewrite // invr_ge0 ltW.
by rewrite sumrB sumr_const -mulr_sumr -[X in X - _]mulr_natr mulVf ?lt0r_neq0 //; case: lP => _ ->; rewrite mulr1.
Qed.
Theorem accuracy_attained c : (forall a, P a = (a == c)%:R) -> H 1 drawn P = q * (1 - k%:R^-1).
Proof.
have k0 : 0 < k%:R :> R by rewrite ltr0n ltnW.
move=> pc; rewrite accuracy; congr (_ * _); rewrite /H (bigD1 c) //= pc eqxx pos_0 ?add0r; last first.
  by rewrite mul1r subr_le0 invf_le1 // ler1n ltnW.
rewrite (eq_bigr (fun=> k%:R^-1)) => [|a /negbTE ac]; last by rewrite pc ac mulr0 subr0 pos_id // invr_ge0 ltW.
have kp : (k.-1)%:R = k%:R - 1 :> R by rewrite -[in RHS](prednK (ltnW k2)) natS addrK.
by rewrite sumr_const cardC1 -[LHS]mulr_natr kp mulrBr mulr1 mulVf // lt0r_neq0.
Qed.

Theorem sample_complexity (alpha E : R) : 0 < alpha -> 1 < E -> q = k%:R * alpha / (k%:R - 1) ->
  bounds (@neighbours C n 1) (@release R C n q 1) E 0 <-> (k%:R * (1 - alpha) - 1) / (alpha * (E - 1)) <= n%:R.
Proof.
move=> a0 E1 qE; have km : 0 < k%:R - 1 :> R by rewrite subr_gt0 ltr1n.
have k0 : 0 < k%:R :> R by rewrite ltr0n ltnW.
have q0 : 0 < q by rewrite qE divr_gt0 // mulr_gt0.
have np : 0 < n%:R :> R by rewrite ltr0n.
have E0 : 0 < E - 1 by rewrite subr_gt0.
have -> : ((k%:R * (1 - alpha) - 1) / (alpha * (E - 1)) <= n%:R) = ((1 + (1 - q) * k%:R / (n%:R * q)) ^+ 1 <= E).
  rewrite expr1 -ler_subr_addl !ler_pdivr_mulr ?mulr_gt0 //.
  rewrite -(ler_pmul2l (divr_gt0 k0 km)) -subr_ge0 -[RHS]subr_ge0; congr (0 <= _).
  by rewrite qE; fieldR; apply/eqP; rewrite lt0r_neq0.
exact: T5_pure.
Qed.
End RevealOrObscure.
