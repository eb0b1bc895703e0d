(** * Pure epsilon of the Dirichlet-multinomial release (docs/theory/dirichlet-multinomial.md, "Pure epsilon")

  In the page's words: "The mechanism is epsilon-differentially private exactly when
  epsilon >= log(1 + m / alpha_min)." It holds for every domain of two cells or more and every n >= 1.

  | here                                | on the page                                              |
  |-------------------------------------|----------------------------------------------------------|
  | t                                   | e^epsilon                                                |
  | bounds (replaced n) (release ..) t 0 | the mechanism is epsilon-differentially private          |
  | least alpha l i                     | alpha_l is alpha_min                                     |
  | all_in l m                          | m draws of the cell l: the outcome of the largest loss   | *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions Arithmetic DataProcessing Urn T4 DirichletMultinomial.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Pure.
Variable R : realFieldType.
Add Field field_R : (field_laws R).

Fixpoint all_in (C : finType) (l : C) (m : nat) : Seq C m := if m is m'.+1 then (l, all_in l m') else tt.
Lemma urn_all_in (C : finType) (w : C -> R) l m : urn w (all_in l m) = rise 1 (w l) m / rise 1 (\sum_c w c) m.
Proof.
elim: m w => [|m IH] w /=; first by rewrite !rise0 divr1.
by rewrite IH add_sum {1}/add eqxx !riseSl invfM mulrACA.
Qed.
Lemma H_outcome (T : finType) (t : R) (P Q : T -> R) o : P o - t * Q o <= H t P Q.
Proof. by rewrite /H (bigD1 o) //=; apply: ler_paddr (pos_ge _); apply: sumr_ge0 => *; exact: pos_ge0. Qed.

(** Where no loss exceeds epsilon, the divergence is 0. *)
Lemma no_divergence (a b rest t : R) m : 0 < a -> 0 < b -> 0 <= rest -> 1 + m%:R / a <= t -> pair3 a b rest m t = 0.
Proof.
move=> a0 b0 r0 ht.
have t0 : 0 <= t by apply: le_trans ht; rewrite addr_ge0 ?ler01 // divr_ge0 ?ler0n // ltW.
have unit0 : a * b * rise 1 (a + b + 1 + rest) m != 0.
  by rewrite !mulf_neq0 ?lt0r_neq0 // rise_gt0 ?ler01 // ltr_paddr // !addr_gt0 ?ltr01.
apply: (mulfI unit0); rewrite mulr0; have := divergence_from_recursion t m ltr01 a0 b0 r0 ltr01.
rewrite !mul1r divr1 => ->; rewrite /row big1 // => u _; rewrite /conditional /row big1 ?mulr0 // => s _.
rewrite pos_0 ?mulr0 //; apply: gap_le0 => //; rewrite /loss !mulr1 mul1r subr_le0.
have sm : (s <= m)%N by apply: leq_trans (_ : u <= m)%N; rewrite -ltnS.
have at_least : b * (a + s%:R) <= t * a * b.
  rewrite mulrC ler_pmul2r //; apply: le_trans (_ : (1 + m%:R / a) * a <= _); last by rewrite ler_pmul2r.
  by rewrite mulrDl mul1r divfK ?lt0r_neq0 // ler_add2l ler_nat.
apply: le_trans at_least _; apply: ler_wpmul2l; first by rewrite mulr_ge0 // ltW.
by rewrite ler_addl ler0n.
Qed.

Theorem pure_epsilon (C : finType) (alpha : C -> R) (l i : C) (n m : nat) (t : R) :
  (forall c, 0 < alpha c) -> least alpha l i -> (0 < n)%N ->
  bounds (replaced n) (fun x : table C n => release alpha m x) t 0 <-> 1 + m%:R / alpha l <= t.
Proof.
move=> al0 lst n0; have [li [ll lb]] := lst; split=> [bound|ht]; last first.
  have rest0 : 0 <= others alpha n l i.
    have h : 0 <= \sum_c alpha c - alpha l - alpha i.
      rewrite (bigD1 l) //= (bigD1 i) 1?eq_sym //= [alpha l + _]addrC addrK [alpha i + _]addrC addrK.
      by apply: sumr_ge0 => c _; exact: ltW.
    have n1 : 0 <= n%:R - 1 :> R by rewrite subr_ge0 ler1n.
    have -> : others alpha n l i = (n%:R - 1) + (\sum_c alpha c - alpha l - alpha i) by rewrite /others; ring_in R.
    exact: addr_ge0.
  move=> x y xy; apply: le_trans (T4_bound m al0 lst t xy) _.
  rewrite /worst -pair3_swap !no_divergence ?maxxx //; apply: le_trans ht; rewrite ler_add2l.
  by apply: ler_wpmul2l; rewrite ?ler0n // lef_pinv ?posrE //; apply: lb; rewrite eq_sym.
(* x: one record in l and the others in i; y: all in i *)
pose N c : nat := (n.-1 * (c == i))%N.
have total j : (\sum_c (N c + (c == j)) = n)%N.
  rewrite big_split /= /N (bigD1 i) //= eqxx muln1 big1 => [|c /negbTE ->]; last by rewrite muln0.
  by rewrite addn0 (bigD1 j) //= eqxx big1 ?addn0 ?addn1 ?prednK // => c /negbTE ->.
pose x : table C n := exist _ _ (total l); pose y : table C n := exist _ _ (total i).
have xy : replaced n x y by exists N, l, i.
have sums (z : table C n) : \sum_c masses alpha z c = \sum_c alpha c + n%:R by rewrite big_split /= table_sum.
have Nl : N l = 0%N by rewrite /N (negbTE li) muln0.
have := le_trans (H_outcome t (release alpha m x) (release alpha m y) (all_in l m)) (bound _ _ xy).
rewrite /release !urn_all_in !sums /masses /= Nl eqxx (negbTE li) !add0n addr0 mulrA -mulrBl.
have A0 : 0 < rise 1 (\sum_c alpha c + n%:R) m.
  by apply: rise_gt0; rewrite ?ler01 // ltr_paddl ?ltr0n // sumr_ge0 // => c _; exact: ltW.
rewrite pmulr_lle0 ?invr_gt0 // subr_le0.
have e : alpha l * rise 1 (alpha l + 1) m = rise 1 (alpha l) m * (alpha l + m%:R) by rewrite -riseSl riseS mulr1.
have r0 : 0 < rise 1 (alpha l) m by rewrite rise_gt0 ?ler01.
rewrite -(ler_pmul2l (al0 l)) e mulrCA [X in _ <= t * X]mulrC mulrCA ler_pmul2l // => h.
rewrite -(ler_pmul2r (al0 l)) mulrDl mul1r divfK ?lt0r_neq0 //.
Qed.
End Pure.
