"""Committed steps as they come, from `kcontrol steps --follow --json`, over every crash of what it reads from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

AGAIN_S = 0.3

Boundary = dict[str, Any]
"""One StepBoundary with the names of its schema, as the command line prints it."""


class StepFeed:
    """Follows one pipeline in the background; `steps` only grows, in order, without a gap."""

    def __init__(self, pipeline: str, bootstrap_servers: str) -> None:
        self._pipeline = pipeline
        self._bootstrap_servers = bootstrap_servers
        self._steps: list[Boundary] = []
        self._changed = threading.Condition()
        self._closed = False
        self._failure: Exception | None = None
        self._reader: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._follow, name="steps", daemon=True)
        self._thread.start()

    @property
    def steps(self) -> list[Boundary]:
        """Those seen so far; element k is step k + 1."""
        with self._changed:
            return list(self._steps)

    @property
    def last(self) -> Boundary:
        """The newest one seen. Raises IndexError before the first."""
        with self._changed:
            return self._steps[-1]

    @property
    def committed(self) -> int:
        """The last committed step that was seen."""
        with self._changed:
            return len(self._steps)

    def wait_for(self, found: Callable[[list[Boundary]], bool], timeout_s: float, each_s: float = 1.0) -> bool:
        """Wait until `found` holds of the steps; looks when one comes, and every `each_s`. Whether it held in time.

        Raises ValueError when the log's steps don't follow each other.
        """
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not found(self._steps):
                if self._failure is not None:
                    raise self._failure
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(min(left, each_s))
        return True

    def close(self) -> None:
        """Stop following."""
        self._closed = True
        if self._reader is not None:
            self._reader.kill()
        self._thread.join()

    def _follow(self) -> None:
        while not (self._closed or self._failure):
            command = ["steps", self._pipeline, "--bootstrap-servers", self._bootstrap_servers, "--follow", "--json"]
            self._reader = subprocess.Popen(
                [sys.executable, "-m", "kcontrol.cli", *command, "--from", str(self.committed + 1)],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
            with self._reader as reader:
                for line in reader.stdout or ():
                    self._add(json.loads(line))
                reader.kill()
            # The pipeline may not be known yet, or the broker be away.
            time.sleep(0 if self._closed else AGAIN_S)

    def _add(self, boundary: Boundary) -> None:
        with self._changed:
            if boundary["step"] != len(self._steps) + 1:
                self._failure = ValueError(f"the log has step {boundary['step']} after step {len(self._steps)}")
            else:
                self._steps.append(boundary)
            self._changed.notify_all()


def records_in(steps: list[Boundary]) -> int:
    """Input records of the steps."""
    return sum(piece["records"] for step in steps for piece in step["inputs"])


def records_out(steps: list[Boundary]) -> int:
    """Output records of the steps."""
    return sum(piece["records"] for step in steps for piece in step["outputs"])


def recovered_ms(steps: list[Boundary], since_ms: float) -> float | None:
    """Time from `since_ms` to the commit of the first step that was begun after it; None as long as there is none."""
    return next((step["committed_ms"] - since_ms for step in steps if step["opened_ms"] >= since_ms), None)
