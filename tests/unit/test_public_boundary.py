"""The boundary of the public functions: errors of this library only, without values, and bugs called bugs."""

from __future__ import annotations  # as the library has them: its functions are told apart by these texts

import importlib
import inspect
import json
import pickle
import re
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import discreet
from discreet import Output, Watch, release
from discreet._core.boundary import sealed, total
from discreet.domain import Boolean, Category, Domain, Integer, Numeric
from discreet.errors import DataError, DiscreetError, Fault, FileProblem, ParameterError, Refused
from discreet.inference import posterior
from discreet.mechanisms import SmoothedHistogram
from discreet.privacy import Budget
from discreet.releases import Certificate, verify

SECRET = "canaryQ7Z"
DOMAIN, FRAME = Domain(columns={"a": Boolean()}), pl.DataFrame({"a": [True, False] * 500})
SEALED = ("app", "audit", "confidential", "domain", "evolution", "inference", "ledger", "mechanisms", "planner",
          "privacy", "pseudo_posterior", "releases", "report", "utility",
          "papers.bnp24", "papers.pe25", "papers.py26", "papers.roo25")  # fmt: skip


def failing(problem: BaseException) -> Any:
    @total
    def function(count: int, names: Sequence[str] = (), path: str | None = None, **more: float) -> None:
        raise problem

    # Code of a test counts as the caller's; this one stands for the library's own.
    code = function.__wrapped__.__code__.replace(co_filename=inspect.getfile(discreet))  # type: ignore[attr-defined]
    function.__wrapped__.__code__ = code  # type: ignore[attr-defined]
    return function


def told(function: Any, *args: Any, **kwargs: Any) -> DiscreetError:
    with pytest.raises(DiscreetError) as found:
        function(*args, **kwargs)
    error: DiscreetError = found.value
    assert error.__context__ is None
    assert error.__cause__ is None
    assert SECRET not in "".join(traceback.format_exception(error))
    return error


class PanicException(BaseException):
    """Named as the panics of libraries written in Rust are."""


class _Unreadable(Sequence[str]):
    """A column of an engine that is down: its error quotes what it met."""

    def __len__(self) -> int:
        raise ValueError(SECRET)

    def __getitem__(self, place: Any) -> Any:
        raise ValueError(SECRET)


@pytest.mark.parametrize("problem", [ValueError(SECRET), DataError("x", SECRET, SECRET)])
def test_an_argument_that_cannot_be_looked_at_is_not_quoted(problem: Exception) -> None:
    names = _Unreadable()
    if isinstance(problem, DataError):
        with pytest.raises(DataError):  # raised on purpose, and made of no argument: it passes
            failing(problem)(1, names)
    else:
        assert isinstance(told(failing(problem), 1, names), Fault)


@pytest.mark.parametrize("kind", [ValueError, TypeError, KeyError, ZeroDivisionError, RecursionError, PanicException])
def test_what_was_not_foreseen_is_a_fault_and_quotes_nothing(kind: type[BaseException]) -> None:
    error = told(failing(kind(SECRET)), 3)
    assert isinstance(error, Fault)
    assert error.exit_status == 4
    assert kind.__name__ in str(error)
    assert "__init__.py:" in error.where


@pytest.mark.parametrize(
    ("args", "kwargs", "blamed"),
    [
        (("3",), {}, "count must be an integer, got str"),
        ((True,), {}, "count must be an integer, got bool"),
        ((), {}, "missing a required argument: 'count'"),
        ((3,), {"names": 4}, "names must be a sequence, each element a text, got int"),
        ((3,), {"names": [1]}, "names must be a sequence, each element a text, got list of int"),
        ((3,), {"strength": "much"}, "strength must be a number, got str"),
        ((10**400,), {}, "count holds a number of more than 40 digits"),
        ((3,), {"path": "a\0b"}, "path holds a text with a NUL character"),
    ],
)
def test_arguments_are_blamed_where_they_are_to_blame(args: Any, kwargs: Any, blamed: str) -> None:
    error = told(failing(TypeError(SECRET)), *args, **kwargs)
    assert isinstance(error, ParameterError)
    assert blamed in str(error)


def test_the_system_is_blamed_where_it_refused(tmp_path: Path) -> None:
    assert isinstance(told(failing(MemoryError()), 3), Refused)
    error = told(failing(PermissionError(13, "no", str(tmp_path))), 3)
    assert isinstance(error, FileProblem)
    assert str(tmp_path) in str(error)


@pytest.mark.parametrize("problem", [DataError(None, "is", "so"), KeyboardInterrupt(), UserWarning("so")])
def test_what_was_meant_passes(problem: BaseException) -> None:
    with pytest.raises(type(problem)) as found:
        failing(problem)(3)
    assert found.value is problem


@pytest.mark.parametrize(
    ("options", "blamed"),
    [
        ({"out": b"x.csv"}, "path must be a path or None, got bytes"),
        ({"out": lambda: Output("x.csv", certificate=3)}, "certificate must be a path or None, got int"),
        ({"out": lambda: Output(checkpoint=3)}, "path must be a path, got int"),
        ({"watch": 3}, "watch must be a Watch, got 3"),
        ({"accept": 3}, "accept must be a collection, each element a text, got int"),
    ],
)
def test_what_to_pass_instead_is_said(options: dict[str, Any], blamed: str) -> None:
    with pytest.raises(ParameterError, match=blamed):
        given = {name: value() if callable(value) else value for name, value in options.items()}
        discreet.release(FRAME, DOMAIN, **{"budget": Budget(epsilon=1, delta=1e-6), "size": 5, **given})


def test_errors_of_the_callers_own_functions_pass() -> None:
    """A callback's error is the caller's business: it comes back as it was raised."""

    def stop(_done: int) -> None:
        raise ZeroDivisionError("mine")

    asked = {"size": 10, "mechanism": "perturbed-histogram", "watch": Watch(progress=stop)}
    with pytest.raises(ZeroDivisionError, match="mine"):
        discreet.release(FRAME, DOMAIN, Budget(epsilon=1.0), **asked)


REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
NAMED = [re.findall(r"autoclass:: (\S+)", page.read_text()) for page in REFERENCE.glob("*.md")]
RETURNED = sorted({name for names in NAMED for name in names})
"""Classes beside the public names: what is returned is in the reference, as tests/meta/test_surface.py checks."""


def require_sealed(name: str, found: Any) -> None:
    if inspect.isfunction(found):
        assert hasattr(found, "__discreet_total__"), name
    if (
        inspect.isclass(found)
        and found.__module__.startswith("discreet.")
        and not issubclass(found, BaseException)
        and not getattr(found, "_is_protocol", False)
    ):
        for key, member in vars(found).items():
            if inspect.isfunction(member) and (key == "__init__" or not key.startswith("_")):
                assert hasattr(member, "__discreet_total__"), f"{name}.{key}"


def test_every_public_function_and_method_is_sealed_and_what_they_return() -> None:
    for package in SEALED:
        module = importlib.import_module(f"discreet.{package}")
        for name in module.__all__:
            require_sealed(name, getattr(module, name))
    for name in RETURNED:
        home, _, kind = name.rpartition(".")
        if "testing" not in home:
            require_sealed(name, getattr(importlib.import_module(home), kind))


def test_every_public_package_is_sealed() -> None:
    """Only the tools for tests are left out: their assertions are meant to be seen."""
    source = Path(inspect.getfile(discreet)).parent
    packages = {path.parent.name for path in source.glob("[a-z]*/__init__.py")} - {"cli", "testing", "papers"}
    papers = {f"papers.{name}" for name in importlib.import_module("discreet.papers").__all__}
    assert packages | papers == set(SEALED)
    assert all(hasattr(getattr(discreet, name), "__discreet_total__") for name in ("plan", "read", "release", "verify"))


def test_names_signatures_and_pickles_stay() -> None:
    assert release.__name__ == "release"
    assert list(inspect.signature(Category).parameters) == [
        "nulls", "base", "null_values", "strip", "categories", "ordered", "dtype", "out_of_bounds",
    ]  # fmt: skip
    for thing in (discreet.plan, discreet.release, posterior, Integer(lower=0, upper=3)):
        assert pickle.loads(pickle.dumps(thing)) == thing
    assert sealed(release) is release  # once is enough


def test_constructors_say_how_they_are_called() -> None:
    assert "give its arguments by name" in str(told(lambda: Category(["f", "m"])))  # type: ignore[misc, call-arg]
    assert "lower, upper" in str(told(lambda: Integer(0, 9)))  # type: ignore[misc, call-arg]
    assert "more than 40 digits" in str(told(lambda: Numeric(lower=10**5000, upper=1)))


def test_verify_takes_a_path_and_says_what_is_wrong_with_another_thing(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="no such file"):
        verify(str(tmp_path / "x.certificate.json"))
    with pytest.raises(ParameterError, match="certificate must be"):
        verify(3)  # type: ignore[arg-type]


def test_a_certificate_without_its_fields_is_refused_by_the_first_of_them(tmp_path: Path) -> None:
    document = {"discreet_certificate": 1}
    (tmp_path / "c.json").write_text(json.dumps(document))
    for read in (lambda: Certificate.from_dict(document), lambda: Certificate.read(tmp_path / "c.json")):
        assert "library is missing" in str(told(read))


@pytest.mark.parametrize("given", [pl.DataFrame({"a": [SECRET]}), pl.Series([SECRET]), [SECRET]])
def test_a_table_in_the_wrong_place_is_not_quoted(given: Any) -> None:
    """Messages say what they were given instead of a number; of a table they would say its rows."""
    from discreet.mechanisms import DirichletMultinomial, PerturbedHistogram

    for call in (
        lambda: DirichletMultinomial(domain=DOMAIN, records=given, size=3, prior=1.0),
        lambda: DirichletMultinomial(domain=DOMAIN, records=3, size=3, prior=given),
        lambda: PerturbedHistogram(domain=DOMAIN, records=3, scale=given),
        lambda: Integer(lower=given, upper=3),
        lambda: Category(categories=["a"], nulls=given),
        lambda: Budget(epsilon=given, delta=0.0),
        lambda: discreet.release(FRAME, DOMAIN, Budget(epsilon=1.0), size=given),
    ):
        assert not isinstance(told(call), Fault)


def test_a_bug_while_confidential_values_are_open_is_called_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking for the argument to blame leaves closed values closed."""
    from discreet.confidential import confidential
    from discreet.mechanisms import PerturbedHistogram
    from discreet.releases import publication

    domain = Domain(columns={"a": Integer(lower=0, upper=3)})
    closed = confidential(pl.DataFrame({"a": [0, 1, 2, 3] * 50}), domain)
    mechanism = PerturbedHistogram(domain=domain, records=200, scale=2.0)
    monkeypatch.setattr(publication, "require_kind", [SECRET].pop)  # a bug of the package's own: called with too much
    with pytest.raises(Fault) as found:
        release(closed, mechanism=mechanism, size=5)
    assert found.value.exit_status == 4
    assert SECRET not in str(found.value)
    with pytest.raises(ParameterError, match="progress must be a function or None, got int"):
        release(closed, mechanism=mechanism, size=5, watch=Watch(progress=3))  # type: ignore[arg-type]


def test_a_table_given_as_a_path_is_not_printed() -> None:
    frame = pl.DataFrame({"a": [SECRET], "n": [31_337]})
    for call in (Domain.read, Certificate.read, lambda x: FileProblem(x, "is none", "give one")):
        with pytest.raises(DiscreetError) as found:
            raise call(frame)
        shown = "".join(traceback.format_exception(found.value))
        assert "DataFrame" in shown
        assert SECRET not in shown
        assert "31337" not in shown


def test_inherited_fields_are_checked_by_their_types() -> None:
    """The constructor of a subclass knows them by name alone."""
    assert type(told(SmoothedHistogram, domain=5, size=3, mixing=0.5)) is ParameterError
    assert type(told(SmoothedHistogram.calibrated, Budget(epsilon=1.0), domain="x", n=10, size=3)) is ParameterError
