"""Whatever library a value is of: each argument of each public callable takes it as Python's own, or refuses it there.

Numbers, texts, truth values and times of NumPy, fractions and decimals are taken wherever Python's own are.

The callables and their parameters are found by the names of the public packages, so that a new one is tried too.
"""

import dataclasses
import datetime as dt
import importlib
import inspect
import json
import pickle
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import discreet
from discreet import domain as d
from discreet import privacy
from discreet.errors import DiscreetError, Fault
from discreet.mechanisms import REGISTRY, DirichletMultinomial, Mechanism

ROOT = Path(discreet.__file__).parent
PACKAGES = sorted({path.parent.name for path in ROOT.glob("[a-z]*/__init__.py")} - {"testing"})
PUBLIC = {
    name: getattr(module, name)
    for module in (discreet, *(importlib.import_module(f"discreet.{package}") for package in PACKAGES))
    for name in getattr(module, "__all__", ())
    if callable(getattr(module, name))
}
DOMAIN = d.Domain(columns={"a": d.Integer(lower=0, upper=3)})
TABLE = pl.DataFrame({"a": [0, 1, 2, 3] * 50})
BUDGET = privacy.Budget(epsilon=3.0, delta=1e-6)
DAY, MOMENT, LENGTH = dt.date(2020, 1, 2), dt.datetime(2020, 1, 2, 3), dt.timedelta(hours=2)  # noqa: DTZ001

CALLS: dict[str, dict[str, Any]] = {
    "AddRemove": {"records": 200},
    "Budget": {"epsilon": 1.0, "delta": 0.25},
    "Risk": {"detection": 0.25, "false_alarms": 0.125},
    "Advantage": {"advantage": 0.25},
    "Success": {"success": 0.75, "prior": 0.5},
    "Checkpoint": {"path": "c.npz", "redraw": True},
    "Output": {"path": "o.parquet", "certificate": "o.json", "partitions": 2, "partition_by": "a", "workers": 1},
    "Replacement": {"records": 200},
    "Unit": {"column": "u", "max_records": 2},
    "UnitTable": {"unit": "u", "max_records": 2, "columns": DOMAIN.columns},
    "Boolean": {"nulls": "category", "base": {"weights": [1, 2, 3]}},
    "Category": {"categories": ["x", "y"], "ordered": True, "dtype": "string", "nulls": "category"},
    "Date": {"lower": DAY, "upper": dt.date(2020, 1, 9), "cells": 2, "nulls": "category", "out_of_bounds": "clip"},
    "Datetime": {"lower": MOMENT, "upper": dt.datetime(2020, 1, 2, 9), "step": LENGTH, "cells": 2,  # noqa: DTZ001
                 "time_zone": "UTC", "nulls": "category", "out_of_bounds": "clip"},
    "Decimal": {"lower": "0", "upper": "2", "digits": 1, "cells": 3, "nulls": "category", "out_of_bounds": "clip"},
    "Duration": {"lower": dt.timedelta(0), "upper": dt.timedelta(hours=4), "step": LENGTH, "cells": 2,
                 "nulls": "category", "out_of_bounds": "clip"},
    "Integer": {"lower": 0, "upper": 4, "cells": 2, "spacing": "linear", "dtype": "int64", "nulls": "category",
                "out_of_bounds": "clip", "base": {"weights": [1, 2, 3]}},
    "Numeric": {"lower": 0.0, "upper": 2.0, "cells": 2, "spacing": "linear", "within": "uniform", "dtype": "float64",
                "nulls": "category", "out_of_bounds": "clip"},
    "Time": {"lower": dt.time(7, 30), "upper": dt.time(9, 30), "step": LENGTH / 4, "cells": 2, "nulls": "category",
             "out_of_bounds": "clip"},
    "OpenLabels": {"prefix": "new_", "nulls": "category"},
    "Domain": {"columns": {"a": DOMAIN.columns["a"]}, "metric_weights": {"a": 2.0},
               "impossible": [{"a": 1}], "totals": [{"count": 9, "source": "x"}]},
    "Relation": {"name": "add-remove", "group": 2},
    "ConstantProfile": {"value": 0.25, "tight": True},
    "DiscreteGaussianPair": {"scale": 2.0, "group": 1, "counts": 2, "tight": True},
    "DiscreteLaplacePair": {"scale": 2.0, "group": 1, "counts": 2},
    "MixturePair": {"size": 4, "base": 0.25, "moved": 0.5, "tight": True},
    "UrnPair": {"size": 4, "a": 1.0, "b": 2.0, "rest": 3.0, "tight": True},
    "plan": {"domain": DOMAIN, "budget": BUDGET, "records": 200, "size": 20, "mechanisms": ["perturbed-histogram"],
             "largest_sizes": False},
    "release": {"data": TABLE, "domain": DOMAIN, "budget": BUDGET, "size": 20, "counts": False, "seed": 3,
                "mechanism": "perturbed-histogram", "accept": ["poor-utility"], "scale": 2.0, "noise": "laplace",
                "projection": "simplex", "sampling": "iid"},
    "check_table": {"data": TABLE, "domain": DOMAIN, "accept": ["other-columns"], "examples": 2},
    "confidential": {"data": TABLE, "domain": DOMAIN, "accept": ["other-columns"], "empty": True, "by_unit": False},
    "confidential_rows": {"data": TABLE, "domain": DOMAIN, "accept": ["other-columns"], "empty": True},
    "named": {"name": "marginals"},
    "combine": {"estimates": [1.0, 2.0, 3.0], "variances": [1.0, 1.0, 2.0], "kind": "fully", "n": 100, "size": 50,
                "level": 0.5},
    "noisy_counts_posterior": {"counts": [9.0, 8.0, 7.0, 6.0], "domain": DOMAIN, "n": 30, "noise": "laplace",
                               "scale": 2.0, "strength": 4.0, "draws": 8, "seed": 1, "of": "table", "within": "even"},
    "Convergence": {"r_hat": 1.5, "effective": 50.0, "divergent": 0.25, "doublings": 2},
    "LinearWeights": {"c": 0.5, "g": 0.25},
    "PoissonMean": {"column": "a", "shape": 1.0, "rate": 2.0},
    "Predictor": {"column": "a", "categories": 4, "nulls": False},
    "Response": {"column": "a", "transform": "log", "scale": 2.0, "centre": 1.0, "unit": 1.0, "lower": 1.0,
                 "upper": 4.0, "least_scale": 0.5},
    "kde_l2": {"x": [1.0, 2.0, 3.0], "y": [1.0, 3.0, 4.0], "width": 1.0},
    "transport_distance": {"x": [[1.0], [2.0]], "y": [[1.0], [3.0]], "norm": "sum", "pairs": 100},
    "Request": {"budget": BUDGET, "domain": DOMAIN, "size": 20, "counts": False, "mechanism": "marginals",
                "kind": "exact", "seeded": True, "part": "p"},
    "density_ratio": {"mechanism": DirichletMultinomial(domain=DOMAIN, size=2, prior=0.5), "records": 3, "epsilon": 1.0,
                      "tables": 2, "releases": 3, "neighbours": 2, "error": 0.25, "seed": 1},
    "hellinger": {"x": [1.0, 2.0], "y": [1.0, 3.0], "x_weights": [1.0, 2.0], "y_weights": [1.0, 1.0]},
}  # fmt: skip
FIELDS = {"size": 20, "records": 200, "scale": 16.0, "prior": 0.5, "mixing": 0.5, "strength": 1.0, "discount": 0.25,
          "threshold": 40, "pure_epsilon": 0.5, "draw_epsilon": 0.5, "steps": 2, "population": 50,
          "units": 1}  # fmt: skip
for mechanism in map(REGISTRY.__getitem__, REGISTRY):
    names = {field.name for field in dataclasses.fields(mechanism)}
    CALLS[mechanism.__name__] = {"domain": DOMAIN, **{name: value for name, value in FIELDS.items() if name in names}}

del CALLS["Marginals"]["threshold"]  # which is for open labels

WITHOUT = {
    "functions, models or chains": "Watch examine instance_guarantee API Callables MappedWeights ContinuedTexts "
    "DiffusionImages MaskedTexts Resampling Table Box Ball PseudoPosterior CensoredPosterior Truncated "
    "MixtureRegression measured_property fit across_tables frontier frontier_page synthesiser_for sliced_wasserstein",
    "files and releases, with a number or two that are checked": "Ledger read verify mechanism_posterior posterior "
    "process_posterior unseen violins picture write_report compare serve",
    "what only the library makes": "Certificate Forecast Guarantee Traits Posterior Run Code",
}
"""Callables that are not tried, by what they take."""


def foreign(value: Any) -> Iterator[Any]:
    """Values of other libraries that equal one of Python, or hold such values."""
    if isinstance(value, bool):
        yield np.bool_(value)
    elif isinstance(value, int):
        yield from [kind(value) for kind in (np.int16, np.int64, np.uint16, np.float32, Fraction, Decimal)]
        yield from (np.array(value), pd.Series([value]).iloc[0], np.timedelta64(value, "s"))
    elif isinstance(value, float):
        kinds = (np.float16, np.float32, np.float64, np.longdouble, Fraction, Decimal, np.complex64)
        yield from [kind(value) for kind in kinds]
        yield np.array(value)
    elif isinstance(value, str):
        yield from (np.str_(value), type("Text", (str,), {})(value), np.bytes_(value, "ascii"), np.array(value))
    elif isinstance(value, (dt.date, dt.timedelta)):
        kind = (np.timedelta64, pd.Timedelta) if isinstance(value, dt.timedelta) else (np.datetime64, pd.Timestamp)
        yield from (kind[0](value), kind[1](value), kind[0](value, "ns"), kind[1](value).to_numpy())
    elif isinstance(value, Mapping):
        for key in value:
            yield {np.str_(key): part for key, part in value.items()}
            yield from ({**value, key: part} for part in foreign(value[key]))
    elif isinstance(value, list):
        yield from (np.array(value), list(np.array(value)), tuple(value), pd.Series(value), pd.Index(value))
        if not isinstance(value[0], dict):
            yield pl.Series(value)
        yield from ([part, *value[1:]] for part in foreign(value[0]))


ODD: list[Any] = [pd.NA, pd.NaT, np.datetime64("NaT"), Decimal("NaN"), Decimal("sNaN"), np.complex128(1),
                  np.bytes_(b"x"), b"x", np.array([1, 2]), np.array([]), pd.Series([1.0]), pd.Timestamp("2020"),
                  pd.Timedelta("1h"), pd.Period("2020"), pd.Interval(0, 1), pd.Categorical(["a"]), dt.time(1), object(),
                  dt.date(2020, 1, 1), np.timedelta64(3), np.longdouble("1e400"), {}, set(),
                  range(2), np.void(b"x"), pl.lit(1), np.str_("a\0")]  # fmt: skip


def deep(value: Any) -> str:
    """Use a value as what comes later does: print it, copy it, write it as JSON."""
    if isinstance(value, d.Column):
        value = d.Domain(columns={"c": value})
    if isinstance(value, d.Domain):
        return value.to_toml() + json.dumps(value.to_dict(), default=str) + repr(pickle.loads(pickle.dumps(value)))
    if isinstance(value, Mechanism):
        facts = json.dumps(value.parameters())
        return facts + repr(value) + str(value.guarantee(discreet.privacy.Relation(name="replacement"), n=200))
    if isinstance(value, discreet.releases.Release):
        found = {key: fact for key, fact in value.certificate.to_dict().items() if key != "created"}
        return json.dumps(found) + repr(value.records)
    if hasattr(value, "verdict"):
        return json.dumps(value.to_dict()) + value.text
    if isinstance(value, privacy.Code):
        return json.dumps(value.to_dict())
    if isinstance(value, privacy.Profile):
        return repr(value) + repr(value.delta(1.0))
    return repr(value)


def tried(call: Callable[..., Any], arguments: dict[str, Any]) -> str | None:
    """Return what comes of a call, or None where it is refused in words."""
    try:
        value = call(**arguments)
    except Fault as error:
        raise RuntimeError(str(error)) from None
    except DiscreetError:
        return None
    return deep(value)


NUMBERS = (np.float16, np.float32, np.float64, np.longdouble, Fraction, Decimal)
TIMES = (np.datetime64, np.timedelta64)


def taken(value: Any, other: Any) -> bool:
    """Return whether a value of another library is taken for one of Python, and not only never taken for another."""
    kinds: tuple[Any, ...] = (np.bool_, np.int16, np.int64, np.uint16, np.str_)
    kinds += NUMBERS * isinstance(value, float) + TIMES * isinstance(value, (dt.datetime, dt.timedelta))
    kinds += (tuple,) * isinstance(value, list)
    return isinstance(other, kinds) and not any(other is odd for odd in ODD)


def faults(name: str, call: Callable[..., Any], arguments: dict[str, Any]) -> Iterator[str]:
    plainly = tried(call, arguments)
    assert plainly is not None, name
    for key, value in arguments.items():
        if isinstance(value, (d.Domain, pl.DataFrame, privacy.Budget)):
            continue
        for other in [*foreign(value), *ODD]:
            try:
                found = tried(call, {**arguments, key: other})
                if found is None and taken(value, other):
                    yield f"{name}({key}={other!r} {type(other).__name__}) is refused"
                exact = name == "MixturePair" and isinstance(other, Fraction)  # kept as it is
                if found not in (None, plainly) and not exact and not any(other is odd for odd in ODD):
                    yield f"{name}({key}={other!r} {type(other).__name__}) is another value"
            except Exception as error:  # noqa: BLE001
                yield f"{name}({key}={other!r} {type(other).__name__}): {type(error).__name__} {error}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_each_argument_is_plain_or_refused(name: str) -> None:
    call = PUBLIC.get(name) or next(kind for kind in map(REGISTRY.__getitem__, REGISTRY) if kind.__name__ == name)
    assert not list(faults(name, call, CALLS[name]))


CLIP: dict[str, Any] = {"nulls": "category", "out_of_bounds": "clip", "strip": True}
NOTATIONS: list[tuple[type[d.Column], dict[str, Any]]] = [
    (d.Boolean, {"true": "Y", "false": "N", "null_values": ["", "NA"], "out_of_bounds": "null", "nulls": "category",
                 "strip": True}),
    (d.Category, {"categories": [1, 2], "dtype": "int8", "null_values": ["9"], "nulls": "category", "strip": True,
                  "out_of_bounds": "null", "base": {"weights": [1.0, 2.5, 3.0]}}),
    (d.Category, {"categories": [True, False], "ordered": False}),
    (d.Category, {"categories": ["x", "other"], "out_of_bounds": "other", "strip": True, "null_values": ["-"]}),
    (d.Date, {"lower": DAY, "upper": dt.date(2020, 1, 9), "format": "%d.%m.%Y", "null_values": ["-"], **CLIP}),
    (d.Datetime, {"lower": MOMENT, "upper": dt.datetime(2020, 1, 2, 9), "step": LENGTH, "format": "%d.%m.%Y %H:%M",  # noqa: DTZ001
                  "null_values": ["-"], **CLIP}),
    (d.Decimal, {"lower": "0", "upper": "2", "digits": 1, "decimal_mark": ",", "thousands": ".", "prefix": "$",
                 "null_values": ["-"], **CLIP}),
    (d.Duration, {"lower": "0s", "upper": "4h", "step": "2h", "null_values": ["-"], **CLIP}),
    (d.Integer, {"lower": 0, "upper": 4, "thousands": ",", "prefix": "$", "censored": [">4"], "null_values": ["-9"],
                 **CLIP}),
    (d.Numeric, {"lower": 1.0, "upper": 2.0, "grid": [1.0, 1.5, 2.0], "decimal_mark": ",", "null_values": ["-"],
                 **CLIP}),
    (d.Numeric, {"lower": 0.0, "upper": 2.0, "step": 0.5, "null_values": ["-"], **CLIP}),
    (d.Numeric, {"lower": 0.0, "upper": 2.0, "cells": 2, "censored": ["<0", ">2"], "null_values": ["-"], **CLIP}),
    (d.Numeric, {"lower": 0.0, "upper": 2.0, "base": {"distribution": "norm", "loc": 1.0, "scale": 0.5}}),
    (d.Time, {"step": LENGTH, "format": "%H.%M", "null_values": ["-"], **CLIP}),
    (d.OpenLabels, {"prefix": "new_", "nulls": "category", "out_of_bounds": "null", "strip": True,
                    "null_values": ["-"]}),
    (privacy.Code, {"name": "x", "numbers": {"share": 0.5, "words": "y", "all": ["a", "b"], "of": {"a": 0.25}}}),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("kind", "arguments"), NOTATIONS, ids=[f"{i}-{k.__name__}" for i, (k, _) in enumerate(NOTATIONS)]
)
def test_each_field_is_plain_or_refused(kind: Any, arguments: dict[str, Any]) -> None:
    """Notations, choices among texts, lists of anything."""
    assert not list(faults(kind.__name__, kind, arguments))


PLAIN = {"int", "float", "str", "bool"}


def test_every_public_callable_is_tried() -> None:
    """Those that take a number, a text or a truth value; a path or a choice among texts is no such one."""
    taking = set()
    for name, call in PUBLIC.items():
        if inspect.isfunction(call) or (isinstance(call, type) and not issubclass(call, BaseException)):
            kinds = {
                part for one in inspect.signature(call).parameters.values() for part in str(one.annotation).split(" | ")
            }
            taking |= {name} if kinds & PLAIN else set()
    assert taking - set(CALLS) - set(" ".join(WITHOUT.values()).split()) == set()
