"""A reset works with what docs/howto/reset.md says that it takes, and says which right is missing when one is: nothing is
written then."""

from __future__ import annotations

import asyncio
import re

import pytest

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.admin.deliveries import DeliveryNotes
from kcontrol.adapters.kafka.admin.roles import Role
from kcontrol.adapters.kafka.client.rights import Operation, ResourceKind, Right, topic, transactional_id
from kcontrol.apps.leftovers import committed
from kcontrol.apps.reset import ResetPlan, plan_reset, reset_pipeline
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import StepBoundary
from kcontrol.errors import AccessError, ConfigurationError, TopicError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.deliveries import ToldDelivery
from tests.integration.kafka.steps_maker import PIPELINE
from tests.integration.security.test_rights import World
from tests.support.secured import SecuredBroker


@pytest.fixture(scope="module")
def world(secured: SecuredBroker) -> World:
    return World(secured)


def taken(world: World) -> dict[str, Right]:
    """By what it is for."""
    return {
        "definition": topic(world.names.control_topic(), Operation.READ),
        "steps": topic(world.names.steps_topic(PIPELINE), Operation.READ),
        "step": topic(world.names.steps_topic(PIPELINE), Operation.WRITE),
        "transaction": transactional_id(world.names.transactional_id(PIPELINE), Operation.WRITE),
        "input": topic(world.input, Operation.DESCRIBE),
        **{f"output {name}": topic(each, Operation.WRITE) for name, each in world.maker.topics.items()},
    }


MISSING = ("definition", "steps", "step", "transaction", "input", "output delays", "output totals")


@pytest.fixture(scope="module")
def lacking(world: World) -> dict[str, str]:
    """By what they miss, users who have all the rest: made at once, for each alone would be waited for."""
    users, rights = {each: world.secured.unique("resetter") for each in MISSING}, taken(world)
    assert set(rights) == set(MISSING)
    world.secured.add_users(*users.values())
    world.secured.grant(
        {user: [right for name, right in rights.items() if name != each] for each, user in users.items()}
    )
    return users


def in_the_log(world: World) -> StepsView:
    return asyncio.run(committed(world.maker.settings, PIPELINE))


def one_step_more(world: World) -> None:
    """Later than a reset, whose time is the wall clock's."""
    world.last_step += 1
    world.maker.step(world.last_step, {}, now_ms=SystemClock().now_ms())


def reset(world: World, settings: ClusterSettings) -> StepBoundary:
    """Of the newest step."""

    async def plan_and_make() -> StepBoundary:
        plan = await plan_reset(settings, PIPELINE, world.last_step - 1, (), None)
        return await reset_pipeline(settings, plan, "", "ana")

    made = asyncio.run(plan_and_make())
    world.last_step = made.step
    return made


@pytest.mark.parametrize("missing", MISSING)
def test_a_right_that_is_missing_is_named_and_nothing_is_reset(
    world: World, lacking: dict[str, str], missing: str
) -> None:
    user, right = lacking[missing], taken(world)[missing]
    one_step_more(world)
    before = in_the_log(world)
    with pytest.raises((AccessError, TopicError)) as raised:
        reset(world, world.settings(user))
    [operation] = right.operations
    # A topic that is looked at alone is said to need no more than that.
    words = "Describe" if missing.startswith("output") else operation.value
    named = rf"does not allow User:{user} the operation (\w+ and )*{words}( and \w+)* on {right.resource}\. "
    assert re.search(named, str(raised.value)), str(raised.value)
    assert in_the_log(world) == before
    world.secured.grant({user: [right]})
    assert reset(world, world.settings(user)).reset is not None


def test_a_coordinator_who_may_see_the_inputs_makes_one(world: World) -> None:
    user = world.user(Role.COORDINATOR)
    world.secured.grant({user: [topic(world.input, Operation.DESCRIBE)]})
    one_step_more(world)
    assert reset(world, world.settings(user)).reset is not None


def test_deliveries_are_seen_by_who_may_describe_their_groups_and_by_nobody_else(world: World) -> None:
    secured, names = world.secured, world.names
    user = secured.unique("resetter")
    secured.add_users(user)
    secured.grant({user: [*taken(world).values()]})
    one_step_more(world)
    told = ToldDelivery("delays", "t", "delta", "exactly_once", "stopped", world.last_step, 0.0, "", 1)
    DeliveryNotes(world.maker.settings, PIPELINE).tell(told)

    def plan() -> ResetPlan:
        return asyncio.run(plan_reset(world.settings(user), PIPELINE, world.last_step - 1, (), None))

    assert plan().readers == ()
    groups = Right(ResourceKind.GROUP, names.delivery_group(PIPELINE), (Operation.DESCRIBE,), prefixed=True)
    secured.grant({user: [groups]})
    with pytest.raises(ConfigurationError, match="--leave-behind deliveries"):
        plan()
