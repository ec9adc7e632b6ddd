"""Where the lines of an input of files are: its address, and what stands in place of a topic's id.

As with rows that nobody keeps (`kcontrol.wire.addresses`) the address says all that the rows of a range of offsets follow
from, beside the bytes of the files themselves. Offsets are bytes: of one file, or of all files of a directory that match, put
one after the other in the order of their names. A line belongs to the range that its first byte is in, so a range may be cut
anywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kcontrol.core.step.division import FILES
from kcontrol.errors import ConfigurationError, InputGoneError

LINES_ID = "lines-1"
"""In place of a topic's id. Goes up when the same bytes must give other rows."""
MAX_LINE_BYTES = 1 << 30
S3 = "s3://"

_ADDRESS = re.compile(
    r"file:growing=([01]),header=([01]),max_line_bytes=(\d{1,10}),pattern=([^,/]*),path=((?:/|https?://|s3://)[^\n\0]*)"
)

_VERSION = re.compile(r"lines-1;size=(\d{1,18});tag=(.*);modified=(.*)")
"""A tag may hold any character that can be seen, but for quotation marks (RFC 9110, 8.8.3)."""


@dataclass(frozen=True, slots=True)
class FileAddress:
    """path: of the file, or its URL (also s3://bucket/key), or of the directory, or prefix of keys, if there is a pattern.
    pattern: which names count in it, as a shell has it; '': it is one file. growing: the last file may be appended to, and its
    last line counts when its end is written; else each is whole. header: the first line of each file is no row.
    max_line_bytes: a longer line is a bad record."""

    path: str
    pattern: str
    growing: bool
    header: bool
    max_line_bytes: int

    @property
    def is_url(self) -> bool:
        """Whether it is fetched, and not on a disk."""
        return not self.path.startswith("/")

    @property
    def is_s3(self) -> bool:
        """Whether it is in a store of objects that is asked as S3 is."""
        return self.path.startswith(S3)

    @property
    def is_one_version(self) -> bool:
        """Whether what stands in place of a topic's id says which version of it is read."""
        return self.is_url and not self.pattern

    @property
    def text(self) -> str:
        """As it stands in place of a topic's name."""
        return (
            f"file:growing={int(self.growing)},header={int(self.header)},max_line_bytes={self.max_line_bytes},"
            f"pattern={self.pattern},path={self.path}"
        )


@dataclass(frozen=True, slots=True)
class UrlVersion:
    """What a URL gives: tag and modified as its server says them (ETag, Last-Modified), '' if it does not; of an object of S3
    the tag alone."""

    size_bytes: int
    tag: str
    modified: str

    @property
    def text(self) -> str:
        """As it stands in place of a topic's id."""
        return f"{LINES_ID};size={self.size_bytes};tag={self.tag};modified={self.modified}"

    @property
    def told(self) -> str:
        """For people."""
        return f"{self.size_bytes} bytes{f', {self.tag}' if self.tag else ''}{f', of {self.modified}' if self.modified else ''}"

    @property
    def strong_tag(self) -> str:
        """A tag that no other bytes have, and that can be asked for; '' if there is none."""
        return self.tag if self.tag.startswith('"') and self.tag.isascii() else ""


def is_files(topic: str) -> bool:
    """Whether it is the address of files."""
    return topic.startswith(FILES)


def files_of(topic: str) -> FileAddress:
    """The address that stands in place of a topic's name. Raises ConfigurationError for one that is not known here."""
    match = _ADDRESS.fullmatch(topic)
    if match is None or not 1 <= int(match[3]) <= MAX_LINE_BYTES:
        raise ConfigurationError(
            f"address {topic!r} of an input: it is not one of files that this kcontrol knows; one of another kind "
            f"needs a newer one"
        )
    return FileAddress(match[5], match[4], match[1] == "1", match[2] == "1", int(match[3]))


def check_lines_id(where: str, topic_id: str) -> None:
    """Raise InputGoneError if lines are not read so here. where: the input."""
    version, _, _ = topic_id.partition(";")
    if version != LINES_ID:
        raise InputGoneError(
            f"{where}: its steps were made with lines of version {version!r}, and this kcontrol reads {LINES_ID!r}: run "
            "it with the version that made them, or give the pipeline another name"
        )


def version_in(topic_id: str) -> UrlVersion:
    """What a URL gave when the pipeline was first started. Raises InputGoneError for what says nothing of it."""
    match = _VERSION.fullmatch(topic_id)
    if match is None:
        raise InputGoneError(f"{topic_id!r} does not say which version of a URL it is")
    return UrlVersion(int(match[1]), match[2], match[3])
