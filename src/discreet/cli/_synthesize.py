"""The command that writes synthetic tables from a fitted model."""

from __future__ import annotations

import os
from typing import Any

import click

from discreet._text import counted
from discreet.cli._echo import echo, show
from discreet.cli._progress import progress_bar
from discreet.errors import GuaranteeKindError, ParameterError

__all__ = ["synthesize"]


@click.command()
@click.argument("data", type=click.Path())
@click.option("--domain", "domain_file", type=click.Path(), required=True, help="TOML of the public facts.")
@click.option("--model", default="mixture", show_default=True, help="mixture, dirichlet-process, linear, robust, "
              "poisson, categorical, sequential.")  # fmt: skip
@click.option("--sensitive", multiple=True, required=True, help="Column to synthesise; others are published EXACTLY.")
@click.option("--tables", type=int, default=1, show_default=True, help="Number of tables; the budget is so many times.")
@click.option("--target-epsilon", type=float, help="Local, asymptotic epsilon of ONE table: no formal privacy.")
@click.option("--bound", type=float, help="Censored form instead: at most so many nats a record; 2 x BOUND a table.")
@click.option("--accept-empirical", is_flag=True, help="With --bound: publish draws of Markov chains, whose guarantee "
              "holds if they are exact, which nothing shows.")  # fmt: skip
@click.option("--clusters", type=int, help="Of a mixture; 10 by default.")
@click.option("--transform", type=click.Choice(["identity", "log", "asinh"]), help="Of the sensitive column.")
@click.option("--draws", type=int, default=1000, show_default=True, help="Kept, a chain.")
@click.option("--warm-up", type=int, default=1000, show_default=True, help="Spent on adaptation, a chain.")
@click.option("--chains", type=int, default=4, show_default=True)
@click.option("--max-r-hat", type=float, default=1.05, show_default=True, help="Refuse chains above it.")
@click.option("--min-effective", type=float, default=25.0, show_default=True, help="Refuse fewer a chain.")
@click.option("--max-divergent", type=float, default=0.0, show_default=True, help="Refuse a larger share.")
@click.option("--doublings", type=int, default=3, show_default=True, help="Chains beyond a limit go on to twice their "
              "length so often, then are refused.")  # fmt: skip
@click.option("--out", type=click.Path(), required=True, help="Folder to write; it must not exist.")
@click.option("--columns", "subset", is_flag=True, help="Leave out columns that the domain does not name.")
@click.option("--seed", type=int, help="Reproducible; the release is marked as not for publication.")
@click.option("--json", "as_json", is_flag=True, help="Write machine-readable JSON to standard output.")
def synthesize(
    data: str,
    domain_file: str,
    model: str,
    sensitive: tuple[str, ...],
    target_epsilon: float | None,
    bound: float | None,
    accept_empirical: bool,
    out: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Write synthetic tables of the confidential table DATA, its SENSITIVE columns drawn from a fitted model.

    With --target-epsilon by the risk-weighted pseudo-posterior, whose epsilon is local and asymptotic: asking for it is
    accepting that it is not formal differential privacy. With --bound by the censored posterior, whose theorem speaks
    of exact draws: this command draws with Markov chains, which only come near, and --accept-empirical accepts that.
    """
    from discreet._random import seeded
    from discreet.confidential import confidential
    from discreet.confidential._public import public_domain
    from discreet.pseudo_posterior import (
        CensoredPosterior,
        Convergence,
        PseudoPosterior,
        synthesiser_for,
    )
    from discreet.releases import publish

    if (target_epsilon is None) == (bound is None):
        raise ParameterError("give either --target-epsilon (risk weights, asymptotic) or --bound (censored)")
    if bound is not None and not accept_empirical:
        raise GuaranteeKindError(
            "with --bound the tables come from Markov chains, and the guarantee holds only if these draw from the "
            "exact posterior, which nothing shows; add --accept-empirical to publish them all the same"
        )
    domain = public_domain(domain_file, data=data)
    synthesiser = synthesiser_for(
        domain, sensitive, model=model, clusters=options["clusters"], transform=options["transform"]
    )
    settings: dict[str, Any] = {name: options[name] for name in ("tables", "draws", "warm_up", "chains")}
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
    mechanism: PseudoPosterior | CensoredPosterior
    if bound is None:
        mechanism = PseudoPosterior(synthesiser, target_epsilon=target_epsilon, **settings)
    else:
        mechanism = CensoredPosterior(synthesiser, bound=bound, **settings)
    closed = confidential(data, domain, subset=options["subset"])
    rng = None if options["seed"] is None else seeded(options["seed"])
    accept = {"asymptotic"} if bound is None else {"empirical"}
    with progress_bar(1, as_json, "fitting, draws a chain") as progress:
        made = publish(closed, mechanism, out=out, accept=accept, rng=rng, progress=progress)
    if as_json:
        show({"out": str(made.path), **made.certificate.facts})
        return
    echo(f"wrote {counted(mechanism.tables, 'table')} and what was promised to {made.path}")
    echo(made.certificate.text)
    if rng is not None:
        echo("This release was seeded: do not publish it.", err=True)
