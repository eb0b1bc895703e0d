"""The commands that make releases, and what comes before them: domain, plan, privacy, calibrate, release."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

import discreet
from discreet import wording
from discreet._core.errors import BudgetError, FileProblem, Infeasible, ParameterError, real
from discreet._core.text import aligned, as_written, counted, lines_of, percent, rounded_up
from discreet.cli import options as common
from discreet.cli.console import Commands, alarm, echo, in_options, progress_bar, show, tell
from discreet.cli.options import LEDGER, PATH, SOURCE, command, confidential, mechanisms, option, planner, shared


@command("data")
@shared(*SOURCE, "domain", *common.BUDGET)
@option("--size", int, "Number of records to release. Required, except with --counts.")
@option("--tables", int, "Number of tables, for intervals. Several are for marginals, cost no more privacy, and go to "
        "the folder OUT.", default=1)  # fmt: skip
@option("--counts", bool, "Release estimated counts per cell with standard errors, not records.")
@option("--mechanism", str, "Registry name. By default the one with the least predicted error, from public facts.")
@shared("param")
@option("--out", PATH, "File to write: .parquet, .csv, ... A folder of --tables.", required=True)
@option("--out-format", str, "How the tables of a folder are written: csv, csv.gz, tsv, arrow, ... By default parquet.")
@option("--out-separator", str, "Between the fields of OUT, where it is CSV. By default , or a tab.",
        metavar="CHARACTER")  # fmt: skip
@option("--partitions", int, "Write OUT as a folder of this many Parquet files. It must not exist yet.")
@option("--partition-by", str, "Column whose declared values get a folder each, with --partitions files.")
@option("--workers", int, "Number of processes that write --partitions.", default=1)
@option("--certificate", PATH, "Its certificate. By default OUT with .certificate.json.")
@shared("unit")
@option("--max-records", int, "The most records that a unit keeps. The others are cut at random.")
@shared("outcome", "sampling", "reference", "ignore-other-columns", "relation")
@option("--records", int, "Number of records, where it is declared: always with --relation add-remove.")
@option("--checkpoint", PATH, "File that holds the steps of a mechanism that works in steps.")
@option("--redraw", bool, "Draw other records from a finished --checkpoint. DATA is not asked.")
@shared(*LEDGER, "accept", "accept-weak-promise")
@option("--part", str, "Name of this release in a plan that was declared in the ledger, which paid for it.")
@option("--seed", int, "Make the release reproducible, and mark it as not for publication.")
@option("--accept-poor-utility", bool, "Accept that over 20 % of the records are not from the data.")
def release(data: str, domain_file: str, tables: int, sampling: str | None, as_json: bool, **options: Any) -> None:
    """Release a synthetic table from the confidential table DATA."""
    source, paid_before = common.located(data, options), options["redraw"]
    confidential.refuse_same(source, domain_file)  # before it is read for its ledger
    request = {
        "relation": common.relation_of(options),
        "unit": common.unit_of(options),
        "out": common.output_of(options),
        "accept": common.accepted(options),
        "ledger": common.ledger_of(options, domain_file),
    }
    if sampling is not None:
        request["sampling"] = sampling
    request |= {"tables": tables, **common.parameters(options)}  # sampling may be given either way
    size = options["size"]
    with progress_bar(None if size is None else size * max(1, tables), as_json) as progress:
        watch = discreet.Watch(announce=lambda text: tell(text, err=True), progress=progress, stepped=progress)
        result = discreet.release(source, domain_file, common.budget_of(options), watch=watch, **{**options, **request})
    certificate, facts = result.certificate, result.certificate.facts
    if certificate.poor is not None:
        alarm(certificate.poor, err=as_json)
    if as_json:
        where = {"out": str(result.path), "certificate": str(result.certificate_path)}
        document: dict[str, Any] = {"poor": certificate.poor, "unrelated": certificate.unrelated, **where}
        document["rows"] = sum(table.rows for table in certificate.tables)
        document |= {name: getattr(facts, name).to_dict() for name in ("mechanism", "relation", "guarantee")}
        outcome = {"outcome": certificate.outcome, "share_from_data": facts.released.share_from_data}
        document |= {"statement": certificate.statement, "released": outcome, "randomness": facts.randomness}
        show(document | {key: result.info[key] for key in result.info if key != "mechanism"})
        return
    written = certificate.summary.partition(" from ")[0]
    if facts.released.partitions is not None:
        written += f" in {counted(facts.released.partitions, 'part')}"
    echo(f"wrote {written} to {result.path} and the certificate to {result.certificate_path}")
    if certificate.unrelated is not None:
        alarm(certificate.unrelated)
    if not (certificate.seeded or paid_before):
        balance = "No ledger was given, so nothing adds it to what other releases of this table cost"
        if (ledger := request["ledger"]) is not None:
            left = getattr(ledger, "ledger", ledger).status().left
            balance = f"Left in the ledger: {wording.amounts(**left, with_delta=True)}"
        echo(f"cost: epsilon {rounded_up(certificate.epsilon, 6)}, delta {rounded_up(certificate.delta)}. {balance}")
        if facts.guarantee.kind == "unconditional":
            promised = certificate.epsilon, certificate.delta, wording.subject(certificate)[0]
            echo("\n".join(wording.budget(*promised, present=facts.relation.name == "add-remove")))
    echo(certificate.text)
    echo(f"mechanism: {facts.mechanism.name} {_pairs(facts.mechanism.parameters)}")
    if certificate.seeded:
        echo("This release was seeded: do not publish it.", err=True)


@command()
@option("--domain domain_file", PATH, "TOML file of the public facts. Required for one.")
@option("--records", int, "Number of records that the confidential table holds. Public.")
@shared(*common.BUDGET)
@option("--size", int, "Number of records to release. By default --records.")
@option("--max-records", int, "The most records that a unit keeps. Several are compared. --records is then the number "
        "of units.", multiple=True)  # fmt: skip
@option("--rows-per-unit", click.FloatRange(0), "Public: the share of the units with 1 row, 2 rows, ..., one option "
        "each. They say what each --max-records cuts.", multiple=True)  # fmt: skip
@shared("outcome", "sampling", "reference")
@option("--together", PATH, "TOML file of several releases of one table ([[release]] with name, domain, records, and "
        "if wanted size, mechanism, parameters, share, max_records). They are calibrated together, and satisfy the "
        "budget together.")  # fmt: skip
@option("--out", PATH, "With --together: JSON file to write, which a ledger takes as one entry.")
@option("--html", PATH, "Page to write (.html): what several epsilons around --epsilon would buy.")
@option("--ledger", PATH, "With --html: ledger of the table. The page shows what would be left.")
@shared("dataset")
def plan(
    domain_file: str | None, together: str | None, out: str | None, max_records: tuple[int, ...], **options: Any
) -> int:
    """Compare the mechanisms for a budget. Only public facts are used: no data is read."""
    as_json, shares = options.pop("as_json"), options.pop("rows_per_unit")
    page = {name: options.pop(name) for name in ("html", "ledger", "dataset")}
    if together is not None:
        public = {"domain": domain_file, "records": options["records"], **options}
        public |= {"max-records": max_records or None, "rows-per-unit": shares or None}
        _plan_together(together, out, as_json, {**public, **page})
        return 0
    if domain_file is None or options["records"] is None:
        raise ParameterError("a plan of one release needs --domain and --records. For several give --together")
    if out is not None:
        raise ParameterError("--out is for --together. Leave it out")
    html = page.pop("html")
    if html is None and (page["ledger"] or page["dataset"]) is not None:
        raise ParameterError("--ledger and --dataset are for --html. Leave them out")
    budget = common.budget_of(options)
    facts = {name: value for name, value in options.items() if value is not None}
    if len(max_records) > 1 or shares:
        if html is not None:
            raise ParameterError("--html is for a single --max-records. Leave it out")
        _compare_slots(domain_file, max_records, shares, as_json, {"budget": budget, **facts})
        return 0
    with progress_bar(1, as_json, "mechanisms") as progress:
        unit = discreet.Unit(planner.UNIT, max_records=max_records[0]) if max_records else None
        result = discreet.plan(domain_file, budget, unit=unit, progress=progress, **facts)
    if html is not None:
        with progress_bar(1, as_json, "plans at all budgets", after=2.0) as progress:
            result.write_page(html, **page, progress=progress)
    if as_json:
        show(result.to_dict() | ({"html": html} if html else {}))
    else:
        _tell_plan(result.advice, in_options(result.text, release), html)
    return 0 if result.feasible else Infeasible.exit_status


def _compare_slots(
    domain_file: str, numbers: tuple[int, ...], shares: tuple[float, ...], as_json: bool, facts: dict[str, Any]
) -> None:
    """Print what numbers of rows of a unit cost and, where it is public how many units have, which share they cut."""
    from discreet.domain import Domain

    plain, plans = Domain.read(domain_file).to_dict(), dict[int, Any]()
    for most in numbers:  # of the table of units in the domain, or of its columns
        tables = {name: {**table, "max_records": most} for name, table in plain.get("tables", {}).items()}
        unit = None if tables else discreet.Unit(planner.UNIT, max_records=most)
        plans[most] = discreet.plan(Domain.from_dict({**plain, "tables": tables}), unit=unit, **facts)
    total = real("the sum of rows per unit", sum(n * share for n, share in enumerate(shares, 1)), least=0) or 1.0
    rows_cut = {most: sum(max(0, n - most) * share for n, share in enumerate(shares, 1)) for most in plans}
    cuts = {most: rows_cut[most] / total if shares else None for most in plans}
    if as_json:
        show({"plans": [{"max_records": most, **plans[most].to_dict(), "share_cut": cuts[most]} for most in plans]})
        return
    notes, rows = list[str](), [["max records", "columns", "lost", "error of a value", "rows cut"]]
    for most, result in plans.items():
        comparison, best = result.comparison, next(iter(result.feasible), None)
        table = next(iter(comparison.domain.row_tables.values()), None)
        if table is None or best is None or best.w1 is None:
            why = "too many columns for this budget" if table else comparison.notes[0]
            notes.append(f"max_records {most}: {why}")
            continue
        values = len(table.held_columns) * (1 + table.number) / 2  # of a unit of an invented table
        parts = best.share_not_from_data, best.w1 / values, cuts[most]
        texts = ["-" if part is None else percent(part) for part in parts]
        rows.append([str(most), str(len(comparison.domain.columns)), *texts])
    notes.append(
        "Error of a value: W1 on a scale from 0 to 1, the mean of the columns of all rows that stay, predicted for an "
        "invented table, whose units use about half of their slots"
    )
    if not shares:
        notes.append("Rows cut: discreet domain check tells the custodian")
    for line in [*aligned(rows, left=0), *lines_of(notes)]:
        echo(line)


def _plan_together(study: str, out: str | None, as_json: bool, options: dict[str, Any]) -> None:
    """Plan several releases, print them, and write them where a file is named."""
    budget = common.budget_of(options)
    for name, value in options.items():
        if value is not None:
            raise ParameterError(f"with --together, the file gives --{name} for each release. Leave it out here")
    requests, shares = planner.read_study(study)
    result = planner.plan_together(requests, budget, shares=shares)
    if out is not None:
        _write_new(out, json.dumps(result.to_dict(), indent=2, allow_nan=False) + "\n", [study])
    if as_json:
        show({"out": out, "verdict": result.verdict, **result.to_dict()})
        return
    _tell_plan(result.verdict, result.text(shares), out)


def _tell_plan(verdict: list[str], text: str, file: str | None) -> None:
    """Print a plan, what has to be seen first before it, and the file that it went to."""
    for line in lines_of([in_options(sentence, release) for sentence in verdict]):
        alarm(line)
    echo(text)
    if file is not None:
        echo(f"wrote {file}")


def _write_new(out: str, text: str, inputs: list[Any]) -> None:
    from discreet._core.files import together

    def require_new() -> None:
        if os.path.lexists(out):
            raise FileProblem(out, "it exists already, and declared facts are not overwritten", "give another name")

    with together(Path(out), inputs=inputs, check=require_new) as (file,):
        file.write(text.encode())


@command()
@click.argument("mechanism")
@shared("records")
@option("--size", int, "Number of records released. Only needed where the guarantee depends on it.")
@shared("param", "relation")
@option("--epsilon", float, "Compute the delta at this epsilon.")
@option("--delta", float, "Compute the epsilon at this delta.")
@option("--data", PATH, "CONFIDENTIAL table. Also print its instance-level deltas: what a release reveals of this "
        "table.")  # fmt: skip
@shared(*SOURCE, "domain or cells", *LEDGER)
def privacy(
    mechanism: str, epsilon: float | None, delta: float | None, data: str | None, as_json: bool, **options: Any
) -> None:
    """Compute the exact guarantee of a MECHANISM from its public parameters.

    With --data and --domain, also compute the instance-level deltas, and the parameters that the papers would choose by
    looking at the table (empirical-Bayes strength). They are as confidential as the table.
    """
    if epsilon is not None:
        real("epsilon", epsilon, least=0, error=BudgetError)
    if (epsilon is None) == (delta is None):
        raise ParameterError("give either --epsilon or --delta. The other one is computed")
    sizes = {"records": options["records"], "size": options["size"]}
    relation, revealed = options["relation"], dict[str, Any]()
    if data is not None:
        if relation != "replacement":
            raise ParameterError("--data is for --relation replacement only. Leave one of them out")
        calibrated, guarantee, revealed = _instance(mechanism, data, epsilon, sizes, options)
    else:
        public = {"domain": _domain(options["domain_file"]), "relation": relation, **common.parameters(options)}
        calibrated, guarantee = mechanisms.stated(mechanism, **sizes, **public)
    if epsilon is None:
        epsilon = guarantee.epsilon(delta or 0.0)
        if math.isinf(epsilon):
            raise Infeasible(
                f"delta {as_written(delta or 0.0)} with {mechanism}", {"delta >=": guarantee.delta(math.inf)}
            )
    else:
        delta = guarantee.delta(epsilon)
    facts = {"mechanism": mechanism, **sizes, "parameters": calibrated.parameters(), "epsilon": epsilon, "delta": delta}
    facts |= _promise(guarantee)
    if as_json and revealed:
        facts |= {"confidential": True, **{name: part.to_dict() for name, part in revealed.items()}}
    _state(facts, *revealed.values(), as_json=as_json)


def _instance(
    mechanism: str, data: str, epsilon: float | None, sizes: dict[str, Any], options: dict[str, Any]
) -> tuple[Any, Any, dict[str, Any]]:
    """Return a mechanism's guarantee and, marked as confidential, what its release of a table reveals of that table."""
    source, domain_file = common.located(data, options), options["domain_file"]
    if domain_file is not None:
        confidential.refuse_same(source, domain_file)  # before it is read for its ledger
        ledger = common.ledger_of(options, domain_file)
        if ledger is not None:
            ledger.note("instance-level report", {"mechanism": {"name": mechanism}})
    if domain_file is None or epsilon is None:
        raise ParameterError("instance-level deltas need --data, --domain and --epsilon. Give all three")
    domain, public = confidential.public_domain(domain_file, data=source), common.parameters(options)
    if "group" in public:
        raise ParameterError("do not pass group. It comes from the table")
    calibrated, guarantee = mechanisms.stated(mechanism, domain=domain, **sizes, **public)
    table = confidential.confidential(source, domain, accept={"other-columns"})
    revealed = common.audit.instance_guarantee(table, calibrated, epsilon=epsilon, n=sizes["records"])
    choices = common.audit.paper_choices(table, epsilon=epsilon, size=sizes["size"])
    parts: dict[str, Any] = {"instance": revealed, "paper_choices": choices}
    return calibrated, guarantee, {name: confidential.reveal_to_custodian(part) for name, part in parts.items()}


@command()
@click.argument("mechanism")
@shared("records", *common.BUDGET)
@option("--size", int, "Number of records released. By default, solved for where the guarantee depends on it.")
@shared("param", "relation", "domain or cells")
def calibrate(mechanism: str, domain_file: str | None, as_json: bool, **options: Any) -> None:
    """Solve for the free parameter of a MECHANISM that meets a budget."""
    size, budget = options["size"], common.budget_of(options)
    public = {"budget": budget, **common.parameters(options)}
    calibrated, guarantee, free = mechanisms.solved(mechanism, domain=_domain(domain_file), **public, **options)
    facts = {"mechanism": mechanism, "records": guarantee.n, "size": getattr(calibrated, "size", size)}
    facts |= {"parameters": calibrated.parameters(), "solved": free}
    epsilon = getattr(budget, "epsilon", None)
    if epsilon is None:
        epsilon = common.releases.headline(guarantee, None)
    facts |= {"epsilon": epsilon, "delta": guarantee.delta(epsilon)}
    _state({**facts, **_promise(guarantee)}, as_json=as_json)


def _domain(domain_file: str | None) -> Any:
    from discreet.domain import Domain

    return None if domain_file is None else Domain.read(domain_file)


def _promise(guarantee: Any) -> dict[str, Any]:
    words = {key: list(map(str, getattr(guarantee, key))) for key in ("assumptions", "caveats")}
    return {**guarantee.to_dict(), **words, "relation": guarantee.relation.name, "group": guarantee.relation.group}


def _state(facts: dict[str, Any], *texts: Any, as_json: bool) -> None:
    """Print facts as JSON, or a line each and texts: numbers with all their digits, what is not known left out."""
    if as_json:
        show(facts)
        return
    for name, value in facts.items():
        for item in value if isinstance(value, list) else [value]:
            if item not in (None, {}):
                echo(f"{name.replace('_', ' ')}: {_value_text(item)}")
    for text in texts:
        echo(str(text))


def _value_text(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return as_written(value)
        case dict():
            return _pairs(value)
    return str(value)


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


domain = Commands("domain", help="Declare the public facts about a table.")


@command(group=domain)
@click.argument("data", type=PATH, required=False)
@shared(*SOURCE)
@option("--from code_book", PATH, "A code book: a Table Schema, metadata of SDV or SmartNoise, a domain of dpsynth, or "
        "a file of SPSS or Stata with public labels.")  # fmt: skip
@option("--header", bool, "Confirm that the first line of a CSV file holds the names.")
@option("--public-labels", bool, "Confirm that the labels of codes in the file are public.")
@option("--out", PATH, "File to write. By default standard output.")
def init(data: str | None, code_book: str | None, out: str | None, as_json: bool, **options: Any) -> None:
    """Write a template for DATA from its column names and types alone. It says what you must fill in.

    A code book fills in what it says. With one, DATA may be left out.
    """
    from discreet._core.reading import parsed_toml
    from discreet.domain import BLANK, CodeBook, Domain

    if data is None and code_book is None:
        raise ParameterError("there is nothing to write it from. Give DATA, or a code book with --from")
    formats = common.formats.format_of
    labelled = code_book is None or formats(code_book) is not None  # a file of data, which may have labels
    table = data or (code_book if labelled else None)
    form, source = formats(table or ""), table and common.located(table, options)
    if code_book is not None and not labelled:
        book = CodeBook.read(code_book)
    else:
        book = _labels(source if code_book in (None, table) else code_book, options["public_labels"], code_book)
    schema: Mapping[str, str] = dict.fromkeys(book.columns, "unknown")
    if table:
        schema = confidential.table_schema(source, header=options["header"])
    schema = {name: kind for name, kind in schema.items() if name not in book.left_out}
    known = {name: book.columns[name] for name in schema if name in book.columns}
    template, csv = book.notes() + Domain.template(schema, known=known), form is not None and form.texts
    if out is not None:
        _write_new(out, template, [path for path in (source, code_book) if path is not None])
    declared = parsed_toml(template).get("columns", {}) if code_book else {}
    blanks = {name: [key for key, fact in facts.items() if fact == BLANK] for name, facts in declared.items()}
    missing = {name: keys for name, keys in blanks.items() if keys}
    if as_json:
        show({"out": out, "template": template, "missing": missing})
    elif out is None:
        echo(template, nl=False)
    else:
        nothing = "Nothing else" if csv else "Nothing"
        echo(f"wrote {out}. Fill in what it asks for. {nothing} in it was read from the rows.")
    if options["public_labels"]:
        echo("Codes without a label are not listed. Add those that the code book allows.", err=True)
    if missing:
        listed = "; ".join(f"{name} ({', '.join(keys)})" for name, keys in missing.items())
        echo(f"The code book does not say: {listed}", err=True)
    if csv:
        echo(f"The names are the first line of {table}. Check that it is a header and not a record.", err=True)


def _labels(source: Any, public: bool, code_book: str | None) -> Any:
    """Return the labels of a file's codes as a code book, where they are public."""
    from discreet.domain import CodeBook

    if not public and code_book is not None:
        raise ParameterError("labels in a file of data may tell of persons. If they are public, add --public-labels")
    if not public:
        return CodeBook()
    labels = confidential.open_source(source).labels
    texts = {name: [*dict.fromkeys(codes.values())] for name, codes in labels.items() if len({*codes.values()}) > 1}
    if not texts:
        raise ParameterError("no column has labels of its codes. Leave --public-labels out")
    return CodeBook({name: {"type": "category", "categories": listed} for name, listed in texts.items()})


@command("data", group=domain)
@shared(*SOURCE, "domain", "unit")
@option("--max-records", int, "The most records that a unit keeps. Rows beyond are counted.")
@shared("ignore-other-columns")
@option("--examples", click.IntRange(0), "Number of values to show per finding. 0 shows counts only.", default=5)
def check(data: str, domain_file: str, as_json: bool, **options: Any) -> int:
    """List everything in the confidential table DATA that does not fit the domain, before a release is made.

    The result is CONFIDENTIAL: it shows values. The exit status is 1 where anything does not fit.
    """
    source = common.located(data, options)
    facts = {"unit": common.unit_of(options), "accept": common.accepted(options), **options}
    findings = confidential.check_table(source, confidential.public_domain(domain_file, data=source), **facts)
    result = confidential.reveal_to_custodian(findings)
    if as_json:
        show(result.to_dict())
    else:
        tell(str(result))
    return int(not result.fits)
