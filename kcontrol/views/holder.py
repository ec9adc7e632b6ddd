"""Whether somebody has a node's number, for whoever stands by to take it.

Two signs say that a node is gone. On the machine where it ran, the operating system: a lock that a process
held until it died (`gone`). Anywhere, its silence: for as long as its coordinator, too, would wait before it
takes a node for dead, heard by one's own monotonic clock, while Kafka could be read all the time. A node that
is silent because Kafka is away is not gone. Neither sign need be right: whoever is replaced and lives is
fenced by the newer claim, as ever.
"""

from __future__ import annotations

from collections.abc import Callable

from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.model import NodeJoin
from kcontrol.definition.durations import span_text
from kcontrol.views.pipeline_projection import PipelineProjection

Gone = Callable[[NodeJoin], bool]
"""Whether the process that wrote this has certainly ended."""


def why_free(projection: PipelineProjection, node: int, now_ms: int, heard_ms: int, gone: Gone) -> str:
    """Why the number can be taken, for people; '' while somebody has it.

    now_ms: by the wall clock of this machine. heard_ms: for how long the log has been read without a fault.
    """
    limit_ms = projection.spec().limits.heartbeat_timeout_ms
    join = holder(projection, node)
    if join is None:
        return f"nobody has been node {node} in {span_text(heard_ms)}" if heard_ms > limit_ms else ""
    who = f"process {join.process_id} on {join.host}, which was node {node},"
    if gone(join):
        return f"{who} has ended"
    if heard_ms > limit_ms and projection.signs.is_silent(node, now_ms, limit_ms):
        silent_ms = projection.signs.silent_ms(node, now_ms) or 0
        return f"{who} has been silent for {span_text(silent_ms)}"
    return ""


def holder(projection: PipelineProjection, node: int) -> NodeJoin | None:
    """Who joined last as this node."""
    return holder_in(projection.view, node)


def holder_in(view: PipelineView, node: int) -> NodeJoin | None:
    """The same, by what was read of the control log."""
    incarnation = view.incarnation(node)
    joins = (one.record for one in view.latest.values() if one.offset == incarnation)
    return next((record for record in joins if isinstance(record, NodeJoin)), None)
