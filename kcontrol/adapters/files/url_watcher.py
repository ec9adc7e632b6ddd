"""The InputWatcher port for a URL, or one object of S3: whether what it gives is still the version that was found when the
pipeline was first started."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from kcontrol.adapters.files.stores import changed_version, version_at
from kcontrol.core.model import InputSpec, ReceivedPartition
from kcontrol.errors import ConfigurationError, InputGoneError, RetriableError
from kcontrol.sessions.ports import Arrivals
from kcontrol.wire.files import files_of, version_in

LOOK_S = 10.0
"""Between two requests, which ask for one byte."""

_log = logging.getLogger(__name__)


class UrlWatcher:
    """Watches one input. One `arrivals` at a time."""

    def __init__(self, item: InputSpec, from_: Mapping[int, int], look_s: float = LOOK_S) -> None:
        """from_: by partition, where the next step begins. Raises ConfigurationError, InputGoneError: address or version are
        not known here."""
        self._address, self._id, self._was = files_of(item.topic), item.topic_id, version_in(item.topic_id)
        self._begin, self._look_s = max(from_.values(), default=0), look_s

    async def arrivals(self) -> Arrivals:
        """As the port says. All of it is there at once, and a server that is away takes nothing back."""
        end, said, away = self._was.size_bytes, "", ""
        while True:
            try:
                found = await asyncio.to_thread(self._look) if said else self._id
                away = ""
            except RetriableError as error:
                found = said
                if str(error) != away:
                    away = str(error)
                    _log.warning("%s", away)
            if found != said:
                said = found
                yield (ReceivedPartition(0, said, 0, end),), max(0, end - self._begin)
            await asyncio.sleep(self._look_s)

    def _look(self) -> str:
        try:
            return changed_version(self._address, self._was, version_at(self._address)) or self._id
        except (InputGoneError, ConfigurationError) as error:
            return str(error)

    async def close(self) -> None:
        """Nothing is open between two requests."""
