"""Evolution by default beside Tab-PE of DPSDA, ``marginals`` and AIM of dpmm, at epsilon 1, on the same codes.

- ``xor``: the table of relations.py, 20,000 records, whose outcome is the exclusive or of two columns. Tab-PE's own
  stress test is of this kind, and its settings are those of that example. Of it ``area y`` is what a classifier learns
  from the release, by records held out. ``two_way`` is the mean total variation over all pairs of columns.
- three tables of evolution_rule.py, 4,000 records: ``two_way`` as there. Tab-PE has the settings of its example of
  Adult, and the table's last column is its label.
- ``adult-20000``: the 20,000 records of relations.py at epsilon 4, by ``marginals`` with the outcome declared.

Neighbours have one record more or less, and delta is 1e-6. A release of ours and of dpmm has as many records as the
table. Tab-PE makes 1,000, and takes the shares of the labels from the table without noise, as its examples do: the
evolution stands beside it with 1,000 records, too. A peer's process is ended after ``--limit`` seconds of processor
time, and that it did not finish is its result.

    python -m venv dpmm && dpmm/bin/pip install dpmm==0.1.9 pyarrow
    python -m venv dpsda && dpsda/bin/pip install pandas==2.3.3 omegaconf==2.3.0 scikit-learn==1.9.1 scipy \\
        generalimport requests pillow matplotlib
    git clone https://github.com/microsoft/DPSDA examples && git -C examples checkout 9078c67
    cp -r examples/pe dpsda/lib/python*/site-packages/
    python benchmarks/evolution_peers.py --peers dpmm=dpmm/bin/python dpsda=dpsda/bin/python
"""

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import polars as pl
from _bench import save
from _harness import script, show
from _wide_releases import METHODS, peer
from _wide_tables import Coded
from evolution_rule import ACS, NIST, SCORES, apart, declared, table_named
from relations import CASES, OPTIONS, Judge
from wide import Comparison

from discreet.domain import Domain

REAL, DECLARED = "records themselves (not private)", "marginals, outcome declared"
STRESS, AS_ADULT = "DPSDA Tab-PE, as in its stress test", "DPSDA Tab-PE, as in its Adult"
EVOLUTION: dict[str, Any] = {"mechanism": "private-evolution", "accept": ["poor-utility"]}
WAYS = {
    REAL: METHODS[REAL],
    "evolution": peer("discreet", 3, **EVOLUTION),
    "evolution, 1,000 records": peer("discreet", 3, **EVOLUTION, size=1_000),
    STRESS: METHODS[STRESS],
    AS_ADULT: METHODS[AS_ADULT],
    "marginals": peer("discreet", 3, **OPTIONS),
    DECLARED: peer("discreet", 3, **OPTIONS, declared=0),
    "dpmm AIM, defaults": METHODS["dpmm AIM, defaults"],
}
KEY = ("table", "method", "epsilon", "seed")
RULE = (NIST, ACS, SCORES)


class Pairs:
    """Codes of 4,000 records of a table of evolution_rule.py, and the error of its pairs of columns."""

    delta = 1e-6

    def __init__(self, name: str) -> None:
        whole = table_named(name)
        domain = Domain(columns={v.name: declared(v) for v in whole})
        codes = np.stack(domain.encode(whole.sample(4_000, seed=1)).columns, axis=1).astype(np.uint16)
        sizes = {name: int(column.size) for name, column in domain.columns.items()}
        ordered = tuple(name for name, column in domain.columns.items() if column.on_a_line)
        self.table = Coded(codes, sizes, ordered, {domain.names[-1]: (1, ())})
        self.seen, self.frame = codes, pl.DataFrame(codes.astype(np.int64), schema=domain.names)

    def measure(self, codes: np.ndarray) -> dict[str, float]:
        return {"two_way": apart(self.frame, pl.DataFrame(codes.astype(np.int64), schema=self.frame.columns))}


def planned(tables: list[str], methods: list[str], seeds: int) -> list[tuple[str, str, float, int]]:
    """Return the keys of the runs: what each table has."""
    has = {name: [way for way in WAYS if way not in (STRESS, DECLARED)] for name in RULE}
    has |= {"xor": [way for way in WAYS if way != AS_ADULT], "adult-20000": [REAL, DECLARED]}
    keys = [
        (table, name, 4.0 if table == "adult-20000" else 1.0, seed)
        for table, name, seed in product(tables, WAYS, range(seeds))
        if name in has[table] and seed < WAYS[name].seeds and any(word in name for word in methods)
    ]
    return sorted(keys, key=lambda key: key[-1])


@script(tables=({name: name for name in (*RULE, "xor", "adult-20000")}, ["xor"]), methods=[""], seeds=(3, 1),
        limit=600, peers=[""])  # fmt: skip
def main(tables: list[str], methods: list[str], seeds: int, limit: int, peers: list[str]) -> None:
    truth = cache(lambda name: Pairs(name) if name in RULE else Judge(*CASES[name]))
    comparison = Comparison("evolution_peers", KEY, WAYS, truth)
    for runs in comparison.added(planned(tables, methods, seeds), peers, limit, again=False):
        save("evolution_peers", {"runs": runs})
    measures = ("two_way", "area y", "area income>50K", "processor_s", "seeds", "failed")
    means = comparison.means().items()
    show(("table", "method", *measures), [{"table": of[0], "method": of[1], **found} for of, found in means])
