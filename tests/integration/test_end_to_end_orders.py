"""A pipeline of two inputs, two queries and two outputs through the command line, from its
first step to a halt and back.

One story on one broker, because each start of Spark takes seconds: it runs until caught up, is looked at,
verified, replayed, paused and stopped, halts at a topic that refuses what it writes, meets a record that its query can't
digest, halts, goes on after the code is fixed, and refuses another definition.
"""

from __future__ import annotations

import json
import platform
import re
from itertools import islice
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import psutil
import pytest

from kcontrol import StepConsumer
from kcontrol.core.step.timing import MARKS
from kcontrol.errors import HaltedError
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.replays import steps_are_replayed
from tests.integration.story import PATIENCE_S, Story
from tests.support.orders import PIPELINE_FILE
from tests.support.processes import KcontrolProcess, objects, until

pytestmark = pytest.mark.timeout(1_500)

NOISE = re.compile(
    r"incubator modules|log4j profile|default log level|UserWarning|BrokenPipe|^\S+ \S+ WARN ", re.MULTILINE
)
"""What Java, Spark and PySpark say of themselves."""
PHASES = [
    "starting Spark, which the file needs to be read ...",
    "looking at the cluster and the topics ...",
    "starting Spark ...",
    "planning the queries ...",
]
STOPPED, REFUSED = 30, 5
"""Orders that are produced while the pipeline is stopped, and beside payments that are larger than an output takes."""


@pytest.fixture
def story(settings: ClusterSettings, tmp_path: Path) -> Story:
    return Story(settings, tmp_path)


def test_a_pipeline_from_its_first_step_to_a_halt_and_back(story: Story, topic_factory: TopicFactory) -> None:
    orders, name = story.orders, story.orders.name

    orders.produce(2_500)
    first = story.run("--json")
    assert first.returncode == 0, first.stderr
    assert _said(first) == []
    node_log = (story.directory / "home" / "kcontrol" / "logs" / name / "node-0.log").read_text()
    assert "starting Spark ..." in node_log
    assert not NOISE.search(node_log), node_log
    events = [json.loads(line) for line in first.stdout.splitlines()]
    assert events[-1]["event"] == "caught_up"
    steps = orders.check()
    assert [event["step"] for event in events if event["event"] == "step"] == [step["step"] for step in steps]
    assert len(steps) >= 5, "5,000 records in steps of at most 1,000"

    for boundary in steps:
        [environment] = boundary["environments"]
        assert (environment["machine"], environment["python"]) == (
            platform.machine(),
            platform.python_version(),
        )
        assert all(environment[name] for name in ("kcontrol", "spark", "java", "pyarrow", "pandas", "numpy"))

    _looked_at(story, steps)
    _verified(story, len(steps))
    steps_are_replayed(story, topic_factory)
    _consumed(story, steps)
    _stopped_resumed_and_halted(story)
    _fixed(story)

    changed = story.run(ORDERS_CHANGED="1")
    assert changed.returncode == 2, changed.stdout
    assert name in changed.stderr
    assert "compatible" in changed.stderr
    _expired(story)


def _said(result: CompletedProcess[str]) -> list[str]:
    """On standard error, without what Java says of the options that these tests give it."""
    return [line for line in result.stderr.splitlines() if not line.startswith("NOTE: Picked up")]


def _looked_at(story: Story, steps: list[dict[str, Any]]) -> None:
    name = story.orders.name
    lines = story.command("steps", name, "--from", "2", "--to", "3").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["2", "3"]
    assert story.command("steps", name, "--from", "100000").returncode == 10
    timed = [
        json.loads(line) for line in story.command("steps", name, "--timing", "--json").stdout.splitlines()
    ]
    assert [each["step"] for each in timed] == [step["step"] for step in steps]
    for each in timed[:-1]:
        assert list(each["marks_ms"]) == list(MARKS), "a step whose successor is there has all its times"
        work = [each["work"][0][name] for name in ("begun_ms", "planned_ms", "ran_ms", "written_ms")]
        end = list(each["end"]["nodes"][0].values())
        assert [*work, *end] == sorted([*work, *end]), "the node's own clock does not go back"
    header, *rows = story.command("steps", name, "--timing").stdout.splitlines()
    assert [row.split()[0] for row in rows] == [str(step["step"]) for step in steps]
    assert {len(line.split()) for line in (header, *rows)} == {len(MARKS) + 2}
    assert story.status()["step"] == len(steps)
    records = [
        json.loads(line)["record"] for line in story.command("log", name, "--json").stdout.splitlines()
    ]
    assert {"PipelineSpec", "Claim", "NodeJoin", "NodeState", "Received", "Written", "Status"} <= set(records)
    assert "PipelineSpec" in story.command("log", name).stdout


def _verified(story: Story, last: int) -> None:
    result = story.command(
        "verify", story.orders.name, "--from", "2", "--to", str(last), "--master", "local[2]", "--json"
    )
    assert result.returncode == 0, result.stderr
    verdicts = objects(result.stdout)
    assert [(each["step"], each["agrees"]) for each in verdicts] == [
        (step, True) for step in range(2, last + 1)
    ]
    other = {"ORDERS_LIE": "1", "ORDERS_TYPE_IN_WORDS": "1"}
    wrong = story.command("verify", str(PIPELINE_FILE), "--to", "2", "--master", "local[2]", **other)
    assert wrong.returncode == 7, wrong.stderr
    assert _said(wrong)[:-1] == PHASES, wrong.stderr
    assert "step 1: output 'totals' partition" in wrong.stdout
    assert "'copies'" not in wrong.stdout


def _consumed(story: Story, steps: list[dict[str, Any]]) -> None:
    with StepConsumer(
        story.orders.name,
        bootstrap_servers=story.orders.servers,
        after_step=1,
        timeout=PATIENCE_S,
        verify_digests=True,
    ) as consumer:
        found = list(islice(consumer, len(steps) - 1))
    assert [step.number for step in found] == [step["step"] for step in steps[1:]]
    for step, boundary in zip(found, steps[1:], strict=True):
        written = sum(piece["records"] for piece in boundary["outputs"])
        assert sum(len(records) for records in step.records.values()) == written


def _stopped_resumed_and_halted(story: Story) -> None:
    """What `run` keeps running is paused, stopped and started again, until it meets a record that its code
    can't digest."""
    orders = story.orders
    unheard = story.command("stop", orders.name, "--timeout", "1")
    assert unheard.returncode == 3
    assert "no coordinator" in unheard.stderr
    assert story.status()["desired"] == "stopped"
    orders.produce(100)
    # After those that are made while it is stopped, and those that no topic takes.
    broken, log = f"o{orders.produced['orders'] + STOPPED + REFUSED}", story.directory / "run.log"
    with KcontrolProcess(
        "run",
        str(PIPELINE_FILE),
        "--master",
        "local[2]",
        log=log,
        env={**story.env, "ORDERS_BREAK_ON": broken},
    ) as running:
        running.says("running at step", PATIENCE_S)
        assert story.status()["desired"] == "running"
        for command, phase in (
            ("pause", "paused"),
            ("resume", "running"),
            ("stop", "stopped"),
            ("resume", "running"),
        ):
            result = story.command(command, orders.name, "--json", "--timeout", "120")
            assert result.returncode == 0, result.stderr
            story.until(lambda status, phase=phase: status.phase == phase, phase)  # type: ignore[misc]
            if command == "stop":
                _stands_by(story)
                before = story.status()["step"]
                orders.produce(STOPPED)
        story.until(lambda status: status.step > before, "steps go on after a stop and a start")
        orders.until_done("all is committed", PATIENCE_S)
        orders.check()
        assert running.process is not None
        assert running.process.poll() is None
        _refused_by_a_topic(story, running)
        assert running.process.poll() is None

        orders.produce(50)
        running.says(f"can't digest order {broken}", PATIENCE_S)
        story.until(
            lambda status: status.phase == "halted" and broken in status.reason, "it has halted again"
        )
        assert "totals" in running.text()
    status = story.status()
    assert status["phase"] == "halted"
    assert f"step {status['step'] + 1}" in status["reason"]


def _refused_by_a_topic(story: Story, running: KcontrolProcess) -> None:
    """It halts because of an output, and goes on when that takes records as large as these."""
    orders = story.orders
    orders.limit("copies", max_message_bytes=2_000)
    orders.produce(REFUSED, payment_bytes=5_000)
    running.says("halted at step", PATIENCE_S)
    said = running.text().partition("halted at step")[2]
    assert orders.topic("copies") in said
    assert "max.message.bytes" in said
    orders.limit("copies", max_message_bytes=1_000_000)
    resumed = story.command("resume", orders.name, "--json", "--timeout", "120")
    assert resumed.returncode == 0, resumed.stderr
    orders.until_done("what was refused is committed", PATIENCE_S)


def _stands_by(story: Story) -> None:
    """The last step is saved beside the node's work, and the node's process, the same as
    before, is there without a JVM."""
    status, home = story.status(), story.directory / "home" / "kcontrol"
    assert status["checkpoint"] == status["step"] > 0
    assert list((home / "nodes" / "checkpoints").rglob(f"step-{status['step']}.*.json"))
    node = status["nodes"][0]["process_id"]
    log = home / "logs" / story.orders.name / "node-0.log"
    until(lambda: "stands by: the pipeline is stopped" in log.read_text(), "the node stands by", PATIENCE_S)
    until(
        lambda: "java" not in {each.name() for each in psutil.Process(node).children(recursive=True)},
        "no JVM",
        PATIENCE_S,
    )


def _fixed(story: Story) -> None:
    """The halt is lifted once the code is another."""
    still = story.run()
    assert still.returncode == HaltedError.exit_code, "a halt is lifted only when asked for"
    again = story.run("--resume")
    assert again.returncode == 0, again.stdout + again.stderr
    story.orders.check()


def _expired(story: Story) -> None:
    orders = story.orders
    before = story.status()["step"]
    orders.produce(50)
    orders.expire("payments", partition=1)
    halted = story.run()
    assert halted.returncode == HaltedError.exit_code, halted.stdout + halted.stderr
    assert "payments" in halted.stderr
    assert "partition 1" in halted.stderr
    assert story.status()["step"] == before, "what is left is not read as if nothing were missing"
