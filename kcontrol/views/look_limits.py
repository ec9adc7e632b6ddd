"""How far a question about a record's fate may look."""

from __future__ import annotations

LOOKS_S = 10.0
"""For all records of one question; each takes one fetch of one batch."""
MAX_LOOK_OFFSETS = 10_000
"""That are read, unless told otherwise, to find out whether a record that is not in Kafka any
more was there when its step read."""
