(** Wrong: the total mass of the two cells after u draws is a + b + u, without the record of the table in one of them.
    fails with: not a valid ring equation *)
From mathcomp Require Import all_ssreflect all_algebra.
From Discreet Require Import Definitions Arithmetic Urn T4 DirichletMultinomial.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Wrong.
Variables (R : realFieldType) (d a b p q : R).
Add Field field_R : (field_laws R).
Lemma one_step u s : (s <= u)%N ->
  gap d a b p q u.+1 s + gap d a b p q u.+1 s.+1 = (a + b + u%:R * d) * gap d a b p q u s.
  (* right:   gap d a b p q u.+1 s + gap d a b p q u.+1 s.+1 = (a + b + d + u%:R * d) * gap d a b p q u s. *)
Proof.
move=> su; rewrite /gap /base /loss -(subnKC su); move: (u - s)%N => k {su}.
rewrite subSS -addnS !addKn !riseS natrD -[s.+1]addn1 -[k.+1]addn1 !natrD.
move: (s%:R : R) (k%:R : R) (rise d a s) (rise d b k) => s' t x y.
change (1%:R : R) with (1 : R); ring_in R.
Qed.
End Wrong.
