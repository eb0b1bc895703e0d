"""``discreet audit split`` and ``discreet audit release``: right claims stand at the stated rate, broken ones fall."""

import hashlib
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

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
    coded_counts,
    coded_tables,
    divided_pairs,
    random_pairs,
)
from discreet.audit.release import LEVEL, Split, audit_release, claimed, random_parts
from discreet.cli.entry import run
from discreet.confidential import Confidential, reveal_to_custodian
from discreet.domain import Counts, Domain, Integer, Records
from discreet.errors import DataError, FileProblem, ParameterError
from discreet.mechanisms import PerturbedHistogram

CELLS = 500
DOMAIN = Domain(columns={"x": Integer(lower=0, upper=CELLS - 1)})
RATE = 1e-6  # of a false failure, and of a false pass, of each statistical test here


def codes(frame: pl.DataFrame) -> Counts:
    return Counts.of_cells(frame["x"].to_list())


def p_value(twin: str, epsilon: float, claim: float, seed: int, *, level: float = LEVEL, counts: bool = False) -> float:
    """Make a table, its control and a release of records or counts, and return the p-value of a claim about it."""
    rng = seeded(seed)
    rows = pl.DataFrame({"x": rng.integers(0, CELLS, 1200)})
    table, control = rows[:600], rows[600:]
    scale = {"right": 2.0 / epsilon, "a tenth of the noise": 0.2 / epsilon, "no noise": 1e-3, "copy": 1.0}[twin]
    mechanism = PerturbedHistogram(domain=DOMAIN, records=600, scale=scale)
    frames, shown = [table, control], []
    if twin == "copy":
        frames.append(table)
    else:
        reading = mechanism.reading(mechanism.kernel(codes(table), rng=rng), n=600)
        if counts:
            shown = [coded_counts(reading.estimates().counts, DOMAIN)]
        else:
            frames.append(pl.DataFrame({"x": DOMAIN.flat(Records.concatenate(list(reading.draw(600, rng=rng))))}))
    null = Null.from_profile(StatedProfile(epsilon_stated=claim, delta_stated=0.0))
    found = attack_results(*coded_tables(frames, DOMAIN), *shown, null, level=level / len(ATTACKS), rng=rng)
    if counts:
        assert [one.name for one in found] == ["frequencies", "classifier"]  # counts are no points with neighbours
    corrected = [tail.tolist() for tail in null.tails(found[0].pairs).values()]
    assert all(one.tail.tolist() in corrected for one in found)  # the release chose how many to guess about
    return min(1.0, len(found) * min(one.p_value for one in found))


@pytest.mark.parametrize(
    ("runs", "epsilon"),
    [(40, 1.0), *(pytest.param(400, epsilon, marks=pytest.mark.exhaustive) for epsilon in (0.3, 1.0, 3.0))],
)
def test_right_releases_are_rejected_at_most_at_the_level(epsilon: float, runs: int) -> None:
    """At level 0.05: no more rejections than a binomial law of that rate has with probability 1 - 1e-6."""
    rejected = sum(p_value("right", epsilon, epsilon, seed, level=0.05) <= 0.05 for seed in range(runs))
    assert rejected <= binom.isf(RATE, runs, 0.05)


@pytest.mark.parametrize(
    ("twin", "epsilon", "power"), [("copy", 1.0, 0.03), ("no noise", 1.0, 0.03), ("a tenth of the noise", 0.3, 0.5)]
)
def test_broken_twins_are_rejected(twin: str, epsilon: float, power: float) -> None:
    """With more than this power: where it is less, all runs are rejected with probability below 1e-6."""
    runs = math.ceil(math.log(RATE) / math.log(power))
    assert all(p_value(twin, epsilon, epsilon, seed) <= LEVEL for seed in range(runs))


def test_a_tenth_of_the_noise_is_within_a_claim_that_is_ten_times_as_large() -> None:
    assert all(p_value("a tenth of the noise", 1.0, 10.0, seed) > LEVEL for seed in range(5))


def parts(rows: int = 400) -> tuple[CodedUnits, CodedUnits]:
    made = seeded(1).integers(0, 40, (2 * rows, 2))
    frame = pl.DataFrame({"x": made[:, 0], "y": made[:, 1]})
    table, control = coded_tables([frame[:rows], frame[rows:]], None)
    return table, control


def test_pairs_are_apart_and_each_record_is_in_one() -> None:
    table, control = parts()
    pairs, rest = random_pairs(table, control, seeded(2))
    scored, tuning, known = divided_pairs(pairs)
    assert len(scored) + len(tuning) + len(known) == len(pairs)
    assert len(scored) >= 2 * len(tuning) - 1 >= 20
    held = np.concatenate([pairs.table.codes["values"], rest.codes["values"]])
    assert sorted(map(tuple, held.tolist())) == sorted(map(tuple, table.codes["values"].tolist()))
    assert (pairs.table.codes["values"] != pairs.control.codes["values"]).any(axis=1).all()


def test_texts_of_a_csv_file_are_coded_as_the_values_of_a_parquet_file() -> None:
    days = pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 3, 1), eager=True)
    hours = pl.datetime_range(pl.datetime(2020, 1, 1), pl.datetime(2020, 3, 1), "1d", eager=True)
    frame = pl.DataFrame({"day": days, "hour": hours, "x": range(len(days)), "yes": [True, None] * 30 + [False]})
    texts = pl.read_csv(frame.write_csv().encode(), infer_schema=False)
    one, other = coded_tables([frame, texts], None)
    assert (one.codes["values"] == other.codes["values"]).all()
    assert (one.points == other.points).all()


# -- files ------------------------------------------------------------------------------------------------------------


BOTH = pytest.mark.parametrize("place", ["csv", "parquet"], indirect=True)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    rng = seeded(5)
    frame = pl.DataFrame({"age": rng.integers(0, 300, 1000), "sex": rng.choice(["f", "=m"], 1000)})
    kind = str(getattr(request, "param", "csv"))
    frame.write_csv(tmp_path / "all.csv") if kind == "csv" else frame.write_parquet(tmp_path / "all.parquet")
    (tmp_path / "d.toml").write_text(
        '[columns.age]\ntype = "integer"\nlower = 0\nupper = 299\n'
        '[columns.sex]\ntype = "category"\ncategories = ["f", "=m"]\n'
    )
    drawn = [str(tmp_path / name) for name in (f"all.{kind}", f"a.{kind}", f"b.{kind}", "s.json")]
    assert (
        run(["audit", "split", drawn[0], "--out-data", drawn[1], "--out-control", drawn[2], "--record", drawn[3]]) == 0
    )
    return tmp_path


def files(place: Path) -> dict[str, str]:
    return {path.stem: str(path) for path in sorted(place.iterdir()) if path.suffix in {".csv", ".parquet"}}


def released(place: Path, *more: str) -> Path:
    """Release the part of the table that was kept, and return the file."""
    known = files(place)
    out = place / f"r{Path(known['a']).suffix}"
    common = ["release", known["a"], "--domain", str(place / "d.toml"), "--epsilon", "1", "--accept-poor-utility"]
    more = more or ("--size", "500", "--mechanism", "perturbed-histogram")
    assert run([*common, *more, "--out", str(out)]) == 0
    return out


def audited(place: Path, released: str, *more: str, data: str = "a", control: str = "b") -> list[str]:
    known = files(place)
    return ["audit", "release", known[released], "--data", known[data], "--control", known[control], *more]


def answer(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def read(path: str) -> pl.DataFrame:
    return pl.read_parquet(path) if path.endswith("parquet") else pl.read_csv(path)


@BOTH
def test_the_parts_are_the_table_and_the_record_holds_them_to_it(place: Path) -> None:
    known = files(place)
    whole = pl.concat([read(known["a"]), read(known["b"])])
    assert whole.sort(whole.columns).equals(read(known["all"]).sort(whole.columns))
    assert not whole.equals(read(known["all"]))
    made = Split.read(place / "s.json")
    assert made.is_of(known["a"], known["b"])
    assert not made.is_of(known["b"], known["a"])
    assert (made.facts["records"], made.facts["control_records"]) == (500, 500)
    told = (place / "s.json").read_text()
    for name in ("a", "b", "all"):  # who knows all records but one must not be able to test guesses by a hash
        assert hashlib.sha256(Path(known[name]).read_bytes()).hexdigest() not in told
    assert all((Path(path).stat().st_mode & 0o077) == 0 for name, path in known.items() if name != "all")


def test_a_record_that_was_changed_is_refused(place: Path) -> None:
    facts = json.loads((place / "s.json").read_text())
    for change in (
        {"created": "2001-01-01T00:00:00+00:00"},
        {"nonce": "00" * 32},
        {"control": 3},
        {"discreet_split": 2},
    ):
        (place / "t.json").write_text(json.dumps({**facts, **change}))
        with pytest.raises(FileProblem, match="record"):
            Split.read(place / "t.json")


def test_every_order_of_both_parts_is_equally_likely() -> None:
    """2,400 draws of two of four: a count strays as far as this from 100 with probability 1e-6, over all 24 orders."""
    seen = Counter(tuple(np.concatenate(random_parts(4, 2)).tolist()) for _ in range(2400))
    low, high = binom.ppf(RATE / 48, 2400, 1 / 24), binom.isf(RATE / 48, 2400, 1 / 24)
    assert len(seen) == 24
    assert all(low <= count <= high for count in seen.values())


@BOTH
def test_a_right_release_is_not_rejected_and_what_would_have_been_is_said(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    released(place)
    capsys.readouterr()
    assert run(audited(place, "r")) == 0
    said = capsys.readouterr().out
    assert said.startswith("CONFIDENTIAL")
    assert "not rejected; epsilon " in said
    assert "would have been detected with power 95%" in said
    assert "stands" not in said
    assert run(audited(place, "r", "--json")) == 0
    found = answer(capsys)
    assert {"rejected", "level", "p_value", "attacks", "power"} <= set(found)
    assert (found["rejected"], found["level"], found["confidential"]) == (False, 0.001, True)
    assert [one["name"] for one in found["attacks"]] == list(ATTACKS)
    assert found["power"]["power"] == 0.95
    assert found["power"]["epsilon"] > 1.0
    assert run(audited(place, "r", "--json")) == 0
    assert answer(capsys) == found  # nobody can try again until it comes out otherwise


@pytest.mark.parametrize(
    "claim", [["--epsilon", "1"], ["--epsilon", "0.5", "--delta", "1e-6", "--relation", "add-remove"]]
)
def test_a_copy_of_the_table_is_rejected(place: Path, claim: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(audited(place, "a", *claim, "--json")) == 1
    found = answer(capsys)
    assert found["rejected"] is True
    assert found["p_value"] <= 0.001
    assert run(audited(place, "a", *claim)) == 1
    assert "rejected at level 0.001" in capsys.readouterr().out


def test_without_a_draw_on_record_there_is_no_verdict(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(audited(place, "a", "--epsilon", "1", "--json", data="a", control="all")) == 0
    found = answer(capsys)
    assert found["rejected"] is None
    assert "no record says" in found["exploratory"]
    assert run(audited(place, "a", "--epsilon", "1", "--record", str(place / "s.json"), data="b", control="a")) == 0
    assert "no verdict: the record is of other files" in capsys.readouterr().out


def test_a_control_that_was_drawn_after_the_release_has_no_verdict(place: Path) -> None:
    known, out = files(place), released(place)
    certificate = place / "r.certificate.json"
    facts = json.loads(certificate.read_text())
    certificate.write_text(json.dumps({**facts, "created": "2001-01-01T00:00:00+00:00"}))
    found = reveal_to_custodian(audit_release(out, known["a"], known["b"], claimed(out)))
    assert found.exploratory == "the control was drawn after the release"
    assert found.rejected is None
    certificate.write_text(json.dumps({**facts, "guarantee": {**facts["guarantee"], "epsilon": 0.5}}))
    with pytest.raises(ParameterError, match="claims more than follows"):
        claimed(out)
    certificate.write_text(json.dumps({**facts, "records": 499}))
    with pytest.raises(DataError, match="500 records, and the certificate is of 499"):
        audit_release(out, known["a"], known["b"], claimed(out))


def test_what_cannot_be_audited_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = files(place)
    for more in (["--delta", "0.1"], ["--epsilon", "1", "--certificate", "c.json"], ["--epsilon", "1", "--level", "0"]):
        assert run(audited(place, "a", *more)) == 2
    assert run(audited(place, "a")) == 2  # it has no certificate
    other = place / "other.csv"
    other.write_text("height\n1\n2\n")
    assert run(audited(place, "other", "--epsilon", "1")) == 2
    assert "is not in the data" in capsys.readouterr().err
    asked = ["audit", "split", known["all"], "--record", str(place / "r.json"), "--out-data"]
    assert run([*asked, known["a"], "--out-control", known["a"]]) == 2
    assert run([*asked, str(place / "x.txt"), "--out-control", known["b"]]) == 2
    assert run([*asked, known["all"], "--out-control", known["b"]]) == 2


def test_the_result_is_closed(place: Path) -> None:
    known = files(place)
    closed = audit_release(known["a"], known["a"], known["b"], claimed(known["a"], epsilon=1.0))
    assert isinstance(closed, Confidential)
    assert repr(closed) == "<confidential ReleaseAudit>"


@pytest.mark.parametrize(("epsilon", "status"), [(1.0, 0), (40.0, 1)])
def test_a_false_claim_about_another_librarys_release(tmp_path: Path, epsilon: float, status: int) -> None:
    """OpenDP's Laplace noise on counts, said to be for epsilon 1: it is, or is for 40. At a level of 1e-6."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    cells = seeded(7).integers(0, CELLS, 1200)
    pl.DataFrame({"x": cells // 25, "y": cells % 25}).write_parquet(tmp_path / "all.parquet")
    names = {name: str(tmp_path / f"{name}.{'json' if name == 'split' else 'parquet'}")
             for name in ("all", "data", "control", "split", "released")}  # fmt: skip
    assert run(["audit", "split", names["all"], "--out-data", names["data"], "--out-control", names["control"],
                "--record", names["split"]]) == 0  # fmt: skip
    held = pl.read_parquet(names["data"])
    counts = np.bincount(25 * held["x"].to_numpy() + held["y"].to_numpy(), minlength=CELLS).tolist()
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    noisy = np.maximum(0, (space >> dp.m.then_laplace(scale=2.0 / epsilon))(counts))
    made = np.repeat(np.arange(CELLS), noisy)
    pl.DataFrame({"x": made // 25, "y": made % 25}).write_parquet(names["released"])
    assert run(["audit", "release", names["released"], "--data", names["data"], "--control", names["control"],
                "--epsilon", "1", "--level", str(RATE)]) == status  # fmt: skip


# -- counts, and units -------------------------------------------------------------------------------------------------


def test_counts_are_rejected_at_most_at_the_level_and_broken_ones_are() -> None:
    """Of 40 right ones at level 0.05, and 20 of the twin: false failures and passes below 1e-6, as above."""
    rejected = sum(p_value("right", 1.0, 1.0, seed, level=0.05, counts=True) <= 0.05 for seed in range(40))
    assert rejected <= binom.isf(RATE, 40, 0.05)
    assert all(p_value("a tenth of the noise", 1.0, 1.0, seed, counts=True) <= LEVEL for seed in range(20))


def test_a_release_of_counts_is_audited(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known, out = files(place), released(place, "--counts", "--mechanism", "perturbed-histogram")
    capsys.readouterr()
    assert run(audited(place, "r", "--json")) == 0
    found = answer(capsys)
    assert found["rejected"] is False
    assert [one["name"] for one in found["attacks"]] == ["frequencies", "classifier"]
    assert found["power"]["epsilon"] > 1.0
    table = pl.read_csv(out)
    exact = read(known["a"]).group_by("age", "sex").len()  # what a broken release would give: the counts themselves
    true = table.with_columns(pl.col("sex").str.strip_prefix("'")).join(exact, on=["age", "sex"], how="left")
    forge(place, table.with_columns(true["len"].fill_null(0).cast(pl.Float64).alias("count")))
    assert run(audited(place, "r", "--json")) == 1
    assert answer(capsys)["rejected"] is True
    for spoilt, problem in (
        (table.drop("count"), "column 'count': is not in the released table of counts"),
        (pl.concat([table, table[:1]]), "the released counts are not of the declared cells"),
        (table.with_columns(pl.lit("many").alias("count")), "have columns of other types"),
    ):
        forge(place, spoilt)
        assert run(audited(place, "r")) == 2
        assert problem in capsys.readouterr().err


def forge(place: Path, table: pl.DataFrame) -> None:
    """Write another table in place of a released one, with a certificate that names it."""
    table.write_csv(place / "r.csv")
    certificate = place / "r.certificate.json"
    facts = json.loads(certificate.read_text())
    facts["released"]["tables"][0]["sha256"] = hashlib.sha256((place / "r.csv").read_bytes()).hexdigest()
    certificate.write_text(json.dumps(facts))


def test_counts_of_undeclared_labels_are_refused_with_a_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = [f"l{i}" for i in seeded(2).integers(0, 4, 400)]
    pl.DataFrame({"label": labels}).write_csv(tmp_path / "a.csv")
    (tmp_path / "open.toml").write_text('[columns.label]\ntype = "open_labels"\n')
    out = tmp_path / "r.csv"
    common = ["release", str(tmp_path / "a.csv"), "--epsilon", "5", "--accept-poor-utility", "--out", str(out)]
    asked = ["audit", "release", str(out), "--data", str(tmp_path / "a.csv"), "--control", str(tmp_path / "a.csv")]
    opened = ["--counts", "--delta", "1e-3", "--mechanism", "stability-histogram"]
    assert run([*common, "--domain", str(tmp_path / "open.toml"), *opened]) == 0
    capsys.readouterr()
    assert run(asked) == 2
    said = capsys.readouterr().err
    assert "since column 'label' declares no cells that records of the control could be counted in.\nAudit" in said
