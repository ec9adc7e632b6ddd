"""What a reset asks of inputs that are files: whether what counts of them is as it was read, so that the pipeline can go on.

URLs and S3 are asked from here. Files on a disk are those of the hosts of nodes and executors: they are looked at where their
path is on this host, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kcontrol.adapters.files.stores import changed_version, version_at
from kcontrol.adapters.files.watcher import FileLooks
from kcontrol.core.model import InputSpec, PipelineSpec, StepBoundary
from kcontrol.errors import ConfigurationError, InputGoneError, InputRefusedError, RetriableError
from kcontrol.wire.files import LINES_ID, FileAddress, files_of, is_files, version_in


def unseen_files(spec: PipelineSpec, counting: Sequence[StepBoundary], back: StepBoundary) -> tuple[str, ...]:
    """Of inputs that can't be looked at from this host: which, and why. Blocking.

    counting: steps that count, in order, up to the one that is gone back to. back: that one. Files may be other behind what it
    has read. Raises InputGoneError: they are not there, or other before; ConfigurationError: no range of them can be read;
    RetriableError: a disk or a server does not answer.
    """
    found = (_unseen(spec, item, counting, back) for item in spec.inputs if is_files(item.topic))
    return tuple(each for each in found if each)


def _unseen(spec: PipelineSpec, item: InputSpec, counting: Sequence[StepBoundary], back: StepBoundary) -> str:
    where, address = f"input {item.name!r}", files_of(item.topic)
    if not address.is_url and not _is_here(address.path):
        return f"{where}: {address.path} is not on this host"
    try:
        wrong = _wrong(item, address, counting, back)
    except InputRefusedError as error:
        return f"{where}: {error}"
    except (InputGoneError, ConfigurationError, RetriableError) as error:
        if isinstance(error, ConfigurationError) and address.is_s3:
            # Of credentials, which nodes may have where this host has none.
            return f"{where}: {error}"
        raise type(error)(f"pipeline {spec.pipeline!r}: {where}: {error}. Nothing was reset") from error
    if wrong:
        raise InputGoneError(
            f"pipeline {spec.pipeline!r}: {where}: {wrong}. It would halt when it is started, whichever step it goes back to: "
            "put back what was there. Nothing was reset"
        )
    return ""


def _wrong(
    item: InputSpec, address: FileAddress, counting: Sequence[StepBoundary], back: StepBoundary
) -> str:
    """As whoever starts the pipeline would find it."""
    if address.is_one_version:
        return changed_version(address, version_in(item.topic_id), version_at(address))
    begin = max((piece.to for piece in back.inputs if piece.input == item.name), default=0)
    pieces = (piece for boundary in reversed(counting) for piece in boundary.inputs)
    last_read = next((piece for piece in pieces if piece.input == item.name and piece.records), None)
    said, _ = FileLooks(item.name, address, begin, last_read).look()
    return "" if said == LINES_ID else said


def _is_here(path: str) -> bool:
    try:
        return Path(path).exists()
    except OSError:
        return False
