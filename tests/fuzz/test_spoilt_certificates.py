"""Certificates that were changed: of releases, and of folders of tables."""

from __future__ import annotations

import json
import random
from pathlib import Path

from _spoil import ODD_TEXTS, RELEASED, Attempt, as_json, spoilt_bytes, spoilt_document

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
