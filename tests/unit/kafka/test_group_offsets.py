"""Many groups read together, with brokers that are played; on real ones: tests/integration/kafka/test_group_offsets.py."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from kcontrol.adapters.kafka.admin import group_offsets
from kcontrol.adapters.kafka.admin.group_offsets import AT_ONCE, GroupOffsets, KeptOffset
from kcontrol.errors import AccessError, ClusterError, RetriableError
from kcontrol.settings.cluster import ClusterSettings


class PlayedClient:
    """Keeps for group `g7` the offset 7. wrong: what asking for a group ends with, by its name, once each."""

    def __init__(self) -> None:
        self.rpc, self.wrong = self, dict[str, Exception]()
        self.at_once = self.most_at_once = self.asked = 0

    def start(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(asyncio.run(work))
        except Exception as error:  # noqa: BLE001 - as the loop of connections hands it on
            done.set_exception(error)
        return done

    async def group_coordinator(self, group: str) -> int:
        self.asked += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        if group in self.wrong:
            raise self.wrong.pop(group)
        return int(group.removeprefix("g"))

    async def send(self, node: int, _: Any) -> Any:
        return SimpleNamespace(error_code=0, topics=[("steps", [(0, node, None, 0)])])


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedClient]:
    played = PlayedClient()
    monkeypatch.setattr(group_offsets, "client_for", lambda _: played)
    yield played
    assert played.at_once == 0, "nothing is under way any more"


def names(many: int) -> list[str]:
    return [f"g{number}" for number in range(many)]


def offsets() -> GroupOffsets:
    return GroupOffsets(ClusterSettings(bootstrap_servers="127.0.0.1:1"), "steps")


def test_many_are_read_in_their_order_and_not_all_at_once(client: PlayedClient) -> None:
    assert offsets().read_all(names(250)) == [KeptOffset(number, "") for number in range(250)]
    assert (client.asked, client.most_at_once) == (250, AT_ONCE)
    assert offsets().read_all([]) == []


def test_one_whose_coordinator_is_not_ready_is_asked_again(client: PlayedClient) -> None:
    client.wrong = {"g3": RetriableError("not ready")}
    assert offsets().read_all(names(5)) == [KeptOffset(number, "") for number in range(5)]


def test_what_asking_again_does_not_mend_is_told_at_once(client: PlayedClient) -> None:
    client.wrong = {"g1": RetriableError("not ready"), "g3": AccessError("no right")}
    with pytest.raises(AccessError, match="no right"):
        offsets().read_all(names(5))
    assert client.asked == 5


def test_one_that_is_never_ready_is_an_error(client: PlayedClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_offsets, "TIMEOUT_MS", 0)
    client.wrong = {"g1": RetriableError("not ready")}
    with pytest.raises(ClusterError, match="2 groups from 'g0'"):
        offsets().read_all(names(2))
