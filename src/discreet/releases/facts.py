"""The fields of a certificate: what each says, its JSON Schema, and how certificates of schema 2 are read and written.

The JSON Schema that is published and the tables of the reference page are made from them by ``tools/certificate.py``:
the text below a field is its row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import NoneType
from typing import Any, Literal, NoReturn, Self

from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError
from discreet._core.reading import first_wrong
from discreet.privacy import AttackBudget, Code
from discreet.wording import RANDOMNESS

_NUMBER = (int, float)
_NULL = {"type": "null"}
_TEXT = {"type": "string", "minLength": 1}
_TEXTS = {"type": "array", "items": {"type": "string"}}
_CODES = {"type": "array", "items": {"$ref": "#/$defs/code"}}
_NAME = {"type": "string", "pattern": "^[a-z][a-z0-9_-]*$"}
_HASH = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_HASH_OR_NULL = {"oneOf": [_NULL, _HASH]}
_FILE = {"oneOf": [_NULL, {**_TEXT, "pattern": "^[^/\\\\]+$"}]}
_IDENTITY = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
_POSITIVE = {"type": "integer", "minimum": 1}
_NUMBERS = {"type": "object", "additionalProperties": _POSITIVE}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_EPSILON = {"type": "number", "minimum": 0}
_PROBABILITY = {"type": "number", "minimum": 0, "maximum": 1}
_SHARE = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
_ATTACK = {"type": "object", "minProperties": 1, "additionalProperties": {"$ref": "#/$defs/probability"}}
_PAIRS = {"type": "array", "items": {**_TEXTS, "minItems": 2, "maxItems": 2}}
_POINT = {"type": "array", "prefixItems": [{"$ref": "#/$defs/epsilon"}, {"$ref": "#/$defs/probability"}]}
_POINTS = {"type": "array", "items": {**_POINT, "minItems": 2, "maxItems": 2}}


def _rule(
    schema: Mapping[str, Any] | None = None, *kinds: type, part: type | None = None, where: str | None = None
) -> dict[str, Any]:
    """Return what holds of a field: its JSON Schema, by default that of its ``part``."""
    # With kinds it is checked as a certificate is read; else it holds whatever was read. It is written where another
    # field, or it itself, is there.
    return {"schema": schema, "kinds": kinds, "part": part, "where": where, "required": where is None}


@dataclass(frozen=True, kw_only=True)
class Facts:
    """One object of a certificate."""

    @classmethod
    def rules(cls) -> dict[str, Mapping[str, Any]]:
        """Return what holds of each field, by its name."""
        return {item.name: item.metadata for item in fields(cls) if item.metadata}

    @classmethod
    def from_dict(cls, document: Any, place: str = "") -> Self:
        """Read a JSON value. Raises ParameterError with the place of the first wrong, missing or unknown field."""
        rules, values = cls.rules(), {}
        for name, rule in rules.items():
            due = rule["required"] or not isinstance(document, Mapping) or rule["where"] in document
            if due and rule["kinds"] and (wrong := first_wrong(document, {name: rule["kinds"]}, place)) is not None:
                _refuse(wrong)
            if rule["required"] and name not in document:
                _refuse(f"{place}{name}")
            values[name] = _inside(rule, document.get(name), f"{place}{name}")
        if later := sorted(set(document) - set(rules)):
            raise ParameterError(
                f"the certificate's field {place}{later[0]} was written by a later version of discreet. Update it"
            )
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON value, in the order of the fields."""
        values: dict[str, Any] = {}
        for name, rule in self.rules().items():
            value, where = getattr(self, name), rule["where"]
            if value is not None or where is None or getattr(self, where) is not None:
                if rule["part"] is not None and isinstance(value, list):
                    value = [entry.to_dict() for entry in value]
                values[name] = value.to_dict() if isinstance(value, (Facts, AttackBudget)) else value
        return values


def _inside(rule: Mapping[str, Any], value: Any, place: str) -> Any:
    """Return a value, typed where its field is a part."""
    part = rule["part"]
    if part is None or value is None:
        return value
    if part is Code:  # its numbers are whatever was read
        for i, entry in enumerate(value):
            if (wrong := first_wrong(entry, {"code": (str,)}, f"{place}[{i}].")) is not None:
                _refuse(wrong)
        return [Code(entry["code"], {key: entry[key] for key in entry if key != "code"}) for entry in value]
    if list in rule["kinds"]:
        return [part.from_dict(entry, f"{place}[{i}].") for i, entry in enumerate(value)] or _refuse(place)
    return part.from_dict(value, f"{place}.")


def _refuse(place: str) -> NoReturn:
    raise ParameterError(
        f"the certificate's field {place} is missing or of the wrong kind. Give the file that was written"
    )


@dataclass(frozen=True, kw_only=True)
class LibraryFacts(Facts):
    """The program that wrote a certificate."""

    name: str = field(metadata=_rule({"const": "discreet"}, str))
    """its name: `discreet`"""
    version: str = field(metadata=_rule(_TEXT, str))
    """its version"""


@dataclass(frozen=True, kw_only=True)
class LedgerFacts(Facts):
    """Where a release stands in the ledger that paid for it."""

    dataset: str = field(metadata=_rule({"type": "string"}, str))
    """name of the data set"""
    entry: str = field(metadata=_rule({"type": "string", "pattern": "^[0-9a-f]{12}$"}, str))
    """name of the release's entry"""
    head: str = field(metadata=_rule(_HASH, str))
    """hash of the ledger when the table was opened"""


@dataclass(frozen=True, kw_only=True)
class MechanismFacts(Facts):
    """What a private step is built again from."""

    name: str = field(metadata=_rule(_NAME, str))
    """its name in the registry"""
    parameters: Mapping[str, Any] = field(metadata=_rule({"$ref": "#/$defs/parameters"}, dict))
    """its public parameters"""


@dataclass(frozen=True, kw_only=True)
class RelationFacts(Facts):
    """Between which tables the guarantee holds."""

    name: Literal["replacement", "add-remove"] = field(metadata=_rule({"enum": ["replacement", "add-remove"]}, str))
    """`replacement`, or `add-remove`: `records` is then a number declared in public"""
    group: int = field(metadata=_rule({"type": "integer", "minimum": 1, "maximum": 10000}, int))
    """number of records that one privacy unit holds"""


@dataclass(frozen=True, kw_only=True)
class UnitFacts(Facts):
    """The privacy unit."""

    column: str = field(metadata=_rule({"type": "string"}, str))
    """the column that names it"""
    max_records: int = field(metadata=_rule(_POSITIVE, int))
    """the most records of one unit"""


@dataclass(frozen=True, kw_only=True)
class GuaranteeFacts(Facts):
    """The promise."""

    epsilon: float = field(metadata=_rule(_EPSILON, *_NUMBER))
    r"""one point of the profile, with `delta`: at the $\varepsilon$ of the budget, if one was given"""
    delta: float = field(metadata=_rule(_PROBABILITY, *_NUMBER))
    r"""the $\delta$ at `epsilon`"""
    epsilon_each: float | None = field(default=None, metadata=_rule(_EPSILON, *_NUMBER, where="epsilon_each"))
    r"""only of a model: the $\varepsilon$ of one table; `epsilon` is that of all tables together"""
    attack: AttackBudget | None = field(default=None, metadata=_rule(_ATTACK, dict, part=AttackBudget, where="attack"))
    """only where that was asked for: what the best attacker [reaches at most](../how-to/choose-a-budget.md).
    `detection` at `false_alarms`, or `advantage`, or `success` at `prior`"""
    pure_epsilon: float | None = field(metadata=_rule({"oneOf": [_NULL, _EPSILON]}))
    r"""the $\varepsilon$ at which $\delta=0$, or `null`"""
    kind: str = field(metadata=_rule({"enum": ["unconditional", "asymptotic", "empirical"]}, str))
    """see [kinds](../guarantee.md#kinds)"""
    theorem: str = field(metadata=_rule({"type": "string", "pattern": "^T[1-9][0-9]*(, [a-z ]+)?$"}, str))
    """id in the [theory pages](../theory/index.md)"""
    exact: bool = field(metadata=_rule({"type": "boolean"}))
    """whether some neighbours attain the profile"""
    assumptions: list[Code] = field(metadata=_rule(_CODES, list, part=Code))
    """what the promise assumes: [codes](#codes)"""
    caveats: list[Code] = field(metadata=_rule(_CODES, list, part=Code))
    """what else is to be known: [codes](#codes)"""
    profile: Sequence[Sequence[float]] = field(metadata=_rule(_POINTS))
    r"""pairs $[\varepsilon,\delta]$ at fixed $\varepsilon$"""


@sealed
@dataclass(frozen=True, kw_only=True)
class FileFacts(Facts):
    """One released table."""

    file: str | None = field(metadata=_rule(_FILE, str, NoneType))
    """name of its file; `null` where it was not written"""
    rows: int = field(metadata=_rule({"type": "integer", "minimum": 0}, int))
    """its number of rows: fewer than `size` where the mechanism releases a random number, one per cell for counts"""
    sha256: str | None = field(metadata=_rule(_HASH_OR_NULL, str, NoneType))
    """hash of its file; `null` where it was not written"""


@dataclass(frozen=True, kw_only=True)
class ReleasedFacts(Facts):
    """What was released."""

    columns: Sequence[str] = field(metadata=_rule({**_TEXTS, "minItems": 1, "uniqueItems": True}, list))
    """names of the released columns, of two tables those of both"""
    tables: list[FileFacts] = field(metadata=_rule(None, list, part=FileFacts))
    """the released tables: several in a folder where the mechanism has the parameter `tables`, two where the domain has
    `units` (that of the units first; of several draws one pair after the other), else one. Of each:"""
    outcome: list[Code] = field(default_factory=list, metadata=_rule(_CODES, list, part=Code))
    """what the output itself tells about its use, such as how many labels were kept, or which limits of convergence the
    Markov chains met: [codes](#codes), none where that was known beforehand. It cannot be recomputed, nor can the three
    fields `share_from_data`, `pairs_measured` and `merged_cells`"""
    share_from_data: float | None = field(default=None, metadata=_rule(_SHARE))
    """share of the released records that carries information from the data, estimated from the output; `null` where
    that was known beforehand"""
    pairs_measured: Sequence[Sequence[str]] | None = field(default=None, metadata=_rule(_PAIRS, where="pairs_measured"))
    """only of several tables by `marginals`: the pairs of columns whose tables were measured. What other columns do
    together rests on conditional independence"""
    merged_cells: Mapping[str, int] | None = field(default=None, metadata=_rule(_NUMBERS, where="merged_cells"))
    """only of several tables by `marginals`: the columns whose cells were merged before pairs were measured, and the
    number of cells left in each. Within a merged cell, a value does not depend on other columns"""
    partitions: int | None = field(default=None, metadata=_rule(_POSITIVE, int, where="partitions"))
    """only of a [release in parts](../how-to/release-in-parts.md): the number of its Parquet files. The `file` of
    its only table is then `_manifest.json`, and `sha256` is the hash of that"""
    partition_by: str | None = field(default=None, metadata=_rule(_TEXT_OR_NULL, str, NoneType, where="partitions"))
    """only of a release in parts: the column whose values name its folders, or `null`"""


@sealed
@dataclass(frozen=True, kw_only=True)
class CertificateFacts(Facts):
    """A certificate."""

    discreet_certificate: int = field(metadata=_rule({"const": 2}))
    """version of this schema: `2`"""
    library: LibraryFacts = field(metadata=_rule(None, dict, part=LibraryFacts))
    """the program that wrote it:"""
    created: str = field(metadata=_rule({"$ref": "#/$defs/created"}, str))
    """time, UTC, ISO 8601"""
    identity: str | None = field(default=None, metadata=_rule(_IDENTITY, where="identity"))
    """128 random bits of the release, from the operating system and from no data, as hexadecimal digits. Seeded
    releases have none, so that they are the same byte for byte each time"""
    mechanism: MechanismFacts = field(metadata=_rule(None, dict, part=MechanismFacts))
    """what took the private step:"""
    domain: Mapping[str, Any] = field(metadata=_rule({"$ref": "#/$defs/domain"}, dict))
    """the declared domain, in the form of its TOML file, with its outcome and difference, what it declares as
    impossible, implied and published, and the sources of totals"""
    records: int = field(metadata=_rule({"type": "integer", "minimum": 0}, int))
    """number of records $n$, public; of rows by themselves that units have, units times slots"""
    size: int | None = field(metadata=_rule({"$ref": "#/$defs/size"}, int, NoneType))
    """number of records $m$ that was asked for, of each table; `null` where counts were released"""
    relation: RelationFacts = field(metadata=_rule(None, dict, part=RelationFacts))
    """between which tables the guarantee holds:"""
    unit: UnitFacts | None = field(metadata=_rule(None, dict, NoneType, part=UnitFacts))
    """the privacy unit, or `null`:"""
    public_inputs: Mapping[str, str] = field(metadata=_rule({"type": "object", "additionalProperties": _HASH}, dict))
    """name and SHA-256 of each table that was declared public: `reference`, `points`, `api.table`, `api.prompts`"""
    guarantee: GuaranteeFacts = field(metadata=_rule(None, dict, part=GuaranteeFacts))
    """see below"""
    randomness: str = field(metadata=_rule({"enum": list(RANDOMNESS)}, str))
    """where the randomness came from: `operating-system`, `operating-system-and-jax` (of a model), or, not for
    publication, `seeded`, or `seeded-cut` where only the choice of the rows of each unit was seeded"""
    released: ReleasedFacts = field(metadata=_rule(None, dict, part=ReleasedFacts))
    """see below"""
    ledger: LedgerFacts | None = field(default=None, metadata=_rule(None, dict, part=LedgerFacts, where="ledger"))
    """where the release stands in the [ledger](../how-to/keep-a-ledger.md) that paid for it. Absent where no ledger was
    kept:"""
    earlier: Mapping[str, Any] | None = field(default=None, repr=False)  # the document, where it is of schema 1
