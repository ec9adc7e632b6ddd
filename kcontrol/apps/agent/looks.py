"""Looks at the logs of several pipelines at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

_One = TypeVar("_One")
_Seen = TypeVar("_Seen")

AT_ONCE = 8


async def side_by_side(look: Callable[[_One], Awaitable[_Seen]], at: Iterable[_One]) -> list[_Seen]:
    """What each of them has shown, in their order: one that gets no answer holds up few others."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def in_turn(one: _One) -> _Seen:
        async with turn:
            return await look(one)

    return await asyncio.gather(*map(in_turn, at))
