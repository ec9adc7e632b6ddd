"""Where the records of an input are: the name of a Kafka topic, or the address of rows that nobody has to keep.

An address begins with a word and a colon, which no topic of Kafka can have in its name, and says all that its rows follow
from. It stands wherever the name of a topic does: in the spec, in each boundary, in what a task is told. So whoever has a
boundary has what it takes to make the same rows again, and nothing of a step is kept anywhere else. In place of a topic's
id stands `ROWS_ID`, the version of the functions here and in `kcontrol.adapters.generated`.

Times are exact: a row's is a number of microseconds since 1970 that follows from its number alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from math import isqrt

from kcontrol.errors import ConfigurationError, InputGoneError

ROWS_ID = "rows-1"
"""Goes up when the same address must give other rows: steps that were made with the old ones can't be run again then."""

_SCHEME = re.compile(r"([a-z]+):(.*)", re.DOTALL)
_SETTING = re.compile(r"([a-z_]+)=(-?\d{1,18})")
_US = 1_000
"""Microseconds in a millisecond."""
_US_PER_S = 1_000_000


@dataclass(frozen=True, slots=True)
class GeneratorAddress:
    """Rows with the numbers 0, 1, 2 ..., dealt out in turn to `partitions`: row n is offset n // partitions of partition
    n % partitions.

    rows_per_second: of all partitions; 0: all rows are due at once. ramp_up_ms: for so long the rate grows evenly from 0.
    rows: how many there are; 0: no end. seed: of the random columns. start_ms: when row 0 is due.
    """

    partitions: int
    rows_per_second: int
    ramp_up_ms: int
    rows: int
    seed: int
    start_ms: int

    @property
    def text(self) -> str:
        """As it stands in place of a topic's name."""
        return _text("generator", self)

    def ends(self, at_ms: int) -> tuple[int, ...]:
        """By partition: the offset after the last row that is due."""
        due = self.due(at_ms)
        return tuple(
            (due - first + self.partitions - 1) // self.partitions for first in range(self.partitions)
        )

    def due(self, at_ms: int) -> int:
        """How many rows are due."""
        if self.rows_per_second == 0:
            return self.rows
        passed_us = (at_ms - self.start_ms) * _US
        if passed_us < 0:
            return 0
        ramp_us = self.ramp_up_ms * _US
        if passed_us < ramp_us:
            last = self.rows_per_second * passed_us**2 // (2 * ramp_us * _US_PER_S)
        else:
            last = self.rows_per_second * (2 * passed_us - ramp_us) // (2 * _US_PER_S)
        return min(last + 1, self.rows) if self.rows else last + 1

    def next_due_ms(self, at_ms: int) -> int | None:
        """When there will be more than at `at_ms`; None: never."""
        due = self.due(at_ms)
        if self.rows and due >= self.rows:
            return None
        return -(-self.time_us(due) // _US) if self.rows_per_second else at_ms

    def time_us(self, row: int) -> int:
        """When a row is due. Without a rate rows are a millisecond apart."""
        start_us, rate = self.start_ms * _US, self.rows_per_second
        if rate == 0:
            return start_us + row * _US
        if row < self.ramp_rows:
            return start_us + isqrt(2 * row * self.ramp_up_ms * _US * _US_PER_S // rate)
        return start_us + self.ramp_up_ms * _US // 2 + row * _US_PER_S // rate

    @property
    def ramp_rows(self) -> int:
        """How many are due while the rate grows."""
        return -(-self.rows_per_second * self.ramp_up_ms // 2_000)


@dataclass(frozen=True, slots=True)
class ClockAddress:
    """Ticks: offset n of the only partition is the moment n * every_ms."""

    every_ms: int

    @property
    def text(self) -> str:
        """As it stands in place of a topic's name."""
        return _text("clock", self)

    def ends(self, at_ms: int) -> tuple[int, ...]:
        """By partition: the offset after the last tick that has come."""
        return (at_ms // self.every_ms + 1,)

    def next_due_ms(self, at_ms: int) -> int:
        """When the next tick comes."""
        return (at_ms // self.every_ms + 1) * self.every_ms


Address = GeneratorAddress | ClockAddress

_KINDS: dict[str, type[GeneratorAddress] | type[ClockAddress]] = {
    "generator": GeneratorAddress,
    "clock": ClockAddress,
}


def is_topic(topic: str) -> bool:
    """Whether it is the name of a topic in Kafka, and not an address."""
    return ":" not in topic


TOPIC = "topic"
"""The kind of an input that is a topic of Kafka."""


def kind_of(topic: str) -> str:
    """What an input reads: TOPIC, or the word that an address begins with."""
    return TOPIC if is_topic(topic) else topic.partition(":")[0]


def address_of(topic: str) -> Address:
    """The address that stands in place of a topic's name. Raises ConfigurationError for one that is not known here."""
    match = _SCHEME.fullmatch(topic)
    kind = _KINDS.get(match[1]) if match else None
    if match is None or kind is None:
        raise ConfigurationError(
            f"{topic!r} is no address of an input: it must begin with {' or '.join(f'{name}:' for name in _KINDS)}; "
            "one of another kind needs a newer kcontrol"
        )
    given = [_SETTING.fullmatch(part) for part in match[2].split(",")]
    values = {each[1]: int(each[2]) for each in given if each is not None}
    wanted = [field.name for field in fields(kind)]
    if None in given or sorted(values) != sorted(wanted) or len(given) != len(wanted):
        raise ConfigurationError(
            f"address {topic!r} of an input: must be {match[1]}: with a whole number for each of {', '.join(wanted)}, such as "
            f"{wanted[0]}=1"
        )
    made = kind(**values)
    _check(topic, made)
    return made


def check_rows_id(where: str, topic_id: str) -> None:
    """Raise InputGoneError if rows of this version are not made here. where: the input."""
    if topic_id != ROWS_ID:
        raise InputGoneError(
            f"{where}: its steps were made with rows of version {topic_id!r}, and this kcontrol makes {ROWS_ID!r}, which are "
            "others: run it with the version that made them, or give the pipeline another name"
        )


def _text(scheme: str, address: Address) -> str:
    return f"{scheme}:" + ",".join(
        f"{field.name}={getattr(address, field.name)}" for field in fields(address)
    )


def _check(topic: str, address: Address) -> None:
    if isinstance(address, ClockAddress):
        wrong = address.every_ms < 1
    else:
        wrong = (
            not 1 <= address.partitions <= MAX_PARTITIONS
            or not 0 <= address.rows_per_second <= MAX_RATE
            or not 0 <= address.rows <= MAX_ROWS
            or not address.ramp_up_ms >= 0
            or (address.rows_per_second == 0 and (address.rows == 0 or address.ramp_up_ms > 0))
        )
    if wrong:
        raise ConfigurationError(f"address {topic!r} of an input: has a number that no input can have")


MAX_PARTITIONS = 10_000
MAX_RATE = 1_000_000_000
MAX_ROWS = 10**15
"""At a billion a second eleven days; the times of all of them fit into Arrow's microseconds."""
