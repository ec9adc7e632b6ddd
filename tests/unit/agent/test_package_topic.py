"""Who submits a package that is there already keeps others from deleting it as too old."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.logs.cluster_packages import FORGET_AFTER_MS, KafkaPackages
from kcontrol.adapters.kafka.logs.records import RawRecord
from kcontrol.errors import NotFoundError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.packages import CodePackage, package_of, records_of

CODE = package_of("flights.py", {"flights.py": b"import rules\n", "rules.py": b""})
OTHER = package_of("flights.py", {"flights.py": b"import other\n"})
HOUR_MS = 3_600_000


class Topic:
    """In memory."""

    def __init__(self) -> None:
        self.records: list[RawRecord] = []
        self.now_ms = SystemClock().now_ms()

    async def append(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        for key, value in records:
            self.records.append(RawRecord(len(self.records), self.now_ms, key, value, ()))

    def was_written(self, package: CodePackage, hours_ago: int) -> None:
        at_ms = self.now_ms - hours_ago * HOUR_MS
        for key, value in records_of(package):
            self.records.append(RawRecord(len(self.records), at_ms, key, value, ()))

    def submitter(self) -> KafkaPackages:
        found = KafkaPackages(ClusterSettings(bootstrap_servers="nobody:1"))

        async def all_records() -> list[RawRecord]:
            return list(self.records)

        found._all = all_records  # type: ignore[method-assign]
        found._appender = cast(Any, self)
        return found


@pytest.mark.parametrize("hours_ago", [13, 23, 25, 1_000])
def test_a_package_that_was_found_is_not_deleted_by_another_who_does_not_know_its_job(hours_ago: int) -> None:
    topic = Topic()
    topic.was_written(CODE, hours_ago)
    one, another = topic.submitter(), topic.submitter()

    async def play() -> None:
        await one.save(CODE)
        topic.now_ms += 11 * HOUR_MS
        await another.save(OTHER)
        assert await another.forget({OTHER.name}) == []
        assert await one.read(CODE.name) == CODE

    asyncio.run(play())


def test_what_nobody_submits_again_is_deleted_a_day_after_it_was_written() -> None:
    topic = Topic()
    topic.was_written(CODE, 24)
    another = topic.submitter()

    async def play() -> None:
        await another.save(OTHER)
        assert await another.forget({OTHER.name}) == [CODE.name]
        with pytest.raises(NotFoundError):
            await another.read(CODE.name)

    asyncio.run(play())


@pytest.mark.parametrize("hours_ago", [0, 11])
def test_what_was_written_lately_is_not_written_again(hours_ago: int) -> None:
    topic = Topic()
    topic.was_written(CODE, hours_ago)
    before = list(topic.records)
    asyncio.run(topic.submitter().save(CODE))
    assert topic.records == before


def test_what_was_renewed_while_others_were_deleted_stays() -> None:
    """Its submitter has found it between the look of the other and the deletion."""
    topic = Topic()
    for package in sorted((CODE, OTHER), key=lambda one: one.name):
        topic.was_written(package, FORGET_AFTER_MS // HOUR_MS)
    one, another = topic.submitter(), topic.submitter()
    last = max((CODE, OTHER), key=lambda each: each.name)
    appended = topic.append

    async def append(records: Sequence[tuple[bytes, bytes | None]]) -> None:
        another._appender = cast(Any, topic)
        await one.save(last)
        await appended(records)

    class Slow:
        async def append(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
            await append(records)

    another._appender = cast(Any, Slow())

    async def play() -> None:
        assert len(await another.forget(())) == 1
        assert await one.read(last.name) == last

    asyncio.run(play())
