(** * Two cells (docs/theory/dirichlet-multinomial.md, "Two cells")

  In the page's words: "With k = 2 and n >= 2 there is no third cell to put other records in, and the pair of T4 is an
  upper bound. The exact profile is the maximum over c from 0 to n - 1 and over both orders of
  H(BetaBin(m; a+c+1, b+n-1-c) || BetaBin(m; a+c, b+n-c)): c is the number of other records in the first cell."

  T4's condition cannot be dropped: for n = m = 2, a = b = 1 and e^epsilon = 3/2 the profile is 3/20, and the pair of T4
  has 1/5 (T4_two_cells).

  | here          | on the page                                                                                        |
  |---------------|----------------------------------------------------------------------------------------------------|
  | bool          | the two cells, [true] the first                                                                    |
  | prior2 a b    | their prior masses                                                                                 |
  | two n a b m c T | the larger of both orders, with c others in the first cell; pair3 with a third cell of mass 0    | *)
From mathcomp Require Import all_ssreflect all_algebra.
From Coq Require Import ZArith.
From Discreet Require Import Definitions DataProcessing Urn T4 DirichletMultinomial ExactSum.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.
Delimit Scope nat_scope with N.

Section TwoCells.
Variable R : realFieldType.
Notation cell2 := [finType of bool].
Definition masses2 (x y : R) (cell : bool) : R := if cell then x else y.
Definition two (n : nat) (a b : R) (m c : nat) (T : R) : R :=
  worst (a + c%:R) (b + (n.-1 - c)%:R) 0 m T.

(** A cell of mass 0 is never drawn. *)
Lemma without_third (x y x' y' : R) m T :
  H T (@urn R cell2 (masses2 x y) m) (@urn R cell2 (masses2 x' y') m)
  = H T (@urn R _ (fun d => if d is Some k then masses2 x y k else 0) m)
        (@urn R _ (fun d => if d is Some k then masses2 x' y' k else 0) m).
Proof.
have up (u v : R) : mass (@Some bool) (masses2 u v) =1 fun d => if d is Some k then masses2 u v k else 0.
  by case=> [k|]; rewrite /mass; [rewrite (big_pred1 k) | rewrite big_pred0].
have down (u v : R) : mass (odflt true) (fun d => if d is Some k then masses2 u v k else 0) =1 masses2 u v.
  by case; rewrite /mass big_mkcond big_three /= ?addr0 ?add0r.
apply/eqP; rewrite eq_le; apply/andP; split.
  rewrite -(H_ext T (fun o => urn_ext o (down x y)) (fun o => urn_ext o (down x' y'))); exact: merged_is_at_most.
by rewrite -(H_ext T (fun o => urn_ext o (up x y)) (fun o => urn_ext o (up x' y'))); exact: merged_is_at_most.
Qed.
Lemma two_pair (a b : R) m T :
  H T (@urn R cell2 (masses2 (a + 1) b) m) (@urn R cell2 (masses2 a (b + 1)) m) = pair3 a b 0 m T.
Proof. by rewrite without_third; apply: H_ext => o; apply: urn_ext => -[[]|]. Qed.
Lemma two_pair' (a b : R) m T :
  H T (@urn R cell2 (masses2 a (b + 1)) m) (@urn R cell2 (masses2 (a + 1) b) m) = pair3' a b 0 m T.
Proof. by rewrite without_third; apply: H_ext => o; apply: urn_ext => -[[]|]. Qed.

Variables (n m : nat) (a b T : R).
Hypothesis n0 : (0 < n)%N.
Notation profile := (exact (@replaced cell2 n) (fun x : table cell2 n => release (masses2 a b) m x) T).

Definition other (c : nat) (cell : bool) : nat := if cell then c else (n.-1 - c)%N.
Lemma laws (x y : table cell2 n) c :
  (forall cell, counts x cell = other c cell + (cell == true))%N ->
  (forall cell, counts y cell = other c cell + (cell == false))%N ->
  H T (release (masses2 a b) m x) (release (masses2 a b) m y) = pair3 (a + c%:R) (b + (n.-1 - c)%:R) 0 m T /\
  H T (release (masses2 a b) m y) (release (masses2 a b) m x) = pair3' (a + c%:R) (b + (n.-1 - c)%:R) 0 m T.
Proof.
move=> hx hy; rewrite -two_pair -two_pair'.
have ex : masses (masses2 a b) x =1 masses2 (a + c%:R + 1) (b + (n.-1 - c)%:R).
  by case; rewrite /masses hx /= ?addn0 // addn1 mulrSr addrA.
have ey : masses (masses2 a b) y =1 masses2 (a + c%:R) (b + (n.-1 - c)%:R + 1).
  by case; rewrite /masses hy /= ?addn0 // addn1 mulrSr addrA.
by split; apply: H_ext => o; apply: urn_ext.
Qed.
Lemma every_c c : (c < n)%N -> exists x y : table cell2 n, [/\ replaced n x y, replaced n y x,
  (forall cell, counts x cell = other c cell + (cell == true))%N
  & (forall cell, counts y cell = other c cell + (cell == false))%N].
Proof.
move=> cn; have total i : (\sum_(cell : bool) (other c cell + (cell == i)) = n)%N.
  rewrite big_bool /other /= addnACA subnKC; last by rewrite -ltnS prednK.
  by case: i; rewrite /= ?addn0 ?add0n addn1 prednK.
pose x : table cell2 n := exist _ _ (total true); pose y : table cell2 n := exist _ _ (total false).
by exists x, y; split=> //; [exists (other c), true, false | exists (other c), false, true].
Qed.

(** The exact profile is the maximum: delta bounds all of them, and is one of them. *)
Theorem two_cells delta :
  profile delta <-> (forall c, (c < n)%N -> two n a b m c T <= delta) /\ exists2 c, (c < n)%N & two n a b m c T = delta.
Proof.
have of_neighbours (x y : table cell2 n) : replaced n x y ->
    exists2 c, (c < n)%N & H T (release (masses2 a b) m x) (release (masses2 a b) m y) <= two n a b m c T.
  move=> [N [l [t [lt [hx hy]]]]].
  have sN : (N true + N false = n.-1)%N.
    have : (\sum_cell counts x cell = n)%N by exact: (svalP x).
    rewrite big_bool /= !hx; case: l lt hx => lt hx <-; by rewrite /= ?addn0 ?addn1 ?addnS.
  have cn : (N true < n)%N by rewrite -[n]prednK // ltnS -sN leq_addr.
  have eN cell : N cell = other (N true) cell by case: cell => //=; rewrite -sN addKn.
  exists (N true) => //; case: l t lt hx hy => [] [] // _ hx hy.
    have [|cell|-> _] := @laws x y (N true); [by move=> cell; rewrite hx eN | by rewrite hy eN | ].
    by rewrite /two /worst le_maxr lexx.
  have [|cell|_ ->] := @laws y x (N true); [by move=> cell; rewrite hy eN | by rewrite hx eN | ].
  by rewrite /two /worst le_maxr lexx orbT.
have reached c : (c < n)%N -> exists x y : table cell2 n, replaced n x y /\
    H T (release (masses2 a b) m x) (release (masses2 a b) m y) = two n a b m c T.
  case/every_c=> x [y [xy yx hx hy]]; have [e1 e2] := laws hx hy.
  rewrite /two /worst; case: (leP (pair3' (a + c%:R) (b + (n.-1 - c)%:R) 0 m T) (pair3 (a + c%:R) (b + (n.-1 - c)%:R) 0 m T)) => _.
    by exists x, y.
  by exists y, x.
split=> [[bound [x [y [xy e]]]]|[h [c cn e]]].
  split=> [c /reached[x' [y' [xy' <-]]]|]; first exact: bound.
  have [c cn le] := of_neighbours _ _ xy; exists c => //; apply/eqP; rewrite eq_le -{2}e le andbT.
  by have [x' [y' [xy' <-]]] := reached c cn; exact: bound.
split=> [x y xy|]; last by have [x [y [xy ex]]] := reached c cn; exists x, y; rewrite ex.
by have [c' cn' le] := of_neighbours _ _ xy; apply: le_trans le (h _ cn').
Qed.
End TwoCells.

(** T4's condition cannot be dropped. *)
Section Strict.
Variable R : realFieldType.
Lemma by_integers (a b r p q : Z) (m : nat) (x y : Z) :
  [&& (0 <? a), (0 <? b), (0 <=? r), (0 <? q), (q <=? p), (0 <? y)
    & (numerator m 1 a b r p q * y =? x * denominator m 1 a b r q)]%Z ->
  pair3 (zr R a) (zr R b) (zr R r) m (zr R p / zr R q) = zr R x / zr R y.
Proof.
case/andP=> /Z.ltb_lt a0 /andP[/Z.ltb_lt b0 /andP[/Z.leb_le r0 /andP[/Z.ltb_lt q0 /andP[/Z.leb_le qp /andP[/Z.ltb_lt y0]]]]].
move/Z.eqb_eq/(congr1 (zr R)); rewrite 2!zrM => e.
have d0 : (0 < 1)%Z by [].
have := exact_sum R m d0 a0 b0 q0 qp r0; rewrite !divr1 => ->.
have den0 := denominator_gt0 R m d0 a0 b0 q0 r0.
by apply/eqP; rewrite eqr_div ?(lt0r_neq0 den0) ?(lt0r_neq0 (zr_gt0 R y0)) //; apply/eqP.
Qed.

Theorem T4_two_cells (alpha := masses2 (1 : R) 1) (e_epsilon := 3%:R / 2%:R : R) :
  exact (replaced 2) (fun x : table [finType of bool] 2 => release alpha 2 x) e_epsilon (3%:R / 20%:R) /\
  worst (alpha true) (alpha false) (others alpha 2 true false) 2 e_epsilon = 1 / 5%:R.
Proof.
have p12 : pair3 1 2%:R 0 2 e_epsilon = 3%:R / 20%:R by exact: (@by_integers 1 2 0 3 2 2 3 20).
have p21 : pair3 2%:R 1 0 2 e_epsilon = 3%:R / 20%:R by exact: (@by_integers 2 1 0 3 2 2 3 20).
have p111 : pair3 1 1 1 2 e_epsilon = 1 / 5%:R by exact: (@by_integers 1 1 1 3 2 2 1 5).
split; last first.
  have -> : others alpha 2 true false = 1 by rewrite /others big_bool /alpha addrA !addrK.
  by rewrite /worst -pair3_swap p111 maxxx.
have two_c c : (c < 2)%N -> two 2 1 1 2 c e_epsilon = 3%:R / 20%:R.
  have two_is : 1 + 1%:R = 2%:R :> R by rewrite -mulrS.
  case: c => [|[|//]] _; rewrite /two /worst -pair3_swap /= ?subnn ?subn0 ?addr0 two_is; first by rewrite p12 p21 maxxx.
  by rewrite p12 p21 maxxx.
apply/two_cells => //; split=> [c /two_c ->|]; first exact: lexx.
by exists 0%N; last exact: two_c.
Qed.

(** The page's example: the maximum is not always at an end. a = b = 10, n = 8, m = 3, epsilon = 0. *)
Theorem interior_count_wins (profile := fun c => two 8 (10%:R : R) 10%:R 3 c 1) :
  [/\ profile 3%N = 3%:R / 58%:R, profile 0%N = 99%:R / 2030%:R & profile 7%N = 99%:R / 2030%:R].
Proof.
have at_one (a b x y : Z) : [&& (0 <? a), (0 <? b), (0 <? y)
      & (numerator 3 1 a b 0 1 1 * y =? x * denominator 3 1 a b 0 1)]%Z ->
    pair3 (zr R a) (zr R b) 0 3 1 = zr R x / zr R y.
  case/and4P=> a0 b0 y0 e; have := @by_integers a b 0 1 1 3 x y; rewrite divr1; apply.
  by rewrite a0 b0 y0 e.
have [e1 e2] : pair3 (13%:R : R) 14%:R 0 3 1 = 3%:R / 58%:R /\ pair3 (14%:R : R) 13%:R 0 3 1 = 3%:R / 58%:R.
  by split; [exact: (at_one 13 14 3 58)%Z | exact: (at_one 14 13 3 58)%Z].
have [e3 e4] : pair3 (10%:R : R) 17%:R 0 3 1 = 99%:R / 2030%:R /\ pair3 (17%:R : R) 10%:R 0 3 1 = 99%:R / 2030%:R.
  by split; [exact: (at_one 10 17 99 2030)%Z | exact: (at_one 17 10 99 2030)%Z].
by split; rewrite /profile /two -!natrD /worst -pair3_swap /= ?e1 ?e2 ?e3 ?e4 maxxx.
Qed.
End Strict.
