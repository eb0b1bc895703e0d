(** * Tables, counts and independent draws
  What T5, T7 and T13 are about.

  | here           | on the theory pages                                                        |
  |----------------|----------------------------------------------------------------------------|
  | C              | the public domain; #|C| = k is its number of cells                          |
  | table C n      | a table of n records, each in a cell                                       |
  | count_in x c   | n_c, the number of records of x in cell c                                  |
  | replaced x y   | the number of records in which x and y differ                              |
  | draws m p      | the law of m independent draws from p; *P^m* for a law P                   |
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
End Counts.

Section Draws.
Variable R : realFieldType.

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
End Draws.
