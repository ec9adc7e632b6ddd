"""The transaction: whose producer epoch it is under, and how far the logs were read since."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class TransactionState:
    """What came of the newest InitProducer."""

    producer: tuple[int, int] | None = None
    """(producer id, producer epoch); None while there is none that may be used."""
    timeout_ms: int = 0
    """The transaction timeout that it was asked for with."""
    looked: bool = True
    """The control log was read to its end since, so that a newer claim would be known."""
    steps_end: int = 0
    """Up to which offset the log of steps was read since: where the next record has to come to lie."""

    def fencing(self, timeout_ms: int) -> TransactionState:
        """InitProducer is asked for."""
        return replace(self, producer=None, timeout_ms=timeout_ms)

    def ready(self, producer_id: int, producer_epoch: int) -> TransactionState:
        """It is answered. Somebody else may be in charge."""
        return replace(self, producer=(producer_id, producer_epoch), looked=False)

    def read_control(self) -> TransactionState:
        """The control log was read to its end."""
        return replace(self, looked=True)

    def read_to(self, steps_end: int) -> TransactionState:
        """Both logs were read to their ends."""
        return replace(self, looked=True, steps_end=steps_end)

    def gone(self) -> TransactionState:
        """The producer must not be used any more."""
        return replace(self, producer=None)
