"""Whether a release shows more of the table it was made from than its claim allows: a test, for the custodian."""

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

from discreet._core.boundary import quietly
from discreet._core.errors import DataError, FileProblem, ParameterError, real
from discreet._core.files import check_outputs, together
from discreet._core.lazy import pl
from discreet._core.numeric import Integers
from discreet._core.random import secure, seeded
from discreet._core.reading import MOST_BYTES, first_wrong, read_json
from discreet._core.text import as_written, counted, percent, rounded_up
from discreet.audit import attacks
from discreet.audit.attacks import POWER, AttackResult, CodedUnits, StatedProfile
from discreet.audit.instance import BANNER
from discreet.confidential import NO_UNIT, Confidential, open_confidential, raw_rows
from discreet.domain import Domain, missing_in
from discreet.privacy import Budget, ChainProfile, Profile, Relation
from discreet.releases import Certificate, guarantee_of, read, released_counts, scanned, unreadable

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
        """Read a record. Raises FileProblem when it is not one, or was changed."""
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
                    if file.stat().st_size < MOST_BYTES and (record := cls.read(file)).is_of(data, control):
                        return record
        return None


def split(
    data: Any, out_data: Any, out_control: Any, record: Any, *, share: float = 0.5, unit: str | None = None
) -> Split:
    """Draw records, or whole units, as a control, and write both parts in a random order, and a record of the draw."""
    share = real("share", share, above=0, below=1)
    paths = [Path(out_data), Path(out_control), Path(record)]
    ending = ".csv" if Path(data).suffix.lower() == ".csv" else ".parquet"
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
        raise DataError(
            unit, "has a single record or unit", "give a table with at least two, one of which is for the control"
        )
    control = min(max(1, round(share * count)), count - 1)
    frames = [table[rows_of_units(numbers, units)] for units in random_parts(count, control)]
    parts = [_written(frame, path) for frame, path in zip(frames, paths, strict=False)]
    sizes: dict[str, Any] = {"records": frames[0].height, "control_records": frames[1].height}
    version, drawn = VERSION, _DRAWN
    if unit is not None:
        sizes |= {"unit": unit, "units": count - control, "control_units": control}
        version, drawn = OF_UNITS, f"whole units, {_DRAWN}"
    nonce = secrets.token_hex(32)
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    facts = {_KEY: version, "notice": f"{BANNER}, but for the commitment", "created": created, **sizes, "drawn": drawn}
    facts |= {"data": _keyed(nonce, parts[0]), "control": _keyed(nonce, parts[1]), "nonce": nonce}
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
    if path.suffix.lower() == ".csv":
        return frame.write_csv().encode()
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


def _keyed(nonce: str, content: bytes) -> str:
    return hmac.new(bytes.fromhex(nonce), content, hashlib.sha256).hexdigest()


def _commitment(facts: dict[str, Any]) -> str:
    committed = {name: value for name, value in facts.items() if name != "commitment"}
    return hashlib.sha256(json.dumps(committed, sort_keys=True).encode()).hexdigest()


LEVEL = 0.001
"""Probability at most of rejecting a claim that holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim to test: a profile between tables of which one unit is exchanged, in 2 steps under add-remove, else 1."""

    profile: Profile
    steps: int
    words: str
    certificate: Certificate | None = None
    unit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseAudit:
    """The test of a release's claim, by a p-value of all attacks together, corrected for their number. Confidential."""

    claim: str
    exploratory: str | None  # why there is no verdict
    level: float
    p_value: float
    attacks: tuple[AttackResult, ...]
    detectable: float | None  # the epsilon detected with probability :data:`POWER`

    @property
    def rejected(self) -> bool | None:
        """Whether the claim is rejected; None where there is no verdict."""
        return None if self.exploratory else self.p_value <= self.level

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, marked ``"confidential": true``."""
        facts = {name: getattr(self, name) for name in ("claim", "rejected", "exploratory", "level", "p_value")}
        attacks = [attack.to_dict() for attack in self.attacks]
        power = {"epsilon": self.detectable, "power": POWER}
        return {"confidential": True, "notice": BANNER, **facts, "attacks": attacks, "power": power}

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        if self.exploratory:
            return f"no verdict: {self.exploratory}"
        if self.rejected:
            return f"rejected at level {as_written(self.level)}: the release shows more than its claim allows"
        if self.detectable is None:
            return "not rejected; no epsilon would have been detected: there are too few records in the control"
        power = percent(POWER, 0)
        return f"not rejected; epsilon {as_written(self.detectable)} would have been detected with power {power}"

    def __str__(self) -> str:
        lines = [BANNER, f"claim: {self.claim}"]
        for attack in self.attacks:
            right = f"{attack.right:,} of {counted(attack.guesses, 'guess', 'guesses')} right"
            pairs = f"{counted(attack.pairs, 'pair')}, p-value {rounded_up(attack.p_value)}"
            lines.append(f"  {attack.name}: {right} ({percent(attack.right / attack.guesses)}) about {pairs}")
        lines += [f"p-value of all together: {rounded_up(self.p_value)}", self.verdict]
        if self.rejected is False and self.detectable is not None:
            lines.append("That is: if the guesses of one of these attacks were right as often as that epsilon allows.")
        return "\n".join(lines)


def claimed(
    release: Any,
    certificate: Any = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    relation: str | None = None,
) -> Claim:
    """Return the claim to test: that of a certificate, or a bare one. Raises ParameterError for one that cannot be."""
    if epsilon is None:
        if delta is not None or relation is not None:
            raise ParameterError("a claim without a certificate needs an epsilon. Write epsilon=...")
        return _certified_claim(read(release, certificate).certificate)
    if certificate is not None:
        raise ParameterError("give either a certificate or epsilon=..., not both")
    budget, neighbours = Budget(epsilon=epsilon, delta=delta or 0.0), Relation(name=relation or "replacement")  # type: ignore[arg-type]
    stated = StatedProfile(epsilon_stated=budget.epsilon, delta_stated=budget.delta)
    return _exchange_claim(stated, neighbours, f"{budget}, for {neighbours.name} of one record")


def _exchange_claim(profile: Profile, relation: Relation, words: str, **facts: Any) -> Claim:
    """Return a claim as one about tables of which one unit is exchanged: under add-remove, two steps."""
    if relation.name == "replacement":
        return Claim(profile=profile, steps=1, words=words, **facts)
    return Claim(profile=ChainProfile(single=profile, group=2), steps=2, words=words, **facts)


def _certified_claim(certificate: Certificate) -> Claim:
    guarantee, unit = guarantee_of(certificate), certificate.facts.unit
    if guarantee.relation.group > 1 and unit is None:
        raise ParameterError(
            "a claim about groups of records that no column names cannot be audited, since the control cannot be drawn "
            "by them. Audit a release of units (unit=...), by the same mechanism and budget"
        )
    if certificate.facts.mechanism.parameters.get("unit") is not None:
        raise ParameterError(
            "a model's claim about units cannot be audited, since it is about units of as many records each, and those "
            "of the control have other numbers. Audit tables of a model with one record per unit"
        )
    columns = Domain.from_dict(certificate.facts.domain).columns
    undeclared = [name for name, column in columns.items() if column.size is None]
    if certificate.facts.size is None and undeclared:
        raise ParameterError(
            f"counts of undeclared labels cannot be audited, since column {undeclared[0]!r} declares no cells that "
            "records of the control could be counted in. Audit a release of records, by the same mechanism and budget"
        )
    if guarantee.delta(certificate.epsilon) > certificate.delta * (1.0 + 1e-6):
        raise ParameterError("the certificate claims more than follows from its facts. Check it with discreet verify")
    column, exchanged = None, "record"
    if unit is not None:
        column, exchanged = unit.column, f"unit of up to {counted(unit.max_records, 'record')}"
    budget = f"epsilon {as_written(certificate.epsilon)}, delta {as_written(certificate.delta)}"
    words = f"{budget}, for {guarantee.relation.name} of one {exchanged}, with the whole profile of the certificate"
    return _exchange_claim(guarantee.profile, guarantee.relation, words, certificate=certificate, unit=column)


def audit_release(
    release: Any, data: Any, control: Any, claim: Claim, *, record: Any = None, level: float = LEVEL
) -> Confidential[ReleaseAudit]:
    """Test whether a released file, or a folder of several tables, shows more of its table than a claim allows."""
    # record: of the split; by default the one in the folder of the control or of the data.
    level = real("level", level, above=0, below=1)
    exploratory, seed, unit = _standing(data, control, record, claim)
    units, words = _coded_units(release, data, control, claim.certificate, unit), claim.words
    if unit is not None:
        words = words.replace("one record", "one unit")
    of_attack, null = level / len(attacks.ATTACKS), attacks.Null.from_profile(claim.profile)
    results = attacks.attack_results(*units, null, level=of_attack, rng=seeded(seed))
    epsilons = [attacks.detectable(np.flatnonzero(attack.tail <= of_attack), attack.guesses) for attack in results]
    least = min((epsilon / claim.steps for epsilon in epsilons if epsilon is not None), default=None)
    p_value = min(1.0, len(results) * min(attack.p_value for attack in results))
    facts: dict[str, Any] = {"exploratory": exploratory, "level": level, "p_value": p_value, "detectable": least}
    return Confidential(ReleaseAudit(claim=words, attacks=results, **facts))


def _standing(data: Any, control: Any, record: Any, claim: Claim) -> tuple[str | None, int, str | None]:
    """Return why there is no verdict, None where there is one; the seed of the examination; and the column of units."""
    split = Split.beside(data, control) if record is None else Split.read(record)
    if split is None:
        return "no record says that the control was drawn at random before the release", 0, claim.unit
    if not split.is_of(data, control):
        return "the record is of other files than these", 0, claim.unit
    if claim.certificate is not None and split.unit != claim.unit:
        by, about = ("single records" if u is None else f"the units in column {u!r}" for u in (split.unit, claim.unit))
        raise ParameterError(
            f"the control was drawn by {by}, and the claim is about {about}. Draw the control by {about}, and make the "
            "release from what is kept"
        )
    if claim.certificate is not None:
        created = datetime.datetime.fromisoformat(str(claim.certificate.facts.created))
        if created < split.created:
            return "the control was drawn after the release", 0, split.unit
    return None, split.seed, split.unit


def _coded_units(
    release: Any, data: Any, control: Any, certificate: Certificate | None, unit: str | None
) -> tuple[CodedUnits, CodedUnits, CodedUnits]:
    """Return the table, its control and the release on one coding, the first two unit by unit."""
    files = [Path(release)]
    if certificate is not None and "units" in certificate.facts.domain:
        raise ParameterError("a release of linked tables cannot be audited. Audit one of a long table, without units")
    if certificate is not None and certificate.several:
        files = [files[0] / Path(str(table.file)).name for table in certificate.tables]
    frame = quietly(lambda: pl.concat([scanned(file) for file in files]).collect(), unreadable())
    if frame.height == 0 or frame.width == 0:
        raise DataError(None, "the release has no rows", "give a release with records")
    domain, names, released = None, frame.columns, []
    if certificate is not None:
        domain = Domain.from_dict(certificate.facts.domain)
        if certificate.facts.size is None:
            names, released = list(domain.columns), [attacks.coded_counts(released_counts(frame, domain), domain)]
    columns = list(dict.fromkeys([*names, *filter(None, [unit])]))
    table = open_confidential(raw_rows(data, columns, what="data"), caller=__name__)
    outside = open_confidential(raw_rows(control, columns, what="control"), caller=__name__)
    labels, n_held = [], table.height
    if unit is not None:
        labels = [unit_labels(table, unit), unit_labels(outside, unit)]
        n_held = len(np.unique(labels[0]))
        if np.isin(labels[1], labels[0]).any():
            remedy = "draw the control by whole units"
            raise DataError(unit, "names units that have records both in the data and in the control", remedy)
    _require_own_number(certificate, n_held)
    frames = [table.select(names), outside.select(names), *([] if released else [frame])]
    kinds = DataError(None, "its columns are not of the kinds of those of the release", "give the table of the release")
    units = quietly(lambda: attacks.coded_tables(frames, domain), kinds) + released
    for place, names_of_units in enumerate(labels):
        units[place] = units[place].by_unit(names_of_units)
    return units[0], units[1], units[2]


def _require_own_number(certificate: Certificate | None, n_held: int) -> None:
    """Refuse a table of another number of records or units than the certificate's, which replacement makes public."""
    if certificate is None or certificate.facts.relation.name != "replacement":
        return
    stated, kind = certificate.facts.records, "record"
    if (unit := certificate.facts.unit) is not None:
        kind = "unit"
        if not certificate.facts.mechanism.parameters.get("unit_votes"):  # else its records are units already
            stated //= unit.max_records
    if stated != n_held:
        problem = f"the data have {counted(n_held, kind)}, and the certificate is of {stated:,}"
        raise DataError(None, problem, "give the table that the release was made from")
