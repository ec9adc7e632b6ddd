"""What a user asks of the layout of a pipeline that runs: another number of nodes, one less, other processes. Nothing is
written here."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import DesiredMode, LayoutRequest, NodeJoin, PipelineSpec
from kcontrol.core.step.layout_change import LayoutChange, changed, refused_live
from kcontrol.errors import ConfigurationError
from kcontrol.requests.record import NotNowError
from kcontrol.views.life import is_silent, life_of
from kcontrol.views.pipeline_projection import PipelineProjection, Request


@dataclass(frozen=True, slots=True)
class LiveChangeAsked:
    """A change that can be asked for. number: which it would be. replaced: nodes that are to be other processes. without: the
    node whose number another process takes, in the place of the last one; None: no such."""

    number: int
    change: LayoutChange
    replaced: tuple[int, ...]
    without: int | None

    def request(self, pipeline: str, timeout_ms: int) -> LayoutRequest:
        """timeout_ms: for all who are to be nodes to be ready."""
        return LayoutRequest(
            *(pipeline, uuid4().hex, self.number, self.change.nodes, timeout_ms, self.replaced),
            without=-1 if self.without is None else self.without,
        )


def live_change(
    projection: PipelineProjection,
    nodes: int | None,
    without: int | None,
    replaced: tuple[int, ...] = (),
) -> LiveChangeAsked:
    """Another number of nodes, or one node less, or other processes for some; one of them.

    Raises NotNowError, ConfigurationError: it can't be done, or not while the pipeline runs.
    """
    pipeline, spec, steps = projection.pipeline, projection.spec(), projection.committed
    number = next_number(steps)
    if spec.assignment != number - 1:
        raise NotNowError(
            f"pipeline {pipeline!r} goes on by a layout that was changed just now: ask again when it makes steps. "
            "Nothing was changed"
        )
    wanted, left_out, replaced = _wanted(spec.nodes, nodes, without, replaced)
    refused = refused_live(spec, wanted, steps.step, replaced, left_out)
    if refused:
        raise ConfigurationError(refused)
    change = changed(spec, wanted, left_out)
    if spec.stateful and change.moves:
        refuse_unshared(spec, projection.view)
    return LiveChangeAsked(number, change, replaced, left_out)


def layout_request(
    projection: PipelineProjection,
    nodes: int | None,
    without: int | None,
    replaced: tuple[int, ...],
    timeout_ms: int,
    now_ms: int,
) -> tuple[Request, ...]:
    """As `live_change`, of a pipeline that somebody looks after, for who can't read its checkpoints. now_ms: by the wall clock
    of this machine.

    Raises ConfigurationError, too, where only those tell whether states can be put together on one node.
    """
    if not is_at_work(projection, now_ms):
        raise NotNowError(
            f"pipeline {projection.pipeline!r} does not run: its layout is changed between two runs with kcontrol layout, on a "
            "host that can read its checkpoints. Nothing was changed"
        )
    refuse_lost(projection, without, now_ms)
    asked = live_change(projection, nodes, without, replaced)
    spec = projection.spec()
    if asked.change.nodes == 1 < spec.nodes and any(
        each.stage and not each.delivers for each in spec.exchanges
    ):
        raise ConfigurationError(
            f"pipeline {spec.pipeline!r} exchanges rows more than once in a row, and only its checkpoints tell whether what "
            f"keeps state before and behind that can become one node's: kcontrol layout {spec.pipeline} --nodes 1, on a host "
            "that can read them"
        )
    return (asked.request(projection.pipeline, timeout_ms),)


def withdrawal_request(projection: PipelineProjection) -> tuple[Request, ...]:
    """What was asked for before is given up, if it is not made yet."""
    projection.spec()
    return (LayoutRequest(projection.pipeline, uuid4().hex, next_number(projection.committed), 0, 0),)


def is_at_work(projection: PipelineProjection, now_ms: int) -> bool:
    """Whether somebody looks after the pipeline, and it is to run."""
    desired = projection.view.desired()
    runs = desired is None or desired.mode is DesiredMode.RUNNING
    return runs and life_of(projection, now_ms).is_led


def next_number(steps: StepsView) -> int:
    """Which change of the layout the next one is."""
    return 1 if steps.assignment is None else steps.assignment.number + 1


def refuse_lost(projection: PipelineProjection, without: int | None, now_ms: int) -> None:
    """Raise NotNowError if the node that is to be left out says nothing: a change begins with what each node has saved, so it
    would be waited for in vain. now_ms: by the wall clock of this machine."""
    if without is not None and is_silent(projection, without, now_ms):
        raise NotNowError(
            f"node {without} of pipeline {projection.pipeline!r} says nothing, and what it has can be dealt to others only "
            "once somebody has brought it to the last step. If its host is lost, do both on one that is left: kcontrol layout "
            f"{projection.pipeline} --without {without}. Or start its number there, beside another node: kcontrol node FILE "
            f"--node {without}. It takes what it needs from the newest checkpoint; once it makes steps, ask again. Nothing was "
            "changed"
        )


def refuse_unshared(spec: PipelineSpec, view: PipelineView) -> None:
    """Raise ConfigurationError if what one host has saved is not known to be readable by the others."""
    joins = [each.record for each in view.latest.values() if isinstance(each.record, NodeJoin)]
    hosts = sorted({join.host for join in joins if join.node < spec.nodes})
    if not spec.checkpoint.shared and len(hosts) > 1:
        raise ConfigurationError(
            f"pipeline {spec.pipeline!r} saves its state at {spec.checkpoint.location!r}, which only the host that has saved "
            f"it is known to read, and its nodes are on {', '.join(hosts)}: shards can't be brought from one to another. Save "
            "to S3 or HDFS, or say shared=True of a directory that every host mounts; start it and stop it once with that"
        )


def _wanted(
    now: int, nodes: int | None, without: int | None, replaced: tuple[int, ...]
) -> tuple[int, int | None, tuple[int, ...]]:
    """How many nodes there are to be, the one whose number another process takes, and all that other processes are to be."""
    if without is None:
        return (now if replaced or nodes is None else nodes), None, replaced
    if without == now - 1:
        return now - 1, None, ()
    return now - 1, without, (without,)
