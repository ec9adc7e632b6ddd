"""Who submits a package that is there already keeps others from deleting it as too old."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.logs.cluster_packages import KafkaPackages
from kcontrol.adapters.kafka.logs.records import RawRecord
from kcontrol.errors import NotFoundError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.packages import CodePackage, package_of, records_of

CODE = package_of("flights.py", {"flights.py": b"import rules\n", "rules.py": b""})
OTHER = package_of("flights.py", {"flights.py": b"import other\n"})
FRESH = package_of("flights.py", {"flights.py": b""})
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


def test_what_is_renewed_while_others_are_deleted_stays() -> None:
    """Its submitter finds it between the look of the other and the deletion."""
    topic = Topic()
    topic.was_written(OTHER, 25)
    topic.was_written(CODE, 25)
    topic.was_written(FRESH, 0)
    one, another = topic.submitter(), topic.submitter()

    class Meanwhile:
        async def append(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
            await one.save(CODE)
            await topic.append(records)

    another._appender = cast(Any, Meanwhile())

    async def play() -> None:
        assert await another.forget({FRESH.name}) == [OTHER.name]
        assert await one.read(CODE.name) == CODE

    asyncio.run(play())
