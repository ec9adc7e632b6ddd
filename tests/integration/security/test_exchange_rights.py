"""Nodes exchange rows, coordinators delete them and replayers read them with exactly what docs/security.md lists, and what is
missing is named."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from kcontrol.adapters.kafka.admin.roles import Role, RoleRight, Topics, needs
from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.client.rights import Operation
from kcontrol.adapters.kafka.exchange.purge import KafkaExchangePurge
from kcontrol.adapters.kafka.exchange.reader import Sent
from kcontrol.adapters.kafka.exchange.topic import ensure_exchange_topic
from kcontrol.core.model import ExchangeSlice
from kcontrol.errors import AccessError
from kcontrol.settings.cluster import ClusterSettings
from tests.integration.data_path import Owner
from tests.integration.exchanges import NAME, read, rows_of, runs_for, send, sent_by, transaction_of, wanted
from tests.integration.kafka.test_exchange_purge import PIPELINE, Stage
from tests.support.secured import SecuredBroker

TOPICS = Topics(("in",), ("out",), exchanges=True)
SLOTS = 2


def of(secured: SecuredBroker, role: Role, prefix: str, only: Callable[[RoleRight], bool]) -> ClusterSettings:
    """A new user with the rights of a role for which `only` holds."""
    user = secured.unique(f"exchange-{role.value}")
    secured.add_users(user)
    names = secured.admin_settings(prefix).names()
    secured.grant({user: [need.right for need in needs(role, names, PIPELINE, TOPICS) if only(need)]})
    return secured.of(user, prefix)


def test_a_node_makes_the_topic_sends_and_reads_with_what_is_listed(secured: SecuredBroker) -> None:
    prefix = secured.unique("exchange")
    node = of(
        secured,
        Role.NODE,
        prefix,
        lambda need: need.right.prefixed or need.right.name == f"{prefix}.{PIPELINE}",
    )
    made = ensure_exchange_topic(TopicAdmin(node), node, PIPELINE, NAME, 1)
    made = ensure_exchange_topic(TopicAdmin(node), node, PIPELINE, NAME, SLOTS)
    owner = Owner(secured.admin_settings(prefix))
    owner.transactional_id = f"{prefix}.{PIPELINE}"
    owner.begin([(made.name, slot) for slot in range(SLOTS)])
    rows = rows_of(100)
    sent = send(node, owner, made.name, rows)
    assert read(node, made.name, runs_for(0, sent), sent_by(owner, 0)) == wanted(rows, 0)


def test_a_node_that_may_not_make_or_grow_it_says_what_is_missing(secured: SecuredBroker) -> None:
    prefix = secured.unique("exchange")
    node = of(secured, Role.NODE, prefix, lambda need: need.right.prefixed and not need.optional)
    name = node.names().exchange_topic(PIPELINE, NAME)
    with pytest.raises(AccessError, match=rf"operation Create on topic '{name}'"):
        ensure_exchange_topic(TopicAdmin(node), node, PIPELINE, NAME, 1)
    admin = secured.admin_settings(prefix)
    ensure_exchange_topic(TopicAdmin(admin), admin, PIPELINE, NAME, 1)
    with pytest.raises(AccessError, match=rf"operation Alter on topic '{name}'"):
        ensure_exchange_topic(TopicAdmin(node), node, PIPELINE, NAME, SLOTS)


def test_a_coordinator_without_delete_warns_once_and_one_with_it_deletes(
    secured: SecuredBroker, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(secured.admin_settings())
    prefix = stage.settings.prefix
    stage.steps(1, [[0], [0]])

    def purge(may: bool) -> None:
        coordinator = of(
            secured,
            Role.COORDINATOR,
            prefix,
            lambda need: may or Operation.DELETE not in need.right.operations,
        )
        asked = KafkaExchangePurge(coordinator, PIPELINE)
        for _ in range(2):
            asyncio.run(asked.purge([stage.exchange], 2))

    with caplog.at_level(logging.WARNING, "kcontrol"):
        purge(may=False)
    (record,) = (each for each in caplog.records if each.name.startswith("kcontrol"))
    assert f"the operation Delete on topic '{stage.exchange.topic}'" in record.getMessage()
    assert stage.begins()[0] == 0
    purge(may=True)
    assert stage.begins()[0] == stage.sent(2, 0).from_


def test_a_replayer_reads_what_was_sent(secured: SecuredBroker) -> None:
    prefix = secured.unique("exchange")
    admin = secured.admin_settings(prefix)
    made = ensure_exchange_topic(TopicAdmin(admin), admin, PIPELINE, NAME, SLOTS)
    owner = Owner(admin)
    owner.begin([(made.name, 0)])
    rows = rows_of(100)
    sent: ExchangeSlice = send(admin, owner, made.name, rows)
    owner.end(commit=True)
    replayer = of(secured, Role.REPLAYER, prefix, lambda need: need.right.prefixed)
    by = Sent(transaction_of(owner).step, 1, *owner.producer, committed=True)
    assert read(replayer, made.name, runs_for(1, sent), by) == wanted(rows, 1)
    nobody = of(secured, Role.CONSUMER, prefix, lambda need: need.right.prefixed or need.right.name == "out")
    with pytest.raises(AccessError, match=rf"operation Read on topic '{made.name}'"):
        read(nobody, made.name, runs_for(1, sent), by)
