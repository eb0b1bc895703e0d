(** * Tables, counts and independent draws
  What T5, T7 and T13 are about.

  | here           | on the theory pages                                                        |
  |----------------|----------------------------------------------------------------------------|
  | C              | the public domain; #|C| = k is its number of cells                          |
  | table C n      | a table of n records, each in a cell                                       |
  | count_in x c   | n_c, the number of records of x in cell c                                  |
  | replaced x y   | the number of records in which x and y differ                              |
  | draws m p      | the law of m independent draws from p; *P^m* for a law P                   |
  | times z w      | how often the outcome z is among the m draws w                             |
  | neighbours g   | tables that differ in g records at most                                    | *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions DataProcessing.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Definition table (C : finType) (n : nat) := {ffun 'I_n -> C}.
Definition count_in (C : finType) (n : nat) (x : table C n) (c : C) : nat := (\sum_(i < n) (x i == c))%N.
Definition replaced (C : finType) (n : nat) (x y : table C n) : nat := (\sum_(i < n) (x i != y i))%N.
Definition neighbours (C : finType) (n : nat) (g : nat) (x y : table C n) : Prop := (replaced x y <= g)%N.
Definition draws (R : realFieldType) (T : finType) (m : nat) (p : T -> R) (o : {ffun 'I_m -> T}) : R := \prod_(i < m) p (o i).
Arguments draws {R T} m p o.
Definition times (T : finType) (m : nat) (z : T) (w : {ffun 'I_m -> T}) : nat := (\sum_(i < m) (w i == z))%N.

Section Counts.
Variables (C : finType) (n : nat).
Implicit Types x y : table C n.

Lemma sum_indicator (c : C) : (\sum_d (c == d) = 1)%N.
Proof. by rewrite (bigD1 c) //= eqxx big1 // => d; rewrite eq_sym => /negbTE ->. Qed.

Lemma sum_count x : (\sum_c count_in x c = n)%N.
Proof. by rewrite exchange_big /= (eq_bigr (fun=> 1%N)) => [|i _]; [rewrite sum1_card card_ord | exact: sum_indicator]. Qed.

Lemma replacedC x y : replaced x y = replaced y x.
Proof. by apply: eq_bigr => i _; rewrite eq_sym. Qed.

(* the counts that fell fell by no more than the number of replaced records *)
Lemma sum_lost x y : (\sum_c (count_in x c - count_in y c) <= replaced x y)%N.
Proof.
have h c : (count_in x c - count_in y c <= \sum_(i < n) (x i == c) * (x i != y i))%N.
  rewrite leq_subLR /count_in -big_split /=; apply: leq_sum => i _.
  by case: (altP (x i =P c)) => [->|//]; rewrite mul1n eq_sym; case: (c == y i) => //=; rewrite eqxx.
apply: (@leq_trans (\sum_c \sum_(i < n) (x i == c) * (x i != y i))); first by apply: leq_sum => c _.
rewrite exchange_big /=; apply: leq_sum => i _.
by rewrite -big_distrl /= sum_indicator mul1n.
Qed.

(* every counts with sum n are those of a table *)
Lemma table_with_counts (N : C -> nat) : (\sum_c N c = n)%N -> exists x, forall c, count_in x c = N c.
Proof.
move=> hN; pose s := flatten [seq nseq (N c) c | c <- enum C].
have cs c : count_mem c s = N c.
  rewrite /s count_flatten -map_comp sumnE big_map big_enum /= (bigD1 c) //= count_nseq /= eqxx mul1n big1 ?addn0 // => d /negbTE nd.
  by rewrite count_nseq /= nd.
have ss : size s == n.
  by rewrite /s size_flatten /shape -map_comp sumnE big_map big_enum /= -[in X in _ == X]hN; apply/eqP; apply: eq_bigr => c _; rewrite /= size_nseq.
exists [ffun i => tnth (Tuple ss) i] => c.
rewrite /count_in (eq_bigr (fun i => nat_of_bool (tnth (Tuple ss) i == c))); last by move=> i _; rewrite ffunE.
rewrite -[RHS]cs -[s]/(tval (Tuple ss)) -sum1_count big_tuple [RHS]big_mkcond /=.
by apply: eq_bigr => i _; case: (_ == _).
Qed.

Lemma count_le x c : (count_in x c <= n)%N.
Proof. by rewrite -[X in (_ <= X)%N](sum_count x) (bigD1 c) //= leq_addr. Qed.

(* one replaced record leaves cell u and enters cell v *)
Definition moved x y (u v : C) : Prop :=
  forall c, (count_in x c + (c == v) = count_in y c + (c == u))%N.

Lemma neighbours_one x y : neighbours 1 x y -> x = y \/ exists a, x a != y a /\ forall r, r != a -> x r = y r.
Proof.
rewrite /neighbours => h; case: (pickP (fun i => x i != y i)) => [i ne|e]; last first.
  by left; apply/ffunP => i; apply/eqP; have := e i => /negbFE.
right; exists i; split=> // j ji; apply/eqP; move: h; rewrite /replaced (bigD1 i) //= ne (bigD1 j) //=.
by case: (x j == y j).
Qed.

Lemma neighbours_moved x y : neighbours 1 x y -> x = y \/ exists u v, u != v /\ moved x y u v.
Proof.
case/neighbours_one => [->|[i [ne same]]]; first by left.
right; exists (x i), (y i); split=> // c.
rewrite /count_in (bigD1 i) //= [in RHS](bigD1 i) //= (eq_bigr (fun j => nat_of_bool (y j == c))) => [|j ji]; last by rewrite same.
by rewrite addnC addnA [RHS]addnC addnA [(c == y i)]eq_sym [(c == x i)]eq_sym [(_ + (x i == c))%N in LHS]addnC.
Qed.

Lemma move_record x (u v : C) : (0 < count_in x u)%N -> exists y, neighbours 1 x y /\ moved x y u v.
Proof.
move=> h; have [i xi] : exists i, x i = u.
  case: (pickP (fun i => x i == u)) => [i /eqP <-|e]; first by exists i.
  by move: h; rewrite /count_in big1 // => i _; rewrite e.
pose y : table C n := [ffun j => if j == i then v else x j]; exists y; split.
  rewrite /neighbours /replaced (bigD1 i) //= big1 ?addn0 ?leq_b1 // => j /negbTE ji.
  by rewrite ffunE ji eqxx.
move=> c; rewrite /count_in (bigD1 i) //= [in RHS](bigD1 i) //= ffunE eqxx xi.
rewrite [in RHS](eq_bigr (fun j => nat_of_bool (x j == c))) => [|j /negbTE ji]; last by rewrite ffunE ji.
by rewrite addnAC [RHS]addnAC [(u == c)]eq_sym [(v == c)]eq_sym [((c == u) + _)%N]addnC.
Qed.
Lemma others_card (u v : C) : u != v -> #|[pred e : C | (e != u) && (e != v)]| = (#|C| - 2)%N.
Proof.
move=> uv; have := cardC (mem [:: u; v]); rewrite (card_uniqP _) /=; last by rewrite inE uv.
by move=> <-; rewrite addKn; apply: eq_card => e; rewrite !inE negb_or orbF.
Qed.
(* g + 1 replacements are g, and one more *)
Lemma one_step g x y : (replaced x y <= g.+1)%N -> exists z, neighbours g x z /\ neighbours 1 z y.
Proof.
move=> h; case: (pickP (fun i => x i != y i)) => [i ne|e]; last first.
  exists x; have -> : y = x by apply/ffunP => i; apply/esym/eqP; have := e i => /negbFE.
  by rewrite /neighbours /replaced big1 // => i _; rewrite eqxx.
pose z : table C n := [ffun j => if j == i then x i else y j]; exists z; split.
  move: h; rewrite /neighbours /replaced (bigD1 i) //= ne add1n ltnS => h.
  rewrite (bigD1 i) //= ffunE !eqxx add0n; apply: leq_trans h; apply: leq_sum => j /negbTE ji.
  by rewrite ffunE ji.
rewrite /neighbours /replaced (bigD1 i) //= big1 ?addn0 ?leq_b1 // => j /negbTE ji.
by rewrite ffunE ji eqxx.
Qed.
End Counts.

Section Draws.
Variable R : realFieldType.

(* the profile is 0 at t exactly when no outcome is more than t times as likely *)
Lemma H_le0 (T : finType) t (P Q : T -> R) : H t P Q <= 0 <-> forall o, P o <= t * Q o.
Proof.
split=> [h o|h]; last by rewrite /H big1 // => o _; rewrite pos_0 // subr_le0.
rewrite -subr_le0; apply: le_trans (pos_ge _) _; apply: le_trans h.
by rewrite /H (bigD1 o) //= ler_addl sumr_ge0 // => *; exact: pos_ge0.
Qed.

(* the largest of finitely many numbers, and 0 *)
Lemma big_max m (F : 'I_m -> R) (B := \big[Num.max/0]_(i < m) F i) :
  [/\ 0 <= B, forall i, F i <= B & B = 0 \/ exists i, B = F i].
Proof.
rewrite /B; split.
- by elim/big_rec: _ => // i z _ z0; rewrite le_maxr z0 orbT.
- move=> i; elim: (index_enum _) (mem_index_enum i) => //= a s IH.
  by rewrite big_cons inE le_maxr => /orP[/eqP ->|/IH ->]; rewrite ?lexx ?orbT.
- elim: (index_enum _) => [|a s IH]; first by rewrite big_nil; left.
  by rewrite big_cons; case: leP => _ //; right; exists a.
Qed.

Lemma draws_ext (T : finType) m (p p' : T -> R) : p =1 p' -> draws m p =1 draws m p'.
Proof. by move=> h o; apply: eq_bigr => i _; rewrite h. Qed.

Lemma push_draws (S T : finType) m (K : S -> T -> R) (p : S -> R) (o : {ffun 'I_m -> T}) :
  push (fun (s : {ffun 'I_m -> S}) (o : {ffun 'I_m -> T}) => \prod_(i < m) K (s i) (o i)) (draws m p) o = draws m (push K p) o.
Proof. by rewrite /push /draws bigA_distr_bigA /=; apply: eq_bigr => s _; rewrite -big_split. Qed.

Lemma kernel_draws (S T : finType) m (K : S -> T -> R) :
  kernel K -> kernel (fun (s : {ffun 'I_m -> S}) (o : {ffun 'I_m -> T}) => \prod_(i < m) K (s i) (o i)).
Proof.
move=> kK s; split=> [o|]; first by apply: prodr_ge0 => i _; case: (kK (s i)).
by rewrite -(bigA_distr_bigA (fun i => K (s i))) /= big1 // => i _; case: (kK (s i)).
Qed.

(* draws are independent: a kernel of one draw is applied to each *)
Lemma draws_processing (S T : finType) m (K : S -> T -> R) t (P Q : S -> R) :
  kernel K -> H t (draws m (push K P)) (draws m (push K Q)) <= H t (draws m P) (draws m Q).
Proof.
move=> kK; rewrite -(H_ext t (push_draws K P) (push_draws K Q)).
exact: data_processing (kernel_draws kK).
Qed.

Lemma draws1 (T : finType) t (P Q : T -> R) : H t (draws 1 P) (draws 1 Q) = H t P Q.
Proof.
rewrite /H (reindex (fun c => [ffun=> c] : {ffun 'I_1 -> T})) /=; last first.
  exists (fun o : {ffun 'I_1 -> T} => o ord0) => [c _|o _]; first by rewrite ffunE.
  by apply/ffunP => i; rewrite ffunE [i]ord1.
by apply: eq_bigr => c _; rewrite /draws !big_ord1 !ffunE.
Qed.
(* with probability r a draw is replaced by a uniform one *)
Definition mixed (C : finType) (r : R) (c e : C) : R := (1 - r) * (c == e)%:R + r / #|C|%:R.
Lemma mixed_kernel (C : finType) r : 0 <= r <= 1 -> kernel (@mixed C r).
Proof.
case/andP=> r0 r1 c; split=> [e|].
  by apply: addr_ge0; [apply: mulr_ge0; rewrite ?subr_ge0 ?ler0n | apply: divr_ge0; rewrite ?ler0n].
have k0 : #|C|%:R != 0 :> R by rewrite pnatr_eq0 -lt0n; apply/card_gt0P; exists c.
rewrite big_split /= sumr_const -[_ / _ *+ _]mulr_natr divfK // -mulr_sumr (bigD1 c) //= eqxx big1 ?addr0 ?mulr1 ?subrK //.
by move=> e; rewrite eq_sym => /negbTE ->.
Qed.
Lemma push_mixed (C : finType) r (p : C -> R) e : push (mixed r) p e = (1 - r) * p e + r / #|C|%:R * \sum_c p c.
Proof.
rewrite /push /mixed mulr_sumr (bigD1 e) //= [in RHS](bigD1 e) //= eqxx mulr1 mulrDr [p e * (1 - r)]mulrC -addrA [p e * _]mulrC.
congr (_ + (_ + _)); apply: eq_bigr => c /negbTE ce; by rewrite ce mulr0 add0r mulrC.
Qed.
(* the first m of more draws *)
Lemma fewer (C : finType) m m' (mm : (m <= m')%N) (p : C -> R) (o : {ffun 'I_m -> C}) : \sum_c p c = 1 ->
  push (point R (fun w : {ffun 'I_m' -> C} => [ffun i => w (widen_ord mm i)])) (draws m' p) o = draws m p o.
Proof.
move=> p1; pose seen (j : 'I_m') (c : C) : R := if insub (j : nat) is Some i then (c == o i)%:R else 1.
have e (w : {ffun 'I_m' -> C}) : draws m' p w * ([ffun i => w (widen_ord mm i)] == o)%:R = \prod_j (p (w j) * seen j (w j)).
  rewrite big_split /seen; congr (_ * _); case: eqP => [<-|ne].
    rewrite big1 // => j _; case: insubP => // i _ ij.
    by rewrite ffunE (_ : widen_ord mm i = j) ?eqxx //; apply: val_inj.
  have [i fi] : exists i, w (widen_ord mm i) != o i.
    case: (pickP (fun i => w (widen_ord mm i) != o i)) => [i h|no]; first by exists i.
    by case: ne; apply/ffunP => i; rewrite ffunE; apply/eqP; have := no i => /negbFE.
  rewrite (bigD1 (widen_ord mm i)) //=; case: insubP => [i' _ ii|]; last by rewrite /= ltn_ord.
  by rewrite (_ : i' = i) ?(negbTE fi) ?mul0r //; apply: val_inj.
rewrite /push /point (eq_bigr _ (fun w _ => e w)) -(bigA_distr_bigA (fun j c => p c * seen j c)) /=.
rewrite (eq_bigr (fun j : 'I_m' => if insub (j : nat) is Some i then p (o i) else 1)) => [|j _]; last first.
  rewrite /seen; case: insub => [i|]; last by rewrite (eq_bigr p) // => c _; rewrite mulr1.
  by rewrite (bigD1 (o i)) //= eqxx mulr1 big1 ?addr0 // => c /negbTE ->; rewrite mulr0.
rewrite (bigID (fun j : 'I_m' => j < m)%N) /= [X in _ * X]big1 ?mulr1; last by move=> j; case: insubP => // i ->.
rewrite (big_ord_narrow mm); apply: eq_bigr => i _; case: insubP => [i' _ ii|]; last by rewrite /= ltn_ord.
by congr (p (o _)); apply: val_inj.
Qed.
End Draws.
