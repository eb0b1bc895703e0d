"""Chains over counts and noise where records were drawn from noisy counts that nobody knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats, Indices, Integers
from discreet._core.errors import ParameterError
from discreet.inference._chains.model import Pairs, apportion
from discreet.inference._chains.noise import Noise
from discreet.inference._chains.noisy import Noisy, NoisyCounts

__all__ = ["LogRelease", "ReleasedRecords"]

_LEAPS = 3

LogRelease = Callable[[Integers, Noisy], Floats]
"""``f(counts, noisy)``: the exact log-likelihood of the released records, for rows of counts and of noisy counts."""


class ReleasedRecords(NoisyCounts):
    """Counts and noise are both latent; the records are known, and how they were drawn from noisy counts.

    ``alpha``, ``records``, ``levels``, ``noise``: as in :class:`NoisyCounts`.
    ``drawn``, shape (k,): number of released records in each cell, ``z``; or rows, one per chain, for several releases
    of one size.
    ``log_release``: the exact log-likelihood of the release.
    ``reads_counts``: whether it depends on the counts beside the noisy counts.
    ``least``: a noisy count from which on a cell's records can be drawn.
    ``estimate``: ``f(noisy)``: unbiased linear estimates of the counts, where there are several levels.

    Notes
    -----
    Records change cells while the noisy counts stay; records change cells and take the noisy
    counts along, so that the noise stays; noise is redrawn. The last two are proposed under a stand-in for the
    likelihood that is a product over cells, ``z_l log max(D_l, 1/2) - u D_l``, so that all cells move at once, and
    accepted in blocks by the ratio of the exact likelihood to the stand-in. Blocks are as large as acceptance allows;
    their number and ``u`` are tuned while nothing is kept. Where the release says little about the noise, leaps to
    fresh counts and fresh noise are accepted too: they are proposed from the posterior that the records would have,
    had an urn drawn them from the counts, ``DirMult(n; alpha + z)``.
    """

    def __init__(
        self,
        alpha: Floats,
        records: int,
        levels: Sequence[Indices],
        noise: Noise,
        drawn: Integers,
        log_release: LogRelease,
        *,
        reads_counts: bool = False,
        least: int = 1,
        estimate: Callable[[Noisy], Floats] | None = None,
    ) -> None:
        super().__init__(alpha, records, levels, noise, None)
        self._drawn, self._log_release = np.atleast_2d(drawn).astype(np.float64), log_release
        self._reads_counts, self._least, self._estimate = reads_counts, least, estimate
        self._room = np.clip(1.0 / (alpha + self._drawn.mean(axis=0)), 0.5, 50.0)
        self._size = float(self._drawn[0].sum())
        self._rate = self._size / records
        self._blocks = [1, 1, 1]
        self._leaps = _LEAPS
        together = (0, self._together, self.cells // 2)
        fresh, near = (1, self._redraw, sum(self._sizes)), (2, self._nudge, sum(self._sizes))
        self._moves = (together, fresh, together, near, together, fresh, together)

    def start(self, chains: int, rng: np.random.Generator) -> None:
        """Begin without noise, at counts in which every released cell is held, where there are records enough.

        Raises ParameterError when the release has no positive probability there.
        """
        drawn = np.broadcast_to(self._drawn, (chains, self.cells))
        held = (drawn > 0).astype(np.int64)
        held *= held.sum(axis=1, keepdims=True) <= self.records
        left = self.records - held.sum(axis=1, keepdims=True)
        spread = self._prior_counts(self.alpha + 0.25 * drawn, chains, rng).astype(np.float64)
        share = drawn / max(self._size, 1.0)
        sums = np.rint(self.records * np.cumsum(share, axis=1))  # near in every sum of neighbours
        for counts in (
            held + apportion(spread, left),
            held + apportion(np.maximum(self.records * share - held, 0.0), left),
            np.diff(sums, axis=1, prepend=0.0).astype(np.int64),
        ):
            noisy = [self._sums(t, counts) for t in range(len(self._levels))]
            lacking = np.maximum(self._least - noisy[-1][:, self._levels[-1]], 0) * (drawn > 0)
            noisy[-1] = noisy[-1] + self._sums(len(self._levels) - 1, lacking.astype(np.int64))
            log = self._log_release(counts, noisy)
            if np.isfinite(log).all():
                self.counts, self.noisy, self._log = counts, noisy, log
                return
        raise ParameterError(
            "no counts were found from which these records could have been drawn. Check that the certificate is "
            "theirs, or release counts instead"
        )

    def sweep(self, rng: np.random.Generator, *, tune: bool) -> None:
        """Move records with and without their noisy counts, and redraw noise."""
        if tune:
            expected = np.maximum(self.counts + self._leaf(), 0.0).sum(axis=1).mean()
            self._rate = self._size / max(float(expected), 1.0)
        for kind, act, most in self._moves:
            accepted = act(self._blocks[kind], rng)
            if tune and accepted < 0.4:
                self._blocks[kind] = min(2 * self._blocks[kind], max(1, most))
            elif tune and accepted > 0.8:
                self._blocks[kind] = max(1, self._blocks[kind] // 2)
        leapt = [self._leap(rng) for _ in range(self._leaps)]
        if tune and max(leapt, default=1.0) < 0.02:
            self._leaps = 0
        self._centred(rng)

    def _leap(self, rng: np.random.Generator) -> float:
        """Propose everything afresh, as if the records had been drawn from the counts by an urn."""
        counts = self._prior_counts(self.alpha + self._drawn, len(self.counts), rng)
        noisy = [self._sums(t, counts) + self._noise.draw(y.shape, rng) for t, y in enumerate(self.noisy)]
        return self._accept(counts, noisy, self._log_urn(counts) - self._log_urn(self.counts), rng)

    def _log_urn(self, counts: Integers) -> Floats:
        from scipy.special import gammaln

        held = self.alpha + counts
        return np.asarray((gammaln(held + self._drawn) - gammaln(held)).sum(axis=1))

    def _keep(self, them: Pairs, moved: Integers, rng: np.random.Generator) -> None:
        if not self._reads_counts:
            super()._keep(them, moved, rng)
            return
        counts = self.counts.copy()
        counts[them.chain, them.a], counts[them.chain, them.b] = moved, them.total - moved
        self._accept(counts, self.noisy, np.zeros(len(counts)), rng)

    def _accept(
        self, counts: Integers, noisy: list[npt.NDArray[Any]], stand_in: Floats, rng: np.random.Generator
    ) -> float:
        """Accept a proposal in each chain, given the stand-in's gain; return the share accepted."""
        log = self._log_release(counts, noisy)
        with np.errstate(invalid="ignore"):
            yes = np.log(rng.random(len(log))) < log - self._log - stand_in
        self._log = np.where(yes, log, self._log)
        self.counts = np.where(yes[:, None], counts, self.counts)
        self.noisy = [np.where(yes[:, None], new, old) for new, old in zip(noisy, self.noisy, strict=True)]
        return float(yes.mean())

    def _leaf(self) -> Floats:
        """Return by how much the noise moves each cell's estimate."""
        if self._estimate is not None:
            return self._estimate(self.noisy) - self.counts
        return np.asarray(self.noisy[0][:, self._levels[0]] - self.counts, dtype=np.float64)

    def _stand_in(self, chain: Indices, cells: Indices, estimate: npt.NDArray[Any]) -> Floats:
        drawn = self._drawn[chain % len(self._drawn), cells]
        return np.asarray(drawn * np.log(np.maximum(estimate, 0.5)) - self._rate * np.maximum(estimate, 0.0))

    def _together(self, blocks: int, rng: np.random.Generator) -> float:
        """Move records within pairs of cells, the noise staying as it is."""
        leaf = self._leaf()
        first, second = self._matching(rng)
        accepted = []
        for part in np.array_split(np.arange(len(first)), min(blocks, max(1, len(first)))):

            def log_term(them: Pairs, which: Indices, c: Integers) -> Floats:
                chain, a, b = them.chain[which], them.a[which], them.b[which]
                here = self._stand_in(chain, a, c + leaf[chain, a])
                return here + self._stand_in(chain, b, them.total[which] - c + leaf[chain, b])

            them, moved = self._transfer((first[part], second[part]), log_term, rng)
            everything = np.arange(len(moved))
            gain = log_term(them, everything, moved) - log_term(them, everything, them.first)
            counts = self.counts.copy()
            counts[them.chain, them.a], counts[them.chain, them.b] = moved, them.total - moved
            change = counts - self.counts
            noisy = [y + self._sums(t, change) for t, y in enumerate(self.noisy)]
            accepted.append(self._accept(counts, noisy, gain.reshape(len(counts), -1).sum(axis=1), rng))
        return float(np.mean(accepted)) if accepted else 1.0

    def _redraw(self, blocks: int, rng: np.random.Generator) -> float:
        """Draw new noise for the sets of a random level, or of the only one."""

        def fresh(old: Integers) -> tuple[Integers, Floats]:
            return self._noise.draw(old.shape, rng), np.zeros(old.shape)

        return self._change_noise(blocks, fresh, rng)

    def _nudge(self, blocks: int, rng: np.random.Generator) -> float:
        """Change the noise by a little, on a random scale."""
        step = max(self._noise.scale * 2.0 ** -rng.integers(1, 6), 0.6)

        def near(old: Integers) -> tuple[Integers, Floats]:
            new = old + np.rint(rng.normal(0.0, step, size=old.shape)).astype(np.int64)
            before, after = old.astype(np.float64), new.astype(np.float64)
            return new, self._noise.log_pmf(after) - self._noise.log_pmf(before)

        return self._change_noise(blocks, near, rng)

    def _change_noise(
        self, blocks: int, propose: Callable[[Integers], tuple[Integers, Floats]], rng: np.random.Generator
    ) -> float:
        level = int(rng.integers(len(self._levels)))
        sums = self._sums(level, self.counts)
        accepted = []
        for part in np.array_split(rng.permutation(self._sizes[level]), min(blocks, self._sizes[level])):
            old: Integers = self.noisy[level][:, part] - sums[:, part]
            new, gain = propose(old)
            stand_in = np.zeros(len(old))
            log = np.log(rng.random(old.shape))
            if len(self._levels) == 1:  # the set is a cell: each is accepted by itself under the stand-in
                cell, chain = self._cell_of[part], np.arange(len(old))[:, None]
                drawn = self._stand_in(chain, cell, sums[:, part] + new)
                drawn -= self._stand_in(chain, cell, sums[:, part] + old)
                yes = log < gain + drawn
                new, stand_in = np.where(yes, new, old), np.where(yes, drawn, 0.0).sum(axis=1)
            else:
                new = np.where(log < gain, new, old)
            noisy = list(self.noisy)
            noisy[level] = noisy[level].copy()
            noisy[level][:, part] = sums[:, part] + new
            accepted.append(self._accept(self.counts, noisy, stand_in, rng))
        return float(np.mean(accepted))
