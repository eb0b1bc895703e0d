"""What is public: few names, one home each, all of them in the reference."""

import importlib
import inspect
import re
import typing
from pathlib import Path
from typing import Any

import pytest

import discreet.papers

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "discreet"
REFERENCE = ROOT / "docs" / "reference"

MOST = 165  # ADR 34
UNSEALED = {"discreet.cli", "discreet.errors", "discreet.papers", "discreet.testing"}
MAIN = {"Budget", "Ledger", "Unit", "plan", "verify"}  # the only names with two homes: the package's, and the top level
NAMESPACES = sorted(
    f"discreet.{path.stem if path.suffix else path.name}"
    for path in SOURCE.iterdir()
    if not path.name.startswith("_") and (path.suffix == ".py" or (path / "__init__.py").exists())
    if path.stem != "wording"  # its sentences are for people, and no program has to import them
)
CLASSES_OF_MECHANISMS = "discreet.mechanisms"  # return plain values and named tuples, described at the base class


def exported(namespace: str) -> list[str]:
    found: list[str] = importlib.import_module(namespace).__all__
    return found


def page(namespace: str) -> str:
    """Return the page of the reference that shows a namespace."""
    for path in REFERENCE.glob("*.md"):
        text = path.read_text(encoding="utf-8")
        if re.search(rf"automodule:: {re.escape(namespace)}\n", text):
            return text
    pytest.fail(f"no page of the reference shows {namespace}")


def test_the_namespaces_are_found() -> None:
    assert {"discreet.privacy", "discreet.errors", "discreet.papers"} <= set(NAMESPACES)


def test_there_are_few_public_names() -> None:
    """A paper counts as one name of ``discreet.papers``; what its module holds is the paper's."""
    held = {namespace: len(exported(namespace)) for namespace in ("discreet", *NAMESPACES)}
    remedy = "Leave what is found by its name, such as a type of columns or a mechanism, out of __all__"
    assert sum(held.values()) <= MOST, f"{sum(held.values())} public names, and at most {MOST}. {remedy}. {held}"


@pytest.mark.parametrize("namespace", ["discreet", *NAMESPACES])
def test_every_public_name_exists_once(namespace: str) -> None:
    module, names = importlib.import_module(namespace), exported(namespace)
    assert len(set(names)) == len(names)
    assert all(hasattr(module, name) for name in names)
    others = {name for other in NAMESPACES if other != namespace for name in exported(other)}
    assert set(names) & others == (MAIN if namespace == "discreet" else set())


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_the_reference_shows_every_public_name(namespace: str) -> None:
    """Autodoc shows what ``__all__`` names, with a docstring: without one it shows nothing."""
    if namespace == "discreet.cli":
        assert "The command" in (REFERENCE / "discreet.md").read_text(encoding="utf-8")
        return
    for shown in (
        [f"{namespace}.{paper}" for paper in discreet.papers.__all__] if namespace == "discreet.papers" else [namespace]
    ):
        text, module = page(shown), importlib.import_module(shown)
        assert re.search(rf"automodule:: {re.escape(shown)}\n   :members:\n", text)
        for name in module.__all__:
            member = getattr(module, name)
            callable_ = inspect.isclass(member) or inspect.isfunction(member)
            assert not callable_ or (inspect.getdoc(member) or "").strip(), f"{shown}.{name} has no docstring"
            imported = callable_ and member.__module__ != shown
            assert not imported or re.search(
                rf"automodule:: {re.escape(shown)}\n(?:   :.*\n)*   :imported-members:", text
            )


def test_the_reference_says_where_the_top_level_is() -> None:
    text = (REFERENCE / "discreet.md").read_text(encoding="utf-8")
    for name in set(discreet.__all__) - {"__version__"}:
        assert f"`{name}`" in text or f"discreet._release.{name}" in text, name


def returned(kind: Any) -> typing.Iterator[type[Any]]:
    """Return the classes of this library that a function, or a method of a class, is annotated to return."""
    members = [member for name, member in inspect.getmembers(kind) if not name.startswith("_")]
    for member in members if inspect.isclass(kind) else [kind]:
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if not inspect.isfunction(inspect.unwrap(function)):
            continue
        try:
            hint = typing.get_type_hints(inspect.unwrap(function)).get("return")
        except NameError:  # of a library that is imported for types alone
            continue
        todo = [hint]
        while todo:
            hint = todo.pop()
            todo += typing.get_args(hint)
            if inspect.isclass(hint) and hint.__module__.startswith("discreet."):
                yield hint


@pytest.mark.parametrize(
    "namespace", sorted(set(NAMESPACES) - {CLASSES_OF_MECHANISMS, "discreet.cli", "discreet.papers"})
)
def test_what_is_returned_is_in_the_reference(namespace: str) -> None:
    module = importlib.import_module(namespace)
    members = [getattr(importlib.import_module(other), name) for other in NAMESPACES for name in exported(other)]
    public = {member for member in members if inspect.isclass(member)}
    pages = "\n".join(path.read_text(encoding="utf-8") for path in REFERENCE.glob("*.md"))
    for name in module.__all__:
        for kind in returned(getattr(module, name)):
            assert kind in public or f"autoclass:: {kind.__module__}.{kind.__qualname__}\n" in pages, (name, kind)


@pytest.mark.parametrize("namespace", sorted(set(NAMESPACES) - UNSEALED))
def test_what_is_sealed_beside_the_public_names_is_in_the_reference(namespace: str) -> None:
    names = [*exported("discreet"), *exported(namespace)]
    for path in (SOURCE / namespace.removeprefix("discreet.")).rglob("*.py"):
        module = ".".join(("discreet", *path.relative_to(SOURCE).with_suffix("").parts))
        for name in re.findall(r"^@sealed\n(?:@.*\n)*class (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            assert name in names or f"autoclass:: {module}.{name}\n" in page(namespace), (
                f"{name} is sealed. Show it on the page of the reference, or leave @sealed out"
            )


def test_files_of_one_subject_have_a_folder() -> None:
    """No more than three files of a folder share the first word of their names."""
    for folder in {path.parent for path in SOURCE.rglob("*.py")}:
        words = [path.stem.strip("_").partition("_")[0] for path in folder.glob("*.py")]
        assert all(words.count(word) <= 3 for word in words if word), folder
