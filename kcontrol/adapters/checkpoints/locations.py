"""From the location that a user gives to a file system of pyarrow. Credentials are never part of it, and
never shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from pyarrow import fs

from kcontrol.adapters.checkpoints.limits import StoreLimits
from kcontrol.core.model import IN_WORK_DIR
from kcontrol.errors import ConfigurationError

_FLAGS = {"true": True, "1": True, "false": False, "0": False}
_S3_TEXTS = ("region", "scheme", "endpoint_override", "tls_ca_file_path")
_S3_FLAGS = ("allow_bucket_creation", "force_virtual_addressing", "anonymous")


@dataclass(frozen=True, slots=True)
class Location:
    """A file system and the directory in it.

    shown: for messages: the location without its settings. local: its files are this machine's. objects: it
    has no directories, and a file appears whole or not at all.
    """

    filesystem: Any
    base: str
    shown: str
    local: bool
    objects: bool


def open_location(location: str, limits: StoreLimits) -> Location:
    """`file:///path`, an absolute path, `s3://bucket/path?...`, `hdfs://host:port/path` or `viewfs://...`.

    S3's settings are the URL's query, by pyarrow's names; credentials come from where AWS's clients look for
    them. Raises ConfigurationError: it is none of these, has settings that are not known, or its client can't
    be had.
    """
    url = check_location(location)
    match url.scheme:
        case "" | "file":
            return _local(location, url)
        case "s3":
            return _s3(url, limits)
        case "hdfs" | "viewfs":
            return _hadoop(location, url)
    raise ConfigurationError(
        f"the location of the checkpoints begins with {url.scheme + ':'!r}; give file:///path, "
        "s3://bucket/path or hdfs://host:port/path"
    )


def own_checkpoints(work_dir: Path) -> Path:
    """Where nodes that work in `work_dir` have their own. The directories beside it are
    named after logs' ids, never so."""
    return work_dir / "checkpoints"


def placed(location: str, own: Path | None) -> str:
    """The location as a store takes it: of a node's own checkpoints the directory `own`.

    Raises ConfigurationError when they are meant and there is no such directory.
    """
    if location != IN_WORK_DIR:
        return location
    if own is None:
        raise ConfigurationError(
            "checkpoints are beside the nodes' working directories, and it is not known where those are"
        )
    return str(own)


def check_location(location: str) -> SplitResult:
    """Its parts. Raises ConfigurationError for what can't be a location, or holds
    credentials, which are not in the message."""
    try:
        url = urlsplit(location)
    except ValueError as error:
        raise ConfigurationError(f"the location of the checkpoints is not a URL or path: {error}") from error
    if url.password is not None or (url.scheme == "s3" and url.username is not None):
        raise ConfigurationError(
            "the location of the checkpoints holds credentials; remove them, and set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or a profile in ~/.aws, for every node"
        )
    return url


def _local(location: str, url: SplitResult) -> Location:
    if url.scheme and (url.netloc not in ("", "localhost") or url.query):
        raise ConfigurationError(f"the location of the checkpoints {location!r} is not file:///path")
    path = Path(unquote(url.path) if url.scheme else location)
    if not path.is_absolute():
        raise ConfigurationError(
            f"the location of the checkpoints {location!r} is not absolute; give file:///path"
        )
    return Location(fs.LocalFileSystem(), str(path), str(path), local=True, objects=False)


def _s3(url: SplitResult, limits: StoreLimits) -> Location:
    shown = f"s3://{url.netloc}{url.path}"
    if not url.netloc:
        raise ConfigurationError(
            f"the location of the checkpoints {shown!r} names no bucket; give s3://bucket/path"
        )
    options: dict[str, Any] = {}
    for name, value in parse_qsl(url.query, keep_blank_values=True):
        if name in _S3_TEXTS:
            options[name] = value
        elif name in _S3_FLAGS and value.lower() in _FLAGS:
            options[name] = _FLAGS[value.lower()]
        else:
            raise ConfigurationError(
                f"the location of the checkpoints {shown}: setting {name!r} is not known or has a wrong "
                f"value; known are {', '.join(_S3_TEXTS)} and, with true or false, {', '.join(_S3_FLAGS)}"
            )
    filesystem = fs.S3FileSystem(
        connect_timeout=limits.connect_timeout_ms / 1000,
        request_timeout=limits.request_timeout_ms / 1000,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=limits.request_attempts),
        background_writes=False,  # its queue of parts has no bound
        allow_delayed_open=True,  # one request for a small file instead of three
        **options,
    )
    base = "/".join(part for part in (url.netloc, *url.path.split("/")) if part)
    return Location(filesystem, base, shown, local=False, objects=True)


def _hadoop(location: str, url: SplitResult) -> Location:
    try:
        filesystem, base = fs.FileSystem.from_uri(location)
    except OSError as error:
        raise ConfigurationError(
            f"the location of the checkpoints {url.scheme}://{url.netloc}{url.path} can't be opened: "
            f"{error}; set HADOOP_HOME, CLASSPATH and ARROW_LIBHDFS_DIR as pyarrow's documentation of "
            "HadoopFileSystem says"
        ) from error
    return Location(
        filesystem, base.rstrip("/"), f"{url.scheme}://{url.netloc}{url.path}", local=False, objects=False
    )
