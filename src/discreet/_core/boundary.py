"""The boundaries: whatever is given, what comes out of a public function is a result or an error of this library.

Other libraries' errors quote what they met, which may be confidential, and a traceback tells a user nothing. So every
public function and method ends here. An error that was raised on purpose passes. Any other one is explained by the
arguments where one of them is of the wrong kind (:class:`~discreet.errors.ParameterError`), by the system where it
refused a file or memory, and else is called what it is, a fault of the program (:class:`~discreet.errors.Fault`): bugs
are not passed off as bad input. Arguments are looked at only after a failure, so that nothing is slower or stricter.

What the caller's own functions raise (a progress callback, a model, a generator) passes untouched.

Within it, what reads confidential data has a closer boundary (:func:`enclosed`, :func:`quietly`): whatever goes wrong
there is the table's fault, and is told as one error whose text is known beforehand.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import sysconfig
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import islice
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, cast

from discreet._core.checks import plain
from discreet._core.errors import DataError, DiscreetError, Fault, FileProblem, ParameterError, Refused
from discreet._core.lazy import Lazy
from discreet._core.reading import MOST_DIGITS
from discreet._core.text import harmless, with_article

_F = TypeVar("_F", bound=Callable[..., Any])
_P = ParamSpec("_P")
_T = TypeVar("_T")

_MARK = "__discreet_total__"
_LIBRARIES = (
    str(Path(__file__).parents[1]) + os.sep,
    *[sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")],
)
_LOOKED_AT = 1000  # elements of an argument, to say what is wrong with it
_PASSING = (DiscreetError, Warning, ImportError, StopIteration)


def seal(namespace: dict[str, Any], *results: type[Any]) -> None:
    """Put the boundary around every function and class in the ``__all__`` of a package.

    ``namespace``: the package's ``globals()``, once everything is imported.
    ``*results``: Classes that are not exported: what the exported functions return.
    """
    for kind in results:
        _seal_class(kind)
    for name in namespace["__all__"]:
        if name in namespace:  # others are loaded, and sealed, when they are first used
            namespace[name] = sealed(namespace[name])


def sealed(found: Any) -> Any:
    """Return a public function with the boundary around it, or a class with its methods within; else what it is."""
    if inspect.isfunction(found):
        bounded, home, name = total(found), vars(sys.modules[found.__module__]), found.__name__
        if home.get(name) is found:  # where a reference to it is looked up again, as in a pickle
            home[name] = bounded
        return bounded
    if inspect.isclass(found) and found.__module__.startswith("discreet."):
        _seal_class(found)
    return found


def _seal_class(kind: type[Any]) -> None:
    """Put the boundary around the constructor and the public methods that a class defines itself."""
    if issubclass(kind, BaseException) or getattr(kind, "_is_protocol", False):
        return
    for base in kind.__bases__:
        if base.__module__.startswith("discreet."):
            _seal_class(base)
    for name, member in list(vars(kind).items()):
        if name.startswith("_") and name not in ("__init__", "__new__"):
            continue
        if inspect.isfunction(member):
            setattr(kind, name, total(member))
        elif isinstance(member, (classmethod, staticmethod)):
            setattr(kind, name, type(member)(total(member.__func__)))


def total(function: _F) -> _F:
    """Return the function with the boundary around it; its name, signature and documentation stay."""
    if hasattr(function, _MARK):
        return function

    @functools.wraps(function)
    def bounded(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except BaseException as problem:
            error = _unquoted(problem, function, (*args, *kwargs.values()))
            if error is None:
                if _passes(problem):
                    raise
                error = explained(problem, function, args, kwargs)
        raise error  # outside of the handler, so that no chained traceback repeats a value

    setattr(bounded, _MARK, True)
    return cast("_F", bounded)


def _unquoted(problem: BaseException, function: Callable[..., Any], values: tuple[Any, ...]) -> DiscreetError | None:
    """Return another error where one of ours quotes an argument that is no plain value: a table given as a size."""
    if not isinstance(problem, DiscreetError):
        return None
    said = str(problem)
    for value in values:
        plain = value is None or isinstance(value, (str, bytes, os.PathLike, *_NUMBERS.values(), type))
        ours = type(value).__module__.startswith("discreet.")
        if not plain and not ours and _quotes(said, value):
            return ParameterError(
                f"{_called(function)}: an argument is of type {type(value).__name__}. Check the arguments"
            )
    return None


def _quotes(said: str, value: Any) -> bool:
    """Whether a message holds a value as it prints. Tables print on several lines: others are not asked to print."""
    if isinstance(value, (list, tuple, dict, set)) or (hasattr(value, "__array_interface__") and value.ndim):
        if len(value) > len(said):
            return False
    elif "\n" not in said and r"\u000a" not in said:
        return False
    try:
        return repr(value) in said or harmless(repr(value)) in said
    except Exception:  # noqa: BLE001  # then the message was not made of it either
        return False


def _passes(problem: BaseException) -> bool:
    if not isinstance(problem, Exception):  # an interrupt passes; a panic of a library written in Rust does not
        return type(problem).__name__ != "PanicException"
    if isinstance(problem, Fault):  # of a call within this one: its cause may be an argument of this one
        return False
    return isinstance(problem, _PASSING) or _is_the_callers(problem)


def _is_the_callers(problem: BaseException) -> bool:
    """Whether the error came out of code that is neither ours nor installed: a function that was passed in."""
    trace = problem.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
        code = trace.tb_frame.f_code.co_filename
        outside = trace.tb_frame.f_globals.get("__name__") == "__main__" if code[:1] == "<" else True
        if outside and not code.startswith(_LIBRARIES):
            return True
    return False


def explained(
    problem: BaseException, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> DiscreetError:
    """Return the error of this library that stands for another one that a call raised, without its text."""
    blamed = _wrong_argument(function, args, kwargs)
    if blamed is not None:
        return ParameterError(f"{_called(function)}: {blamed}")
    if isinstance(problem, Fault):  # of a call within this one
        return problem
    if isinstance(problem, MemoryError):
        return Refused("there is not enough memory for this. Ask for less")
    if isinstance(problem, OSError) and problem.errno is not None:
        named = problem.filename if isinstance(problem.filename, str) else "a file"
        return FileProblem(named, os.strerror(problem.errno).lower(), "check the path, its permissions and the space")
    return Fault(type(problem).__name__, _where(problem))


def _called(function: Callable[..., Any]) -> str:
    return function.__qualname__.removesuffix(".__init__").removesuffix(".__new__")


def _where(problem: BaseException) -> str:
    """Return the innermost line of this library that the error passed."""
    found, trace = "an unknown line", problem.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename.startswith(_LIBRARIES[0]) and code.co_filename != __file__:
            found = f"{Path(code.co_filename).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


# -- where confidential data are read -------------------------------------------------------------------------------


def quietly(action: Callable[[], _T], otherwise: DiscreetError) -> _T:
    """Run ``action``; where it fails, raise ``otherwise`` with no trace of the first error, which may hold values."""
    try:
        return action()
    except BaseException as problem:  # whatever a dataframe library raises (a Rust panic too) may quote the data
        if isinstance(problem, (DiscreetError, MemoryError, KeyboardInterrupt, SystemExit)):
            raise
    raise otherwise


def enclosed(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Make a function that reads confidential data raise errors of this library alone.

    Whatever else is raised in it, a Rust panic included, becomes a :class:`~discreet.errors.DataError` that keeps no
    trace of the first error: its text could quote a value.
    """

    @functools.wraps(function)
    def inside(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        return quietly(functools.partial(function, *args, **kwargs), _unreadable())

    return inside


def enclosed_parts(function: Callable[_P, Iterator[_T]]) -> Callable[_P, Iterator[_T]]:
    """Do the same for a generator: each of its steps is enclosed."""

    @functools.wraps(function)
    def inside(*args: _P.args, **kwargs: _P.kwargs) -> Iterator[_T]:
        parts = quietly(lambda: iter(function(*args, **kwargs)), _unreadable())
        while (part := quietly(lambda: next(parts, None), _unreadable())) is not None:
            yield part

    return inside


def _unreadable() -> DataError:
    return DataError(None, "could not be read", "check that the type of each column is the declared one")


# -- which argument is to blame ---------------------------------------------------------------------------------------


def _wrong_argument(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """Return what is wrong with the arguments, by the function's signature alone; None where nothing is."""
    signature = inspect.signature(function)
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError as problem:
        return _not_called_so(signature, str(problem))
    for name, value in given.items():
        parameter = signature.parameters[name]
        for key, one in _each(parameter, value):
            wrong = _odd(one)
            if wrong is not None:
                return f"{key} {wrong}"
            if not _fits(one, hint := _hint(function, parameter, args[:1])):
                return f"{key} must be {_wanted(hint)}, got {_given(one)}"
            if "ArrayLike" in str(parameter.annotation) and not _numeric(one):
                return f"{key} must be an array of numbers"
            held = {} if name == "self" else _fields_of(one)
            if held and (wrong := _wrong_argument(type(one).__init__, (one,), held)) is not None:
                return wrong
    return None


def _fields_of(value: Any) -> dict[str, Any]:
    """Return what a value of the library was made of, such as an output or a watch; nothing for any other."""
    made = is_dataclass(value) and not isinstance(value, type) and type(value).__module__.startswith("discreet.")
    if not made or not type(value).__dataclass_params__.init:
        return {}
    return {field.name: getattr(value, field.name) for field in fields(value) if field.init}


def _given(value: Any) -> str:
    """Name the type of an argument, and of the elements of a collection."""
    if isinstance(value, (list, tuple, set, frozenset)) and value:
        kinds = sorted({type(part).__name__ for part in islice(value, _LOOKED_AT)})
        return f"{type(value).__name__} of {', '.join(kinds)}"
    return type(value).__name__


def _wanted(hint: Any) -> str:
    """Say in words what an annotated type takes."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        words = dict.fromkeys(_wanted(part) for part in parts)
        if _PATH in words:  # which a text is
            words.pop(_WORDS[str], None)
        return " or ".join(words)
    if origin is Literal:
        return " or ".join(repr(part) for part in parts)
    kind = hint if origin is None else origin
    if kind in _WORDS:
        return _WORDS[kind]
    alike = (len(parts) == 1 or parts[1:] == (...,)) and parts[0] is not Any
    word = with_article(kind.__name__ if origin is None else kind.__name__.lower())
    return f"{word}, each element {_wanted(parts[0])}" if alike else word


def _not_called_so(signature: inspect.Signature, problem: str) -> str:
    named = [p.name for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY]
    if problem.startswith("too many positional") and named:
        return f"give its arguments by name: {', '.join(named)}"
    return problem


def _each(parameter: inspect.Parameter, value: Any) -> list[tuple[str, Any]]:
    """Return the arguments that a parameter took, several where it is ``*args`` or ``**kwargs``."""
    if parameter.kind is parameter.VAR_KEYWORD:
        return list(value.items())
    return [(parameter.name, part) for part in (value if parameter.kind is parameter.VAR_POSITIONAL else [value])]


def _odd(value: Any, depth: int = 0) -> str | None:
    """Return what no argument may be, whatever its type: a number or text that no program can hold as it is."""
    if depth > 100:
        return "is nested too deeply"
    if isinstance(value, int) and abs(value) >= 10**MOST_DIGITS:
        return f"holds a number of more than {MOST_DIGITS} digits"
    if isinstance(value, (str, os.PathLike)) and _unprintable(os.fspath(value)):
        return "holds a text with a NUL character or half of a Unicode pair"
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return next((found for part in value if (found := _odd(part, depth + 1)) is not None), None)
    return None


def _unprintable(text: str | bytes) -> bool:
    if isinstance(text, bytes):
        return b"\0" in text
    return "\0" in text or any("\ud800" <= c <= "\udfff" for c in text)


def _numeric(value: Any) -> bool:
    import numpy as np

    try:
        return bool(np.asarray(value).size == 0 or np.asarray(value, dtype=np.float64).ndim > 0)
    except (TypeError, ValueError, OverflowError):
        return False


def _hint(function: Callable[..., Any], parameter: inspect.Parameter, first: tuple[Any, ...] = ()) -> Any:
    """Return a parameter's annotation as a type; Any where it cannot be known without loading a library.

    The constructor of a dataclass names the types of inherited fields, which the module of their own class knows.
    """
    if parameter.annotation is parameter.empty:
        return Any
    holder = types.SimpleNamespace(__annotations__={"it": parameter.annotation})
    bases = type(first[0]).__mro__ if first else ()
    known = {name: found for base in reversed(bases) for name, found in vars(sys.modules[base.__module__]).items()}
    known |= getattr(function, "__globals__", {})
    loaded = {name: found for name, found in known.items() if not isinstance(found, Lazy)}
    try:
        return typing.get_type_hints(holder, globalns=loaded)["it"]
    except (NameError, TypeError, AttributeError):
        return Any


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of an annotated type, as far as a look at it tells."""
    value = plain(value)
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, part) for part in typing.get_args(hint))
    if origin is Literal:
        return any(type(value) is type(part) and value == part for part in typing.get_args(hint))
    return _is_a(value, hint if origin is None else origin) and _elements_fit(value, typing.get_args(hint))


def _is_a(value: Any, kind: Any) -> bool:
    if kind is None:
        return value is None
    if kind in _NUMBERS:
        return isinstance(value, _NUMBERS[kind]) and not isinstance(value, bool)
    if kind is Any or not isinstance(kind, type) or getattr(kind, "_is_protocol", False):  # a type variable, a shape
        return True
    return isinstance(value, kind)


def _elements_fit(value: Any, hints: tuple[Any, ...]) -> bool:
    """Whether the elements of a collection are of the one type that is annotated for all of them."""
    if not isinstance(value, Collection) or not (len(hints) == 1 or hints[1:] == (...,)):
        return True
    try:
        return all(_fits(part, hints[0]) for part in islice(value, _LOOKED_AT))
    except DiscreetError:  # a closed value: it has no elements to look at
        return True


_NUMBERS: dict[Any, Any] = {int: Integral, float: (Integral, float)}  # a fraction or decimal may be what went wrong
_PATH = "a path"
_WORDS: dict[Any, str] = {
    int: "an integer",
    float: "a number",
    bool: "True or False",
    str: "a text",
    bytes: "bytes",
    os.PathLike: _PATH,
    Path: _PATH,
    Callable: "a function",
    types.NoneType: "None",
}
