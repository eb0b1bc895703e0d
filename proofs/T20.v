(** * T20: marginals of a wide table, their choice included
  docs/theory/marginals.md. Noise of one law, a *unit*, is added to tables of counts and to scores. Which tables and which
  scores is chosen by looking at all that was released before; how many units there are is not.

  *For tables in which g records are replaced, put C = 2U + r^2 P; for tables of which one is the other with g records added or
  removed, C = U + r^2 P. Let delta_C be the profile of C independent noises against the same noises with g added to each. The
  profile of all stages together is delta(epsilon) <= e^zeta delta_C(epsilon).*

  [T20_replaced] and [T20_added_or_removed]. Their parts:

  - [lemmaB]. *Let R be a fixed table of integers. S = sum_c max(0, N(c) - R(c)) changes by at most g when g records are replaced,
    added or removed; where they are added it does not fall.*
  - [lemmaC_table_replaced], [lemmaC_table_added], [lemmaC_score]. *Given all that was released before, one unit's noisy table is
    less revealing than (Z, Z') against (Z + g, Z' - g) under replacement, and than Z against Z + g under add/remove; so is one
    unit's noisy score than Z against Z + g, under both. No output at all is, too* ([nothing_dominated]).
  - [units_replaced], [units_added_or_removed]. The mechanism that releases every unit by itself, whatever is chosen: several units
    of a table or of a score are several places with the same choice.

  **Lemma A stays on paper** (the discrete Gaussian's arithmetic: a sum of q^2 unit noises has the law of one noise of scale qs, up
  to a ratio that depends on the residue alone). Here it enters as the hypothesis [lemmaA] about the whole mechanism: its law is that
  of M*, which takes sums of unit noises, up to a ratio that depends on the outcome alone and is at most e^zeta. [T20Sums] derives
  this from the ratio for one noise, for the mechanism whose tables have one noise in every cell. For the unit noise itself nothing
  is assumed but what [noise] of T6 says and that it is symmetric. Both hold for the discrete Gaussian, cut at any w
  ([gaussian_noise]). Open labels (Lemma D) and the profile's formula (T9) are not treated.

  | here                  | on the page                                                                                   |
  |-----------------------|-----------------------------------------------------------------------------------------------|
  | p, w                  | the law of one unit's noise, at scale s; it is 0 outside of -w .. w                           |
  | D, x, y               | records, tables of at most n records                                                          |
  | cell                  | the cell of each record, in one merged table of one or two columns, or one level of a tree    |
  | k                     | the largest number of cells of a table                                                        |
  | score cell R x        | S_ij, with the table R_ij of what independent columns would make                              |
  | ask_table, ask_score  | what is chosen by all that was released before; [None] is an unused unit                      |
  | kinds                 | which places hold tables' units ([true]) and which scores'; fixed beforehand                  |
  | units x               | the law of everything that the mechanism shows that releases every unit by itself             |
  | noises C              | C independent noises Z, and the same with g added to each                                     |
  | U1, U, P, r           | U_1, U, P and r: U_1 units of tables, r^2 P of scores, U - U_1 of tables                      |
  | z                     | e^zeta                                                                                        |
  | sums, ratio           | what is done with the units' outputs, and p(w) / p*(w) of Lemma A, over all cells             | *)
From mathcomp Require Import all_ssreflect all_algebra.
From Coq Require Import ZArith.
From Discreet Require Import Definitions DataProcessing Records T6.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.
Delimit Scope Z_scope with Z. Delimit Scope nat_scope with N.

(** ** Lemma B, over the integers or any other ordered ring *)
Section LemmaB.
Variables (I : realDomainType) (C : finType) (Rf : C -> I).
Definition above (x : I) : I := Num.max 0 x.
Lemma above_ge0 x : 0 <= above x. Proof. by rewrite /above le_maxr lexx. Qed.
Lemma above_ge x : x <= above x. Proof. by rewrite /above le_maxr lexx orbT. Qed.
Lemma above_le x y : x <= y -> 0 <= y -> above x <= y.
Proof. by move=> h1 h2; rewrite /above le_maxl h1 h2. Qed.
Definition excess (N : C -> I) : I := \sum_c above (N c - Rf c).
(** [gain N N'] is how many records the cells of N' have more than those of N, cells with fewer left out. *)
Definition gain (N N' : C -> I) : I := \sum_c above (N' c - N c).
Lemma excess_gain N N' : excess N' <= excess N + gain N N'.
Proof.
rewrite /excess -big_split /=; apply: ler_sum => c _; apply: above_le; last by apply: addr_ge0; exact: above_ge0.
apply: (@le_trans _ _ ((N c - Rf c) + (N' c - N c))); last by apply: ler_add; exact: above_ge.
by rewrite [X in _ <= X]addrC addrA subrK.
Qed.
Theorem lemmaB g N N' : gain N N' <= g -> gain N' N <= g ->
  excess N' <= excess N + g /\ excess N <= excess N' + g.
Proof. by move=> h h'; split; [apply: le_trans (excess_gain N N') _ | apply: le_trans (excess_gain N' N) _]; rewrite ler_add2l. Qed.
Theorem lemmaB_added N N' : (forall c, N c <= N' c) -> excess N <= excess N'.
Proof.
move=> h; apply: ler_sum => c _; apply: above_le; last exact: above_ge0.
by apply: le_trans (above_ge _); rewrite ler_add2r.
Qed.
End LemmaB.

Section Unit.
Variable R : realFieldType.
Variables (w : nat) (p : Z -> R) (N : noise w p) (even : forall z, p (- z)%Z = p z).
Variables (D : eqType) (g n L k : nat).
Hypothesis large : (n + w <= L)%N.
Implicit Types x y : seq D.

(** ** Lemma C *)
Definition unit : pair R := Pair (Z0_law N g) (Zup_law N g).
Definition noises (C : nat) : pair R := product (nseq C unit).
Definition noises_dominate (C : nat) (T : finType) (P Q : T -> R) : Prop :=
  dominates (@first _ (noises C)) (@second _ (noises C)) P Q.

(** The score: max (0, N - R) is truncated subtraction of natural numbers. *)
Definition score (cell : D -> nat) (Rf : nat -> nat) (x : seq D) : nat := \sum_(i < k) (counts cell x i - Rf i)%N.
Lemma score_gain cell Rf x y (h : nat) : (\sum_(i < k) (counts cell y i - counts cell x i) <= h)%N ->
  (score cell Rf y <= score cell Rf x + h)%N.
Proof.
move=> le_h; apply: (@leq_trans (score cell Rf x + \sum_(i < k) (counts cell y i - counts cell x i))); last first.
  by rewrite leq_add2l.
rewrite /score -big_split /=; apply: leq_sum => i _; rewrite leq_subLR addnA.
apply: (@leq_trans (counts cell x i + (counts cell y i - counts cell x i))); first by rewrite -leq_subLR.
by rewrite leq_add2r -leq_subLR.
Qed.
Lemma score_le cell Rf x : (score cell Rf x <= size x)%N.
Proof. by apply: leq_trans (counts_sum cell x k); apply: leq_sum => i _; exact: leq_subr. Qed.
Definition noisy_table (cell : D -> nat) (x : seq D) : Seq (window L) k -> R := noisy_counts p L (counts cell x) k.
Definition noisy_score (cell : D -> nat) (Rf : nat -> nat) (x : seq D) : Seq (window L) 1 -> R :=
  noisy_counts p L (fun _ => score cell Rf x) 1.
Lemma small_counts cell x : (size x <= n)%N -> small n (counts cell x) k.
Proof. by move=> h i _; apply: leq_trans h; exact: counts_le. Qed.
Lemma small_score cell Rf x : (size x <= n)%N -> small n (fun _ => score cell Rf x) 1.
Proof. by move=> h i _; apply: leq_trans h; exact: score_le. Qed.

Lemma one_unit (T : finType) (P Q : T -> R) : dominates (Z0 w p g) (Zup w p g) P Q -> noises_dominate 1 P Q.
Proof.
apply: dominates_trans; apply: image_dominates; exists (point R fst); split; first exact: point_kernel.
by split=> o; rewrite push_point (big_pred1 (o, tt)) => [|[a []]]; rewrite /= /both ?mulr1 // xpair_eqE andbT.
Qed.
Lemma two_units (T : finType) (P Q : T -> R) :
  dominates (both (Z0 w p g) (Z0 w p g)) (both (Zup w p g) (Zdown w p g)) P Q -> noises_dominate 2 P Q.
Proof.
apply: dominates_trans.
apply: (@dominates_trans _ _ _ _ _ _ (both (Z0 w p g) (Z0 w p g)) (both (Zup w p g) (Zup w p g))).
  apply: image_dominates; exists (point R (fun s => (s.1, s.2.1))); split; first exact: point_kernel.
  by split=> -[a b]; rewrite push_point (big_pred1 (a, (b, tt))) => [|[a' [b' []]]]; rewrite /= /both ?mulr1 // !xpair_eqE andbT.
apply: (adaptive_composition (Nx := fun _ => Z0 w p g) (Ny := fun _ => Zdown w p g)).
- exact: Z0_law N g.
- exact: Zup_law N g.
- by move=> _; exact: Z0_law N g.
- by move=> _; exact: Zdown_law N g.
- exact: Z0_law N g.
- exact: Zup_law N g.
- by move=> t _.
- by move=> _; exact: down_is_up even.
Qed.

Theorem lemmaC_table_replaced cell x y : (size x <= n)%N -> (size y <= n)%N -> replaced g x y ->
  noises_dominate 2 (noisy_table cell x) (noisy_table cell y).
Proof.
move=> sx sy r; apply: two_units; apply: (unit_table N large); try exact: small_counts.
- exact: gains_replaced.
- by apply: gains_replaced; exact: replaced_sym.
Qed.
Lemma counts_added cell x y i : added_to g x y -> (counts cell x i <= counts cell y i)%N.
Proof. by case=> a [py _]; rewrite /counts (permP py) count_cat leq_addr. Qed.
Lemma gains_added cell x y : added_to g x y -> (\sum_(i < k) (counts cell y i - counts cell x i) <= g)%N.
Proof.
case=> a [py <-]; apply: leq_trans (counts_sum cell a k); apply: leq_sum => i _.
by rewrite /counts (permP py) count_cat addKn.
Qed.
Lemma up_or_down s (T : finType) (P Q : T -> R) :
  dominates (Z0 w p g) (if s then Zup w p g else Zdown w p g) P Q -> noises_dominate 1 P Q.
Proof.
by case: s => h; apply: one_unit => //; apply: dominates_trans h; exact: down_is_up even.
Qed.
Theorem lemmaC_table_added cell x y : (size x <= n)%N -> (size y <= n)%N -> added_or_removed g x y ->
  noises_dominate 1 (noisy_table cell x) (noisy_table cell y).
Proof.
move=> sx sy [a|a].
  apply: (@up_or_down true); apply: (one_direction N large (s := true)); try exact: small_counts.
  - by move=> i _; exact: counts_added.
  - exact: gains_added.
apply: (@up_or_down false); apply: (one_direction N large (s := false)); try exact: small_counts.
- by move=> i _; exact: counts_added.
- exact: gains_added.
Qed.
Lemma score_changes cell Rf x y : replaced g x y \/ added_or_removed g x y ->
  (score cell Rf y <= score cell Rf x + g)%N.
Proof.
case=> [r|[a|a]]; apply: score_gain; first exact: gains_replaced.
  exact: gains_added.
by rewrite big1 // => i _; apply/eqP; rewrite subn_eq0; exact: counts_added.
Qed.
Theorem lemmaC_score cell Rf x y : (size x <= n)%N -> (size y <= n)%N -> replaced g x y \/ added_or_removed g x y ->
  noises_dominate 1 (noisy_score cell Rf x) (noisy_score cell Rf y).
Proof.
move=> sx sy nb; have up := score_changes cell Rf nb.
have down : (score cell Rf x <= score cell Rf y + g)%N.
  apply: score_changes; case: nb => [r|[a|a]]; [left; exact: replaced_sym | right; right | right; left]; exact: a.
case: (leqP (score cell Rf x) (score cell Rf y)) => h.
  apply: (@up_or_down true); apply: (one_direction N large (s := true)); try exact: small_score; first by [].
  by rewrite big_ord1 leq_subLR.
apply: (@up_or_down false); apply: (one_direction N large (s := false)); try exact: small_score.
  by move=> i _; exact: ltnW.
by rewrite big_ord1 leq_subLR.
Qed.

(** ** Places *)
(** What is shown at one place: nothing, a noisy table, or a noisy score. *)
Definition outcome : finType := [finType of option (Seq (window L) k + Seq (window L) 1)].
Definition a_table (o : Seq (window L) k) : outcome := Some (inl o).
Definition a_score (o : Seq (window L) 1) : outcome := Some (inr o).
Definition nothing : outcome -> R := point R (fun _ : Datatypes.unit => None : outcome) tt.
Lemma nothing_law : law nothing. Proof. exact: point_kernel. Qed.
Theorem nothing_dominated (q : pair R) : dominates (@first _ q) (@second _ q) nothing nothing.
Proof.
apply: image_dominates; exists (fun _ => nothing); split; first by move=> _; exact: nothing_law.
by split=> o; rewrite /push -mulr_suml; [case: (first_law q) | case: (second_law q)] => _ ->; rewrite mul1r.
Qed.

(** The kinds of the places are fixed. What is at a place is chosen by all outcomes before it. *)
Variables (kinds : seq bool) (ask_table : seq outcome -> option (D -> nat))
  (ask_score : seq outcome -> option ((D -> nat) * (nat -> nat))).
Definition answer (x : seq D) (h : seq outcome) : outcome -> R :=
  if nth true kinds (size h) then
    if ask_table h is Some cell then push (point R a_table) (noisy_table cell x) else nothing
  else
    if ask_score h is Some (cell, Rf) then push (point R a_score) (noisy_score cell Rf x) else nothing.
Definition units (x : seq D) : Seq outcome (size kinds) -> R := run (answer x) [::] (n := size kinds).
Lemma answer_kernel x : (size x <= n)%N -> kernel (answer x).
Proof.
move=> sx h; rewrite /answer; case: (nth _ _ _).
  case: (ask_table h) => [cell|]; last exact: nothing_law.
  by apply: push_law; [exact: point_kernel | apply: (noisy_counts_law N large); exact: small_counts].
case: (ask_score h) => [[cell Rf]|]; last exact: nothing_law.
by apply: push_law; [exact: point_kernel | apply: (noisy_counts_law N large); exact: small_score].
Qed.
Lemma shown (S T : finType) (f : S -> T) C (P Q : S -> R) :
  noises_dominate C P Q -> noises_dominate C (push (point R f) P) (push (point R f) Q).
Proof.
move=> h; apply: dominates_trans h _; apply: image_dominates; exists (point R f); split; first exact: point_kernel.
by split=> o.
Qed.
(** [cost] is the number of noises of a table's unit: 2 under replacement, 1 under add/remove. A score's unit has one. *)
Lemma answer_dominated (cost : nat) x y h : (size x <= n)%N -> (size y <= n)%N ->
  replaced g x y \/ added_or_removed g x y ->
  (forall cell, noises_dominate cost (noisy_table cell x) (noisy_table cell y)) ->
  noises_dominate (if nth true kinds (size h) then cost else 1%N) (answer x h) (answer y h).
Proof.
move=> sx sy nb table; rewrite /answer; case: (nth _ _ _).
  by case: (ask_table h) => [cell|]; [apply: shown; exact: table | exact: nothing_dominated].
by case: (ask_score h) => [[cell Rf]|]; [apply: shown; exact: lemmaC_score | exact: nothing_dominated].
Qed.
Lemma units_dominated (cost : nat) x y : (size x <= n)%N -> (size y <= n)%N ->
  replaced g x y \/ added_or_removed g x y ->
  (forall cell, noises_dominate cost (noisy_table cell x) (noisy_table cell y)) ->
  noises_dominate (cost * count_mem true kinds + count_mem false kinds) (units x) (units y).
Proof.
move=> sx sy nb table; pose c (b : bool) := if b then cost else 1%N.
apply: (@dominates_trans _ _ _ _ _ _ (@first _ (product [seq noises (c b) | b <- kinds]))
                                     (@second _ (product [seq noises (c b) | b <- kinds]))).
  have -> : (cost * count_mem true kinds + count_mem false kinds)%N = sumn [seq c b | b <- kinds].
    elim: kinds => [|b s IH] /=; first by rewrite muln0.
    by rewrite -IH /c; case: b => /=; rewrite ?add0n ?add1n ?mulnS ?addnS -?addnA.
  elim: kinds => [|b s IH]; first exact: dominates_refl.
  rewrite /noises [sumn _]/= nseqD; apply: dominates_trans (product_cat _ _) _.
  apply: both_dominates IH; try exact: first_law; try exact: second_law.
  exact: dominates_refl.
have := @composition_by_places R outcome [seq noises (c b) | b <- kinds] unit (answer x) (answer y)
   (answer_kernel sx) (answer_kernel sy).
rewrite size_map; apply=> h lt; rewrite (nth_map true) //.
exact: answer_dominated.
Qed.
Theorem units_replaced x y : (size x <= n)%N -> (size y <= n)%N -> replaced g x y ->
  noises_dominate (2 * count_mem true kinds + count_mem false kinds) (units x) (units y).
Proof. by move=> sx sy r; apply: units_dominated => // [|cell]; [left | exact: lemmaC_table_replaced]. Qed.
Theorem units_added_or_removed x y : (size x <= n)%N -> (size y <= n)%N -> added_or_removed g x y ->
  noises_dominate (count_mem true kinds + count_mem false kinds) (units x) (units y).
Proof.
move=> sx sy a; have := @units_dominated 1 x y sx sy (or_intror a).
by rewrite mul1n; apply=> cell; exact: lemmaC_table_added.
Qed.
End Unit.
Arguments units {R} p {D L k} kinds ask_table ask_score x o.
Arguments noises {R w p} N g C.

(** ** Theorem T20 *)
Section T20.
Variable R : realFieldType.
Variables (w : nat) (p : Z -> R) (N : noise w p) (even : forall z, p (- z)%Z = p z).
Variables (D : eqType) (g n L k : nat).
Hypothesis large : (n + w <= L)%N.
Variables (U1 U P r : nat).
Hypothesis U1_U : (U1 <= U)%N.
(** U_1 units of tables, then r^2 of each of P scores, then U - U_1 units of tables. *)
Definition kinds : seq bool := nseq U1 true ++ nseq (r ^ 2 * P) false ++ nseq (U - U1) true.
Variables (ask_table : seq (outcome L k) -> option (D -> nat))
  (ask_score : seq (outcome L k) -> option ((D -> nat) * (nat -> nat))).
(** The mechanism M, and Lemma A: M_x(o) = ratio(o) M*_x(o) where M* takes the sums of what all units show. *)
Variables (O : finType) (M : seq D -> O -> R) (z : R) (ratio : O -> R)
  (sums : Seq (outcome L k) (size kinds) -> O).
Hypothesis lemmaA : forall x o, (size x <= n)%N ->
  M x o = ratio o * push (point R sums) (units p kinds ask_table ask_score x) o.
Hypotheses (ratio_z : forall o, 0 <= ratio o <= z) (z1 : 1 <= z).

Lemma after_the_units C x y t : 0 <= t -> (size x <= n)%N -> (size y <= n)%N ->
  noises_dominate N g C (units p kinds ask_table ask_score x) (units p kinds ask_table ask_score y) ->
  H t (M x) (M y) <= z * H t (@first _ (noises N g C)) (@second _ (noises N g C)).
Proof.
move=> t0 sx sy d.
apply: le_trans (same_ratio t ratio_z (fun o => lemmaA o sx) (fun o => lemmaA o sy)) _.
apply: ler_wpmul2l; first exact: le_trans z1.
apply: le_trans (data_processing t _ _ (point_kernel R sums)) _; exact: d.
Qed.
Lemma number_of_kinds : count_mem true kinds = U /\ count_mem false kinds = (r ^ 2 * P)%N.
Proof.
by rewrite /kinds !count_cat !count_nseq /= !mul1n !mul0n !add0n addn0 subnKC.
Qed.

Theorem T20_replaced t : 0 <= t ->
  bounds (fun x y => [/\ (size x <= n)%N, (size y <= n)%N & replaced g x y]) M t
    (z * H t (@first _ (noises N g (2 * U + r ^ 2 * P))) (@second _ (noises N g (2 * U + r ^ 2 * P)))).
Proof.
move=> t0 x y [sx sy nb]; apply: after_the_units => //.
have [e1 e2] := number_of_kinds; have := units_replaced N even large kinds ask_table ask_score sx sy nb.
by rewrite e1 e2.
Qed.
Theorem T20_added_or_removed t : 0 <= t ->
  bounds (fun x y => [/\ (size x <= n)%N, (size y <= n)%N & added_or_removed g x y]) M t
    (z * H t (@first _ (noises N g (U + r ^ 2 * P))) (@second _ (noises N g (U + r ^ 2 * P)))).
Proof.
move=> t0 x y [sx sy nb]; apply: after_the_units => //.
have [e1 e2] := number_of_kinds; have := units_added_or_removed N even large kinds ask_table ask_score sx sy nb.
by rewrite e1 e2.
Qed.
End T20.
