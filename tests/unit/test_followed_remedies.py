# ruff: noqa: E501, DTZ001, PD011 - a case stands on one line; clock times have no zone
"""Every remedy of the library is followed to its end: what is refused is no longer refused for that reason.

A case has a text that stands in a message and in the source, what is refused with it, and what its reader would do
then. ``unfollowed_remedies.txt`` lists the remedies that no case follows yet. It may only get shorter: a new remedy
without a case fails here.
"""

import ast
import contextlib
import datetime as dt
import itertools
import re
import shutil
import sqlite3
import tomllib
from collections.abc import Callable, Iterator
from decimal import Decimal as Exact
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest

import discreet
from discreet import AddRemove, Advantage, Budget, Output, Replacement, Risk, Unit
from discreet.audit import density_ratio
from discreet.audit.release import split as draw_control
from discreet.confidential import check_table, confidential, confidential_rows, reveal_to_custodian
from discreet.confidential.database import addressed
from discreet.confidential.values import table_schema
from discreet.domain import (
    Boolean,
    Category,
    Date,
    Datetime,
    Decimal,
    Domain,
    Duration,
    Integer,
    Numeric,
    OpenLabels,
    UnitTable,
)
from discreet.errors import DataError, DiscreetError
from discreet.ledger import Ledger, Request
from discreet.mechanisms import DirichletMultinomial, HierarchicalHistogram, Marginals, PerturbedHistogram
from discreet.planner import plan, plan_together
from discreet.privacy.guarantee import AttackBudget
from discreet.releases import read, verify
from discreet.report import write_report
from discreet.utility import compare

pytestmark = [pytest.mark.filterwarnings("ignore::discreet._core.errors.ReleaseTakenForSample")]

SOURCE = Path(__file__).parents[2] / "src" / "discreet"
LISTED = Path(__file__).with_name("unfollowed_remedies.txt")
VERBS = [
    "add", "allow", "ask", "begin", "build", "call", "cast", "check", "choose", "compare", "complete", "correct",
    "cut", "declare", "define", "divide", "drop", "end", "exchange", "fill", "fit", "free", "get", "give",
    "install", "keep", "leave", "list", "look", "lower", "make", "mount", "move", "name", "open", "order", "pass",
    "pick", "plan", "put", "quote", "raise", "read", "recode", "release", "remove", "rename", "repeat", "replace",
    "round", "run", "save", "say", "scale", "select", "set", "show", "sort", "split", "start", "subtract", "sum",
    "take", "tell", "train", "try", "update", "upgrade", "use", "wait", "widen", "write",
]  # fmt: skip
IMPERATIVE = re.compile(rf"(?:^|: |[.:] )(?:{'|'.join([*VERBS, *map(str.capitalize, VERBS)])})\b(?! [a-z]+s\b$)")


class Case(NamedTuple):
    remedy: str
    refused: Callable[[], Any]
    followed: Callable[[], Any]


def remedies() -> dict[str, str]:
    """Return every text of the library that tells its reader what to do, and where; holes for what is filled in."""
    sentences = tomllib.loads((SOURCE / "wording.toml").read_text())
    kinds = [kind.values() if isinstance(kind, dict) else [kind] for kind in sentences.values()]
    told = [re.sub(r"\{[^}]*\}", "{}", text) for text in itertools.chain.from_iterable(kinds) if isinstance(text, str)]
    texts = {text: "wording.toml" for text in told if IMPERATIVE.search(text)}
    for path in sorted(SOURCE.rglob("*.py")):
        if path.parent.name == "cli":
            continue
        nodes = list(ast.walk(ast.parse(path.read_text())))
        skipped = {node.value for node in nodes if isinstance(node, ast.Expr)}
        skipped |= {part for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in nodes:
            text = ""
            if isinstance(node, ast.JoinedStr):
                text = "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skipped:
                text = node.value
            if " " in text and "\n" not in text and IMPERATIVE.search(text):
                texts[text] = path.relative_to(SOURCE).as_posix()
    return texts


# -- declarations -----------------------------------------------------------------------------------------------------

COLUMNS = [  # of one column: remedy, what is declared, and what is declared then
    ("Exchange the two", 'type = "integer"\nlower = 5\nupper = 3', 'type = "integer"\nlower = 3\nupper = 5'),
    ("Leave a column of one value out", 'type = "integer"\nlower = 3\nupper = 3', 'type = "category"\ncategories = [3]'),
    ("is not declared, and is never read from the data. Write: ", 'type = "integer"\nlower = 0', 'type = "integer"\nlower = 0\nupper = 100'),
    ('out_of_bounds = "null" needs nulls = "category". Write both', 'type = "boolean"\nout_of_bounds = "null"', 'type = "boolean"\nout_of_bounds = "null"\nnulls = "category"'),
    ('no text "other" is among them. Write out_of_bounds = "null"', 'type = "category"\ncategories = [1, 2]\nout_of_bounds = "other"',
     'type = "category"\ncategories = [1, 2]\nout_of_bounds = "null"\nnulls = "category"'),
    ("must be positive finite numbers. Leave a cell that cannot occur out", 'type = "category"\ncategories = ["a", "b", "c"]\nbase = {weights = [1, 2, 0]}',
     'type = "category"\ncategories = ["a", "b"]\nbase = {weights = [1, 2]}'),
    ("a total of at most 2**31. Divide them", 'type = "category"\ncategories = ["a", "b"]\nbase = {weights = [3000000000, 1000000001]}',
     'type = "category"\ncategories = ["a", "b"]\nbase = {weights = [3, 1]}'),
    ("the bounds must be within 2**62 steps of 0. Subtract a public number", 'type = "integer"\nlower = 9223372036854775000\nupper = 9223372036854775100',
     'type = "integer"\nlower = 0\nupper = 100'),
    ("a grid cannot be combined with cells, spacing or step. Leave them out", 'type = "numeric"\nlower = 0\nupper = 9\ngrid = [0, 9]\ncells = 3',
     'type = "numeric"\nlower = 0\nupper = 9\ngrid = [0, 9]'),
    ("step is too short for the bounds. Round the bounds or lengthen it", 'type = "numeric"\nlower = 0\nupper = 1e9\nstep = 1e-20', 'type = "numeric"\nlower = 0\nupper = 1e9\nstep = 0.01'),
    ("some would be narrower than a float64. Declare fewer", 'type = "numeric"\nlower = 1\nupper = 1.0000000000000004\ncells = 100',
     'type = "numeric"\nlower = 1\nupper = 1.0000000000000004\ncells = 2'),
    ("some hold no float32. Declare fewer, or take dtype = 'float64'", 'type = "numeric"\nlower = 1\nupper = 1.000001\ncells = 100\ndtype = "float32"',
     'type = "numeric"\nlower = 1\nupper = 1.000001\ncells = 100\ndtype = "float64"'),
    ('needs whole points. Declare step = 1, or type = "integer"', 'type = "numeric"\nlower = 0\nupper = 9\ncells = 3\ndtype = "int64"',
     'type = "numeric"\nlower = 0\nupper = 9\ncells = 3\ndtype = "int64"\nstep = 1'),
    ("has a time zone. Declare time_zone, or leave out the offset", 'type = "datetime"\nstep = "1h"\nlower = 2024-01-01T00:00:00Z\nupper = 2024-02-01T00:00:00Z',
     'type = "datetime"\nstep = "1h"\nlower = 2024-01-01T00:00:00Z\nupper = 2024-02-01T00:00:00Z\ntime_zone = "UTC"'),
    ("null_values must hold no declared value. Leave it out of them", 'type = "category"\ncategories = ["a", "NA"]\nnull_values = ["NA"]\nnulls = "category"',
     'type = "category"\ncategories = ["a"]\nnull_values = ["NA"]\nnulls = "category"'),
    ("censored needs cells, at most", 'type = "numeric"\nlower = 0\nupper = 45\ncensored = [">45"]', 'type = "numeric"\nlower = 0\nupper = 45\ncensored = [">45"]\ncells = 9'),
    ("open labels have no base measure to declare. Leave base out", 'type = "open_labels"\nbase = {a = 1}', 'type = "open_labels"'),
    ("a domain is not. Drop the key weight", 'type = "numeric"\nlower = 0\nupper = 9\nweight = true', 'type = "numeric"\nlower = 0\nupper = 9'),
]  # fmt: skip

A_B = '[columns.a]\ntype = "category"\ncategories = ["u", "v"]\n[columns.b]\ntype = "integer"\nlower = 1\nupper = 3\n'
TOTALS = '[[totals]]\ncolumn = "a"\nsource = "census"\ncounts = '
CROSSED = '[[impossible]]\na = "u"\nb = [2, 3]\n[[impossible]]\na = "v"\nb = [1, 3]\n'
TWO_NUMBERS = "".join(f'[columns.{name}]\ntype = "numeric"\nlower = 0\nupper = 6\ncells = {{}}\n' for name in "xy")
DIFFERENCE = 'difference = {of = "y", from = "x", lower = -2, upper = 4}\n'
NULLS = '3\nnulls = "category"'
DECLARED = [  # of a whole domain
    ("Declare cells of one width", DIFFERENCE + TWO_NUMBERS.format(3, 2), DIFFERENCE + TWO_NUMBERS.format(3, 3)),
    ("fewer than two differences lie between lower and upper. Widen them", DIFFERENCE.replace("-2, upper = 4", "0, upper = 1") + TWO_NUMBERS.format(3, 3),
     DIFFERENCE + TWO_NUMBERS.format(3, 3)),
    (" has nulls. Declare nulls = ", DIFFERENCE + TWO_NUMBERS.format(NULLS, 3), DIFFERENCE + TWO_NUMBERS.format(NULLS, NULLS)),
    ("is also under a rule or totals. Leave one of them out", 'order = ["x", "y"]\n' + DIFFERENCE + TWO_NUMBERS.format(3, 3), DIFFERENCE + TWO_NUMBERS.format(3, 3)),
    ("overlap in part, or hold other values. Declare the same type, bounds, step and cells for both", 'order = ["x", "y"]\n' + TWO_NUMBERS.format(3, 2),
     'order = ["x", "y"]\n' + TWO_NUMBERS.format(3, 3)),
    ("in a circle, which would make values within a cell equal. Drop a rule on them", 'order = [["x", "y"], ["y", "x"]]\n' + TWO_NUMBERS.format(3, 3),
     'order = [["x", "y"]]\n' + TWO_NUMBERS.format(3, 3)),
    ("has no nulls. Declare nulls = ", 'nulls_together = ["x", "y"]\n' + TWO_NUMBERS.format(3, 3),
     'nulls_together = ["x", "y"]\n' + TWO_NUMBERS.format('3\nnulls = "category"', '3\nnulls = "category"')),
    ("determines names two columns. Write one pair for each", 'determines = ["x", "y", "a"]\n' + TWO_NUMBERS.format(3, 3) + A_B,
     'determines = [["x", "y"], ["x", "a"]]\n' + TWO_NUMBERS.format(3, 3) + A_B),
    ("under another rule or totals. Leave one of them out", 'determines = ["x", "y"]\norder = ["x", "y"]\n' + TWO_NUMBERS.format(3, 3),
     'determines = ["x", "y"]\n' + TWO_NUMBERS.format(3, 3)),
    ("Write it above all [columns.NAME]", A_B + 'outcome = "a"', 'outcome = "a"\n' + A_B),
    (". Declare one type for both", 'order = ["b", "c"]\n' + A_B + '[columns.c]\ntype = "date"\nlower = "2020-01-01"\nupper = "2020-01-09"',
     'order = ["b", "c"]\n' + A_B + '[columns.c]\ntype = "integer"\nlower = 2\nupper = 9'),
    ("has no type. Quote a name with a dot: [columns.", '[columns.c.d]\ntype = "boolean"', '[columns."c.d"]\ntype = "boolean"'),
    (". Quote the name: ", '[columns.my col]\ntype = "boolean"', '[columns."my col"]\ntype = "boolean"'),
    ("must have at least one column. Declare it under [columns.NAME]", "", '[columns.x]\ntype = "boolean"'),
    ("read this name as a pattern. Rename the column", '[columns."*"]\ntype = "boolean"', '[columns.star]\ntype = "boolean"'),
    ("leave no value of column {}. Correct a rule", A_B + '[[impossible]]\na = ["u"]\n[[impossible]]\na = ["v"]', A_B + '[[impossible]]\na = ["u"]'),
    ("leave no values of the columns {} together. Correct a rule", A_B + CROSSED + '[[impossible]]\na = "u"\n[[impossible]]\nb = 2', A_B + CROSSED + '[[impossible]]\na = "u"'),
    ("must be a list of tables. Write [[{}]] above each", A_B + '[impossible]\na = "u"', A_B + '[[impossible]]\na = "u"'),
    ("keys from, below and null{}. Write {from = 15}", A_B + '[[impossible]]\na = "u"\nb = {to = 2}', A_B + '[[impossible]]\na = "u"\nb = {below = 2}'),
    ("no value fits the condition. Leave it out", A_B + '[[impossible]]\na = "u"\nb = {from = 4}', A_B + '[[impossible]]\na = "u"'),
    ("Write under from or below where a cell begins, or declare other cells", A_B + '[[impossible]]\na = "u"\nc = {from = 4}\n[columns.c]\ntype = "numeric"\nlower = 0\nupper = 9\ncells = 3',
     A_B + '[[impossible]]\na = "u"\nc = {from = 3}\n[columns.c]\ntype = "numeric"\nlower = 0\nupper = 9\ncells = 3'),
    ("has totals already. Leave one of them out", A_B + 2 * (TOTALS + "{u = 5, v = 5}\n"), A_B + TOTALS + "{u = 5, v = 5}"),
    ("its counts sum to 0. Leave it out", A_B + TOTALS + "{u = 0, v = 0}", A_B),
    ("and those of number 1 to {}. Make them agree", A_B + TOTALS + '{u = 5, v = 5}\n[[totals]]\ncount = 11\nsource = "census"',
     A_B + TOTALS + '{u = 5, v = 5}\n[[totals]]\ncount = 10\nsource = "census"'),
    ("Write 0 for a value that no record has", A_B + TOTALS + "{u = 5}", A_B + TOTALS + "{u = 5, v = 0}"),
    ("Write the count of null as [{null = true}, COUNT]", A_B.replace("[columns.b]", 'nulls = "category"\n[columns.b]') + TOTALS + "{u = 5, v = 5}",
     A_B.replace("[columns.b]", 'nulls = "category"\n[columns.b]') + TOTALS + '[["u", 5], ["v", 5], [{null = true}, 1]]'),
    ("column {} has no cells. Declare cells, a grid or categories", A_B + '[[impossible]]\nc = {from = 4}\n[columns.c]\ntype = "numeric"\nlower = 0\nupper = 9',
     A_B + '[[impossible]]\nc = {from = 6}\n[columns.c]\ntype = "numeric"\nlower = 0\nupper = 9\ncells = 3'),
]  # fmt: skip


def declared_in(encoding: str) -> Domain:
    Path("d.toml").write_text('[columns."größe"]\ntype = "boolean"\n', encoding)
    return Domain.read("d.toml")


HALVES, MILES = Numeric(lower=0, upper=4, cells=2, nulls="category"), Integer(lower=0, upper=4, nulls="category")
RULED_COLUMNS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("or cells of single values", {"high": Numeric(lower=0, upper=4, cells=3), "order": ["low", "high"]}, {"order": ["low", "high"]}),
    ("or cells of single values", {"low": Integer(lower=0, upper=4, cells=1), "high": Numeric(lower=0, upper=4, cells=1), "order": ["low", "high"]},
     {"low": MILES, "high": MILES, "order": ["low", "high"]}),
    ("{}. Declare one type for both", {"low": Duration(lower="0s", upper="4h", step="1h"), "order": ["low", "high"]}, {"order": ["low", "high"]}),
    ("Drop a rule on them, or", {"order": ["low", "high"], "at_most": {"high": "low"}}, {"order": ["low", "high"]}),
    ("declare cells of single values", {"order": ["low", "high"], "at_most": {"high": "low"}},
     {"low": MILES, "high": MILES, "order": ["low", "high"], "at_most": {"high": "low"}}),
    ('Declare nulls = "category" for it, or', {"low": Integer(lower=0, upper=4), "nulls_together": ["low", "high"]}, {"nulls_together": ["low", "high"]}),
]  # fmt: skip


def ruled(low: Any = HALVES, high: Any = HALVES, **rules: Any) -> Domain:
    return Domain(columns={"low": low, "high": high}, **rules)


def of_declarations() -> Iterator[Case]:
    yield Case("save it as UTF-8", lambda: declared_in("latin-1"), lambda: declared_in("utf-8"))
    for remedy, before, after in COLUMNS:
        texts = [f"[columns.x]\n{text}\n" for text in (before, after)]
        yield Case(remedy, lambda t=texts: Domain.from_toml(t[0]), lambda t=texts: Domain.from_toml(t[1]))  # type: ignore[misc]
    for remedy, before, after in DECLARED:
        yield Case(remedy, lambda t=before: Domain.from_toml(t), lambda t=after: Domain.from_toml(t))  # type: ignore[misc]
    for remedy, before, after in RULED_COLUMNS:
        yield Case(remedy, lambda facts=before: ruled(**facts), lambda facts=after: ruled(**facts))  # type: ignore[misc]


# -- values -----------------------------------------------------------------------------------------------------------

NINE = Integer(lower=0, upper=9)
DAYS = Date(lower="2020-01-01", upper="2020-12-31")
MOMENTS = {"lower": "2020-01-01", "upper": "2020-12-31", "step": "1d"}
VALUES: list[tuple[str, Any, Any, Any, Any]] = [  # remedy, column and values, and what they are then
    ("or fill in the nulls beforehand", NINE, [1, None], Integer(lower=0, upper=9, nulls="category"), [1, None]),
    ("or fill in the nulls beforehand", NINE, [1, None], NINE, [1, 0]),
    ('or declare out_of_bounds = "clip"', NINE, [1, 99], Integer(lower=0, upper=9, out_of_bounds="clip"), [1, 99]),
    ("widen lower and upper", NINE, [1, 99], Integer(lower=0, upper=99), [1, 99]),
    ('declare type = "{}", or cast it', NINE, [dt.time(1)], discreet.domain.Time(step="1h"), [dt.time(1)]),
    ('declare type = "{}", or cast it', DAYS, [1.5], Numeric(lower=0, upper=2), [1.5]),
    ('declare type = "{}", or cast it', OpenLabels(), [1], OpenLabels(), ["1"]),
    ("or cast it: no type takes such values", OpenLabels(), [[1]], OpenLabels(), ["1"]),
    ("cast the column to the declared {}", NINE, [1, "a", dt.date(2020, 1, 1)], NINE, [1, 2, 3]),
    ('round them, or declare type = "numeric"', NINE, [1.5], Numeric(lower=0, upper=9), [1.5]),
    ("round them, or raise digits", Decimal(lower="0", upper="9", digits=1), [Exact("1.25")], Decimal(lower="0", upper="9", digits=2), [Exact("1.25")]),
    ("declare it (from public knowledge), or recode", Category(categories=["a"]), ["b"], Category(categories=["a", "b"]), ["b"]),
    ("choose another prefix", OpenLabels(), ["new_category_1"], OpenLabels(prefix="unseen_"), ["new_category_1"]),
    ('cut them off, or declare type = "datetime"', DAYS, [dt.datetime(2020, 1, 1, 5)], Datetime(**MOMENTS), [dt.datetime(2020, 1, 1, 5)]),
    ('declare its time_zone, such as "Europe/Paris"', Datetime(**MOMENTS), pl.Series([dt.datetime(2020, 1, 2)]).dt.replace_time_zone("UTC"),
     Datetime(**MOMENTS, time_zone="Europe/Paris"), pl.Series([dt.datetime(2020, 1, 2)]).dt.replace_time_zone("UTC")),
    ("leave time_zone out", Datetime(**MOMENTS, time_zone="UTC"), [dt.datetime(2020, 1, 2)], Datetime(**MOMENTS), [dt.datetime(2020, 1, 2)]),
    ("declare how they are written, for example: {}", DAYS, ["3/14/2020"], Date(lower="2020-01-01", upper="2020-12-31", format="%m/%d/%Y"), ["3/14/2020"]),
    ("correct what is declared: {}", Date(lower="2020-01-01", upper="2020-12-31", format="%d.%m.%Y"), ["3/14/2020"],
     Date(lower="2020-01-01", upper="2020-12-31", format="%m/%d/%Y"), ["3/14/2020"]),
    ("write them so", Duration(lower="0s", upper="9h", step="1h"), ["07:35"], Duration(lower="0s", upper="9h", step="1h"), ["7h35m"]),
    ('What stands for a null: null_values = ["NA"]', NINE, ["1", "NA"], Integer(lower=0, upper=9, nulls="category", null_values=["NA"]), ["1", "NA"]),
]  # fmt: skip


CHECKED: list[tuple[str, Any, Any, Any, Any]] = [  # likewise, by domain check
    ("correct it, or recode it as a null", Numeric(lower=0, upper=9), [np.inf], Numeric(lower=0, upper=9, nulls="category"), [None]),
    ("correct the rows if they are wrong", NINE, [5, 5], NINE, [4, 4]),
]  # fmt: skip


def check(column: Any, values: Any) -> None:
    domain = Domain(columns={"x": column, "y": Boolean()}, impossible=[{"x": 5, "y": True}] if column is NINE else [])
    findings = reveal_to_custodian(check_table(pl.DataFrame({"x": values, "y": True}), domain)).findings
    if findings:
        raise DataError("x", findings[0].problem, "; ".join(finding.remedy for finding in findings))


def of_values() -> Iterator[Case]:
    for remedy, column, values, then, those in CHECKED:
        yield Case(remedy, lambda c=column, v=values: check(c, v), lambda c=then, v=those: check(c, v))  # type: ignore[misc]
    for remedy, column, values, then, those in VALUES:
        yield Case(
            remedy, lambda c=column, v=values: c.encode(v, name="x"), lambda c=then, v=those: c.encode(v, name="x")
        )  # type: ignore[misc]


# -- files and tables -------------------------------------------------------------------------------------------------

PERSONS = Domain(columns={"age": Integer(lower=0, upper=99), "sex": Category(categories=["f", "m"])})
ROWS = "age,sex\n31,f\n40,m\n"
FILES: list[tuple[str, str, bytes, str, bytes]] = [  # remedy, a file's name and content, and what they are then
    ("complete it if it is cut, and put values that hold a separator in quotes", "t.csv", b"age,sex\n31,f\n40\n", "t.csv", ROWS.encode()),
    ("save it as UTF-8 or name its encoding", "t.csv", ROWS.replace("m", "ü").encode("latin-1"), "t.csv", ROWS.encode()),
    ("name its separator, or save it with {}", "t.csv", ROWS.replace(",", ";").replace("\n", "\t\n", 1).encode(), "t.csv", ROWS.encode()),
    ("give a file with a table", "t.csv", b"", "t.csv", ROWS.encode()),
    ("leave .gz out of its name", "t.csv.gz", ROWS.encode(), "t.csv", ROWS.encode()),
    ("end its name in .parquet", "t.csv", b"PARQUET", "t.parquet", b"PARQUET"),
    ("end its name in .arrow", "t.csv", b"ARROW", "t.arrow", b"ARROW"),
    ("end its name in .csv.gz if it is CSV", "t.csv", b"GZIP", "t.csv.gz", b"GZIP"),
    ("save its table as CSV or give a dataframe", "t.csv", b'[{"age": 31}]', "t.csv", ROWS.encode()),
    ("give a file in {}", "t.txt", ROWS.encode(), "t.csv", ROWS.encode()),
    ("give the complete file, in this format", "t.parquet", b"PAR1", "t.parquet", b"PARQUET"),
    ("save it without lines above the names of the columns", "t.csv", b"People,,\n" + ROWS.encode(), "t.csv", ROWS.encode()),
    ("put the whole field in quotes, and double each quote within it", "t.csv", b'age,sex\n31,"f"f\n', "t.csv", ROWS.encode()),
    ("give the file a header line, and every column its own name", "t.csv", b"age,age\n31,f\n", "t.csv", ROWS.encode()),
    ("it has {} of {} asked for. Check {}", "t.csv", b"31,f\n40,m\n", "t.csv", ROWS.encode()),
    ("a column has this name but for blanks or capital letters. Give both the same name", "t.csv", b"Age,sex\n31,f\n", "t.csv", ROWS.encode()),
    ("declare it, or leave such columns aside", "t.csv", b"age,sex,zip\n31,f,9\n", "t.csv", ROWS.encode()),
    ("name it there. If that line is a record", "t.csv", b"age,\n31,f\n", "t.csv", ROWS.encode()),
    ("save the file without it. If it stands for a null", "one.csv", b"age\n31\n\n40\n", "t.csv", ROWS.encode()),
    ("save the file with line feeds", "t.csv", ROWS.replace("\n", "\r").encode(), "t.csv", ROWS.encode()),
    ("put one first", "t.csv", b",\n31,f\n", "t.csv", ROWS.encode()),
    ("check the path", "none.csv", b"-", "t.csv", ROWS.encode()),
]  # fmt: skip


def content(text: bytes, path: Path) -> None:
    frame = pl.DataFrame({"age": [31, 40], "sex": ["f", "m"]})
    match text:
        case b"-":
            path.unlink(missing_ok=True)
        case b"PARQUET":
            frame.write_parquet(path)
        case b"ARROW":
            frame.write_ipc(path)
        case b"GZIP":
            import gzip

            path.write_bytes(gzip.compress(ROWS.encode()))
        case _:
            path.write_bytes(text)


def taken(name: str, text: bytes, folder: str) -> None:
    Path(folder).mkdir(exist_ok=True)
    content(text, Path(folder, name))
    checked = reveal_to_custodian(check_table(Path(folder, name), PERSONS))
    confidential(Path(folder, name), PERSONS)
    assert checked.fits


def of_files() -> Iterator[Case]:
    for remedy, name, text, new, other in FILES:
        yield Case(remedy, lambda n=name, t=text: confidential_file(n, t), lambda n=new, t=other: taken(n, t, "after"))  # type: ignore[misc]
    frame = pl.DataFrame({"age": [31, 40], "sex": ["f", "m"]})
    indexed = frame.to_pandas().set_index("age")
    twice = pd.DataFrame([[1, 2]], columns=["x", "x"])
    one = Domain(columns={"x": NINE})
    yield from [
        Case("write it after reset_index()", lambda: confidential(indexed, PERSONS), lambda: confidential(indexed.reset_index(), PERSONS)),
        Case("give every column its own name", lambda: confidential(twice, one), lambda: confidential(twice.set_axis(["x", "y"], axis=1), one, accept={"other-columns"})),
        Case("pass a pandas, Polars, PyArrow, DuckDB", lambda: confidential([{"x": 1}], one), lambda: confidential(pl.DataFrame([{"x": 1}]), one)),
        Case("declare it, or leave such columns aside with accept={'other-columns'}", lambda: confidential(frame.with_columns(z=1), PERSONS),
             lambda: confidential(frame.with_columns(z=1), PERSONS, accept={"other-columns"})),
        Case("If it holds the names of the columns, write header=True", lambda: years(header=False), lambda: years(header=True)),
        Case("give the address of its table", lambda: confidential(database(), one), lambda: confidential(f"sqlite:///{database()}?table=t", one)),
        Case("check the name of the table, and that nothing else", lambda: confidential(f"sqlite:///{database()}?table=u", one), lambda: confidential(f"sqlite:///{database()}?table=t", one)),
        Case("give the folder, where it holds Parquet files", lambda: confidential("in/*.parquet", PERSONS), lambda: folder_of_parquet("in")),
        Case("give a folder of Parquet files alone. {}", lambda: folder_of_parquet("mixed", stray=True), lambda: folder_of_parquet("pure")),
        Case("write all of them alike. {}", lambda: folder_of_parquet("unlike", unlike=True), lambda: folder_of_parquet("alike")),
        Case("give a file, or a folder of Parquet files", lambda: confidential("/dev/null", PERSONS), lambda: taken("t.csv", ROWS.encode(), "after")),
        Case("give one with rows", lambda: compare(frame.clear(), frame, PERSONS), lambda: compare(frame, frame, PERSONS, resamples=1)),
    ]  # fmt: skip
    table = lambda: confidential(f"sqlite:///{database()}?table=t", one)  # noqa: E731
    reserved = frame.rename({"age": "discreet: x"})
    other = pl.concat([TABLE.head(90), TABLE.tail(7)])
    yield from [
        Case("give one with them, or one file", lambda: confidential(emptied(), PERSONS), lambda: folder_of_parquet("full")),
        Case("give one table", lambda: partitions("a=1", "b=2"), lambda: partitions("a=1", "a=2")),
        Case("give it one place", lambda: partitions("age=1", "age=2"), lambda: partitions("a=1", "a=2")),
        Case("write {}?table=NAME", lambda: confidential(f"sqlite:///{database()}", one), table),
        Case("write postgresql://...?table=NAME", lambda: confidential("mysql://x/y", one), table),
        Case("a table and a query are given. Leave one of them out", lambda: addressed(database(), table="t", query="SELECT 1"), lambda: addressed(database(), table="t", query=None)),
        Case("leave the table or the query out, or give a database", lambda: addressed(str(LISTED), table="t", query=None), lambda: addressed(database(), table="t", query=None)),
        Case("check that the query is one SELECT statement", lambda: confidential(f"sqlite:///{database()}?query=DELETE FROM t", one),
             lambda: confidential(f"sqlite:///{database()}?query=SELECT x FROM t", one)),
        Case("rename the column", lambda: confidential(reserved, Domain(columns={"discreet: x": NINE}), accept={"other-columns"}), lambda: confidential(frame, PERSONS)),
        Case("Give facts that were fixed without looking at it", lambda: ask(reference=TABLE), lambda: ask(reference=other)),
    ]  # fmt: skip
    units = frame.with_columns(person=pl.Series([1, None], dtype=pl.Int64))
    slots = Unit("person", max_records=1)
    yield from [
        Case("give every row its unit beforehand", lambda: confidential(units, nullable(), unit=slots), lambda: confidential(units.with_columns(person=1), nullable(), unit=slots)),
        Case('need a null cell. Write: nulls = "category"', lambda: confidential(frame.with_columns(person=1), PERSONS, unit=slots),
             lambda: confidential(frame.with_columns(person=1), nullable(), unit=slots)),
    ]  # fmt: skip


def nullable() -> Domain:
    sex = Category(categories=["f", "m"], nulls="category")
    return Domain(columns={"age": Integer(lower=0, upper=99, nulls="category"), "sex": sex})


def confidential_file(name: str, text: bytes) -> None:
    content(text, Path(name))
    confidential(name, PERSONS)


def emptied() -> str:
    Path("empty").mkdir(exist_ok=True)
    return "empty"


def partitions(*names: str) -> None:
    for name in names:
        Path("parts", name).mkdir(parents=True, exist_ok=True)
        pl.DataFrame({"age": [31, 40], "sex": ["f", "m"]}).write_parquet(Path("parts", name, "x.parquet"))
    try:
        confidential("parts", PERSONS, accept={"other-columns"})
    finally:
        shutil.rmtree("parts")


def years(*, header: bool) -> None:
    Path("y.csv").write_text("region,1990\nA,1\n")
    table_schema("y.csv", header=header)


def database() -> str:
    Path("t.db").unlink(missing_ok=True)
    with sqlite3.connect("t.db") as file:
        file.execute("CREATE TABLE t (x INTEGER)")
        file.execute("INSERT INTO t VALUES (1)")
    return "t.db"


def folder_of_parquet(name: str, *, stray: bool = False, unlike: bool = False) -> None:
    Path(name).mkdir(exist_ok=True)
    frame = pl.DataFrame({"age": [31, 40], "sex": ["f", "m"]})
    frame.write_parquet(Path(name, "a.parquet"))
    frame.with_columns(pl.col("age").cast(pl.Int32 if unlike else pl.Int64)).write_parquet(Path(name, "b.parquet"))
    if stray:
        Path(name, "notes.txt").write_text("x")
    confidential(name, PERSONS)


# -- requests ---------------------------------------------------------------------------------------------------------

TABLE = pl.DataFrame({"x": [True, False] * 100, "y": ["a", "b", "c", "c"] * 50, "who": list(range(200))})
XY = Domain(columns={"x": Boolean(nulls="category"), "y": Category(categories=["a", "b", "c"], nulls="category")})
TOLD = Domain(columns=XY.columns, determines=["x", "y"])
COIN = Domain(columns={"who": Integer(lower=0, upper=199, cells=4, coin=True)})
TREE = {"mechanism": "hierarchical-histogram"}
TWO = {"mechanism": "marginals", "size": 20}
BUDGET = Budget(epsilon=3.0, delta=1e-6)


def ask(domain: Any = XY, budget: Any = BUDGET, data: Any = None, **request: Any) -> Any:
    request = {"size": 20, "accept": {"other-columns"}, "mechanism": "perturbed-histogram", **request}
    return discreet.release(TABLE if data is None else data, domain, budget, **request)


def closed(**options: Any) -> Any:
    return confidential(TABLE.select("x", "y", *(["who"] if options else [])), XY, **options)


REQUESTS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("costs privacy or utility. Write size=", {"size": None}, {"size": 20}),
    ("alone. Take it, or leave tables out", {"tables": 3}, {"tables": 3, **TWO, "out": Output("several")}),
    ("counts are one table. For them leave tables out", {"tables": 3, "counts": True, **TWO, "size": None}, {"counts": True, "size": None}),
    ("counts of coins are not counts of values. Ask for records, or leave coin out", {"domain": COIN, "counts": True, "size": None, **TREE}, {"domain": COIN, **TREE}),
    ("coin is for a table of one column, released by {}. Leave it out", {"domain": COIN}, {"domain": Domain(columns={"who": Integer(lower=0, upper=199, cells=4)})}),
    ("write mechanism=... as well", {"prior": 3.0, "mechanism": None}, {"prior": 3.0, "mechanism": "dirichlet-multinomial"}),
    ("Leave it out", {"n": 200}, {}),
    ("releases records, not counts. Ask for records, and write size=...", {"counts": True, "size": None, "mechanism": "dirichlet-multinomial"}, {"mechanism": "dirichlet-multinomial"}),
    ("has no theorem for the {} relation: {}. Use 'replacement'", {"relation": AddRemove(records=200)}, {}),
    ("Name one, such as private-evolution, or leave it out", {"out": Output(checkpoint="c"), "mechanism": None}, {"mechanism": None}),
    ("takes one step. Leave the checkpoint out", {"out": Output(checkpoint="c")}, {}),
    ("workload names {}, which is no column. Write COLUMN or COLUMN*COLUMN", {"workload": "z", **TWO}, {"workload": "x*y", **TWO}),
    ("given names {}, which is no column. Quote names of more than", {"given": "a.b = 1", **TWO}, {"given": '"y" = "a"', **TWO}),
    ("which follows from another column. Name other columns", {"domain": TOLD, "given": 'y = "a"', **TWO}, {"domain": TOLD, "given": "x = true", **TWO}),
    ("Leave given out, and analyse the records", {"given": "x = true", "tables": 2, **TWO, "out": Output("g")}, {"tables": 2, **TWO, "out": Output("g2")}),
    ("is for columns of open labels, and the domain has none. Leave it out", {"threshold": 3, **TWO}, TWO),
    ("does not keep what the domain declares under {}. Use {}", {"domain": Domain(columns=XY.columns, impossible=[{"x": True, "y": "a"}])}, {"domain": Domain(columns=XY.columns, impossible=[{"x": True, "y": "a"}]), **TWO}),
    ("has the name of a column of counts. Rename it", {"domain": Domain(columns={"count": Boolean()}), "data": TABLE.rename({"x": "count"}), "counts": True, "size": None}, {"counts": True, "size": None}),
    ("Take an epsilon of at most {}", {"budget": Budget(epsilon=20.0)}, {"budget": Budget(epsilon=10.0)}),
    ("Take a delta far below 1/{}", {"budget": Budget(epsilon=1.0, delta=0.1)}, {"budget": Budget(epsilon=1.0, delta=1e-6)}),
    ("allow a larger epsilon", {"budget": Budget(epsilon=0.001)}, {"budget": Budget(epsilon=3.0)}),
    ("is enough", {"budget": Budget(epsilon=0.01), "mechanism": None}, {"budget": Budget(epsilon=0.5)}),
    ("write accept={{}}", {"mechanism": "pitman-yor", "sampler": "mixing"}, {"mechanism": "pitman-yor", "sampler": "mixing", "accept": {"other-columns", "empirical", "poor-utility"}}),
    ("Give the table's number, which is public under replacement, or leave it out", {"relation": Replacement(records=5), "data": closed, "domain": None}, {"relation": Replacement(records=200), "data": closed, "domain": None}),
    ("beside that of its table. Write out=Output(..., certificate=...)", {"out": lambda: Output(certificate="c.json")}, {"out": lambda: Output("o.csv", certificate="c.json")}),
    ("are for a release in parts. Write out=Output(..., partitions=...)", {"out": lambda: Output("o2", workers=2)}, {"out": lambda: Output("o2", partitions=2)}),
    ("is a folder that must not exist yet. Write out=...", {"out": lambda: Output(partitions=2)}, {"out": lambda: Output("o3", partitions=2)}),
    ("cannot be released in parts. Leave partitions out", {"out": Output("o4", partitions=2), "counts": True, "size": None}, {"out": Output("o4.csv")}),
    ("Write Budget(epsilon=...)", {"budget": 3.0}, {"budget": Budget(epsilon=3.0)}),
    ("Write unit=Unit(..., max_records=...)", {"unit": "who"}, {"unit": Unit("who", max_records=1)}),
    ("Write counts=True", {"counts": 1}, {"counts": True, "size": None}),
    ("Leave it out where nobody listens", {"watch": None}, {}),
    ("what is public about the columns. Write release(data, domain, ...)", {"domain": None}, {}),
    ("was counted on another domain. Leave the domain out", {"data": closed, "domain": Domain(columns={"x": XY.columns["x"]})}, {"data": closed, "domain": None}),
    ("was read with another unit. Leave the unit out", {"data": closed, "unit": Unit("who", max_records=1), "domain": None}, {"data": closed, "domain": None}),
    ("a mechanism that is given has its parameters. Leave {} out", {"mechanism": lambda: fixed(XY), "prior": 2.0, "budget": None}, {"mechanism": lambda: fixed(XY), "budget": None, "accept": {"other-columns", "poor-utility"}}),
    ("was made for another domain than the table's. Give both the same", {"mechanism": lambda: fixed(PERSONS), "budget": None}, {"mechanism": lambda: fixed(XY), "budget": None, "accept": {"other-columns", "poor-utility"}}),
    ("{}=... is an argument of earlier versions. Write {}", {"max_records": 1}, {"unit": Unit("who", max_records=1)}),
    ("partition_by: {}. Name another column", {"out": Output("o5", partitions=1, partition_by="x"), "domain": Domain(columns={"x": Boolean()})}, {"out": Output("o5", partitions=1, partition_by="y")}),
    ("give another name", {"out": lambda: beside("a.csv", "a.parquet")}, {"out": lambda: beside("b.csv", "c.parquet")}),
    ("end the name in {}", {"out": "o.xyz"}, {"out": "o.csv"}),
]  # fmt: skip


def fixed(domain: Domain) -> Any:
    return PerturbedHistogram(domain=domain, records=200, scale=3.0)


def wide(domain: Domain) -> Any:
    return Marginals(domain=domain, records=200, scale=10.0, units=200)


def beside(first: str, second: str) -> str:
    if first != "a.csv" or not Path(first).exists():
        ask(out=first)
    return second


def asked(request: dict[str, Any]) -> Any:
    return ask(**{name: value() if callable(value) else value for name, value in request.items()})


def of_requests() -> Iterator[Case]:
    continuous, cells = (Domain(columns={"who": Numeric(lower=0, upper=300, **more)}) for more in ({}, {"cells": 5}))
    yield Case(
        "needs a finite domain. Declare cells, a grid or categories", lambda: fixed(continuous), lambda: fixed(cells)
    )
    yield Case("marginals needs finite columns. Declare cells", lambda: wide(continuous), lambda: wide(cells))
    for remedy, before, after in REQUESTS:
        yield Case(remedy, lambda r=before: asked(r), lambda r=after: asked(r))  # type: ignore[misc]


# -- ledgers ----------------------------------------------------------------------------------------------------------

LABELS = Category(categories=["a", "b", "c", "other"], out_of_bounds="other")
TOTAL = Domain(columns={"x": Boolean(nulls="category", out_of_bounds="null"), "y": LABELS})


def paid(*, place: str = "x.ledger", dataset: str = "d", epsilon: float = 5.0, **request: Any) -> Any:
    if not Path(place).exists():
        Ledger.create(place, dataset=dataset, epsilon=epsilon, delta=1e-5)
    return ask(**{"domain": TOTAL, "ledger": Ledger(place), **request})


def twice(**options: Any) -> None:
    for dataset in ("d", "e"):
        Ledger.create("two.ledger", dataset=dataset, epsilon=1.0, delta=0.0)
    Ledger("two.ledger", **options)


def of_ledgers() -> Iterator[Case]:
    accept = {"other-columns", "data-dependent-refusal"}
    yield from [
        Case("would forfeit what a ledger pays for. Write in the domain", lambda: paid(domain=XY), paid),
        Case("To forfeit it all the same, write accept=", lambda: paid(domain=XY), lambda: paid(domain=XY, accept=accept)),
        Case("of epsilon {} and delta {}. Ask for less", lambda: paid(budget=Budget(epsilon=9.0)), lambda: paid(budget=Budget(epsilon=4.0))),
        Case("and no ledger pays for it. Leave seed out", lambda: paid(seed=1), paid),
        Case("make one with discreet ledger init", lambda: Ledger("no.ledger"), lambda: paid(place="no.ledger")),
        Case("data sets. Name one: dataset=...", twice, lambda: Ledger("two.ledger", "e")),
        Case("no plan in the ledger has a release {}", planned, lambda: planned(declare=True)),
        Case("a data set is named and no ledger. Write ledger=", lambda: write_page(dataset="d"), lambda: [paid(), write_page(dataset="d", ledger="x.ledger")]),
        Case("has a planned release {} already. Give it another name", lambda: [planned(declare=True), planned(declare=True)], lambda: planned(declare=True, name="another")),
    ]  # fmt: skip


def planned(*, declare: bool = False, name: str = "first") -> None:
    if not Path("p.ledger").exists():
        Ledger.create("p.ledger", dataset="d", epsilon=5.0, delta=1e-5)
    request = {"domain": TOTAL, "size": 20, "mechanism": "perturbed-histogram", "relation": Replacement(records=200)}
    budget = Budget(epsilon=2.0, delta=1e-6)
    if declare:
        made = plan_together([Request(part=name, **request)], budget)
        Ledger("p.ledger").declare(made)
        budget = made.parts[0].budget
    Ledger("p.ledger").part(name).pay(Request(budget=budget, **request))


def write_page(**options: Any) -> None:
    plan(TOTAL, BUDGET, records=200, mechanisms=["perturbed-histogram"]).write_page("plan.html", **options)


# -- releases and what is computed from them --------------------------------------------------------------------------


def released(name: str = "r.csv", **request: Any) -> str:
    if not Path(name).exists():
        ask(out=name, seed=1, **{"mechanism": "dirichlet-multinomial", **request})
    return name


def folder() -> str:
    if not Path("tables").exists():
        ask(**TWO, tables=3, out="tables", seed=1)
    return "tables"


def alone(name: str) -> str:
    """Copy a release without its certificate."""
    shutil.copy(released(), name)
    return name


def damaged() -> str:
    path = Path(released("damaged.csv"))
    path.write_bytes(path.read_bytes() + b"\n")
    return "damaged.csv"


def posterior(*, number: bool = False) -> Any:
    if number:
        domain = Domain(columns={"x": Boolean(), "n": Integer(lower=0, upper=3)})
        data = pl.DataFrame({"x": [True, False] * 100, "n": [0, 1, 2, 3] * 50})
        return ask(domain, data=data, mechanism="dirichlet-multinomial", seed=1).posterior(draws=20)
    return read(released()).posterior(draws=20)


def compared(**options: Any) -> None:
    compare(TABLE, released(), XY, resamples=10, **options)


def reported(out: str = "r.html", **options: Any) -> None:
    write_report(released(), out, resamples=10, **options)


def of_releases() -> Iterator[Case]:
    wide = {"column": "x"}
    yield from [
        Case("say where it is", lambda: read(alone("b.csv")).table(), lambda: read(alone("b.csv"), "r.certificate.json").table()),
        Case("give the two that were written together", lambda: read(damaged()).table(), lambda: read(released("whole.csv")).table()),
        Case("holds its certificate. Leave out the certificate", lambda: read(folder(), "tables/certificate.json"), lambda: read(folder())),
        Case("give the certificate written beside the release", lambda: verify("none.certificate.json"), lambda: verify(released("r.csv").replace(".csv", ".certificate.json"))),
        Case("beside its certificate. Leave data out", lambda: verify(folder(), data="tables"), lambda: verify(folder())),
        Case("name the column that {} is about. The columns are: {}", lambda: posterior().summary(["mean"]), lambda: posterior().summary(["mean"], **wide)),
        Case("needs values with an order. Ask for P(={}), the share of a category", lambda: posterior().summary(["mean"], column="y"), lambda: posterior().summary(["P(=a)"], column="y")),
        Case("name at least one functional, such as 'mean'", lambda: posterior().summary([], **wide), lambda: posterior().summary(["mean"], **wide)),
        Case("has no outcome. Write it as 'outcome ~ column + C(column)'", lambda: posterior().regress("y"), lambda: posterior().regress("x ~ C(y)")),
        Case("Write 'outcome ~ column + C(other)'", lambda: posterior().regress("x ~ ("), lambda: posterior().regress("x ~ C(y)")),
        Case("a logistic outcome must be 0 or 1: {}. Leave the kind out", lambda: posterior(number=True).regress("n ~ x", kind="logistic"), lambda: posterior(number=True).regress("n ~ x")),
        Case("to release several at once, such as 20, which cost no more than one", lambda: read(released("m.csv", **TWO)).posterior(), lambda: read(folder()).estimate(["mean"], **wide)),
        Case("several tables are analysed together. Take discreet.read(...).estimate", lambda: read(folder()).posterior(), lambda: read(folder()).estimate(["mean"], **wide)),
        Case("Earlier tables spent their own budget", lambda: [folder(), ask(**TWO, tables=3, out="tables")], lambda: ask(**TWO, tables=3, out="more")),
        Case("end the name in .html", lambda: reported("r.txt"), reported),
        Case("a domain is only needed with the confidential table. Give data as well", lambda: reported(domain=XY), lambda: reported(domain=XY, data=TABLE)),
        Case("are for the confidential table. Give data as well", lambda: reported(holdout=TABLE), lambda: reported(holdout=TABLE.head(50), data=TABLE, domain=XY)),
        Case("known columns are of use with a sensitive one only. Name it", lambda: compared(known=["x"]), lambda: compared(known=["x"], sensitive="y")),
        Case("are needed besides the sensitive one. Name at least one", lambda: compared(known=[], sensitive="y"), lambda: compared(known=["x"], sensitive="y")),
        Case("the budget is what the release may spend. Write Budget(", lambda: plan(XY, records=200), lambda: plan(XY, BUDGET, records=200, mechanisms=["perturbed-histogram"])),
        Case("{} is reached without a release. Allow more", lambda: ask(budget=Risk(detection=0.01, false_alarms=0.05)), lambda: ask(budget=Risk(detection=0.1, false_alarms=0.05))),
    ]  # fmt: skip
    accept = {"other-columns", "poor-utility"}
    verbatim = {"mechanism": "dirichlet-process", "budget": Advantage(0.2), "accept": accept}
    yield from [
        Case("Take another mechanism, allow less than {}", lambda: ask(**verbatim), lambda: ask(**{**verbatim, "mechanism": "perturbed-histogram"})),
        Case("Take another mechanism, allow less than {}", lambda: ask(**verbatim), lambda: ask(**{**verbatim, "budget": Advantage(1e-7)})),
        Case("{} has other fields. Give {}", lambda: AttackBudget.from_dict({"detection": 0.1}), lambda: AttackBudget.from_dict({"detection": 0.1, "false_alarms": 0.05})),
        Case("a page of budgets needs an epsilon above 0. Give epsilon=",
             lambda: plan(XY, Budget(epsilon=0.0, delta=1e-3), records=200, mechanisms=["stability-histogram"]).write_page("p.html"), write_page),
    ]  # fmt: skip


# -- mechanisms and plans ---------------------------------------------------------------------------------------------

POINTS = pl.DataFrame({"x": np.linspace(0.0, 1.0, 200)})
UNIT = Domain(columns={"x": Numeric(lower=0, upper=1)})
LABELLED = Domain(columns={"x": Numeric(lower=0, upper=1), "y": Boolean()})
RULED = Domain(columns=XY.columns, impossible=[{"x": True, "y": "a"}])


def evolve(domain: Domain = UNIT, **request: Any) -> Any:
    data = POINTS.with_columns(y=pl.Series([True, False] * 100))
    accept = {"other-columns", "poor-utility"}
    steps = {"steps": 1, "population": 10, "api": "table"}
    return ask(domain, data=data, mechanism="private-evolution", accept=accept, **{**steps, **request})


def booleans(count: int) -> Domain:
    return Domain(columns={f"c{i}": Boolean() for i in range(count)})


def declared_part(**facts: Any) -> Request:
    made = {"part": "a", "domain": TOTAL, "size": 20, "mechanism": "perturbed-histogram"}
    return Request(**{**made, "relation": Replacement(records=200), **facts})


def split(**options: Any) -> None:
    TABLE.write_csv("all.csv")
    draw_control("all.csv", **{"out_data": "data.csv", "out_control": "control.csv", "record": "r.json", **options})


def letters(words: str) -> Domain:
    return Domain(columns={"x": Category(categories=list(words))})


def of_mechanisms() -> Iterator[Case]:
    budget, pure = Budget(epsilon=2.0, delta=1e-6), Budget(epsilon=2.0)
    yield from [
        Case("columns, and the domain has {}. Declare fewer columns", lambda: wide(booleans(129)), lambda: wide(booleans(128))),
        Case("no two tables of this domain differ. Declare at least two cells", lambda: density_ratio(DirichletMultinomial(domain=letters("a"), size=1, prior=1.0), records=2, epsilon=1.0, releases=2),
             lambda: density_ratio(DirichletMultinomial(domain=letters("ab"), size=1, prior=1.0), records=2, epsilon=1.0, releases=2)),
        Case("records that the domain declares impossible. Take another", lambda: ask(RULED, given='x = true, y = "a"', **TWO), lambda: ask(RULED, given='x = true, y = "b"', **TWO)),
        Case("take steps: leave out steps=0", lambda: ask(mechanism="private-evolution", steps=0), lambda: ask(mechanism="private-evolution")),
        Case("label_shares needs the column of the labels. Write by_label=...", lambda: evolve(LABELLED, label_shares="0.5,0.5"), lambda: evolve(LABELLED, label_shares="0.5,0.5", by_label="y")),
        Case("label_shares must add up to 1. Divide them by their sum", lambda: evolve(LABELLED, label_shares="1,1", by_label="y"), lambda: evolve(LABELLED, label_shares="0.5,0.5", by_label="y")),
        Case("need gaussian noise. Write noise='gaussian'", lambda: evolve(nearest=2, noise="laplace"), lambda: evolve(nearest=2, noise="gaussian")),
        Case("cannot be seeded. Leave out the checkpoint or the seed", lambda: continued(seed=1), continued),
        Case("does not hold. Use schedule='optimal'", lambda: scheduled("published"), lambda: scheduled("optimal")),
        Case("cuts at most {} columns, not {}. Declare fewer", lambda: HierarchicalHistogram.calibrated(budget, domain=booleans(61), n=200, size=20),
             lambda: HierarchicalHistogram.calibrated(budget, domain=booleans(10), n=200, size=20)),
        Case("Declare fewer columns or fewer cells", lambda: ask(booleans(70), data=table_of(70)), lambda: ask(booleans(3), data=table_of(3))),
        Case("Use marginals or stability-histogram, or declare fewer cells", lambda: ask(booleans(30), data=table_of(30)), lambda: ask(booleans(30), data=table_of(30), **TWO)),
        Case("two releases have the same name. Give each its own", lambda: plan_together([declared_part(), declared_part()], budget),
             lambda: plan_together([declared_part(), declared_part(part="b")], budget)),
        Case("is missing. Give all three", lambda: plan_together([declared_part(size=None)], budget), lambda: plan_together([declared_part()], budget)),
        Case("a plan takes replacement. Write relation=Replacement(records=...)", lambda: plan_together([declared_part(relation=AddRemove(records=200))], budget),
             lambda: plan_together([declared_part()], budget)),
        Case("parameters are of a mechanism. Name it, or leave them out", lambda: plan_together([declared_part(mechanism=None, parameters={"noise": "laplace"})], pure),
             lambda: plan_together([declared_part(parameters={"noise": "laplace"})], pure)),
        Case("nulls are not declared. Write: nulls = ", lambda: NINE.null_code, lambda: Integer(lower=0, upper=9, nulls="category").null_code),
        Case("an unordered column has no ranges. List the labels", lambda: Domain(columns=XY.columns, impossible=[{"y": {"from": "b"}}]),
             lambda: Domain(columns=XY.columns, impossible=[{"y": ["b", "c"]}])),
        Case("a domain cannot be changed. Build another", lambda: RULED.impossible[0].update(x=False), lambda: Domain(columns={"x": XY.columns["x"]})),
    ]  # fmt: skip
    remedy = "out_data and out_control of such data must be {} files. Give them that ending"
    yield from [
        Case(remedy, lambda: split(out_data="data.parquet"), split),
        Case("record must be a .json file. Give it that ending", lambda: split(record="record.txt"), split),
        Case("Write unit=... with the column of the units", lambda: split(unit="whom"), lambda: split(unit="who")),
        Case("give the whole release, since a selection of it has another law", lambda: read(ask().table().head(5), released("p.csv").replace(".csv", ".certificate.json")).posterior(draws=5),
             lambda: read(released("p.csv")).posterior(draws=5)),
        Case("this certificate is that of a folder of tables. Give the folder", lambda: read(TABLE, folder() + "/certificate.json"), lambda: read(folder())),
    ]  # fmt: skip


def continued(**options: Any) -> Any:
    return evolve(out=Output(checkpoint="c.npz"), relation=Replacement(records=200), **options)


def scheduled(schedule: str) -> Any:
    labels = Domain(columns={"y": XY.columns["y"]})
    asked = {"mechanism": "data-specific-reveal-or-obscure", "accept": {"other-columns", "poor-utility"}}
    return ask(labels, Budget(epsilon=3.0), schedule=schedule, **asked)


def table_of(count: int) -> pl.DataFrame:
    return pl.DataFrame({f"c{i}": [True, False] * 100 for i in range(count)})


def of_units() -> Iterator[Case]:
    columns = {"year": Integer(lower=1, upper=2), "x": Boolean()}

    def unit_table(**facts: Any) -> UnitTable:
        return UnitTable(**{"unit": "who", "max_records": 2, "columns": columns, **facts})

    def closed_units(**facts: Any) -> Any:
        table = pl.DataFrame({"who": [1, 1, 2], "year": [1, 2, 1], "x": [True, False, True]})
        return facts.pop("read", confidential)(facts.pop("data", table), Domain(tables={"t": unit_table()}), **facts)

    def in_database(order_by: str) -> Any:
        with contextlib.closing(sqlite3.connect("units.db")) as file, file:
            file.execute("CREATE TABLE IF NOT EXISTS t AS SELECT 1 AS who, 2 AS year, 1 AS x")
        domain = Domain(tables={"t": unit_table(slots="ordered", order_by=order_by)})
        return confidential(addressed("units.db", table="t", query=None), domain)

    yield from [
        Case("a table of units has its name. Rename one of them", lambda: Domain(columns={"x": Boolean()}, tables={"t": unit_table()}),
             lambda: Domain(columns={"z": Boolean()}, tables={"t": unit_table()})),
        Case("{} both give the name {}. Rename one of them", lambda: Domain(tables={"x": unit_table(slots="year")}), lambda: Domain(tables={"t": unit_table(slots="year")})),
        Case("cannot be declared beside [tables.{}]. Leave it out", lambda: Domain(tables={"t": unit_table()}, totals=[{"source": "s", "count": 3}]),
             lambda: Domain(tables={"t": unit_table()})),
        Case("slots need {}. Declare them, or other slots", lambda: unit_table(slots="year", columns={"year": Integer(lower=1, upper=2)}), lambda: unit_table(slots="year")),
        Case('slots = "ordered", which needs it. Write both or neither', lambda: unit_table(slots="ordered"), unit_table),
        Case("and is not released. Leave it out of the columns", lambda: unit_table(columns={"who": Boolean(), "x": Boolean()}), unit_table),
        Case("rows of a unit need finitely many cells. Declare cells", lambda: unit_table(columns={"v": Numeric(lower=0, upper=1)}),
             lambda: unit_table(columns={"v": Numeric(lower=0, upper=1, cells=4)})),
        Case("which says what the unit is. Leave the unit out", lambda: closed_units(unit=Unit("who", max_records=2)), closed_units),
        Case("units with several rows are not read in parts. Use confidential(data, domain)", lambda: closed_units(read=confidential_rows), closed_units),
    ]  # fmt: skip
    ward = {"ward": Category(categories=["a", "b"])}
    relative = {"columns": {**columns, **ward}, "relative_to": {"ward": "first"}}
    yield from [
        Case("which is held by another row (relative_to). Leave one of them out", lambda: Domain(tables={"t": unit_table(**relative)}, impossible=[{"ward": "a", "x": True}]),
             lambda: Domain(tables={"t": unit_table(**relative)})),
        Case("labels have no difference. Write {} alone", lambda: unit_table(**{**relative, "relative_to": {"ward": {"row": "first", "lower": 0, "upper": 1}}}),
             lambda: unit_table(**relative)),
        Case("are not listed in an order. Name a column in order_by", lambda: in_database("as listed"), lambda: in_database("year")),
    ]  # fmt: skip


def of_linked_tables() -> Iterator[Case]:
    table = UnitTable(unit="who", max_records=2, columns={"x": Integer(lower=0, upper=3, cells=2)})

    def linked(**facts: Any) -> Domain:
        wide = {"z": Integer(lower=0, upper=3, cells=2)}
        return Domain(**{"units": "homes", "columns": wide, "tables": {"stays": table}, **facts})

    homes = pl.DataFrame({"who": range(200), "z": [0, 3] * 100})
    both = {"homes": homes, "stays": homes.rename({"z": "x"})}
    budget = Budget(epsilon=8.0, delta=1e-3)

    def made(domain: Domain | None = None, **facts: Any) -> Any:
        return discreet.release(both, domain or linked(), budget, size=200, mechanism="marginals", **facts)

    def one(out: Any) -> Any:
        columns = linked().table_domains["homes"]
        return discreet.release(homes.drop("who"), columns, budget, size=200, mechanism="perturbed-histogram", out=out)

    yield from [
        Case('a mapping is of several tables, and the domain has one. Declare units = "..." there', lambda: made(Domain(columns={"z": Boolean()})), made),
        Case("the domain has the tables {}. Give a mapping, or a folder with one of each name", lambda: confidential(homes, linked()), lambda: confidential(both, linked())),
        Case("of units has no column. Declare one under [columns.NAME]", lambda: linked(columns={}), linked),
        Case("needs cells of one value each. Declare these, or leave it out", lambda: linked(order=["z", "x"]), linked),
        Case("a mapping of all tables, or its domain: domain.table_domains[NAME]", lambda: compare(homes, made().tables["homes"], linked()),
             lambda: compare(homes, made().tables["homes"], linked().table_domains["homes"])),
        Case("a format is for tables in a folder, and parts are Parquet. Leave it out", lambda: discreet.Output("folder", partitions=2, format="csv"),
             lambda: discreet.Output("folder", partitions=2)),
        Case("a format is for tables in a folder. Leave it out, and end the name in {}", lambda: one(discreet.Output("a.csv", format="csv")), lambda: one("a.csv")),
    ]  # fmt: skip


# -- what is followed -------------------------------------------------------------------------------------------------

KINDS = (of_declarations, of_values, of_files, of_requests, of_ledgers, of_releases, of_mechanisms, of_units)
CASES = [case for kind in (*KINDS, of_linked_tables) for case in kind()]


@pytest.mark.parametrize("case", CASES, ids=[f"{place} {case.remedy[:40]}" for place, case in enumerate(CASES)])
def test_a_remedy_that_is_followed_helps(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.rglob("*"))
    pattern = ".*".join(map(re.escape, re.split(r"\{\}", case.remedy.strip())))
    with pytest.raises(DiscreetError, match=re.compile(pattern, re.IGNORECASE | re.DOTALL)):
        case.refused()
    case.followed()
    assert before <= set(tmp_path.rglob("*"))


def test_each_remedy_has_a_case_or_is_listed() -> None:
    texts = remedies()
    followed = {text for text in texts if any(case.remedy in text for case in CASES)}
    listed = set(LISTED.read_text().splitlines())
    new = sorted(set(texts) - followed - listed)
    assert new == [], "a new remedy needs a case that follows it"
    assert sorted(listed - (set(texts) - followed)) == [], "these are followed, or gone: take them off the list"
