(** * Certificates whose number is checked

  Each theorem says of one release of the Dirichlet-multinomial mechanism: the delta that the library states for it is
  no less than the exact one, and at most one per cent more (CertificateCheck.v says what [certifies] means). The
  numbers are the library's own: [python proofs/certificates.py] wrote this file, and a test compares it with what the
  library states.

  In this order: cells, records, size, unit of the masses, smallest prior mass, second smallest, total prior mass (in
  units), epsilon, stated delta. *)
From mathcomp Require Import all_ssreflect.
From Coq Require Import ZArith.
From Discreet Require Import CertificateCheck.
Open Scope Z_scope.

(** 5 cells, 1,000 records, 100 released, prior 5 per cell: delta 8.446480065137081e-09 at epsilon 1. *)
Definition five_labels : certificate :=
  Certificate 5 1000 100%nat 1 5 5 25 (1, 1) (8446480065137081, 1000000000000000000000000).
Theorem five_labels_certified : certifies five_labels.
Proof. apply: check_is_sound; vm_cast_no_check (erefl true). Qed.

(** 5 cells, 1,000 records, 100 released, prior 5 per cell: delta 0.00034701991527310146 at epsilon 1/2. *)
Definition five_labels_half : certificate :=
  Certificate 5 1000 100%nat 1 5 5 25 (1, 2) (17350995763655073, 50000000000000000000).
Theorem five_labels_half_certified : certifies five_labels_half.
Proof. apply: check_is_sound; vm_cast_no_check (erefl true). Qed.

(** 7 cells, 1,000 records, 120 released, prior 2.5 per cell: delta 0.0011535251608505387 at epsilon 7/10. *)
Definition seven_labels : certificate :=
  Certificate 7 1000 120%nat 2 5 5 35 (7, 10) (11535251608505387, 10000000000000000000).
Theorem seven_labels_certified : certifies seven_labels.
Proof. apply: check_is_sound; vm_cast_no_check (erefl true). Qed.

(** 6 cells, 1,500 records, 120 released, prior 4 per cell: delta 5.006982287826318e-10 at epsilon 2. *)
Definition unequal_labels : certificate :=
  Certificate 6 1500 120%nat 7 8 16 168 (2, 1) (2503491143913159, 5000000000000000000000000).
Theorem unequal_labels_certified : certifies unequal_labels.
Proof. apply: check_is_sound; vm_cast_no_check (erefl true). Qed.

(** 20 cells, 3,000 records, 150 released, prior 0.25 per cell: delta 1.9411833516738056e-08 at epsilon 3. *)
Definition twenty_labels : certificate :=
  Certificate 20 3000 150%nat 4 1 1 20 (3, 1) (2426479189592257, 125000000000000000000000).
Theorem twenty_labels_certified : certifies twenty_labels.
Proof. apply: check_is_sound; vm_cast_no_check (erefl true). Qed.

(** 12 cells, 1,000 records, 100 released, prior 0.1 per cell: delta 7.142930929736282e-08 at epsilon 4. *)
Definition prior_of_a_tenth : certificate :=
  Certificate 12 1000 100%nat 524288 52429 52429 629148 (4, 1) (3571465464868141, 50000000000000000000000).
Theorem prior_of_a_tenth_certified : certifies prior_of_a_tenth.
Proof. apply: check_is_sound; vm_cast_no_check (erefl true). Qed.

(** 8 cells, 2,000 records, 100 released, prior 0.0625 per cell: delta 0.04749030717591173 at epsilon 0. *)
Definition epsilon_zero : certificate :=
  Certificate 8 2000 100%nat 16 1 1 8 (0, 1) (4749030717591173, 100000000000000000).
Theorem epsilon_zero_certified : certifies epsilon_zero.
Proof. apply: check_is_sound; vm_cast_no_check (erefl true). Qed.

(** 100 cells, 10,000 records, 200 released, prior 2 per cell: delta 1.8119545656471124e-07 at epsilon 1. *)
Definition ages : certificate :=
  Certificate 100 10000 200%nat 1 2 2 200 (1, 1) (4529886414117781, 25000000000000000000000).
Theorem ages_certified : certifies ages.
Proof. apply: check_is_sound; vm_cast_no_check (erefl true). Qed.

(** 72 cells, 5,000 records, 150 released, prior 1 per cell: delta 8.508570065165219e-12 at epsilon 2. *)
Definition people : certificate :=
  Certificate 72 5000 150%nat 1 1 1 72 (2, 1) (8508570065165219, 1000000000000000000000000000).
Theorem people_certified : certifies people.
Proof. apply: check_is_sound; vm_cast_no_check (erefl true). Qed.

(** 72 cells, 5,000 records, 150 released, prior 10 per cell: delta 2.5273710586591976e-09 at epsilon 1/2. *)
Definition people_half : certificate :=
  Certificate 72 5000 150%nat 1 10 10 720 (1, 2) (3159213823323997, 1250000000000000000000000).
Theorem people_half_certified : certifies people_half.
Proof. apply: check_is_sound; vm_cast_no_check (erefl true). Qed.

(** 18 cells, 2,000 records, 150 released, prior 3 per cell: delta 0.00018654363687772147 at epsilon 1. *)
Definition homes : certificate :=
  Certificate 18 2000 150%nat 2 3 3 108 (1, 1) (18654363687772147, 100000000000000000000).
Theorem homes_certified : certifies homes.
Proof. apply: check_is_sound; vm_cast_no_check (erefl true). Qed.

(** 300 cells, 11,918,162 records, 200 released, prior 5 per cell: delta 8.142488349272733e-19 at epsilon 1/2. *)
Definition many_records : certificate :=
  Certificate 300 11918162 200%nat 1 5 5 1500 (1, 2) (8142488349272733, 10000000000000000000000000000000000).
Theorem many_records_certified : certifies many_records.
Proof. apply: check_is_sound; vm_cast_no_check (erefl true). Qed.
