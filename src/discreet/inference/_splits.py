"""The part of a tree that released records reach, as a list of splits in two.

Inside a node without released records nothing was seen of how its records lie, so it stands undivided; a node with one
child is that child. What remains is a binary tree: each of its nodes is a leaf or splits in two, and at most one child
of a split is without released records.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet._core.arrays import Floats, Indices, Integers
from discreet.mechanisms._tree import Tree


@dataclass(frozen=True, slots=True)
class Splits:
    r"""Splits from the root downwards, and the leaves in their order in the tree.

    The first child of a split is the one without released records where there is one, else the left one.

    ``leaf``, shape (k,): the leaf that each leaf of the whole tree lies in.
    ``drawn``, shape (leaves,): released records of each leaf.
    ``children``, shape (splits, 2, 2): for the first and the second child, the first of its leaves and the one after
    its last.
    ``share``, shape (splits,): the first child's share ``w`` of an error of their parent's count.
    ``variance``, shape (splits,): of the split's own error, in units of the noise's variance.
    ``depth``, shape (splits,): Increasing; the root's is 0.
    """

    leaf: Indices
    drawn: Integers
    children: Indices
    share: Floats
    variance: Floats
    depth: Indices

    @classmethod
    def of(cls, tree: Tree, variances: list[Floats], drawn: Integers) -> Splits:
        """Return the splits of a tree.

        ``tree``: the tree.
        ``variances``: of the upward estimates, as :func:`upward <discreet.mechanisms._tree.upward>` returns them.
        ``drawn``, shape (k,): released records of the tree's leaves.
        """
        held, sizes, families = _levels(tree, drawn)
        order, leaf = tree.in_order(), np.empty(len(drawn), dtype=np.intp)
        found: list[tuple[int, int, float, float, tuple[int, int, int]]] = []  # with (start, middle, end) of its leaves
        leaves: list[int] = []
        placed = 0

        def visit(level: int, node: int, depth: int) -> None:
            nonlocal placed
            while level < tree.depth and held[level][node] and len(families[level][node]) == 1:
                level, node = level + 1, families[level][node][0]
            if level == tree.depth or not held[level][node]:
                size = sizes[level][node]
                leaf[order[placed : placed + size]] = len(leaves)
                placed += size
                leaves.append(held[level][node])
                return
            start, (left, right) = len(leaves), families[level][node]
            visit(level + 1, left, depth + 1)
            middle = len(leaves)
            visit(level + 1, right, depth + 1)
            one, other = (float(variances[level + 1].ravel()[child]) for child in (left, right))
            found.append((depth, -(not held[level + 1][right]), one, other, (start, middle, len(leaves))))

        visit(0, 0, 0)
        found.sort(key=lambda split: split[0])
        return _arranged(leaf, np.array(leaves, dtype=np.int64), found)


def _levels(tree: Tree, drawn: Integers) -> tuple[list[list[int]], list[list[int]], list[list[list[int]]]]:
    """Return, level by level, the released records and the leaves of each node, and its children, left to right."""
    held: list[Floats] = [drawn.astype(np.float64).reshape(tree.shape(tree.depth))]
    sizes: list[Floats] = [np.ones(tree.shape(tree.depth))]
    families: list[list[list[int]]] = []
    for level in range(tree.depth, 0, -1):
        held.append(tree.up(level, held[-1]))
        sizes.append(tree.up(level, sizes[-1]))
        numbers = np.arange(tree.nodes(level - 1)).reshape(tree.shape(level - 1)).astype(np.float64)
        family: list[list[int]] = [[] for _ in range(tree.nodes(level - 1))]
        for child, parent in enumerate(tree.down(level, numbers).ravel().astype(int).tolist()):
            family[parent].append(child)
        families.append(family)

    def plain(values: list[Floats]) -> list[list[int]]:
        return [np.rint(level).astype(int).ravel().tolist() for level in values[::-1]]

    return plain(held), plain(sizes), families[::-1]


def _arranged(
    leaf: Indices, drawn: Integers, found: list[tuple[int, int, float, float, tuple[int, int, int]]]
) -> Splits:
    children = np.empty((len(found), 2, 2), dtype=np.intp)
    share, variance = np.empty(len(found)), np.empty(len(found))
    for number, (_, swapped, one, other, (start, middle, end)) in enumerate(found):
        first, second = ((middle, end), (start, middle)) if swapped else ((start, middle), (middle, end))
        children[number] = first, second
        share[number] = (other if swapped else one) / (one + other)
        variance[number] = one * other / (one + other)
    return Splits(leaf, drawn, children, share, variance, np.array([s[0] for s in found], dtype=np.intp))
