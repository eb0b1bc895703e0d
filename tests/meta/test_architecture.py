"""What the architecture promises: a light import, one crossing, theorems that exist, names that are documented."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import discreet
from discreet.mechanisms import REGISTRY

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "discreet"


def test_import_loads_nothing_heavy() -> None:
    program = "import sys, discreet, discreet.domain, discreet.mechanisms; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"polars", "pandas", "pyarrow", "narwhals", "scipy", "opendp", "dp_accounting", "randomgen", "matplotlib"}
    assert not heavy & {name.partition(".")[0] for name in loaded}


def test_privacy_and_plan_never_load_a_dataframe_library(tmp_path: Path) -> None:
    domain = tmp_path / "d.toml"
    domain.write_text('[columns.age]\ntype = "integer"\nlower = 0\nupper = 99\n')
    program = (
        "import sys; from discreet.cli._main import run; run(sys.argv[1:]); "
        "assert not {'polars', 'pandas', 'pyarrow'} & set(sys.modules), 'loaded'"
    )
    for arguments in (
        [
            "privacy",
            "smoothed-histogram",
            "--records",
            "100",
            "--size",
            "10",
            "--param",
            "mixing=0.5",
            "--param",
            "cells=5",
            "--epsilon",
            "1",
        ],
        ["plan", "--domain", str(domain), "--records", "1000", "--epsilon", "1"],
    ):
        subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, check=True)


def test_every_hoisted_name_exists() -> None:
    assert sorted(discreet.__all__) == discreet.__all__
    for name in discreet.__all__:
        assert getattr(discreet, name) is not None
    with pytest.raises(AttributeError):
        _ = discreet.no_such_name  # type: ignore[attr-defined]


def test_generators_are_made_in_one_file() -> None:
    makers = {"default_rng", "Generator", "PCG64", "SFC64", "ChaCha", "SeedSequence", "RandomState"}
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in makers:
                found.add(path.name)
    assert found <= {"_random.py"}


def test_every_theorem_cited_has_its_proof() -> None:
    pages = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "docs" / "theory").glob("*.md"))
    cited = set()
    for path in SOURCE.rglob("*.py"):
        cited |= set(re.findall(r"\bT[1-9]\d?\b", path.read_text(encoding="utf-8")))
    assert cited == set(re.findall(r"(?:Theorem|Caveat) (T[1-9]\d?)\b", pages))
    assert {"T1", "T2", "T3", "T4", "T5", "T6"} <= cited
    assert pages.count("Proof") >= len(cited) - 1


@pytest.mark.parametrize("name", sorted(set(REGISTRY) - {"dirichlet-process"}))
def test_one_mechanism_one_file_one_page_one_name(name: str) -> None:
    assert (SOURCE / "mechanisms" / f"{name.replace('-', '_')}.py").exists()
    assert (ROOT / "docs" / "theory" / f"{name}.md").exists()
    assert REGISTRY[name].name == name


def test_mechanisms_are_frozen_and_hold_public_facts_only() -> None:
    from discreet.domain import Domain, Integer

    domain = Domain(columns={"cell": Integer(lower=0, upper=9)})
    mechanism = REGISTRY["dirichlet-multinomial"](domain=domain, size=5, prior=1.0)
    with pytest.raises(AttributeError):
        mechanism.size = 6


def test_the_tree_says_nothing_of_where_it_was_made() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if tracked.returncode != 0:
        pytest.skip("not a git checkout")
    for name in tracked.stdout.split():
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".json", ".cff"} and path != Path(__file__):
            assert not re.search(r"/work/|/root/|/home/", path.read_text(encoding="utf-8")), name
