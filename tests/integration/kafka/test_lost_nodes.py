"""`kcontrol layout --without` of a node that says nothing, on the logs of a real broker: before anything needs Spark."""

from __future__ import annotations

import asyncio
import json
import shlex
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import TypeVar
from uuid import uuid4

import pytest

from kcontrol.adapters.kafka.admin.cluster import ensure_topics
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.kafka.transaction.owner import KafkaTransaction
from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.core.model import (
    Checkpoint,
    Claim,
    ControlRecord,
    LayoutRequest,
    LayoutStatus,
    NodeJoin,
    NodePhase,
    NodeState,
    PipelinePhase,
    PipelineSpec,
    Status,
    StepRecord,
)
from kcontrol.settings.cluster import ClusterSettings
from tests.support.owning import commit_at_end
from tests.support.patience import HANG_MS
from tests.support.processes import run_kcontrol
from tests.unit.core.made import boundary, checkpoint
from tests.unit.core.test_layout_change import FOUR

NODES = 3
BEAT_S = 0.5
SILENT_MS = 100
"""The command finds each node silent for longer, however soon it looks."""
HERE = socket.gethostname()
SPEC = replace(
    FOUR,
    nodes=NODES,
    inputs=(replace(FOUR.inputs[0], node_of=(0, 1, 2, 0)),),
    limits=replace(FOUR.limits, heartbeat_timeout_ms=SILENT_MS),
    checkpoint=replace(FOUR.checkpoint, shared=True),
)
STEP = boundary(1, nodes=NODES)


class Lost:
    """A pipeline in a cluster of its own, whose coordinator speaks and whose nodes said something once."""

    def __init__(self, settings: ClusterSettings, directory: Path, control: KafkaControlLog) -> None:
        self.settings, self.directory, self.control = settings, directory, control
        self.told: LayoutStatus | None = None
        """What the coordinator says of another layout."""

    async def tell(self, spec: PipelineSpec, hosts: tuple[str, ...], *steps: StepRecord) -> None:
        await self.say(spec)
        self.epoch = await self.say(Claim("p", "u", HERE, 41))
        for node, host in enumerate(hosts):
            life = await self.say(NodeJoin("p", node, f"n{node}", host, 42 + node))
            await self.say(NodeState("p", node, life, NodePhase.OPEN, 1, None, 1, -1, -1, (), "", 1, 0))
        await self.commit(*steps)

    async def commit(self, *records: StepRecord) -> None:
        transaction = KafkaTransaction(self.settings, "p")
        try:
            for record in records:
                producer = await transaction.init_producer(HANG_MS)
                await transaction.add_partitions(*producer, [(self.settings.names().steps_topic("p"), 0)])
                # What is dropped is what lies before its checkpoint.
                dropped = ("step/1",) if isinstance(record, Checkpoint) and record.first_step > 1 else ()
                await commit_at_end(self.settings, transaction, producer, record, dropped)
        finally:
            await transaction.close()

    async def say(self, record: ControlRecord) -> int:
        return (await self.control.append([record]))[-1]

    async def beat(self) -> None:
        """As a coordinator does."""
        while True:
            await self.say(
                Status("p", self.epoch, PipelinePhase.RUNNING, 1, "", (), 0, "", (), layout=self.told)
            )
            await asyncio.sleep(BEAT_S)

    async def without(self, node: int, *options: str) -> CompletedProcess[str]:
        return await self.layout("--without", str(node), *options)

    async def layout(self, *options: str) -> CompletedProcess[str]:
        return await self.run("layout", "p", "--work-dir", str(self.directory / "nodes"), *options)

    async def run(self, *command: str) -> CompletedProcess[str]:
        """In its directory, about its cluster."""
        toml = f'[kafka]\nbootstrap_servers = "{self.settings.bootstrap_servers}"\nprefix = "{self.settings.prefix}"\n'
        (self.directory / "kcontrol.toml").write_text(toml)
        env = {"XDG_DATA_HOME": str(self.directory / "home")}
        return await asyncio.to_thread(run_kcontrol, *command, env=env, cwd=self.directory)

    def remember(self) -> None:
        """That a node of it was started here."""
        file, note = self.directory / "p.py", self.directory / "home" / "kcontrol" / "files" / "p"
        file.touch()
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(str(file))

    async def asked(self) -> LayoutRequest | None:
        async with pipeline_logs(self.settings, "p") as logs:
            await logs.read()
            return logs.view.layout_request()


_Pipeline = TypeVar("_Pipeline", bound=Lost)


@asynccontextmanager
async def cluster_of_its_own(
    settings: ClusterSettings, directory: Path, kind: type[_Pipeline]
) -> AsyncIterator[_Pipeline]:
    """Where nobody has said anything yet."""
    own = settings.model_copy(update={"prefix": f"lost-{uuid4().hex[:6]}"})
    await asyncio.to_thread(ensure_topics, own, "p")
    control = await KafkaControlLog.open(own, "p")
    try:
        yield kind(own, directory, control)
    finally:
        await control.close()


@asynccontextmanager
async def lost_node(
    settings: ClusterSettings,
    directory: Path,
    hosts: tuple[str, ...],
    *steps: StepRecord,
    spec: PipelineSpec = SPEC,
) -> AsyncIterator[Lost]:
    async with cluster_of_its_own(settings, directory, Lost) as lost:
        await lost.tell(spec, hosts, *steps)
        beating = asyncio.create_task(lost.beat())
        try:
            yield lost
        finally:
            beating.cancel()
            with suppress(asyncio.CancelledError):
                await beating


Play = Callable[[Lost], Coroutine[None, None, CompletedProcess[str]]]


def played(
    settings: ClusterSettings,
    directory: Path,
    hosts: tuple[str, ...],
    play: Play,
    *steps: StepRecord,
    spec: PipelineSpec = SPEC,
) -> tuple[CompletedProcess[str], LayoutRequest | None]:
    """What the command says, and what is asked for afterwards."""

    async def run() -> tuple[CompletedProcess[str], LayoutRequest | None]:
        async with lost_node(
            settings, directory, hosts, *(steps or (STEP, checkpoint(1, NODES))), spec=spec
        ) as lost:
            return await play(lost), await lost.asked()

    return asyncio.run(run())


def program(text: str) -> tuple[str, str]:
    """In place of a node."""
    return "--start", shlex.join([sys.executable, "-c", text])


def test_what_is_to_be_done_is_said_and_nothing_is_asked_for(
    settings: ClusterSettings, tmp_path: Path
) -> None:
    two = boundary(2, (6, 1), (7, 2), nodes=NODES)

    async def play(lost: Lost) -> CompletedProcess[str]:
        lost.remember()
        return await lost.without(2, "--plan", "--json")

    done, asked = played(settings, tmp_path, ("a", "b", "c"), play, STEP, checkpoint(1, NODES), two)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["lost"] == {"node": 2, "host": "c", "stays": False, "begins_at": 1, "steps_again": 1}
    assert ({move["from"] for move in said["moves"]}, said["nodes"], said["changed"]) == ({2}, 2, False)
    assert asked is None


@pytest.mark.parametrize(
    ("hosts", "spec", "remembered", "why"),
    [
        (("a", "b", HERE), SPEC, False, "on this machine no node of it was ever started"),
        (
            ("a", "b", "c"),
            SPEC,
            True,
            "its number has to be started on c: give this command there, or with --start",
        ),
        (
            ("a", "b", HERE),
            replace(SPEC, checkpoint=replace(SPEC.checkpoint, shared=False)),
            True,
            "which no other host is known to read: its shards can't be dealt to others. Bring that host back",
        ),
    ],
    ids=["no file", "elsewhere", "on its host alone"],
)
def test_what_can_not_be_done_here_is_refused_with_what_is_missing(
    settings: ClusterSettings,
    tmp_path: Path,
    hosts: tuple[str, ...],
    spec: PipelineSpec,
    remembered: bool,
    why: str,
) -> None:
    async def play(lost: Lost) -> CompletedProcess[str]:
        if remembered:
            lost.remember()
        return await lost.without(0)

    done, asked = played(settings, tmp_path, hosts, play, spec=spec)
    assert (done.returncode, why in done.stderr, asked) == (2, True, None), done.stderr
    assert "node 0 of pipeline 'p' (process 42 on a) says nothing" in done.stderr
    assert "Nothing was changed" in done.stderr


def test_state_that_can_not_be_read_here_and_whose_steps_were_dropped_is_not_started_for(
    settings: ClusterSettings, tmp_path: Path
) -> None:
    spec = replace(SPEC, checkpoint=replace(SPEC.checkpoint, location=f"file://{tmp_path}/gone"))
    dropped = replace(checkpoint(2, NODES), location=spec.checkpoint.location, first_step=2, begin_offset=2)

    async def play(lost: Lost) -> CompletedProcess[str]:
        lost.remember()
        return await lost.without(2)

    two = boundary(2, (6, 1), (7, 2), nodes=NODES)
    done, asked = played(settings, tmp_path, ("a", "b", "c"), play, STEP, two, dropped, spec=spec)
    assert (done.returncode, asked) == (2, None), done.stderr
    assert "what it has saved up to step 2 can't be read here" in done.stderr
    assert "the log has no steps before 2: give this command on a host that can read" in done.stderr


def test_a_number_that_can_not_be_started_takes_back_what_was_asked_for(
    settings: ClusterSettings, tmp_path: Path
) -> None:
    async def play(lost: Lost) -> CompletedProcess[str]:
        return await lost.without(2, *program("import sys; sys.exit('no Java here')"))

    done, asked = played(settings, tmp_path, ("a", "b", "c"), play)
    assert done.returncode == 1, done.stderr
    assert "node 2 could not be started" in done.stderr
    assert "no Java here. Nothing was changed" in done.stderr
    assert asked is not None
    assert asked.nodes == 0
