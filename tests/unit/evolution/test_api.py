"""The seam of Private Evolution: names, certificates, blocks."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np
import pytest

from discreet._core.random import seeded
from discreet.domain import Domain, Numeric, Records
from discreet.errors import ParameterError
from discreet.evolution import API, Ball, Box, Callables, Table
from discreet.evolution.api import NamedAPI, in_blocks, plain_norm, settled_norm
from discreet.evolution.table import api_from

SIDE = Numeric(lower=-1, upper=1)
SQUARE = Domain(columns={"x": SIDE, "y": SIDE})


@pytest.mark.parametrize(
    "api",
    [
        Box(domain=SQUARE),
        Box(domain=SQUARE, norm=math.inf, scaled=False, alpha=0.3),
        Ball(domain=SQUARE, norm=1, radius=0.5, centre=(0.1, -0.2), alpha=0.01),
        Table(domain=SQUARE, levels=3, each=5, null_share=0.2),
    ],
)
def test_a_certificate_rebuilds_an_api_that_its_parameters_describe(api: API) -> None:
    stated = json.loads(json.dumps(api.parameters(), allow_nan=False))
    again = api_from(api.name, stated, SQUARE)
    assert again == api
    assert again.parameters() == api.parameters()
    one, other = (a.variation(a.random(4, rng=seeded(1)), rng=seeded(2)) for a in (api, again))
    assert one.rows() == other.rows()


def test_an_api_of_functions_comes_back_as_a_name_that_refuses_to_run() -> None:
    named = api_from("callables", {"label": "fonts", "norm": "inf"}, SQUARE)
    assert isinstance(named, NamedAPI)
    assert named.domain is SQUARE
    assert (named.name, named.parameters()) == ("callables", {"label": "fonts", "norm": "inf"})
    assert named == api_from("callables", {"norm": "inf", "label": "fonts"}, SQUARE)
    assert hash(named) == hash(api_from("callables", {"norm": "inf", "label": "fonts"}, SQUARE))
    records = Records(columns=(np.zeros(1), np.zeros(1)))
    for run in (
        lambda: named.norm,
        lambda: named.diameter,
        named.variations_each,
        lambda: named.random(1, rng=seeded(0)),
        lambda: named.variation(records, rng=seeded(0)),
        lambda: named.embed(records),
    ):
        with pytest.raises(ParameterError, match="'callables' is known by its parameters only"):
            run()


def test_parameters_that_are_unknown_or_missing_are_refused() -> None:
    with pytest.raises(ParameterError, match="unknown parameter 'colour'. Parameters of the API box: norm, alpha, sc"):
        api_from("box", {"colour": 1}, SQUARE)
    with pytest.raises(ParameterError, match="cannot be rebuilt from these parameters alone"):
        Callables.from_parameters({"label": "fonts"}, SQUARE)


def test_norms_are_checked_and_written_as_json() -> None:
    assert [plain_norm(settled_norm(norm)) for norm in (1, 2.0, math.inf, "inf")] == [1, 2, "inf", "inf"]
    for wrong in (0, 3, True, "two", None, math.nan):
        with pytest.raises(ParameterError, match="norm must be 1, 2 or inf"):
            settled_norm(wrong)


def test_blocks_hold_the_record_first_in_every_kind_of_column() -> None:
    texts = np.array(["a", None], dtype=object)
    records = Records(columns=(np.array([1, 2]), np.array([0.5, np.nan]), texts))
    varied = [np.array([[3], [4]]), np.array([[0.25], [1.0]]), np.array([["b"], ["c"]], dtype=object)]
    rows = in_blocks(records, varied).rows()
    assert [row[0] for row in rows] == [1, 3, 2, 4]
    assert [row[2] for row in rows] == ["a", "b", None, "c"]
    assert math.isnan(rows[2][1])
    assert in_blocks(records, varied).columns[0].dtype == np.int64


def test_the_import_is_light() -> None:
    program = "import sys, discreet.evolution; print(*{'scipy', 'polars', 'torch', 'sklearn'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "\n"
