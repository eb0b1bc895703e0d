"""The deltas that Coq checks in proofs/Certificates.v are those that the library states today. Needs no Coq."""

import re
import runpy
from fractions import Fraction
from pathlib import Path

PROOFS = Path(__file__).parents[2] / "proofs"


def test_the_checked_deltas_are_those_stated_today() -> None:
    script = runpy.run_path(str(PROOFS / "certificates.py"))
    assert script["document"]() == (PROOFS / "Certificates.v").read_text(encoding="utf-8")


def test_ten_certificates_of_the_demonstrations_kind_are_checked() -> None:
    text = (PROOFS / "Certificates.v").read_text(encoding="utf-8")
    cases = re.findall(r"Certificate (\d+) (\d+) (\d+)%nat", text)
    assert sum(int(k) >= 5 and int(n) >= 1000 and int(m) >= 100 for k, n, m in cases) >= 10
    assert len(cases) == len(re.findall(r"^Theorem \w+_certified : certifies", text, re.MULTILINE))
    epsilons = {Fraction(int(a), int(b)) for a, b in re.findall(r"\((\d+), (\d+)\) \(\d+, \d+\)\.", text)}
    assert {Fraction(1, 2), Fraction(1), Fraction(2)} <= epsilons
