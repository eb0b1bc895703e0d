"""Write Certificates.v: deltas that the library states today, for Coq to check with exact arithmetic.

``python proofs/certificates.py`` writes the file. A test compares it with what the library states.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from pathlib import Path
from typing import Any

from discreet._core.text import rounded_up
from discreet.domain import Boolean, Category, Domain, Integer
from discreet.mechanisms import DirichletMultinomial

FILE = Path(__file__).with_name("Certificates.v")
UNIT = 1 << 20  # the total prior mass is a whole number of parts of this size

HEADER = """\
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
"""
CASE = """
(** {words} *)
Definition {name} : certificate :=
  Certificate {numbers}.
Theorem {name}_certified : certifies {name}.
Proof. apply: check_is_sound; vm_cast_no_check (erefl true). Qed.
"""


@dataclass(frozen=True)
class Case:
    """The public facts of one release."""

    name: str
    domain: Domain
    records: int
    size: int
    prior: float
    epsilon: str

    def text(self) -> str:
        """Return the case and its theorem."""
        mechanism = DirichletMultinomial(domain=self.domain, size=self.size, prior=self.prior)
        epsilon = Fraction(self.epsilon)
        delta = rounded_up(mechanism.guarantee(n=self.records).delta(epsilon), 12)  # on every machine the same
        total = Fraction(mechanism.strength_units, UNIT)
        masses = [*(total * weight for weight in self.domain.least_weights()), total]
        unit = lcm(*(mass.denominator for mass in masses))
        numbers = [self.domain.size, self.records, f"{self.size}%nat", unit, *(int(mass * unit) for mass in masses)]
        pairs = [f"({x.numerator}, {x.denominator})" for x in (epsilon, Fraction(delta))]
        words = (
            f"{self.domain.size:,} cells, {self.records:,} records, {self.size} released, prior {self.prior:g} "
            f"per cell: delta {delta} at epsilon {self.epsilon}."
        )
        return CASE.format(words=words, name=self.name, numbers=" ".join(map(str, [*numbers, *pairs])))


def labels(count: int, **facts: Any) -> Domain:
    """Return a domain of one column of labels."""
    return Domain(columns={"label": Category(categories=[f"label {i}" for i in range(count)], **facts)})


AGES = Domain(columns={"age": Integer(lower=0, upper=99)})
PEOPLE = Domain(columns={"sex": Boolean(), "age_group": Integer(lower=0, upper=17), "works": Boolean()})
HOMES = Domain(columns={"owner": Boolean(base={"weights": [1, 3]}), "rooms": Integer(lower=1, upper=9)})
CELLS = Domain(columns={"cell": Integer(lower=0, upper=299)})

CASES = (
    Case("five_labels", labels(5), 1_000, 100, 5, "1"),
    Case("five_labels_half", labels(5), 1_000, 100, 5, "1/2"),
    Case("seven_labels", labels(7), 1_000, 120, 2.5, "7/10"),
    Case("unequal_labels", labels(6, base={"weights": [1, 2, 3, 4, 5, 6]}), 1_500, 120, 4, "2"),
    Case("twenty_labels", labels(20), 3_000, 150, 0.25, "3"),
    Case("prior_of_a_tenth", labels(12), 1_000, 100, 0.1, "4"),
    Case("epsilon_zero", labels(8), 2_000, 100, 0.0625, "0"),
    Case("ages", AGES, 10_000, 200, 2, "1"),
    Case("people", PEOPLE, 5_000, 150, 1, "2"),
    Case("people_half", PEOPLE, 5_000, 150, 10, "1/2"),
    Case("homes", HOMES, 2_000, 150, 3, "1"),
    Case("many_records", CELLS, 11_918_162, 200, 5, "1/2"),
)


def document() -> str:
    """Return the whole file."""
    return HEADER + "".join(case.text() for case in CASES)


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8")
