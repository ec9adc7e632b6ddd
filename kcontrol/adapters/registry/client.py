"""Asks a registry of schemas, over Confluent's REST interface (Schema Registry API v1).

Small on purpose, on httpx: Confluent's own client for Python brings cryptography and an OAuth library along, tries again
without saying what for, and remembers what it was told, which here the log does. Each answer is one of three: what was asked
for, a refusal that a person has to look at (RegistryError), or nothing yet (RegistryAwayError).
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote

import httpx

from kcontrol.backoff import Backoff
from kcontrol.core.model import SchemaReference
from kcontrol.errors import ConfigurationError, RegistryAwayError, RegistryError
from kcontrol.settings.registry import RegistrySettings

AVRO, PROTOBUF = "AVRO", "PROTOBUF"
_SERIALIZED = "format=serialized"
"""Asks for a schema of Protobuf as a FileDescriptorProto in base64: no compiler is needed then, now or ever after."""
_CONTENT = "application/vnd.schemaregistry.v1+json"
_BACKOFF = Backoff(100, 2_000)
_MAX_SAID_CHARS = 400
_NOT_FOUND, _CONFLICT, _TOO_MANY, _FAILED = 404, 409, 429, 500
_SUBJECT_NOT_FOUND, _VERSION_NOT_FOUND, _SCHEMA_NOT_FOUND = 40401, 40402, 40403
_NOT_THERE = (_SUBJECT_NOT_FOUND, _VERSION_NOT_FOUND, _SCHEMA_NOT_FOUND)


@dataclass(frozen=True, slots=True)
class FoundSchema:
    """What the registry has under an id. text: of Protobuf, a FileDescriptorProto in base64, if the registry knows that format.
    references: each comes after those that it needs itself."""

    kind: str
    text: str
    references: tuple[SchemaReference, ...] = ()


@dataclass(frozen=True, slots=True)
class _Reply:
    """code: the registry's own, which begins with the three digits of `status`."""

    status: int
    code: int
    said: str
    body: Any


class RegistryClient:
    """One registry. Its methods wait; any thread may call them, one at a time."""

    def __init__(self, settings: RegistrySettings) -> None:
        """Raises ConfigurationError when a file of the TLS settings can't be read."""
        self._settings = settings
        client = settings.client
        name, colon, password = client.get("basic.auth.user.info", "").partition(":")
        headers = {"Accept": _CONTENT, "Content-Type": _CONTENT}
        if "bearer.auth.token" in client:
            headers["Authorization"] = f"Bearer {client['bearer.auth.token']}"
        self._http = httpx.Client(
            auth=httpx.BasicAuth(name, password) if colon else None,
            headers=headers,
            timeout=settings.request_timeout_ms / 1000,
            verify=_tls(client),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back its connections."""
        self._http.close()

    def schema(self, schema_id: int) -> FoundSchema | None:
        """What the registry has under an id; None if it does not know it.

        Raises RegistryError for one that is larger, or needs more others, than the settings allow.
        """
        what = f"schema {schema_id}"
        answer = self._ask("GET", f"/schemas/ids/{schema_id}", what)
        if answer.code in _NOT_THERE:
            return None
        body = self._body(answer, what)
        kind, form = str(body.get("schemaType") or AVRO), ""
        if kind == PROTOBUF:
            form = f"?{_SERIALIZED}"
            body = self._body(self._ask("GET", f"/schemas/ids/{schema_id}{form}", what), what)
        references: dict[str, str] = {}
        self._follow(body, what, references, form)
        found = tuple(SchemaReference(name, text) for name, text in references.items())
        text = _text_in(body, what)
        size = len(text.encode()) + sum(len(each.text.encode()) for each in found)
        if size > self._settings.max_schema_bytes:
            raise RegistryError(
                f"{self._where}: {what} has {size:,} bytes, with those that it needs; max_schema_bytes is "
                f"{self._settings.max_schema_bytes:,}"
            )
        return FoundSchema(kind, text, found)

    def register(self, subject: str, kind: str, text: str) -> int:
        """The id of a schema under a subject, which has it then. Raises RegistryError with the registry's words if it
        does not take it: it is not compatible with those that the subject has, say."""
        what = f"the schema for subject {subject!r}"
        answer = self._ask("POST", f"/subjects/{quote(subject, safe='')}/versions", what, _asked(kind, text))
        return _id_in(self._body(answer, what), what)

    def registered(self, subject: str, kind: str, text: str) -> int | None:
        """The id of a schema under a subject; None if the subject does not have it."""
        what = f"the schema for subject {subject!r}"
        answer = self._ask("POST", f"/subjects/{quote(subject, safe='')}", what, _asked(kind, text))
        return None if answer.code in _NOT_THERE else _id_in(self._body(answer, what), what)

    def why_incompatible(self, subject: str, kind: str, text: str) -> str:
        """Why a subject would not take a schema, in the registry's words; '' if it would."""
        what = f"the schema for subject {subject!r}"
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/latest?verbose=true"
        answer = self._ask("POST", path, what, _asked(kind, text))
        if answer.code in _NOT_THERE:
            return ""
        body = self._body(answer, what)
        if body.get("is_compatible"):
            return ""
        return _short("; ".join(map(str, body.get("messages") or ())) or "it does not say why")

    @property
    def _where(self) -> str:
        return f"schema registry {self._settings.url}"

    def _follow(
        self, body: Mapping[str, Any], what: str, found: dict[str, str], form: str, depth: int = 0
    ) -> None:
        """Takes in what a schema needs, and before each of them what that needs itself."""
        for needed in body.get("references") or ():
            name, subject, version = needed["name"], needed["subject"], needed["version"]
            if name in found:
                continue
            if depth >= self._settings.max_references or len(found) >= self._settings.max_references:
                raise RegistryError(
                    f"{self._where}: {what} needs more than max_references = {self._settings.max_references} "
                    "others"
                )
            path = f"/subjects/{quote(subject, safe='')}/versions/{version}{form}"
            inner = self._body(self._ask("GET", path, f"{what}, which needs {name!r}"), what)
            self._follow(inner, what, found, form, depth + 1)
            found[name] = _text_in(inner, what)

    def _body(self, answer: _Reply, what: str) -> dict[str, Any]:
        if answer.status >= httpx.codes.BAD_REQUEST or not isinstance(answer.body, dict):
            raise RegistryError(f"{self._where}: {what}: {_refusal(answer)}")
        return answer.body

    def _ask(self, method: str, path: str, what: str, body: Any = None) -> _Reply:
        """The answer of the first address that gives one; asked again until `deadline_ms`. Raises RegistryAwayError."""
        deadline_s = time.monotonic() + self._settings.deadline_ms / 1000
        tries = 0
        while True:
            why = ""
            for url in self._settings.urls:
                try:
                    found = self._http.request(method, url + path, json=body)
                except (httpx.HTTPError, httpx.InvalidURL) as error:
                    why = f"{type(error).__name__}: {error}"
                    continue
                answer = _answer(found)
                if answer.status < _FAILED and answer.status != _TOO_MANY:
                    return answer
                why = _refusal(answer)
            tries += 1
            wait_s = _BACKOFF.wait_ms(tries) / 1000
            if time.monotonic() + wait_s >= deadline_s:
                raise RegistryAwayError(
                    f"{self._where} did not answer for {what} within {self._settings.deadline_ms} ms, at {tries} "
                    f"tries: {_short(why)}"
                )
            time.sleep(wait_s)


def _answer(found: httpx.Response) -> _Reply:
    try:
        body: Any = found.json()
    except ValueError:
        body = None
    said = body.get("message", "") if isinstance(body, dict) else found.text
    code = body.get("error_code", found.status_code) if isinstance(body, dict) else found.status_code
    return _Reply(found.status_code, code if found.is_error else found.status_code, _short(str(said)), body)


def _refusal(answer: _Reply) -> str:
    match answer.status:
        case httpx.codes.UNAUTHORIZED | httpx.codes.FORBIDDEN:
            return (
                f"it refuses the login ({answer.status}): see basic.auth.user.info or bearer.auth.token in "
                f"[schema_registry.client]; it says: {answer.said}"
            )
        case httpx.codes.CONFLICT:
            return f"it is not compatible with what the subject has: {answer.said}"
        case status:
            return f"it answers {status}: {answer.said or 'nothing that can be read'}"


def _asked(kind: str, text: str) -> dict[str, str]:
    """Avro is what is meant if nothing is said, and older registries know nothing else."""
    return {"schema": text} if kind == AVRO else {"schema": text, "schemaType": kind}


def _text_in(body: Mapping[str, Any], what: str) -> str:
    text = body.get("schema")
    if not isinstance(text, str):
        raise RegistryError(f"{what}: the registry's answer holds no schema: {_short(json.dumps(body))}")
    return text


def _id_in(body: Mapping[str, Any], what: str) -> int:
    found = body.get("id")
    if not isinstance(found, int) or not 0 <= found < 1 << 31:
        raise RegistryError(f"{what}: the registry's answer holds no id: {_short(json.dumps(body))}")
    return found


def _short(text: str) -> str:
    return " ".join(text.split())[:_MAX_SAID_CHARS]


def _tls(client: Mapping[str, str]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=client.get("ssl.ca.location"))
        if "ssl.certificate.location" in client:
            context.load_cert_chain(
                client["ssl.certificate.location"],
                client.get("ssl.key.location"),
                client.get("ssl.key.password"),
            )
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"[schema_registry.client]: ssl.ca.location, ssl.certificate.location or ssl.key.location can't be "
            f"used: {error}"
        ) from error
    return context
