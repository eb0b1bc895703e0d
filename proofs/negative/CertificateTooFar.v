(** Wrong: a stated delta that is more than 1.01 times the exact one, in its sixteenth digit.
    fails with: has type "true = true" while it is expected to have type "is_true (check wrong_case)" *)
From mathcomp Require Import all_ssreflect.
From Coq Require Import ZArith.
From Discreet Require Import CertificateCheck.
Open Scope Z_scope.

Definition wrong_case : certificate :=
  Certificate 5 1000 100%nat 1 5 5 25 (1, 1) (8530944865689252, 1000000000000000000000000).
  (* right:   Certificate 5 1000 100%nat 1 5 5 25 (1, 1) (8530944865689251, 1000000000000000000000000). *)
Theorem wrong_case_certified : certifies wrong_case.
Proof. apply: check_is_sound; vm_cast_no_check (erefl true). Qed.
