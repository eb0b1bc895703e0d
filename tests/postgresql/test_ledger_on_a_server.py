"""The ledger on a real PostgreSQL server, which is started here; skipped where PostgreSQL is not installed."""

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from discreet import Ledger, release
from discreet.domain import Domain, Integer
from discreet.errors import FileProblem, ParameterError, Refused
from discreet.ledger import Request
from discreet.privacy import Budget

pytestmark = pytest.mark.postgresql

DOMAIN = Domain(columns={"age": Integer(lower=0, upper=9, out_of_bounds="clip")})
AGES = pl.DataFrame({"age": [1, 2, 2, 7] * 250})
KILLER = Path(__file__).parents[1] / "unit" / "ledger" / "killed_payers.py"


def killed(what: str, server: str, where: Path, stride: int) -> int:
    command = [sys.executable, str(KILLER), what, server, str(where), str(stride)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_releases_are_paid_for_on_a_server(server, tmp_path) -> None:
    with pytest.raises(FileProblem, match="discreet ledger init"):
        Ledger(server.replace("/postgres?", "/template1?"))  # a database that no other test fills
    Ledger.create(server, dataset="ages", epsilon=1.0, delta=1e-6)
    Ledger.create(server, dataset="others", epsilon=1.0)
    with pytest.raises(ParameterError, match="already"):
        Ledger.create(server, dataset="ages", epsilon=1.0)
    with Ledger(server, "ages") as ledger:
        for name in ("a", "b"):
            asked = {"size": 20, "mechanism": "perturbed-histogram", "out": tmp_path / f"{name}.parquet"}
            release(AGES, DOMAIN, Budget(epsilon=0.4, delta=1e-8), ledger=ledger, **asked)
        with pytest.raises(Refused, match=r"epsilon 0\.2"):
            ledger.pay(Request(budget=Budget(epsilon=0.3)))
        assert ledger.verify([tmp_path / "a.certificate.json", tmp_path / "b.certificate.json"]) == []
        assert ledger.status().counts["COMMITTED"] == 2
    assert Ledger(server, "others").status().spent["epsilon"] == 0.0


def test_rows_on_a_server_are_only_appended(server) -> None:
    import sqlalchemy

    Ledger.create(server, dataset="appended", epsilon=1.0).close()
    engine = sqlalchemy.create_engine(server.replace("postgresql:", "postgresql+psycopg:"))
    for statement in ("UPDATE discreet_event SET hash = ''", "DELETE FROM discreet_event", "TRUNCATE discreet_event"):
        with engine.begin() as connection, pytest.raises(sqlalchemy.exc.DBAPIError, match="only appended to"):
            connection.execute(sqlalchemy.text(statement))
    engine.dispose()


def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    with pytest.raises(FileProblem, match="cannot be reached") as caught:
        Ledger("postgresql://me:secret@/postgres?host=/nowhere")
    assert "secret" not in str(caught.value)
    assert "me@" in str(caught.value)


def test_killed_at_every_step_on_a_server(server, tmp_path) -> None:
    assert killed("kills", server, tmp_path / "w", 1) > 50


def test_recovery_killed_on_a_server(server, tmp_path) -> None:
    assert killed("recovery", server, tmp_path / "w2", 9) > 5


def test_sixteen_writers_at_once_on_a_server(server, tmp_path) -> None:
    assert killed("at once", server, tmp_path / "w3", 1) == 12
