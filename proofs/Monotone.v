(** * Monotonicity of the urn (Lemma 4, docs/theory/sampling-is-noise.md)

  In the page's words: "The profiles of the urn mechanisms do not increase (1) when the size m decreases; (2) when a prior
  mass increases: any alpha_c of a Dirichlet-multinomial; (3) when the number of records n increases, for the three-cell
  pair of the Dirichlet-multinomial with fixed a and b. Proof: call *extra* every draw from the added mass, or, by descent,
  from an earlier extra draw. The times of the extra draws have a law that depends on the masses' totals only."

  | here                  | on the page                                                                               |
  |-----------------------|-------------------------------------------------------------------------------------------|
  | value x y wx wy n     | the divergence of n draws, the two laws having the weights x and y                        |
  | both_masses w h       | an urn of the cells C, and of extra cells E of masses h                                   |
  | extra alpha h         | the prior masses alpha_c + h_c                                                            | *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions Arithmetic DataProcessing Urn T4 DirichletMultinomial.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Monotone.
Variable R : realFieldType.
Add Field field_R : (field_laws R).
Variable t : R.

Lemma pos_sum (I : finType) (F : I -> R) : pos (\sum_i F i) <= \sum_i pos (F i).
Proof.
apply: pos_le; first by apply: ler_sum => i _; exact: pos_ge.
by apply: sumr_ge0 => i _; exact: pos_ge0.
Qed.

Section Value.
Variable C : finType.
Implicit Types wx wy : C -> R.
Definition value (n : nat) (x y : R) wx wy : R := \sum_(o : Seq C n) pos (x * urn wx o - t * (y * urn wy o)).

Lemma value_divergence n wx wy : value n 1 1 wx wy = H t (@urn R C wx n) (@urn R C wy n).
Proof. by apply: eq_bigr => o _; rewrite !mul1r. Qed.
Lemma value_ext n x y wx wy wx' wy' : wx =1 wx' -> wy =1 wy' -> value n x y wx wy = value n x y wx' wy'.
Proof. by move=> ex ey; apply: eq_bigr => o _; rewrite (urn_ext o ex) (urn_ext o ey). Qed.
Lemma value0 x y wx wy : value 0 x y wx wy = pos (x - t * y).
Proof. by rewrite /value (bigD1 tt) //= big1 ?addr0 ?mulr1 // => -[]. Qed.
Lemma valueS n x y wx wy : value n.+1 x y wx wy
  = \sum_c value n (x * (wx c / \sum_c wx c)) (y * (wy c / \sum_c wy c)) (add wx c) (add wy c).
Proof.
rewrite /value /= -(pair_bigA _ (fun c o => pos (x * (wx c / (\sum_c wx c) * urn (add wx c) o)
  - t * (y * (wy c / (\sum_c wy c) * urn (add wy c) o))))) /=.
by apply: eq_bigr => c _; apply: eq_bigr => o _; rewrite !mulrA.
Qed.
Lemma valueM n k x y wx wy : 0 <= k -> value n (k * x) (k * y) wx wy = k * value n x y wx wy.
Proof.
by move=> k0; rewrite /value mulr_sumr; apply: eq_bigr => o _; rewrite -posM //; congr pos; ring_in R.
Qed.

(** One draw more. *)
Lemma value_up n x y wx wy : 0 < \sum_c wx c -> 0 < \sum_c wy c -> value n x y wx wy <= value n.+1 x y wx wy.
Proof.
elim: n x y wx wy => [|n IH] x y wx wy sx sy; rewrite [X in _ <= X]valueS.
  rewrite value0; have -> : x - t * y = \sum_c (x * (wx c / \sum_c wx c) - t * (y * (wy c / \sum_c wy c))).
    by rewrite sumrB -!mulr_sumr -!mulr_suml !divff ?lt0r_neq0 // !mulr1.
  by apply: le_trans (pos_sum _) _; apply: ler_sum => c _; rewrite value0.
rewrite valueS; apply: ler_sum => c _; apply: IH; rewrite add_sum ltr_paddr ?ler01 //.
Qed.
End Value.

(** Extra cells. *)
Definition both_masses (C E : finType) (w : C -> R) (h : E -> R) (c : C + E) : R :=
  match c with inl c => w c | inr e => h e end.
Lemma sum_both (C E : finType) (w : C -> R) (h : E -> R) : \sum_c both_masses w h c = \sum_c w c + \sum_e h e.
Proof. by rewrite big_sumType. Qed.
Lemma value_extra (C E : finType) n x y (wx wy : C -> R) (h : E -> R) :
  (forall c, 0 <= wx c) -> (forall c, 0 <= wy c) -> (forall e, 0 <= h e) ->
  0 < \sum_c wx c -> \sum_c wx c = \sum_c wy c ->
  value n x y (both_masses wx h) (both_masses wy h) <= value n x y wx wy.
Proof.
elim: n x y wx wy h => [|n IH] x y wx wy h x0 y0 h0 sx sxy; first by rewrite !value0.
rewrite valueS !sum_both -sxy big_sumType /=; set A := \sum_c wx c; set B := \sum_e h e.
have B0 : 0 <= B by exact: sumr_ge0.
have AB : 0 < A + B by rewrite ltr_paddr.
have addl (w : C -> R) c : add (both_masses w h) (inl c) =1 both_masses (add w c) h.
  by case=> [k|e]; rewrite /add /= ?addr0 //.
have addr (w : C -> R) e : add (both_masses w h) (inr e) =1 both_masses w (add h e).
  by case=> [k|k]; rewrite /add /= ?addr0 //.
have cells : \sum_c value n (x * (wx c / (A + B))) (y * (wy c / (A + B))) (add (both_masses wx h) (inl c)) (add (both_masses wy h) (inl c))
    <= A / (A + B) * value n.+1 x y wx wy.
  rewrite valueS mulr_sumr; apply: ler_sum => c _; rewrite -sxy -/A.
  rewrite (value_ext _ _ _ (addl wx c) (addl wy c)) -valueM ?divr_ge0 ?(ltW sx) ?(ltW AB) //.
  have scale k v : A / (A + B) * (k * (v / A)) = k * (v / (A + B)).
    have e : A * A^-1 = 1 by rewrite divff // lt0r_neq0.
    transitivity (k * v * (A + B)^-1 * (A * A^-1)); first by move: (A^-1) ((A + B)^-1) => ? ?; ring_in R.
    by rewrite e mulr1 mulrA.
  rewrite !scale; apply: IH => //; try exact: add_ge0; rewrite !add_sum ?sxy //.
  by rewrite ltr_paddr ?ler01 // -sxy.
have extras : \sum_e value n (x * (h e / (A + B))) (y * (h e / (A + B))) (add (both_masses wx h) (inr e)) (add (both_masses wy h) (inr e))
    <= B / (A + B) * value n.+1 x y wx wy.
  rewrite /B !mulr_suml; apply: ler_sum => e _; rewrite (value_ext _ _ _ (addr wx e) (addr wy e)).
  rewrite ![_ * (h e / _)]mulrC valueM ?divr_ge0 ?(ltW AB) //.
  apply: ler_wpmul2l; first by rewrite divr_ge0 ?(ltW AB).
  apply: le_trans (value_up n x y sx (_ : 0 < \sum_c wy c)); last by rewrite -sxy.
  by apply: IH => //; exact: add_ge0.
apply: le_trans (ler_add cells extras) _.
by rewrite -mulrDl -mulrDl divff ?mul1r ?lt0r_neq0.
Qed.

(** Lemma 4 (1). *)
Theorem fewer_draws_are_safer (C : finType) n (wx wy : C -> R) :
  0 < \sum_c wx c -> 0 < \sum_c wy c ->
  H t (@urn R C wx n) (@urn R C wy n) <= H t (@urn R C wx n.+1) (@urn R C wy n.+1).
Proof. by move=> sx sy; rewrite -!value_divergence; exact: value_up. Qed.

(** Lemma 4 (2) and (3): any masses h that both tables' urns gain. *)
Theorem more_mass_is_safer (C : finType) n (wx wy h : C -> R) :
  (forall c, 0 <= wx c) -> (forall c, 0 <= wy c) -> (forall c, 0 <= h c) ->
  0 < \sum_c wx c -> \sum_c wx c = \sum_c wy c ->
  H t (@urn R C (fun c => wx c + h c) n) (@urn R C (fun c => wy c + h c) n) <= H t (@urn R C wx n) (@urn R C wy n).
Proof.
move=> x0 y0 h0 sx sxy; pose f (c : C + C) := match c with inl c => c | inr c => c end.
have merged w : mass f (both_masses w h) =1 fun c => w c + h c.
  by move=> c; rewrite /mass big_mkcond big_sumType /= -!big_mkcond /= !big_pred1_eq.
rewrite -(H_ext t (fun o => urn_ext o (merged wx)) (fun o => urn_ext o (merged wy))).
apply: le_trans (merged_is_at_most _ _ _ _ _) _; rewrite -!value_divergence; exact: value_extra.
Qed.

(** Of the mechanism: a larger prior, or fewer draws, keep every bound. *)
Theorem larger_prior_is_safer (C : finType) n m (alpha h : C -> R) (delta : R) :
  (0 < #|C|)%N -> (forall c, 0 < alpha c) -> (forall c, 0 <= h c) ->
  bounds (replaced n) (fun x : table C n => release alpha m x) t delta ->
  bounds (replaced n) (fun x : table C n => release (fun c => alpha c + h c) m x) t delta.
Proof.
move=> /card_gt0P[c0 _] al0 h0 bound x y xy; apply: le_trans (bound x y xy).
have e (z : table C n) : masses (fun c => alpha c + h c) z =1 fun c => masses alpha z c + h c.
  by move=> c; rewrite /masses addrAC.
have w0 (z : table C n) c : 0 <= masses alpha z c by rewrite addr_ge0 ?ler0n ?ltW.
rewrite /release (H_ext t (fun o => urn_ext o (e x)) (fun o => urn_ext o (e y))).
apply: more_mass_is_safer => //.
  by rewrite (bigD1 c0) //= ltr_paddr ?sumr_ge0 // ltr_paddr ?ler0n.
by rewrite !big_split /= !table_sum.
Qed.
Theorem fewer_released_are_safer (C : finType) n m (alpha : C -> R) (delta : R) :
  (0 < #|C|)%N -> (forall c, 0 < alpha c) ->
  bounds (replaced n) (fun x : table C n => release alpha m.+1 x) t delta ->
  bounds (replaced n) (fun x : table C n => release alpha m x) t delta.
Proof.
move=> /card_gt0P[c0 _] al0 bound x y xy; apply: le_trans (bound x y xy).
have s0 (z : table C n) : 0 < \sum_c masses alpha z c.
  rewrite (bigD1 c0) //= ltr_paddr ?sumr_ge0 // => [c _|]; first by rewrite addr_ge0 ?ler0n ?ltW.
  by rewrite ltr_paddr ?ler0n.
exact: fewer_draws_are_safer.
Qed.
(** The pair of T4 does not increase with n: R grows with it. *)
Theorem more_records_are_safer (a b rest more : R) m :
  0 < a -> 0 < b -> 0 <= rest -> 0 <= more -> pair3 a b (rest + more) m t <= pair3 a b rest m t.
Proof.
move=> a0 b0 r0 h0; pose h (d : option bool) : R := if d is None then more else 0.
have eP : P3 a b (rest + more) =1 fun d => P3 a b rest d + h d by move=> [[]|] /=; rewrite ?addr0.
have eQ : Q3 a b (rest + more) =1 fun d => Q3 a b rest d + h d by move=> [[]|] /=; rewrite ?addr0.
rewrite /pair3 (H_ext t (fun o => urn_ext o eP) (fun o => urn_ext o eQ)).
apply: more_mass_is_safer; rewrite ?big_three /=.
- by move=> [[]|] //=; rewrite ?ltW // addr_gt0 ?ltr01.
- by move=> [[]|] //=; rewrite ?ltW // addr_gt0 ?ltr01.
- by move=> [[]|] /=.
- by rewrite ltr_paddr ?addr_ge0 ?(ltW b0) // addr_gt0 ?ltr01.
- by ring_in R.
Qed.
End Monotone.
