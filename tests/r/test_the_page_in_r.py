"""The page about R, run by R, against the combining rules of this library; skipped where R is not installed."""

import csv
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest

from discreet import read
from discreet.inference import combine
from discreet.report.demonstration import demo

pytestmark = pytest.mark.r

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "analyse-in-r.md"


def blocks(language: str) -> str:
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL))


def rscript(code: str, here: Path) -> str:
    program = shutil.which("Rscript")
    if program is None:
        pytest.skip("R is not installed (Debian: r-base-core, r-cran-jsonlite)")
    (here / "page.R").write_text(code)
    ran = subprocess.run([program, "page.R"], cwd=here, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def fitted(table: pl.DataFrame, outcome: str, columns: list[str]) -> tuple[npt.NDArray, npt.NDArray]:
    """Return the coefficients of least squares and their variances."""
    x = np.column_stack([np.ones(table.height), *(table[name].to_numpy() for name in columns)])
    y = table[outcome].to_numpy()
    inverse = np.linalg.inv(x.T @ x)
    estimates = inverse @ x.T @ y
    return estimates, np.diag(inverse) * ((y - x @ estimates) ** 2).sum() / (len(y) - x.shape[1])


def test_what_r_writes_is_what_this_library_computes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    demo(Path("discreet-demo"), say=lambda _: None)
    exec(compile(blocks("python"), str(PAGE), "exec"), {})
    said = rscript(blocks("r"), tmp_path)
    released = read("discreet-demo/synthetic")
    assert released.promise in said

    facts = released.certificate.to_dict()
    sizes = {"size": facts["size"], "n": facts["records"]}
    tables = [pl.read_parquet(f"discreet-demo/synthetic/{one['file']}") for one in released.certificate.tables]
    wanted = {}
    visits = [one["mdvis"] for one in tables]
    means, variances = [v.mean() for v in visits], [v.var() / len(v) for v in visits]
    wanted["mean"] = combine(means, variances, kind="fully", **sizes)
    fits = [fitted(one, "mdvis", ["idp", "hlthp"]) for one in tables]
    for place, name in enumerate(("(Intercept)", "idp", "hlthp")):
        of_each = [fit[0][place] for fit in fits], [fit[1][place] for fit in fits]
        wanted[name] = combine(*of_each, kind="fully", **sizes)

    with Path("estimates.csv").open() as file:
        found = {row.pop(""): {key: float(value) for key, value in row.items()} for row in csv.DictReader(file)}
    assert found.keys() == wanted.keys()
    for name, one in wanted.items():
        assert found[name] == pytest.approx(
            {key: getattr(one, key) for key in ("estimate", "lower", "upper")}, rel=1e-9
        )
    mean = released.estimate(["mean"], column="mdvis")["mean"]
    assert found["mean"]["estimate"] == pytest.approx(mean.mean, rel=1e-9)
    assert (found["mean"]["lower"], found["mean"]["upper"]) == pytest.approx((mean.lower, mean.upper), rel=1e-3)


RULE = """
size <- {size}
n <- {n}
estimates <- c({estimates})
variances <- c({variances})
cat(format(combine(estimates, variances), digits = 15), "\\n")
"""


@pytest.mark.parametrize(
    ("spread", "size", "adjusted"), [(1e-4, 100, True), (0.02, 5000, True), (0.1, 5000, False), (1.0, 100, False)]
)
def test_the_rule_of_the_page_is_ours_where_its_variance_is_too_small_too(
    tmp_path: Path, spread: float, size: int, adjusted: bool
) -> None:
    (function,) = re.findall(r"^combine <- function.*?^}$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    estimates = [1.0 + spread * i * (-1) ** i for i in range(7)]
    variances = [0.01 + 0.001 * i for i in range(7)]
    said = rscript(
        function
        + RULE.format(
            size=size, n=1000, estimates=",".join(map(repr, estimates)), variances=",".join(map(repr, variances))
        ),
        tmp_path,
    )
    ours = combine(estimates, variances, kind="fully", size=size, n=1000)
    assert [float(one) for one in said.split()] == pytest.approx([ours.estimate, ours.lower, ours.upper], rel=1e-9)
    assert ours.adjusted is adjusted
