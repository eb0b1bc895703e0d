"""A report of a release as one HTML file: public from the release and its certificate, confidential with the data."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet import wording
from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError
from discreet._core.files import check_outputs
from discreet._core.page import FilePath, rendered, require_page, write_own
from discreet._core.text import about, full_sentence
from discreet.confidential import public_domain, reveal_to_custodian, tables_of
from discreet.domain import Domain
from discreet.evolution import API
from discreet.releases import Check, utility_facts
from discreet.report import released
from discreet.report.ledger_page import place_in_ledger
from discreet.report.promise import Promise, curves, joint, pair_of
from discreet.utility import Measured, compare, confidential_pairs, confidential_shares, disclosure_cells, shown

CONFIDENTIAL = "Confidential: contains numbers computed from the private data"
"""The banner of a report that shows the confidential table."""


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What :func:`write_report` wrote.

    Parameters
    ----------
    path : Path
        The file.
    confidential : bool
        Whether it shows numbers computed from the confidential table.
    checks : tuple of Check
        What verification of all certificates found.
    """

    path: Path
    confidential: bool
    checks: tuple[Check, ...]

    @property
    def agrees(self) -> bool:
        """Whether all claims were confirmed."""
        return all(check.agrees for check in self.checks)


@sealed
def write_report(
    release: FilePath,
    out: FilePath,
    *,
    certificate: FilePath | None = None,
    also: Sequence[FilePath] = (),
    ledger: FilePath | None = None,
    dataset: str | None = None,
    data: Any = None,
    domain: Domain | FilePath | None = None,
    measures: str | Sequence[str] = ("w1", "ks", "tv"),
    resamples: int = 100,
    holdout: Any = None,
    sensitive: str | None = None,
    known: str | Sequence[str] | None = None,
    api: API | str | None = None,
) -> Report:
    """Write what a release promises, in plain words, numbers and pictures, as one HTML file that needs no network.

    Without ``data`` the report is made from the released file and certificates alone, and is as public as they are.
    Every number of the promise is recomputed from the certificate's public parameters, on the safe side.

    Parameters
    ----------
    release : path
        The released file, or the folder of a release in parts or of tables from a model (or the certificate in it).
    out : path
        The report to write; ends in ``.html``.
    certificate : path, optional
        The release's certificate; ``RELEASE.certificate.json`` by default, and the one in the folder of tables.
    also : sequence of path
        Certificates of other releases of the same table: the report states what they promise together.
    ledger, dataset : optional
        Place of the ledger that paid for the release, and the data set's name in it, which the certificate tells by
        default. The report then states what all of its releases promise together, and what is left.
    data : dataframe, path or mapping, optional
        The confidential table, or linked ones: a folder, or a mapping by name. The report then compares the release
        with it, and is as confidential as it. Of several draws the first is compared: each is like the others.
    domain : Domain or path, optional
        Public facts about the confidential table, as for the release; those of the certificate by default.
    measures, resamples
        Which distances from the confidential table to show, and how many bootstrap samples to show beside them; see
        :func:`~discreet.utility.compare`. The measures of several columns at once take minutes on large tables.
    holdout, sensitive, known, api
        A confidential table of the same population that the release was not made from, the column to attack, those
        known of a record, and the generator of an evolution, as for :func:`~discreet.utility.compare`. With a sensitive
        column the report shows what attacks on single records reach, and with a generator how near records lie.

    Returns
    -------
    Report
        The file, and whether the certificates were confirmed; the report itself says so too.

    Raises
    ------
    ParameterError
        When Jinja2 is not installed, or the certificates cannot be composed.
    FileProblem
        When a file cannot be read or written, a certificate states nothing that can be recomputed, or the output is one
        of the inputs or exists and was not written by this package.
    DataError
        When the confidential table does not fit the domain. No message holds a value.
    """
    release, where = pair_of(release, certificate)
    tables = [table for side in (data, holdout) for table in (side.values() if isinstance(side, Mapping) else [side])]
    inputs = (release, where, *also, ledger, domain, *tables)
    path = require_page(out, inputs)
    if domain is not None and data is None:
        raise ParameterError("a domain is only needed with the confidential table. Give data as well")
    attacked = {"holdout": holdout, "sensitive": sensitive, "known": known, "api": api}
    if data is None and any(given is not None for given in attacked.values()):
        raise ParameterError("a holdout, attacked columns and api are for the confidential table. Give data as well")
    promise = Promise.read(where, data=release)
    promises = (promise, *map(Promise.read, also))
    files = [release]
    if promise.certificate.several:
        files = [release / str(table.file) for table in promise.certificate.tables]
    check_outputs([path], files)
    page = _public(promises, release, files, where)
    if ledger is not None:
        page["ledger"] = place_in_ledger(ledger, dataset, certificate=where, stamp=promise.certificate.facts.ledger)
    if data is not None:
        declared = promise.mechanism.domain if domain is None else public_domain(domain, data=data)
        whole = release if page["linked"] else files[0]
        options = {"measures": measures, "resamples": resamples, **attacked}
        page |= _confidential(page, data, whole, files, declared, **options)
    text = rendered("discreet.report", "report.html", page, script="script.js")
    write_own(path, text, inputs=inputs, private=data is not None)
    checks = tuple(check for promise in promises for check in promise.checks)
    return Report(path=path, confidential=data is not None, checks=checks)


def _public(promises: tuple[Promise, ...], release: Path, files: Sequence[Path], where: Path) -> dict[str, Any]:
    """Return everything the page shows of a release and its certificates."""
    promise = promises[0]
    facts, guarantee, n = promise.certificate.facts, promise.guarantee, promise.guarantee.n
    domain, protected = promise.mechanism.domain.row_domain, guarantee.protected
    counts, several = facts.size is None, promise.certificate.several
    lost = wording.losses_of(facts.released.outcome)
    rows, columns = released.released_columns(files, domain, counts=counts)
    together = joint(promises)
    # from where on delta is 0; so large an epsilon that says nothing is left out
    pure = min(guarantee.profile.pure, math.inf if promise.delta else promise.epsilon)
    names = [shlex.quote(path.name) for path in (where, release)]
    return {
        "title": f"Privacy report for {release.name}",
        "release": release.name,
        "promise": promise,
        "counts": counts,
        "rows": f"{rows[0]:,}",
        "tables": promise.certificate.tables if several else [],
        "linked": promise.certificate.summary.partition(" from ")[0] if "units" in facts.domain else "",
        "records": f"{n:,}",
        "units": f"{n // guarantee.relation.group:,}",
        "unit": facts.unit and facts.unit.column,
        "randomness": wording.RANDOMNESS.get(facts.randomness, facts.randomness),
        "made": f"{facts.created}, with {facts.library.name} {facts.library.version}",
        **curves(promise, together),
        "kind": wording.KINDS[guarantee.kind],
        "tightness": wording.tightness(guarantee),
        "likelier": math.exp(min(promise.epsilon, 700.0)),
        "exception": wording.exception(promise.delta, n),
        "assumptions": [full_sentence(str(assumption)) for assumption in guarantee.assumptions],
        "pure": pure if pure <= 100 else None,
        "together": together,
        "ledger": None,
        "domain": domain,
        "declared": released.declared(domain),
        "fact": released.fact,
        "cells": None if domain.size is None else f"{domain.size:,}",
        "columns": columns,
        "pictures": released.pictures(columns),
        "estimates": released.population(promise, files[0]),
        "left_out": max(0, len(domain.names) - released.MOST_COLUMNS),
        "parameters": {key: released.fact(value) for key, value in promise.mechanism.parameters().items()},
        "protected": ", ".join(protected),
        "as_held": ", ".join(name for name in domain.names if protected and name not in protected),
        "losses": [(pair, f"{about(100.0 * loss, 3)} %", f"{about(100.0 * error, 2)} %") for pair, loss, error in lost],
        "example": released.example_unit(files, promise.mechanism.domain),
        "kinds": released.kinds_of_pairs(promise.mechanism.domain, lost),
        "unrelated": promise.certificate.unrelated is not None,
        "unmeasured": [full_sentence(text) for text in wording.lost_pairs(facts.released.outcome)],
        "unmeasured_pairs": released.unmeasured_pairs(promise.mechanism, facts.released.outcome),
        "utility": utility_facts(promise.mechanism, n),
        "command": f"discreet verify {names[1]}" if several else f"discreet verify {names[0]} --data {names[1]}",
        "confidential": None,
    }


def _confidential(
    page: dict[str, Any], data: Any, release: Path, files: Sequence[Path], domain: Domain, **options: Any
) -> dict[str, Any]:
    """Return what the page shows of the confidential tables, and the marks that go with it."""
    if domain.row_domain.names != page["domain"].names:
        raise ParameterError("the domain names other columns than the certificate. Give the domain of the release")
    bins = {name: column[0] for name, column in page["columns"].items()}
    shares: Any = reveal_to_custodian(confidential_shares(data, domain, bins))
    compared, pairs = None, list[Any]()
    if not page["counts"]:  # distances are between records, of which counts have none
        compared = reveal_to_custodian(compare(data, release, domain, **options))
        tables, parts = {"": data} if domain.units is None else data, domain.table_domains
        if not isinstance(tables, Mapping) or set(tables) != set(parts):
            tables = tables_of(data, [*parts])
        for (table, part), file in zip(parts.items(), files, strict=False):  # of several draws, the first
            used = {name: part.columns[name] for name in part.names if name in bins}
            drawn: list[Any] = reveal_to_custodian(confidential_pairs(tables[table], file, used))
            pairs += drawn
    return {
        "title": f"CONFIDENTIAL: {page['title']}",
        "confidential": CONFIDENTIAL,
        "pictures": released.pictures(page["columns"], shares),
        "comparisons": getattr(compared, "tables", None) or {"": compared},
        "pairs": pairs,
        "shown": shown,
        "in_words": _in_words,
        "disclosure_cells": disclosure_cells,
    }


def _in_words(measure: Measured) -> str:
    """Say in words how a measure of the release compares with bootstrap samples."""
    if measure.bootstrap is None:
        return "-"
    mean, _, high = measure.bootstrap
    if measure.release <= high:
        return "like a sample of the table itself"
    return f"{about(measure.release / mean)} times that of a sample" if mean > 0 else "more than a sample"
