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
    followed: bool = False
    """The producer is that of the answer to this owner's commit: until the marker of that is written everywhere, Kafka
    takes nothing of the next transaction."""
    proved: bool = False
    """Whether all that is committed in the log of steps is known once it is read again: since it fenced all others
    this owner has written there itself, and knows what became of it. And nothing was heard since that may come of a write
    of somebody else's, which nobody tells an owner of who writes nothing."""
    doubted: bool = False
    """Such a thing was heard while something was on its way to the log, whose answer therefore proves nothing."""

    def owner(self) -> tuple[int, int]:
        """(producer id, producer epoch), where there must be one. Raises LookupError: there is none."""
        if self.producer is None:
            raise LookupError("a transaction without a producer")
        return self.producer

    def fencing(self, timeout_ms: int) -> TransactionState:
        """InitProducer is asked for."""
        return replace(self, producer=None, timeout_ms=timeout_ms, followed=False)

    def ready(self, producer_id: int, producer_epoch: int) -> TransactionState:
        """It is answered. Somebody else may be in charge."""
        return replace(self, producer=(producer_id, producer_epoch), looked=False, followed=False)

    def read_control(self) -> TransactionState:
        """The control log was read to its end."""
        return replace(self, looked=True)

    def read_to(self, steps_end: int) -> TransactionState:
        """Both logs were read to their ends."""
        return replace(self, looked=True, steps_end=steps_end)

    def acknowledged(self) -> TransactionState:
        """What was written to the log of steps lies there, and so does all that was before."""
        return replace(self, proved=not self.doubted, doubted=False)

    def following(self, producer_id: int, producer_epoch: int, steps_end: int) -> TransactionState:
        """This owner's commit was answered with the next one. Nobody can have committed anything between: he would
        have fenced this owner, whose commit had failed then."""
        return replace(self, producer=(producer_id, producer_epoch), steps_end=steps_end, followed=True)

    def in_doubt(self) -> TransactionState:
        """Something may have been committed there that nobody has acknowledged."""
        return replace(self, proved=False)

    def overtaken(self, *, writing: bool) -> TransactionState:
        """Somebody else may have written there since. writing: what was asked to be written is not answered yet."""
        return replace(self, proved=False, doubted=writing)

    def gone(self) -> TransactionState:
        """The producer must not be used any more; another owner may write to the log of steps."""
        return replace(self, producer=None, proved=False, doubted=False, followed=False)
