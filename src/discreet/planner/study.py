"""Several releases declared together: calibrated together, and paid at once by the profile of all of them.

That is allowed because they are fixed before the first of them is seen. The document that is written holds all that is
needed to compute the guarantee again, and whoever reads it does.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Self

from discreet._core.checks import integer, positive_size, real
from discreet._core.errors import DiscreetError, FileProblem, Infeasible, ParameterError, Refused
from discreet._core.numeric import least_real, log_ratio
from discreet._core.reading import bounded_text, first_wrong, parsed_toml, read_json
from discreet._core.text import aligned, as_written, counted, rounded_down
from discreet._core.version import __version__
from discreet.domain import Domain
from discreet.mechanisms import Mechanism, named, require_kept
from discreet.planner.cells import with_cells
from discreet.planner.options import UNIT, with_sampling, wrapped
from discreet.planner.plans import plan
from discreet.privacy import Budget, Guarantee, Profile, Relation, Unit, compose
from discreet.releases.certificate import as_json
from discreet.releases.content import POOR_UTILITY, poor_utility
from discreet.releases.verification import SECONDS, within

SCHEMA = 1
_STEP = 1.25  # of the factor, until it is too large
_WITHIN = 1e-3  # of the largest factor
_LEAST = 0.5
_FLOOR = 0.9  # of its share of delta, that a release may need at every epsilon
_ROUNDS = 5
_KEYS = {"name", "domain", "records", "size", "mechanism", "parameters", "share", "max_records"}
_KINDS: dict[str, type[Any]] = {"name": str, "domain": str, "records": int, "mechanism": str, "parameters": dict}
_REQUIRED, _WORDS = ("name", "domain", "records"), {str: "a text", int: "an integer", dict: "a table"}
_SHAPE: dict[str, Any] = {"epsilon": (int, float), "delta": (int, float), "relation": (str,), "releases": (list,)}
_PART: dict[str, Any] = {
    "name": (str,),
    "mechanism": {"name": (str,), "parameters": (dict,)},
    "given": (dict,),
    "domain": (dict,),
    "domain_sha256": (str,),
    "records": (int,),
    "size": (int,),
    "max_records": (int,),
    "epsilon": (int, float),
    "delta": (int, float),
}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One release of a study as it is declared: public facts.

    ``domain``: as it was declared.
    ``records``, ``size``, ``max_records``: numbers of records held, released, and kept of a privacy unit.
    ``mechanism``: registry name; None where the plan is to choose.
    ``parameters``: of the mechanism, that are given.
    ``share``: of the budget, in parts of the sum of all shares.
    """

    name: str
    domain: Domain
    records: int
    size: int
    mechanism: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    share: float = 1.0
    max_records: int = 1

    def __post_init__(self) -> None:
        if not self.name.strip() or not self.name.isprintable():
            raise ParameterError("each release must have a name of printable characters")
        plain = {
            "name": str(self.name),
            "records": positive_size("records", self.records),
            "size": positive_size("size", self.size),
            "share": real("share", self.share, above=0, most=1e6),
            "max_records": integer("max_records", self.max_records, least=1, most=10_000),
        }
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        if self.parameters and self.mechanism is None:
            raise ParameterError(f"{self.name}: parameters are of a mechanism. Name the mechanism, or leave them out")


@dataclass(frozen=True, kw_only=True)
class Part:
    """One release of a study, calibrated.

    ``mechanism``: its domain has the cells that were chosen.
    ``given``: those of its parameters that were declared.
    ``domain_sha256``: of the domain as it was declared.
    ``records``, ``size``, ``max_records``: as it was declared.
    ``budget``: what it was calibrated to: a release by this mechanism with this budget is the one that was planned.
    """

    name: str
    mechanism: Mechanism
    given: Mapping[str, Any]
    domain_sha256: str
    records: int
    size: int
    max_records: int
    budget: Budget

    @cached_property
    def guarantee(self) -> Guarantee:
        """Its own."""
        return self.mechanism.guarantee(Relation(group=self.max_records), n=self.records)

    def to_dict(self) -> dict[str, Any]:
        """Return the part as JSON values."""
        return {
            "name": self.name,
            "mechanism": {"name": self.mechanism.name, "parameters": self.mechanism.parameters()},
            "given": dict(self.given),
            "domain": as_json(self.mechanism.domain),
            "domain_sha256": self.domain_sha256,
            "records": self.records,
            "size": self.size,
            "max_records": self.max_records,
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
        }

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Self:
        """Return the part that was written by :meth:`to_dict`. Raises DiscreetError where it cannot be built."""
        group = integer("max_records", facts["max_records"], least=1, most=10_000)
        records, size = positive_size("records", facts["records"]), positive_size("size", facts["size"])
        mechanism = named(facts["mechanism"]["name"]).from_parameters(
            facts["mechanism"]["parameters"], domain=Domain.from_dict(facts["domain"]), records=records, size=size
        )
        return cls(
            name=facts["name"],
            mechanism=mechanism,
            given=facts["given"],
            domain_sha256=facts["domain_sha256"],
            records=records,
            size=size,
            max_records=group,
            budget=Budget(epsilon=facts["epsilon"], delta=facts["delta"]),
        )


@dataclass(frozen=True, kw_only=True)
class Together:
    """Releases that satisfy a budget together, where exactly these are made.

    ``budget``: of all of them.
    ``parts``: the releases.

    Raises ParameterError when they cannot be of one table, Infeasible when they do not satisfy the budget.
    """

    budget: Budget
    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        _require_one_table([(part.name, part.records, part.max_records) for part in self.parts])
        for part in self.parts:
            if part.guarantee.kind != "unconditional":
                raise ParameterError(f"{part.name}: the guarantee is {part.guarantee.kind}. Leave it out of the plan")
            if not part.guarantee.meets(part.budget):
                raise Infeasible(f"{part.name}: {part.budget} with the parameters of {part.mechanism.name}", {})
        if _excess(self.profile, self.budget) > 0.0:
            raise Infeasible(f"{self.budget} for {counted(len(self.parts), 'release')} together", {})

    @cached_property
    def profile(self) -> Profile:
        """What all releases together satisfy: a bound on the profile, since they are fixed beforehand."""
        return compose([part.guarantee.profile for part in self.parts])

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON values: the document that is written."""
        return {
            "discreet_plan": SCHEMA,
            "library": {"name": "discreet", "version": __version__},
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "relation": "replacement",
            "releases": [part.to_dict() for part in self.parts],
        }

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, seconds: float = SECONDS) -> Self:
        """Read a plan, and compute everything again that it states.

        Raises FileProblem when it is not one, or does not hold; Refused when computing takes longer.
        """
        facts = read_json(path, remedy="give the file that discreet plan --together wrote")
        if facts.get("discreet_plan") != SCHEMA:
            raise FileProblem(path, f"it is not a discreet plan of version {SCHEMA}", "check the file")
        wrong = _misshapen(facts)
        if wrong is not None:
            raise FileProblem(path, f"its field {wrong} is missing or of the wrong kind", "plan again")
        try:
            with within(seconds):
                budget = Budget(epsilon=facts["epsilon"], delta=facts["delta"])
                return cls(budget=budget, parts=tuple(map(Part.of, facts["releases"])))
        except (DiscreetError, KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            if isinstance(error, Refused) and not isinstance(error, Infeasible):  # time is up
                raise
            problem = str(error) if isinstance(error, DiscreetError) else "a field is of the wrong kind"
            raise FileProblem(path, f"it does not hold: {problem.rstrip('.')}", "plan again") from None

    @property
    def verdict(self) -> list[str]:
        """Which releases would be refused as mostly not from the data, and why: a sentence or two each."""
        return [
            f"a release of {part.name} would be refused: {poor_utility(forecast, part.mechanism)}"
            for part in self.parts
            if (forecast := part.mechanism.forecast(part.records)).lost > POOR_UTILITY
        ]

    def text(self, wanted: Sequence[Wanted]) -> str:
        """Return a table of the releases beside what each would have had by sums, and what they satisfy."""
        sums = dict(zip([one.name for one in wanted], shares(wanted), strict=True))
        head = ("release", "mechanism", "epsilon", "delta", "epsilon by sums")
        rows = [
            (
                part.name,
                part.mechanism.name,
                as_written(part.budget.epsilon),
                as_written(part.budget.delta),
                rounded_down(sums[part.name] * self.budget.epsilon),
            )
            for part in self.parts
        ]
        many = counted(len(self.parts), "release")
        said = (
            f"{many} together satisfy {self.budget}, if these are made and no others, each with the mechanism, "
            "epsilon, delta and size above. They were fixed before any of them is seen: none may be added, or changed, "
            "by looking at one of the others"
        )
        return "\n".join([*aligned([head, *rows], left=2), *wrapped([said + "."])])


def wanted_in(path: str | os.PathLike[str]) -> list[Wanted]:
    """Read the releases of a study: a TOML file of ``[[release]]`` tables. Domains are named relative to the file.

    Raises FileProblem, DomainError or ParameterError when something in it is not as it must be.
    """
    remedy = "give a TOML file with a [[release]] table for each release"
    document = parsed_toml(bounded_text(path, missing="check the path", remedy=remedy), what="the study")
    tables = document.get("release")
    if set(document) != {"release"} or not isinstance(tables, list) or not tables:
        raise FileProblem(path, "it must have [[release]] tables, and nothing else", remedy)
    return [_wanted(table, Path(path).parent) for table in tables]


def _wanted(table: Any, folder: Path) -> Wanted:
    if not isinstance(table, Mapping):
        raise ParameterError("each [[release]] must be a table")
    if unknown := sorted(set(table) - _KEYS):
        raise ParameterError(f"a [[release]] must not have {unknown[0]!r}. It may have: {', '.join(sorted(_KEYS))}")
    for key, kind in _KINDS.items():
        if not isinstance(table.get(key, kind()), kind) or (key in _REQUIRED and key not in table):
            raise ParameterError(f"{key!r} of each [[release]] must be {_WORDS[kind]}")
    given = {key: value for key, value in table.items() if key != "domain"}
    return Wanted(**{"size": table["records"], **given, "domain": Domain.read(folder / table["domain"])})


def plan_together(
    wanted: Sequence[Wanted],
    *,
    epsilon: float,
    delta: float = 0.0,
    progress: Callable[[int, int], None] | None = None,
) -> Together:
    """Calibrate several releases of one table so that all of them together satisfy a budget.

    ``wanted``: the releases.
    ``epsilon``, ``delta``: the budget of all.
    ``progress``: called after each attempt with how many are done, and how many there are at most.

    Raises Infeasible when no budgets do; ParameterError, BudgetError when a number is out of range, or a choice of
    cells keeps changing.

    Notes
    -----
    Release ``i`` is calibrated to epsilon ``t w_i E`` and delta ``min(t/2, 0.9) w_i D``, ``w_i`` its share. The factor
    ``t`` is the largest, to 0.1 %, at which the composed profile meets ``(E, D)``. Mechanisms and cells that are not
    given are chosen for these budgets, and the factor is solved for again until they stay the same.
    """
    whole = Budget(epsilon=epsilon, delta=delta)
    _require_one_table([(one.name, one.records, one.max_records) for one in wanted])
    start = 1.0 / math.sqrt(sum(share * share for share in shares(wanted))) if delta else 1.0
    budgets = [_budget(whole, share, start) for share in shares(wanted)]
    chosen = [_chosen(one, budget) for one, budget in zip(wanted, budgets, strict=True)]
    for done in range(_ROUNDS):
        budgets = _solved(chosen, whole, shares(wanted), start)
        if progress is not None:
            progress(done + 1, _ROUNDS)
        named_so_far = [one.name if done else None for one in chosen]
        again = [_chosen(*both) for both in zip(wanted, budgets, named_so_far, strict=True)]
        if again == chosen:
            return Together(
                budget=whole, parts=tuple(one.part(budget) for one, budget in zip(chosen, budgets, strict=True))
            )
        chosen = again
    raise ParameterError("the cells that are chosen change with the budget, back and forth. Declare them: cells = ...")


def shares(wanted: Sequence[Wanted]) -> list[float]:
    """Return the releases' shares of the whole."""
    total = math.fsum(one.share for one in wanted)
    return [one.share / total for one in wanted]


@dataclass(frozen=True, kw_only=True)
class _Chosen:
    """A release with its mechanism and cells, but for its one free parameter."""

    wanted: Wanted
    name: str
    domain: Domain

    def calibrated(self, budget: Budget) -> Mechanism:
        """Return the mechanism at a budget, as a release by its name makes it."""
        kind, one = named(self.name), self.wanted
        given = with_sampling(kind, one.parameters)
        return kind.calibrated(budget, domain=self.domain, n=one.records, size=one.size, group=one.max_records, **given)

    def profile(self, budget: Budget) -> Profile:
        """Return the profile at a budget."""
        return self.calibrated(budget).guarantee(Relation(group=self.wanted.max_records), n=self.wanted.records).profile

    def part(self, budget: Budget) -> Part:
        """Return the release at its budget."""
        one = self.wanted
        return Part(
            name=one.name,
            mechanism=self.calibrated(budget),
            given=one.parameters,
            domain_sha256=hashlib.sha256(one.domain.to_toml().encode()).hexdigest(),
            records=one.records,
            size=one.size,
            max_records=one.max_records,
            budget=budget,
        )


def _chosen(one: Wanted, budget: Budget, name: str | None = None) -> _Chosen:
    """Choose a mechanism and cells for a budget; the mechanism that was asked for, or that was chosen before."""
    name = one.mechanism or name
    if name is None:
        unit = None if one.max_records == 1 else Unit(UNIT, max_records=one.max_records)
        made = plan(one.domain, budget, records=one.records, size=one.size, unit=unit, largest_sizes=False)
        return _Chosen(wanted=one, name=made.best.name, domain=made.best.domain)
    kind = named(name)
    require_kept(name, one.domain, keeps=kind.traits.keeps_declared)
    given, group = with_sampling(kind, one.parameters), one.max_records
    cells = with_cells(one.domain, kind, n=one.records, budget=budget, size=one.size, group=group, **given)
    return _Chosen(wanted=one, name=name, domain=cells)


def _solved(chosen: Sequence[_Chosen], whole: Budget, parts: Sequence[float], start: float) -> list[Budget]:
    """Return the largest budgets with which the releases together meet the whole one."""
    most = min(1.5, 100.0 / whole.epsilon) / max(parts)

    def budgets(inverse: float) -> list[Budget]:
        return [_budget(whole, part, 1.0 / inverse) for part in parts]

    @cache
    def excess(inverse: float) -> float:
        try:
            profiles = [one.profile(budget) for one, budget in zip(chosen, budgets(inverse), strict=True)]
        except Infeasible:  # too little for a mechanism: where more is too much, it says so itself in the end
            return -1.0
        return _excess(compose(profiles), whole)

    least = 1.0 / most
    fits = max(1.0 / start, least)
    while excess(fits) > 0.0:
        fits *= _STEP
        if fits > 1.0 / _LEAST:
            raise Infeasible(f"{whole} for these releases together", {})
    beyond = max(least, fits / _STEP)
    while beyond < fits and excess(beyond) <= 0.0:
        fits, beyond = beyond, max(least, beyond / _STEP)
    found = least_real(excess, beyond, fits, relative=_WITHIN)
    return budgets(fits if found is None else found)


def _budget(whole: Budget, share: float, factor: float) -> Budget:
    """Return the budget of one release, of six digits."""
    delta = min(0.5 * factor, _FLOOR) * share * whole.delta
    return Budget(epsilon=float(rounded_down(factor * share * whole.epsilon, 6)), delta=float(rounded_down(delta, 6)))


def _excess(profile: Profile, whole: Budget) -> float:
    """Return by what log-ratio a profile is above a budget."""
    if whole.delta == 0.0:
        return log_ratio(profile.pure, whole.epsilon)
    return log_ratio(profile.delta(whole.epsilon), whole.delta)


def _require_one_table(facts: Sequence[tuple[str, int, int]]) -> None:
    """Refuse releases that cannot be of one table, between the same neighbours."""
    if not facts:
        raise ParameterError("a plan needs at least one release")
    names = [name for name, _, _ in facts]
    if len(set(names)) != len(names):
        raise ParameterError("two releases have the same name. Give each its own")
    _, records, group = facts[0]
    if any(records * other_group != other_records * group for _, other_records, other_group in facts):
        raise ParameterError(
            "the releases must be of one table: records / max_records, the number of privacy units, must be the same"
        )


def _misshapen(facts: Mapping[str, Any]) -> str | None:
    wrong = first_wrong(facts, _SHAPE, "")
    if wrong is not None or facts["relation"] != "replacement":
        return wrong or "relation"
    found = (first_wrong(part, _PART, f"releases[{i}].") for i, part in enumerate(facts["releases"]))
    return next((wrong for wrong in found if wrong is not None), None)


def written(document: Mapping[str, Any]) -> bytes:
    """Return a plan as the bytes of its file."""
    return (json.dumps(document, indent=2, allow_nan=False) + "\n").encode()
