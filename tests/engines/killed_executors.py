"""A release on a Spark whose executors are killed: run by test_killed_executors.py in a process of its own.

Each kill is a SIGKILL of the executor's Java process and of its Python worker, once at each moment of ``MOMENTS``. A
file in ``marks`` says that a moment was met, and holds the command of what was killed.
"""

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from discreet import Budget, Output

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "release-in-parts.md"
MOMENTS = ("counting", "before part 0", "within part 1", "after part 2")
ROWS, PARTS = 3000, 4


def domain() -> Any:
    from discreet.domain import Domain, Integer, Numeric

    return Domain(columns={"age": Integer(lower=0, upper=99, cells=10), "x": Numeric(lower=0, upper=1, cells=4)})


def table() -> Any:
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(5)
    return pl.DataFrame({"age": rng.integers(0, 100, ROWS), "x": rng.random(ROWS)})


def released(data: Any, out: Path, workers: Any) -> None:
    import discreet

    how: dict[str, Any] = {"budget": Budget(epsilon=2.0), "size": 20_000, "mechanism": "perturbed-histogram", "seed": 3}
    discreet.release(data, domain(), out=Output(out, partitions=PARTS, workers=workers), **how)


def die_once(marks: Path, moment: str) -> None:
    """Kill the executor that this Python worker belongs to, and the worker, unless that was done."""

    def parent(process: int) -> int:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])

    try:
        mark = os.open(marks / moment, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        return
    executor = os.getpid()
    while "Executor" not in (command := Path(f"/proc/{executor}/cmdline").read_text()):
        executor = parent(executor)
        if executor <= 1:
            raise RuntimeError("no executor is above this worker")
    os.write(mark, command.encode())
    os.close(mark)
    os.kill(executor, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def main(out: Path, marks: Path) -> None:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    brief = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    settings = {"spark.ui.enabled": "false", "spark.executor.memory": "1g", "spark.sql.shuffle.partitions": "2"}
    settings |= {f"spark.{one}.extraJavaOptions": brief for one in ("driver", "executor")}
    builder = SparkSession.builder.master("local-cluster[2,1,1024]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    frame = spark.createDataFrame(table().to_arrow())

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            die_once(marks, "counting")
            yield batch

    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (functions,) = (block for block in blocks if "def on_spark" in block)
    namespace: dict[str, Any] = {}
    exec(compile(functions, PAGE.name, "exec"), namespace)

    def deadly(make: Any, numbers: Any) -> Any:
        def made(number: int) -> Any:
            if number == 0:
                die_once(marks, "before part 0")
            if number == 1:  # its draft is complete, and has not got its name
                from discreet.releases import parts

                hashed = parts.file_sha256

                def dying(path: Any) -> str:
                    die_once(marks, "within part 1")
                    return hashed(path)

                parts.file_sha256 = dying
                try:
                    return make(number)
                finally:
                    parts.file_sha256 = hashed
            part = make(number)
            if number == 2:
                die_once(marks, "after part 2")
            return part

        return namespace["on_spark"](made, numbers)

    released(frame.mapInArrow(read, frame.schema), out, deadly)
    spark.stop()
    time.sleep(0.1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
