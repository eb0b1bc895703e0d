"""Bounds on what is read, before it is believed; and what is printed of it."""

import json
import re
import time
import tracemalloc
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from discreet import Budget, Output, release
from discreet._core.reading import DEPTH, MOST_BYTES, MOST_CELLS, MOST_COLUMNS, bounded_text, parsed_toml, read_json
from discreet._core.text import harmless
from discreet.cli.entry import run
from discreet.domain import Date, Domain, Integer, Numeric
from discreet.errors import DomainError, FileProblem

NESTED = {
    "lists": "a = " + "[" * 40 + "]" * 40,
    "very many lists": "a = " + "[" * 100_000,
    "tables": "[" + ".".join("a" * 31) + "]\n[" + ".".join("a" * 31) + ".b]\nb.b.b = 1",
    "a long key": "a." * 30_000 + "b = 1",
    "a long quoted key": '"a" . ' * 30_000 + "b = 1",
}


@pytest.mark.parametrize("text", NESTED.values(), ids=NESTED)
def test_depth_is_bounded(text: str) -> None:
    start = time.perf_counter()
    with pytest.raises(DomainError, match=str(DEPTH)):
        parsed_toml(text)
    assert time.perf_counter() - start < 2.0  # the long keys took the parser over six


@pytest.mark.parametrize("number", ["9" * 41, "-" + "9" * 5000, "0x" + "f" * 5000])
def test_digits_are_bounded(number: str) -> None:
    with pytest.raises(DomainError, match="digits|out of range"):
        parsed_toml(f"a = [{number}]")


def test_what_is_within_the_bounds_is_read() -> None:
    assert parsed_toml('a.b = [[1]]\nc = "x.y.z"')["a"] == {"b": [[1]]}
    names = [".".join("a" * 20), "1.5"]
    assert parsed_toml(f"c = {json.dumps(names)}")["c"] == names


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b'{"a": NaN}', "not JSON"),
        (b'{"a": 1e999}', "not JSON"),
        (b'{"a": 1, "a": 2}', "not JSON"),
        (b'{"a": ' + b"9" * 50 + b"}", "digits"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not JSON"),
        (b'{"a": "\\ud800"}', "Unicode"),
        (b'{"\\ud800": 1}', "Unicode"),
        (b'{"a": ' + b"[" * 40 + b"]" * 40 + b"}", "nested"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a JSON object"),
        (b"\xff", "UTF-8"),
        (b" " * (MOST_BYTES + 1), "bytes"),
    ],
)
def test_json_is_bounded(raw: bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(raw)
    with pytest.raises(FileProblem, match=problem) as found:
        read_json(path, remedy="give another")
    assert found.value.__context__ is None or found.value.__suppress_context__


@pytest.mark.parametrize(("raw", "remedy"), [(b"caf\xe9", "Save it as UTF-8"), (b"PAR1\x15\0\xff", "Give another")])
def test_only_a_text_is_told_to_be_saved_in_another_encoding(raw: bytes, remedy: str, tmp_path: Path) -> None:
    """A table that is given in place of its certificate is no text."""
    path = tmp_path / "a.json"
    path.write_bytes(raw)
    with pytest.raises(FileProblem, match=f"{remedy}$"):
        read_json(path, remedy="give another")


@pytest.mark.parametrize("path", ["no-such-file", "a\0b", ".", "x" * 5000])
def test_paths_that_are_none(path: str) -> None:
    with pytest.raises(FileProblem):
        bounded_text(path, missing="check it", remedy="check it")


UNIT = {"type": "numeric", "lower": 0, "upper": 1}


@pytest.mark.parametrize(
    "declared",
    [
        lambda: Numeric(lower=0, upper=1, cells=10**9),
        lambda: Integer(lower=0, upper=10**9, cells=MOST_CELLS + 1),
        lambda: Date(lower="0001-01-01", upper="9999-01-01", cells=10**8),
        lambda: Domain.from_dict({"columns": {name: {**UNIT, "cells": MOST_CELLS // 2} for name in "abcde"}}),
        lambda: Domain.from_dict({"columns": {f"c{i}": {"type": "boolean"} for i in range(MOST_COLUMNS + 1)}}),
    ],
)
def test_cells_and_columns_are_bounded_before_they_are_allocated(declared: Any) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DomainError, match="at most|from 1 to"):
            declared()
        assert tracemalloc.get_traced_memory()[1] < 64 * 2**20
    finally:
        tracemalloc.stop()


def test_a_small_certificate_with_many_cells_is_refused_at_once(tmp_path: Path) -> None:
    domain = Domain(columns={"x": Numeric(lower=0, upper=1, cells=4)})
    table, asked = pl.DataFrame({"x": [0.5] * 500}), {"size": 9, "mechanism": "perturbed-histogram"}
    release(table, domain, Budget(epsilon=1), out=Output(tmp_path / "o.parquet"), **asked)
    path = tmp_path / "o.certificate.json"
    facts = json.loads(path.read_text())
    facts["domain"]["columns"]["x"]["cells"] = 100_000_000
    path.write_text(json.dumps(facts))
    start = time.perf_counter()
    assert run(["verify", str(path)]) == 1
    assert time.perf_counter() - start < 5.0


def test_control_characters_are_shown_and_not_obeyed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "x\x1b]0;owned\x07\u202e\n.certificate.json"
    facts = {"discreet_certificate": 1, "guarantee": {"\x1b[2J\nAll 12 claims agree": 1}}
    (tmp_path / name).write_text(json.dumps(facts))
    assert run(["verify", str(tmp_path / name)]) == 1
    assert run(["verify", str(tmp_path / name), "--json"]) == 1
    assert run(["estimate", str(tmp_path / "a\x1b[2J.csv"), "--functional", "mean"]) == 2
    said = capsys.readouterr()
    assert all(c.isprintable() or c == "\n" for c in said.out + said.err)
    assert "\\u001b" in said.err
    with pytest.raises(FileProblem) as found:
        bounded_text(f"{name}\x9b", missing="", remedy="")
    assert all(c.isprintable() for c in str(found.value))


def test_harmless_leaves_text_alone() -> None:
    text = "Größe 5\u00a0% — 数 \N{GRINNING FACE}"
    assert harmless(text) == text
    assert harmless("a\nb\tc", lines=True) == "a\nb\tc"
    assert harmless("a\nb") == "a\\u000ab"


@pytest.mark.parametrize(
    ("line", "quoted"),
    [
        ("[columns.my col]", '[columns."my col"]'),
        ("[columns.größe]", '[columns."größe"]'),
        ("[columns.a,b]", '[columns."a,b"]'),
        ("[columns.P(>3)]", '[columns."P(>3)"]'),
        ("[columns.'x]", '[columns."\'x"]'),
        ('[columns.x"y]', '[columns."x\\"y"]'),
        ("my col = 1", '"my col" = 1'),
    ],
)
def test_a_name_that_must_be_quoted_is_shown_quoted(line: str, quoted: str) -> None:
    start = quoted.removesuffix(" = 1")
    with pytest.raises(DomainError, match=re.escape(f"Quote the name: {start}")):
        parsed_toml(f"[metric_weights]\n{line}\n")
    assert parsed_toml(f"[metric_weights]\n{quoted}\n")
    with pytest.raises(DomainError) as other:
        parsed_toml('[columns.x]\ncategories = ["a=b",\n"c"\n[columns.y]')
    assert "Quote" not in str(other.value)
