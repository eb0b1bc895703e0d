(** Wrong: theta + n + m - 1 without the - 1.
    fails with: Attempt to save an incomplete proof *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions DataProcessing Records T1.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Wrong.
Variables (R : realFieldType) (theta : R) (n m : nat).
Hypotheses (theta0 : 0 < theta) (n1 : (1 <= n)%N).
Lemma one_record : delta_g theta n m 1 =
  m%:R / (theta + n%:R + m%:R).
  (* right:   m%:R / (theta + n%:R + m%:R - 1). *)
Proof.
rewrite T1_telescoped // big_ord1 !addr0.
have d0 : theta + n%:R + m%:R - 1 != 0.
  rewrite addrAC; apply: lt0r_neq0; apply: ltr_paddr; first exact: ler0n.
  by rewrite -addrA; apply: ltr_paddr => //; rewrite subr_ge0 ler1n.
rewrite -[X in X - _](divff d0) -mulrBl; congr (_ / _).
by rewrite opprB addrA subrK [X in X - _ = _]addrC addrK.
Qed.
End Wrong.
