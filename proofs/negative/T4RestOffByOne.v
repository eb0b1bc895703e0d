(** Wrong: the mass of all other cells is n + sum alpha - a - b, without the moved record taken off (R = A - a - b).
    fails with: Cannot apply view addrK *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions DataProcessing Urn T4.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Wrong.
Variables (R : realFieldType) (C : finType) (alpha : C -> R) (l t : C) (n m : nat).
Hypotheses (al0 : forall c, 0 < alpha c) (lst : least alpha l t).
Definition others_of : R :=
  n%:R + \sum_c alpha c - alpha l - alpha t.
  (* right:   n%:R + \sum_c alpha c - alpha l - alpha t - 1. *)
Theorem bound (T : R) : bounds (replaced n) (fun x : table C n => release alpha m x) T (worst (alpha l) (alpha t) others_of m T).
Proof.
move=> x y [N [i [j [ij [hx hy]]]]].
pose w c : R := alpha c + (N c)%:R.
have w0 c : 0 <= w c by rewrite addr_ge0 ?ler0n ?ltW.
have ex : masses alpha x =1 add w i by move=> c; rewrite /masses hx natrD addrA.
have ey : masses alpha y =1 add w j by move=> c; rewrite /masses hy natrD addrA.
rewrite /release (H_ext T (fun o => urn_ext o ex) (fun o => urn_ext o ey)).
have es : \sum_c w c - alpha l - alpha t = others_of.
  have s1 : \sum_c w c + 1 = n%:R + \sum_c alpha c.
    by rewrite -(add_sum w i) -(eq_bigr _ (fun c _ => ex c)) big_split /= table_sum; exact: addrC.
  rewrite /others_of -s1 [_ + 1 - alpha l]addrAC [_ + 1 - alpha t]addrAC.
  exact/esym/addrK.
have ge c : alpha c <= w c by rewrite ler_addl ler0n.
case: lst => lt [la lb].
have alt : (alpha l <= alpha i /\ alpha t <= alpha j) \/ (alpha t <= alpha i /\ alpha l <= alpha j).
  case: (altP (i =P l)) => [il|il]; last by right; split; [exact: lb | exact: la].
  by left; split; [exact: la | apply: lb; rewrite -il eq_sym].
rewrite /worst le_maxr; apply/orP; case: alt => -[h1 h2]; [left | right].
  by rewrite -es; apply: T4_pair => //; [exact: le_trans h1 (ge i) | exact: le_trans h2 (ge j)].
rewrite -pair3_swap -es addrAC.
by apply: T4_pair => //; [exact: le_trans h1 (ge i) | exact: le_trans h2 (ge j)].
Qed.
End Wrong.
