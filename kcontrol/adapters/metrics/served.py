"""The metrics of what a server does itself: rows that are pushed to it, and outputs that it streams. They are part of the
catalogue."""

from __future__ import annotations

from collections.abc import Sequence

from kcontrol.adapters.metrics.metric import Metric, Where, counter, gauge

_INPUT = ("pipeline", "input")
_OUTPUT = ("pipeline", "output")

PUSHES = counter(
    Where.PUSHES, "kcontrol_pushes_total", _INPUT, "Requests whose rows were committed in the input's topic."
)
PUSHED_ROWS = counter(Where.PUSHES, "kcontrol_pushed_rows_total", _INPUT, "Their rows.")
PUSHED_BYTES = counter(
    Where.PUSHES,
    "kcontrol_pushed_bytes_total",
    _INPUT,
    "Bytes of these rows, keys and values, as they were written.",
)
PUSHES_REPLAYED = counter(
    Where.PUSHES,
    "kcontrol_pushes_replayed_total",
    _INPUT,
    "Requests that had their first answer again: their rows were committed before.",
)
PUSHES_REFUSED = counter(
    Where.PUSHES,
    "kcontrol_pushes_refused_total",
    (*_INPUT, "reason"),
    "Requests of which nothing was written: queue (--max-queued-rows wait for a step), remembered (--max-remembered-pushes), "
    "size (of the body, its rows or their number), rows (one is wrong, or the file), other_rows (of a request with this id), "
    "request (the input takes no such rows, or a header or parameter is wrong).",
)
PUSHES_FAILED = counter(
    Where.PUSHES,
    "kcontrol_pushes_failed_total",
    _INPUT,
    "Requests that Kafka has not taken, or not in time: rows of some may be committed all the same, which the same "
    "request finds out.",
)
PUSHES_REMEMBERED = gauge(
    Where.PUSHES, "kcontrol_pushes_remembered", (), "Requests that this server remembers now, in its memory."
)
PUSHES_REMEMBERED_LIMIT = gauge(
    Where.PUSHES, "kcontrol_pushes_remembered_limit", (), "So many may be (--max-remembered-pushes)."
)

STREAMS = gauge(Where.STREAMS, "kcontrol_streams", (), "Outputs that this server streams now.")
STREAMS_LIMIT = gauge(Where.STREAMS, "kcontrol_streams_limit", (), "So many it may (--max-streams).")
STREAMED_STEPS = counter(Where.STREAMS, "kcontrol_streamed_steps_total", _OUTPUT, "Steps that were streamed.")
STREAMED_ROWS = counter(
    Where.STREAMS,
    "kcontrol_streamed_rows_total",
    _OUTPUT,
    "Rows that were streamed; those of a step again for each client, and for one that was cut off within it.",
)
STREAMS_REFUSED = counter(
    Where.STREAMS,
    "kcontrol_streams_refused_total",
    _OUTPUT,
    "Requests that found as many streams as there may be (--max-streams).",
)
STREAMS_FAILED = counter(
    Where.STREAMS,
    "kcontrol_streams_failed_total",
    _OUTPUT,
    "Streams that ended with the event `problem`: a step is not there any more, or Kafka can't be read.",
)

SERVED: Sequence[Metric] = (
    *(PUSHES, PUSHED_ROWS, PUSHED_BYTES, PUSHES_REPLAYED, PUSHES_REFUSED, PUSHES_FAILED),
    *(PUSHES_REMEMBERED, PUSHES_REMEMBERED_LIMIT),
    *(STREAMS, STREAMS_LIMIT, STREAMED_STEPS, STREAMED_ROWS, STREAMS_REFUSED, STREAMS_FAILED),
)
