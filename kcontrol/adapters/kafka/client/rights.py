"""What Kafka does not allow, said so that whoever grants rights knows exactly what to grant, to whom.

The page docs/security.md lists what each role needs; a message here names the one right that is missing, and
the command that grants it. Which principal the broker sees is known for a user name; for a certificate or an
OAuth token the broker decides it, so the message says where to look.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from kcontrol.adapters.kafka.client.codes import ErrorCode
from kcontrol.errors import AccessError
from kcontrol.settings.cluster import ClusterSettings


class Operation(StrEnum):
    """An operation of an ACL, as `kafka-acls.sh` spells it. Read, Write, Create and DescribeConfigs are what
    is ever needed, Delete by whoever deletes a pipeline or what an exchange needs no more, and Alter by whoever
    gives an exchange's topic more partitions."""

    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DELETE = "Delete"
    ALTER = "Alter"
    DESCRIBE = "Describe"
    DESCRIBE_CONFIGS = "DescribeConfigs"


class ResourceKind(StrEnum):
    """What an ACL is about; the value is the option of `kafka-acls.sh`."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"


@dataclass(frozen=True, slots=True)
class Right:
    """Operations on one resource, or on all whose names begin so (`prefixed`)."""

    kind: ResourceKind
    name: str
    operations: tuple[Operation, ...]
    prefixed: bool = False

    @property
    def resource(self) -> str:
        """In words."""
        return f"{self.kind.value.replace('-', ' ')} {self.name!r}"

    @property
    def option(self) -> str:
        """What names the resource to `kafka-acls.sh`."""
        pattern = "--resource-pattern-type prefixed " if self.prefixed else ""
        return f"{pattern}--{self.kind.value} {shlex.quote(self.name)}"


def topic(name: str, *operations: Operation) -> Right:
    """Operations on a topic."""
    return Right(ResourceKind.TOPIC, name, operations)


def group(name: str, *operations: Operation) -> Right:
    """Operations on a consumer group."""
    return Right(ResourceKind.GROUP, name, operations)


def transactional_id(name: str, *operations: Operation) -> Right:
    """Operations on a transactional id."""
    return Right(ResourceKind.TRANSACTIONAL_ID, name, operations)


def write_right(code: int, topic_name: str, transaction: str) -> Right:
    """What an error code for a write in a transaction says is missing: the topic's right,
    or that of the transactional id."""
    if code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return transactional_id(transaction, Operation.WRITE)
    return topic(topic_name, Operation.WRITE)


def denied(settings: ClusterSettings, right: Right, doing: str = "") -> AccessError:
    """The error for a right that is missing. doing: what it was needed for, such as 'step 3, output
    totals'."""
    who = principal_of(settings.client)
    operations = " and ".join(operation.value for operation in right.operations)
    options = " ".join(f"--operation {operation.value}" for operation in right.operations)
    grant = (
        f"kafka-acls.sh --bootstrap-server {settings.bootstrap_servers} --add --allow-principal "
        f"{shlex.quote(who.argument)} {options} {right.option}"
    )
    where = f"{doing}: " if doing else ""
    return AccessError(
        f"{where}Kafka at {settings.bootstrap_servers} does not allow {who.text} the operation {operations} "
        f"on {right.resource}. Grant it: {grant}"
    )


@dataclass(frozen=True, slots=True)
class Principal:
    """Whom the broker sees. text: for people. argument: for `--allow-principal`."""

    text: str
    argument: str


def principal_of(client: Mapping[str, str]) -> Principal:
    """The principal of clients with these settings, as far as a client can know it; no secret is looked
    at."""
    protocol = client.get("security.protocol", "PLAINTEXT").upper()
    if protocol.startswith("SASL"):
        mechanism = client.get("sasl.mechanisms") or client.get("sasl.mechanism") or ""
        if mechanism == "OAUTHBEARER":
            owner = client.get("sasl.oauthbearer.client.id")
            whose = (
                f"of client id {owner!r}"
                if owner
                else f"from {client.get('sasl.oauthbearer.token.provider', '')!r}"
            )
            return Principal(f"the subject of the OAuth token {whose}", "User:SUBJECT-OF-THE-TOKEN")
        user = f"User:{client.get('sasl.username', '')}"
        return Principal(user, user)
    certificate = client.get("ssl.certificate.location")
    if protocol == "SSL" and certificate:
        return Principal(f"the owner of the certificate {certificate!r}", "User:SUBJECT-OF-THE-CERTIFICATE")
    return Principal("User:ANONYMOUS (no credentials are set)", "User:ANONYMOUS")


def missing(needed: Collection[Operation], allowed: Collection[str]) -> tuple[Operation, ...]:
    """Those of `needed` that are not among the operations that Kafka says are allowed (`DESCRIBE_CONFIGS`,
    ...)."""
    known = {name.replace("_", "").lower() for name in allowed}
    return tuple(operation for operation in needed if operation.value.lower() not in known)
