"""The kind of table that came in comes back, with its types where the domain allows them, and nothing of its values."""

# ruff: noqa: DTZ001 - clock times have no zone

import datetime as dt
import io
from collections.abc import Callable
from decimal import Decimal as Exact
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from test_engine_cells import ENGINES

import discreet
from discreet import Budget
from discreet._core.random import seeded
from discreet.confidential import confidential
from discreet.confidential.tables import open_source
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
    Time,
)
from discreet.domain.column import Column
from discreet.mechanisms import StabilityHistogram

AGE = Integer(lower=0, upper=100)
AGES = Integer(lower=0, upper=100, nulls="category")
LABELS = Category(categories=["low", "mid", "high"])
PLACES = Category(categories=["low", "mid", "high"], nulls="category")
TRUTH = Boolean()
TRUTHS = Boolean(nulls="category")
NUMBER = Numeric(lower=0, upper=1, cells=4)
SINGLE = Numeric(lower=0, upper=1, cells=4, dtype="float32")
PRICE = Decimal(lower="0", upper="99.9", digits=1)
DAY = Date(lower="2020-01-01", upper="2020-12-31")
CLOCK = Datetime(lower="2020-01-01", upper="2020-12-31", step="1h")
MOMENT = Datetime(lower="2020-01-01", upper="2020-12-31", step="1h", time_zone="UTC")
SPAN = Duration(lower="0s", upper="1h", step="1m")
HOUR = Time(step="15m")

INTS, WORDS, YES = [3, 100, 0], ["mid", "low", "mid"], [True, False, True]
REALS = [0.25, 1.0, 0.0]
EXACT = [Exact("1.5"), Exact("99.9"), Exact("0.0")]
DAYS = [dt.date(2020, 3, 1), dt.date(2020, 12, 31), dt.date(2020, 1, 1)]
TIMES = [dt.datetime(2020, 3, 1, 5), dt.datetime(2020, 12, 31), dt.datetime(2020, 1, 1)]
MOMENTS = [one.replace(tzinfo=dt.UTC) for one in TIMES]
HOURS = [dt.time(7, 30), dt.time(), dt.time(23, 45)]
SPANS = [dt.timedelta(minutes=minute) for minute in (0, 7, 60)]


class Cell(NamedTuple):
    """A column: a declaration, values, and the type that it has in a library."""

    column: Column
    held: list[Any]
    type: Any

    @property
    def four(self) -> list[Any]:
        """As many values for each column."""
        return self.held + self.held[:1] * (4 - len(self.held))


def polars_cells() -> list[Cell]:
    enum = pl.Enum(LABELS.categories)
    return [
        Cell(AGE, INTS, pl.Int64), Cell(AGE, INTS, pl.Int8), Cell(AGES, [*INTS, None], pl.UInt16),
        Cell(Category(categories=[3, 100, 0]), INTS, pl.Int16), Cell(NUMBER, REALS, pl.Float64),
        Cell(SINGLE, REALS, pl.Float32), Cell(TRUTHS, YES, pl.Boolean), Cell(LABELS, WORDS, pl.String),
        Cell(LABELS, WORDS, pl.Categorical()), Cell(OpenLabels(), WORDS, pl.Categorical()), Cell(LABELS, WORDS, enum),
        Cell(PRICE, EXACT, pl.Decimal(10, 1)), Cell(PRICE, EXACT, pl.Decimal(38, 1)), Cell(DAY, DAYS, pl.Date),
        Cell(CLOCK, TIMES, pl.Datetime("us")), Cell(MOMENT, MOMENTS, pl.Datetime("us", "UTC")),
        Cell(SPAN, SPANS, pl.Duration("us")), Cell(HOUR, HOURS, pl.Time),
    ]  # fmt: skip


def arrow_cells() -> list[Cell]:
    import pyarrow as pa

    texts = [pa.string(), pa.large_string(), *([pa.string_view()] if hasattr(pa, "string_view") else [])]
    return [
        Cell(AGE, INTS, pa.int64()), Cell(AGES, [*INTS, None], pa.int8()), Cell(AGE, INTS, pa.uint32()),
        Cell(NUMBER, REALS, pa.float64()), Cell(TRUTH, YES, pa.bool_()), *(Cell(LABELS, WORDS, kind) for kind in texts),
        Cell(LABELS, WORDS, pa.dictionary(pa.int32(), pa.string())),
        Cell(LABELS, WORDS, pa.dictionary(pa.int8(), pa.string(), ordered=True)),
        Cell(PRICE, EXACT, pa.decimal128(10, 1)), Cell(DAY, DAYS, pa.date32()), Cell(CLOCK, TIMES, pa.timestamp("us")),
        Cell(MOMENT, MOMENTS, pa.timestamp("us", "UTC")), Cell(SPAN, SPANS, pa.duration("us")),
        Cell(HOUR, HOURS, pa.time64("us")),
    ]  # fmt: skip


def pandas_cells() -> list[Cell]:
    import pandas as pd

    named = [
        (AGE, INTS, "int64"), (AGE, INTS, "int8"), (AGE, INTS, "uint16"), (AGES, [*INTS, None], "Int64"),
        (AGE, INTS, "Int8"), (NUMBER, REALS, "float64"), (NUMBER, REALS, "Float64"), (SINGLE, REALS, "float32"),
        (TRUTH, YES, "bool"), (TRUTHS, [*YES, None], "boolean"), (LABELS, WORDS, "string"),
        (PLACES, [*WORDS, None], "string"), (LABELS, WORDS, pd.Series(["a"]).dtype), (PRICE, EXACT, "object"),
        (DAY, DAYS, "object"), (CLOCK, TIMES, "datetime64[us]"), (MOMENT, MOMENTS, "datetime64[us, UTC]"),
        (SPAN, SPANS, "timedelta64[us]"), (HOUR, HOURS, "object"), (DAY, DAYS, "datetime64[us]"),
        (LABELS, WORDS, pd.CategoricalDtype(list(LABELS.categories))),
        (PLACES, [*WORDS, None], pd.CategoricalDtype(list(LABELS.categories), ordered=True)),
        (Category(categories=[3, 100, 0]), INTS, pd.CategoricalDtype([3, 100, 0])),
    ]  # fmt: skip
    of_arrow = [cell._replace(type=pd.ArrowDtype(cell.type)) for cell in arrow_cells()]
    return [*(Cell(*cell) for cell in named), *of_arrow]


SQL_CELLS = [
    Cell(AGE, INTS, "BIGINT"), Cell(AGE, INTS, "TINYINT"), Cell(AGES, [*INTS, None], "SMALLINT"),
    Cell(NUMBER, REALS, "DOUBLE"), Cell(TRUTH, YES, "BOOLEAN"), Cell(LABELS, WORDS, "VARCHAR"),
    Cell(LABELS, WORDS, "ENUM('low', 'mid', 'high')"), Cell(PRICE, EXACT, "DECIMAL(10,1)"), Cell(DAY, DAYS, "DATE"),
    Cell(CLOCK, TIMES, "TIMESTAMP"), Cell(MOMENT, MOMENTS, "TIMESTAMP WITH TIME ZONE"),
    Cell(HOUR, HOURS, "TIME"),
]  # fmt: skip
"""Of DuckDB; Ibis has the same, and no enumerations."""

SPARK_CELLS = [
    Cell(AGE, INTS, "bigint"), Cell(AGE, INTS, "tinyint"), Cell(AGES, [*INTS, None], "smallint"),
    Cell(NUMBER, REALS, "double"), Cell(TRUTH, YES, "boolean"), Cell(LABELS, WORDS, "string"),
    Cell(PRICE, EXACT, "decimal(10,1)"), Cell(DAY, DAYS, "date"), Cell(MOMENT, MOMENTS, "timestamp"),
]  # fmt: skip


NEIGHBOURS = [
    (AGES, ["1", "2"], ["1", ""]),
    (Integer(lower=0, upper=2**61, out_of_bounds="clip", nulls="category"), ["1", "2"], ["1", str(2**63 + 5)]),
    (Integer(lower=-(2**40), upper=2**40), ["1", "2"], ["1", str(2**40)]),
    (AGES, ["1", "2"], ["1.0", "2.0"]),
    (NUMBER, ["1", "0"], ["1", "0.5"]),
    (Category(categories=["a", "b", "c"], nulls="category"), ["a", "b"], ["a", "c"]),
    (Category(categories=["a", "b", "c"], nulls="category"), ["a", "b"], ["a", ""]),
    (OpenLabels(nulls="category"), ["a", "a"], ["a", "secret"]),
    (TRUTHS, ["True", "False"], ["True", ""]),
]
"""Declarations, and two columns of texts that differ in one."""


def domain_of(cells: list[Cell]) -> Domain:
    return Domain(columns={f"x{place}": cell.column for place, cell in enumerate(cells)})


pytestmark = pytest.mark.filterwarnings("ignore")

ROWS = 200


def returned(data: Any, domain: Domain) -> Any:
    """Return a table drawn from the domain alone, as the kind of table that a confidential one is."""
    frame = domain.decode(domain.draw_base(ROWS, seeded(0)), rng=seeded(1))
    return open_source(data).returned(frame, domain)


def check(cells: list[Cell], data: Any, types: Callable[[Any], list[Any]]) -> Any:
    """Compare the types of what came in with those of what came back."""
    made = returned(data, domain_of(cells))
    assert type(made) is type(data)
    kinds = [f"{'nullable ' * cell.column.nullable}{cell.column.kind} as {cell.type}" for cell in cells]
    assert list(zip(kinds, types(made), strict=True)) == list(zip(kinds, types(data), strict=True))
    return made


@pytest.mark.parametrize("lazy", [False, True])
def test_polars(lazy: bool) -> None:
    cells = polars_cells()
    frame = pl.DataFrame(
        [pl.Series(f"x{place}", cell.four, dtype=cell.type, strict=False)
         for place, cell in enumerate(cells)]
    )  # fmt: skip
    made = check(cells, frame.lazy() if lazy else frame, lambda f: f.lazy().collect_schema().dtypes())
    assert made.lazy().collect().height == ROWS


def test_pyarrow() -> None:
    pa = pytest.importorskip("pyarrow", reason="PyArrow is not installed")
    cells = arrow_cells()
    table = pa.table({f"x{place}": _arrow(pa, cell) for place, cell in enumerate(cells)})
    made = check(cells, table, lambda t: t.schema.types)
    made.validate(full=True)
    assert made.num_rows == ROWS
    dictionary = made.column(9).combine_chunks()
    assert dictionary.dictionary.to_pylist() == list(LABELS.categories)


def _arrow(pa: Any, cell: Cell) -> Any:
    values = cell.four
    if pa.types.is_dictionary(cell.type):
        return pa.array(values, cell.type.value_type).dictionary_encode().cast(cell.type)
    return pa.array(values, cell.type)


def _pandas(cells: list[Cell]) -> Any:
    import pandas as pd

    columns = {}
    for place, cell in enumerate(cells):
        values = cell.four
        if str(cell.type).startswith(("datetime64", "timedelta64")):
            columns[f"x{place}"] = pd.Series(
                pd.to_timedelta(values) if "delta" in str(cell.type) else pd.to_datetime(values)
            ).astype(cell.type)
        else:
            columns[f"x{place}"] = pd.Series(values, dtype=cell.type)
    return pd.DataFrame(columns)


def test_pandas() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    cells = pandas_cells()
    made = check(cells, _pandas(cells), lambda f: list(f.dtypes))
    assert made.shape == (ROWS, len(cells))


@pytest.mark.engines
def test_modin() -> None:
    modin = pytest.importorskip("modin.pandas", reason="Modin is not installed")
    cells = [cell for cell in pandas_cells() if not hasattr(cell.type, "pyarrow_dtype")]
    check(cells, modin.DataFrame(_pandas(cells)), lambda f: list(f.dtypes))


@pytest.mark.engines
def test_dask() -> None:
    dask = pytest.importorskip("dask.dataframe", reason="Dask is not installed")
    # Dask changes texts of NumPy's itself, and cannot divide a column of views.
    cells = [cell for cell in pandas_cells() if str(cell.type) not in ("object", "str", "string_view[pyarrow]")]
    data = dask.from_pandas(_pandas(cells), npartitions=2)
    made = check(cells, data, lambda f: list(f.dtypes))
    assert len(made) == ROWS
    assert list(made.compute().dtypes) == list(data.dtypes)


def test_duckdb() -> None:
    """The relation belongs to the connection of the one that came in: both can be joined."""
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    connection = duckdb.connect()
    data = _sql(connection, SQL_CELLS)
    before = connection.sql("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall()
    made = check(SQL_CELLS, data, lambda r: [str(kind) for kind in r.types])
    assert made.shape == (ROWS, len(SQL_CELLS))
    assert connection.sql("SELECT count(*) FROM made JOIN t ON made.x0 >= t.x0").fetchall()[0][0] >= ROWS
    assert connection.sql("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall() == before


def test_a_connection_that_sees_no_variables_of_python() -> None:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    connection = duckdb.connect(config={"enable_external_access": "false"})
    made = returned(_sql(connection, SQL_CELLS), domain_of(SQL_CELLS))
    assert [str(kind) for kind in made.types] == [cell.type for cell in SQL_CELLS]
    assert made.shape == (ROWS, len(SQL_CELLS))


def _sql(connection: Any, cells: list[Cell]) -> Any:
    named = ", ".join(f"x{place} {cell.type}" for place, cell in enumerate(cells))
    connection.execute(f"CREATE TABLE t ({named})")
    rows = zip(*(cell.four for cell in cells), strict=True)
    connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(cells))})", list(rows))
    return connection.table("t")


@pytest.mark.engines
def test_ibis() -> None:
    """An in-memory table of Ibis belongs to the connection that it is used with."""
    ibis = pytest.importorskip("ibis", reason="Ibis is not installed")
    cells = [cell for cell in SQL_CELLS if "ENUM" not in cell.type]
    backend = ibis.duckdb.connect()
    _sql(backend.con, cells)
    data = backend.table("t")
    made = check(cells, data, lambda t: [str(kind) for kind in t.schema().types])
    assert backend.execute(made.count()) == ROWS
    assert backend.execute(data.join(made, data.x0 == made.x0).count()) >= 1


@pytest.mark.engines
def test_spark(spark: Any) -> None:
    rows = list(zip(*(cell.four for cell in SPARK_CELLS), strict=True))
    schema = ", ".join(f"x{place} {cell.type}" for place, cell in enumerate(SPARK_CELLS))
    data = spark.createDataFrame(rows, schema)
    made = check(SPARK_CELLS, data, lambda f: [kind for _, kind in f.dtypes])
    assert made.sparkSession is data.sparkSession
    assert made.count() == ROWS


@pytest.mark.parametrize("engine", ENGINES)
def test_a_release_of_an_engines_table_is_one_of_its_tables(engine: str, put: Any) -> None:
    """And is read, written and analysed like any other release."""
    frame = pl.DataFrame({"age": np.arange(4000) % 5, "sex": ["f", "m"] * 2000})
    domain = Domain(columns={"age": Integer(lower=0, upper=4), "sex": Category(categories=["f", "m"])})
    data = put(frame, engine)
    made = discreet.release(
        data, domain, Budget(epsilon=2.0, delta=1e-6), size=500, mechanism="stability-histogram", seed=1
    )
    here = discreet.release(
        frame, domain, Budget(epsilon=2.0, delta=1e-6), size=500, mechanism="stability-histogram", seed=1
    )
    assert type(made.records) is type(data)
    assert made.table().equals(here.table())
    assert str(made.estimate(["mean"], column="age")) == str(here.estimate(["mean"], column="age"))
    assert open_source(made.records).names == ("age", "sex")
    assert "<" in made._repr_html_()


@pytest.mark.parametrize("name", ["pandas", "pandas nullable", "pandas arrow", "polars", "pyarrow", "polars categories",
                                  "pandas categories", "arrow categories"])  # fmt: skip
@pytest.mark.parametrize("case", NEIGHBOURS)
def test_what_readers_infer_from_values_is_not_returned(name: str, case: Any) -> None:
    """Two files that differ in one value, read by readers that look at values, come back as one type."""
    column, one, other = case
    if "categories" in name and column.kind not in ("category", "open-labels"):
        pytest.skip("no labels")
    tables = [_read(name, values) for values in (one, other)]
    schemas = []
    for table in tables:
        made = returned(table, Domain(columns={"x": column}))
        assert "secret" not in str(_schema(made))
        schemas.append(_schema(made))
    assert schemas[0] == schemas[1]


def _read(name: str, values: list[str]) -> Any:
    text = "x,k\n" + "".join(f"{value},1\n" for value in values)
    library, _, kind = name.partition(" ")
    if library == "polars":
        frame = pl.read_csv(io.StringIO(text))
        return frame.with_columns(pl.col("x").cast(pl.Categorical)) if kind else frame
    pytest.importorskip("pyarrow", reason="PyArrow is not installed")
    if library in ("pyarrow", "arrow"):
        import pyarrow as pa
        import pyarrow.csv

        table = pyarrow.csv.read_csv(io.BytesIO(text.encode()))
        return table.set_column(0, "x", table["x"].cast(pa.string()).dictionary_encode()) if kind else table
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    backends = {"nullable": "numpy_nullable", "arrow": "pyarrow"}
    made = pd.read_csv(io.StringIO(text), **({"dtype_backend": backends[kind]} if kind in backends else {}))
    return made.astype({"x": "category"}) if kind == "categories" else made


def _schema(made: Any) -> str:
    if isinstance(made, pl.DataFrame):
        return str(made.schema)
    if hasattr(made, "dtypes"):
        dtype = made.dtypes["x"]
        labels = dtype.categories.tolist() if hasattr(dtype, "categories") else ""
        return f"{dtype!r} {labels}"
    return str(made.schema)


def test_a_neighbour_does_not_change_a_width() -> None:
    """Types that are as wide as the values need: decimals, and the numbers of labels."""
    pa = pytest.importorskip("pyarrow", reason="PyArrow is not installed")
    price = Domain(columns={"x": Decimal(lower="0", upper="999.99", digits=2)})
    for values in (["1.5", "2.25"], ["1.5", "999.25"], ["1.5", "2"], ["1.500", "2"]):
        table = pa.table({"x": [Exact(value) for value in values]})
        assert returned(table, price).schema.types == [pa.decimal128(5, 2)]
    for values in (["1.5", "2.25"], ["1.5", "2"]):
        assert returned(pl.DataFrame({"x": [Exact(value) for value in values]}), price).dtypes == [pl.Decimal(38, 2)]
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    many = Domain(columns={"x": Category(categories=[str(label) for label in range(300)])})
    for labels in (127, 128, 129):
        table = pa.Table.from_pandas(pd.DataFrame({"x": pd.Categorical([str(label) for label in range(labels)])}))
        assert returned(table, many).schema.field("x").type.index_type == pa.int16()
        open_ = returned(table, Domain(columns={"x": OpenLabels()}))
        assert open_.schema.field("x").type.index_type == pa.int32()


def test_a_value_that_is_moved_is_not_told_by_a_width() -> None:
    """Readers that infer as many digits as they meet, or the width of an integer, meet values outside the bounds."""
    pa = pytest.importorskip("pyarrow", reason="PyArrow is not installed")
    price = Domain(columns={"x": Decimal(lower="0", upper="999.99", digits=2, out_of_bounds="clip")})
    tables = [pa.table({"x": [Exact("1.5"), Exact(value)]}) for value in ("2.25", "12345678.9", "1" * 30)]
    assert len({table.schema for table in tables}) == len(tables)
    assert {returned(table, price).schema.field("x").type for table in tables} == {pa.decimal128(38, 2)}
    null = {"out_of_bounds": "null", "nulls": "category"}
    for column in (
        Integer(lower=0, upper=100, out_of_bounds="clip"),
        Integer(lower=0, upper=100, **null),
        Category(categories=[1, 2], **null),
    ):
        age = Domain(columns={"x": column})
        widths = [returned(pl.DataFrame({"x": [1]}, schema={"x": kind}), age).dtypes for kind in (pl.Int8, pl.Int32)]
        assert widths == [[pl.Int64], [pl.Int64]]


def test_moments_come_back_in_microseconds() -> None:
    """The units of time stamps are inferred from values by some readers."""
    pa = pytest.importorskip("pyarrow", reason="PyArrow is not installed")
    domain = Domain(columns={"x": Datetime(lower="2020-01-01", upper="2020-12-31", step="1h")})
    for unit in ("s", "ms", "us", "ns"):
        table = pa.table(
            {"x": pa.array([1577836800 * 10 ** {"s": 0, "ms": 3, "us": 6, "ns": 9}[unit]], pa.timestamp(unit))}
        )
        assert returned(table, domain).schema.types == [pa.timestamp("us")]


def test_a_type_that_does_not_hold_the_declared_values_is_not_taken_over() -> None:
    wide = Domain(columns={"x": Integer(lower=0, upper=1000)})
    assert returned(pl.DataFrame({"x": pl.Series([1], dtype=pl.Int8)}), wide).dtypes == [pl.Int64]
    declared = Domain(columns={"x": Integer(lower=0, upper=9, dtype="int32")})
    assert returned(pl.DataFrame({"x": pl.Series([1], dtype=pl.Int8)}), declared).dtypes == [pl.Int32]


def test_an_engine_that_fails_does_not_lose_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT range % 5 AS age FROM range(4000)")
    domain = Domain(columns={"age": AGE})
    closed = confidential(connection.table("t"), domain)
    connection.close()
    mechanism = StabilityHistogram.calibrated(Budget(epsilon=2.0, delta=1e-6), domain=domain, n=4000, size=100)
    with pytest.warns(UserWarning, match="duckdb did not take the released table"):
        made = discreet.release(closed, mechanism=mechanism, size=100)
    assert isinstance(made.records, pl.DataFrame)
    assert made.records.height == 100
