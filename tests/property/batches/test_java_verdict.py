"""Record batches with right checksums and wrong contents, judged by us and by Kafka's own client for Java.

What both take must be the same rows. docs/values.md explains each kind of difference; another kind fails.
"""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kcontrol.adapters.kafka.embedded.artifacts import locked_artifacts
from kcontrol.errors import DamagedRecordError
from kcontrol.settings.places import cache_home
from kcontrol.wire.batches import Fetched, codec_named
from tests.property.batches.made import MadeBatch, MadeRecord, resealed

HARNESS = Path(__file__).parents[2] / "support" / "BatchVerdict.java"
SEED = 20_261_122
FEW, MANY = 2_000, 50_000
BASE_OFFSET = 100
_HEADER_BYTES, _ATTRIBUTES_AT, _LENGTH_AT, _LENGTH_FROM = 61, 21, 8, 12
_NUMBERS = (
    b"\x80" * 9 + b"\x01",
    b"\xff" * 9 + b"\x01",
    b"\xff" * 4 + b"\x0f",
    b"\xff" * 4 + b"\x7f",
    b"\x80" * 10 + b"\x01",
)
_MORE_NUMBERS = (b"\x01", b"\x03", b"\x80\x00", b"\x80" * 5 + b"\x00")

WE_REFUSE = ("offset delta", "out of the range of timestamps", "it says that it has")
"""A part of each reason of ours for what Java takes."""
WE_TAKE = (
    "Found invalid record structure",
    "Varint is too long",
    "Varlong is too long",
    "Unknown compression type",
)
"""A part of each reason of Java's for what we take, in a batch with records."""
_REFERENCE, _COMPILED = codec_named("reference"), codec_named("compiled")


def made(chance: random.Random) -> bytes:
    def data() -> bytes | None:
        return chance.choice([None, b"", chance.randbytes(chance.randint(0, 12))])

    def headers() -> tuple[tuple[str, bytes | None], ...]:
        return tuple((chance.choice(["", "a", "name"]), data()) for _ in range(chance.randint(0, 2)))

    deltas = sorted(chance.sample(range(30), chance.randint(1, 4)))
    records = [MadeRecord(delta, chance.randint(0, 2**41), data(), data(), headers()) for delta in deltas]
    return MadeBatch(
        records, append_time_ms=chance.choice([None, None, 5]), skipped=chance.randint(0, 2)
    ).encode(BASE_OFFSET)


def mutated(data: bytes, chance: random.Random) -> bytes:
    """One to three changes, most of them in the records; length and checksum are right again."""
    out = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        in_records = chance.random() < 0.85
        at = (
            chance.randint(_HEADER_BYTES, len(out))
            if in_records
            else chance.randrange(_ATTRIBUTES_AT, _HEADER_BYTES)
        )
        match chance.randrange(5):
            case 0 if at < len(out):
                out[at] = chance.randrange(256)
            case 1 if at < len(out):
                out[at] ^= 1 << chance.randrange(8)
            case 2 if in_records:
                del out[at : at + chance.randint(1, 3)]
            case 3 if in_records:
                out[at:at] = chance.randbytes(chance.randint(1, 3))
            case 4 if in_records:
                out[at : at + 1] = chance.choice(_NUMBERS + _MORE_NUMBERS)
    struct.pack_into(">i", out, _LENGTH_AT, len(out) - _LENGTH_FROM)
    return resealed(out)


def ours(data: bytes) -> str:
    """As the harness prints it; both codecs must agree."""
    said = []
    for codec in (_REFERENCE, _COMPILED):
        try:
            runs = list(Fetched(data, "t-0").decode(codec, (), 0, 2**62, headers=True))
        except DamagedRecordError as error:
            said.append(f"bad {error}")
            continue
        rows = [_shown(row) for run in runs for row in zip(*_columns(run.rows), strict=True)]
        said.append(" ".join(["ok", *rows]))
    assert said[0] == said[1], data.hex()
    return said[0]


def _columns(rows: pa.RecordBatch) -> list[list[Any]]:
    times = rows.column("timestamp").cast("int64").to_pylist()
    return [times, *(rows.column(name).to_pylist() for name in ("offset", "key", "value", "headers"))]


def _shown(row: tuple[Any, ...]) -> str:
    time_us, offset, key, value, headers = row
    pairs = [f"{one['key'].encode().hex()}={_hex(one['value'])}" for one in headers or ()]
    return ",".join([str(offset), str(time_us // 1_000), _hex(key), _hex(value), *pairs])


def _hex(value: bytes | None) -> str:
    return "null" if value is None else value.hex()


def java(values: list[bytes]) -> list[str]:
    if shutil.which("javac") is None:
        pytest.skip("no Java compiler")
    jars = [cache_home() / "jars" / artifact.file_name for artifact in locked_artifacts()]
    if not all(jar.exists() for jar in jars):
        pytest.skip("the broker's jars are not here yet")
    sent = b"".join(struct.pack(">i", len(value)) + value for value in values)
    command = ["java", "-cp", ":".join(map(str, jars)), str(HARNESS)]
    return (
        subprocess.run(command, input=sent, capture_output=True, check=True, timeout=600)
        .stdout.decode()
        .splitlines()
    )


def judge(count: int) -> Counter[str]:
    chance = random.Random(SEED)
    values = [mutated(made(chance), chance) for _ in range(count)]
    found: Counter[str] = Counter()
    for value, theirs in zip(values, java(values), strict=True):
        found[difference(value, ours(value), theirs)] += 1
    return found


def difference(value: bytes, mine: str, theirs: str) -> str:
    if mine.startswith("ok") and theirs.startswith("ok"):
        assert mine == theirs, value.hex()
        return "both take it"
    if mine.startswith("bad") and theirs.startswith("bad"):
        return "both refuse it"
    if mine.startswith("ok"):
        if mine == "ok":
            return "we do not unpack a batch without records, or of control"
        reason = next((reason for reason in WE_TAKE if reason in theirs), None)
    else:
        reason = next((reason for reason in WE_REFUSE if reason in mine), None)
    assert reason is not None, f"{value.hex()}: we say {mine!r}, Java {theirs!r}"
    return reason


def test_damaged_batches_are_judged_as_kafkas_own_client_does() -> None:
    found = judge(FEW)
    assert found["both take it"] > FEW // 20
    assert found["both refuse it"] > FEW // 2


@pytest.mark.heavy
def test_many_damaged_batches_are_judged_as_kafkas_own_client_does() -> None:
    sys.stdout.write(f"seed {SEED}: {dict(judge(MANY))}\n")
