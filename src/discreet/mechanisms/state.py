"""What a mechanism's class and module hold: a kernel that keeps the table there would give it to what comes after."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from hashlib import sha256
from types import FunctionType, MappingProxyType, ModuleType
from typing import Any

import numpy as np

_MADE_BY_PYTHON = {
    "__annotations__",
    "__annotations_cache__",
    "__builtins__",
    "__doc__",
    "__warningregistry__",
}
_MOST_LOOKED_AT = 100_000
_PLAIN = (str, bytes, int, float, complex, bool, type(None))


def kept_state(kind: type) -> dict[tuple[str, str], Any]:
    """Return what the classes of a mechanism, and the modules that they are in, hold under each name.

    Containers, arrays, and what functions carry along are compared by their content, containers of more than 100,000
    entries by their length, all other objects by identity.
    The standard library's own classes are passed over.
    """
    own = [one for one in kind.__mro__ if one.__module__.partition(".")[0] not in sys.stdlib_module_names]
    modules = [sys.modules[name] for name in dict.fromkeys(one.__module__ for one in own) if name in sys.modules]
    holders: list[type | ModuleType] = [*own, *modules]
    return {
        (holder.__name__, name): _mark(value, {id(holder)})
        for holder in holders
        for name, value in tuple(vars(holder).items())
        if name not in _MADE_BY_PYTHON
    }


def _mark(value: Any, above: set[int]) -> Any:
    """Return what is equal as long as a value is what it was."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if id(value) in above or isinstance(value, (type, ModuleType)):
        return id(value)
    below = {*above, id(value)}
    if isinstance(value, (list, tuple, dict, set, frozenset, deque)) and len(value) > _MOST_LOOKED_AT:
        return (id(value), len(value))
    if isinstance(value, np.ndarray) and value.dtype != object:
        return (id(value), value.shape, sha256(np.ascontiguousarray(value).tobytes()).hexdigest())
    if isinstance(value, bytearray):
        return bytes(value)
    return (id(value), tuple(_mark(part, below) for part in _parts(value)))


def _parts(value: Any) -> Iterator[Any]:
    """Yield what can change within a value while it stays the same object."""
    if isinstance(value, (dict, MappingProxyType)):
        for key, part in tuple(value.items()):
            yield key
            yield part
    elif isinstance(value, (list, tuple, deque)):
        yield from tuple(value)
    elif isinstance(value, np.ndarray):
        yield from value.ravel().tolist()
    elif isinstance(value, (set, frozenset)):
        yield from sorted(value, key=id)
    elif isinstance(value, FunctionType):
        yield vars(value)
        yield value.__defaults__
        yield value.__kwdefaults__
        for cell in value.__closure__ or ():
            yield getattr(cell, "cell_contents", None)
    elif isinstance(value, (staticmethod, classmethod)):
        yield value.__func__
    elif isinstance(value, property):
        yield from (value.fget, value.fset, value.fdel)
