"""What an evolution is given: an API and the records it makes, and the confidential records where it says they lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.checks import unfit
from discreet._core.errors import ParameterError
from discreet._core.text import counted
from discreet.domain import Domain, Records
from discreet.domain._records import Parts, Units
from discreet.evolution import API
from discreet.evolution._api import NamedAPI
from discreet.evolution._registry import api_from
from discreet.mechanisms._populations import Populations

if TYPE_CHECKING:
    from discreet.evolution._neighbours import Voters

LARGEST = 1e150
"""Coordinate: squared distances stay finite."""

_MOST_KEPT = 1 << 25  # coordinates of embedded records kept in memory


class Embedded:
    """A table's embedded records with frequencies, units and labels, part by part; kept where they fit into memory."""

    def __init__(self, api: API, x: Parts, populations: Populations) -> None:
        self._api, self._x, self._populations = api, x, populations
        self._kept: list[Voters] | None = None

    def __iter__(self) -> Iterator[Voters]:
        from discreet.evolution._neighbours import Voters

        if self._kept is not None:
            yield from self._kept
            return
        kept, values = [], 0
        for part in self._x.parts():
            owners = part.owners if isinstance(part, Units) else None
            labels = self._populations.labels(part.records)
            voters = Voters(embedded(self._api, part.records), part.frequencies, owners, labels)
            yield voters
            values += voters.points.size
            if values <= _MOST_KEPT:
                kept.append(voters)
        if values <= _MOST_KEPT:
            self._kept = kept


def embedded(api: API, records: Records) -> Floats:
    """Embed confidential records; what goes wrong may name their values, and is not passed on.

    Raises ParameterError when the embedding fails, or does not give finite numbers for each.
    """
    try:
        points = np.asarray(api.embed(records), dtype=np.float64)
    except Exception:  # noqa: BLE001  # whatever a user's function raises
        points = np.empty(0)
    if points.ndim != 2 or len(points) != len(records) or not (np.abs(points) < LARGEST).all():
        raise ParameterError(
            f"the embedding of the API {api.name!r} did not give one row of finite numbers for each record of the "
            "table. Try it on records that the API makes"
        )
    return points


def settled_api(given: Any, domain: Domain) -> API:
    """Return an API from an object, a name, or what a certificate says of one.

    Raises ParameterError when it is of another domain or none at all.
    """
    if isinstance(given, str):
        given = {"name": given}
    if isinstance(given, Mapping):
        stated = {key: value for key, value in given.items() if key not in ("name", "variations_each")}
        made, each = api_from(str(given.get("name")), stated, domain), given.get("variations_each")
        given = replace(made, each=each) if isinstance(made, NamedAPI) else made
    if not isinstance(given, API):
        raise unfit("api", "an API of discreet.evolution or the name of one", given)
    if given.domain != domain:
        raise ParameterError("the API's domain is not the mechanism's. Build it on the same declaration")
    return given


def check_fits(records: Records, domain: Domain, rows: int, what: str) -> None:
    """Check what an API gave, before any noise is drawn for it.

    Raises ParameterError when it is not as many records of the domain.
    """
    if len(records.columns) != len(domain.columns) or len(records) != rows:
        raise ParameterError(
            f"{what} of the API must give {counted(rows, 'record')} with a column for each of the domain's"
        )
    for (name, column), codes in zip(domain.columns.items(), records.columns, strict=True):
        fits = codes.dtype == column._code_type and len(codes) == rows
        if fits and column.size is not None:
            cells = codes.astype(np.int64, copy=False)
            fits = bool(((cells >= 0) & (cells < column.size)).all())
        elif fits and codes.dtype == np.float64:
            at = column.positions(codes)
            fits = bool(column.nullable or np.isfinite(at).all())
        if not fits:
            raise ParameterError(f"column {name!r}: {what} of the API must give codes of the domain")
