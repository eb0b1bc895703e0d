"""Verifying: everything that a certificate claims, recomputed from the public facts in it."""

from __future__ import annotations

import datetime as dt
import hashlib
import math
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, cycle
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from discreet._core import formats
from discreet._core.boundary import quietly, sealed
from discreet._core.errors import BudgetError, DiscreetError, FileProblem, ParameterError
from discreet._core.files import require_settled
from discreet._core.lazy import pl
from discreet._core.page import FilePath
from discreet._core.reading import SECONDS, file_sha256, within
from discreet.confidential import open_source
from discreet.domain import Domain
from discreet.mechanisms import Contents, Mechanism, public_inputs
from discreet.privacy import Guarantee
from discreet.releases import certificate_v1
from discreet.releases import table as reading
from discreet.releases.certificate import Certificate, share
from discreet.releases.content import SEEDED, certified_release, promise, utility_facts
from discreet.releases.facts import CertificateFacts, FileFacts
from discreet.releases.writing import IDENTITY_KEY, MANIFEST
from discreet.wording import SENTENCES, losses_of

SAME_ROWS = "other bytes of the same rows"
"""Stands for the hash of a released file that was saved again, where its rows are those that were released."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Erratum:
    """What was found to be wrong in certificates of some versions and mechanisms, and what holds instead."""

    date: str  # ISO 8601
    versions: list[str]
    mechanisms: list[str]
    claims: list[str]  # places in the document, as Check names them
    text: str

    def __str__(self) -> str:
        return f"Erratum of {self.date} to certificates of discreet {', '.join(self.versions)}: {self.text}"


_FILE = Path(__file__).with_name("errata.toml")
ERRATA = tuple(Erratum(**entry) for entry in tomllib.loads(_FILE.read_text(encoding="utf-8"))["erratum"])
"""All errata, the earliest first."""


def erratum_of(claim: str, facts: CertificateFacts) -> str | None:
    """Return the errata to a claim of a certificate, by its place there, or None where there is none."""
    version, mechanism = facts.library.version, facts.mechanism.name
    texts = [
        str(erratum)
        for erratum in ERRATA
        if claim in erratum.claims and version in erratum.versions and mechanism in erratum.mechanisms
    ]
    return "\n".join(texts) or None


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One claim of a certificate beside what was recomputed, or found in another claim or in the released file.

    Parameters
    ----------
    what : str
        The claim's place in the document; of one of several tables, after the name of its file.
    claimed, found : object
        Its value there, and the one recomputed.
    agrees : bool
        Whether they agree.
    stated : bool
        Whether it is only what somebody wrote: nothing follows from it, and no more than its form was looked at.
    erratum : str, optional
        Of a claim that does not agree: the dated errata to certificates of the version that wrote it. The disagreement
        stays one.
    """

    what: str
    claimed: Any
    found: Any
    agrees: bool
    stated: bool = False
    erratum: str | None = None


@sealed
def verify(
    certificate: Certificate | FilePath, *, data: FilePath | None = None, seconds: float = SECONDS
) -> list[Check]:
    """Recompute everything a certificate claims.

    Parameters
    ----------
    certificate : Certificate or path
        As read from its file, or the file, or the folder of tables or parts that holds it: these are then checked too.
    data : path, optional
        The released file, or the folder of tables or parts. Hashes, rows and columns are compared too, and each value
        with its declaration.
    seconds : float
        How long recomputing may take: a certificate can claim what is dear to check. Kept in the main thread of
        systems with interval timers.

    Returns
    -------
    list of Check
        One per claim; the certificate holds when all agree. Claims that are only stated come last. Of a claim that
        does not agree, it says where an erratum explains it.

    Raises
    ------
    FileProblem
        When a file cannot be read.
    ParameterError
        When a folder and ``data`` are given.
    Refused
        When recomputing takes longer than ``seconds``.
    """
    if not isinstance(certificate, Certificate):
        if Path(certificate).is_dir():
            if data is not None:
                raise ParameterError("a folder holds what was released beside its certificate. Leave data out")
            data = certificate
        try:
            certificate = Certificate.read(certificate)
        except (BudgetError, ParameterError) as problem:
            return [_not_recomputed(str(problem))]
    with within(seconds):
        checks = _certificate_checks(certificate)
    recomputed = checks[-1].what != "certificate"
    if data is not None and recomputed:
        if certificate.in_parts:
            checks += _check_parts(certificate, Path(data))
        elif certificate.several:
            checks += _check_folder(certificate, Path(data))
        else:
            checks += _check_file(certificate, certificate.tables[0], data)
        if certificate.in_parts or any(".identity (" in check.what for check in checks):
            checks = [replace(check, stated=check.stated and check.what != "identity") for check in checks]
    if recomputed:
        checks += _stated_checks(certificate, data=data is not None)
    facts = certificate.facts
    return [check if check.agrees else replace(check, erratum=erratum_of(check.what, facts)) for check in checks]


def guarantee_of(certificate: Certificate) -> Guarantee:
    """Return the guarantee recomputed from a certificate's public facts."""
    return certified_release(certificate.facts)[-1]


def promised_now(certificate: Certificate, mechanism: Mechanism, guarantee: Guarantee) -> Certificate:
    """Return a certificate with the ``guarantee`` that it should have."""
    facts, stated = certificate.facts, certificate.facts.guarantee
    promised = promise(mechanism, guarantee, float(stated.epsilon), unit=facts.unit, attack=stated.attack)
    promised = replace(promised, **certificate_v1.profile_of(facts, guarantee))
    return replace(certificate, facts=replace(facts, guarantee=promised))


def _certificate_checks(certificate: Certificate) -> list[Check]:
    """Compare what a certificate claims with what follows from its public facts; the last check is that it can be."""
    checks: list[Check] = []
    try:
        mechanism, contents, guarantee = certified_release(certificate.facts)
        checks += _guarantee_checks(certificate, mechanism, guarantee)
        checks += _other_checks(certificate, mechanism, contents)
    except (DiscreetError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError) as error:
        problem = str(error) if isinstance(error, DiscreetError) else "a field is missing or of the wrong kind"
        checks.append(_not_recomputed(problem))
    return checks


def _not_recomputed(problem: str) -> Check:
    return Check(what="certificate", claimed="can be recomputed", found=problem, agrees=False)


def _compare(place: str, claimed: Any, value: Any, *, rel: float = 1e-6) -> Check:
    return Check(what=place, claimed=claimed, found=value, agrees=_alike(claimed, value, rel))


def _guarantee_checks(certificate: Certificate, mechanism: Mechanism, guarantee: Guarantee) -> Iterator[Check]:
    """Compare a promise with the one computed now; the words of schema 1 as far as they can be."""
    today = promised_now(certificate, mechanism, guarantee)
    facts, oldest = certificate.facts, certificate_v1.is_oldest(certificate.facts)
    claims, values = facts.guarantee.to_dict(), today.facts.guarantee.to_dict()
    if (attack := facts.guarantee.attack) is not None:
        values["attack"] |= {attack.limit[0]: attack.reached(guarantee.profile)}
    texts = {"assumptions", "caveats"} if facts.earlier else set()
    rounding, exact = (certificate_v1.NOISE, False) if oldest else (_ROUNDING, facts.guarantee.exact)
    for key in sorted((set(claims) | set(values)) - texts):
        claimed, value = claims.get(key), values.get(key)
        agrees = holds(claimed, value, rounding, exact) if key in _BOUNDS else _alike(claimed, value, rounding)
        yield Check(what=f"guarantee.{key}", claimed=claimed, found=value, agrees=agrees)
    if facts.earlier is None:
        return
    for place, text, text_today, agrees in certificate_v1.sentences(facts, today.facts, today.statement):
        yield Check(what=place, claimed=text, found=text_today, agrees=agrees)
    forecast, earlier_claims = utility_facts(mechanism, guarantee.n), certificate_v1.claims_of(facts)
    for key in sorted(set(forecast) & set(earlier_claims)):
        place, claim = f"guarantee.{key}", earlier_claims[key]
        agrees = _alike(claim, forecast[key], 1e-6) or erratum_of(place, facts) is None
        yield Check(what=place, claimed=claim, found="a forecast, not checked", agrees=agrees, stated=True)


_BOUNDS = ("attack", "delta", "epsilon", "epsilon_each", "profile", "pure_epsilon")
_ROUNDING = 1e-13  # another machine may round the last written digit of a number differently
_LARGEST, _SMALLEST = 1.01, 1e-300  # the contract of what is called exact


def holds(claimed: Any, value: Any, rounding: float, exact: bool) -> bool:
    """Return whether a bound is at least the one computed, which a larger one is too unless it is called exact."""
    if isinstance(value, dict):  # of an attack
        return all(holds(claimed[name], number, rounding, exact=False) for name, number in value.items())
    if isinstance(value, list):  # of a profile
        return len(claimed) == len(value) and all(
            len(a) == 2 and a[0] == b[0] and holds(a[1], b[1], rounding, exact)
            for a, b in zip(claimed, value, strict=True)
        )
    bound, true = (math.inf if number is None else number for number in (claimed, value))
    excessive = exact and bound > _LARGEST * true and not 0.0 < true < _SMALLEST
    return bool(bound >= true * (1.0 - rounding) and not excessive)


def _other_checks(certificate: Certificate, mechanism: Mechanism, contents: Contents) -> Iterator[Check]:
    """Compare what was released with what was asked for."""
    facts, released, randomness = certificate.facts, certificate.facts.released, mechanism.traits.randomness
    # Earlier versions wrote them before they were rounded to the kernel's grid.
    rel = 0.0 if facts.earlier is None else 1e-4
    yield _compare("mechanism.parameters", facts.mechanism.parameters, mechanism.parameters(), rel=rel)
    yield _compare("library.name", facts.library.name, "discreet")
    yield _compare("released.columns", released.columns, list(contents.columns))
    for table, part in zip(certificate.tables, cycle(certificate.table_names), strict=False):
        name, rows = table.file if certificate.several else "released", contents.rows
        if part and part == contents.domain.units:
            rows = range(contents.size or 0, (contents.size or 0) + 1)
        elif part:
            rows = range((contents.size or 0) * contents.domain.row_tables[part].number + 1)
        yield Check(what=f"{name}.rows", claimed=table.rows, found=rows[-1], agrees=table.rows in rows)
    yield _compare("released.tables", len(certificate.tables), (contents.tables or 1) * len(certificate.table_names))
    yield _compare("size", facts.size, contents.size)
    if facts.earlier is None:
        seeded, text = facts.randomness == "seeded", facts.identity
        form, agrees = "128 random bits", _is_hash(text, 32)
        if seeded:
            form, agrees = "none", text is None
        yield Check(what="identity", claimed=text, found=form, agrees=agrees, stated=text is not None)
    agrees = facts.randomness in (randomness, *SEEDED)
    yield Check(what="randomness", claimed=facts.randomness, found=randomness, agrees=agrees)
    yield from _pair_checks(facts, mechanism)
    if facts.earlier is None or "public_inputs" in facts.earlier:
        names = sorted(public_inputs(mechanism))
        agrees = set(names) <= set(facts.public_inputs)
        yield Check(what="public_inputs", claimed=sorted(facts.public_inputs), found=names, agrees=agrees)


def _pair_checks(facts: CertificateFacts, mechanism: Mechanism) -> Iterator[Check]:
    """Compare what an outcome tells of pairs of columns with the pairs that there are."""
    codes = {code.name: code.numbers for code in facts.released.outcome}
    if "pair-losses" in codes:
        rows, tables = losses_of(facts.released.outcome), set(map("*".join, combinations(mechanism.domain.names, 2)))
        matches = [row for row in rows if row[0] in tables and max(row[1:]) <= 1.0 and min(row[1:]) >= 0.0]
        agrees = bool(rows) and matches == sorted(rows, key=lambda row: -row[1])
        yield Check(what="released.outcome.pair-losses", claimed=len(rows), found=len(matches), agrees=agrees)
    if "unmeasured-pairs" in codes:
        numbers = codes.get("pairs-measured") or codes.get("named-pairs-measured") or {}
        scored, claimed = len(getattr(mechanism, "pairs", ())), codes["unmeasured-pairs"].get("pairs")
        most = numbers.get("pairs", scored) - numbers.get("measured", 0)
        agrees = isinstance(claimed, int) and max(1, scored - numbers.get("measured", 0)) <= claimed <= most
        yield Check(what="released.outcome.unmeasured-pairs", claimed=claimed, found=most, agrees=agrees)


def _stated_checks(certificate: Certificate, *, data: bool) -> Iterator[Check]:
    """Yield what is only stated, with and without the data, and whether it has its form."""
    facts, released = certificate.facts, certificate.facts.released
    codes, number = [code.name for code in released.outcome], released.share_from_data
    leaves: list[tuple[str, Any, bool]] = [
        ("created", facts.created, _is_time(facts.created)),
        ("library.version", facts.library.version, True),
        ("ledger", facts.ledger and facts.ledger.to_dict(), True),
        ("mechanism.parameters.api", facts.mechanism.parameters.get("api"), True),
        ("unit.column", facts.unit and facts.unit.column, True),
        ("released.outcome", codes, facts.earlier is not None or set(codes) <= SENTENCES.keys()),
        ("released.share_from_data", number, number is None or share(number) is not None),
        ("released.pairs_measured", released.pairs_measured, True),
        ("released.merged_cells", released.merged_cells, True),
        *((f"public_inputs.{name}", text, _is_hash(text, 64)) for name, text in facts.public_inputs.items()),
    ]
    if not data:
        leaves += [(f"released.{name}", getattr(released, name), True) for name in ("partitions", "partition_by")]
    for i, table in enumerate(certificate.tables):
        if not (data and (certificate.several or certificate.in_parts)):
            leaves.append((f"released.tables[{i}].file", table.file, True))
        if not data and table.sha256 is not None:
            leaves.append((f"released.tables[{i}].sha256", table.sha256, _is_hash(table.sha256, 64)))
    for place, claimed, agrees in leaves:
        if claimed is not None or not agrees or place == "released.share_from_data":
            yield Check(what=place, claimed=claimed, found="stated, not checked", agrees=agrees, stated=True)


def _is_hash(text: Any, digits: int) -> bool:
    return re.fullmatch(f"[0-9a-f]{{{digits}}}", str(text)) is not None


def _is_time(text: str) -> bool:
    try:
        return bool(dt.datetime.fromisoformat(text))
    except ValueError:
        return False


def _alike(claimed: Any, value: Any, rel: float) -> bool:
    """Compare values; numbers to a part, so that another machine's rounding is no disagreement."""
    if isinstance(claimed, bool) or isinstance(value, bool):
        return claimed is value
    if isinstance(claimed, (int, float)) and isinstance(value, (int, float)):
        return math.isclose(claimed, value, rel_tol=rel, abs_tol=0.0)
    if isinstance(claimed, list) and isinstance(value, list):
        return len(claimed) == len(value) and all(_alike(a, b, rel) for a, b in zip(claimed, value, strict=True))
    if isinstance(claimed, dict) and isinstance(value, dict):
        return claimed.keys() == value.keys() and all(_alike(claimed[k], value[k], rel) for k in claimed)
    return bool(claimed == value)


def _check_parts(certificate: Certificate, folder: Path) -> list[Check]:
    """Compare every part of a release with the manifest, and this with the certificate; spoilt parts are not read."""
    released, written = certificate.facts.released, "as it was written"
    if not folder.is_dir():
        raise FileProblem(folder, "its certificate is that of a release in parts", "give the folder")
    try:
        parts = reading.parts_of(folder, certificate)
    except FileProblem as problem:
        return [Check(what=MANIFEST, claimed=written, found=problem.problem, agrees=False)]
    checks = [
        Check(what=name, claimed=written, found=problem or written, agrees=problem is None)
        for name, problem in reading.problems(folder, parts, certificate)
    ]
    checks.append(_compare("released.partitions", released.partitions, len(parts)))
    if all(check.agrees for check in checks):
        scan = reading.scanned_parts(folder)
        rows = quietly(lambda: int(scan.select(pl.len()).collect().item()), reading.unreadable())
        columns = quietly(lambda: scan.collect_schema().names(), reading.unreadable())
        checks.append(_compare("released.rows (in the parts)", released.tables[0].rows, rows))
        checks.append(_compare("released.columns (in the parts)", released.columns, columns))
        keys = [unquote(key.partition("=")[0]) for part in parts for key in part.split("/")[:-1]]
        checks.append(_compare("released.partition_by (in the parts)", released.partition_by, next(iter(keys), None)))
        checks += _check_values(certificate, folder, "released", "")
    return checks


def _check_folder(certificate: Certificate, folder: Path) -> list[Check]:
    """Compare the tables in a folder with their certificate; one that is not as it was written is not read further."""
    names = [str(table.file) for table in certificate.tables]
    endings = {ending for name in names for ending in Path(name).suffixes[-1:]}
    files = sorted(file.name for file in folder.iterdir() if file.suffix in endings)
    checks = [_compare("tables in the folder", sorted(names), files)]
    for name, table, part in zip(names, certificate.tables, cycle(certificate.table_names), strict=False):
        if (file := folder / Path(name).name).is_file():  # one that is missing is told by the names
            checks += _check_file(certificate, table, file, part)
    if certificate.table_names != [""] and all(check.agrees for check in checks):
        number = len(certificate.table_names)
        for place in range(0, len(names), number):
            checks += _check_links(certificate, folder, names[place : place + number])
    return checks


def _check_links(certificate: Certificate, folder: Path, files: Sequence[str]) -> Iterator[Check]:
    """Compare the keys of linked tables, and all values of rows that have their unit's own columns."""
    domain = Domain.from_dict(certificate.facts.domain)
    units, *row_scans = [reading.scanned(folder / Path(file).name) for file in files]
    unit = str(domain.unit)
    keys = quietly(lambda: units.select(pl.col(unit).n_unique()).collect().item(), reading.unreadable())
    yield _compare(f"{files[0]}.{unit} (in the file)", certificate.facts.size, keys)
    for (name, table), file, rows in zip(domain.row_tables.items(), files[1:], row_scans, strict=True):
        orphans = rows.join(units, on=unit, how="anti")
        number = quietly(lambda orphans=orphans: orphans.collect().height, reading.unreadable())  # type: ignore[misc]
        yield _compare(f"{file}.{unit} without {domain.units} (in the file)", 0, number)
        key, most = [unit], table.number
        if table.slots in table.columns:  # a panel, of which each is one row of a unit
            key, most = [unit, table.slots], 1
        longest = rows.group_by(key).len().select(pl.col("len").max())
        largest = quietly(lambda longest=longest: longest.collect().item() or 0, reading.unreadable())  # type: ignore[misc]
        place = f"{file}.rows of {', '.join(key)} (in the file)"
        yield Check(what=place, claimed=most, found=largest, agrees=largest <= most)
        yield from _check_values(certificate, folder / Path(file).name, file, name, rows.join(units, on=unit))


def _check_file(certificate: Certificate, facts: FileFacts, data: FilePath, part: str = "") -> list[Check]:
    """Compare a file with what is stated of it, one of linked tables; of several, one that was changed is not read."""
    require_settled(data)
    name = str(facts.file) if certificate.several else "released"
    checks = [_compare(f"{name}.sha256", facts.sha256, file_sha256(data))]
    if certificate.several and not checks[0].agrees:
        return checks
    form = formats.format_of(data)
    if not checks[0].agrees and form is not None and form.kind == "csv":  # its rows may be those that were written
        csv = form
        table = quietly(lambda: formats.scanned(data, csv).collect(), reading.unreadable())
        if hashlib.sha256(table.write_csv(separator=csv.separator).encode()).hexdigest() == facts.sha256:
            checks = [replace(checks[0], found=SAME_ROWS)]
    if form is None or not form.texts:
        columns, form = list(open_source(data).names), form or formats.PARQUET
    else:  # a file that was cut is told by its hash, and not how to complete it
        columns = list(quietly(reading.scanned(data).collect_schema, reading.unreadable()))
    count, broken = pl.len(), FileProblem(data, "it is not a readable table", "give the released file")
    rows = quietly(lambda: int(formats.scanned(data, form).select(count).collect().item()), broken)
    checks.append(_compare(f"{name}.columns (in the file)", reading.released_columns(certificate, part), columns))
    checks.append(_compare(f"{name}.rows (in the file)", facts.rows, rows))
    if checks[1].agrees and part in certificate.table_names[:1]:  # rows of units are looked at with their own columns
        checks += _check_values(certificate, data, name, part)
    identity = reading.file_text(data, IDENTITY_KEY)
    if not form.texts and (identity, certificate.identity) != (None, None):
        checks.append(_compare(f"{name}.identity (in the file)", certificate.identity, identity))
    return checks


def _check_values(certificate: Certificate, data: FilePath, name: str, part: str, rows: Any = None) -> Iterator[Check]:
    """Compare every value of a released table with its declaration; none is quoted."""
    for column, problem in reading.misfits(data, certificate, part, rows).items():
        place, found = f"{name}.values of {column} (in the file)", problem or "as declared"
        yield Check(what=place, claimed="as declared", found=found, agrees=not problem)
