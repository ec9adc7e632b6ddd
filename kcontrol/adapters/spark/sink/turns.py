"""The turns of a writer task, asked of the driver over the side channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kcontrol.adapters.kafka.write.turns import WriteTurn
from kcontrol.adapters.spark.channel.client import ChannelAddress, client_of
from kcontrol.adapters.spark.channel.messages import TakeTurns


@dataclass(frozen=True, slots=True)
class WriterIdentity:
    """A writer as the driver knows it: which attempt, query and writer, and by which task of Spark's."""

    serial: int
    query: str
    writer: int
    task_attempt: int

    def told(self) -> tuple[int, str, int, int]:
        """As the messages of the side channel have it."""
        return self.serial, self.query, self.writer, self.task_attempt


class ChannelTurns:
    """Implements `Turns` for one output. Whoever waits does so on a connection of the thread it is called by."""

    def __init__(self, address: ChannelAddress, who: WriterIdentity, output: str) -> None:
        self._address, self._who, self._output = address, who, output

    def take(self, back: Sequence[WriteTurn], wanted: Sequence[int]) -> Sequence[WriteTurn]:
        """See `Turns.take`."""
        asked = TakeTurns(*self._who.told(), self._output, tuple(back), tuple(wanted))
        return client_of(self._address).ask(asked).turns
