(** * T4: the Dirichlet-multinomial release (docs/theory/dirichlet-multinomial.md)

  In the page's words: "Let a <= b be the two smallest prior masses (equal if there are ties), and R = A - a - b - 1. Let
  P = DirMult(m; a+1, b, R), Q = DirMult(m; a, b+1, R). Then for every epsilon >= 0
  delta(epsilon) <= max {H_epsilon(P||Q), H_epsilon(Q||P)}, with equality if k >= 3 or n = 1."

  | here                | on the page                                                                            |
  |---------------------|----------------------------------------------------------------------------------------|
  | C, #|C|             | the public cells, and their number k                                                   |
  | alpha               | the prior masses, each positive                                                        |
  | table n             | how many of the n records lie in each cell (the order of records does not matter)      |
  | replaced n          | neighbours: both hold n - 1 common records, x one more in l, and y one more in t       |
  | release alpha m     | the mechanism: m draws of the urn with masses alpha_c + n_c, in their order            |
  | least alpha l t     | alpha_l and alpha_t are the two smallest prior masses, a and b                         |
  | others alpha n l t  | R, all other mass                                                                      |
  | P3 a b R, Q3 a b R  | the masses of P and Q: [Some true] is the cell of a, [Some false] that of b, [None] R  |
  | worst a b R m T     | max {H(P||Q), H(Q||P)}, with T in the place of e^epsilon                               |

  T4_bound holds for every k >= 2 and n, and every T (epsilon < 0, too). T4 is the equality. For k = 2 and n >= 2 the
  page claims the bound alone; T4_two_cells (TwoCells.v) shows that equality indeed fails there. *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions DataProcessing Urn.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section T4.
Variable R : realFieldType.

Section Statement.
Variable C : finType.
Definition table (n : nat) : Type := {N : C -> nat | \sum_c N c = n}%N.
Definition counts n (x : table n) : C -> nat := sval x.
Definition replaced n (x y : table n) : Prop :=
  exists (common : C -> nat) (l t : C), l != t /\
    (forall c, counts x c = common c + (c == l))%N /\ (forall c, counts y c = common c + (c == t))%N.
Definition masses n (alpha : C -> R) (x : table n) : C -> R := fun c => alpha c + (counts x c)%:R.
Definition release n (alpha : C -> R) (m : nat) (x : table n) : Seq C m -> R := @urn R C (masses alpha x) m.
Definition least (alpha : C -> R) (l t : C) : Prop :=
  l != t /\ (forall c, alpha l <= alpha c) /\ (forall c, c != l -> alpha t <= alpha c).
Definition others (alpha : C -> R) (n : nat) (l t : C) : R := n%:R + \sum_c alpha c - alpha l - alpha t - 1.
End Statement.
Arguments release {C n} alpha m x.
Arguments replaced {C} n x y.

Definition P3 (a b rest : R) (d : option bool) : R := match d with Some true => a + 1 | Some false => b | None => rest end.
Definition Q3 (a b rest : R) (d : option bool) : R := match d with Some true => a | Some false => b + 1 | None => rest end.
Definition pair3 (a b rest : R) (m : nat) (T : R) : R := H T (@urn R _ (P3 a b rest) m) (@urn R _ (Q3 a b rest) m).
Definition pair3' (a b rest : R) (m : nat) (T : R) : R := H T (@urn R _ (Q3 a b rest) m) (@urn R _ (P3 a b rest) m).
Definition worst (a b rest : R) (m : nat) (T : R) : R := Num.max (pair3 a b rest m T) (pair3' a b rest m T).

(** The release is a mechanism: a law for every table. *)
Theorem release_is_mechanism (C : finType) n (alpha : C -> R) m :
  (0 < #|C|)%N -> (forall c, 0 < alpha c) -> kernel (fun x : table C n => release alpha m x).
Proof.
move=> /card_gt0P[c0 _] al0 x; have x0 c : 0 <= masses alpha x c by rewrite addr_ge0 ?ler0n ?ltW.
apply: urn_is_law => //; rewrite (bigD1 c0) //= ltr_paddr ?sumr_ge0 //.
by rewrite ltr_paddr ?ler0n.
Qed.

(** Any two cells: x holds one record of l that in y is one of t, and the masses without it are at least p and q there. *)
Section Bound.
Variables (E : finType) (w : E -> R) (l t : E) (p q : R) (m : nat).
Hypotheses (lt : l != t) (w0 : forall e, 0 <= w e) (p0 : 0 < p) (q0 : 0 < q) (hp : p <= w l) (hq : q <= w t).
Let rest e : R := w e - p * (e == l)%:R - q * (e == t)%:R.
Let fine (u v : R) (c : E + bool) : R := match c with inl e => rest e | inr true => u | inr false => v end.
Let fm (c : E + bool) : option bool := match c with inl _ => None | inr k => Some k end.
Let gm (c : E + bool) : E := match c with inl e => e | inr true => l | inr false => t end.

Lemma rest_ge0 e : 0 <= rest e.
Proof.
rewrite /rest; case: (altP (e =P l)) => [->|_]; first by rewrite (negbTE lt) mulr1 mulr0 subr0 subr_ge0.
rewrite mulr0 subr0; case: (altP (e =P t)) => [->|_]; last by rewrite mulr0 subr0.
by rewrite mulr1 subr_ge0.
Qed.
Lemma sum_sum (F : E + bool -> R) (Pr : pred (E + bool)) :
  \sum_(c | Pr c) F c = \sum_(e | Pr (inl e)) F (inl e)
    + ((if Pr (inr true) then F (inr true) else 0) + (if Pr (inr false) then F (inr false) else 0)).
Proof. by rewrite big_mkcond big_sumType /= big_bool -big_mkcond. Qed.
Lemma rest_sum : \sum_e rest e = \sum_e w e - p - q.
Proof.
rewrite /rest !sumrB; congr (_ - _ - _).
  by rewrite -mulr_sumr (bigD1 l) //= eqxx big1 ?addr0 ?mulr1 // => e /negbTE ->.
by rewrite -mulr_sumr (bigD1 t) //= eqxx big1 ?addr0 ?mulr1 // => e /negbTE ->.
Qed.
Lemma mass_few u v :
  mass fm (fine u v) =1 fun d => match d with Some true => u | Some false => v | None => \sum_e w e - p - q end.
Proof.
move=> [[]|]; rewrite /mass sum_sum /=.
- by rewrite big_pred0_eq add0r addr0.
- by rewrite big_pred0_eq !add0r.
- by rewrite !addr0 rest_sum.
Qed.
Lemma mass_true u v : mass gm (fine u v) =1 fun e => rest e + u * (e == l)%:R + v * (e == t)%:R.
Proof.
move=> e; rewrite /mass sum_sum /= big_pred1_eq -addrA; congr (_ + (_ + _)).
- by rewrite eq_sym; case: (_ == _); rewrite ?mulr1 ?mulr0.
- by rewrite eq_sym; case: (_ == _); rewrite ?mulr1 ?mulr0.
Qed.
Lemma T4_pair (T : R) : H T (@urn _ _ (add w l) m) (@urn _ _ (add w t) m) <= pair3 p q (\sum_e w e - p - q) m T.
Proof.
have alg1 (u x z i : R) : u - x - z + (x + i) + z = u + i by rewrite addrAC subrK addrA subrK.
have alg2 (u x z i : R) : u - x - z + x + (z + i) = u + i by rewrite addrA (addrAC (u - x)) subrK subrK.
have gx : mass gm (fine (p + 1) q) =1 add w l.
  by move=> e; rewrite mass_true mulrDl mul1r; exact: alg1.
have gy : mass gm (fine p (q + 1)) =1 add w t.
  by move=> e; rewrite mass_true mulrDl mul1r; exact: alg2.
have p1 : 0 < p + 1 by rewrite addr_gt0 ?ltr01.
have q1 : 0 < q + 1 by rewrite addr_gt0 ?ltr01.
have f0 u v : 0 < u -> 0 < v -> forall c, 0 <= fine u v c.
  by move=> u0 v0 [e|[]] /=; [exact: rest_ge0 | exact: ltW | exact: ltW].
have al : alike fm (fine (p + 1) q) (fine p (q + 1)).
  case=> [e|k]; first by left; case.
  by right; split; [case=> [e|k'] //= [->] | case: k].
rewrite -(H_ext T (fun o => urn_ext o gx) (fun o => urn_ext o gy)).
apply: le_trans (smallest_pair_is_worst gm m T (f0 _ _ p1 q0) (f0 _ _ p0 q1) al) _.
rewrite le_eqVlt; apply/orP; left; apply/eqP; rewrite /pair3.
by apply: H_ext => o; apply: urn_ext => -[[]|]; rewrite mass_few.
Qed.
End Bound.

(** Exchanging the names of the first two cells exchanges the pair. *)
Lemma pair3_swap a b rest m T : pair3 b a rest m T = pair3' a b rest m T.
Proof.
pose f (d : option bool) := omap negb d.
have mf (w : option bool -> R) d : mass f w d = w (f d).
  by rewrite /mass (big_pred1 (f d)) // => -[[]|]; case: d => [[]|].
have eP a' b' : mass f (P3 a' b' rest) =1 Q3 b' a' rest by move=> [[]|]; rewrite mf.
have eQ a' b' : mass f (Q3 a' b' rest) =1 P3 b' a' rest by move=> [[]|]; rewrite mf.
apply/eqP; rewrite eq_le; apply/andP; split.
  rewrite /pair3 -(H_ext T (fun o => urn_ext o (eQ a b)) (fun o => urn_ext o (eP a b))).
  exact: merged_is_at_most.
rewrite /pair3' -(H_ext T (fun o => urn_ext o (eP b a)) (fun o => urn_ext o (eQ b a))).
exact: merged_is_at_most.
Qed.

Section Main.
Variables (C : finType) (alpha : C -> R) (l t : C) (n m : nat).
Hypotheses (al0 : forall c, 0 < alpha c) (lst : least alpha l t).
Let a := alpha l.
Let b := alpha t.

Lemma table_sum (x : table C n) : \sum_c (counts x c)%:R = n%:R :> R.
Proof. by case: x => N /= <-; rewrite natr_sum. Qed.

(** The bound: any number of cells, any number of records, any size, any epsilon. *)
Theorem T4_bound (T : R) : bounds (replaced n) (release alpha m) T (worst a b (others alpha n l t) m T).
Proof.
move=> x y [N [i [j [ij [hx hy]]]]].
pose w c : R := alpha c + (N c)%:R.
have w0 c : 0 <= w c by rewrite addr_ge0 ?ler0n ?ltW.
have ex : masses alpha x =1 add w i by move=> c; rewrite /masses hx natrD addrA.
have ey : masses alpha y =1 add w j by move=> c; rewrite /masses hy natrD addrA.
rewrite /release (H_ext T (fun o => urn_ext o ex) (fun o => urn_ext o ey)).
have es : \sum_c w c - a - b = others alpha n l t.
  have s1 : \sum_c w c + 1 = n%:R + \sum_c alpha c.
    rewrite -(add_sum w i) -(eq_bigr _ (fun c _ => ex c)) big_split /= table_sum; exact: addrC.
  by rewrite /others -s1 -/a -/b [_ + 1 - a]addrAC [_ + 1 - b]addrAC addrK.
have ge c : alpha c <= w c by rewrite ler_addl ler0n.
case: lst => lt [la lb].
have alt : (a <= alpha i /\ b <= alpha j) \/ (b <= alpha i /\ a <= alpha j).
  case: (altP (i =P l)) => [il|il]; last by right; split; [exact: lb | exact: la].
  by left; split; [exact: la | apply: lb; rewrite -il eq_sym].
rewrite /worst le_maxr; apply/orP; case: alt => -[h1 h2]; [left | right].
  by rewrite -es; apply: T4_pair => //; [exact: al0 | exact: al0 | exact: le_trans h1 (ge i) | exact: le_trans h2 (ge j)].
rewrite -pair3_swap -es addrAC.
by apply: T4_pair => //; [exact: al0 | exact: al0 | exact: le_trans h1 (ge i) | exact: le_trans h2 (ge j)].
Qed.

(** The worst pair is a pair of neighbours' laws with cells merged: n - 1 common records lie in a third cell. *)
Lemma T4_reached (T : R) : (0 < n)%N -> (2 < #|C|)%N \/ n = 1%N ->
  exists x y : table C n, replaced n x y /\ replaced n y x /\
    pair3 a b (others alpha n l t) m T <= H T (release alpha m x) (release alpha m y) /\
    pair3' a b (others alpha n l t) m T <= H T (release alpha m y) (release alpha m x).
Proof.
move=> n0 size; case: lst => lt _.
have [N [sN [Nl Nt]]] : exists N : C -> nat, (\sum_c N c = n.-1 /\ N l = 0 /\ N t = 0)%N.
  case: size => [k3|n1]; last by exists (fun _ => 0%N); rewrite n1 big1.
  have [c3 c3l c3t] : exists2 c, c != l & c != t.
    have : (0 < #|predC (pred2 l t)|)%N.
      by have := cardC (pred2 l t); rewrite card2 lt; case: #|predC _| => //; rewrite addn0 => e; move: k3; rewrite -e.
    by case/card_gt0P=> c; rewrite inE /= negb_or => /andP[h1 h2]; exists c.
  exists (fun c => (n.-1 * (c == c3))%N); rewrite ![_ == c3]eq_sym (negbTE c3l) (negbTE c3t) !muln0.
  by rewrite (bigD1 c3) //= eqxx muln1 big1 ?addn0 // => c /negbTE ->; rewrite muln0.
have one i : (\sum_c (N c + (c == i)) = n)%N.
  by rewrite big_split /= sN (bigD1 i) //= eqxx big1 ?addn0 ?addn1 ?prednK // => c /negbTE ->.
pose x : table C n := exist _ _ (one l); pose y : table C n := exist _ _ (one t).
exists x, y; split; [|split]; first by exists N, l, t.
  by exists N, t, l; rewrite eq_sym.
pose f c : option bool := if c == l then Some true else if c == t then Some false else None.
have fl c : (f c == Some true) = (c == l) by rewrite /f; case: (c == l) => //; case: (c == t).
have ft c : (f c == Some false) = (c == t).
  by rewrite /f; case: (altP (c =P l)) => [->|_]; [rewrite (negbTE lt) | case: (c == t)].
have mf w : mass f w =1 fun d => match d with Some true => w l | Some false => w t | None => \sum_c w c - w l - w t end.
  move=> d; have := mass_sum f w; rewrite (bigD1 None) //= (bigD1 (Some true)) //= (bigD1 (Some false)) //= big1; last first.
    by case=> [[]|].
  have -> : mass f w (Some true) = w l by rewrite /mass (eq_bigl (fun c => c == l)) ?big_pred1_eq.
  have -> : mass f w (Some false) = w t by rewrite /mass (eq_bigl (fun c => c == t)) ?big_pred1_eq.
  rewrite addr0 => <-; case: d => [[]|].
  - by rewrite /mass (eq_bigl (fun c => c == l)) ?big_pred1_eq.
  - by rewrite /mass (eq_bigl (fun c => c == t)) ?big_pred1_eq.
  - by rewrite addrA addrAC addrK addrK.
have sw (z : table C n) : \sum_c masses alpha z c = n%:R + \sum_c alpha c by rewrite big_split /= table_sum addrC.
have ex : mass f (masses alpha x) =1 P3 a b (others alpha n l t).
  move=> d; rewrite mf sw /masses /= eqxx Nl Nt (negbTE (_ : t != l)) 1?eq_sym // !add0n addr0.
  by case: d => [[]|] //; rewrite /others -/a -/b opprD addrA addrAC.
have ey : mass f (masses alpha y) =1 Q3 a b (others alpha n l t).
  move=> d; rewrite mf sw /masses /= eqxx Nl Nt (negbTE lt) !add0n addr0.
  by case: d => [[]|] //; rewrite /others -/a -/b opprD addrA.
rewrite /pair3 /pair3' -(H_ext T (fun o => urn_ext o ex) (fun o => urn_ext o ey)).
by rewrite -(H_ext T (fun o => urn_ext o ey) (fun o => urn_ext o ex)); split; exact: merged_is_at_most.
Qed.

(** T4, with equality. *)
Theorem T4 (T : R) : (0 < n)%N -> (2 < #|C|)%N \/ n = 1%N ->
  exact (replaced n) (release alpha m) T (worst a b (others alpha n l t) m T).
Proof.
move=> n0 size; split; first exact: T4_bound.
have [x [y [xy [yx [h1 h2]]]]] := T4_reached T n0 size.
rewrite /worst; case: (leP (pair3' a b (others alpha n l t) m T) (pair3 a b (others alpha n l t) m T)) => le.
  exists x, y; split=> //; apply/eqP; rewrite eq_le h1 andbT.
  by have := T4_bound T xy; rewrite /worst (max_idPl le).
exists y, x; split=> //; apply/eqP; rewrite eq_le h2 andbT.
by have := T4_bound T yx; rewrite /worst (max_idPr (ltW le)).
Qed.
End Main.
End T4.
Arguments release {R C n} alpha m x.
Arguments replaced {C} n x y.
