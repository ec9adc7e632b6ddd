"""Somebody who asks a query server the same question again and again, as of the newest step that can be asked."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.request import Request, urlopen

ANSWER_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Answer:
    """ms: from when the question was sent to the first byte of the answer, which comes with all of its rows. step: as of
    which it is. is_new: nobody had asked about that step, so its state was copied first."""

    ms: float
    step: int
    is_new: bool


class Asker:
    """Asks one question of one pipeline. check: raises unless the rows are what they must be."""

    def __init__(
        self, url: str, pipeline: str, sql: str, check: Callable[[list[Mapping[str, Any]]], None]
    ) -> None:
        self._url, self._check = f"{url}/v1/pipelines/{pipeline}/query", check
        self._body = json.dumps({"sql": sql}).encode()
        self._steps: set[int] = set()
        self.answers: list[Answer] = []
        self._failure: Exception | None = None

    def ask(self) -> None:
        """Once. Raises OSError (of urllib, for an answer that is none), and what `check` raises."""
        request = Request(self._url, self._body, {"Content-Type": "application/json"}, method="POST")
        began_s = time.monotonic()
        with urlopen(request, timeout=ANSWER_TIMEOUT_S) as response:
            first = response.read(1)
            took_ms = (time.monotonic() - began_s) * 1e3
            if response.status != HTTPStatus.OK:
                raise OSError(f"a question was answered with {response.status}")
            said = json.loads(first + response.read())
        self._check(rows_of(said))
        step = int(said["step"])
        self.answers.append(Answer(took_ms, step, step not in self._steps))
        self._steps.add(step)

    @contextmanager
    def asking(self, every_s: float) -> Iterator[None]:
        """Ask every so many seconds, in a thread, for as long as the block runs; a question that is due while another is
        being answered follows at once. Raises what `ask` has raised."""
        over = threading.Event()
        thread = threading.Thread(target=self._ask_until, args=(over, every_s), name="questions", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(ANSWER_TIMEOUT_S)
        if self._failure is not None:
            raise self._failure

    def _ask_until(self, over: threading.Event, every_s: float) -> None:
        due_s = time.monotonic()
        while not over.wait(max(0.0, due_s - time.monotonic())):
            due_s = max(due_s + every_s, time.monotonic())
            try:
                self.ask()
            except Exception as error:  # noqa: BLE001 - raised where the block ends
                self._failure = error
                return


def rows_of(said: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The rows of an answer, by the names of their columns."""
    names = [column["name"] for column in said["columns"]]
    return [dict(zip(names, row, strict=True)) for row in said["rows"]]
