"""The shape of a certificate: which fields it has, and of which kinds. What they claim is verified elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NUMBER = (int, float)
_MAYBE = (int, type(None))
_TABLE: dict[str, Any] = {"file": (str, type(None)), "rows": (int,), "sha256": (str, type(None))}
_PARTS: dict[str, Any] = {"partitions": (int,), "partition_by": (str, type(None)), "sha256": (str,)}
_SHAPE: dict[str, Any] = {
    "mechanism": {"name": (str,), "parameters": (dict,)},
    "domain": (dict,),
    "records": (int,),
    "size": _MAYBE,
    "relation": {"name": (str,), "group": (int,)},
    "unit": (dict, type(None)),
    "guarantee": {"epsilon": _NUMBER, "delta": _NUMBER, "caveats": (list,), "statement": (str,)},
    "randomness": (str,),
    "released": {"columns": (list,), "rows": _MAYBE},
    "shows": (str,),
}


def misshapen(facts: Any) -> str | None:
    """Return the first field that is missing or of the wrong kind; None where there is none.

    Examples
    --------
    >>> misshapen({"mechanism": {"name": 3}})
    'mechanism.name'
    """
    wrong = first_wrong(facts, _SHAPE, "")
    if wrong is None and "partitions" in facts["released"]:
        wrong = first_wrong(facts["released"], _PARTS, "released.")
    if wrong is not None or "tables" not in facts["released"]:
        return wrong
    tables = facts["released"]["tables"]
    if not isinstance(tables, list) or not tables:
        return "released.tables"
    found = (first_wrong(table, _TABLE, f"released.tables[{i}].") for i, table in enumerate(tables))
    return next((wrong for wrong in found if wrong is not None), None)


def first_wrong(facts: Any, shape: Mapping[str, Any], place: str) -> str | None:
    """Return the first field of a shape that is missing or of the wrong kind, with its place in front of it."""
    if not isinstance(facts, Mapping):
        return place.rstrip(".") or "the document"
    for key, kinds in shape.items():
        where = f"{place}{key}"
        if key not in facts:
            return where
        if isinstance(kinds, Mapping):
            wrong = first_wrong(facts[key], kinds, f"{where}.")
            if wrong is not None:
                return wrong
        elif not isinstance(facts[key], kinds) or isinstance(facts[key], bool):
            return where
    return None
