"""Which rights each role needs in Kafka: the one table that docs/security.md, `kcontrol acls` and the tests
go by.

A role is a principal's job, not a process: whoever runs `kcontrol run` with one set of credentials has
several roles at once. Read and Write imply Describe, and Write on a topic is enough for an idempotent
producer (KIP-679), so neither is listed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kcontrol.adapters.kafka.client.rights import (
    Operation,
    ResourceKind,
    Right,
    group,
    topic,
    transactional_id,
)
from kcontrol.definition.pipeline import Pipeline
from kcontrol.views.topic_safety import TRANSACTIONS
from kcontrol.wire.names import Names

_READ, _WRITE, _CREATE = Operation.READ, Operation.WRITE, Operation.CREATE
_DESCRIBE, _DESCRIBE_CONFIGS, _DELETE = Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.DELETE
_ALTER = Operation.ALTER


class Role(StrEnum):
    """A principal's job."""

    COORDINATOR = "coordinator"
    NODE = "node"
    CONSUMER = "consumer"
    VIEWER = "viewer"
    OPERATOR = "operator"
    REPLAYER = "replayer"


ROLES: Mapping[Role, str] = {
    Role.COORDINATOR: "`kcontrol coordinator`",
    Role.NODE: "`kcontrol node` and `kcontrol.attach`, with their Spark executors",
    Role.CONSUMER: "`kcontrol.StepConsumer`",
    Role.VIEWER: "`kcontrol status`, `steps`, `log`, `wait`, `serve`",
    Role.OPERATOR: "as a viewer, and `kcontrol pause`, `resume`, `stop`, `pause-input`, `resume-input`, "
    "`checkpoint`, `skip`, `delete`",
    Role.REPLAYER: "`kcontrol verify` and `replay`",
}
"""What each is for."""


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics of one pipeline: what it reads, and what it writes (dead letters too). exchanges: its nodes may send
    each other rows, as those of one with several nodes may."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    exchanges: bool = False

    @staticmethod
    def of(pipeline: Pipeline) -> Topics:
        """Those that a definition names."""
        dead = (each.dead_letter_topic for each in pipeline.inputs)
        return Topics(
            tuple(dict.fromkeys(each.topic for each in pipeline.inputs if each.topic)),
            tuple(
                dict.fromkeys((*(each.topic for each in pipeline.outputs), *(name for name in dead if name)))
            ),
            pipeline.nodes > 1,
        )


@dataclass(frozen=True, slots=True)
class RoleRight:
    """One right of a role. why: what it is for. where: the resource in general, as the documentation shows
    it.
    optional: only for what `why` says; all else works without."""

    right: Right
    where: str
    why: str
    optional: bool = False


def needs(role: Role, names: Names, pipeline: str, topics: Topics) -> tuple[RoleRight, ...]:
    """All that a role needs for one pipeline. Raises ConfigurationError for names that can't be."""
    control = topic(names.control_topic())
    steps = topic(names.steps_topic(pipeline))
    found: dict[Role, Iterator[RoleRight]] = {
        Role.COORDINATOR: _coordinator(control, steps, names, pipeline, topics),
        Role.NODE: _node(control, steps, names, pipeline, topics),
        Role.CONSUMER: _consumer(control, steps, topics),
        Role.VIEWER: _viewer(control, steps, topics),
        Role.OPERATOR: _operator(control, steps, topics),
        Role.REPLAYER: _replayer(control, steps, topics),
    }
    return (*found[role], *(_exchange(role, names, pipeline) if topics.exchanges else ()))


def commands(found: Sequence[RoleRight], principal: str, bootstrap_servers: str) -> list[str]:
    """A `kafka-acls.sh` command for each right, ready for a shell."""
    return [
        (
            f"kafka-acls.sh --bootstrap-server {bootstrap_servers} --add --allow-principal "
            f"{shlex.quote(principal)} "
        )
        + " ".join(f"--operation {operation.value}" for operation in need.right.operations)
        + f" {need.right.option}"
        for need in found
    ]


def _on(right: Right, *operations: Operation) -> Right:
    return Right(right.kind, right.name, operations, right.prefixed)


_CONTROL, _STEPS, _INPUT, _OUTPUT = "control topic", "steps topic", "each input topic", "each output topic"
_SAFE = "`status` says whether it is safe"
_TRANSACTIONS = f"Kafka's `{TRANSACTIONS}`"
_EXCHANGES = "topics that begin with `PREFIX.PIPELINE.exchange.`"
_ID, _GROUP = "transactional id `PREFIX.PIPELINE`", "group `PREFIX.coordinator`"


def _coordinator(
    control: Right, steps: Right, names: Names, pipeline: str, topics: Topics
) -> Iterator[RoleRight]:
    yield RoleRight(
        _on(control, _READ, _WRITE), _CONTROL, "follows nodes and users; claims, commands, status"
    )
    yield RoleRight(
        _on(control, _DESCRIBE_CONFIGS), _CONTROL, "checks at its start that the topic is compacted"
    )
    yield RoleRight(_on(control, _CREATE), _CONTROL, "makes the topic if it is missing", optional=True)
    yield RoleRight(
        group(names.coordinator_group(), _READ), _GROUP, "shares the pipelines out with other coordinators"
    )
    yield RoleRight(
        _on(steps, _READ, _WRITE), _STEPS, "reads what is committed; writes boundaries and checkpoints"
    )
    yield RoleRight(
        transactional_id(names.transactional_id(pipeline), _WRITE),
        _ID,
        "opens, commits and aborts each step's transaction",
    )
    for name in topics.outputs:
        yield RoleRight(topic(name, _WRITE), _OUTPUT, "adds its partitions to the transaction")
    yield RoleRight(
        topic(TRANSACTIONS, _DESCRIBE, _DESCRIBE_CONFIGS),
        _TRANSACTIONS,
        "warns at its start if it is not safe",
        optional=True,
    )


def _node(control: Right, steps: Right, names: Names, pipeline: str, topics: Topics) -> Iterator[RoleRight]:
    yield RoleRight(
        _on(control, _READ, _WRITE),
        _CONTROL,
        "submits the definition, follows commands, says what it has done",
    )
    yield RoleRight(
        _on(control, _DESCRIBE_CONFIGS), _CONTROL, "checks at its start that the topic is compacted"
    )
    yield RoleRight(
        _on(steps, _READ, _DESCRIBE_CONFIGS), _STEPS, "learns what is committed; checks the topic"
    )
    yield RoleRight(_on(steps, _CREATE), _STEPS, "makes the topic if it is missing", optional=True)
    for name in topics.inputs:
        yield RoleRight(topic(name, _READ, _DESCRIBE_CONFIGS), _INPUT, "reads it; warns of compaction")
    for name in topics.outputs:
        yield RoleRight(
            topic(name, _WRITE, _DESCRIBE_CONFIGS), _OUTPUT, "writes it; learns how large a record may be"
        )
        yield RoleRight(
            topic(name, _CREATE), _OUTPUT, "makes the topic, with `--create-outputs`", optional=True
        )
    yield RoleRight(
        transactional_id(names.transactional_id(pipeline), _WRITE),
        _ID,
        "writes in the coordinator's transaction",
    )


def _consumer(control: Right, steps: Right, topics: Topics) -> Iterator[RoleRight]:
    yield RoleRight(_on(control, _READ), _CONTROL, "finds the pipeline's definition")
    yield RoleRight(_on(steps, _READ), _STEPS, "follows the committed steps")
    for name in topics.outputs:
        yield RoleRight(topic(name, _READ), _OUTPUT, "reads what they wrote")


def _viewer(control: Right, steps: Right, topics: Topics) -> Iterator[RoleRight]:
    yield RoleRight(_on(control, _READ), _CONTROL, "reads definition, status, what nodes say")
    yield RoleRight(_on(steps, _READ), _STEPS, "reads the committed steps")
    for name in topics.inputs:
        why = "asks how far it reaches; without it, what waits is told as far as its nodes have said"
        yield RoleRight(topic(name, _DESCRIBE), _INPUT, why, optional=True)
        why = "completion: tells what was aborted, or compacted away, from what was read"
        yield RoleRight(topic(name, _READ), _INPUT, why, optional=True)
    yield from _safety(control, steps, topics)


def _safety(control: Right, steps: Right, topics: Topics) -> Iterator[RoleRight]:
    """What `kcontrol status` needs to say which topics are not safe."""
    why = _SAFE
    yield RoleRight(_on(control, _DESCRIBE_CONFIGS), _CONTROL, why, optional=True)
    yield RoleRight(_on(steps, _DESCRIBE_CONFIGS), _STEPS, why, optional=True)
    for name in topics.inputs:
        yield RoleRight(
            topic(name, _DESCRIBE, _DESCRIBE_CONFIGS),
            _INPUT,
            f"{why}, and warns before what is needed expires",
            optional=True,
        )
    for name in topics.outputs:
        yield RoleRight(topic(name, _DESCRIBE, _DESCRIBE_CONFIGS), _OUTPUT, why, optional=True)
    yield RoleRight(topic(TRANSACTIONS, _DESCRIBE, _DESCRIBE_CONFIGS), _TRANSACTIONS, why, optional=True)


def _operator(control: Right, steps: Right, topics: Topics) -> Iterator[RoleRight]:
    yield RoleRight(
        _on(control, _READ, _WRITE), _CONTROL, "writes the request, waits until it is acknowledged"
    )
    yield RoleRight(_on(steps, _READ), _STEPS, "reads the committed steps")
    yield RoleRight(
        _on(steps, _DELETE, _DESCRIBE_CONFIGS), _STEPS, "`kcontrol delete`: deletes the topic", optional=True
    )
    for name in topics.inputs:
        yield RoleRight(
            topic(name, _DESCRIBE, _DESCRIBE_CONFIGS), _INPUT, "`kcontrol skip`: sees where the topic ends"
        )
    yield from _safety(control, steps, topics)


def _replayer(control: Right, steps: Right, topics: Topics) -> Iterator[RoleRight]:
    yield RoleRight(_on(control, _READ), _CONTROL, "finds the pipeline's definition")
    yield RoleRight(_on(steps, _READ), _STEPS, "reads the recorded steps")
    for name in topics.inputs:
        yield RoleRight(topic(name, _READ), _INPUT, "reads what the steps read")


def _exchange(role: Role, names: Names, pipeline: str) -> Iterator[RoleRight]:
    """Where nodes send each other rows: on all topics of the pipeline's exchanges, which are made as queries need
    them."""
    through = Right(ResourceKind.TOPIC, names.exchange_prefix(pipeline), (), prefixed=True)
    found: Mapping[Role, Sequence[tuple[tuple[Operation, ...], str, bool]]] = {
        Role.COORDINATOR: [
            ((_WRITE,), "adds their partitions to the transaction", False),
            ((_DELETE,), "deletes what no node can need any more; without it their retention does", True),
        ],
        Role.NODE: [
            (
                (_READ, _WRITE, _DESCRIBE_CONFIGS),
                "sends other nodes rows and reads theirs; checks the topics",
                False,
            ),
            ((_CREATE, _ALTER), "makes the topics, and gives them more partitions", True),
        ],
        Role.VIEWER: [((_DESCRIBE, _DESCRIBE_CONFIGS), _SAFE, True)],
        Role.OPERATOR: [
            ((_DELETE, _DESCRIBE_CONFIGS), "`kcontrol delete`: deletes the topics", True),
            ((_DESCRIBE, _DESCRIBE_CONFIGS), _SAFE, True),
        ],
        Role.REPLAYER: [((_READ,), "reads what nodes sent each other in the steps", False)],
    }
    for operations, why, optional in found.get(role, ()):
        yield RoleRight(_on(through, *operations), _EXCHANGES, why, optional)
