"""A webhook that committed steps are sent to, at least once.

It can't hold the number of a step in a transaction of its own, so that stands in Kafka (`StepStanding`), and is written
down when the last request of a step was answered. Whoever dies before that sends the step again: the same requests with the
same keys, by which the other side can tell.
"""

from __future__ import annotations

import json
import logging
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Protocol

from kcontrol.adapters.webhook.address import WebhookAddress, WebhookSecrets, signature
from kcontrol.adapters.webhook.bodies import BadRecordError, BodyPart, Cut, maker, parts
from kcontrol.adapters.webhook.client import HookAnswer, HookClient
from kcontrol.core.step.following import (
    Applied,
    Delivered,
    Guarantee,
    PlacedRecords,
    RecordPlace,
    StepVerdict,
    judge_step,
)
from kcontrol.errors import ConfigurationError, DeliveryHaltedError, ReplacedError, TargetAwayError
from kcontrol.version import __version__

_log = logging.getLogger("kcontrol.deliver")

BAD_RECORDS_TOLD = 3
"""Of a step, one by one; of the others only how many they are."""
_TAKE_TRIES = 10
"""Whoever joins a group waits some seconds for others that may, too."""
_PASSING = frozenset({408, 421, 423, 425, 429, 500, 502, 503, 504, 507, 509, 521, 522, 523, 524, 529})


class StepStanding(Protocol):
    """Where the delivery stands, and whose it is. All raise TargetAwayError; `take`d ones `write` and `beat`, and raise
    ReplacedError once another process has the delivery."""

    def open(self) -> None: ...

    def close(self) -> None: ...

    def read(self) -> Applied | None:
        """May be old, unless the delivery was taken."""
        ...

    def take(self) -> bool: ...

    def beat(self) -> None: ...

    def write(self, applied: Applied) -> None: ...


@dataclass(frozen=True)
class WebhookOptions:
    """skips_bad_records: and counts them, instead of halting. timeout_s: of a request whole: connecting, sending and the
    answer, however slowly that comes. has_start: it was said where a delivery begins of which nothing is known."""

    address: WebhookAddress
    value_format: str
    schema: str = ""
    cut: Cut = field(default_factory=Cut)
    secrets: WebhookSecrets = field(default_factory=WebhookSecrets)
    tls: ssl.SSLContext | None = None
    skips_bad_records: bool = False
    timeout_s: float = 15.0
    has_start: bool = False


class WebhookTarget:
    """For one output. All methods raise TargetAwayError, after which `open` begins anew, and DeliveryHaltedError."""

    guarantee = Guarantee.AT_LEAST_ONCE
    kind = "webhook"
    held_by = "another process"

    def __init__(
        self,
        options: WebhookOptions,
        pipeline: str,
        output: str,
        standing: StepStanding,
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        """Raises ConfigurationError: the format is none, or lacks its schema."""
        self._options, self._standing, self._clock_s = options, standing, clock_s
        self._pipeline, self._output = pipeline, output
        self._text_of = maker(options.value_format, options.schema)
        self._client: HookClient | None = None
        self._beginning: Applied | None = None
        self._forgotten = False
        self._applied: Applied | None = None

    def __str__(self) -> str:
        return str(self._options.address)

    @property
    def name(self) -> str:
        """Host and path."""
        return self._options.address.name

    @property
    def address(self) -> str:
        """Without its query."""
        return self._options.address.shown

    def open(self) -> None:
        """Nothing is sent yet: a webhook has nothing that could be looked at."""
        self._standing.open()
        if self._client is None:
            headers = {"User-Agent": f"kcontrol/{__version__}", **self._options.secrets.headers}
            self._client = HookClient(self._options.timeout_s, self._options.tls, headers)

    def close(self) -> None:
        """Let go of the connection, and of the delivery."""
        self._standing.close()
        if self._client is not None:
            self._client.close()
            self._client = None

    def applied(self) -> Applied | None:
        """What was written down; None: nothing is known of an earlier delivery. That only who has the delivery can say: a
        broker's answer may be old, and to begin anew because of it would send everything again, or leave out what is due."""
        known = self._beginning or self._standing.read()
        if known is not None:
            return known
        for _ in range(_TAKE_TRIES):
            if self._standing.take():
                return self._standing.read()
        raise TargetAwayError(
            f"{self}: nothing is known of an earlier delivery yet, and another process has this one"
        )

    def forget(self) -> None:
        """Where `begin` says, whatever was written down."""
        self._forgotten = True

    def begin(self, log_id: str, step: int) -> None:
        """`step` counts as the last one, unless whoever has the delivery has written another one down until `take`. Raises
        ConfigurationError: nobody has said where to begin."""
        if not self._options.has_start:
            raise ConfigurationError(
                f"{self}: nothing is known of an earlier delivery, either because there was none, or because it ended longer "
                "ago than Kafka keeps what a group has committed (offsets.retention.minutes, 7 days): say where to begin with "
                "--start first, next, or a step's number"
            )
        self._beginning = Applied(self._pipeline, log_id, step)

    def take(self) -> Applied | None:
        """Have the delivery, so that nobody else has. None: somebody else has it."""
        self._applied = None
        if not self._standing.take():
            return None
        applied = self._standing.read()
        if self._beginning is not None and (applied is None or self._forgotten):
            applied = self._beginning
            self._standing.write(applied)
        if applied is None:
            raise TargetAwayError(f"{self}: what was delivered is not known any more")
        self._beginning, self._forgotten = None, False
        self._applied = applied
        return applied

    def beat(self, last_in_log: int) -> None:  # noqa: ARG002 - nobody looks there
        """Say that this is at work. Raises ReplacedError."""
        self._standing.beat()

    def halted(self, reason: str) -> None:
        """There is nobody to tell."""

    def apply(
        self, step: int, its_print: str, committed_ms: int, records: PlacedRecords, follows: int
    ) -> Delivered:
        """Send a step, then write its number down. follows: see `judge_step`. Raises ReplacedError: another has taken over.
        What iterating `records` raises."""
        before = self._applied
        if before is None:
            raise ReplacedError(f"{self}: another process has taken this delivery over")
        verdict = judge_step(before, step, its_print, follows)
        if verdict is not StepVerdict.NEXT:
            return Delivered(verdict, before)
        rows, bad_rows = self._send(before.log_id, step, committed_ms, records)
        now = Applied(self._pipeline, before.log_id, step, its_print)
        self._standing.write(now)
        self._applied = now
        return Delivered(verdict, before, rows, bad_rows)

    def _send(self, log_id: str, step: int, committed_ms: int, records: PlacedRecords) -> tuple[int, int]:
        left_out = _LeftOut(self, step, skips=self._options.skips_bad_records)
        rows = 0
        for part, is_last in _and_whether_last(parts(records, self._text_of, self._options.cut, left_out)):
            self._standing.beat()
            self._post(log_id, step, committed_ms, part, is_last=is_last)
            rows += len(part.records)
        left_out.tell()
        return rows, left_out.count

    def _post(self, log_id: str, step: int, committed_ms: int, part: BodyPart, *, is_last: bool) -> None:
        request_id = (
            f"{self._pipeline}/{log_id}/{self._output}/{step}/{part.partition}/{part.first}-{part.last}"
        )
        about = {
            "pipeline": self._pipeline,
            "output": self._output,
            "step": step,
            "committed_ms": committed_ms,
            "partition": part.partition,
            "first_offset": part.first,
            "last_offset": part.last,
            "last_of_step": is_last,
        }
        # The records are JSON already, and stay as they are.
        body = f'{json.dumps(about)[:-1]}, "records": [{",".join(part.records)}]}}'.encode()
        where = f"{self}, step {step}, partition {part.partition}, offsets {part.first} to {part.last}"
        self._judge(self._answer(body, self._headers(request_id, body), where), where)

    def _headers(self, request_id: str, body: bytes) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "Idempotency-Key": f'"{request_id}"'}
        if key := self._options.secrets.key:
            at_s = int(self._clock_s())
            headers |= {
                "Webhook-Id": request_id,
                "Webhook-Timestamp": str(at_s),
                "Webhook-Signature": signature(key, request_id, at_s, body),
            }
        return headers

    def _answer(self, body: bytes, headers: dict[str, str], where: str) -> HookAnswer:
        if self._client is None:
            raise TargetAwayError(f"{self}: not connected")
        return self._client.post(self._options.address.url, body, headers, where)

    def _judge(self, answer: HookAnswer, where: str) -> None:
        if 200 <= answer.status < 300:
            return
        said = f": {answer.text.strip()}" if answer.text.strip() else ""
        if answer.status in _PASSING:
            raise TargetAwayError(f"{where}: answered {answer.status}{said}", self._wait_s(answer))
        if 300 <= answer.status < 400:
            to = answer.headers.get("location", "nowhere")
            raise DeliveryHaltedError(
                f"{where}: answered {answer.status}, to {to}. A POST does not follow redirects: give the address itself"
            )
        raise DeliveryHaltedError(
            f"{where}: refused with {answer.status}{said}. Its step was not taken, and is sent whole again when the "
            "delivery is started again: put right what the answer names first"
        )

    def _wait_s(self, answer: HookAnswer) -> float:
        text = answer.headers.get("retry-after", "")
        if text.isdecimal():
            return float(text)
        try:
            return max(0.0, parsedate_to_datetime(text).timestamp() - self._clock_s())
        except ValueError:
            return 0.0


class _LeftOut:
    """Takes the records of a step that can't be sent."""

    def __init__(self, target: WebhookTarget, step: int, *, skips: bool) -> None:
        self._target, self._step, self._skips = target, step, skips
        self.count = 0

    def __call__(self, place: RecordPlace, error: BadRecordError) -> None:
        said = f"step {self._step}, {place}: {error}"
        if not self._skips:
            raise DeliveryHaltedError(
                f"{self._target}: {said}. Leave such records out with --on-bad-row skip, or put right what makes them"
            ) from error
        self.count += 1
        if self.count <= BAD_RECORDS_TOLD:
            _log.warning("left out: %s", said)

    def tell(self) -> None:
        if self.count > BAD_RECORDS_TOLD:
            _log.warning("step %d: %d bad records were left out", self._step, self.count)


def _and_whether_last(every: Iterator[BodyPart]) -> Iterator[tuple[BodyPart, bool]]:
    before = next(every, None)
    if before is None:
        return
    for part in every:
        yield before, False
        before = part
    yield before, True
