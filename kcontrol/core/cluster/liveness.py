"""Who is silent, judged by order alone: one's own beats, read back from the same partition, are the clock.

B is silent when, since B was last heard, so many of *my own* beats have come back to me. So nobody is judged
while the log is away (my beats don't come back), while I am stopped (I make none), when I read late (B's
beats lie between mine), or by a clock that jumps. A beat that says `gap` comes long after the one before it:
its author, or the log, was away, so what was counted until then means nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kcontrol.core.cluster.model import NO_MARK, ClusterPolicy, Mark

Who = tuple[str, str]
"""An agent's name and incarnation."""


@dataclass(frozen=True, slots=True)
class Beat:
    """What an agent says of itself, again and again.

    seq: counts the beats of this incarnation. gap: it comes late after the one before. applied: offset of the
    newest entry that was applied. mark: offset and digest of the value at the newest offset at which digests
    are made. before: the incarnation before this one, for which it speaks until it is in the log itself.
    """

    agent: str
    incarnation: str
    seq: int
    gap: bool
    applied: int
    mark: Mark = NO_MARK
    before: str = ""


@dataclass(frozen=True, slots=True)
class Liveness:
    """What one agent has heard.

    own: beats of its own that came back; back: the `seq` of the newest. at: by who is of interest, `own` when
    it was heard last, or when it became of interest; of others, too, while they are heard. heard: those of whom a beat was
    really heard. marks: by agent. many_at: `own` when most of those that are of interest seemed silent. wanted: those.
    """

    me: Who
    own: int = 0
    back: int = -1
    at: Mapping[Who, int] = field(default_factory=dict)
    heard: frozenset[Who] = frozenset()
    marks: Mapping[str, Mark] = field(default_factory=dict)
    many_at: int | None = None
    wanted: frozenset[Who] = frozenset()


def hear(liveness: Liveness, beats: Iterable[Beat], policy: ClusterPolicy) -> Liveness:
    """More beats, in the order of the log. Together they cost what one does: whoever hears a thousand agents has a
    thousand at a time."""
    (name, incarnation), own, back, many_at = liveness.me, liveness.own, liveness.back, liveness.many_at
    at, heard, marks = dict(liveness.at), set[Who](), dict[str, Mark]()
    for beat in beats:
        if beat.agent == name and beat.incarnation == incarnation:
            own, back = own + 1, beat.seq
            if beat.gap:
                at = dict.fromkeys(at, own)
            if _most_are_missing(at, liveness, own - policy.missing_after):
                many_at = own
            continue
        for one in (beat.incarnation, beat.before):
            if one:
                at[beat.agent, one] = own
                heard.add((beat.agent, one))
        marks[beat.agent] = beat.mark
    return Liveness(
        *(liveness.me, own, back, at, liveness.heard if heard <= liveness.heard else liveness.heard | heard),
        liveness.marks if marks.items() <= liveness.marks.items() else {**liveness.marks, **marks},
        *(many_at, liveness.wanted),
    )


def _most_are_missing(at: Mapping[Who, int], liveness: Liveness, since: int) -> bool:
    """Not heard since then: more than one, and more than half of those that are of interest. Of them is no incarnation that
    nobody knows any more, which would go silent with the one that speaks for it."""
    missing = others = 0
    for who in liveness.wanted:
        if who != liveness.me:
            others += 1
            missing += at[who] <= since
    return missing > 1 and 2 * missing > others


def attend(liveness: Liveness, lives: Iterable[Who]) -> Liveness:
    """From now on these are of interest and no others; who is new has the whole time to be heard."""
    wanted = frozenset(lives)
    return replace(
        liveness,
        at={who: liveness.at.get(who, liveness.own) for who in sorted(wanted)},
        heard=liveness.heard & wanted,
        wanted=wanted,
    )


def is_heard(liveness: Liveness, who: Who, policy: ClusterPolicy) -> bool:
    """It was heard, and not long ago."""
    return who in liveness.heard and liveness.own - liveness.at[who] < policy.silent_after


def silent(liveness: Liveness, among: Iterable[Who], policy: ClusterPolicy, longer: int = 0) -> set[Who]:
    """Others who have missed too many of one's own beats. While most seemed silent, and for as many beats after as
    that takes, it takes more: then it is rather the network, and they come back one by one. longer: so many beats more."""
    many = liveness.many_at is not None and liveness.own - liveness.many_at < policy.silent_after_many
    latest = liveness.own - (policy.silent_after_many if many else policy.silent_after) - longer
    at = liveness.at
    return {who for who in among if at.get(who, latest + 1) <= latest and who != liveness.me}


def judges_nobody(liveness: Liveness) -> Liveness:
    """For one who is out of touch: nobody is silent, and nobody is heard."""
    return replace(liveness, at=dict.fromkeys(liveness.at, liveness.own), heard=frozenset())


def differs_from_most(others: Iterable[Mark], marks: Mapping[int, str]) -> bool:
    """Whether most of those that one can be compared with have another value at an offset, oneself among the
    others."""
    same = other = 0
    for one in others:
        own = marks.get(one.offset)
        if own is not None:
            same += one.digest == own
            other += one.digest != own
    return other > same + 1
