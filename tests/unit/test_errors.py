"""Errors are built from public facts, say what to do, and give the command its exit status."""

import inspect

from discreet import errors
from discreet.errors import (
    ConfidentialAccessError,
    DataError,
    DiscreetError,
    FileProblem,
    Infeasible,
    MissingPublicFact,
    RelationNotSupported,
)


def test_all_are_listed_have_one_root_and_an_exit_status() -> None:
    found = {name for name, item in vars(errors).items() if inspect.isclass(item) and issubclass(item, Exception)}
    assert found == set(errors.__all__)
    statuses = {name: getattr(errors, name).exit_status for name in errors.__all__}
    assert all(issubclass(getattr(errors, name), DiscreetError) for name in errors.__all__)
    assert {name for name, status in statuses.items() if status == 3} == {
        "GuaranteeKindError", "Infeasible", "PoorUtility", "Refused"
    }  # fmt: skip
    assert {name for name, status in statuses.items() if status not in (2, 3)} == {"Fault"}


def test_messages_name_the_facts_and_the_remedy() -> None:
    missing = MissingPublicFact("income", "its upper bound", "upper = 100")
    assert "income" in str(missing)
    assert str(missing).endswith("upper = 100")
    assert str(DataError("age", "holds a null", "fill it in")) == "column 'age': holds a null. Fill it in"
    assert str(DataError(None, "is empty", "give rows")) == "the table: is empty. Give rows"
    assert str(FileProblem("a.csv", "is not there", "check it")) == "a.csv: is not there. Check it"
    assert str(FileProblem("", "is not there", "check it")) == "a file without a name: is not there. Check it"
    assert "release()" in str(ConfidentialAccessError("printed"))
    assert "replacement" in str(RelationNotSupported("pitman-yor", "add-remove", "n is public"))


def test_infeasible_rounds_outwards_and_names_what_promises_something() -> None:
    for name, value, written in (
        ("delta >=", 3.1234561e-9, "3.12346e-09"), ("size <=", 123_456_789, "123,456,789"),
        ("epsilon >=", 1.0000001, "1.00001"), ("strength <=", 1.9999999, "1.99999"),
    ):  # fmt: skip
        refused = Infeasible("epsilon 1 at size 5", {name: value})
        assert refused.nearest == {name: value}
        text = str(refused).rsplit(" ", 1)[1]
        assert text == written
        number = float(text.replace(",", ""))
        assert number <= value if name.endswith("<=") else number >= value
    assert str(Infeasible("epsilon 0", {})) == "epsilon 0 cannot be met"
    assert str(Infeasible("epsilon 0", {"delta >=": 0.5})) == "epsilon 0 cannot be met"  # which promises nothing
