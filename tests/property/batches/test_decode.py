"""Whatever a partition holds, both codecs read what aiokafka reads, cut exactly to the
range, with the digest of just that."""

from __future__ import annotations

import itertools
import struct

import mmh3
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcontrol.wire.batches import Codec, Decoded, Fetched, codec_named, decoded_schema
from kcontrol.wire.digest import EMPTY, Digest, DigestKind, varint
from tests.property.batches.made import LOGS, MadeLog, Row, parsed

CODECS = [codec_named("compiled"), codec_named("reference")]
_EVERYTHING = 2**62


def read(
    codec: Codec,
    data: bytes,
    first: int = 0,
    to: int = _EVERYTHING,
    run_bytes: int = 1 << 20,
    kind: DigestKind = DigestKind.INPUT,
) -> list[Decoded]:
    return list(Fetched(data, "t-0").decode(codec, (), first, to, kind, headers=True, run_bytes=run_bytes))


def rows_of(decoded: list[Decoded]) -> list[Row]:
    rows: list[Row] = []
    for run in decoded:
        run.rows.validate(full=True)
        assert run.rows.schema == decoded_schema(headers=True)
        # pyarrow's Python datetimes end in year 9999: the number of microseconds is what counts.
        times = run.rows.column("timestamp").cast(pa.int64()).to_pylist()
        for row, time_us in zip(run.rows.drop_columns("timestamp").to_pylist(), times, strict=True):
            assert time_us % 1000 == 0
            headers = tuple((header["key"], header["value"]) for header in row["headers"])
            rows.append((row["offset"], time_us // 1000, row["key"], row["value"], headers))
    return rows


def digest_of(decoded: list[Decoded]) -> Digest:
    return sum((run.digest for run in decoded), EMPTY)


def append_times(log: MadeLog) -> dict[int, bool]:
    """By offset: whether the broker set the record's time."""
    return {
        row[0]: batch.append_time_ms is not None
        for batch, piece in zip(log.batches, log.encoded(), strict=True)
        for row in parsed(piece)
    }


def independent_digest(rows: list[Row], append: dict[int, bool] | None) -> Digest:
    """By the definition in `kcontrol.wire.digest`, with another implementation of the
    hash. append: None for version 1."""
    total = 0
    for offset, time_ms, key, value, headers in rows:
        first = struct.pack("<q", 2 if append is None else time_ms * 512 + append[offset] * 256 + 3)
        parts = [first, offset.to_bytes(8, "little")]
        for item in (
            key,
            value,
            len(headers),
            *(part for name, content in headers for part in (name.encode(), content)),
        ):
            if isinstance(item, int):
                parts.append(varint(item))
            else:
                parts.append(varint(-1) if item is None else varint(len(item)) + item)
        total += mmh3.hash128(b"".join(parts), signed=False)
    return Digest(len(rows), total % 2**128)


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
@given(log=LOGS, data=st.data())
def test_a_range_of_any_log(codec: Codec, log: MadeLog, data: st.DataObject) -> None:
    encoded = log.encode()
    everything = parsed(encoded)
    offsets = [row[0] for row in everything]
    first = data.draw(st.integers(log.start, offsets[-1] + 1), "first")
    to = data.draw(st.integers(first, offsets[-1] + 10), "to")
    wanted = [row for row in everything if first <= row[0] < to]

    run_bytes = data.draw(st.sampled_from([1, 500, 1 << 20]), "run_bytes")
    for kind, append in ((DigestKind.INPUT, append_times(log)), (DigestKind.INPUT_UNTIMED, None)):
        decoded = read(codec, encoded, first, to, run_bytes, kind)
        assert rows_of(decoded) == wanted
        assert digest_of(decoded) == independent_digest(wanted, append)


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
@given(logs=st.lists(LOGS, min_size=1, max_size=4), data=st.data())
def test_runs_of_several_partitions_at_once_are_the_runs_one_by_one(
    codec: Codec, logs: list[MadeLog], data: st.DataObject
) -> None:
    runs, wanted = [], []
    for number, log in enumerate(logs):
        offsets = [row[0] for row in parsed(log.encode())]
        first = data.draw(st.integers(log.start, offsets[-1] + 1), f"first {number}")
        to = data.draw(st.integers(first, offsets[-1] + 10), f"to {number}")
        runs += list(Fetched(log.encode(), f"t-{number}").runs((), first, to))
        wanted += read(codec, log.encode(), first, to)
    if runs:
        together = codec.decode(runs, DigestKind.INPUT, headers=True)
        assert rows_of([together]) == rows_of(wanted)
        assert list(together.digests) == [run.digest for run in wanted]


@given(log=LOGS)
def test_timestamp_types_and_columns_without_headers(log: MadeLog) -> None:
    for codec in CODECS:
        fetched = Fetched(log.encode(), "t-0")
        runs = list(fetched.decode(codec, (), 0, _EVERYTHING, DigestKind.NONE))
        types = [kind for run in runs for kind in run.rows.column("timestampType").to_pylist()]
        assert types == [
            int(batch.append_time_ms is not None) for batch in log.batches for _ in batch.records
        ]
        assert all(run.rows.schema == decoded_schema(headers=False) for run in runs)
        assert digest_of(runs) == Digest(len(types), 0)


@given(log=LOGS, data=st.data())
def test_a_fetch_that_is_cut_anywhere_gives_its_whole_batches(log: MadeLog, data: st.DataObject) -> None:
    pieces = log.encoded()
    size = data.draw(st.integers(0, sum(map(len, pieces))), "size")
    whole, kept = 0, 0
    while kept < len(pieces) and whole + len(pieces[kept]) <= size:
        whole += len(pieces[kept])
        kept += 1
    fetched = Fetched(b"".join(pieces)[:size], "t-0")

    wanted = parsed(b"".join(pieces[:kept]))

    assert len(fetched.batches) == kept
    assert fetched.next_offset(log.start) >= (wanted[-1][0] + 1 if wanted else log.start)
    for codec in CODECS:
        assert rows_of(list(fetched.decode(codec, (), 0, _EVERYTHING, headers=True))) == wanted


@given(log=LOGS, data=st.data())
def test_digests_do_not_depend_on_how_reads_were_cut(log: MadeLog, data: st.DataObject) -> None:
    encoded = log.encode()
    end = parsed(encoded)[-1][0] + 1
    cuts = sorted(data.draw(st.lists(st.integers(log.start, end), max_size=4), "cuts"))
    edges = [log.start, *cuts, end]
    for codec in CODECS:
        pieces = [run for first, to in itertools.pairwise(edges) for run in read(codec, encoded, first, to)]
        assert digest_of(pieces) == digest_of(read(codec, encoded))
