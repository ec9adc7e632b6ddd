"""A process in place of one that has died, here or on another host, begins with Spark before it has imported what it is, and
reads meanwhile whether it is wanted; others read first."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kcontrol.apps.presence import Presence
from kcontrol.apps.spark_start import SparkStart
from kcontrol.cli import node_process
from kcontrol.cli.node import Waits, begins_with_spark, node
from kcontrol.core.model import AgentPlacement

PLACED = AgentPlacement(1, 7)
FILE = """
import kcontrol

pipeline = kcontrol.Pipeline(
    "p", inputs=[kcontrol.KafkaInput("i", topic="i")], outputs=[kcontrol.KafkaOutput("o", topic="o")], nodes=2
)


@pipeline.query
def o(i):
    return i
"""
LIGHT = """
import sys
import kcontrol.cli.node
heavy = ("kcontrol.adapters.spark.engine", "kcontrol.adapters.http", "uvicorn", "httpx")
print([each for each in sys.modules if each.startswith(heavy)])
"""


async def be_the_node(work_dir: Path, number: int) -> None:
    async with Presence(work_dir, "p", number).shown():
        pass


@pytest.mark.parametrize(
    ("number", "placement", "waits", "begins_at_once"),
    [
        (0, None, "", True),
        (0, None, "instead", True),
        (0, None, "standby", False),
        (1, None, "", False),
        (1, PLACED, "", True),
        (1, PLACED, "standby", False),
    ],
)
def test_who_comes_for_one_that_was_begins_with_spark(
    tmp_path: Path, number: int, placement: AgentPlacement | None, waits: Waits, begins_at_once: bool
) -> None:
    asyncio.run(be_the_node(tmp_path, 0))
    assert begins_with_spark(tmp_path, "p", number, placement, waits) == begins_at_once


@pytest.mark.parametrize(("anew", "number", "begun"), [(False, 0, True), (True, 0, False), (False, 1, False)])
def test_it_has_begun_by_the_time_that_the_process_is_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, anew: bool, number: int, begun: bool
) -> None:
    asyncio.run(be_the_node(tmp_path, 0))
    (tmp_path / "p.py").write_text(FILE)
    begins: list[str] = []
    seen: list[tuple[str, bool]] = []
    monkeypatch.setattr(SparkStart, "begin", lambda self: begins.append(self._app_name))
    monkeypatch.setattr("kcontrol.cli.node.has_begun_anew", lambda: anew)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    def run(asked: node_process.NodeAsked, spark: SparkStart, serves: object, beats: object) -> None:
        seen.append((spark._app_name, bool(begins)))

    monkeypatch.setattr(node_process, "run_node", run)
    arguments = [str(tmp_path / "p.py"), "--node", str(number), "--work-dir", str(tmp_path)]
    done = CliRunner().invoke(
        node, [*arguments, "--bootstrap-servers", "localhost:1"], catch_exceptions=False
    )
    assert done.exit_code == 0
    assert seen == [(f"kcontrol p node {number}", begun)]


def test_until_then_little_of_kcontrol_is_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == "[]\n"
