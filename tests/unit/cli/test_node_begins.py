"""A process in place of one that has died, here or on another host, begins with Spark and reads meanwhile whether it is wanted;
others read first."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

import pytest

from kcontrol.apps.node_service import NodeOptions
from kcontrol.apps.presence import Presence
from kcontrol.apps.spark_start import SparkStart
from kcontrol.cli import node
from kcontrol.core.model import AgentPlacement
from kcontrol.definition.parts import KafkaInput, KafkaOutput
from kcontrol.definition.pipeline import Pipeline
from kcontrol.errors import TopicError
from kcontrol.settings.cluster import ClusterSettings

PIPELINE = Pipeline("p", inputs=[KafkaInput("in", topic="i")], outputs=[KafkaOutput("out", topic="o")])
PLACED = AgentPlacement(1, 7)


async def be_the_node(work_dir: Path, number: int) -> None:
    async with Presence(work_dir, "p", number).shown():
        pass


@pytest.mark.parametrize(
    ("number", "placement", "anew", "waits", "begins_at_once"),
    [
        (0, None, False, "", True),
        (0, None, False, "standby", False),
        (0, None, True, "", False),
        (1, None, False, "", False),
        (1, PLACED, False, "", True),
        (1, PLACED, False, "standby", False),
        (1, PLACED, True, "", False),
    ],
)
def test_who_comes_for_one_that_was_begins_with_spark(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    number: int,
    placement: AgentPlacement | None,
    anew: bool,
    waits: Literal["", "standby"],
    begins_at_once: bool,
) -> None:
    asyncio.run(be_the_node(tmp_path, 0))
    begun: list[str] = []
    monkeypatch.setattr(SparkStart, "begin", lambda self: begun.append(self._app_name))

    async def until_wanted(*_: Any, **__: Any) -> None:
        begun.append("reads the log")
        raise TopicError("no such topic")

    monkeypatch.setattr(node, "until_wanted", until_wanted)
    options: Any = NodeOptions(number, tmp_path, placement=placement)
    looking_on: Any = None
    cluster = ClusterSettings(bootstrap_servers="localhost:1")
    looks = looking_on, looking_on
    asked = node._Asked(PIPELINE, cluster, options, *looks, "local[2]", waits, False, False, anew)
    with pytest.raises(TopicError):
        asyncio.run(node._serve(asked))
    assert begun == [f"kcontrol p node {number}", "reads the log"][0 if begins_at_once else 1 :]
