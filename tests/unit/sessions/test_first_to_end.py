"""The first of several works to end decides, and no other goes on."""

from __future__ import annotations

import asyncio

import pytest

from kcontrol.errors import RetriableError
from kcontrol.sessions.first_to_end import first_to_end
from tests.support.patience import HANG_S


class Endless:
    """A work that ends by being cancelled only."""

    cancelled = False

    async def __call__(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled = True


def test_the_first_to_end_ends_the_others() -> None:
    other = Endless()
    asyncio.run(asyncio.wait_for(first_to_end(other(), asyncio.sleep(0)), HANG_S))
    assert other.cancelled


def test_the_first_to_fail_fails_all() -> None:
    other = Endless()

    async def fails() -> None:
        raise RetriableError("no broker")

    with pytest.raises(RetriableError, match="no broker"):
        asyncio.run(asyncio.wait_for(first_to_end(other(), fails()), HANG_S))
    assert other.cancelled
