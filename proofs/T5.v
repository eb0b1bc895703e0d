(** * T5: the smoothed histogram, and Reveal-or-Obscure
  docs/theory/smoothed-histogram.md and docs/theory/reveal-or-obscure.md.

  *A public finite domain has k >= 2 cells. With mixing 0 < q <= 1, each of m draws is independently uniform on the cells
  with probability q, and otherwise a uniformly chosen confidential record. Cell c, which holds n_c of the n records, has
  probability p_c = b + s n_c, b = q/k, s = (1 - q)/n. When g <= n records are replaced, let
  P = (b + gs, b, 1 - 2b - gs), Q = (b, b + gs, 1 - 2b - gs) be laws of one draw with three outcomes. Then for every
  epsilon >= 0, delta_g(epsilon) <= H_epsilon(P^m || Q^m), the m-fold product, with equality if k >= 3 or g = n.*

  - [T5_bound]: the bound, for every t and therefore every epsilon, also for q = 0.
  - [T5_exact]: the equality. [T5_symmetric]: *both orders have the same profile.*
  - [T5_pure]: *the mechanism is epsilon-differentially private, for one record, exactly when
    epsilon >= m log(1 + (1 - q)k/(nq)).*
  - [fewer_draws], [more_mixing]: Lemma 4, so that a mixing that is rounded up keeps every guarantee.
  - [T5_one_draw]: the profile of one draw, *the positive part of (b + s) - e^epsilon b*, for all k >= 2.

  | here                       | on the page                                       |
  |----------------------------|---------------------------------------------------|
  | cell x c                   | p_c for the table x                               |
  | release m x                | the law of m draws from the table x               |
  | neighbours g x y           | g records or fewer are replaced                   |
  | P3 b (g s), Q3 b (g s)     | P and Q                                           |
  | t                          | e^epsilon                                         |
  | exact .. t delta           | delta = delta_g(epsilon), and neighbours attain it | *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions DataProcessing Arithmetic Tables ThreeOutcomes.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section T5.
Variable R : realFieldType.
Add Field field_R : (field_laws R).
Ltac ringR := to_field R; ring.
Ltac fieldR := to_field R; field; of_field.
Variables (C : finType) (n : nat) (q : R).
Notation k := #|C|.
Notation b := (q / k%:R).
Notation s := ((1 - q) / n%:R).

Definition cell (x : table C n) (c : C) : R := b + s * (count_in x c)%:R.
Definition release (m : nat) (x : table C n) := draws m (cell x).
Arguments release m x : clear implicits.

Hypotheses (q01 : 0 <= q <= 1) (n0 : (0 < n)%N) (k2 : (1 < k)%N).

Lemma b_ge0 : 0 <= b. Proof. by case/andP: q01 => ? _; rewrite divr_ge0 ?ler0n. Qed.
Lemma s_ge0 : 0 <= s. Proof. by case/andP: q01 => _ ?; rewrite divr_ge0 ?ler0n // subr_ge0. Qed.
Lemma k_neq0 : k%:R != 0 :> R. Proof. by rewrite pnatr_eq0 -lt0n ltnW. Qed.
Lemma n_neq0 : n%:R != 0 :> R. Proof. by rewrite pnatr_eq0 -lt0n. Qed.

Lemma cell_law x : law (cell x).
Proof.
split=> [c|]; first by rewrite addr_ge0 ?b_ge0 // mulr_ge0 ?s_ge0 ?ler0n.
rewrite big_split /= sumr_const -mulr_sumr -natr_sum sum_count -[X in X + _]mulr_natr divfK ?k_neq0 // divfK ?n_neq0 //; ringR.
Qed.

Lemma third_ge0 g : (g <= n)%N -> 0 <= 1 - b - b - g%:R * s.
Proof.
move=> gn; have := b_ge0; have := s_ge0; case/andP: q01 => q0 q1 s0 b0.
have kb : k%:R * b = q by rewrite mulrC divfK ?k_neq0.
have ns : n%:R * s = 1 - q by rewrite mulrC divfK ?n_neq0.
have h1 : b + b <= q.
  apply: (@le_trans _ _ (k%:R * b)); last by rewrite kb.
  by rewrite -mulr2n -mulr_natl ler_right // ler_nat.
have h2 : g%:R * s <= 1 - q by apply: (@le_trans _ _ (n%:R * s)); [rewrite ler_right // ler_nat | rewrite ns].
have -> : 1 - b - b - g%:R * s = (q - (b + b)) + (1 - q - g%:R * s) by ringR.
by rewrite addr_ge0 ?subr_ge0.
Qed.

Lemma pos_nat (i j : nat) : pos (i%:R - j%:R : R) = (i - j)%N%:R.
Proof.
case: (leqP j i) => h; first by rewrite natrB // pos_id // subr_ge0 ler_nat.
by rewrite pos_0 ?subr_le0 ?ler_nat ?(ltnW h) //; move/ltnW/eqP: h => ->.
Qed.

Lemma cell_diff x y c : pos (cell x c - cell y c) = s * (count_in x c - count_in y c)%N%:R.
Proof. by rewrite -pos_nat -posM ?s_ge0 //; congr pos; rewrite /cell; ringR. Qed.

(** The upper bound: one kernel for every two neighbours, and every t. *)
Lemma one_draw x y g : (g <= n)%N -> neighbours g x y ->
  image (P3 b (g%:R * s)) (Q3 b (g%:R * s)) (cell x) (cell y).
Proof.
move=> gn xy; have s0 := s_ge0; have b0 := b_ge0.
have lost x' y' c : neighbours g x' y' -> (count_in x' c - count_in y' c <= g)%N.
  move=> h; apply: leq_trans (leq_trans (sum_lost x' y') h).
  by rewrite (bigD1 c) //= leq_addr.
have yx : neighbours g y x by rewrite /neighbours replacedC.
apply: (three_outcomes (mulr_ge0 (ler0n R g) s0) (cell_law x) (cell_law y)) => [|c].
  rewrite (eq_bigr _ (fun c _ => cell_diff x y c)) -mulr_sumr -natr_sum mulrC ler_right // ler_nat.
  exact: leq_trans (sum_lost x y) xy.
rewrite !cell_diff -mulrDr -natrD.
have -> : cell x c - s * (count_in x c - count_in y c)%N%:R = b + s * (count_in x c - (count_in x c - count_in y c))%N%:R.
  by rewrite [in RHS]natrB ?leq_subr // /cell; ringR.
rewrite mulrCA [X in _ <= X * _]mulrC -[X in _ <= X]mulrA; apply: ler_left => //.
apply: (@le_trans _ _ (g%:R * b)); last by apply: ler_left; rewrite ?ler0n // ler_addl mulr_ge0 ?ler0n.
rewrite mulrC; apply: ler_right => //; rewrite ler_nat.
by case/orP: (leq_total (count_in x c) (count_in y c)) => /eqP e; rewrite e ?addn0 lost.
Qed.

Theorem T5_bound g m t : (g <= n)%N ->
  bounds (neighbours g) (release m) t (H t (draws m (P3 b (g%:R * s))) (draws m (Q3 b (g%:R * s)))).
Proof.
move=> gn x y /(one_draw gn) [K [kK [ex ey]]].
rewrite (H_ext t (draws_ext ex) (draws_ext ey)); exact: draws_processing.
Qed.

Lemma merged (f : C -> option bool) (P : C -> R) (l r : C) o :
  law P -> (forall c, (f c == Some true) = (c == l)) -> (forall c, (f c == Some false) = (c == r)) ->
  push (point R f) P o = match o with Some true => P l | Some false => P r | None => 1 - P l - P r end.
Proof.
move=> lP hl hr; have pt : push (point R f) P (Some true) = P l.
  by rewrite push_point (eq_bigl _ _ hl) big_pred1_eq.
have pf : push (point R f) P (Some false) = P r.
  by rewrite push_point (eq_bigl _ _ hr) big_pred1_eq.
case: o => [[]|] //; have := push_sum P (point_kernel R f).
case: lP => _ ->; rewrite sum3 /= pt pf => <-; ringR.
Qed.

Lemma T5_attained g m t : (g <= n)%N -> (2 < k)%N \/ g = n ->
  exists x y, neighbours g x y /\ H t (draws m (P3 b (g%:R * s))) (draws m (Q3 b (g%:R * s))) <= H t (release m x) (release m y).
Proof.
move=> gn hk.
have [l [r [z [lr hz]]]] : exists l r z : C, l != r /\ ((z != l) && (z != r) \/ g = n).
  case: hk => [k3|e].
    have /card_gt2P [l [r [z [_ [lr rz zl]]]]] := k3.
    by exists l, r, z; split=> //; left; rewrite zl eq_sym rz.
  by have /card_gt1P [l [r [_ _ lr]]] := k2; exists l, r, l; split=> //; right.
pose w (c : C) : table C n := [ffun i : 'I_n => if (i < g)%N then c else z].
have cw c d : c != d -> (z != d) \/ g = n -> count_in (w c) d = 0%N.
  move=> cd zd; rewrite /count_in big1 // => i _; rewrite ffunE.
  case: (ltnP i g) => [_|gi]; first by rewrite (negbTE cd).
  by case: zd => [/negbTE -> //|e]; move: gi; rewrite e leqNgt ltn_ord.
have cc c : (z != c) \/ g = n -> count_in (w c) c = g.
  move=> zc; rewrite /count_in (eq_bigr (fun i : 'I_n => nat_of_bool (i < g)%N)) => [|i _].
    by rewrite -[RHS]card_ord -sum1_card (big_ord_widen n (fun=> 1%N)) // [RHS]big_mkcond; apply: eq_bigr => i _; case: (_ < _)%N.
  rewrite ffunE; case: (ltnP i g) => [_|gi]; first by rewrite eqxx.
  by case: zc => [/negbTE -> //|e]; move: gi; rewrite e leqNgt ltn_ord.
have no c d : c != d -> z != d \/ g = n -> cell (w c) d = b by move=> cd zd; rewrite /cell cw // mulr0 addr0.
have yes c : z != c \/ g = n -> cell (w c) c = b + g%:R * s by move=> zc; rewrite /cell cc // [s * _]mulrC.
have zl : z != l \/ g = n by case: hz => [/andP[]|]; [left | right].
have zr : z != r \/ g = n by case: hz => [/andP[]|]; [left | right].
exists (w l), (w r); split.
  rewrite /neighbours /replaced -[X in (_ <= X)%N](cc l zl); apply: leq_sum => i _.
  by rewrite !ffunE; case: (i < g)%N; rewrite eqxx /= ?leq_b1 ?leq0n.
pose f c := if c == l then Some true else if c == r then Some false else None.
have fl c : (f c == Some true) = (c == l) by rewrite /f; case: (c == l) => //; case: (c == r).
have fr c : (f c == Some false) = (c == r).
  by rewrite /f; case: (altP (c =P l)) => [->|_]; [rewrite (negbTE lr) | case: (c == r)].
have rl : r != l by rewrite eq_sym.
have el : P3 b (g%:R * s) =1 push (point R f) (cell (w l)).
  move=> o; rewrite (merged o (cell_law _) fl fr) yes // no //.
  by case: o => [[]|] //=; ringR.
have er : Q3 b (g%:R * s) =1 push (point R f) (cell (w r)).
  move=> o; rewrite (merged o (cell_law _) fl fr) yes // no //.
  by case: o => [[]|] //=; ringR.
rewrite (H_ext t (draws_ext el) (draws_ext er)); exact: draws_processing (point_kernel R _).
Qed.

Theorem T5_exact g m t : (g <= n)%N -> (2 < k)%N \/ g = n ->
  exact (neighbours g) (release m) t (H t (draws m (P3 b (g%:R * s))) (draws m (Q3 b (g%:R * s)))).
Proof.
move=> gn hk; have up := T5_bound m t gn; split=> //.
have [x [y [xy ge]]] := T5_attained m t gn hk.
by exists x, y; split=> //; apply/eqP; rewrite eq_le ge up.
Qed.

(** The pair is symmetric: both orders have the same profile. *)
Theorem T5_symmetric (c s' : R) m t :
  H t (draws m (P3 c s')) (draws m (Q3 c s')) = H t (draws m (Q3 c s')) (draws m (P3 c s')).
Proof.
pose w (o : option bool) := omap negb o.
have wi : involutive w by case=> [[]|].
rewrite /H (reindex_inj (h := fun o : {ffun 'I_m -> option bool} => [ffun i => w (o i)])) /=; last first.
  by move=> o o' /ffunP e; apply/ffunP => i; have := e i; rewrite !ffunE => /(inv_inj wi).
apply: eq_bigr => o _; congr pos; congr (_ - t * _); apply: eq_bigr => i _; rewrite ffunE; by case: (o i) => [[]|].
Qed.

(* one record in a cell where there is none after it is replaced *)
Lemma lone_record : exists (x y : table C n) (l : C), [/\ neighbours 1 x y, cell x l = b + s & cell y l = b].
Proof.
have /card_gt1P [l [r [_ _ lr]]] := k2; pose a : 'I_n := Ordinal n0.
exists [ffun i => if i == a then l else r], [ffun=> r], l; split.
- rewrite /neighbours /replaced (bigD1 a) //= big1 ?addn0 ?leq_b1 // => i /negbTE ia.
  by rewrite !ffunE ia eqxx.
- rewrite /cell /count_in (bigD1 a) //= ffunE !eqxx big1 ?addn0 ?mulr1 // => i /negbTE ia.
  by rewrite ffunE ia eq_sym (negbTE lr).
- rewrite /cell /count_in big1 ?mulr0 ?addr0 // => i _.
  by rewrite ffunE eq_sym (negbTE lr).
Qed.

(** One draw, (roo-pure) on the page of Reveal-or-Obscure: exact for two cells, too. *)
Lemma one_draw_pair (c s' t : R) : 0 <= c -> 0 <= s' -> 0 <= 1 - c - c - s' -> 1 <= t -> H t (P3 c s') (Q3 c s') = pos (c + s' - t * c).
Proof.
move=> c0 s0 r0 t1; rewrite /H sum3 /= [pos (c - _)]pos_0 ?[pos (1 - c - c - s' - _)]pos_0 ?addr0 // subr_le0.
  by rewrite -[X in X <= _]mul1r; apply: ler_right.
apply: (@le_trans _ _ (c + s')); first by rewrite ler_addl.
by rewrite -[X in X <= _]mul1r; apply: ler_right; rewrite // addr_ge0.
Qed.
Theorem T5_one_draw t : 1 <= t -> exact (@neighbours C n 1) (release 1) t (pos (b + s - t * b)).
Proof.
move=> t1; have up : bounds (@neighbours C n 1) (release 1) t (pos (b + s - t * b)).
  move=> x y xy; have := T5_bound 1 t (n0 : (1 <= n)%N) xy.
  rewrite draws1 !mul1r one_draw_pair ?b_ge0 ?s_ge0 //.
  by have := third_ge0 (n0 : (1 <= n)%N); rewrite mul1r.
split=> //; have [x [y [l [xy ex ey]]]] := lone_record.
exists x, y; split=> //; apply/eqP; rewrite eq_le up //=.
by rewrite /release draws1 /H (bigD1 l) //= ex ey ler_addl sumr_ge0 // => *; exact: pos_ge0.
Qed.

(** Pure epsilon: (t5-pure), and (roo-pure) for m = 1. *)
Theorem T5_pure m t : 0 < q ->
  bounds (@neighbours C n 1) (release m) t 0 <-> (1 + (1 - q) * k%:R / (n%:R * q)) ^+ m <= t.
Proof.
move=> q0; set L := 1 + _; have b0 : 0 < b by rewrite divr_gt0 // ltr0n ltnW.
have bL : b * L = b + s by rewrite /L; fieldR; do !split; apply/eqP; rewrite ?k_neq0 ?n_neq0 ?lt0r_neq0.
have L0 : 0 <= L.
  by rewrite -(pmulr_rge0 _ b0) bL addr_ge0 ?s_ge0 // ltW.
split=> [pr|ht].
  have [x [y [l [xy ex ey]]]] := lone_record.
  have := pr x y xy => /H_le0 /(_ [ffun=> l]); rewrite /release /draws.
  rewrite (eq_bigr (fun=> b + s)) => [|i _]; last by rewrite ffunE.
  rewrite [X in _ <= _ * X](eq_bigr (fun=> b)) => [|i _]; last by rewrite ffunE.
  by rewrite !prodr_const card_ord -bL exprMn mulrC ler_pmul2r // exprn_gt0.
move=> x y xy; apply/H_le0 => o; apply: (@le_trans _ _ (L ^+ m * release m y o)); last first.
  by apply: ler_right => //; apply: prodr_ge0 => i _; case: (cell_law y).
have -> : L ^+ m = \prod_(i < m) L by rewrite prodr_const card_ord.
rewrite /release /draws -big_split; apply: ler_prod => i _ /=.
case: (cell_law x) => -> _ /=; set c := o i; have : (count_in x c <= (count_in y c).+1)%N.
  rewrite -addn1 -leq_subLR; apply: leq_trans (leq_trans (sum_lost x y) xy).
  by rewrite (bigD1 c) //= leq_addr.
rewrite -(ler_nat R) natS => cxy.
apply: (@le_trans _ _ (b + s * ((count_in y c)%:R + 1))); first by rewrite ler_add2l; apply: ler_left; rewrite ?s_ge0.
have -> : b + s * ((count_in y c)%:R + 1) = b * L + s * (count_in y c)%:R by rewrite bL; ringR.
rewrite -/(cell y c) /cell; have -> : L * (b + s * (count_in y c)%:R) = b * L + L * (s * (count_in y c)%:R) by ringR.
rewrite ler_add2l -[X in X <= _]mul1r; apply: ler_right.
  by rewrite mulr_ge0 ?s_ge0 ?ler0n.
by rewrite -(ler_pmul2l b0) mulr1 bL ler_addl s_ge0.
Qed.
End T5.
Arguments release {R C n} q m x.

(** Lemma 4 of sampling-is-noise.md, for this mechanism: *the profile does not increase when the size m decreases, nor when
    the mixing q increases.* So a mixing that is rounded up keeps every guarantee. *)
Section Monotone.
Variable R : realFieldType.
Add Field field_R : (field_laws R).
Ltac ringR := to_field R; ring.
Ltac fieldR := to_field R; field; of_field.
Variables (C : finType) (n g : nat).
Hypotheses (n0 : (0 < n)%N) (k2 : (1 < #|C|)%N).

Theorem fewer_draws (q t delta : R) m m' : 0 <= q <= 1 -> (m <= m')%N ->
  bounds (@neighbours C n g) (release q m') t delta -> bounds (@neighbours C n g) (release q m) t delta.
Proof.
move=> q01 mm h x y xy; apply: le_trans (h x y xy).
have e (z : table C n) : release q m z =1 push (point R (fun w : {ffun 'I_m' -> C} => [ffun i => w (widen_ord mm i)])) (release q m' z).
  by move=> o; rewrite /release fewer //; case: (cell_law q01 n0 k2 z).
rewrite (H_ext t (e x) (e y)); exact: data_processing (point_kernel R _).
Qed.

Lemma cell_mixed (q q' : R) (x : table C n) : 0 <= q <= 1 -> q != 1 -> cell q' x =1 push (mixed ((q' - q) / (1 - q))) (cell q x).
Proof.
move=> q01 q1 c; have d0 : 1 - q != 0 by rewrite subr_eq0 eq_sym.
have k0 : #|C|%:R != 0 :> R by rewrite pnatr_eq0 -lt0n ltnW.
rewrite push_mixed; case: (cell_law q01 n0 k2 x) => _ ->; rewrite /cell.
have nz : n%:R != 0 :> R by rewrite pnatr_eq0 -lt0n.
by fieldR; do !split; apply/eqP.
Qed.
Theorem more_mixing (q q' t delta : R) m : 0 <= q <= q' -> q' <= 1 ->
  bounds (@neighbours C n g) (release q m) t delta -> bounds (@neighbours C n g) (release q' m) t delta.
Proof.
move=> /andP[q0 qq] q1 h x y xy; have q01 : 0 <= q <= 1 by rewrite q0 (le_trans qq).
case: (eqVneq q 1) => [e|ne].
  by have -> : q' = q; [apply/eqP; rewrite eq_le qq e q1 | exact: h].
apply: le_trans (h x y xy).
have d0 : 0 < 1 - q by rewrite subr_gt0 lt_neqAle ne (le_trans qq).
have r01 : 0 <= (q' - q) / (1 - q) <= 1.
  by rewrite divr_ge0 ?subr_ge0 ?(le_trans qq) //= ler_pdivr_mulr // mul1r ler_add2r.
rewrite /release (H_ext t (draws_ext (cell_mixed q' x q01 ne)) (draws_ext (cell_mixed q' y q01 ne))).
exact: draws_processing (mixed_kernel r01).
Qed.
End Monotone.
