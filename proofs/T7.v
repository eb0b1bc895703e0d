(** * T7: data-specific Reveal-or-Obscure
  docs/theory/data-specific-reveal-or-obscure.md.

  *A public finite domain has k >= 2 cells, the table n records, N = n/k. With i the smallest count of a cell, a draw is
  uniform on the cells with probability q_i, and otherwise a uniformly chosen record. d_i = 1 - q_i, E = e^epsilon,
  h = E - 1. A cell of a records has the probability f(a, d_i)/n, where f(a, d) = N + (a - N) d* ([one_drawE]).
  *For k >= 3, a schedule with 0 <= d_(i-1) <= d_i <= 1, d_i <= tau_i, d_i <= R_i(d_(i-1)) for i <= N - 1, and
  d_i <= C_i(d_(i-1)) for i < N, makes one draw epsilon-differentially private. The schedule of the page has these
  properties, and every private schedule has d_i at most as large: its q_i are the least at every smallest count at once.*

  - [T7_private], [T7_schedule], [T7_least]: these three sentences, the first two also for k = 2.

  | here                       | on the page                                                                 |
  |----------------------------|-----------------------------------------------------------------------------|
  | E                          | e^epsilon, at least 1                                                       |
  | smallest x                 | i, the smallest count of the table x                                        |
  | one_draw d x               | the law of one draw; [cell q] is that of T5                                 |
  | private d                  | one draw is epsilon-differentially private when one record is replaced      |
  | tau i, Rec i d, Cap i d    | tau_i, R_i(d), C_i(d)                                                       |
  | i * k <= n, i * k < n      | i <= N, i < N                                                               |
  | probabilities, increasing  | 0 <= d_i <= 1; d_(i-1) <= d_i, wherever i is a smallest count of some table |
  | schedule_bounds d          | the three bounds                                                            |
  | schedule i                 | the schedule of the page                                                    | *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions DataProcessing Arithmetic Tables ThreeOutcomes T5.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Smallest.
Variables (C : finType) (n : nat).
Definition smallest (x : table C n) : nat := \big[minn/n]_c count_in x c.

Lemma smallest_le x c : (smallest x <= count_in x c)%N.
Proof.
rewrite /smallest; elim: (index_enum C) (mem_index_enum c) => //= a s IH.
by rewrite big_cons inE => /orP[/eqP->|/IH h]; rewrite geq_min ?leqnn // h orbT.
Qed.
Lemma smallest_attained x (c0 : C) : exists c, count_in x c = smallest x.
Proof.
have [e|//] : smallest x = n \/ exists c, count_in x c = smallest x.
  rewrite /smallest; elim: (index_enum C) => [|a s IH]; first by left; rewrite big_nil.
  rewrite big_cons; case: (leqP (count_in x a) (\big[minn/n]_(c <- s) count_in x c)) => h; last exact: IH.
  by right; exists a.
by exists c0; apply/eqP; rewrite eqn_leq smallest_le e count_le.
Qed.
Lemma smallest_is (x : table C n) i c : (forall c, i <= count_in x c)%N -> count_in x c = i -> smallest x = i.
Proof.
move=> lb e; have [d ed] := smallest_attained x c.
by apply/eqP; rewrite eqn_leq -{1}e smallest_le -ed lb.
Qed.
Lemma count_top (x : table C n) i c : (forall c, i <= count_in x c)%N -> (count_in x c + #|C|.-1 * i <= n)%N.
Proof.
move=> lb; rewrite -[X in (_ <= X)%N](sum_count x) (bigD1 c) //= leq_add2l.
rewrite -(cardC1 c) -sum_nat_const; apply: leq_sum => *; exact: lb.
Qed.
End Smallest.

Section T7.
Variable R : realFieldType.
Add Field field_R : (field_laws R).
Ltac ringR := to_field R; ring.
Ltac fieldR := to_field R; field; of_field.
Variables (C : finType) (n : nat) (E : R).
Notation k := #|C|.
Notation N := (n%:R / k%:R : R).
Notation h := (E - 1).

(** One draw: Reveal-or-Obscure with q_i = 1 - d_i, where i is the smallest count. *)
Definition one_draw (d : nat -> R) (x : table C n) : C -> R := cell (1 - d (smallest x)) x.
Definition private (d : nat -> R) : Prop := bounds (@neighbours C n 1) (one_draw d) E 0.
Definition f (a : nat) (d : R) : R := N + (a%:R - N) * d.
Definition tau (i : nat) : R := h * N / (1 + h * (N - i%:R)).
Definition Rec (i : nat) (d : R) : R := (h * N + (N - i%:R - 1) * d) / (E * (N - i%:R)).
Definition Cap (i : nat) (d : R) : R := E * d + h * N / ((k%:R - 1) * (N - i%:R)).

Definition probabilities (d : nat -> R) : Prop := forall i, (i * k <= n)%N -> 0 <= d i <= 1.
Definition schedule_bounds (d : nat -> R) : Prop :=
  (forall i, (i * k < n)%N -> d i <= tau i) /\
  (forall i, (i.+2 * k <= n)%N -> d i.+1 <= Rec i.+1 (d i)) /\
  (forall i, (i.+1 * k < n)%N -> d i.+1 <= Cap i.+1 (d i)).
Definition increasing (d : nat -> R) : Prop := forall i, (i.+1 * k <= n)%N -> d i <= d i.+1.

Hypotheses (n0 : (0 < n)%N) (k2 : (1 < k)%N) (E1 : 1 <= E).

Lemma knz : k%:R != 0 :> R. Proof. by rewrite pnatr_eq0 -lt0n ltnW. Qed.
Lemma kpos : 0 < k%:R :> R. Proof. by rewrite ltr0n ltnW. Qed.
Lemma nnz : n%:R != 0 :> R. Proof. by rewrite pnatr_eq0 -lt0n. Qed.
Lemma npos : 0 < n%:R :> R. Proof. by rewrite ltr0n. Qed.
Lemma h0 : 0 <= h. Proof. by rewrite subr_ge0. Qed.
Lemma E0 : 0 < E. Proof. exact: lt_le_trans ltr01 E1. Qed.
Lemma Npos : 0 < N. Proof. by rewrite divr_gt0 ?npos ?kpos. Qed.
Lemma le_N i : (i%:R <= N) = (i * k <= n)%N.
Proof. by rewrite ler_pdivl_mulr ?kpos // -natrM ler_nat. Qed.
Lemma lt_N i : (i%:R < N) = (i * k < n)%N.
Proof. by rewrite ltr_pdivl_mulr ?kpos // -natrM ltr_nat. Qed.

Lemma one_drawE d x c : one_draw d x c = f (count_in x c) (d (smallest x)) / n%:R.
Proof. by rewrite /one_draw /cell /f; fieldR; split; apply/eqP; rewrite ?knz ?nnz. Qed.

Lemma one_draw_le d d' x y c :
  (one_draw d x c <= E * one_draw d' y c) = (f (count_in x c) (d (smallest x)) <= E * f (count_in y c) (d' (smallest y))).
Proof. by rewrite !one_drawE mulrA ler_pmul2r // invr_gt0 npos. Qed.

Lemma f_mono a a' d : 0 <= d -> (a <= a')%N -> f a d <= f a' d.
Proof. by move=> d0 aa; rewrite /f ler_add2l; apply: ler_right; rewrite // ler_add2r ler_nat. Qed.
Lemma f_ge0 a d : 0 <= d <= 1 -> 0 <= f a d.
Proof.
move=> /andP[d0 d1]; have -> : f a d = N * (1 - d) + a%:R * d by rewrite /f; ringR.
by apply: addr_ge0; apply: mulr_ge0; rewrite ?ler0n ?subr_ge0 ?(ltW Npos).
Qed.
Lemma f_E a d : 0 <= d <= 1 -> f a d <= E * f a d.
Proof. by move=> d01; rewrite -[X in X <= _]mul1r; apply: ler_right; rewrite ?f_ge0. Qed.
Lemma f_down a d d' : a%:R <= N -> d' <= d -> f a d <= f a d'.
Proof. by move=> aN dd; rewrite /f ler_add2l; apply: ler_wnmul2l; rewrite // subr_le0. Qed.
Lemma f_up a d d' : N <= a%:R -> d' <= d -> f a d' <= f a d.
Proof. by move=> aN dd; rewrite /f ler_add2l; apply: ler_left; rewrite // subr_ge0. Qed.

(* the three bounds without division *)
Lemma tau_iff i d : (i * k < n)%N -> (d <= tau i) = (f i.+1 d <= E * f i d).
Proof.
rewrite -lt_N => iN; have p : 0 < 1 + h * (N - i%:R).
  by apply: (lt_le_trans ltr01); rewrite ler_addl mulr_ge0 ?h0 // subr_ge0 ltW.
rewrite /tau ler_pdivl_mulr // -subr_ge0 -[RHS]subr_ge0; congr (_ <= _).
by rewrite /f natS; ringR.
Qed.
Lemma Rec_iff i d d' : (i * k < n)%N -> (d <= Rec i d') = (f i.+1 d' <= E * f i d).
Proof.
rewrite -lt_N => iN; have p : 0 < E * (N - i%:R) by rewrite mulr_gt0 ?E0 ?subr_gt0.
rewrite /Rec ler_pdivl_mulr // -subr_ge0 -[RHS]subr_ge0; congr (_ <= _).
by rewrite /f natS; ringR.
Qed.
Lemma Cap_iff i d d' : (i * k < n)%N -> (d <= Cap i d') = (f (n - k.-1 * i) d <= E * f (n - k.-1 * i) d').
Proof.
move=> iN; have iN' := iN; rewrite -lt_N in iN'.
have kk : (k.-1)%:R = k%:R - 1 :> R by rewrite -[in RHS](prednK (ltnW k2)) natS addrK.
have p : 0 < (k%:R - 1) * (N - i%:R) by rewrite mulr_gt0 ?subr_gt0 ?ltr1n.
have e : (n - k.-1 * i)%:R = N + (k%:R - 1) * (N - i%:R) :> R.
  rewrite natrB; first by rewrite natrM kk; fieldR; apply/eqP; rewrite knz.
  by rewrite mulnC; apply: leq_trans (ltnW iN); rewrite leq_mul2l leq_pred orbT.
rewrite /Cap addrC -ler_subl_addr ler_pdivl_mulr // -subr_ge0 -[RHS]subr_ge0; congr (_ <= _).
by rewrite /f e; ringR.
Qed.

Lemma step a i d : (i <= a)%N -> 0 <= d -> f i.+1 d <= E * f i d -> f a.+1 d <= E * f a d.
Proof.
move=> ia d0 hi; have := f_mono d0 ia => fa.
have s b : f b.+1 d = f b d + d by rewrite /f natS; ringR.
have e z : E * z = z + h * z by ringR.
move: hi; rewrite !s !e !ler_add2l => hi; apply: (le_trans hi).
by apply: ler_left; rewrite ?h0.
Qed.

(* two tables that differ in one record *)
Lemma moved_near (x y : table C n) u v c : moved x y u v ->
  (count_in x c <= (count_in y c).+1)%N /\ (count_in y c <= (count_in x c).+1)%N /\
  (c != u -> (count_in x c <= count_in y c)%N).
Proof.
move=> /(_ c) e; split; last split; last move=> /negbTE cu.
- by apply: leq_trans (leq_addr (c == v) _) _; rewrite e -addn1 leq_add2l leq_b1.
- by apply: leq_trans (leq_addr (c == u) _) _; rewrite -e -addn1 leq_add2l leq_b1.
- by apply: leq_trans (leq_addr (c == v) _) _; rewrite e cu addn0.
Qed.
Lemma moved_sym (x y : table C n) u v : moved x y u v -> moved y x v u.
Proof. by move=> m c; rewrite m. Qed.

Lemma not_uniform (x y : table C n) u v i : moved x y u v -> u != v -> smallest x = i -> smallest y = i -> (i * k < n)%N.
Proof.
move=> m uv ex ey; rewrite ltnNge; apply/negP => ni.
have lx c : (i <= count_in x c)%N by rewrite -ex smallest_le.
have ly c : (i <= count_in y c)%N by rewrite -ey smallest_le.
have top (z : table C n) c : (forall c, i <= count_in z c)%N -> (count_in z c <= i)%N.
  move=> lz; have := leq_trans (count_top c lz) ni.
  by rewrite mulnC -[in X in (_ <= _ * X)%N](prednK (ltnW k2)) mulnS leq_add2r.
have := m u; rewrite eqxx (negbTE uv) addn0 addn1 => e.
by have := ly u; rewrite -ltnS -e => /leq_trans/(_ (top _ _ lx)); rewrite ltnn.
Qed.

Lemma smallest_le_n (x : table C n) (c0 : C) : (smallest x * k <= n)%N.
Proof.
rewrite mulnC -[k in X in (X <= _)%N](prednK (ltnW k2)) mulSn.
have lx c : (smallest x <= count_in x c)%N by rewrite smallest_le.
by apply: leq_trans (count_top c0 lx); rewrite leq_add2r.
Qed.

(* the same smallest count *)
Lemma same_smallest d (x y : table C n) u v :
  probabilities d -> (forall i, (i * k < n)%N -> d i <= tau i) ->
  moved x y u v -> u != v -> smallest x = smallest y -> forall c, one_draw d x c <= E * one_draw d y c.
Proof.
move=> p ht m uv e c; have iN := not_uniform m uv erefl (esym e).
have /andP[d0 d1] := p _ (ltnW iN).
rewrite one_draw_le -e; have [le _] := moved_near c m.
apply: le_trans (f_mono d0 le) _; apply: (@step _ (smallest x)) => //; first by rewrite e smallest_le.
by rewrite -tau_iff //; exact: ht.
Qed.

(* x has the larger smallest count *)
Lemma other_smallest d (x y : table C n) u v :
  probabilities d -> increasing d -> schedule_bounds d ->
  moved x y u v -> u != v -> smallest x = (smallest y).+1 ->
  forall c, one_draw d x c <= E * one_draw d y c /\ one_draw d y c <= E * one_draw d x c.
Proof.
move=> p inc [ht [hr hc]] m uv; set j := smallest y => e c; rewrite !one_draw_le e -/j.
have lx c' : (j.+1 <= count_in x c')%N by rewrite -e smallest_le.
have iN : (j.+1 * k <= n)%N by rewrite -e; exact: smallest_le_n c.
have jN : (j * k < n)%N by apply: leq_trans iN; rewrite ltn_mul2r ltnSn andbT ltnW.
have d1 := p _ iN; have d2 := p _ (ltnW jN); have dd := inc _ iN.
case/andP: (d1) => d10 d11; case/andP: (d2) => d20 d21.
have iN' : j.+1%:R <= N by rewrite le_N.
have top := fun c' => count_top c' lx.
have [n1 [n2 n3]] := moved_near c m.
have cu : (c = u) -> count_in y c = j.
  move=> ->; have [w ew] := smallest_attained y u; rewrite -/j in ew.
  case: (eqVneq w u) => [<- //|/negbTE wu]; have mw := m w.
  have := lx w; rewrite ltnNge => /negP []; apply: leq_trans (leq_addr (w == v) _) _.
  by rewrite mw ew wu addn0.
(* y over x, in every cell by one argument *)
have L a : (j < a)%N -> f a.+1 (d j) <= E * f a (d j.+1).
  move=> ja; have base : f j.+2 (d j) <= E * f j.+1 (d j.+1).
    case: (leqP (j.+2 * k) n) => h2.
      by rewrite -Rec_iff; [exact: hr | apply: leq_trans h2; rewrite ltn_mul2r ltnSn andbT ltnW].
    move: iN; rewrite leq_eqVlt => /orP[/eqP|] iN2.
      have NE : N = j.+1%:R by rewrite (_ : n%:R = j.+1%:R * k%:R) ?mulfK ?knz // -natrM iN2.
      have -> : f j.+2 (d j) = N + d j by rewrite /f NE !natS; ringR.
      have -> : f j.+1 (d j.+1) = N by rewrite /f NE; ringR.
      have := ht _ jN; rewrite /tau NE natS; have -> : j%:R + 1 - j%:R = 1 :> R by ringR.
      rewrite mulr1 [1 + (E - 1)]addrC subrK ler_pdivl_mulr ?E0 // => t1.
      have -> : E * (j%:R + 1) = (j%:R + 1) + (E - 1) * (j%:R + 1) by ringR.
      rewrite ler_add2l; apply: le_trans t1; rewrite -[X in X <= _]mulr1; exact: ler_left.
    apply: (@le_trans _ _ (f j.+2 (d j.+1))); last by rewrite -tau_iff //; exact: ht.
    by apply: f_up => //; rewrite ltW // ltNge le_N -ltnNge.
  have shift b : f b.+1 (d j) = f j.+2 (d j) + (b%:R - j.+1%:R) * d j by rewrite /f !natS; ringR.
  have shift' b : f b (d j.+1) = f j.+1 (d j.+1) + (b%:R - j.+1%:R) * d j.+1 by rewrite /f !natS; ringR.
  rewrite shift shift' mulrDr ler_add // mulrCA; apply: ler_left; first by rewrite subr_ge0 ler_nat.
  by apply: (le_trans dd); rewrite -[X in X <= _]mul1r; exact: ler_right.
split; last by apply: le_trans (f_mono d20 n2) (L _ (lx c)).
(* x over y *)
case: (altP (c =P u)) => [cE|/n3 le].
  rewrite (cu cE); apply: (@le_trans _ _ (f j.+1 (d j))); last by rewrite -tau_iff //; exact: ht.
  apply: (@le_trans _ _ (f j.+1 (d j.+1))); last exact: f_down.
  by apply: f_mono => //; apply: leq_trans n1 _; rewrite (cu cE).
apply: le_trans (ler_left (ltW E0) (f_mono d20 le)).
case: (leP (count_in x c)%:R N) => aN; first by apply: le_trans (f_E _ d2); exact: f_down.
have lt : (j.+1 * k < n)%N.
  rewrite ltn_neqAle iN andbT; apply/eqP => e2; move: aN; rewrite ltNge => /negP; apply.
  have NE : N = j.+1%:R by rewrite (_ : n%:R = j.+1%:R * k%:R) ?mulfK ?knz // -natrM e2.
  rewrite NE ler_nat; have : (count_in x c + k.-1 * j.+1 <= j.+1 * k)%N by rewrite e2.
  by rewrite mulnC -[in X in (_ <= _ * X)%N -> _](prednK (ltnW k2)) mulnS leq_add2r.
have hcap := hc _ lt; rewrite Cap_iff // in hcap.
have aA : (count_in x c <= n - k.-1 * j.+1)%N.
  by rewrite leq_subRL; [rewrite addnC; exact: top | exact: leq_trans (leq_addl _ _) (top c)].
have gap (b : nat) : E * f b (d j) - f b (d j.+1) = h * N - (b%:R - N) * (d j.+1 - E * d j) by rewrite /f; ringR.
rewrite -subr_ge0 gap subr_ge0; case: (leP (d j.+1) (E * d j)) => dE.
  apply: (@le_trans _ _ 0); last by rewrite mulr_ge0 ?h0 // ltW ?Npos.
  by rewrite mulr_ge0_le0 ?subr_le0 // subr_ge0 ltW.
rewrite -subr_ge0 gap subr_ge0 in hcap; apply: le_trans hcap; apply: ler_right; first by rewrite subr_ge0 ltW.
by rewrite ler_add2r ler_nat.
Qed.

Theorem T7_private d : probabilities d -> increasing d -> schedule_bounds d -> private d.
Proof.
move=> p inc ok x y /neighbours_moved [->|[u [v [uv m]]]]; apply/H_le0 => c.
  by rewrite -[X in X <= _]mul1r; apply: ler_right => //; rewrite one_drawE divr_ge0 ?ler0n // f_ge0 // p // (smallest_le_n _ c).
have vu : v != u by rewrite eq_sym.
have near (x' y' : table C n) u' v' : moved x' y' u' v' -> (smallest x' <= (smallest y').+1)%N.
  move=> m'; have [w <-] := smallest_attained y' c; apply: leq_trans (smallest_le x' w) _.
  by case: (moved_near w m').
case: (ltngtP (smallest x) (smallest y)) => [lt|lt|e].
- have e : smallest y = (smallest x).+1 by apply/eqP; rewrite eqn_leq lt (near _ _ _ _ (moved_sym m)).
  by case: (other_smallest p inc ok (moved_sym m) vu e c).
- have e : smallest x = (smallest y).+1 by apply/eqP; rewrite eqn_leq lt (near _ _ _ _ m).
  by case: (other_smallest p inc ok m uv e c).
- by case: ok => ht _; exact: (same_smallest p ht m uv e).
Qed.

(** The schedule. *)
Fixpoint schedule (i : nat) : R :=
  if i is j.+1 then
    if (j.+1 * k == n)%N then 1
    else Num.min (Num.min 1 (tau j.+1))
                 (Num.min (if (j.+2 * k <= n)%N then Rec j.+1 (schedule j) else 1) (Cap j.+1 (schedule j)))
  else tau 0.

Lemma tau_ge0 i : (i * k < n)%N -> 0 <= tau i.
Proof.
rewrite -lt_N => iN; apply: divr_ge0; first by apply: mulr_ge0 h0 (ltW Npos).
by apply: addr_ge0 ler01 (mulr_ge0 h0 _); rewrite subr_ge0 ltW.
Qed.
(* what is possible at i is possible at i + 1, by each of the bounds *)
Lemma bounds_increase i d : (i.+1 * k < n)%N -> 0 <= d <= 1 -> d <= tau i -> [/\ d <= tau i.+1, d <= Rec i.+1 d & d <= Cap i.+1 d].
Proof.
move=> iN d01; have iN' : (i * k < n)%N by apply: ltn_trans iN; rewrite ltn_mul2r ltnSn andbT ltnW.
case/andP: (d01) => d0 d1; rewrite tau_iff // => /(step (leqnSn i) d0) s.
by rewrite tau_iff // Rec_iff // Cap_iff // f_E.
Qed.
Lemma schedule_properties i : (i * k <= n)%N ->
  0 <= schedule i <= 1 /\ ((i * k < n)%N -> schedule i <= tau i).
Proof.
elim: i => [|i IH] iN.
  have t0 := tau_ge0 (n0 : (0 * k < n)%N); split=> [|_]; last exact: lexx.
  rewrite /= t0 /tau subr0 ler_pdivr_mulr ?mul1r ?ler_addr ?ler01 //.
  by apply: (lt_le_trans ltr01); rewrite ler_addl mulr_ge0 ?h0 // ltW ?Npos.
have iN' : (i * k < n)%N by apply: leq_trans iN; rewrite ltn_mul2r ltnSn andbT ltnW.
have [d01 /(_ iN') dt] := IH (ltnW iN'); case/andP: (d01) => d0 d1.
rewrite /=; case: eqP => [e|/eqP e]; first by rewrite e ltnn ler01 lexx.
have lt : (i.+1 * k < n)%N by rewrite ltn_neqAle e.
have [s1 s2 s3] := bounds_increase lt d01 dt.
rewrite !le_minr !le_minl lexx ler01 /= tau_ge0 // (le_trans d0 s3) andbT; split=> [|_]; last by rewrite lexx !orbT.
by case: ifP => _; rewrite ?ler01 // (le_trans d0 s2).
Qed.

Theorem T7_schedule : [/\ probabilities schedule, increasing schedule & schedule_bounds schedule].
Proof.
have lower i : (i.+1 * k <= n)%N -> (i * k < n)%N by move=> h; apply: leq_trans h; rewrite ltn_mul2r ltnSn andbT ltnW.
split=> [i iN|i iN|]; first by case: (schedule_properties iN).
  have iN' := lower _ iN; have [d01 /(_ iN') dt] := schedule_properties (ltnW iN'); case/andP: (d01) => d0 d1.
  rewrite [X in _ <= X]/=; case: eqP => [//|/eqP e].
  have lt : (i.+1 * k < n)%N by rewrite ltn_neqAle e.
  have [s1 s2 s3] := bounds_increase lt d01 dt.
  by rewrite !le_minr d1 s1 s3 !andbT /=; case: (i.+2 * k <= n)%N.
split; [|split] => i iN.
- by case: (schedule_properties (ltnW iN)) => _; exact.
- have iN' : (i.+1 * k < n)%N := lower _ iN.
  by rewrite [X in X <= _]/= (ltn_eqF iN') iN !le_minl lexx /= !orbT.
- by rewrite [X in X <= _]/= (ltn_eqF iN) !le_minl lexx !orbT.
Qed.

(** No private schedule has a smaller probability of obscuring, at any smallest count. *)
Lemma extreme_table i (w : C) : (i * k <= n)%N ->
  exists x : table C n, forall c, count_in x c = if c == w then (n - k.-1 * i)%N else i.
Proof.
move=> iN; apply: table_with_counts; rewrite (bigD1 w) //= eqxx.
rewrite (eq_bigr (fun=> i)) => [|c /negbTE -> //]; rewrite sum_nat_const cardC1 subnK //.
by apply: leq_trans iN; rewrite mulnC leq_mul2l leq_pred orbT.
Qed.

Theorem T7_least d : (2 < k)%N -> probabilities d -> private d -> forall i, (i * k <= n)%N -> d i <= schedule i.
Proof.
move=> k3 p pr; have /card_gt2P [u [v [w [_ [uv vw wu]]]]] := k3.
have lower i : (i.+1 * k <= n)%N -> (i * k < n)%N by move=> h; apply: leq_trans h; rewrite ltn_mul2r ltnSn andbT ltnW.
have top i : (i * k <= n)%N -> (i <= n - k.-1 * i)%N.
  move=> iN; rewrite leq_subRL; first by rewrite addnC -mulSn (prednK (ltnW k2)) mulnC.
  by apply: leq_trans iN; rewrite mulnC leq_mul2l leq_pred orbT.
have at_tau i : (i * k < n)%N -> d i <= tau i.
  move=> iN; have [x cx] := extreme_table w (ltnW iN).
  have tx : (i < n - k.-1 * i)%N by rewrite ltn_subRL addnC -mulSn (prednK (ltnW k2)) mulnC.
  have [|y [xy m]] := @move_record _ _ x w u; first by rewrite cx eqxx (leq_ltn_trans _ tx).
  have sx : smallest x = i.
    by apply: (@smallest_is _ _ _ _ u) => [c|]; rewrite cx; [case: ifP => // _; exact: ltnW | rewrite eq_sym (negbTE wu)].
  have cu : count_in y u = i.+1.
    by have := m u; rewrite eqxx cx eq_sym (negbTE wu) addn0 addn1.
  have sy : smallest y = i.
    apply: (@smallest_is _ _ _ _ v) => [c|]; last first.
      by have := m v; rewrite cx (negbTE vw) eq_sym (negbTE uv) !addn0.
    have := m c; rewrite cx; case: (altP (c =P w)) => [->|cw].
      by rewrite (negbTE wu) addn0 addn1 => e; rewrite -ltnS -e.
    by rewrite addn0 => <-; exact: leq_addr.
  have := pr y x _ ; rewrite /neighbours replacedC => /(_ xy) /H_le0 /(_ u).
  by rewrite one_draw_le sx sy cu cx eq_sym (negbTE wu) -tau_iff.
have at_step i : (i.+1 * k <= n)%N ->
    f i.+2 (d i) <= E * f i.+1 (d i.+1) /\ f (n - k.-1 * i.+1) (d i.+1) <= E * f (n - k.-1 * i.+1) (d i).
  move=> iN; have [x cx] := extreme_table w iN.
  have [|y [xy m]] := @move_record _ _ x u v; first by rewrite cx eq_sym (negbTE wu).
  have sx : smallest x = i.+1.
    by apply: (@smallest_is _ _ _ _ u) => [c|]; rewrite cx; [case: ifP => // _; exact: top | rewrite eq_sym (negbTE wu)].
  have cu : count_in y u = i.
    by apply/eqP; rewrite -eqSS -addn1; have := m u; rewrite eqxx (negbTE uv) addn0 cx eq_sym (negbTE wu) => <-.
  have cv : count_in y v = i.+2.
    by have := m v; rewrite eqxx [v == u]eq_sym (negbTE uv) addn0 cx (negbTE vw) addn1.
  have cw : count_in y w = (n - k.-1 * i.+1)%N.
    by have := m w; rewrite cx eqxx (negbTE wu) [w == v]eq_sym (negbTE vw) !addn0.
  have sy : smallest y = i.
    apply: (@smallest_is _ _ _ _ u) => // c; have := moved_near c m; rewrite cx => -[h _].
    by rewrite -ltnS; apply: leq_trans h; case: ifP => // _; exact: top.
  have yx : neighbours 1 y x by rewrite /neighbours replacedC.
  have := pr _ _ yx => /H_le0 /(_ v); rewrite one_draw_le sx sy cv cx (negbTE vw) => h1.
  by have := pr _ _ xy => /H_le0 /(_ w); rewrite one_draw_le sx sy cw cx eqxx.
elim=> [|i IH] iN; first exact: (at_tau 0%N n0).
have iN' := lower _ iN; have ds := IH (ltnW iN').
have /andP[_ d1] := p _ iN; rewrite [X in _ <= X]/=; case: eqP => [//|/eqP e].
have lt : (i.+1 * k < n)%N by rewrite ltn_neqAle e.
have [h1 h2] := at_step i iN; rewrite !le_minr d1 at_tau //=; apply/andP; split.
  case: ifP => // i2; rewrite Rec_iff //; apply: le_trans h1; apply: f_down ds; by rewrite le_N.
rewrite -Cap_iff // in h2; apply: (le_trans h2); rewrite /Cap ler_add2r; exact: ler_left (ltW E0) ds.
Qed.
End T7.
