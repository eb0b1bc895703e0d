"""The values inside a JSON document, and a document with another value in one place."""

import copy
from collections.abc import Iterator
from typing import Any

Place = tuple[Any, ...]


def leaves(value: Any, at: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Yield every value inside a document, itself first, and its place."""
    yield at, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inside in items:
        yield from leaves(inside, (*at, key))


def changed(document: Any, at: Place, value: Any) -> Any:
    """Return a document that has another value in a place."""
    if not at:
        return value
    whole = holder = copy.deepcopy(document)
    for key in at[:-1]:
        holder = holder[key]
    holder[at[-1]] = value
    return whole
