"""The boundary around other libraries' code that runs on confidential data: no error of theirs gets out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

from discreet.domain._column import quietly
from discreet.errors import DataError

__all__ = ["enclosed", "enclosed_parts"]

P = ParamSpec("P")
T = TypeVar("T")


def enclosed(function: Callable[P, T]) -> Callable[P, T]:
    """Make a function that reads confidential data raise errors of this library alone.

    Whatever else is raised in it, a Rust panic included, becomes a :class:`~discreet.errors.DataError` that keeps no
    trace of the first error: its text could quote a value.
    """

    @wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> T:
        return quietly(lambda: function(*args, **kwargs), _unreadable())

    return inside


def enclosed_parts(function: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """Do the same for a generator: each of its steps is enclosed."""

    @wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        parts = quietly(lambda: iter(function(*args, **kwargs)), _unreadable())
        while (part := quietly(lambda: next(parts, None), _unreadable())) is not None:
            yield part

    return inside


def _unreadable() -> DataError:
    return DataError(None, "could not be read", "check that the type of each column is the declared one")
