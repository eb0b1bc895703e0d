"""What regressions share: a design of given columns, and a response on the scale of the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from discreet.pseudo_posterior._design import Design, Response
from discreet.pseudo_posterior._rows import Columns
from discreet.pseudo_posterior._synthesiser import Synthesiser


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDesign(Synthesiser):
    """A model of some columns given the columns of a design."""

    design: Design

    @property
    def given(self) -> tuple[str, ...]:
        """The columns of the design."""
        return self.design.columns

    def public(self, columns: Columns, count: int) -> dict[str, npt.NDArray[Any]]:
        """Return the design matrix."""
        return {"design": self.design.matrix(columns, count)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression(OnDesign):
    """A model of one numeric column, the response, given the columns of a design."""

    response: Response

    @property
    def sensitive(self) -> tuple[str, ...]:
        """The response."""
        return (self.response.column,)

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """Those of the response."""
        return {self.response.column: (self.response.lower, self.response.upper)}

    @property
    def log_density_at_most_zero(self) -> bool:
        """True where the least scale keeps every density below one."""
        return self.response.bounded

    def coded(self, name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the response on the scale of the model."""
        return self.response.encode(values)

    def decoded(self, name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the response in the unit of the table."""
        return self.response.decode(values)
