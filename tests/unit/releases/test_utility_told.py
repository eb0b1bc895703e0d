"""What came out is told first: in the certificate, the command and the report, and old certificates stay readable."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import discreet
from discreet import Budget
from discreet.cli.entry import discreet as command
from discreet.domain import Category, Domain, Integer
from discreet.errors import PoorUtility
from discreet.mechanisms import Forecast, PerturbedHistogram
from discreet.releases import Certificate, Release, verify
from discreet.releases.content import certified_mechanism, utility_facts

WIDE = Domain(columns={f"c{i}": Category(categories=list("abcde")) for i in range(20)})
# Each of 2,000 rare labels may be kept with probability delta: all together less than 1e-8.
FACTS: dict[str, Any] = {"budget": Budget(epsilon=1.0, delta=1e-12), "size": 500}


def wide_frame() -> pl.DataFrame:
    rng = np.random.default_rng(1)  # a confidential table of a test
    return pl.DataFrame({f"c{i}": rng.choice(list("abcde"), size=2000) for i in range(20)})


@pytest.fixture(scope="module")
def poor() -> Release:
    return discreet.release(wide_frame(), WIDE, mechanism="stabilised-pitman-yor", accept={"poor-utility"}, **FACTS)


def test_a_wide_table_is_refused_by_what_is_not_for_wide_tables() -> None:
    with pytest.raises(PoorUtility, match="With all columns, epsilon 0.5 is enough") as caught:
        discreet.release(wide_frame(), WIDE, **{**FACTS, "budget": Budget(epsilon=0.02, delta=1e-12)})
    assert caught.value.exit_status == 3
    assert discreet.release(wide_frame(), WIDE, **FACTS).info["mechanism"] == "marginals"
    with pytest.raises(PoorUtility, match="For tables of many columns there is marginals"):
        discreet.release(wide_frame(), WIDE, mechanism="hierarchical-histogram", **FACTS)
    with pytest.raises(PoorUtility, match="too rare to be kept"):
        discreet.release(wide_frame(), WIDE, mechanism="stabilised-pitman-yor", **FACTS)


class Blended(PerturbedHistogram):
    """A mechanism outside the library, with words of its own."""

    name = "blended"

    def forecast(self, n: int, like: Any = None) -> Forecast:
        words = {"lost_to": "are from last year", "remedies": ("take a smaller blend",)}
        return replace(super().forecast(n), lost=0.9, **words)


def test_a_mechanism_outside_the_library_has_its_own_words() -> None:
    cells = Domain(columns={"c": Integer(lower=0, upper=4)})
    mechanism = Blended(domain=cells, records=40, scale=1.0)
    with pytest.raises(PoorUtility, match=r"are from last year.*\. Take a smaller blend, or accept poor utility"):
        discreet.release(pl.DataFrame({"c": [0, 1, 2, 3] * 10}), cells, mechanism=mechanism, size=5)


def test_nothing_kept_is_a_number_and_said_first(poor: Release) -> None:
    facts = poor.certificate.to_dict()
    assert facts["released"]["share_from_data"] == 0.0
    assert facts["released"]["outcome"] == [{"code": "no-label-kept"}]
    assert not {"share_not_from_data", "share_at_most", "share_in_words"} & facts["guarantee"].keys()
    forecast = utility_facts(certified_mechanism(poor.certificate.facts), 2000)
    assert forecast["share_not_from_data"] is None  # only the data tell
    assert forecast["share_at_most"] == poor.info["share_at_most"] == 1.0
    assert forecast["share_in_words"] == poor.info["share_in_words"]
    assert str(poor.certificate).startswith("Poor utility: no label was kept")
    assert str(poor.certificate).count("no label was kept") == 1
    assert poor.certificate._repr_html_().startswith('<p style="color:#b3001e">')
    assert "Poor utility" in str(poor)
    assert all(check.agrees for check in verify(Certificate.from_dict(json.loads(poor.certificate.to_json()))))


def test_a_poor_share_that_was_known_before_is_said_first() -> None:
    cells = Domain(columns={"cell": Integer(lower=0, upper=99)})
    frame = pl.DataFrame({"cell": [1, 2, 3] * 20})
    budget = Budget(epsilon=1.0, delta=1e-6)
    made = discreet.release(frame, cells, budget, mechanism="dirichlet-multinomial", size=50, accept={"poor-utility"})
    assert str(made.certificate).startswith("Poor utility: ")
    assert "come from the prior, on average" in (made.certificate.poor or "")
    read = Certificate.from_dict(json.loads(made.certificate.to_json()))
    assert read.poor == made.certificate.poor
    assert str(read) == str(made.certificate)
    good = discreet.release(pl.DataFrame({"cell": list(range(100)) * 200}), cells, budget, size=50)
    assert good.certificate.poor is None
    assert "Poor" not in str(good.certificate)


def test_the_command_says_it_first_and_in_red(tmp_path: Path) -> None:
    wide_frame().write_parquet(tmp_path / "wide.parquet")
    (tmp_path / "wide.toml").write_text(WIDE.to_toml())
    arguments = ["release", str(tmp_path / "wide.parquet"), "--domain", str(tmp_path / "wide.toml"), "--epsilon", "1",
                 "--delta", "1e-12", "--size", "100", "--out", str(tmp_path / "out.csv"), "--mechanism",
                 "stability-histogram", "--accept-poor-utility"]  # fmt: skip
    result = CliRunner().invoke(command, arguments, color=True)
    assert result.exit_code == 0, result.output
    said = result.stdout  # before click 8.2 with what was announced on standard error in front
    red = said.index(click.style("Poor utility: no label was kept", fg="red", bold=True)[:-4])
    assert red < said.index("wrote ") < said.index("The best attacker")
    said = CliRunner().invoke(command, [*arguments, "--json"]).stdout
    answer = json.loads(said[said.index("{\n") :])
    assert answer["poor"].startswith("Poor utility")
    assert answer["released"]["share_from_data"] == 0.0


def test_the_report_has_a_red_banner_and_no_green_one(poor: Release, tmp_path: Path) -> None:
    from discreet.report import write_report

    written = poor.write(tmp_path / "poor.parquet")
    page = write_report(written.path or "", tmp_path / "poor.html").path.read_text()
    assert page.index('<p class="alarm" role="alert"><strong>Poor utility: no label was kept') < page.index("<nav")
    assert 'class="fine"' not in page
    assert "claims of the certificate were recomputed and agree" in page
    good = discreet.release(pl.DataFrame({"cell": list(range(10)) * 500}),
                            Domain(columns={"cell": Integer(lower=0, upper=9)}), **FACTS)  # fmt: skip
    page = write_report(good.write(tmp_path / "good.parquet").path or "", tmp_path / "good.html").path.read_text()
    assert 'class="fine"' in page
    assert 'role="alert"' not in page


GOLDEN = Path(__file__).parents[2] / "golden"


def test_certificates_from_before_are_read_and_their_share_is_withdrawn() -> None:
    facts = json.loads((GOLDEN / "0.1.0" / "stability-histogram.certificate.json").read_text())
    facts["guarantee"]["share_not_from_data"] = 0.0344
    old = Certificate.from_dict(facts)
    (wrong,) = [check for check in verify(old) if not check.agrees]
    assert wrong.what == "guarantee.share_not_from_data"
    assert wrong.found == "a forecast, not checked"
    assert "Erratum of 2026-11-22" in (wrong.erratum or "")
    assert str(old)
    facts["guarantee"]["delta"] /= 2  # nothing else is excused
    assert (
        {"guarantee.delta", "guarantee.statement"}
        >= {check.what for check in verify(Certificate.from_dict(facts)) if not check.agrees and check.erratum is None}
        != set()
    )
    later = json.loads((GOLDEN / "0.2.0.dev0" / "stability-histogram.certificate.json").read_text())
    later["guarantee"]["share_at_most"] = 0.03
    checks = {check.what: check for check in verify(Certificate.from_dict(later))}
    assert checks["guarantee.share_at_most"].found == "a forecast, not checked"
    assert all(check.agrees for check in checks.values())
    assert (Certificate.from_dict(later).poor or "") == (Certificate.read(GOLDEN / "0.2.0.dev0" / (
        "stability-histogram.certificate.json")).poor or "")  # fmt: skip


@pytest.mark.parametrize("share", ["much", [0.5], True])
def test_a_share_that_is_no_number_is_no_fault_of_the_program(poor: Release, share: object) -> None:
    facts = json.loads(poor.certificate.to_json())
    facts["released"]["share_from_data"] = share
    checks = verify(Certificate.from_dict(facts))
    assert not all(check.agrees for check in checks)
