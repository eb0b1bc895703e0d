"""One picture of a release of a single column: its shape, and what its guarantee allows an attacker."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from discreet._core.errors import ParameterError
from discreet._core.text import counted, rounded_up
from discreet._core.writing import save_figure
from discreet.domain import Domain
from discreet.privacy import Guarantee
from discreet.privacy._trade_off import TradeOff
from discreet.releases import Certificate
from discreet.releases._verify import guarantee_of

_BARS = 40


def picture(released: Any, certificate: Certificate, out: str | os.PathLike[str], *, confidential: Any = None) -> Path:
    """Draw the released values of the first column beside the trade-off of the best attacker, as PNG, SVG or PDF.

    Parameters
    ----------
    released : polars.DataFrame
        The released records.
    certificate : Certificate
        Of the release.
    out : path
        File to write.
    confidential : polars.DataFrame, optional
        When given, its values are drawn too, and the picture is marked confidential.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    FileProblem
        When the file cannot be written, or exists and was not written by this package.
    ParameterError
        When matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ParameterError("the picture needs matplotlib. Install it: pip install 'discreet[report]'") from None
    domain = Domain.from_dict(certificate.facts["domain"])
    name = domain.names[0]
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    values, attack = figure.subplots(1, 2, width_ratios=(3, 2))
    _draw_values(values, released[name], None if confidential is None else confidential[name], name)
    _draw_attack(attack, guarantee_of(certificate))
    facts = certificate.facts
    title = (
        f"{counted(facts['size'], 'synthetic record')} from {facts['records']:,}: "
        f"epsilon {rounded_up(certificate.epsilon, 6)}, delta {rounded_up(certificate.delta)} "
        f"({facts['mechanism']['name']})"
    )
    if confidential is not None:
        figure.supxlabel("CONFIDENTIAL: drawn from the private data. Not for publication", color="#b00020", fontsize=10)
    figure.suptitle(title, fontsize=12)
    return save_figure(figure, out, confidential=confidential is not None, dpi=120)


def _draw_values(axes: Any, released: Any, confidential: Any, name: str) -> None:
    new = released.drop_nulls().to_numpy()
    old = None if confidential is None else confidential.drop_nulls().to_numpy()
    low, high = float(np.min(new)), float(np.quantile(new, 0.995))
    whole = bool(np.issubdtype(new.dtype, np.integer)) and high - low < 2 * _BARS
    edges = np.arange(low, high + 2) - 0.5 if whole else np.linspace(low, max(high, low + 1e-9), _BARS + 1)
    share, _ = np.histogram(new, edges)
    axes.stairs(share / len(new), edges, fill=True, color="#4c78a8", alpha=0.65, label="released")
    if old is not None:
        share, _ = np.histogram(old, edges)
        axes.stairs(share / len(old), edges, color="#222222", linewidth=1.4, label="confidential")
    axes.set(xlabel=f"{name} (top 0.5 % not shown)", ylabel="share of records")
    axes.legend(frameon=False)


def _draw_attack(axes: Any, guarantee: Guarantee) -> None:
    """Draw the greatest power of a test that tells two neighbours apart, against its false-alarm rate."""
    level = np.linspace(0.0, 1.0, 201)
    power = TradeOff.of(guarantee.profile).power(level)
    axes.fill_between(level, level, power, color="#4c78a8", alpha=0.25, label="what the guarantee allows")
    axes.plot(level, power, color="#4c78a8")
    axes.plot(level, level, color="#888888", linestyle="--", label="guessing")
    axes.set(
        xlabel="false-alarm rate",
        ylabel="detection rate of the best attacker",
        xlim=(0, 1),
        ylim=(0, 1),
        aspect="equal",
    )
    axes.legend(frameon=False, loc="lower right")
