"""`/v1/regions` and the metrics of regions: what their logs say, of a server that is told of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

import httpx
from prometheus_client import CollectorRegistry

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.http.plane import Plane
from kcontrol.adapters.metrics.regions import register_regions
from kcontrol.core.regions.leading import RegionSeen, began, next_change
from kcontrol.core.regions.log_view import RegionLogView, read_on
from kcontrol.core.regions.model import RegionSettings, RegionState, Trigger
from kcontrol.core.regions.participants import ParticipantSaid
from kcontrol.core.regions.records import (
    CutOffset,
    CutPipeline,
    RegionAsked,
    RegionBeat,
    RegionCut,
    RegionDefinition,
    RegionRecord,
    RegionRequest,
    RegionSaid,
    SaidKind,
)
from kcontrol.core.regions.value import WrittenBy, change_of
from kcontrol.requests.region_rollbacks import (
    AbandonOrder,
    BackFacts,
    RollbackFacts,
    RollbackOrder,
    no_rollbacks,
)
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.cluster_projection import NotReadyError
from kcontrol.views.regions_facts import RegionSight, RegionsSeen
from tests.support.shared_api import api_of

DEFINED = RegionDefinition("orders", RegionSettings("orders", ("a", "b")), "ana", 1, "d1")
WELL = RegionSeen(lives={"a": 3, "b": 4}, healthy=True, in_line=frozenset("ab"))


def seen() -> RegionsSeen:
    """One region that has come to cut 1 in two seconds and is being drained again; one that nobody looks after."""
    led, at_ms = began(DEFINED), 1_000
    records: list[RegionRecord] = []
    for number in range(1, 100):
        records.append(change_of(led.value, led.happened, WrittenBy("c", at_ms, number)))
        region = led.value.region
        came_to = region.current_seq_id if region.current_seq_id == 1 else 0
        now = replace(WELL, came_to=came_to, alarm=region.timer)
        if region.state == "draining":
            now = replace(now, alarm=-1)
        following = next_change(led.value, DEFINED, now)
        if following is None:
            break
        at_ms += 1_000
        led = following
    stood = (CutOffset("in", 0, 90),)
    cut = RegionCut("orders", 1, 9_000, (CutPipeline("a", 41, stood, ()), CutPipeline("b", 7, (), ())))
    view = read_on(
        RegionLogView(), [*records, cut, RegionBeat("orders", "c", 9, 99_000, ("b is late",), starts=("a",))]
    )
    idle = replace(DEFINED, region="idle", settings=replace(DEFINED.settings, region="idle"))
    return {"orders": RegionSight(DEFINED, view), "idle": RegionSight(idle)}


class Server:
    """One for all tests: to describe itself takes it a while."""

    def __init__(self) -> None:
        self.found: RegionsSeen | None = None
        self.asked: list[Any] = []
        self.news: RegionsSeen | None = None
        self.waited: list[float] = []
        nobody = ClusterSettings(bootstrap_servers="127.0.0.1:1")
        plane = Plane(
            *(nobody, cast(Any, None), SystemClock(), CollectorRegistry()),
            regions=self._regions,
            until_regions=self._until,
            ask_region=self._ask,
            rollbacks=self._roll_back,
        )
        self.api = api_of(plane)

    def _regions(self) -> RegionsSeen:
        if self.found is None:
            raise NotReadyError("not read")
        return self.found

    async def _until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """As whoever follows them does: the news comes while it is waited for."""
        self.waited.append(timeout_s)
        if not condition() and self.news is not None:
            self.found = self.news
        return condition()

    async def _ask(self, record: RegionAsked) -> int:
        self.asked.append(record)
        return OFFSET

    async def _roll_back(self, order: RollbackOrder | AbandonOrder) -> RollbackFacts:
        self.asked.append(order)
        if order.to_cut == NO_CUT:
            return await no_rollbacks(order)
        if isinstance(order, AbandonOrder):
            return RollbackFacts(order.region, order.to_cut, 7, "q2", ())
        one = BackFacts("a", 41, 44, {"out": 6}, 2, ("other",))
        return RollbackFacts(order.region, order.to_cut, 7, "" if order.only_plan else "q1", (one,))


CHANGE = 8
"""Number of the newest of `orders`."""
OFFSET = 20
"""Of what is written down."""
NO_CUT = 99


@lru_cache(maxsize=1)
def server() -> Server:
    return Server()


def ask(
    method: str,
    path: str,
    found: RegionsSeen | None = None,
    asked: list[Any] | None = None,
    body: object = None,
) -> Any:
    server().found, server().asked = found, [] if asked is None else asked

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(server().api)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.request(method, path, json=body)

    answer = asyncio.run(send())
    return answer.json() if answer.status_code in (200, 202) else answer.status_code


def test_a_region_is_told_as_its_log_says() -> None:
    told = ask("GET", "/v1/regions/orders", seen())
    assert (told["state"], told["last_completed"], told["next"]) == ("draining", 1, 2)
    assert (told["controller"], told["heard_ms"], told["waits_for"]) == ("c", 99_000, ["b is late"])
    assert told["starts"] == ["a"]
    telling = {"participant": False, "part": None, "told": "triggerDrain"}
    assert told["pipelines"] == [{"pipeline": name, **telling} for name in "ab"]
    idle, orders = ask("GET", "/v1/regions", seen())["regions"]
    assert (idle["region"], idle["state"], idle["controller"], idle["starts"]) == ("idle", None, "", [])
    assert orders == told
    (cut,) = ask("GET", "/v1/regions/orders/cuts?limit=5", seen())["cuts"]
    assert cut["steps"] == [{"pipeline": "a", "step": 41}, {"pipeline": "b", "step": 7}]
    whole = ask("GET", "/v1/regions/orders/cuts/1", seen())
    assert whole["pipelines"][0]["positions"] == [{"topic": "in", "partition": 0, "offset": 90}]
    assert ask("GET", "/v1/regions/orders/cuts/2", seen()) == 404


def test_a_region_is_told_as_it_was_defined() -> None:
    limits = {
        "period_ms": 1,
        "drain_timeout_ms": 2,
        "reset_timeout_ms": 3,
        "participant_lease_ms": 4,
        "keep_cuts": 5,
    }
    defined = replace(DEFINED, settings=replace(DEFINED.settings, **limits))
    told = ask("GET", "/v1/regions/orders", {"orders": RegionSight(defined)})
    assert {name: told[name] for name in limits} == limits


def test_what_is_asked_of_a_region_is_written_down() -> None:
    asked: list[RegionRequest] = []
    accepted = ask("POST", "/v1/regions/orders/drain?hold=true", seen(), asked)
    ask("POST", "/v1/regions/orders/reset?force=true", seen(), asked)
    ask("POST", "/v1/regions/orders/resume", seen(), asked)
    assert [(each.kind, each.hold, each.force) for each in asked] == [
        ("drain", True, False),
        ("reset", False, True),
        ("resume", False, False),
    ]
    assert accepted == {"region": "orders", "request_id": asked[0].request_id}


def test_members_are_told_what_is_so_and_may_ask() -> None:
    told = {
        **{"region": "orders", "notification": "triggerDrain", "seqId": 2, "retId": 0, "pendCkpt": 0},
        **{"lastCompleted": 1, "resetAttempt": -1, "life": 3, "version": CHANGE},
    }
    assert ask("GET", "/v1/consistentregion/pe/a/region/orders", seen()) == told
    every = ask("GET", "/v1/consistentregion/pe/a", seen())["regions"]
    assert told in every
    assert [one["notification"] for one in every if one["region"] == "idle"] == [None]
    asked: list[RegionRequest] = []
    path = "/v1/consistentregion/region/orders"
    ask("PUT", f"{path}/reset", seen(), asked, {"request": {"force": True}})
    assert [(each.kind, each.by, each.force) for each in asked] == [("reset", "REST", True)]
    assert ask("GET", "/v1/consistentregion/pe/none", seen()) == 404
    assert ask("GET", "/v1/consistentregion/pe/none/region/orders", seen()) == 404


def test_who_has_had_the_newest_change_waits_for_another_one() -> None:
    before = seen()
    newest = before["orders"].view.newest
    assert newest is not None
    changed = replace(newest, number=CHANGE + 1, state=RegionState.PROCESSING)
    view = read_on(before["orders"].view, [changed])
    server().news = {**before, "orders": replace(before["orders"], view=view)}
    paths = ("/v1/regions/orders", "/v1/consistentregion/pe/a/region/orders", "/v1/consistentregion/pe/a")
    try:
        for path, name in zip(paths, ("change", "version", "version"), strict=True):
            server().waited.clear()
            assert ask("GET", f"{path}?wait_s=20&after={CHANGE}", before)[name] == CHANGE + 1, path
            assert server().waited == [20]
            assert ask("GET", f"{path}?wait_s=20", before)[name] == CHANGE, "whoever has had none has news"
            assert ask("GET", f"{path}?after={CHANGE}", before)[name] == CHANGE, "nobody waits unasked"
            assert len(server().waited) == 2
            assert ask("GET", f"{path}?wait_s=21", before) == 422
    finally:
        server().news = None


def test_a_member_that_may_asks_for_a_drain_and_others_are_refused() -> None:
    path, asked = "/v1/consistentregion/region/orders/drain", list[RegionRequest]()
    settings = replace(DEFINED.settings, trigger=Trigger.OPERATOR_DRIVEN, triggers=("a",))
    orders = replace(seen()["orders"], definition=replace(DEFINED, settings=settings))
    driven = {"orders": orders}

    def wants(member: str, number: object, found: RegionsSeen = driven) -> Any:
        return ask("PUT", path, found, asked, {"request": {"operator": member, "seqId": number}})

    assert wants("a", 1)["rejected"] == "the next drain is number 2"
    for refused in ("b", "ana"):
        assert wants(refused, 2) == 409
    assert wants("a", 2, seen()) == 409, "it is periodic"
    assert wants("a", "2") == 422
    assert asked == []
    assert wants("a", 2)["rejected"] == ""
    assert [(each.kind, each.member, each.by) for each in asked] == [("drain", "a", "a")]
    told = ask("GET", "/v1/regions/orders", driven)
    assert (told["trigger"], told["triggers"]) == ("operator_driven", ["a"])


def test_a_rollback_is_planned_and_asked_for_as_it_was_wanted() -> None:
    path, asked = "/v1/regions/orders/rollback", list[RollbackOrder]()
    wanted = {"to_cut": 1, "why": "wrong rate", "by": "ana", "leave_behind": ["other"], "as_of": 7}
    planned = ask("POST", path, seen(), asked, {**wanted, "plan": True})
    made = ask("POST", path, seen(), asked, wanted)
    one = {"pipeline": "a", "to_step": 41, "void_to": 44, "void_records": {"out": 6}, "rerun_steps": 2}
    assert planned["pipelines"] == [{**one, "left_behind": ["other"], "unseen": []}]
    assert (planned["as_of"], planned["request_id"], made["request_id"]) == (7, "", "q1")
    order = RollbackOrder("orders", 1, "wrong rate", "ana", ("other",), 7)
    assert asked == [replace(order, only_plan=True), order]
    assert ask("POST", path, seen(), [], {"to_cut": NO_CUT}) == 409, "a server that is not allowed to"
    assert ask("POST", path, seen(), [], {"to_cut": 0}) == 422
    assert ask("POST", path, seen(), [], {"to_cut": 1, "cut": 2}) == 422
    assert ask("POST", "/v1/regions/none/rollback", seen(), [], wanted) == 404


def test_the_rollback_that_is_meant_is_given_up() -> None:
    path, asked = "/v1/regions/orders/rollback/abandon", list[AbandonOrder]()
    wanted = {"to_cut": 1, "as_of": 9, "why": "totals is gone", "by": "ana"}
    assert ask("POST", path, seen(), asked, wanted) == {"region": "orders", "to_cut": 1, "request_id": "q2"}
    ask("POST", path, seen(), asked, {"to_cut": 1})
    assert asked == [
        AbandonOrder("orders", 1, "totals is gone", "ana", 9),
        AbandonOrder("orders", 1, "", "REST", None),
    ]
    assert ask("POST", path, seen(), [], {"to_cut": NO_CUT}) == 409, "a server that is not allowed to"
    assert ask("POST", path, seen(), [], {}) == 422, "whichever is under way is nobody's wish"
    assert ask("POST", "/v1/regions/none/rollback/abandon", seen(), [], wanted) == 404


def test_participants_speak_for_themselves() -> None:
    """What one says is written down as it says it; whoever was replaced is told so, and nothing of it is kept."""
    settings = replace(DEFINED.settings, members=("a", "b", "mq"), participants=("mq",))
    said = ParticipantSaid(9, RegionSaid("orders", "mq", "p0", 7, SaidKind.JOINED, 1))
    orders = replace(seen()["orders"], definition=replace(DEFINED, settings=settings), said={"mq": said})
    regions = {"orders": orders}
    written: list[RegionSaid] = []

    def say(what: str, **more: object) -> Any:
        path = f"/v1/consistentregion/region/orders/pe/mq/{what}"
        return ask("PUT", path, regions, written, {"progress": {"process": "p1", **more}})

    assert say("join", hint="127.0.0.1:4000") == {"region": "orders", "life": OFFSET, "rejected": ""}
    for what in ("blockingcheckpoint", "checkpoint"):
        assert say(what, life=7, seqId=2)["life"] == 7
    say("reset", life=7, seqId=1, resetAttempt=3)
    told = [(one.kind, one.life, one.seq_id, one.reset_attempt, one.hint) for one in written]
    assert told == [
        (SaidKind.JOINED, -1, 0, 0, "127.0.0.1:4000"),
        (SaidKind.BLOCKING_CHECKPOINT_DONE, 7, 2, 0, ""),
        (SaidKind.CHECKPOINT_DONE, 7, 2, 0, ""),
        (SaidKind.RESET_DONE, 7, 1, 3, ""),
    ]
    assert {(one.region, one.member, one.process) for one in written} == {("orders", "mq", "p1")}
    written.clear()
    assert "another process" in say("checkpoint", life=6, seqId=2)["rejected"]
    assert "has not joined" in say("checkpoint", seqId=2)["rejected"]
    assert "join again" in say("checkpoint", life=OFFSET, seqId=2)["rejected"]
    written.clear()
    assert say("join", hint="localhost:4000") == 422
    assert say("join", life="7") == 422
    path = "/v1/consistentregion/region/orders/pe/a/checkpoint"
    assert ask("PUT", path, regions, written, {"progress": {"process": "p1", "life": 3}}) == 404
    assert written == []


def test_what_there_is_not() -> None:
    assert ask("GET", "/v1/regions", {}) == {"regions": []}
    assert ask("GET", "/v1/regions") == 503
    assert ask("GET", "/v1/regions/none", seen()) == 404
    assert ask("POST", "/v1/regions/none/drain", seen(), []) == 404
    assert ask("GET", "/v1/regions/orders/cuts?limit=0", seen()) == 422


def test_metrics_are_those_of_the_log() -> None:
    registry = CollectorRegistry()
    register_regions(registry, seen)

    def told(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"kcontrol_region_{name}", {"region": "orders", **labels})

    assert (told("state", state="draining"), told("state", state="processing")) == (1, 0)
    assert (told("state_number"), told("last_completed_id")) == (3, 1)
    assert (told("last_drain_id"), told("last_reset_id"), told("reset_attempts")) == (2, 0, 0)
    assert told("drain_seconds_average") == 2
    assert told("last_consistent_timestamp_seconds") == 7
    assert (told("reset_seconds_average"), told("last_reset_timestamp_seconds")) == (None, None)
    assert registry.get_sample_value("kcontrol_region_state_number", {"region": "idle"}) is None
