"""Ready embeddings of texts: static vectors of words, loaded by the library model2vec when they are named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats
from discreet._core.checks import unfit
from discreet._core.errors import MissingExtra, ParameterError
from discreet._core.lazy import Lazy
from discreet.domain import Domain, OpenLabels

model2vec = Lazy("model2vec")


def settled_embedding(given: Any, domain: Domain) -> Callable[[Any], npt.ArrayLike]:
    """Return an embedding as a function: one that was given, or that of a model named by its folder or its name.

    Raises ParameterError when it is neither, the domain is not one column of texts, or the model cannot be loaded.
    """
    if callable(given):
        function: Callable[[Any], npt.ArrayLike] = given
        return function
    if not isinstance(given, str) or not given:
        raise unfit("embedding", "a function, or the name or folder of a model of model2vec", given)
    (name, column), *others = domain.columns.items()
    if others or not isinstance(column, OpenLabels) or column.nullable:
        raise ParameterError(
            f"column {name!r}: a model by its name embeds texts, which must be the only column, of open labels without "
            "nulls. Give a function"
        )
    if find_spec("model2vec") is None:
        raise MissingExtra("the embedding of a model by its name needs model2vec", "embeddings")
    try:
        model = model2vec.StaticModel.from_pretrained(given, force_download=False)
    except Exception as problem:  # whatever the hub, the file or the network is
        raise ParameterError(
            "the model of the embedding cannot be loaded. Give the folder of a model of model2vec, or its name on "
            "Hugging Face where it can be reached"
        ) from problem

    def embedding(rows: Any) -> Floats:
        """Return the direction of the mean vector of each text's words; 0 where it has none that the model knows."""
        texts: Sequence[str] = rows if isinstance(rows, list) else rows[name].to_list()
        vectors = np.asarray(model.encode(texts, normalize=False, use_multiprocessing=False), dtype=np.float64)
        lengths = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
        found: Floats = vectors / np.where(lengths > 0.0, lengths, 1.0)
        return found

    return embedding
