"""What commands say, and with which exit code they end, when Kafka refuses them or does not allow what they
need."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcontrol.adapters.kafka.admin.cluster import ensure_topics
from kcontrol.adapters.kafka.client.rights import Operation, Right
from kcontrol.adapters.kafka.client.rights import group as group_right
from kcontrol.adapters.kafka.client.rights import topic as topic_right
from kcontrol.errors import AccessError
from tests.integration.cli.test_errors import sentence, write_pipeline
from tests.integration.security.desks import Desk
from tests.support.held_coordinator import ASSIGNED, JOINING
from tests.support.patience import HANG_S
from tests.support.secured import SecuredBroker

PATIENCE_S = HANG_S
DENIED = AccessError.exit_code


@pytest.fixture
def desk(secured: SecuredBroker, tmp_path: Path) -> Desk:
    """Of a user who may read and write the control topic, and nothing else."""
    user, prefix = secured.unique("clerk"), secured.unique("office")
    ensure_topics(secured.admin_settings(prefix))
    control = secured.admin_settings(prefix).names().control_topic()
    secured.add_users(user)
    secured.grant({user: [topic_right(control, Operation.READ, Operation.WRITE, Operation.DESCRIBE_CONFIGS)]})
    return Desk(tmp_path / "desk", secured.of(user, prefix))


def test_a_coordinator_that_may_not_join_its_group_ends_and_says_so(desk: Desk) -> None:
    said = sentence(desk.command("coordinator"), DENIED)
    assert f"the operation Read on group '{desk.settings.prefix}.coordinator'" in said


@pytest.fixture
def membership(desk: Desk, secured: SecuredBroker) -> Right:
    """The user's right to be in the group of coordinators."""
    right = group_right(f"{desk.settings.prefix}.coordinator", Operation.READ)
    secured.grant({desk.settings.client["sasl.username"]: [right]})
    return right


def test_a_coordinator_that_may_be_in_its_group_no_longer_ends_and_says_so(
    desk: Desk, secured: SecuredBroker, membership: Right
) -> None:
    with desk.process("coordinator") as coordinator:
        coordinator.says("is ready", PATIENCE_S)
        secured.revoke(desk.settings.client["sasl.username"], membership)
        assert coordinator.wait(PATIENCE_S) == DENIED
        assert f"the operation Read on {membership.resource}" in coordinator.text().splitlines()[-1]


@pytest.mark.parametrize("moment", [JOINING, ASSIGNED])
def test_it_does_so_at_moments_at_which_faust_does_not_hear_of_it(
    desk: Desk, secured: SecuredBroker, membership: Right, moment: str
) -> None:
    goes_on = desk.directory / "goes-on"
    with desk.process(moment, str(goes_on), module="tests.support.held_coordinator") as coordinator:
        coordinator.says(f"held: {moment}", PATIENCE_S)
        secured.revoke(desk.settings.client["sasl.username"], membership)
        goes_on.touch()
        assert coordinator.wait(PATIENCE_S) == DENIED
        assert f"the operation Read on {membership.resource}" in coordinator.text().splitlines()[-1]


def test_a_node_that_may_not_make_its_topics_ends_and_says_so(desk: Desk) -> None:
    """`kcontrol run` asks for the input first, and does not start anything."""
    file = write_pipeline(desk.directory, "denied")
    said = sentence(desk.command("run", file), DENIED)
    assert "the operation Read and DescribeConfigs on topic 'numbers'" in said


def test_a_wrong_password_ends_every_command_at_once(desk: Desk) -> None:
    desk.env = {**desk.env, "KAFKA_PASSWORD": "wr0ng-marker"}
    for arguments in (("status", "p"), ("coordinator",)):
        said = sentence(desk.command(*arguments), DENIED)
        assert (
            f"does not accept the login of User:{desk.settings.client['sasl.username']} by SCRAM-SHA-512"
            in said
        )
    assert "marker" not in desk.said


def test_debugging_shows_no_secret_either(desk: Desk) -> None:
    assert desk.command("status", "p", "--debug").returncode == 10
    desk.env = {**desk.env, "KAFKA_PASSWORD": "wr0ng-marker"}
    assert desk.command("status", "p", "--debug").returncode == DENIED
    assert "Traceback" in desk.said
    assert "marker" not in desk.said


def test_the_rights_of_a_role_are_printed_as_commands_without_any_credentials(desk: Desk) -> None:
    file = write_pipeline(desk.directory, "granted", "numbers", "it's.odd".replace("'", "-"))
    desk.env = {name: value for name, value in desk.env.items() if name != "KAFKA_PASSWORD"}
    printed = desk.command("acls", file, "--role", "node", "--principal", "User:a b")
    assert printed.returncode == 0, printed.stderr
    grants = printed.stdout.splitlines()[1:]
    begin = (
        f"kafka-acls.sh --bootstrap-server {desk.settings.bootstrap_servers} --add --allow-principal "
        "'User:a b' "
    )
    assert all(line.startswith(begin) for line in grants)
    assert [line.removeprefix(begin) for line in grants if "--topic numbers" in line] == [
        "--operation Read --operation DescribeConfigs --topic numbers"
    ]
    assert any(
        line.endswith(f"--operation Write --transactional-id {desk.settings.prefix}.granted")
        for line in grants
    )
    assert not any("Create" in line for line in grants)
    more = desk.command("acls", file, "--role", "node", "--principal", "User:a b", "--optional").stdout
    assert "--operation Create --topic it-s.odd" in more
