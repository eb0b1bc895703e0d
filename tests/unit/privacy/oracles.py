"""Slow, independent formulas for the profiles: double sums over both cells, in floating point or in mpmath."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
from scipy.special import gammaln


def urn_double_sum(epsilon: float, *, size: int, a: float, b: float, rest: float) -> float:
    """T4, one order: sum of ``(p - e^eps q)_+`` over all ``(s, t)``, from log-gammas. Good to about 1e-9."""
    s = np.arange(size + 1.0)[:, None]
    t = np.arange(size + 1.0)[None, :]
    left = size - s - t
    inside = left >= 0
    left = np.where(inside, left, 0.0)
    total = a + b + 1 + rest

    def rising(x: float, k: np.ndarray) -> np.ndarray:
        if x == 0:
            return np.where(k == 0, 0.0, -np.inf)
        return np.asarray(gammaln(x + k) - gammaln(x))

    log_p = gammaln(size + 1.0) - gammaln(s + 1) - gammaln(t + 1) - gammaln(left + 1)
    log_p = log_p + rising(a + 1, s) + rising(b, t) + rising(rest, left) - rising(total, np.array(float(size)))
    loss = np.log1p(s / a) - np.log1p(t / b)
    excess = np.exp(log_p) * -np.expm1(np.minimum(0.0, epsilon - loss))
    return float(excess[inside].sum())


def mixture_double_sum(epsilon: float, *, size: int, base: float, moved: float) -> float:
    """T5: sum over ``U`` in a window and over the draws in the second cell, from log-gammas."""
    both = 2 * base + moved
    mean, spread = size * both, math.sqrt(size * both * (1 - both))
    low, high = max(0, math.floor(mean - 40 * spread - 40)), min(size, math.ceil(mean + 40 * spread + 400))
    if both == 1:
        low = high = size
    unit = math.log1p(moved / base)
    value = 0.0
    for u in range(low, high + 1):
        log_u = gammaln(size + 1.0) - gammaln(u + 1.0) - gammaln(size - u + 1.0) + u * math.log(both)
        if size > u:
            log_u += (size - u) * math.log1p(-both)
        top = math.ceil((u - epsilon / unit) / 2)
        if top <= 0 or log_u < -800:
            continue
        t = np.arange(min(top, u + 1), dtype=float)
        log_w = gammaln(u + 1.0) - gammaln(t + 1) - gammaln(u - t + 1)
        log_w = log_w + (u - t) * math.log((base + moved) / both) + t * math.log(base / both)
        excess = -np.expm1(np.minimum(0.0, epsilon - (u - 2 * t) * unit))
        value += float((np.exp(log_u + log_w) * excess).sum())
    return value


def urn_mpmath(epsilon: float, *, size: int, a: float, b: float, rest: float, most: int) -> mp.mpf:
    """T4, one order, for ``U`` of order ten at any size: 60 digits, ``U`` up to ``most``, recurrences only."""
    with mp.workdps(60):
        A, B, R, E = mp.mpf(a), mp.mpf(b), mp.mpf(rest), mp.e ** mp.mpf(repr(float(epsilon)))
        # P(U = 0) = (rest)_m / (a+b+1+rest)_m
        both = A + B + 1
        law = mp.e ** (mp.loggamma(R + size) - mp.loggamma(R) - mp.loggamma(both + R + size) + mp.loggamma(both + R))
        value = mp.mpf(0)
        for u in range(min(most, size) + 1):
            # T | U = u is BetaBin(u; b, a+1) under P and BetaBin(u; b+1, a) under Q.
            p = mp.rf(A + 1, u) / mp.rf(both, u)
            q = mp.rf(A, u) / mp.rf(both, u)
            inner = mp.mpf(0)
            for t in range(u + 1):
                if p <= E * q:
                    break
                inner += p - E * q
                if t < u:
                    ratio = mp.mpf(u - t) / (t + 1)
                    p *= ratio * (B + t) / (A + u - t)
                    q *= ratio * (B + 1 + t) / (A + u - t - 1)
            value += law * inner
            if u < size:
                law *= mp.mpf(size - u) / (u + 1) * (both + u) / (R + size - u - 1)
        return value


def mixture_mpmath(epsilon: float, *, size: int, base: float, moved: float, most: int) -> mp.mpf:
    """T5 for ``U`` up to ``most``, in 60 digits."""
    with mp.workdps(60):
        b, s, E = mp.mpf(base), mp.mpf(moved), mp.e ** mp.mpf(repr(float(epsilon)))
        both = 2 * b + s
        law = (1 - both) ** size
        value = mp.mpf(0)
        for u in range(min(most, size) + 1):
            p, q = ((b + s) / both) ** u, (b / both) ** u
            inner = mp.mpf(0)
            for t in range(u + 1):
                if p <= E * q:
                    break
                inner += p - E * q
                if t < u:
                    ratio = mp.mpf(u - t) / (t + 1)
                    p *= ratio * b / (b + s)
                    q *= ratio * (b + s) / b
            value += law * inner
            if u < size:
                law *= mp.mpf(size - u) / (u + 1) * both / (1 - both)
        return value
