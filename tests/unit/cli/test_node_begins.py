"""A process in place of one that has died begins with Spark and reads meanwhile whether it is wanted; others read first."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kcontrol.apps.node_service import NodeOptions
from kcontrol.apps.presence import Presence
from kcontrol.apps.spark_start import SparkStart
from kcontrol.cli import node
from kcontrol.definition.parts import KafkaInput, KafkaOutput
from kcontrol.definition.pipeline import Pipeline
from kcontrol.errors import TopicError
from kcontrol.settings.cluster import ClusterSettings

PIPELINE = Pipeline("p", inputs=[KafkaInput("in", topic="i")], outputs=[KafkaOutput("out", topic="o")])


async def be_the_node(work_dir: Path, number: int) -> None:
    async with Presence(work_dir, "p", number).shown():
        pass


@pytest.mark.parametrize(
    ("number", "anew", "begins_at_once"), [(0, False, True), (0, True, False), (1, False, False)]
)
def test_who_was_here_before_begins_with_spark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int, anew: bool, begins_at_once: bool
) -> None:
    asyncio.run(be_the_node(tmp_path, 0))
    begun: list[str] = []
    monkeypatch.setattr(SparkStart, "begin", lambda self: begun.append(self._app_name))

    async def until_wanted(*_: Any, **__: Any) -> None:
        begun.append("reads the log")
        raise TopicError("no such topic")

    monkeypatch.setattr(node, "until_wanted", until_wanted)
    options: Any = NodeOptions(number, tmp_path)
    looking_on: Any = None
    cluster = ClusterSettings(bootstrap_servers="localhost:1")
    looks = looking_on, looking_on
    asked = node._Asked(PIPELINE, cluster, options, *looks, "local[2]", "", False, False, anew)
    with pytest.raises(TopicError):
        asyncio.run(node._serve(asked))
    assert begun == [f"kcontrol p node {number}", "reads the log"][0 if begins_at_once else 1 :]
