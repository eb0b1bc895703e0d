"""Names of columns and labels are never taken for syntax: in lists, formulas, functionals and conditions."""

import json
import re
from itertools import pairwise

import polars as pl
import pytest

import discreet
from discreet import Budget
from discreet._core.text import comma_items
from discreet.cli.console import _shown
from discreet.cli.released import _BETWEEN
from discreet.domain import Boolean, Category, Domain
from discreet.errors import ParameterError
from discreet.inference.functionals import functional
from discreet.inference.models import FormulaDesign
from discreet.mechanisms.wide_facts import measurable_pairs

ODD = ["c.d", "P(>3)", "a,b", 'x"y', "new\nline", "😀", " lead", "trail ", "it's", "a`b", "C(x)", "-neg", "x*y", "{x}"]
DOMAIN = Domain(columns={name: Boolean() for name in [*ODD, "y"]})


def in_quotes(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def test_lists_of_names() -> None:
    assert comma_items(", ".join(map(in_quotes, ODD))) == ODD
    assert comma_items('a, b ,x"y,') == ["a", "b", 'x"y']


@pytest.mark.parametrize(("first", "second"), list(pairwise([*ODD, "y"])))
def test_a_workload_names_pairs(first: str, second: str) -> None:
    places = (DOMAIN.names.index(first), DOMAIN.names.index(second))
    assert measurable_pairs(DOMAIN, comma_items(in_quotes(f"{first}*{second}")))[1] == [places]
    assert len(measurable_pairs(DOMAIN, [first])[1]) == len(ODD)


def test_a_workload_that_needs_quotes_says_so() -> None:
    with pytest.raises(
        ParameterError, match="'a', which is no.* all of it in double quotes where a name holds a comma"
    ):
        measurable_pairs(DOMAIN, comma_items("a,b"))


@pytest.mark.parametrize("name", ODD)
def test_formulas_take_names_in_backticks_and_say_so(name: str) -> None:
    domain = Domain(columns={name: Boolean(), "y": Boolean()})
    assert FormulaDesign(domain, f"y ~ `{name}`").used == sorted([name, "y"])
    assert FormulaDesign(domain, f"`{name}` ~ C(y)").outcome == name
    if name != "-neg":  # which takes the intercept away
        with pytest.raises(ParameterError, match=re.escape(f"Names such as `{name}` stand in backticks") + "$"):
            FormulaDesign(domain, f"y ~ {name}")


@pytest.mark.parametrize("label", ["u,v", "u)", "(u", " u", "u", "u\nv", '"q"', "", "a..b", ">3", "=x", "u, mean)"])
def test_functionals_take_any_label(label: str) -> None:
    labels = ["other", label]
    asked = f"P(={label}),mean, q2.5 ,P(>3)"
    assert [part.strip() for part in re.split(_BETWEEN, asked)] == [f"P(={label})", "mean", "q2.5", "P(>3)"]
    assert functional(f"P(={label})", Category(categories=labels)).is_share


@pytest.mark.filterwarnings("ignore::discreet._core.errors.ReleaseTakenForSample")
@pytest.mark.parametrize("name", ODD)
def test_conditions_take_quoted_names_and_say_so(name: str) -> None:
    table = pl.DataFrame({name: [True, False] * 100, "y": [True, True, False, False] * 50})
    request = {"size": 50, "mechanism": "marginals", "seed": 1}
    domain, budget = Domain(columns={name: Boolean(), "y": Boolean()}), Budget(epsilon=3, delta=1e-6)
    given = f"{json.dumps(name, ensure_ascii=False)} = true"
    rows = discreet.release(table, domain, budget, given=given, workload=[name], **request).table()  # type: ignore[arg-type]
    assert rows[name].all()
    with pytest.raises(ParameterError, match="which is no column. Quote names"):
        discreet.release(table, domain, budget, given="a.b = true", size=50, mechanism="marginals")


def test_a_terminal_without_a_letter_shows_what_toml_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    class Plain:
        encoding = "ascii"

    monkeypatch.setattr("sys.stdout", Plain())
    assert _shown("größe 😀", err=False) == "gr\\u00f6\\u00dfe \\U0001f600"
