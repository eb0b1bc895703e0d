(** * T7, its first statement: the profile of one draw
  docs/theory/data-specific-reveal-or-obscure.md.

  *For any schedule, the profile of one draw is the maximum over the types of pairs listed in the proof, two for each
  smallest count in each order.* Here for every epsilon' >= 0:

  *Same smallest count i: the cell that lost a record had i + 1 of them. Such a pair exists if k >= 3 and n > ki, or if k = 2
  and n = 2i + 1. x has i >= 1 and y has i - 1: one cell fell from
  i to i - 1, one rose from a to a + 1, and k - 2 kept their counts; the divergence is largest where all counts but one are
  i: the cell that rose has the rest, or (for k >= 3) one that kept its count has.*

  - [T7_profile]: this maximum is the profile, and neighbours attain it.

  | here                     | on the page                                                                              |
  |--------------------------|------------------------------------------------------------------------------------------|
  | t                        | e^epsilon', at least 1                                                                   |
  | d                        | the schedule, any with 0 <= d_i <= 1                                                     |
  | term o i j a c           | the positive part of one cell with a records in x and c in y, times n                    |
  | o                        | true for the order (x, y), false for (y, x)                                              |
  | top i                    | n - (k - 1) i, the rest                                                                  |
  | same i                   | the divergence of the pair with the same smallest count i                                |
  | rises o i                | that of the pair with smallest counts i and i - 1 in which the cell that rose has the rest |
  | stays o i                | that in which a cell that kept its count has the rest                                    |
  | same_exists i            | there is a pair with the same smallest count i                                           |
  | listed i                 | the largest of these that exist at i                                                     | *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions DataProcessing Arithmetic Tables ThreeOutcomes T5 T7.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Profile.
Variable R : realFieldType.
Add Field field_R : (field_laws R).
Ltac ringR := to_field R; ring.
Ltac fieldR := to_field R; field; of_field.
Variables (C : finType) (n : nat) (d : nat -> R) (t : R).
Notation k := #|C|.
Notation N := (n%:R / k%:R : R).
Notation f := (f C n).

(** One cell of a pair of tables x and y, in the order (x, y) if o, and else in the order (y, x); i and j are the smallest
    counts of x and y, a and c the counts of this cell. *)
Definition term (o : bool) (i j a c : nat) : R :=
  if o then pos (f a (d i) - t * f c (d j)) else pos (f c (d j) - t * f a (d i)).
Definition ordered (o : bool) (P Q : C -> R) : R := if o then H t P Q else H t Q P.

Definition same (i : nat) : R := term true i i i.+1 i / n%:R.
Definition top (i : nat) : nat := (n - k.-1 * i)%N.
Definition rises (o : bool) (i : nat) : R :=
  (term o i i.-1 i i.-1 + term o i i.-1 (top i) (top i).+1 + (k - 2)%N%:R * term o i i.-1 i i) / n%:R.
Definition stays (o : bool) (i : nat) : R :=
  (term o i i.-1 i i.-1 + term o i i.-1 i i.+1 + (term o i i.-1 (top i) (top i) + (k - 3)%N%:R * term o i i.-1 i i)) / n%:R.
Definition same_exists (i : nat) : bool := if (2 < k)%N then (i * k < n)%N else n == (i * 2).+1.
Definition listed (i : nat) : R :=
  Num.max (if same_exists i then same i else 0)
    (if (0 < i)%N && (i * k <= n)%N
     then Num.max (Num.max (rises true i) (rises false i))
                  (if (2 < k)%N then Num.max (stays true i) (stays false i) else 0)
     else 0).

Hypotheses (n0 : (0 < n)%N) (k2 : (1 < k)%N) (t1 : 1 <= t) (p : probabilities C n d).

Lemma pos_convex (l z w : R) : 0 <= l <= 1 -> pos ((1 - l) * z + l * w) <= (1 - l) * pos z + l * pos w.
Proof.
case/andP=> l0 l1; have m0 : 0 <= 1 - l by rewrite subr_ge0.
apply: pos_le; first by apply: ler_add; apply: ler_left (pos_ge _).
by apply: addr_ge0; apply: mulr_ge0 (pos_ge0 _).
Qed.
(* a term is convex in the count *)
Lemma chord o i j l a b e s : 0 <= l <= 1 -> a%:R = (1 - l) * b%:R + l * e%:R :> R ->
  term o i j a (a + s) <= (1 - l) * term o i j b (b + s) + l * term o i j e (e + s).
Proof.
move=> l01 ha; have fl w q : f (a + w) q = (1 - l) * f (b + w) q + l * f (e + w) q.
  by rewrite /f !natrD ha; ringR.
have f0 q : f a q = (1 - l) * f b q + l * f e q by have := fl 0%N q; rewrite !addn0.
rewrite /term; case: o; rewrite f0 fl.
  apply: le_trans (pos_convex _ _ l01); apply: pos_mono; rewrite le_eqVlt; apply/orP; left; apply/eqP; ringR.
by apply: le_trans (pos_convex _ _ l01); apply: pos_mono; rewrite le_eqVlt; apply/orP; left; apply/eqP; ringR.
Qed.
Lemma term_ge0 o i j a c : 0 <= term o i j a c.
Proof. by rewrite /term; case: o; exact: pos_ge0. Qed.

Lemma by_cell o (x y : table C n) u v : u != v -> moved x y u v ->
  ordered o (one_draw d x) (one_draw d y) =
  (term o (smallest x) (smallest y) (count_in x u) (count_in y u)
   + term o (smallest x) (smallest y) (count_in x v) (count_in y v)
   + \sum_(e | (e != u) && (e != v)) term o (smallest x) (smallest y) (count_in x e) (count_in x e)) / n%:R.
Proof.
move=> uv m; have np : 0 <= n%:R^-1 :> R by rewrite invr_ge0 ler0n.
have cellE e : (if o then pos (one_draw d x e - t * one_draw d y e) else pos (one_draw d y e - t * one_draw d x e)) =
    term o (smallest x) (smallest y) (count_in x e) (count_in y e) / n%:R.
  by rewrite !one_drawE // /term; case: o; rewrite mulrA -mulrBl mulrC posM // mulrC.
have -> : ordered o (one_draw d x) (one_draw d y) =
    \sum_e term o (smallest x) (smallest y) (count_in x e) (count_in y e) / n%:R.
  by rewrite -(eq_bigr _ (fun e _ => cellE e)) /ordered /H; case: o {cellE}.
rewrite -mulr_suml; congr (_ / _); rewrite (bigD1 u) //= (bigD1 v) 1?eq_sym //= addrA; congr (_ + _).
apply: eq_bigr => e /andP[/negbTE eu /negbTE ev]; congr term.
by have := m e; rewrite eu ev !addn0.
Qed.

(* the same smallest count *)
Lemma same_pair (x y : table C n) u v i : u != v -> moved x y u v -> smallest x = i -> smallest y = i ->
  H t (one_draw d x) (one_draw d y) = term true i i (count_in y u).+1 (count_in y u) / n%:R.
Proof.
move=> uv m ex ey; have iN := not_uniform k2 m uv ex ey; have d01 := p (ltnW iN); case/andP: (d01) => d0 d1.
have := by_cell true uv m; rewrite /ordered ex ey => ->; congr (_ / _).
have zero a c : (a <= c)%N -> term true i i a c = 0.
  move=> ac; rewrite /term pos_0 // subr_le0; apply: (le_trans (f_mono C n d0 ac)).
  by rewrite -[X in X <= _]mul1r; apply: ler_right => //; exact: f_ge0.
rewrite big1 => [|e _]; last by rewrite zero.
have := m u; rewrite eqxx (negbTE uv) addn0 addn1 => ->.
have := m v; rewrite eqxx eq_sym (negbTE uv) addn0 addn1 => e.
by rewrite [X in _ + X + _]zero ?addr0 // -e.
Qed.
Lemma same_bound i a : (i * k < n)%N -> (i <= a)%N -> term true i i a.+1 a / n%:R <= same i.
Proof.
move=> iN ia; have /andP[d0 _] := p (ltnW iN); apply: ler_right; first by rewrite invr_ge0 ler0n.
apply: pos_mono; have s b : f b.+1 (d i) - t * f b (d i) = d i - (t - 1) * f b (d i) by rewrite /f natS; ringR.
rewrite !s ler_add2l ler_opp2; apply: ler_left; rewrite ?subr_ge0 //; exact: f_mono.
Qed.

(* different smallest counts *)
Lemma different_bound o (x y : table C n) u v i : u != v -> moved x y u v -> smallest x = i.+1 -> smallest y = i ->
  ordered o (one_draw d x) (one_draw d y) <= if (2 < k)%N then Num.max (rises o i.+1) (stays o i.+1) else rises o i.+1.
Proof.
move=> uv m ex ey; rewrite (by_cell o uv m) ex ey.
have lx e : (i.+1 <= count_in x e)%N by rewrite -ex smallest_le.
have cyu : count_in y u = i.
  have [w ew] := smallest_attained y u; rewrite ey in ew.
  case: (eqVneq w u) => [<- //|/negbTE wu]; have mw := m w.
  have := lx w; rewrite ltnNge => /negP []; apply: leq_trans (leq_addr (w == v) _) _.
  by rewrite mw ew wu addn0.
have cxu : count_in x u = i.+1 by have := m u; rewrite eqxx (negbTE uv) addn0 addn1 cyu.
have cyv : count_in y v = (count_in x v).+1 by have := m v; rewrite eqxx eq_sym (negbTE uv) addn0 addn1.
have iN : (i.+1 * k <= n)%N by rewrite -ex; exact: (smallest_le_n k2 x u).
set A := top i.+1; have Ai : (i.+1 <= A)%N.
  rewrite /A /top leq_subRL; first by rewrite addnC -mulSn (prednK (ltnW k2)) mulnC.
  by apply: leq_trans iN; rewrite mulnC leq_mul2l leq_pred orbT.
have total : (\sum_(e | e != u) count_in x e = n - i.+1)%N.
  by have := sum_count x; rewrite (bigD1 u) //= cxu => e; rewrite -[X in _ = (X - _)%N]e addKn.
have cc : (count_in x v + \sum_(e | (e != u) && (e != v)) count_in x e = n - i.+1)%N.
  by rewrite -total [in RHS](bigD1 v) 1?eq_sym.
have cardP : #|[pred e : C | (e != u) && (e != v)]| = (k - 2)%N.
  have := cardC (mem [:: u; v]); rewrite (card_uniqP _) /=; last by rewrite inE uv.
  by move=> <-; rewrite addKn; apply: eq_card => e; rewrite !inE negb_or orbF.
rewrite cxu cyu cyv; case: (ltnP 2 k) => [k3|k2']; last first.
  have k2E : k = 2%N by apply/eqP; rewrite eqn_leq k2' k2.
  have none : (\sum_(e | (e != u) && (e != v)) count_in x e = 0)%N.
    by rewrite big_pred0 // => e; have := card0_eq (etrans cardP (_ : k - 2 = 0)%N); rewrite k2E => /(_ erefl e).
  have cv : count_in x v = A by move: cc; rewrite none addn0 => ->; rewrite /A /top k2E mul1n.
  rewrite /rises /= -/A cv; apply: ler_right; first by rewrite invr_ge0 ler0n.
  rewrite ler_add2l big_pred0; first by rewrite mulr_ge0 ?ler0n ?term_ge0.
  by move=> e; have := card0_eq (etrans cardP (_ : k - 2 = 0)%N); rewrite k2E => /(_ erefl e).
apply: (@le_trans _ _ (Num.max (rises o i.+1 * n%:R) (stays o i.+1 * n%:R) / n%:R)); last first.
  have np : 0 < n%:R :> R by rewrite ltr0n.
  by rewrite -(maxr_pmull _ _ (ltW np)) mulfK ?lexx ?lt0r_neq0.
apply: ler_right; first by rewrite invr_ge0 ler0n.
rewrite /rises /stays !divfK ?nnz // -/A /=.
set fell := term o i.+1 i i.+1 i; set Ri := term o i.+1 i i.+1 i.+2; set RA := term o i.+1 i A A.+1.
set Ki := term o i.+1 i i.+1 i.+1; set KA := term o i.+1 i A A.
have k3E : (k - 3)%N%:R = (k - 2)%N%:R - 1 :> R by rewrite -[(k - 2)%N](subnK (_ : 1 <= _)%N) ?subn_gt0 // -subnDA natrD addrK.
have count_A e : (count_in x e <= A)%N.
  by rewrite leq_subRL; [rewrite addnC; exact: count_top | exact: leq_trans (leq_addl _ _) (count_top e lx)].
move: (Ai); rewrite leq_eqVlt => /orP[/eqP eA|ltA].
  have all e : count_in x e = i.+1 by apply/eqP; rewrite eqn_leq lx andbT eA count_A.
  rewrite le_maxr; apply/orP; left; rewrite all /RA -eA -/Ri.
  rewrite (eq_bigr (fun=> Ki)) => [|e _]; last by rewrite all.
  by rewrite sumr_const cardP -[_ *+ _]mulr_natl.
pose lam e : R := ((count_in x e)%:R - i.+1%:R) / (A%:R - i.+1%:R).
have D0 : 0 < A%:R - i.+1%:R :> R by rewrite subr_gt0 ltr_nat.
have lam01 e : 0 <= lam e <= 1.
  apply/andP; split; first by apply: divr_ge0 (ltW D0); rewrite subr_ge0 ler_nat.
  by rewrite ler_pdivr_mulr // mul1r ler_add2r ler_nat.
have mix e : (count_in x e)%:R = (1 - lam e) * i.+1%:R + lam e * A%:R :> R.
  by rewrite /lam; fieldR; apply/eqP; exact: lt0r_neq0.
pose L : R := \sum_(e | (e != u) && (e != v)) lam e.
have one : lam v + L = 1.
  rewrite /L -mulr_suml -mulrDl; apply/eqP; rewrite -(inj_eq (mulIf (lt0r_neq0 D0))) divfK ?lt0r_neq0 // mul1r; apply/eqP.
  rewrite sumrB sumr_const cardP -natr_sum addrACA -natrD cc -(mulr_natl i.+1%:R (k - 2)).
  have -> : A%:R = n%:R - (k.-1)%:R * i.+1%:R :> R.
    by rewrite /A /top natrB ?natrM //; apply: leq_trans iN; rewrite mulnC leq_mul2l leq_pred orbT.
  have -> : (n - i.+1)%N%:R = n%:R - i.+1%:R :> R.
    by rewrite natrB //; apply: leq_trans iN; rewrite leq_pmulr // (ltnW k2).
  have -> : (k.-1)%:R = (k - 2)%N%:R + 1 :> R.
    by rewrite -natS; congr (_%:R); move: k2; case: (k) => [|[|z]] //; rewrite subSS subSS subn0.
  by ringR.
have bv := chord o i.+1 i 1 (lam01 v) (mix v); have be e := chord o i.+1 i 0 (lam01 e) (mix e).
rewrite !addn1 -/Ri -/RA in bv.
have bs : \sum_(e | (e != u) && (e != v)) term o i.+1 i (count_in x e) (count_in x e) <= (k - 2)%N%:R * Ki + L * (KA - Ki).
  apply: (@le_trans _ _ (\sum_(e | (e != u) && (e != v)) (Ki + lam e * (KA - Ki)))).
    apply: ler_sum => e _; have := be e; rewrite !addn0 -/Ki -/KA => /le_trans; apply.
    by rewrite le_eqVlt; apply/orP; left; apply/eqP; ringR.
  by rewrite big_split /= sumr_const cardP -mulr_suml -[Ki *+ _]mulr_natl.
have /andP[l0 l1] := lam01 v.
apply: (@le_trans _ _ (lam v * (fell + RA + (k - 2)%N%:R * Ki) + (1 - lam v) * (fell + Ri + (KA + (k - 3)%N%:R * Ki)))).
  apply: (le_trans (ler_add (ler_add (lexx fell) bv) bs)); rewrite k3E.
  have -> : L = 1 - lam v by rewrite -one addrC addKr.
  by rewrite le_eqVlt; apply/orP; left; apply/eqP; ringR.
set Z := Num.max _ _; apply: (@le_trans _ _ (lam v * Z + (1 - lam v) * Z)); last by rewrite -mulrDl addrC subrK mul1r.
apply: ler_add; apply: ler_left; rewrite ?subr_ge0 // /Z le_maxr lexx ?orbT //.
Qed.

Lemma near_cells (x y : table C n) u v : moved x y u v ->
  (smallest x <= (smallest y).+1)%N /\ (smallest y <= (smallest x).+1)%N.
Proof.
have half (x' y' : table C n) u' v' : moved x' y' u' v' -> (smallest x' <= (smallest y').+1)%N.
  move=> m; have [w <-] := smallest_attained y' u'; apply: leq_trans (smallest_le x' w) _.
  by case: (moved_near w m).
by move=> m; split; [exact: half m | exact: half (moved_sym m)].
Qed.

Lemma same_exists_at (x y : table C n) u v : u != v -> moved x y u v -> smallest x = smallest y -> same_exists (smallest x).
Proof.
move=> uv m e; rewrite /same_exists; case: (ltnP 2 k) => [_|k2']; first exact: (not_uniform k2 m uv erefl (esym e)).
have k2E : k = 2%N by apply/eqP; rewrite eqn_leq k2' k2.
have := m u; rewrite eqxx (negbTE uv) addn0 addn1 => cx.
have an := count_le x u; rewrite cx in an; move: e; rewrite !(smallest_two k2E _ u) cx.
move: (count_in y u) an => a an; have nE : (n - a = (n - a.+1).+1)%N by rewrite subnSK.
rewrite -[X in X == _](subnKC an) nE; move: (n - a.+1)%N => b e.
have -> : b = a.
  case: (ltngtP a b) e => // ab; last by rewrite (minn_idPr (ltnW (leqW ab))) (minn_idPr ab) => /eqP; rewrite eqn_leq ltnn andbF.
  by rewrite (minn_idPl ab) (minn_idPl (ltnW (leqW ab))) => /eqP; rewrite eqn_leq ltnn.
by rewrite (minn_idPr (leqnSn a)) muln2 -addnn addSn.
Qed.

Lemma profile_bound : bounds (@neighbours C n 1) (one_draw d) t (\big[Num.max/0]_(i < n.+1) listed i).
Proof.
have [B0 Bi _] := big_max (fun i : 'I_n.+1 => listed i).
have le_k j : (j * k <= n)%N -> (j < n.+1)%N.
  by move=> h; rewrite ltnS; apply: leq_trans h; rewrite leq_pmulr // ltnW.
move=> x y /neighbours_moved [->|[u [v [uv m]]]].
  apply: le_trans B0; apply/H_le0 => c; rewrite -[X in X <= _]mul1r; apply: ler_right => //.
  by rewrite one_drawE // divr_ge0 ?ler0n // f_ge0 // p // (smallest_le_n k2 _ c).
have vu : v != u by rewrite eq_sym.
have [n1 n2] := near_cells m; have ly := smallest_le y u.
case: (ltngtP (smallest x) (smallest y)) => [lt|lt|e].
- have e : smallest y = (smallest x).+1 by apply/eqP; rewrite eqn_leq lt n2.
  have iN := smallest_le_n k2 y u; rewrite e in iN; apply: le_trans (Bi (Ordinal (le_k _ iN))).
  have := different_bound false vu (moved_sym m) e erefl => /le_trans; apply.
  by rewrite /listed /= iN /=; case: ifP => _; rewrite ?le_maxl !le_maxr !lexx ?orbT.
- have e : smallest x = (smallest y).+1 by apply/eqP; rewrite eqn_leq lt n1.
  have iN := smallest_le_n k2 x u; rewrite e in iN; apply: le_trans (Bi (Ordinal (le_k _ iN))).
  have := different_bound true uv m e erefl => /le_trans; apply.
  by rewrite /listed /= iN /=; case: ifP => _; rewrite ?le_maxl !le_maxr !lexx ?orbT.
- have iN := not_uniform k2 m uv erefl (esym e); apply: le_trans (Bi (Ordinal (le_k _ (ltnW iN)))).
  rewrite (same_pair uv m erefl (esym e)); apply: le_trans (same_bound iN _) _.
    by rewrite e.
  by rewrite /listed (same_exists_at uv m e) le_maxr lexx.
Qed.

Lemma same_attained i : same_exists i -> attains (@neighbours C n 1) (one_draw d) t (same i).
Proof.
rewrite /same_exists; case: (ltnP 2 k) => [k3|k2'] iN; last first.
  have k2E : k = 2%N by apply/eqP; rewrite eqn_leq k2' k2.
  have [u [v [vu sumE]]] := two_cells k2E; have uv : u != v by rewrite eq_sym.
  have [|x cx] := table_with_counts (N := fun e : C => if e == u then i.+1 else i) (n := n).
    by rewrite sumE eqxx (negbTE vu) (eqP iN) addSn addnn muln2.
  have [|y [xy m]] := @move_record _ _ x u v; first by rewrite cx eqxx.
  have cy : count_in y u = i by have := m u; rewrite cx eqxx (negbTE uv) addn0 addn1 => -[].
  have sub1 : (n - i.+1 = i)%N by rewrite (eqP iN) muln2 -addnn subSS addnK.
  have sx : smallest x = i by rewrite (smallest_two k2E _ u) cx eqxx sub1 (minn_idPr (leqnSn i)).
  have sy : smallest y = i.
    by rewrite (smallest_two k2E _ u) cy (eqP iN) muln2 -addnn -addnS addKn (minn_idPl (leqnSn i)).
  by exists x, y; split=> //; rewrite (same_pair uv m sx sy) cy.
have /card_gt2P [u [v [w [_ [uv vw wu]]]]] := k3.
have [x cx] := extreme_table w (ltnW iN).
have tx : (i < n - k.-1 * i)%N by rewrite ltn_subRL addnC -mulSn (prednK (ltnW k2)) mulnC.
have [|y [xy m]] := @move_record _ _ x w u; first by rewrite cx eqxx (leq_ltn_trans _ tx).
have cxu : count_in x u = i by rewrite cx eq_sym (negbTE wu).
have sx : smallest x = i.
  by apply: (@smallest_is _ _ _ _ u) => // c; rewrite cx; case: ifP => // _; exact: ltnW.
have sy : smallest y = i.
  apply: (@smallest_is _ _ _ _ v) => [c|]; last first.
    by have := m v; rewrite cx (negbTE vw) eq_sym (negbTE uv) !addn0.
  have := m c; rewrite cx; case: (altP (c =P w)) => [->|cw].
    by rewrite (negbTE wu) addn0 addn1 => e; rewrite -ltnS -e.
  by rewrite addn0 => <-; exact: leq_addr.
exists y, x; split; first by rewrite /neighbours replacedC.
have uw : u != w by rewrite eq_sym.
by rewrite (same_pair uw (moved_sym m) sy sx) cxu.
Qed.

Lemma by_order o (z : R) : (exists x y : table C n, neighbours 1 x y /\ ordered o (one_draw d x) (one_draw d y) = z) ->
  attains (@neighbours C n 1) (one_draw d) t z.
Proof.
case=> x [y [xy e]]; case: o e => e; first by exists x, y.
by exists y, x; split; [rewrite /neighbours replacedC | exact: e].
Qed.
Lemma extreme_pair i (u v w : C) : u != v -> u != w -> (i.+1 * k <= n)%N ->
  exists x y : table C n, [/\ neighbours 1 x y, moved x y u v, smallest x = i.+1 /\ smallest y = i,
    (forall c, count_in x c = if c == w then top i.+1 else i.+1) & count_in y u = i].
Proof.
move=> uv uw iN; have [x cx] := extreme_table w iN.
have [|y [xy m]] := @move_record _ _ x u v; first by rewrite cx (negbTE uw).
have Ai : (i.+1 <= top i.+1)%N.
  rewrite /top leq_subRL; first by rewrite addnC -mulSn (prednK (ltnW k2)) mulnC.
  by apply: leq_trans iN; rewrite mulnC leq_mul2l leq_pred orbT.
have cu : count_in y u = i.
  by apply/eqP; rewrite -eqSS -addn1; have := m u; rewrite eqxx (negbTE uv) addn0 cx (negbTE uw) => <-.
have sx : smallest x = i.+1.
  by apply: (@smallest_is _ _ _ _ u) => [c|]; rewrite cx; [case: ifP | rewrite (negbTE uw)].
have sy : smallest y = i.
  apply: (@smallest_is _ _ _ _ u) => // c; have := moved_near c m; rewrite cx => -[h _].
  by rewrite -ltnS; apply: leq_trans h; case: ifP.
by exists x, y; split.
Qed.
Lemma rises_attained o i : (i.+1 * k <= n)%N -> attains (@neighbours C n 1) (one_draw d) t (rises o i.+1).
Proof.
move=> iN; have /card_gt1P [u [v [_ _ uv]]] := k2.
have [x [y [xy m [sx sy] cx cu]]] := extreme_pair uv uv iN.
apply: (@by_order o); exists x, y; split=> //; rewrite (by_cell o uv m) sx sy cu /rises /=; congr (_ / _).
have vu : v != u by rewrite eq_sym.
have -> : count_in x u = i.+1 by rewrite cx (negbTE uv).
have cv : count_in y v = (count_in x v).+1 by have := m v; rewrite eqxx (negbTE vu) addn0 addn1.
rewrite cv cx eqxx; congr (_ + _).
rewrite (eq_bigr (fun=> term o i.+1 i i.+1 i.+1)) => [|e /andP[_ /negbTE ev]]; last by rewrite cx ev.
by rewrite sumr_const others_card // mulr_natl.
Qed.
Lemma stays_attained o i : (2 < k)%N -> (i.+1 * k <= n)%N -> attains (@neighbours C n 1) (one_draw d) t (stays o i.+1).
Proof.
move=> k3 iN; have /card_gt2P [u [v [w [_ [uv vw wu]]]]] := k3.
have uw : u != w by rewrite eq_sym.
have [x [y [xy m [sx sy] cx cu]]] := extreme_pair uv uw iN.
apply: (@by_order o); exists x, y; split=> //; rewrite (by_cell o uv m) sx sy cu /stays /=; congr (_ / _).
have vu : v != u by rewrite eq_sym.
have -> : count_in x u = i.+1 by rewrite cx (negbTE uw).
have cxv : count_in x v = i.+1 by rewrite cx (negbTE vw).
have -> : count_in y v = i.+2 by have := m v; rewrite eqxx (negbTE vu) addn0 addn1 cxv.
rewrite cxv; congr (_ + _).
rewrite (bigD1 w) /=; last by rewrite wu eq_sym.
rewrite cx eqxx; congr (_ + _).
rewrite (eq_bigr (fun=> term o i.+1 i i.+1 i.+1)) => [|e /andP[_ /negbTE ew]]; last by rewrite cx ew.
rewrite sumr_const mulr_natl; congr (_ *+ _).
have := others_card uv; rewrite (cardD1 w [pred z : C | (z != u) && (z != v)]) [w \in _]inE /= wu eq_sym vw => e.
rewrite -[3%N]/(2 + 1)%N subnDA -e addKn; apply: eq_card => z; by rewrite !inE andbC.
Qed.

Theorem T7_profile : exact (@neighbours C n 1) (one_draw d) t (\big[Num.max/0]_(i < n.+1) listed i).
Proof.
split; first exact: profile_bound.
have zero : attains (@neighbours C n 1) (one_draw d) t 0.
  have /card_gt1P [c [_ _]] := k2; pose x : table C n := [ffun=> c]; exists x, x; split.
    by rewrite /neighbours /replaced big1 // => i _; rewrite eqxx.
  apply/eqP; rewrite eq_le H_ge0 andbT; apply/H_le0 => e; rewrite -[X in X <= _]mul1r; apply: ler_right => //.
  by rewrite one_drawE // divr_ge0 ?ler0n // f_ge0 // p // (smallest_le_n k2 _ e).
have [_ _ [->|[i ->]]] := big_max (fun i : 'I_n.+1 => listed i) => //.
have both_attained z w : attains (@neighbours C n 1) (one_draw d) t z -> attains (@neighbours C n 1) (one_draw d) t w ->
  attains (@neighbours C n 1) (one_draw d) t (Num.max z w) by case: leP.
apply: (both_attained); first by case: ifP => // h; exact: same_attained.
case: (nat_of_ord i) => [|j] //=; case: ifP => // h; apply: (both_attained).
  by apply: (both_attained); exact: rises_attained.
by case: ifP => // k3; apply: (both_attained); exact: stays_attained.
Qed.
End Profile.
