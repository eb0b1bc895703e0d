(** * T20, with tables of several units in one noise
  docs/theory/marginals.md. [T20] leaves it to a hypothesis that the whole mechanism, whose tables have one noise of scale qs in
  every cell, has the law of the mechanism that releases every unit by itself, up to a factor. Here that is proved from Lemma A for
  one noise:

  *Let p* be the law of the sum of q^2 independent noises of scale s, and p that of one noise of scale qs. The ratio p(w)/p*(w)
  depends on w mod q^2 only, and lies between* 0 *and* z.

  *A table with counts N that gets q^2 units is released as q^2 N + Z, Z independent noise of scale qs in every cell.* A score gets
  r^2 units. What is asked next, and with how many units, is chosen by all that was released before. Nothing is shown where more
  would be used than C noises in all: 2 q^2 for a table and r^2 for a score under replacement, q^2 and r^2 under add/remove.
  So U units of tables and P scores make C = 2U + r^2 P, or U + r^2 P. The profile is at most z^m delta_C(epsilon), where m is the
  largest number of counts that can be released ([T20_sums_replaced], [T20_sums_added_or_removed]).

  Lemma A stays on paper: it is the hypotheses [lemmaA], [residue] and [rho_z]. Unit noise is 0 outside of -w .. w here, so that
  [single] is rho times the law of the sum of such noises. As w grows it tends to the law of one noise of scale qs, and the law of
  everything that is shown to that of the mechanism. This limit stays on paper, too.

  | here             | on the page                                                                                       |
  |------------------|---------------------------------------------------------------------------------------------------|
  | sum_of j         | p*, the law of the sum of j unit noises                                                           |
  | single q         | p, the law of one noise of scale qs                                                               |
  | rho q            | p / p*                                                                                            |
  | z                | (1 + eta) / (1 - eta)                                                                             |
  | ask h            | what is asked after the outcomes h                                                                |
  | rounds           | how often something is asked                                                                      |
  | release x        | the law of everything that is shown                                                               | *)
From mathcomp Require Import all_ssreflect all_algebra.
From Coq Require Import ZArith Lia.
From Discreet Require Import Definitions DataProcessing Records T6 T20 Filter.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.
Delimit Scope Z_scope with Z. Delimit Scope nat_scope with N.

(** ** Independent coordinates *)
Section Independent.
Variable R : realFieldType.
Fixpoint indep (A : finType) (X : nat -> A -> R) (k : nat) : Seq A k -> R :=
  if k is k'.+1 then fun o => X 0%N o.1 * indep (fun i => X i.+1) o.2 else fun _ => 1.
Lemma indep_ext (A : finType) (X Y : nat -> A -> R) k (o : Seq A k) :
  (forall i a, (i < k)%N -> X i a = Y i a) -> indep X o = indep Y o.
Proof.
elim: k X Y o => [//|k IH] X Y o h /=; rewrite h //; congr (_ * _).
by apply: IH => i a lt; exact: (h i.+1).
Qed.
Lemma indep_ge0 (A : finType) (X : nat -> A -> R) k (o : Seq A k) : (forall i a, 0 <= X i a) -> 0 <= indep X o.
Proof. by elim: k X o => [|k IH] X o h /=; [exact: ler01 | apply: mulr_ge0 => //; exact: IH]. Qed.
Lemma indep_law (A : finType) (X : nat -> A -> R) k : (forall i, (i < k)%N -> law (X i)) -> law (indep X (k := k)).
Proof.
elim: k X => [|k IH] X h; first exact: unit_law.
exact: both_law (h 0%N isT) (IH _ (fun i lt => h i.+1 lt)).
Qed.
(** Two sequences of coordinates make one, coordinate by coordinate. *)
Fixpoint zip_with (A B C : finType) (F : A -> B -> C) (k : nat) : Seq A k * Seq B k -> Seq C k -> R :=
  if k is k'.+1 then fun s o => (F s.1.1 s.2.1 == o.1)%:R * zip_with F (s.1.2, s.2.2) o.2 else fun _ _ => 1.
Lemma zip_kernel (A B C : finType) (F : A -> B -> C) k : kernel (zip_with F (k := k)).
Proof.
elim: k => [|k IH] s; first exact: unit_law.
have p : law (fun o : C => (F s.1.1 s.2.1 == o)%:R : R) by exact: (point_kernel R (fun _ : Datatypes.unit => F s.1.1 s.2.1) tt).
exact: both_law p (IH (s.1.2, s.2.2)).
Qed.
Definition zipped (A B C : finType) (F : A -> B -> C) (X : A -> R) (Y : B -> R) (c : C) : R :=
  \sum_a \sum_b X a * Y b * (F a b == c)%:R.
Lemma zip_indep (A B C : finType) (F : A -> B -> C) (X : nat -> A -> R) (Y : nat -> B -> R) k o :
  push (zip_with F (k := k)) (both (indep X (k := k)) (indep Y (k := k))) o = indep (fun i => zipped F (X i) (Y i)) o.
Proof.
elim: k X Y o => [|k IH] X Y o; first by rewrite /push sum_pair !sum_unit /both /= !mulr1.
rewrite /= -IH /push.
have quad (G : (A * Seq A k) * (B * Seq B k) -> R) :
    \sum_s G s = \sum_a \sum_s \sum_b \sum_s' G ((a, s), (b, s')).
  by rewrite !sum_pair; apply: eq_bigr => a _; apply: eq_bigr => s _; rewrite sum_pair.
rewrite quad sum_pair /both /zipped /= mulr_suml; apply: eq_bigr => a _; rewrite mulr_sumr; apply: eq_bigr => s _.
rewrite mulr_suml; apply: eq_bigr => b _; rewrite mulr_sumr; apply: eq_bigr => s' _.
by rewrite [X in X * _ = _]mulrACA [LHS]mulrACA.
Qed.
End Independent.

Section Sums.
Variable R : realFieldType.
Variables (w : nat) (p : Z -> R) (N : noise w p) (even : forall z, p (- z)%Z = p z).

(** The law of the sum of j noises. *)
Fixpoint sum_of (j : nat) (z : Z) : R :=
  if j is j'.+1 then \sum_(a : window w) p (value a) * sum_of j' (z - value a)%Z else if Z.eqb z 0 then 1 else 0.
Lemma sum_of_ge0 j z : 0 <= sum_of j z.
Proof.
elim: j z => [|j IH] z /=; first by case: (Z.eqb _ _); rewrite ?ler01.
by apply: sumr_ge0 => a _; apply: mulr_ge0 => //; exact: noise_ge0 N _.
Qed.
Lemma sum_of_in j z : sum_of j z != 0 -> (- Z.of_nat (j * w) <= z <= Z.of_nat (j * w))%Z.
Proof.
elim: j z => [|j IH] z /=; first by case: (Z.eqb_spec z 0) => [->|_]; rewrite ?eqxx //=; lia.
move=> nz; have [a na] : exists a : window w, p (value a) * sum_of j (z - value a)%Z != 0.
  by apply/existsP; apply: contraNT nz => /existsPn h; rewrite big1 // => a _; apply/eqP; move: (h a); rewrite negbK.
have := value_bound a; have : sum_of j (z - value a)%Z != 0 by apply: contraNneq na => ->; rewrite mulr0.
by move=> /IH; rewrite mulSn -plusE; lia.
Qed.

Variables (D : eqType) (g n : nat).
Notation Lu := (n + w)%N.
Variables (C L : nat).
Hypothesis large : (C * (n + w) <= L)%N.

Lemma zD (a b : nat) : Z.of_nat (a + b)%N = (Z.of_nat a + Z.of_nat b)%Z. Proof. by rewrite -plusE; lia. Qed.
Lemma zS (a b : nat) : Z.of_nat (a.+1 * b)%N = (Z.of_nat b + Z.of_nat (a * b)%N)%Z. Proof. by rewrite mulSn zD. Qed.
(** One coordinate: a unit's noisy count and the sum of j others. *)
Definition plus (a : window Lu) (b : window L) : window L := at_value L (value a + value b)%Z.
Lemma one_sum j (c : nat) d : (c <= n)%N -> (j.+1 <= C)%N ->
  zipped plus (fun a : window Lu => p (value a - Z.of_nat c)%Z) (fun b => sum_of j (value b - Z.of_nat (j * c))%Z) d =
  sum_of j.+1 (value d - Z.of_nat (j.+1 * c))%Z.
Proof.
move=> /ssrnat.leP cn jC.
have big_L : (Z.of_nat (j.+1 * (n + w)) <= Z.of_nat L)%Z.
  by apply/Nat2Z.inj_le/ssrnat.leP; apply: leq_trans large; rewrite leq_mul2r jC orbT.
have jc : (0 <= Z.of_nat (j * c) <= Z.of_nat (j * n))%Z.
  by split; [lia | apply/Nat2Z.inj_le/ssrnat.leP; rewrite leq_mul2l; apply/orP; right; exact/ssrnat.leP].
have dist : (Z.of_nat (j.+1 * (n + w)) = Z.of_nat n + Z.of_nat w + (Z.of_nat (j * n) + Z.of_nat (j * w)))%Z.
  by rewrite zS mulnDr !zD; lia.
rewrite /zipped /= -(window_sum (f := fun z => p z * sum_of j (value d - Z.of_nat (j.+1 * c) - z)%Z)
                                (L := Lu) (N := Z.of_nat c)); last first.
  move=> z nz; have /(noise_in N) : p z != 0 by apply: contraNneq nz => ->; rewrite mul0r.
  by rewrite zD; lia.
apply: eq_bigr => a _.
rewrite (_ : (value d - Z.of_nat (j.+1 * c) - (value a - Z.of_nat c) = value d - value a - Z.of_nat (j * c))%Z); last first.
  by rewrite zS; lia.
case: (eqVneq (p (value a - Z.of_nat c)%Z) 0) => [->|pa]; first by rewrite mul0r big1 // => b _; rewrite !mul0r.
have ina := noise_in N pa; have vd := value_bound d.
have hit (b : window L) : sum_of j (value b - Z.of_nat (j * c))%Z != 0 -> plus a b = d -> value b = (value d - value a)%Z.
  by move=> /sum_of_in nz <-; rewrite /plus valueK; lia.
case: (eqVneq (sum_of j (value d - value a - Z.of_nat (j * c))%Z) 0) => [s0|nz].
  rewrite s0 mulr0 big1 // => b _; case: (eqVneq (sum_of j (value b - Z.of_nat (j * c))%Z) 0) => [->|nb].
    by rewrite mulr0 mul0r.
  case: eqP => [e|_]; last by rewrite mulr0.
  by move: (nb); rewrite (hit b nb e) s0 eqxx.
have ind := sum_of_in nz.
have inb : (- Z.of_nat L <= value d - value a <= Z.of_nat L)%Z by lia.
rewrite (bigD1 (at_value L (value d - value a)%Z)) //= valueK // big1 ?addr0 => [|b ne].
  rewrite /plus valueK // (_ : (value a + (value d - value a) = value d)%Z) ?at_valueK ?eqxx ?mulr1 //; lia.
case: (eqVneq (sum_of j (value b - Z.of_nat (j * c))%Z) 0) => [->|nb]; first by rewrite mulr0 mul0r.
case: eqP => [e|_]; last by rewrite mulr0.
by case/eqP: ne; apply: value_inj; rewrite valueK // (hit b nb e).
Qed.

(** A table of j units: the sums of j tables with a unit's noise. *)
Lemma noisy_indep (f : Z -> R) M (c : nat -> Z) k (o : Seq (window M) k) :
  noisy f c o = indep (fun i a => f (value a - c i)%Z) o.
Proof. by elim: k c o => [//|k IH] c o /=; rewrite IH. Qed.
Definition sums_table (j : nat) (c : nat -> nat) (k : nat) : Seq (window L) k -> R :=
  noisy (sum_of j) (fun i => Z.of_nat (j * c i)) (k := k).
Lemma sums_step j c k (o : Seq (window L) k) : small n c k -> (j.+1 <= C)%N ->
  push (zip_with R plus (k := k)) (both (noisy_counts p Lu c k) (@sums_table j c k)) o = sums_table j.+1 c o.
Proof.
move=> sc jC; rewrite /sums_table noisy_indep.
rewrite (indep_ext (Y := fun i => zipped plus (fun a => p (value a - Z.of_nat (c i))%Z)
   (fun b => sum_of j (value b - Z.of_nat (j * c i))%Z))); last by move=> i a lt; rewrite one_sum // sc.
rewrite -zip_indep /push; apply: eq_bigr => s _; congr (_ * _).
by rewrite /both /noisy_counts !noisy_indep.
Qed.
Lemma sums_law j c k : small n c k -> (j <= C)%N -> law (@sums_table j c k).
Proof.
move=> sc; elim: j => [|j IH] jC.
  split=> [o|]; rewrite /sums_table; first by rewrite noisy_indep indep_ge0 // => i a; exact: sum_of_ge0.
  have one : law (fun a : window L => sum_of 0 (value a - 0)%Z).
    split=> [a|]; first exact: sum_of_ge0.
    rewrite (bigD1 (at_value L 0%Z)) //= valueK /=; last lia.
    rewrite big1 ?addr0 // => a ne; case: (Z.eqb_spec (value a - 0) 0) => // e.
    by case/eqP: ne; apply: value_inj; rewrite valueK; lia.
  have [_ <-] := indep_law (fun i (_ : (i < k)%N) => one).
  by apply: eq_bigr => o _; rewrite noisy_indep; apply: indep_ext => i a _; rewrite mul0n.
have le : (j <= C)%N by exact: ltnW.
have [q0 q1] : law (push (zip_with R plus (k := k)) (both (noisy_counts p Lu c k) (@sums_table j c k))).
  apply: push_law; first exact: zip_kernel.
  by apply: both_law (IH le); exact: (noisy_counts_law N (leqnn _)).
split=> [o|]; first by rewrite -sums_step.
by rewrite -q1; apply: eq_bigr => o _; rewrite sums_step.
Qed.
Lemma sums_dominated per j c c' k : small n c k -> small n c' k -> (j <= C)%N ->
  noises_dominate N g per (noisy_counts p Lu c k) (noisy_counts p Lu c' k) ->
  noises_dominate N g (per * j) (@sums_table j c k) (@sums_table j c' k).
Proof.
move=> sc sc' jC d; elim: j jC => [|j IH] jC.
  have same : @sums_table 0 c k =1 @sums_table 0 c' k by move=> o; rewrite /sums_table; apply: noisy_ext => i _; rewrite !mul0n.
  rewrite muln0 => t t0; rewrite (H_ext t (fun o => erefl (sums_table 0 c o)) (fun o => esym (same o))).
  by apply: (same_dominated (noises N g 0)) => //; exact: sums_law.
have le : (j <= C)%N by exact: ltnW.
rewrite /noises_dominate (_ : noises N g _ = product (nseq per (unit N g) ++ nseq (per * j) (unit N g))); last first.
  by rewrite -nseqD -mulnS.
apply: dominates_trans (product_cat _ _) _.
apply: (@dominates_trans _ _ _ _ _ _ (both (noisy_counts p Lu c k) (@sums_table j c k))
          (both (noisy_counts p Lu c' k) (@sums_table j c' k))).
  apply: both_dominates (IH le) => //; try exact: first_law; try exact: second_law; try exact: sums_law;
    exact: (noisy_counts_law N (leqnn _)).
apply: image_dominates; exists (zip_with R plus (k := k)); split; first exact: zip_kernel.
by split=> o; rewrite sums_step.
Qed.

(** ** The mechanism *)
Variable k : nat.
Inductive question := Table (cell : D -> nat) (q : nat) | Score (cell : D -> nat) (Rf : nat -> nat) (r : nat).
Variables (ask : seq (outcome L k) -> question) (rounds : nat).
(** [per] is the number of noises for a unit of a table: 2 under replacement, 1 under add/remove. *)
Variable per : nat.
Hypothesis per1 : (1 <= per)%N.
Definition cost (h : seq (outcome L k)) : nat :=
  match ask h with Table _ q => (per * (q * q))%N | Score _ _ r => (r * r)%N end.
(** What is shown, where [noise_of q] is the law of the noise in a table of q^2 units. *)
Definition shown (noise_of : nat -> Z -> R) (x : seq D) (a : question) : outcome L k -> R :=
  match a with
  | Table cell q => push (point R (@a_table L k)) (noisy (noise_of q) (fun i => Z.of_nat (q * q * counts cell x i)) (k := k))
  | Score cell Rf r => push (point R (@a_score L k)) (noisy (noise_of r) (fun _ => Z.of_nat (r * r * score k cell Rf x)) (k := 1))
  end.
Definition nothing_ : outcome L k -> R := @nothing R L k.
Definition shown_within (noise_of : nat -> Z -> R) (x : seq D) (h : seq (outcome L k)) : outcome L k -> R :=
  if (cost h <= C)%N then shown noise_of x (ask h) else nothing_.
Definition release (noise_of : nat -> Z -> R) (x : seq D) : Seq (outcome L k) rounds -> R :=
  units_filter nothing_ cost (shown_within noise_of x) C [::] (n := rounds).
(** M*: every table of q^2 units has sums of q^2 noises. *)
Definition star (q : nat) : Z -> R := sum_of (q * q).
Lemma units_within h cell q : ask h = Table cell q -> (cost h <= C)%N -> (q * q <= C)%N.
Proof. by rewrite /cost => ->; apply: leq_trans; rewrite leq_pmull. Qed.
Lemma star_kernel x : (size x <= n)%N -> kernel (shown_within star x).
Proof.
move=> sx h; rewrite /shown_within; case: leqP => [le|_]; last exact: nothing_law.
case e: (ask h) => [cell q|cell Rf r]; apply: push_law; try exact: point_kernel.
  by apply: sums_law; [exact: small_counts | exact: units_within e le].
by apply: sums_law; [exact: small_score | move: le; rewrite /cost e].
Qed.
Lemma release_dominated x y : (size x <= n)%N -> (size y <= n)%N -> replaced g x y \/ added_or_removed g x y ->
  (forall cell, noises_dominate N g per (noisy_counts p Lu (counts cell x) k) (noisy_counts p Lu (counts cell y) k)) ->
  noises_dominate N g C (release star x) (release star y).
Proof.
move=> sx sy nb table.
apply: (filter_of_units (nothing_law R L k) (star_kernel sx) (star_kernel sy) (unit := unit N g) (cost := cost)) => h.
rewrite /shown_within; case: leqP => [le|_]; last exact: nothing_dominated.
case e: (ask h) => [cell q|cell Rf r].
  have -> : cost h = (per * (q * q))%N by rewrite /cost e.
  apply: dominates_trans (sums_dominated _ _ (units_within e le) (table cell)) _; try exact: small_counts.
  by apply: image_dominates; exists (point R (@a_table L k)); split; [exact: point_kernel | split].
have -> : cost h = (1 * (r * r))%N by rewrite /cost e mul1n.
have rC : (r * r <= C)%N by move: le; rewrite /cost e.
apply: dominates_trans (sums_dominated (small_score k cell Rf sx) (small_score k cell Rf sy) rC _) _.
  exact: (lemmaC_score N even k (leqnn _) cell Rf sx sy nb).
by apply: image_dominates; exists (point R (@a_score L k)); split; [exact: point_kernel | split].
Qed.

(** ** Lemma A, and what follows from it for the mechanism *)
Variables (single rho : nat -> Z -> R) (z : R).
Hypotheses (z1 : 1 <= z) (rho_z : forall q a, 0 <= rho q a <= z).
Hypothesis lemmaA : forall q a, single q a = rho q a * sum_of (q * q) a.
Hypothesis residue : forall q a i, rho q (a - Z.of_nat (q * q * i))%Z = rho q a.
(** The factor of one table, of one place, and of all that was shown. None of them depends on the confidential table. *)
Definition factor (q : nat) (l : nat) : Seq (window L) l -> R := indep (fun _ a => rho q (value a)) (k := l).
Definition factor_of (a : question) (o : outcome L k) : R :=
  match a, o with Table _ q, Some (inl t) => factor q t | Score _ _ r, Some (inr t) => factor r t | _, _ => 1 end.
Fixpoint factors (left : nat) (h : seq (outcome L k)) (l : nat) : Seq (outcome L k) l -> R :=
  if l is l'.+1 then fun o =>
    if (cost h <= left)%N then (if (cost h <= C)%N then factor_of (ask h) o.1 else 1) * factors (left - cost h) (rcons h o.1) o.2
    else factors left (rcons h o.1) o.2
  else fun _ => 1.
Lemma noisy_factor q (c : nat -> nat) l (o : Seq (window L) l) :
  noisy (single q) (fun i => Z.of_nat (q * q * c i)) o = factor q o * noisy (star q) (fun i => Z.of_nat (q * q * c i)) o.
Proof.
rewrite /factor !noisy_indep; elim: l c o => [|l IH] c o /=; first by rewrite mulr1.
by rewrite IH lemmaA residue mulrACA.
Qed.
Lemma shown_factor x a o : shown single x a o = factor_of a o * shown star x a o.
Proof.
case: a => [cell q|cell Rf r]; rewrite /shown !push_point mulr_sumr; apply: eq_bigr => s /eqP <-; rewrite /factor_of /a_table /a_score.
  exact: (noisy_factor q (counts cell x)).
exact: (noisy_factor r (fun _ => score k cell Rf x)).
Qed.
Lemma release_factor x o : release single x o = factors C [::] o * release star x o.
Proof.
suff gen left h l (o' : Seq (outcome L k) l) :
    units_filter nothing_ cost (shown_within single x) left h o' =
    factors left h o' * units_filter nothing_ cost (shown_within star x) left h o' by exact: gen.
elim: l left h o' => [|l IH] left h o' /=; first by rewrite mulr1.
case: (cost h <= left)%N; rewrite IH; last by rewrite mulrCA.
rewrite {1 3}/shown_within; case: (cost h <= C)%N; last by rewrite mul1r mulrCA.
by rewrite shown_factor mulrACA.
Qed.
Lemma power_ge1 m : 1 <= z ^+ m. Proof. by rewrite exprn_ege1. Qed.
Lemma factor_bounds q l (o : Seq (window L) l) : 0 <= factor q o <= z ^+ l.
Proof.
rewrite /factor; elim: l o => [|l IH] o /=; first by rewrite ler01 lexx.
have /andP[a0 a1] := rho_z q (value o.1); have /andP[b0 b1] := IH o.2.
by rewrite mulr_ge0 // exprS ler_pmul.
Qed.
(** The largest number of counts that can be released. *)
Definition most : nat := (rounds * maxn k 1)%N.
Lemma factor_of_bounds a o : 0 <= factor_of a o <= z ^+ maxn k 1.
Proof.
have up l : (l <= maxn k 1)%N -> z ^+ l <= z ^+ maxn k 1 by move=> le; exact: ler_weexpn2l.
have one : (0 : R) <= 1 <= z ^+ maxn k 1 by rewrite ler01 power_ge1.
case: a o => [cell q|cell Rf r] [[t|t]|] //=.
  by have /andP[a0 a1] := factor_bounds q t; rewrite a0; apply: le_trans a1 (up _ (leq_maxl _ _)).
by have /andP[a0 a1] := factor_bounds r t; rewrite a0; apply: le_trans a1 (up _ (leq_maxr _ _)).
Qed.
Lemma factors_bounds left h l (o : Seq (outcome L k) l) : 0 <= factors left h o <= z ^+ (l * maxn k 1).
Proof.
elim: l left h o => [|l IH] left h o /=; first by rewrite ler01 lexx.
rewrite mulSn exprD; case: (cost h <= left)%N.
  have /andP[b0 b1] := IH (left - cost h)%N (rcons h o.1) o.2.
  have /andP[a0 a1] : 0 <= (if (cost h <= C)%N then factor_of (ask h) o.1 else 1) <= z ^+ maxn k 1.
    by case: (cost h <= C)%N; [exact: factor_of_bounds | rewrite ler01 power_ge1].
  by rewrite mulr_ge0 // ler_pmul.
have /andP[b0 b1] := IH left (rcons h o.1) o.2.
by rewrite b0; apply: le_trans b1 _; rewrite ler_pemull ?power_ge1 // exprn_ge0 // (le_trans ler01).
Qed.
Lemma release_bound x y t : 0 <= t -> noises_dominate N g C (release star x) (release star y) ->
  H t (release single x) (release single y) <= z ^+ most * H t (@first _ (noises N g C)) (@second _ (noises N g C)).
Proof.
move=> t0 d; have z0 : 0 <= z ^+ most by exact: le_trans ler01 (power_ge1 _).
apply: le_trans (ler_wpmul2l z0 (d t t0)).
exact: (same_ratio t (fun o => factors_bounds C [::] o) (release_factor x) (release_factor y)).
Qed.
End Sums.
Arguments release {R D} C {L k} ask rounds per noise_of x o.

Section Theorems.
Variable R : realFieldType.
Variables (w : nat) (p : Z -> R) (N : noise w p) (even : forall z, p (- z)%Z = p z).
Variables (D : eqType) (g n k C L rounds : nat) (ask : seq (outcome L k) -> question D).
Hypothesis large : (C * (n + w) <= L)%N.
Variables (single rho : nat -> Z -> R) (z : R).
Hypotheses (z1 : 1 <= z) (rho_z : forall q a, 0 <= rho q a <= z).
Hypothesis lemmaA : forall q a, single q a = rho q a * sum_of w p (q * q) a.
Hypothesis residue : forall q a i, rho q (a - Z.of_nat (q * q * i))%Z = rho q a.
Theorem T20_sums_replaced t : 0 <= t ->
  bounds (fun x y : seq D => [/\ (size x <= n)%N, (size y <= n)%N & replaced g x y])
         (release C ask rounds 2 single) t
         (z ^+ most k rounds * H t (@first _ (noises N g C)) (@second _ (noises N g C))).
Proof.
move=> t0 x y [sx sy nb]; apply: (release_bound z1 rho_z lemmaA residue t0).
apply: (release_dominated even large) => //; first by left.
move=> cell; exact: (lemmaC_table_replaced N even k (leqnn _) cell sx sy nb).
Qed.
Theorem T20_sums_added_or_removed t : 0 <= t ->
  bounds (fun x y : seq D => [/\ (size x <= n)%N, (size y <= n)%N & added_or_removed g x y])
         (release C ask rounds 1 single) t
         (z ^+ most k rounds * H t (@first _ (noises N g C)) (@second _ (noises N g C))).
Proof.
move=> t0 x y [sx sy nb]; apply: (release_bound z1 rho_z lemmaA residue t0).
apply: (release_dominated even large) => //; first by right.
move=> cell; exact: (lemmaC_table_added N even k (leqnn _) cell sx sy nb).
Qed.
End Theorems.
