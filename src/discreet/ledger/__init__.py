"""A ledger: every release of a confidential table is paid for once, whatever dies on the way."""

from discreet._core.boundary import seal
from discreet.ledger.ledger import Ledger
from discreet.ledger.request import Request
from discreet.ledger.run import Run
from discreet.ledger.status import LedgerStatus

__all__ = ["Ledger", "Request", "Run"]

seal(globals(), LedgerStatus)
