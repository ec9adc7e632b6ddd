"""Hints: a datagram for each participant at each change, which makes it look."""

from __future__ import annotations

import json
import logging
import queue
import socket
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from kcontrol import RegionParticipant
from kcontrol.adapters.hints import send_hints
from kcontrol.core.regions.model import RegionSettings, RegionState
from kcontrol.core.regions.participants import ParticipantSaid
from kcontrol.core.regions.records import RegionSaid, SaidKind
from tests.support.patience import HANG_S
from tests.unit.regions.led import LedRegion

SETTINGS = RegionSettings("orders", ("a", "mq", "pg"), participants=("mq", "pg"))


@contextmanager
def listening(family: socket.AddressFamily = socket.AF_INET, host: str = "127.0.0.1") -> Iterator[Any]:
    with socket.socket(family, socket.SOCK_DGRAM) as heard:
        heard.bind((host, 0))
        heard.settimeout(HANG_S)
        yield heard


def has_ipv6() -> bool:
    try:
        with listening(socket.AF_INET6, "::1"):
            return True
    except OSError:
        return False


def address_of(heard: socket.socket) -> str:
    return f"127.0.0.1:{heard.getsockname()[1]}"


def test_a_datagram_is_sent_to_each() -> None:
    """Whoever can't be reached keeps it from nobody."""
    with listening() as one, listening() as other:
        send_hints([address_of(one), "256.0.0.1:4000", "127.0.0.1:0", address_of(other)])
        assert (one.recv(16), other.recv(16)) == (b"\n", b"\n")


@pytest.mark.skipif(not has_ipv6(), reason="there is no IPv6 here")
def test_a_datagram_is_sent_to_an_address_of_ipv6() -> None:
    with listening(socket.AF_INET6, "::1") as heard:
        send_hints([f"[::1]:{heard.getsockname()[1]}"])
        assert heard.recv(16) == b"\n"


def said(member: str, hint: str) -> ParticipantSaid:
    return ParticipantSaid(9, RegionSaid("orders", member, "process", 7, SaidKind.JOINED, 1, hint=hint))


def test_each_change_is_hinted_at_to_those_who_take_part_and_listen() -> None:
    sent: list[Collection[str]] = []
    region = LedRegion(SETTINGS, sent.append)
    region.asked.words = {"mq": said("mq", "127.0.0.1:1"), "gone": said("gone", "127.0.0.1:2")}
    region.asked.words["pg"] = said("pg", "")
    region.until(lambda newest: newest.number >= 4)
    begun = len(sent)
    assert begun > 0
    assert sent == [{"127.0.0.1:1"}] * begun
    for name, word in list(region.asked.words.items()):
        region.asked.words[name] = replace(word, offset=10)
    region.until(lambda newest: newest.state is RegionState.PROCESSING)
    assert len(sent) > begun
    region.end()


class Told:
    """A server, as far as a participant can tell. hints: as it is told of. looks: what each look was answered with."""

    def __init__(self) -> None:
        self.seq_id = 1
        self.hints, self.looks = queue.Queue[str](), queue.Queue[int]()
        told = self

        class Answers(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                told.hints.put(body["progress"]["hint"])
                self._answer({"region": "orders", "life": 7, "rejected": ""})

            def do_GET(self) -> None:
                now = told.seq_id
                self._answer(
                    {
                        **{"notification": "triggerDrain", "seqId": now, "lastCompleted": 0},
                        **{"retId": 0, "pendCkpt": 0, "resetAttempt": -1, "life": 7},
                    }
                )
                told.looks.put(now)

            def _answer(self, facts: dict[str, object]) -> None:
                found = json.dumps(facts).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(found)))
                self.end_headers()
                self.wfile.write(found)

            def log_message(self, format: str, *values: object) -> None:
                logging.debug(format, *values)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)

    @contextmanager
    def serving(self) -> Iterator[str]:
        thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{self.server.server_port}"
        finally:
            self.server.shutdown()
            self.server.server_close()
            thread.join()


def test_a_hint_makes_a_participant_look() -> None:
    """It would look by itself in a day: what it is told now, a hint has told it to look for."""
    told, heard = Told(), queue.Queue[int]()

    def take_part(member: RegionParticipant) -> None:
        for order in member:
            heard.put(order.seq_id)
            if order.seq_id == 2:
                return

    with (
        told.serving() as server,
        RegionParticipant(
            *("orders", "mq", server),
            **{"hint": "127.0.0.1:0", "poll_s": 86_400, "lease_s": 3_600, "timeout_s": HANG_S},
        ) as member,
    ):
        threading.Thread(target=take_part, args=(member,), daemon=True).start()
        address = told.hints.get(timeout=HANG_S)
        assert heard.get(timeout=HANG_S) == 1
        assert [told.looks.get(timeout=HANG_S) for _ in range(2)] == [1, 1], "then it waits"
        told.seq_id = 2
        send_hints([address])
        assert heard.get(timeout=HANG_S) == 2
