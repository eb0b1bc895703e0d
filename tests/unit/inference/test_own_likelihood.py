"""A likelihood that derives from no other one has a whole posterior, with the usual priors and bounds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from discreet._core.random import seeded
from discreet.domain import Domain, Integer
from discreet.inference.mechanism_aware import latent_counts
from discreet.inference.prior import Noise, Prior
from discreet.inference.samplers import SAMPLERS, ReleasedCounts, noisy
from discreet.mechanisms import PerturbedHistogram
from discreet.mechanisms.likelihood import Likelihood
from discreet.mechanisms.noise import NoiseLaw

CELLS = Domain(columns={"x": Integer(lower=1, upper=16)})


@dataclass(frozen=True, kw_only=True)
class Own(Likelihood):
    """Noisy counts, written anew."""

    law: NoiseLaw
    width: float

    @property
    def noise(self) -> float:  # type: ignore[override]
        return self.law.standard_deviation(self.width)


class Silent(Own):
    """The broken twin, which does not say that counts have noise."""

    noise: ClassVar[float] = 0.0  # type: ignore[misc,assignment]


@dataclass(frozen=True, kw_only=True)
class Noisy(PerturbedHistogram):
    name: ClassVar[str] = "noisy"
    kind: ClassVar[type[Own]] = Own

    def likelihood(self) -> Any:
        return self.kind(law=self.law, width=self.scale)


@dataclass(frozen=True, kw_only=True)
class Wrong(Noisy):
    kind: ClassVar[type[Own]] = Silent


def _sampled(likelihood: Own, priors: Sequence[Prior], release: ReleasedCounts, _rng: np.random.Generator) -> Any:
    return noisy(priors, release.n, release.values, Noise.from_law(likelihood.law, likelihood.width))


@pytest.mark.parametrize("strength", [None, 2.0])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_it_has_the_posterior_of_a_likelihood_that_is_there(
    noise: str, strength: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in (Own, Silent):
        monkeypatch.setitem(SAMPLERS, kind, _sampled)  # type: ignore[arg-type]
    counts = np.array([40, 35, 1, -2, 0, 3, 30, 60, 0, 1, -1, 2, 0, 15, 9, 7])
    release, facts = ReleasedCounts(200, counts), {"domain": CELLS, "records": 200, "scale": 2.0, "noise": noise}

    def drawn(kind: type[PerturbedHistogram]) -> Any:
        return latent_counts(kind(**facts), release, strength=strength, draws=50, rng=seeded(1))

    known, own, wrong = map(drawn, (PerturbedHistogram, Noisy, Wrong))
    assert own.draws.counts.tolist() == known.draws.counts.tolist()
    assert (own.unseen is None) == (known.unseen is None) == (strength is not None)
    if strength is None:
        assert own.unseen.cells.tolist() == known.unseen.cells.tolist()
        assert wrong.unseen is None
