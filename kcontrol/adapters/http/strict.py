"""What a request holds and no operation asked for is refused, not passed over: whoever misspells a name is
told."""

from __future__ import annotations

from collections import Counter
from difflib import get_close_matches
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

_JSON = "application/json"
_JSON_TYPES = (_JSON, "+json")


async def only_what_is_asked_for(request: Request) -> None:
    """Raises RequestValidationError for a query parameter that the operation does not have, or that is given
    twice, and HTTPException for a body that is not JSON, or that nothing is done with."""
    described = _described(request)
    if described is None:
        return
    known = {each["name"] for each in described.get("parameters", ()) if each["in"] == "query"}
    faults = []
    for name, count in Counter(key for key, _ in request.query_params.multi_items()).items():
        if name not in known:
            faults.append(_fault(name, f"there is no such parameter; {_hint(name, known)}"))
        elif count > 1:
            several = "; several completion tokens are one, joined by commas" if name == "token" else ""
            faults.append(_fault(name, f"it is given {count} times: give it once{several}"))
    if faults:
        raise RequestValidationError(faults)
    if request.method in ("POST", "PUT", "PATCH"):
        await _check_body(request, described.get("requestBody"))


async def _check_body(request: Request, wanted: dict[str, Any] | None) -> None:
    body = await request.body()
    if wanted is not None and list(wanted["content"]) != [_JSON]:
        return  # The operation says itself what it takes.
    if wanted is None and body:
        raise HTTPException(400, f"The operation takes no body, and got one of {len(body)} bytes.")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and kind and not kind.endswith(_JSON_TYPES):
        raise HTTPException(
            400, f"The body is said to be {kind}; it must be JSON, with the content type application/json."
        )


def _described(request: Request) -> dict[str, Any] | None:
    """The operation in the OpenAPI document; None for what is not an operation, such as
    the Console's files and probes."""
    path = getattr(request.scope.get("route"), "path", "")
    if path.startswith("/health/"):
        return None
    operations: dict[str, Any] = request.app.openapi()["paths"].get(path, {})
    return operations.get(request.method.lower())


def _hint(name: str, known: set[str]) -> str:
    close = get_close_matches(name, sorted(known), 1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"there are {', '.join(sorted(known))}" if known else "this operation has none"


def _fault(name: str, what: str) -> dict[str, Any]:
    return {"type": "value_error", "loc": ("query", name), "msg": what, "input": None}
