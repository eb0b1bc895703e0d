(** * T7: data-specific Reveal-or-Obscure
  docs/theory/data-specific-reveal-or-obscure.md.

  *A public finite domain has k >= 2 cells, the table n records, N = n/k. With i the smallest count of a cell, a draw is
  uniform on the cells with probability q_i, and otherwise a uniformly chosen record. d_i = 1 - q_i, E = e^epsilon,
  h = E - 1. A cell of a records has the probability f(a, d_i)/n, where f(a, d) = N + (a - N) d* ([one_drawE]).
  *For k >= 3, a schedule with 0 <= d_(i-1) <= d_i <= 1, d_i <= tau_i, d_i <= R_i(d_(i-1)) for i <= N - 1, and
  d_i <= C_i(d_(i-1)) for i < N, makes one draw epsilon-differentially private. The schedule of the page has these
  properties, and every private schedule has d_i at most as large: its q_i are the least at every smallest count at once.*

  - [T7_private], [T7_schedule], [T7_least]: these three sentences, the first two also for k = 2.
  - [T7_necessary]: *each bound is the condition for one cell of one existing pair, so every private schedule satisfies it.*

  *For k = 2 let pi_i = f(i, d_i)/n be the smaller cell's probability and M = floor(n/2). The schedule is pi_M = 1/2 for n
  even, max(M/n, 1/(1 + E)) for n odd, and pi_i = max(i/n, e^(-epsilon) pi_(i+1)). The same holds for it.*

  - [T7_two_private], [T7_two_least].

  *m draws have m times the pure epsilon. If one draw has total variation s and pure epsilon lambda, the profile of m draws
  for one record is at most that of m draws of the pair of T5 with this s and b = s/(e^lambda - 1). For a group of g
  replace them by min(gs, tanh(g lambda/2)) and g lambda.*

  - [T7_draws_pure], [T7_draws] and [T7_third] (the third outcome is not negative), [T7_groups]: for every mechanism on
    tables that releases one cell, among them [one_draw d].

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
  | schedule i                 | the schedule of the page for k >= 3                                         |
  | least_two i                | pi_i of the page's schedule for k = 2; [schedule_two] is its d_i            |
  | L                          | e^lambda; (L^g - 1)/(L^g + 1) = tanh(g lambda/2)                            | *)
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

Theorem T7_necessary d : (2 < k)%N -> probabilities d -> private d -> schedule_bounds d.
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
split; [exact: at_tau | split] => i iN.
  have lt : (i.+1 * k < n)%N by apply: leq_trans iN; rewrite ltn_mul2r ltnSn andbT ltnW.
  by rewrite Rec_iff //; case: (at_step i (ltnW lt)).
by rewrite Cap_iff //; case: (at_step i (ltnW iN)).
Qed.

Theorem T7_least d : (2 < k)%N -> probabilities d -> private d -> forall i, (i * k <= n)%N -> d i <= schedule i.
Proof.
move=> k3 p pr; have [ht [hr hc]] := T7_necessary k3 p pr.
elim=> [|i IH] iN; first exact: (ht 0%N n0).
have iN' : (i * k < n)%N by apply: leq_trans iN; rewrite ltn_mul2r ltnSn andbT ltnW.
have ds := IH (ltnW iN'); have /andP[_ d1] := p _ iN; rewrite [X in _ <= X]/=; case: eqP => [//|/eqP e].
have lt : (i.+1 * k < n)%N by rewrite ltn_neqAle e.
rewrite !le_minr d1 ht //=; apply/andP; split.
  case: ifP => // i2; have := hr i i2; rewrite !Rec_iff // => h1; apply: le_trans h1.
  by apply: f_down ds; rewrite le_N.
by apply: (le_trans (hc i lt)); rewrite /Cap ler_add2r; exact: ler_left (ltW E0) ds.
Qed.
End T7.

(** ** Two cells *)
Section TwoCells.
Variable R : realFieldType.
Add Field field_R : (field_laws R).
Ltac ringR := to_field R; ring.
Ltac fieldR := to_field R; field; of_field.
Variables (C : finType) (n : nat) (E : R).
Hypotheses (n0 : (0 < n)%N) (k2 : #|C| = 2%N) (E1 : 1 <= E).
Notation M := n./2.

(** pi_(M - j) of the page, and the schedule with these probabilities of the smaller cell. *)
Fixpoint least_down (j : nat) : R :=
  if j is j'.+1 then Num.max ((M - j'.+1)%N%:R / n%:R) (least_down j' / E)
  else if odd n then Num.max (M%:R / n%:R) (1 / (1 + E)) else 2%:R^-1.
Definition least_two (i : nat) : R := least_down (M - i).
Definition schedule_two (i : nat) : R :=
  if (i * 2 == n)%N then 1 else (2%:R^-1 - least_two i) / (2%:R^-1 - i%:R / n%:R).

Lemma two_neq0 : (2%:R : R) != 0. Proof. by rewrite pnatr_eq0. Qed.
Lemma one_halves : (1 : R) = 2%:R^-1 + 2%:R^-1.
Proof. by rewrite -mulr2n -[RHS]mulr_natr mulVf ?two_neq0. Qed.
Lemma n_pos : 0 < n%:R :> R. Proof. by rewrite ltr0n. Qed.
Lemma E_pos : 0 < E. Proof. exact: lt_le_trans ltr01 E1. Qed.
Lemma half_ge0 : 0 <= 2%:R^-1 :> R. Proof. by rewrite invr_ge0 ler0n. Qed.
Lemma share_half i : (i * 2 <= n)%N -> i%:R / n%:R <= 2%:R^-1 :> R.
Proof. by move=> h; rewrite ler_pdivr_mulr ?n_pos // mulrC ler_pdivl_mulr ?ltr0n // -natrM ler_nat. Qed.
Lemma half_le i : (i <= M)%N = (i * 2 <= n)%N.
Proof. by rewrite -[in RHS](odd_double_half n) muln2; case: (odd n); rewrite ?add0n ?leq_double // add1n leq_Sdouble. Qed.

Lemma least_two_step i : (i < M)%N -> least_two i = Num.max (i%:R / n%:R) (least_two i.+1 / E).
Proof. by move=> h; rewrite /least_two subnS -(prednK (_ : 0 < M - i)%N) ?subn_gt0 //= prednK ?subn_gt0 // subKn // ltnW. Qed.
Lemma least_two_range i : (i <= M)%N -> i%:R / n%:R <= least_two i /\ least_two i <= 2%:R^-1.
Proof.
move=> iM; rewrite -[in X in X%:R / _ <= _](subKn iM) /least_two; elim: (M - i)%N => [|j [_ h2]] /=.
  rewrite subn0; case: (odd n); last by rewrite lexx share_half // -half_le.
  rewrite le_maxr lexx; split=> //; rewrite le_maxl share_half -?half_le //= mul1r lef_pinv ?posrE ?ltr0n //.
    by rewrite -[2%:R]/(1 + 1 : R) ler_add2l.
  by rewrite addr_gt0 ?ltr01 ?E_pos.
rewrite le_maxr lexx; split=> //; rewrite le_maxl share_half -?half_le ?leq_subr //=.
rewrite ler_pdivr_mulr ?E_pos //; apply: (le_trans h2).
by rewrite -[X in X <= _]mulr1; apply: ler_left; rewrite ?half_ge0.
Qed.

Notation N := (n%:R / #|C|%:R : R).
Definition cell_two (d : nat -> R) (a : nat) : R := f C n a (d (minn a (n - a))) / n%:R.
Lemma N_half : N / n%:R = 2%:R^-1.
Proof. by rewrite k2 mulrAC divff ?lt0r_neq0 ?n_pos // mul1r. Qed.
Lemma f_share a (d : R) : f C n a d / n%:R = 2%:R^-1 + (a%:R / n%:R - 2%:R^-1) * d.
Proof. by rewrite -!N_half /f; ringR. Qed.

Lemma counts_two (x : table C n) : exists r : C -> C, forall c, [/\ r c != c, count_in x (r c) = (n - count_in x c)%N & forall e, e = c \/ e = r c].
Proof.
have other (c : C) : exists r, r != c /\ forall e, e = c \/ e = r.
  have /card1P [r hr] : #|predC1 c| == 1%N by rewrite cardC1 k2.
  exists r; split; first by have := hr r; rewrite !inE eqxx.
  move=> e; have := hr e; rewrite !inE; case: (altP (e =P c)) => [->|_] /=; first by left.
  by move/esym/eqP; right.
have ex (c : C) : exists r, r != c.
  by have [r [h _]] := other c; exists r.
exists (fun c => xchoose (ex c)) => c; have rc := xchooseP (ex c); set r := xchoose _ in rc *.
have all e : e = c \/ e = r.
  have [r' [h hr]] := other c; case: (hr e) => ->; first by left.
  by case: (hr r) => e'; [move: rc; rewrite e' eqxx | right].
split=> //; have := sum_count x; rewrite (bigD1 c) //= (bigD1 r) //= big1 => [|e /andP[ec er]].
  by rewrite addn0 => e; rewrite -[X in (X - _)%N]e addKn.
by case: (all e) => h; [move: ec | move: er]; rewrite h eqxx.
Qed.

Lemma smallest_two (x : table C n) c : smallest x = minn (count_in x c) (n - count_in x c).
Proof.
have [r /(_ c) [rc cr all]] := counts_two x.
case: (leqP (count_in x c) (n - count_in x c)) => h.
  apply: (@smallest_is _ _ _ _ c) => // e.
  by case: (all e) => ->; rewrite ?cr.
apply: (@smallest_is _ _ _ _ (r c)) => // e.
by case: (all e) => ->; rewrite ?cr // ltnW.
Qed.

Lemma one_draw_two d (x : table C n) c : one_draw d x c = cell_two d (count_in x c).
Proof. by rewrite one_drawE ?k2 // /cell_two (smallest_two x c). Qed.

Lemma two_cells : exists c r : C, r != c /\ forall F : C -> nat, (\sum_e F e = F c + F r)%N.
Proof.
have [c _] : exists c : C, true by have /card_gt0P [c _] : (0 < #|C|)%N; [rewrite k2 | exists c].
have /card1P [r hr] : #|predC1 c| == 1%N by rewrite cardC1 k2.
have rc : r != c by have := hr r; rewrite !inE eqxx.
exists c, r; split=> // F; rewrite (bigD1 c) //= (bigD1 r) //= big1 ?addn0 // => e /andP[ec er].
by have := hr e; rewrite !inE ec (negbTE er).
Qed.

(* privacy is a matter of neighbouring counts of one cell *)
Lemma private_two d : probabilities C n d -> (private C n E d <->
  forall a, (a < n)%N -> cell_two d a.+1 <= E * cell_two d a /\ cell_two d a <= E * cell_two d a.+1).
Proof.
move=> p; split=> [pr a an|st x y xy].
  have [c [r [rc sumE]]] := two_cells.
  have [|x cx] := table_with_counts (N := fun e : C => if e == c then a.+1 else (n - a.+1)%N) (n := n).
    by rewrite sumE eqxx (negbTE rc) subnKC.
  have [|y [xy m]] := @move_record _ _ x c r; first by rewrite cx eqxx.
  have cy : count_in y c = a.
    by have := m c; rewrite cx eqxx [c == r]eq_sym (negbTE rc) addn0 addn1 => -[].
  have yx : neighbours 1 y x by rewrite /neighbours replacedC.
  have := pr x y xy => /H_le0 /(_ c); rewrite !one_draw_two cx eqxx cy => h.
  by have := pr y x yx => /H_le0 /(_ c); rewrite !one_draw_two cx eqxx cy.
apply/H_le0 => c; rewrite !one_draw_two.
have near a : (a <= n)%N -> cell_two d a <= E * cell_two d a.
  move=> an; rewrite -[X in X <= _]mul1r; apply: ler_right => //.
  apply: divr_ge0; rewrite ?ler0n //; apply: f_ge0; rewrite ?k2 //; apply: p.
  by rewrite k2 muln2 -addnn -[X in (_ <= X)%N](subnKC an) leq_add // ?geq_minl ?geq_minr.
case: (neighbours_moved xy) => [->|[u [v [_ m]]]]; first by apply: near; exact: count_le.
have [l1 [l2 _]] := moved_near c m.
case: (ltngtP (count_in x c) (count_in y c)) => [lt|lt|->]; last by apply: near; exact: count_le.
  have e : count_in y c = (count_in x c).+1 by apply/eqP; rewrite eqn_leq lt l2.
  by rewrite e; case: (st (count_in x c)) => //; rewrite -e count_le.
have e : count_in x c = (count_in y c).+1 by apply/eqP; rewrite eqn_leq lt l1.
by rewrite e; case: (st (count_in y c)) => //; rewrite -e count_le.
Qed.

(* the smaller cell has pi, the larger 1 - pi *)
Lemma small_le i : (i * 2 <= n)%N -> (i <= n)%N /\ (i <= n - i)%N.
Proof.
rewrite muln2 -addnn => h; have le : (i <= n)%N by apply: leq_trans h; rewrite leq_addr.
by split=> //; rewrite leq_subRL.
Qed.
Lemma cell_small d i : (i * 2 <= n)%N -> cell_two d i = 2%:R^-1 - (2%:R^-1 - i%:R / n%:R) * d i.
Proof. by move=> /small_le [_ /minn_idPl h]; rewrite /cell_two h f_share; ringR. Qed.
Lemma cell_large d i : (i * 2 <= n)%N -> cell_two d (n - i) = 1 - cell_two d i.
Proof.
move=> /small_le [le /minn_idPl h]; rewrite /cell_two subKn // minnC h !f_share natrB // mulrBl divff ?lt0r_neq0 ?n_pos //.
have gen (x z w : R) : 1 = x + x -> x + (1 - z - x) * w = 1 - (x + (z - x) * w) by move=> ->; ringR.
exact: gen one_halves.
Qed.

(* the inequalities that are left *)
Lemma steps_two d (P : nat -> R) :
  (forall i, (i * 2 <= n)%N -> cell_two d i = P i) ->
  (forall i, (i.+1 * 2 <= n)%N -> P i.+1 <= E * P i /\ P i <= E * P i.+1) ->
  (forall i, (i.+1 * 2 <= n)%N -> 1 - P i.+1 <= E * (1 - P i) /\ 1 - P i <= E * (1 - P i.+1)) ->
  (odd n -> P M <= E * (1 - P M) /\ 1 - P M <= E * P M) ->
  forall a, (a < n)%N -> cell_two d a.+1 <= E * cell_two d a /\ cell_two d a <= E * cell_two d a.+1.
Proof.
move=> cE h1 h2 h3 a an; have oh := odd_double_half n.
case: (leqP (a.+1 * 2) n) => ha.
  have ha' : (a * 2 <= n)%N by apply: leq_trans ha; rewrite leq_mul2r leqnSn orbT.
  by rewrite !cE //; exact: h1.
case: (leqP n (a * 2)) => hb.
  have aE : a = (n - (n - a.+1).+1)%N by rewrite -subSn // subSS subKn // ltnW.
  have aE' : a.+1 = (n - (n - a.+1))%N by rewrite subKn.
  have hi : ((n - a.+1).+1 * 2 <= n)%N.
    by rewrite -subSn // subSS mulnBl leq_subLR muln2 -addnn leq_add2r.
  have hi' : ((n - a.+1) * 2 <= n)%N by apply: leq_trans hi; rewrite leq_mul2r leqnSn orbT.
  have -> : cell_two d a = 1 - P (n - a.+1).+1 by rewrite -cE // -cell_large // -aE.
  have -> : cell_two d a.+1 = 1 - P (n - a.+1)%N by rewrite -cE // -cell_large // -aE'.
  by case: (h2 _ hi).
have e : (a * 2).+1 = n by apply/eqP; rewrite eqn_leq hb -ltnS; move: ha; rewrite mulSn add2n.
have aM : a = M by rewrite -e muln2 -add1n halfD odd_double /= doubleK.
have od : odd n by rewrite -e muln2 /= odd_double.
have aE' : a.+1 = (n - a)%N by rewrite -e muln2 -addnn -addSn addnK.
by rewrite aE' cell_large ?cE -?aM //; [case: (h3 od); rewrite -aM | exact: ltnW hb | exact: ltnW hb].
Qed.

Lemma half_le1 : 2%:R^-1 <= 1 :> R. Proof. by rewrite invf_le1 ?ltr0n // ler1n. Qed.
Lemma grow (x y : R) : 0 <= y -> x <= y -> x <= E * y.
Proof. by move=> y0 xy; apply: (le_trans xy); rewrite -[X in X <= _]mul1r; exact: ler_right. Qed.
Lemma least_two_facts i : (i.+1 * 2 <= n)%N ->
  [/\ 0 <= least_two i, least_two i <= least_two i.+1, least_two i.+1 <= E * least_two i & least_two i.+1 <= 2%:R^-1].
Proof.
move=> hi; have hM : (i < M)%N by rewrite half_le.
have [h1 h2] := least_two_range hM; have [h3 h4] := least_two_range (ltnW hM).
split=> //; first by apply: le_trans h3; rewrite divr_ge0 ?ler0n.
  rewrite (least_two_step hM) le_maxl; apply/andP; split.
    by apply: le_trans h1; rewrite ler_pmul2r ?invr_gt0 ?n_pos // ler_nat.
  rewrite ler_pdivr_mulr ?E_pos // -[X in X <= _]mulr1; apply: ler_left => //.
  by apply: le_trans h1; rewrite divr_ge0 ?ler0n.
by rewrite (least_two_step hM) -ler_pdivr_mull ?E_pos // le_maxr mulrC lexx orbT.
Qed.

Theorem T7_two_private : probabilities C n schedule_two /\ private C n E schedule_two.
Proof.
have range i : (i * 2 <= n)%N -> i%:R / n%:R <= least_two i /\ least_two i <= 2%:R^-1.
  by rewrite -half_le; exact: least_two_range.
have lower i : (i.+1 * 2 <= n)%N -> (i * 2 <= n)%N by move=> h; apply: leq_trans h; rewrite leq_mul2r leqnSn orbT.
have p : probabilities C n schedule_two.
  move=> i; rewrite k2 => hi; have [h1 h2] := range i hi; rewrite /schedule_two; case: eqP => [_|/eqP ne]; first by rewrite ler01 lexx.
  have lt : i%:R / n%:R < 2%:R^-1 :> R.
    by rewrite ltr_pdivr_mulr ?n_pos // mulrC ltr_pdivl_mulr ?ltr0n // -natrM ltr_nat ltn_neqAle ne.
  rewrite divr_ge0 ?subr_ge0 // ?(ltW lt) //= ler_pdivr_mulr ?subr_gt0 // mul1r.
  by rewrite ler_add2l ler_opp2.
split=> //; apply/(private_two p); apply: (@steps_two _ least_two) => [i hi|i hi|i hi|od].
- rewrite cell_small // /schedule_two; have [h1 h2] := range i hi.
  case: eqP => [e|/eqP ne].
    have ie : i%:R / n%:R = 2%:R^-1 :> R.
      have nE : n%:R = i%:R * 2%:R :> R by rewrite -natrM e.
      have i0 : i%:R != 0 :> R by apply/eqP => i0; move: (lt0r_neq0 n_pos); rewrite nE i0 mul0r eqxx.
      by rewrite nE invfM mulrA divff ?mul1r.
    by rewrite ie subrr mul0r subr0; apply/eqP; rewrite eq_le h2 -ie h1.
  have lt : 2%:R^-1 - i%:R / n%:R != 0 :> R.
    rewrite subr_eq0 eq_sym lt_eqF // ltr_pdivr_mulr ?n_pos // mulrC ltr_pdivl_mulr ?ltr0n // -natrM ltr_nat.
    by rewrite ltn_neqAle ne.
  by rewrite [_ * (_ / _)]mulrC divfK // opprB addrC subrK.
- by have [P0 up st half] := least_two_facts hi; split=> //; exact: grow (le_trans P0 up) up.
- have [P0 up st half] := least_two_facts hi; split.
    by apply: grow; rewrite ?subr_ge0 ?ler_add2l ?ler_opp2 //; exact: le_trans (le_trans up half) half_le1.
  rewrite -(ler_pmul2l E_pos) -subr_ge0.
  apply: (@le_trans _ _ ((E - 1) * (E - least_two i.+1 * (E + 1)))).
    apply: mulr_ge0; rewrite subr_ge0 //; apply: (@le_trans _ _ (2%:R^-1 * (E + 1))).
      by apply: ler_right => //; rewrite addr_ge0 ?ler01 // ltW ?E_pos.
    by rewrite mulrC ler_pdivr_mulr ?ltr0n // [2%:R]/(1 + 1) mulrDr mulr1 ler_add2l.
  rewrite -subr_ge0; have -> : E * (E * (1 - least_two i.+1)) - E * (1 - least_two i) -
     (E - 1) * (E - least_two i.+1 * (E + 1)) = E * least_two i - least_two i.+1 by ringR.
  by rewrite subr_ge0.
have [h1 h2] := @least_two_range M (leqnn _).
have hr : 2%:R^-1 <= 1 - least_two M.
  by rewrite ler_subr_addl; apply: le_trans (ler_add h2 (lexx _)) _; rewrite -one_halves.
have h3 : 1 <= (1 + E) * least_two M.
  have pE : 0 < 1 + E by rewrite addr_gt0 ?ltr01 ?E_pos.
  by rewrite mulrC -ler_pdivr_mulr // /least_two subnn /= od le_maxr lexx orbT.
split; first by apply: grow (le_trans h2 hr); apply: le_trans half_ge0 hr.
by move: h3; rewrite mulrDl mul1r -ler_subl_addl.
Qed.

Theorem T7_two_least d : probabilities C n d -> private C n E d -> forall i, (i * 2 <= n)%N -> d i <= schedule_two i.
Proof.
move=> p pr; have st := (private_two p).1 pr.
have share i : (i * 2 <= n)%N -> i%:R / n%:R <= cell_two d i.
  move=> hi; have /andP[_ d1] : 0 <= d i <= 1 by apply: p; rewrite k2.
  rewrite cell_small // ler_subr_addl -ler_subr_addr -[X in _ <= X]mulr1; apply: ler_left => //.
  by rewrite subr_ge0 share_half.
have oh := odd_double_half n.
have low i : (i <= M)%N -> least_two i <= cell_two d i.
  move=> iM; rewrite -(subKn iM); elim: (M - i)%N (leq_subr i M) => [_|j IH jM].
    rewrite subn0 /least_two subnn /=; have hM : (M * 2 <= n)%N by rewrite -half_le.
    case: ifP => od.
      rewrite le_maxl share //=; have pE : 0 < 1 + E by rewrite addr_gt0 ?ltr01 ?E_pos.
      have aM : M.+1 = (n - M)%N by rewrite -[n in (n - _)%N]oh od -addnn addnA addnK.
      have [|h _] := st M; first by rewrite -[X in (_ < X)%N]oh od -addnn add1n ltnS leq_addr.
      move: h; rewrite aM cell_large // ler_subl_addl => h.
      by rewrite ler_pdivr_mulr // mulrC mulrDl mul1r.
    have e : (M * 2)%N = n by rewrite muln2 -[RHS]oh od.
    have nE : n%:R = M%:R * 2%:R :> R by rewrite -natrM e.
    have M0 : M%:R != 0 :> R by apply/eqP => i0; move: (lt0r_neq0 n_pos); rewrite nE i0 mul0r eqxx.
    have h2 : 2%:R^-1 = M%:R / n%:R :> R by rewrite nE invfM mulrA divff ?mul1r.
    by rewrite {1}h2 share.
  have lt : (M - j.+1 < M)%N by rewrite ltn_subrL (leq_ltn_trans _ jM).
  have e : (M - j.+1).+1 = (M - j)%N by rewrite -subSn // subSS.
  rewrite (least_two_step lt) le_maxl share -?half_le ?leq_subr //= ler_pdivr_mulr ?E_pos // mulrC e.
  apply: le_trans (IH (ltnW jM)) _; rewrite -e; have [] // := st (M - j.+1)%N.
  by apply: (leq_trans lt); rewrite -[X in (_ <= X)%N]oh -addnn addnA leq_addl.
move=> i hi; have iM : (i <= M)%N by rewrite half_le.
have /andP[_ d1] : 0 <= d i <= 1 by apply: p; rewrite k2.
rewrite /schedule_two; case: eqP => [//|/eqP ne].
have pos' : 0 < 2%:R^-1 - i%:R / n%:R :> R.
  by rewrite subr_gt0 ltr_pdivr_mulr ?n_pos // mulrC ltr_pdivl_mulr ?ltr0n // -natrM ltr_nat ltn_neqAle ne.
by rewrite ler_pdivl_mulr // ler_subr_addl -ler_subr_addr mulrC -cell_small // low.
Qed.
End TwoCells.

(** ** Several draws *)
Section SeveralDraws.
Variable R : realFieldType.
Add Field field_R : (field_laws R).
Ltac ringR := to_field R; ring.
Ltac fieldR := to_field R; field; of_field.
Variables (C : finType) (n m : nat) (M : table C n -> C -> R).
Hypothesis kM : kernel M.
Definition release (x : table C n) : {ffun 'I_m -> C} -> R := draws m (M x).

Theorem T7_draws_pure g L : 0 <= L -> bounds (@neighbours C n g) M L 0 -> bounds (@neighbours C n g) release (L ^+ m) 0.
Proof.
move=> L0 pr x y xy; have /H_le0 le := pr x y xy; apply/H_le0 => o.
have -> : L ^+ m = \prod_(i < m) L by rewrite prodr_const card_ord.
rewrite /release /draws -big_split; apply: ler_prod => i _ /=.
by rewrite le andbT; case: (kM x).
Qed.

Lemma in_common (P Q : C -> R) L c : 1 < L -> (forall c, P c <= L * Q c) -> (forall c, Q c <= L * P c) ->
  pos (P c - Q c) + pos (Q c - P c) <= (L - 1) * (P c - pos (P c - Q c)).
Proof.
move=> L1 pq qp; case: (leP (Q c) (P c)) => h.
  rewrite [pos (P c - _)]pos_id ?subr_ge0 // pos_0 ?subr_le0 // addr0 subKr.
  by rewrite mulrBl mul1r ler_add2r.
rewrite pos_0 ?subr_le0 ?(ltW h) // add0r pos_id ?subr_ge0 ?(ltW h) // subr0.
by rewrite mulrBl mul1r ler_add2r.
Qed.
(* what one law has in common with another, summed *)
Lemma variation (P Q : C -> R) L : 1 < L -> law P -> law Q -> (forall c, P c <= L * Q c) -> (forall c, Q c <= L * P c) ->
  H 1 P Q * (L + 1) <= L - 1.
Proof.
move=> L1 [_ p1] [_ q1] pq qp.
have e1 : H 1 P Q = \sum_c pos (P c - Q c) by apply: eq_bigr => c _; rewrite mul1r.
have e2 : \sum_c pos (Q c - P c) = H 1 P Q.
  rewrite e1 [RHS](eq_bigr (fun c => P c - Q c + pos (Q c - P c))) => [|c _]; last by rewrite pos_opp opprB.
  by rewrite big_split /= sumrB p1 q1 subrr add0r.
have : \sum_c (pos (P c - Q c) + pos (Q c - P c)) <= \sum_c (L - 1) * (P c - pos (P c - Q c)).
  by apply: ler_sum => c _; exact: in_common.
rewrite big_split /= -mulr_sumr sumrB p1 e2 -e1 => h.
have -> : H 1 P Q * (L + 1) = H 1 P Q + H 1 P Q + (L - 1) * H 1 P Q by ringR.
by move: h; rewrite mulrBr mulr1 ler_subr_addr.
Qed.

Lemma by_variation s L t x y : 1 < L -> 0 <= s -> H 1 (M x) (M y) <= s ->
  (forall c, M x c <= L * M y c) -> (forall c, M y c <= L * M x c) ->
  H t (release x) (release y) <= H t (draws m (P3 (s / (L - 1)) s)) (draws m (Q3 (s / (L - 1)) s)).
Proof.
move=> L1 s0 hs pq qp; have L1' : 0 < L - 1 by rewrite subr_gt0.
have [||K [kK [ex ey]]] := @three_outcomes R (s / (L - 1)) s s0 C _ _ (kM x) (kM y).
- by apply: le_trans hs; rewrite le_eqVlt; apply/orP; left; apply/eqP; apply: eq_bigr => c _; rewrite mul1r.
- move=> c; rewrite -mulrA; apply: ler_left => //; rewrite mulrC ler_pdivr_mulr // mulrC.
  exact: in_common.
rewrite /release (H_ext t (draws_ext ex) (draws_ext ey)); exact: draws_processing.
Qed.

Theorem T7_draws s L t : 1 < L -> exact (@neighbours C n 1) M 1 s -> bounds (@neighbours C n 1) M L 0 ->
  bounds (@neighbours C n 1) release t (H t (draws m (P3 (s / (L - 1)) s)) (draws m (Q3 (s / (L - 1)) s))).
Proof.
move=> L1 [tv [x0 [y0 [_ es]]]] pr x y xy.
have yx : neighbours 1 y x by rewrite /neighbours replacedC.
apply: by_variation; rewrite // ?tv // -?es ?H_ge0 //; [exact/H_le0/pr | exact/H_le0/pr].
Qed.
Theorem T7_third s L : 1 < L -> attains (@neighbours C n 1) M 1 s -> bounds (@neighbours C n 1) M L 0 ->
  0 <= 1 - s / (L - 1) - s / (L - 1) - s.
Proof.
move=> L1 [x [y [xy es]]] pr; have yx : neighbours 1 y x by rewrite /neighbours replacedC.
have L1' : 0 < L - 1 by rewrite subr_gt0.
have := variation L1 (kM x) (kM y) ((H_le0 _ _ _).1 (pr x y xy)) ((H_le0 _ _ _).1 (pr y x yx)).
rewrite es => h; rewrite -(pmulr_rge0 _ L1').
have -> : (L - 1) * (1 - s / (L - 1) - s / (L - 1) - s) = (L - 1) - s * (L + 1) by fieldR; apply/eqP; rewrite lt0r_neq0.
by rewrite subr_ge0.
Qed.

(** Groups: total variations and pure epsilons add along a chain of neighbours. *)
Lemma group_variation s g x y : bounds (@neighbours C n 1) M 1 s -> neighbours g x y -> H 1 (M x) (M y) <= g%:R * s.
Proof.
move=> tv; elim: g y => [|g IH] y xy.
  have -> : x = y.
    apply/ffunP => i; apply/eqP; move: xy; rewrite /neighbours /replaced (bigD1 i) //=.
    by case: (x i == y i).
  by rewrite mul0r le_eqVlt; apply/orP; left; apply/eqP; rewrite /H big1 // => c _; rewrite mul1r subrr pos_0.
have [z [xz zy]] := one_step xy; rewrite natS mulrDl mul1r; apply: le_trans (ler_add (IH z xz) (tv z y zy)).
rewrite /H -big_split /=; apply: ler_sum => c _; apply: pos_le; last by apply: addr_ge0; exact: pos_ge0.
rewrite !mul1r; have -> : M x c - M y c = (M x c - M z c) + (M z c - M y c) by ringR.
by apply: ler_add; exact: pos_ge.
Qed.
Lemma group_pure L g x y : 0 <= L -> bounds (@neighbours C n 1) M L 0 -> neighbours g x y -> forall c, M x c <= L ^+ g * M y c.
Proof.
move=> L0 pr; elim: g y => [|g IH] y xy c.
  have -> : x = y.
    apply/ffunP => i; apply/eqP; move: xy; rewrite /neighbours /replaced (bigD1 i) //=.
    by case: (x i == y i).
  by rewrite expr0 mul1r.
have [z [xz zy]] := one_step xy; apply: (le_trans (IH z xz c)).
by rewrite exprSr -mulrA; apply: ler_left; [exact: exprn_ge0 | have /H_le0 := pr z y zy].
Qed.
Theorem T7_groups s L g t (s' := Num.min (g%:R * s) ((L ^+ g - 1) / (L ^+ g + 1))) : 1 < L -> (0 < g)%N -> 0 <= s ->
  bounds (@neighbours C n 1) M 1 s -> bounds (@neighbours C n 1) M L 0 ->
  bounds (@neighbours C n g) release t
    (H t (draws m (P3 (s' / (L ^+ g - 1)) s')) (draws m (Q3 (s' / (L ^+ g - 1)) s'))).
Proof.
move=> L1 g0 s0 tv pr x y xy; have L0 : 0 <= L by apply: le_trans (ltW L1).
have Lg : 1 < L ^+ g by rewrite exprn_egt1 // -lt0n.
have yx : neighbours g y x by rewrite /neighbours replacedC.
have p : 0 < L ^+ g + 1 by rewrite addr_gt0 ?ltr01 // (lt_trans ltr01).
have p1 := group_pure L0 pr xy; have p2 := group_pure L0 pr yx.
apply: by_variation => //.
  by rewrite le_minr mulr_ge0 ?ler0n //= divr_ge0 ?subr_ge0 ?(ltW Lg) ?(ltW p).
by rewrite le_minr group_variation //= ler_pdivl_mulr // variation.
Qed.
End SeveralDraws.
