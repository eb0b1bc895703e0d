"""The command that writes synthetic tables from a fitted model."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

import click

from discreet._core.errors import GuaranteeKindError, ParameterError
from discreet._core.text import counted
from discreet.cli.console import echo, progress_bar, show
from discreet.cli.ledger import dataset_option, json_option, ledger_option
from discreet.cli.options import accepted


@click.command()
@click.argument("data", type=click.Path())
@click.option("--domain", "domain_file", type=click.Path(), required=True, help="TOML file of the public facts.")
@click.option("--model", default="mixture", show_default=True, help="mixture, dirichlet-process, linear, robust, "
              "hierarchical, poisson, categorical or sequential.")  # fmt: skip
@click.option("--sensitive", multiple=True, required=True, help="Column to synthesise. The others are published "
              "EXACTLY. May be repeated.")  # fmt: skip
@click.option("--tables", type=int, default=1, show_default=True, help="Number of tables. Each spends its own epsilon.")
@click.option("--target-epsilon", type=float, help="Local and asymptotic epsilon of ONE table. It is not "
              "formal differential privacy.")  # fmt: skip
@click.option("--bound", type=float, help="Use the censored form: each record counts for at most BOUND nats. The "
              "epsilon is 2 x BOUND per table.")  # fmt: skip
@click.option("--accept-empirical", is_flag=True, help="With --bound: accept draws of Markov chains. Their guarantee "
              "holds if they are exact draws, which cannot be shown.")  # fmt: skip
@click.option("--clusters", type=int, help="Number of clusters of a mixture. 10 by default.")
@click.option("--group", help="Column of the groups of the hierarchical model, such as a region. Each has an intercept "
              "of its own.")  # fmt: skip
@click.option("--transform", type=click.Choice(["identity", "log", "asinh"]), help="Transform of the sensitive column.")
@click.option("--survey-weight", help="Column of survey weights, which count in the likelihood and in the bound. "
              "Needs --survey-mean.")  # fmt: skip
@click.option("--survey-mean", type=float, help="Public survey weight that counts as one record, such as population "
              "over sample size.")  # fmt: skip
@click.option("--unit", help="Column that names the privacy unit, such as a household. The bound is that of all its "
              "records together. It is not released.")  # fmt: skip
@click.option("--draws", type=int, default=1000, show_default=True, help="Posterior draws kept per chain.")
@click.option("--warm-up", type=int, default=1000, show_default=True, help="Warm-up draws per chain.")
@click.option("--chains", type=int, default=4, show_default=True, help="Number of Markov chains.")
@click.option(
    "--max-r-hat", type=float, default=1.05, show_default=True, help="Maximum R-hat. Chains above it are refused."
)
@click.option("--min-effective", type=float, default=25.0, show_default=True, help="Minimum effective sample size "
                                                                                   "per chain.")  # fmt: skip
@click.option("--max-divergent", type=float, default=0.0, show_default=True, help="Maximum share of divergent "
                                                                                  "transitions.")  # fmt: skip
@click.option("--doublings", type=int, default=3, show_default=True, help="How often to double unconverged chains "
                                                                          "before refusing.")  # fmt: skip
@click.option("--out", type=click.Path(), help="Folder to write. It must not exist.")
@click.option("--frontier", type=click.Path(), help="CONFIDENTIAL: release nothing. Fit several weightings, and write "
              "what each costs, keeps and tells of single records into this folder.")  # fmt: skip
@click.option("--known", help="With --frontier: columns known of a record, such as age,region. By default all but the "
              "attacked one, the first of --sensitive.")  # fmt: skip
@click.option("--holdout", type=click.Path(), help="With --frontier: CONFIDENTIAL records of the same population that "
              "are not in DATA, the control of the attacks.")  # fmt: skip
@click.option("--ignore-other-columns", is_flag=True, help="Leave out columns that the domain does not name.")
@ledger_option
@dataset_option
@click.option("--seed", type=int, help="Make the tables reproducible, and mark them as not for publication.")
@json_option
def synthesize(
    data: str,
    domain_file: str,
    model: str,
    sensitive: tuple[str, ...],
    target_epsilon: float | None,
    bound: float | None,
    accept_empirical: bool,
    out: str | None,
    frontier: str | None,
    known: str | None,
    holdout: str | None,
    ledger: str | None,
    dataset: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Write synthetic tables of the confidential table DATA, with its SENSITIVE columns drawn from a fitted model.

    With --target-epsilon, the risk-weighted pseudo-posterior is used. Its epsilon is local and asymptotic. Asking for
    it accepts that it is not formal differential privacy.

    With --bound, the censored posterior is used. Its theorem holds for exact draws. This command draws with Markov
    chains, which only come near, and --accept-empirical accepts that.

    With --frontier, nothing is released. The folder is for the custodian alone. A weighting that is chosen by looking
    at it is a use of the data.
    """
    from discreet import Budget, Watch, release
    from discreet._core.numeric import written
    from discreet.confidential.public import public_domain
    from discreet.ledger.outlook import ledger_for
    from discreet.pseudo_posterior import (
        CensoredPosterior,
        PseudoPosterior,
        synthesiser_for,
    )

    _check_asked(target_epsilon, bound, frontier, out, accept_empirical=accept_empirical)
    if frontier is None and not (known is None and holdout is None):
        raise ParameterError("--known and --holdout are of use with --frontier only. Leave them out")
    domain = public_domain(domain_file, data=data)
    synthesiser = synthesiser_for(
        domain,
        sensitive,
        model=model,
        clusters=options["clusters"],
        transform=options["transform"],
        group=options["group"],
        survey_weight=options["survey_weight"],
        unit=options["unit"],
    )
    settings = _settings(options)
    if out is None:
        if not (ledger is None and dataset is None):
            raise ParameterError("a frontier releases nothing, so nothing is paid. Leave out --ledger and --dataset")
        names = None if known is None else [name.strip() for name in known.split(",")]
        attack = {"folder": frontier, "known": names, "holdout": holdout}
        _ladder(data, domain, PseudoPosterior(synthesiser, **settings), attack, seed=options["seed"], as_json=as_json)
        return
    mechanism: PseudoPosterior | CensoredPosterior
    if bound is None:
        mechanism = PseudoPosterior(synthesiser, target_epsilon=target_epsilon, **settings)
    else:
        mechanism = CensoredPosterior(synthesiser, bound=bound, **settings)
    each = written(float(target_epsilon or 0.0) if bound is None else 2.0 * bound)
    keeper = ledger_for(ledger, domain_file, dataset=dataset)
    with progress_bar(1, as_json, "fitting, draws per chain") as progress:
        made = release(
            data,
            domain,
            None if keeper is None else Budget(epsilon=float(each * options["tables"])),
            mechanism=mechanism,
            out=out,
            ledger=keeper,
            accept={"asymptotic" if bound is None else "empirical", *accepted(options)},
            seed=options["seed"],
            watch=Watch(progress=progress),
        )
    if as_json:
        show({"out": str(made.path), **made.certificate.to_dict()})
        return
    echo(made.certificate.text)
    echo(f"wrote {counted(mechanism.tables, 'table')} and the certificate to {made.path}")
    if options["seed"] is not None:
        echo("This release was seeded: do not publish it.", err=True)


def _check_asked(
    target_epsilon: float | None, bound: float | None, frontier: str | None, out: str | None, *, accept_empirical: bool
) -> None:
    """Refuse what does not go together, and chains whose guarantee nobody accepted."""
    if [target_epsilon, bound, frontier].count(None) != 2:
        raise ParameterError(
            "give exactly one of --target-epsilon (risk weights, asymptotic), --bound (censored form) and --frontier"
        )
    if (out is None) != (frontier is not None):
        raise ParameterError("--frontier takes the place of --out. Write --out where tables are to be released")
    if bound is not None and not accept_empirical:
        raise GuaranteeKindError(
            "with --bound the tables come from Markov chains, and the guarantee holds only if these draw from the "
            "exact posterior, which cannot be shown. To publish them all the same, write --accept-empirical"
        )


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    """Return what both mechanisms take: of the chains, and of weights and units."""
    from discreet.pseudo_posterior import Convergence

    kept = ("tables", "draws", "warm_up", "chains", "survey_weight", "survey_mean", "unit")
    settings: dict[str, Any] = {name: options[name] for name in kept}
    # JAX takes a core for a device where it is told so before it is loaded; chains then run side by side.
    cores = min(options["chains"], os.cpu_count() or 1)
    os.environ.setdefault("XLA_FLAGS", f"--xla_force_host_platform_device_count={cores}")
    settings["chain_method"] = "parallel"
    settings["convergence"] = Convergence(
        r_hat=options["max_r_hat"],
        effective=options["min_effective"],
        divergent=options["max_divergent"],
        doublings=options["doublings"],
    )
    return settings


def _ladder(data: str, domain: Any, mechanism: Any, attack: Any, *, seed: int | None, as_json: bool) -> None:
    """Fit and show the frontier."""
    from discreet.confidential.source import require_there
    from discreet.pseudo_posterior.pictures import LADDER, PAGE, ladder, ladder_text

    require_there(data)
    with progress_bar(len(LADDER), as_json, "weightings") as progress:
        points = ladder(data, domain, mechanism, **attack, seed=seed or 0, progress=progress)
    if as_json:
        show({"confidential": True, "points": [asdict(point) for point in points]})
        return
    echo(ladder_text(points))
    echo(f"wrote {os.path.join(attack['folder'], PAGE)}")  # noqa: PTH118
