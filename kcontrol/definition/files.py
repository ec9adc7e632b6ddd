"""Inputs that are files. Free of Spark and Kafka."""

from __future__ import annotations

import re
from dataclasses import KW_ONLY
from importlib.util import find_spec
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from kcontrol.definition.addressed import AddressedInput
from kcontrol.definition.errors import definition
from kcontrol.definition.schemas import check_schema, schema_text
from kcontrol.errors import ConfigurationError
from kcontrol.wire.files import LINES_ID, MAX_LINE_BYTES, S3, FileAddress
from kcontrol.wire.names import check_part_name, check_topic_name

MAX_PATH_CHARACTERS = 1_000

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


def _is_pattern(value: str | None) -> str | None:
    if value is not None and (not value or any(each in value for each in ",/\n\0")):
        raise ValueError("must be a pattern of names such as '*.ndjson', without '/' and ','")
    return value


def _is_path(value: str) -> str:
    if "\n" in value or "\0" in value or len(value) > MAX_PATH_CHARACTERS:
        raise ValueError(f"must be one line of at most {MAX_PATH_CHARACTERS} characters")
    if value.startswith(("http://", "https://")):
        return _is_url(value)
    if value.startswith(S3):
        return _is_object(value)
    if not value.startswith("/"):
        raise ValueError("must be an absolute path, or a URL that begins with http://, https:// or s3://")
    return value


def _is_url(value: str) -> str:
    parts = urlsplit(value)
    if not parts.hostname or parts.fragment:
        raise ValueError("must be a URL with a host, and without '#'")
    return value


def _is_object(value: str) -> str:
    bucket, _, key = value.removeprefix(S3).partition("/")
    # What has a user in it is refused later, by a sentence that does not show it.
    if "@" not in bucket and not _BUCKET.fullmatch(bucket):
        raise ValueError("must have the name of a bucket behind s3://")
    if "?" in key:
        raise ValueError(
            "must be without '?': region, endpoint and credentials come from AWS's variables and files"
        )
    return value


@definition
class FileInput(AddressedInput):
    """The lines of a file, or of the files of a directory, read in the order of their names. Files are read where they are, by
    ranges of bytes; a step that is run again reads the same bytes again.

    Its columns: `file`, the path; `offset`, where the line's first byte is: in the file, or for a directory in all of its
    files one after the other; `partition`, 0; `value`, the line as it is; and with a value_format the value's fields.

    name: what queries call it. path: of the file, absolute, on the host of the node that reads it; or of a directory; or a URL
        of http or https, whose server must give ranges of it; or an object of S3, s3://bucket/key, or what is right below a
        prefix, s3://bucket/prefix with a pattern.
    pattern: which files of a directory are read, such as "*.ndjson". Of new files each must come, by its name, after those
        that are there; files below other directories, hidden ones and those that begin with an underscore are left alone.
    growing: the last file may be appended to, and a line counts when its end is there. False: each file is whole when
        it appears, as what a URL gives always is. None: True, unless it is a URL, also of S3.
    value_format: "json" or "csv" to have the fields of each line as columns; None leaves lines as they are. A line is a
        record: what spans several lines is a bad one.
    schema: of the fields, with a value_format: a DDL string ("carrier STRING, delay INT") or a StructType.
    header: the first line of each file names the columns of CSV, and must be what the schema says.
    max_line_bytes: a longer line is a bad record.
    on_bad_record: what to do with a line that can't be parsed, or is too long: "halt", "skip" (and count it in the
        boundary) or "dead_letter".
    dead_letter_topic: where bad lines go, in the step's own transaction.
    node: the one node that reads it. None: node 0 of a pipeline that has no other.
    """

    log_id: ClassVar[str] = LINES_ID
    name: str
    _: KW_ONLY
    path: Annotated[str, AfterValidator(_is_path)]
    pattern: Annotated[str | None, AfterValidator(_is_pattern)] = None
    growing: bool | None = None
    value_format: Literal["json", "csv"] | None = None
    schema: Any = None
    header: bool = False
    max_line_bytes: Annotated[int, Field(ge=1, le=MAX_LINE_BYTES)] = 1_048_576
    on_bad_record: Literal["halt", "skip", "dead_letter"] = "halt"
    dead_letter_topic: str | None = None
    node: Annotated[int, Field(ge=0)] | None = None

    def __post_init__(self) -> None:
        check_part_name("input", self.name)
        where = f"FileInput {self.name!r}"
        check_schema(where, self.value_format, self.schema, needed=True)
        if "@" in urlsplit(self.path).netloc:
            raise ConfigurationError(
                f"{where}: path is a URL with a user, whose password would stand in the log for ever: leave it out"
            )
        if self.path.startswith(S3):
            self._check_s3(where)
        elif self.is_url and (self.growing or self.pattern is not None):
            raise ConfigurationError(
                f"{where}: {self.path} is a URL, of which one version is read: leave growing and pattern out"
            )
        if self.header and self.value_format != "csv":
            raise ConfigurationError(f"{where}: header = True is for value_format='csv': leave it out")
        if (self.on_bad_record == "dead_letter") != (self.dead_letter_topic is not None):
            raise ConfigurationError(
                f"{where}: on_bad_record='dead_letter' and dead_letter_topic need each other; give both"
            )
        if self.dead_letter_topic is not None:
            check_topic_name(f"{where}: dead_letter_topic", self.dead_letter_topic)

    def _check_s3(self, where: str) -> None:
        if self.growing:
            raise ConfigurationError(f"{where}: nothing is appended to an object of S3: leave growing out")
        key = self.path.removeprefix(S3).partition("/")[2]
        if self.pattern is None and (not key or key.endswith("/")):
            raise ConfigurationError(
                f"{where}: {self.path} is no object: say which below it, pattern='*.ndjson'"
            )
        if find_spec("botocore") is None:
            raise ConfigurationError(
                f"{where}: to read {self.path} botocore is needed, which is not installed: pip install 'kcontrol[s3]'"
            )

    @property
    def is_url(self) -> bool:
        """Whether it is fetched, and not on a disk."""
        return not self.path.startswith("/")

    def structure(self) -> list[Any]:
        """As AddressedInput's."""
        return [
            *("files", self._address().text, self.value_format, schema_text(self.schema)),
            *(self.on_bad_record, self.dead_letter_topic),
        ]

    def address(self, before: str, now_ms: int) -> tuple[str, tuple[int, ...]]:  # noqa: ARG002 - it has no moment
        """As AddressedInput's."""
        return self._address().text, (0,)

    def _address(self) -> FileAddress:
        growing = not self.is_url if self.growing is None else self.growing
        return FileAddress(self.path, self.pattern or "", growing, self.header, self.max_line_bytes)


def check_nodes(pipeline: str, inputs: tuple[Any, ...], nodes: int) -> None:
    """Raise ConfigurationError if it is not said on which of several hosts a file is."""
    for each in inputs:
        if isinstance(each, FileInput) and nodes > 1 and each.node is None and not each.is_url:
            raise ConfigurationError(
                f"pipeline {pipeline!r}: input {each.name!r} reads {each.path}, and each of the {nodes} nodes may "
                f"have a disk of its "
                "own: say node=, the number of the one on whose host the file is"
            )
