"""Which coordinator is assigned which partition: whoever has just joined takes nothing from those that were there.

A pipeline that changes hands waits for a second or two. Faust's own assignor keeps partitions where they are,
but evens them out as soon as somebody joins: a coordinator that was killed and is started again would take back
what another has just taken over, so that its pipelines would wait twice. Here a member has a part in it once
it has been there for a while, or has partitions already; then all is as Faust does it. Members of a version that
says nothing of this have a part at once.

What a member says that it has may be old: one that was put out of the group (it hung, or its host was given up) and comes back
names what it had before. So each says of which generation of the group that is (as KIP-792 has it): partitions that another
one was given later are not its own any more, and who has lost all of them in that way is as one that has just joined.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import faust
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from faust.assignor.client_assignment import ClientAssignment, ClientMetadata
from faust.assignor.partition_assignor import PartitionAssignor
from faust.types import TP

DEFAULT_SETTLE_S = 60.0
_UNKNOWN = -1


class MemberMetadata(ClientMetadata):
    """What a member says of itself when it joins; Faust's own leaves aside what it does not know.

    generation: of the group, in which it was given what it says that it has. A version that does not say it is believed.
    """

    settled: bool = True
    generation: int = _UNKNOWN


class SettledAssignor(PartitionAssignor):
    """Of one member; the group's leader asks its own for the whole assignment. generation: of the group, as the client of this
    member knows it."""

    def __init__(
        self,
        app: faust.App,
        replicas: int = 0,
        settle_s: float = DEFAULT_SETTLE_S,
        generation: Callable[[], int] | None = None,
    ) -> None:
        super().__init__(app, replicas)
        self._settle_s = settle_s
        self._settled_at = time.monotonic() + settle_s
        self._said_settled = True
        self._generation_now = generation or (lambda: _generation_of(app))
        self._generation = _UNKNOWN

    @property
    def unsettled_s(self) -> float:
        """For so long yet it takes nothing from others."""
        return max(0.0, self._settled_at - time.monotonic())

    @property
    def waits_for_share(self) -> bool:
        """It has none, because it had to leave what there is to others; later it may ask for one."""
        return not self._active_tps and not self._said_settled

    def metadata(self, topics: set[str]) -> ConsumerProtocolMemberMetadata:
        self._said_settled = not self.unsettled_s
        own = _own(self._metadata, self._metadata.assignment, self._said_settled, self._generation)
        return ConsumerProtocolMemberMetadata(self.version, list(topics), own.dumps())

    def on_assignment(self, assignment: Any) -> None:
        had = bool(self._active_tps)
        super().on_assignment(assignment)
        self._generation = self._generation_now()
        if had and not self._active_tps:
            self._settled_at, self._said_settled = time.monotonic() + self._settle_s, False

    def _perform_assignment(
        self, cluster: Any, member_metadata: MutableMapping[str, ConsumerProtocolMemberMetadata]
    ) -> MutableMapping[str, ConsumerProtocolMemberAssignment]:
        said = {member: MemberMetadata.loads(each.user_data) for member, each in member_metadata.items()}
        lost = _lost(said)
        part = {
            member: _without(member_metadata[member], each, lost[member])
            for member, each in said.items()
            if each.assignment.active_tps - lost[member] or (each.settled and not lost[member])
        }
        found: MutableMapping[str, Any] = dict(super()._perform_assignment(cluster, part or member_metadata))
        self._update_member_urls(said)
        waiting = {
            member: ClientAssignment(actives={}, standbys={}) for member in said if member not in found
        }
        groups = {topic: 0 for each in member_metadata.values() for topic in each.subscription}
        found.update(self._protocol_assignments(waiting, {}, {}, groups))
        return found


def _lost(said: Mapping[str, MemberMetadata]) -> dict[str, set[TP]]:
    """Of what each member says that it has, what another one was given later."""
    newest: dict[TP, int] = defaultdict(lambda: _UNKNOWN)
    for each in said.values():
        for partition in each.assignment.active_tps:
            newest[partition] = max(newest[partition], each.generation)
    return {
        member: {one for one in each.assignment.active_tps if _UNKNOWN < each.generation < newest[one]}
        for member, each in said.items()
    }


def _without(
    metadata: ConsumerProtocolMemberMetadata, said: MemberMetadata, lost: set[TP]
) -> ConsumerProtocolMemberMetadata:
    """As if it had not said that it has these."""
    if not lost:
        return metadata
    actives = {
        topic: [one for one in partitions if TP(topic, one) not in lost]
        for topic, partitions in said.assignment.actives.items()
    }
    left = ClientAssignment(actives=actives, standbys=said.assignment.standbys)
    own = _own(said, left, said.settled, said.generation)
    return ConsumerProtocolMemberMetadata(metadata.version, metadata.subscription, own.dumps())


def _own(
    said: ClientMetadata, assignment: ClientAssignment, settled: bool, generation: int
) -> MemberMetadata:
    return MemberMetadata(
        assignment=assignment,
        url=said.url,
        changelog_distribution=said.changelog_distribution,
        external_topic_distribution=said.external_topic_distribution,
        topic_groups=said.topic_groups,
        settled=settled,
        generation=generation,
    )


def join_again(app: faust.App) -> None:
    """Have the group assign anew, and learn at once of what has changed in it. From the application's loop; does
    nothing while it has not joined yet."""
    thread, coordinator = _client_of(app)
    if thread is not None and coordinator is not None:
        thread.thread_loop.call_soon_threadsafe(coordinator.request_rejoin)


def _generation_of(app: faust.App) -> int:
    _, coordinator = _client_of(app)
    return int(getattr(coordinator, "generation", _UNKNOWN))


def _client_of(app: faust.App) -> tuple[Any, Any]:
    """The consumer's thread, and what takes part in the group in it. None: not there yet."""
    thread = getattr(app.consumer, "_thread", None)
    return thread, getattr(getattr(thread, "_consumer", None), "_coordinator", None)
