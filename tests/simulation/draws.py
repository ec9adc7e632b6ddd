"""What `random.Random` draws of a seed, without its ways around: a simulator draws some thousand times in a schedule."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

_T = TypeVar("_T")
_TURNS = [[(last, (last + 1).bit_length()) for last in range(number - 1, -1, -1)] for number in range(22)]
"""Of so many, which is the last that is left, and the bits of one that can be."""


class Draws(Random):
    """Each of these is, for the same seed, what the method of `Random` that it names gives: a test holds them to that."""

    def below(self, number: int) -> int:
        """`randrange`."""
        bits = number.bit_length()
        drawn = self.getrandbits(bits)
        while drawn >= number:
            drawn = self.getrandbits(bits)
        return drawn

    def one_of(self, these: Sequence[_T]) -> _T:
        """`choice`."""
        number = len(these)
        bits = number.bit_length()
        drawn = self.getrandbits(bits)
        while drawn >= number:
            drawn = self.getrandbits(bits)
        return these[drawn]

    def between(self, least: int, most: int) -> int:
        """`randint`."""
        number = most - least + 1
        bits = number.bit_length()
        drawn = self.getrandbits(bits)
        while drawn >= number:
            drawn = self.getrandbits(bits)
        return least + drawn

    def mixed(self, these: Sequence[_T]) -> list[_T]:
        """`sample` of all of them; of at most 21, which is where `Random` goes another way."""
        left, mixed, drawn_bits = list(these), [], self.getrandbits
        for last, bits in _TURNS[len(left)]:
            drawn = drawn_bits(bits)
            while drawn > last:
                drawn = drawn_bits(bits)
            mixed.append(left[drawn])
            left[drawn] = left[last]
        return mixed

    def shuffled(self, these: list[_T]) -> list[_T]:
        """These, in place, in the order of `shuffle`."""
        drawn_bits = self.getrandbits
        for at in range(len(these) - 1, 0, -1):
            bits = (at + 1).bit_length()
            other = drawn_bits(bits)
            while other > at:
                other = drawn_bits(bits)
            these[at], these[other] = these[other], these[at]
        return these

    def pass_over(self, count: int, *counts: int) -> None:
        """The draws of shuffling so many, and of one of so many each."""
        drawn_bits = self.getrandbits
        for most in (*range(count, 1, -1), *counts):
            bits = most.bit_length()
            while drawn_bits(bits) >= most:
                pass
