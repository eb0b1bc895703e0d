"""The posterior of a population's distribution: draws of probability measures, evaluated block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.checks import real
from discreet._core.errors import ParameterError
from discreet._core.random import seeded
from discreet._core.text import counted, listing, paragraph
from discreet.domain import Domain, Records
from discreet.inference.bounds import UnseenCells
from discreet.inference.functionals import (
    Functional,
    Group,
    code_of,
    functional,
    groups_of,
    kept_in,
    near_zero,
    needs_order,
    restricted,
)
from discreet.inference.line import Draws, Line, at_ends
from discreet.inference.summary import Estimate, Summary, bounded, estimated

if TYPE_CHECKING:
    import polars as pl

Evaluated = str | Callable[[Any, Floats], Floats]


class Band(NamedTuple):
    """The posterior of a distribution function.

    Parameters
    ----------
    at, mean : ndarray of float64, shape (points,)
        Values, and the posterior mean of the distribution function there.
    lower, upper : ndarray of float64, shape (points,)
        Equal-tailed credible intervals, one per point.
    simultaneous_lower, simultaneous_upper : ndarray of float64, shape (points,)
        A band that holds the whole function at these points with the same probability.
    """

    at: Floats
    mean: Floats
    lower: Floats
    upper: Floats
    simultaneous_lower: Floats
    simultaneous_upper: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Posterior:
    """Draws of the distribution that a population follows, given a release.

    Draw ``s`` is the measure ``sum_l weights[s, l] * piece_l + sum_t own_weights[s, t] * own_piece[s, t]``. A piece is
    a single value, or a cell over which the mass is spread evenly. Draws are made block by block when they are needed,
    so memory is a block's, and always the same ones.

    Parameters
    ----------
    domain : Domain
        Public.
    support : Records
        The ``S`` records that all draws share; none is allowed.
    draws : int
        Number of draws; chain after chain where there are several.
    block : callable
        From the number of a block to its :class:`Draws`; blocks follow one another and hold ``draws`` in all. The same
        number gives the same draws each time.
    blocks : int
        Number of blocks.
    chains : int
        Number of Markov chains the draws come from, 0 for independent draws.
    notes : tuple of str
        What the posterior assumes, in words.
    facts : dict
        Numbers about it: prior, mechanism, truncation error.
    bounds : bool
        Whether intervals hold for all distributions within cells. They then go from the lower quantile of the least
        number that a draw allows to the upper quantile of the greatest; all else is of evenly spread mass.
    unseen : UnseenCells, optional
        Cells of which nothing was released, or that it does not tell from empty ones: what bounds hold for there.

    Examples
    --------
    >>> from discreet.domain import Integer
    >>> dice = Domain(columns={"eyes": Integer(lower=1, upper=3)})
    >>> posterior = Posterior.of_arrays(dice, dice.unflat(np.arange(3)), [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    >>> posterior.evaluate("mean").tolist()
    [1.5, 2.5]
    >>> posterior.evaluate("P(>1)").tolist()
    [0.5, 1.0]
    """

    domain: Domain
    support: Records
    draws: int
    block: Callable[[int], Draws]
    blocks: int = 1
    chains: int = 0
    notes: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    bounds: bool = False
    unseen: UnseenCells | None = None

    @classmethod
    def of_arrays(
        cls,
        domain: Domain,
        support: Records,
        weights: Any,
        *,
        own: Records | None = None,
        own_weights: Any = None,
        chains: int = 0,
        notes: tuple[str, ...] = (),
        facts: dict[str, Any] | None = None,
        bounds: bool = False,
        unseen: UnseenCells | None = None,
    ) -> Posterior:
        """Return the posterior of draws that are in memory; parameters as for :class:`Posterior` and :class:`Draws`.

        Raises
        ------
        ParameterError
            When a row of masses does not sum to one, or the shapes do not fit.
        """
        masses = np.asarray(weights, dtype=np.float64)
        others = None if own_weights is None else np.asarray(own_weights, dtype=np.float64)
        total = masses.sum(axis=1) + (0.0 if others is None else others.sum(axis=1))
        if masses.ndim != 2 or masses.shape[1] != len(support) or not np.allclose(total, 1.0, rtol=0.0, atol=1e-8):
            raise ParameterError(
                "weights must have one row per draw and one column per record of the support, and each row must sum "
                "to one"
            )
        if (own is None) != (others is None) or (others is not None and own is not None and others.size != len(own)):
            raise ParameterError("own records and their weights must be given together, in arrays of shape (draws, T)")
        made = Draws(masses, own, others)
        return cls(
            domain=domain,
            support=support,
            draws=len(masses),
            block=lambda _: made,
            chains=chains,
            notes=notes,
            facts=facts or {},
            bounds=bounds,
            unseen=unseen,
        )

    # -- functionals --------------------------------------------------------------------------------------------

    def evaluate(self, functional: Evaluated, *, column: str | None = None) -> Floats:
        """Return one functional of every draw.

        Parameters
        ----------
        functional : str or callable
            A name such as "mean", "q25", "P(>0.75)" (see :func:`~discreet.inference.functionals.functional`), or a
            function ``f(values, weights)`` that returns one number per draw. It gets arrays of shape ``(draws, A)``:
            the mass of each piece, and its value (the middle of a cell, the label of an unordered column); without a
            column, ``values`` is a dict of such arrays by column.
        column : str, optional
            The column; the only one by default.

        Returns
        -------
        ndarray of float64, shape (draws,)
            Chain after chain.

        Raises
        ------
        ParameterError
            When the column or the functional is unknown.
        """
        return self._evaluate([functional], column)[0][:, 0, 0]

    def _evaluate(self, asked: Sequence[Evaluated], column: str | None) -> tuple[Floats, list[Functional]]:
        """Return all functionals of all draws, in one pass over the blocks: shape (draws, functionals, 1).

        With bounds the last axis has the least and the greatest number too.
        """
        known, name = known_functionals(asked, self.domain, column), column or self.domain.names[0]
        parts = []
        for draws in self._blocks():
            line = self._line(draws, name) if any(known) else None
            cases = self._ends(draws, name) if any(known) and self.bounds else ()
            ends = [[None if named is None else named.between(*pair) for named in known] for pair in cases]
            values = []
            for at, (item, named) in enumerate(zip(asked, known, strict=True)):
                if named is not None and line is not None:
                    found = [named.of(line)]
                    if ends:
                        low, high = zip(*(each[at] for each in ends), strict=True)
                        found += [np.min(low, axis=0), np.max(high, axis=0)]
                else:
                    one = np.asarray(item(*self._open(draws, column)), dtype=np.float64)  # type: ignore[operator]
                    found = [one] * (3 if self.bounds else 1)
                values.append(np.stack(found, axis=1))
            parts.append(np.stack(values, axis=1))
        labels = [
            named or Functional(getattr(item, "__name__", "function"), Line.mean)
            for item, named in zip(asked, known, strict=True)
        ]
        return np.concatenate(parts), labels

    def summary(
        self,
        functionals: Sequence[Evaluated],
        *,
        column: str | None = None,
        by: str | None = None,
        level: float = 0.95,
    ) -> Summary:
        """Return posterior mean, standard deviation and equal-tailed interval of some functionals.

        Parameters
        ----------
        functionals : sequence of str or callable
            As for :meth:`evaluate`.
        column : str, optional
            The column; the only one by default.
        by : str, optional
            A column with cells, categories or truth values: the functionals of the distribution within each, as of
            :meth:`given`. A note names the groups of a share near zero.
        level : float
            Probability of the interval, between 0 and 1.

        Returns
        -------
        Summary
            A row per functional, and group, with the number of effective draws.

        Examples
        --------
        >>> from discreet.domain import Boolean, Integer
        >>> pay = Domain(columns={"wage": Integer(lower=1, upper=2), "senior": Boolean()})
        >>> posterior = Posterior.of_arrays(pay, pay.unflat(np.arange(4)), [[0.3, 0.1, 0.2, 0.4]])
        >>> [(row.group, round(row.mean, 9)) for row in posterior.summary(["mean"], column="wage", by="senior").rows]
        [('false', 1.4), ('true', 1.8)]
        """
        _level(level)
        if not functionals:
            raise ParameterError("name at least one functional, such as 'mean'")
        only = column or self.domain.names[0]
        kind = self.domain.columns[only].kind if only in self.domain.columns else ""
        if by is not None:
            return self._by_group(functionals, column, by, level, kind)
        values, labels = self._evaluate(functionals, column)
        rows = self._rows(values, labels, level)
        return Summary(rows=rows, level=level, kind=kind, notes=(*self.notes, *bounded(rows)))

    def _rows(self, values: Floats, labels: list[Functional], level: float, **group: Any) -> tuple[Estimate, ...]:
        return tuple(
            estimated(label.name, found, level=level, chains=self.chains, unit=label.unit, **group)
            for label, found in zip(labels, np.swapaxes(values, 0, 1), strict=True)
        )

    def _by_group(self, asked: Sequence[Evaluated], column: str | None, by: str, level: float, kind: str) -> Summary:
        """Return the summary of every group, in one pass over the blocks."""
        groups, labels = groups_of(self.domain, by), []
        values, masses = [], []
        for draws in self._blocks():
            parts = [restricted(group, self.support, draws) for group in groups]
            found = [
                self._of_block(group, part)._evaluate(asked, column)
                for group, (part, _) in zip(groups, parts, strict=True)
            ]
            labels = found[0][1]
            values.append([part for part, _ in found])
            masses.append(np.stack([mass for *_, mass in parts], axis=1))
        shares = np.concatenate(masses)
        rows = [
            row
            for at, group in enumerate(groups)
            for row in self._rows(
                np.concatenate([block[at] for block in values]),
                labels,
                level,
                group=group.label,
                share=float(shares[:, at].mean()),
            )
        ]
        notes = (*self.notes, *bounded(rows), *near_zero(groups, shares, by, level))
        return Summary(rows=tuple(rows), level=level, kind=kind, notes=notes, by=by)

    def given(self, column: str, value: Any) -> Posterior:
        """Return the posterior of the distribution within a group: of the records that have a value in a column.

        Parameters
        ----------
        column : str
            A column with cells, categories or truth values.
        value : object
            One of its values, None for null; of a cell, any value in it.

        Returns
        -------
        Posterior
            Each draw restricted to those records, and normalised. What a draw without mass there has is NaN.

        Raises
        ------
        ParameterError
            When there is no such column, or the value is not declared.
        """
        group = code_of(self.domain, column, value)
        return replace(
            self._within(group),
            block=lambda index: restricted(group, self.support, self.block(index))[0],
            notes=(*self.notes, f"of the records with {column} = {group.label}"),
        )

    def _parts(self, by: str) -> Iterator[Posterior]:
        """Return the posterior of each group, of draws that are one block."""
        for group in groups_of(self.domain, by):
            yield self._of_block(group, restricted(group, self.support, self.block(0))[0])

    def _of_block(self, group: Group, draws: Draws) -> Posterior:
        """Return the posterior of one block alone, of a group."""
        return replace(self._within(group), draws=len(draws.weights), block=lambda _: draws, blocks=1, chains=0)

    def _within(self, group: Group) -> Posterior:
        """Return the posterior with a group's part of the support."""
        kept = kept_in(group, self.support)
        part = Records(columns=tuple(codes[kept] for codes in self.support.columns))
        return replace(self, support=part, unseen=None if self.unseen is None else self.unseen.part(kept))

    def regress(
        self, formula: str, *, kind: Literal["linear", "logistic"] | None = None, level: float = 0.95
    ) -> Summary:
        """Return the coefficients of a regression in the population, with intervals.

        Each draw is a whole distribution, and has the coefficients that a regression of the whole population would
        give, whether or not its model is true: no standard error is estimated from released records. Needs the extra
        ``formula``.

        Parameters
        ----------
        formula : str
            Such as "wage ~ age + C(sex)": see `formulaic <https://matthewwardrop.github.io/formulaic/>`_. Dates count
            in days, datetimes and durations in seconds; records with a null in one of the columns are left out. It is
            code: take none from a stranger. ``center`` and the like take the posterior's support without weights.
        kind : {"linear", "logistic"}, optional
            Least squares, or log-odds. By default logistic where the outcome is a column of truth values or of two
            categories.
        level : float
            Probability of the intervals, between 0 and 1.

        Returns
        -------
        Summary
            A row per coefficient. Cells enter by their middles, and a note says which.

        Raises
        ------
        MissingExtra
            When formulaic is not installed.
        ParameterError
            When the formula cannot be read, names no column, or does not determine its coefficients.

        Examples
        --------
        >>> from discreet.domain import Boolean, Integer
        >>> pay = Domain(columns={"wage": Integer(lower=1, upper=2), "senior": Boolean()})
        >>> posterior = Posterior.of_arrays(pay, pay.unflat(np.arange(4)), [[0.3, 0.1, 0.2, 0.4]])
        >>> [(row.name, round(row.mean, 9)) for row in posterior.regress("wage ~ C(senior)").rows]
        [('Intercept', 1.4), ('C(senior)[T.True]', 0.4)]
        """
        from discreet.inference.regression import regression

        _level(level)
        found = regression(self.domain, self.support, self._blocks(), formula, kind)
        labels = [Functional(name, Line.mean) for name in found.names]
        rows = self._rows(found.draws[:, :, None], labels, level)
        return Summary(rows=rows, level=level, notes=(*self.notes, *found.notes))

    def cdf(self, at: Sequence[float] | Floats, *, column: str | None = None, level: float = 0.95) -> Band:
        """Return the posterior of the distribution function at some values, with pointwise and simultaneous bands.

        The simultaneous band is ``mean +- c sd``, with the least ``c`` such that the share ``level`` of the draws lies
        within it at every value asked for. With bounds its lower end is that of the least distribution function that a
        draw allows, and its upper end that of the greatest.

        Parameters
        ----------
        at : sequence of float
            Values, in the unit of the column's positions (days for dates, seconds for datetimes and durations).
        column : str, optional
            The column; the only one by default.
        level : float
            Probability of the bands.
        """
        points = np.asarray(at, dtype=np.float64)
        name = self._one_column(column)
        parts = []
        for draws in self._blocks():
            line = self._line(draws, name)
            cases = self._ends(draws, name) if self.bounds else [(line, line)]
            shares = np.array([(_at_most(high, points), _at_most(low, points)) for low, high in cases])
            parts.append((_at_most(line, points), shares[:, 0].min(axis=0), shares[:, 1].max(axis=0)))
        even, least, most = map(np.concatenate, zip(*parts, strict=True))
        tail = (1.0 - _level(level)) / 2.0
        lower, upper = np.quantile(least, tail, axis=0), np.quantile(most, 1.0 - tail, axis=0)
        below, above = _scaled(-least), _scaled(most)
        reach = float(np.quantile(np.maximum(below, above).max(axis=1), level, method="higher"))
        low, high = least.mean(axis=0) - reach * least.std(axis=0), most.mean(axis=0) + reach * most.std(axis=0)
        return Band(points, even.mean(axis=0), lower, upper, np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0))

    def plot(self, *, column: str | None = None, level: float = 0.95, axes: Any = None) -> Any:
        """Draw the posterior of a column's distribution with its uncertainty.

        Of an ordered column it is the distribution function, with the pointwise intervals and the simultaneous band of
        :meth:`cdf`; of any other the share of each category, with its interval. Needs the extra ``report``.

        Parameters
        ----------
        column : str, optional
            The column; the only one by default.
        level : float
            Probability of the intervals and the band.
        axes : matplotlib.axes.Axes, optional
            Where to draw; in a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Raises
        ------
        MissingExtra
            When matplotlib is not installed.
        ParameterError
            When the column is unknown, or of open labels.
        """
        from discreet.inference.summary import distribution

        return distribution(self, column, level, axes)

    # -- as text ------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<Posterior: {self._said}>"

    def _repr_html_(self) -> str:
        return paragraph(f"Posterior: {self._said}.") + listing(self.notes)

    @property
    def _said(self) -> str:
        chains = f" in {counted(self.chains, 'chain')}" if self.chains else ""
        own = "" if len(self.support) else " of their own"
        pieces = f"{counted(len(self.support), 'record')}" if len(self.support) else "records"
        return f"{counted(self.draws, 'draw')}{chains} on {pieces}{own}, columns {', '.join(self.domain.names)}"

    # -- whole draws --------------------------------------------------------------------------------------------

    def predictive(self, size: int, *, seed: int, datasets: int = 1) -> list[pl.DataFrame]:
        """Draw tables from the posterior predictive.

        Each is ``size`` independent records from one posterior draw, picked at random: records of one table depend on
        one another through it, as those of a new sample of the population do.

        Parameters
        ----------
        size : int
            Records a table.
        seed : int
            Everything here is public, so a seed does no harm.
        datasets : int
            Number of tables.
        """
        rng = seeded(seed)
        picked = np.sort(rng.integers(self.draws, size=datasets))
        tables, first = [], 0
        for draws in self._blocks():
            count = len(draws.weights)
            mine = picked[(picked >= first) & (picked < first + count)] - first
            tables += [self.domain.decode(self._records(draws, int(row), size, rng), rng=rng) for row in mine]
            first += count
        order = rng.permutation(datasets)
        return [tables[i] for i in order]

    def _records(self, draws: Draws, row: int, size: int, rng: np.random.Generator) -> Records:
        masses = np.concatenate((draws.weights[row], draws.own_weights[row]))
        index = np.searchsorted(np.cumsum(masses)[:-1] / masses.sum(), rng.random(size), side="right")
        shared = draws.weights.shape[1]
        columns = []
        for at, codes in enumerate(self.support.columns):
            both = codes
            if draws.own is not None:
                own = draws.own.columns[at].reshape(draws.own_weights.shape)[row]
                both = np.concatenate((codes, own)) if shared else own
            columns.append(both[index])
        return Records(columns=tuple(columns))

    def to_inference_data(self, functionals: Sequence[Evaluated], *, column: str | None = None) -> Any:
        """Return functionals of all draws as ArviZ's inference data: ``posterior[name]`` has ``(chain, draw)``.

        Needs the extra ``bayes``. With ArviZ 1 and later this is an ``xarray.DataTree``, which is what it calls so.
        """
        from discreet.inference.parametric import inference_data

        values, labels = self._evaluate(functionals, column)
        chains = max(1, self.chains)
        parts = {label.name: part.reshape(chains, -1) for label, part in zip(labels, values[..., 0].T, strict=True)}
        return inference_data(parts, {**self.facts, "notes": list(self.notes)})

    # -- blocks -------------------------------------------------------------------------------------------------

    def _blocks(self) -> Iterator[Draws]:
        return (self.block(index) for index in range(self.blocks))

    def _one_column(self, column: str | None) -> str:
        if column is None and len(self.domain.names) != 1:
            raise ParameterError(f"several columns are declared. Name one of: {', '.join(self.domain.names)}")
        name = self.domain.names[0] if column is None else column
        if name not in self.domain.columns:
            raise ParameterError(f"there is no column {name!r}. The columns are: {', '.join(self.domain.names)}")
        needs_order(self.domain.columns[name])
        return name

    def _line(self, draws: Draws, name: str) -> Line:
        at = self.domain.names.index(name)
        return Line(self.domain.columns[name], self.support.columns[at], draws, at)

    def _ends(self, draws: Draws, name: str) -> Iterator[tuple[Line, Line]]:
        """Yield a block with each cell's mass at its least and at its greatest value, in each case of bounds."""
        at, column = self.domain.names.index(name), self.domain.columns[name]
        codes = self.support.columns[at]
        if self.unseen is None:
            yield at_ends(column, codes, draws, at)
        else:
            yield from self.unseen.lines(column, codes, draws)

    def _open(self, draws: Draws, column: str | None) -> tuple[Any, Floats]:
        """Return values and weights of a block, as a user's function takes them."""
        values = {name: self._values(draws, name) for name in ([column] if column else self.domain.names)}
        weights = np.concatenate((draws.weights, draws.own_weights), axis=1)
        only = column or (self.domain.names[0] if len(self.domain.names) == 1 else None)
        return (values if only is None else values[only]), weights

    def _values(self, draws: Draws, name: str) -> Any:
        at, column = self.domain.names.index(name), self.domain.columns[name]
        shared = np.broadcast_to(_readable(column, self.support.columns[at]), draws.weights.shape)
        if draws.own is None:
            return shared
        own = _readable(column, draws.own.columns[at]).reshape(draws.own_weights.shape)
        return np.concatenate((shared, own), axis=1)


def known_functionals(asked: Sequence[Evaluated], domain: Domain, column: str | None = None) -> list[Functional | None]:
    """Look up functionals by their names, none for a user's function, before anything is computed."""
    names = [column] if column is not None else list(domain.names)
    if column is not None and column not in domain.columns:
        raise ParameterError(f"there is no column {column!r}. The columns are: {', '.join(domain.names)}")
    known: list[Functional | None] = []
    for item in asked:
        if isinstance(item, str) and len(names) != 1:
            raise ParameterError(f"name the column that {item!r} is about. The columns are: {', '.join(names)}")
        known.append(functional(item, domain.columns[names[0]]) if isinstance(item, str) else None)
    return known


def _readable(column: Any, codes: Any) -> Any:
    """Return positions, or the labels of an unordered column."""
    if column.open:
        return np.asarray(codes, dtype=object)
    if column.labels is not None and not column.on_a_line:
        labels = [*column.labels, None]
        return np.array(labels, dtype=object)[np.asarray(codes, dtype=np.int64)]
    return column.positions(codes)


def _at_most(line: Line, points: Floats) -> Floats:
    """Return the mass up to each point, a row per draw."""
    return np.stack([line.at_most(float(a)) for a in points], axis=1)


def _scaled(values: Floats) -> Floats:
    """Return how far above its mean each number is, in standard deviations."""
    sd = values.std(axis=0)
    return np.asarray((values - values.mean(axis=0)) / np.where(sd > 0.0, sd, 1.0))


def _level(level: float) -> float:
    return real("level", level, above=0, below=1)
