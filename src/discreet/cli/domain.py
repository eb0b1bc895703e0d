"""The commands about the declaration of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from discreet.cli.console import Commands, echo, show, tell
from discreet.cli.options import PATH, SOURCE, accepted, command, located, option, shared, unit_of
from discreet.cli.release import require_new

domain = Commands("domain", help="Declare the public facts about a table.")


@command("data", within=domain)
@shared(*SOURCE)
@option("--out", PATH, "File to write. By default standard output.")
def init(data: str, out: str | None, as_json: bool, **reading: Any) -> None:
    """Write a template for DATA from its column names and types alone. It says what you must fill in."""
    from discreet._core.formats import format_of
    from discreet.confidential.values import table_schema
    from discreet.domain import Domain

    form, source = format_of(data), located(data, reading)
    template, csv = Domain.template(table_schema(source)), form is not None and form.texts
    if out is not None:
        from discreet._core.files import together

        with together(Path(out), inputs=(source,), check=lambda: require_new(out)) as (file,):
            file.write(template.encode())
    if as_json:
        show({"out": out, "template": template})
    elif out is None:
        echo(template, nl=False)
    else:
        echo(f"wrote {out}. Fill in what it asks for. Nothing{' else' * csv} in it was read from the rows.")
    if csv:
        echo(f"The names are the first line of {data}. Check that it is a header and not a record.", err=True)


@command("data", within=domain)
@shared(*SOURCE, "domain", "unit")
@option("--max-records", int, "The most records that a unit keeps. Rows beyond are counted.")
@shared("ignore-other-columns")
@option("--examples", click.IntRange(0), "Number of values to show per finding. 0 shows counts only.", default=5)
def check(data: str, domain_file: str, as_json: bool, **options: Any) -> int:
    """List everything in the confidential table DATA that does not fit the domain, before a release is made.

    The result is CONFIDENTIAL: it shows values. The exit status is 1 where anything does not fit.
    """
    from discreet.confidential import check_table, reveal_to_custodian
    from discreet.confidential.public import public_domain

    source = located(data, options)
    facts = {"unit": unit_of(options), "accept": accepted(options), **options}
    result = reveal_to_custodian(check_table(source, public_domain(domain_file, data=source), **facts))
    show(result.to_dict()) if as_json else tell(str(result))
    return 0 if result.fits else 1
