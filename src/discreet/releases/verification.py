"""Verifying: everything that a certificate claims, recomputed from the public facts in it."""

from __future__ import annotations

import math
import os
import re
import signal
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from discreet._core import formats
from discreet._core.boundary import quietly, sealed
from discreet._core.checks import real
from discreet._core.errors import DiscreetError, FileProblem, ParameterError, Refused
from discreet._core.files import require_settled
from discreet._core.lazy import pl
from discreet._core.reading import file_sha256
from discreet._core.text import as_written
from discreet.confidential import open_source
from discreet.mechanisms import Contents, Mechanism, public_inputs
from discreet.privacy import Guarantee
from discreet.releases import certificate_v1
from discreet.releases.certificate import Certificate, share
from discreet.releases.content import SEEDED, certified_release, promise, utility_facts
from discreet.releases.errata import erratum_of
from discreet.releases.facts import CertificateFacts, FileFacts
from discreet.releases.manifest import MANIFEST, parts_of, problems, scanned_parts
from discreet.releases.table import told, unreadable
from discreet.releases.writing import IDENTITY_KEY
from discreet.wording import SENTENCES

# A limit on how long a recomputation may take: what a certificate claims may be dear to check, whoever wrote it.

SECONDS = 60.0
"""How long verifying takes at most, unless more time is given."""


class _Late(BaseException):
    """Time is up; no handler of errors in between takes it for one of its own."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Stop what is done in the block after some time.

    Nothing is stopped outside of the main thread, on systems without interval timers (Windows), and where a timer of
    the caller's is running already. Raises Refused when time is up.

    ``seconds``: positive; infinity sets no limit.
    """
    if real("seconds", seconds, above=0, infinite=True) > 1e6 or not _can_stop():
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise _Late

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    late = False
    try:
        yield
    except _Late:
        late = True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    if late:
        raise Refused(f"recomputing the claims takes longer than {as_written(seconds)} s. Allow more seconds")


def _can_stop() -> bool:
    here = threading.current_thread() is threading.main_thread()
    return here and hasattr(signal, "setitimer") and signal.getitimer(signal.ITIMER_REAL)[0] == 0.0


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One claim of a certificate beside what was recomputed.

    Parameters
    ----------
    what : str
        The claim's place in the document; of one of several tables, after the name of its file.
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


@sealed
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
        As read from its file, or the file, or the folder of tables or parts that holds it: these are then checked too.
    data : path, optional
        The released file, or the folder of tables or parts: hashes, rows and columns are compared too.
    seconds : float
        How long recomputing may take: a certificate can claim what is dear to check. Kept in the main thread of
        systems with interval timers.

    Returns
    -------
    list of Check
        One per claim; the certificate holds when all agree. Of a claim that does not, it says where an erratum explains
        it.

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
        except ParameterError as problem:
            return [_not_recomputed(str(problem))]
    with within(seconds):
        checks = _recomputed(certificate)
    if data is not None and checks[-1].what != "certificate":
        if certificate.in_parts:
            checks += _check_parts(certificate, Path(data))
        elif certificate.several:
            checks += _check_folder(certificate, Path(data))
        else:
            checks += _check_file(certificate, certificate.tables[0], data)
    return [one if one.agrees else replace(one, erratum=erratum_of(one.what, certificate.facts)) for one in checks]


def guarantee_of(certificate: Certificate) -> Guarantee:
    """Return the guarantee recomputed from a certificate's public facts."""
    return certified_release(certificate.facts)[-1]


def _recomputed(certificate: Certificate) -> list[Check]:
    """Compare what a certificate claims with what follows from its public facts; the last check is that it can be."""
    checks: list[Check] = []
    facts = certificate.facts
    try:
        mechanism, contents, guarantee = certified_release(facts)
        checks += _promised(certificate, mechanism, guarantee)
        # Earlier versions wrote them before they were rounded to the kernel's grid.
        checks.append(_compare("mechanism.parameters", facts.mechanism.parameters, mechanism.parameters(), rel=1e-4))
        checks.append(_compare("released.columns", facts.released.columns, list(contents.columns)))
        checks += _rows(certificate, contents)
        checks += _told(facts)
        if facts.earlier is None or "public_inputs" in facts.earlier:
            checks.append(_public_inputs(facts.public_inputs, list(public_inputs(mechanism))))
        fresh = mechanism.traits.randomness
        agrees = facts.randomness in (fresh, *SEEDED)
        checks.append(Check(what="randomness", claimed=facts.randomness, found=fresh, agrees=agrees))
    except (DiscreetError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError) as error:
        problem = str(error) if isinstance(error, DiscreetError) else "a field is missing or of the wrong kind"
        checks.append(_not_recomputed(problem))
    return checks


def _not_recomputed(problem: str) -> Check:
    return Check(what="certificate", claimed="can be recomputed", found=problem, agrees=False)


def _promised(certificate: Certificate, mechanism: Mechanism, guarantee: Guarantee) -> Iterator[Check]:
    """Compare a promise with the one computed now; the words of schema 1 as far as they can be."""
    stated = promised_now(certificate, mechanism, guarantee)
    facts, found = certificate.facts, stated.facts
    claimed, now = facts.guarantee.to_dict(), found.guarantee.to_dict()
    in_words = {"assumptions", "caveats"} if facts.earlier else set()
    for key in sorted((set(claimed) | set(now)) - in_words):
        check = _compare(f"guarantee.{key}", claimed.get(key), now.get(key))
        oldest = certificate_v1.is_oldest(facts)
        holds = check.agrees or (oldest and certificate_v1.still_holds(key, check.claimed, check.found))
        yield replace(check, agrees=holds)
    if facts.earlier is not None:
        for what, said, told_now, holds in certificate_v1.sentences(facts, found, stated.statement):
            yield Check(what=what, claimed=said, found=told_now, agrees=holds)
        forecast = utility_facts(mechanism, guarantee.n)
        claims = certificate_v1.claims_of(facts)
        for key in sorted(set(forecast) & set(claims)):
            what, said = f"guarantee.{key}", claims[key]
            holds = _alike(said, forecast[key], 1e-6) or erratum_of(what, facts) is None
            yield Check(what=what, claimed=said, found="a forecast, not checked", agrees=holds)


def promised_now(certificate: Certificate, mechanism: Mechanism, guarantee: Guarantee) -> Certificate:
    """Return a certificate with the ``guarantee`` that it should have."""
    facts = certificate.facts
    promised = promise(
        mechanism,
        guarantee,
        float(facts.guarantee.epsilon),
        unit=None if facts.unit is None else facts.unit.column,
        **certificate_v1.epsilons_of(facts),
    )
    return replace(certificate, facts=replace(facts, guarantee=promised))


def _compare(what: str, claimed: Any, found: Any, *, rel: float = 1e-6) -> Check:
    return Check(what=what, claimed=claimed, found=found, agrees=_alike(claimed, found, rel))


def _rows(certificate: Certificate, contents: Contents) -> list[Check]:
    """Compare the number of tables, and of the rows of each, with what was asked for."""
    tables, several = certificate.tables, certificate.several
    checks = [
        Check(
            what=f"{table.file if several else 'released'}.rows",
            claimed=table.rows,
            found=contents.rows[-1],
            agrees=table.rows in contents.rows,
        )
        for table in tables
    ]
    checks.append(_compare("released.tables", len(tables), contents.tables or 1))
    return [*checks, _compare("size", certificate.facts.size, contents.size)]


def _public_inputs(claimed: Any, names: Collection[str]) -> Check:
    """Check that every public table the mechanism was made of has a hash, and that all are hashes."""
    wanted = "a SHA-256 of each: " + (", ".join(names) or "what was declared public")
    hashes = [isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) for value in claimed.values()]
    agrees = all(hashes) and set(names) <= set(claimed)
    return Check(what="public_inputs", claimed=claimed, found=wanted, agrees=agrees)


def _told(facts: CertificateFacts) -> Iterator[Check]:
    """Check the form of what cannot be recomputed: what came out, and whether there is an identity."""
    released = facts.released
    fits = released.share_from_data is None or share(released.share_from_data) is not None
    yield Check(what="released.share_from_data", claimed=released.share_from_data, found="a share or null", agrees=fits)
    if facts.earlier is None:
        names = [code.name for code in released.outcome]
        fits = set(names) <= SENTENCES.keys()
        yield Check(what="released.outcome", claimed=names, found="codes that are known", agrees=fits)
        wanted = "none" if facts.randomness == "seeded" else "128 random bits"
        fits = (facts.identity is None) == (wanted == "none")
        yield Check(what="identity", claimed=facts.identity, found=wanted, agrees=fits)


def _alike(claimed: Any, found: Any, rel: float) -> bool:
    """Compare values; numbers to a part, so that another machine's rounding is no disagreement."""
    if isinstance(claimed, bool) or isinstance(found, bool):
        return claimed is found
    if isinstance(claimed, (int, float)) and isinstance(found, (int, float)):
        return math.isclose(claimed, found, rel_tol=rel, abs_tol=0.0)
    if isinstance(claimed, list) and isinstance(found, list):
        return len(claimed) == len(found) and all(_alike(a, b, rel) for a, b in zip(claimed, found, strict=True))
    if isinstance(claimed, dict) and isinstance(found, dict):
        return claimed.keys() == found.keys() and all(_alike(claimed[k], found[k], rel) for k in claimed)
    return bool(claimed == found)


def _check_parts(certificate: Certificate, folder: Path) -> list[Check]:
    """Compare every part of a release with the manifest, and this with the certificate; spoilt parts are not read."""
    released, written = certificate.facts.released, "as it was written"
    if not folder.is_dir():
        raise FileProblem(folder, "its certificate is that of a release in parts", "give the folder")
    try:
        parts = parts_of(folder, certificate)
    except FileProblem as problem:
        return [Check(what=MANIFEST, claimed=written, found=problem.problem, agrees=False)]
    found = [(name, written if wrong is None else wrong) for name, wrong in problems(folder, parts, certificate)]
    checks = [Check(what=name, claimed=written, found=told, agrees=told == written) for name, told in found]
    checks.append(_compare("released.partitions", released.partitions, len(parts)))
    if all(check.agrees for check in checks):
        scan = scanned_parts(folder)
        rows = quietly(lambda: int(scan.select(pl.len()).collect().item()), unreadable())
        columns = quietly(lambda: scan.collect_schema().names(), unreadable())
        checks.append(_compare("released.rows (in the parts)", released.tables[0].rows, rows))
        checks.append(_compare("released.columns (in the parts)", released.columns, columns))
    return checks


def _check_folder(certificate: Certificate, folder: Path) -> list[Check]:
    """Compare the tables in a folder with their certificate; one that is not as it was written is not read further."""
    names = [str(table.file) for table in certificate.tables]
    checks = [_compare("tables in the folder", names, sorted(file.name for file in folder.glob("*.parquet")))]
    for name, table in zip(names, certificate.tables, strict=True):
        if (file := folder / Path(name).name).is_file():  # one that is missing is told by the names
            checks += _check_file(certificate, table, file)
    return checks


def _check_file(certificate: Certificate, stated: FileFacts, data: str | os.PathLike[str]) -> list[Check]:
    """Compare a file with what is stated of it; one of several that was changed is not read."""
    require_settled(data)
    what = str(stated.file) if certificate.several else "released"
    checks = [_compare(f"{what}.sha256", stated.sha256, file_sha256(data))]
    if certificate.several and not checks[0].agrees:
        return checks
    columns, form = list(open_source(data).names), formats.format_of(data) or formats.PARQUET

    def counted() -> int:
        return int(formats.scanned(data, form).select(pl.len()).collect().item())

    rows = quietly(counted, FileProblem(data, "it is not a readable table", "give the released file"))
    checks.append(_compare(f"{what}.columns (in the file)", certificate.facts.released.columns, columns))
    checks.append(_compare(f"{what}.rows (in the file)", stated.rows, rows))
    identity = told(data, IDENTITY_KEY)
    if not form.texts and (identity, certificate.identity) != (None, None):
        checks.append(_compare(f"{what}.identity (in the file)", certificate.identity, identity))
    return checks
