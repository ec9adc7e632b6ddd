"""What may be said of a pipeline when its coordinator or a node falls silent, whatever
the clocks of their hosts say."""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.model import (
    Claim,
    ControlRecord,
    Desired,
    DesiredMode,
    Logged,
    NodeJoin,
    NodePhase,
    NodeState,
    PipelinePhase,
    Status,
)
from kcontrol.definition.durations import span_text
from kcontrol.sessions.ports import Reach
from kcontrol.views.life import UNKNOWN, is_doubtful, is_silent, life_of
from kcontrol.views.node_facts import nodes_of
from kcontrol.views.pipeline_facts import status_of, troubles_of
from kcontrol.views.pipeline_projection import PipelineProjection
from kcontrol.views.signs_of_life import LISTEN_MS, SignsOfLife
from tests.unit.core.made import LIMITS, SPEC

NOW_MS = 1_000_000_000
HOUR_MS = 3_600_000
LIMIT_MS = LIMITS.heartbeat_timeout_ms
STATUS = Status("p", 1, PipelinePhase.RUNNING, 0, "", (), 0, "", ())
STATE = NodeState("p", 0, 2, NodePhase.RUNNING, 0, None, 1, 1, 1, (), "", 1, 0)
BEGIN: tuple[ControlRecord, ...] = (SPEC, Claim("p", "c", "host-a", 41), NodeJoin("p", 0, "n", "host-b", 42))


class Looker:
    """Reads what a test says. `ms` is its monotonic clock, beside the wall clock that is NOW_MS at first."""

    def __init__(self) -> None:
        self.ms = 5
        self.found = PipelineProjection("p")
        self.found.signs = SignsOfLife(lambda: self.ms)
        self.end = 0

    @property
    def now_ms(self) -> int:
        return NOW_MS + self.ms

    def see(self, at_ms: int, *records: ControlRecord) -> None:
        for record in records:
            self.found.see_control([Logged(self.end, at_ms, record)])
            self.end += 1

    @property
    def phase(self) -> str:
        return life_of(self.found, self.now_ms).phase


def test_what_was_heard_lately_counts_and_old_words_do_not() -> None:
    looker = Looker()
    looker.see(NOW_MS, *BEGIN, STATUS, STATE)
    looker.found.signs.listen()
    assert looker.phase == "running"
    looker.ms += LIMIT_MS
    assert (looker.phase, is_silent(looker.found, 0, looker.now_ms)) == (UNKNOWN, True)
    facts = status_of(looker.found, looker.now_ms)
    assert (facts.has_coordinator, facts.nodes[0].phase, facts.coordinator_silent_ms) == (
        False,
        "silent",
        LIMIT_MS + 5,
    )
    assert facts.reason.startswith(
        "no coordinator has been heard of for 8.0 s (the last: host-a:41); start one"
    )
    assert [each.kind for each in troubles_of(looker.found, looker.now_ms)] == ["unknown", "silent"]
    looker.see(NOW_MS, STATUS)
    assert looker.phase == "running"
    assert nodes_of(looker.found, looker.now_ms)[0].doing == "silent"


def test_the_clock_of_another_host_decides_nothing_for_whoever_listens() -> None:
    for skew_ms in (-HOUR_MS, HOUR_MS):
        looker = Looker()
        looker.see(NOW_MS + skew_ms, *BEGIN, STATUS, STATE)
        looker.found.signs.listen()
        assert is_doubtful(looker.found, looker.now_ms)
        looker.ms += 2_000
        looker.see(NOW_MS + skew_ms, STATUS, STATE)
        assert not is_doubtful(looker.found, looker.now_ms)
        assert looker.phase == "running"
        looker.ms += LIMIT_MS + 1
        assert looker.phase == UNKNOWN


def test_whoever_is_dead_and_had_a_clock_in_the_future_is_found_out() -> None:
    looker = Looker()
    looker.see(NOW_MS + HOUR_MS, *BEGIN, STATUS, STATE)
    looker.found.signs.listen()
    assert looker.phase == "running"
    looker.ms += LISTEN_MS
    assert not is_doubtful(looker.found, looker.now_ms)
    assert looker.phase == UNKNOWN


def test_what_a_replaced_coordinator_or_life_says_is_no_sign_of_life() -> None:
    looker = Looker()
    looker.see(NOW_MS, *BEGIN, STATUS)
    looker.see(NOW_MS, Claim("p", "d", "host-c", 43), NodeJoin("p", 0, "m", "host-d", 44))
    looker.found.signs.listen()
    looker.ms += LIMIT_MS
    looker.see(NOW_MS, STATUS, STATE)
    assert looker.phase == UNKNOWN
    assert looker.found.signs.is_silent(0, looker.now_ms, LIMIT_MS)


def test_a_rest_is_a_rest_unless_somebody_waits_for_its_end() -> None:
    looker = Looker()
    stopped = replace(STATUS, phase=PipelinePhase.STOPPED)
    closed = replace(STATE, phase=NodePhase.CLOSED)
    looker.see(NOW_MS - HOUR_MS, *BEGIN, Desired("p", DesiredMode.STOPPED, "r"), stopped, closed)
    life = life_of(looker.found, looker.now_ms)
    assert (life.phase, life.reason, life.is_led) == ("stopped", "", False)
    assert not is_silent(looker.found, 0, looker.now_ms)
    looker.see(NOW_MS - HOUR_MS, Desired("p", DesiredMode.RUNNING, "s"))
    assert "no coordinator has been heard of for 1 h" in life_of(looker.found, looker.now_ms).reason


def test_nobody_listens_for_a_node_that_a_stop_has_closed() -> None:
    """It was heard of long ago, and is silent for good; one that never closed may only have a clock that is behind."""
    for phase, is_listened_for in ((NodePhase.CLOSED, False), (NodePhase.RUNNING, True)):
        looker = Looker()
        looker.see(
            NOW_MS - HOUR_MS, *BEGIN, Desired("p", DesiredMode.STOPPED, "r"), replace(STATE, phase=phase)
        )
        looker.see(NOW_MS, replace(STATUS, phase=PipelinePhase.STOPPED))
        looker.found.signs.listen()
        assert is_doubtful(looker.found, looker.now_ms) is is_listened_for


def test_kafka_says_what_waits_when_no_node_does() -> None:
    looker = Looker()
    looker.see(NOW_MS, *BEGIN)
    looker.found.see_ends({"input": Reach("T1", (9, 1_000, 2))}, None)
    (told,) = status_of(looker.found, looker.now_ms).inputs
    assert (told.waiting, told.waiting_ms, told.unasked) == (4 + 1_000 + 2, None, "")
    looker.found.see_ends({"input": Reach("T1", (10, 1_000, 2))}, NOW_MS)
    (told,) = status_of(looker.found, looker.now_ms).inputs
    assert (told.waiting, told.waiting_ms) == (5 + 1_000 + 2, 5)
    looker.found.see_ends({"input": Reach("T2", (0, 0))}, NOW_MS)
    (told,) = status_of(looker.found, looker.now_ms).inputs
    assert "recreated" in told.unasked


def test_lengths_of_time_for_people() -> None:
    told = [span_text(ms) for ms in (400, 9_949, 12_300, 60_000, 185_000, 7_440_000, 442_800_000)]
    assert told == ["0.4 s", "9.9 s", "12 s", "1 min", "3 min 5 s", "2 h 4 min", "5 d 3 h"]
