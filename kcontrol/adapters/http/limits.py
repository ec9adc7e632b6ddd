"""The limits of the HTTP server. Each is a number; none is infinite. Those that are part of the interface are
fixed."""

from __future__ import annotations

from dataclasses import dataclass, field

from kcontrol.adapters.http.push_desk import MAX_QUEUED_ROWS
from kcontrol.requests.push.limits import BodyLimits, MemoryLimits
from kcontrol.views.look_limits import MAX_LOOK_OFFSETS

PAGE_SIZE = 100
"""Of a list, when none is asked for."""
MAX_PAGE_SIZE = 1_000
MAX_WAIT_S = 20.0
"""Longest that a read can be asked to wait for what is not there yet."""
DEFAULT_PROFILE_S = 5.0
MAX_PROFILE_S = 20.0
"""Longest that a node's CPU profile can take; less than the request's own limit."""
WRITE_SEEN_S = 5.0
"""After a write, the server waits so long to have read it itself, so that whoever asks it next sees it."""


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """max_body_bytes: of a request. max_concurrent: requests at a time, others get 503 at once; streams are counted
    apart. max_connections: open at once, beside those of streams.
    headers_timeout_s: for the headers of a request, from when its connection is made; one that brings none whole is cut off.
    request_timeout_s: for a request whole, body included, from its headers on; longer than MAX_WAIT_S.
    keep_alive_s: of an idle connection.
    longest_wait_s: of a read that was asked to wait; less than MAX_WAIT_S where the server
    shall not keep requests so long.
    stop_timeout_s: for the requests under way when the server ends. max_look_offsets: that are read to find
    out what became of a record that Kafka has no more. max_streams: of outputs, at a time; 0: none, for whoever may ask
    could read them. longest_stream_s: then one ends, behind a step, and is asked for again; one that its client does
    not take is cut off `request_timeout_s` later. max_push_bytes: of a body with rows; 0: none is taken, for whoever may
    ask could write them. max_queued_rows: of an input may wait for a step. bodies: what else such a body may be.
    remembered: what is remembered of requests that have pushed rows.
    """

    max_body_bytes: int = 64 << 10
    max_concurrent: int = 64
    max_connections: int = 512
    headers_timeout_s: float = 10.0
    request_timeout_s: float = 30.0
    longest_wait_s: float = MAX_WAIT_S
    keep_alive_s: int = 15
    stop_timeout_s: int = 5
    max_look_offsets: int = MAX_LOOK_OFFSETS
    max_streams: int = 0
    max_push_bytes: int = 0
    max_queued_rows: int = MAX_QUEUED_ROWS
    bodies: BodyLimits = field(default_factory=BodyLimits)
    remembered: MemoryLimits = field(default_factory=MemoryLimits)
    longest_stream_s: float = 600.0
