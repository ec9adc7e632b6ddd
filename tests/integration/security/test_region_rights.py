"""Each role of a region works with exactly the rights that are listed, and says which one is missing when one is.

The region has one pipeline, whose coordinator is spoken for by the test: so a whole drain is made with a controller's rights.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

import pytest

from kcontrol import RegionConsumer
from kcontrol.adapters.kafka.admin.region_roles import RegionRole, member_needs, region_needs
from kcontrol.adapters.kafka.admin.roles import RoleRight, Topics
from kcontrol.adapters.kafka.client.rights import Operation, Right
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.apps.regions.asking import ask_region, region_reader, request_of
from kcontrol.apps.regions.controller import RegionController
from kcontrol.apps.regions.defining import apply_region
from kcontrol.core.model import Claim, Hold, HoldPhase, HoldStatus, PipelinePhase, Status
from kcontrol.core.regions.model import RegionSettings, Trigger
from kcontrol.core.regions.records import RegionRequestKind
from kcontrol.errors import AccessError, RetriableError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.names import Names
from tests.integration.kafka.steps_maker import PIPELINE
from tests.integration.security.test_rights import World
from tests.support.patience import HANG_S
from tests.support.secured import SecuredBroker, eventually, granted

_DEADLINE_S = HANG_S
REGION = RegionSettings("all", (PIPELINE,), Trigger.OPERATOR_DRIVEN, max_reset_attempts=1_000)


class RegionWorld(World):
    """With a region of its pipeline, which the admin has defined."""

    def __init__(self, secured: SecuredBroker) -> None:
        super().__init__(secured)
        admin = secured.admin_settings(self.prefix)
        assert asyncio.run(apply_region(admin, REGION, "admin"))

    def region_needs(self, role: RegionRole) -> list[RoleRight]:
        every = (
            *region_needs(role, self.names, REGION.region),
            *member_needs(role, self.names, PIPELINE, self.topics),
        )
        return [need for need in every if not need.optional]

    def region_user(self, role: RegionRole, without: tuple[int, Operation] | None = None) -> str:
        """A new user who has all that a role needs, but for one operation of one need."""
        name, rights = self.secured.unique(role.value), [need.right for need in self.region_needs(role)]
        if without is not None:
            index, operation = without
            kept = tuple(each for each in rights[index].operations if each is not operation)
            rights[index] = replace(rights[index], operations=kept)
        self.secured.add_users(name)
        self.secured.grant({name: rights})
        return name


@pytest.fixture(scope="module")
def world(secured: SecuredBroker) -> RegionWorld:
    return RegionWorld(secured)


# --- the Kafka side of each role ----------------------------------------------------------------------------


async def control(world: RegionWorld, settings: ClusterSettings) -> None:
    """A controller leads the region to a cut that the admin asks for."""
    admin = world.secured.admin_settings(world.prefix)
    controller = RegionController(settings)
    async with asyncio.TaskGroup() as group:
        led = group.create_task(controller.run(lambda: None))
        spoken = group.create_task(_speak(world, admin))
        request = request_of(REGION.region, RegionRequestKind.DRAIN, "admin")
        asked = group.create_task(ask_region(admin, request, _DEADLINE_S))
        await asyncio.wait({led, asked}, return_when=asyncio.FIRST_COMPLETED)
        spoken.cancel()
        controller.stop()


async def _speak(world: RegionWorld, admin: ClusterSettings) -> None:
    """As the pipeline's coordinator: it stands wherever it is held."""
    async with AsyncExitStack() as stack:
        control = await KafkaControlLog.open(admin, PIPELINE)
        stack.push_async_callback(control.close)
        logs = await stack.enter_async_context(pipeline_logs(admin, PIPELINE))
        await control.append([Claim(PIPELINE, "u", "host", 1)])
        while True:
            await logs.read()
            hold = logs.view.hold()
            said = None if hold is None else _noted(hold[1], logs.committed.step)
            await control.append([_status(logs.committed.step, logs.view.epoch, said)])
            await asyncio.sleep(0.2)


def _noted(hold: Hold, step: int) -> HoldStatus:
    if hold.released:
        return HoldStatus(hold.request_id, HoldPhase.RELEASED, 0)
    return HoldStatus(hold.request_id, HoldPhase.HELD, step)


def _status(step: int, epoch: int, hold: HoldStatus | None) -> Status:
    return Status(PIPELINE, epoch, PipelinePhase.RUNNING, step, "", (), 0, "", (), hold=hold)


async def operate(world: RegionWorld, settings: ClusterSettings) -> None:
    await view(world, settings)
    assert not await apply_region(settings, REGION, "me")
    with pytest.raises(RetriableError, match="stays asked for"):
        await ask_region(settings, request_of(REGION.region, RegionRequestKind.RESUME, "me"), 0.1)


async def view(world: RegionWorld, settings: ClusterSettings) -> None:
    async with region_reader(settings, REGION.region) as reader:
        await reader.look()
        assert reader.definition.settings == REGION
    with await asyncio.to_thread(RegionConsumer, REGION.region, settings, timeout=0.1) as cuts:
        await asyncio.to_thread(list, cuts)


JOBS: dict[RegionRole, Callable[[RegionWorld, ClusterSettings], Coroutine[Any, Any, None]]] = {
    RegionRole.CONTROLLER: control,
    RegionRole.OPERATOR: operate,
    RegionRole.VIEWER: view,
}


def run(world: RegionWorld, role: RegionRole, settings: ClusterSettings) -> None:
    asyncio.run(asyncio.wait_for(JOBS[role](world, settings), _DEADLINE_S))


# --- tests --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", RegionRole)
def test_a_role_of_a_region_works_with_exactly_what_is_listed(world: RegionWorld, role: RegionRole) -> None:
    user = world.region_user(role)
    run(world, role, world.settings(user))
    expected = granted(need.right for need in world.region_needs(role))
    eventually(
        lambda: world.secured.used(user) >= expected, f"all of {expected - world.secured.used(user)} was used"
    )
    assert world.secured.used(user) == expected


@dataclass(frozen=True)
class Missing:
    """One operation that a role is not granted."""

    role: RegionRole
    index: int
    operation: Operation

    def __str__(self) -> str:
        return f"{self.role}-{self.index}-{self.operation}"


def _each() -> list[Missing]:
    """Names and counts of topics are as in `World`: two outputs, one input."""
    topics = Topics(("in",), ("out-1", "out-2"))
    return [
        Missing(role, index, operation)
        for role in RegionRole
        for index, need in enumerate(
            each
            for each in (*region_needs(role, Names(), "all"), *member_needs(role, Names(), PIPELINE, topics))
            if not each.optional
        )
        for operation in need.right.operations
    ]


@pytest.mark.heavy
@pytest.mark.parametrize("missing", _each(), ids=str)
def test_a_right_of_a_region_that_is_missing_is_named(world: RegionWorld, missing: Missing) -> None:
    right: Right = world.region_needs(missing.role)[missing.index].right
    user = world.region_user(missing.role, (missing.index, missing.operation))
    # Of what is granted on a topic that may not be described nothing can be seen, so all that is wanted is named.
    with pytest.raises((AccessError, ExceptionGroup)) as raised:
        run(world, missing.role, world.settings(user))
    said = str(_access_error(raised.value))
    named = rf"does not allow User:{user} the operation (\w+ and )*{missing.operation.value}( and \w+)* on {right.resource}\. "
    assert re.search(named, said), said


def _access_error(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        (error,) = error.exceptions
    assert isinstance(error, AccessError), error
    return error
