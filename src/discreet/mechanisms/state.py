"""What a mechanism's class and module hold: a kernel that keeps the table there would give it to what comes after."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from hashlib import sha256
from types import FunctionType, MappingProxyType, ModuleType, SimpleNamespace
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

    Containers, arrays, what functions carry along, and what the modules' own classes and their instances hold are
    compared by their content, containers of more than 100,000 entries by their length, all other objects by identity.
    The standard library's own classes, and modules that a name was imported for, are passed over.
    """
    own = [one for one in kind.__mro__ if one.__module__.partition(".")[0] not in sys.stdlib_module_names]
    modules = [sys.modules[name] for name in dict.fromkeys([one.__module__ for one in own]) if name in sys.modules]
    holders: list[type | ModuleType] = [*own, *modules]
    names, seen = {one.__name__ for one in modules}, set(map(id, holders))
    return {
        (holder.__name__, name): _mark(value, names, seen)
        for holder in holders
        for name, value in tuple(vars(holder).items())
        if name not in _MADE_BY_PYTHON
        and not (isinstance(value, ModuleType) and sys.modules.get(value.__name__) is value)
    }


def _mark(value: Any, modules: set[str], seen: set[int]) -> list[Any]:
    """Return marks that are equal as long as a value is unchanged; each object is looked at once."""
    marks: list[Any] = []
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, _PLAIN):
            marks.append(repr(one))
            continue
        marks.append(id(one))
        if id(one) in seen or isinstance(one, ModuleType):
            continue
        seen.add(id(one))
        if isinstance(one, (list, tuple, dict, set, frozenset, deque)) and len(one) > _MOST_LOOKED_AT:
            marks.append(len(one))
        elif isinstance(one, np.ndarray) and one.dtype != object:
            marks += [one.shape, sha256(np.ascontiguousarray(one).view(np.uint8).data).hexdigest()]
        elif isinstance(one, bytearray):
            marks.append(bytes(one))
        else:
            parts = (*_parts(one), *_attributes(one, modules))
            marks.append(len(parts))
            left += reversed(parts)
    return marks


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


def _attributes(value: Any, modules: set[str]) -> Iterator[Any]:
    """Yield what a class of one of the modules, an instance of one, or a namespace holds."""
    holder = value if isinstance(value, type) else type(value)
    if holder is SimpleNamespace or holder.__module__ in modules:
        for name, part in tuple(getattr(value, "__dict__", {}).items()):
            if name not in _MADE_BY_PYTHON:
                yield name
                yield part
