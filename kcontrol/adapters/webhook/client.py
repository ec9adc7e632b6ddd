"""Requests to a webhook, each of which is over after so long, whatever the other side does.

Limits of single reads would not do: whoever sends a byte before each of them ends is waited for without end. So requests run on
an event loop, where what takes too long can be given up at any place, between one call and the next of a caller that waits.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

import httpx

from kcontrol.errors import TargetAwayError

ANSWER_BYTES = 500
"""Of an answer that refuses, for the message."""


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """text: the beginning of its body, if it refuses."""

    status: int
    text: str
    headers: httpx.Headers


class HookClient:
    """With a connection that is kept. For one thread, which runs no event loop."""

    def __init__(self, timeout_s: float, tls: ssl.SSLContext | None, headers: Mapping[str, str]) -> None:
        """timeout_s: of a request whole. tls: None for what is usual."""
        self._timeout_s = timeout_s
        self._runner = asyncio.Runner()
        self._client = httpx.AsyncClient(
            timeout=None,  # The request has one, as a whole.
            verify=True if tls is None else tls,
            follow_redirects=False,
            trust_env=False,
            headers=dict(headers),
        )

    def post(self, url: str, body: bytes, headers: Mapping[str, str], where: str) -> HookAnswer:
        """where: for messages. Raises TargetAwayError: there was no answer, or not in time."""
        try:
            return self._runner.run(self._post(url, body, headers))
        except TimeoutError as error:
            raise TargetAwayError(
                f"{where}: not answered within {self._timeout_s:g} s (--request-timeout)"
            ) from error
        except httpx.HTTPError as error:
            raise TargetAwayError(f"{where}: {type(error).__name__}: {error}") from error

    async def _post(self, url: str, body: bytes, headers: Mapping[str, str]) -> HookAnswer:
        found: HookAnswer | None = None
        text = bytearray()
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                self._client.stream("POST", url, content=body, headers=dict(headers)) as answer,
            ):
                found = HookAnswer(answer.status_code, "", answer.headers)
                if not answer.is_success:
                    async for chunk in answer.aiter_bytes():
                        text += chunk
                        if len(text) >= ANSWER_BYTES:
                            break
        except (TimeoutError, httpx.HTTPError):
            # What was said by then is an answer; its text is only for people.
            if found is None:
                raise
        assert found is not None
        return HookAnswer(found.status, bytes(text[:ANSWER_BYTES]).decode(errors="replace"), found.headers)

    def close(self) -> None:
        """Let go of the connection."""
        with self._runner:
            self._runner.run(self._client.aclose())
