"""What a task that reads an input sends of it to nodes, where Spark has nothing to do with the rows."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class SentAsRead:
    """What is sent of an input. columns: the name of each, as it is sent and as it is read. by: those, as they are sent, by
    which rows are brought to so many shards; without any, all are of shard 0."""

    input: str
    columns: tuple[tuple[str, str], ...]
    by: tuple[str, ...]
    shards: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> SentAsRead:
        """What `to_json` wrote."""
        told = json.loads(text)
        columns = tuple((sent, read) for sent, read in told["columns"])
        return SentAsRead(told["input"], columns, tuple(told["by"]), told["shards"])
