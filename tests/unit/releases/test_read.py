"""``discreet.read``: a table and its certificate as one object, refused where they do not belong together."""

import json
import re
import shutil
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import discreet
from discreet import Output
from discreet._core import formats
from discreet._core.random import fresh_identity, seeded
from discreet.confidential import confidential
from discreet.domain import (
    Boolean,
    Category,
    Counts,
    Date,
    Datetime,
    Decimal,
    Domain,
    Duration,
    Integer,
    Numeric,
    OpenLabels,
)
from discreet.errors import DataError, FileProblem, MissingExtra, ParameterError
from discreet.inference import ReleaseTakenForSample
from discreet.mechanisms import PerturbedHistogram
from discreet.privacy import Budget
from discreet.releases import Certificate, verify

GOLDEN = Path(__file__).parents[2] / "golden"
DICE = Domain(columns={"eyes": Integer(lower=1, upper=6)})
EVERY_KIND = Domain(
    columns={
        "income": Numeric(lower=1, upper=1e6, cells=2, spacing="log", nulls="category"),
        "age": Integer(lower=0, upper=99, cells=2),
        "member": Boolean(nulls="category"),
        "born": Date(lower="1900-01-01", upper="1999-12-31", cells=2),
        "seen": Datetime(lower="2024-01-01", upper="2024-12-31", step="1d", cells=2),
        "lasted": Duration(lower="0s", upper="1h", step="1m", cells=2),
        "price": Decimal(lower="0", upper="99.99", digits=2, cells=2),
        "sex": Category(categories=["=female", "male"]),
    }
)


def rolls(count: int = 800) -> pl.DataFrame:
    return pl.DataFrame({"eyes": np.tile([1, 2, 3, 4, 5, 6, 6, 6], count // 8)})


def made(out: Path | None = None, certificate: Path | None = None, **asked: Any) -> Any:
    how = {"budget": Budget(epsilon=4.0, delta=1e-3), "size": 40, "mechanism": "dirichlet-multinomial", **asked}
    return discreet.release(rolls(), DICE, out=Output(out, certificate=certificate), **how)


# -- the identity -----------------------------------------------------------------------------------------------------


def test_an_identity_is_128_fresh_bits_and_stands_in_both(tmp_path: Path) -> None:
    found = [made(tmp_path / f"{i}.parquet") for i in range(3)]
    identities = [one.certificate.identity for one in found]
    assert len(set(identities)) == 3
    assert all(re.fullmatch("[0-9a-f]{32}", identity) for identity in identities)
    assert [formats.texts(one.path, formats.PARQUET)["discreet.identity"] for one in found] == identities
    assert len({fresh_identity() for _ in range(100)}) == 100


def test_the_two_files_of_one_release_have_one_identity(tmp_path: Path) -> None:
    release = made()
    release.write(tmp_path / "a.parquet")
    release.write(tmp_path / "b.csv")
    written = [Certificate.read(tmp_path / name).identity for name in ("a.certificate.json", "b.certificate.json")]
    assert written == [release.certificate.identity] * 2


def test_a_seeded_release_has_none_and_is_the_same_byte_for_byte(tmp_path: Path) -> None:
    first, second = (made(tmp_path / f"{name}.parquet", seed=3, certificate=tmp_path / name / "c.json")
                     for name in ("a", "b") if (tmp_path / name).mkdir() is None)  # fmt: skip
    assert first.certificate.identity is None
    assert "identity" not in first.certificate.to_dict()
    assert first.path.read_bytes() == second.path.read_bytes()
    assert discreet.read(first.path, first.certificate_path).table().height == 40


def changed(path: Path, **facts: Any) -> Path:
    held = {**json.loads(path.read_text()), **facts}
    if held["identity"] is None:
        del held["identity"]
    path.write_text(json.dumps(held))
    return path


def disagreeing(certificate: Path, data: Path) -> list[str]:
    return [check.what for check in verify(certificate, data=data) if not check.agrees]


def test_two_identities_are_refused_by_read_and_by_verify(tmp_path: Path) -> None:
    path, certificate = tmp_path / "z.parquet", tmp_path / "z.certificate.json"
    release = made(path)
    assert discreet.read(path).certificate == release.certificate
    assert disagreeing(certificate, path) == []
    for other in (fresh_identity(), None):  # a certificate of another release, and one without
        changed(certificate, identity=other)
        with pytest.raises(FileProblem, match="from another release"):
            discreet.read(path)
        with pytest.raises(FileProblem, match="from another release"):
            discreet.inference.posterior(path)
        missing = ["identity"] if other is None else []
        assert disagreeing(certificate, path) == [*missing, "released.identity (in the file)"]


def test_a_file_without_its_identity_is_another_file(tmp_path: Path) -> None:
    """Another writer drops the metadata. The hash tells; and where it is set right, the identity still does."""
    path, certificate = tmp_path / "z.parquet", tmp_path / "z.certificate.json"
    made(path)
    pl.read_parquet(path).write_parquet(path)
    with pytest.raises(FileProblem, match="not the file"):
        discreet.read(path)
    assert disagreeing(certificate, path) == ["released.sha256", "released.identity (in the file)"]


@pytest.mark.filterwarnings("ignore:the release of")
def test_a_column_of_csv_may_have_quotes_in_its_name(tmp_path: Path) -> None:
    name = 'a "b" c'
    frame, domain = pl.DataFrame({name: [1, 2, 3, 3] * 100}), Domain(columns={name: Integer(lower=1, upper=3)})
    for ending in (".csv", ".tsv.gz"):
        discreet.release(frame, domain, Budget(epsilon=1), size=50, out=tmp_path / f"z{ending}")
        assert discreet.read(tmp_path / f"z{ending}").table().schema == pl.Schema({name: pl.Int64})
        assert disagreeing(tmp_path / "z.certificate.json", tmp_path / f"z{ending}") == []
        (tmp_path / "z.certificate.json").unlink()
        (tmp_path / f"z{ending}").unlink()


def test_a_csv_file_is_known_by_its_hash(tmp_path: Path) -> None:
    made(tmp_path / "z.csv")
    assert disagreeing(tmp_path / "z.certificate.json", tmp_path / "z.csv") == []
    with (tmp_path / "z.csv").open("a") as file:
        file.write("6\n")
    with pytest.raises(FileProblem, match="not the file"):
        discreet.read(tmp_path / "z.csv")


def test_earlier_releases_without_an_identity_are_read(tmp_path: Path) -> None:
    path = GOLDEN / "0.1.0" / "dirichlet-multinomial-seeded.csv"
    released = discreet.read(path)
    assert released.certificate.identity is None
    assert_frame_equal(released.table(), pl.read_csv(path).cast(dict(released.table().schema)), check_dtypes=True)
    folder = discreet.read(GOLDEN / "0.1.0" / "censored-grid")
    assert [table.columns for table in folder.table()] == [folder.certificate.facts.released.columns] * 2
    with pytest.raises(ParameterError, match="combine"):
        folder.posterior()


def test_a_folder_is_read_as_a_folder() -> None:
    folder = GOLDEN / "0.1.0" / "censored-grid"
    with pytest.raises(ParameterError, match="Leave out"):
        discreet.read(folder, folder / "certificate.json")
    with pytest.raises(FileProblem, match="folder of tables"):
        discreet.read(folder / "table-01.parquet", folder / "certificate.json")
    with pytest.raises(ParameterError, match="Give the folder"):
        discreet.read(pl.read_parquet(folder / "table-01.parquet"), folder / "certificate.json")


# -- where the certificate is -----------------------------------------------------------------------------------------


def test_the_certificate_is_beside_it_named_or_where_the_file_says(tmp_path: Path) -> None:
    made(tmp_path / "z.parquet", certificate=tmp_path / "other.json")
    beside = discreet.read(tmp_path / "z.parquet")
    assert beside.certificate_path == tmp_path / "other.json"
    (tmp_path / "sub").mkdir()
    moved = shutil.move(tmp_path / "other.json", tmp_path / "sub" / "c.json")
    with pytest.raises(FileProblem, match=r"other\.json is not beside it"):
        discreet.read(tmp_path / "z.parquet")
    named = discreet.read(tmp_path / "z.parquet", moved)
    given = discreet.read(str(tmp_path / "z.parquet"), Certificate.read(moved))
    assert named.certificate == given.certificate == beside.certificate
    for certificate in (moved, None):
        with pytest.raises(FileProblem, match="there is no such file"):
            discreet.read(tmp_path / "none.parquet", certificate)


def test_a_name_in_a_file_leads_nowhere_else(tmp_path: Path) -> None:
    """What a file says of its certificate is a name beside it, whatever stands there."""
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "z.parquet"
    rolls().write_parquet(path, metadata={"discreet.certificate": "../secret.json"})
    (tmp_path / "secret.json").write_text("{}")
    with pytest.raises(FileProblem, match=r"certificate secret\.json is not beside it"):
        discreet.read(path)


def test_a_dataframe_needs_its_certificate_and_is_whole() -> None:
    release = made()
    held = discreet.read(release.records, release.certificate)
    assert held.table() is release.records
    assert held.to_pandas()["eyes"].tolist() == release.records["eyes"].to_list()
    as_pandas = discreet.read(held.to_pandas(), release.certificate)
    assert_frame_equal(as_pandas.table(), release.records)
    with pytest.raises(ParameterError, match="give the certificate"):
        discreet.read(release.records)
    with pytest.raises(DataError, match="39 rows, and its certificate is of 40"):
        discreet.read(release.records.head(39), release.certificate)
    with pytest.raises(DataError, match="'eyes'"):
        discreet.read(release.records.rename({"eyes": "other"}), release.certificate)
    with pytest.raises(ParameterError, match="a table or a file"):
        discreet.read(3, release.certificate)
    with pytest.raises(ParameterError, match="certificate must be"):
        discreet.read("z.parquet", 3)


# -- what it gives ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize("counts", [False, True])
def test_every_kind_of_column_comes_back_as_it_was_released(ending: str, counts: bool, tmp_path: Path) -> None:
    data = EVERY_KIND.decode(EVERY_KIND.draw_base(400, seeded(1)), rng=seeded(1))
    asked = {"mechanism": "perturbed-histogram", "counts": counts, "size": None if counts else 60, "seed": 1}
    release = discreet.release(data, EVERY_KIND, Budget(epsilon=4.0), accept={"poor-utility"}, **asked)
    release.write(tmp_path / f"z{ending}")
    assert_frame_equal(discreet.read(tmp_path / f"z{ending}").table(), release.records)


def test_labels_come_back(tmp_path: Path) -> None:
    towns = Domain(columns={"town": OpenLabels()})
    data = pl.DataFrame({"town": ["=Paris", "Lyon", "'Nice"] * 200})
    release = discreet.release(data, towns, Budget(epsilon=4.0, delta=1e-3), mechanism="stability-histogram", size=50)
    release.write(tmp_path / "z.csv")
    assert_frame_equal(discreet.read(tmp_path / "z.csv").table(), release.records)


def test_it_says_what_it_is(tmp_path: Path) -> None:
    release = made(tmp_path / "z.csv")
    released = discreet.read(tmp_path / "z.csv")
    assert released.domain == DICE
    assert released.promise == release.certificate.statement
    assert "z.csv" in repr(released)
    assert "40 records from 800" in repr(released)
    assert "columns eyes" in repr(released)
    assert "<li>" in released._repr_html_()
    with pytest.raises(FileProblem, match="was written to"):
        released.write(tmp_path / "y.csv")


def urn(size: int, held: int) -> Any:
    values = pl.DataFrame({"x": seeded(1).random(held)})
    domain = Domain(columns={"x": Numeric(lower=0, upper=1)})
    return discreet.release(
        values,
        domain,
        Budget(epsilon=100.0, delta=0.9),
        size=size,
        mechanism="dirichlet-process",
        strength=100.0,
        accept={"weak-promise"},
    )


def test_the_posterior_is_computed_once_and_estimates_come_from_it(tmp_path: Path) -> None:
    urn(50, 400).write(tmp_path / "z.parquet")
    released = discreet.read(tmp_path / "z.parquet")
    assert released.posterior() is released.posterior()
    assert released.posterior(draws=50).draws == 50
    assert released.posterior().draws == 1000
    asked = released.estimate(["mean", "P(>0.5)"], level=0.9)
    assert asked == released.posterior().summary(["mean", "P(>0.5)"], level=0.9)
    again = discreet.read(tmp_path / "z.parquet")
    assert again.estimate(["mean"]) == released.estimate(["mean"])
    frame = discreet.read(pl.read_parquet(tmp_path / "z.parquet"), tmp_path / "z.certificate.json")
    assert frame.estimate(["mean"]) == released.estimate(["mean"])


# -- records are no sample --------------------------------------------------------------------------------------------


def test_the_table_warns_once_with_the_number() -> None:
    release = urn(500, 500)
    with pytest.warns(ReleaseTakenForSample, match="1.73 times as wide") as caught:
        release.table()
    assert caught[0].filename == __file__
    assert isinstance(caught[0].message, ReleaseTakenForSample)
    assert (caught[0].message.released, caught[0].message.held) == (500, 500)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        release.table()
        release.to_pandas()
        urn(5, 500).table()  # 1 % too small is not visible
        made(size=None, mechanism="perturbed-histogram", counts=True).table()
    assert "1.73 times as wide" in release._repr_html_()


@pytest.mark.parametrize("sampling", ["iid", "stratified"])
def test_the_number_for_noisy_counts_is_about_right(sampling: str) -> None:
    """Of 600 tables of 400 records and releases of as many, against s / sqrt(m).

    The standard deviation of 600 means is known to 2.9 %: five of its standard errors are 15 %, a false alarm of 6e-7.
    Without the noise the number would be 29 % and 22 % smaller.
    """
    domain, budget = Domain(columns={"x": Integer(lower=0, upper=9)}), Budget(epsilon=0.4)
    options = {"noise": "laplace", "sampling": sampling}
    data = pl.DataFrame({"x": np.arange(400) % 10})
    release = discreet.release(data, domain, budget, size=400, mechanism="perturbed-histogram", **options)
    with pytest.warns(ReleaseTakenForSample) as caught:
        release.table()
    assert isinstance(caught[0].message, ReleaseTakenForSample)
    mechanism = PerturbedHistogram.calibrated(budget, domain=domain, n=400, size=400, **options)
    cells, rng, means = domain.unflat(np.arange(10)), seeded(5), []
    for _ in range(600):
        table = Counts(records=cells, frequencies=np.bincount(rng.integers(0, 10, 400), minlength=10))
        drawn = mechanism.reading(mechanism.kernel(table, rng=rng), n=400).draw(400, rng=rng)
        means.append(np.concatenate([records.columns[0] for records in drawn]).mean())
    naive = np.sqrt(99 / 12 / 400)
    assert np.std(means) / naive == pytest.approx(caught[0].message.factor, rel=0.15)


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=re.escape("pip install 'discreet[pandas]'")):
        made().to_pandas()


def test_a_release_of_an_unregistered_mechanism_is_displayed_and_read(tmp_path: Path) -> None:
    """Nothing can be estimated from it, and its certificate cannot be verified here; it can be looked at."""

    @dataclass(frozen=True, kw_only=True)
    class Own(PerturbedHistogram):
        """A mechanism that no registry has."""

        name: ClassVar[str] = "own-histogram"

    domain = Domain(columns={"v": Integer(lower=0, upper=9)})
    held = confidential(pl.DataFrame({"v": [1, 2, 3, 4] * 500}), domain)
    mechanism = Own.calibrated(Budget(epsilon=1, delta=1e-9), domain=domain, n=2000)
    released = discreet.release(held, mechanism=mechanism, size=1000).write(tmp_path / "z.parquet")
    for one in (released, discreet.read(tmp_path / "z.parquet")):
        for shown in (str(one), repr(one), one._repr_html_(), one.certificate._repr_html_()):
            assert "own-histogram" in shown or "Whatever the other records" in shown
        assert one.table().height == 1000
        with pytest.raises(ParameterError, match="no mechanism 'own-histogram'"):
            one.estimate(["mean"])
    assert disagreeing(tmp_path / "z.certificate.json", tmp_path / "z.parquet") == ["certificate"]
