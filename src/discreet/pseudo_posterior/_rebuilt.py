"""The step of a certificate of tables, built again from the public facts in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.domain import Domain
from discreet.pseudo_posterior._censored import CensoredPosterior
from discreet.pseudo_posterior._pseudo_posterior import PseudoPosterior
from discreet.pseudo_posterior._step import ModelMechanism, ModelStep, check_columns
from discreet.pseudo_posterior._synthesiser import FromModel

__all__ = ["rebuilt"]


def rebuilt(facts: Mapping[str, Any]) -> ModelStep:
    """Return a step with the same promise: it depends on what is synthesised, not on the model."""
    given, domain = facts["mechanism"]["parameters"], Domain.from_dict(facts["domain"])
    stand_in = FromModel(
        function=_no_model,
        columns=tuple(given["synthesised"]),
        others=tuple(given["published_exactly"]),
        densities_at_most_one=given["densities_at_most_one"] is True,
    )
    mechanism: ModelMechanism
    if facts["mechanism"]["name"] == PseudoPosterior.name:
        mechanism = PseudoPosterior(stand_in, target_epsilon=float(given["target_epsilon"]), tables=given["tables"])
    else:
        mechanism = CensoredPosterior(
            stand_in,
            bound=float(given["bound"]),
            tables=given["tables"],
            size=given["size"],
            grid={"parameter": [0.0]} if given["on_a_grid"] else None,
        )
    check_columns(domain, stand_in)
    return ModelStep(mechanism=mechanism, domain=domain, stated=given)


def _no_model(_data: Mapping[str, Any]) -> None:
    raise NotImplementedError  # stands for a model that a certificate names and does not hold
