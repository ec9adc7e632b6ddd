"""Consumer groups: who is in one, and whether we may be."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection
from typing import Any

from aiokafka.protocol.admin import DescribeGroupsRequest
from aiokafka.protocol.group import HeartbeatRequest, LeaveGroupRequest

from kcontrol.adapters.kafka.client.codes import ErrorCode, describe_code
from kcontrol.adapters.kafka.client.rights import Operation
from kcontrol.adapters.kafka.client.rights import group as group_right
from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.errors import ClusterError, RetriableError
from kcontrol.sessions.retrying import until_deadline
from kcontrol.settings.cluster import ClusterSettings

_log = logging.getLogger(__name__)

TIMEOUT_MS = 20_000
USUAL_MS = 5_000
"""So long a group may have no coordinator without a warning: one is made ready when it is first asked for, in a new cluster
with the topic that it keeps groups in."""
_NOBODY = "kcontrol-nobody"
_UUID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_NO_GENERATION = -1
_UNKNOWN_MEMBER_ID = 25
"""It has left meanwhile."""


async def check_may_join(settings: ClusterSettings) -> None:
    """Raises AccessError: this client may not be a member of the coordinators' group.
    ClusterError: Kafka does not say.

    Faust would try again for ever. A heartbeat of a member that does not exist asks for the same
    right as joining, and does nothing.
    """
    group = settings.names().coordinator_group()
    right = group_right(group, Operation.READ)
    rpc = KafkaRpc(settings)

    async def ask() -> int:
        node = await rpc.group_coordinator(group)
        answer = await rpc.send(node, HeartbeatRequest(group, _NO_GENERATION, _NOBODY))
        code: int = answer.error_code
        return code

    try:
        what = f"looking for the coordinator of group {group!r}"
        code = await until_deadline(ask, what, _log, TIMEOUT_MS, USUAL_MS)
    except RetriableError as error:
        raise ClusterError(str(error)) from error
    finally:
        await rpc.close()
    rpc.raise_if_denied(code, right)


class Membership:
    """Of one client in the coordinators' group, as the group itself has it. Keeps a connection until
    `close`.

    instance: of a static member. A group shows the client id of whoever was first to join under it, perhaps of an older
    version; the id that it gives each member begins with the instance.
    """

    def __init__(self, settings: ClusterSettings, client_id: str, instance: str | None = None) -> None:
        self._settings = settings
        self._client_id = client_id
        self._static_id = None if instance is None else _static_id(instance)
        self._rpc = KafkaRpc(settings)

    async def is_there(self) -> bool:
        """Whether the group has a member of this client id or instance. Raises RetriableError, AccessError,
        ClusterError."""
        _, members = await _members(self._settings, self._rpc)
        return any(
            each["client_id"] == self._client_id
            or (self._static_id is not None and self._static_id.fullmatch(each["member_id"]))
            for each in members
        )

    async def close(self) -> None:
        await self._rpc.close()


async def count_members(settings: ClusterSettings, besides: str) -> int:
    """How many are in the coordinators' group, the static member of the instance `besides` not counted.

    Raises RetriableError, AccessError, ClusterError.
    """
    static_id = _static_id(besides)
    rpc = KafkaRpc(settings)
    what = f"asking who is in group {settings.names().coordinator_group()!r}"
    try:
        _, members = await until_deadline(lambda: _members(settings, rpc), what, _log, TIMEOUT_MS, USUAL_MS)
        return sum(1 for each in members if not static_id.fullmatch(each["member_id"]))
    finally:
        await rpc.close()


async def remove_members(settings: ClusterSettings, client_ids: Collection[str]) -> list[str]:
    """Take those of these clients that are members of the coordinators' group out of it, as if they had left:
    their partitions go to others at once. The client ids of those that were taken out.

    Raises RetriableError, AccessError, ClusterError.
    """
    group = settings.names().coordinator_group()
    right = group_right(group, Operation.READ)
    rpc = KafkaRpc(settings)
    try:
        node, members = await _members(settings, rpc)
        found = [each for each in members if each["client_id"] in client_ids]
        for member in found:
            answer = await rpc.send(node, LeaveGroupRequest(group, member["member_id"]))
            rpc.raise_if_denied(answer.error_code, right)
            if answer.error_code not in (ErrorCode.NONE, _UNKNOWN_MEMBER_ID):
                raise RetriableError(f"group {group!r}: {describe_code(answer.error_code)}")
        return [each["client_id"] for each in found]
    finally:
        await rpc.close()


def _static_id(instance: str) -> re.Pattern[str]:
    """The ids that a group gives to a static member."""
    return re.compile(f"{re.escape(instance)}-{_UUID}")


async def _members(settings: ClusterSettings, rpc: KafkaRpc) -> tuple[int, list[dict[str, Any]]]:
    """The node that coordinates the coordinators' group, and who is in it."""
    group = settings.names().coordinator_group()
    node = await rpc.group_coordinator(group)
    described = (await rpc.send(node, DescribeGroupsRequest([group]))).to_object()["groups"][0]
    rpc.raise_if_denied(described["error_code"], group_right(group, Operation.READ))
    if described["error_code"] != ErrorCode.NONE:
        raise RetriableError(f"group {group!r}: {describe_code(described['error_code'])}")
    return node, described["members"]
