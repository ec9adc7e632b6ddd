"""Inputs without a producer: rows that are made by their numbers, and a clock. Free of Spark and Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from datetime import datetime
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from kcontrol.definition.addressed import AddressedInput
from kcontrol.definition.durations import Duration, PositiveDuration, duration_ms
from kcontrol.definition.errors import definition
from kcontrol.errors import ConfigurationError
from kcontrol.wire.addresses import (
    MAX_PARTITIONS,
    MAX_RATE,
    MAX_ROWS,
    ROWS_ID,
    ClockAddress,
    GeneratorAddress,
    address_of,
    is_topic,
)
from kcontrol.wire.names import check_part_name

MAX_RANDOMS = 100
_COLUMNS = ("timestamp", "value", "partition", "offset")


class GeneratedInput(AddressedInput):
    """What is the same of all inputs that nobody keeps: no values to parse, no bad records."""

    value_format: ClassVar[None] = None
    schema: ClassVar[None] = None
    log_id: ClassVar[str] = ROWS_ID
    randoms: Sequence[str] = ()


def _is_moment(value: str | None) -> str | None:
    if value is not None and datetime.fromisoformat(value).tzinfo is None:
        raise ValueError("must say its time zone, such as '2026-01-01T00:00:00Z'")
    return value


@definition
class GeneratorInput(GeneratedInput):
    """Rows without a producer: row n is the same on each machine, at each time, in each replay.

    Its columns: `timestamp`, when the row is due; `value`, its number, from 0; the columns of `randoms`; `partition` and
    `offset`, where value = offset * partitions + partition.

    name: what queries call it.
    rows_per_second: how many rows become due in a second, of all partitions together. Rows that became due while no node
        was there are made up for. None: all `rows` are due at once, a millisecond apart by `timestamp`, and a step takes
        as many as `max_records` allows.
    rows: how many there are; None: no end.
    partitions: among so many they are dealt out in turn, to be shared among nodes and tasks.
    ramp_up: for so long the rate grows evenly from 0 to `rows_per_second`.
    seed: other random numbers for another seed.
    randoms: names of columns of random numbers (DOUBLE, 0 <= x < 1), each independent of the others; they follow from seed,
        place in this list and `value`.
    start: when row 0 is due, in ISO 8601 with a time zone. None: when the pipeline is first started.
    node: the one node that reads all of it. None: its partitions are shared out among the nodes.
    """

    name: str
    _: KW_ONLY
    rows_per_second: Annotated[int, Field(ge=1, le=MAX_RATE)] | None = None
    rows: Annotated[int, Field(ge=1, le=MAX_ROWS)] | None = None
    partitions: Annotated[int, Field(ge=1, le=MAX_PARTITIONS)] = 1
    ramp_up: Duration = "0 ms"
    seed: Annotated[int, Field(ge=0, lt=10**18)] = 0
    randoms: Annotated[Sequence[str], Field(max_length=MAX_RANDOMS), AfterValidator(tuple)] = ("random",)
    start: Annotated[str, AfterValidator(_is_moment)] | None = None
    node: Annotated[int, Field(ge=0)] | None = None

    def __post_init__(self) -> None:
        check_part_name("input", self.name)
        where = f"GeneratorInput {self.name!r}"
        if self.rows_per_second is None and self.rows is None:
            raise ConfigurationError(
                f"{where}: give rows_per_second, or rows to have so many at once, or both: rows without end that are all due "
                "can't be divided"
            )
        if self.rows_per_second is None and duration_ms(self.ramp_up):
            raise ConfigurationError(
                f"{where}: ramp_up = {self.ramp_up!r} needs rows_per_second: leave it out"
            )
        for column in self.randoms:
            check_part_name(f"{where}: column", column)
            if column in _COLUMNS or self.randoms.count(column) > 1:
                raise ConfigurationError(
                    f"{where}: randoms: {column!r} is there already; the others are {', '.join(_COLUMNS)}"
                )

    def structure(self) -> list[Any]:
        """As AddressedInput's."""
        settings = (
            self.rows_per_second,
            self.rows,
            self.partitions,
            duration_ms(self.ramp_up),
            self.seed,
            self.start,
        )
        return ["generator", *settings, list(self.randoms)]

    def address(self, before: str, now_ms: int) -> tuple[str, tuple[int, ...]]:
        """As AddressedInput's. What began at a moment of its own goes on from that."""
        start_ms = (
            now_ms if self.start is None else int(datetime.fromisoformat(self.start).timestamp() * 1000)
        )
        made = GeneratorAddress(
            partitions=self.partitions,
            rows_per_second=self.rows_per_second or 0,
            ramp_up_ms=duration_ms(self.ramp_up),
            rows=self.rows or 0,
            seed=self.seed,
            start_ms=start_ms,
        )
        if before and not is_topic(before) and self.start is None:
            earlier = address_of(before)
            if isinstance(earlier, GeneratorAddress) and replace(earlier, start_ms=start_ms) == made:
                made = earlier
        return made.text, (0,) * self.partitions

    def last_ends(self) -> tuple[int, ...]:
        """As AddressedInput's."""
        if self.rows is None:
            return ()
        return GeneratorAddress(self.partitions, 0, 0, self.rows, self.seed, 0).ends(0)


@definition
class ClockInput(GeneratedInput):
    """A row at each multiple of a length of time since 1970, by the wall clock of the node that reads it. Ticks that came while
    no node was there are made up for.

    Its columns: `timestamp`, the moment of the tick; `value`, its number since 1970; `partition`, 0; `offset`, as `value`.

    name: what queries call it. every: the length of time. The first tick is the next one when the pipeline is first started.
    node: the node that reads it. None: node 0.
    """

    name: str
    _: KW_ONLY
    every: PositiveDuration
    node: Annotated[int, Field(ge=0)] | None = None

    def __post_init__(self) -> None:
        check_part_name("input", self.name)

    def structure(self) -> list[Any]:
        """As AddressedInput's."""
        return ["clock", duration_ms(self.every)]

    def address(self, before: str, now_ms: int) -> tuple[str, tuple[int, ...]]:  # noqa: ARG002 - it has no moment of its own
        """As AddressedInput's."""
        made = ClockAddress(duration_ms(self.every))
        return made.text, made.ends(now_ms)
