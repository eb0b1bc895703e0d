"""The crossing of synthetic tables: several tables and one certificate, written at once.

What it writes is public although it opened confidential data, under the guarantee of the mechanism that it is given.
The certificate is made from public facts alone: the target, never what was measured.
"""

from __future__ import annotations

import datetime
import json
import math
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from discreet._random import SecureGenerator, public, secure
from discreet._reading import read_json
from discreet._text import as_written, rounded_up
from discreet._version import __version__
from discreet._writing import file_sha256, new_folder, together
from discreet.confidential import Confidential
from discreet.confidential._count import public_size
from discreet.confidential._open import open_confidential
from discreet.confidential._wrapper import Provenance
from discreet.domain import Boolean, Category, Column, Counts, Domain, Integer, Numeric, OpenLabels, Records
from discreet.errors import DiscreetError, DomainError, FileProblem, ParameterError
from discreet.evolution._metric import nearest_codes
from discreet.privacy import Relation
from discreet.privacy._guarantee import require_kind
from discreet.pseudo_posterior._censored import CensoredPosterior
from discreet.pseudo_posterior._fit import Convergence, Progress
from discreet.pseudo_posterior._from_domain import sensitive_nulls
from discreet.pseudo_posterior._pseudo_posterior import PseudoPosterior
from discreet.pseudo_posterior._synthesis import check_draws, least_product
from discreet.pseudo_posterior._synthesiser import FromModel, Synthesiser
from discreet.releases._certificate import Check, with_errata
from discreet.releases._writing import write_frames

if TYPE_CHECKING:
    import polars as pl

__all__ = ["TablesRelease", "publish_tables", "verify_tables"]

SCHEMA = 1
_CERTIFICATE = "certificate.json"
_SHOWS = (
    "This certificate can be recomputed from the public facts in it, and shows whether a released table was changed by "
    "accident. It does not show who wrote it, and cannot prove that the mechanism was run as stated."
)
_STATEMENTS = {
    "unconditional": "Differential privacy under its stated assumptions: epsilon {}.",
    "empirical": (
        "Differential privacy if the Markov chains drew from the exact posterior, which nothing shows: epsilon {}."
    ),
    "asymptotic": (
        "Not formal differential privacy: a local, asymptotic epsilon of {}, estimated from the confidential table "
        "itself."
    ),
}
_SECURE = (
    "operating-system entropy, fresh for this release: ChaCha20 keyed with 256 bits of it; each Markov chain and each "
    "table of records runs on a 64-bit key of JAX's counter-based generator, drawn from the former"
)
_SEEDED = "seeded: not for publication, since whoever knows or guesses the seed can repeat the draws"


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesRelease:
    """Synthetic tables that were written, and what was promised about them.

    Parameters
    ----------
    folder : Path
        Holds the tables and their certificate.
    facts : dict
        The certificate.
    """

    folder: Path
    facts: dict[str, Any]

    def __str__(self) -> str:
        promise = self.facts["guarantee"]
        limits = _limits_said(self.facts["mechanism"]["chains"]["refused_beyond"])
        return "\n".join([
            promise["statement"], "It rests on:", *(f"- {line}" for line in promise["assumptions"]),
            "To be known beside it:", *(f"- {line}" for line in (*promise["caveats"], limits)), _SHOWS,
        ])  # fmt: skip


def publish_tables(
    confidential: Confidential[Counts],
    mechanism: PseudoPosterior | CensoredPosterior,
    *,
    out: str | os.PathLike[str],
    accept: Collection[str] = (),
    rng: np.random.Generator | None = None,
    progress: Progress | None = None,
) -> TablesRelease:
    """Fit a synthesiser to confidential data once, and write its tables and their certificate.

    Parameters
    ----------
    confidential : Confidential[Counts]
        Confidential. Its domain has to hold the synthesiser's columns and no other, none of them open labels, and no
        sensitive one with nulls. The model reads codes ``0, 1, ..`` of categories and booleans, of which a null is the
        last, and numbers in the unit of :meth:`~discreet.domain.Column.positions` of all others (days since 1970-01-01
        for dates, seconds for datetimes and durations), of which a null is NaN.
    mechanism : PseudoPosterior or CensoredPosterior
        Public facts. A pseudo-posterior needs its ``target_epsilon``.
    out : path
        A folder that does not exist yet: ``table-01.parquet`` and so on, and ``certificate.json``. It appears whole or
        not at all.
    accept : collection of str
        Kinds of guarantee accepted beside ``unconditional``: a pseudo-posterior needs ``{"asymptotic"}``, a censored
        posterior that is not on a grid ``{"empirical"}``.
    rng : numpy.random.Generator, optional
        None (the default) makes a fresh secure generator. Any other marks the release "seeded: not for publication".
    progress : callable, optional
        Called with how many draws each chain of the current fit has made, and how many it is to make.

    Returns
    -------
    TablesRelease
        Where the tables are, and the certificate.

    Raises
    ------
    GuaranteeKindError
        When the kind was not accepted; nothing was read.
    Refused
        When chains did not converge, or the target was not met. That this happened depends on the data.
    FileProblem
        When the folder exists or cannot be written.
    DomainError, ParameterError
        When domain and synthesiser do not fit together, or a limit of convergence is not a number.
    """
    facts = confidential.provenance or Provenance(frame_kind="polars", columns=())
    domain = facts.domain
    if domain is None:
        raise ParameterError("the confidential table was not encoded with a domain: use confidential(data, domain)")
    _check(domain, mechanism.synthesiser)
    described = _described(mechanism)
    if isinstance(mechanism, PseudoPosterior) or mechanism.grid is None:  # on a grid a draw is made for each table
        check_draws(mechanism.tables, mechanism.chains * mechanism.draws)
    folder = _new_folder(out)
    guarantee = mechanism.guarantee(Relation(group=facts.max_records), n=public_size(confidential))
    require_kind(guarantee, frozenset(accept))
    generator = secure() if rng is None else rng
    seeded = facts.seeded or not isinstance(generator, SecureGenerator)
    x = open_confidential(confidential, caller=__name__)
    order = generator.permutation(x.n)
    held = Records(columns=tuple(np.repeat(codes, x.frequencies)[order] for codes in x.records.columns))
    columns = {
        name: _numbers(column, codes)
        for (name, column), codes in zip(domain.columns.items(), held.columns, strict=True)
    }
    if isinstance(mechanism, PseudoPosterior):
        fitted = mechanism.calibrated_fit(columns, rng=generator, progress=progress)
        tables = mechanism.synthesise(fitted, columns, rng=generator)
    else:
        draws = mechanism.fit(columns, rng=generator, progress=progress)
        tables = mechanism.synthesise(draws, columns, rng=generator)
    free = public(generator)
    frames = [_frame(domain, held, table, mechanism.synthesiser, rng=free) for table in tables]
    document = {
        "discreet_tables_certificate": SCHEMA,
        "library": {"name": "discreet", "version": __version__},
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "mechanism": described,
        "domain": json.loads(json.dumps(domain.to_dict(), default=lambda date: date.isoformat())),
        "records": guarantee.n,
        "relation": {"name": guarantee.relation.name, "group": guarantee.relation.group},
        "guarantee": _promise(mechanism, guarantee.relation, n=guarantee.n, seeded=seeded),
        "randomness": _SEEDED if seeded else _SECURE,
        "shows": _SHOWS,
    }
    return TablesRelease(folder=folder, facts=_write(frames, document, folder))


def verify_tables(folder: str | os.PathLike[str]) -> list[Check]:
    """Recompute what the certificate of synthetic tables claims, and the hashes of the tables.

    Parameters
    ----------
    folder : path
        As :func:`publish_tables` wrote it.

    Returns
    -------
    list of Check
        One a claim; the certificate holds when all agree.

    Raises
    ------
    FileProblem
        When the certificate cannot be read.
    """
    path = Path(folder)
    facts = read_json(path / _CERTIFICATE, remedy="give the folder of a release of tables")
    if facts.get("discreet_tables_certificate") != SCHEMA:
        raise FileProblem(
            path, f"it holds no certificate of tables of version {SCHEMA}", "check it, or update discreet"
        )
    checks: list[Check] = []
    try:
        mechanism = _rebuilt(facts["mechanism"])
        relation = Relation(name=facts["relation"]["name"], group=facts["relation"]["group"])
        promise = _promise(mechanism, relation, n=facts["records"], seeded=facts["randomness"] == _SEEDED)
        claimed, keys = facts["guarantee"], sorted(set(promise) | set(facts["guarantee"]))
        checks += [_compare(f"guarantee.{key}", claimed.get(key), promise.get(key)) for key in keys]
        checks.append(_compare("shows", facts["shows"], _SHOWS))
        checks.append(_compare("tables", len(facts["tables"]), mechanism.tables))
        names = [str(table["file"]) for table in facts["tables"]]
        checks.append(_compare("tables in the folder", names, sorted(file.name for file in path.glob("*.parquet"))))
        size = facts["records"] if facts["mechanism"].get("size") is None else facts["mechanism"]["size"]
        for table in facts["tables"]:
            checks.append(_compare(f"{table['file']}.rows", table["rows"], size))
            found = file_sha256(path / Path(table["file"]).name)
            checks.append(_compare(f"{table['file']}.sha256", table["sha256"], found))
    except (DiscreetError, KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        problem = str(error) if isinstance(error, DiscreetError) else "a field is missing or of the wrong kind"
        checks.append(Check(what="certificate", claimed="can be recomputed", found=problem, agrees=False))
    return with_errata(checks, facts)


# -- what is confidential --------------------------------------------------------------------------------------------


def _check(domain: Domain, synthesiser: Synthesiser) -> None:
    """Refuse a domain that does not fit the synthesiser: by public facts alone."""
    wanted = {*synthesiser.sensitive, *synthesiser.given}
    if wanted != set(domain.names):
        odd = sorted(wanted ^ set(domain.names))[0]
        raise ParameterError(f"column {odd!r}: the domain and the synthesiser have to name the same columns")
    for name, column in domain.columns.items():
        if isinstance(column, OpenLabels):
            raise DomainError(f"column {name!r}: a model has no open labels; declare it as a category, or leave it out")
        if column.nullable and name in synthesiser.sensitive:
            raise sensitive_nulls(name)


def _numbers(column: Column, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return what a model reads: codes of categories; values (or the middles of cells) of all others, null as NaN."""
    if isinstance(column, (Boolean, Category)):
        return np.asarray(codes)
    return np.asarray(column.positions(codes), dtype=np.float64)


def _frame(
    domain: Domain, held: Records, table: Mapping[str, npt.NDArray[Any]], synthesiser: Synthesiser,
    *, rng: np.random.Generator,
) -> pl.DataFrame:  # fmt: skip
    """Return a synthetic table with the declared names, order and types; given columns as they are held."""
    codes = [
        held.columns[i] if name in synthesiser.given else _codes(column, table[name], name, rng=rng)
        for i, (name, column) in enumerate(domain.columns.items())
    ]
    return domain.decode(Records(columns=tuple(codes)), rng=rng)


def _codes(column: Column, values: npt.NDArray[Any], name: str, *, rng: np.random.Generator) -> npt.NDArray[Any]:
    """Return the codes of synthetic values: those outside the bounds go to them, and all to the nearest point."""
    import polars as pl

    if isinstance(column, (Boolean, Category)):
        return np.asarray(values, dtype=np.int64)
    numbers = np.nan_to_num(np.asarray(values, dtype=np.float64))
    if isinstance(column, Numeric):
        return column.encode(pl.Series(np.clip(numbers, column.lower, column.upper)), name=name)
    # Every point as a cell of its own, to find the nearest; then the cell that holds it.
    finest: dict[str, Any] = {"base": None, "cells": None}
    if isinstance(column, Integer):
        finest["spacing"] = "linear"
    points = replace(column, **finest)
    return column.encode(points.decode(nearest_codes(points, numbers), rng=rng), name=name)


# -- what is public --------------------------------------------------------------------------------------------------


def _described(mechanism: PseudoPosterior | CensoredPosterior) -> dict[str, Any]:
    synthesiser = mechanism.synthesiser
    model = synthesiser.function.__name__ if isinstance(synthesiser, FromModel) else repr(synthesiser)
    facts: dict[str, Any] = {
        "model": model,
        "synthesised": list(synthesiser.sensitive),
        "published_exactly": list(synthesiser.given),
        "densities_at_most_one": synthesiser.log_density_at_most_zero,
        "tables": mechanism.tables,
        "chains": {
            "chains": mechanism.chains,
            "draws": mechanism.draws,
            "warm_up": mechanism.warm_up,
            "doublings": mechanism.convergence.doublings,
            "refused_beyond": _limits(mechanism.convergence),
        },
    }
    if isinstance(mechanism, PseudoPosterior):
        return {"name": "pseudo-posterior", **facts, "target_epsilon": mechanism.target_epsilon}
    return {"name": "censored-posterior", **facts, "bound": mechanism.bound, "size": mechanism.size,
            "on_a_grid": mechanism.grid is not None}  # fmt: skip


def _limits(convergence: Convergence) -> dict[str, float | None]:
    """Return the limits of convergence that were asked for, None for one that is infinite: it never refuses.

    What was measured of the chains is confidential and not in a certificate; so is how long they became.
    """
    limits = {name: float(getattr(convergence, name)) for name in ("r_hat", "effective", "divergent")}
    return {name: value if math.isfinite(value) else None for name, value in limits.items()}


def _limits_said(limits: Mapping[str, float | None]) -> str:
    """Return the limits of convergence in words."""
    forms = {
        "r_hat": "R-hat above {}",
        "effective": "fewer than {} effective draws a chain",
        "divergent": "a share of divergent transitions above {}",
    }
    refused = [form.format(as_written(limit)) for name, form in forms.items() if (limit := limits[name]) is not None]
    return f"Markov chains are refused that have {' or '.join(refused) or 'nothing: no limit was set'}"


def _rebuilt(facts: dict[str, Any]) -> PseudoPosterior | CensoredPosterior:
    """Return a mechanism with the same promise: it depends on what is synthesised, not on the model."""
    stand_in = FromModel(
        function=_no_model,
        columns=tuple(facts["synthesised"]),
        others=tuple(facts["published_exactly"]),
        densities_at_most_one=facts["densities_at_most_one"] is True,
    )
    if facts["name"] == "pseudo-posterior":
        return PseudoPosterior(stand_in, target_epsilon=float(facts["target_epsilon"]), tables=facts["tables"])
    if facts["name"] == "censored-posterior":
        grid = {"parameter": [0.0]} if facts["on_a_grid"] else None
        return CensoredPosterior(
            stand_in, bound=float(facts["bound"]), tables=facts["tables"], size=facts.get("size"), grid=grid
        )
    raise ParameterError(f"unknown mechanism {facts['name']!r}")


def _no_model(_data: Mapping[str, Any]) -> None:
    raise NotImplementedError  # stands for a model that a certificate names and does not hold


def _promise(
    mechanism: PseudoPosterior | CensoredPosterior, relation: Relation, *, n: int, seeded: bool
) -> dict[str, Any]:
    guarantee, each = mechanism.guarantee(relation, n=n), mechanism.epsilon_each(relation)
    epsilon = least_product(mechanism.tables, each)
    said = rounded_up(each, 6)
    if mechanism.tables > 1:
        said += f" for each of {mechanism.tables} tables, {rounded_up(epsilon, 6)} for all of them together"
    statement = _STATEMENTS[guarantee.kind].format(said)
    if seeded:
        statement = f"Seeded run, not for publication; with fresh randomness: {statement}"
    return {
        "statement": statement,
        "epsilon_each": each,
        "epsilon": epsilon,
        **guarantee.to_dict(),
        "profile": [[x, guarantee.delta(x)] for x in (0.1, 1.0, 10.0, 100.0) if x < epsilon],
    }


def _compare(what: str, claimed: Any, found: Any) -> Check:
    return Check(what=what, claimed=claimed, found=found, agrees=_alike(claimed, found))


def _alike(a: Any, b: Any) -> bool:
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return math.isclose(a, b, rel_tol=1e-6)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_alike, a, b))
    return bool(a == b)


def _new_folder(out: str | os.PathLike[str]) -> Path:
    folder = Path(out)
    if os.path.lexists(folder):
        raise FileProblem(
            out, "it exists already", "name a folder that does not: earlier tables spent budget of their own"
        )
    if not folder.absolute().parent.is_dir():
        raise FileProblem(out, "the folder above it does not exist", "create it first")
    return folder


def _write(frames: list[pl.DataFrame], document: dict[str, Any], folder: Path) -> dict[str, Any]:
    listed = []
    with new_folder(folder) as part:
        for number, frame in enumerate(frames, start=1):
            path = part / f"table-{number:02}.parquet"
            with together(path) as (file,):
                rows = write_frames(iter([frame]), dict(frame.schema), file, named=folder / path.name)
            listed.append({"file": path.name, "rows": rows, "sha256": file_sha256(path)})
        facts = {**document, "tables": listed}
        with together(part / _CERTIFICATE) as (file,):
            file.write((json.dumps(facts, indent=2, allow_nan=False) + "\n").encode())
    return facts
