"""What a report shows of several columns together: rules that were declared, and pairs that were not measured."""

import itertools
import re
from pathlib import Path

import numpy as np
import polars as pl

import discreet
from discreet import Budget
from discreet.domain import Domain, Integer
from discreet.report import write_report
from discreet.wording import losses_of

RULES = {"impossible": [{"a": 0, "b": 3}, {"b": 0, "c": 3}], "order": ["d", "e"], "determines": [("f", "g")]}


def test_rules_and_pairs_that_were_not_measured_are_listed(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    codes = {name: rng.integers(1, 3, 2000) for name in "abcdf"}
    frame = pl.DataFrame({**codes, "e": codes["d"], "g": codes["f"]}).select(list("abcdefg"))
    domain = Domain(columns={name: Integer(lower=0, upper=3) for name in frame.columns}, **RULES)
    budget = Budget(epsilon=2.0, delta=1e-6)
    made = discreet.release(frame, domain, budget, size=2000, mechanism="marginals", out=tmp_path / "out.csv")
    page = write_report(made.path or "", tmp_path / "r.html").path.read_text(encoding="utf-8")
    rules = re.findall(r'<th scope="row">(impossible|order|determines)</th><td>(.*?)</td>', page)
    assert rules == [("impossible", "a 0; b 3"), ("impossible", "b 0; c 3"), ("order", "d, e"), ("determines", "f, g")]
    measured = {pair for pair, *_ in losses_of(made.certificate.facts.released.outcome)}
    every = {f"{i}*{j}" for i, j in itertools.combinations(frame.columns, 2)}
    listed = re.search(r"Pairs that were not measured: (\d+)</summary>\n<p>(.*?)\.</p>", page)
    assert listed is not None
    assert measured
    assert set(re.findall("<bdi>(.*?)</bdi>", listed[2])) == every - measured
    assert int(listed[1]) == len(every - measured)
