"""A kernel that keeps the table on its class or module is found, and its release refused."""

import copy
import functools
import importlib
import types
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest

from discreet import Output, Watch, release
from discreet.confidential import confidential
from discreet.domain import Category, Counts, Domain
from discreet.errors import Refused
from discreet.ledger import kept_state
from discreet.mechanisms import PerturbedHistogram, SmoothedHistogram
from discreet.mechanisms.base import Votes

CELLS = Domain(columns={"cell": Category(categories=["a", "b"])})
TABLE = pl.DataFrame({"cell": ["a", "b", "b"] * 100})
BOX: dict[str, Any] = {}
NESTED = ([], {"deep": [{1}]})
ARRAY = np.zeros(3)
OBJECTS = np.empty(1, dtype=object)
BYTES = bytearray(4)
SPACE = types.SimpleNamespace()


class Shelf:
    last: ClassVar[Any] = None


SHELF = Shelf()


def helper(seen: list[int] = []) -> list[int]:  # noqa: B006
    return seen


def closed_over() -> Any:
    inner: list[Any] = []
    return lambda: inner


CLOSURE = closed_over()
PLACES = {
    "class attribute": lambda self, x: setattr(type(self), "last", x),
    "list of the class": lambda self, x: type(self).log.append(x.n),
    "attribute of a base class": lambda self, x: setattr(PerturbedHistogram, "last", x),
    "dict of the module": lambda self, x: BOX.update(x=x),
    "name of the module": lambda self, x: globals().update(kept=x),
    "deep in the module": lambda self, x: NESTED[1]["deep"][0].add(x.n),
    "array of the module": lambda self, x: ARRAY.__setitem__(0, x.n),
    "array of objects": lambda self, x: OBJECTS.__setitem__(0, x.n),
    "bytes of the module": lambda self, x: BYTES.__setitem__(0, 1),
    "default argument": lambda self, x: helper().append(x.n),
    "attribute of a function": lambda self, x: setattr(helper, "x", x.n),
    "closure": lambda self, x: CLOSURE().append(x.n),
    "class beside it": lambda self, x: setattr(Shelf, "last", x),
    "object beside it": lambda self, x: setattr(SHELF, "x", x),
    "namespace": lambda self, x: setattr(SPACE, "x", x),
    "attribute of a method": lambda self, x: setattr(Keeping.spoken, "x", x.n),
}


@dataclass(frozen=True, kw_only=True)
class Keeping(PerturbedHistogram):
    name: ClassVar[str] = "keeping"
    log: ClassVar[list[int]] = []
    place: str = ""

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> Any:
        if self.place:
            PLACES[self.place](self, x)
        return super().kernel(x, rng=rng)

    def spoken(self) -> str:
        return self.place


@pytest.fixture(autouse=True)
def as_before() -> Any:
    yield
    for kind in (Keeping, PerturbedHistogram):
        if "last" in vars(kind):
            del kind.last  # type: ignore[attr-defined]
    for held in (BOX, Keeping.log, NESTED[1]["deep"][0], helper(), CLOSURE()):  # type: ignore[index]
        held.clear()
    Shelf.last = None
    vars(SHELF).clear()
    vars(SPACE).clear()
    ARRAY[0], BYTES[0], OBJECTS[0] = 0, 0, None
    globals().pop("kept", None)


@pytest.mark.parametrize("place", PLACES)
def test_a_kernel_that_keeps_the_table_releases_nothing(place, tmp_path) -> None:
    made = Keeping(domain=CELLS, records=300, scale=5.0, place=place)
    with pytest.raises(Refused, match="changed its class or its module"):
        release(confidential(TABLE, CELLS), mechanism=made, size=10, out=tmp_path / "out.csv", accept={"poor-utility"})
    assert list(tmp_path.iterdir()) == []


def test_a_kernel_that_keeps_nothing_is_let_through() -> None:
    release(confidential(TABLE, CELLS), mechanism=Keeping(domain=CELLS, records=300, scale=5.0), size=10)


@dataclass(frozen=True, kw_only=True)
class Lazily(SmoothedHistogram):
    """Draws its records while they are written, and keeps the table then."""

    name: ClassVar[str] = "lazily"

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> Any:
        for chunk in super().kernel(x, rng=rng):
            BOX["x"] = x
            yield chunk


def test_a_kernel_that_draws_while_it_is_read_is_looked_at_all_the_time(tmp_path) -> None:
    made = Lazily(domain=CELLS, size=10, mixing=0.5)
    for out in (None, tmp_path / "out.csv", tmp_path / "parts"):
        BOX.clear()
        parts = 2 if out is not None and not out.suffix else None
        with pytest.raises(Refused, match="changed its class or its module"):
            release(
                confidential(TABLE, CELLS), mechanism=made, out=Output(out, partitions=parts), accept={"poor-utility"}
            )
    assert list(tmp_path.iterdir()) == []


@dataclass(frozen=True, kw_only=True)
class Plain(SmoothedHistogram):
    name: ClassVar[str] = "plain"


def test_what_the_caller_does_between_two_chunks_is_not_the_kernels() -> None:
    """A progress bar of a notebook changes the module that the mechanism is in."""
    made = Plain(domain=CELLS, size=300_000, mixing=0.5)
    release(
        confidential(TABLE, CELLS),
        mechanism=made,
        watch=Watch(progress=lambda n: BOX.update({str(n): n})),
        accept={"poor-utility"},
    )
    assert len(BOX) > 1


def test_objects_that_lead_back_to_themselves_are_looked_at() -> None:
    class Round:
        loop: ClassVar[list[Any]] = []
        cached = functools.lru_cache(maxsize=None)(lambda: 1)
        votes = Votes

    Round.loop.append(Round.loop)
    assert kept_state(Round) == kept_state(Round)


def test_what_a_copy_leaves_on_a_class_is_pythons() -> None:
    """The first copy of an object writes __slotnames__ onto its class."""

    class Holder:
        part = Shelf

    if "__slotnames__" in vars(Shelf):
        del Shelf.__slotnames__  # type: ignore[attr-defined]
    before = kept_state(Holder)
    copy.copy(SHELF)
    assert "__slotnames__" in vars(Shelf)
    assert kept_state(Holder) == before


def test_objects_that_many_lead_to_are_looked_at_once() -> None:
    """Twenty lists, each twice in the next, took half a minute; a thousand, each in the next, an error."""

    class Holder:
        deep: ClassVar[list[Any]] = []
        wide: ClassVar[list[Any]] = []

    for _ in range(5000):
        Holder.deep, Holder.wide = [Holder.deep], [Holder.wide, Holder.wide]
    before = kept_state(Holder)
    assert before == kept_state(Holder)
    Holder.wide[0][0].append(1)
    assert before != kept_state(Holder)


@dataclass(frozen=True, kw_only=True)
class Importing(PerturbedHistogram):
    name: ClassVar[str] = "importing"

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> Any:
        globals()["colorsys"] = importlib.import_module("colorsys")
        return super().kernel(x, rng=rng)


def test_a_module_that_a_kernel_imports_is_not_the_table() -> None:
    made = Importing(domain=CELLS, records=300, scale=5.0)
    release(confidential(TABLE, CELLS), mechanism=made, size=10, accept={"poor-utility"})
    assert globals().pop("colorsys")
