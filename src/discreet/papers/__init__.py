"""The papers' own bounds and calculators, one module per paper, to compare with and to reproduce their tables.

None of them is used by a guarantee of this library: the exact profiles replace them. None reads data but where its
docstring says so.
"""

from discreet.papers import bnp24, pe25, py26, roo25

__all__ = ["bnp24", "pe25", "py26", "roo25"]
