"""A broker keeps silent only while it is listened to: a time in which the whole process stood still is not held against it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiokafka import errors as kafka_errors

from kcontrol.adapters.kafka.client.connections import _Connection
from tests.support.patience import HANG_S

PATIENCE_S = 0.4


class Silent:
    """Of aiokafka: a connection that brings its answer when it is told to."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def connected(self) -> bool:
        return not self.answer.done()

    async def send(self, request: str) -> str:
        return await self.answer

    def close(self, reason: object) -> None:
        self.answer.set_exception(kafka_errors.KafkaConnectionError())


def play(scenario: Callable[[Silent, asyncio.Task[Any]], Coroutine[Any, Any, None]]) -> None:
    """With a request under way."""

    async def run() -> None:
        raw = Silent()
        asked = asyncio.create_task(_Connection(raw, lambda: None).send("?", 0.0, PATIENCE_S))
        await asyncio.sleep(0)
        await scenario(raw, asked)

    asyncio.run(asyncio.wait_for(run(), HANG_S))


def test_an_answer_that_comes_after_this_process_stood_still_is_taken() -> None:
    async def scenario(raw: Silent, asked: asyncio.Task[Any]) -> None:
        time.sleep(2 * PATIENCE_S)  # noqa: ASYNC251 - the loop stands still
        # Its turn is behind everything that was due meanwhile.
        asyncio.get_running_loop().call_later(0.001, raw.answer.set_result, "!")
        assert await asked == "!"

    play(scenario)


def test_who_says_nothing_after_it_either_is_given_up() -> None:
    async def scenario(raw: Silent, asked: asyncio.Task[Any]) -> None:
        time.sleep(2 * PATIENCE_S)  # noqa: ASYNC251 - the loop stands still
        with pytest.raises(kafka_errors.KafkaConnectionError):
            await asked

    play(scenario)
