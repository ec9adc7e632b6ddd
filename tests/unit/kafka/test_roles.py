"""The rights of each role: what is granted, how it is written down, and what is never asked for."""

from __future__ import annotations

import pytest

from docs.make_rights import PAGE, page
from kcontrol import KafkaInput, KafkaOutput, Pipeline
from kcontrol.adapters.kafka.admin.roles import Role, Topics, commands, needs
from kcontrol.adapters.kafka.client.rights import Operation, denied, missing, principal_of, topic
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.names import Names

TOPICS = Topics(("in",), ("out", "dead"))


def test_the_page_says_what_the_code_does() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "run python -m docs.make_rights"


def test_names_are_those_of_the_cluster_and_every_output_is_there() -> None:
    found = needs(Role.COORDINATOR, Names("team", {"control_topic": "ops"}), "flights", TOPICS)
    names = {need.right.name for need in found if not need.optional}
    assert names == {"ops", "team.coordinator", "team.flights.steps", "team.flights", "out", "dead"}


def test_topics_of_exchanges_are_granted_by_what_they_begin_with_where_there_may_be_any() -> None:
    through = Topics(("in",), ("out",), exchanges=True)
    for role in Role:
        found = [need for need in needs(role, Names(), "p", through) if need.right.prefixed]
        assert {need.right.name for need in found} <= {"kcontrol.p.exchange."}
        assert bool(found) is (role is not Role.CONSUMER)
        assert not any(need.right.prefixed for need in needs(role, Names(), "p", TOPICS))
    (*_, last) = commands(needs(Role.NODE, Names(), "p", through), "User:u", "b:1")
    assert last == (
        "kafka-acls.sh --bootstrap-server b:1 --add --allow-principal User:u --operation Create --operation Alter "
        "--resource-pattern-type prefixed --topic kcontrol.p.exchange."
    )


def test_a_pipeline_on_several_nodes_may_exchange_rows() -> None:
    for nodes in (1, 2):
        made = Pipeline(
            "p", nodes=nodes, inputs=[KafkaInput("a", topic="a")], outputs=[KafkaOutput("b", topic="b")]
        )
        assert Topics.of(made).exchanges is (nodes > 1)


@pytest.mark.parametrize("role", [Role.CONSUMER, Role.VIEWER, Role.REPLAYER])
def test_who_only_looks_needs_no_right_to_write(role: Role) -> None:
    operations = {
        operation for need in needs(role, Names(), "p", TOPICS) for operation in need.right.operations
    }
    assert operations <= {Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS}


def test_commands_are_ready_for_a_shell() -> None:
    (first, *_) = commands(needs(Role.VIEWER, Names(), "p", TOPICS), "User:a b", "b:1")
    assert first == (
        "kafka-acls.sh --bootstrap-server b:1 --add --allow-principal 'User:a b' --operation Read "
        "--topic kcontrol.control"
    )


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ({}, "User:ANONYMOUS (no credentials are set)"),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanisms": "PLAIN",
                "sasl.username": "u",
                "sasl.password": "pw",
            },
            "User:u",
        ),
        (
            {"security.protocol": "SSL", "ssl.certificate.location": "me.pem"},
            "the owner of the certificate 'me.pem'",
        ),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanisms": "OAUTHBEARER",
                "sasl.oauthbearer.client.id": "c",
            },
            "the subject of the OAuth token of client id 'c'",
        ),
    ],
)
def test_the_principal_is_named_as_far_as_it_is_known(client: dict[str, str], text: str) -> None:
    assert principal_of(client).text == text
    settings = ClusterSettings(bootstrap_servers="b:1", client=client)
    said = str(denied(settings, topic("t", Operation.READ, Operation.DESCRIBE_CONFIGS), "step 3"))
    assert said.startswith(
        f"step 3: Kafka at b:1 does not allow {text} the operation Read and DescribeConfigs on topic 't'. "
    )
    assert "pw" not in said


def test_what_is_missing_is_found_by_kafkas_names() -> None:
    needed = (Operation.READ, Operation.WRITE, Operation.DESCRIBE_CONFIGS)
    assert missing(needed, ["DESCRIBE_CONFIGS", "READ", "DESCRIBE"]) == (Operation.WRITE,)
