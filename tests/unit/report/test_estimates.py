"""What a report says of the population: from the release and its certificate alone, or why it says nothing."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import discreet
from discreet import Budget
from discreet.domain import Boolean, Domain, Integer, Numeric
from discreet.report import write_report
from discreet.report.promise import Promise
from discreet.report.released import PopulationPictures, population

pytest.importorskip("jinja2")

VALUES = np.random.default_rng(3).normal(50, 10, 3000).clip(0, 99)
DOMAIN = Domain(columns={"score": Numeric(lower=0, upper=100, cells=20), "passed": Boolean()})
TABLE = pl.DataFrame({"score": VALUES, "passed": VALUES > 45})


def made(
    where: Path, domain: Domain = DOMAIN, table: pl.DataFrame = TABLE, **asked: object
) -> tuple[Path, PopulationPictures]:
    release = where / "r.parquet"
    facts = {"budget": Budget(epsilon=1.0, delta=1e-6), "size": 500, **asked}
    discreet.release(table, domain, out=release, seed=1, **facts)  # type: ignore[arg-type]
    return release, population(Promise.read(where / "r.certificate.json", data=release), release)


def test_columns_with_an_order_have_a_picture_and_numbers(tmp_path: Path) -> None:
    release, found = made(tmp_path)
    assert [picture.name for picture in found.pictures] == ["score"]
    rows = {name: [float(number) for number in numbers] for name, *numbers in found.pictures[0].rows}
    mean, lower, upper = rows["mean"]
    assert lower <= VALUES.mean() <= upper
    assert lower <= mean <= upper
    assert upper - lower < 10.0
    assert [kind for kind, _ in found.pictures[0].chart.lines] == ["whole", "each", "this"]
    assert any("bounds: the interval allows for" in note for note in found.notes)
    write_report(release, tmp_path / "r.html")
    (groups,) = found.pictures[0].groups
    assert (groups.name, [group for group, *_ in groups.rows]) == ("passed", ["false", "true"])
    for (_, *numbers), (dot, _, _), (left, _, width, _), truth in zip(
        groups.rows, groups.chart.marks, groups.chart.bars, (VALUES[VALUES <= 45].mean(), VALUES[VALUES > 45].mean()),
        strict=True,
    ):  # fmt: skip
        mean, lower, upper = map(float, numbers)
        assert lower <= truth <= upper
        assert (dot - left) / width == pytest.approx((mean - lower) / (upper - lower), abs=0.01)
    page = (tmp_path / "r.html").read_text()
    assert page.count("Mean of <bdi>score</bdi> by <bdi>passed</bdi>") == 1
    assert "What it tells of the population" in page
    assert page.count('class="line whole"') == page.count('class="line each"') == 1
    assert f"<td>{found.pictures[0].rows[0][1]}</td>" in page


def test_it_says_why_there_are_none(tmp_path: Path) -> None:
    release, found = made(tmp_path, mechanism="marginals")
    assert not found.pictures
    assert "no confidence interval follows from one table of several columns" in found.without.lower()
    assert "to release several at once" in found.without
    write_report(release, tmp_path / "r.html")
    assert "No intervals are shown." in (tmp_path / "r.html").read_text()


def test_a_posterior_that_takes_long_is_left_to_the_command(tmp_path: Path) -> None:
    wide = Domain(columns={"x": Integer(lower=0, upper=1999)})
    table = pl.DataFrame({"x": np.arange(4000) % 2000})
    _, found = made(tmp_path, wide, table, mechanism="perturbed-histogram", accept={"poor-utility"})
    assert "discreet estimate" in found.without


def test_a_changed_file_shows_no_estimates(tmp_path: Path) -> None:
    release, _ = made(tmp_path)
    pl.read_parquet(release).head(400).write_parquet(release)
    found = population(Promise.read(tmp_path / "r.certificate.json", data=release), release)
    assert found.without == "Claims of the certificate were not confirmed."
