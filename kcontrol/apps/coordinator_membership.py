"""Whether a coordinator is in its group is asked of the group.

Faust hears of what goes wrong with its membership only while it waits for records. An error that comes at another
moment (before the first records, in a rebalance, between two of its waits) it never takes: it sends no heartbeat
any more, is given no partitions, and neither ends nor crashes. What the group itself says has no such moment.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from kcontrol.errors import AccessError, ClusterError, RetriableError

_log = logging.getLogger("kcontrol.coordinator")

LOOK_EVERY_S = 2.0
MISSED_LOOKS = 30
"""A minute: Kafka waits no longer for the members of a group that shares out anew, and all the while has whoever
has asked to join among its members."""


class OutOfGroupError(ClusterError):
    """The group has been without this process for so long that Faust won't bring it back."""


async def watch_membership(
    is_member: Callable[[], Awaitable[bool]],
    look_every_s: float = LOOK_EVERY_S,
    missed_looks: int = MISSED_LOOKS,
) -> None:
    """Look for as long as this is not cancelled.

    missed_looks: in a row. One that Kafka did not answer tells nothing.
    Raises AccessError: Kafka does not let this process be one. OutOfGroupError.
    """
    missed = 0
    while missed < missed_looks:
        await asyncio.sleep(look_every_s)
        try:
            missed = 0 if await is_member() else missed + 1
        except AccessError:
            raise
        except (RetriableError, ClusterError) as error:
            _log.debug("whether this process is in the group of coordinators is not known: %s", error)
    raise OutOfGroupError(
        f"this process has not been in the group of coordinators for {missed_looks} looks in a row, one every "
        f"{look_every_s:g} s: it joins anew"
    )
