"""``discreet audit`` with units of several records: whole units are drawn, paired and guessed about."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

from discreet._core.random import seeded
from discreet.audit.attacks import (
    ATTACKS,
    CodedUnits,
    Null,
    StatedProfile,
    attack_results,
    coded_tables,
    divided_pairs,
    joined,
    random_pairs,
)
from discreet.audit.release import LEVEL, Split
from discreet.cli.entry import run
from discreet.domain import Counts, Domain, Integer, Records
from discreet.errors import DataError
from discreet.mechanisms import PerturbedHistogram

CELLS, MOST = 2000, 3
DOMAIN = Domain(columns={"x": Integer(lower=0, upper=CELLS - 1)})
RATE = 1e-6  # of a false failure, and of a false pass, of each statistical test here


def persons(count: int, seed: int, *, first: int = 0) -> pl.DataFrame:
    """Return persons of one to three records each, which lie close together."""
    rng = seeded(seed)
    who = np.repeat(np.arange(count), rng.integers(1, MOST + 1, count))
    home = rng.integers(0, CELLS, count)
    return pl.DataFrame({"who": who + first, "x": (home[who] + rng.integers(0, 3, len(who))) % CELLS})


def grouped(frames: list[pl.DataFrame], released: pl.DataFrame) -> tuple[CodedUnits, CodedUnits, CodedUnits]:
    plain = coded_tables([*(frame.select("x") for frame in frames), released], DOMAIN)
    table, control = (one.by_unit(frame["who"].cast(pl.String).to_numpy().astype(str))
                      for one, frame in zip(plain[:2], frames, strict=True))  # fmt: skip
    return table, control, plain[2]


def test_a_null_is_no_label() -> None:
    labels = pl.DataFrame({"x": ["None", None, "null", ""]})
    assert len(set(coded_tables([labels], None)[0].codes["values"].ravel().tolist())) == 4


def p_value(released: str, claim: float, seed: int) -> float:
    """Make a table of persons, its control and a release, and return the p-value of a claim about one person."""
    rng = seeded(seed)
    frames = [persons(300, seed), persons(300, 1000 + seed, first=300)]
    scale = {"right": 2.0 * MOST / claim, "a tenth of the noise": 0.2 * MOST}[released]
    mechanism = PerturbedHistogram(domain=DOMAIN, records=frames[0].height, scale=scale)
    counts = Counts.of_cells(frames[0]["x"].to_list())
    chunks = mechanism.reading(mechanism.kernel(counts, rng=rng), n=counts.n).draw(frames[0].height, rng=rng)
    made = pl.DataFrame({"x": DOMAIN.flat(Records.concatenate(list(chunks)))})
    null = Null.from_profile(StatedProfile(epsilon_stated=claim, delta_stated=0.0))
    found = attack_results(*grouped(frames, made), null, level=LEVEL / len(ATTACKS), rng=rng)
    return min(1.0, len(found) * min(one.p_value for one in found))


@pytest.mark.parametrize(
    ("runs", "epsilon"),
    [(40, 1.0), *(pytest.param(400, epsilon, marks=pytest.mark.exhaustive) for epsilon in (0.3, 1.0, 3.0))],
)
def test_right_releases_are_rejected_at_most_at_the_level(runs: int, epsilon: float) -> None:
    """At level 0.05: no more rejections than a binomial law of that rate has with probability 1 - 1e-6."""
    assert sum(p_value("right", epsilon, seed) <= 0.05 for seed in range(runs)) <= binom.isf(RATE, runs, 0.05)


def test_a_tenth_of_the_noise_is_rejected() -> None:
    """With power above 0.5: where it is less, all of 20 are rejected with probability below 1e-6."""
    assert all(p_value("a tenth of the noise", 1.0, seed) <= LEVEL for seed in range(20))


# -- units as attacks see them ----------------------------------------------------------------------------------------


def tables(seed: int = 1) -> tuple[CodedUnits, CodedUnits, CodedUnits]:
    frames = [persons(60, seed), persons(50, seed + 1, first=60)]
    return grouped(frames, frames[0].select("x"))


def rows(units: CodedUnits) -> list[list[int]]:
    ends = np.cumsum(units.sizes)
    return [sorted(part[:, 0].tolist()) for part in np.split(units.codes["values"], ends[:-1])]


def test_all_records_of_a_unit_go_together() -> None:
    table, control, _ = tables()
    held = rows(table)
    index = seeded(3).permutation(len(table))[:20]
    assert rows(table.take(index)) == [held[i] for i in index]
    assert sorted(rows(table.ordered())) == sorted(held)
    assert rows(joined(table, control)) == held + rows(control)
    assert len(table) == 60
    pairs, rest = random_pairs(table, control, seeded(4))
    assert sorted(rows(pairs.table) + rows(rest)) == sorted(held)
    assert all(one != other for one, other in zip(rows(pairs.table), rows(pairs.control), strict=True))


def test_which_pairs_are_scored_does_not_depend_on_the_coins() -> None:
    """Exchange the two units of every pair: the same pairs are scored, tuned on and known."""
    table, control, _ = tables()
    pairs, _ = random_pairs(table, control, seeded(2))
    swapped = type(pairs)(table=pairs.control, control=pairs.table, first_is_in=~pairs.first_is_in)
    for one, other in zip(divided_pairs(pairs), divided_pairs(swapped), strict=True):
        assert (one.first_is_in == ~other.first_is_in).all()
        assert rows(one.sides[0]) == rows(other.sides[0])


def test_equal_units_are_not_paired() -> None:
    frame = pl.DataFrame({"who": [0, 0, 1, 2, 2], "x": [1, 2, 3, 2, 1]})
    other = pl.DataFrame({"who": [5, 5, 6, 7, 7], "x": [2, 1, 1, 1, 2]})
    table, control, _ = grouped([frame, other], frame.select("x"))
    with pytest.raises(DataError, match="fewer than four pairs"):
        random_pairs(table, control, seeded(2))
    many, others, _ = grouped([persons(40, 3), persons(40, 3, first=40)], frame.select("x"))
    pairs, _ = random_pairs(many, others, seeded(2))
    assert len(pairs) < 40
    assert all(one != two for one, two in zip(rows(pairs.table), rows(pairs.control), strict=True))


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    persons(700, 7).write_parquet(tmp_path / "all.parquet")
    (tmp_path / "d.toml").write_text(
        f'[columns.x]\ntype = "integer"\nlower = 0\nupper = {CELLS - 1}\nnulls = "category"\n'
    )
    monkeypatch.chdir(tmp_path)
    assert run([*SPLIT, "--record", "s.json", "--unit", "who"]) == 0
    assert "of 350 units as the control" in capsys.readouterr().out
    return tmp_path


SPLIT = ["audit", "split", "all.parquet", "--out-data", "a.parquet", "--out-control", "b.parquet"]
RELEASE = ["release", "a.parquet", "--domain", "d.toml", "--epsilon", "2", "--unit", "who", "--max-records", "3",
           "--mechanism", "perturbed-histogram", "--size", "700", "--accept-poor-utility",
           "--out", "r.parquet"]  # fmt: skip
AUDIT = ["audit", "release", "r.parquet", "--data", "a.parquet", "--control", "b.parquet", "--json"]


def test_no_unit_is_parted(place: Path) -> None:
    parts = [pl.read_parquet(place / f"{name}.parquet") for name in ("a", "b")]
    assert not set(parts[0]["who"]) & set(parts[1]["who"])
    assert [part["who"].n_unique() for part in parts] == [350, 350]
    whole = pl.read_parquet(place / "all.parquet")
    assert pl.concat(parts).sort("who", "x").equals(whole.sort("who", "x"))
    facts = Split.read(place / "s.json").facts
    assert (facts["unit"], facts["units"], facts["control_units"]) == ("who", 350, 350)
    assert facts["records"] + facts["control_records"] == whole.height
    assert facts["discreet_split"] == 2  # programs that know of records alone refuse it


def test_every_unit_is_as_likely_in_the_control() -> None:
    """Whatever the number of its records: 600 draws of one of three units, each within 1e-6 of a third."""
    from discreet.audit.release import random_parts, rows_of_units

    numbers = np.array([0, 1, 1, 2, 2, 2])
    seen = np.zeros(3)
    for _ in range(600):
        kept, out = random_parts(3, 1)
        assert sorted([*rows_of_units(numbers, kept), *rows_of_units(numbers, out)]) == list(range(6))
        seen[numbers[rows_of_units(numbers, out)[0]]] += 1
    assert (seen > binom.ppf(RATE / 6, 600, 1 / 3)).all()
    assert (seen < binom.isf(RATE / 6, 600, 1 / 3)).all()


def test_a_right_release_is_not_rejected_and_a_copy_is(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(RELEASE) == 0
    capsys.readouterr()
    assert run(AUDIT) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rejected"] is False
    assert "of one unit of up to 3 records" in found["claim"]
    assert found["attacks"][0]["pairs"] <= 350
    assert found["power"]["epsilon"] > 2.0
    pl.read_parquet(place / "a.parquet").select("x").write_parquet(place / "copy.parquet")
    bare = ["audit", "release", "copy.parquet", *AUDIT[3:], "--epsilon", "1"]
    assert run(bare) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["rejected"] is True
    assert told["claim"] == "epsilon 1, for replacement of one unit"


def test_a_control_of_other_units_than_the_claim_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(RELEASE) == 0
    assert run([*SPLIT, "--record", "s.json"]) == 0  # record by record
    assert run(RELEASE) == 0
    capsys.readouterr()
    assert run(AUDIT) == 2
    said = capsys.readouterr().err
    assert "the control was drawn by single records, and the claim is about the units in column 'who'" in said
    assert "Draw the control by the units in column 'who'" in said
    assert run([*SPLIT, "--record", "s.json", "--unit", "who"]) == 0
    plain = [part for part in RELEASE if part not in {"--unit", "who", "--max-records", "3"}]
    assert run([*plain, "--ignore-other-columns"]) == 0
    capsys.readouterr()
    assert run(AUDIT) == 2
    assert "Draw the control by single records" in capsys.readouterr().err


def test_units_on_both_sides_and_rows_without_one_are_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(RELEASE) == 0
    whole = pl.read_parquet(place / "all.parquet")
    both = [*AUDIT[:-2], "all.parquet", "--json"]
    capsys.readouterr()
    assert run(both) == 2
    assert "column 'who': names units that have records both in the data and in the control" in capsys.readouterr().err
    assert run([*SPLIT, "--record", "t.json", "--unit", "where"]) == 2
    assert "no column of that name.\nWrite --unit" in capsys.readouterr().err
    whole.with_columns(who=pl.when(pl.col("who") < 3).then(None).otherwise("who")).write_parquet("all.parquet")
    assert run([*SPLIT, "--record", "t.json", "--unit", "who"]) == 2
    assert "column 'who': holds a null, so a row has no privacy unit" in capsys.readouterr().err
    assert not (place / "t.json").exists()


def test_votes_of_units_are_audited_by_the_number_of_units(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = [*RELEASE, "--param", "unit_votes=1", "--param", "steps=1", "--param", "population=20", "--delta", "1e-6"]
    asked[asked.index("perturbed-histogram")] = "private-evolution"
    assert run(asked) == 0
    assert json.loads((place / "r.certificate.json").read_text())["records"] == 350
    capsys.readouterr()
    assert run(AUDIT) == 0
    assert json.loads(capsys.readouterr().out)["rejected"] is False
