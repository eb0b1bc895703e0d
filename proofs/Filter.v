(** * Filters: releases that are chosen as one goes
  docs/theory/filters.md and docs/theory/marginals.md ("Why it is no filter in disguise").

  An *adversary* chooses each release, and what it costs, by the outputs of all earlier ones. A *filter* says yes or no to each
  choice by the costs so far and the next one. Where it says no, nothing is shown, and the adversary may ask for something else.

  - [filter_of_units]. *Let every release that costs c units be dominated by c independent copies of one pair. Saying yes while
    no more than U units are used is a filter: the whole is dominated by U copies.* [filter_of_units_attained]: an adversary that
    asks for the pair itself U times has exactly this divergence, so that the filter is exact.
  - [filter_of_sums] (Rogers, Roth, Ullman and Vadhan 2016, Theorem 3.6). *Let the i-th release be (epsilon_i, delta_i)-
    differentially private, given the outputs before it. Saying yes while the sums of epsilon_i and of delta_i are at most E and D
    is a filter for (E, D).*
  - [no_filter] (sampling-is-noise.md). *Where the profile of the next release is chosen by looking at the releases before, the
    composition of what was spent on each path does not bound the whole, even if it meets the same (epsilon, delta) on every path.*

  The filter in approximate zCDP is not treated here.

  | here              | on the page                                                                                       |
  |-------------------|---------------------------------------------------------------------------------------------------|
  | Kx h, Ky h        | the laws of the release that is chosen after the outputs h, under x and under y                   |
  | cost h            | what it costs, in units                                                                           |
  | et h, d h         | what it costs: e^epsilon_i and delta_i                                                            |
  | left, T, D        | what is left of the budget: units, e^E and D                                                      |
  | silent            | the law of showing nothing                                                                        |
  | units_filter, ... | the law of everything that is seen in n rounds under the filter                                   | *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions DataProcessing.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Filters.
Variables (R : realFieldType) (A : finType) (silent : A -> R).
Hypothesis silent_law : law silent.
Variables Kx Ky : seq A -> A -> R.
Hypotheses (kx : kernel Kx) (ky : kernel Ky).

(** Whatever has the same law under x and y is dominated by every pair. *)
Lemma same_dominated (q : pair R) (T : finType) (P : T -> R) : law P -> dominates (@first _ q) (@second _ q) P P.
Proof.
move=> lP; apply: image_dominates; exists (fun _ => P); split=> //.
by split=> o; rewrite /push -mulr_suml; [case: (first_law q) | case: (second_law q)] => _ ->; rewrite mul1r.
Qed.

(** ** Units *)
Section Units.
Variables (unit : pair R) (cost : seq A -> nat).
Definition copies (c : nat) : pair R := product (nseq c unit).
Hypothesis units_dominate : forall h, dominates (@first _ (copies (cost h))) (@second _ (copies (cost h))) (Kx h) (Ky h).
Fixpoint units_filter (K : seq A -> A -> R) (left : nat) (h : seq A) (n : nat) : Seq A n -> R :=
  if n is n'.+1 then fun o =>
    if (cost h <= left)%N then K h o.1 * units_filter K (left - cost h) (rcons h o.1) o.2
    else silent o.1 * units_filter K left (rcons h o.1) o.2
  else fun _ => 1.
Lemma units_filter_law K left h n : kernel K -> law (units_filter K left h (n := n)).
Proof.
move=> kK; elim: n left h => [|n IH] left h; first exact: unit_law.
suff step (S : A -> R) left' : law S -> law (fun o : Seq A n.+1 => S o.1 * units_filter K left' (rcons h o.1) o.2).
  by rewrite /=; case: (_ <= _)%N; exact: step.
move=> [s0 s1]; split=> [o|]; first by apply: mulr_ge0 => //; case: (IH left' (rcons h o.1)).
rewrite -(pair_bigA _ (fun a o => S a * units_filter K left' (rcons h a) o)) /= -s1.
by apply: eq_bigr => a _; rewrite -mulr_sumr; have [_ e] := IH left' (rcons h a); rewrite e mulr1.
Qed.
Theorem filter_of_units (U n : nat) :
  dominates (@first _ (copies U)) (@second _ (copies U))
            (units_filter Kx U [::] (n := n)) (units_filter Ky U [::] (n := n)).
Proof.
elim: n U [::] => [|n IH] left h; first by apply: same_dominated; exact: unit_law.
rewrite /=; case: leqP => [le|_].
  have e : copies left = product (nseq (cost h) unit ++ nseq (left - cost h) unit) by rewrite -nseqD subnKC.
  rewrite e; apply: dominates_trans (product_cat _ _) _.
  apply: (adaptive_composition (Mx := Kx h) (My := Ky h) (P2 := @first _ (copies (left - cost h)))
            (Q2 := @second _ (copies (left - cost h)))
            (Nx := fun a => units_filter Kx (left - cost h) (rcons h a) (n := n))
            (Ny := fun a => units_filter Ky (left - cost h) (rcons h a) (n := n))) => //.
  - by move=> a; exact: units_filter_law.
  - by move=> a; exact: units_filter_law.
  - exact: first_law.
  - exact: second_law.
  - exact: units_dominate.
apply: (dominates_trans (product_cat [::] (nseq left unit))).
apply: (adaptive_composition (Mx := silent) (My := silent) (P2 := @first _ (copies left)) (Q2 := @second _ (copies left))
          (Nx := fun a => units_filter Kx left (rcons h a) (n := n))
          (Ny := fun a => units_filter Ky left (rcons h a) (n := n))) => //.
- by move=> a; exact: units_filter_law.
- by move=> a; exact: units_filter_law.
- exact: first_law.
- exact: second_law.
- exact: (same_dominated (product [::])).
Qed.
End Units.

(** ** Sums of epsilon and delta *)
Section Sums.
Variables et d : seq A -> R.
Hypotheses (et1 : forall h, 1 <= et h) (d0 : forall h, 0 <= d h).
Hypothesis private : forall h, H (et h) (Kx h) (Ky h) <= d h.
Fixpoint sums_filter (K : seq A -> A -> R) (T D : R) (h : seq A) (n : nat) : Seq A n -> R :=
  if n is n'.+1 then fun o =>
    if (et h <= T) && (d h <= D) then K h o.1 * sums_filter K (T / et h) (D - d h) (rcons h o.1) o.2
    else silent o.1 * sums_filter K T D (rcons h o.1) o.2
  else fun _ => 1.
Lemma sums_filter_law K T D h n : kernel K -> law (sums_filter K T D h (n := n)).
Proof.
move=> kK; elim: n T D h => [|n IH] T D h; first exact: unit_law.
suff step (S : A -> R) T' D' : law S -> law (fun o : Seq A n.+1 => S o.1 * sums_filter K T' D' (rcons h o.1) o.2).
  by rewrite /=; case: (_ && _); exact: step.
move=> [s0 s1]; split=> [o|]; first by apply: mulr_ge0 => //; case: (IH T' D' (rcons h o.1)).
rewrite -(pair_bigA _ (fun a o => S a * sums_filter K T' D' (rcons h a) o)) /= -s1.
by apply: eq_bigr => a _; rewrite -mulr_sumr; have [_ e] := IH T' D' (rcons h a); rewrite e mulr1.
Qed.
(** The step of the proof: the next release costs (t, .), and after its output a what is left is (s, e). *)
Lemma one_more (T : finType) (P Q : T -> R) (u v t s e : R) :
  law P -> law Q -> 0 <= u -> 0 <= v -> 0 < t -> 0 <= s -> H s P Q <= e ->
  \sum_o pos (u * P o - t * s * (v * Q o)) <= u * e + pos (u - t * v).
Proof.
move=> [p0 p1] [q0 q1] u0 v0 t0 s0 He.
pose B := [set o | t * s * (v * Q o) < u * P o].
rewrite -[X in X <= _](H_attained (t * s) (fun o => u * P o) (fun o => v * Q o)) -/B -!mulr_sumr.
set PB := \sum_(o in B) P o; set QB := \sum_(o in B) Q o.
have QB0 : 0 <= QB by apply: sumr_ge0.
have e0 : 0 <= e by apply: le_trans He; exact: H_ge0.
have PB1 : PB <= 1 by rewrite -p1 [X in _ <= X](bigID (fun o => o \in B)) /= ler_addl sumr_ge0.
have PBe : PB <= s * QB + e by have := le_trans (H_event s P Q B) He; rewrite ler_subl_addl.
pose h := Num.min 1 (s * QB).
have h0 : 0 <= h by rewrite le_minr ler01 mulr_ge0.
have PBh : PB <= h + e.
  by rewrite /h; case: (leP 1 (s * QB)) => _ //; apply: le_trans PB1 _; rewrite ler_addl.
apply: (@le_trans _ _ (u * (h + e) - t * v * h)).
  apply: ler_sub; first exact: ler_wpmul2l.
  rewrite [X in _ <= X]mulrACA; apply: ler_wpmul2l; first by rewrite mulr_ge0 // ltW.
  by rewrite /h le_minl lexx orbT.
rewrite mulrDr -addrA [u * e - _]addrC addrA -mulrBl addrC ler_add2l.
case: (leP (u - t * v) 0) => neg.
  by apply: le_trans (pos_ge0 _); rewrite mulr_le0_ge0.
rewrite pos_id; last exact: ltW.
by apply: ler_pimulr; [exact: ltW | rewrite /h le_minl lexx].
Qed.
Theorem filter_of_sums (T D : R) (n : nat) : 1 <= T -> 0 <= D ->
  H T (sums_filter Kx T D [::] (n := n)) (sums_filter Ky T D [::] (n := n)) <= D.
Proof.
move: ([::] : seq A) => h; elim: n T D h => [|n IH] T D h T1 D0.
  by rewrite /H /= (sum_unit (fun _ => pos (1 - T * 1))) mulr1 pos_0 // subr_le0.
have et0 : 0 < et h by exact: lt_le_trans ltr01 (et1 h).
rewrite /=; case: (boolP ((et h <= T) && (d h <= D))) => [/andP[leT leD]|_].
  have left1 : 1 <= T / et h by rewrite ler_pdivl_mulr // mul1r.
  have left0 : 0 <= D - d h by rewrite subr_ge0.
  rewrite /H -(pair_bigA _ (fun a o => pos (Kx h a * sums_filter Kx (T / et h) (D - d h) (rcons h a) o -
     T * (Ky h a * sums_filter Ky (T / et h) (D - d h) (rcons h a) o)))) /=.
  apply: (@le_trans _ _ (\sum_a (Kx h a * (D - d h) + pos (Kx h a - et h * Ky h a)))).
    apply: ler_sum => a _; have := IH _ _ (rcons h a) left1 left0 => next.
    have T_ : T = et h * (T / et h) by rewrite mulrCA divff ?mulr1 // lt0r_neq0.
    rewrite [X in X <= _](eq_bigr (fun o => pos (Kx h a * sums_filter Kx (T / et h) (D - d h) (rcons h a) o -
       et h * (T / et h) * (Ky h a * sums_filter Ky (T / et h) (D - d h) (rcons h a) o)))); last by rewrite -T_.
    apply: one_more next => //; try exact: sums_filter_law; try exact: le_trans ler01 left1.
      by case: (kx h).
    by case: (ky h).
  rewrite big_split /= -mulr_suml; have [_ ->] := kx h; rewrite mul1r.
  by rewrite -ler_subr_addl opprB addrCA subrr addr0; exact: private.
rewrite /H -(pair_bigA _ (fun a o => pos (silent a * sums_filter Kx T D (rcons h a) o -
   T * (silent a * sums_filter Ky T D (rcons h a) o)))) /=.
have [s0 s1] := silent_law; rewrite -[X in _ <= X]mul1r -s1 mulr_suml; apply: ler_sum => a _.
rewrite (eq_bigr (fun o => silent a * pos (sums_filter Kx T D (rcons h a) o - T * sums_filter Ky T D (rcons h a) o))).
  by rewrite -mulr_sumr; apply: ler_wpmul2l => //; exact: IH.
by move=> o _; rewrite mulrCA -mulrBr posM.
Qed.
End Sums.
End Filters.

(** The filter of units is exact: somebody may ask for the pair itself, U times. *)
Section Attained.
Variables (R : realFieldType) (unit : pair R).
Theorem filter_of_units_attained (silent : source unit -> R) (U : nat) t :
  H t (units_filter silent (fun _ => 1%N) (fun _ => @first _ unit) U [::] (n := U))
      (units_filter silent (fun _ => 1%N) (fun _ => @second _ unit) U [::] (n := U))
  = H t (@first _ (copies unit U)) (@second _ (copies unit U)).
Proof.
suff main u v (h : seq (source unit)) :
    \sum_o pos (u * units_filter silent (fun _ => 1%N) (fun _ => @first _ unit) U h (n := U) o -
                v * units_filter silent (fun _ => 1%N) (fun _ => @second _ unit) U h (n := U) o) =
    \sum_s pos (u * @first _ (copies unit U) s - v * @second _ (copies unit U) s).
  have := main 1 t [::]; rewrite /H.
  by under eq_bigr do rewrite mul1r; under [in RHS]eq_bigr do rewrite mul1r.
elim: U u v h => [|U IH] u v h; first by rewrite /= !sum_unit.
rewrite /= subn1 /= -(pair_bigA _ (fun a o =>
    pos (u * (first a * units_filter silent (fun _ => 1%N) (fun _ => @first _ unit) U (rcons h a) (n := U) o) -
         v * (second a * units_filter silent (fun _ => 1%N) (fun _ => @second _ unit) U (rcons h a) (n := U) o)))) /=.
rewrite -(pair_bigA _ (fun a s =>
    pos (u * (first a * @first _ (copies unit U) s) - v * (second a * @second _ (copies unit U) s)))) /=.
apply: eq_bigr => a _; have := IH (u * first a) (v * second a) (rcons h a).
by under eq_bigr do rewrite -!mulrA; under [in RHS]eq_bigr do rewrite -!mulrA.
Qed.
End Attained.

(** ** It is no filter: e^epsilon = 3 *)
Section NoFilter.
Variable R : realFieldType.
Definition share (T : Type) (c : nat) (f : T -> nat) : T -> R := fun o => (f o)%:R / c%:R.
(** The first release shows 1 with probability 1/20 under x and 1/40 under y. *)
Definition first_x : bool -> R := share 40 (fun o => if o then 2 else 38)%N.
Definition first_y : bool -> R := share 40 (fun o => if o then 1 else 39)%N.
(** Randomised response with probabilities 3/4 and 1/4. *)
Definition response_x : option bool -> R :=
  share 160 (fun o => match o with Some true => 120 | Some false => 40 | None => 0 end)%N.
Definition response_y : option bool -> R :=
  share 160 (fun o => match o with Some true => 40 | Some false => 120 | None => 0 end)%N.
(** A release that shows everything with probability 3/160 and else nothing. *)
Definition all_x : option bool -> R :=
  share 160 (fun o => match o with Some true => 3 | Some false => 0 | None => 157 end)%N.
Definition all_y : option bool -> R :=
  share 160 (fun o => match o with Some true => 0 | Some false => 3 | None => 157 end)%N.
(** The response after a 1, the other after a 0. *)
Definition chosen_x (ab : bool * option bool) : R := first_x ab.1 * (if ab.1 then response_x else all_x) ab.2.
Definition chosen_y (ab : bool * option bool) : R := first_y ab.1 * (if ab.1 then response_y else all_y) ab.2.
Definition D : R := 3%:R / 160%:R.

Lemma H_share (P Q : bool * option bool -> R) (f g : bool * option bool -> nat) (c : nat) :
  (forall o, P o = share c f o) -> (forall o, Q o = share c g o) ->
  H 3%:R P Q = (\sum_(a : bool) ((f (a, Some true) - 3 * g (a, Some true)) + ((f (a, Some false) - 3 * g (a, Some false)) +
               (f (a, None) - 3 * g (a, None)))))%N%:R / c%:R.
Proof.
move=> eP eQ; pose F o := (f o - 3 * g o)%N.
rewrite (_ : (\sum_a _)%N = (\sum_o F o)%N); last first.
  transitivity (\sum_a \sum_b F (a, b))%N; last by rewrite pair_bigA; apply: eq_bigr => -[].
  apply: eq_bigr => a _.
  by rewrite (bigD1 (Some true)) //= (bigD1 (Some false)) //= (bigD1 None) //= big1 ?addn0 // => -[[]|].
rewrite natr_sum mulr_suml; apply: eq_bigr => o _; rewrite eP eQ /share /F mulrA -mulrBl mulrC.
rewrite posM ?invr_ge0 ?ler0n // mulrC; congr (_ / _); rewrite -natrM.
case: (leqP (3 * g o) (f o)) => h; first by rewrite natrB // pos_id // subr_ge0 ler_nat.
have le := ltnW h; rewrite pos_0; last by rewrite subr_le0 ler_nat.
by move: le; rewrite -subn_eq0 => /eqP ->.
Qed.
Lemma share_share (T T' : Type) c c' (f : T -> nat) (g : T' -> nat) a b :
  share c f a * share c' g b = share (c * c') (fun ab : T * T' => f ab.1 * g ab.2)%N (a, b).
Proof. by rewrite /share /= mulrACA -natrM -invfM -natrM. Qed.
Theorem no_filter :
  [/\ H 3%:R (both first_x response_x) (both first_y response_y) = D /\
      H 3%:R (both first_y response_y) (both first_x response_x) = D,
      H 3%:R (both first_x all_x) (both first_y all_y) = D /\ H 3%:R (both first_y all_y) (both first_x all_x) = D &
      H 3%:R chosen_x chosen_y = 39%:R / 20%:R * D].
Proof.
have simpler a b c : (a * c.+1)%:R / (b * c.+1)%:R = a%:R / b%:R :> R.
  by rewrite !natrM -mulf_div divff ?mulr1 // pnatr_eq0.
have same a b c d : a = c -> b = d -> a%:R / b%:R = c%:R / d%:R :> R by move=> -> ->.
have eD : D = 120%:R / (40 * 160)%:R by rewrite /D -(simpler 3%N 160%N 39%N); apply: same.
have eC : 39%:R / 20%:R * D = 234%:R / (40 * 160)%:R.
  by rewrite /D mulf_div -!natrM -(simpler (39 * 3)%N (20 * 160)%N 1%N); apply: same.
have both_share c c' (f : bool -> nat) (g : option bool -> nat) o :
    both (share c f) (share c' g) o = share (c * c') (fun ab => f ab.1 * g ab.2)%N o by case: o => a b; exact: share_share.
have nats n k : n = k -> n%:R / (40 * 160)%:R = k%:R / (40 * 160)%:R :> R by move=> ->.
rewrite eC eD; split; first split.
- by rewrite (H_share (both_share _ _ _ _) (both_share _ _ _ _)); apply: nats; rewrite big_bool; vm_compute.
- by rewrite (H_share (both_share _ _ _ _) (both_share _ _ _ _)); apply: nats; rewrite big_bool; vm_compute.
- by split; rewrite (H_share (both_share _ _ _ _) (both_share _ _ _ _)); apply: nats; rewrite big_bool; vm_compute.
pose f (o : bool * option bool) := ((if o.1 then 2 else 38) *
  (if o.1 then match o.2 with Some true => 120 | Some false => 40 | None => 0 end
   else match o.2 with Some true => 3 | Some false => 0 | None => 157 end))%N.
pose g (o : bool * option bool) := ((if o.1 then 1 else 39) *
  (if o.1 then match o.2 with Some true => 40 | Some false => 120 | None => 0 end
   else match o.2 with Some true => 0 | Some false => 3 | None => 157 end))%N.
rewrite (@H_share _ _ f g (40 * 160)).
- by apply: nats; rewrite big_bool; vm_compute.
- by move=> [[] b]; rewrite /chosen_x /first_x /response_x /all_x share_share.
- by move=> [[] b]; rewrite /chosen_y /first_y /response_y /all_y share_share.
Qed.
End NoFilter.
