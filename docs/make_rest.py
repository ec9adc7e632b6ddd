"""Writes docs/reference/rest.md from the OpenAPI document that servers answer with: `python -m
docs.make_rest`.

tests/docs/test_reference.py fails when the page is not current.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from kcontrol.adapters.http.app import OPENAPI_PATH, make_api
from kcontrol.adapters.http.problems import MEDIA_TYPE

PAGE = Path(__file__).parent / "reference" / "rest.md"

INTRODUCTION = f"""# REST operations

Made from the OpenAPI document by `python -m docs.make_rest`: do not edit. A server answers with the whole of it, to be read by
programs, at `{OPENAPI_PATH}`. How to use it, with examples: [rest.md](../rest.md).

Errors are all of one form, [Problem](#problem), as `{MEDIA_TYPE}`; which there are is [here](../rest.md#errors).
"""

_REFERENCE = "#/components/schemas/"
_LARGEST = 2**63 - 1


def render() -> str:
    """The whole page."""
    # Making the document asks nothing of what the operations work on.
    document = make_api(None).openapi()  # type: ignore[arg-type]
    groups: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            [group] = operation["tags"]
            groups.setdefault(group, []).append(_operation(method.upper(), path, operation))
    sections = [f"## {group.capitalize()}\n\n" + "\n".join(found) for group, found in groups.items()]
    schemas = document["components"]["schemas"]
    parts = [_schema(name, schemas[name]) for name in sorted(schemas)]
    return "\n".join([INTRODUCTION, *sections, "## What is sent and answered\n", *parts])


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    lines = [f"### {method} {path}\n", operation["description"].strip(), ""]
    parameters = [each for each in operation.get("parameters", ()) if each["in"] == "query"]
    if parameters:
        lines += ["| query parameter | | |", "|---|---|---|"]
        lines += [_parameter(each) for each in parameters]
        lines.append("")
    if "requestBody" in operation:
        lines += [f"Body: {_content(operation['requestBody'])}.", ""]
    good = {
        code: answer
        for code, answer in operation["responses"].items()
        if MEDIA_TYPE not in answer.get("content", {})
    }
    bad = [code for code in operation["responses"] if code not in good]
    answers = [f"{code}{f', {body}' if (body := _content(answer)) else ''}" for code, answer in good.items()]
    lines.append(f"Answers: {'; '.join(answers)}." + (f" Errors: {', '.join(bad)}." if bad else ""))
    return "\n".join(lines) + "\n"


def _parameter(parameter: dict[str, Any]) -> str:
    schema = parameter["schema"]
    needed = "needed" if parameter.get("required") else ""
    default = schema.get("default")
    given = f"default {default}" if default not in (None, _LARGEST) else ""
    words = " ".join(filter(None, (parameter.get("description", ""), _bounds(schema))))
    return f"| `{parameter['name']}` | {needed or given} | {words} |"


def _bounds(schema: dict[str, Any]) -> str:
    most = schema.get("maximum")
    return f"At most {most:g}." if most is not None and most != _LARGEST else ""


def _content(holder: dict[str, Any]) -> str:
    """The body of a request or answer: a link to its form, or its media type."""
    for media, content in holder.get("content", {}).items():
        reference = content.get("schema", {}).get("$ref")
        return _type(content["schema"]) if reference else f"`{media}`"
    return ""


def _schema(name: str, schema: dict[str, Any]) -> str:
    words = f"{schema['description'].strip()}\n\n" if schema.get("description") else ""
    if "enum" in schema:
        return f"### {name}\n\n{words}One of {', '.join(f'`{each}`' for each in schema['enum'])}.\n"
    needed = schema.get("required", ())
    rows = [
        (
            f"| `{field}` | {_type(form)}{'' if field in needed else ', may be absent'} | "
            f"{_line(form.get('description', ''))} |\n"
        )
        for field, form in schema.get("properties", {}).items()
    ]
    return f"### {name}\n\n{words}| field | type | |\n|---|---|---|\n{''.join(rows)}"


def _type(form: dict[str, Any]) -> str:
    if "$ref" in form:
        name = form["$ref"].removeprefix(_REFERENCE)
        return f"[{name}](#{name.lower()})"
    for combined in ("anyOf", "allOf", "oneOf"):
        if combined in form:
            return " or ".join(_type(each) for each in form[combined])
    if form.get("type") == "array":
        return f"list of {_type(form['items'])}"
    if "const" in form:
        return f"`{form['const']}`"
    return str(form.get("type", "any"))


def _line(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
