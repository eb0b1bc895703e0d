"""T6 against every change of one to three records on two and three cells, by listing integer vectors."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from universes import Floats, line

from discreet.mechanisms import PerturbedHistogram
from discreet.privacy import Relation
from discreet.testing import hockey_stick

EPSILONS = (0.0, 1e-4, 0.05, 0.3, math.log(2.0), 1.0, 2.0, 3.0, 5.0)


def log_noise(noise: str, scale: float, z: npt.NDArray[np.int64]) -> Floats:
    weight = np.abs(z) / scale if noise == "laplace" else z**2 / (2 * scale**2)
    reach = math.ceil(60 * scale) + 5
    grid = np.arange(-reach, reach + 1)
    total = np.exp(-(np.abs(grid) / scale if noise == "laplace" else grid**2 / (2 * scale**2))).sum()
    return -weight - math.log(total)


def divergence(noise: str, scale: float, change: tuple[int, ...], epsilons: tuple[float, ...]) -> Floats:
    reach = math.ceil(scale * (30 if noise == "laplace" else 8)) + max(map(abs, change))
    axis = np.arange(-reach, reach + 1)
    p, q = np.zeros(1), np.zeros(1)
    for moved in change:
        p = np.add.outer(p, log_noise(noise, scale, axis)).ravel()
        q = np.add.outer(q, log_noise(noise, scale, axis - moved)).ravel()
    return hockey_stick(p, q, epsilons)


@pytest.mark.parametrize("group", [1, 2, 3])
@pytest.mark.parametrize(
    ("noise", "scale"),
    [("laplace", s) for s in (0.3, 0.5, 1.0, 1.5)] + [("gaussian", s) for s in (0.4, 0.6, 1.0, 3.0)],
)
def test_all_changes(noise: str, scale: float, group: int) -> None:
    mechanism = PerturbedHistogram(domain=line(3), records=3, scale=scale, noise=noise)  # type: ignore[arg-type]
    guarantee = mechanism.guarantee(Relation(group=group), n=3)
    assert guarantee.exact
    lattice = (
        tuple(2.0 * i / scale for i in range(1, group + 1)) if noise == "laplace" else (1 / scale**2, 2 / scale**2)
    )
    epsilons = EPSILONS + lattice
    claimed = np.array([guarantee.delta(e) for e in epsilons])
    changes: list[tuple[int, ...]] = [(g, -g) for g in range(1, group + 1)]
    if group == 2:
        changes += [(2, -1, -1), (-2, 1, 1)]
    if group == 3 and scale <= 0.6:
        changes += [(3, -1, -2), (-3, 2, 1)]
    every = np.array([divergence(noise, scale, change, epsilons) for change in changes])
    brute = every.max(axis=0)
    assert np.all(brute <= claimed * (1 + 1e-10) + 1e-13)
    live = claimed > 1e-290
    np.testing.assert_allclose(claimed[live], brute[live], rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(claimed[live], every[group - 1][live], rtol=1e-8, atol=1e-12)
    if noise == "laplace":
        assert guarantee.epsilon(0.0) == pytest.approx(2 * group / scale, rel=1e-12)
