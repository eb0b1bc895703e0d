"""Files that were changed: tables in every format, folders, certificates and plans of several releases."""

import gzip
import io
import json
import random
import zipfile
from functools import cache
from pathlib import Path

import polars as pl
import pyarrow as pa
from _spoil import BUDGET, EVOLUTION, NUMBER, ODD_TEXTS, RELEASED, TEXT, Attempt, as_json, spoilt_bytes, spoilt_document

from discreet import Replacement
from discreet.cli.entry import run
from discreet.domain import Domain, Integer
from discreet.errors import DiscreetError, Fault
from discreet.ledger import Request
from discreet.planner.study import Together, plan_together
from discreet.privacy import Budget


def released_with(mechanism: str, out: Path) -> tuple[object, ...]:
    return (*BUDGET, "--size", 5, "--mechanism", mechanism, "--out", out)


def use(attempt: Attempt, rng: random.Random, data: Path, folder: Path) -> None:
    """Give a confidential table to one of the commands that read one."""
    out = folder / f"new.{rng.choice(('csv', 'parquet', 'tsv.gz', 'feather'))}"
    domain, kind = ("--domain", folder / "domain.toml"), rng.randrange(7)
    unit = rng.choice(((), (), ("--unit", "s", "--max-records", 2)))
    if kind <= 2:
        mechanism = rng.choice(("perturbed-histogram", "smoothed-histogram"))
        asked = (*domain, *released_with(mechanism, out), *unit, "--ignore-other-columns")
        attempt("release", data, *asked, new=(out.name, "new.certificate.json"))
    elif kind == 3:
        attempt("compare", data, folder / "smoothed-histogram.parquet", *domain, "--resamples", 2)
    elif kind == 4:
        attempt("domain", "init", data, *rng.choice(((), ("--json",))))
    elif kind == 5:  # without values, which it shows to the custodian
        attempt("domain", "check", data, *domain, *unit, "--examples", 0, "--ignore-other-columns")
    else:
        released = folder / "smoothed-histogram.parquet"
        attempt("report", released, "--data", data, "--resamples", 2, "--out", folder / "p.html", new=("p.html",))


def test_parquet(folder: Path, attempt: Attempt, rng: random.Random) -> None:
    data = folder / "data.parquet"
    if rng.random() < 0.3:
        rows = rng.choice((0, 1, 5, 60))
        odd = [rng.choice((TEXT, NUMBER, None, [1], b"\xff", True, float("nan"), {"a": TEXT}, 2**63, -1e300))] * rows
        columns = {"x": [1.0] * rows, "s": ["a"] * rows}
        columns[rng.choice(("x", "s", "more", ""))] = odd
        pl.DataFrame(columns, strict=False).write_parquet(data)
    if rng.random() < 0.8:
        data.write_bytes(spoilt_bytes(rng, data.read_bytes()))
    use(attempt, rng, data, folder)


def test_arrow(folder: Path, attempt: Attempt, rng: random.Random) -> None:
    """Damaged Arrow files, packed or not, as files or as streams."""
    data, table = folder / "data.arrow", pl.read_parquet(folder / "data.parquet").to_arrow()
    options = pa.ipc.IpcWriteOptions(compression=rng.choice((None, "lz4", "zstd")))
    table = table.replace_schema_metadata(rng.choice((None, {"pandas": TEXT}, {"pandas": '{"index_columns": ["x"]}'})))
    with rng.choice((pa.ipc.new_file, pa.ipc.new_stream))(data, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rng.choice((7, 1000)))
    if rng.random() < 0.9:
        data.write_bytes(spoilt_bytes(rng, data.read_bytes()))
    use(attempt, rng, data, folder)


def test_gzip(folder: Path, attempt: Attempt, rng: random.Random) -> None:
    data = folder / f"data.{rng.choice(('csv', 'tsv'))}.gz"
    text = f"x,s\n{NUMBER},a\n1,{TEXT}\n".encode() * rng.choice((1, 2, 1000))
    raw = gzip.compress(spoilt_bytes(rng, text) if rng.random() < 0.3 else text)
    data.write_bytes(spoilt_bytes(rng, raw) if rng.random() < 0.7 else raw)
    use(attempt, rng, data, folder)


def test_folder(folder: Path, attempt: Attempt, rng: random.Random) -> None:
    """Folders whose parts, or whose names, do not fit."""
    data, table = folder / "table", pl.read_parquet(folder / "data.parquet")
    for value in rng.sample(("a", TEXT, str(NUMBER), "__HIVE_DEFAULT_PARTITION__", "%ff%00", "=", ""), 2):
        part = data / rng.choice((f"s={value}", f"s={value}", f"x={value}", value or "more", f"={value}"))
        part.mkdir(parents=True, exist_ok=True)
        rng.choice((table, table.drop("s"), table.drop("x"))).write_parquet(part / "p.parquet")
        if rng.random() < 0.3:
            (part / "p.parquet").write_bytes(spoilt_bytes(rng, (part / "p.parquet").read_bytes()))
    if rng.random() < 0.1:
        (data / f"{TEXT}.txt").touch()
    use(attempt, rng, data, folder)


def test_released_parquet(folder: Path, attempt: Attempt, rng: random.Random) -> None:
    name = rng.choice(("dirichlet-process", "dirichlet-process", "perturbed-histogram", "smoothed-histogram"))
    released, certificate = folder / f"{name}.parquet", folder / f"{name}.certificate.json"
    released.write_bytes(spoilt_bytes(rng, released.read_bytes()))
    if name == "dirichlet-process":
        attempt("estimate", released, "--functional", "mean", "--draws", 20)
    attempt("verify", certificate, "--data", released)
    if rng.random() < 0.2:
        attempt("compare", folder / "data.parquet", released, "--domain", folder / "domain.toml", "--resamples", 2)


def test_csv(folder: Path, attempt: Attempt, rng: random.Random) -> None:
    data, rows = folder / "data.csv", []
    headers = [["x", "s"], ["x", "s"], ["s", "x", "more"], ["x"], ["x", "x"], [f"{NUMBER}", TEXT], ["'=x", "s"]]
    header = rng.choice([*headers, [TEXT, "47", TEXT], ["", "s"]])
    fields = (
        str(NUMBER), "1", TEXT, "a", "'=b", "=b", "", "NaN", "1e999", "\x00", "\x1b[2J", '"', '"a', "x" * 200_000,
        "2024-01-01", "\ud7ff", "é", "-1", "@SUM(A1)",
    )  # fmt: skip
    for _ in range(rng.choice((0, 1, 3, 50))):
        plain = rng.random() < 0.7
        width = len(header) if plain else rng.randrange(5)
        row = ["1", "a", "c"] if plain else [rng.choice(fields) for _ in range(width)]
        rows.append(row[:width])
    end = rng.choice(("\n", "\r\n", "\r"))
    text = end.join((rng.choice((",", ",", ",", ";", "\t"))).join(row) for row in [header, *rows]) + end
    raw = text.encode(rng.choice(("utf-8", "utf-8", "utf-8-sig", "utf-16", "cp1252")), errors="replace")
    data.write_bytes(spoilt_bytes(rng, raw) if rng.random() < 0.4 else raw)
    use(attempt, rng, data, folder)


def archive_with_a_spoilt_part(rng: random.Random, path: Path) -> bytes:
    """Return a whole archive of which one part was left out, spoilt, or says that it is enormous."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name, kind = rng.choice([part for part in parts if "run" not in part]), rng.randrange(4)
    if kind == 0:
        del parts[name]
    elif kind == 1:
        at, end = parts[name].find(b"'shape'"), parts[name].find(b"\n")
        parts[name] = parts[name][:at] + b"'shape': (10000000000000,), }".ljust(end - at) + parts[name][-8:]
    else:
        parts[name] = spoilt_bytes(rng, parts[name])
    changed = io.BytesIO()
    with zipfile.ZipFile(changed, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, content in parts.items():
            archive.writestr(part, content)
    return changed.getvalue()


def test_checkpoint(folder: Path, attempt: Attempt, rng: random.Random) -> None:
    path = folder / "steps.npz"
    raw = path.read_bytes()
    if zipfile.is_zipfile(path) and rng.random() < 0.5:
        path.write_bytes(archive_with_a_spoilt_part(rng, path))
    elif raw.startswith(b"{") and rng.random() < 0.5:
        line, _, rest = raw.partition(b"\n")
        path.write_bytes(as_json(rng, spoilt_document(rng, json.loads(line))) + b"\n" + rest)
    else:
        path.write_bytes(spoilt_bytes(rng, raw))
    before = path.read_bytes()
    # A checkpoint that is accepted is continued, and may be written again; so this is not left to `attempt`.
    out = folder / "again.parquet"
    given = ["--domain", folder / "domain.toml", *BUDGET, "--mechanism", "private-evolution", *EVOLUTION]
    status = run(
        [str(part) for part in ("release", folder / "data.parquet", *given, "--checkpoint", path, "--out", out)]
    )
    assert status in (0, 2, 3)
    assert out.exists() == (status == 0)
    assert status == 0 or path.read_bytes() == before


# -- certificates -----------------------------------------------------------------------------------------------------

DECLARED = (
    {"impossible": [{"x": {"below": 125_000}, "s": ["a", "c"]}]},
    {"implies": [{"columns": ["s"], "determine": "x", "table": {"a": {"from": 250_000}}}]},
    {"totals": [{"column": "s", "source": "census", "counts": {"a": 1, "=b": 2, "c": 3}}]},
    {"totals": [{"source": "census", "count": 60}]},
)


def test_certificate(folder: Path, attempt: Attempt, rng: random.Random) -> None:
    name = rng.choice([*RELEASED, "evolved"])
    certificate = folder / f"{name}.certificate.json"
    facts = json.loads(certificate.read_text())
    if rng.random() < 0.3:
        facts["domain"] |= rng.choice(DECLARED)
    certificate.write_bytes(as_json(rng, spoilt_document(rng, facts)))
    released = next(path for path in folder.glob(f"{name}.*") if path.suffix in (".csv", ".parquet"))
    as_it_is = rng.choice(([], ["--json"]))
    attempt("verify", certificate, "--seconds", 5, *as_it_is, *rng.choice(([], ["--data", released])))
    if name == "dirichlet-process":
        attempt("estimate", released, "--functional", "mean", "--column", "x", "--draws", 20, *as_it_is)
        attempt("unseen", released, *as_it_is)
    if rng.random() < 0.3:
        attempt("report", released, "--out", folder / "page.html", *as_it_is, new=("page.html",))
    if rng.random() < 0.3:
        attempt("describe", released, "--as", rng.choice(("croissant", "dcat")), "--title", rng.choice(ODD_TEXTS))


def test_tables(folder: Path, attempt: Attempt, rng: random.Random) -> None:
    certificate, table = folder / "tables" / "certificate.json", folder / "tables" / "table-01.parquet"
    if rng.random() < 0.8:
        certificate.write_bytes(as_json(rng, spoilt_document(rng, json.loads(certificate.read_text()))))
    else:
        table.write_bytes(spoilt_bytes(rng, table.read_bytes()))
    if rng.random() < 0.1:
        rng.choice((certificate, table)).unlink()
    attempt("verify", folder / "tables", *rng.choice(([], ["--json"])))


# -- plans of several releases ----------------------------------------------------------------------------------------


@cache
def document() -> str:
    domain = Domain(columns={"age": Integer(lower=0, upper=9)})
    requests = [
        Request(part=name, mechanism=mechanism, domain=domain, relation=Replacement(records=500), size=20)
        for name, mechanism in (("a", "gaussian-smoothed-histogram"), ("b", "stability-histogram"))
    ]
    return json.dumps(plan_together(requests, Budget(epsilon=1.0, delta=1e-6)).to_dict())


def test_plan(rng: random.Random, tmp_path: Path) -> None:
    plan, refused = tmp_path / "plan.json", None
    if rng.random() < 0.8:
        plan.write_bytes(as_json(rng, spoilt_document(rng, json.loads(document()))))
    else:
        plan.write_bytes(spoilt_bytes(rng, document().encode()))
    try:
        read = Together.read(plan, seconds=5.0)
    except DiscreetError as error:
        refused = error
    if refused is None:
        assert read.profile.delta(read.budget.epsilon) <= read.budget.delta
    else:
        assert not isinstance(refused, Fault)
        assert str(refused).isprintable()
        assert len(str(refused)) < 2000
