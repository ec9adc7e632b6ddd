"""When a node's number can be taken by whoever stands by for it: by certain death, or by silence that was
really heard."""

from __future__ import annotations

from kcontrol.views.holder import why_free
from tests.unit.views.test_life import BEGIN, LIMIT_MS, NOW_MS, STATE, STATUS, Looker

LONG_MS = 10 * LIMIT_MS


def why(looker: Looker, heard_ms: int, *, gone: bool = False) -> str:
    return why_free(looker.found, 0, looker.now_ms, heard_ms, lambda _join: gone)


def test_a_number_that_somebody_speaks_under_is_not_free() -> None:
    looker = Looker()
    looker.see(NOW_MS, *BEGIN, STATUS, STATE)
    looker.found.signs.listen()
    for _ in range(5):
        looker.ms += LIMIT_MS
        looker.see(NOW_MS, STATE)
        assert why(looker, LONG_MS) == ""


def test_who_has_certainly_ended_is_not_waited_for() -> None:
    looker = Looker()
    looker.see(NOW_MS, *BEGIN, STATUS, STATE)
    looker.found.signs.listen()
    assert why(looker, 0, gone=True) == "process 42 on host-b, which was node 0, has ended"


def test_silence_counts_only_while_the_log_could_be_read() -> None:
    looker = Looker()
    looker.see(NOW_MS, *BEGIN, STATUS, STATE)
    looker.found.signs.listen()
    looker.ms += LONG_MS  # Kafka was away for most of it.
    assert why(looker, LIMIT_MS) == ""
    assert (
        why(looker, LIMIT_MS + 1) == "process 42 on host-b, which was node 0, has been silent for 1 min 20 s"
    )


def test_old_words_in_the_log_are_listened_to_first() -> None:
    """The clock of the host that wrote them may be wrong by any amount."""
    for skew_ms in (-3_600_000, 3_600_000):
        looker = Looker()
        looker.see(NOW_MS + skew_ms, *BEGIN, STATUS, STATE)
        looker.found.signs.listen()
        assert why(looker, LIMIT_MS) == ""
        looker.see(NOW_MS + skew_ms, STATE)
        assert why(looker, LONG_MS) == "", "it has just spoken"


def test_a_number_that_nobody_ever_had_is_taken_after_a_while() -> None:
    looker = Looker()
    looker.see(NOW_MS, *BEGIN[:2])
    looker.found.signs.listen()
    assert why(looker, LIMIT_MS) == ""
    assert why(looker, LIMIT_MS + 1).startswith("nobody has been node 0 in ")
