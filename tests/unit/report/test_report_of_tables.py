"""The report of tables from a model: the same page, with what is different about them said."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet import release
from discreet._core.random import seeded
from discreet.cli.entry import run
from discreet.confidential import confidential
from discreet.domain import Category, Domain, Integer
from discreet.pseudo_posterior import CensoredPosterior
from discreet.pseudo_posterior.synthesiser import FromModel
from discreet.releases.release import Release
from discreet.report import write_report

GOLDEN = Path(__file__).parents[2] / "golden"
DOMAIN = Domain(columns={"visits": Integer(lower=0, upper=60), "sex": Category(categories=["f", "m"])})
TABLE = pl.DataFrame({"visits": seeded(1).poisson(20.0, size=80), "sex": ["f", "m"] * 40})


def model(data: Any) -> None:
    import numpyro
    import numpyro.distributions as dist

    mean = numpyro.sample("mean", dist.Uniform(1.0, 50.0))
    with numpyro.plate("records", len(data["visits"])):
        numpyro.sample("visits", dist.Poisson(mean), obs=data["visits"])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """Two tables whose visits are drawn on a grid, and whose sexes are published as they are."""
    synthesiser, grid = FromModel(function=model, sensitive=("visits",), given=("sex",)), np.linspace(1.0, 50.0, 50)
    posterior = CensoredPosterior(synthesiser, bound=0.25, tables=2, grid={"mean": grid})
    return release(confidential(TABLE, DOMAIN), mechanism=posterior, out=tmp_path_factory.mktemp("report") / "tables")


def words(page: Path) -> str:
    text = page.read_text(encoding="utf-8")
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", text[text.index("<header>") :]))


def test_the_sentence_comes_first_and_names_what_it_is_about(made: Release, tmp_path: Path) -> None:
    report = write_report(made.path or "", tmp_path / "r.html")
    assert report.agrees
    said = words(report.path)
    sentence = (
        "Whatever the other records, an attacker who tests which of two values one record has in visits "
        "detects it with probability at most e^1 a, where a is the probability of a false alarm."
    )
    assert made.certificate.text.startswith("The best attacker")
    assert sentence in made.certificate.text
    assert said.index("true suspicions about") < said.index("2 tables of 80 synthetic records") < said.index(sentence)
    assert "Only visits, in every single record" in said
    assert "sex of every record can be read from the release, exactly as held" in said
    assert "Those of sex are." in said
    assert "epsilon of each table0.5" in said.replace("table 0.5", "table0.5")
    for table in made.certificate.tables:
        assert str(table.sha256) in said
    assert "discreet verify tables" in said
    assert "formal differential privacy" not in said


def test_the_shares_are_those_of_all_tables_together(made: Release, tmp_path: Path) -> None:
    said = words(write_report(made.path or "", tmp_path / "r.html").path)
    tables = pl.concat([pl.read_parquet(file) for file in sorted((made.path or Path()).glob("*.parquet"))])
    assert len(tables) == 160
    assert tables["sex"].value_counts()["count"].to_list() == [80, 80]
    assert re.search(r"f 50 % m 50 %", said)
    assert "the shares of all tables together" in said


def test_the_folder_its_certificate_and_the_command_give_the_same_report(
    made: Release, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_report(made.path or "", tmp_path / "a.html")
    write_report(made.certificate_path or "", tmp_path / "b.html")
    assert run(["report", str(made.path), "--out", str(tmp_path / "c.html")]) == 0
    assert capsys.readouterr().out == f"wrote {tmp_path / 'c.html'}\n"
    pages = [(tmp_path / f"{name}.html").read_text() for name in "abc"]
    assert pages[0] == pages[1] == pages[2]


def test_the_custodian_sees_the_first_table_beside_the_data(made: Release, tmp_path: Path) -> None:
    TABLE.write_parquet(tmp_path / "data.parquet")
    report = write_report(made.path or "", tmp_path / "own.html", data=tmp_path / "data.parquet", resamples=3)
    assert report.confidential
    said = words(report.path)
    assert "How far the 80 released records of table-01.parquet are from the 80 confidential ones" in said


def test_a_changed_table_is_said_first_and_a_folder_without_certificate_refused(
    made: Release, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(made.path or "", tmp_path / "tables")
    pl.DataFrame({"visits": [1], "sex": ["f"]}).write_parquet(folder / "table-02.parquet")
    report = write_report(folder, tmp_path / "r.html")
    assert not report.agrees
    assert "Do not rely on this release. 1 of " in words(report.path)
    assert run(["report", str(folder), "--out", str(folder / "table-01.parquet")]) == 2
    (folder / "certificate.json").unlink()
    assert run(["report", str(folder), "--out", str(tmp_path / "none.html")]) == 2
    assert "certificate.json" in capsys.readouterr().err
    assert not (tmp_path / "none.html").exists()


@pytest.mark.parametrize("version", sorted(path.name for path in GOLDEN.iterdir() if path.name[0].isdigit()))
def test_what_is_not_proved_is_never_shown_as_if_it_were(version: str, tmp_path: Path) -> None:
    for name, said in (("pseudo-posterior", "This is not formal differential privacy."),
                       ("censored-chain", "This promise is not proved.")):  # fmt: skip
        path = write_report(GOLDEN / version / name, tmp_path / f"{name}.html").path
        page, text = path.read_text(), words(path)
        assert page.index('<p class="alarm"') < page.index("<nav")
        assert said in text
        assert 'class="fine"' not in page
        assert "with differential privacy" not in text
        assert ("rare and extreme" in text) is (name == "censored-chain")
        assert ("never worse" in text) is (name == "censored-chain")


def test_tables_compose_with_a_release_of_a_mechanism(made: Release, tmp_path: Path) -> None:
    facts = json.loads((made.certificate_path or Path()).read_text())
    also = GOLDEN / "0.1.0" / "perturbed-histogram.certificate.json"
    said = words(write_report(made.path or "", tmp_path / "r.html", also=[also]).path)
    assert facts["guarantee"]["epsilon"] == 1.0
    assert "The 2 releases whose certificates were given promise, all together" in said
    assert "perturbed-histogram" in said
