"""Topics for tests: they keep what they are given for ever.

Tests write records of past years, which the broker's cleaner otherwise drops 30 s after its start, and
every five minutes from then on.
"""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka.admin import AdminClient, NewTopic

from kcontrol.settings.cluster import ClusterSettings
from tests.support.patience import HANG_S
from tests.support.processes import until

TIMEOUT_S = HANG_S


def kept(name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> NewTopic:
    """A topic to be created, replicated as is the broker's default: three times where there are three
    brokers."""
    return NewTopic(name, partitions, config={"retention.ms": "-1", **(config or {})})


def create_topic(
    settings: ClusterSettings,
    name: str,
    partitions: int = 1,
    config: Mapping[str, str] | None = None,
    admin: AdminClient | None = None,
) -> None:
    """Create it, and return once it is seen with all its leaders: the controller answers before brokers know of it. It must
    not be there yet. admin: who asks; None: a new one."""
    if admin is None:  # One with nothing to do is false.
        admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    admin.create_topics([kept(name, partitions, config)], operation_timeout=TIMEOUT_S)[name].result(TIMEOUT_S)

    def is_seen() -> bool:
        found = admin.list_topics(name, timeout=TIMEOUT_S).topics[name].partitions
        return len(found) == partitions and all(each.leader >= 0 for each in found.values())

    until(is_seen, f"topic {name} is seen", TIMEOUT_S)
