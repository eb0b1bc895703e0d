"""The commands: each parses its options, calls one function, and writes the result."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from discreet._core.checks import real
from discreet._core.errors import BudgetError, FileProblem, Infeasible, ParameterError
from discreet._core.text import as_written, counted, harmless
from discreet.cli.audit import audit
from discreet.cli.console import Commands, alarm, echo, in_options, progress_bar, show, tell
from discreet.cli.ledger import dataset_option, json_option, ledger, ledger_option
from discreet.cli.options import accepted, character, located, param_option, parameters, source_options, unit_of

_json = json_option
_param = param_option
_records = click.option(
    "--records", type=int, required=True, help="Number of records that the confidential table holds. Public."
)
_relation = click.option(
    "--relation",
    type=click.Choice(["replacement", "add-remove"]),
    default="replacement",
    show_default=True,
    help="Between which tables the guarantee holds. Only marginals and private-evolution have add-remove.",
)
_domain = click.option(
    "--domain", "domain_file", type=click.Path(), required=True, help="TOML file of the public facts."
)
_some_domain = click.option(
    "--domain",
    "domain_file",
    type=click.Path(),
    help="TOML file of the public facts. Without one, the mechanism is taken for one column of --param cells=...",
)
_reference = click.option(
    "--reference",
    type=click.Path(),
    help="A PUBLIC table that the confidential one is expected to look like. Improves the predictions.",
)
_sampling = click.option(
    "--sampling",
    type=click.Choice(["iid", "stratified"]),
    help="How records are drawn from noisy counts: stratified (the default), with less error, or independently (iid).",
)
_epsilon = click.option("--epsilon", type=float, required=True, help="Privacy budget, at most 100.")
_delta = click.option(
    "--delta",
    type=float,
    default=0.0,
    show_default=True,
    help="Privacy budget: how much probability may escape the bound by epsilon. 0 asks for pure differential privacy.",
)


@click.command()
@click.argument("data", type=click.Path())
@source_options
@_domain
@_epsilon
@_delta
@click.option("--size", type=int, help="Number of records to release. Required, except with --counts.")
@click.option(
    "--tables", type=int, default=1, show_default=True,
    help="Number of tables, for intervals. Several are for marginals, cost no more privacy, and go to the folder OUT.",
)  # fmt: skip
@click.option("--counts", is_flag=True, help="Release estimated counts per cell with standard errors, not records.")
@click.option(
    "--mechanism", help="Registry name. By default the one with the least predicted error, from public facts."
)
@_param
@click.option(
    "--out", type=click.Path(), required=True, help="File to write: .parquet, .csv, ... A folder of --tables."
)
@click.option(
    "--out-separator", metavar="CHARACTER", help="Between the fields of OUT, where it is CSV. By default , or a tab."
)
@click.option("--partitions", type=int, help="Write OUT as a folder of this many Parquet files. It must not exist yet.")
@click.option("--partition-by", help="Column whose declared values get a folder each, with --partitions files.")
@click.option("--workers", type=int, default=1, show_default=True, help="Number of processes that write --partitions.")
@click.option("--certificate", type=click.Path(), help="Its certificate. By default OUT with .certificate.json.")
@click.option("--unit", help="Column that names the person, or other privacy unit, behind the rows.")
@click.option("--max-records", type=int, help="The most records that a unit keeps. The others are cut at random.")
@_sampling
@_reference
@click.option("--ignore-other-columns", is_flag=True, help="Leave out columns that the domain does not name.")
@_relation
@click.option("--records", type=int, help="Number of records, where it is declared: always with --relation add-remove.")
@click.option("--checkpoint", type=click.Path(), help="File that holds the steps of a mechanism that works in steps.")
@click.option("--redraw", is_flag=True, help="Draw other records from a finished --checkpoint. DATA is not asked.")
@ledger_option
@dataset_option
@click.option("--part", help="Name of this release in a plan that was declared in the ledger, which paid for it.")
@click.option("--seed", type=int, help="Make the release reproducible, and mark it as not for publication.")
@click.option("--accept-poor-utility", is_flag=True, help="Accept that over 20 % of the records are not from the data.")
@_json
def release(
    data: str,
    domain_file: str,
    epsilon: float,
    delta: float,
    relation: str,
    records: int | None,
    ledger: str | None,
    dataset: str | None,
    part: str | None,
    as_json: bool,
    pairs: Any,
    **options: Any,
) -> None:
    """Release a synthetic table from the confidential table DATA."""
    from discreet import Budget, Watch
    from discreet._release import release as run
    from discreet.confidential.public import refuse_same

    source = located(data, options)
    refuse_same(source, domain_file)  # before it is read for its ledger
    size, tables = options["size"], options.pop("tables")
    given = {
        "relation": _relation_with(relation, records),
        "unit": unit_of(options),
        "out": _output_of(options),
        "accept": accepted(options),
        "ledger": _ledger_of(ledger, dataset, part, domain_file),
        **({} if (sampling := options.pop("sampling")) is None else {"sampling": sampling}),
        **({} if tables == 1 else {"tables": tables}),
        **options,
        **parameters(pairs),  # sampling may be given either way
    }
    with progress_bar(None if size is None else size * max(1, tables), as_json) as progress:
        watch = Watch(announce=lambda text: tell(text, err=True), progress=progress, stepped=progress)
        made = run(source, domain_file, Budget(epsilon=epsilon, delta=delta), watch=watch, **given)
    facts = made.certificate.facts
    if made.certificate.poor is not None:
        alarm(made.certificate.poor, err=as_json)
    if as_json:
        show(
            {
                "poor": made.certificate.poor,
                "out": str(made.path),
                "certificate": str(made.certificate_path),
                "rows": sum(table.rows for table in made.certificate.tables),
                "mechanism": facts.mechanism.to_dict(),
                "relation": facts.relation.to_dict(),
                "guarantee": facts.guarantee.to_dict(),
                "statement": made.certificate.statement,
                "released": {"outcome": made.certificate.outcome, "share_from_data": facts.released.share_from_data},
                "randomness": facts.randomness,
                **{key: made.info[key] for key in made.info if key != "mechanism"},
            }
        )
        return
    echo(made.certificate.text)
    what = "counts" if facts.size is None else "records"
    written = made.certificate.tables
    of = f"{counted(len(written), 'table')} of " if made.certificate.several else ""
    files = "" if (parts := facts.released.partitions) is None else f" in {counted(parts, 'part')}"
    echo(f"wrote {of}{written[0].rows:,} {what}{files} to {made.path} and the certificate to {made.certificate_path}")
    echo(f"mechanism: {facts.mechanism.name} {_listed(facts.mechanism.parameters)}")
    if made.certificate.seeded:
        echo("This release was seeded: do not publish it.", err=True)


def _relation_with(name: str, records: int | None) -> Any:
    from discreet import AddRemove, Replacement

    if name == "replacement":
        return Replacement(records=records)
    if records is None:
        raise ParameterError("--relation add-remove needs a number of records declared in public. Write --records ...")
    return AddRemove(records=records)


def _output_of(options: dict[str, Any]) -> Any:
    from discreet import Checkpoint, Output
    from discreet._core.formats import DelimitedFile

    path, separator = options.pop("out"), options.pop("out_separator")
    checkpoint, redraw = options.pop("checkpoint"), options.pop("redraw")
    if redraw and checkpoint is None:
        raise ParameterError("--redraw draws from the votes that a checkpoint holds. Name it with --checkpoint")
    return Output(
        path if separator is None else DelimitedFile(path, character(separator)),
        checkpoint=None if checkpoint is None else Checkpoint(checkpoint, redraw=redraw),
        **{name: options.pop(name) for name in ("certificate", "partitions", "partition_by", "workers")},
    )


def _ledger_of(ledger: str | None, dataset: str | None, part: str | None, domain_file: str) -> Any:
    from discreet.ledger.outlook import ledger_for

    found = ledger_for(ledger, domain_file, dataset=dataset)
    if part is None:
        return found
    if found is None:
        raise ParameterError("a part of a plan is released with the ledger that it was declared in. Write ledger=...")
    return found.part(part)


@click.command()
@click.option("--domain", "domain_file", type=click.Path(), help="TOML file of the public facts. Required for one.")
@click.option("--records", type=int, help="Number of records that the confidential table holds. Public.")
@_epsilon
@_delta
@click.option("--size", type=int, help="Number of records to release. By default --records.")
@click.option(
    "--max-records",
    type=int,
    default=1,
    show_default=True,
    help="The most records that a privacy unit keeps. --records must then be the number of units times it.",
)
@_sampling
@_reference
@click.option(
    "--together", type=click.Path(),
    help="TOML file of several releases of one table ([[release]] with name, domain, records, and if wanted size, "
    "mechanism, parameters, share, max_records). They are calibrated together, and satisfy the budget together.",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(), help="With --together: JSON file to write, which a ledger takes as one entry."
)
@click.option(
    "--html", type=click.Path(), help="Page to write (.html): what several epsilons around --epsilon would buy."
)
@click.option(
    "--ledger", type=click.Path(), help="With --html: ledger of the table. The page shows what would be left."
)
@dataset_option
@_json
def plan(
    domain_file: str | None,
    records: int | None,
    together: str | None,
    out: str | None,
    html: str | None,
    ledger: str | None,
    dataset: str | None,
    max_records: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Compare the mechanisms for a budget. Only public facts are used: no data is read."""
    from discreet import Budget, Unit
    from discreet.planner import plan as run
    from discreet.planner.options import UNIT, wrapped

    if together is not None:
        page = {"html": html, "ledger": ledger, "dataset": dataset}
        others = {"domain": domain_file, "records": records, **options, **page, "max-records": max_records - 1 or None}
        _plan_together(together, out, as_json, others)
        return
    if domain_file is None or records is None:
        raise ParameterError("a plan of one release needs --domain and --records. For several give --together")
    if out is not None:
        raise ParameterError("--out is for --together. Leave it out")
    if html is None and (ledger or dataset) is not None:
        raise ParameterError("--ledger and --dataset are for --html. Leave them out")
    with progress_bar(1, as_json, "mechanisms") as progress:
        budget = Budget(epsilon=options.pop("epsilon"), delta=options.pop("delta"))
        unit = None if max_records == 1 else Unit(UNIT, max_records=max_records)
        given = {name: value for name, value in options.items() if value is not None}
        made = run(domain_file, budget, records=records, unit=unit, progress=progress, **given)
    if html is not None:
        with progress_bar(1, as_json, "plans at all budgets", after=2.0) as progress:
            made.write_page(html, ledger=ledger, dataset=dataset, progress=progress)
    if as_json:
        show({**made.to_dict(), **({} if html is None else {"html": html})})
        return
    for line in wrapped([in_options(sentence, release) for sentence in made.verdict]):
        alarm(line)
    echo(in_options(made.text, release))
    if html is not None:
        echo(f"wrote {html}")


def _plan_together(study: str, out: str | None, as_json: bool, others: dict[str, Any]) -> None:
    """Plan several releases, print them, and write them where a file is named."""
    from discreet._core.files import together
    from discreet.planner.options import wrapped
    from discreet.planner.study import plan_together, read_study, written
    from discreet.privacy import Budget

    budget = Budget(epsilon=others.pop("epsilon"), delta=others.pop("delta"))
    if given := [f"--{name}" for name, value in others.items() if value is not None]:
        raise ParameterError(f"with --together, {given[0]} stands in the file. Leave it out here")
    requests, shares = read_study(study)
    made = plan_together(requests, budget, shares=shares)
    if out is not None:
        with together(Path(out), inputs=(study,), check=lambda: _require_new(out)) as (file,):
            file.write(written(made.to_dict()))
    if as_json:
        show({"out": out, "verdict": made.verdict, **made.to_dict()})
        return
    for line in wrapped([in_options(sentence, release) for sentence in made.verdict]):
        alarm(line)
    echo(made.text(shares))
    if out is not None:
        echo(f"wrote {out}")


@click.command()
@click.argument("mechanism")
@_records
@click.option("--size", type=int, help="Number of records released. Only needed where the guarantee depends on it.")
@_param
@_relation
@click.option("--epsilon", type=float, help="Compute the delta at this epsilon.")
@click.option("--delta", type=float, help="Compute the epsilon at this delta.")
@click.option(
    "--data",
    type=click.Path(),
    help="CONFIDENTIAL table. Also print its instance-level deltas: what a release reveals of this table.",
)
@source_options
@_some_domain
@ledger_option
@dataset_option
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
    ledger: str | None,
    dataset: str | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Compute the exact guarantee of a MECHANISM from its public parameters.

    With --data and --domain, also compute the instance-level deltas, and the parameters that the papers would choose by
    looking at the table (empirical-Bayes strength). They are as confidential as the table.
    """
    from discreet.confidential.public import refuse_same
    from discreet.mechanisms import stated

    if epsilon is not None:
        real("epsilon", epsilon, least=0, error=BudgetError)
    if (epsilon is None) == (delta is None):
        raise ParameterError("give either --epsilon or --delta. The other one is computed")
    if data is not None:
        if relation != "replacement":
            raise ParameterError("--data is for --relation replacement only. Leave one of them out")
        source = located(data, reading)
        if domain_file is not None:
            refuse_same(source, domain_file)  # before it is read for its ledger
            _note(ledger, dataset, domain_file, mechanism)
        _instance(
            mechanism, source, domain_file, records=records, size=size, epsilon=epsilon, pairs=pairs, as_json=as_json
        )
        return
    made, guarantee = stated(
        mechanism, records=records, size=size, relation=relation, domain=_read(domain_file), **parameters(pairs)
    )
    if epsilon is None:
        epsilon = guarantee.epsilon(delta or 0.0)
        if math.isinf(epsilon):
            raise Infeasible(
                f"delta {as_written(delta or 0.0)} with {mechanism}", {"delta >=": guarantee.delta(math.inf)}
            )
    else:
        delta = guarantee.delta(epsilon)
    asked = {"mechanism": mechanism, "records": records, "size": size, "parameters": made.parameters()}
    asked |= {"epsilon": epsilon, "delta": delta}
    _state({**asked, **_promise(guarantee)}, as_json)


def _note(ledger: str | None, dataset: str | None, domain_file: str, mechanism: str) -> None:
    """Keep in mind, where there is a ledger, that the custodian looks at the table."""
    from discreet.ledger.outlook import ledger_for

    keeper = ledger_for(ledger, domain_file, dataset=dataset)
    if keeper is not None:
        keeper.note("instance-level report", {"mechanism": {"name": mechanism}})


def _instance(
    mechanism: str,
    data: str | os.PathLike[str] | None,
    domain_file: str | None,
    *,
    epsilon: float | None,
    pairs: Any,
    as_json: bool,
    **n: Any,
) -> None:
    """Print a mechanism's guarantee and, marked as confidential, what its release of a table reveals of that table."""
    from discreet.audit import instance_guarantee
    from discreet.audit.instance import paper_choices
    from discreet.confidential import confidential
    from discreet.confidential.custodian import reveal_to_custodian
    from discreet.confidential.public import public_domain
    from discreet.mechanisms import stated

    if data is None or domain_file is None or epsilon is None:
        raise ParameterError("instance-level deltas need --data, --domain and --epsilon. Give all three")
    given = parameters(pairs)
    if "group" in given:
        raise ParameterError("do not pass group. It comes from the table")
    declared = public_domain(domain_file, data=data)
    made, guarantee = stated(mechanism, domain=declared, **n, **given)
    closed = confidential(data, declared, accept={"other-columns"})
    found = reveal_to_custodian(instance_guarantee(closed, made, epsilon=epsilon, n=n["records"]))
    chosen = reveal_to_custodian(paper_choices(closed, epsilon=epsilon, size=n["size"]))
    marked = {"confidential": True, "instance": found.to_dict(), "paper_choices": chosen.to_dict()} if as_json else {}
    asked = {"mechanism": mechanism, **n, "parameters": made.parameters()}
    asked |= {"epsilon": epsilon, "delta": guarantee.delta(epsilon)}
    _state({**asked, **_promise(guarantee), **marked}, as_json)
    if not as_json:
        echo(str(found))
        echo(str(chosen))


@click.command()
@click.argument("mechanism")
@_records
@_epsilon
@_delta
@click.option(
    "--size", type=int, help="Number of records released. By default, solved for where the guarantee depends on it."
)
@_param
@_relation
@_some_domain
@_json
def calibrate(mechanism: str, domain_file: str | None, pairs: Any, as_json: bool, **asked: Any) -> None:
    """Solve for the free parameter of a MECHANISM that meets a budget."""
    from discreet.mechanisms import solved

    made, guarantee, free = solved(mechanism, domain=_read(domain_file), **asked, **parameters(pairs))
    epsilon, size = float(asked["epsilon"]), getattr(made, "size", asked["size"])
    numbers = {"mechanism": mechanism, "records": guarantee.n, "size": size}
    numbers |= {"parameters": made.parameters(), "solved": free}
    numbers |= {"epsilon": epsilon, "delta": guarantee.delta(epsilon)}
    _state({**numbers, **_promise(guarantee)}, as_json)


def _read(domain_file: str | None) -> Any:
    from discreet.domain import Domain

    return None if domain_file is None else Domain.read(domain_file)


def _promise(guarantee: Any) -> dict[str, Any]:
    words = {key: list(map(str, getattr(guarantee, key))) for key in ("assumptions", "caveats")}
    return {**guarantee.to_dict(), **words, "relation": guarantee.relation.name, "group": guarantee.relation.group}


def _state(facts: dict[str, Any], as_json: bool) -> None:
    """Print facts as JSON, or a line each: numbers with all their digits, what is not known left out."""
    if as_json:
        show(facts)
        return
    for name, value in facts.items():
        for one in value if isinstance(value, list) else [value]:
            if one not in (None, {}):
                echo(f"{name.replace('_', ' ')}: {_written(one)}")


def _listed(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in parameters.items())


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return _listed(value)
    return as_written(value) if isinstance(value, float) else str(value)


@click.command()
@click.argument("certificate", type=click.Path())
@click.option("--data", type=click.Path(), help="The released file. Also check its hash, rows and columns.")
@click.option(
    "--recover",
    "settle",
    is_flag=True,
    help="First end an interrupted write: finish or undo it. With --data also across folders.",
)
@click.option("--seconds", type=float, default=60.0, show_default=True, help="Time limit for recomputing the claims.")
@_json
def verify(certificate: str, data: str | None, settle: bool, seconds: float, as_json: bool) -> int:
    """Recompute everything that a CERTIFICATE claims. The exit status is 1 where anything disagrees.

    CERTIFICATE is the file beside a release, or the folder of a release in parts or of several tables. The files in a
    folder are checked too.
    """
    from discreet.releases import verify as run

    if settle:
        from discreet._core.files import recover

        recover(*map(Path, filter(None, (data, certificate))))
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
            f"Claims that disagree: {len(wrong)} of {len(checks)}. Do not rely on this certificate."
            if wrong
            else f"All {len(checks)} claims agree"
            + ("." if compared else ". The released file was not checked: give it as --data.")
        )
    return 1 if wrong else 0


@click.command()
@click.argument("data", type=click.Path())
@click.argument("released", type=click.Path())
@source_options
@_domain
@click.option(
    "--measures",
    help="Measures to add to those of bootstrap samples: all, or names such as w1,ks,transport,pmse.",
)
@click.option(
    "--holdout",
    type=click.Path(),
    help="CONFIDENTIAL holdout: a table of the same population that the release was not made from.",
)
@click.option("--sensitive", help="Column to attack: how often is it found for a record of which others are known?")
@click.option("--known", help="Columns known of a record, such as age,region. By default all but --sensitive.")
@click.option("--resamples", type=int, default=100, show_default=True, help="Number of bootstrap samples.")
@_json
def compare(
    data: str, released: str, domain_file: str, measures: str | None, known: str | None, as_json: bool, **options: Any
) -> None:
    """Compare a RELEASED table with the confidential DATA. The result is confidential."""
    from discreet.confidential.custodian import reveal_to_custodian
    from discreet.confidential.public import public_domain
    from discreet.utility import compare as run

    names, source = _names(measures), located(data, options)
    declared = public_domain(domain_file, data=source)
    comparison = reveal_to_custodian(run(source, released, declared, measures=names, known=_columns(known), **options))
    if as_json:
        show(comparison.to_dict())
    else:
        echo(str(comparison))


def _columns(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(",")]


def _names(measures: str | None) -> Any:
    return measures if measures == "all" else _columns(measures)


@click.command()
@click.argument("released", type=click.Path())
@click.option("--certificate", type=click.Path(), help="Its certificate. By default RELEASED with .certificate.json.")
@click.option(
    "--also",
    type=click.Path(),
    multiple=True,
    help="Certificate of another release of the same table. May be repeated.",
)
@click.option(
    "--ledger", type=click.Path(), help="Ledger that paid for it. Shows what all its releases promise together."
)
@click.option("--dataset", help="Name of the data set in --ledger. By default that of the certificate.")
@click.option("--data", type=click.Path(), help="CONFIDENTIAL table to compare with. The report is then confidential.")
@click.option("--domain", "domain_file", type=click.Path(), help="TOML file of the public facts of --data.")
@click.option("--measures", default="w1,ks,tv", show_default=True, help="Measures to compare by, as in compare.")
@click.option("--resamples", type=int, default=100, show_default=True, help="Number of bootstrap samples of --data.")
@click.option("--holdout", type=click.Path(), help="CONFIDENTIAL records that the release was not made from.")
@click.option("--sensitive", help="Column to attack, as in compare: how often is it found for a known record?")
@click.option("--known", help="Columns known of a record, such as age,region. By default all but --sensitive.")
@click.option("--out", type=click.Path(), required=True, help="File to write: .html.")
@_json
def report(
    released: str,
    out: str,
    domain_file: str | None,
    measures: str,
    known: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Write what a RELEASED table promises as one HTML page.

    The exit status is 1 where a certificate is not confirmed.
    """
    from discreet.report import write_report

    made = write_report(released, out, domain=domain_file, measures=_names(measures), known=_columns(known), **options)
    wrong = sum(not check.agrees for check in made.checks)
    if as_json:
        show({"out": str(made.path), "confidential": made.confidential, "agrees": made.agrees})
    else:
        echo(f"wrote {made.path}" + (
            ": CONFIDENTIAL, since it contains numbers computed from the private data" if made.confidential else ""
        ))  # fmt: skip
        if wrong:
            echo(f"Claims that disagree: {wrong} of {len(made.checks)}. Do not rely on this release.", err=True)
    return 1 if wrong else 0


@click.command()
@click.argument("released", type=click.Path())
@click.option("--as", "form", type=click.Choice(["croissant", "dcat"]), required=True, help="Standard to follow.")
@click.option("--certificate", type=click.Path(), help="Its certificate. By default RELEASED with .certificate.json.")
@click.option("--title", help="Title in the catalogue. By default the name of RELEASED.")
@click.option("--url", help="Address of the folder that will hold RELEASED. By default addresses are relative.")
@click.option("--license", "licence", help="Address of the licence that RELEASED is published under.")
@click.option("--publisher", help="Who publishes RELEASED.")
@click.option("--out", type=click.Path(), help="File to write, beside RELEASED. By default standard output.")
@_json
def describe(released: str, form: str, certificate: str | None, out: str | None, as_json: bool, **said: Any) -> None:
    """Describe a RELEASED table for data catalogues, with its promise: Croissant or DCAT-AP, in JSON-LD.

    It holds nothing but public facts, and is written only if all claims of the certificate are confirmed.
    """
    from discreet.report.catalogue import as_text, write_description
    from discreet.report.catalogue import describe as run

    document = run(released, form, certificate=certificate, **said)
    if out is not None:
        write_description(released, out, document, inputs=(certificate,))
    missing = [f"--{name.replace('licence', 'license')}" for name in ("url", "licence", "publisher") if not said[name]]
    if missing:
        echo(f"Catalogues also ask for {', '.join(missing)}.", err=True)
    if out is None:
        click.echo(as_text(document), nl=False)
    elif as_json:
        show({"out": out})
    else:
        echo(f"wrote {out}")


@click.command()
@click.argument("released", type=click.Path())
@click.option("--column", help="Column to estimate. Not needed where there is only one.")
@click.option(
    "--functional",
    "functionals",
    multiple=True,
    required=True,
    help="mean, variance, sd, qNN, P(>a), P(<a), P(a..b) or P(=a), or several with commas. May be repeated.",
)
@click.option("--by", help="Column of groups. The numbers are then those within each group, one row per group.")
@click.option("--level", type=float, default=0.95, show_default=True, help="Probability of the intervals.")
@click.option("--certificate", type=click.Path(), help="Its certificate. By default RELEASED with .certificate.json.")
@click.option(
    "--strength", type=float, help="Weight of the prior, in records. By default that of an urn, otherwise a tree."
)
@click.option("--draws", type=click.IntRange(2), default=1000, show_default=True, help="Number of posterior draws.")
@click.option(
    "--of",
    type=click.Choice(["population", "table"]),
    default="population",
    show_default=True,
    help="Who the numbers are about: the population, or the confidential records themselves.",
)
@click.option(
    "--within",
    type=click.Choice(["bounds", "process", "even"]),
    default="bounds",
    show_default=True,
    help="What is known of the values within a cell: nothing, a prior, or that they are spread evenly.",
)
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="Seed of the draws. It needs no secrecy: everything read here is public.",
)
@_json
def estimate(
    released: str,
    column: str | None,
    functionals: tuple[str, ...],
    by: str | None,
    level: float,
    certificate: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Estimate numbers of the population, with credible intervals, from a RELEASED table alone."""
    import re
    import warnings

    from discreet.inference.functionals import groups_of
    from discreet.inference.population import known_functionals
    from discreet.releases.reading import read

    asked = [part.strip() for text in functionals for part in re.split(r",(?![^(]*\))", text)]
    release = read(released, certificate)
    known_functionals(asked, release.domain, column)  # a misprint is told before anything is drawn
    if by is not None:
        groups_of(release.domain, by)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if release.certificate.several:
            summary = release.estimate(asked, column=column, by=by, level=level)
        else:
            summary = release.posterior(**options).summary(asked, column=column, by=by, level=level)
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            tell(f"discreet: {warning.message}", err=True)
    if as_json:
        show({"released": released, "column": column, **summary.to_dict()})
    else:
        echo(str(summary))


@click.command()
@click.argument("released", type=click.Path())
@click.option("--level", type=float, default=0.95, show_default=True, help="Probability of the intervals.")
@click.option("--certificate", type=click.Path(), help="Its certificate. By default RELEASED with .certificate.json.")
@_json
def unseen(released: str, level: float, certificate: str | None, as_json: bool) -> None:
    """Estimate what a RELEASED table of an urn does not show, from the release alone.

    How many distinct values the confidential records have that were not released, the probability that the next person
    has a value that nobody has (missing mass), the probability that the next released record is of a new value
    (discovery probability), and the strength and discount of the process that the population comes from.
    """
    from discreet.inference.missing_mass import all_unseen

    found, notes = all_unseen(released, certificate, level=level)
    if as_json:
        show({"released": released, "level": level, "unseen": {of: asdict(one) for of, one in found.items()},
              "notes": list(notes)})  # fmt: skip
        return
    for of, one in found.items():
        echo(f"{of}: {one}")
    for note in notes:
        alarm(note)
    for note in dict.fromkeys(one.rests_on for one in found.values()):
        echo(f"- {note}")


@click.command()
@click.option("--out", type=click.Path(), default="discreet-demo", show_default=True, help="Folder to write into.")
@_json
def demo(out: str, as_json: bool) -> None:
    """Release, estimate, verify and report on real data: ten columns of the RAND health insurance experiment."""
    from discreet.report.demo import demo as run

    result = run(Path(out), say=lambda text: echo(text, err=as_json))
    if as_json:
        show(result)


def help_without_command(context: click.Context) -> int:
    """Show what commands there are where none was given: click's own answer to that depends on its version."""
    if context.invoked_subcommand is not None:
        return 0
    echo(context.get_help(), err=True)
    return 2


@click.group(cls=Commands, invoke_without_command=True)
@click.pass_context
def domain(context: click.Context) -> int:
    """Declare the public facts about a table."""
    return help_without_command(context)


@domain.command("init")
@click.argument("data", type=click.Path())
@source_options
@click.option("--out", type=click.Path(), help="File to write. By default standard output.")
@_json
def init(data: str, out: str | None, as_json: bool, **reading: Any) -> None:
    """Write a template for DATA from its column names and types alone. It says what you must fill in."""
    from discreet._core.formats import format_of
    from discreet.confidential.values import table_schema
    from discreet.domain import Domain

    form, source = format_of(data), located(data, reading)
    template, csv = Domain.template(table_schema(source)), form is not None and form.texts
    if out is not None:
        from discreet._core.files import together

        with together(Path(out), inputs=(source,), check=lambda: _require_new(out)) as (file,):
            file.write(template.encode())
    if as_json:
        show({"out": out, "template": template})
    elif out is None:
        echo(template, nl=False)
    else:
        echo(f"wrote {out}. Fill in what it asks for. Nothing{' else' * csv} in it was read from the rows.")
    if csv:
        echo(f"The names are the first line of {data}. Check that it is a header and not a record.", err=True)


@domain.command("check")
@click.argument("data", type=click.Path())
@source_options
@_domain
@click.option("--unit", help="Column that names the person, or other privacy unit, behind the rows.")
@click.option("--max-records", type=int, help="The most records that a unit keeps. Rows beyond are counted.")
@click.option("--ignore-other-columns", is_flag=True, help="Leave out columns that the domain does not name.")
@click.option(
    "--examples", type=click.IntRange(0), default=5, show_default=True,
    help="Number of values to show per finding. 0 shows counts only.",
)  # fmt: skip
@_json
def check(data: str, domain_file: str, as_json: bool, **options: Any) -> int:
    """List everything in the confidential table DATA that does not fit the domain, before a release is made.

    The result is CONFIDENTIAL: it shows values. The exit status is 1 where anything does not fit.
    """
    from discreet.confidential import check_table, reveal_to_custodian
    from discreet.confidential.public import public_domain

    source = located(data, options)
    asked = {"unit": unit_of(options), "accept": accepted(options), **options}
    found = reveal_to_custodian(check_table(source, public_domain(domain_file, data=source), **asked))
    if as_json:
        show(found.to_dict())
    else:
        tell(str(found))
    return 0 if found.fits else 1


def _require_new(out: str) -> None:
    if os.path.lexists(out):
        raise FileProblem(out, "it exists already, and declared facts are not overwritten", "give another name")


COMMANDS: tuple[click.Command, ...] = (
    release,
    plan,
    privacy,
    calibrate,
    verify,
    compare,
    report,
    describe,
    estimate,
    unseen,
    demo,
    domain,
    ledger,
    audit,
)
