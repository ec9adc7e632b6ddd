"""Where a pipeline's state is saved, and what is wrong with that place: in the words of people."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.model import IN_WORK_DIR, NodeJoin, PipelineSpec

_BETTER = (
    'give checkpoint=kcontrol.Checkpoint("s3://bucket/path"), or shared=True with a directory that every host mounts at the '
    "same place"
)


def saved_where(spec: PipelineSpec, own: str = "") -> str:
    """The place; '' if nothing is saved. own: where this host's nodes save what is saved
    beside them, if that is known."""
    location = spec.checkpoint.location if spec.stateful else ""
    if location == IN_WORK_DIR:
        return own or "checkpoints/ in the directory where each node works, on its own host"
    return urlsplit(location)._replace(query="").geturl() if location else ""


def checkpoint_warnings(spec: PipelineSpec, first_step: int, hosts: Collection[str] = ()) -> list[str]:
    """Sentences about state that could be lost with a disk or a host.

    first_step: the oldest step that was not dropped from the log. hosts: of the nodes, as far as they are
    known.
    """
    if not spec.stateful or (spec.checkpoint.location and spec.checkpoint.shared):
        return []
    again = (
        "is run again from step 1, for which Kafka must still have all input since then"
        if first_step == 1
        else f"can't be made again, because steps before {first_step} were dropped from the log"
    )
    if not spec.checkpoint.location:
        return [
            f"the state of pipeline {spec.pipeline} is saved nowhere (checkpoint=None): if a node's "
            f"disk is lost, it {again}"
        ]
    nodes = f"; its nodes are on {', '.join(sorted(hosts))}" if len(hosts) > 1 else ""
    return [
        f"the checkpoints of pipeline {spec.pipeline} ({saved_where(spec)}) are on storage that is not "
        f"known to be shared{nodes}: a node that is started on another host, or whose disk is lost, can't "
        f"open them, and its state {again}; {_BETTER}"
    ]


def node_hosts(view: PipelineView) -> set[str]:
    """Where the newest incarnation of each node is, or was."""
    incarnations = set(view.incarnations.values())
    return {
        one.record.host
        for one in view.latest.values()
        if one.offset in incarnations and isinstance(one.record, NodeJoin)
    }
