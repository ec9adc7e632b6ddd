"""One secured broker for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.secured import SecuredBroker, secured_broker


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured_broker(tmp_path_factory.mktemp("secured")) as broker:
        yield broker
        broker.broker.kill()
