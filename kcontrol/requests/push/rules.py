"""What may be pushed to an input, and whether there is room for it."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from kcontrol.core.model import InputSpec, StepBoundary
from kcontrol.errors import ConfigurationError
from kcontrol.requests.push.limits import BodyLimits, OversizedPushError, Rules
from kcontrol.requests.push.log import TooMuchError
from kcontrol.requests.push.schema import row_kind
from kcontrol.views.pipeline_projection import PipelineProjection
from kcontrol.wire.addresses import is_topic

MEASURED_STEPS = 50
"""By the newest so many it is told how fast a pipeline reads."""
LONGEST_RETRY_S = 60
_UNKNOWN_RETRY_S = 5


def rules_for(pipeline: str, item: InputSpec, key: str, limits: BodyLimits) -> Rules:
    """key: the field of which the rows' keys are made; '': none, or the one that the input is partitioned by. Raises
    ConfigurationError: nothing can be pushed to this input, or not with that key."""
    where = f"pipeline {pipeline!r}, input {item.name!r}"
    if not is_topic(item.topic):
        raise ConfigurationError(
            f"{where}: it reads no topic, but {item.topic.partition(':')[0]}: something else; rows can be pushed to "
            f"inputs that "
            "read a topic"
        )
    if item.value_format not in ("json", "raw"):
        raise ConfigurationError(
            f"{where}: its values are {item.value_format}; rows can be pushed to inputs of JSON and to raw ones: write to its "
            f"topic {item.topic!r} with a producer"
        )
    kind = row_kind(item.value_schema) if item.value_format == "json" else None
    if item.partitioned_by and key not in ("", item.partitioned_by):
        raise ConfigurationError(
            f"{where}: it is partitioned by {item.partitioned_by!r}, so the rows' keys can't be made of {key!r}: leave key out"
        )
    key = key or item.partitioned_by
    if key and kind is not None and key not in kind.fields:
        raise ConfigurationError(f"{where}: a row {kind.unknown(key)}, of which its key is to be made")
    return Rules(where, kind, item.value_format == "raw", key, limits)


def check_room(
    projection: PipelineProjection,
    item: InputSpec,
    ends: Mapping[int, int],
    rows: int,
    most: int,
    under_way: int = 0,
) -> None:
    """Raise TooMuchError if more than `most` rows of the input would wait for a step; OversizedPushError if there will never be
    room for so many. ends: by partition, behind the last row that the caller has pushed, which nobody else need have seen
    yet. under_way: rows of other requests that are being written."""
    if rows > most:
        raise OversizedPushError(
            f"pipeline {projection.pipeline!r}, input {item.name!r}: {rows} rows in a request, and {most} may wait at most"
        )
    waiting = 0
    for part in projection.lag_of(item.name).partitions:
        waiting += max(part.waiting, ends.get(part.partition, 0) - part.committed)
    beyond = waiting + under_way + rows - most
    if beyond <= 0:
        return
    rate = rows_per_s(projection, item.name)
    retry_s = min(LONGEST_RETRY_S, max(1, ceil(beyond / rate))) if rate else _UNKNOWN_RETRY_S
    told = f"reads {rate:.0f} rows/s" if rate else "has read none lately"
    more = f", {under_way} more are being written," if under_way else ""
    raise TooMuchError(
        f"pipeline {projection.pipeline!r}, input {item.name!r}: {waiting} rows wait{more} and {most} may; the pipeline {told}",
        retry_s,
    )


def rows_per_s(projection: PipelineProjection, input_name: str) -> float:
    """How fast the newest steps have read an input; 0 if that is not known."""
    newest = list(projection.recent)[-MEASURED_STEPS:]
    steps = [logged.record for logged in newest if isinstance(logged.record, StepBoundary)]
    if len(steps) < 2:
        return 0.0
    # The first only says when the others began.
    read = sum(piece.records for step in steps[1:] for piece in step.inputs if piece.input == input_name)
    return read * 1000 / max(1, steps[-1].committed_ms - steps[0].committed_ms)
