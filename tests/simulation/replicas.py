"""Kafka's replicas of one partition, as far as a reader can tell: which broker answers for it, and up to
where.

Replication factor 3, min.insync.replicas 2, acks=all, no unclean election. What follows from that, and is
modelled:

- What was acknowledged is there for ever and lies in one order: an append is acknowledged by the leader of
  that moment, once all in-sync replicas have it. A deposed leader acknowledges nothing; such an append is a
  lost request, and those are faults anyway.
- What a broker shows to readers ends at the high watermark that it knows: always a beginning of what is
  committed, so no reader sees what will be taken back. A new leader learns of its high watermark late, when
  its followers have fetched from it, or when an append is acknowledged. A leader that was stopped or cut off
  answers with what it knew, until it hears that it was deposed.
- A client asks the broker that its metadata name. That may be a deposed leader for as long as this one
  answers; a client may also be told its name by a broker that is cut off. A Fetch carries the leader epoch of
  the metadata, and a broker that leads in another epoch refuses: the client then asks for metadata and goes
  to the leader.
- A leader may be elected that still takes itself for the leader of an older epoch and answers as that. Kafka
  elects nobody who has not followed since, so this is more than Kafka does; it is where the leader epoch
  makes a difference.

Not modelled, because readers can't tell it from what is: the log end beyond the high watermark and its
truncation, which in-sync replicas fetch when, followers that answer (KIP-392 is off: nobody sets a rack),
brokers that don't answer (faults of readers and requests do that), and the transaction coordinator's own log,
whose answers are those of one place.
"""

from __future__ import annotations

from dataclasses import dataclass

BROKERS = 3
EPOCH_IN_FETCH = True
"""Whether a Fetch carries the leader epoch of the client's metadata."""


@dataclass(slots=True)
class Route:
    """A client's metadata of one partition: the leader epoch that it knows of, and so the broker that it
    asks."""

    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Belief:
    """A broker takes itself for the leader, in an epoch. high_watermark: None while it knows all that is
    committed."""

    epoch: int
    high_watermark: int | None


class Replicas:
    """The brokers of one partition. Offsets that are given as `end` are the end of what is committed."""

    def __init__(self) -> None:
        self.leaders = (0,)
        """By leader epoch, the broker that was elected."""
        self.beliefs = {0: Belief(0, None)}
        """By broker, of those that take themselves for the leader."""
        self.least = 0
        """No election leads to a lower high watermark: what compaction has gone by was known to all."""
        self.is_calm = True
        """Whether whoever answers knows all that is committed."""

    def clone(self) -> Replicas:
        """The same in another world."""
        twin = Replicas()
        twin.leaders, twin.beliefs = self.leaders, dict(self.beliefs)
        twin.least, twin.is_calm = self.least, self.is_calm
        return twin

    @property
    def epoch(self) -> int:
        """Of the newest election."""
        return len(self.leaders) - 1

    @property
    def leader(self) -> int:
        """Who was elected last."""
        return self.leaders[-1]

    def high_watermark(self, route: Route, end: int) -> int:
        """What a client is told is the end. It goes on asking until a broker answers."""
        if self.is_calm:
            route.epoch = len(self.leaders) - 1
            return end
        belief = self._asked(route.epoch)
        if belief is None:
            route.epoch = self.epoch
            belief = self._asked(self.epoch)
        if belief is None:
            self.leader_hears(end)
            belief = self.beliefs[self.leader]
        return _known(belief, end)

    def _asked(self, epoch: int) -> Belief | None:
        """The answer of the broker that a client with such metadata asks; None if it refuses."""
        belief = self.beliefs.get(self.leaders[epoch])
        return None if belief is not None and EPOCH_IN_FETCH and belief.epoch != epoch else belief

    def appended(self) -> None:
        """Something was acknowledged, so the leader knows of its election, and its high watermark is the
        end."""
        if not self.is_calm:
            self.beliefs[self.leader] = Belief(self.epoch, None)
            self._look()

    def elect(self, broker: int, high_watermark: int, end: int, *, old_answers: bool, hears: bool) -> None:
        """Another leader. old_answers: the one before goes on answering with what it knows
        now. hears: the new one knows."""
        deposed, old = self.leader, self.beliefs.pop(self.leader, None)
        if old_answers and old is not None:
            self.beliefs[deposed] = Belief(old.epoch, _known(old, end))
        self.leaders = (*self.leaders, broker)
        if hears or broker not in self.beliefs:
            self.beliefs[broker] = Belief(self.epoch, max(self.least, min(high_watermark, end)))
        self._look()

    def leader_hears(self, end: int) -> None:
        """The leader knows that it was elected; its high watermark is what it knew."""
        belief = self.beliefs.get(self.leader, Belief(-1, end))
        if belief.epoch != self.epoch:
            self.beliefs[self.leader] = Belief(self.epoch, _known(belief, end))

    def deposed(self) -> list[int]:
        """Brokers that take themselves for the leader and are not."""
        return [broker for broker in self.beliefs if broker != self.leader]

    def hears(self, broker: int) -> None:
        """A deposed leader hears that it was deposed."""
        del self.beliefs[broker]
        self._look()

    def followers_fetch(self, end: int) -> None:
        """The leader, which has heard, learns how far its followers are."""
        self.leader_hears(end)
        self.appended()

    def settle(self) -> None:
        """All brokers hear all, and followers have fetched."""
        self.beliefs = {self.leader: Belief(self.epoch, None)}
        self._look()

    def _look(self) -> None:
        self.is_calm = len(self.beliefs) == 1 and self.beliefs.get(self.leader) == Belief(self.epoch, None)

    def known_to_all(self, end: int) -> int:
        """Up to where compaction may go by what it sees; from then on no broker answers with less."""
        self.least = max(self.least, min(_known(belief, end) for belief in self.beliefs.values()))
        return self.least


def _known(belief: Belief, end: int) -> int:
    return end if belief.high_watermark is None else min(belief.high_watermark, end)
