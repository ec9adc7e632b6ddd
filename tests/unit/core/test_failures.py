"""Every error of kcontrol's own has one kind, wherever it is met."""

from __future__ import annotations

import pytest

from kcontrol import errors
from kcontrol.core.failures import kind_of
from kcontrol.core.model import FailureKind

QUERY, LOST, BROKER, FENCED = FailureKind.QUERY, FailureKind.LOST, FailureKind.BROKER, FailureKind.FENCED


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.FencedError, FENCED),
        (errors.RetriableError, BROKER),
        (errors.UnseenRecordError, BROKER),
        (errors.CommitUnknownError, BROKER),
        (errors.AccessError, FailureKind.DENIED),
        (errors.DigestMismatchError, FailureKind.DIGEST),
        (errors.InputGoneError, FailureKind.INPUT_GONE),
        (errors.CheckpointError, LOST),
        (errors.CheckpointDamagedError, LOST),
        (errors.SparkLostError, LOST),
        (errors.HungError, LOST),
        (errors.TopicError, QUERY),
        (errors.ConfigurationError, QUERY),
        (errors.SparkSettingError, QUERY),
        (errors.DamagedRecordError, QUERY),
        (OSError, LOST),
        (KeyError, LOST),
    ],
)
def test_an_error_is_of_the_kind_of_its_class(error: type[Exception], kind: FailureKind) -> None:
    assert kind_of(error("x")) is kind


@pytest.mark.parametrize("kind", list(FailureKind))
def test_a_failed_step_keeps_the_kind_that_it_was_raised_with(kind: FailureKind) -> None:
    assert kind_of(errors.StepFailedError(kind, "x")) is kind
