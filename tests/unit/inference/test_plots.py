"""Pictures of posteriors: what is drawn are the numbers of cdf and summary."""

import re
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from discreet._core.random import seeded
from discreet.domain import Boolean, Category, Date, Domain, Integer, Numeric, OpenLabels, Records
from discreet.errors import MissingExtra, ParameterError
from discreet.inference import Posterior

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

DOMAIN = Domain(
    columns={
        "income": Numeric(lower=1, upper=10_000, cells=4, spacing="log"),
        "eyes": Integer(lower=1, upper=3),
        "born": Date(lower="2000-01-01", upper="2000-01-02"),
        "sex": Category(categories=["$f", "m", "x"]),
        "done": Boolean(),
    }
)
SIZE = DOMAIN.size or 0
POSTERIOR = Posterior.of_arrays(DOMAIN, DOMAIN.unflat(np.arange(SIZE)), seeded(1).dirichlet(np.ones(SIZE), size=30))


@pytest.fixture(autouse=True)
def no_figure_stays_open() -> Iterator[None]:
    yield
    pyplot.close("all")


def texts(labels: Any) -> list[str]:
    return [label.get_text() for label in labels]


@pytest.mark.parametrize("column", ["income", "eyes", "born"])
def test_a_distribution_function_with_its_two_bands(column: str) -> None:
    axes = POSTERIOR.plot(column=column, level=0.8)
    (line,) = axes.get_lines()
    if column != "born":  # before a jump a date is drawn between two days
        band = POSTERIOR.cdf(line.get_xdata(), column=column, level=0.8)
        assert np.asarray(line.get_ydata()) == pytest.approx(band.mean)
        outer, inner = (set(one.get_paths()[0].vertices[:, 1].round(9)) for one in axes.collections)
        assert {*band.simultaneous_upper.round(9)} <= outer
        assert {*band.lower.round(9)} <= inner
    assert axes.get_xlabel() == column
    assert axes.get_xscale() == ("log" if column == "income" else "linear")
    assert texts(axes.get_legend().get_texts())[:2] == ["80% for the whole curve", "80% at each value"]
    assert line.get_drawstyle() == ("default" if column == "income" else "steps-post")
    axes.figure.canvas.draw()


@pytest.mark.parametrize(("column", "labels"), [("sex", [r"\$f", "m", "x"]), ("done", ["false", "true"])])
def test_the_shares_of_categories(column: str, labels: list[str]) -> None:
    axes = POSTERIOR.plot(column=column)
    rows = POSTERIOR.summary([f"P(={label.lstrip(chr(92))})" for label in labels], column=column).rows
    assert [bar.get_height() for bar in axes.patches] == pytest.approx([row.mean for row in rows])
    (lines,) = axes.collections
    ends = [[y for _, y in segment] for segment in lines.get_segments()]
    assert ends == [pytest.approx([row.lower, row.upper]) for row in rows]
    assert texts(axes.get_xticklabels()) == labels


def test_values_of_their_own_and_axes_that_are_given() -> None:
    own = Records(columns=(seeded(2).random(3000),))
    posterior = Posterior.of_arrays(
        Domain(columns={"x": Numeric(lower=0, upper=1)}), Records(columns=(np.empty(0),)), np.empty((3, 0)), own=own,
        own_weights=np.full((3, 1000), 1e-3),
    )  # fmt: skip
    figure, axes = pyplot.subplots()
    assert posterior.plot(axes=axes) is axes
    (line,) = axes.get_lines()
    assert len(line.get_xdata()) == 200
    assert pyplot.get_fignums() == [figure.number]


def test_a_forest_has_a_panel_per_unit_or_per_functional_of_groups() -> None:
    values, shares = POSTERIOR.summary(["mean", "q50", "P(>1)"], column="eyes").plot()
    assert [texts(axes.get_yticklabels()) for axes in (values, shares)] == [["mean", "q50"], ["P(>1)"]]
    grouped = POSTERIOR.summary(["mean", "P(>1)"], column="eyes", by="sex")
    mean, share = grouped.plot()
    assert [mean.get_title(), share.get_title()] == ["mean", "P(>1)"]
    assert texts(mean.get_yticklabels()) == [r"\$f", "m", "x"]
    rows = [row for row in grouped.rows if row.name == "mean"]
    assert np.asarray(mean.get_lines()[0].get_xdata()) == pytest.approx([row.mean for row in rows])
    (lines,) = mean.collections
    ends = [[x for x, _ in segment] for segment in lines.get_segments()]
    assert ends == [pytest.approx([row.lower, row.upper]) for row in rows]
    (dates,) = POSTERIOR.summary(["mean", "q50"], column="born").plot()
    assert np.issubdtype(np.asarray(dates.get_lines()[0].get_xdata()).dtype, np.datetime64)


def test_wrong_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    towns = Domain(columns={"town": OpenLabels()})
    of_labels = Posterior.of_arrays(towns, Records(columns=(np.array(["a"], dtype=object),)), [[1.0]])
    for posterior, asked, message in (
        (POSTERIOR, {}, "Name one of"), (POSTERIOR, {"column": "y"}, "no column 'y'"), (of_labels, {}, "open labels")
    ):  # fmt: skip
        with pytest.raises(ParameterError, match=message):
            posterior.plot(**asked)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for draw in (lambda: POSTERIOR.plot(column="eyes"), POSTERIOR.summary(["mean"], column="eyes").plot):
        with pytest.raises(MissingExtra, match=re.escape("pip install 'discreet[report]'")):
            draw()
