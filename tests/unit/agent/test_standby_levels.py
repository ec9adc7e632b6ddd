"""Who asks for standbys raises the level as far as all agents know it."""

from __future__ import annotations

import asyncio

import pytest

from kcontrol.apps.agent import looking
from kcontrol.apps.agent.looking import ClusterView
from kcontrol.apps.agent.standbys import needs_standbys
from kcontrol.core.cluster.entries import Prepare
from kcontrol.core.cluster.model import AS_OF_LEVEL, LATEST_LEVEL, LEFT_ROOM_LEVEL, STANDBY_LEVEL
from kcontrol.requests.record import NotNowError
from kcontrol.settings.cluster import ClusterSettings
from tests.unit.agent.test_placed_again import ClusterLog


def asked(monkeypatch: pytest.MonkeyPatch, known: int) -> int:
    """The level then. known: by an agent, while another one knows all."""
    settings = ClusterSettings(bootstrap_servers="nowhere:1")
    log = ClusterLog(settings)
    log.entries = [Prepare("a", "a-1", levels=(1, LATEST_LEVEL)), Prepare("b", "b-1", levels=(1, known))]
    monkeypatch.setattr(looking, "KafkaClusterLog", lambda _settings: log)
    view = ClusterView(settings)
    asyncio.run(needs_standbys(view))
    return view.replica.level


def test_to_that_at_which_none_waits_for_room_that_another_one_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert asked(monkeypatch, LATEST_LEVEL) == LEFT_ROOM_LEVEL


def test_or_as_far_as_an_older_agent_knows_it_if_that_knows_standbys(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(monkeypatch, LEFT_ROOM_LEVEL - 1) == LEFT_ROOM_LEVEL - 1
    assert asked(monkeypatch, STANDBY_LEVEL) == STANDBY_LEVEL
    with pytest.raises(NotNowError, match="agents b run a version of kcontrol that knows no standbys"):
        asked(monkeypatch, AS_OF_LEVEL)
