"""Who is silent: by the order of beats alone."""

from __future__ import annotations

import random

from kcontrol.core.cluster import liveness as liveness_module
from kcontrol.core.cluster.liveness import (
    Beat,
    Liveness,
    Who,
    attend,
    differs_from_most,
    hear,
    is_heard,
)
from kcontrol.core.cluster.model import ClusterPolicy, Mark

POLICY = ClusterPolicy(silent_after=5, missing_after=3, silent_after_many=20)
A, B, C, D = (("a", "1"), ("b", "1"), ("c", "1"), ("d", "1"))


def beats(liveness: Liveness, *who: Who, gap: bool = False) -> Liveness:
    for one in who:
        liveness = hear(liveness, [Beat(*one, seq=0, gap=gap and one == A, applied=0)], POLICY)
    return liveness


def silent(liveness: Liveness, policy: ClusterPolicy) -> set[Who]:
    return liveness_module.silent(liveness, liveness.at, policy)


def hearing(*others: Who) -> Liveness:
    """All of them were heard just now."""
    return beats(attend(Liveness(A), [A, *others]), A, *others)


def test_who_misses_five_of_mine_is_silent_and_comes_back_with_one_beat() -> None:
    liveness = hearing(B, C, D)
    for _ in range(5):
        assert silent(liveness, POLICY) == set()
        liveness = beats(liveness, A, C, D)
    assert silent(liveness, POLICY) == {B}
    assert not is_heard(liveness, B, POLICY)
    assert silent(beats(liveness, B), POLICY) == set()


def test_a_gap_begins_everybodys_time_anew() -> None:
    liveness = hearing(B, C, D)
    for _ in range(4):
        liveness = beats(liveness, A, C, D)
    liveness = beats(liveness, A, gap=True)
    for _ in range(4):
        liveness = beats(liveness, A, C, D)
        assert silent(liveness, POLICY) == set()
    assert silent(beats(liveness, A), POLICY) == {B}


def test_what_is_read_late_counts_by_its_order() -> None:
    liveness = hearing(B, C, D)
    for _ in range(30):
        liveness = beats(liveness, A, B, C, D)
    assert silent(liveness, POLICY) == set()


def test_without_own_beats_nobody_is_silent() -> None:
    liveness = hearing(B, C)
    for _ in range(100):
        liveness = beats(liveness, C)
    assert silent(liveness, POLICY) == set()


def test_while_most_are_missing_it_takes_more_but_not_for_ever() -> None:
    liveness = hearing(B, C, D)
    for _ in range(19):
        liveness = beats(liveness, A, D)
        assert silent(liveness, POLICY) == set()
    assert silent(beats(liveness, A, D), POLICY) == {B, C}


def test_the_patience_lasts_while_they_come_back_one_by_one() -> None:
    liveness = hearing(B, C, D)
    for _ in range(4):
        liveness = beats(liveness, A, D)
    for _ in range(8):
        liveness = beats(liveness, A, C, D)
        assert silent(liveness, POLICY) == set()


def test_the_death_of_one_that_names_the_incarnation_before_is_one_death() -> None:
    """A version that names it for ever, and one beat of it that came late."""
    liveness = hearing(("b", "2"), C)
    liveness = hear(liveness, [Beat("b", "2", 1, False, 0, before="1")], POLICY)
    for _ in range(5):
        assert silent(liveness, POLICY) == set()
        liveness = beats(liveness, A, C)
    assert ("b", "2") in silent(liveness, POLICY)


def test_the_next_incarnation_speaks_for_the_one_that_is_in_the_log() -> None:
    liveness = attend(Liveness(A), [A, ("b", "2")])
    liveness = hear(liveness, [Beat("b", "3", 0, False, 0, before="2")], POLICY)
    assert is_heard(liveness, ("b", "2"), POLICY)


def test_who_differs_from_most_knows_it_and_of_two_neither_does() -> None:
    def marked(*digests: str) -> list[Mark]:
        return [Mark(100, digest) for digest in digests]

    assert differs_from_most(marked("x", "x"), {100: "mine"})
    assert not differs_from_most(marked("x"), {100: "mine"})
    assert not differs_from_most(marked("x", "x", "mine"), {100: "mine"})
    assert not differs_from_most(marked("x", "x", "x"), {200: "mine"})


def test_beats_that_are_read_together_are_heard_one_after_the_other() -> None:
    """Whatever they are, and wherever they are divided."""
    seed = random.randrange(1 << 32)
    drawn = random.Random(seed)
    for _ in range(300):
        beats = [
            Beat(*drawn.choice([A, B, C]), n, drawn.random() < 0.2, n, Mark(n, "d"), drawn.choice(["", "0"]))
            for n in range(drawn.randrange(30))
        ]
        one_by_one = attend(Liveness(A), [A, B, C])
        for beat in beats:
            one_by_one = hear(one_by_one, [beat], POLICY)
        together, cut = attend(Liveness(A), [A, B, C]), drawn.randrange(len(beats) + 1)
        for part in (beats[:cut], beats[cut:]):
            together = hear(together, part, POLICY)
        assert together == one_by_one, f"seed {seed}: {beats}"
