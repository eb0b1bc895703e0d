(** * T13: subsampled randomised response
  docs/theory/subsampled-randomised-response.md.

  *On a public domain of k >= 2 cells, m <= n distinct records are drawn uniformly, in random order, and each is replaced
  by a uniform cell with probability q, independently; b = q/k, lambda = k(1 - q)/q. Let (S, T, G) count three outcomes
  of m draws, multinomial with probabilities (b, b, 1 - q). When one record is replaced, for every epsilon >= 0,
  delta(epsilon) <= 1/n E[lambda (S - e^epsilon T) - (n - G)(e^epsilon - 1)]_+, with equality for m = 1. The release is
  epsilon-differentially private exactly when epsilon >= log(1 + m/n k(1 - q)/q).*

  - [T13_bound]: the bound, for 0 < q <= 1.
  - [T13_pure]: the last sentence, for every m from 0 to n.
  - [T13_distinct]: the first m records of the shuffled table are m distinct records, drawn uniformly, in random order.
  - [T13_chain], [T13_groups]: *groups of g records: a chain of g replacements, or g delta(0); both are upper bounds.*
  - [T13_more_mixing]: *replacing more records is post-processing.*
  - [T13_one_is_T5]: one draw is one draw of Reveal-or-Obscure, which also gives the groups of records of this page.
  - [T13_one_draw]: the equality, also for k = 2.

  | here                   | on the page                                                                          |
  |------------------------|--------------------------------------------------------------------------------------|
  | message x r c          | the probability that record r of the table x is released as cell c                   |
  | release x o            | the probability of the messages o: shuffle the table, take the first m records       |
  | place i                | the i-th place of the shuffled table                                                 |
  | four                   | (b, b, q - 2b, 1 - q): Some (Some true), Some (Some false), Some None, None          |
  | times z w              | S, T, G for these z: how often z occurs in the m draws w                             |
  | gain t S T G           | the bracket                                                                          |
  | bound t                | the right side, t in the place of e^epsilon                                          |
  | neighbours 1           | one record is replaced                                                               | *)
From mathcomp Require Import all_ssreflect all_fingroup all_algebra.
From Discreet Require Import Definitions DataProcessing Arithmetic Groups Tables ThreeOutcomes T5.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Sums.
Variable R : realFieldType.
Add Field field_R : (field_laws R).
Ltac ringR := to_field R; ring.

Lemma sum_option (T : finType) (F : option T -> R) : \sum_o F o = F None + \sum_c F (Some c).
Proof.
rewrite (bigD1 None) //=; congr (_ + _).
rewrite (reindex_omap Some id) => [|[c|]] //=.
by apply: eq_bigl => c; rewrite eqxx.
Qed.
Lemma sum_point (T : finType) (c : T) (F : T -> R) : \sum_d (d == c)%:R * F d = F c.
Proof.
rewrite (bigD1 c) //= eqxx mul1r big1 ?addr0 // => d /negbTE ->.
by rewrite mul0r.
Qed.
(* a product in which one factor at most is not 1 *)
Lemma prod_one (I : finType) (P : pred I) (e : I -> R) : (forall i j, P i -> P j -> i = j) ->
  \prod_i (1 + (P i)%:R * e i) = 1 + \sum_i (P i)%:R * e i.
Proof.
move=> one; case: (pickP P) => [i Pi|no]; last first.
  by rewrite !big1 ?addr0 // => i _; rewrite no mul0r ?addr0.
have other j : j != i -> P j = false by move=> ne; apply: contraNF ne => Pj; rewrite (one i j).
rewrite (bigD1 i) //= [in RHS](bigD1 i) //= !big1 ?mulr1 ?addr0 // => j /other ->; by rewrite mul0r ?addr0.
Qed.
Lemma mean_image (S T : finType) m (f : S -> T) (p : S -> R) (phi : {ffun 'I_m -> T} -> R) :
  \sum_w draws m p w * phi [ffun i => f (w i)] = \sum_v draws m (push (point R f) p) v * phi v.
Proof.
rewrite (partition_big (fun w : {ffun 'I_m -> S} => [ffun i => f (w i)]) predT) //=; apply: eq_bigr => v _.
rewrite -push_draws /push mulr_suml big_mkcond; apply: eq_bigr => w _.
case: eqP => [<-|ne]; first by rewrite [X in _ * X * _]big1 ?mulr1 // => i _; rewrite /point ffunE eqxx.
have [i fi] : exists i, f (w i) != v i.
  case: (pickP (fun i => f (w i) != v i)) => [i h|no]; first by exists i.
  by case: ne; apply/ffunP => i; rewrite ffunE; apply/eqP; have := no i => /negbFE.
by rewrite [X in _ * X * _](bigD1 i) //= /point (negbTE fi) mul0r mulr0 mul0r.
Qed.
End Sums.

Section T13.
Variable R : realFieldType.
Add Field field_R : (field_laws R).
Ltac ringR := to_field R; ring.
Ltac fieldR := to_field R; field; of_field.
Variables (C : finType) (n m : nat) (q : R).
Notation k := #|C|.
Notation b := (q / k%:R).
Notation lambda := (k%:R * (1 - q) / q).
Hypotheses (q01 : 0 < q <= 1) (n0 : (0 < n)%N) (k2 : (1 < k)%N) (mn : (m <= n)%N).

Definition message (x : table C n) (r : 'I_n) (c : C) : R := b + (1 - q) * (x r == c)%:R.
Definition place : 'I_m -> 'I_n := widen_ord mn.
Definition release (x : table C n) (o : {ffun 'I_m -> C}) : R :=
  (\sum_(s : {perm 'I_n}) \prod_(i < m) message x (s (place i)) (o i)) / n`!%:R.

Lemma place_inj i j : place i = place j -> i = j.
Proof. by move/(congr1 val) => /= e; apply: val_inj. Qed.

(* one of the pages' multinomial outcomes for each draw: S, T, another cell, or G *)
Definition four (o : option (option bool)) : R :=
  match o with Some (Some _) => b | Some None => q - b - b | None => 1 - q end.
Definition gain (t : R) (S T G : nat) : R := lambda * (S%:R - t * T%:R) - (n%:R - G%:R) * (t - 1).
Definition bound (t : R) : R :=
  n%:R^-1 * \sum_(w : {ffun 'I_m -> option (option bool)})
    draws m four w * pos (gain t (times (Some (Some true)) w) (times (Some (Some false)) w) (times None w)).

Lemma q0 : 0 < q. Proof. by case/andP: q01. Qed.
Lemma q1 : 0 <= 1 - q. Proof. by case/andP: q01 => _ h; rewrite subr_ge0. Qed.
Lemma kpos : 0 < k%:R :> R. Proof. by rewrite ltr0n ltnW. Qed.
Lemma bpos : 0 < b. Proof. by rewrite divr_gt0 ?q0 ?kpos. Qed.
Lemma lpos : 0 <= lambda. Proof. by apply: divr_ge0 (ltW q0); apply: mulr_ge0 q1; apply: ltW kpos. Qed.
Lemma b_lambda : b * lambda = 1 - q.
Proof. by fieldR; split; apply/eqP; rewrite ?(lt0r_neq0 q0) ?(lt0r_neq0 kpos). Qed.

Lemma b_key z : b + (1 - q) * z = b * (1 + lambda * z). Proof. by rewrite mulrDr mulr1 mulrA b_lambda. Qed.

(* the reference law: None is a record that keeps its value *)
Definition reference (o : option C) : R := if o is Some _ then b else 1 - q.
Definition weight (l : C) (w : {ffun 'I_m -> option C}) (p : 'I_n) : R :=
  \prod_(i < m) match w i with None => (1 - q) * (place i != p)%:R
                | Some c => b + (1 - q) * ((place i == p) && (c == l))%:R end.
Definition shown (x : table C n) (w : {ffun 'I_m -> option C}) (s : {perm 'I_n}) (o : {ffun 'I_m -> C}) : R :=
  \prod_(i < m) (match w i with None => x (s (place i)) | Some c => c end == o i)%:R.

(* x shows at place i what it keeps, or a message *)
Lemma release_sum x a o : release x o = (\sum_w \sum_p weight (x a) w p * \sum_(s : {perm 'I_n} | s p == a) shown x w s o) / n`!%:R.
Proof.
congr (_ / _); rewrite exchange_big /=.
rewrite (partition_big (fun s : {perm 'I_n} => (s^-1)%g a) predT) //=; apply: eq_bigr => p _.
rewrite [RHS](eq_bigr (fun w => \sum_(s : {perm 'I_n} | s p == a) weight (x a) w p * shown x w s o)); last by move=> w _; rewrite mulr_sumr.
rewrite [RHS]exchange_big /=; apply: eq_big => [s|s /eqP sp].
  by rewrite -(inj_eq (@perm_inj _ s)) permKV eq_sym.
rewrite -(eq_bigr _ (fun w _ => big_split _ _ _ _ _)) /=.
rewrite -(bigA_distr_bigA (fun i z => (match z with None => (1 - q) * (place i != p)%:R
   | Some c => b + (1 - q) * ((place i == p) && (c == x a))%:R end) * (match z with None => x (s (place i)) | Some c => c end == o i)%:R)) /=.
apply: eq_bigr => i _; rewrite sum_option.
rewrite (eq_bigr (fun c => (c == o i)%:R * (b + (1 - q) * ((place i == p) && (c == x a))%:R))); last first.
  by move=> c _; rewrite mulrC.
have sa : (place i == p) = (s (place i) == a) by rewrite -(inj_eq (@perm_inj _ s) (place i) p) -sp permKV.
rewrite sum_point /message sa; case: (altP (s (place i) =P a)) => [->|_] /=; last by rewrite mulr1 mulr0 addr0 addrC.
by rewrite mulr0 mul0r add0r eq_sym.
Qed.

(* what a table says in its other records, by where the changed one is shuffled to *)
Definition free (w : {ffun 'I_m -> option C}) (p : 'I_n) : bool := [forall i, (place i == p) ==> (w i != None)].
Lemma weight_not_free l w p : ~~ free w p -> weight l w p = 0.
Proof.
rewrite negb_forall => /existsP[i]; rewrite negb_imply negbK => /andP[pi /eqP wi].
by rewrite /weight (bigD1 i) //= wi pi mulr0 mul0r.
Qed.
Lemma shown_same (x y : table C n) a w p (s : {perm 'I_n}) o :
  (forall r, r != a -> x r = y r) -> free w p -> s p = a -> shown x w s o = shown y w s o.
Proof.
move=> xy /forallP fr sp; apply: eq_bigr => i _; have := fr i.
case: (w i) => [//|]; rewrite implybF => pi; rewrite xy // -sp; apply: contra pi => /eqP/perm_inj/eqP //.
Qed.
Definition rest (x : table C n) a w o (p : 'I_n) : R := \sum_(s : {perm 'I_n} | s p == a) shown x w s o.
Lemma rest_same x a w o p p' : free w p -> free w p' -> rest x a w o p = rest x a w o p'.
Proof.
move=> /forallP f1 /forallP f2; rewrite /rest.
rewrite (reindex_inj (mulgI (tperm p p'))) /=; apply: eq_big => [s|s _]; first by rewrite permM tpermL.
apply: eq_bigr => i _; have := f1 i; have := f2 i.
case: (w i) => [//|]; rewrite !implybF => n2 n1; by rewrite permM tpermD // eq_sym.
Qed.
Definition common x a w o : R := if [pick p | free w p] is Some p then rest x a w o p else 0.
Lemma rest_common x a w o p l : weight l w p * rest x a w o p = weight l w p * common x a w o.
Proof.
case fr: (free w p); last by rewrite weight_not_free ?fr // !mul0r.
by rewrite /common; case: pickP => [p' fr'|/(_ p)]; [rewrite (rest_same x a o fr fr') | rewrite fr].
Qed.
Lemma count_shuffles (p : 'I_n) a : n%:R * (\sum_(s : {perm 'I_n} | s p == a) 1) = n`!%:R :> R.
Proof.
have same p' : \sum_(s : {perm 'I_n} | s p' == a) 1 = \sum_(s : {perm 'I_n} | s p == a) (1 : R).
  by rewrite (reindex_inj (mulgI (tperm p' p))) /=; apply: eq_bigl => s; rewrite permM tpermL.
transitivity (\sum_(p' : 'I_n) \sum_(s : {perm 'I_n} | s p' == a) (1 : R)).
  rewrite (eq_bigr _ (fun p' _ => same p')); move: (\sum_(s : {perm 'I_n} | s p == a) _) => z.
  by rewrite sumr_const card_ord -[RHS]mulr_natl.
transitivity (\sum_(s : {perm 'I_n}) (1 : R)); last by rewrite sumr_const card_Sn.
rewrite [RHS](partition_big (fun s : {perm 'I_n} => (s^-1)%g a) predT) //=; apply: eq_bigr => p' _.
by apply: eq_bigl => s; rewrite -[in RHS](inj_eq (@perm_inj _ s)) permKV eq_sym.
Qed.
Lemma sum_common x a w : \sum_o common x a w o <= n`!%:R / n%:R.
Proof.
rewrite /common; case: pickP => [p fr|_]; last first.
  by rewrite big1 // divr_ge0 ?ler0n.
rewrite -(count_shuffles p a) mulrC mulKf ?pnatr_eq0 -?lt0n //.
rewrite exchange_big /= le_eqVlt; apply/orP; left; apply/eqP; apply: eq_bigr => s _.
rewrite -(bigA_distr_bigA (fun i c => (match w i with None => x (s (place i)) | Some c => c end == c)%:R)) /=.
rewrite big1 // => i _; rewrite (eq_bigr (fun c => (c == match w i with Some c => c | None => x (s (place i)) end)%:R * 1)).
  by rewrite sum_point.
by move=> c _; rewrite mulr1 eq_sym.
Qed.
Lemma common_ge0 x a w o : 0 <= common x a w o.
Proof.
rewrite /common; case: pickP => // p _; apply: sumr_ge0 => s _; apply: prodr_ge0 => i _.
by rewrite ler0n.
Qed.

(* how likely the messages are, summed over the places of the changed record *)
Lemma weight_sum l w : \sum_p weight l w p = draws m reference w * (n%:R - (times None w)%:R + lambda * (times (Some l) w)%:R).
Proof.
have e p : weight l w p = draws m reference w *
    (1 + \sum_i (place i == p)%:R * (lambda * (w i == Some l)%:R - (w i == None)%:R)).
  rewrite -prod_one => [|i j /eqP <- /eqP/place_inj //]; rewrite -big_split /=; apply: eq_bigr => i _.
  case: (w i) => [c|] /=; last by case: (place i == p); rewrite /= ?mulr1n ?mulr0n; ringR.
  rewrite b_key (_ : (Some c == Some l) = (c == l)) //; congr (_ * (_ + _)).
  by case: (place i == p); case: (c == l); rewrite /= ?mulr1n ?mulr0n; ringR.
rewrite (eq_bigr _ (fun p _ => e p)) -mulr_sumr; congr (_ * _).
rewrite big_split /= sumr_const card_ord exchange_big /= -addrA; congr (_ + _).
rewrite (eq_bigr (fun i => lambda * (w i == Some l)%:R - (w i == None)%:R)).
  by rewrite sumrB -mulr_sumr -!natr_sum addrC.
by move=> i _; rewrite (eq_bigr (fun p => (p == place i)%:R * (lambda * (w i == Some l)%:R - (w i == None)%:R))) ?sum_point // => p _; rewrite eq_sym.
Qed.

Definition bound_cells (t : R) (l r : C) : R :=
  n%:R^-1 * \sum_(w : {ffun 'I_m -> option C})
    draws m reference w * pos (gain t (times (Some l) w) (times (Some r) w) (times None w)).

Lemma reference_ge0 w : 0 <= draws m reference w.
Proof. by apply: prodr_ge0 => i _; case: (w i) => [c|]; [exact: ltW bpos | exact: q1]. Qed.

Lemma T13_cells t (x y : table C n) a : (forall r, r != a -> x r = y r) ->
  H t (release x) (release y) <= bound_cells t (x a) (y a).
Proof.
move=> xy; have f0 : 0 < n`!%:R :> R by rewrite ltr0n fact_gt0.
pose net w := draws m reference w * gain t (times (Some (x a)) w) (times (Some (y a)) w) (times None w).
have sumx o : release x o = (\sum_w \sum_p weight (x a) w p * common x a w o) / n`!%:R.
  rewrite (release_sum x a); congr (_ / _); apply: eq_bigr => w _; apply: eq_bigr => p _.
  exact: rest_common.
have sumy o : release y o = (\sum_w \sum_p weight (y a) w p * common x a w o) / n`!%:R.
  rewrite (release_sum y a); congr (_ / _); apply: eq_bigr => w _; apply: eq_bigr => p _.
  rewrite -rest_common; case fr: (free w p); last by rewrite weight_not_free ?fr // !mul0r.
  by congr (_ * _); apply: eq_bigr => s /eqP sp; rewrite (shown_same o xy fr sp).
have diff o : release x o - t * release y o = (\sum_w net w * common x a w o) / n`!%:R.
  rewrite sumx sumy mulrA -mulrBl mulr_sumr -sumrB; congr (_ / _); apply: eq_bigr => w _.
  by rewrite -!mulr_suml !weight_sum /net /gain; ringR.
apply: (@le_trans _ _ (\sum_o \sum_w pos (net w) * common x a w o / n`!%:R)).
  apply: ler_sum => o _; rewrite diff -mulr_suml; apply: pos_le.
    apply: ler_right; first by rewrite invr_ge0 ltW.
    by apply: ler_sum => w _; apply: ler_right (common_ge0 _ _ _ _) (pos_ge _).
  apply: divr_ge0 (ltW f0); apply: sumr_ge0 => w _; apply: mulr_ge0 (pos_ge0 _) (common_ge0 _ _ _ _).
rewrite exchange_big /bound_cells mulr_sumr /=; apply: ler_sum => w _.
rewrite -mulr_suml -mulr_sumr /net posM ?reference_ge0 // [X in _ <= X]mulrC -mulrA.
apply: ler_left; first by apply: mulr_ge0 (reference_ge0 _) (pos_ge0 _).
by rewrite ler_pdivr_mulr // mulrC; exact: sum_common.
Qed.

Lemma bound_cellsE t (l r : C) : l != r -> bound_cells t l r = bound t.
Proof.
move=> lr; pose f (o : option C) : option (option bool) :=
  if o is Some c then Some (if c == l then Some true else if c == r then Some false else None) else None.
have fE : push (point R f) reference =1 four.
  have card_sum (P : pred C) : #|[pred c | P c]|%:R = \sum_c (P c)%:R :> R.
    by rewrite -sum1_card natr_sum big_mkcond; apply: eq_bigr => c _; rewrite inE; case: (P c).
  have e0 o : push (point R f) reference o = (1 - q) * (None == o)%:R + b * #|[pred c | f (Some c) == o]|%:R.
    rewrite /push sum_option /= {1}/point /=; congr (_ + _).
    by rewrite -mulr_sumr card_sum.
  have one (d : C) (o : option (option bool)) : (forall c, (f (Some c) == o) = (c == d)) -> #|[pred c | f (Some c) == o]| = 1%N.
    by move=> h; rewrite -(card1 d); apply: eq_card => c; rewrite !inE h.
  have card_l : #|[pred c | f (Some c) == Some (Some true)]| = 1%N.
    by apply: (one l) => c /=; case: (c == l) => //; case: (c == r).
  have card_r : #|[pred c | f (Some c) == Some (Some false)]| = 1%N.
    by apply: (one r) => c /=; case: (altP (c =P l)) => [->|_]; [rewrite (negbTE lr) | case: (c == r)].
  have card_n : #|[pred c | f (Some c) == None]| = 0%N by apply: eq_card0 => c; rewrite !inE.
  move=> [[[]|]|]; rewrite e0 ?card_l ?card_r ?card_n /= ?mulr0 ?mulr1 ?add0r ?addr0 //.
  have : \sum_o push (point R f) reference o = \sum_o reference o := push_sum _ (point_kernel R f).
  rewrite (sum_option (push _ _)) (sum_option reference) /= sum3 !e0 card_l card_r card_n /= !mulr1 !mulr0 !addr0 !add0r.
  have -> : \sum_(c : C) b = q by rewrite sumr_const -[LHS]mulr_natr divfK ?lt0r_neq0 ?kpos.
  move/addrI => e; rewrite -[X in _ = X - _ - _]e; ringR.
rewrite /bound_cells /bound; congr (_ * _).
have tE (w : {ffun 'I_m -> option C}) z z' : (forall o, (f o == z') = (o == z)) -> times z w = times z' [ffun i => f (w i)].
  by move=> h; apply: eq_bigr => i _; rewrite ffunE h.
pose phi (v : {ffun 'I_m -> option (option bool)}) :=
  pos (gain t (times (Some (Some true)) v) (times (Some (Some false)) v) (times None v)).
transitivity (\sum_w draws m reference w * phi [ffun i => f (w i)]); last first.
  by rewrite mean_image; apply: eq_bigr => v _; rewrite (draws_ext fE).
apply: eq_bigr => w _; rewrite /phi (tE w (Some l) (Some (Some true))) ?(tE w (Some r) (Some (Some false))) ?(tE w None None) //.
- by case.
- case=> //= c; rewrite /= (_ : (Some c == Some r) = (c == r)) //; case: (altP (c =P l)) => [->|_]; [by rewrite (negbTE lr) | by case: (c == r)].
- case=> //= c; rewrite (_ : (Some c == Some l) = (c == l)) //; case: (c == l) => //; by case: (c == r).
Qed.

Lemma four_ge0 w : 0 <= draws m four w.
Proof.
apply: prodr_ge0 => i _; case: (w i) => [[c|]|] /=; [exact: ltW bpos | | exact: q1].
have -> : q - b - b = (k%:R - 1 - 1) * b by fieldR; apply/eqP; rewrite lt0r_neq0 ?kpos.
apply: mulr_ge0 (ltW bpos); rewrite -addrA -opprD subr_ge0 -[1 + 1]/(2%:R); by rewrite ler_nat.
Qed.

Theorem T13_bound t : 1 <= t -> bounds (neighbours 1) release t (bound t).
Proof.
move=> t1 x y xy; case: (neighbours_one xy) => [->|[a [ne e]]].
  apply: (@le_trans _ _ 0).
    apply/H_le0 => o; rewrite -[X in X <= _]mul1r; apply: ler_right => //.
    apply: divr_ge0; rewrite ?ler0n //; apply: sumr_ge0 => s _; apply: prodr_ge0 => i _.
    by apply: addr_ge0 (ltW bpos) (mulr_ge0 q1 (ler0n _ _)).
  apply: mulr_ge0; first by rewrite invr_ge0 ler0n.
  apply: sumr_ge0 => w _; apply: mulr_ge0 (pos_ge0 _); exact: four_ge0.
by rewrite -(bound_cellsE t ne); exact: T13_cells.
Qed.

Lemma bound_ge0 t : 0 <= bound t.
Proof.
apply: mulr_ge0; first by rewrite invr_ge0 ler0n.
by apply: sumr_ge0 => w _; apply: mulr_ge0 (four_ge0 _) (pos_ge0 _).
Qed.

(** Groups: a chain of g replacements, or g delta(0); both are upper bounds. *)
Lemma replacements g (x y : table C n) : neighbours g x y -> chain (@neighbours C n 1) g x y.
Proof.
elim: g y => [|g IH] y xy /=; last by have [z [xz zy]] := one_step xy; exists z; split=> //; exact: IH.
apply/ffunP => i; apply/eqP; move: xy; rewrite /neighbours /replaced (bigD1 i) //=.
by case: (x i == y i).
Qed.
Theorem T13_chain (ts : nat -> R) g : (forall i, 1 <= ts i) ->
  bounds (@neighbours C n g) release (upto ts g) (\sum_(i < g) upto ts i * bound (ts i)).
Proof.
move=> ts1 x y /replacements; apply: (@groups _ _ _ (@neighbours C n 1) release ts (fun i => bound (ts i))) => i.
  exact: le_trans ler01 (ts1 i).
exact: T13_bound.
Qed.
Theorem T13_groups g t : 1 <= t -> bounds (@neighbours C n g) release t (g%:R * bound 1).
Proof.
move=> t1 x y xy; apply: (@le_trans _ _ (H 1 (release x) (release y))).
  apply: H_decreasing => // o; apply: divr_ge0; rewrite ?ler0n //; apply: sumr_ge0 => s _; apply: prodr_ge0 => i _.
  by apply: addr_ge0 (ltW bpos) (mulr_ge0 q1 (ler0n _ _)).
have one i : upto (fun=> 1 : R) i = 1 by rewrite /upto big1.
have := @T13_chain (fun=> 1) g (fun _ => lexx 1) x y xy; rewrite one.
by rewrite (eq_bigr (fun=> bound 1)) => [|i _]; rewrite ?one ?mul1r // sumr_const card_ord mulr_natl.
Qed.

(** Pure epsilon. *)
Lemma times_add (T : finType) (z z' : T) (w : {ffun 'I_m -> T}) : z != z' -> (times z w + times z' w <= m)%N.
Proof.
move=> ne; rewrite /times -big_split -[X in (_ <= X)%N]card_ord -sum1_card; apply: leq_sum => i _.
by case: (altP (w i =P z)) => [->|_]; [rewrite (negbTE ne) | rewrite /= add0n leq_b1].
Qed.
Lemma gain_le0 t S T G : 1 + m%:R / n%:R * lambda <= t -> (S + G <= m)%N -> gain t S T G <= 0.
Proof.
move=> ht sg; have l0 := lpos; have np : 0 < n%:R :> R by rewrite ltr0n.
have t1 : 1 <= t by apply: le_trans ht; rewrite ler_addl mulr_ge0 // divr_ge0 ?ler0n.
have t0 : 0 <= t := le_trans ler01 t1.
have Gn : G%:R <= n%:R :> R by rewrite ler_nat (leq_trans _ mn) // (leq_trans _ sg) // leq_addl.
rewrite /gain mulrBr -addrA -opprD subr_le0; apply: (@le_trans _ _ ((n%:R - G%:R) * (t - 1))); last first.
  by rewrite ler_addr mulr_ge0 // mulr_ge0 ?ler0n.
apply: (@le_trans _ _ ((n%:R - G%:R) * (m%:R / n%:R * lambda))); last first.
  by apply: ler_left; rewrite ?subr_ge0 // ler_subr_addl.
rewrite mulrA mulrC; apply: ler_right => //.
rewrite mulrA ler_pdivl_mulr // mulrBl ler_subr_addr -!natrM -natrD ler_nat.
apply: (@leq_trans (S * n + G * n)); first by rewrite leq_add2l leq_mul2l mn orbT.
by rewrite -mulnDl mulnC leq_mul2l sg orbT.
Qed.

Lemma cancel (F N L M : R) : F != 0 -> N != 0 -> F / N * L * M / F = M / N * L.
Proof. by move=> hF hN; fieldR; split; apply/eqP. Qed.
Lemma gain_none t T G : 1 <= t -> (G <= n)%N -> gain t 0 T G <= 0.
Proof.
move=> t1 Gn; rewrite /gain sub0r mulrN -opprD oppr_le0; apply: addr_ge0.
  by apply: mulr_ge0 lpos (mulr_ge0 (le_trans ler01 t1) (ler0n _ _)).
by apply: mulr_ge0; rewrite subr_ge0 // ler_nat.
Qed.
Theorem T13_pure t : bounds (neighbours 1) release t 0 <-> 1 + m%:R / n%:R * lambda <= t.
Proof.
have l0 := lpos; have mn0 : 0 <= m%:R / n%:R :> R by rewrite divr_ge0 ?ler0n.
split=> [pr|ht]; last first.
  have t1 : 1 <= t by apply: le_trans ht; rewrite ler_addl mulr_ge0.
  move=> x y xy; apply: le_trans (T13_bound t1 xy) _; rewrite /bound big1 ?mulr0 // => w _.
  by rewrite pos_0 ?mulr0 // gain_le0 // times_add.
have /card_gt1P [l [r [_ _ lr]]] := k2.
pose a : 'I_n := Ordinal n0.
pose y : table C n := [ffun=> r]; pose x : table C n := [ffun i => if i == a then l else r].
have xy : neighbours 1 x y.
  rewrite /neighbours /replaced (bigD1 a) //= big1 ?addn0 ?leq_b1 // => i /negbTE ia.
  by rewrite !ffunE ia eqxx.
have := pr x y xy => /H_le0 /(_ [ffun=> l]).
have f0 : n`!%:R != 0 :> R by rewrite pnatr_eq0 -lt0n fact_gt0.
have -> : release y [ffun=> l] = b ^+ m.
  rewrite /release (eq_bigr (fun=> b ^+ m)) => [|s _]; first by rewrite sumr_const card_Sn -[_ *+ _]mulr_natr mulfK.
  rewrite (eq_bigr (fun=> b)) => [|i _]; first by rewrite prodr_const card_ord.
  by rewrite /message !ffunE eq_sym (negbTE lr) mulr0 addr0.
have -> : release x [ffun=> l] = b ^+ m * (1 + m%:R / n%:R * lambda).
  have e (s : {perm 'I_n}) : \prod_(i < m) message x (s (place i)) ([ffun=> l] i) =
      b ^+ m * (1 + \sum_i (s (place i) == a)%:R * lambda).
    rewrite -prod_one => [|i j /eqP <- /eqP/perm_inj/place_inj //].
    have -> : b ^+ m = \prod_(i < m) b by rewrite prodr_const card_ord.
    rewrite -big_split /=; apply: eq_bigr => i _.
    rewrite /message !ffunE; case: (s (place i) == a); rewrite /= ?eqxx ?[r == l]eq_sym ?(negbTE lr) /=.
      by rewrite b_key; congr (_ * (_ + _)); rewrite mulr1 mul1r.
    by rewrite mul0r mulr0 !addr0 mulr1.
  rewrite /release (eq_bigr _ (fun s _ => e s)) -mulr_sumr -mulrA; congr (_ * _).
  rewrite big_split /= sumr_const card_Sn exchange_big /=.
  rewrite (eq_bigr (fun=> n`!%:R / n%:R * lambda)) => [|i _]; last first.
    rewrite -mulr_suml; congr (_ * _).
    rewrite -(count_shuffles (place i) a) [RHS]mulrAC divff ?pnatr_eq0 -?lt0n // mul1r [RHS]big_mkcond.
    by apply: eq_bigr => s _; case: (_ == a).
  rewrite sumr_const card_ord -[X in _ + X]mulr_natr mulrDl divff //; congr (_ + _).
  apply: cancel => //; by rewrite pnatr_eq0 -lt0n.
by rewrite [X in _ <= X]mulrC ler_pmul2l // exprn_gt0 // bpos.
Qed.
End T13.

(** One draw is one draw of Reveal-or-Obscure, and the bound is then an equality, also for two cells. *)
Section OneDraw.
Variable R : realFieldType.
Add Field field_R : (field_laws R).
Ltac ringR := to_field R; ring.
Ltac fieldR := to_field R; field; of_field.
Variables (C : finType) (n : nat) (q : R).
Notation k := #|C|.
Hypotheses (q01 : 0 < q <= 1) (n0 : (0 < n)%N) (k2 : (1 < k)%N).

Theorem T13_one_is_T5 (x : table C n) : release q n0 x =1 @T5.release R C n q 1 x.
Proof.
move=> o; rewrite /release /T5.release /draws big_ord1; set c := o ord0; set p := place n0 ord0.
rewrite (eq_bigr (fun s : {perm 'I_n} => message q x (s p) c)) => [|s _]; last by rewrite big_ord1.
rewrite (partition_big (fun s : {perm 'I_n} => s p) predT) //=.
rewrite (eq_bigr (fun a => n`!%:R / n%:R * message q x a c)) => [|a _]; last first.
  rewrite -(count_shuffles R p a) [_ / _]mulrAC divff ?pnatr_eq0 -?lt0n // mul1r mulr_suml.
  by apply: eq_bigr => s /eqP ->; rewrite mul1r.
rewrite -mulr_sumr big_split /= sumr_const card_ord -mulr_sumr -natr_sum -/(count_in x c) /cell.
rewrite -[X in X + _]mulr_natr.
have f0 : n`!%:R != 0 :> R by rewrite pnatr_eq0 -lt0n fact_gt0.
have n0' : n%:R != 0 :> R by rewrite pnatr_eq0 -lt0n.
have gen (F M B Q X : R) : F != 0 -> M != 0 -> F / M * (B * M + Q * X) / F = B + Q / M * X.
  by move=> hF hM; fieldR; split; apply/eqP.
exact: gen.
Qed.

Theorem T13_one_draw t : 1 <= t -> exact (@neighbours C n 1) (release q n0) t (bound C n 1 q t).
Proof.
move=> t1; have q01' : 0 <= q <= 1 by case/andP: q01 => /ltW -> ->.
have q1 : 0 <= 1 - q by case/andP: q01 => _ h; rewrite subr_ge0.
have [up [x [y [xy e]]]] := T5_one_draw q01' n0 k2 t1.
have l0 := lpos q01 k2; have b0 := bpos q01 k2; have tt : 0 <= t - 1 by rewrite subr_ge0.
have np : 0 < n%:R :> R by rewrite ltr0n.
have bE : bound C n 1 q t = pos (q / k%:R + (1 - q) / n%:R - t * (q / k%:R)).
  rewrite /bound (reindex (fun c => [ffun=> c] : {ffun 'I_1 -> option (option bool)})) /=; last first.
    exists (fun o : {ffun 'I_1 -> option (option bool)} => o ord0) => [c _|o _]; first by rewrite ffunE.
    by apply/ffunP => i; rewrite ffunE [i]ord1.
  pose g := @gain R C n q t.
  rewrite (eq_bigr (fun c => four C q c * pos (g (c == Some (Some true)) (c == Some (Some false)) (c == None)))); last first.
    by move=> c _; rewrite /draws /times !big_ord1 !ffunE.
  rewrite sum_option sum3 /= !(pos_0 (gain_none q01 k2 _ t1 _)) // !mulr0 !addr0 !add0r.
  rewrite mulrA -posM; last by rewrite mulr_ge0 ?invr_ge0 ?ler0n // ltW.
  congr pos; rewrite /g /gain.
  have gen (B L Q N K : R) : B * L = Q -> N != 0 -> N^-1 * B * (L * (1%:R - t * 0%:R) - (N - 0%:R) * (t - 1)) = B + Q / N - t * B.
    by move=> <- hN; fieldR; apply/eqP.
  apply: gen; rewrite ?lt0r_neq0 //; exact: b_lambda.
split=> [x' y' xy'|]; first by rewrite (H_ext t (T13_one_is_T5 x') (T13_one_is_T5 y')) bE; exact: up.
by exists x, y; split=> //; rewrite (H_ext t (T13_one_is_T5 x) (T13_one_is_T5 y)) bE.
Qed.
End OneDraw.

(** The first m of a shuffled table are m distinct records, drawn uniformly, in random order. *)
Section Distinct.
Variable R : realFieldType.
Variables (C : finType) (n m : nat) (q : R).
Hypotheses (mn : (m <= n)%N).
Notation place := (place mn).

Lemma extension (j : {ffun 'I_m -> 'I_n}) : injectiveb j -> exists s : {perm 'I_n}, forall i, s (place i) = j i.
Proof.
move=> inj; pose A := codom j ++ [seq r <- enum 'I_n | r \notin codom j].
have pA : perm_eq A (ord_tuple n).
  apply: uniq_perm.
  - rewrite cat_uniq filter_uniq ?enum_uniq // andbT; apply/andP; split; first exact: inj.
    by apply/hasPn => r; rewrite mem_filter => /andP[].
  - by rewrite val_ord_tuple enum_uniq.
  - by move=> r; rewrite val_ord_tuple mem_cat mem_filter mem_enum andbT orbN.
have [s eA] := tuple_permP pA; exists s => i.
have -> : s (place i) = nth (place i) A (place i).
  by rewrite eA -tnth_nth tnth_mktuple tnth_ord_tuple.
rewrite (_ : nat_of_ord (place i) = i) // nth_cat size_codom card_ord ltn_ord /codom /image_mem (nth_map i) ?size_enum_ord //.
by rewrite nth_ord_enum.
Qed.

Lemma shuffle (F : {ffun 'I_m -> 'I_n} -> R) :
  (\sum_(s : {perm 'I_n}) F [ffun i => s (place i)]) / n`!%:R = (\sum_(j : {ffun 'I_m -> 'I_n} | injectiveb j) F j) / (n ^_ m)%:R.
Proof.
pose c : R := \sum_(s : {perm 'I_n} | [forall i, s (place i) == place i]) 1.
have inj (s : {perm 'I_n}) : injectiveb [ffun i => s (place i)].
  by apply/injectiveP => i i'; rewrite !ffunE => /perm_inj/place_inj.
have count (j : {ffun 'I_m -> 'I_n}) : injectiveb j -> \sum_(s : {perm 'I_n} | [ffun i => s (place i)] == j) (1 : R) = c.
  move=> /extension [z ez]; rewrite (reindex_inj (mulIg z)) /=; apply: eq_bigl => s.
  apply/eqP/forallP => [/ffunP h i|h].
    by apply/eqP; apply: (@perm_inj _ z); have := h i; rewrite ffunE permM ez.
  by apply/ffunP => i; rewrite ffunE permM (eqP (h i)) ez.
have total G : \sum_(s : {perm 'I_n}) G [ffun i => s (place i)] = c * \sum_(j : {ffun 'I_m -> 'I_n} | injectiveb j) (G j : R).
  rewrite (partition_big (fun s : {perm 'I_n} => [ffun i => s (place i)]) (fun j : {ffun 'I_m -> 'I_n} => injectiveb j)) //= mulr_sumr.
  apply: eq_bigr => j ij; rewrite -(count j ij) mulr_suml; apply: eq_bigr => s /eqP ->; by rewrite mul1r.
have one : n`!%:R = c * (n ^_ m)%:R :> R.
  have := total (fun=> 1); rewrite sumr_const card_Sn => ->; congr (_ * _).
  rewrite sumr_const -[in RHS](card_ord n) -[X in _ ^_ X](card_ord m) -card_inj_ffuns; congr (_ *+ _).
  by apply: eq_card => j; rewrite inE.
have c0 : c != 0.
  apply/eqP => c0; move: one; rewrite c0 mul0r => /eqP; rewrite pnatr_eq0 -leqn0 leqNgt fact_gt0 //.
by rewrite total one invfM mulrA [c * _ / _]mulrAC divff // mul1r.
Qed.

Theorem T13_distinct (x : table C n) o :
  release q mn x o = (\sum_(j : {ffun 'I_m -> 'I_n} | injectiveb j) \prod_i message q x (j i) (o i)) / (n ^_ m)%:R.
Proof.
rewrite -(shuffle (fun j => \prod_i message q x (j i) (o i))) /release; congr (_ / _); apply: eq_bigr => s _.
by apply: eq_bigr => i _; rewrite ffunE.
Qed.
End Distinct.

(** A mixing that is rounded up keeps every guarantee: replacing more records is post-processing. *)
Section Mixing.
Variable R : realFieldType.
Add Field field_R : (field_laws R).
Ltac ringR := to_field R; ring.
Ltac fieldR := to_field R; field; of_field.
Variables (C : finType) (n m g : nat).
Hypotheses (mn : (m <= n)%N) (k2 : (1 < #|C|)%N).

Theorem T13_more_mixing (q q' t delta : R) : 0 <= q <= q' -> q' <= 1 ->
  bounds (@neighbours C n g) (release q mn) t delta -> bounds (@neighbours C n g) (release q' mn) t delta.
Proof.
move=> /andP[q0 qq] q1 h x y xy.
case: (eqVneq q 1) => [e|ne].
  by have -> : q' = q; [apply/eqP; rewrite eq_le qq e q1 | exact: h].
apply: le_trans (h x y xy).
have d0 : 0 < 1 - q by rewrite subr_gt0 lt_neqAle ne (le_trans qq).
have k0 : #|C|%:R != 0 :> R by rewrite pnatr_eq0 -lt0n ltnW.
set r := (q' - q) / (1 - q); have r01 : 0 <= r <= 1.
  by rewrite divr_ge0 ?subr_ge0 ?(le_trans qq) //= ler_pdivr_mulr // mul1r ler_add2r.
have total (z : table C n) a : \sum_c message q z a c = 1.
  rewrite big_split /= sumr_const -[_ / _ *+ _]mulr_natr divfK // -mulr_sumr (bigD1 (z a)) //= eqxx big1 ?addr0 ?mulr1 ?subrKC //.
    by rewrite addrC subrK.
  by move=> c; rewrite eq_sym => /negbTE ->.
have e (z : table C n) : release q' mn z =1 push (fun (w o : {ffun 'I_m -> C}) => \prod_(i < m) mixed r (w i) (o i)) (release q mn z).
  move=> o; rewrite /push /release (eq_bigr (fun w : {ffun 'I_m -> C} =>
    (\sum_(s : {perm 'I_n}) \prod_(i < m) (message q z (s (place mn i)) (w i) * mixed r (w i) (o i))) / n`!%:R)); last first.
    by move=> w _; rewrite mulrAC mulr_suml; congr (_ / _); apply: eq_bigr => s _; rewrite big_split.
  rewrite -mulr_suml exchange_big /=; congr (_ / _); apply: eq_bigr => s _.
  rewrite -(bigA_distr_bigA (fun i c => message q z (s (place mn i)) c * mixed r c (o i))) /=; apply: eq_bigr => i _.
  rewrite -/(push (mixed r) (message q z (s (place mn i))) (o i)) push_mixed total /message /r.
  by fieldR; do !split; apply/eqP; rewrite ?k0 // lt0r_neq0.
rewrite (H_ext t (e x) (e y)); exact: data_processing (kernel_draws (mixed_kernel r01)).
Qed.
End Mixing.
