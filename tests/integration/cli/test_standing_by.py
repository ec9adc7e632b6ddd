"""A node's process outlives a stop: it stands by without a JVM, and joins again when the pipeline is
wanted."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

import psutil
import pytest

from kcontrol.errors import ReplacedError
from kcontrol.settings.cluster import ClusterSettings
from tests.support.orders import PIPELINE_FILE, Orders
from tests.support.processes import KcontrolProcess, run_kcontrol, until

pytestmark = [pytest.mark.timeout(1_200), pytest.mark.heavy]

PATIENCE_S = 500.0


def children(process_id: int) -> set[str]:
    """What a process has started, by name."""
    return {each.name() for each in psutil.Process(process_id).children(recursive=True)}


def test_a_node_stands_by_while_its_pipeline_is_stopped(settings: ClusterSettings, tmp_path: Path) -> None:
    """A paused pipeline opens no node, so this takes a Spark session each time and no query."""
    orders = Orders(settings.bootstrap_servers, f"standby-{secrets.token_hex(3)}")
    env = {**orders.env, "XDG_DATA_HOME": str(tmp_path / "home")}

    def ask(*arguments: str) -> str:
        return run_kcontrol(*arguments, env=env, cwd=tmp_path, timeout_s=PATIENCE_S).stdout

    def joins() -> list[int]:
        records = [json.loads(line) for line in ask("log", orders.name, "--json").splitlines()]
        return [record["process_id"] for record in records if record["record"] == "NodeJoin"]

    arguments = ("node", str(PIPELINE_FILE), "--node", "0", "--master", "local[1]")
    with (
        KcontrolProcess(*arguments, log=tmp_path / "node.log", env=env, cwd=tmp_path) as node,
        KcontrolProcess(
            "coordinator", log=tmp_path / "coordinator.log", env=env, cwd=tmp_path
        ) as coordinator,
    ):
        node.says("joins", PATIENCE_S)
        coordinator.says("is ready", PATIENCE_S)
        ask("stop", orders.name, "--timeout", "300")
        node.says("stands by: the pipeline is stopped", PATIENCE_S)
        assert json.loads(ask("status", orders.name, "--json"))["phase"] == "stopped"
        until(lambda: "java" not in children(node.pid), "its JVM has ended", PATIENCE_S)
        ask("pause", orders.name, "--timeout", "300")
        until(
            lambda: len(joins()) >= 1 and node.text().count("joins (pid") == 2,
            "it joins again",
            PATIENCE_S,
            node.text,
        )
        assert set(joins()) == {node.pid}, "it is the same process"
        assert node.terminate() == 0


def test_a_node_that_slept_while_another_process_became_it_is_replaced(
    settings: ClusterSettings, tmp_path: Path
) -> None:
    """It has stopped with its pipeline, and wakes up when that goes on without it."""
    orders = Orders(settings.bootstrap_servers, f"asleep-{secrets.token_hex(3)}")
    env = {**orders.env, "XDG_DATA_HOME": str(tmp_path / "home")}

    def ask(*arguments: str) -> None:
        run_kcontrol(*arguments, env=env, cwd=tmp_path, timeout_s=PATIENCE_S)

    def node(name: str) -> KcontrolProcess:
        arguments = ("node", str(PIPELINE_FILE), "--node", "0", "--master", "local[1]", "--work-dir", name)
        return KcontrolProcess(*arguments, log=tmp_path / f"{name}.log", env=env, cwd=tmp_path)

    coordinator = KcontrolProcess("coordinator", log=tmp_path / "coordinator.log", env=env, cwd=tmp_path)
    with node("first") as first, coordinator:
        first.says("joins", PATIENCE_S)
        coordinator.says("is ready", PATIENCE_S)
        ask("stop", orders.name, "--timeout", "300")
        first.says("stands by: the pipeline is stopped", PATIENCE_S)
        first.pause()
        with node("second") as second:
            second.says("stands by", PATIENCE_S)
            ask("pause", orders.name, "--timeout", "300")
            second.says("joins", PATIENCE_S)
            first.resume()
            assert first.wait(PATIENCE_S) == ReplacedError.exit_code
            assert "was replaced: another process has joined as it" in first.text()
            assert second.terminate() == 0
