"""Counting and releasing where the table is, beside what the engine does by itself, and the peak memory of both.

    nice -n 10 python benchmarks/scale.py [--sizes 10000000 100000000] [--engines polars duckdb spark] [--repeats 3]
    nice -n 10 python benchmarks/scale.py --count-only 1000000000

Claims, on one column of numbers in a Parquet file that is made for the run, cut into 100 cells:

- counting, releasing as many records as there are rows, and writing them takes at most 1.5 times as long as the
  engine's own ``group by`` of the binned column (``group_by``) plus its own writing of the column as it is (``write``),
  for the largest number of rows, since starting takes its time once;
- peak memory is flat: ten times as many rows take at most 1.25 times as much.

Every part runs in a process of its own, after a first time on a thousand rows. The parts of an engine take turns, and
the least seconds of each are kept. ``raw`` is a group by of the values themselves. ``wide`` reads twelve columns of ten
cells part by part, a tenth as many rows, and adds up the cells of all pairs, as ``marginals`` does. Both are for the
smallest number of rows alone. ``--count-only`` counts a tenth as many rows in one file, read ten times over as if it
were ten files. Results are added to those of earlier runs.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from _bench import RESULTS, fresh, save
from _harness import newest, script, show
from _scale_parts import MAIN, MORE, WARM, table

RATIO_TARGET, MEMORY_TARGET = 1.5, 1.25


def measured(parts: Any, engine: str, folder: Path, rows: int, repeats: int) -> dict[str, dict[str, float]]:
    """Return the least seconds and the largest peak of parts that take turns."""
    found: dict[str, list[dict[str, float]]] = {part.__name__: [] for part in parts}
    for _ in range(repeats):
        for part, runs in found.items():
            runs.append(fresh(str(Path(__file__).with_name("_scale_parts.py")), part, engine, folder, rows))
    best = {"seconds": min, "processor": min, "peak_mib": max}
    return {part: {name: how(run[name] for run in runs) for name, how in best.items()} for part, runs in found.items()}


def ratios(found: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return how many times as long as the engine's own work counting and releasing take."""
    made = {}
    for kind in ("processor", "seconds"):
        own = found["group_by"][kind]
        made[f"count_{kind}"] = found["count"][kind] / own
        made[f"release_{kind}"] = found["release"][kind] / (own + found["write"][kind])
    return made


def kept() -> dict[str, Any]:
    """Return the results of earlier runs."""
    path = newest(RESULTS / "scale.json")
    result = json.loads(path.read_text()) if path.exists() else {}
    return {name: result[name] for name in ("tables", "count_only") if name in result}


def report(result: dict[str, Any]) -> None:
    lines: list[tuple[Any, ...]] = []
    tables = dict(sorted(result.get("tables", {}).items(), key=lambda item: int(item[0])))
    for rows, engines in tables.items():
        for engine, found in engines.items():
            told = found["ratios"]
            lines += [
                (f"{int(rows):,} {engine} {part}", times["seconds"], times["processor"], times["peak_mib"])
                for part, times in found.items()
                if part != "ratios"
            ]
            lines.append(("  count / group by", told["count_seconds"], told["count_processor"], ""))
            lines.append(("  release / (group by + write)", told["release_seconds"], told["release_processor"], ""))
    show(("rows, engine, part", "seconds", "processor s", "peak MiB"), lines)
    claims: dict[str, Any] = {"ratio_target": RATIO_TARGET, "memory_target": MEMORY_TARGET}
    if len(tables) > 1:
        small, large = tables[next(iter(tables))], tables[next(reversed(tables))]
        peak = {name: [each[name]["release"]["peak_mib"] for each in (small, large)] for name in large.keys() & small}
        claims["memory_ratio"] = {name: most / least for name, (least, most) in sorted(peak.items())}
        claims["release_ratio"] = {engine: large[engine]["ratios"]["release_processor"] for engine in large}
        claims["met"] = max(claims["release_ratio"].values()) <= RATIO_TARGET
        claims["met"] &= max(claims["memory_ratio"].values()) <= MEMORY_TARGET
        print(claims)
    save("scale", {**result, "tables": tables, **claims})


@script(sizes=([10_000_000, 100_000_000], [100_000, 200_000]), engines=dict.fromkeys(("polars", "duckdb", "spark")),
        repeats=(3, 1), count_only=int)  # fmt: skip
def main(sizes: list[int], engines: list[str], repeats: int, count_only: int | None) -> None:
    for rows in [count_only] if count_only else sizes:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            table(folder, rows // 10 if count_only else rows)
            table(folder / "warm", WARM)
            if count_only:
                (folder / "times").write_text("10")
            for engine in engines:
                result = kept()
                if count_only:
                    result.setdefault("count_only", {"rows": rows, "from": "a file of a tenth as many, read ten times"})
                    found: dict[str, Any] = measured(MAIN[:2], engine, folder, rows, 1)
                    for kind in ("processor", "seconds"):
                        found[f"ratio_{kind}"] = found["count"][kind] / found["group_by"][kind]
                    result["count_only"][engine] = found
                    print(json.dumps(result["count_only"], indent=2))
                else:
                    found = measured(MAIN, engine, folder, rows, repeats)
                    if rows == min(sizes) and engine != "spark":
                        found |= measured(MORE, engine, folder, rows, 1)
                    found["ratios"] = ratios(found)
                    result.setdefault("tables", {}).setdefault(str(rows), {})[engine] = found
                report(result)
