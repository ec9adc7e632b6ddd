"""Inputs that are no topic of Kafka's: where their rows are, an address says (decision 090)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from kcontrol.core.model import BadRecords


class AddressedInput:
    """What is the same of all of them: no topic, no keys, no headers, nothing to look for gaps in."""

    name: str
    topic: ClassVar[str] = ""
    partitioned_by: ClassVar[None] = None
    include_headers: ClassVar[bool] = False
    tombstones: ClassVar[Literal["keep"]] = "keep"
    max_cells: ClassVar[int] = 0
    look_bytes_per_s: ClassVar[int] = 4_194_304
    on_bad_record: Literal["halt", "skip", "dead_letter"] = "halt"
    dead_letter_topic: str | None = None

    @property
    def bad_records(self) -> BadRecords:
        """`on_bad_record` as the protocol's word."""
        return BadRecords(self.on_bad_record)

    @property
    def dead_letter_output(self) -> str:
        """Name of the output that receives bad records, or ''. No user's output can have this name: it holds a dot."""
        return f"{self.name}.dead_letter" if self.dead_letter_topic is not None else ""

    log_id: ClassVar[str]
    """What stands in place of a topic's id, where that follows from nothing else."""

    def structure(self) -> list[Any]:
        """What of it the pipeline's fingerprint covers, beside name and node."""
        raise NotImplementedError

    def address(self, before: str, now_ms: int) -> tuple[str, tuple[int, ...]]:
        """Its address, and by partition where the first step begins. before: the topic or address that it had in the log,
        or ''. now_ms: by the wall clock."""
        raise NotImplementedError

    def last_ends(self) -> tuple[int, ...]:
        """By partition, the offset after the very last row; () if there is none."""
        return ()
