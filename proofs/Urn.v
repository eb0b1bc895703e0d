(** * The urn: splitting, merging, and the smallest pair (Lemma 3, docs/theory/sampling-is-noise.md)

  In the page's words: "A Polya urn with masses w and total A draws m times: draw i+1 lands in cell c with probability
  (w_c + number of earlier draws in c) / (A + i). In a Polya urn the release with two cells merged is the release of the
  same mechanism with the two masses added; and the release with cell c split into masses w' + w'' = w_c is obtained from
  the unsplit one by a kernel that depends on w' and w'' only. Consequence: the smallest pair is the worst."

  | here          | on the page                                                                                  |
  |---------------|----------------------------------------------------------------------------------------------|
  | urn w         | the law of the m draws in their order; after a draw, its cell has one mass more              |
  | add w c       | the masses after a draw in cell c                                                            |
  | f : C -> D    | which cells of C are merged to one cell of D; any number of cells, not only two              |
  | mass f w      | the masses of the merged cells                                                               |
  | smap f o      | the sequence o with cells merged                                                             |
  | split f w     | the kernel that splits: given the merged draws, the sub-cells are urns of their own           |
  | alike f wx wy | x and y have the same masses in every cell that is split in earnest                          | *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions DataProcessing.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Urn.
Variable R : realFieldType.

(** Data processing where the kernel may also lose outcomes: a merged cell of mass 0 is never drawn, nor split. *)
Lemma subkernel_processing (S T : finType) (K : S -> T -> R) t (P Q : S -> R) (P' Q' : T -> R) :
  (forall s o, 0 <= K s o) -> (forall s, \sum_o K s o <= 1) ->
  P' =1 push K P -> Q' =1 push K Q -> H t P' Q' <= H t P Q.
Proof.
move=> K0 K1 eP eQ; rewrite /H.
apply: (@le_trans _ _ (\sum_(o : T) \sum_(s : S) pos (P s - t * Q s) * K s o)).
  apply: ler_sum => o _; rewrite eP eQ /push; apply: pos_le.
    rewrite mulr_sumr -sumrB; apply: ler_sum => s _.
    by rewrite mulrA -mulrBl; apply: ler_wpmul2r (pos_ge _) => //.
  by apply: sumr_ge0 => s _; apply: mulr_ge0 => //; apply: pos_ge0.
rewrite exchange_big /=; apply: ler_sum => s _.
by rewrite -mulr_sumr; apply: ler_pimulr; rewrite ?pos_ge0.
Qed.

Definition add (C : finType) (w : C -> R) (c : C) : C -> R := fun x => w x + (x == c)%:R.
Fixpoint urn (C : finType) (w : C -> R) (n : nat) : Seq C n -> R :=
  if n is n'.+1 then fun o => w o.1 / (\sum_c w c) * urn (add w o.1) o.2 else fun _ => 1.
Definition mass (C D : finType) (f : C -> D) (w : C -> R) : D -> R := fun d => \sum_(c | f c == d) w c.
Fixpoint smap (C D : finType) (f : C -> D) (n : nat) : Seq C n -> Seq D n :=
  if n is n'.+1 then fun o => (f o.1, smap f o.2) else fun _ => tt.
Fixpoint split (C D : finType) (f : C -> D) (w : C -> R) (n : nat) : Seq D n -> Seq C n -> R :=
  if n is n'.+1 then fun d o => (f o.1 == d.1)%:R * (w o.1 / mass f w d.1) * split f (add w o.1) d.2 o.2
  else fun _ _ => 1.
Definition alike (C D : finType) (f : C -> D) (wx wy : C -> R) :=
  forall c, (forall c', f c' = f c -> wx c' = wy c') \/ (forall c', f c' = f c -> c' = c) /\ 0 < wx c /\ 0 < wy c.

Lemma urn_ext (C : finType) (w w' : C -> R) n (o : Seq C n) : w =1 w' -> urn w o = urn w' o.
Proof.
elim: n w w' o => [|n IH] w w' o h //=.
rewrite h (eq_bigr w'); last by move=> c _; exact: h.
by congr (_ * _); apply: IH => x; rewrite /add h.
Qed.
Lemma add_ge0 (C : finType) (w : C -> R) c : (forall x, 0 <= w x) -> forall x, 0 <= add w c x.
Proof. by move=> w0 x; rewrite /add addr_ge0 ?ler0n. Qed.
Lemma add_sum (C : finType) (w : C -> R) c : \sum_x add w c x = \sum_x w x + 1.
Proof. by rewrite /add big_split /=; congr (_ + _); rewrite (bigD1 c) //= eqxx big1 ?addr0 // => x /negbTE ->. Qed.

(** The urn is a law: a mechanism of the masses. *)
Lemma urn_ge0 (C : finType) n (w : C -> R) (o : Seq C n) : (forall c, 0 <= w c) -> 0 <= urn w o.
Proof.
elim: n w o => [|n IH] w o w0 /=; first exact: ler01.
apply: mulr_ge0; last by apply: IH; exact: add_ge0.
by apply: divr_ge0 => //; apply: sumr_ge0.
Qed.
Theorem urn_is_law (C : finType) n (w : C -> R) : (forall c, 0 <= w c) -> 0 < \sum_c w c -> law (@urn C w n).
Proof.
move=> w0 s0; split=> [o|]; first exact: urn_ge0.
elim: n w w0 s0 => [|n IH] w w0 s0; first by rewrite /= (bigD1 tt) //= big1 ?addr0 // => -[].
rewrite /= -(pair_bigA _ (fun c o => w c / (\sum_x w x) * urn (add w c) o)) /=.
rewrite (eq_bigr (fun c => w c / \sum_x w x)); first by rewrite -mulr_suml divff ?lt0r_neq0.
move=> c _; rewrite -mulr_sumr IH ?mulr1 //; first exact: add_ge0.
by rewrite add_sum; apply: ltr_paddr; rewrite ?ler01.
Qed.

Lemma mass_add (C D : finType) (f : C -> D) (w : C -> R) c : mass f (add w c) =1 add (mass f w) (f c).
Proof.
move=> d; rewrite /mass /add big_split /=; congr (_ + _).
case: (altP (d =P f c)) => [->|ne].
  rewrite (bigD1 c) //= eqxx big1 ?addr0 // => x /andP[_ /negbTE ->] //.
by rewrite big1 // => x /eqP fx; case: (altP (x =P c)) => // xc; move: ne; rewrite -fx xc eqxx.
Qed.
Lemma mass_sum (C D : finType) (f : C -> D) (w : C -> R) : \sum_d mass f w d = \sum_c w c.
Proof. by rewrite (partition_big f predT) //=; apply: eq_bigr => d _; apply: eq_bigl => c. Qed.
Lemma mass_ge0 (C D : finType) (f : C -> D) (w : C -> R) d : (forall c, 0 <= w c) -> 0 <= mass f w d.
Proof. by move=> w0; apply: sumr_ge0. Qed.

(** Merging: the release with cells merged is the urn with masses added. *)
Theorem merging (C D : finType) (f : C -> D) n (w : C -> R) :
  @urn D (mass f w) n =1 push (fun o d => (smap f o == d)%:R) (@urn C w n).
Proof.
rewrite /push; elim: n w => [|n IH] w /=; first by case; rewrite (bigD1 tt) //= mulr1 big1 ?addr0 // => -[].
case=> d1 d /=; rewrite mass_sum.
rewrite -(pair_bigA _ (fun c o => w c / (\sum_x w x) * urn (add w c) o * ((f c, smap f o) == (d1, d))%:R)) /=.
rewrite {1}/mass !mulr_suml big_mkcond /=; apply: eq_bigr => c _.
case: (altP (f c =P d1)) => [<-|ne]; last first.
  by rewrite big1 // => o _; rewrite -pair_eqE /= (negbTE ne) mulr0.
rewrite -(urn_ext _ (mass_add f w c)) IH mulr_sumr; apply: eq_bigr => o _.
by rewrite -pair_eqE /= eqxx mulrA.
Qed.

(** Splitting: the finer urn is the coarser one, then a kernel that knows the masses within cells only. *)
Theorem splitting (C D : finType) (f : C -> D) n (w : C -> R) (o : Seq C n) :
  (forall c, 0 <= w c) -> urn w o = urn (mass f w) (smap f o) * split f w (smap f o) o.
Proof.
elim: n w o => [|n IH] w o w0 /=; first by rewrite mulr1.
rewrite (IH _ _ (add_ge0 o.1 w0)) (urn_ext _ (mass_add f w o.1)) mass_sum eqxx mul1r.
case: (altP (mass f w (f o.1) =P 0)) => m0.
  suff -> : w o.1 = 0 by rewrite m0 !mul0r.
  by have /psumr_eq0P/(_ o.1) : mass f w (f o.1) = 0 by []; apply=> // c _; exact: w0.
rewrite [RHS]mulrACA; congr (_ * _).
by rewrite [RHS]mulrC -mulrA mulKf.
Qed.

Lemma split_ge0 (C D : finType) (f : C -> D) n (w : C -> R) d (o : Seq C n) :
  (forall c, 0 <= w c) -> 0 <= split f w d o.
Proof.
elim: n w d o => [|n IH] w d o w0 /=; first exact: ler01.
apply: mulr_ge0; last by apply: IH; exact: add_ge0.
by apply: mulr_ge0; rewrite ?ler0n //; apply: divr_ge0 => //; exact: mass_ge0.
Qed.
Lemma split_sum (C D : finType) (f : C -> D) n (w : C -> R) d :
  (forall c, 0 <= w c) -> \sum_(o : Seq C n) split f w d o <= 1.
Proof.
move=> w0; elim: n w d w0 => [|n IH] w d w0; first by rewrite /= (bigD1 tt) //= big1 ?addr0 // => -[].
rewrite /= -(pair_bigA _ (fun c o => (f c == d.1)%:R * (w c / mass f w d.1) * split f (add w c) d.2 o)) /=.
apply: (@le_trans _ _ (\sum_c (f c == d.1)%:R * (w c / mass f w d.1))).
  apply: ler_sum => c _; rewrite -mulr_sumr; apply: ler_pimulr; last by apply: IH; exact: add_ge0.
  by apply: mulr_ge0; rewrite ?ler0n //; apply: divr_ge0 => //; exact: mass_ge0.
rewrite (eq_bigr (fun c => (if f c == d.1 then w c else 0) / mass f w d.1)); last first.
  by move=> c _; case: (_ == _); rewrite ?mul1r ?mul0r.
rewrite -mulr_suml -big_mkcond /= -/(mass f w d.1).
by case: (altP (mass f w d.1 =P 0)) => [->|m0]; rewrite ?mul0r ?ler01 // divff.
Qed.
Lemma split_other (C D : finType) (f : C -> D) n (w : C -> R) (d : Seq D n) (o : Seq C n) :
  smap f o != d -> split f w d o = 0.
Proof.
elim: n w d o => [|n IH] w d o; first by case: d.
rewrite /= -pair_eqE /= negb_and => /orP[/negbTE ->|ne]; first by rewrite !mul0r.
by rewrite (IH _ _ _ ne) mulr0.
Qed.
Lemma alike_add (C D : finType) (f : C -> D) wx wy c : alike f wx wy -> alike f (add wx c) (add wy c).
Proof.
move=> a x; case: (a x) => [h|[h [x0 y0]]]; [left=> y e; rewrite /add (h y e) // | right].
by split=> //; split; rewrite /add; apply: ltr_paddr; rewrite ?ler0n.
Qed.
Lemma split_alike (C D : finType) (f : C -> D) n (wx wy : C -> R) d (o : Seq C n) :
  alike f wx wy -> split f wx d o = split f wy d o.
Proof.
elim: n wx wy d o => [|n IH] wx wy d o a //=.
case: (altP (f o.1 =P d.1)) => [e|_]; last by rewrite !mul0r.
rewrite !mul1r (IH _ (add wy o.1)); [congr (_ * _) | exact: alike_add].
case: (a o.1) => [h|[h [x0 y0]]].
  rewrite (h o.1) //; congr (_ / _); rewrite /mass; apply: eq_bigr => c /eqP fc.
  by apply: h; rewrite fc e.
have alone (w : C -> R) : 0 < w o.1 -> w o.1 / mass f w d.1 = 1.
  move=> m0; suff E : mass f w d.1 = w o.1 by rewrite E divff ?lt0r_neq0.
  rewrite /mass (bigD1 o.1) ?e ?eqxx //= big1 ?addr0 //.
  by move=> c /andP[/eqP fc /eqP ne]; case: ne; apply: h; rewrite fc e.
by rewrite !alone.
Qed.

(** Merging loses privacy loss, never adds it; splitting the same way under both tables changes nothing. *)
Theorem merged_is_at_most (C D : finType) (g : C -> D) n t (wx wy : C -> R) :
  H t (@urn D (mass g wx) n) (@urn D (mass g wy) n) <= H t (@urn C wx n) (@urn C wy n).
Proof.
apply: (@subkernel_processing _ _ (fun (o : Seq C n) d => (smap g o == d)%:R)).
- by move=> o d; rewrite ler0n.
- by move=> o; rewrite (bigD1 (smap g o)) //= eqxx big1 ?addr0 // => e /negbTE ne; rewrite eq_sym ne.
- exact: merging.
- exact: merging.
Qed.
Theorem split_is_at_most (C D : finType) (f : C -> D) n t (wx wy : C -> R) :
  (forall c, 0 <= wx c) -> (forall c, 0 <= wy c) -> alike f wx wy ->
  H t (@urn C wx n) (@urn C wy n) <= H t (@urn D (mass f wx) n) (@urn D (mass f wy) n).
Proof.
move=> x0 y0 a; apply: (@subkernel_processing _ _ (fun (d : Seq D n) (o : Seq C n) => split f wx d o)).
- by move=> d o; exact: split_ge0.
- by move=> d; exact: split_sum.
- move=> o; rewrite /push (bigD1 (smap f o)) //= big1 ?addr0 -?splitting //.
  by move=> d ne; rewrite split_other ?mulr0 // eq_sym.
- move=> o; rewrite /push (bigD1 (smap f o)) //= big1 ?addr0 ?(split_alike _ _ a) -?splitting //.
  by move=> d ne; rewrite split_other ?mulr0 // eq_sym.
Qed.

(** The smallest pair is the worst: C are cells fine enough for both, g makes the true cells E of them, f the few cells D
  of the worst pair, and x and y differ only in cells that f leaves alone. *)
Theorem smallest_pair_is_worst (C D E : finType) (f : C -> D) (g : C -> E) n t (wx wy : C -> R) :
  (forall c, 0 <= wx c) -> (forall c, 0 <= wy c) -> alike f wx wy ->
  H t (@urn E (mass g wx) n) (@urn E (mass g wy) n) <= H t (@urn D (mass f wx) n) (@urn D (mass f wy) n).
Proof. by move=> x0 y0 a; apply: le_trans (merged_is_at_most _ _ _ _ _) (split_is_at_most _ _ x0 y0 a). Qed.
End Urn.
