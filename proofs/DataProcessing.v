(** * Data processing, ancillary statistics, composition
  The tools of docs/theory/sampling-is-noise.md.

  - [H_event], [H_attained]. *H_epsilon(P || Q) = sup over B of P(B) - e^epsilon Q(B), and the supremum is attained at
    B = (P > e^epsilon Q).*
  - [reverse]. *H_(-epsilon)(P || Q) = 1 - e^(-epsilon) + e^(-epsilon) H_epsilon(Q || P).*
  - [data_processing] (Lemma 1). *For every probability kernel K, H(PK || QK) <= H(P || Q),* and
    [sufficient_statistic]: *with equality when the map keeps a sufficient statistic.*
  - [ancillary] (Lemma 2). *If a statistic U has the same law under P and Q, then H(P || Q) is the mean of the divergences
    of the conditional laws given U.*
  - [adaptive_composition], [composition_by_places] (Composition). *If (P_i, Q_i) dominates mechanism i for whatever the
    earlier releases were, then the product of the pairs dominates the adaptive composition.* Domination is by divergences,
    as on the page, so that Blackwell's theorem is not needed.
  - [same_ratio] (in the proof of T20). *If M_x(o) = r(o) M*_x(o) with r(o) <= z not depending on x, then
    H(M_x || M_y) <= z H(M*_x || M*_y).*

  | here              | on the page                                                           |
  |-------------------|-----------------------------------------------------------------------|
  | P, Q              | two laws; most statements need no more than what their hypotheses say |
  | t                 | e^epsilon                                                             |
  | B                 | an event                                                              |
  | nu, U             | the law of the ancillary statistic, its values                        |
  | p : pair          | (P_i, Q_i): [first] and [second] are laws on [source]                 |
  | product ps        | the product of the pairs ps                                           |
  | Kx, Ky            | what comes next, by all that was released before, under x and under y | *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section PositivePart.
Variable R : realFieldType.
Implicit Types x y : R.
Lemma pos_ge0 x : 0 <= pos x. Proof. by rewrite /pos le_maxr lexx. Qed.
Lemma pos_ge x : x <= pos x. Proof. by rewrite /pos le_maxr lexx orbT. Qed.
Lemma pos_le x y : x <= y -> 0 <= y -> pos x <= y.
Proof. by move=> h1 h2; rewrite /pos le_maxl h1 h2. Qed.
Lemma pos_mono x y : x <= y -> pos x <= pos y.
Proof. by move=> h; apply: pos_le (pos_ge0 y); apply: le_trans h (pos_ge y). Qed.
Lemma posM a x : 0 <= a -> pos (a * x) = a * pos x.
Proof. by move=> a0; rewrite /pos maxr_pmulr // mulr0. Qed.
Lemma pos_id x : 0 <= x -> pos x = x. Proof. by move=> h; rewrite /pos; apply/max_idPr. Qed.
Lemma pos_0 x : x <= 0 -> pos x = 0. Proof. by move=> h; rewrite /pos; apply/max_idPl. Qed.
Lemma pos_opp x : pos x = x + pos (- x).
Proof.
case: (leP 0 x) => h; first by rewrite pos_id // pos_0 ?addr0 // oppr_le0.
by rewrite (pos_0 (ltW h)) pos_id ?subrr // oppr_ge0 ltW.
Qed.
Lemma pos_min x y : pos (x - y) = x - Num.min x y.
Proof.
case: (leP x y) => h; first by rewrite subrr pos_0 // subr_le0.
by rewrite pos_id // subr_ge0 ltW.
Qed.
Lemma sum_unit (F : unit -> R) : \sum_u F u = F tt.
Proof. by rewrite (bigD1 tt) //= big1 ?addr0 // => -[]. Qed.
End PositivePart.

Section Divergence.
Variable R : realFieldType.
Implicit Types t : R.

Lemma H_ge0 (T : finType) t (P Q : T -> R) : 0 <= H t P Q.
Proof. by apply: sumr_ge0 => o _; exact: pos_ge0. Qed.
Lemma H_ext (T : finType) t (P Q P' Q' : T -> R) : P =1 P' -> Q =1 Q' -> H t P Q = H t P' Q'.
Proof. by move=> p q; apply: eq_bigr => o _; rewrite p q. Qed.

(** The supremum over events. *)
Theorem H_event (T : finType) t (P Q : T -> R) (B : {set T}) :
  \sum_(o in B) P o - t * (\sum_(o in B) Q o) <= H t P Q.
Proof.
rewrite mulr_sumr -sumrB /H (bigID (fun o => o \in B) predT) /=.
by apply: ler_paddr; [apply: sumr_ge0 => o _; exact: pos_ge0 | apply: ler_sum => o _; exact: pos_ge].
Qed.
Theorem H_attained (T : finType) t (P Q : T -> R) (B := [set o | t * Q o < P o]) :
  \sum_(o in B) P o - t * (\sum_(o in B) Q o) = H t P Q.
Proof.
rewrite mulr_sumr -sumrB /H [RHS](bigID (fun o => o \in B) predT) /= [X in _ = _ + X]big1 ?addr0.
  by apply: eq_bigr => o; rewrite inE => h; rewrite pos_id // subr_ge0 ltW.
by move=> o; rewrite inE -leNgt => h; rewrite pos_0 // subr_le0.
Qed.
Theorem H_decreasing (T : finType) t t' (P Q : T -> R) :
  (forall o, 0 <= Q o) -> t <= t' -> H t' P Q <= H t P Q.
Proof.
move=> q0 h; apply: ler_sum => o _; apply: pos_mono.
by rewrite ler_add2l ler_opp2; exact: ler_wpmul2r.
Qed.
Theorem H_le1 (T : finType) t (P Q : T -> R) : law P -> law Q -> 0 <= t -> H t P Q <= 1.
Proof.
case=> p0 <- [q0 _] t0; apply: ler_sum => o _; apply: pos_le => //.
by rewrite ler_subl_addr ler_addl mulr_ge0.
Qed.
Theorem reverse (T : finType) t (P Q : T -> R) :
  law P -> law Q -> 0 < t -> H t^-1 P Q = 1 - t^-1 + t^-1 * H t Q P.
Proof.
move=> [_ p1] [_ q1] t0; have i0 : 0 <= t^-1 by rewrite invr_ge0 ltW.
rewrite -{1}p1 -[X in _ - X]mulr1 -q1 /H !mulr_sumr -sumrB -big_split /=; apply: eq_bigr => o _.
rewrite -posM // mulrBr mulrA mulVf ?mul1r ?lt0r_neq0 //.
by rewrite [LHS]pos_opp opprB.
Qed.

(** Lemma 1: data processing. *)
Theorem data_processing (S T : finType) (K : S -> T -> R) t (P Q : S -> R) :
  kernel K -> H t (push K P) (push K Q) <= H t P Q.
Proof.
move=> kK; apply: (@le_trans _ _ (\sum_(o : T) \sum_(s : S) pos (P s - t * Q s) * K s o)).
  apply: ler_sum => o _; apply: pos_le.
    rewrite mulr_sumr -sumrB; apply: ler_sum => s _.
    by rewrite mulrA -mulrBl; apply: ler_wpmul2r (pos_ge _); case: (kK s).
  by apply: sumr_ge0 => s _; apply: mulr_ge0; [exact: pos_ge0 | case: (kK s)].
rewrite exchange_big /=; apply: ler_sum => s _.
by rewrite -mulr_sumr; case: (kK s) => _ ->; rewrite mulr1.
Qed.
Lemma image_dominates (S T : finType) (P Q : S -> R) (P' Q' : T -> R) : image P Q P' Q' -> dominates P Q P' Q'.
Proof. by case=> K [kK [p q]] t _; rewrite (H_ext t p q); exact: data_processing. Qed.
Lemma dominates_refl (S : finType) (P Q : S -> R) : dominates P Q P Q.
Proof. by move=> t _; exact: lexx. Qed.
Lemma dominates_trans (S T U : finType) (P Q : S -> R) (P' Q' : T -> R) (P'' Q'' : U -> R) :
  dominates P Q P' Q' -> dominates P' Q' P'' Q'' -> dominates P Q P'' Q''.
Proof. by move=> h1 h2 t t0; apply: le_trans (h2 t t0) (h1 t t0). Qed.

(** A map without randomness, as a kernel. *)
Definition point (S T : finType) (f : S -> T) : S -> T -> R := fun s o => (f s == o)%:R.
Lemma point_kernel (S T : finType) (f : S -> T) : kernel (point f).
Proof.
move=> s; split=> [o|]; first by rewrite /point; case: (_ == _); rewrite ?ler01.
by rewrite /point (bigD1 (f s)) //= eqxx big1 ?addr0 // => o /negbTE ne; rewrite eq_sym ne.
Qed.
Lemma push_point (S T : finType) (f : S -> T) (P : S -> R) o : push (point f) P o = \sum_(s | f s == o) P s.
Proof. by rewrite /push [RHS]big_mkcond /=; apply: eq_bigr => s _; rewrite /point; case: (_ == _); rewrite ?mulr1 ?mulr0. Qed.
Lemma push_sum (S T : finType) (K : S -> T -> R) (P : S -> R) : kernel K -> \sum_o push K P o = \sum_s P s.
Proof.
move=> kK; rewrite /push exchange_big /=; apply: eq_bigr => s _.
by rewrite -mulr_sumr; case: (kK s) => _ ->; rewrite mulr1.
Qed.
Lemma push_law (S T : finType) (K : S -> T -> R) (P : S -> R) : kernel K -> law P -> law (push K P).
Proof.
move=> kK [p0 p1]; split=> [o|]; last by rewrite push_sum.
by apply: sumr_ge0 => s _; apply: mulr_ge0 => //; case: (kK s).
Qed.

(** Lemma 1, equality: P s / Q s = a (f s) / b (f s), with w s what P and Q have in common. *)
Theorem sufficient_statistic (S T : finType) (f : S -> T) t (P Q w : S -> R) (a b : T -> R) :
  (forall s, 0 <= w s) -> (forall s, P s = a (f s) * w s) -> (forall s, Q s = b (f s) * w s) ->
  H t (push (point f) P) (push (point f) Q) = H t P Q.
Proof.
move=> w0 ep eq; rewrite /H [RHS](partition_big f predT) //=; apply: eq_bigr => o _.
have sum_at (X : S -> R) (c : T -> R) : (forall s, X s = c (f s) * w s) ->
    push (point f) X o = c o * \sum_(s | f s == o) w s.
  by move=> e; rewrite push_point mulr_sumr; apply: eq_bigr => s /eqP <-.
rewrite (sum_at _ _ ep) (sum_at _ _ eq) mulrA -mulrBl mulrC posM ?sumr_ge0 // mulr_suml.
by apply: eq_bigr => s /eqP fs; rewrite ep eq fs mulrA -mulrBl [in RHS]mulrC posM.
Qed.

(** Lemma 2: ancillary statistics. *)
Theorem ancillary (U T : finType) t (nu : U -> R) (P Q : U -> T -> R) :
  (forall u, 0 <= nu u) ->
  H t (fun uo : U * T => nu uo.1 * P uo.1 uo.2) (fun uo => nu uo.1 * Q uo.1 uo.2)
  = \sum_u nu u * H t (P u) (Q u).
Proof.
move=> n0; rewrite /H -(pair_bigA _ (fun u o => pos (nu u * P u o - t * (nu u * Q u o)))) /=.
by apply: eq_bigr => u _; rewrite mulr_sumr; apply: eq_bigr => o _; rewrite mulrCA -mulrBr posM.
Qed.

(** The step in the proof of T20 in which a factor does not depend on the table. *)
Theorem same_ratio (T : finType) t (z : R) (r : T -> R) (P Q P' Q' : T -> R) :
  (forall o, 0 <= r o <= z) -> (forall o, P o = r o * P' o) -> (forall o, Q o = r o * Q' o) ->
  H t P Q <= z * H t P' Q'.
Proof.
move=> rz ep eq; rewrite /H mulr_sumr; apply: ler_sum => o _; have /andP[r0 r1] := rz o.
by rewrite ep eq mulrCA -mulrBr posM //; apply: ler_wpmul2r => //; exact: pos_ge0.
Qed.
End Divergence.

(** ** Composition *)
Section Composition.
Variable R : realFieldType.
Implicit Types t : R.

(** Domination is kept where the two laws get weights u and v of their own. *)
Lemma dominates_weighted (S T : finType) (P Q : S -> R) (P' Q' : T -> R) (u v : R) :
  (forall o, 0 <= Q' o) -> dominates P Q P' Q' -> 0 <= u -> 0 <= v ->
  \sum_o pos (u * P' o - v * Q' o) <= \sum_s pos (u * P s - v * Q s).
Proof.
move=> q0 d u0 v0; case: (eqVneq u 0) => [->|un0].
  rewrite big1 => [|o _]; first by apply: sumr_ge0 => s _; exact: pos_ge0.
  by rewrite mul0r sub0r pos_0 // oppr_le0 mulr_ge0.
have scaled (Y : finType) (X Z : Y -> R) : \sum_o pos (u * X o - v * Z o) = u * H (v / u) X Z.
  rewrite /H mulr_sumr; apply: eq_bigr => o _.
  by rewrite -posM // mulrBr mulrA mulrCA divff // mulr1.
by rewrite !scaled; apply: ler_wpmul2l => //; apply: d; apply: divr_ge0.
Qed.

(** What comes second may be chosen by what came first. *)
Theorem adaptive_composition (A B S1 S2 : finType) (P1 Q1 : S1 -> R) (P2 Q2 : S2 -> R)
  (Mx My : A -> R) (Nx Ny : A -> B -> R) :
  law Mx -> law My -> kernel Nx -> kernel Ny -> law P2 -> law Q2 ->
  dominates P1 Q1 Mx My -> (forall a, dominates P2 Q2 (Nx a) (Ny a)) ->
  dominates (both P1 P2) (both Q1 Q2) (fun ab => Mx ab.1 * Nx ab.1 ab.2) (fun ab => My ab.1 * Ny ab.1 ab.2).
Proof.
move=> [mx0 _] [my0 _] kx ky [p0 _] [q0 _] d1 d2 t t0.
apply: (@le_trans _ _ (\sum_a \sum_s pos (Mx a * P2 s - t * My a * Q2 s))).
  rewrite /H -(pair_bigA _ (fun a b => pos (Mx a * Nx a b - t * (My a * Ny a b)))) /=.
  apply: ler_sum => a _; rewrite (eq_bigr (fun b => pos (Mx a * Nx a b - t * My a * Ny a b))).
    by apply: dominates_weighted => //; [case: (ky a) | apply: mulr_ge0].
  by move=> b _; rewrite mulrA.
rewrite exchange_big /= /H -(pair_bigA _ (fun s1 s2 => pos (P1 s1 * P2 s2 - t * (Q1 s1 * Q2 s2)))) /=.
rewrite [X in _ <= X]exchange_big /=; apply: ler_sum => s _.
rewrite (eq_bigr (fun a => pos (P2 s * Mx a - t * Q2 s * My a))); last first.
  by move=> a _; rewrite mulrC mulrAC.
rewrite [X in _ <= X](eq_bigr (fun s1 => pos (P2 s * P1 s1 - t * Q2 s * Q1 s1))); last first.
  by move=> s1 _; rewrite mulrC mulrA [_ * Q2 s]mulrAC.
by apply: dominates_weighted => //; apply: mulr_ge0.
Qed.

(** Several pairs, and their product. *)
Record pair := Pair { source : finType; first : source -> R; second : source -> R;
                      first_law : law first; second_law : law second }.
Lemma both_law (S T : finType) (P : S -> R) (Q : T -> R) : law P -> law Q -> law (both P Q).
Proof.
move=> [p0 p1] [q0 q1]; split=> [o|]; first exact: mulr_ge0.
rewrite -(pair_bigA _ (fun s o => P s * Q o)) /= -p1; apply: eq_bigr => s _.
by rewrite -mulr_sumr q1 mulr1.
Qed.
Lemma unit_law : law (fun _ : unit => 1 : R).
Proof. by split=> [_|]; [exact: ler01 | rewrite sum_unit]. Qed.
Fixpoint product (ps : seq pair) : pair :=
  if ps is p :: ps' then Pair (both_law (first_law p) (first_law (product ps')))
                              (both_law (second_law p) (second_law (product ps')))
  else Pair unit_law unit_law.

Lemma both_dominates (S T S' T' : finType) (P Q : S -> R) (P2 Q2 : S' -> R) (P' Q' : T -> R) (P2' Q2' : T' -> R) :
  law P2 -> law Q2 -> law P' -> law Q' -> law P2' -> law Q2' ->
  dominates P Q P' Q' -> dominates P2 Q2 P2' Q2' -> dominates (both P P2) (both Q Q2) (both P' P2') (both Q' Q2').
Proof.
move=> l2 m2 l m l2' m2' d d2.
exact: (adaptive_composition l m (fun _ => l2') (fun _ => m2') l2 m2 d (fun _ => d2)).
Qed.
(** The product of two sequences of pairs is that of their concatenation. *)
Lemma product_cat (ps qs : seq pair) :
  dominates (@first (product (ps ++ qs))) (@second (product (ps ++ qs)))
            (both (@first (product ps)) (@first (product qs))) (both (@second (product ps)) (@second (product qs))).
Proof.
elim: ps => [|q ps IH] /=.
  apply: image_dominates; exists (point R (fun s => (tt, s))); split; first exact: point_kernel.
  by split=> -[[] b]; rewrite push_point /both mul1r (big_pred1 b).
apply: (@dominates_trans _ _ _ _ _ _ (both (@first q) (both (@first (product ps)) (@first (product qs))))
          (both (@second q) (both (@second (product ps)) (@second (product qs))))).
  apply: both_dominates IH => //; try exact: first_law; try exact: second_law; try (by move=> t _);
    by apply: both_law; (exact: first_law || exact: second_law).
apply: image_dominates; exists (point R (fun s => ((s.1, s.2.1), s.2.2))); split; first exact: point_kernel.
split=> -[[a b] c]; rewrite push_point (big_pred1 (a, (b, c))) /both /= ?mulrA // => -[a' [b' c']] /=;
  by rewrite !xpair_eqE andbA.
Qed.

Lemma run_law (A : finType) (K : seq A -> A -> R) n h : kernel K -> law (run K h (n := n)).
Proof.
move=> kK; elim: n h => [|n IH] h /=; first exact: unit_law.
split=> [o|]; first by apply: mulr_ge0; [case: (kK h) | case: (IH (rcons h o.1))].
rewrite -(pair_bigA _ (fun a o => K h a * run K (rcons h a) o)) /=; case: (kK h) => _ <-.
by apply: eq_bigr => a _; rewrite -mulr_sumr; case: (IH (rcons h a)) => _ ->; rewrite mulr1.
Qed.

(** The number of places and the pair of each are fixed; what is at place [size h] is chosen by all outcomes h before. *)
Definition dominated_at (A : finType) (p : nat -> pair) (Kx Ky : seq A -> A -> R) (n : nat) : Prop :=
  forall h, (size h < n)%N -> dominates (@first (p (size h))) (@second (p (size h))) (Kx h) (Ky h).
Theorem composition_by_places (A : finType) (ps : seq pair) (d : pair) (Kx Ky : seq A -> A -> R) :
  kernel Kx -> kernel Ky -> dominated_at (nth d ps) Kx Ky (size ps) ->
  dominates (@first (product ps)) (@second (product ps))
            (run Kx [::] (n := size ps)) (run Ky [::] (n := size ps)).
Proof.
move=> kx ky dom.
suff all_h (qs : seq pair) (h : seq A) :
    (forall h', (size h' < size qs)%N -> dominates (@first (nth d qs (size h'))) (@second (nth d qs (size h')))
                                                 (Kx (h ++ h')) (Ky (h ++ h'))) ->
    dominates (@first (product qs)) (@second (product qs)) (run Kx h (n := size qs)) (run Ky h (n := size qs)).
  by apply: all_h => h' lt; exact: dom.
elim: qs h => [|q qs IH] h D /=; first by move=> t _.
apply: (adaptive_composition (Mx := Kx h) (My := Ky h) (Nx := fun a => run Kx (rcons h a) (n := size qs))
          (Ny := fun a => run Ky (rcons h a) (n := size qs))) => //.
- by move=> a; exact: run_law.
- by move=> a; exact: run_law.
- exact: first_law.
- exact: second_law.
- by have := D [::] isT; rewrite cats0.
- move=> a; apply: IH => h' lt; have := D (a :: h'); rewrite -cat_rcons; exact.
Qed.
End Composition.
