"""Damaged bytes give the rows that the reference reads, or one clear error: never a crash,
another row, or foreign memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcontrol.errors import DamagedRecordError
from kcontrol.wire.batches import Codec, Decoded, Fetched, codec_named
from tests.property.batches.made import MadeBatch, made_batches, resealed

COMPILED, REFERENCE = codec_named("compiled"), codec_named("reference")
_HEADER_BYTES = 61


def read(codec: Codec, data: bytes) -> list[Decoded] | str:
    try:
        decoded = list(Fetched(data, "t-0").decode(codec, (), 0, 2**62, headers=True))
    except DamagedRecordError as error:
        return str(error)
    for run in decoded:
        run.rows.validate(full=True)
    return decoded


def agree(data: bytes) -> None:
    found, wanted = read(COMPILED, data), read(REFERENCE, data)
    if isinstance(wanted, str) or isinstance(found, str):
        assert found == wanted
        return
    schema = pa.schema([]) if not wanted else wanted[0].rows.schema
    assert pa.Table.from_batches([run.rows for run in found], schema).equals(
        pa.Table.from_batches([run.rows for run in wanted], schema)
    )
    assert [run.digest for run in found] == [run.digest for run in wanted]


CHANGES = st.lists(
    st.tuples(st.integers(0, 2**16), st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF])),
    min_size=1,
    max_size=4,
)


def changed(data: bytes, start: int, changes: list[tuple[int, int]]) -> bytes:
    out = bytearray(data)
    for at, byte in changes:
        out[start + at % (len(out) - start)] = byte
    return bytes(out)


@given(batch=made_batches(), changes=CHANGES)
def test_a_change_that_the_checksum_covers_is_found(batch: MadeBatch, changes: list[tuple[int, int]]) -> None:
    whole = batch.encode(100)
    damaged = changed(whole, 21, changes)
    if damaged != whole:
        assert (
            read(COMPILED, damaged) == "t-0: the batch at offset 100 is damaged: its checksum does not match."
        )


@settings(max_examples=4 * settings().max_examples)
@given(batch=made_batches(), changes=CHANGES)
def test_records_that_were_damaged_before_the_checksum_was_made(
    batch: MadeBatch, changes: list[tuple[int, int]]
) -> None:
    agree(resealed(changed(batch.encode(100), _HEADER_BYTES, changes)))


@given(batch=made_batches(), changes=CHANGES)
def test_headers_that_were_damaged_before_the_checksum_was_made(
    batch: MadeBatch, changes: list[tuple[int, int]]
) -> None:
    whole = batch.encode(100)
    damaged = changed(whole[:_HEADER_BYTES], 21, changes) + whole[_HEADER_BYTES:]
    agree(resealed(damaged))


@given(data=st.binary(max_size=300))
def test_bytes_that_never_were_batches(data: bytes) -> None:
    agree(data)


@given(records=st.binary(min_size=1, max_size=200), count=st.integers(0, 40), compression=st.integers(0, 7))
def test_a_sound_header_before_any_bytes(records: bytes, count: int, compression: int) -> None:
    header = bytearray(MadeBatch([], skipped=50).encode(7)[:_HEADER_BYTES])
    header[8:12] = (len(records) + _HEADER_BYTES - 12).to_bytes(4)
    header[22] = compression
    header[57:61] = count.to_bytes(4)
    agree(resealed(bytes(header) + records))


@pytest.mark.skipif("NUMBA_BOUNDSCHECK" in os.environ, reason="this is the inner run")
def test_no_access_is_out_of_bounds(tmp_path: Path) -> None:
    """The same tests with numba's own checks of each index compiled in, which production leaves out."""
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", __file__]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=250, check=False)
    assert run.returncode == 0, run.stdout[-4000:]
