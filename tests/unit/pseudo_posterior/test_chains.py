"""Chains that go on until they keep their limits: what is kept of them, and when they end."""

import math

import numpy as np
import pytest

from discreet._core.lazy import dist, jax, jnp, numpyro
from discreet._core.random import seeded
from discreet.errors import ParameterError, Refused
from discreet.inference.summary import effective_sample_size, r_hat
from discreet.pseudo_posterior import Convergence
from discreet.pseudo_posterior.sampler import AS_LONG_AS_ASKED, Sampler
from discreet.pseudo_posterior.synthesiser import Chain, FromModel, Synthesiser

pytestmark = pytest.mark.chains

DATA = {"y": seeded(1).normal(size=30)}
WEIGHTS = np.linspace(0.2, 1.0, 30)
NEVER = Convergence(r_hat=0.5, divergent=1.0, doublings=2)
BLOCK = 7


def normal_model(data):
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(mean, 1.0).expand([len(data["y"])]), obs=data["y"])


class Slow(Synthesiser):
    """A chain that forgets where it was only slowly, in blocks of seven draws; every hundredth is divergent."""

    sensitive = ("y",)
    monitored = None

    def model(self, data):
        normal_model(data)

    def start(self, data, *, chain):
        return {"mean": np.asarray(float(chain))}

    def chain(self, data, *, warm_up, bound):
        def draw(at, _):
            key, x, index = at
            x = 0.95 * x + math.sqrt(1 - 0.95**2) * jax.random.normal(jax.random.fold_in(key, index))
            return (key, x, index + 1), ({"mean": x}, index % 100 == 99)

        return Chain(begin=lambda key, values, _: (key, values["mean"], jnp.int32(0)),
                     advance=lambda at, _: jax.lax.scan(draw, at, None, length=BLOCK))  # fmt: skip


def drawn(synthesiser, draws, *, until=AS_LONG_AS_ASKED, told=None, method="sequential"):
    """Return draws by chain."""
    sampler = Sampler(synthesiser, DATA, draws=draws, warm_up=50, chains=3, chain_method=method, progress=told)
    made = sampler.draw(WEIGHTS, rng=seeded(2), until=until)
    return made, made.values["mean"].reshape(3, -1)


@pytest.mark.parametrize(
    "synthesiser", [Slow(), FromModel(function=normal_model, sensitive=("y",))], ids=["own", "nuts"]
)
def test_a_chain_that_goes_on_is_the_longer_chain_of_which_some_draws_are_kept(synthesiser) -> None:
    _, whole = drawn(synthesiser, 240)
    made, kept = drawn(synthesiser, 60, until=NEVER)
    np.testing.assert_array_equal(kept, whole[:, 3::4])
    logs = -0.5 * (DATA["y"] - kept[:, :, None]) ** 2 - 0.5 * math.log(2 * math.pi)
    np.testing.assert_allclose(made.watched["log_pseudo_likelihood[0]"], logs @ WEIGHTS, rtol=1e-5)
    with pytest.raises(Refused, match="R-hat"):
        made.require(NEVER)
    easy = Convergence(r_hat=9.0, effective=0.0, divergent=1.0)
    np.testing.assert_array_equal(drawn(synthesiser, 60, until=easy)[1], whole[:, :60])


def test_a_chain_goes_on_as_long_as_it_is_beyond_its_limits_and_no_longer() -> None:
    calls = []
    limits = Convergence(r_hat=1.1, effective=25.0, divergent=0.02)
    made, kept = drawn(Slow(), 200, until=limits, told=lambda done, of: calls.append((done, of)))
    made.require(limits)
    whole = drawn(Slow(), 1600)[1]
    lengths = [200 * 2**j for j in range(4)]
    fine = [
        r_hat(part) <= 1.1 and effective_sample_size(part) >= 75
        for part in (whole[:, :of][:, of // 200 - 1 :: of // 200] for of in lengths)
    ]
    needed = lengths[fine.index(True)]
    assert needed > 200
    np.testing.assert_array_equal(kept, whole[:, needed // 200 - 1 : needed : needed // 200])
    assert calls[-1] == (50 + needed, 50 + needed)
    assert sorted({of for _, of in calls}) == [50 + of for of in lengths if of <= needed]
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


def test_every_draw_counts_towards_the_share_of_divergent_ones() -> None:
    """Of draws 51 to 290, those number 100 and 200; of those that are kept, none."""
    never = Convergence(r_hat=0.5, divergent=0.5, doublings=2)
    assert drawn(Slow(), 60, until=never)[0].divergent == pytest.approx(2 / 240)


def test_chains_do_not_go_on_where_divergent_draws_are_too_many_already() -> None:
    lengths = []
    drawn(Slow(), 60, until=Convergence(r_hat=0.5, doublings=2), told=lambda _, of: lengths.append(of))
    assert max(lengths) == 110  # draw 100 diverged


def test_chains_in_one_vector_are_those_one_after_the_other() -> None:
    np.testing.assert_allclose(drawn(Slow(), 60, method="vectorized")[1], drawn(Slow(), 60)[1], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(drawn(Slow(), 60, method="parallel")[1], drawn(Slow(), 60)[1])


@pytest.mark.parametrize(
    "limits", [{"r_hat": math.nan}, {"doublings": -1}, {"doublings": 1.0}, {"doublings": True}, {"effective": None}]
)
def test_limits_are_numbers(limits) -> None:
    with pytest.raises(ParameterError, match=next(iter(limits))):
        Convergence(**limits)
