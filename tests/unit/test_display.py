"""What public objects show in a notebook: short HTML in which every text of theirs is escaped."""

from html.parser import HTMLParser
from typing import Any

import numpy as np
import polars as pl
import pytest

import discreet
import discreet.releases
from discreet import Budget
from discreet._core.random import seeded
from discreet.domain import Category, Domain, Integer
from discreet.inference import Posterior

EVIL = "<script>alert(1)</script>"
DOMAIN = Domain(columns={EVIL: Integer(lower=1, upper=6), "sex": Category(categories=["f", f"{EVIL}\u202e&"])})
ALLOWED = {"p", "b", "br", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "div", "style", "small"}


class Tags(HTMLParser):
    """The names of the elements of a document, and whether each is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, _attributes: Any) -> None:
        self.seen.add(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def shown() -> dict[str, Any]:
    data = DOMAIN.decode(DOMAIN.draw_base(400, seeded(1)), rng=seeded(1))
    release = discreet.release(
        data, DOMAIN, Budget(epsilon=4.0, delta=1e-3), size=20, mechanism="dirichlet-multinomial"
    )
    posterior = Posterior.of_arrays(DOMAIN, DOMAIN.unflat(np.arange(12)), np.full((4, 12), 1 / 12), notes=(EVIL,))
    return {
        "Domain": DOMAIN,
        "Certificate": release.certificate,
        "Guarantee": discreet.releases.guarantee_of(release.certificate),  # type: ignore[attr-defined]
        "Release": release,
        "Posterior": posterior,
        "Summary": posterior.summary(["mean"], column=EVIL, by="sex"),
        "Plan": discreet.plan(DOMAIN, Budget(epsilon=1.0), records=400, size=20, mechanisms=["smoothed-histogram"]),
    }


SHOWN = shown()


@pytest.mark.parametrize("kind", SHOWN)
def test_it_is_whole_short_and_escaped(kind: str) -> None:
    assert type(SHOWN[kind]).__name__ == kind
    text = SHOWN[kind]._repr_html_()
    tags = Tags(text)
    assert tags.open == []
    assert tags.seen <= ALLOWED, tags.seen
    assert "\u202e" not in text.partition("<div>")[0]  # Polars shows its own table as it likes
    assert len(text) < 8000


def test_a_wide_domain_shows_its_first_columns() -> None:
    wide = Domain(columns={f"c{i}": Integer(lower=0, upper=9) for i in range(200)})
    assert wide._repr_html_().count("<tr>") == 51
    assert "and 150 more columns" in wide._repr_html_()
    labels = Domain(columns={"x": Category(categories=[f"label {i}" for i in range(10_000)])})
    assert len(labels._repr_html_()) < 600


def test_a_release_shows_its_first_rows_and_what_it_is_not() -> None:
    text = SHOWN["Release"]._repr_html_()
    assert text.count("<table") == 1
    table, domain = pl.DataFrame({"x": [1, 2] * 50}), Domain(columns={"x": Integer(lower=1, upper=2)})
    asked = {"size": 100, "mechanism": "dirichlet-multinomial"}
    whole = discreet.release(table, domain, Budget(epsilon=4.0, delta=1e-3), **asked)
    assert "1.41 times as wide" in whole._repr_html_()
