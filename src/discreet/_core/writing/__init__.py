"""The one place where files are written: a set of files appears whole, or what was there stays.

Every output is written under another name beside its own, then renamed. Several renames are not atomic, so a record of
them is kept while they are under way (:mod:`discreet._core.writing.pending`). Nobody who reads looks past such a
record, and the next command that writes finishes or undoes what it says.
"""

from discreet._core.writing.file_sets import new_folder, own_folder, repeatable, save_figure, spill_folder, together
from discreet._core.writing.paths import (
    OWN,
    canonical,
    check_outputs,
    check_writable,
    file_sha256,
    locked,
    require_own,
    same_file,
    writing_problem,
)
from discreet._core.writing.pending import (
    Keeper,
    Move,
    break_promises,
    keep_folder,
    keep_promise,
    recover,
    require_settled,
)

__all__ = [
    "OWN",
    "Keeper",
    "Move",
    "break_promises",
    "canonical",
    "check_outputs",
    "check_writable",
    "file_sha256",
    "keep_folder",
    "keep_promise",
    "locked",
    "new_folder",
    "own_folder",
    "recover",
    "repeatable",
    "require_own",
    "require_settled",
    "same_file",
    "save_figure",
    "spill_folder",
    "together",
    "writing_problem",
]
