"""SIGKILL and SIGSTOP to each process of a pipeline with state, and to its broker, which comes back on its
data; the oracle says whether anything was lost or doubled. That a node alone is killed is in `test_recovery_wiped`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kcontrol.adapters.kafka.embedded import EmbeddedBroker
from kcontrol.errors import ReplacedError, SparkLostError
from tests.integration.recovery import PATIENCE_S, PYTHONS, Stage, kill_descendants, stage
from tests.support.processes import KcontrolProcess

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path / "broker") as broker:
        yield broker


@pytest.fixture
def running(own_broker: EmbeddedBroker, tmp_path: Path) -> Iterator[Stage]:
    with stage(own_broker.bootstrap_servers, tmp_path, "kills") as made:
        yield made


@pytest.mark.heavy
def test_a_jvm_and_a_node_that_stand_still_are_not_waited_for(running: Stage) -> None:
    orders = running.orders
    running.silence_timeout = "20 s"
    running.coordinator()
    node = running.node()
    node.says("joins", PATIENCE_S)
    orders.produce(100)
    running.until_step(1)

    assert kill_descendants(node, "java", signal.SIGSTOP) == 1
    orders.produce(100)
    assert node.wait(PATIENCE_S) == SparkLostError.exit_code
    assert "has not answered for" in node.text()
    node.start()
    running.until_done("a node whose JVM is stopped ends, and its next incarnation goes on")

    node.pause()
    orders.produce(100)
    orders.until_status(
        lambda status: "was told to end" in status.reason,
        "a node that is silent for long is told to end",
        PATIENCE_S,
    )
    incarnations = node.text().count(" joins ")
    node.resume()
    running.until_done("a node that wakes up too late ends its incarnation and begins another")
    assert node.text().count(" joins ") == incarnations + 1
    orders.check()


@pytest.mark.parametrize(
    "plan_once",
    [
        True,
        # What is planned each step is killed in tests/chaos, and its planners in test_spark_errors.py.
        pytest.param(False, marks=pytest.mark.heavy),
    ],
)
def test_each_process_killed_and_paused_one_after_the_other_and_together(
    own_broker: EmbeddedBroker, running: Stage, plan_once: bool
) -> None:
    orders = running.orders
    running.plan_once = plan_once
    coordinator, node = running.coordinator(), running.node()
    node.says("joins", PATIENCE_S)
    orders.produce(100)
    running.until_step(1)
    if sys.platform.startswith("linux"):
        names = {each.name() for each in node.descendants()}
        assert "warm_daemon" in names, "workers are forked"
        assert ("python_streamin" in names) is not plan_once, "planners are, where there are any"

    coordinator.kill()
    orders.produce(100)
    coordinator.start()
    running.until_done("what was produced while no coordinator was there is committed")

    own_broker.kill()
    own_broker.start()
    orders.produce(100)
    running.until_done("sessions wait for the broker and go on")

    orders.produce(100)
    own_broker.kill()
    node.kill()
    coordinator.kill()
    own_broker.start()
    coordinator.start()
    node.start()
    running.until_done("everything killed at once comes back")

    orders.produce(100)
    assert kill_descendants(node, PYTHONS) > 0
    running.until_done("killed Python workers cost an attempt, not a record")

    family = node.descendants()
    assert kill_descendants(node, "java") == 1
    assert node.wait(PATIENCE_S) == SparkLostError.exit_code
    _, orphans = psutil.wait_procs(family, PATIENCE_S)
    assert not orphans, "planners and workers end by themselves when their JVM was killed"
    node.start()
    orders.produce(100)
    running.until_done("a node whose JVM dies ends, and its next incarnation goes on")

    _paused(running, coordinator, node)
    _replaced(running, node)
    steps = orders.check()
    assert len({boundary["token"]["claim_epoch"] for boundary in steps}) > 1
    assert len({tuple(boundary["token"]["incarnations"]) for boundary in steps}) > 1


def _paused(running: Stage, coordinator: KcontrolProcess, node: KcontrolProcess) -> None:
    orders = running.orders
    successor = running.coordinator(number=1, instance="second")
    coordinator.pause()
    orders.produce(100)
    running.until_done("a second coordinator takes over from one that is stopped")
    coordinator.resume()
    orders.produce(100)
    running.until_done("the one that wakes up late disturbs nothing")
    successor.kill()

    node.pause()
    orders.produce(100)
    orders.until_status(lambda status: status.reason, "the silent node is noticed", PATIENCE_S)
    node.resume()
    running.until_done("a node that wakes up late goes on")


def _replaced(running: Stage, first: KcontrolProcess) -> None:
    """By a second incarnation of the same node."""
    second = running.node(number=1)
    second.says("joins", PATIENCE_S)
    assert first.wait(PATIENCE_S) == ReplacedError.exit_code
    assert "was replaced" in first.text()
    running.orders.produce(50)
    running.until_done("a second incarnation of a node replaces the first")
