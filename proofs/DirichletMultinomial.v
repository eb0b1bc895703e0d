(** * The Dirichlet-multinomial law and the one-dimensional sum (docs/theory/dirichlet-multinomial.md) *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions Urn T4.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(** ** Rising factorials and counts of sequences *)
Section Law.
Variable R : realFieldType.
Implicit Types (a b : R) (T : R).

(** (a)_n = a (a + d) ... (a + (n-1) d): the page's with d = 1; another d puts all on one denominator. *)
Definition rise (d a : R) (n : nat) : R := \prod_(i < n) (a + i%:R * d).
Lemma rise0 d a : rise d a 0 = 1. Proof. by rewrite /rise big_ord0. Qed.
Lemma riseS d a n : rise d a n.+1 = rise d a n * (a + n%:R * d).
Proof. by rewrite /rise big_ord_recr. Qed.
Lemma riseSl d a n : rise d a n.+1 = a * rise d (a + d) n.
Proof.
rewrite /rise big_ord_recl mul0r addr0; congr (_ * _); apply: eq_bigr => i _.
by rewrite -addrA lift0 -addn1 natrD mulrDl mul1r [d + _]addrC.
Qed.
Lemma rise_ge0 d a n : 0 <= d -> 0 <= a -> 0 <= rise d a n.
Proof. by move=> d0 a0; apply: prodr_ge0 => i _; rewrite addr_ge0 ?mulr_ge0 ?ler0n. Qed.
Lemma rise_gt0 d a n : 0 <= d -> 0 < a -> 0 < rise d a n.
Proof. by move=> d0 a0; apply: prodr_gt0 => i _; rewrite ltr_paddr ?mulr_ge0 ?ler0n. Qed.
Lemma rise_scale d a n : rise d (d * a) n = d ^+ n * rise 1 a n.
Proof.
elim: n => [|n IH]; first by rewrite !rise0 expr0 mulr1.
by rewrite !riseS IH exprS mulr1 [n%:R * d]mulrC -mulrDr mulrACA [d ^+ n * d]mulrC.
Qed.

(** How often a cell was drawn. *)
Fixpoint drawn (C : finType) (c : C) (n : nat) : Seq C n -> nat :=
  if n is n'.+1 then fun o => ((o.1 == c) + drawn c o.2)%N else fun _ => 0%N.

Lemma drawn_sum (C : finType) n (o : Seq C n) : (\sum_c drawn c o = n)%N.
Proof.
elim: n o => [|n IH] o /=; first by rewrite big1.
rewrite big_split /= IH (bigD1 o.1) //= eqxx big1 ?addn0 ?add1n // => c /negbTE.
by rewrite eq_sym => ->.
Qed.

(** The probability of a sequence depends on its counts alone (in the page's words: given the counts, every order of the
  records is equally likely). *)
Theorem every_order_is_equally_likely (C : finType) n (w : C -> R) (o : Seq C n) :
  (forall c, 0 <= w c) -> 0 < \sum_c w c ->
  urn w o = (\prod_c rise 1 (w c) (drawn c o)) / rise 1 (\sum_c w c) n.
Proof.
elim: n w o => [|n IH] w o w0 s0 /=.
  by rewrite rise0 divr1 big1 // => c _; rewrite rise0.
rewrite IH ?add_sum; [|exact: add_ge0 | by apply: ltr_paddr; rewrite ?ler01].
rewrite riseSl invfM !mulrA [w o.1 / _ * _]mulrAC; congr (_ / _ / _).
rewrite (bigD1 o.1) //= [RHS](bigD1 o.1) //= eqxx add1n riseSl {1}/add eqxx mulrA.
congr (_ * _); apply: eq_bigr => c ne.
by rewrite /add (negbTE ne) addr0 eq_sym (negbTE ne).
Qed.

(** ** The law of the counts: every domain *)
Definition counts_are (C : finType) (n : nat) (s : C -> nat) (o : Seq C n) : bool := [forall c, drawn c o == s c].

(** n! = (number of orders with counts s) * prod s_c! *)
Lemma orders (C : finType) (n : nat) (s : C -> nat) : (\sum_c s c = n)%N ->
  (#|[pred o : Seq C n | counts_are s o]| * \prod_c (s c)`! = n`!)%N.
Proof.
elim: n s => [|n IH] s sn.
  have s0 c : s c = 0%N by move/eqP: sn; rewrite sum_nat_eq0 => /forallP/(_ c)/eqP.
  rewrite big1 ?muln1 => [|c _]; last by rewrite s0.
  by rewrite (eq_card (_ : _ =i predT)) ?card_unit // => o; rewrite !inE; apply/forallP => c; rewrite s0.
pose less c x := (s x - (x == c))%N.
have card_cons : #|[pred o : Seq C n.+1 | counts_are s o]|
    = (\sum_(c | 0 < s c) #|[pred o : Seq C n | counts_are (less c) o]|)%N.
  rewrite -sum1_card big_mkcond /=.
  rewrite -(pair_bigA _ (fun c o => if ([pred o : Seq C n.+1 | counts_are s o] (c, o)) then 1 else 0)%N) /=.
  rewrite [RHS]big_mkcond /=; apply: eq_bigr => c _; rewrite -sum1_card [X in _ = if _ then X else _]big_mkcond /=.
  case: (posnP (s c)) => [sc|sc].
    rewrite big1 // => o _; case: ifP => // /forallP/(_ c) /=.
    by rewrite sc eqxx.
  apply: eq_bigr => o _; congr (if _ then _ else _); apply/forallP/forallP => h x; have /eqP := h x => /=; rewrite /less.
    by move=> <-; rewrite [c == x]eq_sym addKn.
  rewrite [c == x]eq_sym; case: (altP (x =P c)) => [->|_]; last by rewrite subn0 => ->.
  by move=> ->; rewrite subnKC.
rewrite card_cons big_distrl /= factS -sn big_distrl [RHS](bigID (fun c => 0 < s c)%N) /=.
rewrite [X in (_ + X)%N]big1 ?addn0 => [|c]; last by rewrite -eqn0Ngt => /eqP ->; rewrite mul0n.
apply: eq_bigr => c sc.
have sum_less : (\sum_x less c x = n)%N.
  apply/eqP; rewrite -(eqn_add2r 1) [X in _ == X]addn1 -sn; apply/eqP.
  rewrite (bigD1 c) //= [RHS](bigD1 c) //= /less eqxx addnAC subnK //; congr (_ + _)%N.
  by apply: eq_bigr => x /negbTE ->; rewrite subn0.
rewrite -(IH _ sum_less) mulnCA; congr (_ * _)%N.
rewrite (bigD1 c) //= [in RHS](bigD1 c) //= mulnA /less eqxx subn1; congr (_ * _)%N.
  by case: (s c) sc => // k _; rewrite factS.
by apply: eq_bigr => x /negbTE ->; rewrite subn0.
Qed.

(** DirMult(m; w)(s) = m! / prod s_c! * prod (w_c)_{s_c} / (A)_m. *)
Theorem dirichlet_multinomial_law (C : finType) m (w : C -> R) (s : C -> nat) :
  (forall c, 0 <= w c) -> 0 < \sum_c w c -> (\sum_c s c = m)%N ->
  \sum_(o : Seq C m | counts_are s o) urn w o
  = m`!%:R / (\prod_c (s c)`!%:R) * (\prod_c rise 1 (w c) (s c)) / rise 1 (\sum_c w c) m.
Proof.
move=> w0 s0 sm.
transitivity (\sum_(o : Seq C m | counts_are s o) ((\prod_c rise 1 (w c) (s c)) / rise 1 (\sum_c w c) m)).
  apply: eq_bigr => o /forallP h; rewrite every_order_is_equally_likely //; congr (_ / _).
  by apply: eq_bigr => c _; rewrite (eqP (h c)).
rewrite sumr_const -mulr_natl mulrA; congr (_ * _ / _).
rewrite -(orders sm) natrM natr_prod mulfK //.
by rewrite prodf_seq_neq0; apply/allP => c _ /=; rewrite pnatr_eq0 -lt0n fact_gt0.
Qed.
End Law.
