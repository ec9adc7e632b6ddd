"""A rollback that a resource asks for is begun at most once, and its status tells the truth, whoever is killed when."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from kcontrol.apps.kubernetes.rollbacks import RollbacksAsked
from kcontrol.core.kubernetes.abandons import abandon_status
from kcontrol.core.kubernetes.conditions import status_with
from kcontrol.core.kubernetes.regions import request_id_of
from kcontrol.core.kubernetes.resources import REGION
from kcontrol.core.kubernetes.rollbacks import (
    RollbackSaid,
    RollbackStage,
    rollback_before,
    rollback_in_log,
    rollback_status,
)
from kcontrol.core.regions.leading import RollbackChecked, is_to_be_checked, next_change, taken_over
from kcontrol.core.regions.log_view import RegionLogView, read_on
from kcontrol.core.regions.records import (
    RegionEventKind,
    RegionHappening,
    RegionOutcome,
    RegionRequest,
    RegionRequestKind,
)
from kcontrol.core.regions.value import RegionValue, WrittenBy, change_of
from kcontrol.errors import ConfigurationError, RetriableError
from kcontrol.requests.record import NotNowError
from kcontrol.requests.region_rollbacks import (
    AbandonOrder,
    RollbackFacts,
    RollbackOrder,
    no_rollbacks,
    rollback_meant,
)
from tests.support.dice import seeded
from tests.unit.core.regions.test_leading import DEFINED, WELL, cut_of, with_cuts
from tests.unit.kubernetes.resources import resource, schema_of

KIND = RegionRequestKind.ROLLBACK
NOW = "2026-03-01T00:00:00Z"
FIRST = 8
"""Number of the newest change when the rollback was wished for."""
ENDED = (RollbackStage.DONE, RollbackStage.REFUSED, RollbackStage.SUPERSEDED)


def region(name: str = "bad-rate", to_cut: int = 1, as_of: int = FIRST, **more: Any) -> dict[str, Any]:
    wish = {"id": name, "toCut": to_cut, "asOf": as_of, **more}
    return resource(REGION, "orders", {"pipelines": ["a", "b"], "rollbackRequest": wish})


def request_id(of: dict[str, Any]) -> str:
    return request_id_of(of, KIND, of["spec"]["rollbackRequest"]["id"])


@dataclass
class World:
    """A region whose pipelines were stopped, its controller, and who plans rollbacks of it as a server does."""

    value: RegionValue = field(default_factory=with_cuts)
    view: RegionLogView = field(default_factory=RegionLogView)
    newest: RegionRequest | None = None
    back: set[str] = field(default_factory=set)
    led_from: int = 1
    refuses: str = ""
    fault: Callable[[], Exception | None] = lambda: None

    def __post_init__(self) -> None:
        self.write(self.value, RegionHappening(RegionEventKind.HEALTH_SEEN), FIRST)

    @property
    def number(self) -> int:
        return max(self.view.changes)

    def write(self, value: RegionValue, happened: RegionHappening, number: int | None = None) -> None:
        by = WrittenBy("c", 1, number or self.number + 1)
        self.value, self.view = value, read_on(self.view, [change_of(value, happened, by)])

    def ask(self, request_id: str, to_cut: int, by: str, gives_up: str = "") -> None:
        self.newest = RegionRequest(
            "orders", KIND, by, 1, request_id, to_cut=to_cut, as_of=self.number, gives_up=gives_up
        )

    async def roll_back(self, order: RollbackOrder | AbandonOrder) -> RollbackFacts:
        """The port."""
        if isinstance(order, AbandonOrder):
            meant = rollback_meant("orders", self.view, order.to_cut, order.as_of).request_id
            self.ask(order.request_id, 0, order.by, gives_up=meant)
            return RollbackFacts("orders", order.to_cut, self.number, order.request_id, ())
        if order.as_of not in (None, self.number):
            raise NotNowError(f"region 'orders' has come to change {self.number}")
        await asyncio.sleep(0)
        if self.refuses:
            raise ConfigurationError(self.refuses)
        if (fault := self.fault()) is not None:
            raise fault
        self.newest = RegionRequest(
            *("orders", KIND, order.by, 1, order.request_id),
            to_cut=order.to_cut,
            as_of=self.number,
        )
        if (fault := self.fault()) is not None:
            raise fault
        return RollbackFacts("orders", order.to_cut, self.number, order.request_id, ())

    def led(self) -> bool:
        """The controller's next change, if there is one."""
        rollback, wanted = self.value.rollback, {} if self.newest is None else {KIND: self.newest}
        seen = replace(WELL, healthy=False, requests=wanted, led_from=self.led_from)
        seen = replace(seen, back=("" if rollback is None else rollback.request_id, frozenset(self.back)))
        if self.newest is not None:
            seen = replace(seen, cut=cut_of(self.newest.to_cut))
        checking = is_to_be_checked(self.value, seen)
        if checking is not None:
            seen = replace(seen, checked=RollbackChecked(checking.request_id, DEFINED.request_id))
        step = next_change(self.value, DEFINED, seen)
        if step is not None:
            self.write(step.value, step.happened)
            if step.happened.kind is RegionEventKind.ROLLBACK_ASKED:
                self.back = set()
        return step is not None

    def succeed(self) -> None:
        """Another controller is in charge."""
        self.led_from = self.number + 1
        step = taken_over(self.value, "c2")
        self.write(step.value, step.happened)

    def begun(self, request_id: str) -> list[int]:
        """The changes that began a rollback."""
        return [
            number
            for number, each in sorted(self.view.changes.items())
            if each.happened.kind is RegionEventKind.ROLLBACK_ASKED
            and each.rollback is not None
            and each.rollback.request_id == request_id
        ]


class Operator:
    """What it does for one resource, pass by pass. Whoever succeeds it knows the resource only."""

    def __init__(self, world: World, of: dict[str, Any]) -> None:
        self.world, self.of = world, of
        self.asked = RollbacksAsked(world.roll_back)

    async def look(self, *, writes: bool = True) -> RollbackSaid:
        said = await self.asked.said(self.of, self.world.view, self.world.newest)
        await asyncio.sleep(0)
        assert said is not None
        status, conditions = rollback_status(said)
        after = status_with(self.of, status, conditions, NOW)
        if writes and after is not None:
            self.of["status"] = after
        return said

    async def given_up(self) -> RollbackSaid:
        said = await self.asked.given_up(self.of, self.world.view, self.world.newest)
        assert said is not None
        after = status_with(self.of, abandon_status(said), (), NOW)
        if after is not None:
            self.of["status"] = after
        return said

    async def until_ended(self) -> RollbackSaid:
        for _ in range(50):
            said = await self.look()
            if said.stage in ENDED:
                return said
            self.world.led()
            if self.world.value.rollback is not None:
                self.world.back = {"a", "b"}
        raise AssertionError(f"it does not end: {said}")

    async def die(self) -> None:
        await self.asked.close()
        self.asked = RollbacksAsked(self.world.roll_back)


def test_it_is_looked_at_asked_for_and_carried_out() -> None:
    async def run() -> None:
        world = World()
        operator = Operator(world, region(why="wrong", leaveBehind=["other"]))
        stages = [(await operator.look()).stage, (await operator.look()).stage, (await operator.look()).stage]
        assert stages == [RollbackStage.CHECKING, RollbackStage.CHECKING, RollbackStage.ASKED]
        while world.led():
            pass
        assert (await operator.look()).stage is RollbackStage.UNDER_WAY
        said = await operator.until_ended()
        assert (said.stage, "back at cut 1" in said.why) == (RollbackStage.DONE, True)
        [condition] = operator.of["status"]["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == ("RolledBack", "True", "Done")
        assert condition["message"].startswith("bad-rate: all pipelines are back")
        world.view = RegionLogView()
        assert (await operator.look()).stage is RollbackStage.DONE, "though it is forgotten"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("of", "refuses", "why"),
    [
        (region(as_of=FIRST - 1), "", "has come to change 8"),
        (region(), "pipeline 'a' can't be reset while it works. Stop it first", "Stop it first"),
        (region(to_cut=9), "", "no cut that can be gone back to"),
    ],
)
def test_what_can_not_be_is_refused_and_not_tried_again(of: dict[str, Any], refuses: str, why: str) -> None:
    async def run() -> None:
        world = World(refuses=refuses)
        operator = Operator(world, of)
        said = await operator.until_ended()
        assert (said.stage, why in said.why) == (RollbackStage.REFUSED, True), said
        [condition] = operator.of["status"]["conditions"]
        assert (condition["status"], condition["reason"]) == ("False", "Refused")
        world.refuses = ""
        await operator.die()
        assert await operator.look() == said
        assert world.begun(request_id(of)) == []
        of["spec"]["rollbackRequest"] |= {"id": "again", "toCut": 1, "asOf": world.number}
        assert (await operator.until_ended()).stage is RollbackStage.DONE, "another id asks anew"

    asyncio.run(run())


def test_an_operator_that_takes_nothing_back_says_so() -> None:
    async def run() -> None:
        operator = Operator(World(), region())
        operator.asked = RollbacksAsked(no_rollbacks)
        said = await operator.until_ended()
        assert (said.stage, "--allow-resets" in said.why) == (RollbackStage.REFUSED, True)

    asyncio.run(run())


def test_what_can_not_be_looked_at_now_is_looked_at_again() -> None:
    async def run() -> None:
        faults: list[Exception | None] = [RetriableError("Kafka is away"), TimeoutError()]
        operator = Operator(World(fault=lambda: faults.pop(0) if faults else None), region())
        whys = [(await operator.look()).why for _ in range(6)]
        assert "Kafka is away; trying again" in whys
        assert any("could not be looked at within" in why for why in whys)
        assert (await operator.until_ended()).stage is RollbackStage.DONE

    asyncio.run(run())


def test_a_wish_that_is_withdrawn_is_not_asked_for() -> None:
    async def run() -> None:
        world, of = World(), region()
        operator = Operator(world, of)
        await operator.look()
        wish = of["spec"].pop("rollbackRequest")
        assert await operator.asked.said(of, world.view, world.newest) is None
        assert rollback_status(None) == ({}, ())
        await asyncio.sleep(0.01)
        assert world.newest is None
        of["spec"]["rollbackRequest"] = {**wish, "id": "other"}
        assert rollback_before(of) is None, "that was of another one"

    asyncio.run(run())


def test_somebody_else_has_asked_since() -> None:
    of = region()
    of["status"] = rollback_status(RollbackSaid("bad-rate", RollbackStage.ASKED))[0]
    world = World()
    world.ask("theirs", 1, "ana")
    said = rollback_in_log(of, world.view, world.newest)
    assert said is not None
    assert (said.stage, "ana has asked" in said.why) == (RollbackStage.SUPERSEDED, True)


def test_what_was_refused_on_the_way_does_not_hide_that_it_is_done() -> None:
    async def run() -> None:
        world = World()
        operator = Operator(world, region())
        while world.value.rollback is None:
            await operator.look()
            world.led()
        world.ask("younger", 2, "ana")
        assert world.led()
        assert world.value.answers[KIND].outcome is RegionOutcome.REFUSED
        said = await operator.until_ended()
        assert (said.stage, world.value.answers[KIND].request_id) == (RollbackStage.DONE, "younger")

    asyncio.run(run())


def test_one_that_somebody_gives_up_is_not_said_to_be_done() -> None:
    async def run() -> None:
        world = World()
        operator = Operator(world, region())
        while world.value.rollback is None:
            await operator.look()
            world.led()
        world.back = {"a"}
        world.ask("given-up", 0, "ana")
        while world.value.rollback is not None:
            world.led()
        said = await operator.look()
        assert (said.stage, said.why) == (
            RollbackStage.SUPERSEDED,
            "it was given up by ana; back at cut 1: a; not: b",
        )

    asyncio.run(run())


def test_a_resource_gives_up_the_rollback_that_was_seen_once_and_no_other() -> None:
    async def run() -> None:
        world = World()
        operator = Operator(world, region())
        assert await operator.asked.given_up(operator.of, world.view, world.newest) is None
        assert abandon_status(None) == {}
        while world.value.rollback is None:
            await operator.look()
            world.led()
        world.back = {"a"}
        while world.led():
            pass
        wish = {"id": "lost", "toCut": 1, "asOf": world.number, "why": "b is gone"}
        for wrong, why in (
            (
                {"id": "other-cut", "toCut": 2},
                "to cut 1, asked for by kubernetes kcontrol/orders, and not to cut 2",
            ),
            ({"id": "too-early", "asOf": FIRST}, "was not under way at its change 8"),
        ):
            operator.of["spec"]["abandonRequest"] = {**wish, **wrong}
            said = await operator.given_up()
            assert (said.stage, why in said.why) == (RollbackStage.REFUSED, True), said
            assert await operator.given_up() == said, "it is not tried again"
        operator.of["spec"]["abandonRequest"] = wish
        assert (await operator.given_up()).stage is RollbackStage.ASKED
        await operator.die()
        assert (await operator.given_up()).stage is RollbackStage.ASKED
        world.led()
        said = await operator.given_up()
        assert (said.stage, said.why) == (RollbackStage.DONE, "back at cut 1: a; not: b")
        assert (await operator.look()).stage is RollbackStage.SUPERSEDED
        while world.led():
            pass
        world.ask("anas", 1, "ana")
        while world.value.rollback is None:
            world.led()
        again = resource(REGION, "orders", operator.of["spec"], uid="made-anew")
        said = await Operator(world, again).given_up()
        assert (said.stage, "was not under way at its change" in said.why) == (RollbackStage.REFUSED, True)
        assert world.value.rollback is not None

    asyncio.run(run())


def test_the_resource_has_fields_for_a_rollback_that_is_given_up() -> None:
    schema = schema_of(REGION)["properties"]
    said = RollbackSaid("lost", RollbackStage.DONE, "back at cut 1: a; not: b")
    known = schema["status"]["properties"]["abandon"]["properties"]
    assert abandon_status(said)["abandon"].keys() == known.keys()
    assert set(known["stage"]["enum"]) == {RollbackStage.ASKED, RollbackStage.DONE, RollbackStage.REFUSED}
    assert schema["spec"]["properties"]["abandonRequest"]["required"] == ["id", "toCut", "asOf"]


def test_somebody_else_has_asked_before_it_was_given_up() -> None:
    async def run() -> None:
        world = World()
        operator = Operator(world, region())
        while world.value.rollback is None:
            await operator.look()
            world.led()
        operator.of["spec"]["abandonRequest"] = {"id": "lost", "toCut": 1, "asOf": world.number}
        await operator.given_up()
        world.ask("further", 1, "ana")
        said = await operator.given_up()
        assert (said.stage, "ana has asked" in said.why) == (RollbackStage.REFUSED, True)

    asyncio.run(run())


def test_it_is_begun_once_whoever_dies_when() -> None:
    dice = seeded()
    stages: dict[RollbackStage, int] = {}
    for number in range(300):
        said = asyncio.run(_schedule(random.Random(dice.randrange(1 << 32)), number))
        stages[said.stage] = stages.get(said.stage, 0) + 1
    assert set(stages) == set(ENDED), stages


async def _schedule(dice: random.Random, number: int) -> RollbackSaid:
    def fault() -> Exception | None:
        return RetriableError("away") if dice.random() < 0.2 else None

    world, of = World(fault=fault), region()
    operator, mine = Operator(world, of), request_id(of)
    others = dice.choice((0.0, 0.03))
    for _ in range(dice.randrange(5, 60)):
        await operator.look(writes=dice.random() < 0.7)
        if dice.random() < 0.2:
            await operator.die()
        if dice.random() < others:
            world.ask(f"other-{dice.random()}", dice.choice((1, 1, 2)), "ana")
        if dice.random() < others:
            world.succeed()
        if dice.random() < 0.5:
            world.led()
        if dice.random() < 0.3 and world.value.rollback is not None:
            world.back.add(dice.choice("ab"))
    said = await operator.until_ended()
    begun = world.begun(mine)
    assert len(begun) <= 1, (number, begun)
    cuts = [
        each.number
        for each in world.view.changes.values()
        if each.rollback and each.rollback.request_id == mine
    ]
    is_done = bool(cuts) and world.view.changes[max(cuts) + 1].rollback is None
    assert (said.stage is RollbackStage.DONE) == is_done, (number, said)
    if begun:
        again = region()
        again["metadata"]["uid"] = "made-anew"
        assert (await Operator(world, again).until_ended()).stage is RollbackStage.REFUSED, number
        assert world.begun(request_id(again)) == [], number
    return said
