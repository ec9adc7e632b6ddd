"""A registry of schemas on a real HTTP server: what of Confluent's REST interface its own clients use.

Ids are global and by content; a subject's schemas must be backward compatible: what the new schema reads must have been
written, or have a default; of Protobuf, a number keeps its type. It answers as Confluent's registry does, error codes included.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from fastavro.schema import SchemaParseException, UnknownType, parse_schema
from google.protobuf import descriptor_pb2

from kcontrol.definition.protos import file_of
from kcontrol.settings.registry import RegistrySettings
from tests.support.patience import HANG_S
from tests.support.proto_files import serialized

PROTOBUF = "PROTOBUF"
LONG_MS = 60_000
"""The longest that may be set."""


@dataclass
class Registry:
    """user_info: `name:password` that every request must bring; '' for nobody's.
    broken: answered with in place of everything, while it is set: an HTTP status."""

    url: str = ""
    user_info: str = ""
    broken: int = 0
    checks: bool = True
    """Whether a schema must be compatible with the subject's newest."""
    serializes: bool = True
    """Whether it knows `format=serialized`."""
    asked: list[str] = field(default_factory=list)
    """`METHOD /path` of every request."""
    _schemas: dict[str, tuple[int, str, list[dict[str, Any]]]] = field(default_factory=dict)
    """By text with type and references: id, type, references."""
    _texts: dict[int, str] = field(default_factory=dict)
    _subjects: dict[str, list[int]] = field(default_factory=dict)
    _next: int = 1

    @property
    def settings(self) -> RegistrySettings:
        """To reach it with, quickly given up."""
        return self.patient.model_copy(update={"request_timeout_ms": 2_000, "deadline_ms": 600})

    @property
    def patient(self) -> RegistrySettings:
        """To reach it with, however long it takes."""
        client = {"basic.auth.user.info": self.user_info} if self.user_info else {}
        return RegistrySettings(url=self.url, client=client, request_timeout_ms=LONG_MS, deadline_ms=LONG_MS)

    def add(
        self, subject: str, schema: Any, kind: str = "AVRO", references: list[dict[str, Any]] | None = None
    ) -> int:
        """Put a schema there, compatible or not; its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return self._add(subject, text, kind, references or [])

    def subjects(self) -> dict[str, list[int]]:
        """The ids of each."""
        return {name: list(ids) for name, ids in self._subjects.items()}

    def text(self, schema_id: int) -> Any:
        """The schema: of Protobuf its file."""
        kind = next(kind for found, kind, _ in self._schemas.values() if found == schema_id)
        return _content(kind, self._texts[schema_id])

    def skip_ids(self, count: int) -> None:
        """So that ids of two registries differ."""
        self._next += count

    def _add(self, subject: str, text: str, kind: str, references: list[dict[str, Any]]) -> int:
        whole = repr((_content(kind, text), kind, references))
        if whole not in self._schemas:
            self._schemas[whole] = (self._next, kind, references)
            self._texts[self._next] = text
            self._next += 1
        found = self._schemas[whole][0]
        ids = self._subjects.setdefault(subject, [])
        if found not in ids:
            ids.append(found)
        return found

    # --- the interface

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        parts = [unquote(part) for part in urlsplit(path).path.strip("/").split("/")]
        as_file = self.serializes and "format=serialized" in urlsplit(path).query
        match (method, parts):
            case ("GET", ["schemas", "ids", number]):
                if int(number) not in self._texts:
                    return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
                return 200, self._shown(int(number), as_file)
            case ("GET", ["subjects", subject, "versions", version]):
                ids = self._subjects.get(subject, [])
                at = len(ids) if version == "latest" else int(version)
                if not 0 < at <= len(ids):
                    return 404, {"error_code": 40402, "message": f"Version {version} not found."}
                shown = self._shown(ids[at - 1], as_file)
                return 200, {"subject": subject, "version": at, "id": ids[at - 1], **shown}
            case ("POST", ["subjects", subject, "versions"]):
                return self._register(subject, body)
            case ("POST", ["subjects", subject]):
                return self._look_up(subject, body)
            case ("POST", ["compatibility", "subjects", subject, "versions", "latest"]):
                if not self._subjects.get(subject):
                    return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
                why = self._why_not(subject, body)
                return 200, {"is_compatible": not why, "messages": why}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _shown(self, number: int, as_file: bool) -> dict[str, Any]:
        kind, references = next((k, r) for found, k, r in self._schemas.values() if found == number)
        shown: dict[str, Any] = {"schema": self._texts[number]}
        if as_file and kind == PROTOBUF:
            file = descriptor_pb2.FileDescriptorProto()
            file.CopyFrom(self.text(number))
            file.name = "default"
            shown["schema"] = base64.b64encode(file.SerializeToString()).decode()
        if kind != "AVRO":
            shown["schemaType"] = kind
        if references:
            shown["references"] = references
        return shown

    def _register(self, subject: str, body: Any) -> tuple[int, Any]:
        if wrong := _invalid(body):
            return 422, {"error_code": 42201, "message": f"Invalid schema: {wrong}"}
        known = self._look_up(subject, body)
        if known[0] == 200:
            return 200, {"id": known[1]["id"]}
        if why := self._why_not(subject, body):
            message = f"Schema being registered is incompatible with an earlier schema for subject '{subject}', details: {why}"
            return 409, {"error_code": 409, "message": message}
        return 200, {
            "id": self._add(
                subject, body["schema"], body.get("schemaType", "AVRO"), body.get("references", [])
            )
        }

    def _look_up(self, subject: str, body: Any) -> tuple[int, Any]:
        if subject not in self._subjects:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        wanted = _content(body.get("schemaType", "AVRO"), body["schema"])
        for at, number in enumerate(self._subjects[subject], 1):
            if self.text(number) == wanted:
                return 200, {
                    "subject": subject,
                    "id": number,
                    "version": at,
                    "schema": self._texts[number],
                }
        return 404, {"error_code": 40403, "message": "Schema not found"}

    def _why_not(self, subject: str, body: Any) -> list[str]:
        """Backward compatibility of records: what the new one reads the newest must have, or there is a default."""
        ids = self._subjects.get(subject)
        kind = body.get("schemaType", "AVRO")
        if not self.checks or not ids or kind not in ("AVRO", PROTOBUF):
            return []
        if kind == PROTOBUF:
            return _changed_types(self.text(ids[-1]), _content(kind, body["schema"]))
        before, now = self.text(ids[-1]), json.loads(body["schema"])
        written = {each["name"] for each in before.get("fields", ())}
        return [
            f"READER_FIELD_MISSING_DEFAULT_VALUE: {each['name']}"
            for each in now.get("fields", ())
            if each["name"] not in written and "default" not in each
        ]


def _content(kind: str, text: str) -> Any:
    if kind != PROTOBUF:
        return json.loads(text)
    file = descriptor_pb2.FileDescriptorProto.FromString(file_of(text) or base64.b64decode(serialized(text)))
    file.name = ""
    return file


def _changed_types(before: Any, now: Any) -> list[str]:
    types = {(m.name, f.number): f.type for m in before.message_type for f in m.field}
    return [
        f"FIELD_KIND_CHANGED: {m.name}.{f.name}"
        for m in now.message_type
        for f in m.field
        if types.get((m.name, f.number), f.type) != f.type
    ]


def _invalid(body: Any) -> str:
    if body.get("schemaType", "AVRO") != "AVRO" or body.get("references"):
        return ""
    try:
        parse_schema(json.loads(body["schema"]))
    except (ValueError, KeyError, SchemaParseException, UnknownType) as error:
        return str(error)
    return ""


@contextmanager
def serving(user_info: str = "", port: int = 0, registry: Registry | None = None) -> Iterator[Registry]:
    """A registry that answers at its `url`. port: of loopback; 0 for any. registry: with what it knows from its first answer
    on; None: one that knows nothing, and asks for `user_info`."""
    registry = registry or Registry(user_info=user_info)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            registry.asked.append(f"{self.command} {self.path}")
            status, answer = self._answered(body)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _answered(self, body: Any) -> tuple[int, Any]:
            if registry.broken:
                return registry.broken, {"error_code": registry.broken * 100 + 1, "message": "out of order"}
            wanted = "Basic " + base64.b64encode(registry.user_info.encode()).decode()
            if registry.user_info and self.headers.get("Authorization") != wanted:
                return 401, {"error_code": 401, "message": "User cannot access the resource."}
            return registry.answer(self.command, self.path, body)

        do_GET = do_POST = _serve

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    registry.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join(HANG_S)
