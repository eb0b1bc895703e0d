(** * T5: the one-dimensional formula
  docs/theory/smoothed-histogram.md, with Lemma 6 of sampling-is-noise.md.

  *Let U = S_l + S_t, Binomial(m, 2b + gs). Given U = u the release is u-fold randomised response: each of the u draws is l
  with probability r = (b + gs)/(2b + gs) under P and 1 - r under Q. With p_u(i) = (2r)^i (2 - 2r)^(u - i),
  q_u(i) = (2 - 2r)^i (2r)^(u - i) and g_u = p_u - e^epsilon q_u,
  delta_g(epsilon) = sum over u < m of Pr(U > u) binom(u, i_u) 2^(-u-1) min(g_(u+1)(i_u + 1), |g_(u+1)(i_u)|),
  where i_u in {0, ..., u} is the integer with g_(u+1)(i_u) <= 0 < g_(u+1)(i_u + 1), and a term without such an integer
  is zero.*

  - [T5_series]: the formula, for the divergence that [T5_exact] shows to be the profile. The sum over i in [gain] has the
    one term i_u, or none: [T5_one_crossing].
  - [T5_counts]: the same divergence as a sum over the counts of the first two outcomes, from which it follows.

  | here          | on the page                                                         |
  |---------------|---------------------------------------------------------------------|
  | b, s, t       | b, gs, e^epsilon; b > 0, t >= 1                                     |
  | row u F       | the sum over i <= u of binom(u, i) F(i)                             |
  | g u i         | g_u(i)                                                              |
  | binomial m u  | Pr(U = u)                                                           |
  | beyond m u    | Pr(U > u)                                                           |
  | crossing u i  | i is i_u                                                            |
  | gain u        | the rest of the term of u                                           | *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require DirichletMultinomial.
From Discreet Require Import Definitions DataProcessing Arithmetic Tables ThreeOutcomes.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.
Notation row := DirichletMultinomial.row.

(** From draws in their order to counts. *)
Section Counts.
Variable R : realFieldType.
Definition first_then (T : finType) m (c : T) (o : {ffun 'I_m -> T}) : {ffun 'I_m.+1 -> T} :=
  [ffun i => if unlift ord0 i is Some j then o j else c].
Lemma sum_first (T : finType) m (G : {ffun 'I_m.+1 -> T} -> R) : \sum_o G o = \sum_c \sum_o G (first_then c o).
Proof.
rewrite pair_bigA /= (reindex (fun co : T * {ffun 'I_m -> T} => first_then co.1 co.2)) //=.
exists (fun o : {ffun 'I_m.+1 -> T} => (o ord0, [ffun i => o (lift ord0 i)])) => [[c o] _|o _] /=.
  by congr (_, _); [rewrite ffunE unlift_none | apply/ffunP => i; rewrite !ffunE liftK].
by apply/ffunP => i; rewrite ffunE; case: unliftP => [j ->|->]; rewrite ?ffunE.
Qed.
Lemma times_first (T : finType) m (c z : T) (o : {ffun 'I_m -> T}) : times z (first_then c o) = ((c == z) + times z o)%N.
Proof.
rewrite /times big_ord_recl ffunE unlift_none; congr (_ + _)%N.
by apply: eq_bigr => i _; rewrite ffunE liftK.
Qed.
Lemma sum_counts m (F : nat -> nat -> R) :
  \sum_(o : {ffun 'I_m -> option bool}) F (times (Some true) o) (times (Some false) o) = row m (fun u => row u (fun i => F i (u - i)%N)).
Proof.
elim: m F => [|m IH] F.
  rewrite !DirichletMultinomial.row0 (big_pred1 [ffun i : 'I_0 => None]).
    by rewrite /times !big_ord0.
  by move=> o; apply/esym/eqP/ffunP => -[].
rewrite sum_first sum3.
have e (c : option bool) : \sum_(o : {ffun 'I_m -> option bool}) F (times (Some true) (first_then c o)) (times (Some false) (first_then c o)) =
    \sum_(o : {ffun 'I_m -> option bool}) F ((c == Some true) + times (Some true) o)%N ((c == Some false) + times (Some false) o)%N.
  by apply: eq_bigr => o _; rewrite !times_first.
rewrite !e /= (IH (fun i j => F i.+1 j)) (IH (fun i j => F i j.+1)) (IH F) DirichletMultinomial.rowS.
rewrite !DirichletMultinomial.rowD addrC; congr (_ + _); rewrite -DirichletMultinomial.rowD.
apply: DirichletMultinomial.eq_row => u _; rewrite DirichletMultinomial.rowS -DirichletMultinomial.rowD.
by apply: DirichletMultinomial.eq_row => i iu; rewrite subSS subSn // addrC.
Qed.
End Counts.

Section T5Sum.
Variable R : realFieldType.
Add Field field_R : (field_laws R).
Ltac ringR := to_field R; ring.
Ltac fieldR := to_field R; field; of_field.
Variables (b s t : R).
Hypotheses (b0 : 0 < b) (s0 : 0 <= s) (r0 : 0 <= 1 - b - b - s) (t1 : 1 <= t).
Notation x := (b + s).
Notation z := (1 - b - b - s).
Definition r : R := (b + s) / (b + b + s).
Definition g (u i : nat) : R :=
  (2%:R * r) ^+ i * (2%:R - 2%:R * r) ^+ (u - i) - t * ((2%:R - 2%:R * r) ^+ i * (2%:R * r) ^+ (u - i)).
Definition crossing (u i : nat) : bool := (g u.+1 i <= 0) && (0 < g u.+1 i.+1).
Definition binomial (m u : nat) : R := 'C(m, u)%:R * (b + b + s) ^+ u * z ^+ (m - u).
Definition beyond (m u : nat) : R := \sum_(v < m.+1 | (u < v)%N) binomial m v.
Definition gain (u : nat) : R :=
  \sum_(i < u.+1 | crossing u i) 'C(u, i)%:R / 2%:R ^+ u.+1 * Num.min (g u.+1 i.+1) `|g u.+1 i|.

Definition G (u i : nat) : R := x ^+ i * b ^+ (u - i) - t * (b ^+ i * x ^+ (u - i)).
Lemma x0 : 0 < x. Proof. by rewrite ltr_paddr. Qed.
Lemma w0 : 0 < b + b + s. Proof. by rewrite -addrA ltr_paddl ?ltW ?x0. Qed.

Lemma draws_counts m (y y' y'' : R) (o : {ffun 'I_m -> option bool}) :
  draws m (fun c => match c with Some true => y | Some false => y' | None => y'' end) o =
  y ^+ times (Some true) o * y' ^+ times (Some false) o * y'' ^+ (m - (times (Some true) o + times (Some false) o)).
Proof.
have all : (times (Some true) o + times (Some false) o + times None o = m)%N.
  rewrite /times -!big_split -[RHS]card_ord -sum1_card; apply: eq_bigr => i _; by case: (o i) => [[]|].
have -> : (m - (times (Some true) o + times (Some false) o))%N = times None o by rewrite -[X in (X - _)%N]all addKn.
rewrite /draws /times -!prodrXr -!big_split; apply: eq_bigr => i _ /=.
by case: (o i) => [[]|]; rewrite /= ?expr0 ?expr1 ?mulr1 ?mul1r.
Qed.

(** In their words: the divergence is the mean over U of that of U-fold randomised response. *)
Theorem T5_counts m : H t (draws m (P3 b s)) (draws m (Q3 b s)) =
  row m (fun u => z ^+ (m - u) * row u (fun i => pos (G u i))).
Proof.
pose F i j := z ^+ (m - (i + j)) * pos (x ^+ i * b ^+ j - t * (b ^+ i * x ^+ j)).
transitivity (\sum_(o : {ffun 'I_m -> option bool}) F (times (Some true) o) (times (Some false) o)).
  apply: eq_bigr => o _; rewrite (draws_counts x b z) (draws_counts b x z) /F -posM ?exprn_ge0 //; congr pos; ringR.
rewrite sum_counts; apply: DirichletMultinomial.eq_row => u um; rewrite -DirichletMultinomial.rowM.
by apply: DirichletMultinomial.eq_row => i iu; rewrite /F subnKC.
Qed.

(* the martingale, and its one change of sign *)
Lemma G_up u i : (i < u)%N -> G u i <= G u i.+1.
Proof.
move=> iu; have xb : b <= x by rewrite ler_addl.
have bi := ltW b0; have xi := ltW x0; have e : (u - i)%N = (u - i.+1).+1 by rewrite subnSK.
rewrite /G e !exprS; apply: ler_sub.
  by rewrite mulrCA -[X in _ <= X]mulrA; apply: ler_right; rewrite ?mulr_ge0 ?exprn_ge0.
apply: ler_left; first exact: le_trans ler01 t1.
by rewrite [X in _ <= X]mulrCA -mulrA; apply: ler_right; rewrite ?mulr_ge0 ?exprn_ge0.
Qed.
Lemma G_sum u i : (i <= u)%N -> G u.+1 i + G u.+1 i.+1 = (b + b + s) * G u i.
Proof. by move=> iu; rewrite /G subSS subSn // !exprS; ringR. Qed.

Lemma g_G u i : (i <= u)%N -> g u i = 2%:R ^+ u / (b + b + s) ^+ u * G u i.
Proof.
move=> iu; have w := lt0r_neq0 w0.
have e1 : 2%:R * r = 2%:R / (b + b + s) * x by rewrite /r; ringR.
have e2 : 2%:R - 2%:R * r = 2%:R / (b + b + s) * b by rewrite /r; fieldR; apply/eqP.
rewrite /g e2 e1 -expr_div_n; move: (2%:R / (b + b + s)) => v.
have -> : v ^+ u = v ^+ i * v ^+ (u - i) by rewrite -exprD subnKC.
by rewrite /G !exprMn; ringR.
Qed.
Lemma scale_gt0 u : 0 < 2%:R ^+ u / (b + b + s) ^+ u. Proof. by rewrite divr_gt0 // exprn_gt0 ?w0 ?ltr0n. Qed.
Lemma g_up u i : (i < u)%N -> g u i <= g u i.+1.
Proof. by move=> iu; rewrite !g_G ?(ltnW iu) // ler_pmul2l ?scale_gt0 //; exact: G_up. Qed.
Lemma g_sum u i : (i <= u)%N -> g u.+1 i + g u.+1 i.+1 = 2%:R * g u i.
Proof.
move=> iu; have w := lt0r_neq0 w0; rewrite (g_G (leqW iu)) (g_G (iu : (i.+1 <= u.+1)%N)) (g_G iu) -mulrDr G_sum // !exprS invfM.
have c : (b + b + s)^-1 * (b + b + s) = 1 by rewrite mulVf.
transitivity (2%:R * 2%:R ^+ u * ((b + b + s) ^+ u)^-1 * ((b + b + s)^-1 * (b + b + s)) * G u i); first by ringR.
by rewrite c; ringR.
Qed.

(** A term without a change of sign is zero; there is one at most. *)
Theorem T5_one_crossing u i j : (i <= u)%N -> (j <= u)%N -> crossing u i -> crossing u j -> i = j.
Proof.
have up a c : (a <= c)%N -> (c <= u.+1)%N -> g u.+1 a <= g u.+1 c.
  move=> ac; rewrite -(subnKC ac); elim: (c - a)%N => [|h IH] cu; first by rewrite addn0.
  by rewrite addnS in cu *; apply: le_trans (IH (ltnW cu)) (g_up cu).
move=> iu ju /andP[i1 i2] /andP[j1 j2]; case: (ltngtP i j) => // h.
  by have := lt_le_trans i2 (le_trans (up _ _ h (leqW ju)) j1); rewrite ltxx.
by have := lt_le_trans j2 (le_trans (up _ _ h (leqW iu)) i1); rewrite ltxx.
Qed.

Definition delta (u : nat) : R := row u (fun i => pos (g u i)) / 2%:R ^+ u.
Lemma delta0 : delta 0 = 0.
Proof. by rewrite /delta DirichletMultinomial.row0 /g !expr0 !mulr1 pos_0 ?mul0r // subr_le0. Qed.
Lemma deltaS u : delta u.+1 = delta u + gain u.
Proof.
have two0 : (2%:R : R) != 0 by rewrite pnatr_eq0.
rewrite /delta DirichletMultinomial.rowS.
rewrite (_ : row u (fun i => pos (g u.+1 i) + pos (g u.+1 i.+1)) = 2%:R * row u (fun i => pos (g u i)) +
   \sum_(i < u.+1 | crossing u i) 'C(u, i)%:R * Num.min (g u.+1 i.+1) `|g u.+1 i|); last first.
  rewrite -DirichletMultinomial.rowM /row [X in _ = _ + X]big_mkcond -big_split /=; apply: eq_bigr => i _.
  have iu : (i <= u)%N by rewrite -ltnS.
  have p2 : 2%:R * pos (g u i) = pos (g u.+1 i + g u.+1 i.+1) by rewrite g_sum // posM // ler0n.
  have up : g u.+1 i <= g u.+1 i.+1 by exact: g_up.
  rewrite p2 /crossing; case: (leP (g u.+1 i) 0) => h1 /=; last first.
    have h2 := lt_le_trans h1 up.
    by rewrite addr0 (pos_id (ltW h1)) (pos_id (ltW h2)) pos_id // ltW // addr_gt0.
  case: (ltP 0 (g u.+1 i.+1)) => h2; last first.
    by rewrite addr0 (pos_0 h1) (pos_0 h2) addr0 pos_0 // -[X in _ <= X]addr0 ler_add.
  rewrite -mulrDr; congr (_ * _); rewrite ler0_norm // (pos_0 h1) add0r pos_id ?ltW //.
  case: (leP (g u.+1 i.+1) (- g u.+1 i)) => h.
    by rewrite pos_0 ?add0r // -ler_subr_addl sub0r.
  by rewrite pos_id; [rewrite addrAC subrr add0r | rewrite -ler_subl_addl sub0r ltW].
rewrite mulrDl exprS invfM mulrA [2%:R * _]mulrC mulfK //; congr (_ + _).
by rewrite /gain mulr_suml; apply: eq_bigr => i _; rewrite exprS invfM mulrAC.
Qed.

Theorem T5_series m : H t (draws m (P3 b s)) (draws m (Q3 b s)) = \sum_(u < m) beyond m u * gain u.
Proof.
have w := lt0r_neq0 w0; have two0 u : (2%:R : R) ^+ u != 0 by rewrite expf_neq0 // pnatr_eq0.
have sum_delta u : delta u = \sum_(v < u) gain v.
  by elim: u => [|u IH]; [rewrite big_ord0 delta0 | rewrite big_ord_recr /= deltaS IH].
transitivity (\sum_(u < m.+1) binomial m u * delta u).
  have gen (c y w' v : R) : w' != 0 -> c * (y * v) = c * w' * y * (v / w') by move=> hw; fieldR; apply/eqP.
  have gen2 (a w' v : R) : a != 0 -> w' != 0 -> a / w' * v / a = v / w' by move=> ha hw; fieldR; split; apply/eqP.
  have D u : delta u = row u (fun i => pos (G u i)) / (b + b + s) ^+ u.
    rewrite /delta (@DirichletMultinomial.eq_row _ u _ (fun i => 2%:R ^+ u / (b + b + s) ^+ u * pos (G u i))).
      by rewrite DirichletMultinomial.rowM; apply: gen2; rewrite // expf_neq0.
    by move=> i iu; rewrite g_G // posM // ltW ?scale_gt0.
  by rewrite T5_counts /row; apply: eq_bigr => u _; rewrite D /binomial; apply: gen; rewrite expf_neq0.
rewrite (eq_bigr (fun u : 'I_m.+1 => \sum_(v < m | (v < u)%N) binomial m u * gain v)) => [|u _]; last first.
  rewrite sum_delta mulr_sumr (big_ord_widen m (fun v => binomial m u * gain v)) // -ltnS //.
by rewrite (exchange_big_dep predT) //=; apply: eq_bigr => v _; rewrite mulr_suml.
Qed.
End T5Sum.
