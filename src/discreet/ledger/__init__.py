"""A ledger: every release of a confidential table is paid for once, whatever dies on the way."""

from typing import TYPE_CHECKING

from discreet._core.lazy import door

if TYPE_CHECKING:
    from discreet.ledger.export import TO_FILL_IN, Entry, entries, write_registry
    from discreet.ledger.ledger import Ledger, PlannedRelease
    from discreet.ledger.outlook import ledger_for, left_after
    from discreet.ledger.request import MOST_PARTS, AddRemove, Checkpoint, Output, Replacement, Request, Watch, Workers
    from discreet.ledger.run import Run
    from discreet.ledger.status import LedgerStatus, power

__all__ = ["Ledger", "Request", "Run"]

__getattr__, __dir__ = door(__name__)
