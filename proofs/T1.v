(** * T1: the Dirichlet process release
  docs/theory/pitman-yor.md, with Lemma 5 of docs/theory/sampling-is-noise.md.

  *Let sigma = 0 and let H be non-atomic. For every epsilon >= 0 the exact profile is the constant m / (theta + n + m - 1). When
  g <= n records are replaced it is*
      1 - prod_(i < m) (1 - g / (theta + n + i)) = 1 - prod_(j < g) (theta + n - g + j) / (theta + n + m - g + j).
  *For a base measure with atoms the same expressions are upper bounds; they are still exact if some value that a record may have
  is not an atom.*

  A release is a sequence of m labels. There are finitely many: those that records have, and those that a new value may get. How
  the mass theta of a new value is spread over the labels is any function [base] of what was drawn before. So one theorem is about

  - three labels (fresh, the record, others): [base] gives theta to "fresh" ([T1_three_labels]);
  - identifiers, as on the page: every new value gets the next one that is not used ([T1_identifiers]). Labels that are drawn for
    identifiers are post-processing, and where H is non-atomic they tell the identifiers almost surely (this stays on paper);
  - base measures with atoms: [base] is theta H, where H is a law on the labels.

  [T1_upper] holds for all of them, [T1] where some label v that a record may have never is one of a new value, and
  [T1_telescoped], [T1_one_record] are the other forms of the number. [coupling] is Lemma 5, in the form that is used: the common
  mass is at least A + i - d.

  | here            | on the page                                                                                        |
  |-----------------|----------------------------------------------------------------------------------------------------|
  | theta, n, m, g  | the same                                                                                           |
  | C               | labels of records and of new values                                                                |
  | h               | the labels that were drawn before                                                                  |
  | base h c        | the part of the mass theta that makes a new value c                                                |
  | mass x h c      | the mass of c in the urn: theta's, the records of x, and the draws before                          |
  | release x       | the law of the m labels that are released                                                          |
  | v               | a value that is no atom                                                                            |
  | A, d            | those of Lemma 5                                                                                   | *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions DataProcessing Records.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(** ** Lemma 5: coupling *)
Section Coupling.
Variables (R : realFieldType) (C : finType) (A d : R).
(** An urn: the masses of the outcomes, by what was drawn before. *)
Definition urn_mass (mass : seq C -> C -> R) : Prop :=
  (forall h c, 0 <= mass h c) /\ (forall h, \sum_c mass h c = A + (size h)%:R).
Definition draw (mass : seq C -> C -> R) : seq C -> C -> R := fun h c => mass h c / (A + (size h)%:R).
Hypothesis A0 : 0 < A.
Lemma total_gt0 (h : seq C) : 0 < A + (size h)%:R. Proof. by rewrite ltr_paddr ?ler0n. Qed.
Lemma draw_kernel mass : urn_mass mass -> kernel (draw mass).
Proof.
move=> [m0 m1] h; split=> [c|]; first by apply: divr_ge0; [exact: m0 | exact: ltW (total_gt0 h)].
by rewrite -mulr_suml m1 divff // lt0r_neq0 ?total_gt0.
Qed.
(** [alike h]: after the common draws h the two urns still have all but d in common. *)
Variables (mx my : seq C -> C -> R) (alike : seq C -> Prop).
Hypotheses (ux : urn_mass mx) (uy : urn_mass my).
Hypothesis alike_step : forall h c, alike h -> 0 < Num.min (mx h c) (my h c) -> alike (rcons h c).
Hypothesis common : forall h, alike h -> A + (size h)%:R - d <= \sum_c Num.min (mx h c) (my h c).
Lemma min_ge0 (a b : R) : 0 <= a -> 0 <= b -> 0 <= Num.min a b. Proof. by rewrite le_minr => -> ->. Qed.
Lemma common_runs h n : alike h ->
  \prod_(i < n) pos (1 - d / (A + (size h + i)%:R)) <=
  \sum_o Num.min (run (draw mx) h (n := n) o) (run (draw my) h (n := n) o).
Proof.
elim: n h => [|n IH] h al; first by rewrite big_ord0 /= sum_unit minxx.
rewrite /= -(pair_bigA _ (fun c o => Num.min (draw mx h c * run (draw mx) (rcons h c) (n := n) o)
                                             (draw my h c * run (draw my) (rcons h c) (n := n) o))) /=.
have [kx ky] := (draw_kernel ux, draw_kernel uy).
have T0 := total_gt0 h; have i0 : 0 <= (A + (size h)%:R)^-1 by rewrite invr_ge0 ltW.
set next := \prod_(i < n) pos (1 - d / (A + (size h + i.+1)%:R)).
have next0 : 0 <= next by apply: prodr_ge0 => i _; exact: pos_ge0.
apply: (@le_trans _ _ (\sum_c Num.min (draw mx h c) (draw my h c) * next)); last first.
  apply: ler_sum => c _; have dx0 : 0 <= draw mx h c by case: (kx h).
  have dy0 : 0 <= draw my h c by case: (ky h).
  case: (ltP 0 (Num.min (mx h c) (my h c))) => [c0|le0]; last first.
    have -> : Num.min (draw mx h c) (draw my h c) = 0.
      apply/eqP; rewrite eq_le min_ge0 // andbT /draw -minr_pmull //.
      by rewrite pmulr_lle0 ?invr_gt0.
    rewrite mul0r; apply: sumr_ge0 => o _; apply: min_ge0; apply: mulr_ge0 => //.
      by case: (run_law n (rcons h c) kx).
    by case: (run_law n (rcons h c) ky).
  have := IH _ (alike_step al c0); rewrite size_rcons.
  rewrite (eq_bigr (fun i : 'I_n => pos (1 - d / (A + (size h + i.+1)%:R)))) => [le|i _]; last by rewrite addSnnS.
  apply: le_trans (ler_wpmul2l _ le) _; first exact: min_ge0.
  rewrite mulr_sumr; apply: ler_sum => o _.
  have rx0 : 0 <= run (draw mx) (rcons h c) (n := n) o by case: (run_law n (rcons h c) kx).
  have ry0 : 0 <= run (draw my) (rcons h c) (n := n) o by case: (run_law n (rcons h c) ky).
  rewrite le_minr; apply/andP; split; apply: ler_pmul; rewrite ?min_ge0 // le_minl lexx ?orbT //.
rewrite big_ord_recl /= addn0 -mulr_suml; apply: ler_wpmul2r => //.
have -> : \sum_c Num.min (draw mx h c) (draw my h c) = (\sum_c Num.min (mx h c) (my h c)) / (A + (size h)%:R).
  by rewrite mulr_suml; apply: eq_bigr => c _; rewrite /draw minr_pmull.
apply: pos_le; last first.
  apply: divr_ge0; last exact: ltW.
  by apply: sumr_ge0 => c _; apply: min_ge0; [case: ux | case: uy].
rewrite ler_pdivl_mulr // mulrBl mul1r divfK ?lt0r_neq0 //; exact: common.
Qed.
Theorem coupling (m : nat) t : alike [::] -> 1 <= t ->
  H t (run (draw mx) [::] (n := m)) (run (draw my) [::] (n := m)) <= 1 - \prod_(i < m) pos (1 - d / (A + i%:R)).
Proof.
move=> al t1; have [kx ky] := (draw_kernel ux, draw_kernel uy).
have [qx0 qx1] := run_law m [::] kx; have [qy0 _] := run_law m [::] ky.
apply: le_trans (H_decreasing _ qy0 t1) _.
rewrite /H (eq_bigr (fun o => run (draw mx) [::] (n := m) o -
    Num.min (run (draw mx) [::] (n := m) o) (run (draw my) [::] (n := m) o))); last first.
  by move=> o _; rewrite mul1r pos_min.
by rewrite sumrB qx1 ler_add2l ler_opp2; have := common_runs m al.
Qed.
End Coupling.

(** ** Theorem T1 *)
Section T1.
Variables (R : realFieldType) (C : finType) (theta : R) (base : seq C -> C -> R) (n m g : nat).
Hypotheses (theta0 : 0 < theta) (gn : (g <= n)%N).
(** How the mass theta of a new value is spread over the labels. *)
Hypothesis base_ge0 : forall h c, 0 <= base h c.
Hypothesis base_sum : forall h, \sum_c base h c = theta.
Definition mass (x : seq C) (h : seq C) (c : C) : R := base h c + (count_mem c x)%:R + (count_mem c h)%:R.
Definition release (x : seq C) : Seq C m -> R := run (draw (theta + n%:R) (mass x)) [::] (n := m).
Definition T1_neighbours (x y : seq C) : Prop := size x = n /\ replaced g x y.
Definition delta_g : R := 1 - \prod_(i < m) (1 - g%:R / (theta + n%:R + i%:R)).

Lemma count_total (x : seq C) : \sum_c (count_mem c x)%:R = (size x)%:R :> R.
Proof.
rewrite -natr_sum; congr _%:R; elim: x => [|r x IH] /=; first by rewrite big1.
rewrite big_split /= IH (bigD1 r) //= eqxx big1 ?addn0 // => c ne.
by rewrite eq_sym (negbTE ne).
Qed.
Lemma A_gt0 : 0 < theta + n%:R. Proof. by apply: ltr_paddr => //; exact: ler0n. Qed.
Lemma mass_urn x : size x = n -> urn_mass (theta + n%:R) (mass x).
Proof.
move=> sx; split=> [h c|h]; first by rewrite !addr_ge0 ?ler0n.
by rewrite !big_split /= base_sum !count_total sx.
Qed.
Lemma size_replaced x y : T1_neighbours x y -> size y = n.
Proof.
by case=> sx [c [a [b [px py ea eb]]]]; rewrite (perm_size py) -sx (perm_size px) !size_cat ea eb.
Qed.
(** The records that x and y share, theta and the draws are common. *)
Lemma common_mass x y h : T1_neighbours x y ->
  theta + n%:R + (size h)%:R - g%:R <= \sum_c Num.min (mass x h c) (mass y h c).
Proof.
case=> sx [c [a [b [px py ea eb]]]].
have nE : n%:R = (size c)%:R + g%:R :> R by rewrite -sx (perm_size px) size_cat ea natrD.
rewrite nE addrA [theta + _ + g%:R + _]addrAC addrK.
rewrite -(base_sum h) -(count_total c) -(count_total h) -!big_split /=; apply: ler_sum => i _.
by rewrite le_minr /mass !ler_add2r !ler_add2l (permP px) (permP py) !count_cat !natrD !ler_addl !ler0n.
Qed.
Lemma factor_ge0 i : 0 <= 1 - g%:R / (theta + n%:R + i%:R) :> R.
Proof.
rewrite subr_ge0 ler_pdivr_mulr ?mul1r; last by apply: ltr_paddr A_gt0; exact: ler0n.
apply: (@le_trans _ _ n%:R); first by rewrite ler_nat.
by rewrite -addrA addrCA ler_addl addr_ge0 ?ler0n // ltW.
Qed.

(** *Not larger*, for every base measure. *)
Theorem T1_upper t : 1 <= t -> bounds T1_neighbours release t delta_g.
Proof.
move=> t1 x y nb; have sy := size_replaced nb; case: (nb) => sx _.
have := coupling (A := theta + n%:R) (d := g%:R) (mx := mass x) (my := mass y) (alike := fun _ => True) A_gt0
  (mass_urn sx) (mass_urn sy) (fun _ _ _ _ => I) (fun h _ => common_mass h nb) m I t1.
by rewrite (eq_bigr (fun i : 'I_m => 1 - g%:R / (theta + n%:R + i%:R))) => [//|i _]; rewrite pos_id ?factor_ge0.
Qed.
(** Whatever is computed from the labels, with randomness of its own, reveals no more. *)
Theorem T1_post_processing (T : finType) (K : Seq C m -> T -> R) t : kernel K -> 1 <= t ->
  bounds T1_neighbours (fun x => push K (release x)) t delta_g.
Proof.
by move=> kK t1 x y nb; apply: le_trans (data_processing t _ _ kK) _; exact: T1_upper.
Qed.

(** *Not smaller*: v is no atom, w is another value. *)
Variables (v w : C).
Hypotheses (vw : v != w) (no_atom : forall h, base h v = 0).
Fixpoint shows (k : nat) : Seq C k -> bool := if k is k'.+1 then fun o => (o.1 == v) || shows o.2 else fun _ => false.
Lemma never x h k (o : Seq C k) : v \notin x -> v \notin h -> shows o ->
  run (draw (theta + n%:R) (mass x)) h o = 0.
Proof.
move=> vx; elim: k h o => [//|k IH] h o vh /=; case: (eqVneq o.1 v) => [->|ne] /= so.
  by rewrite /draw /mass no_atom !(count_memPn _) // !addr0 mul0r mul0r.
by rewrite IH ?mulr0 // mem_rcons in_cons negb_or eq_sym ne.
Qed.
Lemma avoids x h k : size x = n -> count_mem v x = g -> v \notin h ->
  \sum_(o : Seq C k | ~~ shows o) run (draw (theta + n%:R) (mass x)) h o =
  \prod_(i < k) (1 - g%:R / (theta + n%:R + (size h + i)%:R)).
Proof.
move=> sx cx; have kx := draw_kernel A_gt0 (mass_urn sx); elim: k h => [|k IH] h vh.
  by rewrite big_ord0 big_mkcond /= sum_unit.
rewrite big_mkcond /= -(pair_bigA _ (fun c o => if ~~ ((c == v) || shows o)
  then draw (theta + n%:R) (mass x) h c * run (draw (theta + n%:R) (mass x)) (rcons h c) o else 0)) /=.
rewrite (bigD1 v) //= [X in X + _]big1 ?add0r => [|o _]; last by rewrite eqxx.
rewrite (eq_bigr (fun c => draw (theta + n%:R) (mass x) h c *
   \prod_(i < k) (1 - g%:R / (theta + n%:R + (size h + i.+1)%:R)))); last first.
  move=> c ne; rewrite (eq_bigr (fun i : 'I_k => 1 - g%:R / (theta + n%:R + (size (rcons h c) + i)%:R))); last first.
    by move=> i _; rewrite size_rcons addSnnS.
  rewrite -IH; last by rewrite mem_rcons in_cons negb_or eq_sym ne.
  rewrite mulr_sumr [RHS]big_mkcond /=; apply: eq_bigr => o _.
  by rewrite (negbTE ne) /=; case: (shows o).
rewrite -mulr_suml big_ord_recl /= addn0; congr (_ * _).
have dv : draw (theta + n%:R) (mass x) h v = g%:R / (theta + n%:R + (size h)%:R).
  by rewrite /draw /mass no_atom add0r cx (count_memPn vh) addr0.
have [_ one] := kx h; move: one; rewrite (bigD1 v) //= dv => one.
by rewrite -[X in _ = X - _]one [RHS]addrC addKr.
Qed.
Theorem T1 t : 1 <= t -> exact T1_neighbours release t delta_g.
Proof.
move=> t1; split; first exact: T1_upper.
pose common := nseq (n - g) w; pose x := common ++ nseq g v; pose y := common ++ nseq g w.
have sx : size x = n by rewrite size_cat !size_nseq subnK.
have sy : size y = n by rewrite size_cat !size_nseq subnK.
have nb : T1_neighbours x y by split=> //; exists common, (nseq g v), (nseq g w); rewrite !size_nseq.
exists x, y; split=> //; apply/eqP; rewrite eq_le T1_upper //=.
apply: le_trans (H_event t (release x) (release y) [set o | shows o]).
have cx : count_mem v x = g.
  by rewrite count_cat !count_nseq /= eq_sym (negbTE vw) eqxx mul0n mul1n.
have vy : v \notin y by rewrite mem_cat !mem_nseq (negbTE vw) !andbF.
rewrite [X in t * X]big1 ?mulr0 ?subr0; last by move=> o; rewrite inE; exact: never.
have [_ one] := run_law m [::] (draw_kernel A_gt0 (mass_urn sx)).
move: one; rewrite (bigID (fun o => shows o)) /= (avoids m sx cx) // => one.
rewrite /delta_g -[X in X - _]one addrK.
by rewrite [X in _ <= X](eq_bigl (fun o => shows o)) // => o; rewrite inE.
Qed.
End T1.
Arguments release {R C} theta base n m x o.

(** ** The other forms of the number *)
Section Number.
Variables (R : realFieldType) (theta : R) (n m : nat).
Hypotheses (theta0 : 0 < theta) (n1 : (1 <= n)%N).
Lemma telescope (x : R) g : 0 < x -> \prod_(j < g) ((x + j%:R) / (x + 1 + j%:R)) = x / (x + g%:R).
Proof.
move=> x0; elim: g => [|g IH]; first by rewrite big_ord0 addr0 divff ?lt0r_neq0.
rewrite big_ord_recr /= IH -[x + 1 + _]addrA -[1 + g%:R]mulrS mulrA divfK //; apply: lt0r_neq0.
by apply: ltr_paddr => //; exact: ler0n.
Qed.
Theorem T1_telescoped g : (g <= n)%N ->
  delta_g theta n m g = 1 - \prod_(j < g) ((theta + n%:R - g%:R + j%:R) / (theta + n%:R + m%:R - g%:R + j%:R)).
Proof.
move=> gn; rewrite /delta_g; congr (1 - _); pose B := theta + n%:R - g%:R.
have B0 : 0 < B by rewrite /B -addrA -natrB // ltr_paddr ?ler0n.
have shift_ k : theta + n%:R + k%:R - g%:R = B + k%:R by rewrite /B addrAC.
rewrite [RHS](eq_bigr (fun j : 'I_g => (B + j%:R) / (B + m%:R + j%:R))); last by move=> j _; rewrite shift_.
elim: m => [|k IH].
  by rewrite big_ord0 big1 // => j _; rewrite addr0 divff // lt0r_neq0 // ltr_paddr ?ler0n.
rewrite big_ord_recr /= IH.
have Bk : 0 < B + k%:R by apply: ltr_paddr => //; exact: ler0n.
have -> : theta + n%:R + k%:R = B + k%:R + g%:R by rewrite -shift_ subrK.
have -> : 1 - g%:R / (B + k%:R + g%:R) = (B + k%:R) / (B + k%:R + g%:R).
  have nz : B + k%:R + g%:R != 0 by apply: lt0r_neq0; apply: ltr_paddr => //; exact: ler0n.
  by rewrite -[X in X - _](divff nz) -mulrBl addrK.
rewrite -(telescope g Bk) -big_split /=; apply: eq_bigr => j _.
have nz : B + k%:R + j%:R != 0 by apply: lt0r_neq0; apply: ltr_paddr => //; exact: ler0n.
by rewrite mulrA divfK // -addn1 natrD addrA.
Qed.
Theorem T1_one_record : delta_g theta n m 1 = m%:R / (theta + n%:R + m%:R - 1).
Proof.
rewrite T1_telescoped // big_ord1 !addr0.
have d0 : theta + n%:R + m%:R - 1 != 0.
  rewrite addrAC; apply: lt0r_neq0; apply: ltr_paddr; first exact: ler0n.
  by rewrite -addrA; apply: ltr_paddr => //; rewrite subr_ge0 ler1n.
rewrite -[X in X - _](divff d0) -mulrBl; congr (_ / _).
by rewrite opprB addrA subrK [X in X - _ = _]addrC addrK.
Qed.
End Number.

(** ** Labels *)
Section Labels.
Variables (R : realFieldType) (theta : R) (n m : nat).
Hypotheses (theta0 : 0 < theta) (n1 : (1 <= n)%N).
(** A new value gets the label [fresh h], which may depend on what was drawn before. *)
Definition all_to (C : finType) (fresh : seq C -> C) (h : seq C) (c : C) : R := if c == fresh h then theta else 0.
Lemma all_to_ge0 (C : finType) (fresh : seq C -> C) h c : 0 <= all_to fresh h c.
Proof. by rewrite /all_to; case: (c == fresh h); rewrite ?lexx // ltW. Qed.
Lemma all_to_sum (C : finType) (fresh : seq C -> C) h : \sum_c all_to fresh h c = theta.
Proof. by rewrite -big_mkcond /= big_pred1_eq. Qed.

(** Three labels, one record: [Some true] is the record's, [Some false] that of new values, [None] all others. *)
Theorem T1_three_labels t : 1 <= t ->
  exact (T1_neighbours n 1) (release theta (all_to (fun _ => Some false)) n m) t
        (m%:R / (theta + n%:R + m%:R - 1)).
Proof.
move=> t1; rewrite -T1_one_record //.
by apply: (@T1 _ _ _ _ _ _ _ theta0 n1 (all_to_ge0 _) (all_to_sum _) (Some true) None).
Qed.
(** Identifiers: records have values in V, the new values are numbered. *)
Theorem T1_identifiers (V : finType) (v w : V) (k : nat) (number : seq (V + 'I_k) -> 'I_k) g t :
  v != w -> (g <= n)%N -> 1 <= t ->
  exact (T1_neighbours n g) (release theta (all_to (fun h => inr (number h))) n m) t (delta_g theta n m g).
Proof.
by move=> vw gn t1; apply: (@T1 _ _ _ _ _ _ _ theta0 gn (all_to_ge0 _) (all_to_sum _) (inl v) (inl w)).
Qed.
End Labels.
