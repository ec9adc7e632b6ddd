"""Members that are no pipelines: whose word counts, when one is there, and what of a word a region takes note of."""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.regions.leading import RegionSeen, began, next_change
from kcontrol.core.regions.model import RegionSettings, RegionState, Word, refused_settings, told
from kcontrol.core.regions.participants import ParticipantSaid, ParticipantsHeard, newest_said
from kcontrol.core.regions.records import (
    RegionDefinition,
    RegionRequest,
    RegionRequestKind,
    RegionSaid,
    SaidKind,
)
from kcontrol.core.regions.value import RegionValue

SETTINGS = RegionSettings("r", ("a", "mq"), participants=("mq",))
DEFINED = RegionDefinition("r", SETTINGS, "ana", 1, "d1")
KIND = RegionRequestKind.DRAIN
WELL = RegionSeen(
    lives={"a": 3, "mq": 7},
    healthy=True,
    in_line=frozenset("a"),
    requests={KIND: RegionRequest("r", KIND, "ana", 1, "q1")},
)


def word(
    kind: SaidKind, seq_id: int = 0, attempt: int = 0, life: int = 7, offset: int = 9
) -> ParticipantSaid:
    return ParticipantSaid(offset, RegionSaid("r", "mq", "p1", life, kind, 1, seq_id, attempt))


def led(value: RegionValue, seen: RegionSeen) -> RegionValue:
    while (step := next_change(value, DEFINED, seen)) is not None:
        value = step.value
    return value


def said(one: ParticipantSaid, **seen: object) -> RegionSeen:
    return replace(WELL, said={"mq": one}, **seen)  # type: ignore[arg-type]


def test_a_cut_waits_for_who_speaks_for_itself() -> None:
    value = led(began(DEFINED).value, replace(WELL, came_to=1))
    assert (value.region.state, set(value.region.completions)) == (RegionState.DRAINING, {"a"})
    now = told(value.region, "mq", 7)
    assert now is not None
    assert (now.word, now.seq_id) == (Word.TRIGGER_DRAIN, 1)
    for late in (
        word(SaidKind.JOINED),
        word(SaidKind.CHECKPOINT_DONE, 2),
        word(SaidKind.CHECKPOINT_DONE, 1, life=6),
        word(SaidKind.RESET_DONE, 1),
    ):
        assert led(value, said(late, came_to=1)) == value, late
    beside = led(value, said(word(SaidKind.BLOCKING_CHECKPOINT_DONE, 1), came_to=1))
    assert beside.region.state is RegionState.PENDING
    for before in (value, beside):
        done = led(before, said(word(SaidKind.CHECKPOINT_DONE, 1), came_to=1))
        assert done.region.last_completed_seq_id == 1
        assert done.answers[KIND].request_id == "q1"
        again = said(word(SaidKind.CHECKPOINT_DONE, 1), came_to=1)
        assert led(done, again) == done, "it is said again and again"


def test_a_new_life_of_a_participant_goes_on_after_a_reset() -> None:
    value = led(began(DEFINED).value, replace(WELL, came_to=1))
    begun = {"a": 3, "mq": 12}
    value = led(value, said(word(SaidKind.JOINED, life=-1, offset=12), lives=begun))
    assert value.region.state is RegionState.RESETTING
    attempt = value.region.reset_attempt - 1
    other = word(SaidKind.RESET_DONE, 0, attempt + 1, life=12)
    assert led(value, said(other, lives=begun)).region.state is RegionState.RESETTING
    done = led(value, said(word(SaidKind.RESET_DONE, 0, attempt, life=12), lives=begun))
    assert done.region.state is not RegionState.RESETTING


def test_the_newest_life_counts_whoever_speaks_last() -> None:
    joined = word(SaidKind.JOINED, life=-1, offset=20)
    assert joined.life == 20
    zombie = word(SaidKind.CHECKPOINT_DONE, 1, life=7, offset=21)
    assert newest_said(joined, zombie) is joined
    assert newest_said(zombie, joined) is joined
    later = word(SaidKind.CHECKPOINT_DONE, 1, life=20, offset=22)
    assert newest_said(joined, later) is later


def test_a_life_that_nobody_was_given_keeps_nobody_out() -> None:
    """A process that has outlived the topic, or makes a number up, would be the newest for ever."""
    joined, made_up = word(SaidKind.JOINED, life=-1, offset=20), word(SaidKind.JOINED, life=5_000, offset=21)
    assert newest_said(None, made_up) is None
    assert newest_said(joined, made_up) is joined
    assert newest_said(joined, word(SaidKind.JOINED, life=22, offset=22)) is joined


def test_who_is_there_is_known_by_when_words_come() -> None:
    heard = ParticipantsHeard()
    assert heard.doubts("mq", 0, 5_000) == ("mq: it has not joined yet", "")
    heard = heard.listened({"mq": word(SaidKind.JOINED, offset=3)}, 1_000)
    assert heard.doubts("mq", 1_000, 5_000) == ("mq: it was not heard yet", ""), "it may be an old word"
    heard = heard.listened({"mq": word(SaidKind.JOINED, offset=3)}, 2_000)
    assert heard.doubts("mq", 2_000, 5_000)[0], "the same word is no news"
    heard = heard.listened({"mq": word(SaidKind.JOINED, offset=8)}, 3_000)
    assert heard.doubts("mq", 8_000, 5_000) == ("", "")
    assert heard.doubts("mq", 8_001, 5_000) == ("", "mq: it has said nothing for 5 s")


def test_a_region_has_a_pipeline() -> None:
    assert "has no pipeline" in refused_settings(RegionSettings("r", ("mq",), participants=("mq",)))
    assert SETTINGS.pipelines == ("a",)
