"""The boundaries: whatever is given, what comes out of a public function is a result or an error of this library.

An error that was raised on purpose passes, as does what the caller's own functions raise. Any other one is explained by
the arguments or by the system, and else is a fault of the program: docs/adr/0020-hostile-input.md.

Within it, what reads confidential data has a closer boundary (:func:`enclosed`, :func:`quietly`): whatever goes wrong
there is the table's fault, and is told as one error whose text is known beforehand.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
import re
import sys
import sysconfig
import traceback
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import fields
from fractions import Fraction
from itertools import chain, islice, repeat
from numbers import Integral
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from discreet._core import errors
from discreet._core.errors import DataError, DiscreetError, Fault, FileProblem, ParameterError, Refused, plain
from discreet._core.lazy import np, pl
from discreet._core.reading import MOST_DIGITS
from discreet._core.text import harmless, with_article

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

_F = TypeVar("_F", bound=Callable[..., Any])
_P = ParamSpec("_P")
_T = TypeVar("_T")

_MARK = "__discreet_total__"
_SOURCE = str(Path(__file__).parents[1]) + os.sep
_LIBRARIES = (_SOURCE, *[sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")])
_ELEMENTS = (list, tuple, set, frozenset)
_LOOKED_AT = 1000  # elements of an argument, to say what is wrong with it


def sealed(target: _T) -> _T:
    """Return a public function with the boundary around it, or a class with its methods within; else what it is."""
    # In a class and its bases it is around the constructor and the public methods.
    if inspect.isfunction(target):
        return total(target)
    for kind in target.__mro__ if inspect.isclass(target) else ():
        is_open = _is_ours(kind) and kind not in _CLASSES.get(kind.__name__, ())
        if not is_open or issubclass(kind, BaseException) or getattr(kind, "_is_protocol", False):
            continue
        _CLASSES[kind.__name__] = (*_CLASSES.get(kind.__name__, ()), kind)
        for name, member in list(vars(kind).items()):
            if name.startswith("_") and name not in ("__init__", "__new__"):
                continue
            if inspect.isfunction(member):
                setattr(kind, name, total(member))
            elif isinstance(member, (classmethod, staticmethod)):
                setattr(kind, name, type(member)(total(member.__func__)))
    return target


def _is_ours(kind: type[Any]) -> bool:
    return kind.__module__.startswith("discreet.")


def total(function: _F) -> _F:
    """Return the function with the boundary around it; its name, signature and documentation stay."""
    if hasattr(function, _MARK):
        return function

    @functools.wraps(function)
    def bounded(*args: Any, **kwargs: Any) -> Any:
        try:
            kinds = _plain_kinds(function)
            args = tuple(map(_plainly, args, chain(kinds.values(), repeat(()))))
            kwargs = {name: _plainly(value, kinds.get(name, ())) for name, value in kwargs.items()}
            return _sound(function(*args, **kwargs), function, args, kwargs)
        except BaseException as problem:
            try:
                error = _unquoted(problem, function, (*args, *kwargs.values()))
                if error is None and not _passes(problem):
                    error = explained(problem, function, args, kwargs)
            except Exception:  # noqa: BLE001  # an argument that cannot be looked at: what it raises may hold a value
                error = _fault(problem)
            if error is None:
                raise
            error.cost = getattr(problem, "cost", "")
        raise error  # outside of the handler, so that no chained traceback repeats a value

    setattr(bounded, _MARK, True)
    return cast("_F", bounded)


_PLAIN: dict[str, tuple[type, ...]] = {kind.__name__: (kind,) for kind in (int, Fraction, str, bool)}
_PLAIN |= {"float": (int, float), "FilePath": (str, os.PathLike), "None": (types.NoneType,)}


@functools.cache
def _plain_kinds(function: Callable[..., Any]) -> dict[str, tuple[type, ...]]:
    """Return the types of each parameter that takes plain values alone; none for any other."""
    kinds: dict[str, tuple[type, ...]] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        parts = [_PLAIN.get(part) for part in str(parameter.annotation).split(" | ")]
        kinds[name] = () if None in parts or parameter.kind > parameter.KEYWORD_ONLY else sum(cast(Any, parts), ())
    return kinds


def _plainly(value: Any, kinds: tuple[type, ...]) -> Any:
    """Return an argument as Python's own: a number of any library where a float is wanted, rounded down."""
    original, value = value, plain(value)
    if isinstance(original, np.generic) and isinstance(value, str) and not isinstance(original, str):
        return original  # a time that Python has not
    if float in kinds and not isinstance(value, (*kinds, bool)) and math.isfinite(errors.as_float(value)):
        return errors.real("", value, down=True)
    return value


def _sound(result: _T, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _T:
    """Return a result. Raises ParameterError where a constructor took an argument that would break what comes later."""
    if function.__name__ == "__init__":
        kinds = _plain_kinds(function)
        for name, value in (dict(zip(kinds, args, strict=False)) | kwargs).items():
            allowed = kinds.get(name, ())
            if allowed and (not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed)):
                form = _wanted(str(inspect.signature(function).parameters[name].annotation))
                raise ParameterError(f"{_called(function)}: {name} must be {form}, got {type(value).__name__}")
    return result


def _unquoted(problem: BaseException, function: Callable[..., Any], values: tuple[Any, ...]) -> DiscreetError | None:
    """Return another error where one of ours quotes an argument that is no plain value: a table given as a size."""
    if isinstance(problem, DiscreetError):
        for value in values:
            if _quotes(str(problem), value):
                kind = type(value).__name__
                return ParameterError(f"{_called(function)}: an argument is of type {kind}. Check the arguments")
    return None


def _quotes(message: str, value: Any) -> bool:
    """Whether a message holds a value as it prints. Tables print on several lines: others are not asked to print."""
    if value is None or isinstance(value, (str, bytes, os.PathLike, Integral, float, type)) or _is_ours(type(value)):
        return False
    if isinstance(value, (list, tuple, dict, set)) or (hasattr(value, "__array_interface__") and value.ndim):
        if len(value) > len(message):
            return False
    elif "\n" not in message and r"\u000a" not in message:
        return False
    try:
        return repr(value) in message or harmless(repr(value)) in message
    except Exception:  # noqa: BLE001  # then the message was not made of it either
        return False


def _passes(problem: BaseException) -> bool:
    """Whether an error was meant, or came out of a function that was passed in: code neither ours nor installed."""
    if not isinstance(problem, Exception):  # an interrupt passes; a panic of a library written in Rust does not
        return type(problem).__name__ != "PanicException"
    if isinstance(problem, Fault):  # of a call within this one: its cause may be an argument of this one
        return False
    if isinstance(problem, (DiscreetError, Warning, ImportError, StopIteration)):
        return True
    for frame, _ in list(traceback.walk_tb(problem.__traceback__))[1:]:
        file = frame.f_code.co_filename
        in_no_file = file[:1] == "<" and frame.f_globals.get("__name__") != "__main__"
        if not in_no_file and not file.endswith(".pyx") and not file.startswith(_LIBRARIES):
            return True
    return False


def explained(
    problem: BaseException, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> DiscreetError:
    """Return the error of this library that stands for another one that a call raised, without its text."""
    if (blamed := _wrong_argument(function, args, kwargs)) is not None:
        return ParameterError(f"{_called(function)}: {blamed}")
    if isinstance(problem, Fault):  # of a call within this one
        return problem
    if isinstance(problem, MemoryError):
        return Refused("there is not enough memory for this. Ask for less")
    if isinstance(problem, OSError) and problem.errno is not None:
        file = problem.filename if isinstance(problem.filename, str) else "a file"
        return FileProblem(file, os.strerror(problem.errno).lower(), "check the path, its permissions and the space")
    return _fault(problem)


def _called(function: Callable[..., Any]) -> str:
    return function.__qualname__.removesuffix(".__init__").removesuffix(".__new__")


def _fault(problem: BaseException) -> Fault:
    """Return the fault of an error, with the innermost line of this library that it passed."""
    lines = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(problem.__traceback__)]
    ours = [f"{Path(file).name}:{line}" for file, line in lines if file.startswith(_SOURCE) and file != __file__]
    return Fault(type(problem).__name__, ours[-1] if ours else "an unknown line")


# -- where confidential data are read -------------------------------------------------------------------------------


# Why an engine fails, what to do, and the classes of errors that tell it: no text of an error is looked at.
_CAUSES = (
    ("a file of it is gone", "put it back, and open the table anew", "FileNotFoundError FileNotFoundException"),
    ("a file of it cannot be read or written", "check that it is there, and the space on the disk", "IOException"),
    ("there is not enough memory", "give the engine more", "OutOfMemoryException OutOfMemoryError"),
    ("its role may not read it", "let the role read it", "InsufficientPrivilege"),
    ("there is no such table", "check its name", "UndefinedTable"),
    ("the session has ended", "start one, and open the table anew", "PySparkRuntimeError Py4JNetworkError"),
    ("the connection failed or was closed", "", "ConnectionException ConnectionError OperationalError InterfaceError"),
)

_UNREADABLE = None, "could not be read", "check that the type of each column is the declared one"


def quietly(action: Callable[[], _T], otherwise: DiscreetError) -> _T:
    """Run ``action``; where it fails, raise ``otherwise`` with no trace of the first error, which may hold values."""
    try:
        return action()
    except BaseException as problem:  # whatever a dataframe library raises (a Rust panic too) may quote the data
        if isinstance(problem, (DiscreetError, MemoryError, KeyboardInterrupt, SystemExit)):
            raise
        cause, remedy = _cause_of(problem)
    otherwise = copy(otherwise)  # which others raise for another cause
    if cause:
        otherwise.problem, otherwise.remedy = f"{otherwise.problem} ({cause})", remedy or otherwise.remedy
    raise otherwise


def _cause_of(problem: BaseException) -> tuple[str, str]:
    """Return why an engine failed, and what to do, each empty where it is not known."""
    if isinstance(problem, OSError) and problem.errno is not None:
        return os.strerror(problem.errno).lower(), ""
    names, java = [kind.__name__ for kind in type(problem).__mro__], getattr(problem, "java_exception", None)
    with suppress(Exception):
        while java is not None:
            names, java = [*names, java.getClass().getSimpleName()], java.getCause()
    causes = ((cause, remedy) for name in names for cause, remedy, kinds in _CAUSES if name in kinds.split())
    return next(causes, ("", ""))


def enclosed(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Make a function that reads confidential data raise errors of this library alone."""
    # Whatever else is raised in it, a Rust panic included, becomes a DataError that keeps no trace of the first error:
    # its text could quote a value.

    @functools.wraps(function)
    def inside(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        return quietly(functools.partial(function, *args, **kwargs), DataError(*_UNREADABLE))

    return inside


def quiet_parts(reader: Callable[[], Iterator[_T]], otherwise: DiscreetError | None = None) -> Iterator[_T]:
    """Iterate over what ``reader`` returns, each step as :func:`quietly` does; by default as in :func:`enclosed`."""
    otherwise = otherwise or DataError(*_UNREADABLE)
    parts = quietly(reader, otherwise)
    while (part := quietly(functools.partial(next, parts, None), otherwise)) is not None:
        yield part


def _note_fork() -> None:
    """Refuse Polars in a forked process whose parent had its threads, as far as the system tells their names."""
    threads = [file.read_text() for file in Path(f"/proc/{os.getppid()}/task").glob("*/comm")]
    if "polars" in sys.modules and (not threads or "polars-0\n" in threads):
        vars(pl).clear()
        vars(pl).update(_module="polars", problem=Refused)


os.register_at_fork(after_in_child=_note_fork)


def worker_pool(count: int) -> ProcessPoolExecutor:
    """Return a pool of fresh processes that end with this one, however it ends."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    return ProcessPoolExecutor(count, get_context("spawn"), _watch_driver)


def _watch_driver() -> None:
    """See to it that this process does not outlive its driver: one that is killed tells its workers nothing."""
    from multiprocessing import parent_process

    driver: Any = parent_process()
    Thread(target=lambda: (driver.join(), os._exit(1)), daemon=True).start()


# -- which argument is to blame ---------------------------------------------------------------------------------------

_PATH: tuple[str, Any] = "a path", (str, os.PathLike)
_LISTS = {"Sequence": Sequence, "Collection": Collection, "Iterable": Iterable, "list": list, "tuple": tuple}


@functools.cache
def _kinds() -> dict[str, tuple[str, Any]]:
    """Return the names in annotations of public functions, in words and as types; besides, there are public classes."""
    return {
        "None": ("None", types.NoneType),
        "bool": ("True or False", bool),
        "int": ("an integer", Integral),
        "float": ("a number", (Integral, float)),
        "str": ("a text", str),
        "Callable": ("a function", Callable),
        "Mapping": ("a mapping", Mapping),
        "Generator": ("a Generator of NumPy", np.random.Generator),
        "ArrayLike": ("an array of numbers", object),
        **dict.fromkeys(("PathLike", "Path", "Path_", "FilePath"), _PATH),
        **dict.fromkeys(("NDArray", "Floats", "Integers", "Booleans"), ("an array", np.ndarray)),
        **{name: (with_article(name.lower()), kind) for name, kind in _LISTS.items()},
    }


_CLASSES: dict[str, tuple[type[Any], ...]] = {}  # those with a boundary around them, by name


def _wrong_argument(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """Return what is wrong with the arguments, by the function's signature alone; None where nothing is."""
    signature = inspect.signature(function)
    try:
        arguments = signature.bind(*args, **kwargs).arguments
    except TypeError as problem:
        names = [p.name for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY]
        too_many = names and str(problem).startswith("too many positional")
        return f"give its arguments by name: {', '.join(names)}" if too_many else str(problem)
    for name, argument in arguments.items():
        parameter = signature.parameters[name]
        values = [(name, argument)]
        if parameter.kind is parameter.VAR_POSITIONAL:
            values = [(name, value) for value in argument]
        elif parameter.kind is parameter.VAR_KEYWORD:
            values = list(argument.items())
        annotation = "Any" if parameter.annotation is parameter.empty else str(parameter.annotation)
        for key, value in values:
            if (odd := _oddity(value)) is not None:
                return f"{key} {odd}"
            kind: Any = type(value)
            if not _fits(value, annotation):
                return f"{key} must be {_wanted(annotation)}, got {_type_text(value)}"
            # Of a value of the library, such as an output or a watch, also what it was made of.
            facts = getattr(kind, "__dataclass_params__", None)
            if facts is not None and facts.init and _is_ours(kind) and name != "self":
                parts = {field.name: getattr(value, field.name) for field in fields(kind) if field.init}
                if (blamed := _wrong_argument(kind.__init__, (value,), parts)) is not None:
                    return blamed
    return None


def _alternatives(annotation: str) -> list[tuple[str, str]]:
    """Return the names between the bars of an annotation, each with the annotation of its elements, if it has one."""
    kinds = []
    for part in re.split(r" \| (?![^\[]*\])", annotation):
        name, _, inside = part.partition("[")
        name, element = name.rpartition(".")[2], inside.removesuffix("]").removesuffix(", ...")
        kinds.append((name, element if name in _LISTS and "," not in element and element != "Any" else ""))
    return kinds


def _fits(value: Any, annotation: str) -> bool:
    """Whether a value is of one of the kinds of an annotation, as far as a look at it tells; of an unknown one, yes."""
    no_list, value = isinstance(value, (bytes, np.generic)) and not isinstance(value, str), plain(value)
    for name, element in _alternatives(annotation):
        kind = _kinds().get(name, ("", _CLASSES.get(name, object)))[1]
        no_number = isinstance(value, bool) and name in ("int", "float")
        if not isinstance(value, kind) or no_number or (no_list and name in _LISTS):
            continue
        parts: Iterable[Any] = ()
        if element and isinstance(value, Collection) and not _is_ours(type(value)):  # a closed value has no elements
            parts = islice(value, _LOOKED_AT)
        if all(_fits(part, element) for part in parts) and (name != "ArrayLike" or _is_numeric(value)):
            return True
    return False


def _is_numeric(value: Any) -> bool:
    try:
        return bool(np.asarray(value).size == 0 or np.asarray(value, dtype=np.float64).ndim > 0)
    except (TypeError, ValueError, OverflowError):
        return False


def _wanted(annotation: str) -> str:
    """Say in words what an annotation names."""
    words = []
    for name, element in _alternatives(annotation):
        word = _kinds().get(name, (with_article(name), object))[0]
        if element:
            word += f", each element {_wanted(element)}"
        words.append(word)
    if _PATH[0] in words:  # which a text is
        words = [word for word in words if word != _kinds()["str"][0]]
    return " or ".join(dict.fromkeys(words))


def _type_text(value: Any) -> str:
    """Name the type of a value, and those of the elements of a list or set."""
    if isinstance(value, _ELEMENTS) and value:
        parts = {type(part).__name__ for part in islice(value, _LOOKED_AT)}
        return f"{type(value).__name__} of {', '.join(sorted(parts))}"
    return type(value).__name__


def _oddity(value: Any, depth: int = 0) -> str | None:
    """Return what no argument may be, whatever its type: a number or text that no program can hold as it is."""
    if depth > 100:
        return "is nested too deeply"
    if isinstance(value, int) and abs(value) >= 10**MOST_DIGITS:
        return f"holds a number of more than {MOST_DIGITS} digits"
    if isinstance(value, (str, os.PathLike)) and re.search("[\0\ud800-\udfff]", str(os.fspath(value))):
        return "holds a text with a NUL character or half of a Unicode pair"
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    if isinstance(value, _ELEMENTS):
        return next((problem for part in value if (problem := _oddity(part, depth + 1)) is not None), None)
    return None
