"""The command that writes synthetic tables from a fitted model."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

import discreet
from discreet._core.errors import GuaranteeKindError, ParameterError
from discreet._core.text import comma_items, counted
from discreet.cli import options as common
from discreet.cli.console import answer, echo, progress_bar
from discreet.cli.options import LEDGER, PATH, command, confidential, option, pseudo_posterior, shared


@command("data")
@shared("domain")
@option("--model", str, "mixture, dirichlet-process, linear, robust, hierarchical, poisson, categorical or sequential.",
        default="mixture")  # fmt: skip
@option("--sensitive", str, "Column to synthesise. The others are published EXACTLY. May be repeated.",
        multiple=True, required=True)  # fmt: skip
@option("--tables", int, "Number of tables. Each spends its own epsilon.", default=1)
@option("--target-epsilon", float, "Local and asymptotic epsilon of ONE table. It is not formal differential privacy.")
@option("--bound", float, "Use the censored form: each record counts for at most BOUND nats. The epsilon is 2 x BOUND "
        "per table.")  # fmt: skip
@option("--accept-empirical", bool, "With --bound: accept draws of Markov chains. Their guarantee holds if they are "
        "exact draws, which cannot be shown.")  # fmt: skip
@option("--clusters", int, "Number of clusters of a mixture. 10 by default.")
@option("--group", str, "Column of the groups of the hierarchical model, such as a region. Each has an intercept of "
        "its own.")  # fmt: skip
@option("--transform", ["identity", "log", "asinh"], "Transform of the sensitive column.")
@option("--survey-weight", str, "Column of survey weights, which count in the likelihood and in the bound. Needs "
        "--survey-mean.")  # fmt: skip
@option("--survey-mean", float, "Public survey weight that counts as one record, such as population over sample size.")
@option("--unit", str, "Column that names the privacy unit, such as a household. The bound is that of all its records "
        "together. It is not released.")  # fmt: skip
@option("--draws", int, "Posterior draws kept per chain.", default=1000)
@option("--warm-up", int, "Warm-up draws per chain.", default=1000)
@option("--chains", int, "Number of Markov chains.", default=4)
@option("--max-r-hat", float, "Maximum R-hat. Chains above it are refused.", default=1.05)
@option("--min-effective", float, "Minimum effective draws per chain: 100, with --bound 25.")
@option("--max-divergent", float, "Maximum share of divergent transitions.", default=0.0)
@option("--doublings", int, "How often to double unconverged chains before refusing.", default=3)
@option("--out", PATH, "Folder to write. It must not exist.")
@option("--frontier", PATH, "CONFIDENTIAL: release nothing. Fit several weightings, and write what each costs, keeps "
        "and tells of single records into this folder.")  # fmt: skip
@option("--known", comma_items, "With --frontier: columns known of a record, such as age,region. By default all but "
        "the attacked one, the first of --sensitive.", metavar="TEXT")  # fmt: skip
@option("--holdout", PATH, "With --frontier: CONFIDENTIAL records of the same population that are not in DATA, the "
        "control of the attacks.")  # fmt: skip
@shared("ignore-other-columns", *LEDGER, "accept", "accept-weak-promise")
@option("--seed", int, "Make the tables reproducible, and mark them as not for publication.")
def synthesize(data: str, target_epsilon: float | None, bound: float | None, as_json: bool, **options: Any) -> None:
    """Write synthetic tables of the confidential table DATA, with its SENSITIVE columns drawn from a fitted model.

    With --target-epsilon, the risk-weighted pseudo-posterior is used. Its epsilon is local and asymptotic. Asking for
    it accepts that it is not formal differential privacy.

    With --bound, the censored posterior is used. Its theorem holds for exact draws. This command draws with Markov
    chains, which only come near, and --accept-empirical accepts that.

    With --frontier, nothing is released. The folder is for the custodian alone. A weighting that is chosen by looking
    at it is a use of the data.
    """
    from discreet._core.numeric import written

    attack = {"folder": options.pop("frontier"), **{name: options.pop(name) for name in ("known", "holdout")}}
    out, domain_file, empirical = (options.pop(name) for name in ("out", "domain_file", "accept_empirical"))
    _check_goal(target_epsilon, bound, out, attack, empirical=empirical)
    domain = confidential.public_domain(domain_file, data=data)
    model = {name: options.pop(name) for name in ("model", "clusters", "transform", "group")}
    columns = {name: options[name] for name in ("survey_weight", "unit")}
    synthesiser = pseudo_posterior.synthesiser_for(domain, options.pop("sensitive"), **model, **columns)
    if options["min_effective"] is None:
        options["min_effective"] = 100.0 if bound is None else 25.0  # without one, a maximum over draws is measured
    seed, settings = options.pop("seed"), _settings_of(options)
    if out is None:
        if not (options["ledger"] is None and options["dataset"] is None):
            raise ParameterError("a frontier releases nothing, so nothing is paid. Leave out --ledger and --dataset")
        unweighted = pseudo_posterior.PseudoPosterior(synthesiser, **settings)
        confidential.open_source(data)
        with progress_bar(len(pseudo_posterior.LADDER), as_json, "weightings") as progress:
            points = pseudo_posterior.ladder(data, domain, unweighted, **attack, seed=seed or 0, progress=progress)
        page = os.path.join(attack["folder"], pseudo_posterior.PAGE)  # noqa: PTH118
        document = {"confidential": True, "points": [asdict(point) for point in points]}
        answer(as_json, document, pseudo_posterior.ladder_text(points), f"wrote {page}")
        return
    mechanism: pseudo_posterior.PseudoPosterior | pseudo_posterior.CensoredPosterior
    if bound is None:
        mechanism = pseudo_posterior.PseudoPosterior(synthesiser, target_epsilon=target_epsilon, **settings)
    else:
        mechanism = pseudo_posterior.CensoredPosterior(synthesiser, bound=bound, **settings)
    one_table = written(float(target_epsilon or 0.0) if bound is None else 2.0 * bound)
    ledger = common.ledger_of(options, domain_file)
    with progress_bar(1, as_json, "fitting, draws per chain") as progress:
        result = discreet.release(
            data,
            domain,
            None if ledger is None else discreet.Budget(epsilon=float(one_table * mechanism.tables)),
            mechanism=mechanism,
            out=out,
            ledger=ledger,
            accept={"asymptotic" if bound is None else "empirical", *common.accepted(options)},
            seed=seed,
            watch=discreet.Watch(progress=progress),
        )
    files = f"wrote {counted(mechanism.tables, 'table')} and the certificate to {result.path}"
    answer(as_json, {"out": str(result.path), **result.certificate.to_dict()}, result.certificate.text, files)
    if seed is not None and not as_json:
        echo("This release was seeded: do not publish it.", err=True)


def _check_goal(
    target_epsilon: float | None, bound: float | None, out: str | None, attack: dict[str, Any], *, empirical: bool
) -> None:
    """Refuse what does not go together, and chains whose guarantee nobody accepted."""
    frontier = attack["folder"]
    if [target_epsilon, bound, frontier].count(None) != 2:
        raise ParameterError(
            "give exactly one of --target-epsilon (risk weights, asymptotic), --bound (censored form) and --frontier"
        )
    if (out is None) != (frontier is not None):
        raise ParameterError("--frontier takes the place of --out. Write --out where tables are to be released")
    if bound is not None and not empirical:
        raise GuaranteeKindError(
            "with --bound the tables come from Markov chains, and the guarantee holds only if these draw from the "
            "exact posterior, which cannot be shown. To publish them all the same, write --accept-empirical"
        )
    if frontier is None and not (attack["known"] is None and attack["holdout"] is None):
        raise ParameterError("--known and --holdout are of use with --frontier only. Leave them out")


def _settings_of(options: dict[str, Any]) -> dict[str, Any]:
    """Return what both mechanisms take: of the chains, and of weights and units."""
    # JAX takes a core for a device where it is told so before it is loaded; chains then run side by side.
    cores = min(options["chains"], os.cpu_count() or 1)
    os.environ.setdefault("XLA_FLAGS", f"--xla_force_host_platform_device_count={cores}")
    names = {"r_hat": "max_r_hat", "effective": "min_effective", "divergent": "max_divergent"}
    limits = {limit: options[name] for limit, name in names.items()}
    convergence = pseudo_posterior.Convergence(doublings=options["doublings"], **limits)
    shared_options = ("tables", "draws", "warm_up", "chains", "survey_weight", "survey_mean", "unit")
    return {name: options[name] for name in shared_options} | {"chain_method": "parallel", "convergence": convergence}
