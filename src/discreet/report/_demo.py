"""The main job on real data that comes with a package: doctor visits in the RAND health insurance experiment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from discreet._core.boundary import quietly
from discreet._core.errors import FileProblem, ParameterError
from discreet._core.lazy import pl
from discreet._core.writing import own_folder, require_own, together
from discreet._release import Watch, release
from discreet.domain import Domain
from discreet.releases import Certificate, verify
from discreet.releases._replaced import require_whole_pair
from discreet.releases._writing import check_output
from discreet.report._html import write_report
from discreet.report._picture import picture

_DOMAIN = """\
# Public facts, chosen without looking at the table: visits are counted per person and year, and a count above 150
# is taken as 150.
[columns.visits]
type = "integer"
lower = 0
upper = 150
out_of_bounds = "clip"
"""


def demo(out: Path, *, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Release the numbers of doctor visits of 20,190 person-years, verify the certificate, write a report.

    The data (RAND health insurance experiment, in the public domain) comes with the ``statsmodels`` package. It stands
    in for a confidential table.

    ``out``: Folder to write: ``visits.parquet``, ``visits.toml``, ``synthetic.parquet``,
    ``synthetic.certificate.json``, ``picture.png``, ``report.html`` and ``report-confidential.html``.
    ``say``: where the explanation goes, a line at a time.
    Returns: paths of what was written.

    Raises ParameterError when statsmodels, matplotlib or Jinja2 is not installed, or FileProblem when the folder cannot
    be written.
    """
    try:
        from statsmodels.datasets import randhie
    except ImportError:
        raise ParameterError("the demonstration needs statsmodels. Install it: pip install 'discreet[demo]'") from None
    own_folder(out, private=False)
    visits = pl.DataFrame({"visits": randhie.load_pandas().data["mdvis"].to_numpy().astype("int64")})
    data, declared = out / "visits.parquet", out / "visits.toml"
    synthetic, drawn = out / "synthetic.parquet", out / "picture.png"
    public, own = out / "report.html", out / "report-confidential.html"

    def check() -> None:
        _require_same(data, lambda: pl.read_parquet(data).equals(visits))
        _require_same(declared, lambda: declared.read_text() == _DOMAIN)
        require_whole_pair(*check_output(synthetic, inputs=(data, declared), others=(drawn, public, own)))
        for page in (drawn, public, own):
            require_own(page)

    with together(data, declared, check=check) as (table, facts):
        visits.write_parquet(table)
        facts.write(_DOMAIN.encode())
    say(f"A table of {len(visits):,} person-years with the number of doctor visits plays the confidential table.")
    command = f"discreet release {data} --domain {declared} --epsilon 1 --delta 1e-9 --size 20000 --out {synthetic}"
    say(f"Running: {command}")
    made = release(
        data, Domain.read(declared), epsilon=1.0, delta=1e-9, size=20_000, out=synthetic, watch=Watch(announce=say)
    )
    say(str(made.certificate))
    certificate = Certificate.read(made.certificate_path or "")
    checks = verify(certificate, data=synthetic)
    say(f"discreet verify: {sum(c.agrees for c in checks)} of {len(checks)} claims agree.")
    picture(pl.read_parquet(synthetic), certificate, drawn, confidential=visits)
    write_report(synthetic, public)
    write_report(synthetic, own, data=data, domain=declared, measures="all")
    paths = {
        "confidential": str(data),
        "domain": str(declared),
        "synthetic": str(synthetic),
        "certificate": str(made.certificate_path),
        "picture": str(drawn),
        "report": str(public),
        "report_confidential": str(own),
    }
    say(f"Open {public} in a browser: what the release promises, and to whom. The synthetic table is {synthetic}.")
    say(f"{own} and {drawn} also show the confidential table, as only its custodian may.")
    return paths


def _require_same(path: Path, same: Callable[[], bool]) -> None:
    """Refuse to replace a file that is not one of an earlier demonstration."""
    if path.exists() and not quietly(same, _foreign(path)):
        raise _foreign(path)


def _foreign(path: Path) -> FileProblem:
    return FileProblem(path, "it exists and is not of this demonstration", "choose another folder (out=...)")
