"""Protobuf schemas as users give them: the text of a .proto file, a generated class, or either with a message's name.

What a schema means is a FileDescriptorProto. A generated class brings it along; text is compiled by protoc, which comes with
grpcio-tools and is called here alone, in the driver: tasks, and steps that are run again, have descriptors. Does not import
Spark.
"""

from __future__ import annotations

import base64
import binascii
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.message import DecodeError, Message

from kcontrol.errors import ConfigurationError

WELL_KNOWN = (any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
"""What any schema may import: registries have these built in."""
_OPTIONS_ONLY = ("google/protobuf/descriptor.proto", "confluent/meta.proto")
"""They say nothing of what bytes mean."""
_FILE = "value.proto"
_COMPILER_S = 30.0
_MAX_SAID_CHARS = 400


@dataclass(frozen=True, slots=True)
class ProtoSchema:
    """file: a FileDescriptorProto. message: the full name of the message in it that values are. text: as a registry takes
    it."""

    file: bytes
    message: str
    text: str

    @property
    def carried(self) -> str:
        """As text, from which `of_carried` makes it again."""
        return json.dumps({"file": base64.b64encode(self.file).decode(), "message": self.message})

    @staticmethod
    def of_carried(text: str) -> ProtoSchema:
        """What `carried` gave."""
        found = json.loads(text)
        return ProtoSchema(base64.b64decode(found["file"]), found["message"], "")


def proto_schema(where: str, schema: Any) -> ProtoSchema:
    """What a user has given. Raises ConfigurationError, beginning with `where`: it is no schema, or has no such message."""
    given = schema if isinstance(schema, Mapping) else {"proto": schema}
    if not {"proto"} <= given.keys() <= {"proto", "message"}:
        raise ConfigurationError(
            f"{where}: schema: a dictionary for Protobuf has 'proto', and 'message' if wanted; this one has "
            f"{', '.join(map(str, given)) or 'nothing'}"
        )
    proto, message = given["proto"], given.get("message")
    if is_proto_class(proto):
        descriptor = proto.DESCRIPTOR
        file = descriptor.file.serialized_pb
        text, named = base64.b64encode(file).decode(), message or descriptor.full_name
    elif isinstance(proto, str) and proto.strip():
        file = _from_base64(proto) or _compiled(where, proto)
        text, named = proto, message
    else:
        raise ConfigurationError(
            f"{where}: schema = {proto!r}: for Protobuf it must be the text of a .proto file or a class that protoc has made"
        )
    return ProtoSchema(file, _message(where, file, named), text)


def is_proto_class(schema: Any) -> bool:
    """Whether protoc has made it of a message."""
    return isinstance(schema, type) and issubclass(schema, Message)


def proto_text(schema: Any) -> str:
    """A schema as text, as it was given: it stands for the schema in a definition."""
    if isinstance(schema, Mapping):
        return json.dumps({name: proto_text(value) for name, value in schema.items()}, separators=(",", ":"))
    if not is_proto_class(schema):
        return str(schema)
    descriptor = schema.DESCRIPTOR
    return json.dumps(
        [base64.b64encode(descriptor.file.serialized_pb).decode(), descriptor.full_name],
        separators=(",", ":"),
    )


def pool_of(file: bytes, needed: Iterable[tuple[str, bytes]] = ()) -> tuple[Any, Any]:
    """(a pool of descriptors, the descriptor of a file in it). needed: files by name, each after those that it needs itself.

    Raises ValueError for what is no file, or needs others.
    """
    pool = descriptor_pool.DescriptorPool()
    for each in WELL_KNOWN:
        pool.AddSerializedFile(each.DESCRIPTOR.serialized_pb)
    known = {each.DESCRIPTOR.name for each in WELL_KNOWN}
    for name, serialized in needed:
        if name not in known:
            _add(pool, name, serialized, known)
            known.add(name)
    return pool, _add(pool, _FILE, file, known)


def file_of(text: str) -> bytes | None:
    """The file in the text that a registry has for it, if it is in Protobuf's serialized format; None if it is not."""
    return _from_base64(text)


def _add(pool: Any, name: str, serialized: bytes, known: Iterable[str]) -> Any:
    file = descriptor_pb2.FileDescriptorProto.FromString(serialized)
    file.name = name
    wanted = [each for each in file.dependency if each not in _OPTIONS_ONLY]
    lacking = [each for each in wanted if each not in known]
    if lacking:
        raise ValueError(f"it imports {', '.join(lacking)}, which is not there")
    if len(wanted) < len(file.dependency):
        del file.dependency[:], file.public_dependency[:], file.weak_dependency[:]
        file.dependency.extend(wanted)
        del file.extension[:]
    try:
        return pool.AddSerializedFile(file.SerializeToString()) or pool.FindFileByName(name)
    except TypeError as error:
        raise ValueError(" ".join(str(error).split())) from error


def _message(where: str, file: bytes, name: str | None) -> str:
    """The full name of a message that a user names, or of the first."""
    try:
        _, found = pool_of(file)
    except ValueError as error:
        raise ConfigurationError(
            f"{where}: schema: {error}; put all messages into one file, which may import google/protobuf/*.proto"
        ) from error
    names = [each for top in found.message_types_by_name.values() for each in _names(top)]
    first = descriptor_pb2.FileDescriptorProto.FromString(file).message_type
    if not first:
        raise ConfigurationError(f"{where}: schema: its file has no message")
    prefix = f"{found.package}." if found.package else ""
    wanted = f"{prefix}{first[0].name}" if name is None else name
    for candidate in (wanted, f"{prefix}{wanted}"):
        if candidate in names:
            return candidate
    raise ConfigurationError(
        f"{where}: schema: its file has no message {wanted!r}; it has {', '.join(sorted(names))}"
    )


def _names(message: Any) -> Iterable[str]:
    """Of a message and those within it, but for what maps are made of."""
    if not message.GetOptions().map_entry:
        yield message.full_name
        for inner in message.nested_types:
            yield from _names(inner)


def _from_base64(text: str) -> bytes | None:
    try:
        file = base64.b64decode(text, validate=True)
        descriptor_pb2.FileDescriptorProto.FromString(file)
    except (binascii.Error, ValueError, DecodeError):
        return None
    return file or None


def _compiled(where: str, text: str) -> bytes:
    if find_spec("grpc_tools") is None:
        raise ConfigurationError(
            f"{where}: schema: to read the text of a .proto file grpcio-tools is needed, which is not installed: pip install "
            "'kcontrol[protobuf]', or give a class that protoc has made"
        )
    made, said = _protoc(text)
    if made is None:
        raise ConfigurationError(f"{where}: schema: protoc does not take it: {said}")
    return made


@lru_cache(maxsize=64)
def _protoc(text: str) -> tuple[bytes | None, str]:
    """(the file that a text is, why it is none)."""
    with TemporaryDirectory(prefix="kcontrol-proto-") as directory:
        Path(directory, _FILE).write_text(text)
        command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", "--descriptor_set_out=made", _FILE]
        try:
            done = subprocess.run(
                command, cwd=directory, capture_output=True, text=True, timeout=_COMPILER_S, check=False
            )
        except subprocess.TimeoutExpired:
            return None, f"it did not end within {_COMPILER_S:g} s"
        if done.returncode:
            return None, " ".join(done.stderr.split())[:_MAX_SAID_CHARS]
        made = descriptor_pb2.FileDescriptorSet.FromString(Path(directory, "made").read_bytes())
    return made.file[0].SerializeToString(deterministic=True), ""
