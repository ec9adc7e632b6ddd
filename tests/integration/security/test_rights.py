"""Each role works with exactly the rights that docs/security.md lists, and says which one is missing when one
is.

What was needed is read from the broker's authorizer, so a right that a role does not need is found as well as
one that is missing. Here a role's Kafka side is driven by the test; test_pipeline.py runs the real processes.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kcontrol import KafkaInput, KafkaOutput, Pipeline, StepConsumer
from kcontrol.adapters.kafka.admin.cluster import check_cluster, ensure_topics
from kcontrol.adapters.kafka.admin.groups import check_may_join
from kcontrol.adapters.kafka.admin.roles import Role, RoleRight, Topics, needs
from kcontrol.adapters.kafka.admin.topic_safety import safety_now
from kcontrol.adapters.kafka.client.rights import Operation, Right
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.adapters.kafka.read.ranges import RangeReader
from kcontrol.adapters.kafka.read.watcher import KafkaInputWatcher
from kcontrol.adapters.kafka.transaction.owner import KafkaTransaction
from kcontrol.apps.ask import ask_mode, ask_skip, definition
from kcontrol.apps.deletion import delete, look
from kcontrol.apps.submit import submit
from kcontrol.core.model import Claim, DesiredMode, NodeJoin
from kcontrol.definition.resolve import QueryFacts
from kcontrol.errors import AccessError, KcontrolError, NotFoundError, RetriableError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.topic_safety import TRANSACTIONS
from kcontrol.wire.names import Names
from tests.integration.kafka.steps_maker import PIPELINE, StepsMaker
from tests.integration.security.desks import Desk
from tests.support.owning import commit
from tests.support.patience import HANG_S
from tests.support.secured import SecuredBroker, eventually, granted
from tests.support.transactions import TRANSACTION_MS

_DEADLINE_S = HANG_S
_RECORDS = 3


class World:
    """A pipeline with one committed step, which the admin has made, and users who may do what their role
    needs."""

    def __init__(self, secured: SecuredBroker) -> None:
        self.secured = secured
        self.input = ""
        self.maker = StepsMaker(secured.admin_settings(), self._new_topic)
        self.prefix = self.maker.settings.prefix
        self.names = Names(self.prefix)
        producer = Producer(secured.admin_options())
        for _ in range(_RECORDS):
            producer.produce(self.input, b"x", partition=0)
        assert producer.flush(HANG_S) == 0
        self.last_step = 1
        self.maker.step(self.last_step, {"delays": {0: [b"a"]}, "totals": {1: [b"b"]}})

    def _new_topic(
        self, stem: str = "topic", partitions: int = 1, config: dict[str, str] | None = None
    ) -> str:
        name = self.secured.unique(f"rights-{stem}")
        self.secured.create_topic(name, partitions, config)
        self.input = name
        return name

    @property
    def topics(self) -> Topics:
        return Topics((self.input,), tuple(self.maker.topics.values()))

    def needs(self, role: Role) -> list[RoleRight]:
        return [need for need in needs(role, self.names, PIPELINE, self.topics) if not need.optional]

    def user(self, role: Role) -> str:
        """A new user who has all that a role needs."""
        name = self.secured.unique(role.value)
        self.secured.add_users(name)
        self.secured.grant({name: [need.right for need in self.needs(role)]})
        return name

    def rights_but(self, role: Role, index: int, operation: Operation) -> list[Right]:
        """All that a role needs, but for one operation of one need."""
        rights = [need.right for need in self.needs(role)]
        right = rights[index]
        left = tuple(each for each in right.operations if each is not operation)
        rights[index] = replace(right, operations=left)
        return rights

    def settings(self, user: str) -> ClusterSettings:
        return self.secured.of(user, self.prefix)


@pytest.fixture(scope="module")
def world(secured: SecuredBroker) -> World:
    return World(secured)


# --- the Kafka side of each role ----------------------------------------------------------------------------


async def coordinate(world: World, settings: ClusterSettings) -> None:
    await check_cluster(settings)
    await asyncio.to_thread(ensure_topics, settings)
    await check_may_join(settings)
    async with AsyncExitStack() as stack:
        control = await KafkaControlLog.open(settings, PIPELINE)
        stack.push_async_callback(control.close)
        await control.read_to_end()
        await control.append([Claim(PIPELINE, "u", "host", 1)])
        transaction, steps = KafkaTransaction(settings, PIPELINE), KafkaStepsLog(settings, PIPELINE)
        stack.push_async_callback(transaction.close)
        stack.push_async_callback(steps.close)
        producer = await transaction.init_producer(TRANSACTION_MS)
        outputs = [(topic, partition) for topic in world.topics.outputs for partition in range(2)]
        await transaction.add_partitions(*producer, [*outputs, (world.names.steps_topic(PIPELINE), 0)])
        await commit(transaction, steps, producer, world.maker.boundary(world.last_step + 1, producer, []))
        world.last_step += 1


async def work(world: World, settings: ClusterSettings) -> None:
    outputs = [KafkaOutput(name, topic=topic) for name, topic in world.maker.topics.items()]
    pipeline = Pipeline(PIPELINE, inputs=[KafkaInput("flights", topic=world.input)], outputs=outputs)
    queries = [QueryFacts(name, (name,), "append", (), brings_key=False) for name in world.maker.topics]
    spec = await submit(settings, pipeline, queries)
    async with AsyncExitStack() as stack:
        control = await KafkaControlLog.open(settings, PIPELINE)
        stack.push_async_callback(control.close)
        await control.append([NodeJoin(PIPELINE, 0, "u", "host", 1)])
        steps = KafkaStepsLog(settings, PIPELINE)
        stack.push_async_callback(steps.close)
        await steps.read_to_end()
        watcher = KafkaInputWatcher(settings, world.input, [0])
        stack.push_async_callback(watcher.close)
        ((seen,), _) = await anext(watcher.arrivals())
        assert seen.to == _RECORDS
        read = RangeReader(settings).read("flights", world.input, spec.inputs[0].topic_id, 0, 0, _RECORDS)
        assert sum(rows.num_rows for rows in await asyncio.to_thread(list, read)) == _RECORDS
        owner = KafkaTransaction(world.maker.settings, PIPELINE)
        stack.push_async_callback(owner.close)
        producer = await world.maker.begin(owner)
        mine = StepsMaker.__new__(StepsMaker)
        mine.settings, mine.topics = settings, world.maker.topics
        await asyncio.to_thread(mine.write, producer, 2, {"delays": {0: [b"a"]}, "totals": {0: [b"b"]}})
        await owner.init_producer(TRANSACTION_MS)


async def consume(world: World, settings: ClusterSettings) -> None:
    def first() -> None:
        with StepConsumer(PIPELINE, settings, from_step=1, timeout=HANG_S) as steps:
            assert {name: len(records) for name, records in next(iter(steps)).records.items()} == {
                "delays": 1,
                "totals": 1,
            }

    await asyncio.to_thread(first)


async def view(world: World, settings: ClusterSettings) -> None:
    assert (await definition(settings, PIPELINE)).pipeline == PIPELINE
    steps = KafkaStepsLog(settings, PIPELINE)
    try:
        assert await steps.read_to_end()
    finally:
        await steps.close()


async def operate(world: World, settings: ClusterSettings) -> None:
    await view(world, settings)
    with pytest.raises(RetriableError, match="no coordinator has acted on it"):
        await ask_mode(settings, PIPELINE, DesiredMode.PAUSED, timeout_s=0.1)
    try:
        await ask_skip(settings, PIPELINE, ("flights", 0, 1), "me")
    except AccessError:
        raise
    except KcontrolError as refused:
        assert "no coordinator has looked after it yet" in str(refused)  # noqa: PT017 - another kind is the caller's to expect


async def replay(world: World, settings: ClusterSettings) -> None:
    await view(world, settings)
    read = RangeReader(settings).read(
        "flights", world.input, world.maker.spec.inputs[0].topic_id, 0, 0, _RECORDS
    )
    assert await asyncio.to_thread(list, read)


JOBS: dict[Role, Callable] = {
    Role.COORDINATOR: coordinate,
    Role.NODE: work,
    Role.CONSUMER: consume,
    Role.VIEWER: view,
    Role.OPERATOR: operate,
    Role.REPLAYER: replay,
}


def run(world: World, role: Role, settings: ClusterSettings) -> None:
    asyncio.run(asyncio.wait_for(JOBS[role](world, settings), _DEADLINE_S))


# --- tests --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", Role)
def test_a_role_works_with_exactly_what_is_listed(world: World, role: Role) -> None:
    user = world.user(role)
    run(world, role, world.settings(user))
    expected = granted(need.right for need in world.needs(role))
    eventually(
        lambda: world.secured.used(user) >= expected, f"all of {expected - world.secured.used(user)} was used"
    )
    assert world.secured.used(user) == expected


@dataclass(frozen=True)
class Missing:
    """One operation that a role is not granted."""

    role: Role
    index: int
    operation: Operation

    def __str__(self) -> str:
        return f"{self.role}-{self.index}-{self.operation}"


def _each() -> list[Missing]:
    """Names and counts of topics are as in `World`: two outputs, one input."""
    topics = Topics(("in",), ("out-1", "out-2"))
    return [
        Missing(role, index, operation)
        for role in Role
        for index, need in enumerate(
            each for each in needs(role, Names(), PIPELINE, topics) if not each.optional
        )
        for operation in need.right.operations
    ]


@pytest.fixture(scope="module")
def lacking(world: World) -> dict[Missing, str]:
    """By what they miss, users who have all the rest of their role: made at once, for each alone would be waited for."""
    users = {missing: world.secured.unique(missing.role.value) for missing in _each()}
    world.secured.add_users(*users.values())
    rights = {user: world.rights_but(each.role, each.index, each.operation) for each, user in users.items()}
    world.secured.grant(rights)
    return users


@pytest.mark.parametrize("missing", _each(), ids=str)
def test_a_right_that_is_missing_is_named_with_what_grants_it(
    world: World, lacking: dict[Missing, str], missing: Missing
) -> None:
    right: Right = world.needs(missing.role)[missing.index].right
    user = lacking[missing]
    with pytest.raises(AccessError) as raised:
        run(world, missing.role, world.settings(user))
    said = str(raised.value)
    # A topic that may not even be described is said to need all that is wanted of it: what
    # of it is granted can't be seen.
    named = rf"does not allow User:{user} the operation (\w+ and )*{missing.operation.value}( and \w+)* on {right.resource}\. "
    assert re.search(named, said), said
    options = rf"--allow-principal User:{user} .*--operation {missing.operation.value} .*--{right.kind.value} {right.name}$"
    assert re.search(options, said), said
    assert "marker" not in said


@pytest.mark.parametrize("role", [Role.COORDINATOR, Role.NODE])
def test_topics_are_made_only_by_who_may(world: World, secured: SecuredBroker, role: Role) -> None:
    prefix = secured.unique("young")
    settings, user = secured.admin_settings(prefix), secured.unique(role.value)
    secured.add_users(user)
    found = needs(role, settings.names(), PIPELINE, world.topics)
    pipeline = None if role is Role.COORDINATOR else PIPELINE
    if pipeline is not None:
        ensure_topics(settings)
    secured.grant({user: [need.right for need in found if not need.optional]})
    name = settings.names().control_topic() if pipeline is None else settings.names().steps_topic(pipeline)
    with pytest.raises(AccessError, match=f"the operation Create on topic '{name}'"):
        ensure_topics(secured.of(user, prefix), pipeline)
    secured.grant({user: [need.right for need in found if need.right.name == name]})
    ensure_topics(secured.of(user, prefix), pipeline)


def test_a_log_of_steps_is_deleted_only_by_who_may_and_a_refused_deletion_can_be_completed(
    secured: SecuredBroker,
) -> None:
    world = World(secured)
    user, steps = world.user(Role.OPERATOR), world.names.steps_topic(PIPELINE)
    settings = world.settings(user)
    every = needs(Role.OPERATOR, world.names, PIPELINE, world.topics)
    (deletes,) = [need.right for need in every if Operation.DELETE in need.right.operations]
    secured.grant({user: [replace(deletes, operations=(Operation.DESCRIBE_CONFIGS,))]})
    eventually(
        lambda: asyncio.run(look(settings, PIPELINE)).steps_topic == steps,
        "the log of steps can be looked at",
    )
    with pytest.raises(
        AccessError, match=f"User:{user} the operation Delete on topic '{steps}'.*--operation Delete"
    ):
        asyncio.run(delete(settings, asyncio.run(look(settings, PIPELINE))))
    secured.grant({user: [deletes]})
    asyncio.run(delete(settings, asyncio.run(look(settings, PIPELINE))))
    with pytest.raises(NotFoundError, match="there is no pipeline"):
        asyncio.run(look(settings, PIPELINE))


def test_safety_is_looked_at_as_far_as_rights_go_and_the_rest_is_said(world: World, tmp_path: Path) -> None:
    user, spec = world.user(Role.VIEWER), world.maker.spec
    settings = world.settings(user)
    names = {
        *world.topics.outputs,
        world.input,
        world.names.control_topic(),
        world.names.steps_topic(PIPELINE),
        TRANSACTIONS,
    }
    said = safety_now(settings, spec, HANG_S).sentences
    for name in names:
        assert any(f"'{name}'" in sentence and "can't be looked at" in sentence for sentence in said), (
            name,
            said,
        )
    shown = Desk(tmp_path / "desk", settings).command("status", PIPELINE, "--json")
    assert shown.returncode == 0, shown.stderr
    status = json.loads(shown.stdout)
    assert status["step"] == world.last_step
    assert (status["unsafe"], status["unsafe_age_ms"]) == (list(said), 0)

    optional = [
        need.right for need in needs(Role.VIEWER, world.names, PIPELINE, world.topics) if need.optional
    ]
    world.secured.grant({user: [*[need.right for need in world.needs(Role.VIEWER)], *optional]})
    eventually(
        lambda: not any("looked at" in each for each in safety_now(settings, spec, HANG_S).sentences),
        "all can be looked at",
    )
    assert {
        (kind, name) for kind, name, operation in world.secured.used(user) if operation == "DESCRIBE_CONFIGS"
    } == {("TOPIC", name) for name in names}


async def _until_the_end(arrivals: AsyncIterator[object]) -> None:
    async for _ in arrivals:
        pass


def test_a_right_that_is_taken_away_ends_a_watcher_at_once(world: World, secured: SecuredBroker) -> None:
    user = world.user(Role.NODE)

    async def watch() -> None:
        watcher = KafkaInputWatcher(world.settings(user), world.input, [0])
        arrivals = watcher.arrivals()
        try:
            await anext(arrivals)
            right = next(need.right for need in world.needs(Role.NODE) if need.right.name == world.input)
            await asyncio.to_thread(secured.revoke, user, replace(right, operations=(Operation.READ,)))
            with pytest.raises(
                AccessError, match=f"watching an input: .*User:{user} the operation Read on topic"
            ):
                await _until_the_end(arrivals)
        finally:
            await arrivals.aclose()
            await watcher.close()

    asyncio.run(asyncio.wait_for(watch(), _DEADLINE_S))
