"""The risk-utility frontier: what each weighting costs in privacy and keeps in statistics. Confidential throughout."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields
from multiprocessing import get_context
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats
from discreet._core.checks import choice, integer
from discreet._core.errors import FileProblem, ParameterError, Refused
from discreet._core.files import own_folder, together
from discreet._core.page import NOTICE
from discreet._core.random import seeded
from discreet._core.reading import read_json
from discreet.domain import Domain
from discreet.pseudo_posterior.attacked import Attacked
from discreet.pseudo_posterior.likelihood import Columns
from discreet.pseudo_posterior.pseudo import PseudoPosterior, Risks, _extremes
from discreet.pseudo_posterior.sampler import PosteriorDraws, Sampler
from discreet.pseudo_posterior.weights import Weighting
from discreet.utility.disclosure import AttackRate, Disclosure

# Statistics across several synthetic tables: resampling distributions and their Wasserstein barycentre.


def barycentre(samples: Sequence[npt.ArrayLike], *, size: int = 1000) -> Floats:
    r"""Return the Wasserstein-2 barycentre of distributions on the line: the average of their quantiles.

    :math:`\bar F^{-1}(u)=\frac1m\sum_jF_j^{-1}(u)` (PP22, section 5.2; Srivastava, Cevher, Dinh and Dunson, 2015).
    Raises ParameterError when there is no sample, or an empty one.

    ``samples``: one sample per distribution.
    ``size``: how many quantiles, at levels ``(i + 1/2) / size``.
    Returns, shape (size,): the barycentre's quantiles, increasing.

    Examples
    --------
    >>> barycentre([[0.0, 1.0], [10.0, 13.0]], size=2).tolist()
    [5.0, 7.0]
    """
    parts = [np.asarray(sample, dtype=np.float64).ravel() for sample in samples]
    if not parts or min(map(len, parts)) == 0 or size < 1:
        raise ParameterError("a barycentre needs at least one sample, none of them empty, and a size of at least 1")
    levels = (np.arange(size) + 0.5) / size
    return np.asarray(np.mean([np.quantile(part, levels, method="inverted_cdf") for part in parts], axis=0))


def resampled(
    values: npt.ArrayLike, statistic: Callable[[Floats], float], *, rng: np.random.Generator, resamples: int = 500
) -> Floats:
    """Return the resampling distribution of a statistic of one column: of samples drawn with replacement."""
    x = np.asarray(values, dtype=np.float64)
    return np.array([float(statistic(x[rng.integers(len(x), size=len(x))])) for _ in range(resamples)])


def across_tables(
    tables: Sequence[npt.ArrayLike],
    statistic: Callable[[Floats], float],
    *,
    rng: np.random.Generator,
    resamples: int = 500,
    size: int = 500,
) -> Floats:
    """Return the barycentre of a statistic's resampling distributions in several tables, as in PP22's Figures 5 to 7.

    Parameters
    ----------
    tables : sequence of array_like of float
        The same column of each table.
    statistic, rng, resamples
        As for :func:`resampled`.
    size : int
        As for :func:`barycentre`.
    """
    return barycentre([resampled(t, statistic, rng=rng, resamples=resamples) for t in tables], size=size)


_REMEDY = "name another folder, or move what is in this one elsewhere"

Statistic = Callable[[Floats], float]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FrontierPoint:
    """One weighting, its local bound, and what its tables keep. Confidential.

    Parameters
    ----------
    label : str
        Name of the weighting.
    lipschitz, epsilon : float
        PP22's local bound, and the local epsilon of one table.
    mean_weight : float
        Average weight of a record.
    r_hat, effective, divergent : float
        Of the chains.
    statistics : dict of str to tuple
        Quantiles (of levels 2.5, 25, 50, 75 and 97.5 %) of each statistic's resampling distribution across tables.
    data : dict of str to tuple
        The same of the confidential table.
    failed : str or None
        Why there is no fit, in words.
    disclosure : tuple
        What attacks on single records reach in its tables, each table by itself and then their mean, where a domain was
        given. See :func:`~discreet.utility.compare`.
    """

    label: str
    lipschitz: float
    epsilon: float
    mean_weight: float
    r_hat: float
    effective: float
    divergent: float
    statistics: dict[str, tuple[float, ...]]
    data: dict[str, tuple[float, ...]]
    failed: str | None = None
    disclosure: tuple[Disclosure, ...] = ()

    def error(self, statistic: str) -> float:
        """Return how far the median of a statistic is from that of the confidential table."""
        return abs(self.statistics[statistic][2] - self.data[statistic][2])


def frontier(
    mechanism: PseudoPosterior,
    columns: Columns,
    weightings: Mapping[str, Weighting],
    statistics: Mapping[str, Statistic],
    *,
    column: str,
    folder: str | os.PathLike[str],
    seed: int,
    workers: int = 1,
    resamples: int = 200,
    progress: Callable[[int], None] | None = None,
    domain: Domain | None = None,
    known: str | Sequence[str] | None = None,
    holdout: Any = None,
) -> list[FrontierPoint]:
    """Fit every weighting, measure its bound and its tables, and keep each result as it comes.

    The unweighted posterior is fitted once per call. Each finished point is a file of its own: a call that is
    interrupted goes on where it stopped when it is repeated, with the numbers that it would have had.

    Parameters
    ----------
    mechanism : PseudoPosterior
        Model, chains and number of tables; its weighting is not used. Chains that did not converge are reported in the
        points, not refused.
    columns : mapping of str to ndarray
        Confidential.
    weightings : mapping of str to Weighting
        What to compare, by name.
    statistics : mapping of str to callable
        Functions of one column's values, by name; picklable where there are several workers.
    column : str
        The sensitive column that they are computed on.
    folder : path
        **Confidential**: where the points are kept, as JSON marked so. It has to be empty, or hold points of the same
        model, settings and table. Functions are compared by their names alone: where you change one, name another
        folder.
    seed : int
        Source of everything: nothing here is for publication.
    workers : int
        Processes that fit at the same time. They are started afresh: with several, what they need has to be picklable
        (functions of a module, no lambdas), and a script has to be guarded by ``if __name__ == "__main__"``.
    resamples : int
        Resamples a table.
    progress : callable, optional
        Called with the number of points that are done, a public number.
    domain : Domain, optional
        Public: the declaration of the columns. With it the tables are attacked: how often is the value of ``column``
        found for a record of which others are known? The points then have ``disclosure``.
    known : str or sequence of str, optional
        The columns that an intruder knows of a record; all but ``column`` by default.
    holdout : dataframe, str or path, optional
        Confidential records of the same population that are not in the table: the control of the attacks. Without it
        nobody can say what of their rates is learned from the population.

    Returns
    -------
    list of FrontierPoint
        In the order of ``weightings``. Confidential.

    Raises
    ------
    FileProblem
        When the folder belongs to something else, or a label in it to another weighting.
    ParameterError
        When the column is not sensitive, or there is no worker, or several and something cannot be sent to them; or
        known columns or a holdout are given without a domain.
    """
    if domain is None and not (known is None and holdout is None):
        raise ParameterError("known columns and a holdout are of use with a domain only. Write domain=...")
    choice("column", column, mechanism.synthesiser.sensitive)
    if integer("workers", workers, least=1) > 1:
        _check_picklable((mechanism, dict(statistics), dict(weightings)))
    attacked = None
    if domain is not None:
        attacked = Attacked.of(
            mechanism.synthesiser, columns, domain, column=column, known=known, holdout=holdout, rng=seeded(seed)
        )
    where = Path(folder)
    own_folder(where, private=True)
    _claim(where, mechanism, columns, tuple(statistics), column, seed, resamples, attacked)
    missing = {label: w for label, w in weightings.items() if not _is_kept(where, label, w)}
    done = len(weightings) - len(missing)
    if missing:
        first = _Shared.fitted(mechanism, columns, statistics, column, seed, resamples, attacked)
        for label, point in _points(first, missing, workers):
            kept = {"confidential": True, "notice": NOTICE, "weighting": _named(weightings[label]), **asdict(point)}
            _keep(_file(where, label), kept)
            done += 1
            if progress is not None:
                progress(done)
    return [_read(_file(where, label)) for label in weightings]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """What every point needs."""

    mechanism: PseudoPosterior
    columns: Columns
    statistics: Mapping[str, Statistic]
    column: str
    seed: int
    resamples: int
    unweighted: PosteriorDraws
    risks: Risks
    data: dict[str, tuple[float, ...]]
    attacked: Attacked | None

    @classmethod
    def fitted(
        cls, mechanism: PseudoPosterior, columns: Columns, statistics: Mapping[str, Statistic], column: str,
        seed: int, resamples: int, attacked: Attacked | None,
    ) -> _Shared:  # fmt: skip
        rng = seeded(seed)
        sampler = mechanism.sampler(columns)
        draws = sampler.draw(np.ones(sampler.count), rng=rng)
        held = {
            name: _quantiles(resampled(columns[column], statistic, rng=rng, resamples=5 * resamples))
            for name, statistic in statistics.items()
        }
        return cls(mechanism=mechanism, columns=columns, statistics=statistics, column=column, seed=seed,
                   resamples=resamples, unweighted=draws, data=held, attacked=attacked,
                   risks=_extremes(sampler, draws, np.ones(sampler.count)))  # fmt: skip

    def point(self, label: str, weighting: Weighting, sampler: Sampler) -> FrontierPoint:
        """Fit one weighting."""
        rng = seeded(self.seed + int.from_bytes(hashlib.sha256(label.encode()).digest()[:6], "big"))
        try:
            made = self.mechanism.refit(sampler, self.unweighted, self.risks, weighting, rng=rng, check=False)
        except Refused as reason:
            return self._failed(label, str(reason))
        if not math.isfinite(made.lipschitz):
            return self._failed(
                label, "the likelihood of a record that counts is 0 at some draw, so no bound is finite"
            )
        if not math.isfinite(made.draws.r_hat):
            return self._failed(label, "the chains do not move. Take more warm-up draws (warm_up=...)")
        tables = self.mechanism.synthesise(made, self.columns, rng=rng)
        values = [table[self.column] for table in tables]
        found = {
            name: _quantiles(across_tables(values, statistic, rng=rng, resamples=self.resamples))
            for name, statistic in self.statistics.items()
        }
        return FrontierPoint(
            label=label,
            lipschitz=made.lipschitz,
            epsilon=made.epsilon,
            mean_weight=float(made.weights.mean()),
            r_hat=made.draws.r_hat,
            effective=made.draws.effective,
            divergent=made.draws.divergent,
            statistics=found,
            data=self.data,
            disclosure=() if self.attacked is None else self.attacked.rates(tables, rng=rng),
        )

    def _failed(self, label: str, reason: str) -> FrontierPoint:
        return FrontierPoint(label=label, lipschitz=0.0, epsilon=0.0, mean_weight=0.0, r_hat=1.0, effective=0.0,
                             divergent=0.0, statistics={}, data=self.data, failed=reason)  # fmt: skip


def _points(
    shared: _Shared, weightings: Mapping[str, Weighting], workers: int
) -> Iterator[tuple[str, FrontierPoint]]:  # fmt: skip
    if workers == 1:
        sampler = shared.mechanism.sampler(shared.columns)
        for label, weighting in weightings.items():
            yield label, shared.point(label, weighting, sampler)
        return
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_enter, initargs=(shared,))
    try:
        asked = {pool.submit(_point, label, weighting): label for label, weighting in weightings.items()}
        for future in as_completed(asked):
            yield asked[future], future.result()
    finally:
        pool.shutdown(cancel_futures=True)  # what is being fitted is waited for, what is not begun never is


def _check_picklable(parts: object) -> None:
    try:
        ForkingPickler.dumps(parts)
    except Exception:  # noqa: BLE001  # there is no common class of what pickling raises
        raise ParameterError(
            "what several processes share must be picklable. Define models, maps and statistics as functions of a "
            "module, not as lambdas or nested functions, or take workers=1"
        ) from None


_entered: list[tuple[_Shared, Sampler]] = []
"""Of a worker: what every point needs, and the sampler, which is compiled once a worker."""


def _enter(shared: _Shared) -> None:
    _entered.append((shared, shared.mechanism.sampler(shared.columns)))


def _point(label: str, weighting: Weighting) -> FrontierPoint:
    ((shared, sampler),) = _entered
    return shared.point(label, weighting, sampler)


def _quantiles(values: Floats) -> tuple[float, ...]:
    return tuple(float(q) for q in np.quantile(values, (0.025, 0.25, 0.5, 0.75, 0.975)))


def _claim(
    where: Path, mechanism: PseudoPosterior, columns: Columns, statistics: Sequence[str], column: str, seed: int,
    resamples: int, attacked: Attacked | None,
) -> None:  # fmt: skip
    digest = hashlib.sha256()
    for name in sorted((*mechanism.synthesiser.sensitive, *mechanism.synthesiser.given)):
        digest.update(name.encode() + np.ascontiguousarray(columns[name]).tobytes())
    settings = {
        "confidential": True,
        "notice": NOTICE,
        "synthesiser": _named(mechanism.synthesiser),
        "chains": [mechanism.chains, mechanism.draws, mechanism.warm_up, mechanism.tables],
        "statistics": list(statistics),
        "column": column,
        "seed": seed,
        "resamples": resamples,
        "table": digest.hexdigest(),
        **({} if attacked is None else {"attacked": attacked.facts()}),
    }
    path = where / "settings.json"
    if path.exists():
        if read_json(path, remedy=_REMEDY) != json.loads(json.dumps(settings)):
            raise FileProblem(where, "it holds the points of another model, table or settings", "name another folder")
        return
    if any(not path.name.startswith(".") for path in where.iterdir()):
        raise FileProblem(where, "it holds other files", "name an empty folder, or one that does not exist")
    _keep(path, settings)


def _named(thing: object) -> str:
    """Return a description that is the same in every process: functions in it by their names."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(thing))


def _is_kept(where: Path, label: str, weighting: Weighting) -> bool:
    path = _file(where, label)
    if not path.exists():
        return False
    if read_json(path, remedy=_REMEDY).get("weighting") != _named(weighting):
        raise FileProblem(where, f"its point {label!r} is of another weighting", "take another label or folder")
    return True


def _file(where: Path, label: str) -> Path:
    return where / f"point-{hashlib.sha256(label.encode()).hexdigest()[:16]}.json"


def _keep(path: Path, document: dict[str, Any]) -> None:
    with together(path, private=True) as (file,):
        file.write((json.dumps(document, indent=2, allow_nan=False) + "\n").encode())


def _read(path: Path) -> FrontierPoint:
    facts = read_json(path, remedy=_REMEDY)
    try:
        for key in ("statistics", "data"):
            facts[key] = {name: tuple(values) for name, values in facts[key].items()}
        facts["disclosure"] = tuple(_disclosure(one) for one in facts.get("disclosure", ()))
        return FrontierPoint(**{item.name: facts[item.name] for item in fields(FrontierPoint)})
    except (KeyError, TypeError, AttributeError):
        raise FileProblem(path, "it is not a point of a frontier", _REMEDY) from None


def _disclosure(facts: dict[str, Any]) -> Disclosure:
    rates = {side: None if facts[side] is None else AttackRate(**facts[side]) for side in ("table", "control")}
    return Disclosure(**{**facts, **rates})
