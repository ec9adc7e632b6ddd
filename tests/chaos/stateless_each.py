"""The second pipeline of `--stateless both`: that of `stateless.py`, of the same inputs, which is planned in each step and
writes to topics of its own, so that the outputs of both ways can be compared."""

from __future__ import annotations

from tests.chaos.names import TWIN
from tests.chaos.stateless import planned

pipeline = planned(TWIN, once=False)
