"""The commands that examine releases, for the custodian."""

from __future__ import annotations

from typing import Any

import click

from discreet._core.text import counted
from discreet.cli.console import Commands, alarm, echo, show
from discreet.cli.ledger import json_option
from discreet.cli.options import param_option, parameters


@click.group(cls=Commands, invoke_without_command=True)
@click.pass_context
def audit(context: click.Context) -> int:
    """Examine a release, or what makes one. The results are for the custodian alone."""
    from discreet.cli.commands import help_without_command

    return help_without_command(context)


@audit.command("split")
@click.argument("data", type=click.Path())
@click.option("--out-data", type=click.Path(), required=True, help="File to write: the table to make releases from.")
@click.option("--out-control", type=click.Path(), required=True, help="File to write: the control, to be kept out.")
@click.option("--record", type=click.Path(), required=True, help="JSON file to write: how the control was drawn.")
@click.option("--share", type=float, default=0.5, show_default=True, help="Share of the records that are the control.")
@click.option("--unit", help="Column that names the privacy unit of each row, such as a person. Whole units are drawn.")
@json_option
def split(data: str, as_json: bool, **options: Any) -> None:
    """Draw a control from the confidential table DATA at random, before a release is made.

    All three files are CONFIDENTIAL. The commitment that is printed may be told to anybody: it holds the custodian to
    this draw and tells nothing about it.
    """
    from discreet.audit.split import split as run

    made = run(data, **options)
    numbers = {name: made.facts[name] for name in ("records", "control_records", "commitment")}
    if as_json:
        show({**options, **numbers})
        return
    kept = f"{numbers['records']:,}"
    of = ("", "") if made.unit is None else (f" of {counted(made.facts['control_units'], 'unit')}",
                                             f" of {made.facts['units']:,}")  # fmt: skip
    echo(f"drew {counted(numbers['control_records'], 'record')}{of[0]} as the control and kept {kept}{of[1]}.")
    echo(f"commitment: {made.commitment}")
    echo("The three files are confidential. The commitment is not: it may be told before the release is made.")


@audit.command("release")
@click.argument("released", type=click.Path())
@click.option("--data", type=click.Path(), required=True, help="CONFIDENTIAL table that the release was made from.")
@click.option("--control", type=click.Path(), required=True, help="CONFIDENTIAL records that were kept out of it.")
@click.option("--record", type=click.Path(), help="Record of audit split. By default the one in the folder of either.")
@click.option("--certificate", type=click.Path(), help="Its certificate. By default RELEASED with .certificate.json.")
@click.option("--epsilon", type=float, help="Instead of a certificate: the privacy budget that is claimed.")
@click.option("--delta", type=float, help="Instead of a certificate: the delta that is claimed. By default 0.")
@click.option(
    "--relation",
    type=click.Choice(["replacement", "add-remove"]),
    help="Instead of a certificate: between which tables it is claimed. By default replacement.",
)
@click.option("--level", type=float, default=0.001, show_default=True, help="Largest rate of false alarms.")
@json_option
def release(
    released: str,
    data: str,
    control: str,
    record: str | None,
    certificate: str | None,
    level: float,
    as_json: bool,
    **stated: Any,
) -> int:
    """Test whether a RELEASED table shows more of DATA than it claims. The result is CONFIDENTIAL.

    It guesses which of two records was in the table, for pairs of one of DATA and one of the control, and asks whether
    more guesses are right than the claim allows. Where audit split drew whole units, it guesses about these. The exit
    status is 1 where the claim is rejected. A control that audit split did not draw is looked at without a verdict.
    """
    from discreet.audit.release import audit_release, claimed
    from discreet.confidential.custodian import reveal_to_custodian

    claim = claimed(released, certificate, **stated)
    found = reveal_to_custodian(audit_release(released, data, control, claim, record=record, level=level))
    if as_json:
        show(found.to_dict())
    elif found.rejected:
        *lines, verdict = str(found).splitlines()
        echo("\n".join(lines))
        alarm(verdict)
    else:
        echo(str(found))
    return 1 if found.rejected else 0


@audit.command("mechanism")
@click.argument("mechanism")
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="Privacy budget that it is calibrated for.")
@click.option("--delta", type=float, default=0.0, show_default=True, help="Privacy budget that it is calibrated for.")
@click.option("--records", type=int, default=3, show_default=True, help="Number of records of the tables.")
@click.option("--size", type=int, default=2, show_default=True, help="Number of records released.")
@param_option
@click.option("--runs", type=int, default=2000, show_default=True, help="Runs per table, in each of three stages.")
@click.option("--error", type=float, default=0.001, show_default=True, help="Largest rate of false alarms of the runs.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the runs. They read no table of yours.")
@json_option
def mechanism(mechanism: str, pairs: Any, as_json: bool, **options: Any) -> int:
    """Examine a MECHANISM on small tables: by listing all outputs where that is possible, and by running it.

    Beside it stand broken twins, calibrated for larger epsilons and held to the same claim: the answer says which of
    them would have been caught. The exit status is 1 where the claim is refuted. No table of yours is read.
    """
    from discreet.audit.mechanism import examined

    found = examined(mechanism, **options, **parameters(pairs))
    show(found.to_dict()) if as_json else echo(str(found))
    return 1 if found.rejected else 0


@audit.command("pipeline", context_settings={"ignore_unknown_options": True})
@click.argument("first", type=click.Path())
@click.argument("second", type=click.Path())
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--work", type=click.Path(), required=True, help="New folder for all that the runs write. CONFIDENTIAL.")
@click.option("--runs", type=int, default=5, show_default=True, help="Runs on each of the two files.")
@json_option
def pipeline(first: str, second: str, command: tuple[str, ...], work: str, runs: int, as_json: bool) -> int:
    """Run a COMMAND on two files that differ in one record, and compare all that can be seen but the released values.

    Write the COMMAND after --, with {data} where the file stands, {here} for the folder where you are, and relative
    paths for what it writes. The exit status is 1 where anything tells the two files apart. The result is
    CONFIDENTIAL.
    """
    from discreet.audit.pipeline import audit_pipeline
    from discreet.confidential.custodian import reveal_to_custodian

    found = reveal_to_custodian(audit_pipeline(first, second, command, work=work, runs=runs))
    show(found.to_dict()) if as_json else echo(str(found))
    return 1 if found.differences else 0
