(** * What it means that a certificate's number is checked

  A certificate of the Dirichlet-multinomial release states a delta at an epsilon, from public facts alone: the cells, the
  number of records, the size, the prior. [certifies c] says, for every ordered field with an element e^epsilon, every
  domain of so many cells and every such prior: the profile has a value delta at epsilon (it is exact, by T4), and
  delta <= stated <= 1.01 delta. [check c] is a computation with integers, and [check_is_sound] is the theorem that
  [check c = true] gives [certifies c].

  | here               | meaning                                                                                      |
  |--------------------|----------------------------------------------------------------------------------------------|
  | cells, records     | k and n                                                                                      |
  | size               | m, the number of records released                                                            |
  | unit               | the denominator of all masses                                                                |
  | least_mass         | a unit, a the smallest prior mass                                                            |
  | next_mass          | b unit, b the second smallest (equal to a if there are ties)                                 |
  | prior              | the total prior mass, times unit                                                             |
  | epsilon            | (numerator, denominator)                                                                     |
  | stated             | (numerator, denominator) of the stated delta, the decimal that the library writes            | *)
From mathcomp Require Import all_ssreflect all_algebra.
From Coq Require Import ZArith Lia.
From Discreet Require Import Definitions Arithmetic DataProcessing Urn T4 DirichletMultinomial ExactSum Exponential.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.
Delimit Scope nat_scope with N.

Record certificate := Certificate {
  cells : Z; records : Z; size : nat; unit : Z; least_mass : Z; next_mass : Z; prior : Z; epsilon : Z * Z; stated : Z * Z }.

Definition fraction (R : realFieldType) (x : Z * Z) : R := zr R x.1 / zr R x.2.
Definition certifies (c : certificate) : Prop :=
  forall (R : realFieldType) (e_epsilon : R), exponential (fraction R (epsilon c)) e_epsilon ->
  forall (C : finType) (alpha : C -> R) (l t : C) (n : nat),
    Z.of_nat #|C| = cells c -> Z.of_nat n = records c ->
    (forall cell, 0 < alpha cell) -> \sum_cell alpha cell = fraction R (prior c, unit c) ->
    least alpha l t -> alpha l = fraction R (least_mass c, unit c) -> alpha t = fraction R (next_mass c, unit c) ->
  exists delta : R,
    [/\ exact (replaced n) (release alpha (size c)) e_epsilon delta,
        delta <= fraction R (stated c) & fraction R (stated c) <= 101%:R / 100%:R * delta].

(** The computation. The divergence falls with e^epsilon (H_decreasing): from above at the lower end of the bracket of e^epsilon, from below at its upper end. *)
Section Check.
Variable c : certificate.
Definition others_mass : Z := (records c * unit c + prior c - least_mass c - next_mass c - unit c)%Z.
Definition at_most (a b : Z) : bool :=
  ((stated c).2 * numerator (size c) (unit c) a b others_mass (lower (epsilon c).1 (epsilon c).2) scale
   <=? (stated c).1 * denominator (size c) (unit c) a b others_mass scale)%Z.
Definition at_least (a b : Z) : bool :=
  (100 * ((stated c).1 * denominator (size c) (unit c) a b others_mass scale)
   <=? 101 * ((stated c).2 * numerator (size c) (unit c) a b others_mass (upper (epsilon c).1 (epsilon c).2) scale))%Z.
Definition in_range : bool :=
  [&& (0 <? unit c)%Z, (0 <? least_mass c)%Z, (0 <? next_mass c)%Z, (0 <=? others_mass)%Z, (2 <? cells c)%Z,
      (0 <? records c)%Z, (0 <=? (epsilon c).1)%Z, (0 <? (epsilon c).2)%Z, (0 <? (stated c).2)%Z,
      (2 * (epsilon c).1 <=? 42 * (epsilon c).2)%Z & (scale <=? lower (epsilon c).1 (epsilon c).2)%Z].
Definition check : bool :=
  let a := least_mass c in let b := next_mass c in
  [&& in_range, at_most a b && ((a =? b)%Z || at_most b a) & at_least a b || at_least b a].
End Check.

Local Opaque lower upper scale numerator.
Section Sound.
Variable R : realFieldType.
Add Field field_R : (field_laws R).
Notation z := (zr R).

Lemma pair3_down a b rest m (t t' : R) : 0 < a -> 0 < b -> 0 <= rest -> t <= t' ->
  pair3 a b rest m t' <= pair3 a b rest m t.
Proof.
move=> a0 b0 r0; apply: H_decreasing => o; apply: urn_ge0 => -[[]|] //=; rewrite ?ltW //.
by rewrite addr_gt0 ?ltr01.
Qed.

Variable c : certificate.
Hypothesis range : in_range c.
Notation d := (unit c).
Notation rest := (z (others_mass c) / z d).

Lemma ranges : [/\ (0 < unit c)%Z, (0 < least_mass c)%Z, (0 < next_mass c)%Z, (0 <= others_mass c)%Z & (2 < cells c)%Z] /\
  [/\ (0 < records c)%Z, (0 <= (epsilon c).1)%Z, (0 < (epsilon c).2)%Z, (0 < (stated c).2)%Z
    & (2 * (epsilon c).1 <= 42 * (epsilon c).2)%Z /\ (scale <= lower (epsilon c).1 (epsilon c).2)%Z].
Proof.
move: range; rewrite /in_range; set low := lower _ _; set rest := others_mass _.
case/andP=> /Z.ltb_lt ? /andP[/Z.ltb_lt ? /andP[/Z.ltb_lt ? /andP[/Z.leb_le ? /andP[/Z.ltb_lt ?]]]].
by case/andP=> /Z.ltb_lt ? /andP[/Z.leb_le ? /andP[/Z.ltb_lt ? /andP[/Z.ltb_lt ? /andP[/Z.leb_le ? /Z.leb_le ?]]]].
Qed.

Variable t : R.
Hypothesis is_exp : exponential (fraction R (epsilon c)) t.

Section Order.
Variables a b : Z.
Hypotheses (a0 : (0 < a)%Z) (b0 : (0 < b)%Z).
Let worth := pair3 (z a / z d) (z b / z d) rest (size c) t.

Lemma positive : 0 < z (denominator (size c) d a b (others_mass c) scale).
Proof. by have [[d0 _ _ r0 _] _] := ranges; apply: denominator_gt0. Qed.
Lemma ordered (s x y : Z) : 0 < z s -> z x / z s <= t -> t <= z y / z s -> (x <= y)%Z.
Proof.
move=> s0 h1 h2; apply/Z.le_ngt => /(zr_lt R); have := le_trans h1 h2.
by rewrite ler_pmul2r ?invr_gt0 // leNgt => /negP.
Qed.
Lemma quotients (sn sd num den : R) : 0 < sd -> 0 < den ->
  100%:R * (sn * den) <= 101%:R * (sd * num) -> sn / sd <= 101%:R / 100%:R * (num / den).
Proof.
move=> sd0 den0 le; rewrite ler_pdivr_mulr //.
have -> : 101%:R / 100%:R * (num / den) * sd = 101%:R * (sd * num) / (100%:R * den).
  rewrite invfM; move: (den^-1) ((100%:R : R)^-1) (101%:R : R) => x y k; ring_in R.
rewrite ler_pdivl_mulr ?mulr_gt0 ?ltr0n //; apply: le_trans le.
by rewrite mulrCA.
Qed.
Lemma at_most_sound : at_most c a b -> worth <= fraction R (stated c).
Proof.
have [[d0 _ _ r0 _] [_ e0 e1 s0 [e2 low]]] := ranges; have zd0 := zr_gt0 R d0; have zs0 := zr_gt0 R s0.
have [h1 _] := exponential_in_integers e0 e1 e2 is_exp.
move/Z.leb_le/(zr_le R); rewrite 2!zrM => le.
apply: (@le_trans _ _ (pair3 (z a / z d) (z b / z d) rest (size c) (z (lower (epsilon c).1 (epsilon c).2) / z scale))).
  by apply: pair3_down h1; rewrite ?divr_gt0 ?divr_ge0 ?(ltW zd0) ?zr_gt0 ?zr_ge0 //.
rewrite exact_sum // /fraction ler_pdivr_mulr ?positive // mulrAC ler_pdivl_mulr // [X in X <= _]mulrC.
exact: le.
Qed.
Lemma at_least_sound : at_least c a b -> fraction R (stated c) <= 101%:R / 100%:R * worth.
Proof.
have [[d0 _ _ r0 _] [_ e0 e1 s0 [e2 low]]] := ranges; have zd0 := zr_gt0 R d0; have zs0 := zr_gt0 R s0.
have [h1 h2] := exponential_in_integers e0 e1 e2 is_exp.
have up : (scale <= upper (epsilon c).1 (epsilon c).2)%Z.
  by apply: Z.le_trans low _; exact: ordered (scale_gt0 R) h1 h2.
move/Z.leb_le/(zr_le R); rewrite 4!zrM => le.
apply: (@le_trans _ _ (101%:R / 100%:R * pair3 (z a / z d) (z b / z d) rest (size c) (z (upper (epsilon c).1 (epsilon c).2) / z scale))).
  rewrite exact_sum // /fraction; exact: quotients zs0 positive le.
apply: ler_wpmul2l; first by rewrite divr_ge0 ?ler0n.
by apply: pair3_down h2; rewrite ?divr_gt0 ?divr_ge0 ?(ltW zd0) ?zr_gt0 ?zr_ge0 //.
Qed.
End Order.
End Sound.

Theorem check_is_sound (c : certificate) : check c -> certifies c.
Proof.
case/and3P=> range up low R t is_exp C alpha l i n ek en al0 sum_al lst el ei.
have [[d0 a0 b0 r0 k2] [n0 _ _ _ _]] := ranges range; have zd0 := zr_gt0 R d0.
have n1 : (0 < n)%N by case: n en => //= e; move: n0; rewrite -e.
have k3 : (2 < #|C|)%N by apply/ssrnat.ltP; lia.
exists (worst (alpha l) (alpha i) (others alpha n l i) (size c) t).
have eR : others alpha n l i = zr R (others_mass c) / zr R (unit c).
  rewrite /others sum_al el ei /fraction /= /others_mass !(zrB, zrD, zrM) -en zr_nat !mulrBl mulrDl mulfK ?lt0r_neq0 //.
  by rewrite divff // lt0r_neq0.
rewrite el ei eR; case/andP: up => up1 up2.
have most1 := at_most_sound range is_exp a0 b0 up1.
have most2 : pair3 (zr R (next_mass c) / zr R (unit c)) (zr R (least_mass c) / zr R (unit c))
    (zr R (others_mass c) / zr R (unit c)) (size c) t <= fraction R (stated c).
  case/orP: up2 => [/Z.eqb_eq e|up2]; last by refine (at_most_sound range is_exp b0 a0 up2).
  by move: most1; rewrite /fraction /= e.
split; first by rewrite -eR -el -ei; apply: T4 => //; left.
  by rewrite /worst -pair3_swap le_maxl; apply/andP; split.
rewrite /worst -pair3_swap; case/orP: low => low.
  apply: le_trans (at_least_sound range is_exp a0 b0 low) _.
  by apply: ler_wpmul2l; [rewrite divr_ge0 ?ler0n | rewrite le_maxr lexx].
apply: le_trans (at_least_sound range is_exp b0 a0 low) _.
by apply: ler_wpmul2l; [rewrite divr_ge0 ?ler0n | rewrite le_maxr lexx orbT].
Qed.
