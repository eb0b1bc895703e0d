"""The certificate of a release: plain versioned JSON that anybody can recompute.

It shows accidental change, not authenticity, and cannot prove that the mechanism was run: it says so itself. The schema
is documented in docs/reference/certificate.md.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from discreet import _parquet
from discreet._boundary import quietly
from discreet._reading import read_json
from discreet._text import counted, harmless, percent, rounded_up
from discreet._version import __version__
from discreet._writing import file_sha256, require_settled
from discreet.confidential._source import open_source
from discreet.domain import Domain
from discreet.errors import DiscreetError, FileProblem, ParameterError
from discreet.mechanisms import Mechanism, named
from discreet.mechanisms._mechanism import Outcome
from discreet.privacy import Budget, Guarantee, Relation
from discreet.releases._deadline import SECONDS, within
from discreet.releases._earlier import EARLIER, still_holds
from discreet.releases._errata import erratum_of, written_by
from discreet.releases._shape import misshapen
from discreet.releases._utility import POOR_UTILITY

__all__ = ["Certificate", "Check", "guarantee_of", "verify"]

SCHEMA = 1
_ADDED = ("share_at_most", "share_in_words")
"""Claims that certificates of version 0.1.0 lack."""

_PROFILE_EPSILONS = (0.01, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_SHOWN_ALONE = (
    "This certificate can be recomputed from the public facts in it, and shows whether the released file was changed "
    "by accident. It does not show who wrote it, and cannot prove that the mechanism was run as stated."
)
_SHOWS = (
    f"{_SHOWN_ALONE} Every other release of the same table adds to what this one reveals. Their profiles compose if "
    "the number of releases and the profile of each were fixed beforehand: composition is no rule for when to stop."
)
_SECURE = (
    "operating-system entropy, fresh for this release: ChaCha20 keyed with 256 bits of it, and for noise on counts "
    "OpenDP's own secure generator"
)
_SEEDED = "seeded: not for publication, since whoever knows or guesses the seed can undo the noise"
_SEEDED_CUT = (
    "seeded: not for publication, since whoever knows or guesses the seed knows which rows of each unit were kept; the "
    "release itself drew from operating-system entropy"
)
_MARKED = (_SEEDED, _SEEDED_CUT)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Certificate:
    """What was promised for one release, as JSON values.

    Parameters
    ----------
    facts : dict
        The document of schema version 1.
    """

    facts: dict[str, Any]

    @classmethod
    def of(
        cls,
        *,
        mechanism: Mechanism,
        guarantee: Guarantee,
        budget: Budget | None,
        size: int | None,
        unit: str | None,
        seeded: bool,
        columns: list[str],
        seeded_cut: bool = False,
        public_inputs: dict[str, str] | None = None,
    ) -> Self:
        """Write the certificate of a release; ``released`` is filled in when the records are written out."""
        epsilon = _headline_epsilon(guarantee, budget)
        facts = {
            "discreet_certificate": SCHEMA,
            "library": {"name": "discreet", "version": __version__},
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "mechanism": {"name": mechanism.name, "parameters": mechanism.parameters()},
            "domain": _as_json(mechanism.domain),
            "records": guarantee.n,
            "size": size,
            "relation": {"name": guarantee.relation.name, "group": guarantee.relation.group},
            "unit": {"column": unit, "max_records": guarantee.relation.group} if unit else None,
            "public_inputs": public_inputs or {},
            "guarantee": _promise(mechanism, guarantee, epsilon, unit=unit, seeded=seeded or seeded_cut),
            "randomness": _SEEDED if seeded else _SEEDED_CUT if seeded_cut else _SECURE,
            "released": {
                "columns": columns,
                "rows": size,
                "file": None,
                "sha256": None,
                "outcome": None,
                "share_from_data": None,
            },
            "shows": _SHOWS,
        }
        return cls(facts=facts)

    @property
    def epsilon(self) -> float:
        """The headline epsilon."""
        return float(self.whole().facts["guarantee"]["epsilon"])

    @property
    def delta(self) -> float:
        """The delta at the headline epsilon."""
        return float(self.whole().facts["guarantee"]["delta"])

    @property
    def seeded(self) -> bool:
        """Whether the release used a seed, and so is not for publication."""
        return self.whole().facts["randomness"] in _MARKED

    def with_rows(self, rows: int) -> Certificate:
        """Return the certificate with the number of rows that were released."""
        return Certificate(facts={**self.facts, "released": {**self.facts["released"], "rows": rows}})

    def with_outcome(self, outcome: Outcome) -> Certificate:
        """Return the certificate with what the output itself tells about its use."""
        told = {"outcome": outcome.text, "share_from_data": outcome.share_from_data}
        return Certificate(facts={**self.facts, "released": {**self.facts["released"], **told}})

    @property
    def poor(self) -> str | None:
        """Why the release is of poor use, in a sentence; None where it is not known to be.

        From the outcome, where that tells how much of the release is from the data, else from what was known before.
        """
        released, promise = self.whole().facts["released"], self.facts["guarantee"]
        from_data, before = _share(released.get("share_from_data")), _share(promise.get("share_not_from_data"))
        if from_data is not None:
            return f"Poor utility: {released.get('outcome')}." if from_data < 1.0 - POOR_UTILITY else None
        if before is None or before <= POOR_UTILITY:
            return None
        stated = (
            promise.get("share_in_words") or f"about {percent(before, 3)} of the released records are not from the data"
        )
        return f"Poor utility: {stated}."

    def for_file(self, path: Path, *, named: Path) -> Certificate:
        """Return the certificate with the name and hash of the file the records were written to."""
        released = {**self.facts["released"], "file": named.name, "sha256": file_sha256(path)}
        return Certificate(facts={**self.facts, "released": released})

    def to_json(self) -> str:
        """Return the document as indented JSON."""
        return json.dumps(self.facts, indent=2, allow_nan=False) + "\n"

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a certificate.

        Raises
        ------
        FileProblem
            When the file cannot be read, is not JSON, is not a certificate of a known version, or belongs to a write
            that was interrupted.
        """
        require_settled(path)
        facts = read_json(path, remedy="give the certificate written beside the release")
        if facts.get("discreet_certificate") != SCHEMA:
            raise FileProblem(
                path, f"it is not a discreet certificate of version {SCHEMA}", "check the file, or update discreet"
            )
        return cls(facts=facts)

    def whole(self) -> Certificate:
        """Return the certificate itself, once every field is there and of the right kind.

        Raises
        ------
        ParameterError
            When one is not; :func:`verify` says so as a claim that cannot be recomputed.
        """
        wrong = misshapen(self.facts)
        if wrong is not None:
            raise ParameterError(
                f"the certificate's field {wrong} is missing or of the wrong kind; give the file that was written"
            )
        return self

    @property
    def summary(self) -> str:
        """One line: how many records, from how many, under which budget, by which mechanism."""
        rows = self.whole().facts["released"]["rows"] or 0
        released = counted(rows, "record") if self.facts["size"] is not None else f"counts of {counted(rows, 'cell')}"
        declared = "" if self.facts["relation"]["name"] == "replacement" else "a declared "
        return (
            f"{released} from {declared}{self.facts['records']:,}, epsilon {rounded_up(self.epsilon, 6)}, "
            f"delta {rounded_up(self.delta)}, {self.facts['mechanism']['name']}"
            + (", seeded: not for publication" if self.seeded else "")
        )

    def __repr__(self) -> str:
        return f"<Certificate: {harmless(self.summary)}>"

    def _repr_html_(self) -> str:
        import html

        promise = self.whole().facts["guarantee"]
        caveats = "".join(f"<li>{html.escape(str(caveat))}</li>" for caveat in self._said())
        poor = f'<p style="color:#b3001e"><b>{html.escape(self.poor)}</b></p>' if self.poor else ""
        return (
            f"{poor}<p><b>{html.escape(self.summary)}</b></p><p>{html.escape(promise['statement'])}</p><ul>{caveats}</ul>"
            f"<p>{html.escape(self.facts['shows'])}</p>"
        )

    def __str__(self) -> str:
        return self.text if self.poor is None else f"{harmless(self.poor)}\n{self.text}"

    @property
    def text(self) -> str:
        """The promise, what else is to be known, and what a certificate shows: without what :attr:`poor` says first."""
        statement = self.whole().facts["guarantee"]["statement"]
        lines = [statement, *(f"- {line}" for line in self._said()), self.facts["shows"]]
        return "\n".join(map(harmless, lines))

    def _said(self) -> list[str]:
        """Return the caveats, and what the output told where it is not said first."""
        outcome = self.facts["released"].get("outcome")
        told = [] if outcome is None or (self.poor is not None and outcome in self.poor) else [outcome]
        return [*self.facts["guarantee"]["caveats"], *told]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One claim of a certificate beside what was recomputed.

    Parameters
    ----------
    what : str
        The claim's place in the document.
    claimed, found : object
        Its value there, and the one recomputed.
    agrees : bool
        Whether they agree.
    erratum : str, optional
        Of a claim that does not agree: the dated errata to certificates of the version that wrote it. The disagreement
        stays one.
    """

    what: str
    claimed: Any
    found: Any
    agrees: bool
    erratum: str | None = None


def verify(
    certificate: Certificate | str | os.PathLike[str],
    *,
    data: str | os.PathLike[str] | None = None,
    seconds: float = SECONDS,
) -> list[Check]:
    """Recompute everything a certificate claims.

    Parameters
    ----------
    certificate : Certificate or path
        As read from its file, or the file.
    data : path, optional
        The released file: its hash, rows and columns are compared too.
    seconds : float
        How long recomputing may take: a certificate can claim what is dear to check. Kept in the main thread of
        systems with interval timers.

    Returns
    -------
    list of Check
        One a claim; the certificate holds when all agree. Of a claim that does not, it says where an erratum explains
        it.

    Raises
    ------
    FileProblem
        When a file cannot be read.
    Refused
        When recomputing takes longer.
    """
    facts = certificate.facts if isinstance(certificate, Certificate) else Certificate.read(certificate).facts
    with within(seconds):
        checks = _recomputed(facts)
    if data is not None and checks[-1].what != "certificate":
        checks += _check_data(facts["released"], data)
    return with_errata(checks, facts)


def _recomputed(facts: dict[str, Any]) -> list[Check]:
    """Compare what a certificate claims with what follows from its public facts; the last check is that it can be."""
    checks: list[Check] = []
    try:
        mechanism, guarantee = _rebuild(facts)
        claimed = facts["guarantee"]
        seeded = facts["randomness"] in _MARKED
        unit = None if facts["unit"] is None else str(facts["unit"]["column"])
        recomputed = _promise(mechanism, guarantee, float(claimed["epsilon"]), unit=unit, seeded=seeded)
        checks += _promised(claimed, recomputed, earlier=written_by(facts) in EARLIER)
        checks.append(_compare("mechanism.parameters", facts["mechanism"]["parameters"], mechanism.parameters()))
        if facts["size"] is not None:
            checks.append(_compare("released.columns", facts["released"]["columns"], list(mechanism.domain.names)))
        checks.append(_rows(facts, mechanism))
        checks.append(_told(facts["released"]))
        said_before = facts["shows"] == _SHOWN_ALONE  # as version 0.1.0 wrote it
        checks.append(_compare("shows", facts["shows"], _SHOWN_ALONE if said_before else _SHOWS))
        if "public_inputs" in facts:  # older certificates have none
            checks.append(_public_inputs(facts["public_inputs"], mechanism))
        known = facts["randomness"] in (_SECURE, *_MARKED)
        checks.append(Check(what="randomness", claimed=facts["randomness"], found="a known statement", agrees=known))
    except (DiscreetError, KeyError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError) as error:
        problem = str(error) if isinstance(error, DiscreetError) else "a field is missing or of the wrong kind"
        checks.append(Check(what="certificate", claimed="can be recomputed", found=problem, agrees=False))
    return checks


def _promised(claimed: dict[str, Any], recomputed: dict[str, Any], *, earlier: bool) -> list[Check]:
    """Compare a guarantee with the one computed now; an earlier version's holds where it still does."""
    keys = set(claimed) | set(recomputed)
    if earlier:
        keys -= set(_ADDED) - set(claimed)
    checks = [(key, _compare(f"guarantee.{key}", claimed.get(key), recomputed.get(key))) for key in sorted(keys)]
    return [
        replace(check, agrees=True)
        if earlier and not check.agrees and still_holds(key, check.claimed, check.found)
        else check
        for key, check in checks
    ]


def with_errata(checks: list[Check], facts: dict[str, Any]) -> list[Check]:
    """Return the checks of a certificate, those that do not agree with the errata to them."""
    return [one if one.agrees else replace(one, erratum=erratum_of(one.what, facts)) for one in checks]


def _rebuild(facts: dict[str, Any]) -> tuple[Mechanism, Guarantee]:
    mechanism: Mechanism = named(facts["mechanism"]["name"]).of(
        facts["mechanism"]["parameters"],
        domain=Domain.from_dict(facts["domain"]),
        records=facts["records"],
        size=facts["size"],
    )
    relation = Relation(name=facts["relation"]["name"], group=facts["relation"]["group"])
    if facts["unit"] is not None and facts["unit"]["max_records"] != relation.group:
        raise ValueError
    return mechanism, mechanism.guarantee(relation, n=facts["records"])


def guarantee_of(certificate: Certificate) -> Guarantee:
    """Return the guarantee recomputed from a certificate's public facts."""
    return _rebuild(certificate.facts)[1]


def _headline_epsilon(guarantee: Guarantee, budget: Budget | None) -> float:
    """Return the budget's epsilon, or the least one at which delta is 1e-9 or at its floor."""
    if budget is not None:
        return budget.epsilon
    floor = guarantee.delta(math.inf)
    return guarantee.epsilon(min(1.0, max(1e-9, floor * (1 + 1e-6))))


def _as_json(domain: Domain) -> Any:
    """Return a domain's declaration as JSON values: dates and times in ISO form, which ``from_dict`` reads back."""
    return json.loads(json.dumps(domain.to_dict(), default=lambda date: date.isoformat()))


def _caveats(guarantee: Guarantee, epsilon: float, delta: float, unit: str | None) -> list[str]:
    """Return the guarantee's caveats and those that depend on the budget and the privacy unit."""
    caveats = list(guarantee.caveats)
    if unit is not None:
        caveats.append("rows of nulls stand for the unused slots of units; they may be dropped")
    caveats += delta_caveats(delta, guarantee.n)
    if epsilon > 10:
        caveats.append("an epsilon above 10 by itself promises next to nothing")
    return caveats


def delta_caveats(delta: float, n: int) -> list[str]:
    """Say what a delta allows that is not far below one in the number of records; nothing of one that is."""
    if delta * n <= 0.1:
        return []
    return [
        f"delta times the number of records is {rounded_up(delta * n)}: exposing as many records outright, on average, "
        "would be within the guarantee"
    ]


def _promise(
    mechanism: Mechanism, guarantee: Guarantee, epsilon: float, *, unit: str | None, seeded: bool
) -> dict[str, Any]:
    delta = guarantee.delta(epsilon)
    doubt = "was one thing or another" if guarantee.relation.name == "replacement" else "was in the table or not"
    statement = (
        f"Whatever the other records, an attacker who tests whether one {_unit(guarantee)} {doubt}, "
        f"with a false-alarm rate of a, detects it with probability at most e^{rounded_up(epsilon, 6)} a"
        + (f" + {rounded_up(delta)}." if delta else ".")
    )
    if seeded:
        statement = f"Seeded run, not for publication; with fresh randomness: {statement}"
    return {
        "epsilon": epsilon,
        "delta": delta,
        **guarantee.to_dict(),
        "profile": [[e, guarantee.delta(e)] for e in _PROFILE_EPSILONS],
        "caveats": _caveats(guarantee, epsilon, delta, unit),
        "share_not_from_data": None if mechanism.leaves_out else mechanism.share_not_from_data(guarantee.n),
        "share_at_most": mechanism.most_not_from_data(guarantee.n),
        "share_in_words": _share_in_words(mechanism, guarantee.n),
        "statement": statement,
    }


def _share_in_words(mechanism: Mechanism, n: int) -> str:
    """Say what share of the release was not going to be from the data, where a public fact says it."""
    if mechanism.leaves_out:
        return f"how many of the released records {mechanism.share_is_of} depends on the data; in the worst case, all"
    return mechanism.share_in_words(n)


def _unit(guarantee: Guarantee) -> str:
    return "record" if guarantee.relation.group == 1 else f"unit of up to {guarantee.relation.group} records"


def _compare(what: str, claimed: Any, found: Any) -> Check:
    return Check(what=what, claimed=claimed, found=found, agrees=_alike(claimed, found))


def _rows(facts: dict[str, Any], mechanism: Mechanism) -> Check:
    """Compare the number of rows with what was asked for: at most as many where it is random, one a cell of counts."""
    released = facts["released"]
    rows, size = released["rows"], facts["size"]
    if size is None:  # counts, of all cells or of the labels that were kept
        cells = mechanism._cells if mechanism.needs_cells else None
        return Check(what="released.rows", claimed=rows, found=cells, agrees=cells is None or rows == cells)
    fits = 0 <= rows <= size if mechanism.random_size else rows == size
    return Check(what="released.rows", claimed=rows, found=size, agrees=fits)


def _public_inputs(claimed: Any, mechanism: Mechanism) -> Check:
    """Check that every public table the mechanism was made of has a hash, and that all are hashes."""
    wanted = "a SHA-256 of each: " + (", ".join(mechanism.public_inputs()) or "what was declared public")
    hashes = [isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) for value in claimed.values()]
    agrees = all(hashes) and set(mechanism.public_inputs()) <= set(claimed)
    return Check(what="public_inputs", claimed=claimed, found=wanted, agrees=agrees)


def _told(released: dict[str, Any]) -> Check:
    """Check that what came out is a share; it cannot be recomputed."""
    told = released.get("share_from_data")
    fits = told is None or _share(told) is not None
    return Check(what="released.share_from_data", claimed=told, found="a share or null", agrees=fits)


def _share(value: Any) -> float | None:
    """Return a share that a document states, or None where it is none."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if number and 0.0 <= value <= 1.0 else None


def _alike(claimed: Any, found: Any) -> bool:
    """Compare values; numbers to one part in a million, so that another machine's rounding is no disagreement."""
    if isinstance(claimed, bool) or isinstance(found, bool):
        return claimed is found
    if isinstance(claimed, (int, float)) and isinstance(found, (int, float)):
        return math.isclose(claimed, found, rel_tol=1e-6, abs_tol=0.0)
    if isinstance(claimed, list) and isinstance(found, list):
        return len(claimed) == len(found) and all(map(_alike, claimed, found))
    if isinstance(claimed, dict) and isinstance(found, dict):
        return claimed.keys() == found.keys() and all(_alike(claimed[k], found[k]) for k in claimed)
    return bool(claimed == found)


def _check_data(released: dict[str, Any], data: str | os.PathLike[str]) -> list[Check]:
    import polars as pl

    require_settled(data)
    checks = [_compare("released.sha256", released.get("sha256"), file_sha256(data))]
    columns, path = list(open_source(data).names), Path(data)

    def counted() -> int:
        csv = path.suffix.lower() == ".csv"
        frame = pl.scan_csv(path, glob=False, infer_schema=False) if csv else _parquet.scanned(path)
        return int(frame.select(pl.len()).collect().item())

    rows = quietly(counted, FileProblem(data, "it is not a readable table", "give the released .parquet or .csv file"))
    checks.append(_compare("released.columns (in the file)", released.get("columns"), columns))
    checks.append(_compare("released.rows (in the file)", released.get("rows"), rows))
    return checks
