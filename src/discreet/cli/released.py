"""The commands that read what was released: verify, compare, report, describe, estimate, unseen, demo, audit."""

from __future__ import annotations

import re
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

import discreet
from discreet._core.errors import ParameterError
from discreet._core.text import about, as_written, comma_items, counted, harmless, percent, rounded_down, rounded_up
from discreet.cli import options as common
from discreet.cli.console import Commands, alarm, answer, echo, progress_bar, show, tell
from discreet.cli.options import PATH, RELATIONS, SOURCE, command, confidential, inference, option, releases, shared

_BETWEEN = r",\s*(?=(?:mean|variance|sd|q[\d.]+)\s*(?:,|$)|P\()"  # functionals; a label may hold a comma


@command("certificate")
@option("--data", PATH, "The released file. Also check its hash, rows, columns and values.")
@option("--recover settle", bool, "First end an interrupted write: finish or undo it. With --data also across folders.")
@option("--seconds", float, "Time limit for recomputing the claims.", default=60.0)
def verify(certificate: str, data: str | None, settle: bool, seconds: float, as_json: bool) -> int:
    """Recompute everything that a CERTIFICATE claims. The exit status is 1 where anything disagrees.

    CERTIFICATE is the file beside a release, or the folder of a release in parts or of several tables. The files in a
    folder are checked too.
    """
    if settle:
        from discreet._core.files import recover

        recover(*map(Path, filter(None, (data, certificate))))
    checks = discreet.verify(certificate, data=data, seconds=seconds)
    compared = data is not None or Path(certificate).is_dir()
    wrong = [check for check in checks if not check.agrees]
    stated = [check.what for check in checks if check.stated]
    if as_json:
        keys = ("what", "agrees", "stated", "claimed", "found", "erratum")
        shown = [{key: getattr(check, key) for key in keys} for check in checks]
        show({"agrees": not wrong, "data_checked": compared, "checks": shown})
    elif wrong:
        for check in wrong:
            echo(f"{harmless(check.what)}: the certificate says {check.claimed!r}, recomputed {check.found!r}")
        for erratum in dict.fromkeys(check.erratum for check in wrong if check.erratum is not None):
            echo(erratum)
        verdict = "Do not rely on this certificate."
        if [check.found for check in wrong] == [releases.SAME_ROWS]:
            verdict = "The rows are those that were released. Get the file as it was written."
        echo(f"Claims that disagree: {len(wrong)} of {len(checks) - len(stated)}. {verdict}")
    else:
        unchecked = "" if compared else " The released file was not checked: give it as --data."
        echo(f"All {len(checks) - len(stated)} claims agree.{unchecked}")
    if stated and not as_json:
        echo(harmless(f"Stated, not checked: {', '.join(stated)}."))
    return int(bool(wrong))


@command("data", "released")
@shared(*SOURCE, "domain")
@option("--measures", comma_items, "Measures to add to those of bootstrap samples: all, or names such as "
        "w1,ks,transport,pmse.", metavar="TEXT")  # fmt: skip
@option("--holdout", PATH, "CONFIDENTIAL holdout: a table of the same population that the release was not made from.")
@option("--sensitive", str, "Column to attack: how often is it found for a record of which others are known?")
@shared("known")
@option("--resamples", int, "Number of bootstrap samples.", default=100)
def compare(data: str, released: str, domain_file: str, as_json: bool, **options: Any) -> None:
    """Compare a RELEASED table with the confidential DATA. The result is confidential."""
    from discreet.utility import compare as run

    source = common.located(data, options)
    domain = confidential.public_domain(domain_file, data=source)
    comparison = confidential.reveal_to_custodian(run(source, released, domain, **options))
    answer(as_json, comparison.to_dict(), str(comparison))


@command("released")
@shared("certificate")
@option("--also", PATH, "Certificate of another release of the same table. May be repeated.", multiple=True)
@option("--ledger", PATH, "Ledger that paid for it. Shows what all its releases promise together.")
@option("--dataset", str, "Name of the data set in --ledger. By default that of the certificate.")
@option("--data", PATH, "CONFIDENTIAL table to compare with, or folder of tables. The report is then confidential.")
@shared(*SOURCE)
@option("--domain domain_file", PATH, "TOML file of the public facts of --data.")
@option("--measures", comma_items, "Measures to compare by, as in compare.", default="w1,ks,tv", metavar="TEXT")
@option("--resamples", int, "Number of bootstrap samples of --data.", default=100)
@option("--holdout", PATH, "CONFIDENTIAL records that the release was not made from.")
@option("--sensitive", str, "Column to attack, as in compare: how often is it found for a known record?")
@shared("known")
@option("--out", PATH, "File to write: .html.", required=True)
def report(released: str, out: str, domain_file: str | None, data: str | None, as_json: bool, **options: Any) -> int:
    """Write what a RELEASED table promises as one HTML page.

    The exit status is 1 where a certificate is not confirmed.
    """
    if data is None and (options["table"] or options["query"]):
        raise ParameterError("--table and --query choose a table of --data. Add --data")
    source = common.located(data or "", options) or None
    page = common.report.write_report(released, out, domain=domain_file, data=source, **options)
    wrong = sum(not check.agrees for check in page.checks)
    warning = ": CONFIDENTIAL, since it contains numbers computed from the private data" if page.confidential else ""
    document = {"out": str(page.path), "confidential": page.confidential, "agrees": page.agrees}
    answer(as_json, document, f"wrote {page.path}{warning}")
    if wrong and not as_json:
        echo(f"Claims that disagree: {wrong} of {len(page.checks)}. Do not rely on this release.", err=True)
    return int(bool(wrong))


@command("released")
@option("--as standard", ["croissant", "dcat"], "Standard to follow.", required=True)
@shared("certificate")
@option("--title", str, "Title in the catalogue. By default the name of RELEASED.")
@option("--url", str, "Address of the folder that will hold RELEASED. By default addresses are relative.")
@option("--license licence", str, "Address of the licence that RELEASED is published under.")
@option("--publisher", str, "Who publishes RELEASED.")
@option("--out", PATH, "File to write, beside RELEASED. By default standard output.")
def describe(
    released: str, standard: str, certificate: str | None, out: str | None, as_json: bool, **facts: Any
) -> None:
    """Describe a RELEASED table for data catalogues, with its promise: Croissant or DCAT-AP, in JSON-LD.

    It holds nothing but public facts, and is written only if all claims of the certificate are confirmed.
    """
    document = common.report.describe(released, standard, certificate=certificate, **facts)
    if out is not None:
        common.report.write_description(released, out, document, inputs=(certificate,))
    required = {"--url": "url", "--license": "licence", "--publisher": "publisher"}
    missing = [name for name, fact in required.items() if not facts[fact]]
    if missing:
        echo(f"Catalogues also ask for {', '.join(missing)}.", err=True)
    if out is None:
        click.echo(common.report.as_text(document), nl=False)
    else:
        answer(as_json, {"out": out}, f"wrote {out}")


@command("released")
@option("--column", str, "Column to estimate. Not needed where there is only one.")
@option("--functional functionals", str, "mean, variance, sd, qNN, P(>a), P(<a), P(a..b) or P(=a), or several with "
        "commas. May be repeated.", multiple=True, required=True)  # fmt: skip
@option("--by", str, "Column of groups. The numbers are then those within each group, one row per group.")
@shared("level", "certificate")
@option("--strength", float, "Weight of the prior, in records. By default that of an urn, otherwise a tree.")
@option("--draws", click.IntRange(2), "Number of posterior draws.", default=1000)
@option("--of", ["population", "table"], "Who the numbers are about: the population, or the confidential records "
        "themselves.", default="population")  # fmt: skip
@option("--within", ["bounds", "process", "even"], "What is known of the values within a cell: nothing, a prior, or "
        "that they are spread evenly.", default="bounds")  # fmt: skip
@option("--seed", int, "Seed of the draws. It needs no secrecy: everything read here is public.", default=0)
def estimate(
    released: str, functionals: tuple[str, ...], certificate: str | None, as_json: bool, **options: Any
) -> None:
    """Estimate numbers of the population, with credible intervals, from a RELEASED table alone."""
    names = [part.strip() for text in functionals for part in re.split(_BETWEEN, text)]
    numbers = {name: options.pop(name) for name in ("column", "by", "level")}
    release = discreet.read(released, certificate)
    several, context = release.certificate.several, click.get_current_context()
    given = [name for name in options if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE]
    if several and given:
        raise ParameterError(f"several tables are combined by a rule that has no --{given[0]}. Leave it out")
    if not several:  # a misprint is told before anything is drawn
        inference.known_functionals(names, release.domain, numbers["column"])
        if numbers["by"] is not None:
            inference.groups_of(release.domain, numbers["by"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with progress_bar(1, as_json, "steps", after=2.0) as progress:
            if several:
                summary = release.estimate(names, **numbers, progress=progress)
            else:
                summary = release.posterior(**options, progress=progress).summary(names, **numbers)
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            tell(f"discreet: {warning.message}", err=True)
    answer(as_json, {"released": released, "column": numbers["column"], **summary.to_dict()}, str(summary))


@command("released")
@click.argument("formula")
@option("--kind", ["linear", "logistic"], "The model. By default logistic where the outcome has two values.")
@shared("level", "certificate")
def regress(released: str, formula: str, certificate: str | None, as_json: bool, **options: Any) -> None:
    """Estimate a regression in the population, such as "wage ~ age + C(sex)", from a RELEASED table alone."""
    with progress_bar(1, as_json, "steps", after=2.0) as progress:
        summary = discreet.read(released, certificate).regress(formula, **options, progress=progress)
    answer(as_json, {"released": released, "formula": formula, **summary.to_dict()}, str(summary))


@command("file")
@option("--no-browser", bool, "Only print the address.")
def app(file: str, no_browser: bool, as_json: bool) -> None:
    """Show a local page: to declare, plan and release a confidential table, or to read what was released.

    FILE is a table, a folder of two tables of one domain, or a release. Close the page, or press Ctrl-C, to end.
    """
    from discreet.app import serve

    serve(file, open_browser=not no_browser, say=lambda text: echo(text, err=as_json))


@command("released")
@shared("level", "certificate")
def unseen(released: str, level: float, certificate: str | None, as_json: bool) -> None:
    """Estimate what a RELEASED table of an urn does not show, from the release alone.

    How many distinct values the confidential records have that were not released, the probability that the next person
    has a value that nobody has (missing mass), the probability that the next released record is of a new value
    (discovery probability), and the strength and discount of the process that the population comes from.
    """
    estimates, notes = inference.all_unseen(released, certificate, level=level)
    if as_json:
        numbers = {name: asdict(estimate) for name, estimate in estimates.items()}
        show({"released": released, "level": level, "unseen": numbers, "notes": list(notes)})
        return
    for name, estimate in estimates.items():
        echo(f"{name}: {estimate}")
    for note in notes:
        alarm(note)
    for note in dict.fromkeys(estimate.rests_on for estimate in estimates.values()):
        echo(f"- {note}")


@command()
@option("--out", PATH, "Folder to write into.", default="discreet-demo")
def demo(out: str, as_json: bool) -> None:
    """Release, estimate, verify and report on real data: ten columns of the RAND health insurance experiment."""
    result = common.report.demo(Path(out), say=lambda text: echo(text, err=as_json))
    if as_json:
        show(result)


audit = Commands("audit", help="Examine a release, or what makes one. The results are for the custodian alone.")


@command("data", group=audit)
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
    control = common.audit.split(data, **options)
    numbers = {name: control.facts[name] for name in ("records", "control_records", "commitment")}
    control_size, rest_size = counted(numbers["control_records"], "record"), f"{numbers['records']:,}"
    if control.unit is not None:
        control_size += f" of {counted(control.facts['control_units'], 'unit')}"
        rest_size += f" of {control.facts['units']:,}"
    answer(
        as_json,
        {**options, **numbers},
        f"drew {control_size} as the control and kept {rest_size}.",
        f"commitment: {control.commitment}",
        "The three files are confidential. The commitment is not: it may be told before the release is made.",
    )


@command("released", group=audit)
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
    promised = common.audit.claimed(released, **claim)
    closed = common.audit.audit_release(released, data, control, promised, record=record, level=level)
    result = confidential.reveal_to_custodian(closed)
    *lines, verdict = str(result).splitlines()
    answer(as_json, result.to_dict(), "\n".join(lines))
    if not as_json:
        (alarm if result.rejected else echo)(verdict)
    return int(bool(result.rejected))


@command(group=audit)
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
    result = common.audit.examined(mechanism, **common.parameters(options), **options)
    answer(as_json, result.to_dict(), str(result))
    return int(bool(result.rejected))


@command(group=audit)
@click.argument("mechanism")
@option("--epsilon", float, "Privacy budget that it is calibrated for.", default=1.0)
@option("--delta", float, "Privacy budget that it is calibrated for.", default=0.0)
@option("--records", int, "Number of records of the tables.", default=10)
@option("--size", int, "Number of records released.", default=2)
@shared("param")
@option("--tables", int, "Random tables.", default=20)
@option("--releases", int, "Releases of each table.", default=50)
@option("--seed", int, "Seed of tables and releases.", default=0)
def density_ratio(mechanism: str, as_json: bool, delta: float, size: int, **options: Any) -> int:
    """Look for a broken promise of a MECHANISM in ratios of densities (Algorithm 2 of BNP24).

    It can refute a promise and never prove one. The exit status is 1 where it does. No table of yours is read.
    """
    facts = {"budget": discreet.Budget(epsilon=options["epsilon"], delta=delta), "records": options["records"]}
    calibrated = common.mechanisms.solved(mechanism, size=size, **facts, **common.parameters(options))[0]
    check = common.audit.density_ratio(calibrated, **options)
    lines = [
        f"promised: delta {rounded_up(check.promised, 6)} at epsilon {as_written(check.epsilon)}",
        f"ratios above exp(epsilon): {percent(check.larger)}, infinite: {percent(check.infinite)}",
        f"the largest finite ratio: exp({about(check.largest)})",
        f"the worst pair of tables: delta at least {rounded_down(check.at_least, 6)}",
        "rejected" if check.rejected else "not rejected",
    ]
    answer(as_json, {"mechanism": mechanism, **asdict(check)}, "\n".join(lines))
    return int(check.rejected)


@command("first", "second", group=audit, context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@option("--work", PATH, "New folder for all that the runs write. CONFIDENTIAL.", required=True)
@option("--runs", int, "Runs on each of the two files.", default=5)
def pipeline(first: str, second: str, command: tuple[str, ...], work: str, runs: int, as_json: bool) -> int:
    """Run a COMMAND on two files that differ in one record, and compare all that can be seen but the released values.

    Write the COMMAND after --, with {data} where the file stands, {here} for the folder where you are, and relative
    paths for what it writes. The exit status is 1 where anything tells the two files apart. The result is
    CONFIDENTIAL.
    """
    observations = common.audit.audit_pipeline(first, second, command, work=work, runs=runs)
    result = confidential.reveal_to_custodian(observations)
    answer(as_json, result.to_dict(), str(result))
    return int(bool(result.differences))
