(** * Certificates whose number is checked

  Each theorem says of one release of the Dirichlet-multinomial mechanism: the delta that the library states for it is
  no less than the exact one, and at most one per cent more (CertificateCheck.v says what [certifies] means). The
  numbers are the library's own, deltas rounded up to twelve digits: [python proofs/certificates.py] wrote this file,
  and a test compares it with what the library states.

  In this order: cells, records, size, unit of the masses, smallest prior mass, second smallest, total prior mass (in
  units), epsilon, stated delta. *)
From mathcomp Require Import all_ssreflect.
From Coq Require Import ZArith.
From Discreet Require Import CertificateCheck.
Open Scope Z_scope.

(** 5 cells, 1,000 records, 100 released, prior 5 per cell: delta 8.44648006514e-09 at epsilon 1. *)
Definition five_labels : certificate :=
  Certificate 5 1000 100%nat 1 5 5 25 (1, 1) (422324003257, 50000000000000000000).
Theorem five_labels_certified : certifies five_labels.
Proof. apply: check_is_sound; vm_cast_no_check (erefl true). Qed.

(** 5 cells, 1,000 records, 100 released, prior 5 per cell: delta 0.000347019915274 at epsilon 1/2. *)
Definition five_labels_half : certificate :=
  Certificate 5 1000 100%nat 1 5 5 25 (1, 2) (173509957637, 500000000000000).
Theorem five_labels_half_certified : certifies five_labels_half.
Proof. apply: check_is_sound; vm_cast_no_check (erefl true). Qed.

(** 7 cells, 1,000 records, 120 released, prior 2.5 per cell: delta 0.00115352516086 at epsilon 7/10. *)
Definition seven_labels : certificate :=
  Certificate 7 1000 120%nat 2 5 5 35 (7, 10) (57676258043, 50000000000000).
Theorem seven_labels_certified : certifies seven_labels.
Proof. apply: check_is_sound; vm_cast_no_check (erefl true). Qed.

(** 6 cells, 1,500 records, 120 released, prior 4 per cell: delta 5.00698228783e-10 at epsilon 2. *)
Definition unequal_labels : certificate :=
  Certificate 6 1500 120%nat 7 8 16 168 (2, 1) (500698228783, 1000000000000000000000).
Theorem unequal_labels_certified : certifies unequal_labels.
Proof. apply: check_is_sound; vm_cast_no_check (erefl true). Qed.

(** 20 cells, 3,000 records, 150 released, prior 0.25 per cell: delta 1.94118335168e-08 at epsilon 3. *)
Definition twenty_labels : certificate :=
  Certificate 20 3000 150%nat 4 1 1 20 (3, 1) (3033098987, 156250000000000000).
Theorem twenty_labels_certified : certifies twenty_labels.
Proof. apply: check_is_sound; vm_cast_no_check (erefl true). Qed.

(** 12 cells, 1,000 records, 100 released, prior 0.1 per cell: delta 7.14293092974e-08 at epsilon 4. *)
Definition prior_of_a_tenth : certificate :=
  Certificate 12 1000 100%nat 524288 52429 52429 629148 (4, 1) (357146546487, 5000000000000000000).
Theorem prior_of_a_tenth_certified : certifies prior_of_a_tenth.
Proof. apply: check_is_sound; vm_cast_no_check (erefl true). Qed.

(** 8 cells, 2,000 records, 100 released, prior 0.0625 per cell: delta 0.047490307176 at epsilon 0. *)
Definition epsilon_zero : certificate :=
  Certificate 8 2000 100%nat 16 1 1 8 (0, 1) (5936288397, 125000000000).
Theorem epsilon_zero_certified : certifies epsilon_zero.
Proof. apply: check_is_sound; vm_cast_no_check (erefl true). Qed.

(** 100 cells, 10,000 records, 200 released, prior 2 per cell: delta 1.81195456565e-07 at epsilon 1. *)
Definition ages : certificate :=
  Certificate 100 10000 200%nat 1 2 2 200 (1, 1) (36239091313, 200000000000000000).
Theorem ages_certified : certifies ages.
Proof. apply: check_is_sound; vm_cast_no_check (erefl true). Qed.

(** 72 cells, 5,000 records, 150 released, prior 1 per cell: delta 8.50857006517e-12 at epsilon 2. *)
Definition people : certificate :=
  Certificate 72 5000 150%nat 1 1 1 72 (2, 1) (850857006517, 100000000000000000000000).
Theorem people_certified : certifies people.
Proof. apply: check_is_sound; vm_cast_no_check (erefl true). Qed.

(** 72 cells, 5,000 records, 150 released, prior 10 per cell: delta 2.52737105866e-09 at epsilon 1/2. *)
Definition people_half : certificate :=
  Certificate 72 5000 150%nat 1 10 10 720 (1, 2) (126368552933, 50000000000000000000).
Theorem people_half_certified : certifies people_half.
Proof. apply: check_is_sound; vm_cast_no_check (erefl true). Qed.

(** 18 cells, 2,000 records, 150 released, prior 3 per cell: delta 0.000186543636878 at epsilon 1. *)
Definition homes : certificate :=
  Certificate 18 2000 150%nat 2 3 3 108 (1, 1) (93271818439, 500000000000000).
Theorem homes_certified : certifies homes.
Proof. apply: check_is_sound; vm_cast_no_check (erefl true). Qed.

(** 300 cells, 11,918,162 records, 200 released, prior 5 per cell: delta 8.14248834928e-19 at epsilon 1/2. *)
Definition many_records : certificate :=
  Certificate 300 11918162 200%nat 1 5 5 1500 (1, 2) (50890552183, 62500000000000000000000000000).
Theorem many_records_certified : certifies many_records.
Proof. apply: check_is_sound; vm_cast_no_check (erefl true). Qed.
