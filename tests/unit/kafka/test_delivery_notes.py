"""What deliveries write down of themselves in consumer groups, and what a server remembers of it, with a Kafka that is
played."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from kcontrol.adapters.kafka.admin import kept_deliveries as module
from kcontrol.adapters.kafka.admin.deliveries import MAX_TEXT_BYTES, DeliveryNotes
from kcontrol.adapters.kafka.admin.group_offsets import KeptOffset
from kcontrol.adapters.kafka.admin.kept_deliveries import KEPT_S, KeptDeliveries
from kcontrol.errors import AccessError, ClusterError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.deliveries import ToldDelivery
from tests.support.patience import HANG_S
from tests.unit.views.test_deliveries import TOLD, told

SETTINGS = ClusterSettings(bootstrap_servers="127.0.0.1:1")
GROUP = "kcontrol.p.deliver.totals.totals"


@dataclass
class PlayedOffsets:
    """Groups with what is kept for them."""

    kept: dict[str, KeptOffset | None] = field(default_factory=dict)
    error: ClusterError | None = None

    def groups(self, beginning: str) -> list[str]:
        return sorted(each for each in self.kept if each.startswith(beginning))

    def read(self, group: str) -> KeptOffset | None:
        if self.error is not None:
            raise self.error
        return self.kept.get(group)

    def read_all(self, groups: Sequence[str]) -> list[KeptOffset | None]:
        return [self.read(each) for each in groups]

    def write(self, group: str, kept: KeptOffset) -> None:
        self.kept[group] = kept

    def say(self, text: str) -> None:
        """In place of what was told."""
        self.kept[GROUP] = replace(self.told(), text=text)

    def told(self) -> KeptOffset:
        kept = self.kept[GROUP]
        assert kept is not None
        return kept


@pytest.fixture
def offsets(monkeypatch: pytest.MonkeyPatch) -> PlayedOffsets:
    played = PlayedOffsets()
    monkeypatch.setattr("kcontrol.adapters.kafka.admin.deliveries.GroupOffsets", lambda *_: played)
    return played


@pytest.fixture
def notes(offsets: PlayedOffsets) -> DeliveryNotes:
    return DeliveryNotes(SETTINGS, "p")


def test_what_is_told_is_read_with_all_who_stand_by(notes: DeliveryNotes, offsets: PlayedOffsets) -> None:
    offsets.kept = {"kcontrol.q.deliver.a.b": None, "others": None}
    notes.tell(told("b", "standing_by", step=-1))
    notes.tell(TOLD)
    notes.tell(told("c", "standing_by", step=-1))
    (found,) = notes.read()
    assert replace(found, standing_by=()) == TOLD
    assert [each.who for each in found.standing_by] == ["b", "c"]
    assert offsets.told().offset == TOLD.step + 1


def test_what_an_older_or_a_newer_version_says_is_read(notes: DeliveryNotes, offsets: PlayedOffsets) -> None:
    notes.tell(TOLD)
    said = json.loads(offsets.told().text)
    for name in ("address", "since_ms", "who", "standing_by"):
        del said[name]
    offsets.say(json.dumps({**said, "more": 1}))
    (found,) = notes.read()
    assert found == replace(TOLD, address="", since_ms=0, who="")


@pytest.mark.parametrize(
    "text", ["", "no JSON", "[]", "7", "{}", '{"standing_by": [1]}', '{"standing_by": 3}']
)
def test_what_somebody_else_has_written_is_none_and_is_written_over(
    notes: DeliveryNotes, offsets: PlayedOffsets, text: str
) -> None:
    notes.tell(TOLD)
    offsets.say(text)
    assert notes.read() == []
    notes.tell(TOLD)
    assert notes.read() == [TOLD]


def test_a_text_is_never_longer_than_a_broker_takes(notes: DeliveryNotes, offsets: PlayedOffsets) -> None:
    for number in range(20):
        notes.tell(told(f"{number}{'h' * 200}", "standing_by"))
    notes.tell(told("ü" * 200, "halted", reason="ß" * 1_000, address="ä" * 400, at_ms=TOLD.at_ms + 1))
    assert len(offsets.told().text.encode()) <= MAX_TEXT_BYTES
    (found,) = notes.read()
    assert found.state == "halted"
    assert found.reason.startswith("ß")


def test_of_too_many_it_is_said_how_many_are_left_out(notes: DeliveryNotes) -> None:
    for number in range(250):
        notes.tell(replace(TOLD, target=f"t{number:03}"))
    found, left_out = notes.look(100)
    assert ([found[0].target, found[-1].target], left_out) == (["t000", "t099"], 150)
    assert len(notes.read()) == 250


@pytest.mark.parametrize("kind", [ClusterError, AccessError])
def test_why_nothing_is_known_is_told_as_it_is(
    notes: DeliveryNotes, offsets: PlayedOffsets, kind: type[ClusterError]
) -> None:
    notes.tell(TOLD)
    offsets.error = kind("no right")
    with pytest.raises(ClusterError, match="deliveries of pipeline 'p' are not known: no right") as raised:
        notes.read()
    assert type(raised.value) is kind
    with pytest.raises(ClusterError, match="what the delivery tells was not taken: no right"):
        notes.tell(TOLD)


class Kept:
    """Remembered deliveries, and a Kafka that says what is next in `answers`: what is told, or why not."""

    def __init__(self, wait_s: float = HANG_S) -> None:
        self.now_s, self.asked, self.answers = 100.0, list[str](), list[Any]()
        self.gate = threading.Event()
        self.gate.set()
        self.kept = KeptDeliveries(SETTINGS, self.look, lambda: self.now_s, wait_s)

    def look(self, pipeline: str) -> tuple[list[ToldDelivery], int]:
        self.asked.append(pipeline)
        answer = self.answers.pop(0)
        self.gate.wait(HANG_S)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]


def test_kafka_is_asked_no_more_often_than_said_and_an_old_answer_says_how_old_it_is() -> None:
    async def scenario() -> None:
        world = Kept()
        world.answers = [([TOLD], 0), ClusterError("no broker"), ValueError("a bug"), ([], 3)]
        first = await world.kept.of("p")
        assert (list(first.told), first.age_ms, first.unknown) == ([TOLD], 0, "")
        world.now_s += KEPT_S - 1
        assert (await world.kept.of("p")).age_ms == 4_000
        assert world.asked == ["p"]
        world.now_s += 1
        old = await world.kept.of("p")
        assert (list(old.told), old.age_ms) == ([TOLD], 5_000)
        assert old.unknown == "nothing newer is known: no broker"
        world.now_s += KEPT_S
        assert "error that the log of this process shows" in (await world.kept.of("p")).unknown
        world.now_s += KEPT_S
        again = await world.kept.of("p")
        assert (list(again.told), again.age_ms) == ([], 0)
        assert again.unknown == "3 more deliveries are not told of"

    asyncio.run(scenario())


def test_who_has_never_answered_is_said_to_be_so() -> None:
    async def scenario() -> None:
        world = Kept()
        world.answers = [ClusterError("no broker")]
        found = await world.kept.of("p")
        assert (found.told, found.age_ms, found.unknown) == ((), None, "nothing is known: no broker")

    asyncio.run(scenario())


def test_a_kafka_that_hangs_holds_up_nobody_and_is_asked_once() -> None:
    async def scenario() -> None:
        world = Kept(wait_s=0.0)
        world.gate.clear()
        world.answers = [([TOLD], 0)]
        await world.kept.of("p")
        world.now_s += 2 * KEPT_S
        hung = await world.kept.of("p")
        assert hung.age_ms is None
        assert hung.unknown == "Kafka was asked 10 s ago and has not answered yet"
        world.gate.set()
        # As if it had only just been asked: now who asks waits for it.
        world.now_s -= HANG_S
        assert list((await world.kept.of("p")).told) == [TOLD]
        assert world.asked == ["p"]
        await world.kept.close()

    asyncio.run(scenario())


def test_whoever_closes_it_does_not_wait_for_a_kafka_that_hangs() -> None:
    async def scenario() -> None:
        world = Kept(wait_s=0.0)
        world.gate.clear()
        world.answers = [([TOLD], 0)]
        await world.kept.of("p")
        await world.kept.close()
        world.gate.set()

    asyncio.run(scenario())


def test_the_pipelines_that_were_asked_for_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PIPELINES", 2)

    async def scenario() -> None:
        world = Kept()
        world.answers = [([TOLD], 0)] * 5
        for name in ("p", "q", "p", "r", "p", "q"):
            await world.kept.of(name)
        assert world.asked == ["p", "q", "r", "q"]

    asyncio.run(scenario())
