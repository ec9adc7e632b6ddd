"""A server that follows regions: whoever waits for news of them has it with the look that brings it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kcontrol.apps.regions import following
from kcontrol.apps.regions.following import RegionsFollower
from kcontrol.core.regions.leading import began
from kcontrol.core.regions.log_view import RegionLogged
from kcontrol.core.regions.model import RegionSettings
from kcontrol.core.regions.records import RegionDefinition
from kcontrol.core.regions.value import WrittenBy, change_of
from kcontrol.settings.cluster import ClusterSettings
from tests.support.patience import HANG_S

NOBODY = ClusterSettings(bootstrap_servers="127.0.0.1:1")
DEFINED = RegionDefinition("orders", RegionSettings("orders", ("a",)), "ana", 1, "d1")


class _Asked:
    """The topic of regions."""

    def __init__(self, _: object) -> None:
        self.definitions = {"orders": DEFINED}

    async def exists(self) -> bool:
        return True

    async def look(self) -> None:
        """All is known."""

    def said(self, _: str) -> dict[str, Any]:
        return {}

    async def close(self) -> None:
        """Nothing is open."""


class _Log:
    """Each look finds another change."""

    def __init__(self, *_: object) -> None:
        self.number = 0

    async def read(self) -> list[RegionLogged]:
        self.number += 1
        led = began(DEFINED)
        return [change_of(led.value, led.happened, WrittenBy("c", 1, self.number))]

    async def close(self) -> None:
        """Nothing is open."""


def test_who_waits_has_the_news_with_the_look_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "KafkaAskedRegions", _Asked)
    monkeypatch.setattr(following, "KafkaRegionLog", _Log)
    monkeypatch.setattr(following, "EVERY_S", 0.001)

    async def run() -> None:
        follower = RegionsFollower(NOBODY)
        running = asyncio.create_task(follower.run())

        def is_at(number: int) -> bool:
            return follower.seen()["orders"].change >= number

        async with asyncio.timeout(HANG_S):
            while True:
                try:
                    follower.seen()
                except following.NotReadyError:
                    await asyncio.sleep(0)
                else:
                    break
        assert await follower.until(lambda: is_at(5), HANG_S)
        assert not await follower.until(lambda: False, 0.05)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())
