"""A ConsistentRegion that changes is defined anew in Kafka, once, and none is made another's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from kcontrol.apps.kubernetes import kafka_side
from kcontrol.core.regions.log_view import RegionLogView
from kcontrol.core.regions.model import RegionSettings
from kcontrol.core.regions.records import RegionDefinition
from kcontrol.errors import ConfigurationError, NotFoundError
from kcontrol.settings.cluster import ClusterSettings

NOBODY = ClusterSettings(bootstrap_servers="127.0.0.1:1")
SETTINGS = RegionSettings("orders", ("a", "b"))


class Regions:
    """What is defined in Kafka, as its reader shows it."""

    view = RegionLogView()

    def __init__(self) -> None:
        self.applied: list[RegionSettings] = []
        self.newest: RegionDefinition | None = None

    @property
    def definition(self) -> RegionDefinition:
        assert self.newest is not None
        return self.newest

    async def look(self) -> RegionLogView:
        if self.newest is None:
            raise NotFoundError("there is no such region")
        return self.view

    @asynccontextmanager
    async def reader(self, _: ClusterSettings, region: str) -> AsyncIterator[Regions]:
        yield self

    async def apply(self, _: ClusterSettings, settings: RegionSettings, by: str) -> bool:
        self.applied.append(settings)
        self.newest = RegionDefinition("orders", settings, by, 1, f"d{len(self.applied)}")
        return True


def test_what_has_changed_is_defined_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    regions, by = Regions(), "kubernetes here/orders"
    monkeypatch.setattr(kafka_side, "region_reader", regions.reader)
    monkeypatch.setattr(kafka_side, "apply_region", regions.apply)

    async def run() -> None:
        kafka, changed = kafka_side.KafkaSide(NOBODY), replace(SETTINGS, period_ms=7_000)
        for settings in (SETTINGS, SETTINGS, changed, changed, SETTINGS):
            await kafka.define(settings, by)
        assert regions.applied == [SETTINGS, changed, SETTINGS]
        with pytest.raises(ConfigurationError, match="is defined by kubernetes here/orders"):
            await kafka.define(changed, "kubernetes there/orders")
        assert len(regions.applied) == 3
        await kafka.close()

    asyncio.run(run())
