"""Where lines begin and end, with the compiled loop and without."""

from __future__ import annotations

import random

import numpy as np
import pytest

from kcontrol.wire.batches.codec import CODEC_VARIABLE
from kcontrol.wire.batches.lines import lines_in
from tests.support.dice import say_seed, seed_of_run

TRIES = 500


@pytest.mark.parametrize("codec", ["compiled", "reference"])
def test_every_line_is_found_without_its_end(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CODEC_VARIABLE, codec)
    seed = seed_of_run()
    say_seed(seed)
    dice = random.Random(seed)
    for _ in range(TRIES):
        words = [b"\n", b"\r", b"\r\n", b"a", b"\0", b"\xff", b"x" * dice.choice([0, 1, 60, 5_000])]
        parts = [dice.choice(words) for _ in range(dice.randint(0, 40))]
        data = b"".join([*parts, b"\n"])
        assert found_in(data) == [line.removesuffix(b"\r") for line in data[:-1].split(b"\n")]


@pytest.mark.parametrize("codec", ["compiled", "reference"])
def test_so_are_more_lines_than_there_is_room_for(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CODEC_VARIABLE, codec)
    assert found_in(b"\n" * 100_000) == [b""] * 100_000


def found_in(data: bytes) -> list[bytes]:
    starts, ends = lines_in(np.frombuffer(data, np.uint8))
    return [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
