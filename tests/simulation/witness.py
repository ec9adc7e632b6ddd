"""What can be seen of a process from outside, at every event that its core decides; each rule by name."""

from __future__ import annotations

from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.coordinator.table import State
from kcontrol.core.coordinator.telling import LOOKING_ON
from kcontrol.core.events import (
    AddPartitions,
    Assigned,
    CommitCheckpoint,
    CommitStep,
    CoordinatorEffect,
    CoordinatorEvent,
    EndsReached,
    Exit,
    InitProducer,
    NodeEffect,
    ProducerReady,
    ProveEnd,
    Publish,
    RunStep,
    Tick,
    TransactionFailed,
    WakeAt,
)
from kcontrol.core.model import Command, CommandKind, FailureKind, Status
from kcontrol.core.node.state import NodeMachine
from tests.simulation.exchanged import GONE, UNCALLED
from tests.simulation.holds import check_said
from tests.simulation.invariants import (
    AWAKE,
    OPENABLE,
    check_answers,
    check_halt,
    check_noted,
    check_stopped,
    require,
)
from tests.simulation.states import GOES_ON, MEANWHILE, PAUSE_ENDS
from tests.simulation.world import World

ONE_ATTEMPT = "under an epoch one attempt is begun"


class CoordinatorWitness:
    """Looks on at one coordinator process."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.unread = False
        """It has fenced, and not read since."""
        self.fenced = False
        """It was told that somebody else owns the transaction, and has said nothing since."""

    def see(
        self,
        before: CoordinatorState,
        event: CoordinatorEvent,
        after: CoordinatorState,
        effects: tuple[CoordinatorEffect, ...],
    ) -> None:
        """One event, and what was decided. Raises Violation."""
        if isinstance(event, Assigned) or before.tenure.overdue_answers:
            self.unread = self.fenced = False
        if before.tenure.overdue_answers or after.at is State.RESIGNED:
            pass
        elif after.at is State.CLAIMING:
            self.unread = self.unread and not isinstance(event, EndsReached)
        elif isinstance(event, ProducerReady):
            self.unread = True
        elif isinstance(event, EndsReached):
            if self.unread:
                self.world.ruling_epoch = max(self.world.ruling_epoch, after.tenure.epoch)
            self.unread = False
        elif isinstance(event, TransactionFailed):
            self.fenced = self.fenced or event.kind is FailureKind.FENCED
            # What it may not read it does not wait for.
            self.unread = self.unread and event.kind is not FailureKind.DENIED
        openable = "can't be opened" not in after.trouble.halt
        require(openable, OPENABLE, after.trouble.halt)
        require(GONE not in after.trouble.halt, UNCALLED, after.trouble.halt)
        said = after.view.status()
        if after.trouble.halt not in (before.trouble.halt, "" if said is None else said.reason):
            check_halt(self.world, after.tenure.epoch, after.steps, after.trouble.halt)
        if not self.world.replicated:
            # Elsewhere nothing may be decided by half of a log.
            _check_pause(before, event, after)
        resigned = before.at is State.RESIGNED and not isinstance(event, Assigned)
        for effect in effects:
            self.check(effect, after, resigned)

    def check(self, effect: CoordinatorEffect, after: CoordinatorState, resigned: bool) -> None:
        """One thing that the coordinator is about to do."""
        if isinstance(
            effect, Publish | AddPartitions | CommitStep | CommitCheckpoint | ProveEnd | InitProducer
        ):
            require(not resigned, "after resigning nothing is done", effect)
        if isinstance(effect, Publish | AddPartitions | CommitStep | CommitCheckpoint | ProveEnd):
            require(
                not self.unread, "nothing is published before the logs were read after InitProducer", effect
            )
        if isinstance(effect, Publish) and effect.records:
            self.fenced = False
            for record in effect.records:
                if isinstance(record, Status):
                    check_answers(self.world, record)
                    check_noted(self.world, record)
                    check_said(self.world, record)
                    check_stopped(self.world, record)
                if isinstance(record, Command) and record.kind is CommandKind.STEP:
                    self._check_step(record, after)
        if isinstance(effect, WakeAt):
            require(effect.at_ms > after.now_ms, AWAKE, (effect, after.now_ms))
        if isinstance(effect, InitProducer):
            require(
                not self.fenced,
                "a fencing error is followed by reading and a claim, not by InitProducer",
                effect,
            )

    def _check_step(self, command: Command, after: CoordinatorState) -> None:
        """A node that is told to make a step."""
        said, last = after.view.node_state(command.node), after.steps.last
        ends = [None, last.token] if last is not None and self.world.tells_epochs else [None]
        if after.at in LOOKING_ON and after.current.told is not None and after.current.attempt is not None:
            # Of two commands it would carry out the newer.
            ends = [after.current.attempt.token]
        require(
            said is not None and said.claim_epoch == command.claim_epoch and said.attempt in ends,
            "a step is asked only of a node that echoes the claim and has nothing in flight",
            (command, said),
        )


def _check_pause(before: CoordinatorState, event: CoordinatorEvent, after: CoordinatorState) -> None:
    """No step is made for the sake of another layout: not before all have copied what they will have, and not for long."""
    change, spec = after.changing.now, after.view.spec()
    if change is None or not change.held or spec is None:
        return
    if before.changing.now is None or not before.changing.now.held:
        said = [after.view.layout_ready(node) for node in range(change.target.nodes)]
        copied = [
            -1 if one is None or one.request_id != change.request_id else one.copied_step for one in said
        ]
        require(min(copied) >= change.from_step >= 0 or not spec.stateful, MEANWHILE, (change, copied))
    request = after.view.layout_request()
    if isinstance(event, Tick) and after.at is State.READY and request is not None:
        held_ms, begun_ms = after.now_ms - change.held_ms, after.now_ms - change.begun_ms
        ends = held_ms < spec.limits.open_timeout_ms and begun_ms < request.timeout_ms
        require(ends, PAUSE_ENDS, (change, held_ms, begun_ms))


def check_node(
    world: World, before: NodeMachine, after: NodeMachine, effects: tuple[NodeEffect, ...]
) -> None:
    """One event of a node is decided. Raises Violation."""
    obeying, epoch = after.obeying, after.view.epoch
    if obeying is not None and obeying is not before.obeying:
        require(obeying.claim_epoch == epoch, "a node obeys the newest coordinator that it knows of", obeying)
    for effect in effects:
        if isinstance(effect, WakeAt):
            require(effect.at_ms > after.now_ms, AWAKE, (effect, after.now_ms))
        if isinstance(effect, RunStep) and effect.expected is None:
            token = effect.work.token
            begun = token.claim_epoch
            require(begun == epoch, "a node begins nothing of an older coordinator", (begun, epoch))
            first = world.begun.setdefault((token.producer_id, token.producer_epoch), token)
            require(first == token, ONE_ATTEMPT, (first, token))
        if isinstance(effect, Exit):
            _check_goes_on(world, after, effect)
    require(after.step <= len(world.boundaries), "a node is never ahead of the log", after.step)


def _check_goes_on(world: World, state: NodeMachine, left: Exit) -> None:
    """Unless it was not shown the change for long: whoever ends for a definition by that knows that its process goes on."""
    spec = state.view.spec()
    if spec is None or spec.fingerprint == state.fingerprint or left.replaced or left.shut_down:
        return
    live = [
        each for each in world.assignments if each.live and state.assignment < each.number <= spec.assignment
    ]
    waited_ms = state.now_ms - state.ahead_ms if state.ahead_ms >= 0 else 0
    if live and not state.steps.is_reset and waited_ms < spec.limits.open_timeout_ms:
        require(left.relaid, GOES_ON, (left.reason, spec.assignment, state.assignment))
