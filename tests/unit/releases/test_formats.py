"""A release is written, checked and read in every format; the same records are the same bytes where gzip packs them."""

import gzip
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.feather
import pytest

import discreet
from discreet._core import formats
from discreet._core.formats import format_of, with_ending
from discreet.cli.entry import run
from discreet.confidential import confidential
from discreet.confidential.closed import reveal
from discreet.domain import Boolean, Category, Date, Datetime, Decimal, Domain, Duration, Integer, Numeric
from discreet.errors import FileProblem, MissingExtra
from discreet.inference import ReleaseTakenForSample
from discreet.mechanisms import SmoothedHistogram
from discreet.privacy import Budget
from discreet.releases.table import file_text
from discreet.releases.writing import CERTIFICATE_KEY, IDENTITY_KEY, write_table

ENDINGS = formats.ENDINGS.replace(" or ", ", ").split(", ")
DOMAIN = Domain(
    columns={
        "x": Numeric(lower=0, upper=1, cells=2, nulls="category"),
        "i": Integer(lower=1, upper=2),
        "s": Category(categories=["=1+1", "a\tb", 'é",'], nulls="category"),
        "b": Boolean(),
        "d": Date(lower="2024-01-01", upper="2024-01-02"),
        "t": Datetime(lower="2024-01-01", upper="2024-01-02", step="1d", time_zone="UTC"),
        "u": Duration(lower="0s", upper="1h", step="1h"),
        "m": Decimal(lower="0", upper="0.1", digits=1),
    }
)
ASKED = {"budget": Budget(epsilon=5.0), "size": 50, "mechanism": "smoothed-histogram", "accept": {"poor-utility"}}
TABLE = DOMAIN.decode(DOMAIN.draw_base(300, np.random.default_rng(1)), rng=np.random.default_rng(2))


@pytest.mark.parametrize("ending", ENDINGS)
def test_written_verified_described_and_read(ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / f"a.b{ending}"
    made = discreet.release(TABLE, DOMAIN, **ASKED)
    written = made.write(out)
    certificate = tmp_path / "a.b.certificate.json"
    assert written.certificate_path == certificate
    checks = discreet.verify(certificate, data=out)
    assert [one.what for one in checks if not one.agrees] == []
    form = format_of(out)
    assert form is not None
    assert ("released.identity (in the file)" in [one.what for one in checks]) is not form.texts
    assert file_text(out, CERTIFICATE_KEY) == (None if form.texts else certificate.name)
    assert form.media
    assert run(["describe", str(out), "--as", "dcat"]) == 0
    assert f"media-types/{form.media}" in capsys.readouterr().out
    read = discreet.read(out)
    with pytest.warns(ReleaseTakenForSample):
        assert read.table().equals(made.records)
    assert reveal(confidential(out.rename(tmp_path / f"T{ending.upper()}"), DOMAIN)).n == 50
    assert format_of(out) == format_of(f"x{ending.upper()}")


def test_another_library_reads_what_it_can(tmp_path: Path) -> None:
    out = tmp_path / "t.feather"
    made = discreet.release(TABLE, DOMAIN, **ASKED)
    made.write(out)
    table = pyarrow.feather.read_table(out)
    assert pl.from_arrow(table).equals(made.records)  # type: ignore[union-attr]
    assert "string_view" not in str(table.schema)


def test_an_arrow_file_and_its_certificate_hold_one_identity(tmp_path: Path) -> None:
    for name in ("a", "b"):
        discreet.release(TABLE, DOMAIN, **ASKED).write(tmp_path / f"{name}.arrow")
    assert file_text(tmp_path / "a.arrow", IDENTITY_KEY) != file_text(tmp_path / "b.arrow", IDENTITY_KEY)
    (tmp_path / "b.certificate.json").replace(tmp_path / "a.certificate.json")
    with pytest.raises(FileProblem):
        discreet.read(tmp_path / "a.arrow")
    checks = discreet.verify(tmp_path / "a.certificate.json", data=tmp_path / "a.arrow")
    assert "released.identity (in the file)" in [one.what for one in checks if not one.agrees]


@pytest.mark.parametrize("ending", [".csv.gz", ".tsv.gz", ".tsv", ".csv"])
def test_the_same_records_are_the_same_bytes(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def packed(parts: list[pl.DataFrame]) -> bytes:
        path = tmp_path / f"t{ending}"
        with path.open("wb") as file:
            assert (
                write_table(iter(parts), dict(TABLE.schema), file, named=path, columns=DOMAIN.columns).rows
                == TABLE.height
            )
        return path.read_bytes()

    parts = [TABLE.head(7), TABLE.slice(7)]
    first = packed(parts)
    monkeypatch.setattr("time.time", lambda: 424_242_171.0)
    assert packed(parts) == first
    text = gzip.decompress(first) if ending.endswith(".gz") else first
    assert b"'=1+1" in text
    assert b"\t" in text.splitlines()[0] if ".tsv" in ending else b"," in text.splitlines()[0]
    if ending.endswith(".gz"):
        assert first[4:8] == b"\0\0\0\0"
        assert not first[3]  # no name


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_seeded_release_is_the_same_bytes_each_time(ending: str, tmp_path: Path) -> None:
    mechanism = SmoothedHistogram.calibrated(Budget(epsilon=5.0), domain=DOMAIN, n=300, size=50)
    closed, written = confidential(TABLE, DOMAIN), []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        out = tmp_path / name / f"t{ending}"
        discreet.release(closed, mechanism=mechanism, size=50, out=out, seed=1, accept={"poor-utility"})
        written.append(out.read_bytes())
    assert written[0] == written[1]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_write_that_fails_leaves_nothing(ending: str, tmp_path: Path) -> None:
    def frames() -> Iterator[pl.DataFrame]:
        yield TABLE
        raise ValueError("canary424242171")

    with (tmp_path / f"t{ending}").open("wb") as file, pytest.raises(FileProblem, match="cannot be written") as found:
        write_table(frames(), dict(TABLE.schema), file, named=Path(f"t{ending}"))
    assert "canary" not in str(found.value)


@pytest.mark.parametrize("ending", [".csv.gz", ".tsv", ".feather", "/"])
def test_the_command(ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, domain, out = tmp_path / f"in{ending}", tmp_path / "d.toml", tmp_path / f"out{ending.strip('/') or '.pq'}"
    table = pl.DataFrame({"i": [1, 2, 2] * 100, "s": ["=a", "b", "b"] * 100})
    if ending == "/":
        for part in (1, 2):
            folder = data / f"i={part}"
            folder.mkdir(parents=True)
            table.filter(i=part).drop("i").write_parquet(folder / "p.parquet")
    else:
        with data.open("wb") as file:
            write_table(iter([table]), dict(table.schema), file, named=data)
    domain.write_text('[columns.i]\ntype = "integer"\nlower = 1\nupper = 2\n\n[columns.s]\ntype = "category"\n'
                      'categories = ["=a", "b"]\n')  # fmt: skip
    assert run(["domain", "init", str(data)]) == 0
    assert "[columns.s]" in capsys.readouterr().out
    assert run(["domain", "check", str(data), "--domain", str(domain)]) == 0
    given = ["--domain", str(domain), "--epsilon", "5", "--mechanism", "perturbed-histogram", "--size", "200"]
    assert run(["release", str(data), *given, "--out", str(out)]) == 0
    assert run(["verify", str(tmp_path / "out.certificate.json"), "--data", str(out)]) == 0
    assert run(["compare", str(data), str(out), "--domain", str(domain), "--resamples", "2"]) == 0
    assert run(["report", str(out), "--data", str(data), "--resamples", "2", "--out", str(tmp_path / "p.html")]) == 0
    assert run(["estimate", str(out), "--functional", "mean", "--column", "i", "--draws", "20"]) == 0
    # The table itself is no reference, and nothing is written into a folder that is read.
    capsys.readouterr()
    other = [*given[:-4], "--size", "200", "--reference", str(data), "--out", str(tmp_path / "other.csv.gz")]
    assert run(["release", str(data), *other]) == 2
    assert "given as public is the confidential table" in capsys.readouterr().err
    if ending == "/":
        assert run(["release", str(data), *given, "--out", str(data / "out.pq")]) == 2
        assert "it lies in the folder that is read" in capsys.readouterr().err
        assert not (data / "out.pq").exists()


def test_a_public_table_of_another_format_is_known_as_the_confidential_one(tmp_path: Path) -> None:
    closed = confidential(TABLE, DOMAIN)
    assert closed.provenance is not None
    with (tmp_path / "t.csv.gz").open("wb") as file:
        write_table(iter([TABLE]), dict(TABLE.schema), file, named=tmp_path / "t.csv.gz", columns=DOMAIN.columns)
    with pytest.raises(discreet.errors.NotPublic):
        discreet.release(TABLE, DOMAIN, Budget(epsilon=5.0), size=5, reference=tmp_path / "t.csv.gz")


def test_arrow_files_need_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pl.DataFrame({"i": [1, 2]}).write_ipc(tmp_path / "t.arrow")
    domain = Domain(columns={"i": Integer(lower=1, upper=2)})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for data, out in (("t.arrow", "o.csv"), ("t.csv", "o.feather")):
        pl.DataFrame({"i": [1, 2]}).write_csv(tmp_path / "t.csv")
        with pytest.raises(
            MissingExtra, match=r"an Arrow file needs PyArrow. Install it: pip install 'discreet\[arrow\]'"
        ):
            discreet.release(tmp_path / data, domain, Budget(epsilon=5.0), size=5, out=tmp_path / out)
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(".")) == ["t.arrow", "t.csv"]


def test_endings() -> None:
    assert [with_ending(Path(f"a/x.y{ending}"), ".z").name for ending in ENDINGS] == ["x.y.z"] * len(ENDINGS)
    assert with_ending(Path("a/x.y"), ".z").name == "x.z"
    assert with_ending(Path("a/.csv"), ".z").name == ".csv.z"
    for name in ("x.txt", ".csv", "x.gz", "csv", "x.parquet.gz", "x.csv.zip"):
        assert format_of(name) is None
