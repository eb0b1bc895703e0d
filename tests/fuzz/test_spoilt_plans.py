"""Plans of several releases that were changed: each is refused in a sentence, or read and computed again."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path

from _spoil import as_json, spoilt_bytes, spoilt_document

from discreet import Replacement
from discreet.domain import Domain, Integer
from discreet.errors import DiscreetError, Fault
from discreet.ledger import Request
from discreet.planner.study import Together, plan_together, written
from discreet.privacy import Budget


@cache
def document() -> str:
    domain = Domain(columns={"age": Integer(lower=0, upper=9)})
    requests = [
        Request(part=name, mechanism=mechanism, domain=domain, relation=Replacement(records=500), size=20)
        for name, mechanism in (("a", "gaussian-smoothed-histogram"), ("b", "stability-histogram"))
    ]
    return written(plan_together(requests, Budget(epsilon=1.0, delta=1e-6)).to_dict()).decode()


def test_plan(rng: random.Random, tmp_path: Path) -> None:
    plan, refused = tmp_path / "plan.json", None
    if rng.random() < 0.8:
        plan.write_bytes(as_json(rng, spoilt_document(rng, json.loads(document()))))
    else:
        plan.write_bytes(spoilt_bytes(rng, document().encode()))
    try:
        read = Together.read(plan, seconds=5.0)
    except DiscreetError as error:
        refused = error
    if refused is None:
        assert read.profile.delta(read.budget.epsilon) <= read.budget.delta
    else:
        assert not isinstance(refused, Fault)
        assert str(refused).isprintable()
        assert len(str(refused)) < 2000
