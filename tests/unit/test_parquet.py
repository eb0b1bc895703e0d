"""Damaged Parquet files end no process, and files of other writers are read."""

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from discreet._core.formats import PARQUET, scanned, texts

TABLE = pl.DataFrame({"x": [0.5, None, 2.5] * 40, "s": ["a", "b", None] * 40, "i": range(120)})

READ_DAMAGED = """
import random, sys
from pathlib import Path
from discreet._core.formats import PARQUET, scanned, texts

whole, spoilt = Path(sys.argv[1]).read_bytes(), Path(sys.argv[1] + ".spoilt")
for seed in range(600):
    rng, data = random.Random(seed), bytearray(whole)
    for _ in range(rng.choice((1, 1, 2))):
        data[rng.choice((14, rng.randrange(64), rng.randrange(len(data))))] = rng.choice((0, 127, 147, 255))
    spoilt.write_bytes(data)
    try:
        texts(spoilt, PARQUET)
        scan = scanned(spoilt, PARQUET)
        scan.group_by(scan.collect_schema().names()).len().collect()
    except BaseException:
        pass
"""


@pytest.mark.parametrize("columns", [["x"], ["x", "s", "i"]])
def test_no_change_of_bytes_ends_the_process(tmp_path: Path, columns: list[str]) -> None:
    """In a process of its own: what would end it cannot be caught."""
    path = tmp_path / "table.parquet"
    TABLE.select(columns).write_parquet(path)
    done = subprocess.run([sys.executable, "-c", READ_DAMAGED, path], capture_output=True, check=False, timeout=120)
    assert done.returncode == 0


def test_a_count_that_cannot_be_true_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    pl.DataFrame({"x": [i / 7 for i in range(300)]}).write_parquet(path)
    data = bytearray(path.read_bytes())
    data[14] = 255  # the number of values in the first page: now negative
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"header cannot be true|do not hold"):
        scanned(path, PARQUET)


@pytest.mark.parametrize("options", [{}, {"data_page_version": "2.0"}, {"use_dictionary": False}, {"row_group_size": 7},
                                     {"write_page_checksum": True, "write_page_index": True}])  # fmt: skip
def test_other_writers(tmp_path: Path, options: dict[str, object]) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = TABLE.to_arrow().append_column("list", pyarrow.array([[1, 2], [], None] * 40))
    parquet.write_table(table, tmp_path / "table.parquet", **options)
    assert scanned(tmp_path / "table.parquet", PARQUET).select("x", "s", "i").collect().equals(TABLE)


def test_what_a_file_says_of_itself(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    TABLE.write_parquet(path, metadata={"a": "x" * 1000, "ü": ""})
    assert {key: text for key, text in texts(path, PARQUET).items() if key != "ARROW:schema"} == {
        "a": "x" * 1000,
        "ü": "",
    }
    TABLE.write_parquet(path)
    assert "a" not in texts(path, PARQUET)


def test_what_another_writer_says(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table = TABLE.to_arrow().replace_schema_metadata({"discreet.identity": "0" * 32})
    parquet.write_table(table, tmp_path / "table.parquet")
    assert texts(tmp_path / "table.parquet", PARQUET)["discreet.identity"] == "0" * 32
