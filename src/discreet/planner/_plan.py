"""Which mechanism, with which parameters, with what error: from public facts alone. No data is read here."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from discreet._checks import positive_size
from discreet._text import about, counted, percent, rounded_up
from discreet.domain import Domain
from discreet.errors import DiscreetError, Infeasible, MissingExtra, Refused
from discreet.mechanisms import REGISTRY, Mechanism, named
from discreet.mechanisms._base import shown_cells
from discreet.mechanisms._draws import DEFAULT_SAMPLING, check_sampling
from discreet.planner._cells import chosen_cells, with_cells
from discreet.planner._instead import fewer_cells
from discreet.planner._predicted import Reference, predicted_w1
from discreet.planner._table import shown_options, wrapped
from discreet.privacy import Budget, Relation
from discreet.releases._utility import POOR_UTILITY, poor_utility

__all__ = ["Option", "Plan", "plan"]

_HEADER = ("mechanism", "delta", "not from data", "predicted W1", "largest size", "parameters")
_UNLIKE = 0.05  # of the range of a column
_HOPELESS = 0.9  # share that is not from the data, from which on the error is not predicted where that takes long
_MANY_CELLS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One mechanism calibrated to the budget, or why it cannot be.

    Parameters
    ----------
    name : str
        Registry name.
    mechanism : Mechanism or None
        Calibrated; None where the budget or the domain rules it out.
    refused : str or None
        Why, in words.
    extra : str or None
        The extra of this package that it needs and that is not installed.
    epsilon, delta : float or None
        The exact guarantee at the budget's epsilon.
    largest_size : int or None
        The most records it can release within the budget with a share of at most a fifth that is not from the data,
        found to within 1 % below, up to 100 times the number of records held.
    share_not_from_data : float or None
        Share of the released records that carries nothing of the data: an expectation, a bound or a prediction, as
        ``share_in_words`` says.
    share_at_most : float or None
        A bound on it for every table; 1 where none is known.
    share_in_words : str or None
        Both in a sentence.
    w1 : float or None
        Predicted Wasserstein-1 distance to the confidential table, in the column's unit for a single numeric or
        temporal column, else on the scaled ground metric.
    caveats : tuple of str
        What the guarantee does not promise.
    """

    name: str
    mechanism: Mechanism | None = None
    refused: str | None = None
    extra: str | None = None
    epsilon: float | None = None
    delta: float | None = None
    largest_size: int | None = None
    share_not_from_data: float | None = None
    share_at_most: float | None = None
    share_in_words: str | None = None
    w1: float | None = None
    caveats: tuple[str, ...] = ()

    @property
    def poor(self) -> bool:
        """Whether a release would be refused as mostly not from the data."""
        return (self.share_not_from_data or 0.0) > POOR_UTILITY

    def to_dict(self) -> dict[str, Any]:
        """Return the option as JSON values."""
        return {
            "mechanism": self.name,
            "parameters": None if self.mechanism is None else self.mechanism.parameters(),
            "refused": self.refused,
            "extra": self.extra,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "largest_size": self.largest_size,
            "share_not_from_data": self.share_not_from_data,
            "share_at_most": self.share_at_most,
            "share_in_words": self.share_in_words,
            "predicted_w1": self.w1,
            "caveats": list(self.caveats),
        }


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Every mechanism for one request, best predicted utility first.

    Mechanisms that release confidential records verbatim, and without a public reference table those that leave out
    rare records, come after the others, where one of these would be released without asking.

    Parameters
    ----------
    domain : Domain
        Public.
    n, size : int
        Numbers of records held and released.
    budget : Budget
        What may be spent.
    options : tuple of Option
        Feasible ones by predicted error, those that would be refused as mostly not from the data last; then the others.
    group : int
        Records a privacy unit holds.
    reference : Reference
        The public table that predictions are about.
    """

    domain: Domain
    n: int
    size: int
    budget: Budget
    options: Sequence[Option]
    group: int = 1
    reference: Reference = field(default_factory=Reference)

    @property
    def missing(self) -> str | None:
        """Which mechanisms were not compared because an extra of this package is not installed."""
        extras = {o.extra for o in self.options if o.extra is not None}
        if not extras:
            return None
        names = ", ".join(o.name for o in self.options if o.extra is not None)
        return f"not compared: {names}; they need: pip install 'discreet[{','.join(sorted(extras))}]'"

    @property
    def feasible(self) -> list[Option]:
        """The options that meet the budget, in the plan's order."""
        return [o for o in self.options if o.mechanism is not None]

    @property
    def best(self) -> Mechanism:
        """The first mechanism of the plan that meets the budget.

        Raises
        ------
        Infeasible
            When there is none.
        """
        for option in self.feasible:
            if option.mechanism is not None:
                return option.mechanism
        reasons = "; ".join([*self.verdict[1:], *(f"{o.name}: {o.refused}" for o in self.options)])
        raise Infeasible(f"{self.budget} for {counted(self.size, 'record')} on this domain ({reasons})", {})

    @property
    def why(self) -> str:
        """Why the best option was chosen, in one sentence."""
        best, *others = self.feasible
        behind = any(_rank(o.w1) < _rank(best.w1) for o in others)
        those = "mechanisms that keep rare records, repeat none verbatim and" if behind else "mechanisms that"
        if best.w1 is None:
            reason = f"{best.name}: errors are not predicted of what is mostly not from the data"
            return reason if self.missing is None else f"{reason}; {self.missing}"
        if best.poor:
            those = "mechanisms, each mostly not from the data, that"
        reason = f"{best.name}: least predicted W1 ({about(best.w1, 4)}) of the {those} meet {self.budget}"
        if others:
            reason += f"; next {others[0].name} ({'not predicted' if others[0].w1 is None else about(others[0].w1, 4)})"
        reason += f"; predicted from public facts alone{_unlike(self.domain, best.w1)}"
        return reason if self.missing is None else f"{reason}; {self.missing}"

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            "records": self.n,
            "size": self.size,
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "verdict": self.verdict,
            "notes": self.notes,
            "chosen": self.feasible[0].name if self.feasible else None,
            "options": [o.to_dict() for o in self.options],
        }

    @property
    def notes(self) -> list[str]:
        """Sentences about the best option: cells that were chosen, what is not promised; what was not compared.

        The other options' caveats are in :attr:`options`.
        """
        notes = [] if self.missing is None else [self.missing]
        if not self.feasible:
            return notes
        best = self.feasible[0]
        caveats = [f"{best.name}: {caveat}" for caveat in best.caveats]
        return [*chosen_cells(self.domain, self.best.domain), *caveats, *notes]

    @property
    def verdict(self) -> list[str]:
        """Why the best option would be refused, or that there is none, and what to do instead; empty where all is well.

        Each is a sentence or two.
        """
        if self.feasible and not self.feasible[0].poor:
            return []
        if self.feasible:
            why = poor_utility(self.best, self.n, self.reference.commonness(self.best.domain))
            verdict = [f"a release by {self.best.name}, the best, would be refused: {why}"]
        else:
            verdict = ["no mechanism can release this table: each says why below"]
        instead = fewer_cells(self.domain, self.n, self.budget, self.group)
        return verdict if instead is None else [*verdict, instead]

    def rows(self) -> list[tuple[str, str, str, str, str, str]]:
        """Return the table's cells as text: mechanism, delta, share, predicted W1, largest size, parameters.

        The share is marked ``<=`` where it is a bound, and ``~`` where it is a prediction.
        """
        rows = []
        for o in self.options:
            if o.mechanism is None:
                rows.append((o.name, "", "", "", "", o.refused or ""))
                continue
            parameters = ", ".join(f"{k}={_shown(v)}" for k, v in o.mechanism.parameters().items())
            if o.mechanism.domain != self.domain:
                parameters += f"; {_cells(o.mechanism.domain)}"
            largest = "" if o.largest_size is None else f"{o.largest_size:,}"
            largest += "+" if o.largest_size == _most(self.n) else ""
            mark = {"expectation": "", "bound": "<= ", "prediction": "~ "}[o.mechanism.share_is]
            share = mark + percent(o.share_not_from_data or 0.0)
            rows.append(
                (
                    o.name,
                    rounded_up(o.delta or 0.0),
                    share,
                    "-" if o.w1 is None else about(o.w1, 4),
                    largest,
                    parameters,
                )
            )
        return rows

    def __str__(self) -> str:
        return "\n".join([*wrapped(self.verdict), self.text])

    @property
    def text(self) -> str:
        """The table and what follows it, without :attr:`verdict`, no wider than the terminal or ``COLUMNS``."""
        head = f"{counted(self.size, 'record')} from {self.n:,}, {self.budget}, {_cells(self.domain)}"
        chosen = f"Chosen: {self.why}." if self.feasible else "No mechanism meets this request."
        return shown_options(head, _HEADER, self.rows(), [*self.notes, chosen])

    def _repr_html_(self) -> str:
        import html

        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self.rows()
        )
        header = "".join(f"<th>{name}</th>" for name in _HEADER)
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        first = "".join(f'<p style="color:#b3001e"><b>{html.escape(line)}</b></p>' for line in self.verdict)
        return f"{first}<table><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table><ul>{notes}</ul>"


def plan(
    domain: Domain | str | os.PathLike[str],
    *,
    records: int,
    epsilon: float,
    delta: float = 0.0,
    size: int | None = None,
    group: int = 1,
    mechanisms: Sequence[str] | None = None,
    largest_sizes: bool = True,
    reference: Any = None,
    sampling: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    **fixed: Any,
) -> Plan:
    """Calibrate every mechanism to a budget and predict its error, from public facts alone.

    Parameters
    ----------
    domain : Domain or path
        Public, or the TOML file that declares it.
    records : int
        The public number of records, ``n``.
    epsilon, delta : float
        The budget.
    size : int, optional
        Number of records to release; ``records`` by default.
    group : int
        Records a privacy unit holds, the ``max_records`` of a release; ``records`` is then units times slots.
    mechanisms : sequence of str, optional
        Registry names to consider; all by default.
    largest_sizes : bool
        Whether to solve for each mechanism's largest size too, which takes most of the time.
    reference : dataframe or path, optional
        A **public** table that the confidential one is expected to look like: an earlier release, last year's published
        sample. Predictions are then about tables like it; without one, about tables distributed as the inner half of
        the base measure: right for comparing mechanisms, rough as a number.
    sampling : {"iid", "stratified"}, optional
        How the mechanisms whose records are post-processing draw them; stratified by default, which costs no privacy
        and has less error.
    progress : callable, optional
        Called after each mechanism with how many are done, and how many there are.
    **fixed
        Parameters that are given, for the mechanisms named.

    Returns
    -------
    Plan
        Options, best first.

    Raises
    ------
    BudgetError, ParameterError
        When a number is out of range.

    Examples
    --------
    >>> from discreet.domain import Domain, Integer
    >>> ages = Domain(columns={"age": Integer(lower=0, upper=99)})
    >>> plan(ages, records=50_000, epsilon=1.0, delta=1e-9, size=50_000).best.name
    'hierarchical-histogram'
    """
    domain = domain if isinstance(domain, Domain) else Domain.read(domain)
    budget = Budget(epsilon=epsilon, delta=delta)
    n = positive_size("records", records)
    m = n if size is None else positive_size("size", size)
    names = [name for name in REGISTRY if name != "pitman-yor"] if mechanisms is None else list(mechanisms)
    like = Reference.of(reference, domain)
    options = []
    for name in names:
        given = with_sampling(named(name), fixed, sampling)
        options.append(_option(name, domain, n, m, budget, group, given, largest_sizes, like))
        if progress is not None:
            progress(len(options), len(names))
    last = {o.name: _last_resort(named(o.name), like) for o in options}
    enough = any(o.mechanism is not None and not last[o.name] and not o.poor for o in options)
    options.sort(key=lambda o: (o.mechanism is None, o.poor, enough and last[o.name], _rank(o.w1), _share(o)))
    return Plan(domain=domain, n=n, size=m, budget=budget, options=tuple(options), group=group, reference=like)


def _unlike(domain: Domain, w1: float) -> str:
    """Say so where the predicted error of a numeric column is a good part of its range."""
    (column, *others) = domain.columns.values()
    low, high = getattr(column, "lower", None), getattr(column, "upper", None)
    if others or not isinstance(low, (int, float)) or not isinstance(high, (int, float)) or w1 < _UNLIKE * (high - low):
        return ""
    return (
        f"; that is {percent(w1 / (high - low), 0)} of the column's range: the records will hardly be like the "
        f"table's, so ask "
        "for a larger epsilon or declare a narrower range"
    )


def _rank(w1: float | None) -> float:
    """Return a prediction to three digits: those that agree in them are ties, and the registry's order decides."""
    return math.inf if w1 is None else float(about(w1, 3))


def _share(option: Option) -> float:
    """Return what ranks options whose error was not predicted: the share that is not from the data, where poor."""
    return (option.share_not_from_data or 0.0) if option.w1 is None else 0.0


def _last_resort(kind: type[Mechanism], reference: Reference) -> bool:
    """Return whether a mechanism is only chosen where nothing else would do.

    Those whose records are confidential ones; and, without a reference, those that leave out rare records: an invented
    table has none, so that they look too good.
    """
    return bool(kind.verbatim or (kind.leaves_out and reference.table is None))


def with_sampling(kind: type[Mechanism], fixed: dict[str, Any], sampling: str | None) -> dict[str, Any]:
    """Return the parameters that are given, with the sampling where the mechanism has one: the default if not given.

    Raises
    ------
    ParameterError
        When there is no such sampling.
    """
    chosen = DEFAULT_SAMPLING if sampling is None else sampling
    check_sampling(chosen)
    has_one = any(item.name == "sampling" for item in fields(kind))
    return {"sampling": chosen, **fixed} if has_one else fixed


def _option(
    name: str,
    domain: Domain,
    n: int,
    size: int,
    budget: Budget,
    group: int,
    fixed: dict[str, Any],
    largest_sizes: bool,
    reference: Reference,
) -> Option:
    kind = named(name)
    try:
        domain = with_cells(domain, kind, n=n, budget=budget, size=size, group=group, **fixed)
        mechanism = kind.calibrated(budget, domain=domain, n=n, size=size, group=group, **fixed)
    except DiscreetError as error:
        if fixed and not isinstance(error, Refused):
            raise
        extra = error.extra if isinstance(error, MissingExtra) else None
        return Option(name=name, refused=str(error).removeprefix(f"{name} "), extra=extra)
    like = reference.commonness(domain)
    share, words = mechanism.share_not_from_data(n, like), mechanism.share_in_words(n, like)
    wide = (domain.size or 0) > _MANY_CELLS
    if share >= _HOPELESS and wide:
        return Option(name=name, refused=words)
    hopeless = share > POOR_UTILITY and wide  # its error takes seconds to predict, and it would be refused
    if not mechanism.predictable:
        return Option(name=name, refused="its error would take minutes to predict; ask for it by name")
    if (expected := size * mechanism.share_released(n)) < 1.0:
        return Option(name=name, refused=f"{about(expected, 2)} of {counted(size, 'draw')} would be released")
    guarantee = mechanism.guarantee(Relation(group=group), n=n)
    return Option(
        name=name,
        mechanism=mechanism,
        epsilon=budget.epsilon,
        delta=guarantee.delta(budget.epsilon),
        largest_size=_largest_size(kind, domain, n, budget, group, fixed, reference) if largest_sizes else None,
        share_not_from_data=share,
        share_at_most=mechanism.most_not_from_data(n),
        share_in_words=words,
        w1=None if hopeless else predicted_w1(mechanism, n=n, size=size, reference=reference),
        caveats=guarantee.caveats,
    )


def _largest_size(
    kind: type[Mechanism],
    domain: Domain,
    n: int,
    budget: Budget,
    group: int,
    fixed: dict[str, Any],
    reference: Reference,
) -> int:
    """Return, to within 1 % below, the most records within the budget of which a fifth are not from the data."""
    like = reference.commonness(domain)

    def too_many(m: int) -> bool:
        try:
            mechanism = kind.calibrated(budget, domain=domain, n=n, size=m, group=group, **fixed)
        except DiscreetError:  # too many for the budget, or for the mechanism at all
            return True
        return bool(mechanism.share_not_from_data(n, like) > POOR_UTILITY)

    fits, beyond = 0, _most(n)
    if not too_many(beyond):
        return beyond
    if all(item.name != "size" for item in fields(kind)) or too_many(1):  # any number is too many
        return 0
    while beyond - fits > max(1.0, 0.01 * fits):
        middle = math.isqrt(max(fits, 1) * beyond) if beyond > 4 * max(fits, 1) else (fits + beyond) // 2
        fits, beyond = (fits, middle) if too_many(middle) else (middle, beyond)
    return fits


def _most(n: int) -> int:
    return min(10**10, 100 * n)


def _shown(value: Any) -> str:
    """Write a parameter shortly: a list by its ends, an API by its name."""
    if isinstance(value, dict):
        return str(value.get("name", value))
    if isinstance(value, list) and len(value) > 3:
        return f"{_shown(value[0])}..{_shown(value[-1])}"
    return about(value, 4) if isinstance(value, float) else str(value)


def _cells(domain: Domain) -> str:
    return "no finite cells" if domain.size is None else shown_cells(domain.size)
