"""What commands ask of files: whether they are there, and where their whole lines end. Only a process on the host that has them
can answer."""

from __future__ import annotations

from collections.abc import Collection

from kcontrol.adapters.files.watcher import FileLooks
from kcontrol.errors import ConfigurationError
from kcontrol.sessions.ports import Reach
from kcontrol.wire.files import LINES_ID, files_of, is_files

NOT_KAFKAS = (
    "its lines are in files, which Kafka does not keep: whoever removes or changes one takes the replay away"
)


def files_end(input_name: str, topic: str) -> int:
    """The offset behind the last whole line that is there. Raises ConfigurationError: the files are not there, or can't be read
    in ranges; RetriableError: the disk does not answer."""
    id_, end = FileLooks(input_name, files_of(topic), 0, None).look()
    if id_ != LINES_ID:
        raise ConfigurationError(f"input {input_name!r}: {id_}")
    return end


def files_reach(input_name: str, topic: str) -> Reach:
    """The same as a watcher would say it, for a command on the node's own host."""
    return Reach(LINES_ID, (files_end(input_name, topic),))


def files_kept(topics: Collection[str]) -> dict[str, str]:
    """Of those that are files: why nothing is known of how long they are kept."""
    return {topic: NOT_KAFKAS for topic in topics if is_files(topic)}
