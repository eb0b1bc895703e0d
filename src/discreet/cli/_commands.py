"""The commands: each parses its options, calls one function, and writes the result."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from discreet._checks import real
from discreet._text import as_written, counted, harmless
from discreet.cli._echo import alarm, echo, show
from discreet.cli._progress import progress_bar
from discreet.errors import BudgetError, FileProblem, Infeasible, ParameterError

__all__ = ["COMMANDS", "help_without_command"]


def _key_value(pair: str) -> tuple[str, Any]:
    key, sign, text = pair.partition("=")
    if not sign or not key:
        raise click.BadParameter(f"{pair!r} is not KEY=VALUE")
    for kind in (int, float):
        try:
            return key.strip(), kind(text)
        except ValueError:
            continue
    return key.strip(), text.strip()


def _parameters(pairs: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    from discreet.planner._stated import parameter_names

    known = parameter_names()
    given: dict[str, Any] = {}
    for key, value in pairs:
        if key not in known:
            raise ParameterError(f"unknown parameter {key!r}; there are: {', '.join(known)}")
        if key in given:
            raise ParameterError(f"the parameter {key!r} is given twice")
        given[key] = value
    return given


_json = click.option("--json", "as_json", is_flag=True, help="Write machine-readable JSON to standard output.")
_param = click.option(
    "--param", "pairs", type=_key_value, metavar="KEY=VALUE", multiple=True, help="A parameter of the mechanism."
)
_records = click.option("--records", type=int, required=True, help="Number of records held, public.")
_relation = click.option(
    "--relation",
    type=click.Choice(["replacement", "add-remove"]),
    default="replacement",
    help="Between which tables the guarantee holds (add-remove: private-evolution only).",
)
_domain = click.option("--domain", "domain_file", type=click.Path(), required=True, help="TOML of the public facts.")
_reference = click.option(
    "--reference", type=click.Path(), help="A PUBLIC table like the confidential one, to predict utility from."
)
_sampling = click.option(
    "--sampling",
    type=click.Choice(["iid", "stratified"]),
    help="How records are drawn from noisy counts: independently (default), or stratified, with less error.",
)


@click.command()
@click.argument("data", type=click.Path())
@_domain
@click.option("--epsilon", type=float, required=True, help="Privacy budget, at most 100.")
@click.option("--delta", type=float, default=0.0, help="Probability of exceeding epsilon; 0 (pure) by default.")
@click.option("--size", type=int, help="Number of records to release (required, but for counts).")
@click.option("--counts", is_flag=True, help="Release counts of the cells with standard errors, not records.")
@click.option("--mechanism", help="Registry name; by default the least predicted error, from public facts alone.")
@_param
@click.option("--out", type=click.Path(), required=True, help="Release to write: .parquet or .csv.")
@click.option("--certificate", type=click.Path(), help="Default: OUT with .certificate.json.")
@click.option("--unit", help="Column that names the person behind the rows.")
@click.option("--max-records", type=int, help="Rows a unit may have; the others are cut at random.")
@_sampling
@_reference
@click.option("--columns", "subset", is_flag=True, help="Leave out columns that the domain does not name.")
@_relation
@click.option("--records", type=int, help="For add-remove: the number of records, declared in public.")
@click.option("--checkpoint", type=click.Path(), help="File to continue from, for mechanisms that work in steps.")
@click.option("--redraw", is_flag=True, help="Draw other records from a finished --checkpoint; DATA are not asked.")
@click.option("--seed", type=int, help="Reproducible; the release is marked as not for publication.")
@click.option("--accept-poor-utility", is_flag=True, help="Allow more than 20 % of records not from the data.")
@_json
def release(data: str, domain_file: str, out: str, as_json: bool, pairs: Any, **options: Any) -> None:
    """Release a synthetic table from the confidential table DATA."""
    from discreet._release import release as run

    announce: Callable[[str], None] = lambda text: echo(text, err=True)  # noqa: E731
    given = {**options, **_parameters(pairs)}  # sampling may be given either way
    with progress_bar(options["size"], as_json) as progress:
        made = run(data, domain_file, out=out, progress=progress, stepped=progress, announce=announce, **given)
    facts = made.certificate.facts
    if made.certificate.poor is not None:
        alarm(made.certificate.poor, err=as_json)
    if as_json:
        show(
            {
                "poor": made.certificate.poor,
                "out": str(made.path),
                "certificate": str(made.certificate_path),
                "rows": facts["released"]["rows"],
                "mechanism": facts["mechanism"],
                "relation": facts["relation"],
                "guarantee": facts["guarantee"],
                "released": {key: facts["released"][key] for key in ("outcome", "share_from_data")},
                "randomness": facts["randomness"],
                **{key: made.info[key] for key in ("why", "share_not_from_data")},
            }
        )
        return
    what = "counts" if facts["size"] is None else "records"
    echo(f"wrote {facts['released']['rows']:,} {what} to {made.path} and what was promised to "
               f"{made.certificate_path}")  # fmt: skip
    echo(f"mechanism: {facts['mechanism']['name']} "
               + ", ".join(f"{k}={v}" for k, v in facts["mechanism"]["parameters"].items()))  # fmt: skip
    echo(made.certificate.text)
    if made.certificate.seeded:
        echo("This release was seeded: do not publish it.", err=True)


@click.command()
@_domain
@_records
@click.option("--epsilon", type=float, required=True)
@click.option("--delta", type=float, default=0.0)
@click.option("--size", type=int, help="Number of records to release; as many as held by default.")
@click.option("--max-records", type=int, default=1, help="Rows of a privacy unit; --records is then units times it.")
@_sampling
@_reference
@_json
def plan(domain_file: str, max_records: int, as_json: bool, **options: Any) -> None:
    """Compare the mechanisms for a budget, from public facts alone: no data is read."""
    from discreet.domain import Domain
    from discreet.planner import plan as run
    from discreet.planner._table import wrapped

    with progress_bar(1, as_json, "mechanisms") as progress:
        made = run(Domain.read(domain_file), group=max_records, progress=progress, **options)
    if as_json:
        show(made.to_dict())
        return
    for line in wrapped(made.verdict):
        alarm(line)
    echo(made.text)


@click.command()
@click.argument("mechanism")
@_records
@click.option("--size", type=int, help="Number of records released (not needed where drawn from noisy counts).")
@_param
@_relation
@click.option("--epsilon", type=float, help="Give the delta at this epsilon.")
@click.option("--delta", type=float, help="Give the epsilon at this delta.")
@click.option("--data", type=click.Path(), help="CONFIDENTIAL table: print what its release reveals of it, beside.")
@click.option("--domain", "domain_file", type=click.Path(), help="TOML of the public facts of --data.")
@_json
def privacy(
    mechanism: str,
    records: int,
    size: int | None,
    pairs: Any,
    relation: Any,
    epsilon: float | None,
    delta: float | None,
    data: str | None,
    domain_file: str | None,
    as_json: bool,
) -> None:
    """Give the exact guarantee of a MECHANISM from its public parameters.

    With --data and --domain also its instance-level deltas, which are as confidential as the table.
    """
    from discreet.planner import stated

    if epsilon is not None:
        real("epsilon", epsilon, least=0, error=BudgetError)
    if (epsilon is None) == (delta is None):
        raise ParameterError("give either --epsilon or --delta: the other one is computed")
    if data is not None or domain_file is not None:
        if relation != "replacement":
            raise ParameterError("what a release reveals of a table is computed for replacement only")
        _instance(
            mechanism, data, domain_file, records=records, size=size, epsilon=epsilon, pairs=pairs, as_json=as_json
        )
        return
    name, guarantee = stated(mechanism, records=records, size=size, relation=relation, **_parameters(pairs))
    if epsilon is None:
        epsilon = guarantee.epsilon(delta or 0.0)
        if math.isinf(epsilon):
            raise Infeasible(f"delta {as_written(delta or 0.0)} with {name}", {"delta >=": guarantee.delta(math.inf)})
    else:
        delta = guarantee.delta(epsilon)
    show({"mechanism": name, "records": records, "size": size, "epsilon": epsilon, "delta": delta,
           **_promise(guarantee)})  # fmt: skip
    if not as_json:
        echo("\n".join(guarantee.caveats), err=True)


def _instance(
    mechanism: str,
    data: str | None,
    domain_file: str | None,
    *,
    epsilon: float | None,
    pairs: Any,
    as_json: bool,
    **n: Any,
) -> None:
    """Print a mechanism's guarantee and, marked as confidential, what its release of a table reveals of that table."""
    from discreet.audit import instance_guarantee
    from discreet.confidential import confidential, reveal_to_custodian
    from discreet.confidential._public import public_domain
    from discreet.planner._stated import on_domain

    if data is None or domain_file is None or epsilon is None:
        raise ParameterError("what a release reveals of a table needs --data, --domain and --epsilon")
    declared = public_domain(domain_file, data=data)
    made = on_domain(mechanism, declared, **n, **_parameters(pairs))
    found = reveal_to_custodian(
        instance_guarantee(confidential(data, declared, subset=True), made, epsilon=epsilon, records=n["records"])
    )
    guarantee = made.guarantee(n=n["records"])
    marked = {"confidential": True, "instance": found.to_dict()} if as_json else {}
    show({"mechanism": mechanism, **n, "epsilon": epsilon, "delta": guarantee.delta(epsilon), **_promise(guarantee),
           **marked})  # fmt: skip
    if not as_json:
        echo(str(found))


@click.command()
@click.argument("mechanism")
@_records
@click.option("--epsilon", type=float, required=True)
@click.option("--delta", type=float, default=0.0)
@click.option("--size", type=int, help="Number of records released; solved for when absent, where it matters.")
@_param
@_relation
@_json
def calibrate(mechanism: str, pairs: Any, as_json: bool, **asked: Any) -> None:
    """Solve for the one free parameter of a MECHANISM that meets a budget."""
    from discreet.planner import solved

    answer = solved(mechanism, **asked, **_parameters(pairs))
    show({**answer.numbers, **_promise(answer.guarantee)})
    if not as_json:
        echo("\n".join(answer.guarantee.caveats), err=True)


def _promise(guarantee: Any) -> dict[str, Any]:
    return {**guarantee.to_dict(), "relation": guarantee.relation.name, "group": guarantee.relation.group}


@click.command()
@click.argument("certificate", type=click.Path())
@click.option("--data", type=click.Path(), help="The released file, to compare its hash, rows and columns too.")
@click.option("--recover", "settle", is_flag=True, help="First finish, or undo, a write of it that was interrupted.")
@click.option("--seconds", type=float, default=60.0, show_default=True, help="How long recomputing may take.")
@_json
def verify(certificate: str, data: str | None, settle: bool, seconds: float, as_json: bool) -> int:
    """Recompute everything a CERTIFICATE claims; exit status 1 where anything disagrees.

    CERTIFICATE is the file beside a release, or a folder of tables that synthesize wrote, which are then checked too.
    """
    from discreet.releases import verify as run

    if settle:
        from discreet._writing import recover

        recover(Path(certificate))
    checks = run(certificate, data=data, seconds=seconds)
    compared = data is not None or Path(certificate).is_dir()
    wrong = [check for check in checks if not check.agrees]
    if as_json:
        show(
            {
                "agrees": not wrong,
                "data_checked": compared,
                "checks": [
                    {"what": c.what, "agrees": c.agrees, "claimed": c.claimed, "found": c.found, "erratum": c.erratum}
                    for c in checks
                ],
            }
        )
    else:
        for check in wrong:
            echo(f"{harmless(check.what)}: the certificate says {check.claimed!r}, recomputed {check.found!r}")
        for erratum in dict.fromkeys(check.erratum for check in wrong if check.erratum is not None):
            echo(erratum)
        echo(
            f"{len(wrong)} of {counted(len(checks), 'claim')} disagree: do not rely on this certificate."
            if wrong
            else f"All {len(checks)} claims agree"
            + ("." if compared else "; the released file was not checked (--data).")
        )
    return 1 if wrong else 0


@click.command()
@click.argument("data", type=click.Path())
@click.argument("released", type=click.Path())
@_domain
@click.option(
    "--measures",
    help="Measures to add, beside bootstrap samples: all, or names with commas, such as w1,ks,transport,pmse.",
)
@click.option(
    "--holdout", type=click.Path(), help="CONFIDENTIAL table of the same population, not used in the release."
)
@click.option("--resamples", type=int, default=100, show_default=True, help="Number of bootstrap samples.")
@_json
def compare(data: str, released: str, domain_file: str, measures: str | None, as_json: bool, **options: Any) -> None:
    """Compare a RELEASED table with the confidential DATA: W1, KS, summary. The result is confidential."""
    from discreet.confidential import reveal_to_custodian
    from discreet.confidential._public import public_domain
    from discreet.utility import compare as run

    names = _names(measures)
    declared = public_domain(domain_file, data=data)
    comparison = reveal_to_custodian(run(data, released, declared, measures=names, **options))
    if as_json:
        show(comparison.to_dict())
    else:
        echo(str(comparison))


def _names(measures: str | None) -> Any:
    return measures if measures in {None, "all"} else [name.strip() for name in str(measures).split(",")]


@click.command()
@click.argument("released", type=click.Path())
@click.option("--certificate", type=click.Path(), help="Default: RELEASED with .certificate.json.")
@click.option("--also", type=click.Path(), multiple=True, help="Certificate of another release of the same table.")
@click.option("--data", type=click.Path(), help="CONFIDENTIAL table: compare with it; the report is confidential then.")
@click.option("--domain", "domain_file", type=click.Path(), help="TOML of the public facts of --data.")
@click.option("--measures", default="w1,ks,tv", show_default=True, help="Distances from --data, as in compare.")
@click.option("--resamples", type=int, default=100, show_default=True, help="Number of bootstrap samples of --data.")
@click.option("--out", type=click.Path(), required=True, help="Report to write: .html.")
@_json
def report(released: str, out: str, domain_file: str | None, measures: str, as_json: bool, **options: Any) -> int:
    """Write what a RELEASED table promises as one HTML page; exit status 1 where a certificate is not confirmed.

    RELEASED is a table, or a folder of tables that synthesize wrote.
    """
    from discreet.report import write_report

    made = write_report(released, out, domain=domain_file, measures=_names(measures), **options)
    wrong = sum(not check.agrees for check in made.checks)
    if as_json:
        show({"out": str(made.path), "confidential": made.confidential, "agrees": made.agrees})
    else:
        echo(f"wrote {made.path}" + (
            ": CONFIDENTIAL, it contains numbers computed from the private data" if made.confidential else ""
        ))  # fmt: skip
        if wrong:
            echo(f"{wrong} of {counted(len(made.checks), 'claim')} disagree: do not rely on this release.", err=True)
    return 1 if wrong else 0


@click.command()
@click.argument("released", type=click.Path())
@click.option("--column", help="Column to estimate; the only one by default.")
@click.option(
    "--functional",
    "functionals",
    multiple=True,
    required=True,
    help="mean, variance, sd, qNN, P(>a), P(<a), P(a..b), P(=a); several with commas between them.",
)
@click.option("--level", type=float, default=0.95, show_default=True, help="Probability of the intervals.")
@click.option("--certificate", type=click.Path(), help="Default: RELEASED with .certificate.json.")
@click.option("--strength", type=float, help="Weight of the prior in records; an urn's own, else 1, by default.")
@click.option("--draws", type=click.IntRange(2), default=1000, show_default=True, help="Posterior draws.")
@click.option("--seed", type=int, default=0, show_default=True, help="Everything read here is public.")
@_json
def estimate(
    released: str, column: str | None, functionals: tuple[str, ...], level: float, as_json: bool, **options: Any
) -> None:
    """Estimate numbers of the population from a RELEASED table alone, with credible intervals."""
    import re
    import warnings

    from discreet.domain import Domain
    from discreet.inference import posterior
    from discreet.inference._posterior import known_functionals
    from discreet.inference._released import read_certificate

    asked = [part.strip() for text in functionals for part in re.split(r",(?![^(]*\))", text)]
    facts = read_certificate(released, options["certificate"]).facts
    known_functionals(asked, Domain.from_dict(facts["domain"]), column)  # a misprint is told before chains run
    with progress_bar(1, as_json, "draws") as progress, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        summary = posterior(released, progress=progress, **options).summary(asked, column=column, level=level)
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            echo(f"discreet: {warning.message}", err=True)
    if as_json:
        show({"released": released, "column": column, **summary.to_dict()})
    else:
        echo(str(summary))


@click.command()
@click.option("--out", type=click.Path(), default="discreet-demo", show_default=True, help="Folder to write.")
@_json
def demo(out: str, as_json: bool) -> None:
    """Run the main job on real data: 20,190 person-years of doctor visits (RAND health insurance experiment)."""
    from discreet.report import demo as run

    result = run(Path(out), say=lambda text: echo(text, err=as_json))
    if as_json:
        show(result)


def help_without_command(context: click.Context) -> int:
    """Show what commands there are where none was given: click's own answer to that depends on its version."""
    if context.invoked_subcommand is not None:
        return 0
    echo(context.get_help(), err=True)
    return 2


@click.group(invoke_without_command=True)
@click.pass_context
def domain(context: click.Context) -> int:
    """Declare the public facts."""
    return help_without_command(context)


@domain.command("init")
@click.argument("data", type=click.Path())
@click.option("--out", type=click.Path(), help="File to write; standard output by default.")
@_json
def init(data: str, out: str | None, as_json: bool) -> None:
    """Write a template for DATA from column names and types only; it says what is to be filled in."""
    from discreet.confidential._frames import table_schema
    from discreet.domain import Domain

    template, csv = Domain.template(table_schema(data)), data.lower().endswith(".csv")
    if out is not None:
        from discreet._writing import together

        with together(Path(out), inputs=(data,), check=lambda: _require_new(out)) as (file,):
            file.write(template.encode())
    if as_json:
        show({"out": out, "template": template})
    elif out is None:
        echo(template, nl=False)
    else:
        echo(f"wrote {out}: fill in what it asks for; nothing{' else' * csv} in it was read from the rows")
    if csv:
        echo(f"The names are the first line of {data}: see that it is a header and not a record.", err=True)


def _require_new(out: str) -> None:
    if os.path.lexists(out):
        raise FileProblem(out, "it exists already", "give another name: declared facts are not overwritten")


COMMANDS: tuple[click.Command, ...] = (
    release,
    plan,
    privacy,
    calibrate,
    verify,
    compare,
    report,
    estimate,
    demo,
    domain,
)
