"""What is said of a JVM that does not answer."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from kcontrol.adapters.profiling.jvm import Jvm
from kcontrol.errors import RetriableError


class Gone:
    """A gateway to a JVM that fails in this way whatever is asked."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    @property
    def jvm(self) -> Any:
        raise self._error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            Py4JNetworkError("Answer from Java side is empty"),
            "gcClassHistogram: Answer from Java side is empty",
        ),
        (ConnectionRefusedError(111, "Connection refused"), "gcClassHistogram: .*Connection refused"),
        (
            Py4JError("An error occurred\n: a.B: c\n\tat x\nCaused by: d.E: no rights\n\tat y\n"),
            "gcClassHistogram: d.E: no rights$",
        ),
    ],
)
def test_a_jvm_that_is_gone_or_refuses_is_told_in_its_own_words(error: Exception, text: str) -> None:
    with pytest.raises(RetriableError, match=text):
        Jvm(Gone(error)).heap_profile()
