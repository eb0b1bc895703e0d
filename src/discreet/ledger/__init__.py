"""A ledger: every release of a confidential table is paid for once, whatever dies on the way."""

from discreet._core.boundary import seal
from discreet.ledger._ledger import Ledger
from discreet.ledger._payment import Payment
from discreet.ledger._status import LedgerStatus

__all__ = ["Ledger"]

seal(globals(), Payment, LedgerStatus)
