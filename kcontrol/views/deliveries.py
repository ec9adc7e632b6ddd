"""What people and programs are told of deliveries: the one account of it, for the command line, HTTP and the Console; and what
several processes of one delivery say together. For showing alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic import Field

from kcontrol.views.base import Facts

SILENT_MS = 30_000
"""A delivery tells of itself every ten seconds at least."""
MAX_STANDING_BY = 8
"""So many that stand by are told of."""
STANDING_BY = "standing_by"
_AT_WORK = frozenset({"running", "away"})
_NOT_AT_WORK = frozenset({"starting", STANDING_BY, "away", "stopped"})
"""What a process may say while another one delivers."""
_ENDED = frozenset({"stopped", "halted"})


@dataclass(frozen=True, slots=True)
class StandsBy:
    """A process, and when it said so, by its own clock."""

    who: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class ToldDelivery:
    """A delivery as it was at `at_ms`, by its own clock. step: the last one in the target; -1: not known. since_ms: when the
    state began; 0: not said. who: the process that says it; '': not said, as by an older version."""

    output: str
    target: str
    kind: str
    guarantee: str
    state: str
    step: int
    lag_s: float
    reason: str
    at_ms: int
    address: str = ""
    since_ms: int = 0
    who: str = ""
    standing_by: tuple[StandsBy, ...] = ()


@dataclass(frozen=True, slots=True)
class DeliveriesSeen:
    """What is known of a pipeline's deliveries. age_ms: for how long; None: nobody has answered yet. unknown: why no more is,
    or nothing newer; '': all is."""

    told: Sequence[ToldDelivery] = ()
    age_ms: int | None = None
    unknown: str = ""


class DeliveryFacts(Facts):
    """One output to one target."""

    output: str
    target: str = Field(description="The target's name, by which deliveries of an output are told apart.")
    kind: str = Field(description="postgresql, webhook, delta, parquet or iceberg.")
    address: str = Field(
        description="Where the target is, without user, query and secrets; '' if an older version delivers, which does not say "
        "it."
    )
    guarantee: str = Field(
        description="exactly_once: each row of a committed step is there once; at_least_once: perhaps more than once."
    )
    state: str = Field(
        description="starting, standing_by (nobody is known who delivers), running, away (the target or Kafka can't be "
        "reached), stopped, or halted (a person has to decide)."
    )
    since_ms: int | None = Field(
        description="When the state began, milliseconds since 1970, by the clock of whoever delivers; null if it was not said."
    )
    reason: str = Field(description="Why it is halted or away; else ''.")
    step: int = Field(description="The last step in the target; 0: none yet, -1: not known.")
    behind: int | None = Field(description="Committed steps after it; null if that is not known.")
    lag_s: float = Field(
        description="Since the oldest step that is not in the target was committed, as said."
    )
    by: str | None = Field(
        description="The process that delivers: host, number of the process, and a word that no two have; null if none does, "
        "or it was not said."
    )
    standing_by: list[str] = Field(
        description=f"Processes that take over when that one ends; {MAX_STANDING_BY} at most are told of."
    )
    at_ms: int = Field(description="When this was said, by the clock of whoever delivers.")
    silent_ms: int = Field(description="For how long nothing newer was heard; 0 if clocks disagree.")
    silent: bool = Field(
        description="Whether a delivery that is at work would have been heard of since: it says something every 10 s, and "
        f"this is older than {SILENT_MS // 1000} s. What is said of one that was stopped or has halted stays."
    )


def with_others(before: ToldDelivery | None, mine: ToldDelivery) -> ToldDelivery:
    """What is to be told of a delivery by one of its processes. before: what was told last, perhaps by another one. Who waits
    does not hide who delivers."""
    if before is None:
        return mine
    others = {
        each.who: each
        for each in before.standing_by
        if _is_fresh(each.at_ms, mine) and each.who not in (mine.who, before.who)
    }
    is_foreign = before.who != mine.who and _is_fresh(before.at_ms, mine)
    if is_foreign and before.state in _AT_WORK and mine.state in _NOT_AT_WORK:
        if mine.state in (STANDING_BY, "away"):
            others[mine.who] = StandsBy(mine.who, mine.at_ms)
        return replace(before, standing_by=_in_order(others))
    if is_foreign and before.state == STANDING_BY and before.who:
        others[before.who] = StandsBy(before.who, before.at_ms)
    return replace(mine, standing_by=_in_order(others))


def is_at_work(told: ToldDelivery, now_ms: int) -> bool:
    """Whether, by what it says, the next step may be in its target at any moment. now_ms: by the clock of whoever looks."""
    return told.state not in _ENDED and _silent_ms(told, now_ms) <= SILENT_MS


def delivery_facts(seen: DeliveriesSeen, committed: int, now_ms: int) -> list[DeliveryFacts]:
    """By output and target. committed: the pipeline's last step. now_ms: by the clock of whoever looks."""
    return [
        _facts(told, committed, now_ms)
        for told in sorted(seen.told, key=lambda each: (each.output, each.target))
    ]


def _facts(told: ToldDelivery, committed: int, now_ms: int) -> DeliveryFacts:
    waiting = [each.who for each in told.standing_by if told.at_ms - each.at_ms <= SILENT_MS]
    if told.state == STANDING_BY and told.who:
        waiting.append(told.who)
    return DeliveryFacts(
        output=told.output,
        target=told.target,
        kind=told.kind,
        address=told.address,
        guarantee=told.guarantee,
        state=told.state,
        since_ms=told.since_ms or None,
        reason=told.reason,
        step=told.step,
        behind=None if told.step < 0 else max(0, committed - told.step),
        lag_s=told.lag_s,
        by=(told.who or None) if told.state in _AT_WORK else None,
        standing_by=sorted(waiting),
        at_ms=told.at_ms,
        silent_ms=_silent_ms(told, now_ms),
        silent=told.state not in _ENDED and _silent_ms(told, now_ms) > SILENT_MS,
    )


def _silent_ms(told: ToldDelivery, now_ms: int) -> int:
    return max(0, now_ms - told.at_ms)


def _is_fresh(at_ms: int, mine: ToldDelivery) -> bool:
    # Clocks of two hosts: neither is right.
    return abs(mine.at_ms - at_ms) <= SILENT_MS


def _in_order(others: dict[str, StandsBy]) -> tuple[StandsBy, ...]:
    return tuple(others[who] for who in sorted(others))[:MAX_STANDING_BY]
