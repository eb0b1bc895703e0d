"""``discreet.audit.examine``: anybody's mechanism, and what is said of the epsilon that would have been caught."""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest
from scipy.stats import binom

from discreet._core.random import seeded
from discreet.audit import examine
from discreet.audit.black_box import Event, Finding, Sampler, compared
from discreet.errors import BudgetError, ParameterError

RATE = 1e-6
dp.enable_features("contrib")


def laplace() -> Any:
    return dp.m.make_laplace(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), scale=1.0)


def geometric() -> Any:
    return dp.m.make_geometric(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=1.0)


@pytest.mark.parametrize(("mechanism", "kind"), [(laplace, float), (geometric, int)])
def test_noise_of_another_library_keeps_its_claim_and_no_smaller_one(mechanism: Any, kind: type) -> None:
    """Both are tests of a rate of 1e-6: a true claim falls so often, and at 0.3 the power is above 1 - 1e-3."""
    made = mechanism()
    assert made.map(kind(1)) == 1.0
    right = examine(made, kind(3), kind(4), epsilon=1.0, runs=1000, error=RATE)
    assert not right.rejected
    assert right.detectable is not None
    assert 1.0 < right.detectable < 2.0
    assert right.at_least < 1.0
    wrong = examine(made, kind(3), kind(4), epsilon=0.3, runs=500)
    assert wrong.rejected
    assert 0.3 < wrong.at_least < 1.0


def events(likely: float, unlikely: float) -> tuple[Sampler, Sampler]:
    def of(chance: float) -> Sampler:
        return lambda rng, runs: (rng.random(runs) < chance).tolist()

    return of(likely), of(unlikely)


@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_the_epsilon_that_is_said_to_be_caught_is_caught_as_often(delta: float) -> None:
    """80 examinations of a sampler of that epsilon and delta, whose event is as likely: 95 % of them, but for 1e-6."""
    rng, likely = seeded(3), 0.6

    def examined(epsilon: float) -> Finding:
        rare = (likely - delta) * math.exp(-epsilon)
        return compared(*events(likely, rare), lambda _: delta, rng=rng, runs=4000, epsilons=[1.0])[0]

    held = examined(1.0)
    assert not held.caught
    stated = held.detectable
    assert stated is not None
    assert 1.0 < stated < 1.5
    assert sum(examined(stated).caught for _ in range(80)) >= binom.ppf(RATE, 80, 0.95)
    assert sum(examined(1.0 + (stated - 1.0) / 3).caught for _ in range(20)) < 10  # it says nothing of this


def test_an_event_that_is_too_rare_says_nothing() -> None:
    event = Event(of="the output", score=lambda _: 0.0, least=0.0, epsilon=1.0, delta=0.0)
    for likely in (0, 1, 10):
        assert Finding(event=event, likely=likely, unlikely=0, runs=1000, error=1e-3).detectable is None
    found = examine(lambda _: 0, 1, 2, epsilon=4.0, runs=100)
    assert not found.rejected
    assert found.detectable is None
    assert found.at_least == 0.0
    assert str(found).endswith("no epsilon would have been caught: take more runs")


def noise(rng: np.random.Generator) -> float:
    return float(rng.laplace(scale=2.0))


def array(rng: np.random.Generator, x: int) -> Any:
    return np.array([noise(rng), x + rng.laplace(scale=0.3), noise(rng)])


def matrix(rng: np.random.Generator, x: int) -> Any:
    return np.array([[noise(rng), noise(rng)], [noise(rng), x + rng.laplace(scale=0.3)]])


def frame(rng: np.random.Generator, x: int) -> Any:
    return pl.DataFrame({"a": [noise(rng), noise(rng)], "b": [x + rng.laplace(scale=0.3), noise(rng)]})


def length(rng: np.random.Generator, x: int) -> Any:
    return [noise(rng) for _ in range(3 + x + int(rng.integers(2)))]


def sometimes_missing(rng: np.random.Generator, x: int) -> Any:
    return math.nan if rng.random() < 0.1 + 0.5 * x else noise(rng)


def nested(rng: np.random.Generator, x: int) -> Any:
    return {"sum": noise(rng), "rows": [("f", noise(rng)), ("m" if rng.random() < 0.2 + 0.6 * x else "f", 1)]}


def order_of_labels(rng: np.random.Generator, x: int) -> Any:
    labels = ["f", "m"] if rng.random() < 0.1 + 0.8 * x else ["m", "f"]
    return tuple(labels)


def in_the_middle(rng: np.random.Generator, x: int) -> Any:
    """Give numbers that are no larger nor smaller, but nearer to the middle."""
    return float(rng.normal(scale=1.0 if x else 0.2))


@pytest.mark.parametrize(
    "leak", [array, matrix, frame, length, sometimes_missing, nested, order_of_labels, in_the_middle]
)
def test_leaks_in_outputs_of_any_kind_are_caught(leak: Callable[[np.random.Generator, int], Any]) -> None:
    rng = seeded(5)
    found = examine(lambda x: leak(rng, x), 0, 1, epsilon=0.5, runs=800)
    assert found.rejected
    assert found.at_least > 0.5
    assert not examine(lambda _: leak(rng, 1), 0, 1, epsilon=0.5, runs=400, error=RATE).rejected
    json.dumps(found.to_dict(), allow_nan=False)


def test_numbers_beyond_doubles_are_values() -> None:
    rng = seeded(7)
    found = examine(lambda x: 10**400 + int(rng.random() < 0.1 + 0.8 * x), 0, 1, epsilon=0.5, runs=300)
    assert found.rejected
    assert not examine(lambda _: int(rng.integers(10**9)) * 10**400, 0, 1, epsilon=0.5, runs=100).rejected


class Odd:
    def __init__(self, value: int) -> None:
        self.value = value


def last_digit(output: Any) -> int:
    return int(getattr(output, "value", output)) % 10


@pytest.mark.parametrize("made", [Odd, lambda value: {value}, int])
def test_features_are_looked_at_beside_the_output(made: Any) -> None:
    """The last digit of a large random number is what leaks: nothing else of it would show that."""
    rng = seeded(6)

    def sample(x: int) -> Any:
        return made(int(rng.integers(10**9)) * 10 + (x if rng.random() < 0.8 else 0))

    def digit(output: Any) -> int:
        return last_digit(next(iter(output)) if isinstance(output, set) else output)

    found = examine(sample, 0, 1, epsilon=1.0, runs=300, features=[digit])
    assert found.rejected
    assert found.findings[0].event.of == "feature 1 (digit)"
    if made is int:
        assert not examine(sample, 0, 1, epsilon=1.0, runs=300).rejected
    else:
        with pytest.raises(ParameterError, match="cannot be compared. Return numbers, texts"):
            examine(sample, 0, 1, epsilon=1.0, runs=300)


@pytest.mark.parametrize(
    ("odd", "error"),
    [
        ({"epsilon": -0.1}, BudgetError),
        ({"epsilon": math.inf}, BudgetError),
        ({"epsilon": 1.0, "delta": 1.0}, BudgetError),
        ({"epsilon": 1.0, "runs": 99}, ParameterError),
        ({"epsilon": 1.0, "error": 0.0}, ParameterError),
    ],
)
def test_what_it_cannot_do_is_refused(odd: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        examine(lambda x: x, 0, 1, **odd)


def test_an_error_of_the_sampler_is_its_own() -> None:
    def failing(_: Sequence[int]) -> int:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        examine(failing, [1], [2], epsilon=1.0)
