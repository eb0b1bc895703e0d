"""What is read from a checkpoint is what was written, or it is refused: never with another error."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet._core.random import secure
from discreet.domain import Category, Counts, Domain, Numeric, OpenLabels, Records
from discreet.errors import FileProblem
from discreet.evolution import Callables
from discreet.mechanisms import REGISTRY
from discreet.mechanisms.base import Votes
from discreet.mechanisms.steps import StepsFile, _digest, steps_taken

DOMAIN = Domain(columns={"x": Numeric(lower=0.0, upper=1.0), "c": Category(categories=["a", "b", "c"])})
TABLE = Counts(
    records=Records(columns=(np.array([0.25, 0.75]), np.array([0, 2]))), frequencies=np.array([30, 70])
)  # fmt: skip


def evolution(**parameters: Any) -> Any:
    given = {"records": 100, "scale": 2.0, "steps": 3, "population": 4, "variant": "practical", **parameters}
    return REGISTRY["private-evolution"](domain=DOMAIN, **given)


def taken(mechanism: Any, path: Path, **watch: Any) -> Any:
    return steps_taken(mechanism, TABLE, rng=secure(), file=StepsFile(path, mechanism), **watch)


class Died(Exception):
    pass


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the checkpoint of a run that died after two of three steps."""

    def dies(done: int, _: int) -> None:
        if done == 2:
            raise Died

    with pytest.raises(Died):
        taken(evolution(), tmp_path / "steps", stepped=dies)
    return tmp_path / "steps"


def resumed(path: Path, **parameters: Any) -> Any:
    return taken(evolution(**parameters), path)


def test_every_changed_byte_is_noticed(path: Path) -> None:
    whole = path.read_bytes()
    draws = np.random.default_rng(seed := 20260101)
    places = draws.choice(len(whole), size=300, replace=False)
    for place in places:
        changed = bytearray(whole)
        changed[place] ^= int(draws.integers(1, 256))
        path.write_bytes(changed)
        with pytest.raises(FileProblem):
            resumed(path)
        assert path.read_bytes() == changed, seed
    for part in (whole[:-1], whole + b"\0", whole[:100], b"", b"\n", b"{}\n", b"[" * 10**5, whole * 2):
        path.write_bytes(part)
        with pytest.raises(FileProblem, match="not a checkpoint"):
            resumed(path)
    path.write_bytes(whole)
    assert len(resumed(path)) == 3


def rewritten(path: Path, change: Any) -> None:
    """Change a checkpoint as one who knows the format does: with a digest of what it now holds."""
    whole = path.read_bytes()
    line, _, body = whole.partition(b"\n")
    head = json.loads(line)
    body = change(head, bytearray(body)) or body
    head["digest"] = _digest(head.get("run", ""), head["steps"], bytes(body))
    path.write_bytes(json.dumps(head).encode() + b"\n" + bytes(body))


def number(column: int, value: bytes) -> Any:
    """Put a number first among the first step's votes (0), or in a column of its candidates (1, 2)."""

    def change(head: dict[str, Any], body: bytearray) -> bytearray:
        place = 8 * head["steps"][0]["rows"] * column
        body[place : place + 8] = value
        return body

    return change


def entry(**values: Any) -> Any:
    """Change what the head says of the first step."""
    return lambda head, _: head["steps"][0].update(values)


def kind(name: str) -> Any:
    return lambda head, _: head["steps"][0]["columns"][0].__setitem__(0, name)


def nine_steps(head: dict[str, Any], body: bytearray) -> bytearray:
    head["steps"] = (head["steps"] * 5)[:9]
    return (body * 5)[: 9 * len(body) // 2]


ODD = {
    "votes of -2^62": number(0, (-(1 << 62)).to_bytes(8, "little", signed=True)),
    "a place that is NaN": number(1, np.float64(np.nan).tobytes()),
    "an infinite place": number(1, np.float64(np.inf).tobytes()),
    "a category that is none": number(2, (7).to_bytes(8, "little")),
    "a kind that is none": kind("O"),
    "numbers for labels": kind("i"),
    **{f"rows: {rows!r}": entry(rows=rows) for rows in (-3, True, "12", 1 << 62)},
    "no columns": entry(columns=[]),
    "nine steps": nine_steps,
    "steps that are a number": lambda head, _: head.update(steps=3),
    "another run": lambda head, _: head.update(run="0" * 64),
    "a later version": lambda head, _: head.update(discreet_checkpoint=3),
    "no run": lambda head, _: head.pop("run") and None,
}


@pytest.mark.parametrize("change", ODD.values(), ids=ODD.keys())
def test_a_digest_alone_makes_no_step(path: Path, change: Any) -> None:
    rewritten(path, change)
    before = path.read_bytes()
    with pytest.raises(FileProblem):
        resumed(path)
    assert path.read_bytes() == before


def test_the_public_facts_are_in_the_digest(path: Path) -> None:
    for other in ({"steps": 4}, {"scale": 2.5}, {"records": 101}, {"population": 5}, {"sampling": "iid"}):
        with pytest.raises(FileProblem, match="another mechanism or domain"):
            resumed(path, **other)


def test_votes_below_the_threshold_are_none_of_a_run_with_one(tmp_path: Path) -> None:
    mechanism = evolution(noise="laplace", threshold=5)
    step = Votes(Records(columns=(np.array([0.5]), np.array([1]))), np.array([7]))
    assert mechanism.could_release(step)
    assert not mechanism.could_release(step._replace(votes=np.array([4])))
    assert not mechanism.could_release(Votes(Records(columns=()), np.array([7])))
    labels = Domain(columns={"w": OpenLabels()})
    api = Callables(
        domain=labels,
        label="words",
        generate=lambda count, _: {"w": [f"word {i}" for i in range(count)]},
        vary=lambda frame, _: frame,
        embedding=lambda frame: frame["w"].str.len_chars().to_numpy()[:, None],
        diameter=9.0,
    )
    words = REGISTRY["private-evolution"](
        domain=labels, records=9, scale=2.0, steps=1, population=2, noise="laplace", threshold=3, api=api
    )
    for label, fits in (("a", True), (None, False)):
        assert words.could_release(Votes(Records(columns=(np.array([label], dtype=object),)), np.array([7]))) is fits
