"""Members of a region that are no pipelines: who is there, and what they have said.

A participant speaks for itself, through records that it writes again and again. What counts is its newest life: an older
process that wakes up says what it likes. Whether one is there is judged by when its words come, by the clock of who reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kcontrol.core.regions.events import BlockingCheckpointDone, CheckpointDone, RegionEvent, ResetDone
from kcontrol.core.regions.model import MemberPart, Region, RegionState
from kcontrol.core.regions.records import RegionSaid, SaidKind


@dataclass(frozen=True, slots=True)
class ParticipantSaid:
    """The newest word of a participant, and where it lies. life: of who has said it."""

    offset: int
    word: RegionSaid

    @property
    def life(self) -> int:
        return self.word.life if self.word.life >= 0 else self.offset


def was_given(life: int, offset: int) -> bool:
    """Whether a process that says something at an offset can have been given its life: the offset of an earlier word.

    Another one is of a topic that was deleted, or made up. It would be newer than all that follow, for ever.
    """
    return life < offset


def newest_said(before: ParticipantSaid | None, said: ParticipantSaid) -> ParticipantSaid | None:
    """Of two words of one participant the one that counts; None: none."""
    if not was_given(said.word.life, said.offset):
        return before
    return said if before is None or said.life >= before.life else before


@dataclass(frozen=True, slots=True)
class _Heard:
    """offset: of the newest word. at_ms: when it was seen, by the monotonic clock. is_news: it came while somebody listened."""

    offset: int
    at_ms: int
    is_news: bool


@dataclass(frozen=True, slots=True)
class ParticipantsHeard:
    """When each was heard last, by whoever listens."""

    heard: Mapping[str, _Heard] = field(default_factory=dict)

    def listened(self, said: Mapping[str, ParticipantSaid], now_ms: int) -> ParticipantsHeard:
        """After what was said was read. A first word may be an old one."""
        heard = dict(self.heard)
        for name, one in said.items():
            before = heard.get(name)
            if before is None or before.offset != one.offset:
                heard[name] = _Heard(one.offset, now_ms, before is not None)
        return replace(self, heard=heard)

    def doubts(self, name: str, now_ms: int, lease_ms: int) -> tuple[str, str]:
        """Why it is not known whether a participant is there, or ''; why it is not, or ''."""
        one = self.heard.get(name)
        if one is None:
            return f"{name}: it has not joined yet", ""
        if now_ms - one.at_ms > lease_ms:
            return "", f"{name}: it has said nothing for {lease_ms / 1000:g} s"
        return ("", "") if one.is_news else (f"{name}: it was not heard yet", "")


def said_event(region: Region, name: str, said: ParticipantSaid) -> RegionEvent | None:
    """What a participant has done that counts now, and was not taken note of yet."""
    word, part = said.word, region.completions.get(name)
    if said.life != region.lives.get(name):
        return None
    match word.kind:
        case SaidKind.CHECKPOINT_DONE:
            draining = region.state is RegionState.DRAINING and word.seq_id == region.current_seq_id
            pending = region.state is RegionState.PENDING and word.seq_id == region.pending_seq_id
            if (draining or pending) and part is not MemberPart.SAVED:
                return CheckpointDone(name, said.life, word.seq_id)
        case SaidKind.BLOCKING_CHECKPOINT_DONE:
            if region.state is RegionState.DRAINING and word.seq_id == region.current_seq_id and part is None:
                return BlockingCheckpointDone(name, said.life, word.seq_id)
        case SaidKind.RESET_DONE:
            this = (word.seq_id, word.reset_attempt) == (
                region.last_completed_seq_id,
                region.reset_attempt - 1,
            )
            if region.state is RegionState.RESETTING and this and part is None:
                return ResetDone(name, said.life, word.seq_id, word.reset_attempt)
        case SaidKind.JOINED:
            pass
    return None
