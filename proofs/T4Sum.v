(** * The one-dimensional formula (docs/theory/dirichlet-multinomial.md, with Lemma 6 of sampling-is-noise.md)

  In the page's words: "Let U = S_l + S_t. It is ancillary: U ~ BetaBin(m; a+b+1, R), and, with g_u = p_u - e^epsilon q_u,

    H(P||Q) = sum over u < m of Pr(U > u) w_u(s_u) min {(a+s_u)/(a+b+u) g_(u+1)(s_u+1), (b+u-s_u)/(a+b+u) |g_(u+1)(s_u)|},

  where s_u in {0, ..., u} is the integer with g_(u+1)(s_u) <= 0 < g_(u+1)(s_u+1), and a term without such an integer is
  zero." The sum over s below has this one term, or none (one_crossing).

  | here            | on the page                                                                                        |
  |-----------------|----------------------------------------------------------------------------------------------------|
  | T               | e^epsilon, at least 1                                                                              |
  | beta_binomial   | BetaBin(n; x, y)(s)                                                                                |
  | p, q, g         | p_u(s), q_u(s) and g_u(s) = p_u(s) - T q_u(s); w_u(s) is beta_binomial u a b s                     |
  | gain u s        | w_u(s) min {(a+s)/(a+b+u) g_(u+1)(s+1), (b+u-s)/(a+b+u) |g_(u+1)(s)|}                              |
  | in_cells m u    | Pr(U = u), BetaBin(m; a+b+1, R)(u)                                                                 |
  | crossing u s    | g_(u+1)(s) <= 0 < g_(u+1)(s+1)                                                                     |
  | delta u         | delta_u, the divergence after u draws in the two cells                                             |
  | beyond m u      | Pr(U > u)                                                                                          | *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions Arithmetic DataProcessing Urn T4 DirichletMultinomial.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section T4Sum.
Variable R : realFieldType.
Add Field field_R : (field_laws R).
Variables (a b rest T : R).
Hypotheses (a0 : 0 < a) (b0 : 0 < b) (rest0 : 0 <= rest) (T1 : 1 <= T).

Definition beta_binomial (n : nat) (x y : R) (s : nat) : R :=
  'C(n, s)%:R * rise 1 x s * rise 1 y (n - s) / rise 1 (x + y) n.
Definition p (u s : nat) : R := (a + s%:R) * (a + b) / (a * (a + b + u%:R)).
Definition q (u s : nat) : R := (b + (u - s)%:R) * (a + b) / (b * (a + b + u%:R)).
Definition g (u s : nat) : R := p u s - T * q u s.
Definition crossing (u s : nat) : bool := (g u.+1 s <= 0) && (0 < g u.+1 s.+1).
Definition gain (u s : nat) : R :=
  beta_binomial u a b s
  * Num.min ((a + s%:R) / (a + b + u%:R) * g u.+1 s.+1) ((b + (u - s)%:R) / (a + b + u%:R) * `|g u.+1 s|).
Definition delta (u : nat) : R := \sum_(s < u.+1) beta_binomial u a b s * pos (g u s).
Definition in_cells (m u : nat) : R := beta_binomial m (a + b + 1) rest u.
Definition beyond (m u : nat) : R := \sum_(v < m.+1 | (u < v)%N) in_cells m v.

Let one0 : 0 < 1 :> R.
Proof. exact: ltr01. Qed.
Let T0 : 0 <= T. Proof. exact: le_trans ler01 T1. Qed.
Let total0 u : 0 < a + b + u%:R.
Proof. by rewrite ltr_paddr ?ler0n // addr_gt0. Qed.
Let rise0' (x : R) n : 0 < x -> rise 1 x n != 0.
Proof. by move=> x0; rewrite lt0r_neq0 // rise_gt0 ?ler01. Qed.

(** In terms of the unnormalised difference of DirichletMultinomial.v. *)
Lemma g_loss u s : g u s = (a + b) / (a * b * (a + b + u%:R)) * loss 1 a b T 1 u s.
Proof.
rewrite /g /p /q /loss !mulr1 mul1r !invfM.
have ea : a * a^-1 = 1 by rewrite divff // lt0r_neq0.
have eb : b * b^-1 = 1 by rewrite divff // lt0r_neq0.
move: ea eb; move: (a^-1) (b^-1) ((a + b + u%:R)^-1) (s%:R : R) ((u - s)%:R : R) => ai bi ti s' t' ea eb.
transitivity ((a + b) * ti * (ai * (b * bi) * (a + s') - T * (bi * (a * ai) * (b + t')))); last by ring_in R.
by rewrite ea eb; ring_in R.
Qed.
Let factor0 u : 0 < (a + b) / (a * b * (a + b + u%:R)).
Proof. by apply: divr_gt0; [exact: addr_gt0 | rewrite !mulr_gt0 ?total0]. Qed.
Lemma g_sign u s : (g u s <= 0) = (loss 1 a b T 1 u s <= 0).
Proof. by rewrite g_loss pmulr_rle0. Qed.
Lemma g_sign' u s : (0 < g u s) = (0 < loss 1 a b T 1 u s).
Proof. by rewrite g_loss pmulr_rgt0. Qed.
Lemma base_beta u s : 'C(u, s)%:R * base 1 a b u s = beta_binomial u a b s * rise 1 (a + b) u.
Proof. by rewrite /beta_binomial divfK ?rise0' ?addr_gt0 // /base mulrA. Qed.
Lemma rise_both u : (a + b) * rise 1 (a + b + 1) u = rise 1 (a + b) u * (a + b + u%:R).
Proof. by rewrite -riseSl riseS mulr1. Qed.

Let base0 u s : 0 <= base 1 a b u s.
Proof. exact: (base_ge0 one0 a0 b0). Qed.
Let up u s s' : (s <= s')%N -> loss 1 a b T 1 u s <= loss 1 a b T 1 u s'.
Proof. exact: (loss_up one0 a0 b0 T0 (ltW one0)). Qed.
Let down u s : loss 1 a b T 1 u s <= 0 -> gap 1 a b T 1 u s <= 0.
Proof. exact: (gap_le0 one0 a0 b0). Qed.
Let high u s : 0 <= loss 1 a b T 1 u s -> 0 <= gap 1 a b T 1 u s.
Proof. exact: (gap_ge0 one0 a0 b0). Qed.

(** delta_u from the recursion. *)
Lemma delta_conditional u : conditional 1 a b T 1 u = a * b * rise 1 (a + b + 1) u * delta u.
Proof.
rewrite /conditional /row /delta mulr_sumr; apply: eq_bigr => s _.
rewrite /gap posM //. rewrite [LHS]mulrA base_beta.
have -> : loss 1 a b T 1 u s = a * b * (a + b + u%:R) / (a + b) * g u s.
  rewrite g_loss [RHS]mulrA -[LHS]mul1r; congr (_ * _).
  have ab0 : 0 < a + b by exact: addr_gt0.
  by rewrite mulrA divfK ?divff ?lt0r_neq0 // !mulr_gt0.
rewrite posM; last by apply/ltW/divr_gt0; [rewrite !mulr_gt0 ?total0 | exact: addr_gt0].
have eb : (a + b) * (a + b)^-1 = 1 by rewrite divff // lt0r_neq0 // addr_gt0.
have := rise_both u; move: (rise 1 (a + b) u) (rise 1 (a + b + 1) u) (beta_binomial u a b s) (pos _) (a + b + u%:R).
move: eb; move: ((a + b)^-1) => i ei x y w v t e.
transitivity (w * v * a * b * i * (x * t)); first by ring_in R.
by rewrite -e; transitivity (a * b * y * (w * v) * ((a + b) * i)); [ring_in R | rewrite ei mulr1].
Qed.

(** At most one integer crosses. *)
Theorem one_crossing u s s' : crossing u s -> crossing u s' -> s = s'.
Proof.
have no k k' : (k < k')%N -> crossing u k -> crossing u k' -> False.
  move=> lt /andP[_ h1] /andP[h2 _]; move: h1 h2; rewrite g_sign' g_sign => h1 h2.
  by have := lt_le_trans h1 (up u.+1 lt); rewrite ltNge h2.
by move=> c c'; case: (ltngtP s s') => // lt; [case: (no _ _ lt c c') | case: (no _ _ lt c' c)].
Qed.

(** What one more draw in the two cells adds. *)
Theorem increment u : delta u.+1 - delta u = \sum_(s < u.+1 | crossing u s) gain u s.
Proof.
have unit0 : a * b * rise 1 (a + b + 1) u.+1 != 0 by rewrite !mulf_neq0 ?rise0' ?lt0r_neq0 ?addr_gt0 ?ltr01.
apply: (mulfI unit0); rewrite mulrBr -delta_conditional.
have -> : a * b * rise 1 (a + b + 1) u.+1 * delta u = (a + b + 1 + u%:R * 1) * conditional 1 a b T 1 u.
  by rewrite delta_conditional riseS; ring_in R.
rewrite /conditional rowS -rowM /row -sumrB mulr_sumr [RHS]big_mkcond /=; apply: eq_bigr => s _.
have su : (s <= u)%N by rewrite -ltnS.
have k0 : 0 <= a + b + 1 + u%:R * 1 by rewrite mulr1 !addr_ge0 ?ler0n ?ler01 // ltW.
rewrite -mulrBr -(posM _ k0) -martingale //.
set x := gap _ _ _ _ _ _ s; set y := gap _ _ _ _ _ _ s.+1.
have le := up u.+1 (leqnSn s).
case: ifP => [/andP[]|].
  rewrite g_sign g_sign' => l0 l1.
  rewrite pos_crossing ?down // [pos (x + y) + _]addrC addrK pos_id ?high 1?ltW //.
  have -> : x = base 1 a b u s * ((b + (u - s)%:R) * loss 1 a b T 1 u.+1 s).
    by rewrite /x /gap /base subSn // riseS mulr1; ring_in R.
  have -> : y = base 1 a b u s * ((a + s%:R) * loss 1 a b T 1 u.+1 s.+1).
    by rewrite /y /gap /base subSS riseS mulr1; ring_in R.
  rewrite -mulrN -minr_pmulr // mulrA base_beta.
  rewrite /gain ler0_norm ?g_sign // !g_loss.
  set c := (a + b) / _; set t := a + b + u%:R.
  have c0 : 0 <= c / t by rewrite divr_ge0 ?ltW ?total0 //; exact: factor0.
  have -> : (a + s%:R) / t * (c * loss 1 a b T 1 u.+1 s.+1) = c / t * ((a + s%:R) * loss 1 a b T 1 u.+1 s.+1).
    by move: (t^-1) (loss _ _ _ _ _ _ s.+1) => ? ?; ring_in R.
  have -> : (b + (u - s)%:R) / t * - (c * loss 1 a b T 1 u.+1 s) = c / t * - ((b + (u - s)%:R) * loss 1 a b T 1 u.+1 s).
    by move: (t^-1) (loss _ _ _ _ _ _ s) => ? ?; ring_in R.
  rewrite -minr_pmulr // minC; set least := Num.min _ _.
  suff -> : beta_binomial u a b s * rise 1 (a + b) u
      = a * b * rise 1 (a + b + 1) u.+1 * (beta_binomial u a b s * (c / t)) by rewrite -!mulrA.
  have tt : a + b + u.+1%:R = t + 1 by rewrite /t mulrSr addrA.
  have e2 : (a + b) * rise 1 (a + b + 1) u.+1 = rise 1 (a + b) u * t * (t + 1).
    by rewrite rise_both riseS mulr1 tt.
  have et : t * t^-1 = 1 by rewrite divff // lt0r_neq0 // total0.
  have en : a * b * (t + 1) * (a * b * (t + 1))^-1 = 1 by rewrite -tt divff // lt0r_neq0 // !mulr_gt0.
  rewrite /c tt; move: e2 et en; move: (rise 1 (a + b + 1) u.+1) (rise 1 (a + b) u) (beta_binomial u a b s) => r1 r0 w.
  move: (t^-1) ((a * b * (t + 1))^-1) => ti ni e2 et en.
  transitivity (w * ni * a * b * ti * ((a + b) * r1)); last by ring_in R.
  rewrite e2; transitivity (w * r0 * (t * ti) * (a * b * (t + 1) * ni)); last by ring_in R.
  by rewrite et en !mulr1.
move=> no; rewrite -[RHS](mulr0 'C(u, s)%:R); congr (_ * _); apply/eqP; rewrite subr_eq0; apply/eqP.
move: no; rewrite /crossing g_sign g_sign'; case: (lerP (loss 1 a b T 1 u.+1 s) 0) => /= [l0 /negbT|l0 _].
  rewrite -leNgt => l1; rewrite !pos_0 ?addr0 ?down //.
  by rewrite -[0]addr0 ler_add ?down.
have l1 := le_trans (ltW l0) le.
by rewrite !pos_id ?addr_ge0 ?high // ltW.
Qed.

(** U is ancillary, and the divergence is the mean of delta_U. *)
Theorem mean_over_cells m : pair3 a b rest m T = \sum_(u < m.+1) in_cells m u * delta u.
Proof.
have A0 : 0 < a + b + 1 + rest by rewrite ltr_paddr // !addr_gt0 ?ltr01.
have unit0 : a * b * rise 1 (a + b + 1 + rest) m != 0 by rewrite !mulf_neq0 ?rise0' ?lt0r_neq0.
apply: (mulfI unit0); have := divergence_from_recursion T m one0 a0 b0 rest0 one0.
rewrite !mul1r divr1 => ->; rewrite /row mulr_sumr; apply: eq_bigr => u _.
rewrite delta_conditional /in_cells /beta_binomial.
have e : rise 1 (a + b + 1 + rest) m * (rise 1 (a + b + 1 + rest) m)^-1 = 1 by rewrite divff // rise0'.
move: e; move: (rise 1 (a + b + 1 + rest) m) (_^-1) (rise 1 rest (m - u)) (rise 1 (a + b + 1) u) (delta u) => x i y z w e.
transitivity ('C(m, u)%:R * (y * (a * b * z * w)) * (x * i)); first by rewrite e mulr1.
by move: ('C(m, u)%:R : R) => n; ring_in R.
Qed.

(** The one-dimensional formula. *)
Theorem one_dimensional_formula m :
  pair3 a b rest m T = \sum_(u < m) beyond m u * \sum_(s < u.+1 | crossing u s) gain u s.
Proof.
rewrite mean_over_cells.
have d0 : delta 0 = 0.
  rewrite /delta big_ord1 pos_0 ?mulr0 // g_sign /loss !mul0r !addr0 !mul1r mulrC -[X in _ - X]mulrA.
  by rewrite subr_le0 ler_pemull // mulr_ge0 // ltW.
have step (v : 'I_m.+1) : in_cells m v * delta v
    = \sum_(u < m) (if (u < v)%N then in_cells m v * (delta u.+1 - delta u) else 0).
  rewrite -big_mkcond -mulr_sumr; congr (_ * _) => /=.
  have vm : (v <= m)%N by rewrite -ltnS.
  rewrite -(big_mkord (fun u => u < v)%N (fun u => delta u.+1 - delta u)) (big_cat_nat _ _ _ (leq0n v) vm) /=.
  rewrite [X in _ + X]big_nat_cond [X in _ + X]big1 ?addr0 => [|u /andP[/andP[h _] h']]; last first.
    by move: h'; rewrite ltnNge h.
  rewrite big_nat_cond (eq_bigl (fun u => (0 <= u < v)%N)) => [|u]; last by case: (u < v)%N; rewrite ?andbF.
  by rewrite -big_nat telescope_sumr // d0 subr0.
rewrite (eq_bigr _ (fun v _ => step v)) exchange_big /=; apply: eq_bigr => u _.
by rewrite -increment /beyond mulr_suml [RHS]big_mkcond.
Qed.

(** Vandermonde's sum of rising factorials: beta-binomial probabilities add up to one. *)
Lemma rise_sum (x y : R) m : row m (fun u => rise 1 x u * rise 1 y (m - u)) = rise 1 (x + y) m.
Proof.
elim: m => [|m IH]; first by rewrite row0 !rise0 mulr1.
rewrite rowS riseS -IH mulrC -rowM; apply: eq_row => u um.
rewrite subSn // subSS !riseS -[in m%:R](subnKC um) natrD.
by move: (m - u)%N%:R (u%:R : R) (rise 1 x u) (rise 1 y _) => v w c e; ring_in R.
Qed.
Theorem number_in_cells_is_law m : \sum_(u < m.+1) in_cells m u = 1.
Proof.
have A0 : 0 < a + b + 1 + rest by rewrite ltr_paddr // !addr_gt0.
apply: (mulIf (rise0' m A0)); rewrite mul1r /in_cells /beta_binomial.
rewrite -[RHS]rise_sum /row mulr_suml; apply: eq_bigr => u _; by rewrite divfK ?rise0' // mulrA.
Qed.

(** U is ancillary: whichever of the two cells holds the record, the number drawn in both has the law [in_cells]. *)
Theorem number_in_cells_is_ancillary m (w : option bool -> R) (u : nat) : (u <= m)%N ->
  0 < w (Some true) -> 0 < w (Some false) -> w None = rest -> w (Some true) + w (Some false) = a + b + 1 ->
  \sum_(o : Seq [finType of option bool] m | (drawn (Some true) o + drawn (Some false) o == u)%N) urn w o = in_cells m u.
Proof.
move=> um x0 y0 wr sum2; set x := w (Some true); set y := w (Some false).
pose F s t := if (s + t == u)%N then rise 1 x s * rise 1 y t * rise 1 rest (m - (s + t)) / rise 1 (x + y + rest) m else 0.
rewrite big_mkcond /=; transitivity (\sum_(o : Seq [finType of option bool] m) F (drawn (Some true) o) (drawn (Some false) o)).
  apply: eq_bigr => o _; rewrite /F; case: ifP => // _.
  rewrite -(urn3 o x0 y0 rest0); apply: urn_ext => -[[]|] //.
rewrite (sum_three_cells m F).
have -> : row m (fun v => row v (fun s => F s (v - s)%N)) = 'C(m, u)%:R * row u (fun s => F s (u - s)%N).
  rewrite {1}/row (bigD1 (Ordinal (um : u < m.+1)%N)) //= big1 ?addr0 // => v ne.
  rewrite /row big1 ?mulr0 // => s _; rewrite /F subnKC ?leq_ord //.
  by case: eqP => [e|]; rewrite ?mulr0 //; case/eqP: ne; apply: val_inj.
rewrite /in_cells /beta_binomial -sum2 -/x -/y -[rise 1 (x + y) u]rise_sum.
rewrite [in RHS]mulrAC -[RHS]mulrA -[in RHS]mulrA; congr (_ * _).
rewrite mulrC -rowM; apply: eq_row => s su; rewrite /F subnKC // eqxx.
by rewrite [RHS]mulrC [_^-1 * _]mulrC mulrA.
Qed.
End T4Sum.
