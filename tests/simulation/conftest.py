"""What the simulators leave behind in a process that goes on with other tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.schedule import MOMENTS


@pytest.fixture(scope="package", autouse=True)
def other_tests_have_room() -> Iterator[None]:
    """Else a collection of garbage would look at all beginnings of schedules, for half a minute on a busy machine, in the
    middle of whatever test comes later."""
    yield
    MOMENTS.forget()
