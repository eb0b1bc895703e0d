"""A control drawn at random before a release: what makes the records of a table and of its control exchangeable."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import hmac
import io
import json
import secrets
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Integers
from discreet._core.boundary import quietly
from discreet._core.checks import real
from discreet._core.errors import DataError, FileProblem, ParameterError
from discreet._core.files import check_outputs, together
from discreet._core.lazy import pl
from discreet._core.random import secure
from discreet._core.reading import MOST_BYTES, first_wrong, read_json
from discreet.audit.instance import BANNER
from discreet.confidential import NO_UNIT, open_confidential, raw_rows
from discreet.domain import missing_in

VERSION, OF_UNITS = 1, 2
"""Of records of a split: record by record, and by whole units, which earlier releases of this program cannot read."""

_KEY = "discreet_split"
_TEXTS = dict.fromkeys(("created", "data", "control", "nonce", "commitment"), (str,))
_DRAWN = "uniformly at random without replacement, by the operating system's randomness"
_REMEDY = "give the record that discreet audit split wrote"


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The record of a split, as the document that it is. Confidential, but for the commitment."""

    facts: dict[str, Any]

    @property
    def commitment(self) -> str:
        """What may be told to anybody, before the release is made: it tells nothing, and holds the custodian to it."""
        return str(self.facts["commitment"])

    @property
    def unit(self) -> str | None:
        """The column that names the units that were drawn as a whole; None where records were drawn."""
        return self.facts.get("unit")

    @property
    def created(self) -> datetime.datetime:
        """When the control was drawn."""
        return datetime.datetime.fromisoformat(self.facts["created"])

    @property
    def seed(self) -> int:
        """A seed for the examination: drawn with the control and independent of it, so that nobody chooses it."""
        return int.from_bytes(hashlib.sha256(b"seed" + bytes.fromhex(self.facts["nonce"])).digest()[:8], "big")

    def is_of(self, data: Any, control: Any) -> bool:
        """Return whether two files are those that were written, unchanged."""
        paths = {"data": data, "control": control}
        return all(
            isinstance(path, (str, PathLike))
            and hmac.compare_digest(_keyed(self.facts["nonce"], Path(path).read_bytes()), self.facts[name])
            for name, path in paths.items()
        )

    @classmethod
    def read(cls, path: Any) -> Split:
        """Read a record. Raises FileProblem when it is none, or was changed."""
        facts = read_json(path, remedy=_REMEDY)
        if facts.get(_KEY) not in (VERSION, OF_UNITS):
            raise FileProblem(path, f"it is not a record of a split of version {VERSION} or {OF_UNITS}", _REMEDY)
        unchanged = first_wrong(facts, _TEXTS, "") is None and facts["commitment"] == _commitment(facts)
        with contextlib.suppress(ValueError):
            moment = datetime.datetime.fromisoformat(facts["created"] if unchanged else "")
            if moment.tzinfo is not None and len(bytes.fromhex(facts["nonce"])) == 32:
                return cls(facts=facts)
        raise FileProblem(path, "it is not as it was written", _REMEDY)

    @classmethod
    def beside(cls, data: Any, control: Any) -> Split | None:
        """Return the record of two files where it lies in the folder of one of them; None where there is none."""
        for folder in dict.fromkeys(Path(path).absolute().parent for path in (control, data)):
            for file in sorted(folder.glob("*.json")):
                with contextlib.suppress(FileProblem, OSError):
                    record = cls.read(file) if file.stat().st_size < MOST_BYTES else None
                    if record is not None and record.is_of(data, control):
                        return record
        return None


def split(
    data: Any, out_data: Any, out_control: Any, record: Any, *, share: float = 0.5, unit: str | None = None
) -> Split:
    """Draw records, or whole units, as a control, and write both parts in a random order, and a record of the draw."""
    share = real("share", share, above=0, below=1)
    paths = [Path(out_data), Path(out_control), Path(record)]
    ending = {".csv": ".csv"}.get(Path(data).suffix.lower(), ".parquet")
    if {path.suffix.lower() for path in paths[:2]} != {ending}:
        raise ParameterError(f"out_data and out_control of such data must be {ending} files. Give them that ending")
    if paths[2].suffix.lower() != ".json":
        raise ParameterError("record must be a .json file. Give it that ending")
    check_outputs(paths, [data])
    table = open_confidential(raw_rows(data), caller=__name__)
    numbers = np.arange(table.height)
    if unit is not None:
        if unit not in table.columns:
            raise ParameterError("the table has no column of that name. Write unit=... with the column of the units")
        numbers = np.unique(unit_labels(table, unit), return_inverse=True)[1].astype(np.int64)
    count = int(numbers.max()) + 1
    if count < 2:
        raise DataError(unit, "has a single record or unit", "a control needs at least one beside it")
    control = min(max(1, round(share * count)), count - 1)
    frames = [table[rows_of_units(numbers, units)] for units in random_parts(count, control)]
    parts = [_written(frame, path) for frame, path in zip(frames, paths, strict=False)]
    sizes: dict[str, Any] = {"records": frames[0].height, "control_records": frames[1].height}
    version, drawn = VERSION, _DRAWN
    if unit is not None:
        sizes |= {"unit": unit, "units": count - control, "control_units": control}
        version, drawn = OF_UNITS, f"whole units, {_DRAWN}"
    nonce = secrets.token_hex(32)
    facts = {
        _KEY: version,
        "notice": f"{BANNER}, but for the commitment",
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        **sizes,
        "drawn": drawn,
        "data": _keyed(nonce, parts[0]),
        "control": _keyed(nonce, parts[1]),
        "nonce": nonce,
    }
    facts |= {"commitment": _commitment(facts)}
    with together(*paths, inputs=[data], private=True) as files:
        for file, content in zip(files, [*parts, (json.dumps(facts, indent=2) + "\n").encode()], strict=True):
            file.write(content)
    return Split(facts=facts)


def random_parts(count: int, control: int) -> tuple[Integers, Integers]:
    """Return which of so many records stay and which are the control: every order of both is equally likely."""
    order = secure().permutation(count)
    return order[control:], order[:control]


def unit_labels(table: pl.DataFrame, unit: str) -> npt.NDArray[Any]:
    """Return the privacy unit of each row as text. Raises DataError where a row has none."""
    labels = table[unit]
    if missing_in(labels).any():
        raise DataError(unit, *NO_UNIT)
    odd = DataError(unit, "holds values that name no units", "give every unit a number or a text")
    return quietly(lambda: labels.cast(pl.String).to_numpy().astype(str), odd)


def rows_of_units(numbers: Integers, units: Integers) -> Integers:
    """Return the rows of some units, in a random order."""
    return secure().permutation(np.flatnonzero(np.isin(numbers, units)))


def _written(frame: pl.DataFrame, path: Path) -> bytes:
    buffer = io.BytesIO()
    if path.suffix.lower() == ".csv":
        frame.write_csv(buffer)
    else:
        frame.write_parquet(buffer)
    return buffer.getvalue()


def _keyed(nonce: str, content: bytes) -> str:
    return hmac.new(bytes.fromhex(nonce), content, hashlib.sha256).hexdigest()


def _commitment(facts: dict[str, Any]) -> str:
    committed = {name: value for name, value in facts.items() if name != "commitment"}
    return hashlib.sha256(json.dumps(committed, sort_keys=True).encode()).hexdigest()
