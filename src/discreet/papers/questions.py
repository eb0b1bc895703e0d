"""What the papers' formulas answer, asked by name: the number, what it means, and what it rests on."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from discreet._core.checks import choice
from discreet._core.errors import ParameterError
from discreet._core.text import about, counted
from discreet.papers import pe25, py26, roo25


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A formula of a paper, as a question about public numbers.

    ``formula``: its numbers are its parameters.
    ``means``: a sentence about the answer, ``{}`` where it stands.
    ``rests_on``: what is taken for granted.
    ``records``: whether the answer is a number of records, which is rounded up where it is told.
    """

    formula: Callable[..., float]
    means: str
    rests_on: str
    records: bool = False

    @property
    def numbers(self) -> dict[str, bool]:
        """What it asks for, and whether it cannot do without."""
        parameters = inspect.signature(self.formula).parameters.values()
        return {p.name: p.default is p.empty for p in parameters if not isinstance(p.default, bool)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a question.

    ``name``, ``given``: the question, and the numbers that it was asked with.
    ``value``: the number.
    ``means``, ``rests_on``: sentences.
    """

    name: str
    given: dict[str, Any]
    value: float
    means: str
    rests_on: str

    def __str__(self) -> str:
        return f"{self.means}\n- {self.rests_on}"


_RATE = (
    "A rate has no constant: it says how the distance falls from one size to another, and is no prediction of an error"
)

QUESTIONS = {
    "theorem-2-size": Question(
        formula=py26.largest_size_theorem_2,
        means="PY26's theorem 2 allows a Dirichlet-process release of at most {}.",
        rests_on=(
            "PY26, theorem 2, for a base measure without atoms. It is sufficient, not necessary: the library's theorem "
            "T1 is exact and allows as many or more, which is what `discreet calibrate dirichlet-process` solves for"
        ),
        records=True,
    ),
    "theorem-2-delta": Question(
        formula=py26.pitman_yor_theorem_2,
        means="PY26's theorem 2 gives a Dirichlet-process release a delta of {}.",
        rests_on=(
            "PY26, theorem 2, for a base measure without atoms. It is an upper bound: the library's theorem T1 is "
            "exact and never larger, which is what `discreet privacy dirichlet-process` computes"
        ),
    ),
    "rate-sample": Question(
        formula=py26.empirical_rate,
        means="The Wasserstein-1 distance of n records from the law they are drawn from is of the order {}.",
        rests_on=f"Fournier and Guillin (2015), theorem 1, as in PY26, theorem A.1. {_RATE}",
    ),
    "rate-cells": Question(
        formula=py26.dirichlet_multinomial_rate,
        means="The Wasserstein-1 distance of a Dirichlet-multinomial release from the population is of the order {}.",
        rests_on=f"PY26, theorem 3: at least 2 cells, each with a prior mass of at least 2. {_RATE}",
    ),
    "rate-values": Question(
        formula=py26.dirichlet_process_rate,
        means="The Wasserstein-1 distance of a Dirichlet-process release from the population is of the order {}.",
        rests_on=f"PY26, theorem 4: bounded records. {_RATE}",
    ),
    "rate-vanishing-delta": Question(
        formula=py26.vanishing_delta_rate,
        means="With m = n / log n, for which delta vanishes, the Wasserstein-1 distance of a Dirichlet-process release "
        "is of the order {}.",
        rests_on=f"PY26, corollary 4, whose case of one dimension is mended here. {_RATE}",
    ),
    "rate-evolution": Question(
        formula=pe25.private_evolution_rate,
        means="The Wasserstein-1 distance of Private Evolution from the confidential records is of the order {}.",
        rests_on=f"PE25, theorem 4.1, without its logarithms: epsilon and delta below 1. {_RATE}",
    ),
    "records-as-published": Question(
        formula=roo25.laplace_projection_5,
        means="ROO25 asks for {} to draw one record of that accuracy with Laplace noise.",
        rests_on=(
            "ROO25, equation (5): pure differential privacy, and a drawn record whose law is within the accuracy in "
            "total variation. It is enough, and up to twice what is needed"
        ),
        records=True,
    ),
}


def answered(name: str, given: Mapping[str, Any], questions: Mapping[str, Question] = QUESTIONS) -> Answer:
    """Answer a question.

    ``name``: one of ``questions``.
    ``given``: the numbers that it asks for, by their names.

    Raises
    ------
    ParameterError
        When there is no such question, or a number is missing, not asked for, or out of range, or the answer is.
    """
    choice("question", name, tuple(questions))
    question, numbers = questions[name], questions[name].numbers
    if not set(given) <= set(numbers):
        extra = ", ".join(sorted(set(given) - set(numbers)))
        raise ParameterError(f"{name} does not ask for {extra}. It asks for {', '.join(numbers)}")
    if missing := [number for number, needed in numbers.items() if needed and number not in given]:
        raise ParameterError(f"{name} asks for {', '.join(numbers)}. Give {' and '.join(missing)} too")
    value = _finite(question.formula, given)
    whole = math.ceil(value * (1.0 - 1e-12))  # what is whole but for rounding is not a record more
    told = counted(whole, "record") if question.records else about(value, 6)
    return Answer(
        name=name, given=dict(given), value=value, means=question.means.format(told), rests_on=question.rests_on
    )


def _finite(formula: Callable[..., float], given: Mapping[str, Any]) -> float:
    """Return a formula's answer, or refuse numbers so large or small that it has none."""
    value = formula(**given)
    if not math.isfinite(value):
        raise ParameterError("the answer is beyond the range of numbers. Take less extreme ones")
    return value
