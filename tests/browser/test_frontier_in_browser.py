"""The page of a risk-utility frontier in headless Chromium: what it chooses, shows and loads."""

from pathlib import Path
from typing import Any

import pytest
from opened_pages import requested

from discreet.pseudo_posterior import frontier_page
from discreet.pseudo_posterior.risk_frontier import FrontierPoint
from discreet.utility.disclosure import AttackRate, Disclosure

pytestmark = pytest.mark.browser

HOSTILE = '</script><img src=x onerror=document.title="owned">@DATA@'
EPSILON = {"loose": 8.0, "middle": 4.0, HOSTILE: 2.0, "tight": 1.0}
ERROR = {"mean": (1.0, 2.0, 0.5, 4.0), HOSTILE: (5.0, 3.0, 9.0, 20.0)}


def point(index: int, label: str) -> FrontierPoint:
    """Return a point whose error in each statistic is the one listed."""
    medians = {name: 100.0 + errors[index] for name, errors in ERROR.items()}
    control = AttackRate(right=5, tries=50)
    tables = [AttackRate(right=10 * (index + first), tries=100) for first in (1, 2)]
    disclosure = tuple(
        Disclosure(attack=attack, of=HOSTILE, table=table, control=control, how="tried")
        for attack, table in zip(("guessed", HOSTILE), tables, strict=True)
    )
    sampled: dict[str, Any] = {
        "quantile": (3.0, 2.0, 4.0),
        "mean_weight": 0.5,
        "r_hat": 1.0,
        "effective": 400.0,
        "divergent": 0.0,
    }
    return FrontierPoint(
        label=label,
        lipschitz=EPSILON[label] / 2,
        epsilon=EPSILON[label],
        statistics={name: (m - 2.0, m - 1.0, m, m + 1.0, m + 2.0) for name, m in medians.items()},
        data=dict.fromkeys(ERROR, (98.0, 99.0, 100.0, 101.0, 102.0)),
        disclosure=disclosure,
        **sampled,
    )


@pytest.fixture
def page(chromium: Any, tmp_path: Path) -> Any:
    points = [point(index, label) for index, label in enumerate(EPSILON)]
    failed = FrontierPoint(label="failed", lipschitz=0.0, epsilon=0.0, mean_weight=0.0, r_hat=1.0, effective=0.0,
                           divergent=0.0, statistics={}, data={}, failed="no record counts")  # fmt: skip
    path = frontier_page([*points, failed], tmp_path / "page.html")
    for kind in ("performance", "browser"):
        chromium.get_log(kind)
    chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})  # another test may have left it
    chromium.get(path.as_uri())
    return chromium


def rows(page: Any) -> list[list[str]]:
    found = page.find_elements("css selector", "#rows tr")
    return [[cell.text for cell in row.find_elements("css selector", "td")] for row in found]


def best(page: Any) -> list[str]:
    return [row.find_element("css selector", "td").text for row in page.find_elements("css selector", "#rows tr.best")]


def at_most(page: Any, share: float) -> str:
    """Move the slider to a share of the largest epsilon and return what is said of it."""
    page.execute_script(
        "const s = document.getElementById('most'); s.value = arguments[0]; s.dispatchEvent(new Event('input'))",
        round(1000 * share),
    )
    return str(page.find_element("id", "said").text)


def test_it_opens_with_every_point_and_the_numbers_of_the_first_statistic(page: Any) -> None:
    assert page.find_element("css selector", ".notice").text == "CONFIDENTIAL: computed from the private data"
    assert rows(page) == [
        [label, f"{e:g}", "3", "2 to 4", f"{e / 2:g}", "400", "0.5", f"{100 + gap:g}", f"{98 + gap:g} to {102 + gap:g}",
             "100", f"{gap:g}"]
        for (label, e), gap in zip(EPSILON.items(), ERROR["mean"], strict=True)
    ]  # fmt: skip
    assert best(page) == [HOSTILE]  # the least error where every epsilon is allowed
    assert len(page.find_elements("css selector", "#chart circle")) == 4


def test_the_slider_and_the_statistic_choose_the_best_point_that_is_allowed(page: Any) -> None:
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.select import Select

    statistic = Select(page.find_element("id", "statistic"))
    assert [option.text for option in statistic.options] == list(ERROR)
    statistic.select_by_index(1)
    for share, chosen, inside in ((1.0, "middle", 4), (0.5, "middle", 3), (0.49, HOSTILE, 2), (0.125, "tight", 1)):
        assert at_most(page, share) == f"{8 * share:g}"
        assert best(page) == [chosen]
        out = page.find_elements("css selector", "#rows tr.out")
        assert len(out) == 4 - inside
        coloured = page.find_elements("css selector", '#chart circle[fill="#0b5394"]')
        assert len(coloured) == inside
        (large,) = page.find_elements("css selector", '#chart circle[r="7"]')
        title = large.find_element("css selector", "title").get_attribute("textContent")
        assert title.startswith(f"{chosen}: epsilon {EPSILON[chosen]:g}, error ")
    at_most(page, 0.0)
    assert best(page) == []
    page.find_element("id", "most").send_keys(Keys.END)
    assert best(page) == ["middle"]


def test_the_attacks_of_each_point_stand_beside_their_control(page: Any) -> None:
    from selenium.webdriver.support.select import Select

    attack = Select(page.find_element("id", "attack"))
    assert [option.text for option in attack.options] == ["guessed", HOSTILE]
    for first, name in enumerate(("guessed", HOSTILE), 1):
        attack.select_by_visible_text(name)
        cells = [[cell.text for cell in row.find_elements("css selector", "td")]
                 for row in page.find_elements("css selector", "#attacks tr")]  # fmt: skip
        assert [row[:3] for row in cells] == [
            [label, f"{epsilon:g}", f"{10 * (index + first)}.0%"]
            for index, (label, epsilon) in enumerate(EPSILON.items())
        ]
        assert {row[4] for row in cells} == {"10.0%"}
        assert [row[6] for row in cells] == [f"{10 * (index + first - 1):+d}.0%" for index in range(len(EPSILON))]


def test_dots_lie_where_their_numbers_say(page: Any) -> None:
    dots = page.find_elements("css selector", "#chart circle")
    places = [(float(dot.get_attribute("cx")), float(dot.get_attribute("cy"))) for dot in dots]
    for (x, y), epsilon, error in zip(places, EPSILON.values(), ERROR["mean"], strict=True):
        assert x == pytest.approx(60 + 540 * epsilon / 8.0)
        assert y == pytest.approx(310 - 280 * error / 4.0)


def test_nothing_is_loaded_and_no_name_is_run(page: Any) -> None:
    assert page.title == "Risk-utility frontier"
    assert page.find_elements("css selector", "img") == []
    assert [url.rpartition("/")[2] for url in requested(page)] == ["page.html"]
