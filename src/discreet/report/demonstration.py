"""The main job on real data that comes with a package: ten columns of the RAND health insurance experiment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from discreet import Budget, Watch
from discreet._core.errors import FileProblem, MissingExtra
from discreet._core.files import own_folder, together
from discreet._core.lazy import pl
from discreet._core.text import counted
from discreet._release import release
from discreet.domain import Domain
from discreet.releases import read, verify
from discreet.report.html import write_report

_SHARES = ("P(=0)", "P(1..5)", "P(>5)")
_MEASURES = ("w1", "ks", "tv", "marginals-2")  # the others take minutes


def demo(out: Path, *, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Release ten columns of 20,190 person-years, estimate from the release, verify its certificate, write reports."""
    # The data (RAND health insurance experiment, in the public domain) stands in for a confidential table.
    try:
        import jinja2  # noqa: F401
        from statsmodels.datasets import randhie
    except ImportError:
        raise MissingExtra("the demonstration needs statsmodels and Jinja2", "demo") from None
    own_folder(out, private=False)
    if any(out.iterdir()):
        remedy = "remove it if it is an earlier demonstration, or choose another folder (out=...)"
        raise FileProblem(out, "there is something in it", remedy)
    visits = randhie.load_pandas().data
    data, declared, synthetic = out / "visits.parquet", out / "visits.toml", out / "synthetic"
    public, confidential = out / "report.html", out / "report-confidential.html"
    with together(data, declared) as (table, facts):
        pl.DataFrame({name: visits[name].to_numpy() for name in visits}).write_parquet(table)
        facts.write(Path(__file__).with_name("visits.toml").read_bytes())
    size = f"{counted(len(visits), 'person-year')} and {counted(visits.shape[1], 'column')}"
    say(f"A table of {size} plays the confidential table.")

    say(
        f"\n$ discreet release {data} --domain {declared} --epsilon 1 --delta 1e-9 --size 5000 --tables 20 "
        f"--mechanism marginals --out {synthetic}"
    )
    result = release(
        data, Domain.read(declared), Budget(epsilon=1.0, delta=1e-9), size=5000, tables=20, mechanism="marginals",
        out=synthetic, watch=Watch(announce=lambda _: None),
    )  # fmt: skip
    say(f"wrote {result.certificate.summary}.\n{str(result.certificate).splitlines()[0]}")

    say(f"\n$ discreet estimate {synthetic} --column mdvis --functional '{','.join(_SHARES)}'")
    say(str(read(synthetic).estimate(list(_SHARES), column="mdvis")).partition("\n- ")[0])
    say("Shares of person-years by visits to a doctor, from the synthetic tables and the certificate alone.")

    say(f"\n$ discreet verify {synthetic}")
    checks = [check for check in verify(synthetic) if not check.stated]
    say(f"{sum(check.agrees for check in checks)} of {len(checks)} claims agree.")

    write_report(synthetic, public)
    write_report(synthetic, confidential, data=data, domain=declared, measures=_MEASURES)
    say(f"\nOpen {public} in a browser: what the release promises, and to whom.")
    say(f"{confidential} also shows the confidential table, as only its custodian may.")
    files = {"confidential": data, "domain": declared, "synthetic": synthetic, "certificate": result.certificate_path}
    files |= {"report": public, "report_confidential": confidential}
    return {name: str(path) for name, path in files.items()}
