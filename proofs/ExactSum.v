(** * The divergence as an integer computation

  The one-dimensional sum of docs/theory/dirichlet-multinomial.md in integers that Coq evaluates: with masses a/d, b/d and
  r/d and with p/q >= 1 in the place of e^epsilon,

    H(P||Q) = numerator m d a b r p q / denominator m d a b r q        (theorem exact_sum).

  | here        | on the page                                                                                            |
  |-------------|--------------------------------------------------------------------------------------------------------|
  | zr z        | the integer z as a number of the field                                                                 |
  | u, s        | the number U of draws in the two cells, and s_u, where the sign of g_{u+1} changes                      |
  | low, high   | a b q g_{u+1}(s_u) and a b q g_{u+1}(s_u + 1), up to a positive factor                                  |
  | weight      | C(m, u+1) w_u(s_u), not normalised                                                                     |
  | given       | C(m, u) delta_u, not normalised                                                                        |
  | total       | the sum over all numbers up to u of the law of U times delta_u, not normalised                          | *)
From mathcomp Require Import all_ssreflect all_algebra.
From Coq Require Import ZArith Lia.
From Discreet Require Import Definitions Arithmetic DataProcessing Urn T4 DirichletMultinomial.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.
Delimit Scope nat_scope with N.

(** ** The computation *)
Section Computation.
Variables (m d a b r p q : Z).
Fixpoint sum_up (draws : nat) (u s weight given total : Z) : Z :=
  if draws is draws'.+1 then
    let first := (a + s * d)%Z in
    let second := (b + (u - s) * d)%Z in
    let low := (q * b * first - p * a * (second + d))%Z in
    let high := (q * b * (first + d) - p * a * second)%Z in
    let more := (weight * Z.min (- low * second) (Z.max 0 (high * first)))%Z in
    let given' := (given * ((a + b + d + u * d) * (m - u)) / (u + 1) + more)%Z in
    let total' := (total * (r + (m - u - 1) * d) + given')%Z in
    if (0 <? high - p * a * d)%Z
    then sum_up draws' (u + 1)%Z s
           (weight * ((m - u - 1) * (u + 1) * second) / ((u + 2) * (u - s + 1)))%Z given' total'
    else sum_up draws' (u + 1)%Z (s + 1)%Z
           (weight * ((m - u - 1) * (u + 1) * first) / ((u + 2) * (s + 1)))%Z given' total'
  else total.
End Computation.
Fixpoint riseZ (d x : Z) (n : nat) : Z := if n is n'.+1 then (x * riseZ d (x + d) n')%Z else 1%Z.
Definition numerator (m : nat) (d a b r p q : Z) : Z := sum_up (Z.of_nat m) d a b r p q m 0 0 (Z.of_nat m) 0 0.
Definition denominator (m : nat) (d a b r q : Z) : Z := (q * a * b * riseZ d (a + b + d + r) m)%Z.

(** ** Integers in a field *)
Lemma nat_add x y : Z.of_nat (x + y)%N = (Z.of_nat x + Z.of_nat y)%Z. Proof. exact: Nat2Z.inj_add. Qed.
Lemma nat_mul x y : Z.of_nat (x * y)%N = (Z.of_nat x * Z.of_nat y)%Z. Proof. exact: Nat2Z.inj_mul. Qed.
Lemma nat_sub x y : (y <= x)%N -> Z.of_nat (x - y)%N = (Z.of_nat x - Z.of_nat y)%Z.
Proof. by move/ssrnat.leP; exact: Nat2Z.inj_sub. Qed.
Lemma nat_succ x : Z.of_nat x.+1 = (Z.of_nat x + 1)%Z. Proof. lia. Qed.
Section Integers.
Variable R : realFieldType.
Add Field field_R : (field_laws R).
Definition zr (z : Z) : R :=
  match z with Z0 => 0 | Zpos x => (Pos.to_nat x)%:R | Zneg x => - (Pos.to_nat x)%:R end.
Lemma zr_nat n : zr (Z.of_nat n) = n%:R.
Proof. by case: n => [|n] //=; rewrite SuccNat2Pos.id_succ. Qed.
Lemma zrN z : zr (- z)%Z = - zr z.
Proof. by case: z => [|x|x] /=; rewrite ?oppr0 ?opprK. Qed.
Lemma zr_diff x y : zr (Z.of_nat x - Z.of_nat y)%Z = x%:R - y%:R.
Proof.
case: (leqP y x) => le.
  have -> : (Z.of_nat x - Z.of_nat y)%Z = Z.of_nat (x - y)%N by move/ssrnat.leP: le => le; rewrite Nat2Z.inj_sub.
  by rewrite zr_nat natrB.
have -> : (Z.of_nat x - Z.of_nat y)%Z = (- Z.of_nat (y - x)%N)%Z.
  by move/ltnW/ssrnat.leP: le => le; rewrite Nat2Z.inj_sub //; lia.
by rewrite zrN zr_nat natrB ?opprB // ltnW.
Qed.
Lemma z_diff z : exists x y : nat, z = (Z.of_nat x - Z.of_nat y)%Z.
Proof.
case: (Z.le_gt_cases 0 z) => h.
  by exists (Z.to_nat z), 0%N; rewrite Z2Nat.id // Z.sub_0_r.
by exists 0%N, (Z.to_nat (- z)); rewrite Z2Nat.id; lia.
Qed.
Lemma zrD x y : zr (x + y)%Z = zr x + zr y.
Proof.
have [x1 [x2 ->]] := z_diff x; have [y1 [y2 ->]] := z_diff y.
have -> : (Z.of_nat x1 - Z.of_nat x2 + (Z.of_nat y1 - Z.of_nat y2) = Z.of_nat (x1 + y1)%N - Z.of_nat (x2 + y2)%N)%Z.
  by rewrite !nat_add; lia.
by rewrite !zr_diff !natrD opprD addrACA.
Qed.
Lemma zrB x y : zr (x - y)%Z = zr x - zr y.
Proof. by rewrite -zrN -zrD. Qed.
Lemma zrM x y : zr (x * y)%Z = zr x * zr y.
Proof.
have [x1 [x2 ->]] := z_diff x; have [y1 [y2 ->]] := z_diff y.
have -> : ((Z.of_nat x1 - Z.of_nat x2) * (Z.of_nat y1 - Z.of_nat y2)
           = Z.of_nat (x1 * y1 + x2 * y2)%N - Z.of_nat (x1 * y2 + x2 * y1)%N)%Z.
  by rewrite !nat_add !nat_mul; ring.
by rewrite !zr_diff !natrD !natrM; ring_in R.
Qed.
Lemma zr1 : zr 1%Z = 1. Proof. by []. Qed.
Lemma zr_ge0 z : (0 <= z)%Z -> 0 <= zr z.
Proof. by move=> z0; rewrite -(Z2Nat.id z) // zr_nat ler0n. Qed.
Lemma zr_gt0 z : (0 < z)%Z -> 0 < zr z.
Proof. by case: z => //= x _; rewrite ltr0n; apply/ssrnat.ltP; exact: Pos2Nat.is_pos. Qed.
Lemma zr_le x y : (x <= y)%Z -> zr x <= zr y.
Proof. by move=> le; rewrite -subr_ge0 -zrB; apply: zr_ge0; lia. Qed.
Lemma zr_lt x y : (x < y)%Z -> zr x < zr y.
Proof. by move=> lt; rewrite -subr_gt0 -zrB; apply: zr_gt0; lia. Qed.
Lemma zr_max x : zr (Z.max 0 x) = pos (zr x).
Proof.
case: (Z.le_ge_cases 0 x) => le; first by rewrite Z.max_r // pos_id // zr_ge0.
by rewrite Z.max_l // pos_0 // -[0]/(zr 0%Z) zr_le.
Qed.
Lemma zr_min x y : zr (Z.min x y) = Num.min (zr x) (zr y).
Proof.
case: (Z.le_ge_cases x y) => le; first by rewrite Z.min_l //; apply/esym/min_idPl/zr_le.
by rewrite Z.min_r //; apply/esym/min_idPr/zr_le.
Qed.
Lemma zr_rise d x n : zr (riseZ d x n) = rise (zr d) (zr x) n.
Proof. by elim: n x => [|n IH] x /=; rewrite ?rise0 // zrM IH zrD riseSl. Qed.
End Integers.

(** (u+1) C(m, u+1) = (m-u) C(m, u) and its likes, in integers. *)
Lemma bin_right m u : (u <= m)%N ->
  (Z.of_nat 'C(m, u) * (Z.of_nat m - Z.of_nat u) = Z.of_nat 'C(m, u.+1) * (Z.of_nat u + 1))%Z.
Proof. by move=> le; rewrite -nat_sub // -nat_succ -!nat_mul mulnC -mul_bin_left mulnC. Qed.
Lemma bin_down u s : (s <= u)%N ->
  (Z.of_nat 'C(u, s) * (Z.of_nat u + 1) = Z.of_nat 'C(u.+1, s) * (Z.of_nat u - Z.of_nat s + 1))%Z.
Proof.
move=> le; rewrite -nat_sub // -!nat_succ -!nat_mul -subSn //; congr Z.of_nat.
by rewrite mulnC [RHS]mulnC -mul_bin_down.
Qed.
Lemma bin_diag u s :
  (Z.of_nat 'C(u, s) * (Z.of_nat u + 1) = Z.of_nat 'C(u.+1, s.+1) * (Z.of_nat s + 1))%Z.
Proof. by rewrite -!nat_succ -!nat_mul; congr Z.of_nat; rewrite mulnC [RHS]mulnC -mul_bin_diag. Qed.

(** ** The computation is the sum *)
Section Correct.
Variable R : realFieldType.
Add Field field_R2 : (field_laws R).
Variables (m : nat) (d a b r p q : Z).
Hypotheses (d0 : (0 < d)%Z) (a0 : (0 < a)%Z) (b0 : (0 < b)%Z) (q0 : (0 < q)%Z) (qp : (q <= p)%Z).
Notation z := (zr R).
Notation lossR := (loss (z d) (z a) (z b) (z p) (z q)).
Notation baseR := (base (z d) (z a) (z b)).
Notation conditionalR := (conditional (z d) (z a) (z b) (z p) (z q)).

Definition partial (u : nat) : R :=
  \sum_(v < u.+1) 'C(m, v)%:R * (rise (z d) (z r + (m - u)%:R * z d) (u - v) * conditionalR v).

Lemma partialS u : (u < m)%N ->
  partial u.+1 = partial u * (z r + (m - u.+1)%:R * z d) + 'C(m, u.+1)%:R * conditionalR u.+1.
Proof.
move=> um; rewrite /partial big_ord_recr /= subnn rise0 mul1r; congr (_ + _); rewrite mulr_suml.
apply: eq_bigr => v _; have vu : (v <= u)%N by rewrite -ltnS.
rewrite subSn // riseSl (_ : z r + (m - u.+1)%:R * z d + z d = z r + (m - u)%:R * z d); first by ring_in R.
by rewrite -[(m - u)%N]prednK ?subn_gt0 // -subnS -[(m - u.+1).+1]addn1 natrD mulrDl mul1r addrA.
Qed.

(** What is true before each draw. *)
Definition invariant (u s : nat) (weight given total : Z) : Prop :=
  [/\ (s <= u)%N,
      exists2 y, weight = (Z.of_nat 'C(m, u.+1) * (Z.of_nat 'C(u, s) * y))%Z & z y = baseR u s,
      exists2 g, given = (Z.of_nat 'C(m, u) * g)%Z & z g = conditionalR u,
      z total = partial u
    & lossR u.+1 s <= 0 /\ (s = u \/ 0 <= lossR u.+1 s.+1)].

Lemma sum_up_is_sum draws u s weight given total : (u + draws = m)%N -> invariant u s weight given total ->
  z (sum_up (Z.of_nat m) d a b r p q draws (Z.of_nat u) (Z.of_nat s) weight given total)
  = row m (fun v => rise (z d) (z r) (m - v) * conditionalR v).
Proof.
have zd0 := zr_gt0 R d0; have za0 := zr_gt0 R a0; have zb0 := zr_gt0 R b0; have zq0 := zr_gt0 R q0.
have zp0 : 0 < z p by apply: zr_gt0; lia.
elim: draws u s weight given total => [|n IH] u s weight given total um [su [y -> ey] [g -> eg] et [low_le up]].
  rewrite addn0 in um; rewrite /= et /partial um subnn mul0r addr0 /row.
  by apply: eq_bigr.
have ltm : (u < m)%N by rewrite -um addnS ltnS leq_addr.
rewrite [sum_up _ _ _ _ _ _ _ _ _ _ _ _ _]/=.
set first := (a + Z.of_nat s * d)%Z; set second := (b + (Z.of_nat u - Z.of_nat s) * d)%Z.
set low := (q * b * first - p * a * (second + d))%Z; set high := (q * b * (first + d) - p * a * second)%Z.
have e_first : z first = z a + s%:R * z d by rewrite zrD zrM zr_nat.
have e_second : z second = z b + (u - s)%:R * z d by rewrite zrD zrM -nat_sub // zr_nat.
have e_low : lossR u.+1 s = z low.
  rewrite /loss subSn // /low zrB !zrM e_first zrD e_second mulrSr; ring_in R.
have e_high : lossR u.+1 s.+1 = z high.
  rewrite /loss subSS /high zrB !zrM e_second zrD e_first mulrSr; ring_in R.
(* what this draw adds *)
set more := Z.min _ _.
pose g' := ((a + b + d + Z.of_nat u * d) * g + Z.of_nat 'C(u, s) * (y * more))%Z.
have -> : ((Z.of_nat 'C(m, u) * g * ((a + b + d + Z.of_nat u * d) * (Z.of_nat m - Z.of_nat u)) / (Z.of_nat u + 1)
    + Z.of_nat 'C(m, u.+1) * (Z.of_nat 'C(u, s) * y) * more) = Z.of_nat 'C(m, u.+1) * g')%Z.
  have -> : (Z.of_nat 'C(m, u) * g * ((a + b + d + Z.of_nat u * d) * (Z.of_nat m - Z.of_nat u))
    = Z.of_nat 'C(m, u.+1) * ((a + b + d + Z.of_nat u * d) * g) * (Z.of_nat u + 1))%Z.
    transitivity ((Z.of_nat 'C(m, u) * (Z.of_nat m - Z.of_nat u)) * ((a + b + d + Z.of_nat u * d) * g))%Z; first by ring.
    by rewrite bin_right 1?ltnW //; ring.
  by rewrite Z.div_mul /g'; [ring | lia].
have e_g' : z g' = conditionalR u.+1.
  rewrite (one_more_draw zd0 za0 zb0 (ltW zp0) (ltW zq0) su low_le up) /g' zrD zrM eg.
  congr (_ + _); first by rewrite !(zrD, zrM) zr_nat.
  rewrite zrM zr_nat zrM ey /more zr_min zr_max; congr (_ * _).
  have y0 : 0 <= baseR u s by exact: base_ge0.
  rewrite /gap e_low e_high /base subSS subSn // !riseS -e_first -e_second zrM zrN zrM.
  rewrite (_ : pos (_ * _ * _ * z high) = baseR u s * pos (z high * z first)); last first.
    by rewrite -posM //; congr (pos _); rewrite /base [_ * z first * _]mulrAC -[LHS]mulrA [z first * _]mulrC.
  rewrite (_ : - (_ * z low) = baseR u s * (- z low * z second)); last first.
    by rewrite /base mulNr mulrN; congr (- _); rewrite !mulrA [LHS]mulrAC.
  by rewrite minr_pmulr.
set total' := (total * _ + _)%Z.
have e_total : z total' = partial u.+1.
  rewrite partialS // /total' zrD zrM et zrM zr_nat e_g'; congr (_ * _ + _).
  by rewrite zrD zrM; congr (_ + _ * _); rewrite -zr_nat nat_sub // nat_succ; congr (zr R _); lia.
have um' : (u.+1 + n = m)%N by rewrite addSnnS.
have e_next : lossR u.+2 s.+1 = z (high - p * a * d)%Z.
  rewrite zrB -e_high /loss subSS subSS subSn // !zrM (mulrSr _ (u - s)); ring_in R.
have keep_low : lossR u.+2 s <= 0.
  apply: le_trans low_le; rewrite /loss ler_add2l ler_opp2; apply: ler_wpmul2l; first by rewrite mulr_ge0 // ltW.
  by rewrite ler_add2l; apply: ler_wpmul2r; [exact: ltW | rewrite ler_nat leq_sub2r].
have bm : (Z.of_nat 'C(m, u.+1) * (Z.of_nat m - Z.of_nat u - 1) = Z.of_nat 'C(m, u.+2) * (Z.of_nat u + 2))%Z.
  have := bin_right ltm; rewrite nat_succ => e; transitivity (Z.of_nat 'C(m, u.+1) * (Z.of_nat m - (Z.of_nat u + 1)))%Z.
    by ring.
  by rewrite e; ring.
case: Z.ltb_spec => next.
  have -> : (Z.of_nat 'C(m, u.+1) * (Z.of_nat 'C(u, s) * y) * ((Z.of_nat m - Z.of_nat u - 1) * (Z.of_nat u + 1) * second)
      / ((Z.of_nat u + 2) * (Z.of_nat u - Z.of_nat s + 1))
      = Z.of_nat 'C(m, u.+2) * (Z.of_nat 'C(u.+1, s) * (y * second)))%Z.
    rewrite -(Z.div_mul (Z.of_nat 'C(m, u.+2) * _) ((Z.of_nat u + 2) * (Z.of_nat u - Z.of_nat s + 1))); last first.
      by rewrite -nat_sub //; lia.
    congr (_ / _)%Z.
    transitivity ((Z.of_nat 'C(m, u.+1) * (Z.of_nat m - Z.of_nat u - 1)) * ((Z.of_nat 'C(u, s) * (Z.of_nat u + 1)) * (y * second)))%Z.
      by ring.
    by rewrite bm bin_down //; ring.
  rewrite -nat_succ; apply: IH => //; split=> //; first exact: leqW.
  - by exists (y * second)%Z => //; rewrite zrM ey e_second /base subSn // riseS mulrA.
  - by exists g'.
  - by split=> //; right; rewrite e_next; apply/ltW/zr_gt0.
have -> : (Z.of_nat 'C(m, u.+1) * (Z.of_nat 'C(u, s) * y) * ((Z.of_nat m - Z.of_nat u - 1) * (Z.of_nat u + 1) * first)
    / ((Z.of_nat u + 2) * (Z.of_nat s + 1))
    = Z.of_nat 'C(m, u.+2) * (Z.of_nat 'C(u.+1, s.+1) * (y * first)))%Z.
  rewrite -(Z.div_mul (Z.of_nat 'C(m, u.+2) * _) ((Z.of_nat u + 2) * (Z.of_nat s + 1))); last by lia.
  congr (_ / _)%Z.
  transitivity ((Z.of_nat 'C(m, u.+1) * (Z.of_nat m - Z.of_nat u - 1)) * ((Z.of_nat 'C(u, s) * (Z.of_nat u + 1)) * (y * first)))%Z.
    by ring.
  by rewrite bm bin_diag //; ring.
rewrite -!nat_succ; apply: IH => //; split=> //.
- by exists (y * first)%Z => //; rewrite zrM ey e_first /base subSS riseS mulrAC.
- by exists g'.
- split; first by rewrite e_next -[0]/(z 0%Z) zr_le.
  case: up => [->|up]; [by left | right]; apply: le_trans up _.
  rewrite /loss !subSS ler_add2r; apply: ler_wpmul2l; first by rewrite mulr_ge0 // ltW.
  by rewrite ler_add2l; apply: ler_wpmul2r; [exact: ltW | rewrite ler_nat].
Qed.

Lemma denominator_gt0 : (0 <= r)%Z -> 0 < z (denominator m d a b r q).
Proof.
move=> r0; have zd0 := zr_gt0 R d0; have za0 := zr_gt0 R a0; have zb0 := zr_gt0 R b0; have zr0 := zr_ge0 R r0.
have rises : 0 < rise (z d) (z (a + b + d + r)%Z) m.
  by apply: rise_gt0; [exact: ltW | rewrite 3!zrD ltr_paddr // !addr_gt0].
by rewrite /denominator 3!zrM zr_rise; do 3!apply: mulr_gt0 => //; exact: zr_gt0.
Qed.

(** The divergence of the worst pair, in the order (a, b), is a quotient of two integers. *)
Theorem exact_sum : (0 <= r)%Z ->
  pair3 (z a / z d) (z b / z d) (z r / z d) m (z p / z q)
  = z (numerator m d a b r p q) / z (denominator m d a b r q).
Proof.
move=> r0; have zd0 := zr_gt0 R d0; have za0 := zr_gt0 R a0; have zb0 := zr_gt0 R b0; have zq0 := zr_gt0 R q0.
have zd x : z d * (z x / z d) = z x by rewrite mulrC divfK // lt0r_neq0.
have zr0 := zr_ge0 R r0.
have e1 : z (denominator m d a b r q)
    = z q * (z d * (z a / z d)) * (z d * (z b / z d)) * rise (z d) (z d * (z a / z d + z b / z d + 1 + z r / z d)) m.
  by rewrite !mulrDr !zd mulr1 /denominator !zrM zr_rise !zrD.
have den0 := denominator_gt0 r0.
apply/eqP; rewrite eq_sym (can2_eq (divfK (lt0r_neq0 den0)) (mulfK (lt0r_neq0 den0))) mulrC; apply/eqP.
rewrite e1 divergence_from_recursion ?divr_gt0 ?divr_ge0 ?(ltW zd0) // !zd.
have h1 : (0 <= (p - q) * (a * b))%Z by apply: Z.mul_nonneg_nonneg; nia.
have h2 : (0 <= p * a * d)%Z by apply: Z.mul_nonneg_nonneg; nia.
apply: (sum_up_is_sum (u := 0) (s := 0)) => //; split=> //.
- by exists 1%Z; rewrite ?bin1 ?bin0 ?Z.mul_1_r //= /base !rise0 mulr1.
- exists 0%Z; rewrite ?Z.mul_0_r // /conditional row0 /gap /base !rise0 !mul1r /loss !mul0r !addr0 pos_0 //.
  by rewrite -!zrM -zrB -[0]/(z 0%Z); apply: zr_le; lia.
- rewrite /partial big_ord1 /= bin0 mul1r rise0 mul1r.
  rewrite /conditional row0 /gap /base !rise0 !mul1r /loss !mul0r !addr0 pos_0 //.
  by rewrite -!zrM -zrB -[0]/(z 0%Z); apply: zr_le; lia.
- split; last by left.
  by rewrite /loss mul0r addr0 subn0 mul1r -zrD -!zrM -zrB -[0]/(z 0%Z); apply: zr_le; lia.
Qed.
End Correct.
