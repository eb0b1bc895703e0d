"""Every error the library raises on purpose, and the checks of public parameters that raise them.

One root class. Each subclass carries the public facts it is about and writes its own message with a remedy. No
message ever holds a confidential value: a message names columns, positions in *declared* lists, bounds, budgets and
parameters, never what was found in the data. Errors raised while confidential data is open are raised ``from None`` so
that no chained traceback repeats a value.
"""

from __future__ import annotations

import copyreg
import math
import os
from collections.abc import Callable, Collection
from decimal import Decimal as Exact
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Any, TypeVar

from discreet._core.lazy import np
from discreet._core.text import about, as_written, counted, harmless, rounded_down, rounded_up, sentence, with_article

__all__ = [
    "BudgetError", "ConfidentialAccessError", "DataError", "DiscreetError", "DomainError", "Fault", "FileProblem",
    "GuaranteeKindError", "Infeasible", "LawNotAvailable", "MissingExtra", "MissingPublicFact", "NotPublic",
    "ParameterError", "PoorUtility", "RandomnessError", "Refused", "RelationNotSupported",
]  # fmt: skip


class DiscreetError(Exception):
    """Root of the errors of this library.

    Attributes
    ----------
    exit_status : int
        What the command returns: 2 for bad input, 3 for a request that is infeasible or refused, 4 for a fault of the
        program.
    cost : str
        A sentence that says what the failure cost all the same, where a ledger paid for a release. Else empty.
    """

    exit_status = 2
    problem = remedy = cost = _where = ""

    def __str__(self) -> str:
        text = super().__str__()
        if self._where:
            text = f"{self._where}: {self.problem}. {sentence(self.remedy)}"
        return ". ".join(filter(None, [text, self.cost]))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what an error is made again from, without its constructor: in another process it says the same."""
        return copyreg.__newobj__, (type(self),), {**self.__dict__, "args": self.args}  # type: ignore[attr-defined]


class DomainError(DiscreetError, ValueError):
    """A declared domain is wrong in itself: no data was looked at."""


class MissingPublicFact(DomainError):
    """A public fact was not declared, and is never derived from data.

    Parameters
    ----------
    column : str
        The column the fact belongs to.
    fact : str
        What is missing, in words.
    toml : str
        The line or lines to write.
    """

    def __init__(self, column: str, fact: str, toml: str) -> None:
        self.column, self.fact, self.toml = column, fact, toml
        super().__init__(f"column {column!r}: {fact} is not declared, and is never read from the data. Write: {toml}")


class DataError(DiscreetError, ValueError):
    """The confidential table does not fit the declared domain.

    Parameters
    ----------
    column : str or None
        The column concerned, or None for the table as a whole.
    problem : str
        What is wrong, without any value of the data.
    remedy : str
        What to do about it.
    """

    def __init__(self, column: str | None, problem: str, remedy: str) -> None:
        self.column, self.problem, self.remedy = column, problem, remedy
        self._where = "the table" if column is None else f"column {column!r}"
        super().__init__(str(self))


class NotPublic(DiscreetError, ValueError):
    """A public input is the confidential table itself. The message is the same whichever input, and however found."""

    def __init__(self) -> None:
        super().__init__(
            "what was given as public is the confidential table itself. Give facts that were fixed without looking at "
            "it, such as an earlier release"
        )


class FileProblem(DiscreetError, OSError):
    """A file cannot be read or written.

    Parameters
    ----------
    path : str
        The path as the caller gave it.
    problem : str
        What is wrong with it.
    remedy : str
        What to do about it.
    """

    def __init__(self, path: object, problem: str, remedy: str) -> None:
        named = isinstance(path, (str, bytes, os.PathLike))
        self.path = str(path) if named else with_article(type(path).__name__)  # which may hold data
        self.problem, self.remedy, self._where = problem, remedy, harmless(self.path) or "a file without a name"
        super().__init__(str(self))


class BudgetError(DiscreetError, ValueError):
    """A privacy budget is not one: epsilon and delta are outside their ranges."""


class ParameterError(DiscreetError, ValueError):
    """A parameter of a mechanism is outside its range, unknown, or of the wrong kind."""


class MissingExtra(ParameterError):
    """An extra of this package is needed and not installed.

    Parameters
    ----------
    problem : str
        What needs it.
    extra : str
        Its name.
    """

    def __init__(self, problem: str, extra: str) -> None:
        self.extra = extra
        super().__init__(f"{problem}. Install it: pip install 'discreet[{extra}]'")


class RandomnessError(DiscreetError, RuntimeError):
    """A source of randomness would be used in a way that breaks the guarantee."""


class ConfidentialAccessError(DiscreetError, TypeError):
    """Something tried to print, compare, pickle, hash or open a confidential value."""

    def __init__(self, action: str) -> None:
        self.action = action
        super().__init__(f"a confidential value cannot be {action}. What release() gives under a guarantee is public.")


class RelationNotSupported(DiscreetError, ValueError):
    """A mechanism has no theorem for this neighbouring relation.

    Parameters
    ----------
    mechanism, relation : str
        The registry name of the mechanism, and the relation asked for.
    reason : str
        Why there is none.
    """

    def __init__(self, mechanism: str, relation: str, reason: str) -> None:
        self.mechanism, self.relation, self.reason = mechanism, relation, reason
        super().__init__(f"{mechanism} has no theorem for the {relation} relation: {reason}. Use 'replacement'")


class LawNotAvailable(DiscreetError, NotImplementedError):
    """A kernel's law has no closed form here."""


class Refused(DiscreetError):
    """A well-formed request that the library will not carry out."""

    exit_status = 3


_MOST_DELTA = 0.01  # that is told as the nearest one: more would publish records of a table of a hundred


class Infeasible(Refused):
    """No parameter meets the budget.

    Parameters
    ----------
    request : str
        What was asked, in words.
    nearest : dict
        The nearest numbers that can be met, by name; each alone is enough.
    more : str
        Sentences that follow.
    """

    def __init__(self, request: str, nearest: dict[str, float], more: str = "") -> None:
        self.request, self.nearest = request, dict(nearest)
        options = []
        for name, value in nearest.items():  # what is written can itself be met
            if name == "delta >=" and value > _MOST_DELTA:
                continue
            text = rounded_down(value, 6) if name.endswith("<=") else rounded_up(value, 6)
            options.append(f"{name} {value:,}" if isinstance(value, int) else f"{name} {text}")
        hint = f". The nearest that can be met: {', or '.join(options)}" if options else ""
        super().__init__(". ".join(filter(None, [f"{request} cannot be met{hint}", more])))


class PoorUtility(Refused):
    """Too large a share of the records would carry nothing of the data."""


class GuaranteeKindError(Refused):
    """A guarantee is not of a kind that the caller accepts."""


class Fault(DiscreetError, RuntimeError):
    """The program itself went wrong: an error that was not foreseen, on arguments of the right kinds.

    It says which error and where in the code, and never repeats that error's text, which could quote the data.

    Parameters
    ----------
    error, where : str
        The class of the error, and the file and line that raised it.
    """

    exit_status = 4

    def __init__(self, error: str, where: str) -> None:
        self.error, self.where = error, where
        super().__init__(
            f"a fault in the program ({error} at {where}). Nothing was released. Please report what led to it, without "
            "the data"
        )


for _name in __all__:  # where users find them, in messages and in pickles
    globals()[_name].__module__ = "discreet.errors"


# Warnings: the work goes on, but its numbers should not be read as they stand.


class DiscreetWarning(UserWarning):
    """Root of the warnings of this library."""


class ReleaseTakenForSample(DiscreetWarning):
    """Released records are, or may be, analysed as if they were new observations of the population.

    Parameters
    ----------
    released, held : int
        Number of released and of confidential records.
    remedy : str
        What to do instead.
    factor : float, optional
        About how many times as wide an interval should be, ``sqrt(1 + 2 m / n)`` by default: that of an urn.
    """

    def __init__(self, released: int, held: int, remedy: str, *, factor: float | None = None) -> None:
        self.released, self.held = released, held
        self.factor: float = (1.0 + 2.0 * released / held) ** 0.5 if factor is None else factor
        super().__init__(
            f"the release of {counted(released, 'record')} is no sample of the population, since it was drawn from "
            f"{counted(held, 'confidential record')}: an interval computed from it as from a sample should be about "
            f"{about(self.factor)} times as wide. {remedy}"
        )


# Checks of public parameters: one family, one wording, whichever error is raised.
#
# They return plain Python values, whichever library's number or text was given. These are what is to be kept. A message
# names the parameter, what it must be, and what was given: "size must be an integer from 1 to 10, got 3.5". Only plain
# values are written: of a table, an array or an object of another library, its kind alone.

_OWN = {int, float, str, bool, type(None), list, tuple, dict}
_LONGEST, _DIGITS = 60, 40  # characters of a text, and digits of an integer, that a message repeats

Refusal = Callable[[str], DiscreetError]
"""Makes the error of a message: a class of errors, or a function that says more in front."""

_T = TypeVar("_T", bound=str)


def plain(value: Any) -> Any:
    """Return a scalar of NumPy, or a text of a subclass, as the value of Python that it is; anything else as it is."""
    # A date, a moment or a length of time is Python's, and a text where Python has none that equals it.
    if type(value) in _OWN:
        return value
    if type(value).__module__.partition(".")[0] == "pandas" and getattr(value, "tzinfo", None) is None:
        value = getattr(value, "to_timedelta64", getattr(value, "to_datetime64", lambda: value))()
    if isinstance(value, (np.datetime64, np.timedelta64)):
        fine = np.datetime_data(value.dtype)[0] in ("ns", "ps", "fs", "as")
        short = value.astype(f"{value.dtype.kind}8[us]") if fine else value
        moment = short.item()
        return str(value) if isinstance(moment, int) or short.astype(value.dtype) != value else moment
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, str):
        return str.__str__(value)
    return value


def integer(
    name: str,
    value: Any,
    *,
    least: int | None = None,
    most: int | None = None,
    remedy: str = "",
    error: Refusal = ParameterError,
) -> int:
    """Return an integer of a range, both ends in it; no boolean is one. Raises ``error`` when it is not one."""
    value = plain(value)  # of NumPy, a length of time calls itself an integer
    if not isinstance(value, bool) and isinstance(value, Integral):
        number = int(value)
        if (least is None or least <= number) and (most is None or number <= most):
            return number
    raise unfit(name, f"an integer{_range(least, None, most, None)}", value, remedy=remedy, error=error)


def real(
    name: str,
    value: Any,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    infinite: bool = False,
    down: bool = False,
    remedy: str = "",
    error: Refusal = ParameterError,
) -> float:
    """Return a number of a range, an end in it (``least``, ``most``) or not (``above``, ``below``)."""
    # Raises error when it is not one. NaN never is, and infinity only where it is infinite, within the bounds. A number
    # that no float is written as, such as a third, is rounded down, else to the nearest.
    value = plain(value)
    number = as_float(value)
    if down and math.isfinite(number):
        exact: Any = float
        if isinstance(value, Exact):
            exact = Exact
        elif isinstance(value, Rational):
            exact = Fraction
        if exact(repr(number)) > value:  # the decimal that it is written as
            number = math.nextafter(number, -math.inf)
    inside = (
        (math.isfinite(number) or (infinite and math.isinf(number)))
        and (least is None or number >= least)
        and (above is None or number > above)
        and (most is None or number <= most)
        and (below is None or number < below)
    )
    if inside:
        return number
    finite = not infinite and most is None and below is None
    form = ("a finite number" if finite else "a number") + _range(least, above, most, below)
    raise unfit(name, form, value, remedy=remedy, error=error)


def positive_size(name: str, value: Any) -> int:
    """Return a number of records. Raises ParameterError when it is not an integer from 1 to 1e10."""
    return integer(name, value, least=1, most=10**10)


def probability(name: str, value: Any) -> float:
    """Return a number from 0 to 1. Raises ParameterError when it is not one."""
    return real(name, value, least=0, most=1)


def dimensions(value: Any) -> int:
    """Return a number of dimensions. Raises ParameterError when it is not one."""
    return integer("dimension", value, least=1, most=10**6)


def positive(**numbers: float) -> None:
    """Refuse numbers that are not finite and above 0."""
    for name, value in numbers.items():
        real(name, value, above=0)


def sizes(*, n: float, d: int, m: float = 1) -> None:
    """Refuse numbers of records, and a dimension, that are below 1."""
    real("n", n, least=1)
    real("m", m, least=1)
    integer("d", d, least=1)


def choice(name: str, value: Any, options: Collection[_T], *, error: Refusal = ParameterError) -> _T:
    """Return the one of some texts that a value is. Raises ``error`` when it is not one of them."""
    if isinstance(value, str):
        for option in options:
            if value == option:
                return option
    words = [repr(option) for option in options]
    raise unfit(name, " or ".join(words) if len(words) < 3 else f"one of {', '.join(words)}", value, error=error)


def flag(name: str, value: Any, *, error: Refusal = ParameterError) -> bool:
    """Return True or False. Raises ``error`` when it is neither."""
    value = plain(value)
    if isinstance(value, bool):
        return value
    raise unfit(name, "True or False", value, error=error)


def unfit(name: str, form: str, value: Any, *, remedy: str = "", error: Refusal = ParameterError) -> DiscreetError:
    """Return the error that refuses a value, in the words of all of these."""
    message = f"{name} must be {form}, got {shown(value)}"
    return error(f"{message}. {remedy}" if remedy else message)


def shown(value: Any) -> str:
    """Write a value that was given: a plain one as it is, of another its kind alone: 'a list'."""
    value = plain(value)
    if value is None or isinstance(value, bool):
        return repr(value)
    if isinstance(value, Integral):
        number = int(value)
        return str(number) if abs(number) < 10**_DIGITS else f"an integer of more than {_DIGITS} digits"
    if isinstance(value, (Real, Exact)):
        return as_written(as_float(value))
    if isinstance(value, str):
        return repr(value[:_LONGEST]) + ("..." if len(value) > _LONGEST else "")
    return with_article(harmless(type(value).__name__))


def as_float(value: Any) -> float:
    """Return a number as a float, infinity where it is beyond them, NaN where it is none."""
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, (Real, Exact)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf
    except ValueError:  # a signalling NaN
        return math.nan


def _range(least: float | None, above: float | None, most: float | None, below: float | None) -> str:
    """Say in words between which bounds a number must be, after what it must be."""
    if least is not None and most is not None:
        return f" from {_bound_text(least)} to {_bound_text(most)}"
    bounds = (("of at least", least), ("above", above), ("at most", most), ("below", below))
    words = " and ".join(f"{word} {_bound_text(bound)}" for word, bound in bounds if bound is not None)
    if words.startswith("at most"):
        return f" of {words}"
    return f" {words}" if words else ""


def _bound_text(number: float) -> str:
    return f"{int(number):,}" if number == int(number) and abs(number) < 1e15 else as_written(number)
