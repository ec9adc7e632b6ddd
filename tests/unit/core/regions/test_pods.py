"""Pods of a region's pipelines: whose word of them counts, and for how long."""

from __future__ import annotations

from kcontrol.core.regions.pods import PodsHeard, PodsSaid
from kcontrol.core.regions.records import RegionPods

LEASE_MS = 1_000
NOTHING = ((), ())


def word(offset: int, *away: str) -> PodsSaid:
    return PodsSaid(offset, RegionPods("r", "kubernetes a/r", 1, away))


def test_nothing_was_ever_said() -> None:
    assert PodsHeard().listened(None, 0).doubts(0, LEASE_MS) == NOTHING


def test_a_word_that_lay_there_already_may_be_of_any_age() -> None:
    old = PodsHeard().listened(word(7, "a-0: Pending"), 100)
    again = old.listened(word(7, "a-0: Pending"), 200)
    unknown, ill = again.doubts(200, LEASE_MS)
    assert (len(unknown), ill) == (1, ())
    assert again.doubts(101 + LEASE_MS, LEASE_MS) == NOTHING, "nobody says it any more"
    news = again.listened(word(9, "a-0: Pending"), 300)
    assert news.doubts(300, LEASE_MS) == ((), ("pod a-0: Pending",))


def test_the_first_word_of_all_counts_if_somebody_listened() -> None:
    heard = PodsHeard().listened(None, 0).listened(word(3, "a-0: Failed"), 50)
    assert heard.doubts(50, LEASE_MS) == ((), ("pod a-0: Failed",))


def test_a_word_counts_until_its_lease_is_over_or_it_is_taken_back() -> None:
    heard = PodsHeard().listened(None, 0).listened(word(3, "a-0: Deleted", "a-1: no pod"), 50)
    for now_ms in (50, 50 + LEASE_MS):
        heard = heard.listened(word(3, "a-0: Deleted", "a-1: no pod"), now_ms)
        assert heard.doubts(now_ms, LEASE_MS) == ((), ("pod a-0: Deleted", "pod a-1: no pod"))
    assert heard.doubts(51 + LEASE_MS, LEASE_MS) == NOTHING
    assert heard.listened(word(4), 60).doubts(60, LEASE_MS) == NOTHING
