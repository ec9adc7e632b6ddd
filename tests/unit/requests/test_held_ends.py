"""Where a pipeline that is held has written to: brokers may be behind, its log is not; and a broker that says nothing keeps
nobody else from being looked after."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from kcontrol.apps.drain import Draining
from kcontrol.apps.held_pipeline import HeldPipeline
from kcontrol.apps.pipeline_logs import PipelineLogs
from kcontrol.core.model import (
    BadRecords,
    HoldPhase,
    HoldStatus,
    InputDesired,
    InputSlice,
    InputSpec,
    OutputSpec,
    PipelinePhase,
    Status,
)
from kcontrol.core.regions.cut import PipelineCut, Place
from kcontrol.core.regions.graph import graph_of
from kcontrol.errors import RetriableError
from tests.fakes.memory_kafka import Fate, MemoryControlLog, MemoryKafka, MemoryStepsLog
from tests.support.patience import HANG_S
from tests.support.samples import boundary, output_slice
from tests.unit.core.made import SPEC

P0, P1 = ("output", 0), ("output", 1)


class Ends:
    """What brokers say."""

    def __init__(self, *answers: Mapping[Place, int] | Callable[[], Awaitable[Any]]) -> None:
        self._answers = list(answers)

    async def ends(self, topics: Mapping[str, int]) -> dict[Place, int]:
        answer = self._answers.pop(0)
        return dict(await answer() if callable(answer) else answer)


class Pipeline:
    """A pipeline in a Kafka of its own, and whoever holds it."""

    def __init__(self, name: str, output: str, ends: Ends) -> None:
        self.kafka, self.name = MemoryKafka(), name
        self.spec = replace(
            SPEC, pipeline=name, outputs=(OutputSpec("out", output, "T2", 2, "k", "raw", "exact"),)
        )
        control = MemoryControlLog(self.kafka, name)
        logs = PipelineLogs(name, cast(Any, control), cast(Any, MemoryStepsLog(self.kafka, name)))
        self.control, self.held = control, HeldPipeline(self.spec, logs, cast(Any, ends), "region r")
        self.kafka.partition("control").append(self.spec, Fate.VISIBLE)

    def wrote(self, step: int, partition: int, from_: int, to: int) -> None:
        piece = output_slice(self.spec.outputs[0].topic, partition, from_, to, to - from_)
        self.kafka.partition(f"{self.name}.steps").append(
            boundary(self.name, step, outputs=(piece,)), Fate.VISIBLE
        )

    async def stands(self, step: int, phase: HoldPhase = HoldPhase.HELD) -> None:
        """Its coordinator says so, of the newest hold."""
        (*_, request_id) = self.held.written
        hold = HoldStatus(request_id, phase, step)
        await self.control.append(
            [Status(self.name, 1, PipelinePhase.RUNNING, step, "", (), 0, "", (), hold=hold)]
        )


def test_no_output_ends_before_what_its_steps_have_written() -> None:
    """Step 1 wrote partition 0 up to 50, step 2 the other one; the leader of partition 0 was deposed and says 40."""

    async def run() -> PipelineCut | None:
        pipeline = Pipeline("p", "output", Ends({P0: 40, P1: 9}))
        pipeline.wrote(1, 0, 0, 50)
        pipeline.wrote(2, 1, 0, 7)
        await pipeline.held.begin()
        return await pipeline.held.stand(2)

    cut = asyncio.run(run())
    assert cut is not None
    assert cut.ends == {P0: 50, P1: 9}


def test_what_an_earlier_drain_has_read_is_known_to_the_next_one() -> None:
    async def run() -> PipelineCut | None:
        pipeline = Pipeline("p", "output", Ends({P0: 40, P1: 0}))
        pipeline.wrote(1, 0, 0, 50)
        await pipeline.held.begin()
        pipeline.wrote(2, 1, 0, 7)
        later = replace(pipeline.held, boundaries=[])
        await later.begin()
        return await later.stand(2)

    cut = asyncio.run(run())
    assert cut is not None
    assert cut.ends == {P0: 50, P1: 7}


def test_a_broker_that_does_not_say_where_an_output_ends_keeps_no_other_pipeline_waiting() -> None:
    """It stands, and the others' holds are renewed meanwhile; once it is told, the drain goes on."""

    async def run() -> tuple[bool, tuple[str, ...], bool, tuple[str, ...]]:
        renewed = asyncio.Event()

        async def away() -> None:
            await renewed.wait()
            raise RetriableError("no answer about output")

        first = Pipeline("p", "output", Ends(away, {P0: 3, P1: 0}))
        second = Pipeline("q", "other", Ends())
        appended = second.control.append

        async def append(*given: Any) -> list[int]:
            renewed.set()
            return await appended(*given)

        second.control.append = append  # type: ignore[assignment, method-assign]
        for each in (first, second):
            each.wrote(1, 0, 0, 3)
            await each.held.begin()
        drain = Draining(graph_of([first.spec, second.spec]), {"p": first.held, "q": second.held})
        await first.held.hold(())
        await first.stands(1)
        async with asyncio.timeout(HANG_S):
            return await drain.go_on(), drain.late(), await drain.go_on(), drain.late()

    was_done, late, is_done, still_late = asyncio.run(run())
    assert (was_done, is_done) == (False, False)
    assert late == ("p (no answer about output)", "q (nobody is in charge of it)")
    assert still_late == ("q (nobody is in charge of it)",)


def test_who_has_come_to_its_cut_can_be_let_go_before_that_is_written_down() -> None:
    async def run() -> tuple[bool, bool, bool]:
        pipeline = Pipeline("p", "output", Ends({P0: 3, P1: 0}))
        pipeline.wrote(1, 0, 0, 3)
        await pipeline.held.begin()
        drain = Draining(graph_of([pipeline.spec]), {"p": pipeline.held})
        await drain.go_on()
        await pipeline.stands(1)
        is_done = await drain.go_on()
        was_held = not await _is_released(pipeline)
        await drain.let_go()
        return is_done, was_held, await _is_released(pipeline)

    assert asyncio.run(run()) == (True, True, True)


async def _is_released(pipeline: Pipeline) -> bool:
    await pipeline.held.logs.read_control()
    newest = pipeline.held.logs.view.hold()
    assert newest is not None
    return newest[1].released


def test_an_input_that_is_paused_before_its_limit_is_said_to_keep_the_drain() -> None:
    """A pipeline that reads nothing because its user wants it so is in order, as its coordinator says: no word told why it
    does not come to its limits."""

    async def run() -> list[tuple[str, ...]]:
        first, second = Pipeline("p", "between", Ends({("between", 0): 3, ("between", 1): 0})), _reader()
        first.wrote(1, 0, 0, 3)
        read_up_to(second, 1, 0, 2)
        for each in (first, second):
            await each.held.begin()
        drain = Draining(graph_of([first.spec, second.spec]), {"p": first.held, "q": second.held})
        await first.held.hold(())
        await first.stands(1)
        await drain.go_on()
        await drain.go_on()
        await second.stands(1, HoldPhase.NOTED)
        told = []
        for paused in (False, True):
            await second.control.append([InputDesired("q", "rows", paused, f"r{paused}")])
            await drain.go_on()
            told.append(drain.late())
        read_up_to(second, 2, 2, 3)
        await drain.go_on()
        return [*told, drain.late()]

    running, paused, read = asyncio.run(run())
    assert running == read == ("q (running at step 1)",)
    (why,) = paused
    assert why.startswith("q (running at step 1: input rows is paused, and has to be read")
    assert why.endswith("kcontrol resume-input q rows)")


def _reader() -> Pipeline:
    """Of what the first one writes."""
    second = Pipeline("q", "other", Ends())
    inputs = (InputSpec("rows", "between", "T3", (0, 0), (0, 0), "raw", BadRecords.HALT, "", ""),)
    second.spec = replace(second.spec, inputs=inputs)
    second.held.spec = second.spec
    second.kafka.partition("control").append(second.spec, Fate.VISIBLE)
    return second


def read_up_to(pipeline: Pipeline, step: int, from_: int, to: int) -> None:
    """Of partition 0."""
    pieces = (InputSlice("rows", "between", "T3", 0, from_, to, to - from_, ""),)
    record = replace(boundary(pipeline.name, step), inputs=pieces)
    pipeline.kafka.partition(f"{pipeline.name}.steps").append(record, Fate.VISIBLE)
