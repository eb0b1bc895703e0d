"""PE25: Gonzalez, Fanti and Ramdas, "Private Evolution Converges". Parameters, bounds on the error, lower bounds.

``D`` is the diameter of the space in the unit of the distance, ``d`` its dimension, and ``sigma`` the standard
deviation of the noise on a histogram that sums to one (that on the counts, divided by n). Each raises
:class:`~discreet.errors.ParameterError` when a number is out of range.
"""

from discreet._core.boundary import seal
from discreet.papers.pe25.error import (
    gaussian_complexity,
    laplace_complexity,
    predicted_error,
    private_evolution_rate,
    sampling_error,
    signed_measure_algorithm_5,
    stability_histogram_proposition_4_1,
    thresholded_laplace_error,
)
from discreet.papers.pe25.theorem import (
    ball_packing,
    box_packing,
    closeness_epsilon,
    theorem_alpha,
    theorem_gamma,
    theorem_population,
    theorem_steps,
    theorem_steps_of_budget,
    theorem_variations,
    usable_steps,
)

__all__ = [
    "ball_packing",
    "box_packing",
    "closeness_epsilon",
    "gaussian_complexity",
    "laplace_complexity",
    "predicted_error",
    "private_evolution_rate",
    "sampling_error",
    "signed_measure_algorithm_5",
    "stability_histogram_proposition_4_1",
    "theorem_alpha",
    "theorem_gamma",
    "theorem_population",
    "theorem_steps",
    "theorem_steps_of_budget",
    "theorem_variations",
    "thresholded_laplace_error",
    "usable_steps",
]

seal(globals())
