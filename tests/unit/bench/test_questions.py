"""Questions of the bench: an answer as of a step that is new counts apart, and a wrong answer ends the bench."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bench.questions.client import Asker
from bench.questions.measure import SQL, check
from bench.topics import KEYS
from tests.support.patience import HANG_S

WHOLE = [[0, 400], [1, 350], [2, KEYS - 750]]


@contextmanager
def server(
    steps: list[int], rows: list[list[int]], status: int = 200
) -> Iterator[tuple[str, threading.Event]]:
    """Answers as of these steps, one after the other and the last one again and again; its address, and whether all of them
    were asked."""
    questions: list[bytes] = []
    enough = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            questions.append(self.rfile.read(int(self.headers["Content-Length"])))
            assert json.loads(questions[-1]) == {"sql": SQL}
            assert self.path == "/v1/pipelines/shop/query"
            step = steps[min(len(questions), len(steps)) - 1]
            columns = [{"name": "node", "type": "int"}, {"name": "keys", "type": "bigint"}]
            body = json.dumps({"step": step, "columns": columns, "rows": rows}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            if len(questions) >= len(steps):
                enough.set()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as answering:
        threading.Thread(target=answering.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{answering.server_port}", enough
        answering.shutdown()


def test_answers_as_of_new_steps_are_told_apart() -> None:
    with server([7, 7, 9, 9], WHOLE) as (url, enough):
        asker = Asker(url, "shop", SQL, check)
        with asker.asking(0.0):
            assert enough.wait(HANG_S)
    assert [(each.step, each.is_new) for each in asker.answers[:4]] == [
        (7, True),
        (7, False),
        (9, True),
        (9, False),
    ]
    assert all(each.ms > 0 for each in asker.answers)


@pytest.mark.parametrize(
    "rows", [WHOLE[:2], [*WHOLE[:2], [2, 1]], [*WHOLE, [2, 0]], [[0, KEYS], [1, 0], [3, 0]]]
)
def test_an_answer_that_is_not_whole_ends_it(rows: list[list[int]]) -> None:
    with server([7], rows) as (url, enough):
        asker = Asker(url, "shop", SQL, check)
        with pytest.raises(RuntimeError, match="an answer names"), asker.asking(0.0):
            assert enough.wait(HANG_S)
    assert not asker.answers


def test_so_does_one_that_is_refused() -> None:
    with server([7], WHOLE, status=503) as (url, _):
        asker = Asker(url, "shop", SQL, check)
        with pytest.raises(OSError, match="503"):
            asker.ask()
