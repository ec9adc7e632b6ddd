"""What commands ask of files: whether they are there, and where their whole lines end. Of files on a disk only a process on the
host that has them can answer."""

from __future__ import annotations

from collections.abc import Collection

from kcontrol.adapters.files.stores import changed_version, version_at
from kcontrol.adapters.files.watcher import FileLooks
from kcontrol.core.model import InputSpec
from kcontrol.errors import ConfigurationError, InputGoneError
from kcontrol.sessions.ports import Reach
from kcontrol.wire.files import LINES_ID, FileAddress, UrlVersion, files_of, is_files, version_in

NOT_KAFKAS = (
    "its lines are in files, which Kafka does not keep: whoever removes or changes one takes the replay away"
)


def files_id(input_name: str, topic: str, before: str) -> str:
    """What stands in place of a topic's id. before: in the log, or ''; what a URL gives is then not asked, for watchers find
    out. Raises as `files_end`."""
    if before:
        return before
    address = files_of(topic)
    if address.is_one_version:
        return _version(input_name, address).text
    files_end(input_name, topic)
    return LINES_ID


def files_end(input_name: str, topic: str) -> int:
    """The offset behind the last whole line that is there. Raises ConfigurationError: the files are not there, or can't be read
    in ranges; RetriableError: disk or server do not answer."""
    address = files_of(topic)
    if address.is_one_version:
        return _version(input_name, address).size_bytes
    id_, end = FileLooks(input_name, address, 0, None).look()
    if id_ != LINES_ID:
        raise ConfigurationError(f"input {input_name!r}: {id_}")
    return end


def files_reach(item: InputSpec) -> Reach:
    """The same as a watcher would say it."""
    address = files_of(item.topic)
    if not address.is_one_version:
        return Reach(LINES_ID, (files_end(item.name, item.topic),))
    was, now = version_in(item.topic_id), _version(item.name, address)
    return Reach(changed_version(address, was, now) or item.topic_id, (was.size_bytes,))


def files_kept(topics: Collection[str]) -> dict[str, str]:
    """Of those that are files: why nothing is known of how long they are kept."""
    return {topic: NOT_KAFKAS for topic in topics if is_files(topic)}


def _version(input_name: str, address: FileAddress) -> UrlVersion:
    try:
        return version_at(address)
    except (InputGoneError, ConfigurationError) as error:
        raise ConfigurationError(f"input {input_name!r}: {error}") from error
