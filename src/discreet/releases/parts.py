"""Writing a release in parts: each made by itself, by whoever, as often as need be, with the same bytes each time.

What a worker is given is public: counts that were released, a key of public post-processing, the domain. The private
step, and how many records each cell gets, is over before the first part is begun.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from discreet._core.errors import DiscreetError, Fault, FileProblem, ParameterError
from discreet._core.files import new_folder, repeatable, together
from discreet._core.lazy import pl
from discreet._core.random import keyed
from discreet._core.reading import file_sha256
from discreet.domain import Domain
from discreet.ledger import Run
from discreet.ledger.request import MOST_PARTS, Output, Workers
from discreet.mechanisms import Mechanism
from discreet.mechanisms.reading import BLOCK, Contents, Expansion, Reading
from discreet.releases.certificate import PARTS_CERTIFICATE, Certificate
from discreet.releases.content import Frames, no_rows, released_frames
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
    written = document

    domain, size, schema = mechanism.domain, contents.size or 0, dict(no_rows(contents).schema)
    shares = reading.cell_shares(rng=rng)
    if shares is None and asked.partition_by is not None:
        raise Fault("no expansion", mechanism.name)
    folders = [] if asked.partition_by is None else folders_of(domain, asked.partition_by)
    with new_folder(folder, keeper=run.keeper(lambda: written.paid_for), folders=folders) as place:
        if shares is None:
            frames = next(released_frames(mechanism, contents, reading, rng=rng, progress=progress))
            parts = list(_one_after_the_other(frames, size, schema, place, asked, carried=carried))
        else:
            expansion = Expansion.drawn(shares, size, rng=rng)
            maker = _maker(expansion, domain, schema, place, asked, rng=rng, carried=carried)
            parts = _all_made(maker, asked.workers, folder, progress)
        listed = manifest(parts, asked.partition_by)
        with together(place / MANIFEST) as (file,):
            file.write(listed)
        rows = sum(one.rows for one in parts)
        written = document.releasing(
            tables=[FileFacts(file=MANIFEST, rows=rows, sha256=sha256(listed).hexdigest())],
            partitions=len(parts),
            partition_by=asked.partition_by,
        )
        with together(place / PARTS_CERTIFICATE) as (file,):
            file.write(written.to_json().encode())
    run.delivered()
    return written


def _name(number: int) -> str:
    return f"part-{number:05}.parquet"


def _bounds(size: int, count: int, number: int) -> tuple[int, int]:
    """Return where a part of a table begins, and where the next one does."""
    return size * number // count, size * (number + 1) // count


# -- by position ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PartMaker:
    """Makes part after part, in any order: a function of a part's number, which can be sent to another process."""

    folder: Path
    count: int
    tables: tuple[tuple[str, Expansion], ...]
    domain: Domain
    schema: dict[str, Any]
    carried: dict[str, str]
    leaves_out: str | None = None

    def __len__(self) -> int:
        return len(self.tables) * self.count

    def __call__(self, number: int) -> Part:
        """Write a part, and return its name, number of rows and hash."""
        within, expansion = self.tables[number // self.count]
        name = within + _name(number % self.count)
        path = self.folder / name
        with repeatable(path) as file:
            frames = self._frames(expansion, number)
            rows = write_frames(frames, self.schema, file, named=path, metadata=self.carried)
            found = file_sha256(file.name)
        return Part(name, rows, found)

    def _frames(self, expansion: Expansion, number: int) -> Frames:
        order, rng = expansion.order(), keyed(expansion.key, number + 1)
        start, stop = _bounds(expansion.size, self.count, number % self.count)
        for first in range(start, stop, BLOCK):
            records = expansion.records(first, min(first + BLOCK, stop), order=order, rng=rng)
            if not self.domain.allowed(records).all():
                raise Fault("record declared impossible", "a part of a release")
            frame = self.domain.decode(records, rng=rng)
            yield frame if self.leaves_out is None else frame.drop(self.leaves_out)


def _maker(
    expansion: Expansion,
    domain: Domain,
    schema: dict[str, Any],
    place: Path,
    asked: Output,
    *,
    rng: np.random.Generator,
    carried: Mapping[str, str],
) -> PartMaker:
    tables: tuple[tuple[str, Expansion], ...] = (("", expansion),)
    if asked.partition_by is not None:
        del schema[asked.partition_by]
        folders = folders_of(domain, asked.partition_by)
        split = expansion.split(list(domain.names).index(asked.partition_by), len(folders), rng=rng)
        tables = tuple((f"{name}/", one) for name, one in zip(folders, split, strict=True))
    return PartMaker(place, asked.partitions or 1, tables, domain, schema, dict(carried), asked.partition_by)


def _all_made(maker: PartMaker, workers: Workers, folder: Path, progress: Callable[..., None] | None) -> list[Part]:
    """Have every part made, and return them in order.

    Raises FileProblem when a worker fails, or what it says it wrote is not there.
    """
    made = _mapped(maker, workers)
    found = _collected(made if workers == 1 else _finished(made, folder), progress)
    names = [within + _name(number) for within, _ in maker.tables for number in range(maker.count)]
    for name in names:
        if name not in found or not (maker.folder / name).is_file():
            raise FileProblem(
                folder,
                f"{name} was not written where this process reads",
                "use workers that share its folder. Nothing was written",
            )
    return [found[name] for name in names]


def _finished(made: Iterator[Part], folder: Path) -> Iterator[Part]:
    """Yield what workers made. Raises FileProblem where one fails, with what its engine says: all of it is public."""
    while True:
        try:
            part = next(made)
        except StopIteration:
            return
        except DiscreetError:
            raise
        except Exception as error:
            raise FileProblem(
                folder,
                "a worker did not finish its part",
                "read the error of its engine, then release again. Nothing was written",
            ) from error
        yield part


def _collected(made: Iterable[Part], progress: Callable[..., None] | None) -> dict[str, Part]:
    """Return parts by name, however often each was made."""
    found: dict[str, Part] = {}
    done = 0
    for part in made:
        if part.file not in found:
            done += part.rows
            if progress is not None:
                progress(done)
        if found.setdefault(part.file, part) != part:
            raise Fault("two attempts at a part differ", "a part of a release")
    return found


def _mapped(maker: PartMaker, workers: Workers) -> Iterator[Part]:
    numbers = range(len(maker))
    if callable(workers):
        yield from workers(maker, list(numbers))
    elif workers == 1:
        yield from map(maker, numbers)
    else:
        import multiprocessing  # with the next line a few per cent of the time that the command needs to start
        from concurrent.futures import ProcessPoolExecutor

        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, mp_context=spawn, initializer=_hold, initargs=(maker,)) as pool:
            yield from pool.map(_make, numbers)


_held: list[PartMaker] = []


def _hold(maker: PartMaker) -> None:
    """Keep what makes parts in a process of its own: it is sent once, not with every part."""
    _held[:] = [maker]


def _make(number: int) -> Part:
    return _held[0](number)


# -- one after the other ----------------------------------------------------------------------------------------------


def _one_after_the_other(
    frames: Frames, size: int, schema: dict[str, Any], place: Path, asked: Output, *, carried: Mapping[str, str]
) -> Iterator[Part]:
    """Write a stream of frames into parts, each of which is full before the next one begins."""
    stream, count = _Stream(frames), asked.partitions or 1
    for number in range(count):
        path = place / _name(number)
        start, stop = _bounds(size, count, number)
        hashes: dict[Path, str] = {}
        with together(path, hashes=hashes) as (file,):
            rows = write_frames(stream.next(stop - start), schema, file, named=path, metadata=carried)
            hashes[path] = file_sha256(file.name)
        yield Part(path.name, rows, hashes[path])


class _Stream:
    """A stream of rows that is read in pieces."""

    def __init__(self, frames: Frames) -> None:
        self._frames, self._left = frames, pl.DataFrame()

    def next(self, rows: int) -> Frames:
        """Yield the next rows, fewer where the stream ends."""
        while rows > 0:
            if not self._left.height:
                found = next(self._frames, None)
                if found is None:
                    return
                self._left = found
            taken, self._left = self._left.head(rows), self._left.slice(rows)
            rows -= taken.height
            yield taken
