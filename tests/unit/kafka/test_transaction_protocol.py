"""Whether a cluster gives each transaction an epoch of its own, by what its brokers answer."""

from __future__ import annotations

import pytest

from kcontrol.adapters.kafka.client.transaction_protocol import FeaturesResponse, has_epoch_for_each


def _feature(name: bytes, most: int) -> bytes:
    return bytes([len(name) + 1]) + name + most.to_bytes(2, "big") + (0).to_bytes(2, "big") + b"\0"


def _answer(*features: bytes, error: int = 0, tag: int = 2) -> FeaturesResponse:
    return FeaturesResponse(error, [], 0, {tag: bytes([len(features) + 1]) + b"".join(features)})


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (_answer(_feature(b"group.version", 1), _feature(b"transaction.version", 2)), True),
        (_answer(_feature(b"transaction.version", 3)), True),
        (_answer(_feature(b"transaction.version", 1)), False),
        (_answer(_feature(b"metadata.version", 29)), False),
        (_answer(_feature(b"transaction.version", 2), tag=0), False),
        (_answer(_feature(b"transaction.version", 2), error=35), False),
        (FeaturesResponse(0, [], 0, {}), False),
    ],
    ids=["finalized", "newer", "older", "unknown", "supported only", "refused", "none"],
)
def test_it_is_the_finalized_version_of_transactions_that_counts(
    answer: FeaturesResponse, expected: bool
) -> None:
    assert has_epoch_for_each(answer) is expected
