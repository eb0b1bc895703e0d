(** * Arithmetic
  The tactics [ring] and [field] of Coq for the ordered field R of these proofs. Nothing here is about privacy. In a
  section, [Add Field field_R : (field_laws R)] declares R; [to_field R] prepares a goal, and [of_field] what is left. *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Export Field.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.
Section Operations.
Variable R : realFieldType.
Definition f0 : R := 0.
Definition f1 : R := 1.
Definition fadd (x y : R) : R := x + y.
Definition fopp (x : R) : R := - x.
Definition fsub (x y : R) : R := x - y.
Definition fmul (x y : R) : R := x * y.
Definition finv (x : R) : R := x^-1.
Definition fdiv (x y : R) : R := x / y.
Definition fnat (m : nat) : R := m%:R.
Definition fexp (x : R) (m : nat) : R := x ^+ m.
Lemma field_laws : field_theory f0 f1 fadd fmul fsub fopp fdiv finv (@eq R).
Proof.
split.
  split=> //; [exact: add0r | exact: addrC | exact: addrA | exact: mul1r | exact: mulrC | exact: mulrA | exact: mulrDl | exact: subrr].
- by apply/eqP; exact: oner_neq0.
- by [].
- by move=> p /eqP ?; rewrite /fmul /finv mulVf.
Qed.
End Operations.
Ltac to_field R :=
  repeat match goal with
  | |- context [@GRing.natmul _ (GRing.one _) 0%N] => change (@GRing.natmul _ (GRing.one _) 0%N) with (@f0 R)
  | |- context [@GRing.natmul _ (GRing.one _) 1%N] => change (@GRing.natmul _ (GRing.one _) 1%N) with (@f1 R)
  | |- context [@GRing.natmul _ (GRing.one _) 2%N] => change (@GRing.natmul _ (GRing.one _) 2%N) with (fadd (@f1 R) (@f1 R))
  | |- context [@GRing.natmul _ (GRing.one _) ?m] => change (@GRing.natmul _ (GRing.one _) m) with (@fnat R m)
  | |- context [@GRing.exp _ ?x ?m] => change (@GRing.exp _ x m) with (@fexp R x m)
  | |- context [@GRing.add _ ?x ?y] => change (@GRing.add _ x y) with (@fadd R x y)
  | |- context [@GRing.opp _ ?x] => change (@GRing.opp _ x) with (@fopp R x)
  | |- context [@GRing.zero _] => change (@GRing.zero _) with (@f0 R)
  | |- context [@GRing.mul _ ?x ?y] => change (@GRing.mul _ x y) with (@fmul R x y)
  | |- context [@GRing.one _] => change (@GRing.one _) with (@f1 R)
  | |- context [@GRing.inv _ ?x] => change (@GRing.inv _ x) with (@finv R x)
  end;
  match goal with |- @eq _ ?a ?b => change (@eq (Num.RealField.sort R) a b) end.
Ltac of_field := rewrite /fnat /fexp /f0 /f1 /fadd /fopp /fsub /fmul /finv /fdiv.

Section Order.
Variable R : realFieldType.
Implicit Types x y z : R.
Lemma ler_left z x y : 0 <= z -> x <= y -> z * x <= z * y. Proof. by move=> z0 xy; exact: ler_wpmul2l. Qed.
Lemma ler_right z x y : 0 <= z -> x <= y -> x * z <= y * z. Proof. by move=> z0 xy; exact: ler_wpmul2r. Qed.
Lemma natS m : m.+1%:R = m%:R + 1 :> R. Proof. by rewrite -addn1 natrD. Qed.
End Order.
