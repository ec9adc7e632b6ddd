"""Another policy of the cluster, by the names of what is to be changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.cluster.model import ClusterPolicy, Scheduler
from kcontrol.errors import ConfigurationError
from kcontrol.requests.policies import NAMES, changed_policy

POLICY = ClusterPolicy()


def test_what_is_named_is_changed_and_all_else_stays() -> None:
    asked = ("scheduler=greedy", "beat_ms=1000", "coordinators=0")
    wanted = replace(POLICY, scheduler=Scheduler.GREEDY, beat_ms=1_000, coordinators=0)
    assert changed_policy(POLICY, asked) == wanted
    assert changed_policy(wanted, [f"{name}={getattr(POLICY, name)}" for name in NAMES]) == POLICY


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ((), "say what is to be changed"),
        (("beats=1",), "with one of scheduler, coordinators, beat_ms"),
        (("scheduler",), "give NAME=VALUE"),
        (("scheduler=fair",), "there is no scheduler 'fair': greedy, balanced, percentage"),
        (("coordinators=two",), "give a whole number"),
        (("coordinators=-1",), "give a whole number"),
        (("agents=0",), "agents is at least 1"),
        (("jobs=5", "jobs=6"), "jobs is given twice"),
        (("beat_ms=199",), "from 200 to 60000"),
        (("silent_after=2",), "missing_after is at most silent_after"),
        (("snapshot_every=150",), "a multiple of digest_every"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(asked: tuple[str, ...], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        changed_policy(POLICY, asked)


def test_beats_that_were_accepted_once_are_in_nobodys_way_who_changes_something_else() -> None:
    once = replace(POLICY, beat_ms=100)
    assert changed_policy(once, ["scheduler=greedy"]) == replace(once, scheduler=Scheduler.GREEDY)
    with pytest.raises(ConfigurationError, match="from 200 to 60000"):
        changed_policy(once, ["beat_ms=100"])
