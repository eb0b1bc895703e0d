"""Run chains until their draws are worth what was asked for, or say that they are not."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from discreet._core.arrays import Floats, Indices
from discreet.inference._chains.model import Model
from discreet.inference._diagnostics import effective_sample_size, r_hat
from discreet.inference._warnings import NotConverged

__all__ = ["Progress", "Run", "run"]

Progress = Callable[[int, int], object]

_CHAINS = 50
_WARM_UP = 15
_MONITORED = 48
_AGREED = 1.05


class Run(NamedTuple):
    """Draws of the cells' probabilities.

    ``masses``, shape (chains * kept, k): Chain after chain.
    ``chains``: number of chains.
    ``effective``, ``r_hat``: the least effective sample size and the largest R-hat of the numbers watched.
    ``sweeps``: Sweeps made, warm-up included.
    """

    masses: Floats
    chains: int
    effective: float
    r_hat: float
    sweeps: int


def run(
    model: Model,
    *,
    draws: int,
    rng: np.random.Generator,
    most_sweeps: int,
    progress: Progress | None = None,
) -> Run:
    """Return posterior draws that are worth ``draws`` independent ones.

    A run keeps one state in ``thin`` sweeps. Where the draws are worth too little, or the chains disagree, all are
    thrown away, ``thin`` grows by as much as it seems to need, and the chains go on: everything before is warm-up.

    ``model``: not started.
    ``draws``: Effective draws wanted.
    ``rng``: source of all draws.
    ``most_sweeps``: Give up after that many, with a warning.
    ``progress``: called with the number of states kept so far in a run, and in all of it; it may start again.

    Warns
    -----
    NotConverged
        With the numbers, when it gave up.
    """
    chains = min(_CHAINS, max(4, draws // 20))
    kept = max(8, -(-draws * 7 // (4 * chains)))
    model.start(chains, rng)
    for _ in range(_WARM_UP):
        model.sweep(rng, tune=True)
    watched = np.unique(np.linspace(0, model.cells - 1, _MONITORED).astype(np.intp))
    sweeps, thin = _WARM_UP, 1
    while True:
        masses = np.empty((chains, kept, model.cells))
        for i in range(kept):
            for _ in range(thin):
                model.sweep(rng, tune=False)
            masses[:, i] = model.masses(rng)
            if progress is not None:
                progress(i + 1, kept)
        sweeps += kept * thin
        effective, agreement = _quality(masses, watched)
        enough = effective >= draws and agreement <= _AGREED
        wanted = thin * min(8.0, max(1.25 * draws / effective, agreement - _AGREED + 1.0))
        thin = max(thin + 1, math.ceil(wanted))
        if enough or sweeps + kept * thin > most_sweeps:
            break
        model.sweep(rng, tune=True)
    if not enough:
        warnings.warn(
            f"the chains did not converge in {sweeps:,} sweeps. Effective draws: {effective:,.0f} of the "
            f"{draws:,} asked for. R-hat: {agreement:.3f} (1 where chains agree). Allow more sweeps, or take intervals "
            "as rough",
            NotConverged,
            stacklevel=4,
        )
    return Run(masses.reshape(chains * kept, -1), chains, effective, agreement, sweeps)


def _quality(masses: Floats, watched: Indices) -> tuple[float, float]:
    """Return the least effective sample size and the largest R-hat of some cells' and cumulated probabilities."""
    numbers = [masses[:, :, cell] for cell in watched.tolist()]
    cumulated = np.cumsum(masses, axis=2)
    numbers += [cumulated[:, :, cell] for cell in watched[:-1].tolist()]
    return min(map(effective_sample_size, numbers)), max(map(r_hat, numbers))
