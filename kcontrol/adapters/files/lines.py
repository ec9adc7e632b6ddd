"""The lines of ranges of bytes, as Arrow, and their digest.

A line belongs to the range that its first byte is in, wherever the range is cut: what lies before the first line that begins in
it is passed over, and the last one is read to its end. So the same lines come of one range and of its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from kcontrol.adapters.files.file_lines import FileLines
from kcontrol.adapters.files.listing import ListedFile, end_of
from kcontrol.adapters.files.pieces import HEAD_BYTES, Piece, pieces
from kcontrol.adapters.files.stores import Store, store_of
from kcontrol.core.model import FailureKind
from kcontrol.errors import InputGoneError, RetriableError, StepFailedError
from kcontrol.wire.batches.columns import NO_BYTES, Bytes, BytesSpans, Flags, Longs
from kcontrol.wire.batches.lines import digest_of_lines, lines_in
from kcontrol.wire.digest import Digest, line_digest
from kcontrol.wire.files import FileAddress, check_lines_id, files_of
from kcontrol.wire.range_read import RangeRead, RowsOfRanges

_BOM = b"\xef\xbb\xbf"


def read_lines(
    input_name: str,
    topic: str,
    topic_id: str,
    ranges: Sequence[tuple[int, int, int]],
    names: Sequence[str] = (),
    made: Callable[[FileLines], pa.RecordBatch] = FileLines.rows,
) -> RangeRead:
    """The lines of some ranges (partition, from, to), one after the other. A line with nothing in it is no row.

    names: of the columns; where the files have headers, these must say so. made: the rows of lines. The iteration raises
    InputGoneError: the files do not have these bytes any more. StepFailedError: a header is another (REFUSED), or the disk
    does not give them (LOST).
    """
    where = f"input {input_name!r}"
    check_lines_id(where, topic_id)
    address = files_of(topic)
    reader = _LineReader(where, address, store_of(address, topic_id), tuple(names))
    return RangeRead(_each(reader, ranges, made), len(ranges))


def _each(
    reader: _LineReader,
    ranges: Sequence[tuple[int, int, int]],
    made: Callable[[FileLines], pa.RecordBatch],
) -> Iterator[RowsOfRanges]:
    for index, (partition, from_, to) in enumerate(ranges):
        try:
            if partition != 0:
                raise InputGoneError(f"{reader.address.path} has no partition {partition}")
            for lines, digest in reader.read(from_, to):
                yield made(lines), [(index, digest)]
        except InputGoneError as error:
            raise InputGoneError(
                f"{reader.where}: {error}; put back what its steps have read, then resume the pipeline"
            ) from error
        except (OSError, RetriableError) as error:
            raise StepFailedError(
                FailureKind.LOST, f"{reader.where}: {reader.address.path} can't be read: {error}"
            ) from error


@dataclass(frozen=True, slots=True)
class _Lines:
    """starts, ends: of lines in the data. sizes: how long each is, which is more than that for one of which only the
    beginning is looked at."""

    data: Bytes
    starts: Longs
    ends: Longs
    sizes: Longs

    def only(self, kept: Flags) -> _Lines:
        if kept.all():
            return self
        return replace(self, starts=self.starts[kept], ends=self.ends[kept], sizes=self.sizes[kept])


@dataclass(frozen=True, slots=True)
class _LineReader:
    """Of one input, in one task. names: of the columns that a header must name."""

    where: str
    address: FileAddress
    store: Store
    names: tuple[str, ...]

    def read(self, from_: int, to: int) -> Iterator[tuple[FileLines, Digest]]:
        """The lines whose first byte is in [from_, to)."""
        if from_ >= to:
            return
        files = self.store.listed()
        if end_of(files) < to:
            raise InputGoneError(
                f"{self.address.path} has {end_of(files)} bytes, and its steps read up to {to}"
            )
        for file in files:
            if file.begins < to and file.end > from_:
                begin, stop = max(0, from_ - file.begins), min(to - file.begins, file.size_bytes)
                yield from self._read_file(file, begin, stop, is_last=file is files[-1])

    def _read_file(
        self, file: ListedFile, from_: int, to: int, *, is_last: bool
    ) -> Iterator[tuple[FileLines, Digest]]:
        with self.store.opened(file) as bytes_:
            if not is_last and bytes_.size() != file.size_bytes:
                raise InputGoneError(
                    f"{file.path} has {bytes_.size()} bytes and had {file.size_bytes} a moment ago: only the last file of a "
                    "directory may grow"
                )
            complete = not (is_last and self.address.growing)
            for piece in pieces(bytes_, from_, to, self.address.max_line_bytes, complete):
                lines = self._wanted(file, piece, to)
                if len(lines.starts):
                    yield self._shown(file, piece.at, lines)

    def _wanted(self, file: ListedFile, piece: Piece, to: int) -> _Lines:
        lines = _lines_in(piece)
        kept = (lines.starts + piece.at < to) & (lines.sizes > 0)
        if piece.at == 0 and self.address.header:
            self._check_header(file, bytes(piece.data[: int(lines.ends[0])]))
            kept[0] = False
        return lines.only(kept)

    def _shown(self, file: ListedFile, at: int, lines: _Lines) -> tuple[FileLines, Digest]:
        base, starts, ends = file.begins + at, lines.starts, lines.ends
        most = self.address.max_line_bytes
        is_long: Flags = lines.sizes > most
        if is_long.any():
            ends = np.where(is_long, np.minimum(ends, starts + HEAD_BYTES), ends)
            digest = digest_of_lines(lines.data, starts[~is_long], ends[~is_long], base)
            for row in np.flatnonzero(is_long).tolist():
                digest += _long_digest(lines, row, base, int(ends[row]))
        else:
            digest = digest_of_lines(lines.data, starts, ends, base)
        wrong = {
            row: f"it has {lines.sizes[row]} bytes, more than max_line_bytes = {most}"
            for row in np.flatnonzero(is_long).tolist()
        }
        shown = starts
        if at == 0 and starts[0] == 0 and lines.data[: len(_BOM)].tobytes() == _BOM:
            shown = starts.copy()
            shown[0] = min(len(_BOM), int(ends[0]))
        return FileLines(
            file.path, starts + base, BytesSpans(shown, ends, lines.data, NO_BYTES), wrong
        ), digest

    def _check_header(self, file: ListedFile, line: bytes) -> None:
        if not self.names:
            return
        text = line.removeprefix(_BOM).decode(errors="replace")
        found = [field.strip().strip('"') for field in text.split(",")]
        if [each.lower() for each in found] != [each.lower() for each in self.names]:
            raise StepFailedError(
                FailureKind.REFUSED,
                f"{self.where}: the header of {file.path} is {text[:200]!r}, and the columns of the schema are "
                f"{','.join(self.names)}: correct the schema or the file, or say header=False if its first line is a row",
            )


def _lines_in(piece: Piece) -> _Lines:
    data: Bytes = np.frombuffer(piece.data, np.uint8)
    if piece.line_bytes:
        begin, end = np.zeros(1, np.int64), np.full(1, len(data), np.int64)
        return _Lines(data, begin, end, np.full(1, piece.line_bytes, np.int64))
    starts, ends = lines_in(data)
    return _Lines(data, starts, ends, ends - starts)


def _long_digest(lines: _Lines, row: int, base: int, end: int) -> Digest:
    """Of what is looked at of a line that is too long."""
    start = int(lines.starts[row])
    head = lines.data[start:end].tobytes()
    return line_digest(base + start, head + f"...{lines.sizes[row]}".encode())
