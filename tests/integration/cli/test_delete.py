"""`kcontrol delete`: a pipeline is gone whole, whatever ends the deletion half way, and its name begins
anew."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kcontrol.adapters.kafka.admin.cluster import CONTROL_PARTITIONS, ensure_topics
from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.exchange.topic import ensure_exchange_topic
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.adapters.kafka.regions.asked import KafkaAskedRegions
from kcontrol.adapters.kafka.regions.log import KafkaRegionLog
from kcontrol.adapters.kafka.regions.topics import ensure_region_log, ensure_regions_topic
from kcontrol.adapters.kafka.transaction.owner import KafkaTransaction
from kcontrol.apps.deletion import delete, look
from kcontrol.apps.leftovers import refuse_half_deleted
from kcontrol.cli.main import cli
from kcontrol.core.log.definitions import definitions
from kcontrol.core.log.keys import key_of
from kcontrol.core.model import (
    CheckpointSpec,
    Claim,
    ControlRecord,
    Desired,
    DesiredMode,
    ExchangeSpec,
    Logged,
    NodePhase,
    PipelinePhase,
    PipelineSpec,
    Status,
    Tombstone,
)
from kcontrol.core.regions.leading import began
from kcontrol.core.regions.model import RegionSettings
from kcontrol.core.regions.records import RegionChange, RegionDefinition, RegionRollback
from kcontrol.core.regions.value import WrittenBy, change_of
from kcontrol.errors import ConfigurationError
from kcontrol.requests.record import NotNowError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.names import control_partition
from tests.integration.cli.conftest import Command
from tests.integration.cli.test_errors import sentence
from tests.support.http_world import Told
from tests.support.patience import HANG_S
from tests.support.processes import KcontrolProcess, until
from tests.unit.core.made import SPEC

PATIENCE_S = HANG_S
STEPS = 3
PARTITION = control_partition("p", CONTROL_PARTITIONS)
OTHER = next(
    name
    for name in map("other-{}".format, count())
    if control_partition(name, CONTROL_PARTITIONS) == PARTITION
)
"""A pipeline that lives in the same partition."""


@pytest.fixture
def cluster(settings: ClusterSettings, unique: str, tmp_path: Path) -> ClusterSettings:
    """Names of its own, which commands in this directory find in its `kcontrol.toml`."""
    own = settings.model_copy(update={"prefix": f"d{unique}"})
    (tmp_path / "kcontrol.toml").write_text(f'[kafka]\nprefix = "{own.prefix}"\n')
    ensure_topics(own, "p")
    ensure_topics(own, OTHER)
    return own


def made(
    cluster: ClusterSettings,
    *,
    mode: DesiredMode,
    phase: PipelinePhase,
    node: NodePhase,
    saved: str = "",
    spec: PipelineSpec = SPEC,
) -> None:
    """A pipeline `p` that has committed steps, and another in the same control partition."""

    async def run() -> None:
        control, transaction = await KafkaControlLog.open(cluster, "p"), KafkaTransaction(cluster, "p")
        log = KafkaStepsLog(cluster, "p")
        told = Told(control, transaction, log, [(cluster.names().steps_topic("p"), 0)])
        told.spec = replace(spec, checkpoint=replace(SPEC.checkpoint, location=saved))
        try:
            await told.begin()
            for step in range(1, STEPS + 1):
                await told.step(5 + step, step)
            await told.say(Desired("p", mode, "wish"))
            await told.node(node, STEPS)
            await told.status(phase, acknowledged=("wish",))
            await told.say(replace(SPEC, pipeline=OTHER), Claim(OTHER, "u", "host-a", 41))
        finally:
            await asyncio.gather(control.close(), transaction.close(), log.close())

    asyncio.run(run())


def stopped(cluster: ClusterSettings, saved: str = "", spec: PipelineSpec = SPEC) -> None:
    phase, node = PipelinePhase.STOPPED, NodePhase.CLOSED
    made(cluster, mode=DesiredMode.STOPPED, phase=phase, node=node, saved=saved, spec=spec)


def control(cluster: ClusterSettings) -> list[Logged]:
    async def read() -> list[Logged]:
        log = await KafkaControlLog.open(cluster, partition=PARTITION)
        try:
            return await log.read_to_end()
        finally:
            await log.close()

    return asyncio.run(read())


def say(cluster: ClusterSettings, *records: ControlRecord) -> None:
    async def run() -> None:
        log = await KafkaControlLog.open(cluster, partition=PARTITION)
        try:
            await log.append(records)
        finally:
            await log.close()

    asyncio.run(run())


def newest(cluster: ClusterSettings) -> dict[str, type]:
    """What a reader of the compacted partition would be left with: by key, the kind of its newest record."""
    found: dict[str, type] = {}
    for logged in control(cluster):
        record = logged.record
        if isinstance(record, Tombstone):
            found.pop(record.key, None)
        else:
            found[key_of(record)] = type(record)
    return found


def of_p(cluster: ClusterSettings) -> list[str]:
    return [key for key in newest(cluster) if key.startswith("p/")]


def steps_topic(cluster: ClusterSettings) -> Any:
    return TopicAdmin(cluster).find(cluster.names().steps_topic("p"))


def test_a_stopped_pipeline_is_removed_and_nothing_else(
    command: Command, cluster: ClusterSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(cluster, saved=str(tmp_path / "saved"))
    log_id = steps_topic(cluster).topic_id
    mine = tmp_path / "saved" / "p" / log_id / "node-0"
    for directory in (mine, tmp_path / "saved" / "p" / "another-log"):
        directory.mkdir(parents=True)
        (directory / "part").write_text("x")
    would = command("delete", "p", "--dry-run", "--json")
    assert would.returncode == 0, would.stderr
    facts = json.loads(would.stdout)
    assert (facts["steps_topic"], facts["step"]) == (cluster.names().steps_topic("p"), STEPS)
    assert set(facts["control_keys"]) == set(of_p(cluster))
    assert facts["stays"] == sorted({SPEC.inputs[0].topic, SPEC.outputs[0].topic})
    assert facts["checkpoints"] == [f"{tmp_path}/saved/p/{log_id}"]
    assert "nobody has typed 'p'" in sentence(command("delete", "p"), 2)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KCONTROL_BOOTSTRAP_SERVERS", cluster.bootstrap_servers)
    wrong = CliRunner().invoke(cli, ["delete", "p"], input="other\n")
    assert "'other' is not 'p': nothing was deleted" in str(wrong.exception)
    assert len(of_p(cluster)) > 5
    others = {key: kind for key, kind in newest(cluster).items() if not key.startswith("p/")}
    deleted = command("delete", "p", "--yes", "--checkpoints")
    assert deleted.returncode == 0, deleted.stderr
    assert "pipeline p: deleted" in deleted.stdout
    assert newest(cluster) == others
    assert {f"{OTHER}/spec", f"{OTHER}/claim/u"} <= set(others)
    assert steps_topic(cluster) is None
    assert not mine.exists()
    assert (tmp_path / "saved" / "p" / "another-log" / "part").exists()
    assert "no pipeline 'p'" in sentence(command("status", "p"), 10)
    assert "no pipeline 'p'" in sentence(command("delete", "p", "--yes"), 10)
    assert [json.loads(line)["pipeline"] for line in command("list", "--json").stdout.splitlines()] == [OTHER]


def test_the_topics_of_its_exchanges_go_with_it_and_nobody_elses(
    command: Command, cluster: ClusterSettings
) -> None:
    stopped(cluster)
    admin = TopicAdmin(cluster)
    topics = [
        ensure_exchange_topic(admin, cluster, pipeline, name, 1).name
        for pipeline, name in (("p", "by-user"), ("p", "spent"), ("p-2", "by-user"))
    ]
    would = command("delete", "p", "--dry-run", "--json")
    assert json.loads(would.stdout)["exchange_topics"] == topics[:2]
    deleted = command("delete", "p", "--yes")
    assert deleted.returncode == 0, deleted.stderr
    assert f"removed  topic {topics[0]}, of an exchange" in deleted.stdout
    assert [admin.find(topic) is None for topic in topics] == [True, True, False]


def test_topics_of_exchanges_with_names_of_ones_own_are_known_from_the_logs(
    cluster: ClusterSettings,
) -> None:
    own = cluster.model_copy(update={"name_overrides": {"exchange_topic": "x.{pipeline}.{exchange}"}})
    exchange = ExchangeSpec("mine", own.names().exchange_topic("p", "mine"), "id", ("k",), "mine.send", 0)
    stopped(own, spec=replace(SPEC, exchanges=(exchange,)))
    admin = TopicAdmin(own)
    for name in ("mine", "users-own"):
        ensure_exchange_topic(admin, own, "p", name, 1)
    assert asyncio.run(look(own, "p")).exchange_topics == (exchange.topic,)


def test_one_that_a_region_takes_back_is_not_before_that_is_over(
    command: Command, cluster: ClusterSettings
) -> None:
    """The rollback could not be completed then, and none of the others could go on."""
    stopped(cluster)
    ensure_regions_topic(cluster)
    ensure_region_log(cluster, "day")
    defined = RegionDefinition("day", RegionSettings("day", ("p", OTHER)), "ana", 1, "d1")
    first = began(defined)
    change = change_of(first.value, first.happened, WrittenBy("c", 1, 1))
    back = replace(change, number=2, rollback=RegionRollback(17, "r1", "ana", "a wrong rate", ()))

    async def say_of_region(*records: RegionChange) -> None:
        asked, log = KafkaAskedRegions(cluster), KafkaRegionLog(cluster, "day")
        await asked.ask(defined)
        await log.take()
        await log.write(records)
        await asyncio.gather(asked.close(), log.close())

    asyncio.run(say_of_region(change))
    remains = asyncio.run(look(cluster, "p"))
    asyncio.run(say_of_region(back))
    with pytest.raises(NotNowError, match="takes it back to cut 17"):
        asyncio.run(delete(cluster, remains))
    refused = sentence(command("delete", "p", "--yes"), 1)
    assert "region 'day' takes it back to cut 17" in refused
    assert "kcontrol region rollback day --abandon" in refused
    assert "p/spec" in of_p(cluster)
    asyncio.run(say_of_region(replace(change, number=3)))
    deleted = command("delete", "p", "--yes")
    assert deleted.returncode == 0, deleted.stderr


def test_one_that_runs_or_of_which_somebody_is_alive_is_not(
    command: Command, cluster: ClusterSettings
) -> None:
    # However long it takes to ask, they have been heard of lately.
    spec = replace(SPEC, limits=replace(SPEC.limits, heartbeat_timeout_ms=600_000))
    made(cluster, mode=DesiredMode.RUNNING, phase=PipelinePhase.RUNNING, node=NodePhase.RUNNING, spec=spec)
    refused = sentence(command("delete", "p", "--yes"), 1)
    assert "coordinator host-a:41 is in charge of it (it is running)" in refused
    assert "node 0: heard of" in refused
    assert "kcontrol stop p" in refused
    assert "p/spec" in of_p(cluster)
    assert steps_topic(cluster) is not None


def test_a_pipeline_that_cannot_be_shown_hides_no_other(command: Command, cluster: ClusterSettings) -> None:
    stopped(cluster)
    TopicAdmin(cluster).delete(cluster.names().steps_topic("p"))
    listed = command("list", "--json")
    assert [json.loads(line)["pipeline"] for line in listed.stdout.splitlines()] == [OTHER]
    assert (
        f"pipeline 'p' can't be shown: There is no topic '{cluster.names().steps_topic('p')}'"
        in listed.stderr
    )
    assert "1 of 2 pipelines can't be shown" in listed.stderr
    assert listed.returncode == 1


class Talker:
    """Somebody who does not hear that the pipeline is gone."""

    def __init__(self, cluster: ClusterSettings) -> None:
        self._cluster, self._over = cluster, threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._talk()))

    def __enter__(self) -> Talker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    async def _talk(self) -> None:
        log = await KafkaControlLog.open(self._cluster, "p")
        try:
            while not await asyncio.to_thread(self._over.wait, 0.2):
                await log.append([Status("p", 1, PipelinePhase.STOPPED, STEPS, "", (), 0, "", ())])
        finally:
            await log.close()


def test_a_deletion_that_was_killed_half_way_is_completed_by_another(
    command: Command, cluster: ClusterSettings, tmp_path: Path
) -> None:
    """It can't end before the last step of it while somebody talks, so that it is killed in the middle for
    certain."""
    stopped(cluster)
    with Talker(cluster):
        env = {"KCONTROL_BOOTSTRAP_SERVERS": cluster.bootstrap_servers}
        with KcontrolProcess(
            "delete", "p", "--yes", log=tmp_path / "delete.log", env=env, cwd=tmp_path
        ) as process:
            until(lambda: "p/spec" not in newest(cluster), "it has begun", PATIENCE_S, process.text)
            process.kill()
    assert steps_topic(cluster) is not None
    assert definitions(control(cluster)).keys() == {OTHER}
    assert "no pipeline 'p'" in sentence(command("status", "p"), 10)
    # Neither the old pipeline nor a new one: nothing is submitted under its name before it is gone.
    with pytest.raises(ConfigurationError, match=f"holds its steps up to {STEPS}: it was deleted half way"):
        asyncio.run(refuse_half_deleted(cluster, "p"))
    again = command("delete", "p", "--yes")
    assert again.returncode == 0, again.stderr
    assert "which was deleted half way" in again.stdout
    assert (of_p(cluster), steps_topic(cluster)) == ([], None)


def test_who_goes_on_writing_is_named(cluster: ClusterSettings) -> None:
    stopped(cluster)
    with (
        Talker(cluster),
        pytest.raises(ConfigurationError, match=r"goes on writing for pipeline 'p'.*'p/status' in"),
    ):
        asyncio.run(delete(cluster, asyncio.run(look(cluster, "p")), longest_s=1))
    assert steps_topic(cluster) is not None


def test_a_coordinator_lets_go_of_a_deleted_pipeline_and_takes_up_one_that_is_submitted_again(
    command: Command, cluster: ClusterSettings, tmp_path: Path
) -> None:
    stopped(cluster)
    env = {"KCONTROL_BOOTSTRAP_SERVERS": cluster.bootstrap_servers}
    with KcontrolProcess("coordinator", log=tmp_path / "coordinator.log", env=env, cwd=tmp_path) as process:

        def status() -> Status | None:
            said = [
                one.record
                for one in control(cluster)
                if isinstance(one.record, Status) and one.record.pipeline == "p"
            ]
            return said[-1] if said else None

        before = max(one.offset for one in control(cluster))

        def stands_by() -> bool:
            said = status()
            return said is not None and said.claim_epoch > before and said.phase is PipelinePhase.STOPPED

        until(stands_by, "it stands by", PATIENCE_S, process.text)
        deleted = command("delete", "p", "--yes")
        assert deleted.returncode == 0, deleted.stderr + process.text()
        process.says("it was deleted; nobody looks after it any more", PATIENCE_S)
        assert (of_p(cluster), steps_topic(cluster)) == ([], None)
        begun = len(control(cluster))
        ensure_topics(cluster, "p")
        say(cluster, replace(SPEC, checkpoint=CheckpointSpec("", 0, 0, 0)))
        until(
            lambda: (s := status()) is not None and s.phase is PipelinePhase.STARTING,
            "it begins",
            PATIENCE_S,
            process.text,
        )
        said = status()
        assert said is not None
        assert (said.step, said.acknowledged, said.claim_epoch >= begun) == (0, (), True)
        assert process.terminate() == 0
