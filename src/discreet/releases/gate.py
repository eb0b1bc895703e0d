"""The gate of utility: what share of a release is not from the data, and what would help."""

from __future__ import annotations

from discreet._core.errors import PoorUtility
from discreet._core.text import about, counted, percent, sentence
from discreet.domain.records import Commonness
from discreet.mechanisms import Mechanism, first_names, named
from discreet.mechanisms.mechanism import Remedy

POOR_UTILITY = 0.2
"""Above this share of records that carry nothing of the data, a release must be asked for explicitly."""

_WORDS: dict[Remedy, str] = {
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
}


def require_utility(mechanism: Mechanism, n: int, *, size: int | None, like: Commonness | None = None) -> None:
    """Refuse a release most of which would not be from the data, from public facts alone.

    Raises PoorUtility when more than 20 % of the records are expected to carry nothing of the data, or when not one
    record is expected at all; it says what would help this mechanism.

    ``mechanism``: calibrated.
    ``n``: number of records, public.
    ``size``: number of records to release; None for counts.
    ``like``: how common the records of tables like this one are; by default those of an invented one.
    """
    if mechanism.share_not_from_data(n, like) > POOR_UTILITY:
        raise PoorUtility(poor_utility(mechanism, n, like))
    if size is not None and (kept := size * mechanism.share_released(n)) < 1.0:
        raise PoorUtility(
            f"{about(kept, 2)} of {counted(size, 'draw')} would be released, on average. "
            f"{_either(['allow a larger delta'])}"
        )


def poor_utility(mechanism: Mechanism, n: int, like: Commonness | None = None) -> str:
    """Return why a release that is mostly not from the data is refused, and what would help this mechanism."""
    said = f"{mechanism.share_in_words(n, like)}. More than {percent(POOR_UTILITY, 0)} is refused. "
    helps = [_WORDS[remedy] for remedy in mechanism.remedies(n)]
    if mechanism.leaves_out and like is None:
        helps.append(
            "give a public table like this one as reference, if its labels are commoner than guessed (reference=...)"
        )
    text = sentence(said) + _either(helps)
    width = len(mechanism.domain.columns)
    wide = [name for name in first_names() if 1 < named(name).least_columns <= width]
    if wide and mechanism.least_columns == 1:
        text += f". For tables of many columns there is {' or '.join(wide)}"
    return text


def _either(helps: list[str]) -> str:
    return sentence(", ".join([*helps, "or accept poor utility (accept_poor_utility=True)"]))
