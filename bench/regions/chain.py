"""A region of pipelines without Spark, each of which reads what the one before it writes: the processes of it, and what
its logs say."""

from __future__ import annotations

import asyncio
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.layout.load import Load
from bench.topics import create_topics
from examples import processes
from examples.processes import KcontrolProcess, alive
from kcontrol import KafkaInput, KafkaOutput, Pipeline, StepPolicy
from kcontrol.adapters.clock import SystemClock
from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.apps.regions.asking import ask_region, region_reader, request_of
from kcontrol.apps.regions.defining import apply_region
from kcontrol.apps.submit import submit
from kcontrol.core.model import StepBoundary
from kcontrol.core.regions.log_view import RegionLogView
from kcontrol.core.regions.model import RegionSettings, RegionState, Trigger
from kcontrol.core.regions.records import RegionCut, RegionRequestKind
from kcontrol.definition.resolve import QueryFacts
from kcontrol.requests.deletion import refuse_while_alive
from kcontrol.requests.record import NotNowError
from kcontrol.settings.cluster import ClusterSettings

PARTITIONS = 2
KEYS = 1_000
DRAIN_TIMEOUT_S = 120.0
TIMEOUT_S = 300.0
LOOK_EVERY_S = 0.2
BY = "bench"


@dataclass(frozen=True)
class BenchRegion:
    """A region's definition and its log. others: processes whose output tells why nothing comes."""

    settings: ClusterSettings
    name: str
    pipelines: tuple[str, ...]
    others: tuple[KcontrolProcess, ...]

    def define(self, trigger: Trigger, period_ms: int = 1_000) -> None:
        """Anew, if it was otherwise; returns once its controller goes by it, and drains are made or can be asked for."""
        wanted = RegionSettings(
            self.name,
            self.pipelines,
            trigger,
            period_ms=period_ms,
            drain_timeout_ms=round(DRAIN_TIMEOUT_S * 1_000),
            max_reset_attempts=1_000,
        )
        asyncio.run(apply_region(self.settings, wanted, BY))

        def follows() -> bool:
            newest = self.view().newest
            ready = (RegionState.PROCESSING, RegionState.DRAINING, RegionState.PENDING)
            return newest is not None and newest.settings == wanted and newest.state in ready

        self.until(follows, f"region {self.name} goes by {trigger}")

    def view(self) -> RegionLogView:
        """As of now."""

        async def look() -> RegionLogView:
            async with region_reader(self.settings, self.name) as reader:
                return await reader.look()

        return asyncio.run(look())

    def drain(self, *, hold: bool = False) -> tuple[RegionCut, float]:
        """A cut, and the milliseconds from when it was asked for to when it was in the log. Raises RetriableError."""
        request = request_of(self.name, RegionRequestKind.DRAIN, BY, hold=hold)
        answer, view = asyncio.run(ask_region(self.settings, request, DRAIN_TIMEOUT_S))
        cut = view.cuts[answer.seq_id]
        return cut, cut.made_ms - request.at_ms

    def resume(self) -> None:
        """After a drain that holds. Raises RetriableError."""
        request = request_of(self.name, RegionRequestKind.RESUME, BY)
        asyncio.run(ask_region(self.settings, request, DRAIN_TIMEOUT_S))

    def boundaries(self, pipeline: str) -> list[StepBoundary]:
        """Of all its steps."""

        async def read() -> list[StepBoundary]:
            async with pipeline_logs(self.settings, pipeline) as logs:
                found = await logs.read_steps(1, None)
                return [each.record for each in found if isinstance(each.record, StepBoundary)]

        return asyncio.run(read())

    def step(self, pipeline: str) -> int:
        """Its last one; 0 before the first."""

        async def read() -> int:
            async with pipeline_logs(self.settings, pipeline) as logs:
                await logs.read()
                return logs.committed.step

        return asyncio.run(read())

    def stands(self, pipeline: str) -> bool:
        """Whether none of its nodes is at work, as far as is known."""

        async def look() -> bool:
            async with pipeline_logs(self.settings, pipeline) as logs:
                clock = SystemClock()
                await logs.read()
                await logs.listen(clock)
                try:
                    refuse_while_alive(logs, clock.now_ms(), "works", "")
                except NotNowError:
                    return False
                return True

        return asyncio.run(look())

    def until_step(self, pipeline: str, step: int) -> None:
        """Raises RuntimeError when it does not come in time."""
        self.until(lambda: self.step(pipeline) >= step, f"step {step} of {pipeline}")

    def until(self, there: Callable[[], bool], what: str) -> None:
        """Raises RuntimeError when it takes too long, or a process has ended."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while not there():
            ended = [process.name for process in self.others if not process.is_running]
            if ended or time.monotonic() > deadline_s:
                why = f"{', '.join(ended)} has ended" if ended else f"{TIMEOUT_S:g} s are over"
                said = "\n".join(process.log_tail() for process in self.others)
                raise RuntimeError(f"not seen: {what}; {why}\n{said}")
            time.sleep(LOOK_EVERY_S)


def region_controller(bootstrap_servers: str, home: Path, region: str) -> KcontrolProcess:
    """Of this region alone."""
    arguments = ["region-controller", region, "--bootstrap-servers", bootstrap_servers]
    return KcontrolProcess("region-controller", arguments, home)


def relay(settings: ClusterSettings, name: str, source: str, output: str, steps: StepPolicy) -> None:
    """Submit a pipeline that passes on what lies in a topic."""
    pipeline = Pipeline(
        name,
        inputs=[KafkaInput("read", topic=source)],
        outputs=[KafkaOutput("out", topic=output)],
        steps=steps,
    )
    facts = [QueryFacts("out", ("out",), "append", (), brings_key=False)]
    asyncio.run(submit(settings, pipeline, facts))


@contextmanager
def chain(
    bootstrap_servers: str, many: int, records_per_s: int, steps: StepPolicy
) -> Iterator[tuple[BenchRegion, KcontrolProcess]]:
    """A region of so many, in the order in which rows go through them, that runs under a steady load; and the process of
    their nodes. Drains are made when somebody asks."""
    settings = ClusterSettings(bootstrap_servers=bootstrap_servers)
    name = f"bench-region-{uuid.uuid4().hex[:8]}"
    pipelines = tuple(f"{name}-{number}" for number in range(1, many + 1))
    topics = [f"{name}-topic-{number}" for number in range(many + 1)]
    create_topics(bootstrap_servers, *topics, partitions=PARTITIONS)
    for at, pipeline in enumerate(pipelines):
        relay(settings, pipeline, topics[at], topics[at + 1], steps)
    with tempfile.TemporaryDirectory(prefix="bench-region-") as scratch:
        home = Path(scratch)
        coordinator = processes.coordinator("bench", bootstrap_servers, home)
        nodes = KcontrolProcess(
            "relays", [bootstrap_servers, *pipelines], home, module="bench.regions.relays"
        )
        controller = region_controller(bootstrap_servers, home, name)
        region = BenchRegion(settings, name, pipelines, (coordinator, controller))
        load = Load(bootstrap_servers, topics[0], PARTITIONS, KEYS)
        with alive(coordinator, nodes):
            load.start(records_per_s)
            try:
                _until_all_have_begun(region, pipelines)
                with alive(controller):
                    region.define(Trigger.OPERATOR_DRIVEN)
                    yield region, nodes
            finally:
                load.stop()


def _until_all_have_begun(region: BenchRegion, pipelines: Sequence[str]) -> None:
    # The controller is started later, and is missed by nobody until then.
    waiting = BenchRegion(region.settings, region.name, region.pipelines, region.others[:1])
    for pipeline in pipelines:
        waiting.until_step(pipeline, 1)
