"""T10, T18 and T19: losses in an interval."""

from fractions import Fraction
from typing import Any

import mpmath
from mpmath import exp, log, mp, mpf
from verify_certificate.answers import CANNOT, Promise, StoppedError
from verify_certificate.arithmetic import drawn, exact, number, whole
from verify_certificate.facts import Facts


def ranged(length: Any, times: int, epsilon: Any) -> Any:
    """Return the profile of ``times`` mechanisms whose losses lie in an interval of this length (T10)."""
    # The pair with T10's curve has losses of density c e^(l/2) on [-length, length]. A sum of several has c^times
    # e^(s/2) times the density of a sum of uniform numbers, and all integrals are elementary.
    if epsilon >= times * length:
        return mpf(0)
    if times > 200:
        raise StoppedError(CANNOT, "more than 200 tables are not composed")
    with mp.workprec(400 + 40 * times):
        c = exp(-length / 2)
        power = times - 1

        def integral(x: Any, sign: int) -> Any:  # of v^power e^(sign v / 2) from 0 to x
            total, term = mpf(0), 2 * x**power * sign
            for i in range(power + 1):
                total += term
                term *= -2 * sign * (power - i) / x
            return exp(sign * x / 2) * total - sign * (-2 * sign) ** power * 2 * mpmath.factorial(power)

        total = mpf(0)
        for j in range(times + 1):
            top = (times - 2 * j) * length
            if top > epsilon:
                x = top - epsilon
                value = exp(top / 2) * integral(x, -1) - exp(epsilon - top / 2) * integral(x, 1)
                total += (-1) ** j * mpmath.binomial(times, j) * value
        return +(total * (c / (2 * (1 - c**2))) ** times / mpmath.factorial(power))


def exponential(facts: Facts) -> Promise:
    """T10, with the cost of floating point."""
    n, m, g, k = facts.n, facts.size, facts.group, facts.finite_cells()
    budget, loss = number(drawn(facts.parameters["pure_epsilon"])), facts.parameters["loss"]
    furthest = {"l1": mpf(2), "l2": mpmath.sqrt(2), "hellinger": mpf(1)}[loss]
    one, group = (furthest * records / n for records in (1, g))
    if loss == "hellinger":
        one, group = (mpmath.sqrt(1 - mpmath.sqrt(1 - x)) if k == 2 else mpmath.sqrt(x) for x in (one, group))
    most, u = budget / (2 * one) * furthest, mpf(2) ** -53
    logs = most + (k + m) * log(2)
    off = (k + 32) * u * most + mpf(2) ** -36 + mpf(2) ** -50 * most
    if loss == "l1":
        off = k * (2 * (mpf(2) ** -36 + mpf(2) ** -50 * 2 * logs) + 32 * u * (logs + m))
    length = budget * group / one + 4 * off

    def delta(epsilon: Fraction) -> Any:
        e = number(epsilon)
        return mpmath.expm1(-(length - e) / 2) ** 2 / -mpmath.expm1(-length) if e < length else mpf(0)

    return Promise(delta, length)


def posterior(facts: Facts) -> Promise:
    """T18 and T19: tables from independent draws of a posterior."""
    tables = whole(facts.parameters["tables"], "tables", 1)
    if facts.mechanism == "pseudo-posterior":
        length, kinds = exact(facts.parameters["target_epsilon"]), ("asymptotic",)
    else:
        bound = drawn(facts.parameters["bound"])
        length = bound * facts.group * (1 if facts.relation == "add-remove" else 2)
        on_grid = facts.parameters["on_a_grid"] is True and 2**-24 <= bound <= 2**10 and facts.n <= 2**26
        kinds = ("unconditional", "empirical") if on_grid else ("empirical",)
    pure = tables * length
    return Promise(lambda e: ranged(number(length), tables, number(e)) if e < pure else mpf(0), pure, kinds=kinds)
