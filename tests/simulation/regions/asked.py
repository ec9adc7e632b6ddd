"""What is asked and said of a simulated region."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from kcontrol.core.regions.participants import ParticipantSaid
from kcontrol.core.regions.pods import PodsSaid
from kcontrol.core.regions.records import RegionDefinition, RegionRequest, RegionRequestKind


@dataclass
class Asked:
    """The AskedRegions port."""

    definitions: dict[str, RegionDefinition]
    wanted: dict[RegionRequestKind, RegionRequest] = field(default_factory=dict)
    words: dict[str, ParticipantSaid] = field(default_factory=dict)
    pods_said: PodsSaid | None = None

    def requests(self, region: str) -> Mapping[RegionRequestKind, RegionRequest]:
        return self.wanted

    def said(self, region: str) -> Mapping[str, ParticipantSaid]:
        return dict(self.words)

    def pods(self, region: str) -> PodsSaid | None:
        return self.pods_said

    def forget(self) -> None:
        """The region is deleted, and with it what was asked of it and said of its pods; what participants have said stays."""
        self.definitions.clear()
        self.wanted.clear()
        self.pods_said = None

    async def look(self) -> None:
        await asyncio.sleep(0)
