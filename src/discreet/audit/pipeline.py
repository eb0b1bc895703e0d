"""Two neighbouring files through one command: whatever can be seen of it, but for the released values, must agree.

A guarantee is about what a mechanism gives. A command gives more: messages, an exit status, names of files, columns,
types, numbers of rows, a certificate. What differs from run to run on one file is random and is passed over. What is
always the same on one file, and always another on its neighbour, tells the two apart.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet._core import parquet
from discreet._core.boundary import quietly
from discreet._core.checks import integer
from discreet._core.errors import DataError, FileProblem, ParameterError
from discreet._core.lazy import pl
from discreet._core.text import about, counted
from discreet._core.writing import own_folder, together
from discreet.audit.instance import BANNER
from discreet.confidential import Confidential
from discreet.confidential.opening import open_confidential
from discreet.confidential.values import raw_rows

RUNS = 5
CONFIRMED = 12
"""Runs on each file before a difference is told: what is random, and blind to the record, is one after 12 runs of each
with probability 2 / 4^12 at most."""

PLACE = "{data}"
"""What stands in a command for the file."""

HERE = "{here}"
"""What stands in a command for the folder that it is written in."""

_OF_EACH_RUN = {"identity", "created", "sha256"}  # fields of a certificate that differ by design
_SECONDS = 600.0
_MOST_LABELS = 64  # of a column whose order is compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Something that tells two files apart. Confidential.

    ``what``: where it was seen.
    ``first``, ``second``: what it is in every run on the one file, and in every run on the other.
    """

    what: str
    first: str
    second: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineAudit:
    """What could be seen of a command, on two neighbouring files. Confidential.

    ``differences``: what tells them apart.
    ``compared``: how many facts were the same in all runs on one of the files.
    ``varying``: how many differ from run to run on both, and are not compared.
    ``runs``: on each file.
    """

    differences: tuple[Difference, ...]
    compared: int
    varying: int
    runs: int

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, marked ``"confidential": true``."""
        return {
            "confidential": True,
            "notice": BANNER,
            "agrees": not self.differences,
            "differences": [{"what": one.what, "first": one.first, "second": one.second} for one in self.differences],
            "compared": self.compared,
            "varying": self.varying,
            "runs": self.runs,
        }

    def __str__(self) -> str:
        found = [f"  {one.what}: {one.first!r} and {one.second!r}" for one in self.differences]
        told = counted(len(found), "fact tells", "facts tell") + " the two files apart" if found else (
            "nothing that was compared tells the two files apart")  # fmt: skip
        return "\n".join([
            BANNER,
            *found,
            f"{counted(self.compared, 'fact')} compared in {counted(self.runs, 'run')} of each file, {self.varying:,} "
            f"that vary by themselves passed over: {told}",
        ])  # fmt: skip


def audit_pipeline(
    first: Any, second: Any, command: Sequence[str], *, work: Any, runs: int = RUNS
) -> Confidential[PipelineAudit]:
    """Run a command on two neighbouring files, alternately, and compare all that can be seen.

    ``first``, ``second``: confidential; files of one format that differ in one record.
    ``command``: program and arguments; ``{data}`` stands for the file. It runs in a folder of its own, so that outputs
    must be relative paths; ``{here}`` stands for the present folder, where other inputs are.
    ``work``: the folder for all that is written: confidential, and new.
    ``runs``: of each file, at least 2; at least :data:`CONFIRMED` where a difference is found.

    Raises DataError when the files are no neighbours, ParameterError when the command does not name the file, or
    FileProblem when a file cannot be read or written, or the program cannot be run.
    """
    runs = integer("runs", runs, least=2, most=1000)
    if not any(PLACE in part for part in command):
        raise ParameterError("the command must name the file. Write {data} where it stands")
    paths = [Path(first), Path(second)]
    if len({path.suffix.lower() for path in paths}) > 1:
        raise ParameterError("the two files must be of one format")
    _require_neighbours(*(open_confidential(raw_rows(path), caller=__name__) for path in paths))
    folder = Path(work)
    if os.path.lexists(folder):
        raise FileProblem(work, "it exists already", "name a folder that does not exist")
    own_folder(folder, private=True)
    seen: tuple[list[dict[str, str]], list[dict[str, str]]] = ([], [])
    number, found = 0, None
    while number < runs or (found is not None and found.differences and number < CONFIRMED):
        number += 1
        for which, path in enumerate(paths):
            seen[which].append(_seen(path, command, folder.absolute() / f"run-{number}-of-{'ab'[which]}"))
        found = _compared(*seen) if number >= runs else None
    return Confidential(_compared(*seen))


def _require_neighbours(one: pl.DataFrame, other: pl.DataFrame) -> None:
    """Refuse files that differ in more than one record, or in their columns."""
    same = one.columns == other.columns and one.dtypes == other.dtypes
    if not same:
        raise DataError(None, "the two files have other columns or types", "give two files that differ in one record")
    count = pl.len().alias("discreet: frequency")
    tables = [frame.group_by(one.columns).agg(count.cast(pl.Int64)) for frame in (one, other)]
    signed = [tables[0], tables[1].with_columns(-pl.col("discreet: frequency"))]
    change = pl.concat(signed).group_by(one.columns).agg(pl.col("discreet: frequency").sum())["discreet: frequency"]
    if int(change.clip(0).sum()) > 1 or int((-change).clip(0).sum()) > 1:
        raise DataError(None, "the two files differ in more than one record", "give two that differ in one record")


def _compared(first: list[dict[str, str]], second: list[dict[str, str]]) -> PipelineAudit:
    differences, compared, varying = [], 0, 0
    for what in sorted({name for run in (*first, *second) for name in run}):
        one, other = ({run.get(what, "nothing") for run in side} for side in (first, second))
        if len(one) > 1 and len(other) > 1:
            varying += 1
            continue
        compared += 1
        if len(one) == len(other) == 1 and one != other:
            differences.append(Difference(what=what, first=one.pop(), second=other.pop()))
    return PipelineAudit(differences=tuple(differences), compared=compared, varying=varying, runs=len(first))


# -- one run ----------------------------------------------------------------------------------------------------------


def _seen(data: Path, command: Sequence[str], folder: Path) -> dict[str, str]:
    """Run the command in a folder of its own, and return all that can be seen of it."""
    given, out, temporary = (folder / name for name in ("in", "out", "tmp"))
    for one in (folder, given, out, temporary):
        own_folder(one, private=True)
    copy = given / f"data{data.suffix.lower()}"
    with together(copy, inputs=[data], private=True) as (file,):
        file.write(data.read_bytes())
    file_name = str(Path("..") / "in" / copy.name)
    arguments = [part.replace(PLACE, file_name).replace(HERE, str(Path.cwd())) for part in command]
    environment = {**os.environ, "TMPDIR": str(temporary), "TEMP": str(temporary), "TMP": str(temporary)}
    try:
        ran = subprocess.run(  # noqa: S603  # the custodian's own command
            arguments,
            cwd=out,
            env=environment,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, ValueError):
        raise FileProblem(command[0], "it cannot be run", "give the name of a program") from None
    except subprocess.TimeoutExpired:
        raise FileProblem(command[0], f"it took more than {about(_SECONDS)} seconds", "give smaller files") from None
    facts = {"exit status": str(ran.returncode)}
    for name, stream in (("standard output", ran.stdout), ("standard error", ran.stderr)):
        facts.update(_words(name, stream.decode("utf-8", "replace")))
    for name, root in (("files", out), ("temporary files", temporary)):
        found = sorted(path for path in root.rglob("*") if path.is_file())
        facts[name] = ", ".join(str(path.relative_to(root)) for path in found)
        for path in found:
            facts.update((f"{path.relative_to(root)}: {what}", value) for what, value in _of_file(path))
    return facts


def _words(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield each word of a text, so that one that is random hides no other."""
    lines = text.splitlines()
    yield f"{name}: lines", str(len(lines))
    for number, line in enumerate(lines, start=1):
        words = line.split()
        yield f"{name}, line {number}: words", str(len(words))
        for place, word in enumerate(words, start=1):
            yield f"{name}, line {number}, word {place}", word


def _of_file(path: Path) -> Iterator[tuple[str, str]]:
    """Yield what can be seen of a file beside the values of its records."""
    suffix = path.suffix.lower()
    if suffix in {".csv", ".parquet"}:
        yield from _of_table(path)
    elif suffix == ".json":
        yield from _leaves("", quietly(lambda: json.loads(path.read_bytes()), _unreadable(path)))


def _of_table(path: Path) -> Iterator[tuple[str, str]]:
    texts = path.suffix.lower() == ".csv"

    def read() -> pl.DataFrame:
        return pl.read_csv(path, infer_schema=False) if texts else parquet.scanned(path).collect()

    frame = quietly(read, _unreadable(path))
    yield "rows", str(frame.height)
    yield "columns", ", ".join(frame.columns)
    yield "types", ", ".join(map(str, frame.dtypes))
    for name, dtype in frame.schema.items():
        if isinstance(dtype, (pl.String, pl.Categorical, pl.Enum)):
            labels = frame[name].cast(pl.String).unique(maintain_order=True)
            if len(labels) <= _MOST_LABELS:
                yield f"order of the labels of {name}", ", ".join(str(label) for label in labels)


def _leaves(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield every value of a document with its place; of a list also its length."""
    if isinstance(value, dict):
        yield f"{name} fields", ", ".join(value)
        for key, part in value.items():
            if key not in _OF_EACH_RUN:
                yield from _leaves(f"{name}.{key}", part)
    elif isinstance(value, list):
        yield f"{name} length", str(len(value))
        for place, part in enumerate(value):
            yield from _leaves(f"{name}[{place}]", part)
    else:
        yield name, json.dumps(value)


def _unreadable(path: Path) -> FileProblem:
    return FileProblem(path.name, "the command wrote it and it cannot be read", "look at the command")
