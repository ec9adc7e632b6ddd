"""Says in a task what went wrong, with its kind, before it becomes text in Spark's exception."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kcontrol.adapters.spark.channel.client import ChannelAddress, client_of
from kcontrol.adapters.spark.channel.crossing import carried
from kcontrol.adapters.spark.channel.messages import ReportFailure
from kcontrol.core.failures import kind_of
from kcontrol.errors import KcontrolError, StepFailedError


@contextmanager
def failures_reported(address: ChannelAddress, serial: int) -> Iterator[None]:
    """Tells the driver of kcontrol's own errors, which then go on through Spark as `carried` has them.

    The first reason of an attempt counts, so saying one twice does no harm. What else fails is only carried:
    a task that Spark has ended meets the end of its connection, and is not the reason.
    """
    with carried():
        try:
            yield
        except KcontrolError as error:
            # If the driver can't be told, or the attempt is over anyway, the error itself is what matters.
            with suppress(StepFailedError):
                client_of(address).ask(ReportFailure(serial, kind_of(error), str(error)))
            raise
