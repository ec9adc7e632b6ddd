"""The records of the logs as models of the REST interface, made from the very types and
schemas, so that no name can differ.

Answers are not built from these models: a record becomes JSON by `kcontrol.wire.json`, as on the command
line. They describe that JSON in the OpenAPI document, and tests hold the answers to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, Strict, create_model

from kcontrol.wire.schemas import current_schemas
from kcontrol.wire.shapes import field_names, optional_of


@cache
def model_of(cls: type) -> type[BaseModel]:
    """A model of what `kcontrol.wire.json.to_json` gives for a `cls`."""
    return _model(cls, "", ConfigDict(populate_by_name=True), model_of)


@cache
def given_model_of(cls: type) -> type[BaseModel]:
    """The same for what somebody sends: with exactly these fields, of exactly these types."""
    return _model(cls, "Given", ConfigDict(extra="forbid", strict=True), given_model_of)


def _model(
    cls: type, prefix: str, config: ConfigDict, part: Callable[[type], type[BaseModel]]
) -> type[BaseModel]:
    documented = _documented().get(cls.__name__, {})
    about = {field["name"]: field.get("doc", "") for field in documented.get("fields", ())}
    hints = get_type_hints(cls)
    fields: dict[str, Any] = {
        name: (_hint(hints[name], part), Field(alias=wire_name, description=about.get(wire_name) or None))
        for name, wire_name in field_names(cls).items()
    }
    return create_model(
        f"{prefix}{cls.__name__}", __config__=config, __doc__=documented.get("doc") or cls.__doc__, **fields
    )


def _hint(hint: Any, part: Callable[[type], type[BaseModel]]) -> Any:
    if get_origin(hint) is tuple:
        return list[_hint(get_args(hint)[0], part)]  # type: ignore[misc]
    if (inner := optional_of(hint)) is not None:
        return _hint(inner, part) | None
    if hasattr(hint, "__dataclass_fields__"):
        return part(hint)
    # A word of an enum is text in JSON, which is not the same strictly.
    return Annotated[hint, Strict(False)] if issubclass(hint, StrEnum) else hint


@cache
def _documented() -> Mapping[str, dict[str, Any]]:
    """By name: every record of the schemas, parts of records included."""
    schemas = current_schemas().values()
    return {
        each["name"].rpartition(".")[2]: each
        for schema in schemas
        for each in _records(json.loads(schema.json))
    }


def _records(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, list):
        for each in node:
            yield from _records(each)
    elif isinstance(node, dict):
        if node.get("type") == "record":
            yield node
        for below in (node.get("type"), node.get("items"), node.get("fields")):
            yield from _records(below)
