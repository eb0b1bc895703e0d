(** * T6: independent noise in every count
  docs/theory/perturbed-histogram.md:

  *Let Z be integer-valued noise with a log-concave probability mass function. When g <= n records are replaced, the exact
  profile is that of the pair P = (Z_1, Z_2), Q = (Z_1 + g, Z_2 - g).*

  Proved for every log-concave noise on the integers from -w to w, for every w ([T6]), and so for the discrete
  Gaussian and the discrete Laplace, cut at w ([gaussian_noise], [laplace_noise]). That the noise of the library has no w is
  a limit that stays on paper: cut noise differs from it by the mass outside of w, in total variation, for every count.

  The page uses power functions. Here the same steps are made with the sums over o of (u P(o) - v Q(o))_+, for all weights
  u, v >= 0, which say as much. [between_up] is what log-concavity is good for: with some weight c, the noise shifted by a
  is between the one that is not shifted, weight u, and the one shifted by a + b, weight v, at every integer.

  | here             | on the page                                                                              |
  |------------------|------------------------------------------------------------------------------------------|
  | noise w p        | p is the law of Z: log-concave, and 0 outside of -w .. w                                 |
  | noise_concave    | the likelihood ratio of Z to Z + a is non-increasing                                     |
  | window L         | the integers from -L to L; L is so large that no noisy count is left out                 |
  | gap s a m u v    | the sum over z of (u Pr(Z = z) - v Pr(Z + a = z))_+; of Z - a where s is false           |
  | step1 .. step4   | Steps 1 to 4 ([unit_table] is Step 3 with the others)                                    |
  | noisy_counts p c | the law of the counts c, plus independent noise in each of k cells                       |
  | Z0, Zup, Zdown   | the laws of Z, Z + g and Z - g                                                           | *)
From mathcomp Require Import all_ssreflect all_algebra.
From Coq Require Import ZArith Lia.
From Discreet Require Import Definitions DataProcessing Records.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.
Delimit Scope Z_scope with Z. Delimit Scope nat_scope with N.

(** The integers from -L to L. *)
Definition window (L : nat) : finType := [finType of 'I_(L.*2.+1)].
Definition value (L : nat) (o : window L) : Z := (Z.of_nat (o : 'I__) - Z.of_nat L)%Z.

Section Windows.
Variable R : realFieldType.
Lemma doubleZ n : Z.of_nat n.*2 = (2 * Z.of_nat n)%Z.
Proof. by rewrite -addnn -plusE; lia. Qed.
Lemma value_bound L (o : window L) : (- Z.of_nat L <= value o <= Z.of_nat L)%Z.
Proof.
by rewrite /value; have /ssrnat.ltP := ltn_ord (o : 'I__); have := doubleZ L; lia.
Qed.
Lemma value_inj L : injective (@value L).
Proof. by move=> a b e; apply: val_inj; apply: Nat2Z.inj; move: e; rewrite /value /=; lia. Qed.
Definition at_value L (z : Z) : window L := inord (Z.to_nat (z + Z.of_nat L)).
Lemma valueK L z : (- Z.of_nat L <= z <= Z.of_nat L)%Z -> value (at_value L z) = z.
Proof.
move=> h; rewrite /value /at_value inordK; first by lia.
by apply/ssrnat.ltP; have := doubleZ L; lia.
Qed.
Lemma at_valueK L (o : window L) : at_value L (value o) = o.
Proof. by apply: value_inj; rewrite valueK //; exact: value_bound. Qed.

(** A sum over all integers where f is not 0 does not depend on the window. *)
Lemma window_sum (f : Z -> R) m L (N : Z) :
  (forall z, f z != 0 -> (- Z.of_nat m <= z <= Z.of_nat m /\ - Z.of_nat L <= z + N <= Z.of_nat L)%Z) ->
  \sum_(o : window L) f (value o - N)%Z = \sum_(o : window m) f (value o).
Proof.
move=> fz; rewrite (bigID (fun o => f (value o - N)%Z != 0)) /= [X in _ + X]big1 ?addr0; last first.
  by move=> o; rewrite negbK => /eqP.
rewrite (reindex_onto (fun o : window m => at_value L (value o + N)%Z)
                      (fun o : window L => at_value m (value o - N)%Z)) /=; last first.
  by move=> o nz; have [b1 b2] := fz _ nz; rewrite valueK //; apply: value_inj; rewrite valueK; lia.
rewrite [RHS](bigID (fun o => f (value o) != 0)) /= [X in _ = _ + X]big1 ?addr0; last first.
  by move=> o; rewrite negbK => /eqP.
have key (o : window m) : f (value o) != 0 ->
    value (at_value L (value o + N)%Z) = (value o + N)%Z.
  by move=> nz; have [b1 b2] := fz _ nz; rewrite valueK.
have dead (o : window m) : f (value (at_value L (value o + N)) - N)%Z != 0 ->
    at_value m (value (at_value L (value o + N)) - N)%Z = o -> f (value o) != 0.
  move=> nz e; have [b1 b2] := fz _ nz.
  by rewrite -[o in value o]e valueK.
apply: eq_big => [o|o /andP[nz /eqP e]].
  apply/andP/idP => [[nz /eqP e]|nz]; first exact: dead nz e.
  rewrite key // (_ : (value o + N - N = value o)%Z) ?at_valueK ?eqxx //; lia.
have nz' := dead _ nz e; rewrite key //; congr f; lia.
Qed.
Lemma window_mirror (f : Z -> R) m : \sum_(o : window m) f (- value o)%Z = \sum_(o : window m) f (value o).
Proof.
rewrite [RHS](reindex_inj (@rev_ord_inj _)) /=; apply: eq_bigr => o _; congr f.
by rewrite /value /= subSS -minusE; have /ssrnat.ltP := ltn_ord (o : 'I__); have := doubleZ m; lia.
Qed.
End Windows.

(** Noise: a law on the integers from -w to w that is log-concave. *)
Section Noise.
Variable R : realFieldType.
Record noise (w : nat) (p : Z -> R) : Prop := Noise {
  noise_ge0 : forall z, 0 <= p z;
  noise_zero : forall z, (z < - Z.of_nat w \/ Z.of_nat w < z)%Z -> p z = 0;
  noise_sum : \sum_(o : window w) p (value o) = 1;
  noise_concave : forall x y a, (x <= y)%Z -> (0 <= a)%Z -> p y * p (x - a)%Z <= p x * p (y - a)%Z }.

Variables (w : nat) (p : Z -> R).
Hypothesis N : noise w p.
Let p0 := noise_ge0 N.
Lemma noise_in z : p z != 0 -> (- Z.of_nat w <= z <= Z.of_nat w)%Z.
Proof.
move=> nz; have [//|out] : (- Z.of_nat w <= z <= Z.of_nat w \/ (z < - Z.of_nat w \/ Z.of_nat w < z))%Z by lia.
by rewrite (noise_zero N out) eqxx in nz.
Qed.

Lemma largest (T : finType) (c : T -> R) (i0 : T) :
  exists m, [/\ 0 <= m, forall o, c o <= m & m = 0 \/ exists o, m = c o].
Proof.
case: (arg_maxP c (erefl : xpredT i0)) => i _ imax; case: (leP 0 (c i)) => h.
  by exists (c i); split=> // [o|]; [exact: imax | right; exists i].
by exists 0; split=> // [o|]; [apply: le_trans (ltW h); exact: imax | left].
Qed.

(** Between Z and a noise that is shifted by a + b stands, with some weight, the noise that is shifted by a. *)
Lemma between_up u v (a b : Z) : 0 <= u -> 0 <= v -> (0 <= a)%Z -> (0 <= b)%Z ->
  exists c, 0 <= c /\ forall z,
    (u * p z <= c * p (z - a)%Z <= v * p (z - a - b)%Z) || (v * p (z - a - b)%Z <= c * p (z - a)%Z <= u * p z).
Proof.
move=> u0 v0 a0 b0.
pose low z := Num.min (u * p z) (v * p (z - a - b)%Z).
pose high z := Num.max (u * p z) (v * p (z - a - b)%Z).
have high0 z : 0 <= high z by rewrite le_maxr mulr_ge0.
have cross z z' : low z * p (z' - a)%Z <= high z' * p (z - a)%Z.
  have [h|h] : (z' <= z \/ z <= z')%Z by lia.
    apply: (@le_trans _ _ (u * p z * p (z' - a)%Z)); first by apply: ler_wpmul2r => //; rewrite le_minl lexx.
    apply: (@le_trans _ _ (u * p z' * p (z - a)%Z)); last by apply: ler_wpmul2r => //; rewrite le_maxr lexx.
    by rewrite -!mulrA; apply: ler_wpmul2l => //; exact: (noise_concave N).
  apply: (@le_trans _ _ (v * p (z - a - b)%Z * p (z' - a)%Z)); first by apply: ler_wpmul2r => //; rewrite le_minl lexx orbT.
  apply: (@le_trans _ _ (v * p (z' - a - b)%Z * p (z - a)%Z)); last by apply: ler_wpmul2r => //; rewrite le_maxr lexx orbT.
  rewrite -!mulrA; apply: ler_wpmul2l => //; rewrite mulrC [X in _ <= X]mulrC.
  by apply: (noise_concave N) => //; lia.
have low0 z : p (z - a)%Z = 0 -> low z = 0.
  move=> z0; have : (u * p z) * (v * p (z - a - b)%Z) <= 0.
    rewrite mulrACA -[X in _ <= X](mulr0 (u * v)); apply: ler_wpmul2l; first exact: mulr_ge0.
    have := noise_concave N (x := (z - b)%Z) (y := z) (a := a).
    rewrite z0 mulr0 (_ : (z - b - a = z - a - b)%Z); last by lia.
    by apply; lia.
  have A0 : 0 <= u * p z by exact: mulr_ge0.
  have B0 : 0 <= v * p (z - a - b)%Z by exact: mulr_ge0.
  move=> AB; have : (u * p z) * (v * p (z - a - b)%Z) == 0 by rewrite eq_le AB mulr_ge0.
  by rewrite /low mulf_eq0 => /orP[] /eqP e; rewrite e; [apply: min_l | apply: min_r].
have [c [c0 cmax catt]] := @largest (window w)
  (fun o => if p (value o) == 0 then 0 else low (value o + a)%Z / p (value o)) ord0.
exists c; split=> // z.
have bounds_ : low z <= c * p (z - a)%Z <= high z.
  case: (eqVneq (p (z - a)%Z) 0) => [z0|nz]; first by rewrite z0 mulr0 low0 // lexx high0.
  have pz : 0 < p (z - a)%Z by rewrite lt_def nz p0.
  apply/andP; split.
    have in_ := noise_in nz; have := cmax (at_value w (z - a)%Z).
    rewrite valueK // (negbTE nz) (_ : (z - a + a = z)%Z); last by lia.
    by rewrite ler_pdivr_mulr.
  case: catt => [->|[o ->]]; first by rewrite mul0r.
  case: (eqVneq (p (value o)) 0) => [_|nzo]; first by rewrite mul0r.
  have po : 0 < p (value o) by rewrite lt_def nzo p0.
  rewrite mulrAC ler_pdivr_mulr //; have := cross (value o + a)%Z z.
  by rewrite (_ : (value o + a - a = value o)%Z) //; lia.
move: bounds_; rewrite /low /high.
by case: (leP (u * p z) (v * p (z - a - b)%Z)) => h ->; rewrite ?orbT.
Qed.

(** A shift up by a, or down. *)
Definition shift (s : bool) (a : nat) : Z := if s then Z.of_nat a else (- Z.of_nat a)%Z.
Lemma between s u v (a b : nat) : 0 <= u -> 0 <= v ->
  exists c, 0 <= c /\ forall z,
    pos (u * p z - v * p (z - shift s a - shift s b)%Z) =
    pos (u * p z - c * p (z - shift s a)%Z) + pos (c * p (z - shift s a)%Z - v * p (z - shift s a - shift s b)%Z).
Proof.
move=> u0 v0.
have pos_between (x y y' : R) : (x <= y <= y') || (y' <= y <= x) -> pos (x - y') = pos (x - y) + pos (y - y').
  case/orP=> /andP[h1 h2].
    by rewrite !pos_0 ?addr0 // subr_le0 //; exact: le_trans h1 h2.
  by rewrite !pos_id ?subr_ge0 //; [rewrite addrA subrK | exact: le_trans h1 h2].
case: s => /=.
  by have [c [c0 h]] := between_up u0 v0 (Zle_0_nat a) (Zle_0_nat b); exists c; split=> // z; exact: pos_between.
have [c [c0 h]] := between_up v0 u0 (Zle_0_nat b) (Zle_0_nat a); exists c; split=> // z; apply: pos_between.
have := h (z - - Z.of_nat a - - Z.of_nat b)%Z.
rewrite (_ : (z - - Z.of_nat a - - Z.of_nat b - Z.of_nat b = z - - Z.of_nat a)%Z); last by lia.
by rewrite (_ : (z - - Z.of_nat a - Z.of_nat a = z)%Z) 1?orbC; last by lia.
Qed.

(** The unit: noise Z, and noise that is shifted. *)
Definition unit_noise (s : bool) (a m : nat) : window m -> R := fun o => p (value o - shift s a)%Z.
Definition gap s a m u v : R := \sum_(o : window m) pos (u * unit_noise s 0 o - v * unit_noise s a o).
Lemma shift0 s : shift s 0 = 0%Z. Proof. by case: s. Qed.
Lemma shift_bound s a : (- Z.of_nat a <= shift s a <= Z.of_nat a)%Z. Proof. by case: s => /=; lia. Qed.
Lemma unit_sum m L (c : Z) : (- Z.of_nat L <= c - Z.of_nat w /\ c + Z.of_nat w <= Z.of_nat L)%Z ->
  (w <= m)%N -> \sum_(o : window L) p (value o - c)%Z = 1.
Proof.
move=> h _; rewrite -(noise_sum N); apply: window_sum => z nz; have := noise_in nz; lia.
Qed.
Lemma unit_law' s a m : (w + a <= m)%N -> law (@unit_noise s a m).
Proof.
move=> /ssrnat.leP; rewrite -plusE => h; split=> [o|]; first exact: p0.
by apply: (@unit_sum w) => //; have := shift_bound s a; lia.
Qed.
Lemma pos_weighted0 (u v x y : R) : pos (u * x - v * y) != 0 -> 0 <= u -> 0 <= v -> x != 0 \/ y != 0.
Proof.
move=> nz u0 v0; case: (eqVneq x 0) => [x0|]; last by left.
by right; apply: contra_neq nz => y0; rewrite x0 y0 !mulr0 subr0 /pos maxxx.
Qed.
(** One count, whatever it is. *)
Lemma one_count L m s (c : Z) (a : nat) u v : 0 <= u -> 0 <= v -> (w + a <= m)%N ->
  (- Z.of_nat L <= c - Z.of_nat w /\ c + Z.of_nat w <= Z.of_nat L)%Z ->
  (- Z.of_nat L <= c + shift s a - Z.of_nat w /\ c + shift s a + Z.of_nat w <= Z.of_nat L)%Z ->
  \sum_(o : window L) pos (u * p (value o - c)%Z - v * p (value o - (c + shift s a))%Z) = gap s a m u v.
Proof.
move=> u0 v0 /ssrnat.leP; rewrite -plusE => wm h1 h2; rewrite /gap /unit_noise shift0.
rewrite (eq_bigr (fun o : window L => pos (u * p (value o - c)%Z - v * p ((value o - c) - shift s a)%Z))); last first.
  by move=> o _; congr (pos (_ - _ * p _)); lia.
rewrite (window_sum (f := fun z => pos (u * p z - v * p (z - shift s a)%Z)) (m := m)); last first.
  move=> z nz; have := shift_bound s a; have [/noise_in|/noise_in] := pos_weighted0 nz u0 v0; lia.
by apply: eq_bigr => o _; congr (pos (_ * p _ - _)); lia.
Qed.

Lemma pos_sum (T : finType) (F : T -> R) : pos (\sum_o F o) <= \sum_o pos (F o).
Proof. by apply: pos_le; [apply: ler_sum => o _; exact: pos_ge | apply: sumr_ge0 => o _; exact: pos_ge0]. Qed.
Lemma posD (x y : R) : pos (x + y) <= pos x + pos y.
Proof. by apply: pos_le; [apply: ler_add; exact: pos_ge | apply: addr_ge0; exact: pos_ge0]. Qed.

(** Step 1: a shift by a + b is a shift by a, then one by b. *)
Lemma step1 s a b m u v : 0 <= u -> 0 <= v -> (w + (a + b) <= m)%N ->
  exists c, 0 <= c /\ gap s (a + b) m u v = gap s a m u c + gap s b m c v.
Proof.
move=> u0 v0 /ssrnat.leP; rewrite -!plusE => wm; have [c [c0 h]] := between s a b u0 v0; exists c; split=> //.
have sD : (shift s (a + b) = shift s a + shift s b)%Z by case: (s) => /=; rewrite -plusE; lia.
have sa := shift_bound s a; have sb := shift_bound s b.
rewrite /gap /unit_noise shift0 [X in _ = _ + X](_ : _ =
    \sum_(o : window m) pos (c * p (value o - shift s a)%Z - v * p (value o - shift s a - shift s b)%Z)).
  rewrite -big_split /=; apply: eq_bigr => o _.
  rewrite (_ : (value o - shift s (a + b) = value o - shift s a - shift s b)%Z); last by lia.
  by rewrite (_ : (value o - 0 = value o)%Z) ?h //; lia.
rewrite -(window_sum (f := fun z => pos (c * p (z - 0)%Z - v * p (z - shift s b)%Z)) (L := m) (N := shift s a)).
  by apply: eq_bigr => o _; congr (pos (_ * p _ - _)); lia.
move=> z nz; have [/noise_in|/noise_in] := pos_weighted0 nz c0 v0; lia.
Qed.

(** Step 4: a larger shift reveals more. *)
Lemma step4 s a b m u v : 0 <= u -> 0 <= v -> (w + (a + b) <= m)%N -> gap s a m u v <= gap s (a + b) m u v.
Proof.
move=> u0 v0 wm; have [c [c0 ->]] := step1 s u0 v0 wm.
have wa : (w + a <= m)%N by apply: leq_trans wm; rewrite leq_add2l leq_addr.
have wb : (w + b <= m)%N by apply: leq_trans wm; rewrite leq_add2l leq_addl.
have w0 : (w + 0 <= m)%N by apply: leq_trans wm; rewrite leq_add2l.
have [_ one0] := unit_law' s w0; have [_ one_a] := unit_law' s wa; have [_ one_b] := unit_law' s wb.
apply: (@le_trans _ _ (gap s a m u c + pos (c - v))); last first.
  rewrite ler_add2l; apply: le_trans (pos_sum _).
  by rewrite sumrB -!mulr_sumr one0 one_b !mulr1.
rewrite -[pos (c - v)]mulr1 -one_a mulr_sumr -big_split /=; apply: ler_sum => o _.
have a0 : 0 <= unit_noise s a o by exact: p0.
rewrite [X in _ <= _ + X]mulrC -posM // mulrBr [_ * c]mulrC [_ * v]mulrC.
by apply: le_trans (posD _ _); rewrite addrA subrK.
Qed.
Lemma mirrored a m u v : (forall z, p (- z)%Z = p z) ->
  gap false a m u v = gap true a m u v.
Proof.
move=> even.
rewrite /gap -(window_mirror (fun z => pos (u * p (z - shift true 0)%Z - v * p (z - shift true a)%Z))).
apply: eq_bigr => o _; rewrite /unit_noise /shift; congr (pos (_ * _ - _ * _)).
  by rewrite -even; congr p; lia.
by rewrite -even; congr p; lia.
Qed.

(** A table with independent noise in each of k cells. *)
Fixpoint noisy L (c : nat -> Z) (k : nat) : Seq (window L) k -> R :=
  if k is k'.+1 then fun o => p (value o.1 - c 0%N)%Z * noisy (fun i => c i.+1) o.2 else fun _ => 1.
Definition fits L (c : nat -> Z) (k : nat) : Prop :=
  forall i, (i < k)%N -> (- Z.of_nat L <= c i - Z.of_nat w /\ c i + Z.of_nat w <= Z.of_nat L)%Z.
Lemma fits_tail L c k : fits L c k.+1 -> fits L (fun i => c i.+1) k.
Proof. by move=> h i lt; exact: (h i.+1). Qed.
Lemma noisy_law L c k : fits L c k -> law (@noisy L c k).
Proof.
elim: k c => [|k IH] c h /=; first exact: unit_law.
have [n0 n1] := IH _ (fits_tail h); split=> [o|]; first by rewrite mulr_ge0.
rewrite -(pair_bigA _ (fun a o => p (value a - c 0%N)%Z * noisy (fun i => c i.+1) o)) /=.
rewrite -(unit_sum (h 0%N isT) (leqnn w)); apply: eq_bigr => a _.
by rewrite -mulr_sumr n1 mulr1.
Qed.
Lemma noisy_ext L c c' k (o : Seq (window L) k) : (forall i, (i < k)%N -> c i = c' i) -> noisy c o = noisy c' o.
Proof.
elim: k c c' o => [//|k IH] c c' o h /=; rewrite (h 0%N) //; congr (_ * _).
by apply: IH => i lt; exact: (h i.+1).
Qed.

(** Step 2: counts that all change in one direction are less revealing than one count that changes by the sum. *)
Lemma step2 L s m k (c : nat -> Z) (d : nat -> nat) u v : 0 <= u -> 0 <= v ->
  (w + \sum_(i < k) d i <= m)%N -> fits L c k -> fits L (fun i => c i + shift s (d i))%Z k ->
  \sum_(o : Seq (window L) k) pos (u * noisy c o - v * noisy (fun i => c i + shift s (d i))%Z o)
  <= gap s (\sum_(i < k) d i) m u v.
Proof.
elim: k c d u v => [|k IH] c d u v u0 v0 wm f1 f2.
  rewrite /= sum_unit !mulr1 big_ord0; apply: le_trans (pos_sum _).
  have [_ one] := unit_law' s (a := 0%N) (m := m) ltac:(by rewrite big_ord0 in wm).
  by rewrite sumrB -!mulr_sumr one !mulr1.
move: wm; rewrite big_ord_recl /=; set h := (\sum_(i < k) _)%N => wm.
have [x [x0 ->]] := step1 s u0 v0 wm.
have w1 : (w + d 0%N <= m)%N by apply: leq_trans wm; rewrite leq_add2l leq_addr.
have w2 : (w + h <= m)%N by apply: leq_trans wm; rewrite leq_add2l leq_addl.
have [n0 n1] := noisy_law (fits_tail f1).
apply: (@le_trans _ _ (\sum_(a : window L) \sum_(o : Seq (window L) k)
   (pos (u * p (value a - c 0%N)%Z - x * p (value a - (c 0%N + shift s (d 0%N)))%Z) * noisy (fun i => c i.+1) o
    + p (value a - (c 0%N + shift s (d 0%N)))%Z *
      pos (x * noisy (fun i => c i.+1) o - v * noisy (fun i => c i.+1 + shift s (d i.+1))%Z o)))).
  rewrite -(pair_bigA _ (fun a o => pos (u * (p (value a - c 0%N)%Z * noisy (fun i => c i.+1) o) -
     v * (p (value a - (c 0%N + shift s (d 0%N)))%Z * noisy (fun i => c i.+1 + shift s (d i.+1))%Z o)))) /=.
  apply: ler_sum => a _; apply: ler_sum => o _.
  rewrite [X in _ <= X + _]mulrC -!posM //; apply: le_trans (posD _ _); apply: pos_mono.
  rewrite !mulrBr; set A := p _; set B := p _; set n := noisy _ _; set n' := noisy _ _.
  rewrite [n * (u * A)]mulrCA [n * A]mulrC [n * (x * B)]mulrCA [n * B]mulrC [B * (x * n)]mulrCA [B * (v * n')]mulrCA.
  by rewrite addrA subrK.
rewrite (eq_bigr (fun a => pos (u * p (value a - c 0%N)%Z - x * p (value a - (c 0%N + shift s (d 0%N)))%Z) +
    p (value a - (c 0%N + shift s (d 0%N)))%Z * \sum_(o : Seq (window L) k)
      pos (x * noisy (fun i => c i.+1) o - v * noisy (fun i => c i.+1 + shift s (d i.+1))%Z o))); last first.
  by move=> a _; rewrite big_split /= -!mulr_sumr n1 mulr1.
rewrite big_split /= (one_count u0 x0 w1 (f1 0%N isT) (f2 0%N isT)) ler_add2l.
rewrite -mulr_suml (unit_sum (f2 0%N isT) (leqnn w)) mul1r.
by apply: IH => //; [exact: fits_tail f1 | exact: fits_tail f2].
Qed.
End Noise.

(** ** The table of a unit *)
Section UnitTable.
Variable R : realFieldType.
Variables (w : nat) (p : Z -> R).
Hypothesis N : noise w p.
Let p0 := noise_ge0 N.
Variables (g L n : nat).
Hypothesis large : (n + w <= L)%N.                                    (* L is a window for counts up to n *)
Notation m := (w + g)%N.
Definition Z0 : window m -> R := unit_noise p true 0 (m := m).          (* Z *)
Definition Zup : window m -> R := unit_noise p true g (m := m).         (* Z + g *)
Definition Zdown : window m -> R := unit_noise p false g (m := m).      (* Z - g *)
Lemma Z0_law : law Z0. Proof. by apply: (unit_law' N); rewrite addn0 leq_addr. Qed.
Lemma Zup_law : law Zup. Proof. exact: (unit_law' N). Qed.
Lemma Zdown_law : law Zdown. Proof. exact: (unit_law' N). Qed.

Definition noisy_counts (c : nat -> nat) (k : nat) : Seq (window L) k -> R := noisy p (fun i => Z.of_nat (c i)) (k := k).
Definition small (c : nat -> nat) (k : nat) := forall i, (i < k)%N -> (c i <= n)%N.
Lemma small_fits c k : small c k -> fits w L (fun i => Z.of_nat (c i)) k.
Proof.
move=> h i /h /ssrnat.leP lt; have /ssrnat.leP := large; rewrite -plusE; lia.
Qed.
Lemma noisy_counts_law c k : small c k -> law (@noisy_counts c k).
Proof. by move=> h; apply: (noisy_law N); exact: small_fits. Qed.

(** Steps 2 and 4: all counts go up, or all go down, by h <= g in all. *)
Lemma one_direction s k c c' :
  small c k -> small c' k -> (forall i, (i < k)%N -> if s then (c i <= c' i)%N else (c' i <= c i)%N) ->
  (\sum_(i < k) (if s then c' i - c i else c i - c' i) <= g)%N ->
  dominates Z0 (if s then Zup else Zdown) (@noisy_counts c k) (@noisy_counts c' k).
Proof.
move=> sc sc' mono; set d := fun i => (if s then c' i - c i else c i - c' i)%N.
rewrite (eq_bigr (fun i : 'I_k => d i)) // => hg t t0.
have ext i : (i < k)%N -> (Z.of_nat (c' i) = Z.of_nat (c i) + shift s (d i))%Z.
  by move=> lt; have := mono i lt; rewrite /d; case: (s) => /= /ssrnat.leP; rewrite -minusE; lia.
rewrite /H (eq_bigr (fun o : Seq (window L) k => pos (1 * noisy p (fun i => Z.of_nat (c i)) o -
    t * noisy p (fun i => Z.of_nat (c i) + shift s (d i))%Z o))); last first.
  by move=> o _; rewrite mul1r /noisy_counts (noisy_ext _ _ ext).
have f2 : fits w L (fun i => Z.of_nat (c i) + shift s (d i))%Z k.
  by move=> i lt; rewrite -(ext i lt); exact: small_fits sc' i lt.
have wm : (w + \sum_(i < k) d i <= m)%N by rewrite leq_add2l.
apply: le_trans (step2 N ler01 t0 wm (small_fits sc) f2) _.
have [r er] : exists r, g = (\sum_(i < k) d i + r)%N by exists (g - \sum_(i < k) d i)%N; rewrite subnKC.
apply: (@le_trans _ _ (gap p s g m 1 t)).
  by rewrite {2}er; apply: (step4 N) => //; rewrite -er.
rewrite /gap; apply: ler_sum => o _; apply: pos_mono; rewrite mul1r.
by case: (s); rewrite /Z0 /Zup /Zdown /unit_noise !shift0.
Qed.

(** Step 3: counts that go up and counts that go down are independent. *)
Fixpoint pick (f : nat -> bool) k : Seq (window L) k * Seq (window L) k -> Seq (window L) k -> R :=
  if k is k'.+1 then fun s o =>
    ((if f 0%N then s.1.1 else s.2.1) == o.1)%:R * pick (fun i => f i.+1) (s.1.2, s.2.2) o.2
  else fun _ _ => 1.
Lemma sum_point (T : finType) (x : T) : \sum_a (x == a)%:R = 1 :> R.
Proof. by rewrite (bigD1 x) //= eqxx big1 ?addr0 // => a /negbTE; rewrite eq_sym => ->. Qed.
Lemma pick_kernel f k : kernel (@pick f k).
Proof.
elim: k f => [|k IH] f s /=; first exact: unit_law.
split=> [o|]; first by apply: mulr_ge0; [case: (_ == _); rewrite ?ler01 | case: (IH (fun i => f i.+1) (s.1.2, s.2.2))].
rewrite -(pair_bigA _ (fun a o => ((if f 0%N then s.1.1 else s.2.1) == a)%:R * pick (fun i => f i.+1) (s.1.2, s.2.2) o)) /=.
rewrite -[RHS](sum_point (if f 0%N then s.1.1 else s.2.1)); apply: eq_bigr => a _; rewrite -mulr_sumr.
have [_ one] := IH (fun i => f i.+1) (s.1.2, s.2.2); by rewrite one mulr1.
Qed.
Lemma sum_pair (A B : finType) (F : A * B -> R) : \sum_s F s = \sum_a \sum_b F (a, b).
Proof. by rewrite (pair_bigA _ (fun a b => F (a, b))) /=; apply: eq_bigr => -[]. Qed.
Lemma sum_pairs (A B : finType) (F : (A * B) * (A * B) -> R) :
  \sum_s F s = \sum_a \sum_s \sum_b \sum_s' F ((a, s), (b, s')).
Proof. by rewrite !sum_pair; apply: eq_bigr => a _; apply: eq_bigr => s _; rewrite sum_pair. Qed.
Lemma pick_noisy f k c c' o : small c k -> small c' k ->
  push (@pick f k) (both (noisy_counts c (k := k)) (noisy_counts c' (k := k))) o =
  noisy_counts (fun i => if f i then c i else c' i) o.
Proof.
elim: k f c c' o => [|k IH] f c c' o sc sc'.
  by rewrite /push sum_pair !sum_unit /both /= !mulr1.
have tail e : small e k.+1 -> small (fun i => e i.+1) k by move=> h i lt; exact: (h i.+1).
rewrite /noisy_counts /= -/(noisy_counts _ _) -(IH (fun i => f i.+1) _ _ o.2 (tail _ sc) (tail _ sc')).
pose P e (a : window L) := p (value a - Z.of_nat (e 0%N))%Z.
have P1 e : small e k.+1 -> \sum_a P e a = 1.
  by move=> /small_fits /(_ 0%N isT) h; exact: unit_sum h (leqnn w).
rewrite /push sum_pairs sum_pair /both /=.
transitivity ((\sum_a \sum_b P c a * P c' b * ((if f 0%N then a else b) == o.1)%:R) *
   (\sum_s \sum_s' noisy p (fun i => Z.of_nat (c i.+1)) s * noisy p (fun i => Z.of_nat (c' i.+1)) s' *
       pick (fun i => f i.+1) (s, s') o.2)).
  rewrite mulr_suml; apply: eq_bigr => a _; rewrite mulr_sumr; apply: eq_bigr => s _.
  rewrite mulr_suml; apply: eq_bigr => b _; rewrite mulr_sumr; apply: eq_bigr => s' _.
  by rewrite [X in X * _ = _]mulrACA [LHS]mulrACA.
congr (_ * _).
case: (f 0%N).
  rewrite (bigD1 o.1) //= [X in _ + X]big1 ?addr0 => [|a ne]; last first.
    by apply: big1 => b _; rewrite (negbTE ne) mulr0.
  by rewrite eqxx -[RHS]mulr1 -[X in _ = _ * X](P1 _ sc') mulr_sumr; apply: eq_bigr => b _; rewrite mulr1.
rewrite exchange_big /= (bigD1 o.1) //= [X in _ + X]big1 ?addr0 => [|a ne]; last first.
  by apply: big1 => b _; rewrite (negbTE ne) mulr0.
by rewrite eqxx -[RHS]mul1r -[X in _ = X * _](P1 _ sc) mulr_suml; apply: eq_bigr => b _; rewrite mulr1.
Qed.

(** Steps 1 to 4 together. *)
Theorem unit_table k c c' : small c k -> small c' k ->
  (\sum_(i < k) (c' i - c i) <= g)%N -> (\sum_(i < k) (c i - c' i) <= g)%N ->
  dominates (both Z0 Z0) (both Zup Zdown) (@noisy_counts c k) (@noisy_counts c' k).
Proof.
move=> sc sc' up down.
pose hi i := maxn (c i) (c' i); pose lo i := minn (c i) (c' i).
have shi : small hi k by move=> i lt; rewrite geq_max sc ?sc'.
have slo : small lo k by move=> i lt; apply: leq_trans (geq_minl _ _) (sc i lt).
pose f i := (c i <= c' i)%N.
apply: (@dominates_trans _ _ _ _ _ _ (both (@noisy_counts c k) (@noisy_counts c k))
          (both (@noisy_counts hi k) (@noisy_counts lo k))).
  apply: (adaptive_composition (Nx := fun _ => @noisy_counts c k) (Ny := fun _ => @noisy_counts lo k)).
  - exact: noisy_counts_law.
  - exact: noisy_counts_law.
  - by move=> _; exact: noisy_counts_law.
  - by move=> _; exact: noisy_counts_law.
  - exact: Z0_law.
  - exact: Zdown_law.
  - apply: (@one_direction true) => // [i _|]; first exact: leq_maxl.
    apply: leq_trans up; apply: leq_sum => i _; rewrite /hi.
    by case: (leqP (c i) (c' i)) => h //; rewrite subnn.
  - move=> _; apply: (@one_direction false) => // [i _|]; first exact: geq_minl.
    apply: leq_trans down; apply: leq_sum => i _; rewrite /lo.
    by case: (leqP (c i) (c' i)) => h //; rewrite subnn.
apply: image_dominates; exists (@pick f k); split; first exact: pick_kernel.
split=> o; rewrite pick_noisy //; apply: noisy_ext => i _; rewrite /f /hi /lo; first by case: (_ <= _)%N.
by case: (leqP (c i) (c' i)).
Qed.

(** Where noise is symmetric, a shift down is no different from one up. *)
Lemma H_gap s t : H t Z0 (if s then Zup else Zdown) = gap p s g m 1 t.
Proof.
apply: eq_bigr => o _; rewrite mul1r.
by case: (s); rewrite /Z0 /Zup /Zdown /unit_noise !shift0.
Qed.
Lemma down_is_up : (forall z, p (- z)%Z = p z) -> dominates Z0 Zup Z0 Zdown.
Proof. by move=> even t _; rewrite (H_gap false) (H_gap true) mirrored. Qed.

(** *It is attained by moving g records from one cell to another.* *)
Lemma unit_table_attained k c c' t : 0 <= t -> small c k.+2 -> small c' k.+2 ->
  c' 0%N = (c 0%N + g)%N -> c 1%N = (c' 1%N + g)%N -> (forall i, c' i.+2 = c i.+2) ->
  H t (@noisy_counts c k.+2) (@noisy_counts c' k.+2) = H t (both Z0 Z0) (both Zup Zdown).
Proof.
move=> t0 sc sc' e0 e1 er.
pose rest : Seq (window L) k -> R := noisy p (fun i => Z.of_nat (c i.+2)) (k := k).
have [r0 r1] : law rest by apply: (noisy_law N) => i lt; exact: (small_fits sc (i := i.+2)).
pose A (a : window L) := p (value a - Z.of_nat (c 0%N))%Z.
pose A' (a : window L) := p (value a - (Z.of_nat (c 0%N) + shift true g))%Z.
pose B (b : window L) := p (value b - Z.of_nat (c 1%N))%Z.
pose B' (b : window L) := p (value b - (Z.of_nat (c 1%N) + shift false g))%Z.
have A0 a : 0 <= A a by exact: p0.
have A0' a : 0 <= A' a by exact: p0.
have z0 : (Z.of_nat (c' 0%N) = Z.of_nat (c 0%N) + shift true g)%Z by rewrite e0 /= -plusE; lia.
have z1 : (Z.of_nat (c' 1%N) = Z.of_nat (c 1%N) + shift false g)%Z by rewrite e1 /= -plusE; lia.
have f0 := small_fits sc (i := 0%N) isT; have f1 := small_fits sc (i := 1%N) isT.
have f0' := small_fits sc' (i := 0%N) isT; have f1' := small_fits sc' (i := 1%N) isT.
rewrite z0 in f0'; rewrite z1 in f1'.
transitivity (\sum_a \sum_b pos (A a * B b - t * A' a * B' b)).
  rewrite /H sum_pair; apply: eq_bigr => a _; rewrite sum_pair; apply: eq_bigr => b _.
  rewrite -[RHS]mulr1 -[X in _ = _ * X]r1 mulr_sumr; apply: eq_bigr => o _.
  rewrite [RHS]mulrC -posM // /noisy_counts /= z0 z1 mulrBr.
  rewrite (noisy_ext (c' := fun i => Z.of_nat (c i.+2)) p o); last by move=> i _; rewrite er.
  rewrite -/(A a) -/(A' a) -/(B b) -/(B' b) -/rest.
  by congr (pos (_ - _)); rewrite [RHS]mulrC !mulrA.
have wm : (w + g <= m)%N by [].
rewrite (eq_bigr (fun a => gap p false g m (A a) (t * A' a))); last first.
  by move=> a _; apply: (one_count N) => //; exact: mulr_ge0.
rewrite exchange_big /= /H sum_pair [RHS]exchange_big /=; apply: eq_bigr => b _.
have b0 : 0 <= unit_noise p false 0 b by exact: p0.
have b1 : 0 <= t * unit_noise p false g b by apply: mulr_ge0 => //; exact: p0.
rewrite (eq_bigr (fun a => pos (unit_noise p false 0 b * A a - t * unit_noise p false g b * A' a))); last first.
  by move=> a _; congr (pos (_ - _)); [exact: mulrC | exact: mulrAC].
rewrite (one_count N b0 b1 wm f0 f0'); apply: eq_bigr => a _; congr (pos (_ - _)); first by rewrite mulrC.
by rewrite -mulrA; congr (_ * _); exact: mulrC.
Qed.
End UnitTable.
Arguments Z0 {R} w p g o. Arguments Zup {R} w p g o. Arguments Zdown {R} w p g o. Arguments noisy_counts {R} p L c k o.

(** Theorem T6. *)
Section T6.
Variable R : realFieldType.
Variables (w : nat) (p : Z -> R) (g L n k : nat).
Hypotheses (N : noise w p) (large : (n + w <= L)%N) (two_cells : (2 <= k)%N) (gn : (g <= n)%N).
(** Tables of n records; a record is the number of its cell. *)
Definition T6_neighbours (x y : seq nat) : Prop := size x = n /\ replaced g x y.
Definition perturbed_histogram (x : seq nat) : Seq (window L) k -> R := noisy_counts p L (counts id x) k.
Theorem T6 t : 0 <= t ->
  exact T6_neighbours perturbed_histogram t (H t (both (Z0 w p g) (Z0 w p g)) (both (Zup w p g) (Zdown w p g))).
Proof.
move=> t0; split=> [x y [sx r]|].
  have sy : size y = n by case: r => c [a [b [px py ea eb]]]; rewrite (perm_size py) -sx (perm_size px) !size_cat ea eb.
  apply: (unit_table N large) => //.
  - by move=> i _; rewrite -sx; exact: counts_le.
  - by move=> i _; rewrite -sy; exact: counts_le.
  - exact: gains_replaced.
  - by apply: gains_replaced; exact: replaced_sym.
pose c := nseq (n - g) 0%N; exists (c ++ nseq g 1%N), (c ++ nseq g 0%N).
have size_ i : size (c ++ nseq g i) = n by rewrite size_cat !size_nseq subnK.
split; first by split; [exact: size_ | exists c, (nseq g 1%N), (nseq g 0%N); split=> //; rewrite size_nseq].
rewrite /perturbed_histogram; case: k two_cells => [//|[//|k']] _; apply: (unit_table_attained N large) => // [i _|i _| | |i].
- by rewrite -(size_ 1%N); exact: counts_le.
- by rewrite -(size_ 0%N); exact: counts_le.
- by rewrite /counts !count_cat !count_nseq /= !mul1n mul0n addn0.
- by rewrite /counts !count_cat !count_nseq /= !mul0n !mul1n.
- by rewrite /counts !count_cat !count_nseq /= !mul0n.
Qed.
End T6.

(** Noise of the form q^e(z) / S on the integers from -w to w, such as
    the discrete Gaussian, e(z) = z^2 and q = e^(-1/(2 s^2)), and the discrete Laplace, e(z) = |z| and q = e^(-1/beta). *)
Section Examples.
Variable R : realFieldType.
Variables (w : nat) (q : R) (e : Z -> nat).
Hypotheses (q0 : 0 < q) (q1 : q <= 1).
Hypothesis even : forall z, e (- z)%Z = e z.
Hypothesis convex : forall x y a, (x <= y)%Z -> (0 <= a)%Z -> (e x + e (y - a)%Z <= e y + e (x - a)%Z)%N.
Definition inside (z : Z) : bool := (Z.leb (- Z.of_nat w) z && Z.leb z (Z.of_nat w)).
Definition weight (z : Z) : R := if inside z then q ^+ e z else 0.
Definition cut (z : Z) : R := weight z / \sum_(o : window w) weight (value o).
Lemma weight_ge0 z : 0 <= weight z.
Proof. by rewrite /weight; case: (inside z) => //; apply: exprn_ge0; exact: ltW. Qed.
Lemma weight_sum_gt0 : 0 < \sum_(o : window w) weight (value o).
Proof.
have in0 : inside (value (at_value w 0%Z)) by rewrite valueK /inside; [apply/andP; split; apply/Z.leb_le; lia | lia].
rewrite (bigD1 (at_value w 0%Z)) //=; apply: ltr_paddr.
  by apply: sumr_ge0 => o _; exact: weight_ge0.
by rewrite /weight in0 exprn_gt0.
Qed.
Lemma cut_even z : cut (- z)%Z = cut z.
Proof.
rewrite /cut /weight even (_ : inside (- z)%Z = inside z) //.
by apply/idP/idP => /andP[/Z.leb_le h1 /Z.leb_le h2]; apply/andP; split; apply/Z.leb_le; lia.
Qed.
Theorem cut_noise : noise w cut.
Proof.
have S0 := weight_sum_gt0; have S1 : 0 <= (\sum_(o : window w) weight (value o))^-1 by rewrite invr_ge0 ltW.
split=> [z|z out||x y a xy a0].
- by rewrite divr_ge0 ?weight_ge0 ?ltW.
- rewrite /cut /weight (_ : inside z = false) ?mul0r //; apply/negbTE/negP => /andP[/Z.leb_le h1 /Z.leb_le h2]; lia.
- by rewrite -mulr_suml divff ?lt0r_neq0.
rewrite /cut mulrACA [X in _ <= X]mulrACA; apply: ler_wpmul2r; first exact: mulr_ge0.
rewrite {1 2}/weight; case iy: (inside y); last by rewrite mul0r mulr_ge0 // weight_ge0.
case ix: (inside (x - a)%Z); last by rewrite mulr0 mulr_ge0 // weight_ge0.
move: iy ix => /andP[/Z.leb_le y1 /Z.leb_le y2] /andP[/Z.leb_le x1 /Z.leb_le x2].
have in1 : inside x by apply/andP; split; apply/Z.leb_le; lia.
have in2 : inside (y - a)%Z by apply/andP; split; apply/Z.leb_le; lia.
rewrite /weight in1 in2 -!exprD; apply: ler_wiexpn2l => //; first exact: ltW.
exact: convex.
Qed.
End Examples.

Definition gaussian (R : realFieldType) (w : nat) (q : R) : Z -> R := cut w q (fun z => Z.to_nat (z * z)).
Definition laplace (R : realFieldType) (w : nat) (q : R) : Z -> R := cut w q (fun z => Z.to_nat (Z.abs z)).
Theorem gaussian_noise (R : realFieldType) w (q : R) : 0 < q -> q <= 1 ->
  noise w (gaussian w q) /\ forall z, gaussian w q (- z)%Z = gaussian w q z.
Proof.
move=> q0 q1; split; last by move=> z; apply: cut_even => z'; congr Z.to_nat; lia.
apply: cut_noise => // x y a xy a0.
have sq z : Z.of_nat (Z.to_nat (z * z)) = (z * z)%Z by rewrite Z2Nat.id //; nia.
apply/ssrnat.leP; rewrite -!plusE; apply/Nat2Z.inj_le; rewrite !Nat2Z.inj_add !sq; nia.
Qed.
Theorem laplace_noise (R : realFieldType) w (q : R) : 0 < q -> q <= 1 ->
  noise w (laplace w q) /\ forall z, laplace w q (- z)%Z = laplace w q z.
Proof.
move=> q0 q1; split; last by move=> z; apply: cut_even => z'; congr Z.to_nat; lia.
apply: cut_noise => // x y a xy a0.
by apply/ssrnat.leP; rewrite -!plusE; lia.
Qed.
