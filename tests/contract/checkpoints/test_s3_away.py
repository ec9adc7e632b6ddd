"""An S3 server that is away: a bounded number of tries, a clear error, and everything is as before when it is
back."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kcontrol.adapters.checkpoints import CheckpointStore, StoreLimits
from kcontrol.errors import CheckpointCancelledError, CheckpointError
from tests.support.parts import contents_of, make_pin, place
from tests.support.patience import HANG_MS, HANG_S
from tests.support.s3 import S3Server

FAST = StoreLimits(
    attempts=2, request_attempts=1, first_wait_ms=10, connect_timeout_ms=500, request_timeout_ms=2_000
)
CONTENTS = {"out/a": b"1", "out/b": b"2" * 1000}


def patient() -> CheckpointStore:
    """For what must not fail, however long it takes."""
    return CheckpointStore(StoreLimits(request_timeout_ms=HANG_MS))


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    server = S3Server(tmp_path / "s3")
    (tmp_path / "s3").mkdir()
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server


def test_tries_are_bounded_and_what_was_saved_is_there_when_the_server_is_back(
    server: S3Server, tmp_path: Path
) -> None:
    location, pin = server.location("a"), make_pin(tmp_path / "pin", CONTENTS)
    store = CheckpointStore(FAST)
    with server:
        saved = patient().save(place(location, 2), pin)
    with pytest.raises(CheckpointError, match="failed 2 times") as raised:
        store.save(place(location, 3), pin)
    assert "s3://checkpoints/a/" in str(raised.value)
    for secret in server.environment.values():
        assert secret not in str(raised.value)
    with pytest.raises(CheckpointError, match="failed 2 times"):
        store.readable(location, saved.manifest)
    with server:
        patient().restore(location, saved.manifest, tmp_path / "back")
        assert contents_of(tmp_path / "back") == CONTENTS
        assert patient().save(place(location, 3), pin).copied_bytes == 0


def test_a_server_that_comes_back_in_time_is_waited_for(server: S3Server, tmp_path: Path) -> None:
    location, pin = server.location("a"), make_pin(tmp_path / "pin", CONTENTS)
    with server:
        patient().save(place(location, 1), pin)
    tries = StoreLimits(attempts=10_000, request_attempts=1, first_wait_ms=500, longest_wait_ms=500)
    with ThreadPoolExecutor(1) as pool:
        saving = pool.submit(CheckpointStore(tries).save, place(location, 2), pin)
        with server:
            assert saving.result(HANG_S).files == 2


def test_a_server_that_hangs_is_given_up_after_the_limits(server: S3Server, tmp_path: Path) -> None:
    location, pin = server.location("a"), make_pin(tmp_path / "pin", CONTENTS)
    store = CheckpointStore(FAST)
    with server:
        patient().save(place(location, 2), pin)
        server.pause()
        began = time.monotonic()
        with pytest.raises(CheckpointError, match="failed 2 times"):
            store.save(place(location, 3), pin)
        assert time.monotonic() - began < HANG_S


def test_a_bucket_that_is_not_there_is_named(server: S3Server, tmp_path: Path) -> None:
    with server:
        location = server.location("a").replace("s3://checkpoints", "s3://absent")
        with pytest.raises(CheckpointError, match="s3://absent/a/"):
            CheckpointStore(FAST).save(place(location, 2), make_pin(tmp_path / "pin", CONTENTS))


def test_wrong_credentials_are_an_error_that_does_not_tell_them(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-right-one")
    with server, pytest.raises(CheckpointError, match="s3://checkpoints/a/") as raised:
        CheckpointStore(FAST).save(place(server.location("a"), 2), make_pin(tmp_path / "pin", CONTENTS))
    assert "not-the-right-one" not in str(raised.value)


def test_waiting_for_a_server_that_is_away_can_be_cancelled(server: S3Server, tmp_path: Path) -> None:
    tries = StoreLimits(attempts=100, request_attempts=1, first_wait_ms=600_000, longest_wait_ms=600_000)
    give_up = threading.Event()
    threading.Timer(1.0, give_up.set).start()
    began = time.monotonic()
    with pytest.raises(CheckpointCancelledError):
        CheckpointStore(tries).save(
            place(server.location("a"), 2), make_pin(tmp_path / "pin", CONTENTS), give_up.is_set
        )
    assert time.monotonic() - began < HANG_S
