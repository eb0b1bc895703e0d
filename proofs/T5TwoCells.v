(** * T5: two cells
  docs/theory/smoothed-histogram.md.

  *For k = 2 and g < n the pair of T5 is an upper bound. The exact profile for one record is the maximum over
  0 <= c <= n - 1 and over both orders of H_epsilon(Bin(m, b + s(c + 1)) || Bin(m, b + sc)).*

  - [T5_two_cells]: this maximum is the profile for every epsilon >= 0, and neighbours attain it.

  | here               | on the page                                                          |
  |--------------------|----------------------------------------------------------------------|
  | Bin m p            | the binomial law                                                     |
  | two m t o c        | the divergence at c, in the order of the page if o                   |
  | release, neighbours | as in T5.v                                                          | *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require DirichletMultinomial.
From Discreet Require Import Definitions DataProcessing Arithmetic Tables ThreeOutcomes T5 T5Sum.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Coins.
Variable R : realFieldType.
Definition coin (p : R) (o : bool) : R := if o then p else 1 - p.
Definition Bin (m : nat) (p : R) (j : 'I_m.+1) : R := 'C(m, j)%:R * (p ^+ j * (1 - p) ^+ (m - j)).

Lemma sum_heads m (F : nat -> R) : \sum_(o : {ffun 'I_m -> bool}) F (times true o) = DirichletMultinomial.row m F.
Proof.
elim: m F => [|m IH] F.
  rewrite DirichletMultinomial.row0 (big_pred1 [ffun i : 'I_0 => true]).
    by rewrite /times big_ord0.
  by move=> o; apply/esym/eqP/ffunP => -[].
rewrite sum_first big_bool /= DirichletMultinomial.rowS DirichletMultinomial.rowD addrC -!IH.
by congr (_ + _); apply: eq_bigr => o _; rewrite times_first.
Qed.
Lemma coin_counts m t (p p' : R) : 0 <= p <= 1 -> H t (draws m (coin p)) (draws m (coin p')) = H t (@Bin m p) (@Bin m p').
Proof.
move=> p01; have dE (z : R) (o : {ffun 'I_m -> bool}) : draws m (coin z) o = z ^+ times true o * (1 - z) ^+ (m - times true o).
  have all : (times true o + times false o = m)%N.
    by rewrite /times -big_split -[RHS]card_ord -sum1_card; apply: eq_bigr => i _; case: (o i).
  have -> : (m - times true o)%N = times false o by rewrite -[X in (X - _)%N]all addKn.
  rewrite /draws /times -!prodrXr -big_split; apply: eq_bigr => i _ /=.
  by case: (o i); rewrite /= ?expr0 ?expr1 ?mulr1 ?mul1r.
rewrite {1}/H (eq_bigr (fun o => pos (p ^+ times true o * (1 - p) ^+ (m - times true o) -
   t * (p' ^+ times true o * (1 - p') ^+ (m - times true o))))) => [|o _]; last by rewrite !dE.
rewrite (sum_heads m (fun j => pos (p ^+ j * (1 - p) ^+ (m - j) - t * (p' ^+ j * (1 - p') ^+ (m - j))))).
apply: eq_bigr => j _; rewrite -posM ?ler0n //; congr pos.
by rewrite /Bin mulrBr [_ * (t * _)]mulrCA.
Qed.
End Coins.

Section TwoCells.
Variable R : realFieldType.
Variables (C : finType) (n m : nat) (q : R).
Notation b := (q / #|C|%:R).
Notation s := ((1 - q) / n%:R).
Hypotheses (q01 : 0 <= q <= 1) (n0 : (0 < n)%N) (k2 : #|C| = 2%N).
Definition two (t : R) (o : bool) (c : nat) : R :=
  let more := @Bin R m (b + s * c.+1%:R) in let less := @Bin R m (b + s * c%:R) in
  if o then H t more less else H t less more.

Let k1 : (1 < #|C|)%N. Proof. by rewrite k2. Qed.
Lemma as_coins t (x y : table C n) u v : u != v ->
  H t (release q m x) (release q m y) = H t (@Bin R m (cell q x u)) (@Bin R m (cell q y u)).
Proof.
move=> uv; have both e : e = u \/ e = v.
  have := card0_eq (etrans (others_card uv) (_ : #|C| - 2 = 0)%N); rewrite k2 => /(_ erefl e); rewrite !inE.
  by case: eqP => [|_]; [left | case: eqP => // ev _; right].
have sum_two (F : C -> R) : \sum_e F e = F u + F v.
  rewrite (bigD1 u) //= (bigD1 v) 1?eq_sym //= big1 ?addr0 // => e /andP[eu ev].
  by case: (both e) => h; [move: eu | move: ev]; rewrite h eqxx.
have cv (x' : table C n) : cell q x' v = 1 - cell q x' u.
  by case: (cell_law q01 n0 k1 x') => _; rewrite sum_two => <-; rewrite addrC addKr.
have vu : (v == u) = false by rewrite eq_sym; exact: negbTE.
have to_coin (x' : table C n) : coin (cell q x' u) =1 push (point R (fun e => e == u)) (cell q x').
  by case; rewrite push_point big_mkcond sum_two /= eqxx vu /= ?addr0 ?add0r.
have from_coin (x' : table C n) : cell q x' =1 push (point R (fun o : bool => if o then u else v)) (coin (cell q x' u)).
  move=> e; rewrite push_point big_mkcond big_bool /=; case: (both e) => ->.
    by rewrite eqxx vu addr0.
  by rewrite eqxx (negbTE uv) add0r cv.
have p01 : 0 <= cell q x u <= 1.
  by case: (cell_law q01 n0 k1 x) => p0 <-; rewrite p0 sum_two ler_addl p0.
rewrite -coin_counts //; apply/eqP; rewrite eq_le; apply/andP; split.
  rewrite (H_ext t (draws_ext (from_coin x)) (draws_ext (from_coin y))).
  exact: draws_processing (point_kernel R _).
rewrite (H_ext t (draws_ext (to_coin x)) (draws_ext (to_coin y))).
exact: draws_processing (point_kernel R _).
Qed.

Theorem T5_two_cells t : 1 <= t ->
  exact (@neighbours C n 1) (@release R C n q m) t (\big[Num.max/0]_(c < n) Num.max (two t true c) (two t false c)).
Proof.
move=> t1; have [B0 Bi att] := big_max (fun c : 'I_n => Num.max (two t true c) (two t false c)).
have zero x : H t (@release R C n q m x) (release q m x) = 0.
  apply/eqP; rewrite eq_le H_ge0 andbT; apply/H_le0 => o; rewrite -[X in X <= _]mul1r; apply: ler_right => //.
  by apply: prodr_ge0 => i _; case: (cell_law q01 n0 k1 x).
split=> [x y /neighbours_moved [->|[u [v [uv mv]]]]|]; first by rewrite zero.
  have := mv u; rewrite eqxx (negbTE uv) addn0 addn1 => cu.
  have cn : (count_in y u < n)%N by rewrite -cu count_le.
  by apply: le_trans (Bi (Ordinal cn)); rewrite le_maxr (as_coins t x y uv) /cell cu lexx.
case: att => [->|[c ->]].
  have /card_gt1P [a _] := k1; pose x : table C n := [ffun=> a]; exists x, x; split=> //.
  by rewrite /neighbours /replaced big1 // => i _; rewrite eqxx.
have /card_gt1P [u [v [_ _ uv]]] := k1; have vu : v != u by rewrite eq_sym.
have [|x cx] := table_with_counts (N := fun e : C => if e == u then c.+1 else if e == v then (n - c.+1)%N else 0%N) (n := n).
  rewrite (bigD1 u) //= eqxx (bigD1 v) //= (negbTE vu) eqxx big1 ?addn0 ?subnKC // => e /andP[/negbTE -> /negbTE ->] //.
have [|y [xy mv]] := @move_record _ _ x u v; first by rewrite cx eqxx.
have cy : count_in y u = c by have := mv u; rewrite cx eqxx (negbTE uv) addn0 addn1 => -[].
have yx : neighbours 1 y x by rewrite /neighbours replacedC.
case: leP => _.
  by exists y, x; split=> //; rewrite (as_coins t y x uv) /cell cx cy eqxx.
by exists x, y; split=> //; rewrite (as_coins t x y uv) /cell cx cy eqxx.
Qed.
End TwoCells.
