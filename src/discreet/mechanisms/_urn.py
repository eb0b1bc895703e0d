"""The exact urn: every draw a uniform integer, no floating-point probability anywhere.

Masses are integers, in units of ``1/unit`` records. The urn holds ``masses[v]`` units of each value ``v`` and
``strength`` units that open a new value; every draw adds ``unit`` units of the value drawn. With a discount, the first
``discount`` units of each value (its founder's) open a new value instead of repeating it.

Draws come in blocks. Within a block a draw falls either on the urn as it stood before the block, or on an earlier draw
of the block, whose value it repeats: that is a forest of pointers, resolved by pointer jumping. Between blocks only the
masses are kept, so memory is the block's and the values', whatever the number of draws; and the sequence is
exchangeable as it comes, so it needs no shuffle.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Indices, Integers
from discreet.domain import Counts, Domain, Records
from discreet.mechanisms._lookup import locate

BLOCK = 1 << 17


def draw_blocks(
    masses: Integers, *, unit: int, strength: int, discount: int, size: int, rng: np.random.Generator
) -> Iterator[Integers]:
    """Yield ``size`` draws from the urn, as value numbers, in blocks.

    ``masses``, shape (j,): units of each value at the start, positive where ``discount`` is.
    ``unit``: units that one record weighs.
    ``strength``: units that open a new value; may be negative, above ``-discount``, when there is a value to carry it.
    ``discount``: units of each value, old or new, that open a new value instead; below ``unit``.
    ``size``: number of draws.
    ``rng``: source of uniform integers.
    Yields: values ``0 .. j-1`` are those of ``masses``; ``j, j+1, ..`` are new ones, numbered in order of first
    appearance.

    Notes
    -----
    A draw is a uniform unit among all. With negative strength the first ``|strength|`` units of the first value's
    founder do not exist, so that its founder weighs ``unit + strength``.
    """
    masses = masses.astype(np.int64, copy=True)
    missing = max(0, -strength)
    opening = max(0, strength)
    places = np.arange(min(BLOCK, size), dtype=np.int64)
    all_steps = places * unit
    done = 0
    while done < size:
        length = min(BLOCK, size - done)
        edges = np.cumsum(masses)
        held = int(edges[-1]) if len(edges) else 0
        # Layout: [values' units | this block's earlier draws | opening units]; the last move up as draws are added.
        # One bound for all is quicker to draw below; what falls beyond a draw's own bound is drawn again below that.
        steps = all_steps[:length]
        below = held + opening + int(steps[-1])
        position = rng.integers(missing, below, size=length)
        late = np.flatnonzero(position >= held)  # few, so that each one's own bound is looked at for these
        beyond = late[position[late] >= held + opening + steps[late]]
        position[beyond] = rng.integers(missing, held + opening + steps[beyond])
        value = locate(edges, position, below=below)
        late = late[position[late] >= held]
        opening_late = position[late] >= held + steps[late]
        opens = np.zeros(length, dtype=bool)
        opens[late[opening_late]] = True
        if discount:
            old = np.flatnonzero(position < held)
            found = value[old]
            opens[old] = position[old] - (edges[found] - masses[found]) < discount
        child = late[~opening_late]
        if len(child):
            parent = (position[child] - held) // unit
            if discount:
                on_founder_unit = (position[child] - held) % unit < discount
                opens = _inherit_opening(opens, child[on_founder_unit], parent[on_founder_unit])
            root = places[:length]
            root[child] = parent
            root[opens] = np.flatnonzero(opens)
            root = _jump(root, child)
        opened = np.flatnonzero(opens)
        value[opened] = len(masses) + np.arange(len(opened))
        if len(child):
            value[child] = value[root[child]]
            root[child] = child  # the places again, for the next block
        masses = np.concatenate((masses, np.zeros(len(opened), dtype=np.int64)))
        masses += np.bincount(value, minlength=len(masses)) * unit
        yield value
        done += length


def records_of(blocks: Iterator[Integers], x: Counts, domain: Domain, *, rng: np.random.Generator) -> Iterator[Records]:
    """Turn blocks of value numbers into records: the held ones, then new ones from the base measure as they open."""
    known, held = x.records, x.distinct
    for values in blocks:
        opened = int(values.max()) + 1 - len(known)
        if opened > 0:
            known = Records.concatenate((known, domain.draw_base(opened, rng, first=len(known) - held + 1)))
        yield known.take(values)


def _inherit_opening(opens: npt.NDArray[np.bool_], child: Indices, parent: Integers) -> npt.NDArray[np.bool_]:
    """Mark the draws that fell on an earlier draw's founder units: each opens a value if that draw did."""
    link = np.arange(len(opens))
    link[child] = parent
    return opens[_jump(link, child)]


def _jump(link: Indices, child: Indices) -> Indices:
    """Follow every pointer to its end, doubling the reach each round; only ``child`` points elsewhere than to itself.

    These are few where the urn holds more than a block.
    """
    while True:
        further = link[link[child]]
        if np.array_equal(further, link[child]):
            return link
        link[child] = further
