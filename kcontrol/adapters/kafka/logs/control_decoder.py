"""Kafka records of the control topic to control records, whoever has read them: our own reader or Faust's
agent."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable

from kcontrol.adapters.kafka.logs.records import RawRecord
from kcontrol.core.model import Logged, StepRecord, Tombstone
from kcontrol.errors import DamagedRecordError, UnknownRecordError
from kcontrol.wire.codec import RecordCodec, is_schema_key
from kcontrol.wire.keys import pipeline_of, why_key_misplaced, why_misplaced

_log = logging.getLogger(__name__)

MAX_NAMED = 100
"""So many of the records that were left out are remembered with where they are."""


class _MisplacedError(DamagedRecordError):
    """A whole record that does not belong where it lies."""


class ControlDecoder:
    """Decodes one partition of the control topic; learns the schemas it meets there.

    What doesn't belong there is counted in `rejected` and named in the log, and is otherwise as if it were
    not there: anybody who may write to the topic could put it there, and a coordinator that stops for it
    would stop for good.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        partitions: int,
        pipeline: str | None = None,
        wanted: Callable[[str], bool] | None = None,
        *,
        newest_only: bool = False,
    ) -> None:
        """partitions: how many the topic has. pipeline: only this one's records are returned; None: all. wanted: of those,
        only under keys of which this says so; the others are not decoded, and so not found to be damaged either. newest_only:
        of what is decoded at once, only the newest record of each key, as compaction would leave it some time."""
        self._topic = topic
        self._partition = partition
        self._partitions = partitions
        self._pipeline = pipeline
        self._wanted, self._newest_only = wanted, newest_only
        self._codec = RecordCodec()
        self.published: set[str] = set()
        """Keys of the schemas that are in the partition."""
        self.rejected: Counter[str] = Counter()
        """By reason: unreadable, unknown (newer than this version) or misplaced."""
        self.left_out: deque[str] = deque(maxlen=MAX_NAMED)
        """What is wrong with the newest of them, and where each is."""

    def decode_all(self, records: Iterable[RawRecord]) -> list[Logged]:
        """The control records among `records`, in their order."""
        chunk = list(records)
        # All schemas first: one that was published again later is, after compaction, behind records that need
        # it.
        for record in chunk:
            with contextlib.suppress(DamagedRecordError):  # `decode` says it
                self._learn(record)
        if self._newest_only:
            newest = {record.key: record.offset for record in chunk}
            chunk = [record for record in chunk if newest[record.key] == record.offset]
        return [logged for record in chunk if (logged := self.decode(record)) is not None]

    def decode(self, record: RawRecord) -> Logged | None:
        """The control record, or None for one that is not ours, is a schema (which is learnt), or does not
        belong."""
        try:
            return self._decode(record)
        except (DamagedRecordError, UnknownRecordError) as error:
            why = _why(error)
            self.rejected[why] += 1
            self.left_out.append(str(error))
            # Each stays in the topic, and would be said at every start of every process: the first says
            # enough.
            if self.rejected[why] == 1:
                _log.warning("Left out: %s; more of them (%s) are counted and not named here", error, why)
            else:
                _log.debug("Left out: %s", error)
            return None

    def _decode(self, record: RawRecord) -> Logged | None:
        where = self._where(record)
        key = _text(record.key)
        if key is None:
            raise DamagedRecordError(f"{where}: its key is not text")
        if is_schema_key(key):
            self._learn(record)
            return None
        if self._pipeline is not None and pipeline_of(key) != self._pipeline:
            return None
        if self._wanted is not None and not self._wanted(key):
            return None
        if record.value is None:
            reason = why_key_misplaced(key, self._partition, self._partitions)
            logged = Logged(record.offset, record.timestamp_ms, Tombstone(key))
        else:
            decoded = self._codec.decode(record.value, where)
            if isinstance(decoded, StepRecord):
                raise _MisplacedError(f"{where}: a {type(decoded).__name__} belongs into a steps topic")
            reason = why_misplaced(key, decoded, self._partition, self._partitions)
            logged = Logged(record.offset, record.timestamp_ms, decoded)
        if reason:
            raise _MisplacedError(f"{where}: {reason}")
        return logged

    def _learn(self, record: RawRecord) -> None:
        key = _text(record.key)
        if key is not None and record.value is not None and is_schema_key(key) and key not in self.published:
            self._codec.learn(key, record.value, self._where(record))
            self.published.add(key)

    def _where(self, record: RawRecord) -> str:
        return f"topic {self._topic!r}, partition {self._partition}, offset {record.offset}"


def _why(error: DamagedRecordError) -> str:
    match error:
        case UnknownRecordError():
            return "unknown"
        case _MisplacedError():
            return "misplaced"
        case _:
            return "unreadable"


def _text(key: bytes | None) -> str | None:
    try:
        return None if key is None else key.decode()
    except UnicodeDecodeError:
        return None
