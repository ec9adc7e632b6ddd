"""`kcontrol serve` and `kcontrol wait` as processes, on a real Kafka: what one writes is what the other
reads."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer

from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.adapters.kafka.transaction.owner import KafkaTransaction
from kcontrol.core.model import (
    Checkpoint,
    CheckpointSpec,
    ControlRecord,
    NodeJoin,
    NodePhase,
    NodeState,
    PipelinePhase,
    SavedPart,
    SkippedRange,
    StepBoundary,
)
from kcontrol.settings.cluster import ClusterSettings
from tests.integration.cli.conftest import Command, own_cluster
from tests.integration.cli.test_errors import sentence
from tests.support.http_world import Told
from tests.support.patience import HANG_S
from tests.support.processes import KcontrolProcess, until
from tests.support.topics import create_topic
from tests.unit.core.made import SPEC

TOKEN = "a-token-of-some-length"
PATIENCE_S = HANG_S


@pytest.fixture
def cluster(settings: ClusterSettings, unique: str, tmp_path: Path) -> ClusterSettings:
    """Names of its own, which commands in this directory find in its `kcontrol.toml`."""
    return own_cluster(settings, f"w{unique}", tmp_path)


def tell(
    cluster: ClusterSettings, *, steps: int, phase: PipelinePhase = PipelinePhase.RUNNING, reason: str = ""
) -> None:
    """A pipeline `p` that has committed so many steps."""

    async def run() -> None:
        control, transaction = await KafkaControlLog.open(cluster, "p"), KafkaTransaction(cluster, "p")
        log = KafkaStepsLog(cluster, "p")
        told = Told(control, transaction, log, [(cluster.names().steps_topic("p"), 0)])
        try:
            await told.begin()
            for step in range(1, steps + 1):
                await told.step(5 + step, step)
            await told.status(phase, reason)
        finally:
            await asyncio.gather(control.close(), transaction.close(), log.close())

    asyncio.run(run())


@pytest.fixture
def served(cluster: ClusterSettings, tmp_path: Path) -> Iterator[str]:
    """The address of a server that has read everything."""
    token = tmp_path / "token"
    token.write_text(TOKEN)
    arguments = ("serve", "--host", "0.0.0.0", "--port", "0", "--token-file", str(token), "--json")
    env = {"KCONTROL_BOOTSTRAP_SERVERS": cluster.bootstrap_servers}
    with KcontrolProcess(*arguments, log=tmp_path / "serve.log", env=env, cwd=tmp_path) as process:
        process.says('"serve"')
        url = json.loads(process.text().splitlines()[0])["serve"].replace("0.0.0.0", "127.0.0.1")
        with httpx.Client(base_url=url, timeout=PATIENCE_S) as probe:
            until(
                lambda: probe.get("/health/ready").status_code == 200,
                "the server is ready",
                hint=process.text,
            )
        yield url
        assert process.terminate() == 0
        assert TOKEN not in process.text()


def test_a_server_answers_whoever_has_the_token(cluster: ClusterSettings, served: str) -> None:
    tell(cluster, steps=2)
    with httpx.Client(base_url=served, timeout=PATIENCE_S) as stranger:
        assert stranger.get("/v1/pipelines").status_code == 401
    with httpx.Client(
        base_url=served, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=PATIENCE_S
    ) as client:
        until(lambda: client.get("/v1/pipelines/p/steps/2").status_code == 200, "the steps are seen")
        accepted = client.post("/v1/pipelines/p/pause").json()
        assert client.get(accepted["outcome"]).json()["state"] == "pending"
        assert 'kcontrol_committed_step{pipeline="p"} 2.0' in client.get("/metrics").text


def test_a_server_is_not_ready_without_kafka_and_names_what_it_waits_for(tmp_path: Path) -> None:
    arguments = ("serve", "--port", "0", "--json", "--bootstrap-servers", "127.0.0.1:1")
    with KcontrolProcess(*arguments, log=tmp_path / "serve.log", cwd=tmp_path) as process:
        process.says('"serve"')
        url = json.loads(process.text().splitlines()[0])["serve"]
        with httpx.Client(base_url=url, timeout=PATIENCE_S) as client:
            assert client.get("/health/live").status_code == 200

            def error() -> str:
                answer = client.get("/health/ready")
                assert answer.status_code == 503
                (blocked,) = answer.json()["blocked"]
                assert blocked["phase"] == "connecting to Kafka"
                return str(blocked["error"])

            until(error, "it says what went wrong", hint=process.text)
            refused = client.get("/v1/pipelines")
            assert refused.status_code == 503
            assert "/health/ready" in refused.json()["detail"]
        assert process.terminate() == 0


def test_serve_refuses_an_open_address_without_a_token(command: Command) -> None:
    assert "--token-file" in sentence(command("serve", "--host", "0.0.0.0", "--port", "0"), 2)


def test_wait_ends_when_the_record_is_in_a_committed_step(
    command: Command, cluster: ClusterSettings, tmp_path: Path
) -> None:
    tell(cluster, steps=1)
    arguments = ("wait", "p", "--token", "input:0:5,input:1:2", "--json")
    env = {"KCONTROL_BOOTSTRAP_SERVERS": cluster.bootstrap_servers}
    late = command(*arguments, "--timeout", "0.5")
    assert "input:1:2" in sentence(late, 3)
    assert "input:0:5" not in late.stderr
    with KcontrolProcess(*arguments, log=tmp_path / "wait.log", env=env, cwd=tmp_path) as waiting:
        asyncio.run(_three_more(cluster))
        assert waiting.wait(PATIENCE_S) == 0
        found = [json.loads(line) for line in waiting.text().splitlines() if line.startswith('{"record"')]
    assert [(one["record"], one["state"], one["step"]) for one in found] == [
        ("input:0:5", "committed", 1),
        ("input:1:2", "committed", 3),
    ]
    # Whoever asks after all have been restarted hears the same.
    again = command("wait", "p", "--topic", "input", "--partition", "1", "--offset", "2", "--json")
    assert json.loads(again.stdout)["step"] == 3


async def _three_more(cluster: ClusterSettings) -> None:
    control, transaction = await KafkaControlLog.open(cluster, "p"), KafkaTransaction(cluster, "p")
    log = KafkaStepsLog(cluster, "p")
    told = Told(control, transaction, log, [(cluster.names().steps_topic("p"), 0)])
    told.continue_after(1, (6, 1))
    try:
        for step in range(2, 5):
            await told.step(5 + step, step)
    finally:
        await asyncio.gather(control.close(), transaction.close(), log.close())


def test_wait_tells_of_steps_before_the_checkpoint_of_dropped_ones_and_of_what_was_skipped(
    command: Command, cluster: ClusterSettings
) -> None:
    asyncio.run(_a_log_with_a_checkpoint(cluster))

    def step(token: str) -> int | None:
        told = command("wait", "p", "--token", token, "--json")
        assert told.returncode == 0, told.stderr
        found: int | None = json.loads(told.stdout)["step"]
        return found

    assert [step("input:0:7"), step("input:0:11"), step("input:1:2")] == [3, 7, 3]
    # Steps 1 and 2 were dropped: what they read is complete, and in which of them it was nobody knows any
    # more.
    assert step("input:0:5") is None
    assert "committed in a step that was dropped" in command("wait", "p", "--token", "input:0:5").stdout
    skipped = "step 8 went past input:0:15 at a user's request"
    assert skipped in sentence(command("wait", "p", "--token", "input:0:15"), 10)
    assert step("input:0:20") == 8


async def _a_log_with_a_checkpoint(cluster: ClusterSettings) -> None:
    control, transaction = await KafkaControlLog.open(cluster, "p"), KafkaTransaction(cluster, "p")
    steps = KafkaStepsLog(cluster, "p")
    log = KafkaStepsLog(cluster, "p")
    told = Told(control, transaction, log, [(cluster.names().steps_topic("p"), 0)])
    told.spec = replace(told.spec, checkpoint=CheckpointSpec("file:///nowhere", 60_000, 2, 4))
    try:
        await told.begin()
        for step in range(1, 7):
            await told.step(5 + step, step)
        begin = next(
            x.offset
            for x in await steps.read_to_end()
            if isinstance(x.record, StepBoundary) and x.record.step == 5
        )
        part = SavedPart(0, 3, "manifest", 1, 10)
        await told.checkpoint(Checkpoint("p", 5, 1, begin, "file:///nowhere", (part,), 1, 2, "", 1, 0, begin))
        await told.step(12, 7, forget=("step/1", "step/2"))
        passed = SkippedRange("in", "input", "T1", 0, 12, 20, "me", 5, "r")
        await told.step(21, 7, skipped=(passed,))
    finally:
        await asyncio.gather(control.close(), transaction.close(), steps.close(), log.close())


def test_wait_says_what_can_never_be(command: Command, cluster: ClusterSettings) -> None:
    tell(cluster, steps=0, phase=PipelinePhase.HALTED, reason="no disk")
    assert "no disk" in sentence(command("wait", "p", "--token", "input:0:9"), 9)
    assert "began after input:0:1" in sentence(command("wait", "p", "--token", "input:0:1"), 10)
    assert "reads topic 'else'" in sentence(command("wait", "p", "--token", "else:0:1"), 10)
    assert "TOPIC:PARTITION:OFFSET" in sentence(command("wait", "p", "--token", "else"), 2)
    assert "--token" in sentence(command("wait", "p"), 2)


def test_a_coordinator_serves_too_and_says_what_only_it_knows(
    cluster: ClusterSettings, tmp_path: Path
) -> None:
    tell(cluster, steps=1)
    arguments = ("coordinator", "--http-port", "0", "--json")
    env = {"KCONTROL_BOOTSTRAP_SERVERS": cluster.bootstrap_servers}
    with KcontrolProcess(*arguments, log=tmp_path / "coordinator.log", env=env, cwd=tmp_path) as process:
        process.says('"serve"')
        ready = next(
            json.loads(line) for line in process.text().splitlines() if line.startswith('{"coordinator"')
        )
        with httpx.Client(base_url=ready["serve"], timeout=PATIENCE_S) as client:
            until(lambda: client.get("/health/ready").status_code == 200, "it is ready", hint=process.text)
            in_charge = 'kcontrol_coordinator_active{pipeline="p"} 1.0'
            until(lambda: in_charge in client.get("/metrics").text, "it is in charge", hint=process.text)
            claimed = f"{socket.gethostname()}:{process.pid}"
            until(
                lambda: client.get("/v1/pipelines/p").json()["status"]["coordinator"] == claimed,
                "its claim is seen",
            )
            accepted = client.post("/v1/pipelines/p/pause").json()
            until(
                lambda: client.get(accepted["outcome"]).json()["state"] == "done",
                "it has paused",
                hint=process.text,
            )
            assert client.get("/v1/pipelines/p").json()["status"]["phase"] == "paused"
        assert process.terminate() == 0


def _left_behind(cluster: ClusterSettings) -> str:
    """A pipeline and what its node said last; the topic that it reads."""
    topic = f"{cluster.prefix}-words"
    create_topic(cluster, topic, 2)
    topic_id = TopicAdmin(cluster).get(topic, "the input").topic_id
    limits = replace(SPEC.limits, heartbeat_timeout_ms=2_000)
    reads = replace(SPEC.inputs[0], topic=topic, topic_id=topic_id, start_offsets=(0, 0))
    spec, join = replace(SPEC, limits=limits, inputs=(reads,)), NodeJoin("p", 0, "n", "host-b", 42)
    incarnation = asyncio.run(_append(cluster, spec, join))
    state = NodeState("p", 0, incarnation, NodePhase.CLOSED, 0, None, -1, -1, -1, (), "", 1, 0)
    asyncio.run(_append(cluster, state))
    return topic


def test_nobody_says_running_of_a_pipeline_whose_processes_were_killed(
    command: Command, cluster: ClusterSettings, served: str, tmp_path: Path
) -> None:
    topic = _left_behind(cluster)
    env = {"KCONTROL_BOOTSTRAP_SERVERS": cluster.bootstrap_servers}
    client = httpx.Client(base_url=served, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=PATIENCE_S)

    def status() -> Any:
        answer = client.get("/v1/pipelines/p")
        return answer.json()["status"] if answer.status_code == 200 else {}

    with (
        client,
        KcontrolProcess(
            "coordinator", log=tmp_path / "coordinator.log", env=env, cwd=tmp_path
        ) as coordinator,
    ):
        until(
            lambda: status().get("has_coordinator"),
            "the coordinator is heard of",
            PATIENCE_S,
            coordinator.text,
        )
        until(
            lambda: status()["phase"] == "starting", "it is known to start", PATIENCE_S, lambda: str(status())
        )
        _produce(cluster, topic, 1_000)
        until(
            lambda: status()["inputs"][0]["waiting"] == 1_000,
            "Kafka says what waits",
            PATIENCE_S,
            lambda: str(status()),
        )
        until(lambda: status()["nodes"][0]["phase"] == "silent", "its node is missed", PATIENCE_S)
        said = command("status", "p").stdout
        assert f":{coordinator.pid} (heard of" in said
        assert "node 0     silent" in said
        coordinator.kill()
        until(
            lambda: status()["phase"] == "unknown", "the server misses it", PATIENCE_S, lambda: str(status())
        )
        said = command("status", "p").stdout
        assert "pipeline   p: unknown (wanted: running)" in said
        assert f":{coordinator.pid} (not heard for" in said
        assert "1,000 offsets wait" in said
        facts = json.loads(command("status", "p", "--json").stdout)
        assert (facts["has_coordinator"], facts["inputs"][0]["waiting"], facts["inputs"][0]["unasked"]) == (
            False,
            1_000,
            "",
        )
        metrics = client.get("/metrics").text
        assert 'kcontrol_pipeline_phase{phase="unknown",pipeline="p"} 1.0' in metrics
        assert 'kcontrol_pipeline_coordinated{pipeline="p"} 0.0' in metrics
        assert 'kcontrol_input_lag_records{input="in",pipeline="p"} 1000.0' in metrics
        assert client.get("/v1/pipelines/p/errors").json()["errors"][0]["kind"] == "unknown"
        coordinator.start()
        starts = "the next incarnation is heard of"
        until(lambda: status()["phase"] == "starting", starts, PATIENCE_S, coordinator.text)


async def _append(cluster: ClusterSettings, *records: ControlRecord) -> int:
    control = await KafkaControlLog.open(cluster, "p")
    try:
        return (await control.append(records))[-1]
    finally:
        await control.close()


def _produce(cluster: ClusterSettings, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for _ in range(count):
        producer.produce(topic, b"x", partition=0)
    assert producer.flush(HANG_S) == 0
