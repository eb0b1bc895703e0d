"""The posterior of a population's distribution: draws of probability measures, evaluated block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError, real
from discreet._core.numeric import Floats
from discreet._core.random import seeded
from discreet._core.text import counted, listing, paragraph
from discreet.domain import Domain, Records
from discreet.inference.bounds import UnseenCells
from discreet.inference.functionals import (
    Evaluated,
    Functional,
    Group,
    confined,
    group_with,
    groups_of,
    known_functionals,
    near_zero,
    ordered,
    require_single,
)
from discreet.inference.line import CellSets, Draws, Line, at_ends, extremes, readable
from discreet.inference.summary import Band, Estimate, Summary, bounded, estimated

if TYPE_CHECKING:
    import polars as pl

_BLOCK = 1 << 19  # numbers in memory, few enough for a processor's own
_FINEST = 1024  # cells, or equal numbers of them, in which a quantile is looked for


@sealed
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Posterior:
    """Draws of the distribution that a population follows, given a release.

    Draw ``s`` is the measure ``sum_l weights[s, l] * piece_l + sum_t own_weights[s, t] * own_piece[s, t]``. A piece is
    a single value, or a cell over which the mass is spread evenly. Draws are made block by block when they are needed,
    so memory is a block's, and always the same ones.

    ``domain``: public.
    ``support``: the ``S`` records that all draws share; none is allowed.
    ``draws``: number of draws; chain after chain where there are several.
    ``block``: from the number of a block to its :class:`Draws`; blocks follow one another and hold ``draws`` in all. A
    number gives the same draws each time.
    ``blocks``: number of blocks.
    ``chains``: number of Markov chains that the draws come from, 0 for independent draws.
    ``notes``: what the posterior assumes, in words.
    ``facts``: numbers about it, such as prior, mechanism, truncation error.
    ``bounds``: whether intervals hold for all distributions within cells. They then go from the lower quantile of the
    least number that a draw allows to the upper quantile of the greatest; all else is of evenly spread mass.
    ``unseen``: cells of which nothing was released, or that it does not tell from empty ones, if bounds hold for them.
    ``sets``: draws of the masses of sets of cells, where there are too many cells to draw each.

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
    sets: CellSets | None = None

    @classmethod
    def from_sets(cls, domain: Domain, support: Records, sets: CellSets, masses: Floats, **options: Any) -> Posterior:
        """Return the posterior of draws of the masses of sets of cells, which are the support."""
        rows = max(1, _BLOCK // len(support))
        options |= {"draws": len(masses), "blocks": -(-len(masses) // rows), "sets": replace(sets, masses=masses)}
        options["block"] = lambda i: Draws(masses[i * rows : (i + 1) * rows][:, sets.set_of] * sets.shares)
        return cls(domain=domain, support=support, **options)

    def _resolved(self, functionals: Sequence[Functional]) -> Posterior:
        """Return draws of few cells, in place of those of all, that have the same numbers."""
        (column,), (codes,), sets = self.domain.columns.values(), self.support.columns, self.sets
        assert sets is not None
        values, cuts = extremes(column, codes)[0], [cut for functional in functionals for cut in functional.cuts]
        ends = np.searchsorted(values, cuts, side="right")
        hidden = np.zeros(len(values), dtype=bool) if self.unseen is None else self.unseen.cells
        ends = np.concatenate((ends, ends - 1))  # of the cell that each value is in

        def coarse() -> Posterior:
            cells, weights = sets.resolved(values, hidden, ends)
            rows = max(1, _BLOCK // len(cells))
            return replace(
                self,
                support=self.support.take(cells),
                block=lambda index: Draws(weights[index * rows : (index + 1) * rows]),
                blocks=-(-len(weights) // rows),
                unseen=self.unseen and self.unseen.part(cells),
                sets=None,
            )

        if quantiles := [functional for functional in functionals if functional.level is not None]:
            numbers = coarse()._evaluate(quantiles, None)
            limits = np.nanmin(numbers[:, :, 1], axis=0), np.nanmax(numbers[:, :, 2], axis=0)
            reached = sets.set_of[np.searchsorted(values, limits, side="right") - 1]  # the sets that they lie in
            spans = np.searchsorted(sets.set_of, reached + np.array([[0], [1]])).T
            parts = [np.linspace(a, b, min(_FINEST, b - a) + 1).astype(np.intp) for a, b in spans.tolist()]
            ends = np.concatenate((ends, *parts))
        return coarse()

    @classmethod
    def of_arrays(
        cls,
        domain: Domain,
        support: Records,
        weights: Any,
        *,
        own: Records | None = None,
        own_weights: Any = None,
        **options: Any,
    ) -> Posterior:
        """Return the posterior of draws that are in memory; parameters as for :class:`Draws` and :class:`Posterior`.

        Raises
        ------
        ParameterError
            When a row of masses does not sum to one, or the shapes do not fit.
        """
        if (own is None) != (own_weights is None) or (own is not None and np.size(own_weights) != len(own)):
            raise ParameterError("own records and their weights must be given together, in arrays of shape (draws, T)")
        masses = np.asarray(weights, dtype=np.float64)
        draws = Draws(masses, own, own_weights)
        total = masses.sum(axis=1) + draws.own_weights.sum(axis=1)
        if masses.ndim != 2 or masses.shape[1] != len(support) or not np.allclose(total, 1.0, rtol=0.0, atol=1e-8):
            raise ParameterError(
                "weights must have one row per draw and one column per record of the support, and each row must sum "
                "to one"
            )
        return cls(domain=domain, support=support, draws=len(masses), block=lambda _: draws, **options)

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
        return self._evaluate(known_functionals([functional], self.domain, column), column)[:, 0, 0]

    def _evaluate(self, functionals: Sequence[Functional], column: str | None) -> Floats:
        """Return functionals in one pass, (draws, functionals, 3): each number with its least and its greatest."""
        name, blocks = column or self.domain.names[0], []
        if self.sets is not None and all(functional.function is None for functional in functionals):
            return self._resolved(functionals)._evaluate(functionals, column)
        for draws in self._blocks():
            line = self._line(draws, name)
            cases = [*self._cases(draws, name)] if self.bounds else []
            numbers = []
            for functional in functionals:
                ends: list[tuple[Floats, ...]] = []
                if functional.function is not None:
                    number = np.asarray(functional.function(*self._values(draws, column)), dtype=np.float64)
                else:
                    number = functional.number(line)
                    ends = [functional.between(*case) for case in cases]
                low, high = zip(*ends or [(number, number)], strict=True)
                least, greatest = np.min(low, axis=0), np.max(high, axis=0)
                numbers.append(np.clip(np.stack([number, least, greatest], axis=1), *functional.limits()))
            blocks.append(np.stack(numbers, axis=1))
        return np.concatenate(blocks)

    def summary(
        self, functionals: Sequence[Evaluated], *, column: str | None = None, by: str | None = None, level: float = 0.95
    ) -> Summary:
        """Return posterior mean, standard deviation and equal-tailed interval of some functionals.

        Parameters
        ----------
        functionals, column
            As for :meth:`evaluate`.
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
        real("level", level, above=0, below=1)
        if not functionals:
            raise ParameterError("name at least one functional, such as 'mean'")
        parsed = known_functionals(functionals, self.domain, column)
        kind = self.domain.columns[column or self.domain.names[0]].kind
        rows: list[Estimate] = []
        caveats: list[str] = []
        if by is None:
            rows = self._rows(self._evaluate(parsed, column), parsed, level)
        else:
            groups, blocks, masses = groups_of(self.domain, by), [], []
            for draws in self._blocks():
                parts = [self._of_block(group, draws) for group in groups]
                blocks.append(np.stack([part._evaluate(parsed, column) for part, _ in parts]))
                masses.append(np.stack([mass for _, mass in parts], axis=1))
            shares = np.concatenate(masses)
            for group, numbers, share in zip(groups, np.concatenate(blocks, axis=1), shares.mean(axis=0), strict=True):
                rows += self._rows(numbers, parsed, level, group=group.label, share=float(share))
            caveats = near_zero(groups, shares, by, level)
        notes = (*self.notes, *bounded(rows), *caveats)
        return Summary(rows=tuple(rows), level=level, kind=kind, notes=notes, by=by or "")

    def _rows(self, numbers: Floats, functionals: Sequence[Functional], level: float, **group: Any) -> list[Estimate]:
        """Return estimates from numbers of all draws, shape (draws, functionals, 3)."""
        return [
            estimated(functional.name, draws, level=level, chains=self.chains, unit=functional.unit, **group)
            for functional, draws in zip(functionals, np.swapaxes(numbers, 0, 1), strict=True)
        ]

    def given(self, column: str, value: Any) -> Posterior:
        """Return the posterior of the distribution within a group: of the records that have a value in a column.

        Raises ParameterError when there is no such column, or the value is not declared.

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
        """
        group = group_with(self.domain, column, value)
        notes = (*self.notes, f"of the records with {column} = {group.label}")
        part = self._within(group)
        return replace(part, block=lambda i: confined(group, self.support, self.block(i))[0], notes=notes)

    def _of_block(self, group: Group, draws: Draws) -> tuple[Posterior, Floats]:
        """Return the posterior of one block alone, of a group, and each draw's mass of it."""
        part, mass = confined(group, self.support, draws)
        return replace(self._within(group), draws=len(mass), block=lambda _: part, blocks=1, chains=0), mass

    def _within(self, group: Group) -> Posterior:
        """Return the posterior with a group's part of the support."""
        members = group.members(self.support)
        return replace(self, support=self.support.take(members), unseen=self.unseen and self.unseen.part(members))

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
            in days, datetimes and durations in seconds; records with a null in one of the columns are left out. It
            may use arithmetic and the functions that a refusal lists, so that a formula runs no code. ``center`` and
            the like take the posterior's support without weights.
        kind : {"linear", "logistic"}, optional
            Least squares, or log-odds. By default logistic where the outcome is a column of truth values or of two
            categories, else linear, also for the numbers 0 and 1. The first notes say which it is.
        level : float
            As for :meth:`summary`.

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
        from discreet.inference.models import regression

        real("level", level, above=0, below=1)
        coefficients = regression(self.domain, self.support, self._blocks(), formula, kind)
        numbers = np.repeat(coefficients.draws[:, :, None], 3, axis=2)
        rows = self._rows(numbers, [*map(Functional, coefficients.names)], level)
        return Summary(rows=tuple(rows), level=level, notes=(*self.notes, *coefficients.notes))

    def cdf(self, at: Sequence[float] | Floats, *, column: str | None = None, level: float = 0.95) -> Band:
        """Return the posterior of the distribution function at some values, with pointwise and simultaneous bands.

        The simultaneous band is ``mean +- c sd``, with the least ``c`` such that the share ``level`` of the draws lies
        within it at every value asked for. With bounds its lower end is that of the least distribution function that a
        draw allows, and its upper end that of the greatest.

        Parameters
        ----------
        at : sequence of float
            Values, in the unit of the column's positions (days for dates, seconds for datetimes and durations).
        column, level
            As for :meth:`summary`.
        """
        points, name = np.asarray(at, dtype=np.float64), require_single(self.domain, column)
        if not ordered(self.domain.columns[name]):
            raise ParameterError("the column's values have no order. Ask for P(=a) of its categories")
        parts = []
        if self.sets is not None:
            return self._resolved([Functional("", cuts=tuple(points.tolist()))]).cdf(at, column=column, level=level)
        for draws in self._blocks():
            line = self._line(draws, name)
            cases = self._cases(draws, name) if self.bounds else [(line, line)]
            shares = np.array([(high.shares_at_most(points), low.shares_at_most(points)) for low, high in cases])
            parts.append((line.shares_at_most(points), shares[:, 0].min(axis=0), shares[:, 1].max(axis=0)))
        return Band.from_shares(level, points, *map(np.concatenate, zip(*parts, strict=True)))

    def plot(self, *, column: str | None = None, level: float = 0.95, axes: Any = None) -> Any:
        """Draw the posterior of a column's distribution with its uncertainty.

        Of an ordered column it is the distribution function, with the pointwise intervals and the simultaneous band of
        :meth:`cdf`; of any other the share of each category, with its interval. Needs the extra ``report``.

        Parameters
        ----------
        column, level
            As for :meth:`summary`.
        axes : matplotlib.axes.Axes, optional
            Where to draw; in a new figure by default. They are returned.

        Raises
        ------
        MissingExtra
            When matplotlib is not installed.
        ParameterError
            When the column is unknown, or of open labels.
        """
        from discreet.inference.summary import distribution

        return distribution(self, column, level, axes)

    def __repr__(self) -> str:
        numbers = {"draw": self.draws, "chain": self.chains, "record": len(self.support)}
        draws, chains, pieces = (counted(number, noun) for noun, number in numbers.items())
        if self.chains:
            draws += f" in {chains}"
        if not len(self.support):
            pieces = "records of their own"
        return f"<Posterior: {draws} on {pieces}, columns {', '.join(self.domain.names)}>"

    def _repr_html_(self) -> str:
        return paragraph(f"{repr(self)[1:-1]}.") + listing(self.notes)

    def predictive(self, size: int, *, seed: int, datasets: int = 1) -> list[pl.DataFrame]:
        """Draw tables from the posterior predictive.

        Each is ``size`` independent records from one posterior draw, picked at random: records of one table depend on
        one another through it, as those of a new sample of the population do.

        Parameters
        ----------
        size, datasets : int
            Records of one table, and number of tables.
        seed : int
            Everything here is public, so a seed does no harm.
        """
        rng = seeded(seed)
        rows = np.sort(rng.integers(self.draws, size=datasets))
        tables, start = [], 0
        for draws in self._blocks():
            inside = rows[(rows >= start) & (rows < start + len(draws.weights))] - start
            records = (draws.sample(self.support, row, size, rng) for row in inside.tolist())
            tables += [self.domain.decode(table, rng=rng) for table in records]
            start += len(draws.weights)
        return [tables[i] for i in rng.permutation(datasets)]

    def to_inference_data(self, functionals: Sequence[Evaluated], *, column: str | None = None) -> Any:
        """Return functionals of all draws as ArviZ's inference data: ``posterior[name]`` has ``(chain, draw)``.

        Needs the extra ``bayes``. With ArviZ 1 and later this is an ``xarray.DataTree``, which is what it calls so.
        """
        from discreet.inference.models import inference_data

        parsed = known_functionals(functionals, self.domain, column)
        values = self._evaluate(parsed, column)[:, :, 0].T.reshape(len(parsed), max(1, self.chains), -1)
        draws = {functional.name: part for functional, part in zip(parsed, values, strict=True)}
        return inference_data(draws, {**self.facts, "notes": list(self.notes)})

    def _blocks(self) -> Iterator[Draws]:
        return (self.block(index) for index in range(self.blocks))

    def _line(self, draws: Draws, name: str) -> Line:
        place = self.domain.names.index(name)
        return Line(self.domain.columns[name], self.support.columns[place], draws, place)

    def _cases(self, draws: Draws, name: str) -> Iterator[tuple[Line, Line]]:
        """Yield a block with each cell's mass at its least and at its greatest value, in each case of bounds."""
        place = self.domain.names.index(name)
        column, codes = self.domain.columns[name], self.support.columns[place]
        if self.unseen is None:
            yield at_ends(column, codes, draws, place)
        else:
            yield from self.unseen.lines(column, codes, draws)

    def _values(self, draws: Draws, column: str | None) -> tuple[Any, Floats]:
        """Return values and weights of a block, as a user's function takes them."""
        values = {}
        for place, (name, kind) in enumerate(self.domain.columns.items()):
            if column in (None, name):
                values[name] = np.broadcast_to(readable(kind, self.support.columns[place]), draws.weights.shape)
                if draws.own is not None:
                    own = readable(kind, draws.own.columns[place]).reshape(draws.own_weights.shape)
                    values[name] = np.concatenate((values[name], own), axis=1)
        weights = np.concatenate((draws.weights, draws.own_weights), axis=1)
        if len(values) > 1:
            return values, weights
        return next(iter(values.values())), weights
