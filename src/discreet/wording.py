"""Sentences about forecasts and remedies, from codes and numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from discreet._core.text import about, counted, percent, rounded_up, sentence
from discreet.mechanisms import Forecast

REMEDIES = {
    "cells": "declare fewer cells",
    "columns": "declare fewer columns",
    "points": "give fewer points",
    "size": "release fewer records",
    "fewer steps": "take fewer steps",
    "more steps": "take a step",
    "smaller population": "take a smaller population",
    "larger population": "take a larger population",
    "discount": "take a smaller discount",
    "mixing": "take a smaller mixing",
    "epsilon": "allow a larger epsilon",
    "delta": "allow a larger delta",
    "reference": "give a public table like this one as reference, if its labels are commoner than guessed "
    "(reference=...)",
}
LOST_TO = {
    "other sources": "come from anything but the table",
    "prior": "come from the prior",
    "uniform": "are uniform over the cells",
    "noise": "are put into other cells than the table's by noise",
    "uniform or noise": "are uniform, or put into other cells than the table's by noise",
    "noise in a column": "have another value than the table's in some one column, because of noise",
    "noise or rarity in a column": "have another value than the table's in some one column, because of noise",
    "noise or rarity": "stand for records whose labels are too rare to be kept, or for noise",
    "drawn counts": "are drawn into other cells than the nearest release of this size has",
    "model": (
        "how near the tables come to the data depends on how well the model fits, which no number tells beforehand"
    ),
    "displacement": "would have to be moved across the whole domain to displace records as noise does",
    "displacement to candidates": (
        "would have to be moved across the whole domain to displace records as noise and the distance of candidates do"
    ),
}
"""What the records that are not from the data have in common, after "of the released records"."""


def marked_share(forecast: Forecast) -> str:
    """Return the share that is lost in per cent: ``<=`` before a bound, ``~`` before a prediction."""
    return {"expectation": "", "bound": "<= ", "prediction": "~ "}[forecast.lost_is] + percent(forecast.lost)


def lost(forecast: Forecast, *, unknown: bool = False) -> str:
    """Return the share that is not from the data in a sentence that says what it is, or that only the data tell."""
    if math.isnan(forecast.lost):
        return LOST_TO[forecast.lost_to]
    share, common = f"{rounded_up(100.0 * forecast.lost)} %", LOST_TO.get(forecast.lost_to, forecast.lost_to)
    if unknown:
        return f"how many of the released records {common} depends on the data; in the worst case, all"
    if forecast.lost_is == "expectation":
        return f"{share} of the released records {common}, on average"
    if forecast.lost_is == "bound":
        return f"at most {share} of the released records {common}, on average"
    worst = "all" if forecast.worst >= 1.0 else f"at most {rounded_up(100.0 * forecast.worst)} %"
    words = f"about {share} of the released records {common}; in the worst case, {worst}"
    counts_labels = forecast.lost_to == "noise or rarity in a column"
    return f"{words}. Labels too rare to be kept are counted as such" if counts_labels else words


def pairs(forecast: Forecast, n: int) -> list[str]:
    """Return what is known beforehand of how columns are kept together in a release of ``n`` records."""
    if forecast.pair_scores is None:
        return ["All columns are worked on together, so that no pair of columns is left out."]
    every, some, noise = forecast.pair_scores
    if not some:
        return ["No pair of columns is measured, because the workload names none."] if every else []
    columns = counted(every, "pair of columns", "pairs of columns")
    if some < every:
        those = f"{some:,} of the {columns} may be measured, those of the workload."
    else:
        those = f"Any of the {columns} may be measured." if every > 1 else "The pair of columns may be measured."
    return [
        those,
        "For each of them it is counted how many records would be elsewhere if the two columns were independent. "
        f"This number gets noise with a standard deviation of {counted(round(noise), 'record')}, "
        f"{about(100.0 * noise / n, 2)} % of the table. A weaker dependence may be missed. The two columns "
        "are then released as if they were independent, but for what other columns tell of them.",
    ]


def poor_utility(forecast: Forecast, limit: float, *, wide: Sequence[str]) -> str:
    """Return why a release that is lost beyond a limit is refused, what would help, and names for wide tables."""
    refused = sentence(f"{lost(forecast)}. More than {percent(limit, 0)} is refused. ") + _either(forecast.remedies)
    return f"{refused}. For tables of many columns there is {' or '.join(wide)}" if wide else refused


def no_records(expected: float, size: int) -> str:
    """Return why a release of which not one record is expected is refused, and what would help."""
    return f"{about(expected, 2)} of {counted(size, 'draw')} would be released, on average. {_either(['delta'])}"


def _either(remedies: Iterable[str]) -> str:
    helps = [REMEDIES[remedy] for remedy in remedies]
    return sentence(", ".join([*helps, "or accept poor utility (accept={'poor-utility'})"]))
