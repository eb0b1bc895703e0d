(** * The Dirichlet-multinomial law (docs/theory/dirichlet-multinomial.md, and Lemmas 3 and 6 of sampling-is-noise.md)

  In the pages' words: "The counts of the draws follow the Dirichlet-multinomial law, with (a)_s = a (a+1) ... (a+s-1),
  DirMult(m; w)(s) = m! / (prod s_c!) * (prod (w_c)_(s_c)) / (A)_m. Given the counts, every order of the records is equally
  likely. The loss at an outcome with counts S_l, S_t in the first two cells is log (a+S_l)/a - log (b+S_t)/b." Then the
  divergence of T4's pair is a finite sum over the counts (divergence_of_counts), and Lemma 6's martingale gives it in one
  step per draw (one_more_draw, divergence_from_recursion).

  | here               | on the pages                                                                                   |
  |--------------------|------------------------------------------------------------------------------------------------|
  | rise 1 a s         | (a)_s; [rise d a s] has steps of d, so that all may be put on a common denominator             |
  | drawn c o          | how often the cell c was drawn in the sequence o                                               |
  | counts_are s o     | o has the counts s                                                                             |
  | row m G            | the sum of C(m, k) G(k) over k from 0 to m                                                     |
  | p / q              | e^epsilon                                                                                      |
  | loss, base, gap    | g_u(s), w_u(s) and their product, not normalised                                               |
  | conditional u      | delta_u, not normalised                                                                        | *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions Arithmetic DataProcessing Urn T4.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Ltac ring_in R := to_field R; ring.

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

(** ** The divergence of the worst pair as a sum over counts *)
Section Sum.
Variable R : realFieldType.
Add Field field_R : (field_laws R).

(** The sum of G over a binomial row, and Pascal's rule. *)
Definition row (m : nat) (G : nat -> R) : R := \sum_(k < m.+1) 'C(m, k)%:R * G k.
Lemma row0 G : row 0 G = G 0%N. Proof. by rewrite /row big_ord1 mul1r. Qed.
Lemma eq_row m G G' : (forall k, (k <= m)%N -> G k = G' k) -> row m G = row m G'.
Proof. by move=> h; apply: eq_bigr => k _; rewrite h // -ltnS. Qed.
Lemma rowD m G G' : row m (fun k => G k + G' k) = row m G + row m G'.
Proof. by rewrite /row -big_split; apply: eq_bigr => k _; rewrite mulrDr. Qed.
Lemma rowM m c G : row m (fun k => c * G k) = c * row m G.
Proof. by rewrite /row mulr_sumr; apply: eq_bigr => k _; rewrite mulrCA. Qed.
Lemma rowS m G : row m.+1 G = row m (fun k => G k + G k.+1).
Proof.
rewrite rowD {1}/row big_ord_recl bin0 mul1r.
rewrite (eq_bigr (fun k : 'I_m.+1 => 'C(m, k.+1)%:R * G k.+1 + 'C(m, k)%:R * G k.+1)); last first.
  by move=> k _; rewrite lift0 binS natrD mulrDl.
rewrite big_split /= addrA; congr (_ + _).
rewrite [in LHS]big_ord_recr /= bin_small // mul0r addr0 /row big_ord_recl bin0 mul1r; congr (_ + _).
Qed.
Lemma row_rev m G : row m (fun k => G (m - k)%N) = row m G.
Proof.
rewrite /row (reindex_inj rev_ord_inj) /=; apply: eq_bigr => k _; rewrite subSS.
by rewrite bin_sub ?subKn // -ltnS.
Qed.

Lemma big_three (V : Type) (idx : V) (op : Monoid.com_law idx) (F : option bool -> V) :
  \big[op/idx]_c F c = op (F (Some true)) (op (F (Some false)) (F None)).
Proof.
rewrite (bigD1 (Some true)) //= (bigD1 (Some false)) //= (bigD1 None) //= big1 ?Monoid.mulm1 //.
by case=> [[]|].
Qed.

(** A sum over sequences of draws from three cells is a sum over the counts of the first two. *)
Lemma sum_three_cells m (F : nat -> nat -> R) :
  \sum_(o : Seq [finType of option bool] m) F (drawn (Some true) o) (drawn (Some false) o)
  = row m (fun u => row u (fun s => F s (u - s)%N)).
Proof.
elim: m F => [|m IH] F; first by rewrite !row0 /= (bigD1 tt) //= big1 ?addr0 // => -[].
rewrite /= -(pair_bigA _ (fun c o => F ((c == Some true) + drawn (Some true) o)%N ((c == Some false) + drawn (Some false) o)%N)) /=.
rewrite big_three /= (IH (fun s t => F (1 + s)%N (0 + t)%N)) (IH (fun s t => F (0 + s)%N (1 + t)%N)) (IH F) rowS.
rewrite -!rowD; apply: eq_row => u _; rewrite addrA [RHS]addrC; congr (_ + _); rewrite rowS rowD [LHS]addrC; congr (_ + _).
by apply: eq_row => s su; rewrite !add0n add1n subSn.
Qed.

Variables (a b rest : R).
Hypotheses (a0 : 0 < a) (b0 : 0 < b) (rest0 : 0 <= rest).
Let A := a + b + 1 + rest.

Lemma urn3 (x y z : R) m (o : Seq [finType of option bool] m) : 0 < x -> 0 < y -> 0 <= z ->
  urn (fun d => match d with Some true => x | Some false => y | None => z end) o
  = rise 1 x (drawn (Some true) o) * rise 1 y (drawn (Some false) o)
    * rise 1 z (m - (drawn (Some true) o + drawn (Some false) o)) / rise 1 (x + y + z) m.
Proof.
move=> x0 y0 z0.
rewrite every_order_is_equally_likely ?big_three /=; last by rewrite ltr_paddr // addr_ge0 // ltW.
  have -> : drawn None o = (m - (drawn (Some true) o + drawn (Some false) o))%N.
    by have := drawn_sum o; rewrite big_three /= addnA => /(canRL (addKn _)).
  by rewrite !mulrA !addrA.
by move=> [[]|] //; exact: ltW.
Qed.

(** The loss at an outcome: P(o)/Q(o) = (a + S_l)/a * b/(b + S_t). *)
Theorem loss_of_outcome m (o : Seq [finType of option bool] m) :
  urn (P3 a b rest) o * (a * (b + (drawn (Some false) o)%:R)) = urn (Q3 a b rest) o * ((a + (drawn (Some true) o)%:R) * b).
Proof.
have a1 : 0 < a + 1 by rewrite addr_gt0 ?ltr01.
have b1 : 0 < b + 1 by rewrite addr_gt0 ?ltr01.
rewrite (urn3 o a1 b0 rest0) (urn3 o a0 b1 rest0) [a + 1 + b]addrAC [a + (b + 1)]addrA.
set s := drawn (Some true) o; set k := drawn (Some false) o.
have ea : a * rise 1 (a + 1) s = rise 1 a s * (a + s%:R) by rewrite -riseSl riseS mulr1.
have eb : b * rise 1 (b + 1) k = rise 1 b k * (b + k%:R) by rewrite -riseSl riseS mulr1.
move: ea eb; move: (rise 1 (a + 1) s) (rise 1 a s) (rise 1 (b + 1) k) (rise 1 b k) (rise 1 rest _) (_^-1).
move: (s%:R : R) (k%:R : R) => s' k' x1 x y1 y v w ea eb.
transitivity (v * w * (a * x1) * (y * (b + k'))); first by ring_in R.
by rewrite ea -eb; ring_in R.
Qed.

(** H(P||Q) as the sum over u = S_l + S_t and s = S_l of the two laws of the counts, with m!/(s! (u-s)! (m-u)!) the product
  of two binomials. *)
Theorem divergence_of_counts m (T : R) :
  pair3 a b rest m T
  = \sum_(u < m.+1) \sum_(s < u.+1) ('C(m, u) * 'C(u, s))%:R
    * pos (rise 1 (a + 1) s * rise 1 b (u - s) * rise 1 rest (m - u) / rise 1 A m
           - T * (rise 1 a s * rise 1 (b + 1) (u - s) * rise 1 rest (m - u) / rise 1 A m)).
Proof.
pose F s t := pos (rise 1 (a + 1) s * rise 1 b t * rise 1 rest (m - (s + t)) / rise 1 A m
           - T * (rise 1 a s * rise 1 (b + 1) t * rise 1 rest (m - (s + t)) / rise 1 A m)).
transitivity (\sum_(o : Seq [finType of option bool] m) F (drawn (Some true) o) (drawn (Some false) o)).
  apply: eq_bigr => o _; rewrite /F /A (urn3 _ (_ : 0 < a + 1) b0 rest0) ?addr_gt0 ?ltr01 //.
  rewrite (urn3 _ a0 (_ : 0 < b + 1) rest0) ?addr_gt0 ?ltr01 //.
  by rewrite [a + 1 + b]addrAC [a + (b + 1)]addrA.
rewrite (sum_three_cells m F); apply: eq_bigr => u _; rewrite /row mulr_sumr; apply: eq_bigr => s _.
by rewrite natrM mulrA /F subnKC // -ltnS.
Qed.
End Sum.

(** ** The martingale: one more draw of the two cells *)
Section Recursion.
Variable R : realFieldType.
Add Field field_R2 : (field_laws R).

Lemma pos_crossing (x y : R) : x <= 0 -> pos x + pos y = pos (x + y) + Num.min (- x) (pos y).
Proof.
move=> x0; rewrite (pos_0 x0) add0r; case: (leP 0 y) => y0; last first.
  rewrite (pos_0 (ltW y0)) pos_0 ?add0r; last by rewrite ler_naddr // ltW.
  by apply/esym/min_idPr; rewrite oppr_ge0.
rewrite pos_id //; case: (leP (- x) y) => xy.
  have s0 : 0 <= x + y by rewrite -ler_subl_addl sub0r.
  by rewrite (pos_id s0) addrC addKr.
have s0 : x + y <= 0 by rewrite -ler_subr_addl sub0r ltW.
by rewrite (pos_0 s0) add0r.
Qed.

Variables (d a b p q : R).
Hypotheses (d0 : 0 < d) (a0 : 0 < a) (b0 : 0 < b) (p0 : 0 <= p) (q0 : 0 <= q).

(** With p/q in the place of e^epsilon; f is a b q times the unnormalised difference P - (p/q) Q at counts (s, u - s). *)
Definition loss (u s : nat) : R := q * b * (a + s%:R * d) - p * a * (b + (u - s)%:R * d).
Definition base (u s : nat) : R := rise d a s * rise d b (u - s).
Definition gap (u s : nat) : R := base u s * loss u s.
Definition conditional (u : nat) : R := row u (fun s => pos (gap u s)).

Lemma base_ge0 u s : 0 <= base u s. Proof. by rewrite mulr_ge0 // ltW // rise_gt0 // ltW. Qed.
Lemma loss_up u s s' : (s <= s')%N -> loss u s <= loss u s'.
Proof.
move=> le; rewrite /loss; apply: ler_sub.
  apply: ler_wpmul2l; first by rewrite mulr_ge0 // ltW.
  by rewrite ler_add2l; apply: ler_wpmul2r; [exact: ltW | rewrite ler_nat].
apply: ler_wpmul2l; first by rewrite mulr_ge0 // ltW.
by rewrite ler_add2l; apply: ler_wpmul2r; [exact: ltW | rewrite ler_nat leq_sub2l].
Qed.
Lemma gap_le0 u s : loss u s <= 0 -> gap u s <= 0.
Proof. by move=> l0; rewrite /gap mulr_ge0_le0 // base_ge0. Qed.
Lemma gap_ge0 u s : 0 <= loss u s -> 0 <= gap u s.
Proof. by move=> l0; rewrite /gap mulr_ge0 // base_ge0. Qed.

(** The martingale property. *)
Lemma martingale u s : (s <= u)%N -> gap u.+1 s + gap u.+1 s.+1 = (a + b + d + u%:R * d) * gap u s.
Proof.
move=> su; rewrite /gap /base /loss -(subnKC su); move: (u - s)%N => k {su}.
rewrite subSS -addnS !addKn !riseS natrD -[s.+1]addn1 -[k.+1]addn1 !natrD.
move: (s%:R : R) (k%:R : R) (rise d a s) (rise d b k) => s' t x y.
change (1%:R : R) with (1 : R); ring_in R.
Qed.

(** Lemma 6: what one more draw adds comes from the one place where the sign changes. *)
Theorem one_more_draw u s : (s <= u)%N -> loss u.+1 s <= 0 -> s = u \/ 0 <= loss u.+1 s.+1 ->
  conditional u.+1 = (a + b + d + u%:R * d) * conditional u
    + 'C(u, s)%:R * Num.min (- gap u.+1 s) (pos (gap u.+1 s.+1)).
Proof.
move=> su ls up; rewrite /conditional rowS -rowM.
have keep k : (k <= u)%N -> k != s ->
    pos (gap u.+1 k) + pos (gap u.+1 k.+1) = (a + b + d + u%:R * d) * pos (gap u k).
  have c0 : 0 <= a + b + d + u%:R * d by rewrite !addr_ge0 ?mulr_ge0 ?ler0n // ltW.
  move=> ku; rewrite -posM // -martingale // neq_ltn => /orP[lt|lt].
    rewrite !pos_0 ?addr0 //; [|apply: gap_le0|apply: gap_le0]; rewrite ?(le_trans (loss_up _ _) ls) // 1?ltnW //.
    by rewrite -[0]addr0 ler_add // gap_le0 // (le_trans (loss_up _ _) ls) // ltnW.
  case: up => [e|up]; first by move: (leq_trans lt ku); rewrite e ltnn.
  rewrite !pos_id ?addr_ge0 ?gap_ge0 // (le_trans up) // loss_up // ltnW // ltnS.
have c0 : 0 <= a + b + d + u%:R * d by rewrite !addr_ge0 ?mulr_ge0 ?ler0n // ltW.
pose S : 'I_u.+1 := Ordinal (su : s < u.+1)%N.
rewrite /row (bigD1 S) //= [in RHS](bigD1 S) //= pos_crossing ?gap_le0 // martingale // posM // mulrDr.
rewrite [RHS]addrAC; congr (_ + _); apply: eq_bigr => k ne; rewrite keep //; first by rewrite -ltnS.
Qed.
End Recursion.

(** ** The divergence from the recursion *)
Section FromRecursion.
Variable R : realFieldType.
Add Field field_R3 : (field_laws R).

(** The divergence from the recursion; masses may be put on a common denominator d. *)
Theorem divergence_from_recursion (d a b rest p q : R) m :
  0 < d -> 0 < a -> 0 < b -> 0 <= rest -> 0 < q ->
  q * (d * a) * (d * b) * rise d (d * (a + b + 1 + rest)) m * pair3 a b rest m (p / q)
  = row m (fun u => rise d (d * rest) (m - u) * conditional d (d * a) (d * b) p q u).
Proof.
move=> d0 a0 b0 r0 q0; rewrite divergence_of_counts // mulr_sumr /row; apply: eq_bigr => u _.
rewrite /conditional /row !mulr_sumr; apply: eq_bigr => s _.
set K := _ * rise d _ m; set X := _ - _ * _.
have A0 : 0 < a + b + 1 + rest by rewrite ltr_paddr // !addr_gt0 ?ltr01.
have K0 : 0 <= K by rewrite !mulr_ge0 ?(ltW q0) ?(ltW d0) ?(ltW a0) ?(ltW b0) // rise_ge0 ?mulr_ge0 // ltW.
have key : K * X = rise d (d * rest) (m - u) * gap d (d * a) (d * b) p q u s.
  rewrite /K /X /gap /base /loss !rise_scale.
  have -> : d ^+ m = d ^+ s * d ^+ (u - s) * d ^+ (m - u).
    by rewrite -!exprD !subnKC // -ltnS ltn_ord.
  have ea : a * rise 1 (a + 1) s = rise 1 a s * (a + s%:R) by rewrite -riseSl riseS mulr1.
  have eb : b * rise 1 (b + 1) (u - s) = rise 1 b (u - s) * (b + (u - s)%:R) by rewrite -riseSl riseS mulr1.
  have Am : rise 1 (a + b + 1 + rest) m * (rise 1 (a + b + 1 + rest) m)^-1 = 1.
    by rewrite divff // lt0r_neq0 // rise_gt0 ?ler01.
  have qi : q * q^-1 = 1 by rewrite divff // lt0r_neq0.
  move: ea eb Am qi; move: (rise 1 (a + 1) s) (rise 1 a s) (rise 1 (b + 1) (u - s)) (rise 1 b (u - s)) => x1 x y1 y.
  move: (rise 1 rest (m - u)) (rise 1 (a + b + 1 + rest) m) (_^-1) (q^-1) => z M N qi.
  move: (s%:R : R) (_%:R : R) (d ^+ s) (d ^+ (u - s)) (d ^+ (m - u)) => s' t' ds dt dr ea eb MN qq.
  transitivity (d * d * (ds * dt * dr) * z * (M * N) * (q * (a * x1) * (b * y) - p * (q * qi) * (a * x) * (b * y1))).
    ring_in R.
  rewrite MN qq ea eb; ring_in R.
rewrite mulrCA -[K * pos X]posM // key posM; last by rewrite rise_ge0 ?mulr_ge0 // ltW.
by rewrite natrM; ring_in R.
Qed.
End FromRecursion.
