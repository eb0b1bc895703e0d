"""One entry point for every check: ``nox -s tests`` and so on; ``nox`` alone runs what continuous integration runs."""

from __future__ import annotations

import nox

nox.options.sessions = ["lint", "types", "architecture", "tests", "docs"]
nox.options.reuse_existing_virtualenvs = True
nox.options.default_venv_backend = "venv"

TEST = ["pytest>=8.3", "pytest-randomly>=3.15", "hypothesis>=6.100", "mpmath>=1.3", "coverage>=7.6"]
