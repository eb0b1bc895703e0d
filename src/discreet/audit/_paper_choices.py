"""Parameters that the thesis chooses by looking at the data: diagnostics, which no mechanism of this library takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from discreet._core.text import about, counted
from discreet.audit._instance import BANNER
from discreet.confidential import Confidential
from discreet.confidential._open import open_confidential
from discreet.domain import Counts
from discreet.papers.bnp24 import dirichlet_multinomial_thesis, empirical_bayes_strength


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperChoices:
    """What the thesis would have chosen for this table. Confidential.

    ``strength``: empirical-Bayes strength of a Dirichlet process.
    ``singletons``: values held once, which the thesis counts twice so that its theorem applies.
    ``doubled_records``: number of records after that.
    ``least_prior``, ``largest_prior``: range over the held cells of its Dirichlet-multinomial masses; None where no
    epsilon and size were given.
    """

    strength: float
    singletons: int
    doubled_records: int
    least_prior: float | None = None
    largest_prior: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, marked ``"confidential": true``; an infinite strength is None."""
        return {
            "confidential": True,
            "notice": BANNER,
            "strength": self.strength if self.strength < float("inf") else None,
            "singletons": self.singletons,
            "doubled_records": self.doubled_records,
            "least_prior": self.least_prior,
            "largest_prior": self.largest_prior,
        }

    def __str__(self) -> str:
        lines = [
            BANNER,
            f"empirical-Bayes strength {about(self.strength, 6)}",
            f"values held once: {self.singletons:,} (doubling them makes {counted(self.doubled_records, 'record')})",
        ]
        if self.least_prior is not None and self.largest_prior is not None:
            between = f"{about(self.least_prior, 6)} to {about(self.largest_prior, 6)}"
            lines.append(f"data-dependent priors of held cells: {between}")
        return "\n".join(
            [
                *lines,
                "A release with parameters chosen this way has no guarantee. Choose them before looking at the data.",
            ]
        )


def paper_choices(
    confidential: Confidential[Counts], *, epsilon: float | None = None, size: int | None = None
) -> Confidential[PaperChoices]:
    """Compute what the thesis would have chosen by looking at the data.

    ``confidential``: the table.
    ``epsilon``, ``size``: when given, the range of its Dirichlet-multinomial masses too.
    Returns: closed; for the custodian. The guarantees of this library assume parameters chosen without looking at the
    data, and no mechanism takes these.

    Raises ParameterError when epsilon or size is not positive.

    References: BNP24, sections 7.1 (strength, masses) and 7.2 (doubling).
    """
    x = open_confidential(confidential, caller=__name__)
    priors = None
    if epsilon is not None and size is not None:
        priors = dirichlet_multinomial_thesis(x.frequencies, epsilon, size=size)
    singletons = int((x.frequencies == 1).sum())
    return Confidential(
        PaperChoices(
            strength=empirical_bayes_strength(x.n, x.distinct),
            singletons=singletons,
            doubled_records=x.n + singletons,
            least_prior=None if priors is None else float(priors.min()),
            largest_prior=None if priors is None else float(priors.max()),
        )
    )
