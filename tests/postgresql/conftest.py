"""A real PostgreSQL server, which is started here; tests are skipped where PostgreSQL is not installed."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


def programs() -> Path:
    """Return the folder of PostgreSQL's programs."""
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not folders or not (folders[-1] / "initdb").exists():
        pytest.skip("PostgreSQL is not installed (Debian: postgresql)")
    return folders[-1]


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """Start a server that listens on a socket alone, and return its address."""
    where = programs()
    owner = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
    home = Path(tempfile.mkdtemp(prefix="pg"))
    if owner:
        shutil.chown(home, "postgres", "postgres")
    name = "postgres" if owner else pwd.getpwuid(os.geteuid()).pw_name

    def ran(*command: object) -> None:
        subprocess.run(command, check=True, cwd=home, stdout=subprocess.DEVNULL, **owner)

    ran(where / "initdb", "-D", home / "data", "-A", "trust", "--no-sync")
    options = f"-k {home} -c listen_addresses='' -c fsync=off -c max_connections=60"
    ran(where / "pg_ctl", "-D", home / "data", "-w", "-l", home / "log", "-o", options, "start")
    home.chmod(0o755)
    try:
        yield f"postgresql://{name}@/postgres?host={home}"
    finally:
        ran(where / "pg_ctl", "-D", home / "data", "-m", "immediate", "stop")
        shutil.rmtree(home, ignore_errors=True)
