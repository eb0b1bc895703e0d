"""The black box: false alarms at most as stated, broken samplers caught with the power that it states."""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from discreet._core.random import seeded
from discreet.audit.attacks import StatedProfile
from discreet.audit.black_box import Finding, Sampler, compared
from discreet.audit.mechanism import examined
from discreet.cli.entry import run
from discreet.errors import ParameterError

RATE = 1e-6


def response(epsilon: float, delta: float = 0.0) -> tuple[Sampler, Sampler]:
    """Return randomised response that tells the truth with probability delta: the worst that a claim allows."""

    def of(truth: int) -> Sampler:
        def sample(rng: np.random.Generator, runs: int) -> Sequence[str]:
            right = rng.random(runs) < 1 / (1 + math.exp(-epsilon))
            told = rng.random(runs) < delta
            return [f"{'!' * bool(t)}{truth if r or t else 1 - truth}" for r, t in zip(right, told, strict=True)]

        return sample

    return of(0), of(1)


def noisy(scale: float) -> tuple[Sampler, Sampler]:
    """Return noisy counts of four cells, of two tables of which one record is replaced: tuples of many values."""

    def of(*counts: int) -> Sampler:
        return lambda rng, runs: [
            tuple(map(int, row))
            for row in np.array(counts) + np.diff(rng.geometric(-math.expm1(-1 / scale), (runs, 4, 2)))[:, :, 0]
        ]

    return of(3, 0, 5, 5), of(2, 1, 5, 5)


def claim(epsilon: float, delta: float = 0.0) -> Callable[[float], float]:
    return StatedProfile(epsilon_stated=epsilon, delta_stated=delta).delta


def caught(found: tuple[Finding, Finding]) -> bool:
    return any(one.caught for one in found)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (0.5, 0.1)])
def test_samplers_that_attain_their_claim_are_refuted_at_most_at_the_rate(epsilon: float, delta: float) -> None:
    """300 examinations at 0.05: no more false alarms than a binomial law of that rate has but for 1e-6."""
    rng = seeded(3)
    alarms = sum(
        caught(compared(*response(epsilon, delta), claim(epsilon, delta), rng=rng, runs=200, error=0.05))
        for _ in range(300)
    )
    assert alarms <= binom.isf(RATE, 300, 0.05)


@pytest.mark.parametrize("samplers", [response(1.4), response(1.0, 0.05), noisy(0.5)])
def test_what_exceeds_its_claim_is_caught_as_often_as_is_said(samplers: tuple[Sampler, Sampler]) -> None:
    """Where the stated power is at least 0.95, fewer than 7 of 14 are caught with probability below 1e-6."""
    rng = seeded(4)
    found = [compared(*samplers, claim(1.0), rng=rng, runs=4000) for _ in range(14)]
    stated = [max(one.power for one in pair) for pair in found]
    assert np.median(stated) >= 0.95
    assert binom.cdf(6, 14, 0.95) < RATE
    assert sum(map(caught, found)) >= 7


def test_the_power_of_what_keeps_its_claim_is_small() -> None:
    found = compared(*response(1.0), claim(1.0), rng=seeded(5), runs=8000)
    assert max(one.power for one in found) < 0.05
    assert max(one.power for one in compared(*noisy(2.0), claim(1.0), rng=seeded(5), runs=8000)) < 0.05


@pytest.mark.parametrize("odd", [{"runs": 99}, {"error": 0.0}, {"error": 1.0}])
def test_what_it_cannot_do_is_refused(odd: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        compared(*response(1.0), claim(1.0), rng=seeded(1), **odd)


ASKED: dict[str, Any] = {"records": 2, "epsilon": 1.0, "delta": 0.0, "size": 1, "cells": 3, "runs": 400}


def test_a_right_mechanism_is_exact_and_its_twins_are_caught() -> None:
    found = examined("smoothed-histogram", **ASKED)
    assert not found.rejected
    assert found.exact is not None
    assert found.exact.divergence == pytest.approx(found.exact.promised, rel=1e-9)  # its promise is attained
    assert found.exact.twin_caught == pytest.approx(1.1)
    assert found.power is not None
    assert found.power[1] >= 0.95


def test_a_mechanism_with_too_little_noise_is_rejected_both_ways() -> None:
    found = examined("smoothed-histogram", law=2.0, **ASKED)
    assert found.exact is not None
    assert found.exact.exceeded
    assert any(one.caught for one in found.findings)
    assert found.rejected
    assert str(found).endswith("\nrejected")


def test_a_law_that_cannot_be_listed_is_run_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.audit.mechanism.FACTORS", (1.1,))  # too near for 100 runs
    found = examined("perturbed-histogram", **{**ASKED, "runs": 100, "records": 3})
    assert found.exact is None
    assert "its law cannot be listed" in str(found)
    assert found.power is None
    assert "no twin would have been caught: take more runs" in str(found)


def test_a_universe_that_is_too_large_is_only_run() -> None:
    found = examined("smoothed-histogram", **{**ASKED, "cells": 60, "runs": 100})
    assert found.exact is None
    assert not found.rejected


def test_without_atoms_the_values_of_tables_are_not_those_that_are_drawn() -> None:
    asked = {**ASKED, "delta": 0.1, "runs": 100}
    del asked["cells"]
    found = examined("pitman-yor", **asked)
    assert found.exact is not None
    assert not found.rejected
    assert found.exact.divergence == pytest.approx(found.exact.promised, rel=1e-9)
    assert found.exact.twin_caught == pytest.approx(1.1)  # of a delta that is 1.1 times too large


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["audit", "mechanism", "smoothed-histogram", "--records", "2", "--size", "1", "--param", "cells=3"]
    assert run([*asked, "--runs", "400", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rejected"] is False
    assert found["exact"]["exceeded"] is False
    assert found["black_box"]["power"]["power"] >= 0.95
    assert run([*asked, "--runs", "100"]) == 0
    assert "black box: not refuted by 100 runs" in capsys.readouterr().out
    assert run([*asked, "--runs", "3"]) == 2
    assert run(["audit", "mechanism", "no-such"]) == 2
