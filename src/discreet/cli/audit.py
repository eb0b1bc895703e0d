"""The commands that examine releases, for the custodian."""

from __future__ import annotations

from typing import Any

import click

from discreet._core.text import counted
from discreet.cli.console import Commands, alarm, answer, echo
from discreet.cli.options import PATH, RELATIONS, command, option, parameters, shared

audit = Commands("audit", help="Examine a release, or what makes one. The results are for the custodian alone.")


@command("data", within=audit)
@option("--out-data", PATH, "File to write: the table to make releases from.", required=True)
@option("--out-control", PATH, "File to write: the control, to be kept out.", required=True)
@option("--record", PATH, "JSON file to write: how the control was drawn.", required=True)
@option("--share", float, "Share of the records that are the control.", default=0.5)
@option("--unit", str, "Column that names the privacy unit of each row, such as a person. Whole units are drawn.")
def split(data: str, as_json: bool, **options: Any) -> None:
    """Draw a control from the confidential table DATA at random, before a release is made.

    All three files are CONFIDENTIAL. The commitment that is printed may be told to anybody: it holds the custodian to
    this draw and tells nothing about it.
    """
    from discreet.audit.split import split as run

    control = run(data, **options)
    numbers = {name: control.facts[name] for name in ("records", "control_records", "commitment")}
    drawn, kept = counted(numbers["control_records"], "record"), f"{numbers['records']:,}"
    if control.unit is not None:
        drawn += f" of {counted(control.facts['control_units'], 'unit')}"
        kept += f" of {control.facts['units']:,}"
    answer(
        as_json,
        {**options, **numbers},
        f"drew {drawn} as the control and kept {kept}.",
        f"commitment: {control.commitment}",
        "The three files are confidential. The commitment is not: it may be told before the release is made.",
    )


@command("released", within=audit)
@option("--data", PATH, "CONFIDENTIAL table that the release was made from.", required=True)
@option("--control", PATH, "CONFIDENTIAL records that were kept out of it.", required=True)
@option("--record", PATH, "Record of audit split. By default the one in the folder of either.")
@shared("certificate")
@option("--epsilon", float, "Instead of a certificate: the privacy budget that is claimed.")
@option("--delta", float, "Instead of a certificate: the delta that is claimed. By default 0.")
@option("--relation", RELATIONS, "Instead of a certificate: between which tables it is claimed. By default "
        "replacement.")  # fmt: skip
@option("--level", float, "Largest rate of false alarms.", default=0.001)
def release(
    released: str, data: str, control: str, record: str | None, level: float, as_json: bool, **claim: Any
) -> int:
    """Test whether a RELEASED table shows more of DATA than it claims. The result is CONFIDENTIAL.

    It guesses which of two records was in the table, for pairs of one of DATA and one of the control, and asks whether
    more guesses are right than the claim allows. Where audit split drew whole units, it guesses about these. The exit
    status is 1 where the claim is rejected. A control that audit split did not draw is looked at without a verdict.
    """
    from discreet.audit.release import audit_release, claimed
    from discreet.confidential.custodian import reveal_to_custodian

    result = reveal_to_custodian(
        audit_release(released, data, control, claimed(released, **claim), record=record, level=level)
    )
    *lines, verdict = str(result).splitlines()
    answer(as_json, result.to_dict(), "\n".join(lines))
    if not as_json:
        (alarm if result.rejected else echo)(verdict)
    return int(bool(result.rejected))


@command(within=audit)
@click.argument("mechanism")
@option("--epsilon", float, "Privacy budget that it is calibrated for.", default=1.0)
@option("--delta", float, "Privacy budget that it is calibrated for.", default=0.0)
@option("--records", int, "Number of records of the tables.", default=3)
@option("--size", int, "Number of records released.", default=2)
@shared("param")
@option("--runs", int, "Runs per table, in each of three stages.", default=2000)
@option("--error", float, "Largest rate of false alarms of the runs.", default=0.001)
@option("--seed", int, "Seed of the runs. They read no table of yours.", default=0)
def mechanism(mechanism: str, as_json: bool, **options: Any) -> int:
    """Examine a MECHANISM on small tables: by listing all outputs where that is possible, and by running it.

    Beside it stand broken twins, calibrated for larger epsilons and held to the same claim: the answer says which of
    them would have been caught. The exit status is 1 where the claim is refuted. No table of yours is read.
    """
    from discreet.planner.examined import examined

    result = examined(mechanism, **parameters(options), **options)
    answer(as_json, result.to_dict(), str(result))
    return int(bool(result.rejected))


@command("first", "second", within=audit, context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@option("--work", PATH, "New folder for all that the runs write. CONFIDENTIAL.", required=True)
@option("--runs", int, "Runs on each of the two files.", default=5)
def pipeline(first: str, second: str, command: tuple[str, ...], work: str, runs: int, as_json: bool) -> int:
    """Run a COMMAND on two files that differ in one record, and compare all that can be seen but the released values.

    Write the COMMAND after --, with {data} where the file stands, {here} for the folder where you are, and relative
    paths for what it writes. The exit status is 1 where anything tells the two files apart. The result is
    CONFIDENTIAL.
    """
    from discreet.audit.pipeline import audit_pipeline
    from discreet.confidential.custodian import reveal_to_custodian

    result = reveal_to_custodian(audit_pipeline(first, second, command, work=work, runs=runs))
    answer(as_json, result.to_dict(), str(result))
    return int(bool(result.differences))
