"""The names of folders that hold the value of a column: ``COLUMN=value``, escaped as Hive does."""

from __future__ import annotations

from unicodedata import normalize
from urllib.parse import unquote

from discreet._core.errors import ParameterError
from discreet._core.lazy import pl
from discreet._core.text import counted
from discreet.domain import Domain
from discreet.releases._writing import durations_as_texts

_NULL = "__HIVE_DEFAULT_PARTITION__"
_SPECIAL = frozenset("\"#%'*/:=?\\{[]^\x7f") | frozenset(map(chr, range(32)))
MOST_LABELS = 1000
_LONGEST = 200  # bytes of a name


def folders_of(domain: Domain, name: str) -> list[str]:
    """Return the name of the folder of each cell of a declared column, in order: public facts alone.

    Raises ParameterError when the column has none, or too many, or cells that are not values.
    """
    column = domain.columns.get(name)
    if column is None:
        raise ParameterError(f"partition_by must be a declared column, got {name!r}")
    if name.startswith((".", "_")):
        raise ParameterError(
            f"partition_by: programs ignore folders whose names begin like {name!r}. Rename the column"
        )
    cells = column.size
    if cells is None or cells > MOST_LABELS:
        had = "any number of values" if cells is None else counted(cells, "cell")
        raise ParameterError(
            f"partition_by must be a column of at most {MOST_LABELS:,} values, but {name!r} has {had}. "
            "Name another column"
        )
    import numpy as np

    from discreet._core.random import seeded

    codes = np.arange(cells)
    if column.interval(codes) is not None or len(domain.columns) == 1:
        if len(domain.columns) == 1:
            raise ParameterError(
                f"partition_by: {name!r} is the only column, and its files would have none. Leave partition_by out"
            )
        raise ParameterError(
            f"partition_by must be a column of single values, but {name!r} has cells that hold several values. "
            "Name another column"
        )
    values = column.decode(codes, rng=seeded(0)).alias(name).to_frame()
    texts = durations_as_texts(values)[name].cast(pl.String).to_list()
    folders = [f"{escaped(name)}={_NULL if text is None else escaped(text)}" for text in texts]
    reserved = any(text in ("", _NULL) for text in texts)
    # File systems exist that tell neither capitals nor ways of composing a letter apart.
    alike = {normalize("NFC", normalize("NFC", one).casefold()) for one in folders}
    if reserved or len(alike) < len(folders):
        raise ParameterError(
            f"partition_by: values of {name!r} cannot be told apart as names of folders. Name another column"
        )
    if any(len(one.encode()) > _LONGEST for one in folders):
        raise ParameterError(
            f"partition_by: a value of {name!r} is too long for the name of a folder. Name another column"
        )
    return folders


def escaped(text: str) -> str:
    """Return a text with every character percent-encoded that Hive encodes in names.

    Examples
    --------
    >>> escaped("a/b=c")
    'a%2Fb%3Dc'
    """
    return "".join(f"%{ord(one):02X}" if one in _SPECIAL else one for one in text)


def values_of(file: str) -> list[tuple[str, str | None]]:
    """Return the columns and values that the folders of a file name, as texts.

    Examples
    --------
    >>> values_of("sex=f/part-00000.parquet")
    [('sex', 'f')]
    """
    parts = [folder.partition("=") for folder in file.split("/")[:-1]]
    return [(unquote(key), None if value == _NULL else unquote(value)) for key, _, value in parts]
