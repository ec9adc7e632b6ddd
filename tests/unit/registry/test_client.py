"""A registry is asked over HTTP: what it has, what it refuses, and when it is away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kcontrol.adapters.registry import client as asking
from kcontrol.adapters.registry.client import AVRO, PROTOBUF, RegistryClient
from kcontrol.core.model import SchemaReference
from kcontrol.definition.protos import file_of, pool_of
from kcontrol.errors import ConfigurationError, RegistryAwayError, RegistryError
from kcontrol.settings.registry import RegistrySettings
from tests.support.proto_files import serialized
from tests.support.registry import Registry, serving

POINT = {"type": "record", "name": "geo.Point", "fields": [{"name": "x", "type": "int"}]}
LINE = {"type": "record", "name": "geo.Line", "fields": [{"name": "to", "type": "geo.Point"}]}
ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
WIDER = ORDER[:-2] + ',{"name":"note","type":"string"}]}'
"""A reader of it can't read what ORDER wrote."""


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving("kcontrol:secret:word") as found:
        yield found


@pytest.fixture
def client(registry: Registry) -> Iterator[RegistryClient]:
    with RegistryClient(registry.patient) as made:
        yield made


def of(registry: Registry, **changes: Any) -> RegistryClient:
    return RegistryClient(registry.patient.model_copy(update=changes))


def test_a_schema_comes_with_those_that_it_needs_in_their_order(
    registry: Registry, client: RegistryClient
) -> None:
    registry.add("point", POINT)
    needed = {"name": "geo.Point", "subject": "point", "version": 1}
    registry.add("a/line", LINE, references=[needed])
    line = {"name": "geo.Line", "subject": "a/line", "version": 1}
    text = '{"type": "array", "items": "geo.Line"}'
    found = client.schema(registry.add("lines", text, references=[line, needed]))
    assert found is not None
    assert (found.kind, found.text) == (AVRO, text)
    assert [each.name for each in found.references] == ["geo.Point", "geo.Line"]
    assert found.references[0] == SchemaReference("geo.Point", registry._texts[1])


def test_an_id_that_it_does_not_know_is_no_error(client: RegistryClient) -> None:
    assert client.schema(99) is None


def test_registering_twice_gives_one_id_and_looking_up_registers_nothing(
    registry: Registry, client: RegistryClient
) -> None:
    assert client.registered("orders-value", AVRO, ORDER) is None
    first = client.register("orders-value", AVRO, ORDER)
    assert (
        client.register("orders-value", AVRO, ORDER)
        == first
        == client.registered("orders-value", AVRO, ORDER)
    )
    assert registry.subjects() == {"orders-value": [first]}


def test_what_is_not_compatible_is_refused_with_the_registrys_words(client: RegistryClient) -> None:
    assert client.why_incompatible("orders-value", AVRO, WIDER) == ""
    client.register("orders-value", AVRO, ORDER)
    assert "READER_FIELD_MISSING_DEFAULT_VALUE: note" in client.why_incompatible("orders-value", AVRO, WIDER)
    with pytest.raises(RegistryError, match=r"not compatible with what the subject has: .* note") as refused:
        client.register("orders-value", AVRO, WIDER)
    assert not isinstance(refused.value, RegistryAwayError)


def test_protobuf_comes_as_files_with_those_that_it_needs_and_is_compared_by_numbers(
    registry: Registry, client: RegistryClient
) -> None:
    point = 'syntax = "proto3"; message Point { int32 x = 1; }'
    line = 'syntax = "proto3"; import "point.proto"; message Line { Point to = 1; }'
    registry.add("point", point, PROTOBUF)
    needed = {"name": "point.proto", "subject": "point", "version": 1}
    found = client.schema(registry.add("line", serialized(line, {"point.proto": point}), PROTOBUF, [needed]))
    assert found is not None
    assert found.kind == PROTOBUF
    _, file = pool_of(
        file_of(found.text) or b"", [(each.name, file_of(each.text) or b"") for each in found.references]
    )
    assert list(file.message_types_by_name) == ["Line"]
    assert client.register("point", PROTOBUF, point) == 1
    assert client.registered("point", PROTOBUF, serialized(point)) == 1, "text and file are one schema"
    assert "FIELD_KIND_CHANGED: Point.x" in client.why_incompatible(
        "point", PROTOBUF, point.replace("int32", "string")
    )


def test_a_registry_that_has_protobuf_as_text_alone_gives_no_files(
    registry: Registry, client: RegistryClient
) -> None:
    point = 'syntax = "proto3"; message Point { int32 x = 1; }'
    number = registry.add("point", point, PROTOBUF)
    whole, registry.serializes = client.schema(number), False
    text = client.schema(number)
    assert whole is not None
    assert text is not None
    assert file_of(whole.text) is not None
    assert (text.kind, text.text, file_of(text.text)) == (PROTOBUF, point, None)


def test_a_file_that_needs_another_which_is_not_there_is_none() -> None:
    line = 'syntax = "proto3"; import "point.proto"; message Line { Point to = 1; }'
    point = 'syntax = "proto3"; message Point { int32 x = 1; }'
    with pytest.raises(ValueError, match=r"it imports point\.proto, which is not there"):
        pool_of(file_of(serialized(line, {"point.proto": point})) or b"")


def test_what_is_no_schema_is_refused(client: RegistryClient) -> None:
    with pytest.raises(RegistryError, match="answers 422: Invalid schema"):
        client.register("orders-value", AVRO, '{"type": "nothing"}')


def test_a_login_that_is_refused_names_the_setting_and_no_secret(registry: Registry) -> None:
    with of(registry, client={"basic.auth.user.info": "kcontrol:mistyped"}) as client:
        with pytest.raises(
            RegistryError, match=r"refuses the login \(401\): see basic.auth.user.info"
        ) as refused:
            client.schema(1)
        assert "mistyped" not in str(refused.value)
    assert "mistyped" not in repr(
        registry.patient.model_copy(update={"client": {"basic.auth.user.info": "a:mistyped"}})
    )


class Hand:
    """A clock that goes on while somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.mark.parametrize("status", [500, 503, 429])
def test_one_that_can_not_answer_is_asked_again_until_the_deadline(
    registry: Registry, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After 100, 200 and 400 ms."""
    registry.broken = status
    monkeypatch.setattr(asking, "time", Hand())
    with (
        of(registry, deadline_ms=600) as client,
        pytest.raises(
            RegistryAwayError, match=r"did not answer for schema 1 within 600 ms, at 3 tries: .*out of order"
        ),
    ):
        client.schema(1)
    assert len(registry.asked) == 3


def test_nobody_at_the_address_is_away_and_the_next_address_is_asked(registry: Registry) -> None:
    known = registry.add("orders-value", ORDER)
    with (
        of(registry, url="http://127.0.0.1:1", deadline_ms=600) as client,
        pytest.raises(RegistryAwayError, match="ConnectError"),
    ):
        client.schema(known)
    with of(registry, url=f"http://127.0.0.1:1,{registry.url}") as client:
        assert client.schema(known) is not None


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"max_schema_bytes": 1_024}, "max_schema_bytes is 1,024"),
        ({"max_references": 1}, "max_references = 1"),
    ],
    ids=["bytes", "references"],
)
def test_what_is_larger_than_the_limits_is_refused(
    registry: Registry, limits: dict[str, int], said: str
) -> None:
    registry.add("point", {**POINT, "doc": "x" * 2_000})
    needed = [{"name": "geo.Point", "subject": "point", "version": 1}]
    registry.add("line", LINE, references=needed)
    line = {"name": "geo.Line", "subject": "line", "version": 1}
    known = registry.add("lines", '{"type": "array", "items": "geo.Line"}', references=[line])
    with of(registry, **limits) as client, pytest.raises(RegistryError, match=said):
        client.schema(known)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([], "answers 200"),
        ({"schema": 5}, "holds no schema"),
        ({}, "holds no schema"),
        ({"id": True, "schema": None}, "holds no schema"),
    ],
    ids=str,
)
def test_an_answer_that_is_none_is_refused(
    registry: Registry, client: RegistryClient, answer: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: Callable[..., Any] = lambda *_: (200, answer)  # noqa: E731
    monkeypatch.setattr(registry, "answer", told)
    with pytest.raises(RegistryError, match=said):
        client.schema(1)


def test_a_file_of_tls_that_is_not_there_is_told(registry: Registry) -> None:
    with pytest.raises(ConfigurationError, match=r"ssl.ca.location"):
        of(registry, client={"ssl.ca.location": "/nowhere/ca.pem"})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"url": "registry:8081"}, "is not http"),
        ({"url": "http://"}, "is not http"),
        ({"url": "http://a:b@registry"}, "basic.auth.user.info"),
        ({"url": "http://r?x=1"}, "is not http"),
        ({"url": "http://r", "client": {"sasl.password": "x"}}, "no setting 'sasl.password'"),
        ({"url": "http://r", "client": {"ssl.key.location": "x"}}, "needs ssl.certificate.location"),
        (
            {"url": "http://r", "client": {"bearer.auth.token": "x", "basic.auth.user.info": "a:b"}},
            "exclude each other",
        ),
        ({"url": "http://r", "deadline_ms": 1}, "deadline_ms"),
        ({"url": "http://r", "retries": 3}, "retries"),
        ({}, "url"),
    ],
    ids=str,
)
def test_settings_that_can_not_be_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        RegistrySettings(**given)
