"""What a posterior says about some numbers, as a table."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from discreet._core.text import aligned, percent_as_written
from discreet.domain._temporal import moment_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The posterior of one number.

    ``name``: the functional, as it was asked for.
    ``mean``, ``sd``: Posterior mean and standard deviation.
    ``lower``, ``upper``: Equal-tailed credible interval.
    ``effective_draws``: Independent draws that the posterior draws are worth.
    ``r_hat``: whether the chains agree (1: they do); None for independent draws.
    ``unit``: "value" where the number is a value of the column, "length" where it is a difference of two, else
    "number".
    """

    name: str
    mean: float
    sd: float
    lower: float
    upper: float
    effective_draws: float
    r_hat: float | None = None
    unit: str = "number"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Posteriors of some functionals, a row each; also its own text.

    Parameters
    ----------
    rows : tuple of Estimate
        In the order asked for.
    level : float
        Probability of the intervals.
    kind : str
        Kind of the column ("date" and "datetime" are written as such), or "" where there is none.
    notes : tuple of str
        What the posterior assumes.
    """

    rows: tuple[Estimate, ...]
    level: float
    kind: str = ""
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Estimate:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(name)

    def to_dict(self) -> dict[str, Any]:
        """Return the table as JSON values."""
        return {"level": self.level, "estimates": [asdict(row) for row in self.rows], "notes": list(self.notes)}

    def __str__(self) -> str:
        head = ("", "mean", "sd", f"{percent_as_written(self.level)} from", "to", "effective draws")
        body = [
            (row.name, self._text(row, row.mean), self._text(row, row.sd, length=True), self._text(row, row.lower),
             self._text(row, row.upper), f"{row.effective_draws:,.0f}")
            for row in self.rows
        ]  # fmt: skip
        return "\n".join([*aligned([head, *body]), *(f"- {note}" for note in self.notes)])

    def _text(self, row: Estimate, value: float, *, length: bool = False) -> str:
        if length or row.unit != "value" or self.kind not in ("date", "datetime") or value != value:  # noqa: PLR0124
            return f"{value:,.6g}"
        return moment_text(self.kind, value, sep=" ")
