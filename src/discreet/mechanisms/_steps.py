"""Mechanisms that take several private steps: callbacks after each, and a file to continue from."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

from discreet.mechanisms._base import PrivateStep


class SteppedMechanism(PrivateStep):
    """A mechanism whose kernel takes steps, each of which may be long.

    Attributes
    ----------
    steps : int
        How many.
    one_step_instead : str
        Registry name of a mechanism of one step for such tables, to compare predictions with.
    """

    one_step_instead: ClassVar[str]
    steps: int

    @abstractmethod
    def observed(
        self,
        *,
        watch: Callable[[int, int], None] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        redraw: bool = False,
        inspect: Callable[[Any], None] | None = None,
    ) -> Self:
        """Return the mechanism with callbacks after each of its steps, and a file to continue from.

        Parameters
        ----------
        watch : callable, optional
            Called with the number of steps done, and how many there are.
        checkpoint : path, optional
            Where the steps released so far are kept.
        redraw : bool
            Whether all of them may be there already, so that the table is not asked again.
        inspect : callable, optional
            Called with what each step released.
        """

    @property
    @abstractmethod
    def checkpoint(self) -> str | os.PathLike[str] | None:
        """Where the steps released so far are kept; None where they are not."""

    @abstractmethod
    def paid_from(self, steps: int, sha256: str | None) -> Self:
        """Return the same mechanism, whose kernel refuses a checkpoint other than the one a payment was made for.

        Parameters
        ----------
        steps : int
            How many steps the checkpoint held when the run was paid for.
        sha256 : str or None
            Of the file; None where there was none.
        """

    @abstractmethod
    def announcement(self) -> str:
        """Return what the steps will do, in words, before the first one."""
