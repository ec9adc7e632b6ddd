"""RegionParticipant: what takes part in a region and is no pipeline, such as what feeds a topic from a queue.

It speaks HTTP with any `kcontrol serve`. What it is told is a level: who looks late, or again, is told the same, so any number
of hints may be lost. What it says is in Kafka before it is answered, and is said again until its lease is renewed.
"""

from __future__ import annotations

import logging
import select
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Any
from uuid import uuid4

import httpx

from kcontrol.errors import ConfigurationError, NotFoundError, ReplacedError, RetriableError

_log = logging.getLogger(__name__)

_OK, _NOT_FOUND, _SERVER_ERROR = 200, 404, 500
_PATIENCE_S = 120.0
"""What is to be said is said again for so long."""
_AGAIN_S = 0.5
_AFTER_HINT_S, _LOOK_S = 3.0, 0.2
"""A server follows Kafka, and may know a change a little later than the hint says: it is looked at so often, for so long."""
_BEATS = 3
"""In the time of a lease."""


@dataclass(frozen=True, slots=True)
class RegionOrder:
    """What a member is told. word: triggerDrain, resumeSubmission, triggerReset, resetFailed, hold, or '': nothing.

    seq_id: of the drain, or of the cut of a reset. last_completed: the newest cut. to_retire: cuts up to this one are needed
    for no reset. saving: others still save. reset_attempt: which try, from 0; -1 where it is none.
    """

    word: str
    seq_id: int
    last_completed: int
    to_retire: int
    saving: bool
    reset_attempt: int

    @property
    def is_drain(self) -> bool:
        """Save your part of cut `seq_id`, and say so: `checkpoint_done`."""
        return self.word == "triggerDrain"

    @property
    def is_reset(self) -> bool:
        """Go back to cut `seq_id`, and say so: `reset_done`."""
        return self.word == "triggerReset"


class RegionParticipant:
    """Iterates over what it is told, each time that it is something else.

        with kcontrol.RegionParticipant("end-of-day", "mq-bridge", "http://127.0.0.1:8480") as member:
            for order in member:
                if order.is_drain:
                    member.checkpoint_done(order)
                elif order.is_reset:
                    member.reset_done(order)
                acknowledge(member.cut(order.last_completed))

    server: address of a `kcontrol serve`. token: its. poll_s: it looks so often. hint: `IP:PORT` at which it listens for
    hints, of which the region's controllers have to be able to reach it; '': it only polls. lease_s: of the region's
    definition. timeout_s: of each request.

    Raises NotFoundError: there is no such region, or member. While iterating, ReplacedError: another process speaks for this
    member since. RetriableError: no server has taken what it said for two minutes.
    """

    def __init__(
        self,
        region: str,
        member: str,
        server: str,
        *,
        token: str = "",
        poll_s: float = 5.0,
        hint: str = "",
        lease_s: float = 30.0,
        timeout_s: float = 10.0,
    ) -> None:
        if poll_s <= 0 or lease_s <= 0 or timeout_s <= 0:
            raise ConfigurationError(
                "RegionParticipant: poll_s, lease_s and timeout_s must be greater than 0."
            )
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(base_url=server, headers=headers, timeout=timeout_s)
        self._name = f"member {member!r} of region {region!r}"
        self._region, self._member = region, member
        self._path = f"/v1/consistentregion/region/{region}/pe/{member}"
        self._look_path = f"/v1/consistentregion/pe/{member}/region/{region}"
        self._poll_s, self._lease_s = poll_s, lease_s
        self._process, self._life = uuid4().hex, -1
        self._closed, self._failed = Event(), list[Exception]()
        self._speaking = Lock()
        self._socket, self._hint = _listening(hint)
        self._word: tuple[str, int, int] = ("join", 0, 0)
        """What it has done last: said again and again."""
        try:
            self._say(*self._word)
        except BaseException:
            self._http.close()
            raise
        self._beating = Thread(target=self._beat, name=f"beats of {self._name}", daemon=True)
        self._beating.start()

    # --- what it is told ------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[RegionOrder]:
        last: RegionOrder | None = None
        news_until_s = 0.0
        while not self._closed.is_set():
            if self._failed:
                raise self._failed[0]
            order = self._look()
            if order is not None and order != last:
                last = order
                yield order
                continue
            soon = time.monotonic() < news_until_s
            if self._await_hint(_LOOK_S if soon else self._poll_s):
                news_until_s = time.monotonic() + _AFTER_HINT_S

    def _look(self) -> RegionOrder | None:
        """None: nobody has answered, or the region does not know this process yet."""
        try:
            told = self._answer("GET", self._look_path, None)
        except RetriableError as error:
            _log.info("%s: %s; looking again", self._name, error)
            return None
        if told["life"] > self._life:
            raise ReplacedError(f"{self._name}: another process speaks for it since.")
        if told["life"] < self._life:
            return None
        return RegionOrder(
            *(told["notification"] or "", told["seqId"], told["lastCompleted"]),
            *(told["retId"], bool(told["pendCkpt"]), told["resetAttempt"]),
        )

    def _await_hint(self, timeout_s: float) -> bool:
        if self._socket is None:
            self._closed.wait(timeout_s)
            return False
        ready, _, _ = select.select([self._socket], [], [], timeout_s)
        if ready:
            self._socket.recv(16)
        return bool(ready)

    def cut(self, number: int) -> Mapping[tuple[str, int], int]:
        """By topic and partition, the offset up to which the region's pipelines had read, or written, at a cut: what lies
        before is in it. Where several read a topic, the lowest. {}: there is no such cut (any more)."""
        if number < 1:
            return {}
        try:
            found = self._insist("GET", f"/v1/regions/{self._region}/cuts/{number}", None)
        except NotFoundError:
            return {}
        offsets: dict[tuple[str, int], int] = {}
        for pipeline in found["pipelines"]:
            for each in (*pipeline["positions"], *pipeline["ends"]):
                place = each["topic"], each["partition"]
                offsets[place] = min(offsets.get(place, each["offset"]), each["offset"])
        return offsets

    # --- what it says ---------------------------------------------------------------------------------------

    def checkpoint_done(self, order: RegionOrder) -> None:
        """All that this member did before it was told is saved. Returns once that is in Kafka."""
        self._say("checkpoint", order.seq_id, 0)

    def blocking_checkpoint_done(self, order: RegionOrder) -> None:
        """What is to be saved is held fast, and others may go on; `checkpoint_done` has to follow."""
        self._say("blockingcheckpoint", order.seq_id, 0)

    def reset_done(self, order: RegionOrder) -> None:
        """It stands at the cut that it was told to go back to."""
        self._say("reset", order.seq_id, order.reset_attempt)

    def ask_for_drain(self) -> None:
        """Ask that the region is drained, where it is operator driven and has this member among its triggers. Returns once that
        is in Kafka; then it is asked for until there is a cut: an order `triggerDrain` follows, for this member, too.

        Raises ConfigurationError: it may not ask. RetriableError: no server has taken it for two minutes; it may be asked for.
        """
        path = f"/v1/consistentregion/region/{self._region}/drain"
        while True:
            number = self._insist("GET", f"/v1/regions/{self._region}", None)["next"]
            answer = self._insist("PUT", path, {"request": {"operator": self._member, "seqId": number}})
            if not answer["rejected"] or self._closed.wait(_AGAIN_S):
                return  # It was late by one drain, otherwise.

    def _say(self, what: str, seq_id: int, reset_attempt: int) -> None:
        with self._speaking:
            self._word = what, seq_id, reset_attempt
            self._speak()

    def _say_again(self) -> None:
        """What it has done last: looked at in its turn, or it could take back what is said meanwhile."""
        with self._speaking:
            self._speak()

    def _speak(self) -> None:
        what, seq_id, reset_attempt = self._word
        body = {
            "process": self._process,
            "life": self._life,
            "seqId": seq_id,
            "resetAttempt": reset_attempt,
            "hint": self._hint,
        }
        answer = self._insist("PUT", f"{self._path}/{what}", {"progress": body})
        if answer["rejected"]:
            raise ReplacedError(f"{self._name}: {answer['rejected']}.")
        self._life = answer["life"]

    def _beat(self) -> None:
        while not self._closed.wait(self._lease_s / _BEATS):
            try:
                self._say_again()
            except Exception as error:  # noqa: BLE001 - whoever iterates is told of it
                self._failed.append(error)
                return

    def _insist(self, method: str, path: str, body: object) -> Any:
        deadline_s = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return self._answer(method, path, body)
            except RetriableError:
                if time.monotonic() > deadline_s or self._closed.wait(_AGAIN_S):
                    raise

    def _answer(self, method: str, path: str, body: object) -> Any:
        """Raises RetriableError, NotFoundError, ConfigurationError."""
        try:
            answer = self._http.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise RetriableError(f"{self._http.base_url} does not answer: {error}") from error
        if answer.status_code == _NOT_FOUND:
            raise NotFoundError(f"{self._name}: {answer.text[:500]}")
        if answer.status_code >= _SERVER_ERROR:
            raise RetriableError(f"{self._http.base_url} answers {answer.status_code}: {answer.text[:500]}")
        if answer.is_error:
            raise ConfigurationError(f"{self._name}: {answer.status_code}: {answer.text[:500]}")
        return answer.json()

    def close(self) -> None:
        """Say nothing more: once its lease is over the region is without it, and is not drained."""
        self._closed.set()
        self._beating.join(self._lease_s)
        self._http.close()
        if self._socket is not None:
            self._socket.close()

    def __enter__(self) -> RegionParticipant:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _listening(hint: str) -> tuple[socket.socket | None, str]:
    """Where hints come in, and as which address it is told; port 0: any that is free."""
    if not hint:
        return None, ""
    host, _, port = hint.rpartition(":")
    plain = host.removeprefix("[").removesuffix("]")
    listening = socket.socket(socket.AF_INET6 if ":" in plain else socket.AF_INET, socket.SOCK_DGRAM)
    listening.bind((plain, int(port)))
    return listening, f"{host}:{listening.getsockname()[1]}"
