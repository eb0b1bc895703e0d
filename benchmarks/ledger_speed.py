"""Speed of a ledger that has 10,000 entries.

Claims, medians in one process:

- a decision (a reservation, which reads the sums, compares and appends durably) takes less than 50 ms. Reference in the
  same run: one durable append of a row of the same size to a table of SQLite by itself;
- the status takes less than a second;
- neither depends on the number of entries by more than a factor of two: the same at 100 entries.
"""

import sqlite3
import tempfile
import time
from pathlib import Path

from _bench import median_seconds, save
from _harness import script, show

from discreet import Ledger
from discreet.ledger import Request
from discreet.privacy import Budget

DECISION_TARGET, STATUS_TARGET = 0.05, 1.0
REPEAT = 30


def filled(place: Path, entries: int) -> Ledger:
    """Return a ledger with so many entries, each of four events; the disk is not waited for."""
    ledger = Ledger.create(place, dataset="d", epsilon=1.0, delta=1e-6)
    with ledger._book.appending() as page:
        for number in range(entries):
            facts = {"what": "release", "out": [], "budget": {"epsilon": 1e-6, "delta": 0.0}, "lease": {}}
            cost = ledger._book.currency.of_budget(Budget(epsilon=1e-6))
            entry = f"{number:012x}"
            page.append(entry, "RESERVED", facts=facts, cost=cost)
            for state in ("OPENED", "COMMITTED", "DELIVERED"):
                page.append(entry, state, facts={"files": []})
    return ledger


def bare(place: Path, size: int) -> float:
    """Return the median seconds of appending a row to a database of its own."""
    connection = sqlite3.connect(place, isolation_level=None)
    for said in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "CREATE TABLE t (body TEXT)"):
        connection.execute(said)
    return median_seconds(lambda: connection.execute("INSERT INTO t VALUES (?)", ("x" * size,)), REPEAT)


@script(entries=(10_000, 1_000))
def main(entries: int) -> None:
    folder, rows = Path(tempfile.mkdtemp()), []
    reference = bare(folder / "bare", 700)
    for count in (100, entries):
        ledger = filled(folder / f"{count}", count)
        request = Request(budget=Budget(epsilon=1e-6))
        decision = median_seconds(lambda ledger=ledger, request=request: ledger.pay(request), REPEAT)
        status, start = median_seconds(ledger.status, REPEAT), time.perf_counter()
        assert ledger.verify() == []
        rows.append((count, decision, decision / reference, status, time.perf_counter() - start))
    header = ("entries", "decision, s", "times an append alone", "status, s", "verify, s")
    show(header, rows)
    met = rows[-1][1] < DECISION_TARGET and rows[-1][3] < STATUS_TARGET and rows[-1][1] < 2 * rows[0][1] + 0.01
    save("ledger_speed", {"reference_seconds": reference, "header": header, "rows": rows, "met": met})
