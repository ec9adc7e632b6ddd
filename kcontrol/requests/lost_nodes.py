"""What has to come about so that a node whose host is lost is left out. Nothing is written here.

A change of the layout begins with what each node has of the last step, and nobody has that of a lost one: the newest
checkpoint holds some of it, the log of steps the rest. So its number is started elsewhere first, and runs these steps again;
then it is left out. A process keeps its number while it runs (decision 098). Hence the number of any node but the last one is
started where the last one is, and stays: it is that one's process that ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import Assignment, LayoutPhase, LayoutRequest, PipelineSpec
from kcontrol.errors import ConfigurationError
from kcontrol.requests.layout_requests import next_number
from kcontrol.views.holder import holder
from kcontrol.views.life import is_silent
from kcontrol.views.pipeline_projection import PipelineProjection
from kcontrol.views.upgrades import fate_of, nodes_in_force

TWO_BEATS_MS = 2_500
"""A node speaks every second: of one that was not heard for so long it is not known yet whether it is lost."""


@dataclass(frozen=True, slots=True)
class LostNode:
    """who, host: the process that it was, for people, and where. nodes: how many there are, with it. place: the host where its
    number has to be started; '': any that is left. begins_at: the step of the checkpoint that it begins with; 0: before the
    first step. again: how many steps it runs again. request: for the change, if it was asked for before and is under way."""

    node: int
    who: str
    host: str
    nodes: int
    place: str
    begins_at: int
    again: int
    request: LayoutRequest | None = None

    @property
    def stays(self) -> bool:
        """Whether its number is there after the change, and not that of the last node."""
        return self.node < self.nodes - 1

    def asks(self, pipeline: str, number: int, timeout_ms: int) -> LayoutRequest:
        """One node fewer. Whoever reads its id knows for which node it was asked; for a coordinator it is a change like any."""
        return LayoutRequest(pipeline, f"{_mark(self.node)}{uuid4().hex}", number, self.nodes - 1, timeout_ms)


def lost_node(projection: PipelineProjection, node: int, now_ms: int) -> LostNode | None:
    """Of a pipeline that somebody looks after, and whose logs were read; None: there is no such node, or it is not lost.

    One of which a process has the number again since it was asked for, for no other purpose, is still the one that was lost.
    now_ms: by the wall clock of this machine.
    """
    spec, steps, view = projection.spec(), projection.committed, projection.view
    if node >= spec.nodes:
        return None
    asked = _asked_for(projection, node)
    fate = None if asked is None else fate_of(view, steps, asked)
    unmade = asked is not None and fate is not LayoutPhase.DONE and asked.number == next_number(steps)
    own, place = holder(projection, node), _host(projection, spec.nodes - 1)
    begun = unmade and node < spec.nodes - 1 and own is not None and own.host == place
    if not begun and not is_silent(projection, node, now_ms):
        return None
    begins_at = steps.saved[-1].step if spec.stateful and steps.saved else 0
    return LostNode(
        node=node,
        who="nobody" if own is None else f"process {own.process_id} on {own.host}",
        host="" if own is None else own.host,
        nodes=spec.nodes,
        place=place if node < spec.nodes - 1 else "",
        begins_at=begins_at,
        again=steps.step - begins_at if spec.stateful else 0,
        request=asked if unmade and fate is None else None,
    )


def left_out_already(projection: PipelineProjection, node: int, now_ms: int) -> Assignment | None:
    """The change by which this lost node was left out, if none came after it, so that there is nothing to be done by whoever
    asks once more; None: there is.

    Where another process has its number since, asking again means the same for as long as the first request was to be carried
    out in.
    """
    asked, steps = _asked_for(projection, node), projection.committed
    made = steps.assignment
    if asked is None or made is None or made.request_id != asked.request_id:
        return None
    if node >= nodes_in_force(projection.view, steps):
        return made
    said_ms = next(each.timestamp_ms for each in projection.view.latest.values() if each.record is asked)
    is_again = now_ms - said_ms < asked.timeout_ms and not is_silent(projection, node, now_ms)
    return made if is_again else None


def is_uncertain(projection: PipelineProjection, node: int, now_ms: int) -> bool:
    """Whether a node was not heard lately, and may be lost or not: soon that is known."""
    silent_ms = projection.signs.silent_ms(node, now_ms)
    if silent_ms is None or node >= projection.spec().nodes:
        return False
    return silent_ms > TWO_BEATS_MS and not is_silent(projection, node, now_ms)


def refuse_gone_with_it(projection: PipelineProjection, lost: LostNode) -> None:
    """Raise ConfigurationError if what it has saved is on its host alone, as far as is known."""
    spec = projection.spec()
    hosts = {_host(projection, node) for node in range(spec.nodes)}
    if not spec.stateful or spec.checkpoint.shared or len(hosts) == 1:
        return
    raise ConfigurationError(
        f"{says_nothing(spec, lost)}, and what it has saved is at {spec.checkpoint.location!r}, which no other host is "
        "known to read: its shards can't be dealt to others. Bring that host back, or its directory; then save to S3 or HDFS, "
        "or say shared=True of a directory that every host mounts. Nothing was changed"
    )


def unread(spec: PipelineSpec, steps: StepsView, lost: LostNode, why: str) -> ConfigurationError:
    """What it has saved can't be read where its number is to be started, and there is no other way to come by it."""
    return ConfigurationError(
        f"{says_nothing(spec, lost)}, and what it has saved up to step {lost.begins_at} can't be read here ({why}), while "
        f"the log has no steps before {steps.first}: give this command on a host that can read "
        f"{spec.checkpoint.location!r}, or bring that back. Nothing was changed"
    )


def says_nothing(spec: PipelineSpec, lost: LostNode) -> str:
    """For people."""
    return f"node {lost.node} of pipeline {spec.pipeline!r} ({lost.who}) says nothing"


def _mark(node: int) -> str:
    return f"without-{node}-"


def _asked_for(projection: PipelineProjection, node: int) -> LayoutRequest | None:
    """The newest request for another layout, if it is this one."""
    asked = projection.view.user_layout_request()
    return asked if asked is not None and asked.request_id.startswith(_mark(node)) else None


def _host(projection: PipelineProjection, node: int) -> str:
    join = holder(projection, node)
    return "" if join is None else join.host
