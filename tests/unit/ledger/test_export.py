"""What an oversight body is given of a ledger: the registry's fields, every entry, and nothing that is not public."""

import csv
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from discreet import AddRemove, Ledger, Replacement, Unit, release
from discreet.cli.entry import run
from discreet.domain import Domain, Integer
from discreet.ledger import Request
from discreet.ledger.statement import Statement, registry, registry_csv
from discreet.mechanisms import PerturbedHistogram
from discreet.planner.study import plan_together
from discreet.privacy import Budget

DOMAIN = Domain(columns={"age": Integer(lower=0, upper=99, out_of_bounds="clip")})
AGES = pl.DataFrame({"age": [34, 35, 36, 37] * 500})

# Names and choices of the registry, schemas/deployments-schema.yaml of 15 July 2026.
PRODUCTS = {"Summary statistics", "Machine learning model", "Dataset", "Synthetic data", "Interactive API",
            "SQL queries"}  # fmt: skip
MODELS = {"Local", "Central", "Shuffle", "Federated", "Varies"}
FIELDS: dict[str, Any] = {
    "url_slug": str,
    "status": {"Converted", "Draft", "Pending", "Changes Required", "Approved"},
    "tier": {1, 2, 3},
    "deployment": {
        "basic": {
            **dict.fromkeys(("name", "intended_use", "description", "publication_date"), str),
            **dict.fromkeys(("data_product_region", "data_product_sector"), str),
            "data_curators": list,
            "data_product_type": PRODUCTS,
        },
        "dp_variant": {
            "variant_name": {"Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"},
            **dict.fromkeys(("data_domain", "unprotected_quantities"), str),
        },
        "privacy_loss": {
            **dict.fromkeys(("privacy_unit", "privacy_unit_details", "privacy_parameters_details"), str),
            "privacy_parameters": {"epsilon": float, "delta": float, "rho": float},
        },
        "deployment_model": {
            "model_name": MODELS,
            "release_type": {"One release", "Many releases"},
            "data_source_type": {"Static", "Dynamic"},
            "access_type": {"Interactive", "Non-interactive"},
            **dict.fromkeys(("model_name_details", "actors", "release_type_details"), str),
            **dict.fromkeys(("data_source_type_details", "access_type_details"), str),
        },
        "accounting": {"post_processing": str, "composition": str},
        "implementation": {"preprocessing_and_hyperparameter_tuning": str, "mechanisms": str, "justification": str},
        "administrative": {"sources": str, "notes": str, "registry_authors": list},
    },
}
REQUIRED = {"url_slug", "status", "tier", "deployment.administrative.registry_authors"}
REQUIRED |= {f"deployment.basic.{name}" for name in FIELDS["deployment"]["basic"] if name != "data_product_sector"}


def leaves(wanted: Any, found: Any, name: str = "") -> list[str]:
    """Return the names of what a record says, each checked to be a field of the registry with such a value."""
    if isinstance(wanted, dict):
        assert set(found) <= set(wanted), name
        return [leaf for key in found for leaf in leaves(wanted[key], found[key], f"{name}.{key}".strip("."))]
    assert found in wanted if isinstance(wanted, set) else isinstance(found, wanted), (name, found)
    return [name]


def field(name: str) -> Any:
    found: Any = FIELDS
    for part in name.split("."):
        found = found[part]
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with an entry in every state."""
    folder = tmp_path_factory.mktemp("secret-folder")
    where = folder / "visits.ledger"
    Ledger.create(where, dataset="visits", epsilon=4.0, delta=1e-5)
    with Ledger(where) as ledger:
        common: dict[str, Any] = {"size": 50, "ledger": ledger, "accept": {"poor-utility"}}
        out = folder / "=ages.csv"
        release(AGES, DOMAIN, Budget(epsilon=0.5, delta=1e-6), mechanism="perturbed-histogram", out=out, **common)
        release(AGES, DOMAIN, Budget(epsilon=0.5), mechanism="dirichlet-multinomial", **common)
        release(AGES, DOMAIN, Budget(epsilon=0.5), ledger=ledger, counts=True, accept={"poor-utility"})
        ledger.pay(Request(budget=Budget(epsilon=0.1), domain=DOMAIN, out=(folder / "void.csv",))).cancel()
        with pytest.raises(ZeroDivisionError), ledger.pay(Request(budget=Budget(epsilon=0.2), domain=DOMAIN)):
            raise ZeroDivisionError
        ledger.pay(Request(budget=Budget(epsilon=0.3)))
        ledger.pay(Request(budget=Budget(epsilon=0.3))).__enter__()
        ledger.note("a report for the custodian")
    return where


@pytest.fixture(scope="module")
def document(place: Path) -> dict[str, Any]:
    with Ledger(place) as ledger:
        return registry(Statement.from_ledger(ledger))


def test_every_entry_has_a_record_of_the_registry(document: dict[str, Any]) -> None:
    states = [one["entry"]["state"] for one in document["entries"]]
    assert states == ["paid", "paid", "paid", "void", "paid", "paid", "paid"]
    assert document["ledger"]["counts"] == {"paid": 6, "void": 1}
    for one in document["entries"]:
        told = leaves(FIELDS, one["record"])
        assert set(document["to_fill_in"]).isdisjoint(told)
        assert {*told, *document["to_fill_in"]} >= REQUIRED
    assert all(field(name) for name in document["to_fill_in"])


def test_a_record_says_what_was_asked_for(document: dict[str, Any]) -> None:
    first, pure, counts, void, *_ = (one["record"]["deployment"] for one in document["entries"])
    assert first["basic"]["name"] == "visits: =ages.csv"
    assert first["basic"]["description"] == "50 synthetic records from visits."
    assert first["dp_variant"]["variant_name"] == "Approximate DP"
    assert first["privacy_loss"]["privacy_parameters"] == {"epsilon": 0.5, "delta": 1e-6}
    assert first["implementation"]["mechanisms"] == "perturbed-histogram of the library discreet."
    assert pure["dp_variant"]["variant_name"] == "Pure DP"
    assert pure["privacy_loss"]["privacy_parameters"]["delta"] == 0
    assert counts["basic"]["data_product_type"] == "Summary statistics"
    assert void["implementation"]["mechanisms"] == "Not named in the request."
    assert document["entries"][0]["entry"]["files"] == ["=ages.csv", "=ages.certificate.json"]
    assert [one["entry"]["cost_at_most"]["loss"] for one in document["entries"][:4]] == ["0.5", "0.5", "0.5", "0"]


def test_units_and_other_relations(tmp_path: Path) -> None:
    unit = Unit("person", max_records=3)
    place, how = tmp_path / "l.ledger", {"currency": "zcdp", "relation": "add-remove", "unit": unit}
    with Ledger.create(place, dataset="Visits: \N{SNOWMAN}", epsilon=1.0, delta=1e-6, **how) as ledger:
        ledger.pay(Request(budget=Budget(epsilon=0.1), relation=AddRemove(records=9), unit=unit))
        statement = Statement.from_ledger(ledger)
    entry = replace(statement.entries[0], name="a1", continues="a0")
    made = registry(replace(statement, entries=[entry]))
    record = made["entries"][0]["record"]
    leaves(FIELDS, record)
    assert record["url_slug"] == "visits-a1"
    assert "goes on with entry a0, which paid for it" in record["deployment"]["administrative"]["notes"]
    assert record["deployment"]["privacy_loss"]["privacy_unit"] == "One person, with at most 3 records"
    assert "unprotected_quantities" not in record["deployment"]["dp_variant"]
    assert "zero-concentrated" in record["deployment"]["accounting"]["composition"]


def test_a_plan_pays_for_its_releases(tmp_path: Path) -> None:
    """What the parts of a plan promise is not added up: their records say which plan paid."""
    requests = [
        Request(part=name, domain=DOMAIN, relation=Replacement(records=2000), size=20, mechanism="perturbed-histogram")
        for name in ("first", "second")
    ]
    plan = plan_together(requests, Budget(epsilon=0.9, delta=1e-7))
    Ledger.create(tmp_path / "l.ledger", dataset="ages", epsilon=1.0, delta=1e-6)
    with Ledger(tmp_path / "l.ledger") as ledger:
        ledger.declare(plan)
        part = plan.parts[0]
        asked = {"mechanism": part.mechanism.name, "accept": {"poor-utility"}, **part.request.parameters}
        release(AGES, DOMAIN, part.budget, size=20, ledger=ledger.part("first"), **asked)
        made = registry(Statement.from_ledger(ledger))
    whole, first = made["entries"]
    for one in (whole, first):
        leaves(FIELDS, one["record"])
    assert whole["record"]["deployment"]["privacy_loss"]["privacy_parameters"] == {"epsilon": 0.9, "delta": 1e-7}
    assert whole["record"]["deployment"]["basic"]["name"] == "ages: plan of first, second"
    assert first["entry"]["cost_at_most"] == {"loss": "0", "delta": "0"}
    mechanism = first["record"]["deployment"]["implementation"]["mechanisms"]
    assert mechanism.startswith("perturbed-histogram of the library discreet. Parameters: {")  # the plan is public
    assert "the release first of a plan, which paid for it" in first["record"]["deployment"]["administrative"]["notes"]


def test_nothing_else_is_told(place: Path, document: dict[str, Any]) -> None:
    """No folder, no process, no machine: the words of the events that are not for the public do not come out."""
    with Ledger(place) as ledger:
        events = ledger.log()
    assert str(place.parent) in json.dumps(events)
    hidden = {event["hash"] for event in events} | {file["sha256"] for file in files_of(events)}
    hidden |= {str(event["facts"]["lease"]["boot"]) for event in events if "lease" in event["facts"]}
    for text in (json.dumps(document), registry_csv(document)):
        assert not [word for word in (*hidden, place.parent.name, '"lease"', "salt", "COMMITTED") if word in text]


def files_of(events: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return the files of a log; there are some."""
    files = [file for event in events for file in event["facts"].get("files", ())]
    assert files
    return files


def test_no_hash_of_an_event_can_be_guessed(place: Path) -> None:
    """A certificate holds a later hash: each event has 128 bits of its own, so that none can be tried out."""
    with Ledger(place) as ledger:
        events = ledger.log()[1:]
        assert ledger.verify() == []
    salts = [event["facts"]["salt"] for event in events]
    assert {len(salt) for salt in salts} == {32}
    assert len(set(salts)) == len(events)


def test_a_ledger_of_an_earlier_version_is_exported(tmp_path: Path) -> None:
    """Its reservations do not say what was asked for by name, and its events have no salt."""
    place = shutil.copy(Path(__file__).parents[2] / "golden/upgrading/made/ledger.sqlite", tmp_path)
    with Ledger(place) as ledger:
        assert ledger.verify() == []
        made = registry(Statement.from_ledger(ledger))
        assert sum(made["ledger"]["counts"].values()) == len(made["entries"]) > 0
    for one in made["entries"]:
        leaves(FIELDS, one["record"])


def test_sums_of_reservations_stay_within_the_limit(tmp_path: Path) -> None:
    """In zcdp a release may cost far less than its budget could: what is spent is at most the limit."""
    with Ledger.create(tmp_path / "l", dataset="d", epsilon=3.0, delta=1e-3, currency="zcdp") as ledger:
        for _ in range(3):
            budget = Budget(epsilon=0.5, delta=1e-5)
            how: dict[str, Any] = {"noise": "gaussian", "counts": True, "accept": {"poor-utility"}}
            release(AGES, DOMAIN, budget, mechanism="perturbed-histogram", ledger=ledger, **how)
        status, made = ledger.status(), registry(Statement.from_ledger(ledger))["ledger"]
    assert status.spent["epsilon"] < made["spent_at_most"]["epsilon"] <= 3.0
    assert status.left["epsilon"] > made["left_at_least"]["epsilon"]


def test_a_spreadsheet_runs_nothing(document: dict[str, Any]) -> None:
    rows = list(csv.DictReader(io.StringIO(registry_csv(document))))
    assert len(rows) == 7
    assert rows[0]["entry.files"] == "'=ages.csv; =ages.certificate.json"
    assert rows[0]["record.deployment.privacy_loss.privacy_parameters.epsilon"] == "0.5"
    assert rows[3]["entry.state"] == "void"
    assert {row["written_by"][:19] for row in rows} == {"written by discreet"}
    assert registry_csv({**document, "entries": []}) == "entry.name,entry.state\n"


def test_the_command_writes_both(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("registry.json", "registry.csv"):
        asked = ["ledger", "export", str(place), "--out", str(tmp_path / name)]
        assert run(asked) == 0
        assert run([*asked, "--json"]) == 0  # a file of its own is replaced
        told = capsys.readouterr().out
        assert "to fill in" in told
        assert json.loads(told[told.index("{") :])["entries"] == 7
    assert json.loads((tmp_path / "registry.json").read_text())["ledger"]["dataset"] == "visits"
    assert len(list(csv.reader((tmp_path / "registry.csv").read_text().splitlines()))) == 8
    (tmp_path / "mine.csv").write_text("a,b\n")
    for name, problem in (
        ("mine.csv", "not written by discreet"),
        ("registry.txt", ".json or .csv"),
        (place, "ending"),
    ):
        assert run(["ledger", "export", str(place), "--out", str(tmp_path / name)]) == 2
        assert problem in capsys.readouterr().err
    assert (tmp_path / "mine.csv").read_text() == "a,b\n"


def test_what_was_calibrated_and_not_released_is_not_shown(tmp_path: Path) -> None:
    """An entry that never became a release shows what was asked for, and not what was calibrated to the table."""
    with Ledger.create(tmp_path / "l", dataset="d", epsilon=4.0, delta=1e-5) as ledger:
        with pytest.raises(KeyboardInterrupt), ledger.pay(Request(budget=Budget(epsilon=0.5), domain=DOMAIN)) as paid:
            paid.assign(PerturbedHistogram(domain=DOMAIN, records=1234567, scale=9.0), n=1234567)
            raise KeyboardInterrupt
        assert "1234567" in json.dumps(ledger.log())
        for shown in (json.dumps, registry_csv):
            text = shown(registry(Statement.from_ledger(ledger)))
            assert "1234567" not in text
            assert "perturbed" not in text
