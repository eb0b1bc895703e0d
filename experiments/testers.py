"""Testers and accountants of other libraries on the mechanisms of this one: what they were given, and what they found.

Run ``nox -s testers``, or ``python experiments/testers.py`` where ``pystatdp`` and ``jax-privacy`` are installed; it
writes ``experiments/results/testers/``.

Every mechanism is calibrated for epsilon 1 on tables of three records, as in ``audit_power.py``, and run on its worst
pairs. A few are run through the whole ``release``, from a dataframe to the released records. Each tester is given one
number of each output: the log-ratio of the two laws, estimated from other runs. It is asked about the claim, and about
a quarter of it, delta included, both at a significance of 0.1 %.

- StatDP (``pystatdp``): is epsilon refuted? It knows no delta, so mechanisms with one are left out.
- jax-privacy: does its Clopper-Pearson lower bound on epsilon, at that delta, exceed epsilon?

Compositions are compared with dp-accounting: each composed delta must lie between its optimistic and its
pessimistic one, but for 1 % and 1e-12.
"""

import sys
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from _harness import HERE, script, write
from audit_power import SLOW, asked

from discreet import Budget, release
from discreet._core.random import seeded
from discreet.audit.black_box import likelihood_ratio
from discreet.audit.mechanism import Case, sampler
from discreet.domain import Category, Domain
from discreet.mechanisms import REGISTRY
from discreet.privacy import DiscreteGaussianPair, DiscreteLaplacePair, compose

RESULTS = HERE / "results" / "testers"
SIGNIFICANCE = 1e-3
RUNS, FEW, RELEASES = 8000, 1500, 1200
CLAIM, TOO_SMALL = 1.0, 0.25
RELEASED = ("smoothed-histogram", "dirichlet-multinomial", "perturbed-histogram")
WITHOUT_SLICE = {"testers.csv": "needs other libraries, of which one draws without a seed"}

Outputs = Sequence[Hashable]


def tested(outputs: Sequence[Outputs], delta: float) -> Iterator[tuple[str, float, bool]]:
    """Yield what each tester says of two samples: its name, the epsilon that it was asked about, and its verdict."""
    for sides in (outputs, outputs[::-1]):
        half = len(sides[0]) // 2
        ratio, _ = likelihood_ratio(*(side[:half] for side in sides))
        scores = [np.array([ratio(one) for one in side[half:]]) for side in sides]
        for epsilon in (CLAIM, TOO_SMALL):
            yield "jax-privacy", epsilon, jax_privacy(*scores, epsilon, delta * epsilon / CLAIM)
            if delta == 0.0:
                yield "StatDP", epsilon, statdp(*scores, epsilon)


def jax_privacy(likely: Any, unlikely: Any, epsilon: float, delta: float) -> bool:
    """Return whether the lower bound on epsilon exceeds it."""
    from jax_privacy.auditing import CanaryScoreAuditor

    return bool(CanaryScoreAuditor(likely, unlikely).epsilon_clopper_pearson(SIGNIFICANCE, delta=delta) > epsilon)


def statdp(likely: Any, unlikely: Any, epsilon: float) -> bool:
    """Return whether an event that is chosen on a third of the runs refutes epsilon on the others."""
    sys.path[:] = [folder for folder in sys.path if Path(folder) != HERE]  # numba would import coverage.py from here
    from pystatdp.hypotest import hypothesis_test
    from pystatdp.selectors import select_event

    third, here = len(likely) // 3, Here()
    choose, test = drawn_from(likely[:third], unlikely[:third]), drawn_from(likely[third:], unlikely[third:])
    tables = np.array([0.0]), np.array([1.0])
    *_, event = select_event(choose, ((*tables, {}),), epsilon, third - 1, here, quiet=True)
    runs = len(likely) - third - 1  # it runs the first table once more, to see what comes
    return bool(hypothesis_test(test, *tables, {}, event, epsilon, runs, here, report_p2=False) < SIGNIFICANCE)


def drawn_from(*sides: Any) -> Callable[[Any], float]:
    """Return an algorithm that gives outputs which were drawn already, each once."""
    left = [iter(side.tolist()) for side in sides]
    return lambda table: float(next(left[int(table[0])]))


class Here:
    _processes = 1

    def imap_unordered(self, function: Callable[[Any], Any], items: Any) -> Any:
        return map(function, items)


def counted(found: Sequence[tuple[str, float, bool]]) -> list[list[Any]]:
    kinds = sorted({(tester, -epsilon) for tester, epsilon, _ in found})
    of = {(t, e): [refuted for tester, epsilon, refuted in found if (tester, -epsilon) == (t, e)] for t, e in kinds}
    return [[tester, -epsilon, len(of[tester, epsilon]), sum(of[tester, epsilon])] for tester, epsilon in kinds]


def released(name: str, values: list[str]) -> Hashable:
    """Return the records of a release of a table of one column, from a dataframe on."""
    domain = Domain(columns={"label": Category(categories=["a", "b", "c"])})
    table = pl.DataFrame({"label": values})
    made = release(table, domain, Budget(epsilon=CLAIM), size=1, mechanism=name, accept={"poor-utility"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one record is no sample of a population
        return tuple(made.table()["label"].to_list())


INTERVAL, SMALL = 1e-4, 1e-12
COMPOSED = ["releases", "epsilon", "delta", "optimistic", "pessimistic", "within"]
PARTS: dict[str, tuple[tuple[str, float, int], ...]] = {
    "10 of Laplace noise, scale 10": (("laplace", 10.0, 10),),
    "50 of Laplace noise, scale 40": (("laplace", 40.0, 50),),
    "10 of Gaussian noise, scale 12": (("gaussian", 12.0, 10),),
    "30 of Gaussian noise, scale 25": (("gaussian", 25.0, 30),),
    "5 of either, scales 8 and 9": (("laplace", 8.0, 5), ("gaussian", 9.0, 5)),
}


def compositions() -> list[list[Any]]:
    """Return rows: a composed delta, and the bounds of dp-accounting on it."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    def theirs(kind: str, scale: float, *, pessimistic: bool) -> Any:
        how = {"value_discretization_interval": INTERVAL, "pessimistic_estimate": pessimistic}
        if kind == "laplace":
            made = pld.from_discrete_laplace_mechanism(1.0 / scale, **how)
        else:
            made = pld.from_discrete_gaussian_mechanism(scale, **how)
        return made.compose(made)  # two counts change by one

    pairs = {"laplace": DiscreteLaplacePair, "gaussian": DiscreteGaussianPair}
    rows = []
    for name, parts in PARTS.items():
        ours = compose([pairs[kind](scale=scale, counts=2) for kind, scale, times in parts for _ in range(times)])
        bounds = []
        for pessimistic in (False, True):
            whole = pld.identity(value_discretization_interval=INTERVAL, pessimistic_estimate=pessimistic)
            for kind, scale, times in parts:
                whole = whole.compose(theirs(kind, scale, pessimistic=pessimistic).self_compose(times))
            bounds.append(whole)
        for epsilon in (0.5, 1.0, 2.0):
            low, high = (float(one.get_delta_for_epsilon(epsilon)) for one in bounds)
            delta = ours.delta(epsilon)
            within = "yes" if low <= delta + SMALL <= high * 1.01 + 2 * SMALL else "no"
            rows.append([name, epsilon, delta, low, high, within])
    return rows


def slices() -> dict[str, Any]:
    """Return compositions; deltas that a machine's Fourier transform rounds in the sixth digit are not compared."""
    rows = [[None if isinstance(x, float) and x < 1e6 * SMALL else x for x in row] for row in compositions()]
    return {"compositions.csv": rows}


@script(share=(1.0, 0.05))
def main(share: float) -> None:
    rows = []
    for name in REGISTRY:
        case = Case.from_name(name, **asked(name))
        runs = int(share * (FEW if name in SLOW else RUNS))
        found = []
        for x, y in case.pairs:
            one, other = (sampler(case.claimed, table, x, y) for table in (x, y))
            found += tested([one(seeded(1), runs), other(seeded(2), runs)], asked(name)["delta"])
        rows += [[name, "mechanism", *row] for row in counted(found)]
    for name in RELEASED:
        made = [[released(name, values) for _ in range(int(share * RELEASES))] for values in (["a"], ["b"])]
        rows += [[name, "release", *row] for row in counted(list(tested(made, 0.0)))]
    write(RESULTS / "testers.csv", ["mechanism", "through", "tester", "epsilon", "tests", "refuted"], rows)
    write(RESULTS / "compositions.csv", COMPOSED, compositions())
    wrong = [row for row in rows if row[3] == CLAIM and row[5]]
    inside = all(row[-1] == "yes" for row in compositions())
    print("refuted at the claim:", wrong or "nothing", "- compositions within their bounds:", inside)
    raise SystemExit(bool(wrong) or not inside)
