"""Numerics shared by the exact accounting: directed rounding, log-space probabilities, one-sided root finding."""

from discreet._core.numeric._exactly import LogRatio, above, below, not_above, written
from discreet._core.numeric._factorial_coefficients import log_factorial_coefficient
from discreet._core.numeric._log_space import log_beta_binomial, log_binomial, log_rising
from discreet._core.numeric._one_sided import least_integer, least_real, log_ratio, up

__all__ = [
    "LogRatio",
    "above",
    "below",
    "least_integer",
    "least_real",
    "log_beta_binomial",
    "log_binomial",
    "log_factorial_coefficient",
    "log_ratio",
    "log_rising",
    "not_above",
    "up",
    "written",
]
