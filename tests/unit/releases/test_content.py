"""What the publisher asks of a mechanism that is none of the registry's, and of a model."""

import math
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest

from discreet import AddRemove, Output, release
from discreet._core.random import seeded
from discreet.cli.entry import run
from discreet.confidential import confidential, confidential_rows
from discreet.domain import Boolean, Domain, Integer, Records
from discreet.errors import FileProblem, Infeasible, LawNotAvailable, ParameterError, RelationNotSupported
from discreet.mechanisms import Forecast, Mechanism, SmoothedHistogram, Traits, named
from discreet.mechanisms.base import twin_of
from discreet.mechanisms.likelihood import no_posterior
from discreet.mechanisms.reading import Contents, Reading
from discreet.privacy import Budget, Guarantee, Relation
from discreet.privacy.profile import BoundedRangeProfile
from discreet.pseudo_posterior import CensoredPosterior, PoissonMean
from discreet.releases import Certificate, verify
from discreet.releases.content import utility_facts
from discreet.releases.facts import FileFacts
from discreet.report import write_report

GOLDEN = Path(__file__).parents[2] / "golden"
FLAGS = Domain(columns={"flag": Boolean()})
TABLE = pl.DataFrame({"flag": [True] * 7 + [False] * 13})
VISITS = Domain(columns={"visits": Integer(lower=0, upper=60)})
POSTERIOR = CensoredPosterior(PoissonMean(column="visits"), bound=1.0)
COUNTS = pl.DataFrame({"visits": seeded(1).poisson(20.0, size=30)})
VISITED = confidential(COUNTS, VISITS)


@dataclass(frozen=True, kw_only=True)
class Answers(Mechanism):
    """Randomised response, several times: all that the publisher needs, and nothing else."""

    name: ClassVar[str] = "answers"
    traits: ClassVar[Traits] = Traits(free=())

    domain: Domain = FLAGS
    flips: float = 0.25
    tables: int | None = 3

    def kernel(self, x: Any, *, rng: np.random.Generator) -> Any:
        truth = np.repeat(x.records.columns[0], x.frequencies)
        return [truth ^ (rng.integers(0, 4, size=len(truth)) == 0) for _ in range(self.tables or 1)]

    def log_prob(self, y: Any, x: Any) -> float:
        raise LawNotAvailable

    def guarantee(self, relation: Relation = Relation(), *, n: int) -> Guarantee:  # noqa: B008  # frozen
        profile = BoundedRangeProfile(spread=(self.tables or 1) * math.log(3.0))
        return Guarantee(relation=relation, n=n, profile=profile, kind="unconditional", theorem="T1")

    def contents(self, n: int, *, counts: bool = False) -> Contents:
        return Contents(domain=self.domain, size=n, tables=self.tables)

    def reading(self, y: Any, *, n: int) -> Reading:
        return InHalves(iter(y))

    @classmethod
    def calibrated(cls, budget: Budget, **fixed: Any) -> Any:
        raise NotImplementedError

    def forecast(self, n: int, like: Any = None) -> Forecast:
        return Forecast(lost=math.nan, lost_is="prediction", lost_to="model")


@dataclass(frozen=True)
class InHalves(Reading):
    answers: Iterator[Any]

    def draw(self, size: int, *, rng: np.random.Generator) -> Iterator[Records]:
        return (Records(columns=(half,)) for half in np.array_split(next(self.answers), 2))


class Untouched(Answers):
    def kernel(self, x: Any, *, rng: np.random.Generator) -> Any:
        pytest.fail("something was drawn")


def test_several_tables_are_published_in_memory_and_to_a_folder(tmp_path: Path) -> None:
    made = release(confidential(TABLE, FLAGS), mechanism=Answers())
    assert [len(table) for table in made.records] == [20, 20, 20]
    assert all(table.schema == {"flag": pl.Boolean} for table in made.records)
    assert made.certificate.tables == [FileFacts(file=None, rows=20, sha256=None)] * 3
    assert str(made).startswith("3 tables of 20 released records\nThe best attacker")
    assert "3 tables of 20 records from 20, epsilon" in made.certificate.summary
    assert made._repr_html_().count("<table") == 1
    written = made.write(tmp_path / "later")
    straight = release(confidential(TABLE, FLAGS), mechanism=Answers(), out=tmp_path / "out")
    assert straight.records is None
    for one in (written, straight):
        assert one.path is not None
        assert sorted(file.name for file in one.path.iterdir()) == [
            "certificate.json", "table-01.parquet", "table-02.parquet", "table-03.parquet"]  # fmt: skip
        assert one.certificate_path == one.path / "certificate.json"
        assert Certificate.read(one.path).facts == Certificate.read(one.certificate_path).facts == one.certificate.facts
    assert pl.read_parquet(tmp_path / "later" / "table-02.parquet").equals(made.records[1])
    with pytest.raises(FileProblem, match="exists already"):
        made.write(tmp_path / "later")
    (check,) = verify(straight.path or "")  # nothing in the library rebuilds this mechanism
    assert (check.agrees, check.found) == (False, check.found)
    assert "answers" in str(check.found)


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        (Untouched(), {"size": 3}, "size must be 20, for which the mechanism was made, got 3"),
        (Untouched(), {"counts": True}, "counts are one table"),
        (Untouched(tables=None), {"counts": True}, "answers releases records, not counts"),
        (POSTERIOR, {"data": VISITED, "size": 3}, "size must be 30, for which the mechanism was made, got 3"),
        (POSTERIOR, {"data": VISITED, "counts": True}, "counts are one table"),
        (Untouched(), {"relation": AddRemove(records=3)}, "must declare a number of records in public"),
        (SmoothedHistogram(domain=VISITS, size=3, mixing=0.5), {}, "made for another domain"),
        (Untouched(), {"out": Output("folder", certificate="c.json")}, "Leave out the certificate's name"),
        (POSTERIOR, {}, "must name the same columns"),
        (POSTERIOR.on(VISITS), {}, "made for another domain"),
        *(
            (odd, {}, "mechanism must be a name, a Mechanism, a PseudoPosterior or a CensoredPosterior, got")
            for odd in (3, TABLE, CensoredPosterior)
        ),
        *((named, {}, "the number of records to release") for named in (None, "pitman-yor")),
    ],
    ids=range(15),
)
def test_what_does_not_fit_is_refused_before_anything_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Any, options: dict[str, Any], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ParameterError, RelationNotSupported), match=said):
        release(**{"data": confidential(TABLE, FLAGS), "mechanism": given, **options})
    with pytest.raises(Infeasible):
        release(confidential(TABLE, FLAGS), mechanism=Untouched(), budget=Budget(epsilon=1.0))
    assert list(tmp_path.iterdir()) == []


def test_a_model_does_not_read_a_table_in_parts(tmp_path: Path) -> None:
    COUNTS.write_parquet(tmp_path / "t.parquet")
    with pytest.raises(ParameterError, match="does not read a table in parts"):
        release(confidential_rows(tmp_path / "t.parquet", VISITS), mechanism=POSTERIOR, accept={"empirical"})


def test_a_model_has_no_law_no_calibration_and_no_forecast() -> None:
    mechanism = POSTERIOR.on(VISITS)
    nothing: Any = None
    with pytest.raises(LawNotAvailable):
        mechanism.log_prob(nothing, nothing)
    with pytest.raises(LawNotAvailable):
        mechanism.outputs()
    with pytest.raises(ParameterError, match="not calibrated from a budget"):
        type(mechanism).calibrated(Budget(epsilon=1.0), domain=VISITS, n=9)
    assert "censored-posterior" in no_posterior(mechanism, 9)
    assert utility_facts(mechanism, 9)["share_not_from_data"] is None
    with pytest.raises(ParameterError, match="there is no mechanism 'censored-posterior'"):
        named("censored-posterior")


def test_what_is_stated_is_not_below_the_profile() -> None:
    promised = POSTERIOR.guarantee(n=9)
    assert promised.stated == (2.0, 2.0)
    with pytest.raises(ParameterError, match="below that of the profile"):
        replace(promised, stated=(1.9, 1.9))


def test_the_twin_of_a_model_reads_alike_without_the_users_function() -> None:
    posterior = CensoredPosterior(print, bound=1.0, sensitive=("visits",), tables=2)  # type: ignore[call-arg]
    mechanism = posterior.on(VISITS)
    twin = twin_of(mechanism, None)
    assert twin.parameters() == mechanism.parameters()
    assert twin.posterior.synthesiser.function is not print
    promised, stated = mechanism.guarantee(n=30), twin.guarantee(n=30)
    assert (
        (stated.to_dict(), stated.stated) == (promised.to_dict(), promised.stated) == (promised.to_dict(), (4.0, 2.0))
    )
    drawn = [{"visits": np.array([1.4, 99.0])}, {"visits": np.array([7.6, -3.0])}]
    readings = [one.reading(drawn, n=2) for one in (mechanism, twin)]
    for expected in ([1, 60], [8, 0]):
        for reading in readings:
            (records,) = reading.draw(2, rng=seeded(0))
            assert VISITS.decode(records, rng=seeded(0))["visits"].to_list() == expected
    assert readings[0].outcome() == readings[1].outcome()


def test_the_sentence_comes_first_wherever_a_release_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = pl.concat([TABLE] * 100)
    flags.write_parquet(tmp_path / "t.parquet")
    (tmp_path / "d.toml").write_text(FLAGS.to_toml())
    assert run(["release", str(tmp_path / "t.parquet"), "--domain", str(tmp_path / "d.toml"), "--epsilon", "1",
                "--size", "50", "--out", str(tmp_path / "r.parquet")]) == 0  # fmt: skip
    out, certificate_file = capsys.readouterr().out, tmp_path / "r.certificate.json"
    certificate = Certificate.read(certificate_file)
    written, cost, epsilon, whose, said = out.split("\n", 4)
    assert written == f"wrote 50 records to {tmp_path / 'r.parquet'} and the certificate to {certificate_file}"
    assert cost.startswith("cost: epsilon 1, delta 0. No ledger was given, so nothing adds it to what other releases")
    assert epsilon.startswith("Epsilon 1: no result is more than 2.72 times as likely")
    assert whose.startswith("The promise is for each record. A person with several records is promised less")
    for shown in (said, str(certificate), certificate._repr_html_().removeprefix("<p><b>")):
        assert shown.startswith(certificate.meaning)
        assert certificate.statement in shown
    page = write_report(tmp_path / "r.parquet", tmp_path / "r.html").path.read_text()
    header = page[page.index("<header>") :]
    meaning, formula = header.split("synthetic records made from")
    assert re.search(r"rightly confirms at most 2\.[0-9]+ % of true suspicions", meaning)
    assert certificate.statement in formula
    made = release(confidential(flags, FLAGS), mechanism=Answers())
    for shown in (made._repr_html_().removeprefix("<p><b>"), made.certificate.text):
        assert shown.startswith(made.certificate.meaning)


def test_verifying_a_mechanism_loads_no_model_and_verifying_a_model_loads_no_jax() -> None:
    """One after the other, in a process of its own."""
    program = (
        "import sys; from discreet.releases import verify\n"
        "for path in sys.argv[1:]: verify(path); print(*sorted(sys.modules))"
    )
    paths = [str(GOLDEN / "0.1.0" / name) for name in ("smoothed-histogram.certificate.json", "censored-grid")]
    done = subprocess.run([sys.executable, "-c", program, *paths], capture_output=True, text=True, check=True)
    mechanism, model = (set(line.split()) for line in done.stdout.splitlines())
    assert "discreet.pseudo_posterior" not in mechanism
    assert "discreet.pseudo_posterior" in model
    assert not {"jax", "numpyro"} & model
