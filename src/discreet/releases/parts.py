"""Writing a release in parts: each drawn by itself, by whoever, as often as need be, with the same bytes each time.

What a worker is given is public: shares that were released, a key of public post-processing, the domain. The private
step is over before the first part is begun.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from discreet._core.boundary import worker_pool
from discreet._core.errors import DiscreetError, Fault, FileProblem
from discreet._core.files import new_folder, repeatable, together
from discreet._core.formats import Frames, parquet_rows
from discreet._core.lazy import pl
from discreet._core.random import Key, keyed, public_key
from discreet._core.reading import file_sha256
from discreet.domain import Domain, Records
from discreet.ledger import Run, Workers
from discreet.mechanisms import CellShares, Contents, Mechanism, Portion, Reading
from discreet.releases.certificate import PARTS_CERTIFICATE, Certificate
from discreet.releases.content import Progress, decoded, no_rows, released_frames
from discreet.releases.facts import FileFacts
from discreet.releases.writing import MANIFEST, folders_of, metadata_of, write_part


def write_parts(
    mechanism: Mechanism,
    contents: Contents,
    reading: Reading,
    document: Certificate,
    *,
    rng: np.random.Generator,
    run: Run,
    progress: Progress,
) -> Certificate:
    """Write a release into a folder that appears whole, or not at all; return the certificate that is in it."""
    folder, output = run.request.out[0], run.request.output
    size, count = contents.size or 0, output.partitions or 1
    shares, folders = reading.cell_shares(rng=rng), {}
    if output.partition_by is not None:
        folders = folders_of(contents.domain, output.partition_by)
    on_commit = run.on_commit(lambda placed: run.commit(document.paid_for, placed))
    with new_folder(folder, on_commit=on_commit, folders=folders.values()) as draft:
        metadata = metadata_of(document, folder / PARTS_CERTIFICATE)
        writer = PartWriter(draft, output.partition_by, folders, dict(no_rows(contents).schema), metadata)
        attempts: Iterator[list[FileFacts]]
        if shares is None:
            frames = next(released_frames(mechanism, contents, reading, rng=rng))
            pieces = _cut(frames, [len(range(number, size, count)) for number in range(count)])
            attempts = (writer(number, piece) for number, piece in enumerate(pieces))
        else:
            maker = PartMaker(writer, contents.domain, size, count, shares, rng.random(), public_key(rng))
            attempts = _from_workers(maker, output.workers, folder)
        parts = _collected(attempts, progress)
        names = [name for names in zip(*map(writer.names, range(count)), strict=True) for name in names]
        for name in names:
            if name not in parts or not (draft / name).is_file():
                remedy = "use workers that share its folder. No file was written"
                raise FileProblem(folder, f"{name} was not written where this process reads", remedy)
        listed = [parts[name].to_dict() for name in names]
        facts = {"discreet_manifest": 1, "partition_by": output.partition_by, "parts": listed}
        text = (json.dumps(facts, indent=1) + "\n").encode()
        with together(draft / MANIFEST) as (file,):
            file.write(text)
        rows = sum(part.rows for part in parts.values())
        tables = [FileFacts(file=MANIFEST, rows=rows, sha256=sha256(text).hexdigest())]
        document = document.releasing(tables=tables, partitions=len(parts), partition_by=output.partition_by)
        with together(draft / PARTS_CERTIFICATE) as (file,):
            file.write(document.to_json().encode())
    return document


def _collected(attempts: Iterable[list[FileFacts]], progress: Progress) -> dict[str | None, FileFacts]:
    """Return parts by name, however often each was made."""
    parts: dict[str | None, FileFacts] = {}
    rows = 0
    for part in itertools.chain.from_iterable(attempts):
        if part.file not in parts:
            rows += part.rows
        if parts.setdefault(part.file, part) != part:
            raise Fault("two attempts at a part differ", "a part of a release")
        if progress is not None:
            progress(rows)
    return parts


@dataclass(frozen=True)
class PartWriter:
    """Writes the records of a part: into one file, or into one for each value of a column, in a folder of its name."""

    folder: Path
    by: str | None
    folders: dict[Any, str]
    schema: dict[str, Any]
    metadata: dict[str, str]

    def names(self, number: int) -> list[str]:
        """Return the names of the files of a part."""
        name = f"part-{number:05}.parquet"
        return [f"{folder}/{name}" for folder in self.folders.values()] or [name]

    def __call__(self, number: int, frames: Frames) -> list[FileFacts]:
        """Write a part, and return the names of its files with their numbers of rows and hashes."""
        names = self.names(number)
        with repeatable(*map(self.folder.joinpath, names)) as drafts:
            files = dict(zip(self.folders or [None], drafts, strict=True))
            write_part(frames, self.schema, files, by=self.by, named=self.folder / names[0], metadata=self.metadata)
            drafted = zip(names, drafts, strict=True)
            return [FileFacts(file=name, rows=parquet_rows(file), sha256=file_sha256(file)) for name, file in drafted]


@dataclass(frozen=True, eq=False)
class PartMaker:
    """Makes part after part, in any order: a function of a part's number, which can be sent to another process."""

    writer: PartWriter
    domain: Domain
    size: int
    count: int
    shares: CellShares
    start: float
    key: Key

    def __call__(self, number: int) -> list[FileFacts]:
        """Write a part, and return the names of its files with their numbers of rows and hashes."""
        rng = keyed(self.key, number)
        frames = decoded(self.domain, self.records(number, rng=rng), rng=rng, source="a part of a release")
        return self.writer(number, frames)

    def records(self, number: int, *, rng: np.random.Generator) -> Iterator[Records]:
        """Draw the records of a part; the key says which points of the sample are its own."""
        first_label = 1 + number * (1 + self.size // self.count)
        portion = Portion((number + self.key[0]) % self.count, self.count, self.start, first_label)
        return self.shares.draw(self.size, rng=rng, portion=portion)


def _from_workers(maker: PartMaker, workers: Workers, folder: Path) -> Iterator[list[FileFacts]]:
    """Yield what workers made. Raises FileProblem where one fails, with what its engine says: all of it is public."""
    numbers = range(maker.count)
    if workers == 1:
        yield from map(maker, numbers)
        return
    try:
        if callable(workers):
            yield from workers(maker, list(numbers))
            return
        with worker_pool(workers) as pool:
            yield from pool.map(maker, numbers)
    except DiscreetError:
        raise
    except Exception as error:
        remedy = "read the error of its engine. No file was written"
        raise FileProblem(folder, "a worker did not finish its part", remedy) from error


def _cut(frames: Frames, sizes: list[int]) -> Iterator[Frames]:
    """Cut a stream of frames into streams of so many rows, fewer where it ends; each is to be read before the next."""
    frames, remainder = filter(len, frames), pl.DataFrame()

    def piece(rows: int) -> Frames:
        nonlocal remainder
        while rows > 0 and (remainder := remainder if remainder.height else next(frames, remainder)).height:
            frame, remainder = remainder.head(rows), remainder.slice(rows)
            rows -= frame.height
            yield frame

    return map(piece, sizes)
