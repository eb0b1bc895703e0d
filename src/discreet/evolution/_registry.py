"""From the name and parameters that a certificate records, back to an API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from discreet.domain import Domain
from discreet.evolution._api import API, NamedAPI
from discreet.evolution._euclidean import Ball, Box
from discreet.evolution._table import Table

_REBUILT: dict[str, type[API]] = {api.name: api for api in (Box, Ball, Table)}


def api_from(name: str, parameters: Mapping[str, Any], domain: Domain) -> API:
    """Rebuild an API from a certificate.

    Raises ParameterError when a parameter is missing, unknown or out of range.

    ``name``: its :attr:`API.name`.
    ``parameters``: what its :meth:`API.parameters` returned.
    ``domain``: public.
    Returns: the API itself where its parameters say everything about it; else a :class:`NamedAPI`, which has the same
    name and parameters, and refuses to run.

    Examples
    --------
    >>> from discreet.domain import Boolean
    >>> api = api_from("callables", {"label": "fonts"}, Domain(columns={"a": Boolean()}))
    >>> api.name, api.parameters()
    ('callables', {'label': 'fonts'})
    """
    if name in _REBUILT:
        return _REBUILT[name].of(parameters, domain)
    return NamedAPI(domain=domain, name=name, stated=json.dumps(dict(parameters), sort_keys=True))
