"""Which mechanism, with which parameters, with what error: from public facts alone. No data is read here."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from discreet import privacy, wording
from discreet._core.boundary import sealed
from discreet._core.errors import Infeasible
from discreet._core.text import about, alarm, aligned, counted, lines_of, listing, percent, rounded_up, sentence, table
from discreet.domain import Domain
from discreet.ledger import Ledger, Replacement, Request
from discreet.mechanisms import Mechanism, shown_cells
from discreet.planner.cells import chosen_cells, require_current, with_units
from discreet.planner.options import Option, PlanRequest, compared, fewer_cells, private_step, rank, tried_remedies
from discreet.planner.predicted import Progress, Reference
from discreet.privacy import AnyBudget, Unit
from discreet.releases import poor_utility

_HEADER = ("mechanism", "", "lost", "predicted error", "times a sample's", "largest size", "parameters")
_UNLIKE = 0.05  # of the range of a column

_MOVED = {
    "epsilon": "Budget(epsilon=...), the second argument",
    "delta": "Budget(epsilon=..., delta=...), the second argument",
    "group": "unit=Unit(..., max_records=...)",
}


@sealed
@dataclass(frozen=True, kw_only=True)
class Plan:
    """Every mechanism for one request, best predicted utility first.

    Mechanisms that release confidential records verbatim, and without a public reference table those that leave out
    rare records, come after the others, where one of these would be released without asking.

    Parameters
    ----------
    comparison : PlanRequest
        What was asked for: domain, numbers of records, budget, reference.
    options : tuple of Option
        Feasible ones by predicted error, those that would be refused as mostly not from the data last; then the others.
    """

    comparison: PlanRequest
    options: Sequence[Option]

    @property
    def rows_of_steps(self) -> list[tuple[Option, list[str]]]:
        """The best option of each private step, with the names of the others that take the same one."""
        rows: list[tuple[Option, list[str]]] = []
        steps: list[Any] = []
        for option in self.options:
            step = option.mechanism and private_step(option.mechanism)
            if step and step in steps:
                rows[steps.index(step)][1].append(option.name)
            else:
                rows.append((option, []))
                steps.append(step)
        return rows

    @property
    def missing(self) -> str | None:
        """Which mechanisms were not compared because an extra of this package is not installed."""
        extras = {option.name: option.extra for option in self.options if option.extra is not None}
        if not extras:
            return None
        install = f"pip install 'discreet[{','.join(sorted(set(extras.values())))}]'"
        return f"not compared: {', '.join(extras)}. Install what they need: {install}"

    @property
    def feasible(self) -> list[Option]:
        """The options that meet the budget, in the plan's order."""
        return [option for option in self.options if option.mechanism is not None]

    @property
    def best(self) -> Mechanism:
        """The first mechanism of the plan that meets the budget.

        Raises
        ------
        Infeasible
            When there is none.
        """
        for option in self.options:
            if option.mechanism is not None:
                return option.mechanism
        why = "; ".join(f"{reason} ({', '.join(names)})" for reason, names in self._refused.items())
        raise Infeasible(
            f"{self.comparison.budget} for {counted(self.comparison.size, 'record')} on this domain",
            {},
            ". ".join([*(self.remedies or self.verdict[1:]), f"Of the mechanisms: {why}"]),
        )

    @property
    def why(self) -> str:
        """Why the best option was chosen, from public facts alone."""
        best, *rivals = self.feasible
        missing = f". {sentence(self.missing)}" if self.missing else ""
        if best.w1 is None:
            return f"{best.name}. Errors are not predicted for records that are mostly not from the data{missing}"
        better = [option for option in rivals if rank(option) < rank(best)]
        least, compared, notes = "the least", "that meet", list[str]()
        # better ones may come later for no other reason than that they cannot be analysed
        if best.analysed and not all(option.analysed or option.poor or option.last_resort for option in better):
            least, notes = "near the least", ["Its records can be analysed"]
        elif better:
            compared = "that keep rare records, repeat none verbatim and meet"
        if best.times_sampling is not None:
            sample = f"that of a sample of {counted(self.comparison.size, 'record')} without privacy"
            notes.append(f"It is {about(best.times_sampling, 2)} times {sample}".replace(" 1 times ", " about "))
        for option in rivals[:1]:
            notes.append(f"The next is {option.name} ({_estimate(option.w1, none='not predicted')})")
        if best.poor:
            notes.append("All of them would mostly be noise")
        (column, *more) = self.comparison.domain.columns.values()
        if isinstance(getattr(column, "lower", None), (int, float)) and not more and best.w1 >= _UNLIKE * column.scale:
            notes += [
                f"It is {percent(best.w1 / column.scale, 0)} of the column's range, so the records will hardly be like "
                "the table's. Ask for a larger epsilon or declare a narrower range"
            ]
        among = f"of the mechanisms {compared} {self.comparison.budget}"
        chosen = f"{best.name}. Its predicted error of {about(best.w1, 4)} is {least} {among}"
        return ". ".join([chosen, *notes, f"No record was looked at: this is predicted from public facts{missing}"])

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        facts = {"records": self.comparison.n, "size": self.comparison.size, **asdict(self.comparison.budget)}
        chosen = next((option.name for option in self.feasible), None)
        options = [option.to_dict() for option in self.options]
        return {**facts, "verdict": self.verdict, "notes": self.notes, "chosen": chosen, "options": options}

    @cached_property
    def notes(self) -> list[str]:
        """Sentences about the best option: cells that were chosen, what is not promised; what was not compared.

        The other options' caveats are in :attr:`options`.
        """
        notes = []
        for option in self.feasible[:1]:
            caveats = [f"{option.name}: {caveat}" for caveat in option.caveats]
            visible = filter(None, [getattr(option.forecast, "visible_dependence", None)])
            caveats += map(wording.visible_relation, visible)
            notes = [*self.comparison.notes, *chosen_cells(self.comparison.domain, self.best.domain), *caveats]
            if option.forecast is not None:
                notes += wording.outcomes(option.forecast)
            notes += option.wider_range
            if {"units", "scale"} <= (public := self.best.parameters()).keys():
                notes.append(wording.single("units", units=public["units"], scale=about(public["scale"], 4)))
        return [*notes, *filter(None, [self.missing])]

    @property
    def verdict(self) -> list[str]:
        """Why the best option would be refused, or that there is none, and what to do instead; empty where all is well.

        Each is a sentence or two.
        """
        return self._conclusion(None)

    @property
    def advice(self) -> list[str]:
        """The verdict with :attr:`remedies`, which were tried, in place of what may help, where there are any."""
        return self._conclusion(self.remedies or None) if self.verdict else []

    def _conclusion(self, tried: list[str] | None) -> list[str]:
        best = next(iter(self.feasible), None)
        instead = list(filter(None, [fewer_cells(self.comparison)])) if tried is None else []
        if best is None or best.forecast is None:
            return ["No mechanism can release this table. Each says why below", *(tried or instead)]
        if not best.poor:
            return []
        why = poor_utility(best.forecast, self.best, tried)
        return [f"A release by {self.best.name}, the best, would be refused. {sentence(why)}", *instead]

    @cached_property
    def remedies(self) -> list[str]:
        """What would be enough: a larger epsilon, or columns to leave out; each is tried, by a plan of its own."""
        return tried_remedies(self.comparison, self.options)

    @property
    def _refused(self) -> dict[str, list[str]]:
        """Why mechanisms cannot release what is asked for, and those that give the same reason, few first."""
        reasons: dict[str, list[str]] = {}
        for option in self.options:
            if option.mechanism is None:
                reasons.setdefault(option.refused or "", []).append(option.name)
        return dict(sorted(reasons.items(), key=lambda reason: len(reason[1])))

    def with_budget(self, budget: AnyBudget, *, progress: Callable[[int, int], None] | None = None) -> Plan:
        """Return the plan of the same request at another budget, without largest sizes."""
        request = replace(self.comparison.request, budget=cast("Any", budget), attack=None)
        return planned(replace(self.comparison, request=request), largest_sizes=False, progress=progress)

    def write_page(
        self,
        out: str | os.PathLike[str],
        *,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        dataset: str | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Path:
        """Write a page to choose a budget by: one HTML file that needs no network, made from public facts alone.

        It plans the same request at up to seventeen epsilons around its own, or limits of an attacker. For each it
        shows what that costs, what the best attacker reaches, the predicted error of each column, what is promised and
        what is not, and the release as a command.

        Parameters
        ----------
        out : path
            The page to write; ends in ``.html``.
        ledger, dataset : optional
            Ledger of the table, and the data set's name in it. The page then shows what each release would leave. By
            default the ledger of the domain's ``[ledger]``, else of ``DISCREET_LEDGER``, else none.
        progress : callable, optional
            Called with how many mechanisms are planned so far, and how many there are, over all budgets.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        FileProblem
            When the file cannot be written, is one of the inputs, or exists and was not written by this package.
        ParameterError
            When Jinja2 is not installed, epsilon is 0, or there is no such ledger.
        Refused
            When the ledger does not add up such releases.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> from discreet import Budget
        >>> from discreet.domain import Domain, Integer
        >>> ages = Domain(columns={"age": Integer(lower=0, upper=99)})
        >>> ages_plan = plan(ages, Budget(epsilon=1.0), records=500, mechanisms=["perturbed-histogram"])
        >>> ages_plan.write_page(Path(tempfile.mkdtemp()) / "plan.html").name
        'plan.html'
        """
        from discreet.planner.budget_page import write_budget_page

        return write_budget_page(self, out, ledger, dataset, progress)

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table's cells as text, one row for each private step with its best reading.

        Mechanism, delta (or epsilon, where the budget is what an attacker may reach), share not from the data,
        predicted error (W1), that in units of what a sample of the same size without privacy would have, largest size,
        parameters. The share is marked ``<=`` where it is a bound, and ``~`` where it is a prediction.
        """
        rows: list[tuple[str, ...]] = []
        most = min(10**10, 100 * self.comparison.n)
        for option, readings in self.rows_of_steps:
            if option.mechanism is None or option.forecast is None:
                rows.append((option.name, *[""] * (len(_HEADER) - 2), option.refused or ""))
                continue
            parameters = ", ".join(f"{name}={_shown(value)}" for name, value in option.mechanism.parameters().items())
            if option.mechanism.domain != self.comparison.domain:
                parameters += f"; {_cells(option.mechanism.domain)}"
            if readings:
                parameters += f"; the same private step, read otherwise: {', '.join(readings)}"
            largest = option.largest_size
            size = "" if largest is None else f"{largest:,}"
            if largest == most:
                size += "+"
            errors = _estimate(option.w1), _estimate(option.times_sampling, 2)
            cells = rounded_up(getattr(option, self._header[1]) or 0.0), wording.marked_share(option.forecast)
            rows.append((option.name, *cells, *errors, size, parameters))
        return rows

    @property
    def _header(self) -> Sequence[str]:
        return (_HEADER[0], "delta" if self.comparison.request.attack is None else "epsilon", *_HEADER[2:])

    def __str__(self) -> str:
        return "\n".join([*lines_of(self.advice), self.text])

    @property
    def text(self) -> str:
        """The table and what follows it, without :attr:`verdict`, no wider than the terminal or ``COLUMNS``."""
        comparison, rows = self.comparison, self.rows()
        noun = "unit" if comparison.domain.tables else "record"
        size, cells = counted(comparison.size, noun), _cells(comparison.domain)
        lines = lines_of([f"{size} from {comparison.n:,}, {comparison.budget}, {cells}"])
        if self._promise is not None and comparison.request.attack is None:
            lines += lines_of(wording.budget(comparison.budget.epsilon, comparison.budget.delta, self._whose))
        calibrated, header = [row for row in rows if any(row[1:-1])], self._header
        heading, *beside = aligned([row[:-1] for row in (header, *calibrated)], left=len(header))
        fits = len(lines_of([max(heading, *beside, key=len)])) == 1
        if fits and calibrated:
            lines.append(heading)
        for row, line in zip(calibrated, beside, strict=True):
            numbers = [f"{name} {cell}" for name, cell in zip(header[1:-1], row[1:-1], strict=True) if cell]
            lines += [line] if fits else [row[0], *lines_of([", ".join(numbers)], "    ")]
            lines += lines_of([row[-1]], "    ")
        conclusion = f"Chosen: {self.why}." if self.feasible else "No mechanism meets this request."
        sentences = [f"{', '.join(names)}: {why}" for why, names in self._refused.items()]
        if sentences and self.feasible:
            sentences.insert(0, "Other mechanisms, and why not:")
        return "\n".join([*lines, *lines_of([conclusion, *self._meaning, *self.notes, *sentences])])

    @property
    def _promise(self) -> privacy.Guarantee | None:
        """The guarantee of the best option, where it is proved."""
        guarantees = [option.guarantee for option in self.feasible[:1]]
        return next((g for g in guarantees if g is not None and g.kind == "unconditional"), None)

    @property
    def _whose(self) -> str:
        """One record, or all rows of a unit: whom the promise is for."""
        if self.comparison.domain.row_tables:
            return "one unit with all its rows"
        return wording.unit(self.comparison.request.covered.group)

    @property
    def _meaning(self) -> list[str]:
        """What the best option is expected to lose, and what its promise limits, in numbers."""
        told = list[str]()
        for option in self.feasible[:1]:
            if option.forecast is not None and not option.poor:
                told.append(f"{sentence(wording.lost(option.forecast))}.")
            if option.w1 is not None:
                columns = [*self.comparison.domain.columns.values()]
                scale = "unit" if len(columns) == 1 and columns[0].on_a_line else "ranges"
                told.append(wording.single(f"error-in-{scale}", error=about(option.w1, 4)))
        if self._promise is not None:
            detection = privacy.Risk(detection=0.99, false_alarms=0.01).reached(self._promise.profile)
            told.append(wording.confirmed(detection, self._whose))
        return told

    def _repr_html_(self) -> str:
        return "".join(map(alarm, self.advice)) + table(self._header, self.rows()) + listing(self.notes)


@sealed
def plan(
    domain: Domain | str | os.PathLike[str],
    budget: AnyBudget | None = None,
    *,
    records: int,
    size: int | None = None,
    unit: Unit | None = None,
    reference: Any = None,
    mechanisms: Sequence[str] | None = None,
    largest_sizes: bool = True,
    progress: Callable[[int, int], None] | None = None,
    **parameters: Any,
) -> Plan:
    """Calibrate every mechanism to a budget and predict its error, from public facts alone.

    Parameters
    ----------
    domain : Domain or path
        Public, or the TOML file that declares it.
    budget : Budget, Risk, Advantage or Success
        The most that a release may spend, or what an attacker may reach: the plan then says what each costs.
    records : int
        The public number of records, ``n``: of units, or, where rows are released by themselves, units times slots.
    size : int, optional
        Number of records to release; ``records`` by default.
    unit : Unit, optional
        The person, or other privacy unit, behind the rows: see :func:`discreet.release`.
    reference : dataframe or path, optional
        A **public** table that the confidential one is expected to look like: an earlier release, last year's published
        sample. Predictions are then about tables like it; without one, about tables distributed as the inner half of
        the base measure: right for comparing mechanisms, rough as a number.
    mechanisms : sequence of str, optional
        Registry names to consider; all by default.
    largest_sizes : bool
        Whether to solve for each mechanism's largest size too, which takes most of the time.
    progress : callable, optional
        Called after each mechanism with how many are done, and how many there are.
    **parameters
        Parameters that are given, for the mechanisms named; and ``sampling`` and ``outcome``, as for
        :func:`discreet.release`.

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
    >>> from discreet import Budget
    >>> from discreet.domain import Domain, Integer
    >>> ages = Domain(columns={"age": Integer(lower=0, upper=99)})
    >>> plan(ages, Budget(epsilon=1.0, delta=1e-9), records=50_000).best.name
    'hierarchical-histogram'
    """
    require_current(parameters, _MOVED)
    paths = {"domain": domain, "reference": reference}
    files = {name: os.fspath(path) for name, path in paths.items() if isinstance(path, (str, os.PathLike))}
    domain = domain if isinstance(domain, Domain) else Domain.read(domain)
    if (outcome := parameters.pop("outcome", None)) is not None:
        domain = replace(domain, outcome=outcome)
    stated: dict[str, Any] = {"budget": budget, "domain": domain, "relation": Replacement(records=records)}
    request = Request(**stated, unit=unit, size=size, parameters=parameters)
    request.required_budget()
    request, notes = with_units(request, reference is not None, names=mechanisms)
    public = Reference.from_data(reference, domain)
    facts: dict[str, Any] = {"reference": public, "files": files, "unit": unit, "notes": notes}
    comparison = PlanRequest(request=request, mechanisms=mechanisms, **facts)
    return planned(comparison, largest_sizes=largest_sizes, progress=progress)


def planned(comparison: PlanRequest, *, largest_sizes: bool, progress: Progress = None) -> Plan:
    """Return the plan of a request."""
    return Plan(comparison=comparison, options=compared(comparison, sized=largest_sizes, progress=progress))


def _estimate(value: float | None, digits: int = 4, *, none: str = "-") -> str:
    return none if value is None else about(value, digits)


def _shown(value: Any) -> str:
    """Write a parameter shortly: a list by its ends, an API by its name."""
    if isinstance(value, dict):
        return str(value.get("name", value))
    if isinstance(value, list) and len(value) > 3:
        return f"{_shown(value[0])}..{_shown(value[-1])}"
    if isinstance(value, float):
        return about(value, 4)
    return str(value)


def _cells(domain: Domain) -> str:
    return "no finite cells" if domain.size is None else shown_cells(domain.size)
