"""Labels that nobody declared: occupation by area of 1.6 million persons, released at epsilon 1 and delta 1e-9.

The table is the ACS 2024 person file of 49 states, rows without an occupation dropped beforehand: occupation, state and
area (PUMA) as three open columns, which together have 454,288 different values, 189,015 of them held by one person.

Claims: ``discreet release`` with each of the two mechanisms for open labels writes as many records as the table has in
under a minute on two cores, the whole process counted; and no value of a single person is among them. The coarser table
of occupation by state shows what the threshold leaves where values are less rare.
"""

import statistics
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
from _bench import fresh, save
from _harness import data, script, show
from release_speed import COMMAND

MECHANISMS = ("stability-histogram", "stabilised-pitman-yor")
TABLES = {"occupation, state, area": ("OCCP", "STATE", "PUMA"), "occupation, state": ("OCCP", "STATE")}
TARGET = 60.0
INVENTED = "new_category_"


def measured(mechanism: str, table: Path, counted: pl.DataFrame, repeat: int) -> dict[str, Any]:
    """Release the table in fresh processes; return time and memory, and what the last release kept."""
    out, size = table.with_name("released.parquet"), int(counted["held"].sum())
    budget = ["--domain", table.with_suffix(".toml"), "--epsilon", "1", "--delta", "1e-9", "--size", size]
    how = ["--mechanism", mechanism, "--accept-poor-utility", "--out", out, "--json"]
    runs = []
    for _ in range(repeat):
        for file in (out, out.with_suffix(".certificate.json")):
            file.unlink(missing_ok=True)
        runs.append(fresh(COMMAND, "release", table, *budget, *how))
    released = pl.read_parquet(out)
    real = released.filter(~pl.col(released.columns[0]).str.starts_with(INVENTED))
    values = real.unique()
    assert released.height == size
    # What follows is about the confidential table: it belongs in a study, never beside a release.
    kept = counted.join(values, on=released.columns, how="semi")
    assert kept.height == values.height, "a value was released that nobody holds"
    row = {
        "seconds": statistics.median(run["process"] for run in runs),
        "cpu seconds": statistics.median(run["processor"] for run in runs),
        "peak MiB": max(run["bytes"] for run in runs) / 2**20,
        "values kept": kept.height,
        "held once": kept.filter(pl.col("held") == 1).height,
        "their records": float(kept["held"].sum() / size),
        "real in release": real.height / size,
        "values released": released.unique().height,
    }
    return {"runs": runs, "row": row}


@script(repeat=(3, 1))
def main(repeat: int) -> None:
    persons = data("acs2024_persons_income_49", "OCCP", "STATE", "PUMA").drop_nulls().with_columns(pl.all().cast(str))
    result: dict[str, Any] = {"time_target_seconds": TARGET, "tables": {}}
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "persons.parquet"
        for name, columns in TABLES.items():
            counted = persons.group_by(columns).len("held")
            facts = {"records": persons.height, "distinct": counted.height}
            facts["held_once"] = counted.filter(pl.col("held") == 1).height
            persons.select(columns).write_parquet(table)
            table.with_suffix(".toml").write_text("".join(f'[columns.{c}]\ntype = "open_labels"\n' for c in columns))
            found = {mechanism: measured(mechanism, table, counted, repeat) for mechanism in MECHANISMS}
            rows += [{"": f"{name}: {mechanism}", **one["row"]} for mechanism, one in found.items()]
            result["tables"][name] = {**facts, "mechanisms": found}
            print(f"{name}: " + ", ".join(f"{value:,} {what}" for what, value in facts.items()))
    show(rows[0], rows)
    save("unknown_labels", result)
