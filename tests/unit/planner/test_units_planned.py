"""Plans of units with several rows: what ``max_records`` costs, predicted for the units that use a slot."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from discreet import Budget, Unit, plan
from discreet.cli import main
from discreet.domain import Boolean, Category, Domain, Integer, Records, UnitTable
from discreet.errors import ParameterError
from discreet.planner.predicted import _with_absence

COLUMNS = {"ward": Category(categories=["a", "b", "c"]), "days": Integer(lower=1, upper=30)}
FLAT = Domain(columns=COLUMNS)
BUDGET = Budget(epsilon=1.0, delta=1e-6)
PERSON = Unit("person", max_records=4)


def by_unit(most: int) -> Domain:
    return Domain(tables={"records": UnitTable(unit="person", max_records=most, columns=COLUMNS)})


def test_a_unit_is_planned_as_a_table_of_units() -> None:
    short = plan(FLAT, BUDGET, records=5000, unit=PERSON, largest_sizes=False)
    assert short.to_dict() == plan(by_unit(4), BUDGET, records=5000, largest_sizes=False).to_dict()
    assert short.best.name == "marginals"
    assert plan(FLAT, BUDGET, records=5000, unit=PERSON, mechanisms=["marginals"]).best == short.best
    named = plan(FLAT, BUDGET, records=20_000, unit=PERSON, mechanisms=["perturbed-histogram"], largest_sizes=False)
    assert named.best.name == "perturbed-histogram"
    assert named.feasible[0].guarantee.relation.group == 4  # type: ignore[union-attr]
    with pytest.raises(ParameterError, match="Leave the unit out"):
        plan(by_unit(4), BUDGET, records=5000, unit=PERSON)


def test_errors_of_a_slot_are_those_of_the_units_that_use_it() -> None:
    """Where all codes of an unused slot were taken for values, a fifth of the labels was predicted to be wrong."""
    errors = plan(FLAT, Budget(epsilon=20.0, delta=1e-6), records=50_000, unit=PERSON).feasible[0].errors or {}
    assert errors["ward (2)"] < 3 * errors["ward (1)"] < 0.02
    assert errors["days (2)"] < 3 * errors["days (1)"] < 0.2


@pytest.mark.parametrize("flat", [True, False])
def test_numbers_of_rows_are_compared(flat: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                      monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    (tmp_path / "d.toml").write_text((FLAT if flat else by_unit(3)).to_toml())
    monkeypatch.setenv("COLUMNS", "120")

    def run(*options: str) -> str:
        asked = ["plan", "--domain", str(tmp_path / "d.toml"), "--records", "5000", "--epsilon", "1", "--delta", "1e-6"]
        asked += [part for most in (2, 5, 80) for part in ("--max-records", str(most))]
        monkeypatch.setattr(sys, "argv", ["discreet", *asked, *options])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        return capsys.readouterr().out

    lines = run().splitlines()
    assert [line.split()[:2] for line in lines[1:3]] == [["2", "5"], ["5", "11"]]
    assert lines[1].endswith("-")
    assert any(line.startswith("max_records 80: ") for line in lines)
    assert "discreet domain check tells the custodian" in " ".join(lines)
    plans = json.loads(run(*[part for share in "5220001" for part in ("--rows-per-unit", share)], "--json"))["plans"]
    assert [one["max_records"] for one in plans] == [2, 5, 80]
    assert [one["share_cut"] for one in plans] == pytest.approx([1 - (5 + 4 + 4 + 2) / (5 + 4 + 6 + 7), 2 / 22, 0])
    two, five = (plan(by_unit(most), BUDGET, records=5000).feasible[0] for most in (2, 5))
    assert [one["options"][0]["predicted_w1"] for one in plans[:2]] == [two.w1, five.w1]


def test_a_unit_without_rows_uses_no_slot_in_a_prediction() -> None:
    """Beside a table of units, the first cell of the number of rows is none; alone, it is one row."""
    rows = UnitTable(unit="h", max_records=2, columns={"age": Integer(lower=0, upper=4)})
    for units, used in (
        ("homes", [[False, False], [True, False], [True, True]]),
        (None, [[True, False], [True, True]]),
    ):
        own = {} if units is None else {"big": Boolean()}
        domain = Domain(units=units, columns=own, tables={"persons": rows})
        numbers = np.arange(len(used))
        records = Records(columns=(*[numbers * 0] * len(own), numbers, numbers * 0, numbers * 0))
        found, _ = _with_absence(domain, records, numbers * 1.0)
        assert [[codes[i] < 5 for codes in found.columns[-2:]] for i in numbers] == used
