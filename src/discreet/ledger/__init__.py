"""A ledger: every release of a confidential table is paid for once, whatever dies on the way."""

from typing import TYPE_CHECKING

from discreet._core.lazy import door

if TYPE_CHECKING:
    from discreet.ledger.ledger import Ledger, PlannedRelease, ledger_for, reopened
    from discreet.ledger.request import MOST_PARTS, AddRemove, Checkpoint, Output, Replacement, Request, Watch, Workers
    from discreet.ledger.run import Run, kept_state
    from discreet.ledger.statement import Entry, LedgerStatus, Statement, left_after, loss_texts, power, write_registry

__all__ = ["Ledger", "Request", "Run"]

__getattr__, __dir__ = door(__name__)
