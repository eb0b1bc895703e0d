"""The HTML report: its structure, what may be in it, and what it says of releases of every kind."""

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pages import Page, reported

import discreet
from discreet import Budget, Unit
from discreet.cli.entry import run
from discreet.domain import Boolean, Category, Date, Domain, Integer, Numeric, OpenLabels
from discreet.domain.column import Column
from discreet.errors import DiscreetError, FileProblem, ParameterError
from discreet.evolution import Callables
from discreet.privacy import compose
from discreet.releases import Certificate
from discreet.releases.verification import guarantee_of
from discreet.report import write_report
from discreet.utility.columns import bins_of

pytest.importorskip("jinja2")

HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)</script>'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of two columns, one with a hostile name, and the confidential table."""
    where = tmp_path_factory.mktemp("report")
    draws = np.random.default_rng(5)
    frame = pl.DataFrame(
        {HOSTILE: draws.integers(0, 90, 4000), "job": draws.choice(["nurse", "cook", HOSTILE], 4000, p=[0.5, 0.4, 0.1])}
    )
    frame.write_parquet(where / "private.parquet")
    domain = Domain(
        columns={HOSTILE: Integer(lower=0, upper=99, cells=20), "job": Category(categories=["nurse", "cook", HOSTILE])}
    )
    (where / "domain.toml").write_text(domain.to_toml(), encoding="utf-8")
    asked = {"size": 800, "mechanism": "smoothed-histogram", "accept": {"poor-utility"}}
    discreet.release(frame, domain, Budget(epsilon=1, delta=1e-7), out=where / "new.csv", **asked)
    return where


@pytest.fixture(scope="module")
def public(folder: Path) -> Page:
    return reported(folder / "new.csv", folder / "public.html")


@pytest.fixture(scope="module")
def own(folder: Path) -> Page:
    private = {"data": folder / "private.parquet", "domain": folder / "domain.toml"}
    made = write_report(folder / "new.csv", folder / "own.html", resamples=10, **private)
    assert made.confidential
    assert made.agrees
    return Page(made.path.read_text(encoding="utf-8"))


def test_a_page_can_be_followed_by_ear_loads_nothing_and_shows_hostile_names_as_text(public: Page, own: Page) -> None:
    assert len([chart for chart in public.all("svg") if chart["class"] == "chart"]) == len(public.all("desc")) == 5
    for page in (public, own):
        page.require_structure()
        page.require_loads_nothing(scripts=1)
        assert "<img" not in page.source
        assert "alert(2)</script>" not in page.source
        assert HOSTILE in page.words


def test_the_promise_is_stated_with_its_numbers(public: Page, folder: Path) -> None:
    words = public.words
    certificate = Certificate.read(folder / "new.certificate.json")
    assert "epsilon1" in words.replace(" ", "")
    assert "4,000 records" in words
    assert "800 synthetic records" in words
    checks = discreet.releases.verify(certificate, data=folder / "new.csv")
    stated = [check.what for check in checks if check.stated]
    assert f"All {len(checks) - len(stated)} checked claims" in words
    assert f"Stated, not checked, since nothing follows from them: {', '.join(stated)}." in words
    assert "Proved: the promise holds for every table" in words
    assert "T5" in words
    assert "chosen at random, in full, would have a delta of 1 in 4,000" in words
    assert "discreet verify new.certificate.json --data new.csv" in words
    assert "This report is about this release alone" in words
    # the power at one per cent, beside an independent evaluation of the profile on its own grid
    guarantee = guarantee_of(certificate)
    grid = np.linspace(0.0, 5.0, 2001)
    deltas = np.array([guarantee.delta(float(e)) for e in grid])
    least = np.minimum(np.exp(grid) * 0.01 + deltas, 1 - np.exp(-grid) * (1 - deltas - 0.01)).min()
    row = re.search(r'<th scope="row">1 %</th><td>([\d.]+) %</td><td>([\d.]+) %</td>', public.source)
    assert row is not None
    assert least <= float(row[1]) / 100 <= 1.01 * least
    assert float(row[2]) / 100 <= 1 - least


def test_without_the_data_nothing_confidential_is_opened_or_shown(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("opened")

    monkeypatch.setattr("discreet.confidential.opening.reveal", refuse)
    write_report(folder / "new.csv", tmp_path / "r.html")
    with pytest.raises(AssertionError, match="opened"):
        write_report(folder / "new.csv", tmp_path / "r.html", data=folder / "private.parquet")


def test_planted_values_are_in_the_confidential_report_only(tmp_path: Path) -> None:
    # The share of the planted category, and the table's mean, are numbers that only the confidential table has.
    n = 7000
    frame = pl.DataFrame({"x": [0.123] * (n - 5) + [876.54321] * 5, "kind": ["a"] * 6191 + ["planted"] * 809})
    domain = Domain(
        columns={"x": Numeric(lower=0, upper=1000, cells=10), "kind": Category(categories=["a", "b", "planted"])}
    )
    frame.write_parquet(tmp_path / "private.parquet")
    asked = {"size": 500, "mechanism": "perturbed-histogram", "out": tmp_path / "z.parquet"}
    discreet.release(frame, domain, Budget(epsilon=0.5), **asked)
    public = reported(tmp_path / "z.parquet", tmp_path / "public.html").source
    own = reported(tmp_path / "z.parquet", tmp_path / "own.html", data=tmp_path / "private.parquet", resamples=2).source
    planted = ("11.56 %", "0.749014", "876.5", "88.44 %")
    for value in planted:
        assert value not in public
    assert planted[0] in own
    assert planted[1] in own
    assert "private.parquet" not in own


def test_a_confidential_report_is_marked_everywhere(own: Page, public: Page) -> None:
    assert "<title>CONFIDENTIAL: " in own.source
    assert own.source.count('class="secret"') == len(own.all("section")) >= 9
    assert own.words.count("Confidential: contains numbers computed from the private data") > 10
    assert 'class="banner"' in own.source
    assert "CONFIDENTIAL" not in re.sub(r"<style>.*?</style>", "", public.source, flags=re.DOTALL)
    assert 'class="banner"' not in public.source
    for words in ("95 % of samples", "Mean, standard deviation and quantiles", "ks"):
        assert words in own.words


def test_several_releases_are_composed(tmp_path: Path) -> None:
    frame = pl.DataFrame({"age": np.arange(5000) % 50})
    domain = Domain(columns={"age": Integer(lower=0, upper=49)})
    asked = {"size": 9, "mechanism": "perturbed-histogram"}
    for name, epsilon in (("a", 1.0), ("b", 0.5)):
        discreet.release(frame, domain, Budget(epsilon=epsilon, delta=1e-9), out=tmp_path / f"{name}.csv", **asked)
    second = tmp_path / "b.certificate.json"
    words = reported(tmp_path / "a.csv", tmp_path / "r.html", also=[second]).words
    both = [Certificate.read(path) for path in (tmp_path / "a.certificate.json", second)]
    profile = compose([guarantee_of(one).profile for one in both])
    stated = re.search(r"all together: epsilon ([\d.]+), delta ([\d.e-]+)", words)
    assert stated is not None
    delta = sum(one.delta for one in both)
    assert float(stated[2]) >= delta * (1 - 1e-9)
    assert min(1.5, profile.epsilon(delta)) <= float(stated[1]) <= 1.5
    assert "Adding up their epsilons would give 1.5" in words
    assert "From all releases together: at most" in words
    with pytest.raises(ParameterError, match="given twice"):
        write_report(tmp_path / "a.csv", tmp_path / "r.html", also=[second, second])


def test_units_of_different_sizes_are_not_composed(folder: Path, tmp_path: Path) -> None:
    frame = pl.DataFrame({"who": np.arange(900) // 2, "age": np.arange(900) % 50})
    domain = Domain(columns={"age": Integer(lower=0, upper=49, nulls="category")})
    asked = {"unit": Unit("who", max_records=2), "size": 200, "accept": {"poor-utility"}}
    discreet.release(frame, domain, Budget(epsilon=2), mechanism="perturbed-histogram", out=tmp_path / "u.csv", **asked)
    words = reported(tmp_path / "u.csv", tmp_path / "u.html").words
    assert "450 units (each one who) with 2 records each" in words
    assert "Everything that the table holds about any one who, up to 2 records together" in words
    with pytest.raises(ParameterError, match="different relations"):
        write_report(folder / "new.csv", tmp_path / "r.html", also=[tmp_path / "u.certificate.json"])
    assert not (tmp_path / "r.html").exists()


def test_a_claim_that_is_not_confirmed_is_said_first(folder: Path, tmp_path: Path) -> None:
    facts = json.loads((folder / "new.certificate.json").read_text(encoding="utf-8"))
    honest = facts["guarantee"]["delta"]
    facts["guarantee"]["delta"], facts["guarantee"]["caveats"] = 1e-30, [{"code": "nothing-to-see"}]
    forged = tmp_path / "forged.json"
    forged.write_text(json.dumps(facts), encoding="utf-8")
    made = write_report(folder / "new.csv", tmp_path / "r.html", certificate=forged)
    assert not made.agrees
    words = Page((tmp_path / "r.html").read_text(encoding="utf-8")).words
    assert "Do not rely on this release. 2 of" in words
    assert "guarantee.delta" in words
    assert "numbers of the promise are right" not in words
    tile = re.search(r"delta, at most ?([\d.e-]+)", words)
    assert tile is not None
    assert float(tile[1]) >= honest  # recomputed, not believed
    arguments = ["report", str(folder / "new.csv"), "--certificate", str(forged), "--out", str(tmp_path / "c.html")]
    assert run(arguments) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [("records", "many"), ("mechanism", {"name": "none"}), ("domain", {"columns": {}}), ("unit", "x"), ("library", 3)],
)
def test_certificates_that_mean_nothing_are_refused(folder: Path, tmp_path: Path, field: str, value: Any) -> None:
    facts = json.loads((folder / "new.certificate.json").read_text(encoding="utf-8"))
    facts[field] = value
    (tmp_path / "bad.json").write_text(json.dumps(facts), encoding="utf-8")
    with pytest.raises(FileProblem):
        write_report(folder / "new.csv", tmp_path / "r.html", certificate=tmp_path / "bad.json")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.json"]


def test_seeded_counts_with_their_own_words(tmp_path: Path) -> None:
    frame = pl.DataFrame({"age": np.arange(3000) % 80, "ill": np.arange(3000) % 3 == 0})
    domain = Domain(columns={"age": Integer(lower=0, upper=99, cells=10), "ill": Boolean()})
    discreet.release(frame, domain, Budget(epsilon=1), counts=True, seed=4, out=tmp_path / "c.csv")
    words = reported(tmp_path / "c.csv", tmp_path / "c.html", data=frame).words
    assert "Seeded: not for publication" in words
    assert "20 counts made from a confidential table of 3,000 records" in words
    assert "The release holds noisy counts of cells" in words
    assert "Distances are for released records" in words
    assert re.search(r"true ?3\d\.\d\d % ?33\.33 %", words)


def test_verbatim_records_are_said_with_their_number(tmp_path: Path) -> None:
    frame = pl.DataFrame({"drug": [f"drug {i % 40}" for i in range(2000)], "dose": np.linspace(0, 1, 2000)})
    domain = Domain(columns={"drug": OpenLabels(), "dose": Numeric(lower=0, upper=1)})
    asked = {"size": 20, "mechanism": "dirichlet-process", "accept": {"weak-promise"}}
    discreet.release(frame, domain, Budget(epsilon=1, delta=0.02), out=tmp_path / "v.csv", **asked)
    words = reported(tmp_path / "v.csv", tmp_path / "v.html").words
    assert "are expected to be confidential records verbatim. Each is one with probability" in words
    assert "which is large for so many records" in words
    assert "T1" in words


def test_nothing_is_written_over_an_input(folder: Path, tmp_path: Path) -> None:
    release, certificate = folder / "new.csv", folder / "new.certificate.json"
    (tmp_path / "data.html").write_text("mine", encoding="utf-8")
    with pytest.raises(FileProblem, match="also an input"):
        write_report(release, tmp_path / "data.html", data=tmp_path / "data.html")
    with pytest.raises(FileProblem, match="ending"):
        write_report(release, certificate)
    with pytest.raises(FileProblem):
        write_report(release, tmp_path / "none" / "r.html")
    other = Domain(columns={"age": Integer(lower=0, upper=9)})
    frame = pl.DataFrame({"age": np.arange(300) % 10})
    asked = {"size": 50, "mechanism": "perturbed-histogram", "out": tmp_path / "other.csv"}
    discreet.release(frame, other, Budget(epsilon=2), **asked)
    with pytest.raises(FileProblem, match="does not fit"):
        certificate = tmp_path / "other.certificate.json"
        write_report(folder / "private.parquet", tmp_path / "r.html", certificate=certificate)
    with pytest.raises(ParameterError, match="only needed with"):
        write_report(release, tmp_path / "r.html", domain=folder / "domain.toml")
    with pytest.raises(ParameterError, match="names other columns"):
        write_report(release, tmp_path / "r.html", data=folder / "private.parquet", domain=other)
    assert (tmp_path / "data.html").read_text(encoding="utf-8") == "mine"
    assert not (tmp_path / "r.html").exists()


def test_attacks_on_single_records_stand_beside_the_control(folder: Path, tmp_path: Path, public: Page) -> None:
    private = folder / "private.parquet"
    asked = ["--holdout", str(private), "--sensitive", "job", "--known", HOSTILE, "--resamples", "0"]
    command = ["report", str(folder / "new.csv"), "--out", str(tmp_path / "own.html")]
    assert run([*command, "--data", str(private), *asked]) == 0
    text = (tmp_path / "own.html").read_text(encoding="utf-8")
    assert len(Page(text).all("h3")) > len(public.all("h3"))
    for words in ("Attacks on single records", "singled out", "guessed blindly", "+0.0%", "Share of tries"):
        assert words in text, words
    assert "No holdout was given" not in text
    assert run([*command[:-1], str(tmp_path / "no.html"), *asked]) == 2  # without the table
    assert not (tmp_path / "no.html").exists()


def test_a_report_of_texts_says_how_near_they_lie_and_what_they_teach(tmp_path: Path) -> None:
    """Embedding distance, and a classifier of held-back texts, beside what fresh and confidential texts reach."""
    words = {"art": ["paint", "brush", "canvas"], "sea": ["sail", "wind", "tide"]}

    def texts(count: int, seed: int) -> pl.DataFrame:
        draws = np.random.default_rng(seed)
        kinds = draws.choice(list(words), count)
        return pl.DataFrame({"text": [" ".join(draws.choice(words[kind], 3)) for kind in kinds], "kind": kinds})

    def letters(frame: pl.DataFrame) -> Any:
        counts = [[text.count(letter) for letter in "acehinprstuvw"] for text in frame["text"]]
        return np.column_stack((counts, 20 * (frame["kind"] == "sea").to_numpy()))

    domain = Domain(columns={"text": OpenLabels(), "kind": Category(categories=list(words))})
    facts: dict[str, Any] = {"vary": lambda frame, seed: texts(len(frame), seed), "embedding": letters}
    api = Callables(domain=domain, label="letters", generate=texts, diameter=60.0, **facts)
    held, kept_out, new = texts(2000, 1), texts(300, 2), tmp_path / "new.csv"
    asked: dict[str, Any] = {"api": api, "size": 300, "out": new, "accept": {"poor-utility"}}
    discreet.release(held, domain, Budget(epsilon=4, delta=1e-6), mechanism="private-evolution", **asked)
    write_report(new, tmp_path / "own.html", data=held, holdout=kept_out, api=api, resamples=2)
    page = Page((tmp_path / "own.html").read_text(encoding="utf-8"))
    page.require_structure()
    cells = {row: re.findall(r"<td>(.*?)</td>", line) for line in page.source.splitlines()
             for row in re.findall(r'<th scope="row">(frechet|precision|recall|auc)</th>', line)}  # fmt: skip
    assert list(cells) == ["frechet", "precision", "recall", "auc"]
    release, _, _, holdout = cells["auc"]
    assert float(release) > 0.95  # the words of one kind are none of the other's
    assert float(holdout) > 0.95
    assert "column 'kind' of held-back records" in page.words
    assert "0.5 is guessing, 1 is best. Under holdout: learned from the table" in page.words
    with pytest.raises(ParameterError, match="api are for the confidential table"):
        write_report(new, tmp_path / "public.html", api=api)


def test_no_message_holds_a_confidential_value(folder: Path, tmp_path: Path) -> None:
    pl.DataFrame({HOSTILE: [987_654], "job": ["secretjob"]}).write_parquet(tmp_path / "odd.parquet")
    with pytest.raises(DiscreetError) as problem:
        write_report(folder / "new.csv", tmp_path / "r.html", data=tmp_path / "odd.parquet")
    assert "987" not in str(problem.value)
    assert "secretjob" not in str(problem.value)
    assert not (tmp_path / "r.html").exists()


def test_the_command_writes_the_report_and_says_when_it_is_confidential(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release, out = str(folder / "new.csv"), str(tmp_path / "r.html")
    assert run(["report", release, "--out", out]) == 0
    assert "CONFIDENTIAL" not in capsys.readouterr().out
    assert run(["report", release, "--out", out, "--data", str(folder / "private.parquet"), "--resamples", "3"]) == 0
    assert "CONFIDENTIAL" in capsys.readouterr().out
    assert run(["report", release, "--out", out, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"out": out, "confidential": False, "agrees": True}
    assert run(["report", release, "--out", release]) == 2
    capsys.readouterr()
    assert run(["report", release, "--out", out, "--table", "x"]) == 2
    assert "--table and --query choose a table of --data.\nAdd --data" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("column", "values", "names"),
    [
        (Integer(lower=0, upper=9), [3, 3, 4, None], ("3", "4")),
        (Integer(lower=0, upper=99, cells=4), [1, 60], ("0 to 24", "25 to 49", "50 to 74")),
        (Boolean(nulls="category"), [True, None], ("false", "true")),
        (Date(lower=date(2020, 1, 1), upper=date(2020, 1, 9)), [date(2020, 1, 2)], ("2020-01-02",)),
        (OpenLabels(), ["b", "a", "b"], ("b", "a")),
        (Numeric(lower=0, upper=1), [0.5, 0.5], ("0.5 to 0.5",)),
        (Integer(lower=0, upper=9, nulls="category"), [None, None], ()),
    ],
)
def test_bins_cover_the_released_values(column: Column, values: list[Any], names: tuple[str, ...]) -> None:
    if column.nulls == "error":
        values = [value for value in values if value is not None]
    series = pl.Series(values, dtype=pl.Int64 if set(values) == {None} else None)
    bins = bins_of(column, series, np.ones(len(series)))
    assert bins.names == names
    shares = bins.shares(series, np.ones(len(series)))
    assert shares.bins.sum() + shares.nulls == pytest.approx(1.0)
    assert shares.beyond == 0.0


def test_long_tails_are_cut_and_said() -> None:
    tail = pl.Series([*range(10)] * 100 + [900])
    bins = bins_of(Integer(lower=0, upper=1000), tail, np.ones(len(tail)))
    assert len(bins.names) == 10
    assert bins.shares(tail, np.ones(len(tail))).beyond == pytest.approx(1 / 1001)


def test_forty_bins_hold_whole_cells_and_negative_counts_are_no_shares() -> None:
    column = Integer(lower=0, upper=999)
    values = pl.Series(np.arange(1000))
    bins = bins_of(column, values, np.ones(1000))
    assert len(bins.names) == 40
    np.testing.assert_allclose(bins.shares(values, np.ones(1000)).bins, 1 / 40)
    weights = np.ones(1000)
    weights[:25] = -3.0
    assert bins.shares(values, weights).bins[0] == 0.0
    assert bins.shares(values, weights).bins.sum() == pytest.approx(1.0)


def test_all_of_sixteen_categories_are_shown_however_rare() -> None:
    names = [f"carrier {i}" for i in range(16)]
    bins = bins_of(Category(categories=names), pl.Series([names[0]]), np.ones(1))
    assert list(bins.names) == names
    shares = bins.shares(pl.Series(names[:2]), np.array([1.0, 3.0]))  # one that no released record has is counted too
    assert shares.bins[:2].tolist() == [0.25, 0.75]
    assert shares.beyond == 0.0


def test_of_sixty_categories_the_forty_most_frequent_are_shown_and_the_others_summed() -> None:
    names = [f"carrier {i}" for i in range(60)]
    weights = np.arange(60, 0, -1.0)
    bins = bins_of(Category(categories=names), pl.Series(names), weights)
    assert list(bins.names) == names[:40]
    assert bins.shares(pl.Series(names), weights).beyond == pytest.approx(weights[40:].sum() / weights.sum())
