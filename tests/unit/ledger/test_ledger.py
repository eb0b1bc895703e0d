"""A ledger: what it allows, refuses, remembers, and finds wrong."""

import json
import sqlite3
import subprocess
import time
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from ledgers import interrupt

from discreet import AddRemove, Checkpoint, Ledger, Output, Replacement, Unit, Watch, release
from discreet.cli.entry import run
from discreet.domain import Domain, Integer
from discreet.errors import DataError, DomainError, FileProblem, Infeasible, ParameterError, Refused
from discreet.ledger import Request
from discreet.ledger.events import holder, lease
from discreet.ledger.ledger import PlannedRelease
from discreet.ledger.store import MIGRATIONS
from discreet.privacy import Budget

DOMAIN = Domain(columns={"age": Integer(lower=0, upper=9, out_of_bounds="clip")})
AGES = pl.DataFrame({"age": [1, 2, 2, 7] * 250})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    Ledger.create(tmp_path / "ages.ledger", dataset="ages", epsilon=1.0, delta=1e-6)
    return tmp_path / "ages.ledger"


def released(ledger: Ledger | PlannedRelease | Path | None, data: object = AGES, **asked: object):
    given = {"budget": Budget(epsilon=0.4, delta=1e-8), "size": 20, "mechanism": "perturbed-histogram", **asked}
    return release(data, given.pop("domain", DOMAIN), ledger=ledger, **given)  # type: ignore[arg-type]


def states(ledger: Ledger) -> dict[str, int]:
    return {state: number for state, number in ledger.status().counts.items() if number}


# -- what is allowed --------------------------------------------------------------------------------------------------


def test_releases_are_paid_for_until_nothing_is_left(place, tmp_path) -> None:
    with Ledger(place) as ledger:
        first = released(ledger)
        released(ledger, out=tmp_path / "second.parquet")
        assert ledger.status().spent["epsilon"] == 0.8
        with pytest.raises(Refused, match=r"costs epsilon 0\.4 .* epsilon 0\.2 and delta"):
            released(ledger, out=tmp_path / "third.parquet")
        assert not (tmp_path / "third.parquet").exists()
        assert states(ledger) == {"COMMITTED": 2}
        assert ledger.verify([tmp_path / "second.certificate.json"]) == []
    assert first.certificate.to_dict()["ledger"]["dataset"] == "ages"


def test_the_edge_is_exact(tmp_path) -> None:
    """Ten releases at a tenth of the budget fit, though ten times the binary fraction next to 0.1 does not."""
    ledger = Ledger.create(tmp_path / "l", dataset="d", epsilon=1.0)
    for _ in range(10):
        with ledger.pay(Request(budget=Budget(epsilon=0.1))) as paid:
            paid.commit({})
            paid.deliver()
    assert ledger.status().left["epsilon"] == 0.0
    with pytest.raises(Refused):
        ledger.pay(Request(budget=Budget(epsilon=1e-12)))


@pytest.mark.parametrize("named", ["domain file", "environment", "path"])
def test_a_ledger_is_found_where_it_is_named(place, named, monkeypatch) -> None:
    domain, given = DOMAIN, None
    if named == "domain file":
        domain = place.with_name("d.toml")
        domain.write_text(DOMAIN.to_toml() + '\n[ledger]\nfile = "ages.ledger"\ndataset = "ages"\n')
        assert Domain.read(domain) == DOMAIN
    elif named == "environment":
        monkeypatch.setenv("DISCREET_LEDGER", str(place))
    else:
        given = place
    release(AGES, domain, Budget(epsilon=0.1, delta=1e-9), size=5, mechanism="perturbed-histogram", ledger=given)
    assert states(Ledger(place)) == {"COMMITTED": 1}


@pytest.mark.parametrize(
    "section", ["[ledger]", "[ledger]\nfile = 1", '[ledger]\nfile = "a"\nother = "b"', "ledger = 1"]
)
def test_a_wrong_declaration_of_a_ledger_is_refused(tmp_path, section) -> None:
    path, texts = tmp_path / "d.toml", [DOMAIN.to_toml(), section]
    path.write_text("\n".join(texts if section.startswith("[") else reversed(texts)))
    with pytest.raises(ParameterError, match=r"\[ledger\] in the domain"):
        release(AGES, path, Budget(epsilon=0.1), size=5)


# -- what is never added up -------------------------------------------------------------------------------------------


def test_what_a_ledger_does_not_add_up_is_refused_before_anything_is_opened(place) -> None:
    with Ledger(place) as ledger:
        for wrong, said in (
            ({"seed": 1}, "seeded"),
            ({"relation": AddRemove(records=1000), "mechanism": "marginals"}, "relation"),
        ):
            with pytest.raises(Refused, match=said):
                released(ledger, data=pl.DataFrame({"age": [77]}), **wrong)
        with pytest.raises(Refused, match="privacy unit"):
            ledger.pay(Request(budget=Budget(epsilon=0.1), unit=Unit("who", max_records=2)))
        assert ledger.log()[-1]["state"] == "CREATED"


def test_a_weaker_kind_needs_a_ledger_that_was_made_for_it(place, tmp_path) -> None:
    with pytest.raises(Refused, match="Make a ledger for that kind"):
        Ledger(place).pay(Request(budget=Budget(epsilon=0.1), kind="asymptotic"))
    made = Ledger.create(tmp_path / "weak", dataset="d", epsilon=1, kinds=["asymptotic"])
    with made.pay(Request(budget=Budget(epsilon=0.1), kind="asymptotic")):
        pass
    with pytest.raises(Refused, match="asymptotic, and this one is unconditional"):
        made.pay(Request(budget=Budget(epsilon=0.1), kind="unconditional"))


@pytest.mark.parametrize(
    "wrong",
    [{"dataset": ""}, {"dataset": "a\nb"}, {"currency": "gdp"}, {"kinds": ["instance"]}, {"kinds": []}, {"epsilon": -1},
     {"relation": "other"}, {"unit": "who"}, {"currency": "zcdp", "delta": 0.0}],
)  # fmt: skip
def test_a_ledger_that_promises_nothing_sensible_is_refused(tmp_path, wrong) -> None:
    with pytest.raises(ValueError, match="must|epsilon|zcdp|delta"):
        Ledger.create(tmp_path / "l", **{"dataset": "d", "epsilon": 1.0, "delta": 1e-6, **wrong})


# -- what is spent ----------------------------------------------------------------------------------------------------


def test_before_the_table_is_opened_nothing_is_spent_and_after_it_everything(place) -> None:
    with Ledger(place) as ledger:
        with pytest.raises(Infeasible):
            released(ledger, relation=Replacement(records=1000), mechanism="urn-histogram", size=10**6)
        assert states(ledger) == {}
        with pytest.raises(ValueError, match="unknown argument"):
            release(AGES, DOMAIN, Budget(epsilon=0.1), size=5, scale=3, ledger=ledger)
        assert states(ledger) == {}
        bad, strict = pl.DataFrame({"age": [1, 77]}), Domain(columns={"age": Integer(lower=0, upper=9)})
        with pytest.raises(DomainError, match="would forfeit"):
            released(ledger, data=bad, domain=strict)
        assert states(ledger) == {}
        with pytest.raises(DataError):
            released(ledger, data=bad, domain=strict, accept={"data-dependent-refusal"})
        assert states(ledger) == {"FORFEITED": 1}
        assert ledger.status().spent["epsilon"] == 0.4
        with pytest.raises(ParameterError, match=r"says 999, and the table has 1,000"):
            released(ledger, relation=Replacement(records=999))
        assert states(ledger) == {"FORFEITED": 2}


def test_a_declared_number_of_records_gives_the_exact_cost(tmp_path) -> None:
    ledger = Ledger.create(tmp_path / "l", dataset="d", epsilon=1.0, delta=1e-6, currency="zcdp")
    budget = Budget(epsilon=0.6, delta=1e-7)
    with pytest.raises(Refused, match="rho"):  # a bare pair could be worth anything up to epsilon tanh(epsilon / 2)
        released(ledger, budget=budget, noise="gaussian")
    for _ in range(2):
        released(ledger, budget=budget, noise="gaussian", relation=Replacement(records=1000))
    found = ledger.status()
    assert states(ledger) == {"COMMITTED": 2}
    assert found.spent["epsilon"] < 1.0
    assert found.spent["delta"] == 1e-6


def test_instance_reports_are_noted_and_cost_nothing(place) -> None:
    with Ledger(place) as ledger:
        ledger.note("instance-level report", {"mechanism": "urn-histogram"})
        assert ledger.log()[-1]["state"] == "NOTED"
        assert ledger.status().spent["epsilon"] == 0.0
        assert ledger.verify() == []


# -- steps ------------------------------------------------------------------------------------------------------------


def evolve(ledger: Ledger | None, path: Path, *, redraw: bool = False, watch: Watch | None = None) -> None:
    asked = {"budget": Budget(epsilon=0.5, delta=1e-7), "size": 10, "mechanism": "private-evolution", "steps": 3}
    released(ledger, watch=watch or Watch(), out=Output(checkpoint=Checkpoint(path, redraw=redraw)), **asked)


def test_a_run_that_goes_on_from_its_checkpoint_is_paid_for_once(place, tmp_path) -> None:
    path = tmp_path / "steps"
    with Ledger(place) as ledger:
        with pytest.raises(KeyboardInterrupt):
            evolve(ledger, path, watch=Watch(stepped=interrupt))
        assert states(ledger) == {"FORFEITED": 1}
        old = path.read_bytes()
        evolve(ledger, path)
        evolve(ledger, path, redraw=True)
        assert ledger.status().spent["epsilon"] == 0.5
        path.write_bytes(old)  # an older copy: its later steps would be drawn a second time
        evolve(ledger, path)
        assert ledger.status().spent["epsilon"] == 1.0
        path.write_bytes(old)
        with pytest.raises(Refused):
            evolve(ledger, path)
        assert ledger.verify() == []


# -- recovery ---------------------------------------------------------------------------------------------------------


def left_behind(ledger: Ledger, state: str) -> str:
    """Leave an entry as a killed process does: whose lease is that of a process that is no more."""
    paid = ledger.pay(Request(budget=Budget(epsilon=0.1)))
    if state != "RESERVED":
        paid.__enter__()
    if state == "COMMITTED":
        paid.commit({})
    return str(ledger.log()[-1]["entry"])


@pytest.mark.parametrize(("state", "after"), [("RESERVED", "VOID"), ("OPENED", "FORFEITED"), ("COMMITTED", "LOST")])
def test_recovery_settles_what_the_dead_left_and_nothing_else(place, monkeypatch, state, after) -> None:
    with Ledger(place) as ledger:
        entry = left_behind(ledger, state)
        (alive,) = ledger.recover()
        assert alive == {"entry": entry, "was": state, "now": state, "why": "a process works on it"}
        monkeypatch.setattr("discreet.ledger.events.holder", lambda _: "elsewhere")
        assert "another machine" in ledger.recover()[0]["why"]
        assert ledger.recover([entry])[0]["now"] == after
        assert ledger.recover() == []
        assert ledger.status().spent["epsilon"] == (0.0 if after == "VOID" else 0.1)
        assert ledger.verify() == []


def test_who_was_recovered_meanwhile_cannot_go_on(place, monkeypatch) -> None:
    monkeypatch.setattr("discreet.ledger.events.holder", lambda _: "dead")
    with Ledger(place) as ledger:
        paid = ledger.pay(Request(budget=Budget(epsilon=0.1)))
        ledger.recover()
        with pytest.raises(ParameterError, match="VOID and cannot become OPENED"):
            paid.__enter__()


def test_what_went_wrong_is_told_though_the_ledger_is_gone_too(place) -> None:
    def gone() -> None:
        place.rename(place.with_name("elsewhere"))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Ledger(place).pay(Request(budget=Budget(epsilon=0.1))):
        gone()
    place.with_name("elsewhere").rename(place)
    assert states(Ledger(place)) == {"OPENED": 1}
    with pytest.raises(FileProblem), Ledger(place).pay(Request(budget=Budget(epsilon=0.1))):
        place.rename(place.with_name("elsewhere"))


def test_a_lease_is_of_one_process_of_one_start_of_one_machine() -> None:
    mine = lease()
    assert holder(mine) == "alive"
    assert holder({**mine, "started": "1"}) == "dead"
    assert holder({**mine, "boot": "another"}) == "dead"
    assert holder({**mine, "machine": "another"}) == "elsewhere"
    child = subprocess.Popen(["true"])
    while Path(f"/proc/{child.pid}/stat").read_text(encoding="ascii").split()[2] != "Z":
        time.sleep(0.01)
    assert holder({**mine, "process": child.pid, "started": "0"}) == "dead"  # ended, and not waited for
    child.wait()
    assert holder({**mine, "process": child.pid}) == "dead"


# -- what is found wrong ----------------------------------------------------------------------------------------------


def altered(place: Path, *statements: str) -> None:
    """Edit a ledger as one does who owns its file."""
    connection = sqlite3.connect(place, isolation_level=None)
    for name in ("discreet_no_update", "discreet_no_delete"):
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        connection.execute(statement)
    connection.close()


def test_rows_are_only_appended(place) -> None:
    connection = sqlite3.connect(place)
    for statement in ("UPDATE discreet_event SET hash = ''", "DELETE FROM discreet_event"):
        with pytest.raises(sqlite3.IntegrityError, match="only appended to"):
            connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE discreet_event SET body = replace(body, '0.4', '0.1') WHERE number = 1", "event 1 was changed"),
        ("UPDATE discreet_event SET state = 'VOID' WHERE number = 3", "event 3 was changed"),
        ("UPDATE discreet_event SET hash = 'a' WHERE number = 2", "event 2 was changed"),
        ("UPDATE discreet_event SET body = '{}' WHERE number = 2", "not an event"),
        ("DELETE FROM discreet_event WHERE number = 2", "event 2 is missing"),
        ("DELETE FROM discreet_event WHERE number = 0", "first event is missing"),
    ],
)
def test_an_edited_ledger_is_found_wrong(place, statement, said) -> None:
    with Ledger(place) as ledger:
        released(ledger)
        altered(place, statement)
        (problem,) = ledger.verify()
    assert said in problem


def rewritten(place: Path, change) -> None:
    """Edit events and compute all hashes anew, as one does who knows the format."""
    from discreet.ledger.events import BEGINNING, LedgerEvent

    connection = sqlite3.connect(place, isolation_level=None)
    rows = connection.execute("SELECT body FROM discreet_event ORDER BY number").fetchall()
    connection.close()
    bodies, previous = [], BEGINNING
    for facts in change([json.loads(body) for (body,) in rows]):
        event = LedgerEvent.parse(json.dumps({**facts, "previous": previous}))
        bodies.append(event)
        previous = event.hash
    altered(place, "DELETE FROM discreet_event")
    connection = sqlite3.connect(place, isolation_level=None)
    for event in bodies:
        row = (event.dataset, event.number, event.entry, event.state, event.body, event.hash)
        connection.execute("INSERT INTO discreet_event VALUES (?, ?, ?, ?, ?, ?)", row)
    connection.close()


def test_who_computes_the_hashes_anew_meets_the_certificates(place, tmp_path) -> None:
    with Ledger(place) as ledger:
        released(ledger, out=tmp_path / "r.parquet")
        rewritten(place, lambda events: [{**facts, "at": "2020-01-01T00:00:00+00:00"} for facts in events])
        assert ledger.verify() == []
        (problem,) = ledger.verify([tmp_path / "r.certificate.json"])
    assert "cut or rolled back" in problem


def promising(epsilon: float, limit: str):
    """Return what changes the budget and the limit that the first event states."""

    def change(events):
        events[0]["facts"]["budget"]["epsilon"] = epsilon
        events[0]["facts"]["limit"]["loss"] = limit
        return events

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda events: [{**e, "spent": {"loss": "0", "delta": "0"}} for e in events], "sums of event"),
        (lambda events: [{**e, "counts": events[0]["counts"]} for e in events], "sums of event"),
        (lambda events: [e if e["state"] != "OPENED" else {**e, "state": "VOID"} for e in events], "cannot have"),
        (lambda events: [e if e["state"] != "OPENED" else {**e, "state": "PAID"} for e in events], "no ledger says"),
        (promising(0.3, "0.3"), "more was spent than the budget"),
        (promising(1.0, "1000"), "limit is above"),
    ],
)
def test_sums_and_states_are_computed_anew(place, change, said) -> None:
    with Ledger(place) as ledger:
        released(ledger)
    rewritten(place, change)
    assert any(said in problem for problem in Ledger(place).verify())


def test_a_rollback_shows_where_certificates_are_given(place, tmp_path) -> None:
    copy = tmp_path / "copy.ledger"
    with Ledger(place) as ledger:
        released(ledger, out=tmp_path / "a.parquet")
        copy.write_bytes(place.read_bytes())
        released(ledger, out=tmp_path / "b.parquet")
    place.write_bytes(copy.read_bytes())
    with Ledger(place) as ledger:
        assert ledger.verify() == []
        assert ledger.verify([tmp_path / "a.certificate.json"]) == []
        (problem,) = ledger.verify([tmp_path / "b.certificate.json"])
        assert "rolled back" in problem
        released(ledger, out=tmp_path / "c.parquet")  # the copy goes on, and both histories cannot be
        assert ledger.verify([tmp_path / "c.certificate.json"]) == []
        assert len(ledger.verify([tmp_path / "b.certificate.json"])) == 1


def test_certificates_that_do_not_belong_are_named(place, tmp_path) -> None:
    released(None, out=tmp_path / "unpaid.parquet")
    other = Ledger.create(tmp_path / "other", dataset="others", epsilon=1)
    released(other, out=tmp_path / "others.parquet", budget=Budget(epsilon=0.4))
    with Ledger(place) as ledger:
        released(ledger, out=tmp_path / "mine.parquet")
        mine = tmp_path / "mine.certificate.json"
        mine.write_text(mine.read_text().replace('"discreet"', '"Discreet"', 1))
        for name, said in (("unpaid", "names no ledger"), ("others", "another data set"), ("mine", "was committed")):
            (problem,) = ledger.verify([tmp_path / f"{name}.certificate.json"])
            assert said in problem
        (problem,) = ledger.verify([tmp_path / "absent.json"])
        assert "absent.json" in problem


def test_a_clock_that_was_set_back_is_harmless(place, monkeypatch) -> None:
    with Ledger(place) as ledger:
        released(ledger)
        monkeypatch.setattr("discreet.ledger.events.now", lambda: "1999-12-31T23:59:59+00:00")
        released(ledger)
        assert ledger.verify() == []
        assert ledger.recover() == []


# -- where it is kept -------------------------------------------------------------------------------------------------


def test_a_place_holds_several_data_sets(place) -> None:
    Ledger.create(place, dataset="wages", epsilon=2.0)
    with pytest.raises(ParameterError, match=r"2 data sets. Name one: dataset=\.\.\."):
        Ledger(place)
    with pytest.raises(ParameterError, match="is not of a data set 'other'. It has: ages, wages"):
        Ledger(place, "other")
    with pytest.raises(ParameterError, match="a ledger of the data set 'wages' already"):
        Ledger.create(place, dataset="wages", epsilon=2.0)
    released(Ledger(place, "wages"), budget=Budget(epsilon=0.4))
    assert states(Ledger(place, "ages")) == {}
    assert Ledger(place, "wages").verify() == []


@pytest.mark.parametrize("content", [b"", b"no database at all, but long enough to look like one" * 100, None])
def test_what_is_no_ledger_is_refused_and_left_alone(tmp_path, content) -> None:
    path = tmp_path / "x"
    if content is None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE other (a)")
        content = path.read_bytes()
    path.write_bytes(content)
    for use in (Ledger, partial(Ledger.create, dataset="d", epsilon=1)):
        with pytest.raises(FileProblem, match="not a ledger|no ledger"):
            use(path)
    assert path.read_bytes() == content
    with pytest.raises(FileProblem, match="discreet ledger init"):
        Ledger(tmp_path / "absent")
    assert not (tmp_path / "absent").exists()


def test_tables_of_an_earlier_version_are_brought_up_to_date(place) -> None:
    connection = sqlite3.connect(place, isolation_level=None)
    for name in ("discreet_no_update", "discreet_no_delete"):
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("UPDATE discreet_version SET version = 1")
    connection.close()
    released(Ledger(place))
    test_rows_are_only_appended(place)
    connection = sqlite3.connect(place, isolation_level=None)
    assert connection.execute("SELECT version FROM discreet_version").fetchall() == [(len(MIGRATIONS),)]
    connection.execute("UPDATE discreet_version SET version = 99")
    connection.close()
    with pytest.raises(ParameterError, match="a later version of discreet"):
        Ledger(place)


def test_nothing_confidential_is_in_a_ledger(place, tmp_path) -> None:
    canary = 7_391_553
    domain = Domain(columns={"wage": Integer(lower=0, upper=9_999_999, cells=8, out_of_bounds="clip")})
    table = pl.DataFrame({"wage": [canary] * 997})
    with Ledger(place) as ledger:
        release(table, domain, Budget(epsilon=0.2, delta=1e-9), size=5, mechanism="perturbed-histogram", ledger=ledger)
        strict, accept = Domain(columns={"age": Integer(lower=0, upper=9)}), {"data-dependent-refusal"}
        asked = {"data": table.rename({"wage": "age"}), "domain": strict, "accept": accept}
        with pytest.raises(DataError):
            released(ledger, **asked, budget=Budget(epsilon=0.1, delta=1e-8))
        text = json.dumps(ledger.log())
    assert str(canary) not in text
    assert str(canary).encode() not in place.read_bytes()


# -- the commands -----------------------------------------------------------------------------------------------------


def commanded(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = run([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return status, out, err


def test_the_commands_do_what_the_class_does(tmp_path, capsys) -> None:
    place, domain, data = tmp_path / "l", tmp_path / "d.toml", tmp_path / "t.csv"
    domain.write_text(DOMAIN.to_toml())
    AGES.write_csv(data)
    asked = ["release", data, "--domain", domain, "--epsilon", 0.6, "--delta", 1e-8, "--size", 10, "--ledger", place]
    assert commanded(capsys, "ledger", "init", place, "--dataset", "ages", "--epsilon", 1, "--delta", 1e-6)[0] == 0
    status, out, _ = commanded(capsys, *asked, "--dataset", "ages", "--out", tmp_path / "a.csv")
    assert (status, out.splitlines()[0].startswith("wrote 10 records to ")) == (0, True)
    assert (
        out.splitlines()[1] == "cost: epsilon 0.6, delta 9.91e-09. Left in the ledger: epsilon 0.4, delta 9.90091e-07"
    )
    status, _, err = commanded(capsys, *asked, "--out", tmp_path / "b.csv")
    assert status == 3
    assert "does not allow this release" in err
    assert not (tmp_path / "b.csv").exists()
    found = json.loads(commanded(capsys, "ledger", "status", place, "--json")[1])
    assert (found["dataset"], found["currency"], found["left"]["epsilon"]) == ("ages", "sums", 0.4)
    assert found["counts"]["COMMITTED"] == 1
    events = json.loads(commanded(capsys, "ledger", "log", place, "--json")[1])["events"]
    # what runs is noted once it is calibrated, since the number of records was not declared; then where its output is
    assert [event["state"] for event in events] == [
        *("CREATED", "RESERVED", "OPENED", "NOTED", "NOTED", "COMMITTED", "DELIVERED")
    ]
    status, out, _ = commanded(capsys, "ledger", "verify", place)
    assert (status, "rollback was not checked" in out.lower()) == (0, True)
    checked = json.loads(commanded(capsys, "ledger", "verify", place, tmp_path / "a.certificate.json", "--json")[1])
    assert checked == {"ok": True, "problems": [], "rollback_checked": True, "notes": []}
    assert "Nothing was left behind" in commanded(capsys, "ledger", "recover", place)[1]
    altered(place, "DELETE FROM discreet_event WHERE number = 2")
    assert commanded(capsys, "ledger", "verify", place)[0] == 1
    for shown in ("status", "log"):
        assert commanded(capsys, "ledger", shown, place)[0] == 0


# -- payments ---------------------------------------------------------------------------------------------------------


def test_a_reservation_that_was_given_back_pays_for_no_checkpoint(place, tmp_path) -> None:
    path = tmp_path / "steps"
    with Ledger(place) as ledger:
        with pytest.raises(KeyboardInterrupt):
            evolve(None, path, watch=Watch(stepped=interrupt))
        budget = Budget(epsilon=0.5, delta=1e-7)
        ledger.pay(Request(budget=budget, domain=DOMAIN, output=Output(checkpoint=Checkpoint(path)))).cancel()
        assert states(ledger) == {"VOID": 1}
        evolve(ledger, path)
        assert ledger.status().spent["epsilon"] == 0.5


def test_a_certificate_of_tables_in_memory_states_what_was_committed(place, tmp_path) -> None:
    with Ledger(place) as ledger:
        made = released(ledger).write(tmp_path / "r.parquet")
        assert ledger.verify([made.certificate_path]) == []
        text = made.certificate_path.read_text()
        made.certificate_path.write_text(text.replace('"epsilon": 0.4', '"epsilon": 0.0001', 1))
        (problem,) = ledger.verify([made.certificate_path])
        assert "does not state what was committed" in problem


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM discreet_event",
        "DELETE FROM discreet_version",
        'UPDATE discreet_event SET body = replace(body, \'"counts":{\', \'"counts":null,"x":{\')',
        'UPDATE discreet_event SET body = replace(body, \'"facts":{\', \'"facts":{},"x":{\')',
    ],
)
def test_a_ledger_that_was_spoilt_is_refused_in_words(place, statement, capsys) -> None:
    altered(place, statement)
    for shown in ("status", "log", "verify"):
        status, _, err = commanded(capsys, "ledger", shown, place)
        assert status in (1, 2), err
        assert "fault" not in err


def test_one_ledger_has_one_name(place) -> None:
    place.with_name("other").hardlink_to(place)
    with pytest.raises(FileProblem, match="two names"):
        Ledger(place)


def test_no_ledger_is_named_by_an_empty_variable(place, monkeypatch) -> None:
    monkeypatch.setenv("DISCREET_LEDGER", "")
    assert "ledger" not in released(None).certificate.to_dict()
    assert states(Ledger(place)) == {}


# -- plans ------------------------------------------------------------------------------------------------------------


def planned(tmp_path: Path):
    from discreet.planner.study import Together, plan_together

    requests = [
        Request(part=name, domain=DOMAIN, relation=Replacement(records=1000), size=20, mechanism="perturbed-histogram",
                parameters={"noise": "gaussian"})
        for name in ("first", "second")
    ]  # fmt: skip
    made = plan_together(requests, Budget(epsilon=0.9, delta=1e-7), shares=[1.0, 2.0])
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(made.to_dict()))
    return Together.read(path)


def part_of(ledger: Ledger, plan, name: str, **other: object):
    part = next(one for one in plan.parts if one.name == name)
    return released(ledger.part(name), **{"budget": part.budget, "noise": "gaussian", **other})


def test_releases_that_were_declared_together_are_paid_for_once_and_made_once(place, tmp_path) -> None:
    plan = planned(tmp_path)
    assert sum(part.budget.epsilon for part in plan.parts) > 1.2  # far more than their sum could be
    with Ledger(place) as ledger:
        ledger.declare(plan)
        assert ledger.status().spent["epsilon"] == 0.9
        with pytest.raises(Refused, match="has a planned release 'first' already"):
            ledger.declare(plan)
        for wrong in ({"epsilon": 0.9}, {"delta": 0.0}):
            with pytest.raises(Refused, match="was declared with epsilon"):
                part_of(ledger, plan, "first", budget=replace(plan.parts[0].budget, **wrong))
        with pytest.raises(Refused, match="no plan in the ledger has a release 'third'"):
            released(ledger.part("third"))
        part_of(ledger, plan, "first")
        with pytest.raises(Refused, match="has been used already"):
            part_of(ledger, plan, "first")
        few, known = Replacement(records=9), Replacement(records=len(AGES))
        for wrong in ({"size": 21}, {"relation": few}, {"noise": "laplace", "relation": known}):  # seen before it opens
            with pytest.raises(Refused, match="the plan declares another mechanism"):
                part_of(ledger, plan, "second", accept={"poor-utility"}, **wrong)
        with pytest.raises(Refused, match="the plan declares another mechanism"):  # opened, so it is spent
            part_of(ledger, plan, "second", accept={"poor-utility"}, noise="laplace")
        with pytest.raises(Refused, match="has been used already"):
            part_of(ledger, plan, "second")
        assert ledger.status().spent["epsilon"] == 0.9
        assert ledger.verify() == []


def test_a_plan_that_costs_more_than_is_left_is_refused(place, tmp_path) -> None:
    with Ledger(place) as ledger:
        released(ledger)
        with pytest.raises(Refused, match="does not allow"):
            ledger.declare(planned(tmp_path))
        assert states(ledger) == {"COMMITTED": 1}
