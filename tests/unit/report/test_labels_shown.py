"""Which labels a report shows: all that are declared, up to 40; of more, the most frequent, and what is left."""

import numpy as np
import polars as pl
import pytest

from discreet.domain import Category
from discreet.utility.columns import bins_of


def test_all_of_sixteen_categories_are_shown_however_rare() -> None:
    names = [f"carrier {i}" for i in range(16)]
    bins = bins_of(Category(categories=names), pl.Series([names[0]]), np.ones(1))
    assert list(bins.names) == names
    shares = bins.shares(pl.Series(names[:2]), np.array([1.0, 3.0]))  # one that no released record has is counted too
    assert shares.bins[:2].tolist() == [0.25, 0.75]
    assert shares.beyond == 0.0


def test_of_sixty_categories_the_forty_most_frequent_are_shown_and_the_others_summed() -> None:
    names = [f"carrier {i}" for i in range(60)]
    weights = np.arange(60, 0, -1.0)
    bins = bins_of(Category(categories=names), pl.Series(names), weights)
    assert list(bins.names) == names[:40]
    assert bins.shares(pl.Series(names), weights).beyond == pytest.approx(weights[40:].sum() / weights.sum())
