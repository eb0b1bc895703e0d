"""Domains that nobody would declare, as TOML: wrong, contradictory, deep, wide and huge."""

import random
from dataclasses import fields
from pathlib import Path

from _spoil import ASKED, DOMAIN, ODD_NUMBERS, ODD_TEXTS, WRITTEN, Attempt, spoilt_bytes

from discreet.domain.declaration import KINDS, column_type

TYPES = (*KINDS, "string")
KEYS = ("type", *sorted({item.name for kind in KINDS for item in fields(column_type(kind))}))
WORDS = (
    '"log"', '"category"', '"error"', '"clip"', '"1h"', '"0s"', '"1us"', "2020-01-01", "2021-01-01T00:00:00Z", "true",
    '"Europe/Paris"', '"float32"', '"int8"', "[1, 2, 3]", '["a", "b"]', "[0.5, 0.25]", "{weights = [1, 2]}", '"0.01"',
    '{distribution = "lognorm", s = 1.0}', '{distribution = "norm", scale = -1.0}', "inf", "nan", "0x7f", "12:00:00",
    '"9999-12-31"', "0001-01-01", '"999999999999d"', "[[1], [2]]", "[]", "{}", "1e400", '"1e400"', "9" * 30,
)  # fmt: skip

MOST_BYTES = 20 * 2**20  # of one declared table: more than a domain file may have, and no burden to write


def literal(rng: random.Random) -> str:
    kind = rng.randrange(6)
    if kind == 0:
        return repr(rng.choice(ODD_NUMBERS))
    if kind == 1:
        text = rng.choice(ODD_TEXTS)
        return '"' + "".join(c if c.isalnum() else f"\\u{ord(c):04x}" for c in text if ord(c) < 0xD800) + '"'
    if kind == 2:
        return rng.choice(("9" * 5000, "[" * 3000 + "]" * 3000, "{a = " * 500 + "1" + "}" * 500, "1" + "_0" * 3000))
    return rng.choice(WORDS)


def column(rng: random.Random, name: str) -> str:
    facts = {"type": f'"{rng.choice(TYPES)}"', "lower": "0", "upper": rng.choice(("1", "100", "1000000000"))}
    for _ in range(rng.randrange(4)):
        facts[rng.choice(KEYS)] = literal(rng)
    if rng.random() < 0.3:
        facts["cells"] = rng.choice(("1000000000", "100000000", "4000000", "1000"))
    return f"[columns.{name}]\n" + "".join(f"{key} = {value}\n" for key, value in facts.items())


def condition(rng: random.Random) -> str:
    kind = rng.randrange(5)
    if kind == 0:
        return literal(rng)
    if kind == 1:
        return "[" + ", ".join(literal(rng) for _ in range(rng.randrange(3))) + "]"
    keys = rng.sample(("from", "below", "null", "until"), rng.randrange(1, 3))
    return "{" + ", ".join(f"{key} = {rng.choice(('0', '125000', 'true', literal(rng)))}" for key in keys) + "}"


def declared(rng: random.Random) -> str:
    """Return an entry of one of the lists of tables, of which some part is odd."""
    names, table = ("x", "s", "none"), rng.choice(("impossible", "implies", "totals"))
    odd = rng.choice((f"[[{table}]]", f"[[{table}]]", f"[[{table}]]", f"[{table}]"))
    if table == "impossible":
        lines = [f"{name} = {condition(rng)}" for name in rng.sample(names, rng.randrange(1, 3))]
    elif table == "implies":
        rows = rng.choice((20, 1, 70_000 if rng.random() < 0.2 else 2))
        row = f"[{condition(rng)}, {condition(rng)}]"
        rows = min(rows, 1 + MOST_BYTES // len(row))
        many = rng.choice(('{a = "a", "=b" = 1}', "[" + ", ".join([row] * rows) + "]", literal(rng)))
        lines = [f'columns = ["{rng.choice(names)}"]', f'determine = "{rng.choice(names)}"', f"table = {many}"]
    else:
        counts = rng.choice((f"[[{condition(rng)}, 3]]", '{a = 1, "=b" = 2, c = 3}', literal(rng)))
        lines = [f'column = "{rng.choice(names)}"', 'source = "census"', f"counts = {counts}"]
    if rng.random() < 0.2:
        lines[rng.randrange(len(lines))] = f"{rng.choice((*names, 'columns', 'count', 'table'))} = {literal(rng)}"
    return odd + "\n" + "".join(f"{line}\n" for line in lines)


def text_of(rng: random.Random) -> str:
    kind = rng.randrange(10)
    if kind == 0:
        return "a." * rng.choice((50, 30_000)) + "b = 1\n"
    if kind == 1:  # wide
        bounds = 'type = "numeric"\nlower = 0\nupper = 1'
        integer = 'type = "integer"\nlower = 0\nupper = 999'
        facts = rng.choice(('type = "boolean"', integer, 'type = "open_labels"', bounds, f"{bounds}\ncells = 9"))
        return "".join(f"[columns.c{i}]\n{facts}\n" for i in range(rng.choice((10, 40, 300, 3000, 20_000))))
    if kind == 2:
        return "x = " + "[" * 50_000
    if kind == 3:
        return "".join(column(rng, f'"{rng.randrange(9)}"') for _ in range(rng.choice((1, 3))))
    parts = [DOMAIN] if rng.random() < 0.5 else [column(rng, "x"), column(rng, "s")]
    if rng.random() < 0.3:
        parts.insert(0, f"[metric_weights]\nx = {literal(rng)}\n")
    if rng.random() < 0.4:
        parts += [declared(rng) for _ in range(rng.choice((1, 2, 40)))]
    return "\n".join(parts)


def test_toml(folder: Path, attempt: Attempt, rng: random.Random) -> None:
    raw = text_of(rng).encode(errors="replace")
    path = folder / "domain.toml"
    path.write_bytes(spoilt_bytes(rng, raw) if rng.random() < 0.3 else raw)
    records = rng.choice((1, 60, 1000))
    if rng.random() < 0.15:
        attempt("plan", "--domain", path, "--records", records, "--epsilon", 1, "--delta", 1e-6)
        return
    mechanism = rng.choice(("perturbed-histogram", "smoothed-histogram", "stability-histogram", "dirichlet-process"))
    asked = ("--domain", path, *ASKED, "--accept-poor-utility", "--mechanism", mechanism, "--ignore-other-columns")
    attempt("release", folder / "data.parquet", *asked, "--out", folder / "new.csv", new=WRITTEN)
