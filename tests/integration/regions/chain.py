"""Pipelines that read each other's topics, on a real broker, with a real coordinator and nodes that pass records on, or count
them: those keep state, and save it."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import Producer

from kcontrol import Checkpoint, KafkaInput, KafkaOutput, Pipeline, StepPolicy
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.apps.submit import submit
from kcontrol.core.model import ControlRecord, HoldPhase, HoldStatus, PipelineSpec, Status, StepBoundary
from kcontrol.definition.resolve import QueryFacts
from kcontrol.settings.cluster import ClusterSettings
from tests.support.processes import KcontrolProcess, until

PATIENCE_S = 180.0
SAVED_EVERY = "2 s"
KEPT_CHECKPOINTS = 1_000
"""Of a pipeline with state: whoever goes back to an old cut needs one from before it."""


class Chain:
    """A cluster of names of its own, on the broker that all tests share."""

    def __init__(self, settings: ClusterSettings, home: Path) -> None:
        self.settings = settings.model_copy(update={"prefix": f"r{secrets.token_hex(4)}"})
        self.home = home
        self.specs: dict[str, PipelineSpec] = {}
        self._producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
        (home / "kcontrol.toml").write_text(
            f'[kafka]\nbootstrap_servers = "{settings.bootstrap_servers}"\nprefix = "{self.settings.prefix}"\n'
        )

    def submit(self, name: str, inputs: Sequence[str], output: str, *, counts: bool = False) -> None:
        """A pipeline that passes on what lies in topics. counts: with a running number for each partition that it reads,
        which is its state."""
        pipeline = Pipeline(
            name,
            inputs=[KafkaInput(f"in{at}", topic=topic) for at, topic in enumerate(inputs)],
            outputs=[KafkaOutput("out", topic=output)],
            steps=StepPolicy(min_records=1, max_delay="50 ms", max_records=2_000),
            checkpoint=Checkpoint(str(self.home / "checkpoints"), every=SAVED_EVERY, keep=KEPT_CHECKPOINTS)
            if counts
            else None,
        )
        kept = ("rows of each partition",) if counts else ()
        facts = [QueryFacts("out", ("out",), "append", kept, brings_key=False)]
        self.specs[name] = asyncio.run(submit(self.settings, pipeline, facts))

    def produce(self, topic: str, partition: int, *values: str) -> None:
        for value in values:
            self._producer.produce(topic, value.encode(), partition=partition)
        assert self._producer.flush(PATIENCE_S) == 0

    @contextmanager
    def running(self) -> Iterator[dict[str, KcontrolProcess]]:
        """The coordinator, and a node for each pipeline, by name."""
        servers = self.settings.bootstrap_servers
        with ExitStack() as stack:
            processes = {
                "coordinator": stack.enter_context(
                    KcontrolProcess(
                        *("coordinator", "--bootstrap-servers", servers),
                        log=self.home / "coordinator.log",
                        env={"XDG_DATA_HOME": str(self.home / "home")},
                        cwd=self.home,
                    )
                )
            }
            for name in self.specs:
                processes[name] = stack.enter_context(
                    KcontrolProcess(
                        *(servers, self.settings.prefix, name),
                        log=self.home / f"{name}.log",
                        cwd=self.home,
                        module="tests.support.counting_node"
                        if self.specs[name].stateful
                        else "tests.support.relay_node",
                    )
                )
            yield processes

    def lose_disk(self) -> None:
        """Of all nodes that keep state, which are not running: what they need is in checkpoints."""
        shutil.rmtree(self.home / "work")

    def until_saved(self, name: str) -> None:
        """It has a checkpoint, so that it can be taken back to whatever follows."""

        async def read() -> bool:
            async with pipeline_logs(self.settings, name) as logs:
                await logs.read()
                return bool(logs.committed.checkpoints)

        until(lambda: asyncio.run(read()), f"{name} is saved", PATIENCE_S)

    def say(self, name: str, *records: ControlRecord) -> None:
        async def append() -> None:
            log = await KafkaControlLog.open(self.settings, name)
            try:
                await log.append(records)
            finally:
                await log.close()

        asyncio.run(append())

    def look(self, name: str) -> tuple[Status | None, StepBoundary | None]:
        """What its coordinator last said, and its last step."""

        async def read() -> tuple[Status | None, StepBoundary | None]:
            async with pipeline_logs(self.settings, name) as logs:
                await logs.read()
                return logs.view.status(), logs.committed.last

        return asyncio.run(read())

    def is_any_held(self) -> bool:
        """Whether somebody holds one of them, as it says itself."""
        said = [self.look(name)[0] for name in self.specs]
        holds = [one.hold.phase for one in said if one is not None and one.hold is not None]
        return any(phase in (HoldPhase.NOTED, HoldPhase.HELD) for phase in holds)

    def until_read(self, name: str, topic: str, partition: int, to: int) -> StepBoundary:
        """Its first step that has read so far."""
        found: list[StepBoundary] = []

        def there() -> bool:
            last = self.look(name)[1]
            if last is not None and any(
                (one.topic, one.partition) == (topic, partition) and one.to >= to for one in last.inputs
            ):
                found.append(last)
            return bool(found)

        until(there, f"{name} has read {topic}/{partition} to {to}", PATIENCE_S)
        return found[-1]

    def until_held(self, name: str, wanted: HoldStatus) -> None:
        until(
            lambda: (said := self.look(name)[0]) is not None and said.hold == wanted, f"{wanted}", PATIENCE_S
        )
