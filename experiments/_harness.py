"""The harness of experiments and benchmarks: options, data, releases, and result files.

Pictures are drawn from the data files by ``pictures``: see ``draw.py``.

An experiment with results has a function ``slices``, which computes some rows of its data files anew in a few seconds,
in the same way and with the same seeds as the whole: rows by a file's name, ``ANY`` where a cell differs from run to
run. A test compares them with the files that are kept. Where a row of the whole takes too long, the experiment keeps a
small file of rows that are quick, ``slice.csv``. Files without a slice are named in ``WITHOUT_SLICE``, with the reason.
Files that are to be made again, where that takes long, are named in ``STALE`` until they are.
"""

import argparse
import csv
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from discreet.domain import Counts, Domain, Numeric, Records

HERE = Path(__file__).resolve().parent
BAND = 2.5758293035489004  # two-sided 99 % of the normal distribution
ANY = None
"""A cell of a slice that is not compared: a time."""

_asked = argparse.Namespace(out=None)


def options(text: str | None, /, **usual: Any) -> dict[str, Any]:
    """Read a script's options, by their usual values; a pair is the usual value and that of a short run.

    A list takes several values, a dictionary any of its names, and a type has no usual value.
    """
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a short run, which replaces no kept result")
    parser.add_argument("--out", type=Path, help="a folder for the results, instead of that of the kept ones")
    for name, given in usual.items():
        value = given[0] if isinstance(given, tuple) else given
        how: dict[str, Any] = {"type": value} if isinstance(value, type) else {"type": type(value), "default": value}
        if value is False:
            how = {"action": "store_true"}
        elif isinstance(value, dict):
            how = {"nargs": "+", "choices": list(value), "default": list(value), "metavar": "NAME"}
        elif isinstance(value, list):
            how = {"nargs": "+", "type": type(value[0]), "default": value}
        parser.add_argument(f"--{name.replace('_', '-')}", **how, help=f"usually {how.get('default', 'not given')}")
    if "--quick" in sys.argv:
        parser.set_defaults(**{name: pair[1] for name, pair in usual.items() if isinstance(pair, tuple)})
    found = parser.parse_args(namespace=_asked)
    if found.quick and found.out is None:
        found.out = Path(tempfile.mkdtemp(prefix="quick-"))
    return {name: getattr(found, name) for name in usual}


def script(**usual: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function the program of its file: it runs where the file does, and is given the options by their names."""

    def program(main: Callable[..., None]) -> Callable[..., None]:
        if main.__module__ == "__main__":
            main(**options(sys.modules["__main__"].__doc__, **usual))
        return main

    return program


def target(path: Path) -> Path:
    """Return where a result is written: at its path, or in the folder that was asked for."""
    path = path if _asked.out is None else _asked.out / path.name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def data(name: str, *columns: str) -> pl.DataFrame:
    """Return a shared data file, or some of its columns; leave with a message where it is absent."""
    path = HERE.parents[1] / "shared" / "data" / f"{name}.parquet"
    if not path.exists():
        raise SystemExit(f"skipped: ../shared/data/{path.name} is not there")
    return pl.read_parquet(path, columns=list(columns) or None)


def line(cells: int | None = None) -> Domain:
    """Declare numbers from 0 to 1."""
    return Domain(columns={"x": Numeric(lower=0.0, upper=1.0, cells=cells)})


def counted(frame: pl.DataFrame, domain: Domain) -> Counts:
    """Count equal records of a frame on a domain."""
    columns = domain.encode(frame).columns
    held, totals = np.unique(np.column_stack(columns), axis=0, return_counts=True)
    codes = tuple(part.astype(column.dtype) for part, column in zip(held.T, columns, strict=True))
    return Counts(records=Records(columns=codes), frequencies=totals)


def cells_held(frequencies: Any, domain: Domain | None = None) -> Counts:
    """Return a table by how many records each cell of a domain has; without one, of a single column."""
    held = np.flatnonzero(frequencies)
    records = Records(columns=(held,)) if domain is None else domain.unflat(held)
    return Counts(records=records, frequencies=np.asarray(frequencies)[held].astype(np.int64))


def each_once(columns: Iterable[np.ndarray]) -> Counts:
    """Return a table by its columns, where every record counts once."""
    records = Records(columns=tuple(columns))
    return Counts(records=records, frequencies=np.ones(len(records), dtype=np.int64))


def drawn(mechanism: Any, x: Counts, size: int, rng: Any) -> Records:
    """Release a table by a mechanism: so many records."""
    return Records.concatenate(mechanism.reading(mechanism.kernel(x, rng=rng), n=x.n).draw(size, rng=rng))


def decoded(mechanism: Any, output: Any, n: int, size: int, rng: Any) -> pl.DataFrame:
    """Return the values of so many records of a mechanism's output."""
    parts = mechanism.reading(output, n=n).draw(size, rng=rng)
    return pl.concat([mechanism.domain.decode(part, rng=rng) for part in parts])


def cells_shown(mechanism: Any, output: Any, n: int, size: int = 0, rng: Any = None) -> np.ndarray:
    """Return how many of so many released records lie in each cell; without a size the released counts, or NaN."""
    reading, domain = mechanism.reading(output, n=n), mechanism.domain
    if size:
        places = domain.flat(Records.concatenate(reading.draw(size, rng=rng)))
        return np.bincount(places, minlength=domain.size)
    table, counts = reading.estimates(), np.full(domain.size, np.nan)
    counts[domain.flat(table.records)] = table.counts
    return counts


def timed(call: Callable[..., Any], *sample: Any) -> tuple[float, Any]:
    """Return a call's processor seconds, and what it returns."""
    start = time.process_time()
    value = call(*sample)
    return time.process_time() - start, value


def mean_and_error(values: Any) -> tuple[float, float]:
    """Return the mean of independent runs and its standard error; not a number for one run."""
    values = np.asarray(values, dtype=np.float64)
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
    return float(values.mean()), error


def mean_and_band(values: Any, wide: float = BAND) -> tuple[float, float, float]:
    """Return the mean of independent runs and its 99 % confidence interval; none for a single run."""
    mean, error = mean_and_error(values)
    error = error if len(values) > 1 else 0.0
    return mean, mean - wide * error, mean + wide * error


def unevenness(ranks: Any, bins: int = 10) -> float:
    """Return the chi-square statistic of ranks that are uniform if a posterior is right."""
    found = np.bincount(np.minimum((np.asarray(ranks) * bins).astype(int), bins - 1), minlength=bins)
    return float(((found - len(ranks) / bins) ** 2 / (len(ranks) / bins)).sum())


def show(head: Iterable[str], rows: Iterable[Any]) -> None:
    """Print a table, numbers to the right; of rows with names, the columns that the head names."""

    def text(cell: Any) -> str:
        if isinstance(cell, Integral) and not isinstance(cell, bool):
            return f"{cell:,}"
        return f"{cell:,.4g}" if isinstance(cell, Real) and not isinstance(cell, bool) else str(cell)

    head = list(head)
    cells = ([row.get(name, "") for name in head] if isinstance(row, dict) else row for row in rows)
    texts = [tuple(map(text, row)) for row in cells]
    widths = [max(len(cell) for cell in cells) for cells in zip(head, *texts, strict=True)]
    for row in (head, *texts):
        print("  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]))


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: int | Sequence[int]) -> list[str]:
    """Return a table of texts as lines of Markdown; so many first columns, or those named, are set to the left."""
    lefts = range(left) if isinstance(left, int) else left
    rule = "|" + "".join("---|" if place in lefts else "--:|" for place in range(len(head)))
    return [f"| {' | '.join(head)} |", rule, *(f"| {' | '.join(row)} |" for row in rows)]


def printed(cell: Any) -> str:
    """Return a cell as it is written."""
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def write(path: Path, head: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write a data file, numbers with six significant digits."""
    with target(path).open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(head)
        out.writerows([printed(cell) for cell in row] for row in rows)
    print(f"written: {target(path)}")


def add(path: Path, head: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write rows behind those that a data file has."""
    write(path, head, [*texts(path), *rows])


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a page."""
    target(path).write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"written: {target(path)}")


def newest(path: Path) -> Path:
    """Return where a result is read again: in the folder that was asked for, if it is there yet."""
    return target(path) if target(path).exists() else path


def texts(path: Path) -> list[list[str]]:
    """Return the rows of a data file as they are written; none where there is no file yet."""
    if not newest(path).exists():
        return []
    with newest(path).open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))[1:]


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a data file by the names of columns; what reads as a number is one."""
    with path.open(newline="", encoding="utf-8") as file:
        return [{key: number(cell) for key, cell in row.items()} for row in csv.DictReader(file)]


def number(cell: str) -> Any:
    """Return a cell as a number, where it is one."""
    try:
        return float(cell)
    except ValueError:
        return cell


def key(row: Sequence[Any], by: int) -> str:
    """Return a row's first cells in one text."""
    return ", ".join(map(printed, row[:by]))


def merged(old: list[list[str]], new: list[list[Any]], ran: Iterable[str], order: Iterable[str], by: int) -> list[Any]:
    """Return rows in the place of what ran before under the same first cells, in the order of these."""
    places, ran = list(order), set(ran)
    rows = [row for row in old if key(row, by) in places and key(row, by) not in ran] + new
    return sorted(rows, key=lambda row: places.index(key(row, by)))


def renew_page(
    path: Path, title: str, head: Sequence[str], rows: list[list[str]], ran: list[str], order: Iterable[str], by: int
) -> None:
    """Write rows of texts as a table of Markdown, in the place of what ran before."""
    lines = newest(path).read_text(encoding="utf-8").splitlines()[4:] if newest(path).exists() else []
    rows = merged([line.strip("| ").split(" | ") for line in lines], rows, ran, order, by)
    write_lines(path, [title, "", *markdown(head, rows, left=(0, 2, 3))])


def renew(path: Path, head: Sequence[str], rows: list[list[Any]], order: Iterable[str], by: int = 1) -> list[list[Any]]:
    """Write rows in the place of those with the same first cells, beside the others; return all."""
    rows = merged(texts(path), rows, {key(row, by) for row in rows}, order, by)
    write(path, head, rows)
    return rows
