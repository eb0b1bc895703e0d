"""What adapters of public models share: their packages, and degrees of variation that shrink."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import ClassVar

from discreet._core.checks import real
from discreet._core.errors import ParameterError
from discreet._core.lazy import torch
from discreet.evolution._api import API


class ModelAPI(API):
    """A model that varies a record at several degrees."""

    norm: ClassVar[float] = 2.0
    degrees: Sequence[float]

    def variations_each(self) -> int:
        """Return one more than there are degrees."""
        return 1 + len(self.degrees)


def needed(*packages: str) -> None:
    """Refuse to go on without packages. Raises ParameterError naming the extra that has them."""
    for package in packages:
        if find_spec(package) is None:
            raise ParameterError(f"this needs {package}. Install it: pip install 'discreet[evolution]'")


@contextmanager
def inference(seed: int) -> Iterator[None]:
    """Run a model without gradients, with torch's own draws seeded; its state is as before afterwards."""
    with torch.inference_mode(), torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def settled_degrees(degrees: Sequence[float], shrink: float) -> tuple[float, ...]:
    """Check the degrees of variation, and the factor by which they shrink.

    Raises ParameterError when they are not above 0 and at most 1.
    """
    real("shrink", shrink, above=0, most=1)
    found = tuple(real("each of degrees", degree, above=0, most=1) for degree in degrees)
    if not found:
        raise ParameterError("degrees must hold at least one number, one per variation")
    return found


def degrees_at(degrees: Sequence[float], shrink: float, step: int, steps: int) -> list[float]:
    """Return the degrees in a step: geometrically from the first to the last, times ``shrink`` there.

    Examples
    --------
    >>> [degrees_at([0.8], 0.25, step, 3) for step in range(3)]
    [[0.8], [0.4], [0.2]]
    """
    factor = shrink ** (step / (steps - 1)) if steps > 1 else 1.0
    return [degree * factor for degree in degrees]
