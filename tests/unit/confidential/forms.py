"""A table in each form that is read, values that fail, and errors that quote nothing."""

import traceback
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from discreet.confidential import confidential
from discreet.domain import Domain
from discreet.errors import DataError, DiscreetError

CANARY = 424_242_171
TEXT = f"canary{CANARY}"


def in_form(frame: pl.DataFrame, form: str, folder: Path) -> Any:
    """Return a table as an object of a library, or as the path of a file."""
    if form in ("csv", "parquet"):
        path = folder / f"t.{form}"
        getattr(frame, f"write_{form}")(path)
        return path
    if form == "pandas arrow":
        return frame.to_pandas(use_pyarrow_extension_array=True)
    return {"polars": frame.clone, "lazy": frame.lazy, "pandas": frame.to_pandas, "pyarrow": frame.to_arrow}[form]()


def refused(data: Any, domain: Domain, kind: type[DiscreetError] = DataError, **options: Any) -> str:
    """Return what is said of a table that is refused: no value of it, in no error behind the error."""
    with pytest.raises(kind) as found:
        confidential(data, domain, **options)
    assert found.value.__context__ is None
    assert found.value.__cause__ is None
    assert str(CANARY) not in "".join(traceback.format_exception(found.value))
    return str(found.value)


class Hostile:
    """A value that fails, and tells itself, in whatever is done with it."""

    def _fail(self, *_: object) -> Any:
        raise RuntimeError(TEXT)

    __hash__ = __eq__ = __str__ = __repr__ = __lt__ = __bool__ = __int__ = __float__ = _fail  # type: ignore[assignment]
