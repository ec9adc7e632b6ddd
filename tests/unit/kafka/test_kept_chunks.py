"""What is kept of what was fetched, for whom, and how much of it."""

from __future__ import annotations

import uuid
from dataclasses import replace

from kcontrol.adapters.kafka.client.protocol import READ_UNCOMMITTED
from kcontrol.adapters.kafka.read.fetch_range import Chunk, RangeId
from kcontrol.adapters.kafka.read.kept_chunks import KeptChunks

FIRST = RangeId("in", "topic", uuid.UUID(int=1), 0, 100, 120)
CHUNK = Chunk(100, b"records", ((7, 90),))


def test_who_goes_on_in_the_chunk_is_given_it_from_where_he_is() -> None:
    kept = KeptChunks()
    kept.keep(FIRST, CHUNK, 200)
    for from_ in (100, 120, 199):
        assert kept.take(replace(FIRST, from_=from_, to=300)) == Chunk(from_, b"records", ((7, 90),))


def test_who_begins_elsewhere_is_not() -> None:
    kept = KeptChunks()
    kept.keep(FIRST, CHUNK, 200)
    assert (
        kept.take(replace(FIRST, from_=99)) is None
    )  # aborted transactions are known from the chunk's position on
    assert kept.take(replace(FIRST, from_=200, to=300)) is None
    assert kept.take(replace(FIRST, partition=1)) is None
    assert kept.take(replace(FIRST, topic_id=uuid.UUID(int=2))) is None
    assert kept.take(replace(FIRST, isolation=READ_UNCOMMITTED)) is None


def test_nothing_is_kept_that_nobody_will_need_or_that_may_change() -> None:
    kept = KeptChunks(most_chunk_bytes=len(CHUNK.records) - 1)
    kept.keep(FIRST, CHUNK, 200)  # too large
    assert kept.take(FIRST) is None
    kept = KeptChunks()
    kept.keep(FIRST, CHUNK, FIRST.to)  # read to its end
    kept.keep(replace(FIRST, isolation=READ_UNCOMMITTED), CHUNK, 200)
    assert kept.take(FIRST) is None


def test_what_was_used_longest_ago_goes_first() -> None:
    kept = KeptChunks(most_bytes=2 * len(CHUNK.records))
    places = [replace(FIRST, partition=number) for number in range(3)]
    for place in places[:2]:
        kept.keep(place, CHUNK, 200)
    assert kept.take(places[0]) is not None
    kept.keep(places[2], CHUNK, 200)
    assert [kept.take(place) is not None for place in places] == [True, False, True]
