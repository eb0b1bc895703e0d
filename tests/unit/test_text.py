"""Numbers as text: rounded to the safe side, by one module."""

import ast
import re
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet._core.text import (
    about,
    aligned,
    as_written,
    comma_items,
    counted,
    counted_up,
    harmless,
    item_text,
    percent,
    rounded_down,
    rounded_up,
    sentences_of,
)
from discreet.domain import Domain, Integer, Numeric, OpenLabels
from discreet.errors import Infeasible
from discreet.mechanisms import (
    DirichletMultinomial,
    LaplaceProjectionSampler,
    PitmanYor,
    SmoothedHistogram,
    StabilityHistogram,
)
from discreet.privacy import Budget

SOURCE = Path(__file__).parents[2] / "src" / "discreet"
CELLS = Domain(columns={"cell": Integer(lower=0, upper=3)})

# Where numbers are formatted that promise nothing: pictures, measures of utility, what is inferred from a release,
# distances of generators; the testing tools name what failed. A privacy number there goes through _text all the same.
ELSEWHERE = ("_core/text.py", "_core/page/", "utility/", "inference/", "evolution/", "testing/", "domain/")
NUMERIC = re.compile(r"[efgEFG%]$")


def formats(tree: ast.AST) -> list[tuple[int, str]]:
    """Return every place that cuts a number's digits: format specs, ``%`` and ``format``, and rounding to digits."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            parts = node.format_spec.values if isinstance(node.format_spec, ast.JoinedStr) else []
            spec = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)
            if NUMERIC.search(spec) or "{" in spec:
                found.append((node.lineno, spec))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
            if isinstance(node.left.value, str) and re.search(r"%[-+ #0-9.]*[efgEFG]", node.left.value):
                found.append((node.lineno, node.left.value))
        elif isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            texts = [a.value for a in [*node.args, getattr(node.func, "value", None)] if isinstance(a, ast.Constant)]
            if name == "format" and any(NUMERIC.search(str(text).rstrip("}")) for text in texts):
                found.append((node.lineno, ast.unparse(node)))
    return found


def test_a_planted_format_is_found() -> None:
    of_six = ('f"{x:.6g}"', 'f"{x:,.2f}"', 'f"{x:.{d}e}"', '"%.3g" % x', 'format(x, ".3g")', '"{:.2%}".format(x)')
    for planted in of_six:
        assert formats(ast.parse(planted)), planted
    for plain in ('f"{x:,}"', 'f"{x:>8}"', 'f"{x!r}"', '"%s" % x', '"{:,}".format(x)'):
        assert not formats(ast.parse(plain)), plain


@given(value=st.floats(1e-300, 1e300), digits=st.integers(1, 12))
def test_up_is_never_below_and_down_never_above(value: float, digits: int) -> None:
    exact = Decimal(repr(value))
    up, down = Decimal(rounded_up(value, digits)), Decimal(rounded_down(value, digits))
    assert down <= exact <= up
    assert up <= exact * (1 + Decimal(10) ** (1 - digits))
    assert down >= exact * (1 - Decimal(10) ** (1 - digits))
    assert down <= Decimal(about(value, digits)) <= up
    assert float(as_written(value)) == value
    if value < 1e12:
        assert Decimal(counted_up(value).replace(",", "")) >= exact


@given(share=st.floats(0.0, 1.0))
def test_a_percentage_is_never_below(share: float) -> None:
    assert 0 <= Decimal(percent(share).rstrip("%")) - 100 * Decimal(repr(share)) <= Decimal("0.01")


@pytest.mark.parametrize("epsilon", [0.33333333333333354, 0.3333333, 1.0000001, 0.1, 2.0, 1e-7])
def test_every_stated_epsilon_is_one_that_holds(epsilon: float) -> None:
    exact = Decimal(repr(epsilon))
    assert Decimal(rounded_up(epsilon, 6)) >= exact
    assert Decimal(str(Budget(epsilon=epsilon)).removeprefix("epsilon ")) == exact
    with pytest.raises(Infeasible) as refused:
        LaplaceProjectionSampler.calibrated(Budget(epsilon=epsilon), domain=CELLS, n=10, scale=0.25)
    told = dict(re.findall(r"(scale|epsilon|delta) >= ([\d.e+-]+)", str(refused.value)))
    assert float(told["scale"]) >= refused.value.nearest["scale >="]
    budget = Budget(epsilon=epsilon)  # what the message says can itself be met
    found = LaplaceProjectionSampler.calibrated(budget, domain=CELLS, n=10, scale=float(told["scale"]))
    assert found.guarantee(n=10).meets(budget)


def test_probabilities_in_caveats_are_rounded_up() -> None:
    unit, words = Domain(columns={"x": Numeric(lower=0.0, upper=1.0)}), Domain(columns={"w": OpenLabels()})
    urn = PitmanYor(domain=unit, size=7, strength=2.0).guarantee(n=7)
    stated = re.search(r"with probability ([\d.]*\d)", " ".join(map(str, urn.caveats)))
    assert stated is not None
    assert Decimal(stated[1]) >= Decimal(7) / 9
    labels = StabilityHistogram(domain=words, scale=1.7, threshold=9).guarantee(n=100)
    alone = re.search(r"verbatim, with probability ([\d.e-]+)", " ".join(map(str, labels.caveats)))
    assert alone is not None
    assert float(alone[1]) >= labels.delta(10.0) * (1 - 1e-9)
    for made in (
        SmoothedHistogram(domain=CELLS, size=1, mixing=1e-12),
        DirichletMultinomial(domain=CELLS, size=1, prior=1e-7),
    ):
        share = re.search(r"([\d.]+)%", " ".join(map(str, made.guarantee(n=100).caveats)))
        assert share is not None
        assert float(share[1]) / 100 >= made.forecast(100).lost


# -- counts and the nouns they count ----------------------------------------------------------------------------------

PLURALS = (
    "steps|columns|records|rows|cells|tables|claims|draws|categories|pairs|labels|candidates|points|releases|votes"
)
COUNT_OF = re.compile(rf" (?:[a-z]+ )?(?:{PLURALS})\b")
NEVER_ONE = {  # what is counted there is not one, or the text before is no number
    "len(checks)", "len(checks) - len(stated)", "name", "self.doubled_records", "math.floor(math.log10(cells))",
    "rows", "self.most_cells", "repair.allowed.size", "self.name", "cells", "request.mechanism",
    "named(name).traits.least_columns", "facts.unit.max_records", "draws", "excess", "least", "most", "mechanism",
    "tables", "mechanism.name", "kind.__name__", "len(shares)", "pairs", "group",
}  # fmt: skip


def counts_of(tree: ast.AST) -> list[tuple[int, str]]:
    """Return every number in a text that is followed by a noun in the plural; constants are not one."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            for value, after in zip(node.values, node.values[1:], strict=False):
                if not isinstance(value, ast.FormattedValue) or not isinstance(after, ast.Constant):
                    continue
                said = ast.unparse(value.value)
                if COUNT_OF.match(str(after.value)) and not said.strip("_").isupper():
                    found.append((node.lineno, said))
    return found


def test_one_module_formats_the_numbers_and_counts_go_with_their_nouns() -> None:
    """Whatever puts a count before a noun does so by :func:`counted`, which knows one from many."""
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert path.relative_to(SOURCE).as_posix().startswith(ELSEWHERE) or not formats(tree), path
        assert not {said for _, said in counts_of(tree)} - NEVER_ONE, path
    assert counts_of(ast.parse('f"{n:,} wide columns"')) == [(1, "n")]
    assert counts_of(ast.parse('f"{MOST} columns {a} is"')) == []


def test_texts_are_written_as_people_read_them() -> None:
    numbers = (rounded_up(7.802e-10), rounded_up(0.33333333333333354, 6), rounded_up(0.1, 6), rounded_up(1.0))
    assert numbers == ("7.81e-10", "0.333334", "0.1", "1")
    assert counted(1, "step") == "1 step"
    assert counted(20190, "record") == "20,190 records"
    assert counted(0, "category", "categories") == "0 categories"
    assert harmless("a title\x1b]0;b\x07") == r"a title\u001b]0;b\u0007"
    assert harmless("a\nb", lines=True) == "a\nb" != harmless("a\nb")
    assert comma_items('age, "a,b", x"y') == ["age", "a,b", 'x"y']
    assert comma_items(item_text(["age*sex", "a,b", ' "c"'])) == ["age*sex", "a,b", ' "c"']
    assert (item_text(["age*sex", "c"]), item_text(0.5), item_text(1e-9), item_text(True)) == (
        "age*sex,c", "0.5", "1e-09", "True",
    )  # fmt: skip
    assert aligned([("", "mean"), ("東京", "1"), ("Bern", "22")]) == ["      mean", "東京     1", "Bern    22"]


@pytest.mark.parametrize(
    "sentences",
    [
        ["column 'a': is not in the table.", "Check that its first line holds the names"],
        ["epsilon 0.1 cannot be met.", "The nearest that can be met: epsilon >= 0.2"],
        ["town=.../part-1.parquet is not readable.", "Give it again"],
    ],
)
def test_a_message_has_a_line_for_each_sentence(sentences: list[str]) -> None:
    assert sentences_of(" ".join(sentences)) == sentences


def test_a_number_or_dots_end_no_sentence() -> None:
    names = ("column 'St. Louis': is missing", 'a "Dr. No" b')
    for text in ("1.5 Records", "write --tables ... More is no better", "a.B c", "U.S", *names):
        assert sentences_of(text) == [text]
