"""Consumer groups: who is in one, and whether we may be."""

from __future__ import annotations

import logging

from aiokafka.protocol.group import HeartbeatRequest

from kcontrol.adapters.kafka.client.rights import Operation
from kcontrol.adapters.kafka.client.rights import group as group_right
from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.errors import ClusterError, RetriableError
from kcontrol.sessions.retrying import until_deadline
from kcontrol.settings.cluster import ClusterSettings

_log = logging.getLogger(__name__)

TIMEOUT_MS = 20_000
_NOBODY = "kcontrol-nobody"
_NO_GENERATION = -1


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
        code = await until_deadline(ask, f"looking for the coordinator of group {group!r}", _log, TIMEOUT_MS)
    except RetriableError as error:
        raise ClusterError(str(error)) from error
    finally:
        await rpc.close()
    rpc.raise_if_denied(code, right)
