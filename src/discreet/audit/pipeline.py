"""Two neighbouring files through one command: whatever can be seen of it, but for the released values, must agree."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from discreet._core.boundary import quietly
from discreet._core.errors import DataError, FileProblem, ParameterError, integer
from discreet._core.files import own_folder, together
from discreet._core.formats import format_of, scanned
from discreet._core.lazy import pl
from discreet._core.text import about, counted
from discreet.audit.instance import BANNER
from discreet.confidential import Confidential, open_confidential, raw_rows

_CONFIRMED = 12  # runs of each file before a difference is told: chance alone gives one with 5 / 4^12 at most
_SECONDS, _MOST_LABELS = 600.0, 64  # of a run; of a column whose order is compared


class PipelineAudit(NamedTuple):
    """How many facts of a command were compared, vary by themselves, or tell two files apart. Confidential."""

    differences: tuple[dict[str, str], ...]
    compared: int
    varying: int
    runs: int

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, marked ``"confidential": true``."""
        return {"confidential": True, "notice": BANNER, "agrees": not self.differences, **self._asdict()}

    def __str__(self) -> str:
        lines = [f"  {fact['what']}: {fact['first']!r} and {fact['second']!r}" for fact in self.differences]
        verdict = "nothing that was compared tells"
        if lines:
            verdict = counted(len(lines), "fact tells", "facts tell")
        numbers = f"{counted(self.compared, 'fact')} compared in {counted(self.runs, 'run')} of each file"
        varying = f"{self.varying:,} that vary by themselves passed over"
        return "\n".join([BANNER, *lines, f"{numbers}, {varying}: {verdict} the two files apart"])


def audit_pipeline(
    first: Any, second: Any, command: Sequence[str], *, work: Any, runs: int = 5
) -> Confidential[PipelineAudit]:
    """Run a command on two neighbouring files, alternately, in a new folder, and compare all that can be seen of it."""
    runs = integer("runs", runs, least=2, most=1000)
    if not any("{data}" in part for part in command):
        raise ParameterError("the command must name the file. Write {data} where it stands")
    paths, folder = [Path(first), Path(second)], Path(work)
    if len({path.suffix.lower() for path in paths}) > 1:
        raise ParameterError("the two files must be of one format")
    _require_neighbours(*(open_confidential(raw_rows(path), caller=__name__) for path in paths))
    if os.path.lexists(folder):
        raise FileProblem(work, "it exists already", "name a folder that does not exist")
    own_folder(folder, private=True)
    sides: tuple[list[dict[str, str]], list[dict[str, str]]] = ([], [])
    while len(sides[0]) < runs or (len(sides[0]) < _CONFIRMED and _compare(*sides).differences):
        for side, path, letter in zip(sides, paths, "ab", strict=True):
            side.append(_run(path, command, folder.absolute() / f"run-{len(side) + 1}-of-{letter}"))
    return Confidential(_compare(*sides))


def _require_neighbours(a: pl.DataFrame, b: pl.DataFrame) -> None:
    """Refuse files that differ in more than one record, or in their columns."""
    if (a.columns, a.dtypes) != (b.columns, b.dtypes):
        raise DataError(None, "the two files have other columns or types", "give two files that differ in one record")
    count = "discreet: frequency"
    signed = [frame.with_columns(pl.lit(sign, pl.Int64).alias(count)) for frame, sign in ((a, 1), (b, -1))]
    changes = pl.concat(signed).group_by(a.columns).sum()[count]
    if max(changes.clip(0).sum(), (-changes).clip(0).sum()) > 1:
        raise DataError(None, "the two files differ in more than one record", "give two that differ in one record")


def _compare(first: list[dict[str, str]], second: list[dict[str, str]]) -> PipelineAudit:
    differences, compared, varying = [], 0, 0
    for name in sorted({name for facts in (*first, *second) for name in facts}):
        a, b = ({facts.get(name, "nothing") for facts in side} for side in (first, second))
        compared += min(len(a), len(b)) == 1
        varying += min(len(a), len(b)) > 1
        if min(len(a), len(b)) == 1 and a.isdisjoint(b):
            differences.append({"what": name, "first": ", ".join(sorted(a)), "second": ", ".join(sorted(b))})
    return PipelineAudit(differences=tuple(differences), compared=compared, varying=varying, runs=len(first))


def _run(data: Path, command: Sequence[str], folder: Path) -> dict[str, str]:
    """Run the command in a folder of its own, and return all that can be seen of it."""
    copy, out, temporary = folder / "in" / f"data{data.suffix.lower()}", folder / "out", folder / "tmp"
    for place in (folder, copy.parent, out, temporary):
        own_folder(place, private=True)
    with together(copy, inputs=[data], private=True) as (file,):
        file.write(data.read_bytes())
    argv = [part.replace("{data}", os.path.relpath(copy, out)).replace("{here}", str(Path.cwd())) for part in command]
    environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))
    settings: dict[str, Any] = {"cwd": out, "env": environment, "stdin": subprocess.DEVNULL, "capture_output": True}
    try:
        ran = subprocess.run(argv, timeout=_SECONDS, check=False, **settings)  # noqa: S603  # the custodian's own
    except (OSError, ValueError):
        raise FileProblem(command[0], "it cannot be run", "give the name of a program") from None
    except subprocess.TimeoutExpired:
        raise FileProblem(command[0], f"it took more than {about(_SECONDS)} seconds", "give smaller files") from None
    facts = {"exit status": str(ran.returncode)}
    for name, stream in (("standard output", ran.stdout), ("standard error", ran.stderr)):
        lines = stream.decode("utf-8", "replace").splitlines()
        facts[f"{name}: lines"] = str(len(lines))
        for number, line in enumerate(lines, start=1):  # word by word, so that one that is random hides no other
            facts[f"{name}, line {number}: words"] = str(len(line.split()))
            facts.update((f"{name}, line {number}, word {i}", word) for i, word in enumerate(line.split(), start=1))
    for name, root in (("files", out), ("temporary files", temporary)):
        files = {str(path.relative_to(root)): path for path in sorted(root.rglob("*")) if path.is_file()}
        facts[name] = ", ".join(files)
        facts.update((f"{name}: {what}", value) for name, path in files.items() for what, value in _contents(path))
    return facts


def _contents(path: Path) -> Iterator[tuple[str, str]]:
    """Yield what can be seen of a file beside the values of its records."""
    suffix = path.suffix.lower()
    odd = FileProblem(path.name, "the command wrote it and it cannot be read", "look at the command")
    if suffix == ".json":
        yield from _leaves("", quietly(lambda: json.loads(path.read_bytes()), odd))
    elif (form := format_of(path)) is not None and not form.reader:
        table = quietly(lambda: scanned(path, form).collect(), odd)
        yield "rows", str(table.height)
        yield "columns", ", ".join(table.columns)
        yield "types", ", ".join(map(str, table.dtypes))
        for name, dtype in table.schema.items():
            texts = isinstance(dtype, (pl.String, pl.Categorical, pl.Enum))
            if texts and len(labels := table[name].cast(pl.String).unique(maintain_order=True)) <= _MOST_LABELS:
                yield f"order of the labels of {name}", ", ".join(map(str, labels))


def _leaves(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield every value of a document with its place; of a list also its length."""
    if isinstance(value, dict):
        yield f"{name} fields", ", ".join(value)
        for key in [key for key in value if key not in {"identity", "created", "sha256"}]:  # these differ by design
            yield from _leaves(f"{name}.{key}", value[key])
    elif isinstance(value, list):
        yield f"{name} length", str(len(value))
        for place, part in enumerate(value):
            yield from _leaves(f"{name}[{place}]", part)
    else:
        yield name, json.dumps(value)
