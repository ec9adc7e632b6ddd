"""The rights of each role: what is granted, how it is written down, and what is never asked for."""

from __future__ import annotations

import pytest

from docs.make_rights import PAGE, page
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
