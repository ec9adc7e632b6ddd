"""Which coordinator is assigned which partition: whoever has just joined takes nothing from those that were there.

A pipeline that changes hands waits for a second or two. Faust's own assignor keeps partitions where they are,
but evens them out as soon as somebody joins: a coordinator that was killed and is started again would take back
what another has just taken over, so that its pipelines would wait twice. Here a member has a part in it once
it has been there for a while, or has partitions already; then all is as Faust does it. Members of a version that
says nothing of this have a part at once.
"""

from __future__ import annotations

import time
from collections.abc import MutableMapping
from typing import Any

import faust
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from faust.assignor.client_assignment import ClientAssignment, ClientMetadata
from faust.assignor.partition_assignor import PartitionAssignor

DEFAULT_SETTLE_S = 60.0


class MemberMetadata(ClientMetadata):
    """What a member says of itself when it joins; Faust's own leaves aside what it does not know."""

    settled: bool = True


class SettledAssignor(PartitionAssignor):
    """Of one member; the group's leader asks its own for the whole assignment."""

    def __init__(self, app: faust.App, replicas: int = 0, settle_s: float = DEFAULT_SETTLE_S) -> None:
        super().__init__(app, replicas)
        self._settled_at = time.monotonic() + settle_s

    @property
    def unsettled_s(self) -> float:
        """For so long yet it takes nothing from others."""
        return max(0.0, self._settled_at - time.monotonic())

    def metadata(self, topics: set[str]) -> ConsumerProtocolMemberMetadata:
        said = self._metadata
        own = MemberMetadata(
            assignment=said.assignment,
            url=said.url,
            changelog_distribution=said.changelog_distribution,
            external_topic_distribution=said.external_topic_distribution,
            topic_groups=said.topic_groups,
            settled=not self.unsettled_s,
        )
        return ConsumerProtocolMemberMetadata(self.version, list(topics), own.dumps())

    def _perform_assignment(
        self, cluster: Any, member_metadata: MutableMapping[str, ConsumerProtocolMemberMetadata]
    ) -> MutableMapping[str, ConsumerProtocolMemberAssignment]:
        said = {member: MemberMetadata.loads(each.user_data) for member, each in member_metadata.items()}
        part = {
            member: member_metadata[member]
            for member, each in said.items()
            if each.settled or each.assignment.active_tps
        }
        found: MutableMapping[str, Any] = dict(super()._perform_assignment(cluster, part or member_metadata))
        self._update_member_urls(said)
        waiting = {
            member: ClientAssignment(actives={}, standbys={}) for member in said if member not in found
        }
        groups = {topic: 0 for each in member_metadata.values() for topic in each.subscription}
        found.update(self._protocol_assignments(waiting, {}, {}, groups))
        return found


def join_again(app: faust.App) -> None:
    """Have the group assign anew, and learn at once of what has changed in it. From the application's loop; does
    nothing while it has not joined yet."""
    thread = getattr(app.consumer, "_thread", None)
    consumer = getattr(thread, "_consumer", None)
    coordinator = getattr(consumer, "_coordinator", None)
    if thread is not None and coordinator is not None:
        thread.thread_loop.call_soon_threadsafe(coordinator.request_rejoin)
