"""The step of a certificate of tables, built again from the public facts in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from discreet.domain import Domain
from discreet.pseudo_posterior.censored import CensoredPosterior
from discreet.pseudo_posterior.pseudo import PseudoPosterior
from discreet.pseudo_posterior.synthesiser import FromModel
from discreet.releases.step import Step


def rebuilt(name: str, given: Mapping[str, Any], domain: Domain) -> Step:
    """Return a step with the same promise: it depends on what is synthesised, and not on the model and its chains."""
    survey = given.get("survey", {})
    read = {"survey_weight": survey.get("weight"), "survey_mean": survey.get("mean"), "unit": given.get("unit")}
    stand_in = FromModel(
        function=_no_model,
        columns=tuple(given["synthesised"]),
        others=tuple(given["published_exactly"]),
        densities_at_most_one=given["densities_at_most_one"] is True,
    )
    tables, enough = given["tables"], {"draws": given["tables"], **read}
    if name == "pseudo-posterior":
        step = PseudoPosterior(stand_in, target_epsilon=float(given["target_epsilon"]), tables=tables, **enough).step(
            domain
        )
    else:
        grid = {"parameter": [0.0]} if given["on_a_grid"] else None
        step = CensoredPosterior(
            stand_in, bound=float(given["bound"]), tables=tables, size=given["size"], grid=grid, **enough
        ).step(domain)
    return replace(step, parameters={**step.parameters, "model": given["model"], "chains": given["chains"]})


def _no_model(_data: Mapping[str, Any]) -> None:
    raise NotImplementedError  # stands for a model that a certificate names and does not hold
