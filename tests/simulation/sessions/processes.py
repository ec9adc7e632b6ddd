"""The processes: a coordinator's, with all that is around its session, and a node's; and
who looks on at what they decide.

Of a coordinator worker, Faust alone is left out; here, too, the records of the partition
are pushed, as late as can be.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, TypeVar
from unittest.mock import patch

from kcontrol.core.coordinator.decide import CoordinatorState
from kcontrol.core.events import EndsReached, Exit, Joined
from kcontrol.core.log.control_view import PipelineView, evolve
from kcontrol.core.model import (
    ControlRecord,
    InputSlice,
    InputSpec,
    Logged,
    PipelineSpec,
    ReceivedPartition,
    Tombstone,
)
from kcontrol.core.node.state import NodeMachine
from kcontrol.errors import DamagedRecordError, HungError, RetriableError, StepFailedError
from kcontrol.sessions import coordinator as coordinator_module
from kcontrol.sessions import node as node_module
from kcontrol.sessions.coordinator import CoordinatorPorts, CoordinatorSession
from kcontrol.sessions.node import NodePorts, NodeSession
from kcontrol.sessions.partition_keeper import PartitionKeeper
from kcontrol.sessions.ports import Arrivals
from kcontrol.sessions.retrying import follow, until_deadline
from tests.simulation.directory import Directory
from tests.simulation.engine import BOOTED_BEFORE_MS
from tests.simulation.invariants import Violation, check_fold, check_steps, require
from tests.simulation.live_layout import submitted
from tests.simulation.ports import BrokersControlLog, BrokersStepsLog, BrokersTransaction, asked
from tests.simulation.sessions.engine import SessionsEngine
from tests.simulation.sessions.ledger import Ledger
from tests.simulation.sessions.loop import PROCESS, Process
from tests.simulation.sessions.network import Line, Network
from tests.simulation.specs import PIPELINE
from tests.simulation.witness import CoordinatorWitness, check_node
from tests.simulation.world import World

_Result = TypeVar("_Result")

JOINED = "a node has read its own join, and all that lies before it, when it begins"
_EXPECTED = (RetriableError, HungError, StepFailedError, DamagedRecordError)
"""What may end a session: Kafka was away for long, or compaction went by it, or the
engine hangs or fails to close."""


@dataclass
class ProcessClock:
    """The Clock port. skew_ms: what the machine's wall clock is ahead of the broker's."""

    world: World
    booted_ms: int
    skew_ms: int = 0

    def now_ms(self) -> int:
        return self.world.now_ms + self.skew_ms

    def monotonic_ms(self) -> int:
        return self.world.now_ms - self.booted_ms


class _WatchedControlLog(BrokersControlLog):
    """A control log of which somebody looks at what is written."""

    ledger: Ledger

    def write(self, record: ControlRecord | Tombstone) -> int:
        self.ledger.write(record)
        if isinstance(record, PipelineSpec):
            world = self.ledger.world
            world.submit(record)
            return len(world.control) - 1
        return super().write(record)


class SimulatedProcess(Process):
    """What both kinds have: a clock, lines to the broker, and somebody who hears of what it decides."""

    def __init__(
        self, name: str, world: World, network: Network, heard: Callable[[Process, Any], None]
    ) -> None:
        super().__init__(name)
        self.world = world
        self.network = network
        self.clock = ProcessClock(world, world.now_ms - BOOTED_BEFORE_MS)
        self.lines: dict[str, Line] = {}
        self.readers: list[BrokersControlLog | BrokersStepsLog] = []
        self.ledger = Ledger(world)
        self._ids = 0
        self._heard = heard

    def line(self, name: str) -> Line:
        """The process's connection of that name."""
        if name not in self.lines:
            self.lines[name] = Line(self.network, self)
        return self.lines[name]

    def new_id(self) -> str:
        """A name that nobody else has."""
        self._ids += 1
        return f"{self.name}-{self._ids}"

    def heard(self, event: Any) -> None:
        """An event is about to be decided."""
        self.world.events += 1
        self._heard(self, event)
        self.ledger.see(event)

    def start(self, work: Any) -> asyncio.Task[Any]:
        """Begin with the only task that nobody else has begun."""
        return self.network.loop.create_task(work, context=self.context)  # type: ignore[no-any-return]

    def control_log(self, line: str = "control") -> _WatchedControlLog:
        log = _WatchedControlLog(self.world, self.line(line), PIPELINE)
        log.ledger = self.ledger
        self.readers.append(log)
        return log

    def steps_log(self) -> BrokersStepsLog:
        log = BrokersStepsLog(self.world, self.line("steps"))
        self.readers.append(log)
        return log

    def must_be_expected(self, error: BaseException) -> None:
        """A session ends by what is known to end sessions, or the schedule has found something."""
        for one in _leaves(error):
            if not isinstance(one, _EXPECTED) and not self.network.is_over:
                found = Violation("no event is unexpected", f"{self.name}: {type(one).__name__}: {one}")
                found.__cause__ = one
                self.network.loop.fail(found)


class CoordinatorProcess(SimulatedProcess):
    """A worker to which the partition is assigned."""

    def __init__(
        self, name: str, world: World, network: Network, heard: Callable[[Process, Any], None], pushed: int
    ) -> None:
        """pushed: the offset from which on records are pushed."""
        super().__init__(name, world, network, heard)
        self.witness = CoordinatorWitness(world)
        self.state: CoordinatorState | None = None
        self.keeper: PartitionKeeper | None = None
        self._pushed = pushed
        self.agent = BrokersControlLog(world, self.line("agent"), None)
        """What Faust reads."""
        self._running = self.start(self._run())

    def stop(self) -> None:
        """The partition is revoked."""
        if self.keeper is not None:
            self._running = self.start(self.keeper.stop())

    async def _run(self) -> None:
        self.keeper = PartitionKeeper(
            0,
            lambda: self.control_log().read_to_end(),
            self._open,
            lambda denied: None,
            monotonic_s=asyncio.get_running_loop().time,
        )
        self.keeper.start()
        self.agent.reader.position = self._pushed
        await follow(
            self.agent.tail,
            self._push,
            "the agent",
            coordinator_module.logging.getLogger("kcontrol.agent"),
            10**9,
        )

    def _push(self, chunk: list[Logged]) -> None:
        assert self.keeper is not None
        for logged in chunk:
            self.keeper.push(logged.offset, logged)

    @asynccontextmanager
    async def _open(self, pipeline: str) -> AsyncIterator[CoordinatorSession]:
        transaction = BrokersTransaction(self.world, self.line("transaction"))
        self.readers, self.ledger = [], Ledger(self.world)
        ports = CoordinatorPorts(self.clock, self.control_log(), self.steps_log(), transaction)
        initial = CoordinatorState.initial(pipeline, transactional_id="sim", steps_topic="steps")
        yield _WatchedSession(self, initial, ports)


class _WatchedSession(CoordinatorSession):
    def __init__(
        self, process: CoordinatorProcess, initial: CoordinatorState, ports: CoordinatorPorts
    ) -> None:
        super().__init__(initial, ports, new_id=process.new_id)
        self._process = process

    async def run(self) -> str:
        try:
            return await super().run()
        except Exception as error:
            self._process.must_be_expected(error)
            raise


class NodeProcess(SimulatedProcess):
    """A process that is a node, for one incarnation, or more if the layout is changed meanwhile. `ended`: why it is over;
    `is_over` also when it crashed."""

    def __init__(
        self,
        name: str,
        world: World,
        network: Network,
        heard: Callable[[Process, Any], None],
        number: int,
        disk: Directory,
    ) -> None:
        super().__init__(name, world, network, heard)
        self.number = number
        self.disk = disk
        self.state: NodeMachine | None = None
        self.engine: SessionsEngine | None = None
        self.ended: Exit | None = None
        self.is_over = False
        self._opens_after: Callable[[], Awaitable[None]] | None = None
        self.control, self.steps = self.control_log(), self.steps_log()
        self._running = self.start(self._run())

    async def _run(self) -> None:
        try:
            self.ended = await self._lives()
        except Exception as error:  # noqa: BLE001 - what is not expected ends the schedule
            self.must_be_expected(error)
        finally:
            self.is_over = True

    async def _lives(self) -> Exit:
        """As `NodeService.run`: it goes on by a layout that was changed while the pipeline ran, and reads on for that."""
        view: PipelineView | None = None
        while True:
            ports = NodePorts(self.clock, self.control, self.steps, self._make_engine, self._watch)
            session = NodeSession(PIPELINE, self.number, ports, new_id=self.new_id, heard=view)
            ended = await session.run()
            view, steps = session.read
            made = steps.assignment
            if not ended.relaid or made is None or self.number >= made.nodes or self.number in made.replaced:
                await session.closed()
                return ended
            view = reduce(evolve, await self._again(self.control.read_to_end), view)
            spec = view.spec()
            assert spec is not None
            if spec.assignment < made.number:
                await self._again(partial(self.control.append, [submitted(spec, made)]))
            self.control.ledger = self.ledger = Ledger(self.world, self.control.reader.position)
            self._opens_after = session.closed
            self.steps = self.steps_log()
            self.readers = [self.control, self.steps]

    async def _again(self, action: Callable[[], Awaitable[_Result]]) -> _Result:
        return await until_deadline(action, "going on", logging.getLogger("kcontrol.node"), 10**9)

    def _make_engine(
        self, spec: PipelineSpec, incarnation: int, on_failure: Callable[[BaseException], None]
    ) -> SessionsEngine:
        def failed(error: BaseException) -> None:
            self.context.run(on_failure, error)

        self.engine = SessionsEngine(
            self.world,
            self.network,
            self.number,
            incarnation,
            spec,
            self.disk,
            self.network.random,
            failed,
            self.ledger,
        )
        self.engine.opens_after = self._opens_after
        return self.engine

    def _watch(
        self,
        input_: InputSpec,
        from_: Mapping[int, int],
        takes: Callable[[int], bool],
        read: Mapping[int, InputSlice],
    ) -> _Watcher:
        return _Watcher(self.world, self.line(f"input {input_.name}"), input_, takes)


class _Watcher:
    """The InputWatcher of one input."""

    def __init__(self, world: World, line: Line, item: InputSpec, takes: Callable[[int], bool]) -> None:
        self._world = world
        self._line = line
        self._item = item
        self._takes = takes

    async def arrivals(self) -> Arrivals:
        told: tuple[ReceivedPartition, ...] | None = None
        while True:
            seen, version = await asked(self._line, "fetch", lambda: (self._look(), self._line.version))
            if seen != told:
                told = seen
                yield seen, 0
            else:
                await self._line.changed(version)

    async def close(self) -> None:
        """Nothing is open."""

    def _look(self) -> tuple[ReceivedPartition, ...]:
        world, index = self._world, [item.name for item in self._world.spec.inputs].index(self._item.name)
        offsets = zip(world.input_earliest[index], world.input_ends[index], strict=True)
        return tuple(
            ReceivedPartition(partition, self._item.topic_id, earliest, end, world.gaps(partition, end))
            for partition, (earliest, end) in enumerate(offsets)
            if self._takes(partition)
        )


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


@contextmanager
def witnessed() -> Iterator[None]:
    """Within, whatever a simulated process decides is looked at before it is done."""
    decide_coordinator, decide_node = coordinator_module.decide, node_module.decide

    def coordinator(state: Any, event: Any) -> Any:
        process = PROCESS.get()
        assert isinstance(process, CoordinatorProcess)
        with _unexpected(process):
            process.heard(event)
            decision = decide_coordinator(state, event)
            process.state = decision.state
            process.ledger.say(decision.effects)
            process.witness.see(state, event, decision.state, tuple(decision.effects))
            if isinstance(event, EndsReached) and _has_read_all(process):
                check_steps(process.world, decision.state.steps)
            return decision

    def node(state: Any, event: Any) -> Any:
        process = PROCESS.get()
        assert isinstance(process, NodeProcess)
        with _unexpected(process):
            process.heard(event)
            if isinstance(event, Joined):
                read = process.control.reader.position
                require(read > event.incarnation, JOINED, (read, event.incarnation))
            decision = decide_node(state, event)
            process.state = decision.state
            process.ledger.say(decision.effects)
            check_node(process.world, state, decision.state, tuple(decision.effects))
            if isinstance(event, Joined) and _has_read_all(process):
                check_fold(process.world, state.view)
                check_steps(process.world, state.steps)
            return decision

    with patch.object(coordinator_module, "decide", coordinator), patch.object(node_module, "decide", node):
        yield


def _has_read_all(process: SimulatedProcess) -> bool:
    """Its newest readers, of both logs, are at the end."""
    control, steps = process.readers[-2:]
    return (control.reader.position, steps.reader.position) == (
        len(process.world.control),
        len(process.world.steps),
    )


@contextmanager
def _unexpected(process: SimulatedProcess) -> Iterator[None]:
    """A violation must end the schedule; the sessions would take it for a crash."""
    try:
        yield
    except Violation as error:
        process.network.loop.fail(error)
        raise
    except DamagedRecordError as error:
        steps = process.state.steps if process.state is not None else None
        if steps is None or steps.step + 1 >= process.world.first_step:
            process.network.loop.fail(Violation("nobody ends in DamagedRecordError by itself", str(error)))
        raise
    except (LookupError, ValueError, TypeError, AttributeError, AssertionError) as error:
        process.network.loop.fail(
            Violation("no event is unexpected", f"{process.name}: {type(error).__name__}: {error}")
        )
        raise
