"""The type of confidential values: they do not print, compare, pickle, iterate or concatenate.

Python cannot stop a determined caller: whoever runs code in the process can read its memory. The wrapper stops
accidents: a value in a log, a notebook, a traceback, a file, a cache, a comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partialmethod
from typing import Any, Generic, NoReturn, TypeVar

from discreet._core.boundary import sealed
from discreet._core.errors import ConfidentialAccessError
from discreet._core.lazy import pl
from discreet.domain import Counts, Domain
from discreet.privacy import Unit

T = TypeVar("T")


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Public facts about where a confidential value came from.

    ``frame_kind``: which kind of table came in: pandas, polars, pyarrow, an engine's name, or a file's format:
    parquet, csv, arrow or database.
    ``columns``: the columns, in order.
    ``domain``: the domain that the value was encoded with; None for raw values.
    ``unit``: the privacy unit; None where each row is one.
    ``path``: the file that was read, as the caller gave it.
    ``seeded``: whether the rows of units were cut with another generator than a secure one.
    ``public``: name and hash of each table that was declared public beside this one, and found to be another.
    ``rows``: where units were cut: the rows as they came, closed.
    ``returned``: makes a released table the kind of table that came in; None where it stays as it is.
    """

    frame_kind: str
    columns: tuple[str, ...]
    domain: Domain | None = None
    unit: Unit | None = None
    path: str | None = None
    seeded: bool = False
    public: tuple[tuple[str, str], ...] = ()
    rows: Confidential[Counts] | None = field(default=None, repr=False, compare=False)
    returned: Callable[[pl.DataFrame, Domain], Any] | None = field(default=None, repr=False, compare=False)


@sealed
class Confidential(Generic[T]):
    """A confidential value, closed.

    Only the modules listed in ``discreet.confidential.opening`` can open it. Of what they return, the records, counts
    and tables that :func:`discreet.release` gives are public under a guarantee, and the number of records
    (:func:`discreet.confidential.public_size`) is public by definition; all else is for the custodian alone.

    Parameters
    ----------
    value : object
        The value to close.
    provenance : Provenance, optional
        Public facts that travel with it.

    Examples
    --------
    >>> Confidential(3.14)
    <confidential float>
    """

    __slots__ = ("__reveal", "__weakref__", "_kind", "_provenance")

    def __init__(self, value: T, *, provenance: Provenance | None = None) -> None:
        def reveal(key: object) -> T:
            if key is not _KEY:
                raise ConfidentialAccessError("opened")
            return value

        self.__reveal: Callable[[object], T] = reveal
        self._kind = type(value).__name__
        self._provenance = provenance

    @property
    def provenance(self) -> Provenance | None:
        """Public facts that travel with it."""
        return self._provenance

    def __repr__(self) -> str:
        return f"<confidential {self._kind}>"

    def __format__(self, spec: str) -> str:
        if spec:
            raise ConfidentialAccessError("formatted")
        return repr(self)

    @property
    def relation_group(self) -> int:
        """How many records one neighbouring change may replace: the slots of a privacy unit, 1 by default."""
        if self._provenance is None or self._provenance.unit is None:
            return 1
        return self._provenance.unit.max_records


_KEY = object()


def reveal(value: Confidential[T]) -> T:
    """Return the inner value; for ``open_confidential`` alone, which checks who asks."""
    inner: T = value._Confidential__reveal(_KEY)  # type: ignore[attr-defined]  # the mangled name
    return inner


_REFUSED = {
    "compared": "eq ne lt le gt ge",
    "hashed": "hash",
    "iterated over": "iter next reversed",
    "measured": "len length_hint",
    "turned into a truth value": "bool",
    "turned into a number": "int float complex index round trunc floor ceil",
    "turned into an array": "array dataframe arrow_c_stream arrow_c_array dlpack",
    "indexed": "getitem setitem delitem contains",
    "called": "call",
    "copied or pickled": "reduce reduce_ex getstate setstate copy deepcopy",
    "combined": (
        "add radd iadd sub rsub isub mul rmul imul matmul rmatmul truediv rtruediv floordiv rfloordiv mod rmod divmod "
        "rdivmod pow rpow lshift rlshift rshift rrshift and rand or ror xor rxor neg pos abs invert array_ufunc"
    ),
    "turned into bytes": "bytes",
}


def _refuse(_self: object, action: str, *_: Any, **__: Any) -> NoReturn:
    raise ConfidentialAccessError(action)


for _action, _names in _REFUSED.items():
    for _name in _names.split():
        # Attributes that other libraries look for, not call, must be absent for their "has no such protocol" branch;
        # numpy calls __array__ and __array_ufunc__, Arrow and pandas call the others.
        setattr(Confidential, f"__{_name}__", partialmethod(_refuse, _action))
