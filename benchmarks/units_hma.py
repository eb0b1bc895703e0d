"""SDV's HMA on the 500 households of Oregon of ``units.py``, without privacy: a mark of what users accept.

    pip install sdv==2.0.0
    python benchmarks/units_hma.py

Its rows have no order, so persons of a household are put in that of their age, the oldest first.
"""

import polars as pl
from _bench import save
from _harness import script, show, timed
from _unit_tables import HOUSE, PERSON, facts, households, pairs, some

CATEGORICAL = ("tenure", "building", *(name for name, column in PERSON.items() if column.kind == "category"))


def columns(names: list[str]) -> dict[str, dict[str, str]]:
    kinds = {name: "categorical" if name in CATEGORICAL else "numerical" for name in names}
    return {name: {"sdtype": kind} for name, kind in {"unit": "id", **kinds}.items()}


@script()
def main() -> None:
    import pandas as pd
    from sdv.metadata import Metadata
    from sdv.multi_table import HMASynthesizer

    true = some(households()).with_columns(pl.col("unit", *CATEGORICAL).cast(pl.String))
    tables = {"households": true.unique("unit", maintain_order=True).select("unit", *HOUSE)}
    tables["persons"] = true.select("unit", *PERSON)
    link = {"parent_table_name": "households", "parent_primary_key": "unit"}
    link |= {"child_table_name": "persons", "child_foreign_key": "unit"}
    declared = {name: {"columns": columns(frame.columns[1:])} for name, frame in tables.items()}
    declared["households"]["primary_key"] = "unit"
    model = HMASynthesizer(Metadata.load_from_dict({"tables": declared, "relationships": [link]}), verbose=False)
    learnt = {name: pd.DataFrame(frame.to_dict(as_series=False)) for name, frame in tables.items()}
    fitting, _ = timed(model.fit, learnt)
    drawing, made = timed(model.sample_scale, 1.0)
    frames = {name: pl.DataFrame(frame.to_dict("list")) for name, frame in made.items()}
    drawn = frames["persons"].join(frames["households"], on="unit").sort("unit", -pl.col("age"), maintain_order=True)
    plain = [frame.with_columns(pl.col("tenure", "building").cast(pl.Int64)) for frame in (true, drawn)]
    numbers, found = map(facts, plain)
    errors = {name: abs(found[name] - value) for name, value in numbers.items()}
    show(("HMA", "true", "drawn", "error"), [(name, numbers[name], found[name], errors[name]) for name in numbers])
    seconds = {"fitting": round(fitting, 1), "drawing": round(drawing, 1)}
    save("units_hma", {"seconds": seconds, "error": sum(errors.values()) / len(errors), "pairs": pairs(*plain)})
