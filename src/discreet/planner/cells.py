"""The mechanism of a request, chosen or named, and cells for columns that declare none: from public facts alone."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from discreet import mechanisms, planner
from discreet._core.errors import DiscreetError, DomainError, ParameterError, PoorUtility, choice, integer
from discreet._core.lazy import pl
from discreet._core.text import about
from discreet.confidential import public_table, require_unit
from discreet.domain import Commonness, Domain
from discreet.ledger import Replacement, Request
from discreet.mechanisms import SAMPLINGS, Mechanism, first_names, named, parameter_names, require_kept
from discreet.releases import POOR_UTILITY, poor_utility

if TYPE_CHECKING:
    from discreet.domain import Numeric

_LOG_RATIO = 100.0
_FIRST = 64  # cells in all that a search begins with
_PREDICTED = 1024  # cells of one column up to which errors are predicted; beyond, they are extrapolated
_MOST_DECLARED = 1 << 12  # cells of declared columns from which on nothing is predicted
_MOST = 1 << 17  # cells in all
_LEAST = 3  # the power of two of cells of one column; of several, one less
_GAIN = 0.03
_REFUSED = 1e6


def require_current(arguments: Iterable[str], replacements: Mapping[str, str]) -> None:
    """Refuse an argument of earlier versions, with what is written now."""
    for name in arguments:
        if name in replacements:
            raise ParameterError(f"{name}=... is an argument of earlier versions. Write {replacements[name]}")


def with_sampling(mechanism_type: type[Mechanism], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with the sampling first where the mechanism has one. Raises ParameterError for another."""
    sampling = SAMPLINGS[0]
    if parameters.get("sampling") is not None:
        sampling = choice("sampling", parameters["sampling"], SAMPLINGS)
    complete = {"sampling": sampling, **parameters} | {"sampling": sampling}
    if "sampling" not in mechanism_type.__dataclass_fields__:
        del complete["sampling"]
    return complete


def calibrated(
    name: str, domain: Domain, parameters: Mapping[str, Any], *, relation: str = "replacement", **sizes: Any
) -> Mechanism:
    """Calibrate a mechanism for budget, n, size and group, with cells where none are declared, as for replacement."""
    mechanism_type = named(name)
    require_kept(name, domain, keeps=mechanism_type.traits.keeps_declared)
    if "points" not in parameters:
        domain = with_cells(domain, mechanism_type, **sizes, **parameters)
    if relation != "replacement":
        parameters = {**parameters, "relation": relation}
    mechanism: Mechanism = mechanism_type.calibrated(domain=domain, **sizes, **parameters)
    return mechanism


def with_cells(domain: Domain, kind: type[Mechanism], /, *, n: int, size: int | None = None, **sizes: Any) -> Domain:
    """Return the domain with cells for every continuous numeric column, where the mechanism needs them."""
    # They are the power of two of the least error that is predicted without a reference, or what the mechanism says.
    # Columns with a base measure of their own keep it and stay continuous.
    columns = [name for name, c in domain.columns.items() if not c.finite and not c.open and c.base is None]
    if not columns or not kind.traits.needs_cells:
        return domain
    cells = kind.traits.cells_each
    if cells is None:

        @cache
        def judged(cells: int) -> Mechanism:
            _cut(domain, columns, cells)  # refused where a column cannot have them
            plain = _cut(domain, columns, cells, judged=True)
            mechanism: Mechanism = kind.calibrated(domain=plain, n=n, size=size, **sizes)
            return mechanism

        declared = [column.size for name, column in domain.columns.items() if name not in columns]
        search = None not in declared and math.prod(filter(None, declared)) <= _MOST_DECLARED
        cells = 1 << _exponent(judged, len(columns), n=n, size=size or n, search=search)
    return replace(domain, columns=_cut(domain, columns, cells).columns)


def with_units(request: Request, *single_rows: Any, names: Sequence[str] | None = None) -> tuple[Request, list[str]]:
    """Return a request whose unit is a table of units of its domain, where that can be; and what to say of it."""
    # It can be where a mechanism keeps such tables, and all that are asked for do; whatever is predicted, since errors
    # of units and of single rows are not about the same records. single_rows: what else releases of units do not have.
    domain, unit = request.domain, request.unit
    choices = list(filter(None, [request.mechanism])) or names
    keepers = [kind for kind in map(named, choices or first_names()) if kind.traits.keeps_declared]
    if domain is None or unit is None or len(keepers) < len(choices or [0]):
        return request, []
    keeper = keepers[0]
    if domain.tables:
        require_unit(domain, unit)
    from discreet.domain import UnitTable

    budget, workload = request.attack or request.budget, {"workload", "given"} & set(request.parameters)
    pure = budget is not None and budget.pure
    reason = (
        "counts, parts, references, workloads, closed tables, mechanisms that are given, plans of several releases "
        "and budgets of delta 0 are of single rows"
    )
    if not any((*single_rows, request.counts, request.output.partitions, workload, pure)):
        try:
            finite = with_cells(domain, keeper, n=1, budget=budget)
            rows = UnitTable(unit=unit.column, max_records=unit.max_records, columns=finite.columns)
            by_unit = replace(finite, columns={}, tables={"records": rows})
            mechanisms.check_columns(by_unit)
            require_kept(keeper.name, by_unit, keeps=True)
        except (DomainError, ParameterError) as problem:
            reason = str(problem)
        else:
            return replace(request, domain=by_unit, unit=None), chosen_cells(domain, finite)
    return request, [f"rows are released by themselves, and not as those of one {unit.column}: {reason}"]


def _cut(domain: Domain, names: list[str], cells: int, *, judged: bool = False) -> Domain:
    """Return the domain with so many cells for each of some numeric columns, without what it declares beside them."""
    # Log-spaced cells are judged as linear ones of the logarithm: their widths in the column's unit differ a
    # hundredfold, and the unit says nothing of where among them the table is.
    from discreet.domain import Numeric

    columns = dict(domain.columns)
    for name in names:
        column = cast("Numeric", columns[name])
        log = column.lower > 0 and column.upper / column.lower >= _LOG_RATIO
        if log and judged:
            lower, upper = math.log(column.lower), math.log(column.upper)
            columns[name] = Numeric(lower=lower, upper=upper, cells=cells, nulls=column.nulls)
        elif judged:
            columns[name] = replace(column, cells=cells)
        else:
            columns[name] = replace(column, cells=cells, spacing="log" if log else "linear")
    return Domain(columns=columns, metric_weights=domain.metric_weights)


def _exponent(judged: Callable[[int], Mechanism], columns: int, *, n: int, size: int, search: bool) -> int:
    """Return the power of two of cells per column from which neither twice nor half as many are predicted better."""
    # Coarse cells say little of where in them a value lies, fine ones take more noise or more prior. Where many would
    # take long to predict, what is not due to their width is extrapolated by its growth from half as many per column.
    # A prediction sees each column by itself: of several, records that noise or prior puts elsewhere count more.
    minimum, most_predicted = (_LEAST, _PREDICTED) if columns == 1 else (_LEAST - 1, _PREDICTED // 4)
    best, last, maximum = (max(minimum, int(math.log2(c) / columns)) for c in (_FIRST, most_predicted, _MOST))

    @cache
    def displacement(exponent: int) -> float:
        """Return the predicted error but for the width of cells."""
        mechanism = judged(1 << exponent)
        draws = max(2, mechanism.forecast(n).draws // 4)
        return planner.predicted_w1(mechanism, n=n, size=size, draws=draws) - planner.width_error(mechanism.domain)

    @cache
    def error(exponent: int) -> float:
        """Return the predicted error of so many cells, infinite where the mechanism cannot have them."""
        try:
            mechanism, moved = judged(1 << exponent), displacement(min(exponent, last))
            if exponent > last:
                moved *= max(1.0, moved / displacement(last - 1)) ** (exponent - last)
        except DiscreetError:
            return math.inf
        share = mechanism.forecast(n).lost
        elsewhere = share / 12.0 if len(mechanism.domain.columns) > 1 else 0.0
        refused = _REFUSED * share if share > POOR_UTILITY else 0.0
        return moved + planner.width_error(mechanism.domain) + elsewhere + refused

    while search and best < maximum and error(best + 1) < (1.0 - _GAIN) * error(best):
        best += 1
    while search and best > minimum and error(best) >= (1.0 - _GAIN) * error(best - 1):
        best -= 1
    return best


def chosen_cells(declared: Domain, used: Domain) -> list[str]:
    """Return one sentence for each column whose cells were chosen rather than declared."""
    return [
        f"column {name!r}: {column.cells} {column.spacing}-spaced cells, the widest "
        f"{about(np.diff(column.edges).max(), 4)} wide, chosen from its bounds, the number of records, the budget "
        "and the size. Where in its cell a released value lies is not from the data. If this is too coarse, declare "
        "cells"
        for name, column in cast("dict[str, Numeric]", used.columns).items()
        if column != declared.columns[name]
    ]


def said_before(mechanism: Mechanism, request: Request, *, n: int, reference: Any = None) -> list[str]:
    """Say what a mechanism's steps will do, and compare them with no step at all and with a histogram."""
    if not isinstance(mechanism, mechanisms.SteppedMechanism):
        return []
    lines = [str(mechanism.announcement())]
    if not mechanism.steps:
        return lines
    if mechanism.forecast(n).slow:
        return [*lines, "what no step, or a histogram, would do is not predicted, since that would take minutes"]
    size, public = request.size or n, planner.Reference.from_data(reference, mechanism.domain)
    table = f"a table like {'the inner half of the domain' if reference is None else 'the reference'}"
    error = planner.predicted_w1(mechanism, n=n, size=size, reference=public)
    stepless = cast(Mechanism, replace(cast(Any, mechanism), steps=0))
    without_steps = planner.predicted_w1(stepless, n=n, size=size, reference=public)
    if without_steps <= error:
        errors = f"W1 {about(without_steps, 4)} against {about(error, 4)}"
        lines.append(
            f"WARNING: steps=0 is predicted to do as well ({errors}), for {table}, and costs no privacy. Ask "
            "for steps=0, or a larger epsilon"
        )
    histogram = named(mechanism.traits.one_step_instead)
    if request.budget is None or request.between.name not in histogram.traits.relations:
        return lines
    sizes: dict[str, Any] = {"budget": request.required_budget(), "n": n, "size": size, "group": request.group}
    try:
        alternative = calibrated(histogram.name, mechanism.domain, {}, **sizes)
        instead = planner.predicted_w1(alternative, n=n, size=size, reference=public)
    except DiscreetError:  # it has no answer on this domain or for this budget
        return lines
    if instead < error:
        lines.append(
            f"WARNING: evolution is the wrong tool here: {histogram.name} is predicted to have W1 {about(instead, 4)} "
            f"against {about(error, 4)}, for {table}. Use {histogram.name}"
        )
    return lines


_NO_PARAMETERS = {"cells", "group", "n"}
"""What a mechanism is calibrated with, besides its own parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicFacts:
    """Domain, number of records (declared, or None until counted), and a public table that this one may be like."""

    domain: Domain
    n: int | None
    reference: pl.DataFrame | None = None

    @property
    def commonness(self) -> Commonness | None:
        """How common the records of the reference are; None where there is none."""
        if self.reference is None:  # what predicts is not loaded for nothing
            return None
        return planner.Reference(self.reference).commonness(self.domain)


def require_complete(request: Request) -> None:
    """Refuse a request that no mechanism, or not the one asked for, can meet."""
    mechanism_type, parameters = request.mechanism_type, request.parameters
    if request.size is None and not request.counts:
        raise ParameterError(
            "the number of records to release is a public choice that costs privacy or utility. Write size=..., "
            "for a start as many as the table has. The plan compares others"
        )
    request.required_budget()
    if request.several and (mechanism_type is None or "tables" not in parameter_names(mechanism_type)):
        names = [repr(name) for name, kind in mechanisms.REGISTRY.items() if "tables" in parameter_names(kind)]
        raise ParameterError(f"several tables come from {' or '.join(names)} alone. Take it, or leave tables out")
    if request.counts and request.several:
        raise ParameterError("counts are one table. For them leave tables out")
    if "tables" in parameters:
        integer("tables", parameters["tables"], least=1, most=mechanisms.MOST_TABLES)
    request.require_steps(mechanism_type)
    if mechanism_type is None:
        if parameters.get("sampling") is not None:
            choice("sampling", parameters["sampling"], SAMPLINGS)
        if unknown := sorted(set(parameters) - {"sampling"}):
            raise ParameterError(f"unknown argument {unknown[0]!r}. If a mechanism has it, write mechanism=... as well")
        return
    if solved := sorted(_NO_PARAMETERS & set(parameters)):
        raise ParameterError(
            f"{solved[0]!r} is no parameter of {request.mechanism}: it follows from the table and other arguments. "
            "Leave it out"
        )
    if request.counts and not mechanism_type.traits.counts:
        raise ParameterError(f"{request.mechanism} releases records, not counts. Ask for records, and write size=...")
    mechanisms.require_relation(mechanism_type, request.between.name)


def chosen_mechanism(request: Request, facts: PublicFacts) -> tuple[Mechanism, str]:
    """Return the mechanism of a request for a table of ``facts.n`` records, and why it is this one."""
    if request.mechanism is None:
        return _chosen_by_plan(request, facts)
    parameters = with_sampling(named(request.mechanism), request.parameters)
    if isinstance(parameters.get("points"), (str, os.PathLike)):
        parameters["points"] = public_table(os.fspath(parameters["points"]), facts.domain)
    sizes = {"n": facts.n, "budget": request.required_budget(), "size": request.size, "group": request.group}
    mechanism = calibrated(request.mechanism, facts.domain, parameters, relation=request.between.name, **sizes)
    why = f"{request.mechanism}: " + ("draws several tables" if request.several else "asked for")
    if request.parameters.get("sampling") == "stratified" and not mechanism.forecast(facts.n or 0).stratified:
        why += ". It draws records as its law demands, so that stratified has no effect"
    return mechanism, why


def _chosen_by_plan(request: Request, facts: PublicFacts) -> tuple[Mechanism, str]:
    """Return the mechanism that the plan chooses among those that can release what is asked for, and why."""
    names, relation = first_names(), request.between.name
    if request.counts:
        names = [name for name in names if named(name).traits.counts]
    if relation != "replacement":
        names = [name for name in names if relation in named(name).traits.relations]
        request = replace(request, parameters={**request.parameters, "relation": relation})
    elif request.relation.records is None:
        request = replace(request, relation=Replacement(records=facts.n or 0))
    request, reference = replace(request, domain=facts.domain), planner.Reference(facts.reference)
    comparison = planner.PlanRequest(request=request, reference=reference)
    if names != first_names():
        comparison = replace(comparison, mechanisms=list(filter(comparison.suits, names)))
    plan = planner.planned(comparison, largest_sizes=False)
    best, forecast = plan.best, plan.feasible[0].forecast
    if forecast is not None and plan.feasible[0].poor and "poor-utility" not in request.accept:
        raise PoorUtility(poor_utility(forecast, best, plan.remedies))
    return best, plan.why
