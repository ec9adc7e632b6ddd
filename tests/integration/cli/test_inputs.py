"""`kcontrol pause-input`, `resume-input` and `skip` on a real broker, with a test in the place of the
coordinator."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from kcontrol.adapters.kafka.admin.cluster import ensure_topics
from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.core.model import (
    Claim,
    ControlRecord,
    InputDesired,
    NodeJoin,
    PipelinePhase,
    Received,
    ReceivedPartition,
    SkipRequest,
    Status,
)
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.cli.conftest import Command
from tests.integration.cli.test_errors import sentence
from tests.support.patience import HANG_S
from tests.unit.core.made import SPEC

RECORDS = 9
NEXT = 5
"""Where step 1 begins in partition 0, by the spec."""


class Pipeline:
    """A pipeline that was submitted to the broker, and what is said in its control log."""

    def __init__(self, settings: ClusterSettings, name: str, topic: str) -> None:
        ensure_topics(settings, name)
        self.name = name
        self._settings = settings
        self._topic_id = TopicAdmin(settings).get(topic, "input").topic_id
        source = replace(SPEC.inputs[0], topic=topic, topic_id=self._topic_id)
        self.say(replace(SPEC, pipeline=name, inputs=(source,)))

    def say(self, *records: ControlRecord) -> list[int]:
        return asyncio.run(self._append(records))

    async def _append(self, records: Sequence[ControlRecord]) -> list[int]:
        log = await KafkaControlLog.open(self._settings, self.name)
        try:
            return await log.append(records)
        finally:
            await log.close()

    def seen(self, to: int) -> None:
        """A node has joined and says how far partition 0 reaches."""
        (life,) = self.say(NodeJoin(self.name, 0, "u", "host", 2))
        partitions = (ReceivedPartition(0, self._topic_id, 0, to), ReceivedPartition(1, self._topic_id, 0, 0))
        self.say(Received(self.name, 0, life, "in", 1, partitions, to, 0), Claim(self.name, "c", "host", 1))

    def status(self, phase: PipelinePhase, noted: int = -1) -> None:
        self.say(Status(self.name, 1, phase, 0, "", (), 0, "", (), noted))

    @contextmanager
    def acting_on_the_next_request(self, phase: PipelinePhase) -> Iterator[None]:
        """What a coordinator does, from now on: once somebody asks, say that it is taken note of."""
        listens = threading.Event()

        async def act() -> None:
            log = await KafkaControlLog.open(self._settings, self.name)
            try:
                await log.read_to_end()
                listens.set()
                async for chunk in log.tail():
                    asked = [
                        one.offset for one in chunk if isinstance(one.record, InputDesired | SkipRequest)
                    ]
                    if asked:
                        await log.append([Status(self.name, 1, phase, 0, "", (), 0, "", (), asked[-1])])
                        return
            finally:
                await log.close()

        with ThreadPoolExecutor(1) as pool:
            acting = pool.submit(asyncio.run, asyncio.wait_for(act(), 2 * HANG_S))
            while not listens.wait(0.05):
                assert not acting.done(), acting.exception()
            yield
            acting.result()


@pytest.fixture
def pipeline(settings: ClusterSettings, topic_factory: TopicFactory, unique: str) -> Pipeline:
    topic = topic_factory("inputs", partitions=2)
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
    for _ in range(RECORDS):
        producer.produce(topic, b"x", partition=0)
    assert producer.flush(HANG_S) == 0
    return Pipeline(settings, f"inputs-{unique}", topic)


def test_a_pause_waits_for_the_coordinator_and_shows_in_the_status(
    command: Command, pipeline: Pipeline
) -> None:
    pipeline.status(PipelinePhase.RUNNING)
    unheard = sentence(command("pause-input", pipeline.name, "in", "--timeout", "1"), 3)
    assert "is recorded, but not in force after 1 s: no coordinator has acted on it" in unheard
    told = json.loads(command("status", pipeline.name, "--json").stdout)
    # Nobody has said that they came: how many wait is asked of Kafka, and since when nobody knows.
    waiting = {"kind": "topic", "waiting": RECORDS - NEXT, "waiting_ms": None, "unasked": ""}
    assert told["inputs"] == [{"input": "in", **waiting, "paused": True, "noted": False, "skips": []}]
    assert "paused (pausing it waits for a coordinator)" in command("status", pipeline.name).stdout
    with pipeline.acting_on_the_next_request(PipelinePhase.RUNNING):
        result = command("resume-input", pipeline.name, "in", "--json")
    assert result.returncode == 0, result.stderr
    expected = {"pipeline": pipeline.name, "input": "in", "paused": False, "from_step": 1, "phase": "running"}
    assert json.loads(result.stdout) == expected


def test_a_skip_is_recorded_with_who_asked_and_waits_in_the_status(
    command: Command, pipeline: Pipeline
) -> None:
    pipeline.seen(RECORDS)
    pipeline.status(PipelinePhase.HALTED)
    with pipeline.acting_on_the_next_request(PipelinePhase.HALTED):
        result = command(
            "skip", pipeline.name, "--input", "in", "--partition", "0", "--to-offset", "8", "--by", "somebody"
        )
    assert result.returncode == 0, result.stderr
    assert "partition 0: offsets 5 to 7 are skipped; step 1 begins at offset 8" in result.stdout
    told = json.loads(command("status", pipeline.name, "--json").stdout)["inputs"][0]
    (waiting,) = told["skips"]
    assert (waiting["from"], waiting["to"], waiting["by"], waiting["waits_for"]) == (NEXT, 8, "somebody", "")
    logged = [json.loads(line) for line in command("log", pipeline.name, "--json").stdout.splitlines()]
    assert [(one["from"], one["to"], one["by"]) for one in logged if one["record"] == "SkipRequest"] == [
        (NEXT, 8, "somebody")
    ]


def test_what_can_not_be_is_refused_and_nothing_is_recorded(command: Command, pipeline: Pipeline) -> None:
    pipeline.status(PipelinePhase.PAUSED)
    where = ("skip", pipeline.name, "--input", "in", "--partition")
    assert "4 lies before it" in sentence(command(*where, "0", "--to-offset", "4"), 2)
    assert "ends at offset 9; 10 lies beyond it" in sentence(command(*where, "0", "--to-offset", "10"), 2)
    assert "has no partition 2: it has 2" in sentence(command(*where, "2", "--to-offset", "1"), 10)
    assert "has no input 'out'; it has in" in sentence(command("pause-input", pipeline.name, "out"), 10)
    pipeline.status(PipelinePhase.RUNNING)
    assert "it is running; first kcontrol pause" in sentence(command(*where, "0", "--to-offset", "8"), 1)
    assert command(*where, "-1", "--to-offset", "8").returncode == 2
    logged = command("log", pipeline.name, "--json").stdout
    assert "SkipRequest" not in logged
    assert "InputDesired" not in logged


def test_a_pipeline_that_is_not_there(command: Command, settings: ClusterSettings) -> None:
    ensure_topics(settings)
    asked = (
        ("pause-input", "nobody", "in"),
        ("skip", "nobody", "--input", "in", "--partition", "0", "--to-offset", "1"),
    )
    for arguments in asked:
        assert "nobody" in sentence(command(*arguments), 10)
