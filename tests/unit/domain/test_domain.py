"""Product domains: sizes, numbering, base measure, metric, plain data, template."""

import itertools
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.domain import Boolean, Category, Domain, Integer, Numeric, OpenLabels, Records
from discreet.domain.column import Column
from discreet.errors import DomainError, FileProblem, MissingPublicFact


def small() -> Domain:
    return Domain(
        columns={
            "a": Integer(lower=0, upper=2),
            "b": Boolean(nulls="category", base={"weights": [1, 2, 5]}),
            "c": Category(categories=["x", "y"]),
        }
    )


def test_every_record_of_a_small_domain_has_its_number() -> None:
    domain = small()
    assert domain.size == 18
    records = domain.unflat(np.arange(18))
    expected = list(itertools.product(range(3), range(3), range(2)))
    assert list(zip(*(column.tolist() for column in records.columns), strict=True)) == expected
    np.testing.assert_array_equal(domain.flat(records), np.arange(18))


weights = st.lists(st.integers(1, 5), min_size=1, max_size=3)


@given(st.lists(weights, min_size=1, max_size=3))
def test_least_weights_agree_with_enumeration(columns: list[list[int]]) -> None:
    domain = Domain(
        columns={
            str(index): Category(categories=list(range(len(part))), base={"weights": part})
            for index, part in enumerate(columns)
        }
    )
    masses = sorted(
        prod(Fraction(weight, sum(part)) for weight, part in zip(cell, columns, strict=True))
        for cell in itertools.product(*columns)
    )
    assert domain.least_weights() == (masses[0], masses[1] if len(masses) > 1 else masses[0])
    records = domain.unflat(np.arange(domain.size or 0))
    np.testing.assert_allclose(np.exp(domain.log_base(records)).sum(), 1, rtol=1e-12)
    np.testing.assert_allclose(np.exp(domain.log_base(records)).min(), float(masses[0]), rtol=1e-12)


def test_ten_columns_of_fifty_categories_allocate_nothing() -> None:
    categories = [f"c{index}" for index in range(50)]
    domain = Domain(columns={f"q{index}": Category(categories=categories) for index in range(10)})
    assert domain.size == 50**10
    assert domain.least_weights() == (Fraction(1, 50**10), Fraction(1, 50**10))
    records = domain.draw_base(100, np.random.default_rng(0))
    np.testing.assert_array_equal(
        [column.tolist() for column in domain.unflat(domain.flat(records)).columns],
        [column.tolist() for column in records.columns],
    )
    assert domain.decode(records, rng=np.random.default_rng(0)).shape == (100, 10)


def test_too_large_a_domain_cannot_be_numbered() -> None:
    domain = Domain(columns={f"q{index}": Integer(lower=0, upper=2**31) for index in range(3)})
    records = domain.draw_base(3, np.random.default_rng(0))
    with pytest.raises(DomainError, match=r"2\*\*62"):
        domain.flat(records)
    with pytest.raises(DomainError, match=r"2\*\*62"):
        domain.unflat(np.arange(3))
    assert domain.least_weights()[0] == Fraction(1, (2**31 + 1) ** 3)


def test_new_labels_are_numbered_across_chunks() -> None:
    domain = Domain(columns={"l": OpenLabels(), "x": Numeric(lower=0, upper=1)})
    rng = np.random.default_rng(0)
    chunks = [domain.draw_base(2, rng), domain.draw_base(2, rng, first=3)]
    labels = Records.concatenate(chunks).columns[0].tolist()
    assert labels == ["new_category_1", "new_category_2", "new_category_3", "new_category_4"]
    assert domain.size is None
    assert not domain.finite
    np.testing.assert_array_equal(domain.log_base(chunks[0]), np.zeros(2))


def test_the_ground_distance_is_a_weighted_sum() -> None:
    columns: dict[str, Column] = {
        "a": Integer(lower=0, upper=4),
        "b": Boolean(nulls="category"),
        "x": Numeric(lower=0, upper=2),
    }
    x = Records(columns=(np.array([0, 4]), np.array([0, 2]), np.array([0.5, 1.0])))
    y = Records(columns=(np.array([4, 2]), np.array([1, 2]), np.array([1.5, 1.0])))
    assert Domain(columns=columns).distance(x, y).tolist() == [2.5, 0.5]
    weighted = Domain(columns=columns, metric_weights={"a": 2, "x": 0})
    assert weighted.distance(x, y).tolist() == [3.0, 1.0]
    assert Domain.from_toml(weighted.to_toml()) == weighted
    assert weighted != Domain(columns=columns)


@pytest.mark.parametrize("outcome", ["a", ["a"], ("b", "a")])
def test_an_outcome_is_declared_above_all_tables(outcome: Any) -> None:
    columns = {"a": Boolean(), "b": Integer(lower=0, upper=1)}
    domain = Domain(columns=columns, metric_weights={"a": 2.0}, outcome=outcome)
    assert domain.outcome == (tuple(outcome) if len(outcome) > 1 else ("a",))
    assert domain.to_toml().startswith("outcome = [")
    assert Domain.from_toml(domain.to_toml()) == domain != Domain(columns=columns, metric_weights={"a": 2.0})
    assert Domain.from_dict(domain.to_dict()) == domain
    assert f"outcome: {', '.join(domain.outcome)}" in domain._repr_html_()
    assert replace(domain, outcome=()).to_toml() == Domain(columns=columns, metric_weights={"a": 2.0}).to_toml()


@pytest.mark.parametrize(
    ("outcome", "problem"),
    [
        ("c", "outcome names 'c', which is not a column"),
        ((), None),
        (3, "up to 3 different columns"),
        ([3], "outcome names 3"),
        (["a", "a"], "up to 3 different columns"),
        (["a", "b", "d", "e"], "up to 3 different columns"),
        ([["a"]], "which is not a column"),
    ],
)
def test_an_outcome_is_up_to_three_columns(outcome: Any, problem: str | None) -> None:
    columns = dict.fromkeys("abde", Boolean())
    if problem is None:
        assert Domain(columns=columns, outcome=outcome) == Domain(columns=columns)
        return
    with pytest.raises(DomainError, match=problem):
        Domain(columns=columns, outcome=outcome)


def test_an_outcome_below_a_column_says_where_it_belongs() -> None:
    text = '[columns.a]\ntype = "boolean"\noutcome = "a"\n'
    with pytest.raises(DomainError, match=r"Write it above all \[columns.NAME\]"):
        Domain.from_toml(text)
    assert Domain.from_toml('outcome = "a"\n' + text.replace('outcome = "a"\n', "")).outcome == ("a",)


def test_order_of_columns_is_part_of_the_domain() -> None:
    a, b = Boolean(), Integer(lower=0, upper=1)
    assert Domain(columns={"a": a, "b": b}) != Domain(columns={"b": b, "a": a})
    assert Domain(columns={"a": a, "b": b}) != "a domain"


def test_a_domain_does_not_change() -> None:
    domain = small()
    with pytest.raises(DomainError, match="cannot be changed"):
        domain.columns["a"] = Boolean()  # type: ignore[index]
    with pytest.raises(DomainError, match="cannot be changed"):
        domain.columns.clear()  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        domain.columns = {}  # type: ignore[misc]


names = st.text(min_size=1).filter(lambda name: name != "*" and not (name.startswith("^") and name.endswith("$")))
texts = st.lists(st.text(), min_size=1, max_size=4, unique=True)
columns = st.one_of(
    texts.map(lambda found: Category(categories=found)),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, unique=True).map(lambda found: Category(categories=found)),
    st.tuples(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300))
    .filter(lambda ends: ends[0] < ends[1])
    .map(lambda ends: Numeric(lower=ends[0], upper=ends[1], nulls="category")),
    st.text(min_size=1).map(lambda prefix: OpenLabels(prefix=prefix)),
)


@given(st.dictionaries(names, columns, min_size=1, max_size=4))
def test_toml_reads_back_whatever_was_written(found: dict[str, Column]) -> None:
    domain = Domain(columns=found)
    again = Domain.from_toml(domain.to_toml())
    assert again == domain
    assert again.names == tuple(found)
    assert Domain.from_dict(domain.to_dict()) == domain


@pytest.mark.parametrize("name", ["weight.kg", "a.b.c", "gr\u00f6\u00dfe", "my col", "P(>3)"])
def test_a_name_to_quote_is_written_out(name: str) -> None:
    """The remedy is followed: the first line is exchanged for the one that the message gives."""
    body = '\ntype = "integer"\nlower = 0\nupper = 9\n'
    with pytest.raises(DomainError, match="Quote") as refusal:
        Domain.from_toml(f"[columns.{name}]{body}")
    quoted = str(refusal.value).partition(": [columns")[2]
    assert Domain.from_toml(f"[columns{quoted}{body}").names == (name,)


def test_reading_a_file(tmp_path: Path) -> None:
    path = tmp_path / "d.toml"
    path.write_text(small().to_toml(), encoding="utf-8")
    assert Domain.read(path) == small()
    assert Domain.read(str(path)) == small()
    with pytest.raises(FileProblem, match="no such file"):
        Domain.read(tmp_path / "none.toml")
    with pytest.raises(FileProblem, match="cannot be read"):
        Domain.read(tmp_path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileProblem, match="cannot be read"):
        Domain.read(path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "at least one column"),
        ("x = ", "not valid TOML"),
        ("columns = 3", "one table"),
        ("metric_weights = 3", "metric_weights must be a table"),
        ("[columns]\na = 3", "column 'a' must be a table"),
        ("[columns.a]\nlower = 3", "column 'a': its type is not declared"),
        ('[columns.a]\ntype = "float"', "column 'a': unknown type 'float'. Known types: boolean, category"),
        ("[columns.a]\ntype = 3", "column 'a': unknown type 3"),
        ('[columns.a]\ntype = ["numeric"]', "column 'a': unknown type"),
        (
            '[columns.a]\ntype = "boolean"\nlower = 1',
            "column 'a': unknown key 'lower'. Keys of a boolean column: base, false, null_values, nulls, "
            "out_of_bounds, strip, true",
        ),
        ('[columns.a]\ntype = "string"', "column 'a': its list of categories is not declared"),
        ('[columns.a]\ntype = "numeric"\nlower = 1', "column 'a': its upper bound is not declared"),
        ('[columns.a]\ntype = "boolean"\n[other]', "unknown table 'other'"),
        ('[columns.a]\ntype = "boolean"\n[metric_weights]\nb = 1', "metric_weights names 'b'"),
        ('[columns.a]\ntype = "boolean"\n[metric_weights]\na = -1', "the metric weight of column 'a'"),
        ('[columns."*"]\ntype = "boolean"', "read this name as a pattern"),
    ],
)
def test_wrong_declarations_name_the_column(text: str, problem: str) -> None:
    with pytest.raises(DomainError) as found:
        Domain.from_toml(text)
    assert problem in str(found.value)


def test_string_columns_are_categories_or_open_labels() -> None:
    assert Domain.from_toml('[columns.a]\ntype = "string"\ncategories = ["x"]').columns["a"] == Category(
        categories=["x"]
    )
    assert Domain.from_toml('[columns.a]\ntype = "string"\nprefix = "new_"').columns["a"] == OpenLabels(prefix="new_")


@pytest.mark.parametrize("wrong", [{}, None, {"a": 3}, {3: Boolean()}, {"": Boolean()}, {"\ud800": Boolean()}])
def test_wrong_columns_are_refused(wrong: Any) -> None:
    with pytest.raises(DomainError):
        Domain(columns=wrong)


ALL_TYPES = ["numeric", "integer", "boolean", "date", "datetime", "duration", "decimal", "string", "unknown", "Struct"]


def test_the_template_asks_for_every_public_fact_in_turn() -> None:
    text = Domain.template({f"c {kind}": kind for kind in ALL_TYPES})
    asked: Counter[str] = Counter()
    for _ in range(100):
        try:
            domain = Domain.from_toml(text)
            break
        except MissingPublicFact as problem:
            asked[problem.column] += 1
            fact, _, example = problem.toml.partition("  #")[0].partition(" = ")
            example = '"boolean"' if fact == "type" else example
            start = text.index(f'[columns."{problem.column}"]')
            text = text[:start] + text[start:].replace(f'{fact} = "<fill in>"', f"{fact} = {example}", 1)
    else:
        pytest.fail("the template was never complete")
    assert domain.names == tuple(f"c {kind}" for kind in ALL_TYPES)
    facts = {"numeric": 2, "integer": 2, "date": 2, "datetime": 3, "duration": 3, "decimal": 3, "string": 1}
    assert {kind: asked[f"c {kind}"] for kind in facts} == facts


def test_a_template_of_columns_without_types_says_what_each_type_asks_for() -> None:
    text = Domain.template({"a": "unknown", "b": "integer"})
    head = text[: text.index("[columns.a]")]
    assert all(line.startswith("#") or not line for line in head.splitlines())
    asked = dict(re.findall(r"^#   (\w+): (.*)$", head, re.MULTILINE))
    assert {"integer", "category", "date", "boolean", "numeric", "open_labels"} <= asked.keys()
    for kind, facts in asked.items():  # what it shows can be declared as it stands
        lines = "" if facts == "nothing else" else re.sub(r", (?=\w+ = )", "\n", facts)
        assert Domain.from_toml(f'[columns.x]\ntype = "{kind}"\n{lines}').names == ("x",)
    assert "asks for" not in Domain.template({"b": "integer", "c": "string"})


def test_importing_the_domain_loads_no_dataframe_library() -> None:
    check = (
        "import sys, discreet.domain as d; domain = d.Domain(columns={'a': d.Numeric(lower=0, upper=1, cells=3)});"
        "domain.to_toml(); d.Domain.from_toml(domain.to_toml());"
        "print(sorted({'polars', 'narwhals', 'pandas', 'scipy', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
