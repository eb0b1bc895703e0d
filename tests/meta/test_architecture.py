"""What the architecture promises: a light import, mechanisms apart, theorems that exist, names that are documented."""

import ast
import importlib
import re
import subprocess
import sys
from abc import ABC
from collections.abc import Iterator
from pathlib import Path

import pytest

import discreet
from discreet.mechanisms import MODELS, REGISTRY, Mechanism, certified_type

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "discreet"


LOADED = """
import sys, discreet, discreet.domain, discreet.mechanisms
print(*sys.modules)
from discreet.cli.entry import run
for arguments in sys.argv[1:]:
    assert run(arguments.split()) == 0
    assert not {"polars", "pandas", "pyarrow"} & set(sys.modules), arguments
"""


def test_import_loads_nothing_heavy_and_privacy_and_plan_no_dataframe_library(tmp_path: Path) -> None:
    domain = tmp_path / "d.toml"
    domain.write_text('[columns.age]\ntype = "integer"\nlower = 0\nupper = 99\n')
    asked = "privacy smoothed-histogram --records 100 --size 10 --param mixing=0.5 --param cells=5 --epsilon 1"
    called = [sys.executable, "-c", LOADED, asked, f"plan --domain {domain} --records 1000 --epsilon 1"]
    loaded = subprocess.run(called, capture_output=True, text=True, check=True).stdout.partition("\n")[0].split()
    heavy = {"polars", "pandas", "pyarrow", "narwhals", "scipy", "opendp", "dp_accounting", "randomgen", "matplotlib"}
    assert "discreet.mechanisms" in loaded
    assert not heavy & {name.partition(".")[0] for name in loaded}


def test_every_hoisted_name_exists() -> None:
    assert sorted(discreet.__all__) == discreet.__all__
    for name in discreet.__all__:
        assert getattr(discreet, name) is not None
    with pytest.raises(AttributeError):
        _ = discreet.no_such_name  # type: ignore[attr-defined]


def test_generators_are_made_in_one_file() -> None:
    makers = r"\.(default_rng|Generator|PCG64|SFC64|Philox|ChaCha|SeedSequence|RandomState)\("
    assert {path.name for path in SOURCE.rglob("*.py") if re.search(makers, path.read_text("utf-8"))} == {"random.py"}


# What changes a folder, and what turns tables and figures into bytes. The latter write into files that were opened for
# them; only the writer opens files.
CHANGES = {"write_text", "write_bytes", "touch", "unlink", "mkdir", "rmdir", "symlink_to", "hardlink_to", "rmtree",
           "makedirs", "remove", "removedirs", "chmod", "fchmod", "truncate", "mkstemp", "mkdtemp",
           "NamedTemporaryFile", "TemporaryFile", "TemporaryDirectory", "copyfile", "copytree", "tofile", "savetxt",
           "memmap", "to_csv", "to_parquet", "dump", "write_json", "write_ndjson", "write_ipc", "sink_csv"}  # fmt: skip
OF_OS = {"open", "replace", "rename", "renames", "link", "symlink", "mkfifo", "write"}
INTO_OPEN_FILES = {
    ("_core/page/__init__.py", "savefig"),
    ("_core/formats.py", "sink_parquet"),
    ("_core/formats.py", "write_csv"),
    ("releases/verification.py", "write_csv"),  # into a text, for its hash
    ("report/demonstration.py", "write_parquet"),
    ("app/jobs.py", "unlink"),  # a page that was read, in that folder
    ("app/server.py", "TemporaryDirectory"),  # of pages that are shown, and gone when it ends
    ("audit/release.py", "write_csv"),
    ("audit/release.py", "write_parquet"),
}
SERIALISERS = {"savefig", "save", "savez", "savez_compressed", "sink_parquet", "write_csv", "write_parquet"}
MAY_WRITE = re.compile(rf"\b(?:{'|'.join(CHANGES | SERIALISERS | OF_OS)})\b")


def writes(tree: ast.AST) -> set[str]:
    """Return the calls that write files."""
    found = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        of_os = isinstance(owner, ast.Name) and owner.id in {"os", "shutil"}
        if name == "open":
            place = 0 if owner is not None else 1  # of a path, or the function
            given = [*node.args[place:][:1], *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
            modes = [a.value for a in given if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            if of_os or any(set(mode) & set("wax+") for mode in modes):
                found.add(name)
        elif name in CHANGES | SERIALISERS or (of_os and name in OF_OS):
            found.add(name)
    return found


def test_files_are_written_in_one_place() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path == SOURCE / "_core" / "files.py" or not MAY_WRITE.search(text):
            continue
        found = {(path.relative_to(SOURCE).as_posix(), name) for name in writes(ast.parse(text))}
        assert found <= INTO_OPEN_FILES, path


@pytest.mark.parametrize(
    "planted",
    ["open('x', 'w')", "open('x', mode='ab')", "p.open('r+b')", "p.write_text('x')", "os.replace(a, b)", "p.unlink()",
     "f.savefig('x')", "frame.write_csv('x')", "os.open('x', 1)", "json.dump(x, f)"],
)  # fmt: skip
def test_a_write_is_recognised(planted: str) -> None:
    assert writes(ast.parse(planted))
    assert MAY_WRITE.search(planted)
    assert not writes(ast.parse("open('x', 'rb'); p.open(); text.replace('a', 'b'); s.rename(x); p.open('r')"))


def test_arrays_are_named_in_one_place() -> None:
    alias = re.compile(r"^[A-Z]\w* = npt\.NDArray\[np\.(?:float64|int64|intp|bool_)\]$", re.MULTILINE)
    found = {path for path in SOURCE.rglob("*.py") if alias.search(path.read_text(encoding="utf-8"))}
    assert found == {SOURCE / "_core" / "numeric.py"}


def _theory_index() -> str:
    """Return the table of theorems, the first table of the theory page."""
    return (ROOT / "docs" / "theory" / "index.md").read_text(encoding="utf-8").split("In brief:")[0]


def test_every_theorem_cited_has_its_proof() -> None:
    pages = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "docs" / "theory").glob("*.md"))
    cited = set()
    for path in SOURCE.rglob("*.py"):
        cited |= set(re.findall(r"\bT[1-9]\d?\b", path.read_text(encoding="utf-8")))
    assert cited == set(re.findall(r"(?:Theorem|Caveat) (T[1-9]\d?)\b", pages))
    assert {"T1", "T2", "T3", "T4", "T5", "T6"} <= cited
    # Numbers are never reused: every one up to the last is in the table of the theory page, the retired marked so.
    listed = dict(re.findall(r"^\| (T[1-9]\d?) \| ([^|]*) \|[^|]*\|[^|]*\|$", _theory_index(), re.MULTILINE))
    retired = {number for number, about in listed.items() if about == "*not used*"}
    assert retired == {"T17"}
    assert set(listed) == cited | retired
    assert set(listed) == {f"T{number}" for number in range(1, len(listed) + 1)}
    for number, page in re.findall(r"\((T[1-9]\d?)\]\((\S+?)\.md#", pages):
        assert (ROOT / "docs" / "theory" / f"{page}.md").exists(), number
    assert pages.count("Proof") >= len(cited) - 1


@pytest.mark.parametrize("name", sorted(set(REGISTRY) - {"dirichlet-process"}))
def test_one_mechanism_one_file_one_page_one_name(name: str) -> None:
    assert (SOURCE / "mechanisms" / f"{name.replace('-', '_')}.py").exists()
    assert (ROOT / "docs" / "theory" / f"{name}.md").exists()
    assert REGISTRY[name].name == name


MECHANISMS = SOURCE / "mechanisms"
FILES = sorted(path for path in MECHANISMS.rglob("*.py") if path != MECHANISMS / "__init__.py")
SHARED = {path.stem for path in FILES} - {kind.__module__.rpartition(".")[2] for kind in REGISTRY.values()}


def from_the_folder(text: str) -> set[str]:
    """What a module of the folder imports from the folder: modules, and names of its ``__init__``."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            full = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = {0: "", 1: "discreet.mechanisms.", 2: "discreet."}[node.level] + (node.module or "")
            full = [f"{base.rstrip('.')}.{alias.name}" for alias in node.names]
        else:
            continue
        parts = [name.split(".") for name in full]
        found |= {name[2] for name in parts if name[:2] == ["discreet", "mechanisms"] and len(name) > 2}
        found |= {"__init__" for name in parts if name == ["discreet", "mechanisms"]}
    return found


def test_mechanisms_do_not_import_one_another() -> None:
    """Nor does what they share, so that no chain of imports leads from one to another."""
    for path in FILES:
        assert from_the_folder(path.read_text(encoding="utf-8")) <= SHARED, path


def named(text: str) -> set[str]:
    """Return the mechanisms that a module names in its code, by class or by registry name; not in its documentation."""
    classes = {kind.__name__ for kind in REGISTRY.values()}
    if not any(name in text for name in (*classes, *REGISTRY)):
        return set()
    tree = ast.parse(text)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute, ast.alias)):
            name = getattr(node, "id", getattr(node, "attr", getattr(node, "name", "")))
            found |= {name} & classes
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            found |= {node.value} & set(REGISTRY)
    return found


MAY_NAME = {
    "releases/verification.py",  # which earlier versions said wrong things of which mechanisms
    "pseudo_posterior/models.py",  # its dirichlet-process is a model
    "report/demonstration.py",  # which asks for a mechanism as a user does
}


def test_nothing_outside_its_own_file_names_a_mechanism() -> None:
    for path in SOURCE.rglob("*.py"):
        if not path.is_relative_to(MECHANISMS) and str(path.relative_to(SOURCE)) not in MAY_NAME:
            assert not named(path.read_text(encoding="utf-8")), path


def test_a_name_is_recognised() -> None:
    assert named("from discreet.mechanisms import PitmanYor") == {"PitmanYor"}
    assert named("if kind.name == 'urn-histogram': pass") == {"urn-histogram"}
    assert not named('"Not of urn-histogram."')


@pytest.mark.parametrize("text", [
    "from discreet.mechanisms.pitman_yor import PitmanYor",
    "from discreet.mechanisms import PitmanYor",
    "from discreet.mechanisms import pitman_yor as py",
    "import discreet.mechanisms.pitman_yor",
    "from .pitman_yor import PitmanYor",
    "from . import pitman_yor",
    "from ..mechanisms import PitmanYor",
    "def f():\n    from discreet import mechanisms",
])  # fmt: skip
def test_every_way_to_import_a_mechanism_is_seen(text: str) -> None:
    assert not from_the_folder(text) <= SHARED


def test_what_mechanisms_share_may_be_imported() -> None:
    assert {"base", "drawn", "noise", "projections"} <= SHARED
    assert from_the_folder("from discreet.mechanisms.base import KernelOutput") <= SHARED


def test_no_mechanism_has_slots() -> None:
    """Their base classes have none, so that slots save nothing; and they break ``super()`` without arguments."""
    for path in FILES:
        assert not re.search(r"slots=True[^\n]*\)\nclass \w+\(", path.read_text(encoding="utf-8")), path
    assert all("__slots__" not in vars(base) or base is ABC for kind in REGISTRY.values() for base in kind.__mro__[:-1])


def test_every_mechanism_of_the_folder_is_registered() -> None:
    for path in FILES:
        importlib.import_module(f"discreet.mechanisms.{path.stem}")
    found = {kind for kind in derived(Mechanism) if "name" in vars(kind) and kind.__module__.startswith("discreet.")}
    assert found - set(map(certified_type, MODELS)) == set(REGISTRY.values())


def derived(kind: type) -> Iterator[type]:
    for each in kind.__subclasses__():
        yield each
        yield from derived(each)


def test_the_tree_says_nothing_of_where_it_was_made() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if tracked.returncode != 0:
        pytest.skip("not a git checkout")
    for name in tracked.stdout.split():
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".json", ".cff"} and path != Path(__file__):
            assert not re.search(r"/work/|/root/|/home/", path.read_text(encoding="utf-8")), name
