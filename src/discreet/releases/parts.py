"""Writing a release in parts: each drawn by itself, by whoever, as often as need be, with the same bytes each time.

What a worker is given is public: shares that were released, a key of public post-processing, the domain. The private
step is over before the first part is begun.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from discreet._core.errors import DiscreetError, Fault, FileProblem, ParameterError
from discreet._core.files import new_folder, repeatable, together
from discreet._core.lazy import pl
from discreet._core.random import Key, keyed, public_key
from discreet._core.reading import file_sha256
from discreet.domain import Domain, Records
from discreet.ledger import Run
from discreet.ledger.request import MOST_PARTS, Output, Workers
from discreet.mechanisms import Mechanism
from discreet.mechanisms.reading import CellShares, Contents, Portion, Reading, draw_counts
from discreet.releases.certificate import PARTS_CERTIFICATE, Certificate
from discreet.releases.content import Frames, decoded_frames, no_rows, released_frames
from discreet.releases.facts import FileFacts
from discreet.releases.manifest import MANIFEST, Part, folders_of, manifest
from discreet.releases.writing import write_frames


def require_parts(asked: Output, mechanism: Mechanism, contents: Contents) -> None:
    """Refuse what has no parts, before anything is drawn. Raises ParameterError."""
    if asked.partitions is None:
        return
    if contents.tables is not None:
        raise ParameterError("several tables cannot be released in parts. Leave partitions or tables out")
    if contents.size is None:
        raise ParameterError("counts cannot be released in parts. Leave partitions out")
    if asked.partition_by is None:
        return
    if not contents.folders:
        raise no_folders(mechanism.name)
    require_folders(asked, mechanism.domain)


def require_folders(asked: Output, domain: Domain) -> None:
    """Refuse a column that folders cannot be named by, or that has too many values. Raises ParameterError."""
    folders, count = len(folders_of(domain, str(asked.partition_by))), asked.partitions or 1
    if folders * count > MOST_PARTS:
        raise ParameterError(
            f"{folders:,} values with {count:,} parts each are more than {MOST_PARTS:,} files. Ask for fewer partitions"
        )


def no_folders(name: str) -> ParameterError:
    """Return the error of a mechanism that cannot fill folders by value."""
    return ParameterError(
        f"{name} does not count the values that it releases, so it cannot fill a folder for each of them. "
        "Leave partition_by out"
    )


def write_parts(
    mechanism: Mechanism,
    contents: Contents,
    reading: Reading,
    document: Certificate,
    folder: Path,
    asked: Output,
    *,
    rng: np.random.Generator,
    carried: Mapping[str, str],
    run: Run,
    progress: Callable[..., None] | None,
) -> Certificate:
    """Write a release into a folder that appears whole, or not at all; return the certificate that is in it."""
    written, domain, size = document, mechanism.domain, contents.size or 0
    by, count, schema = asked.partition_by, asked.partitions or 1, dict(no_rows(contents).schema)
    shares = reading.cell_shares(rng=rng)
    if shares is None and by is not None:
        raise Fault("no folders", mechanism.name)
    folders = [] if by is None else folders_of(domain, by)
    with new_folder(folder, keeper=run.keeper(lambda: written.paid_for), folders=folders) as place:
        if shares is None:
            frames = next(released_frames(mechanism, contents, reading, rng=rng, progress=progress))
            pieces = enumerate(_pieces(frames, [Portion(number, count).size(size) for number in range(count)]))
            parts = [_part(place, _name(number), piece, schema, carried) for number, piece in pieces]
        else:
            shares, sizes = shares.as_counts(size, rng=rng), [size]
            if by is not None:
                del schema[by]
                codes = shares.code_shares(domain.names.index(by), len(folders))
                sizes = draw_counts(codes, size, sampling=shares.sampling, rng=rng).tolist()
            tables = tuple(zip([f"{name}/" for name in folders] or [""], sizes, strict=True))
            maker = PartMaker(place, count, tables, by, shares, public_key(rng), domain, schema, dict(carried))
            parts = _all_parts(maker, asked.workers, folder, progress)
        listed = manifest(parts, by)
        with together(place / MANIFEST) as (file,):
            file.write(listed)
        rows = sum(part.rows for part in parts)
        written = document.releasing(
            tables=[FileFacts(file=MANIFEST, rows=rows, sha256=sha256(listed).hexdigest())],
            partitions=len(parts),
            partition_by=by,
        )
        with together(place / PARTS_CERTIFICATE) as (file,):
            file.write(written.to_json().encode())
    run.delivered()
    return written


def _name(number: int) -> str:
    return f"part-{number:05}.parquet"


def _part(folder: Path, name: str, frames: Frames, schema: dict[str, Any], carried: Mapping[str, str]) -> Part:
    """Write a part, and return its name, number of rows and hash."""
    path = folder / name
    with repeatable(path) as file:
        rows = write_frames(frames, schema, file, named=path, metadata=carried)
        digest = file_sha256(file.name)
    return Part(name, rows, digest)


# -- each by itself ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PartMaker:
    """Makes part after part, in any order: a function of a part's number, which can be sent to another process.

    ``count``: how many parts each table has.
    ``tables``: what the names of its parts begin with, and its number of records.
    ``by``: the column that each table has one code of, and no file holds.
    """

    folder: Path
    count: int
    tables: tuple[tuple[str, int], ...]
    by: str | None
    shares: CellShares
    key: Key
    domain: Domain
    schema: dict[str, Any]
    carried: dict[str, str]

    @property
    def numbers(self) -> range:
        """The numbers of all parts."""
        return range(len(self.tables) * self.count)

    def __call__(self, number: int) -> Part:
        """Write a part, and return its name, number of rows and hash."""
        rng = keyed(self.key, number)
        frames = decoded_frames(self.domain, self.records(number, rng), rng=rng, source="a part of a release")
        written = (frame.select(*self.schema) for frame in frames)
        return _part(self.folder, self.name(number), written, self.schema, self.carried)

    def name(self, number: int) -> str:
        """Return the name of a part."""
        return self.tables[number // self.count][0] + _name(number % self.count)

    def records(self, number: int, rng: np.random.Generator) -> Iterator[Records]:
        """Draw the records of a part; the key says where its points of a stratified sample begin."""
        (table, place), shares = divmod(number, self.count), self.shares
        if self.by is not None:
            shares = shares.of_code(self.domain.names.index(self.by), len(self.tables), table)
        most = 1 + max(size for _, size in self.tables) // self.count
        portion = Portion((place + self.key[0]) % self.count, self.count, 1 + number * most)
        return shares.draw(self.tables[table][1], rng=rng, portion=portion)


def _all_parts(maker: PartMaker, workers: Workers, folder: Path, progress: Callable[..., None] | None) -> list[Part]:
    """Have every part made, however often, and return them in order.

    Raises FileProblem when a worker fails, or what it says it wrote is not there.
    """
    parts: dict[str, Part] = {}
    for part in _attempts(maker, workers, folder):
        if parts.setdefault(part.file, part) != part:
            raise Fault("two attempts at a part differ", "a part of a release")
        if progress is not None:
            progress(sum(one.rows for one in parts.values()))
    names = list(map(maker.name, maker.numbers))
    for name in names:
        if name not in parts or not (maker.folder / name).is_file():
            raise FileProblem(
                folder,
                f"{name} was not written where this process reads",
                "use workers that share its folder. Nothing was written",
            )
    return [parts[name] for name in names]


def _attempts(maker: PartMaker, workers: Workers, folder: Path) -> Iterator[Part]:
    """Yield what workers made. Raises FileProblem where one fails, with what its engine says: all of it is public."""
    if workers == 1:
        yield from map(maker, maker.numbers)
        return
    try:
        if callable(workers):
            yield from workers(maker, list(maker.numbers))
            return
        import multiprocessing  # with the next line a few per cent of the time that the command needs to start
        from concurrent.futures import ProcessPoolExecutor

        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            yield from pool.map(maker, maker.numbers)
    except DiscreetError:
        raise
    except Exception as error:
        raise FileProblem(
            folder,
            "a worker did not finish its part",
            "read the error of its engine, then release again. Nothing was written",
        ) from error


# -- one after the other ----------------------------------------------------------------------------------------------


def _pieces(frames: Frames, sizes: list[int]) -> Iterator[Frames]:
    """Cut a stream of frames into streams of so many rows, fewer where it ends; each is to be read before the next."""
    frames, left = filter(len, frames), pl.DataFrame()

    def piece(rows: int) -> Frames:
        nonlocal left
        while rows > 0 and (left := left if left.height else next(frames, left)).height:
            frame, left = left.head(rows), left.slice(rows)
            rows -= frame.height
            yield frame

    return map(piece, sizes)
