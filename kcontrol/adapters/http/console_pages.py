"""The Console: one page for people, whose files come with the package and which asks the same `/v1` as
everybody else.

The files hold nothing of the cluster, so they are served without a token; a browser could not send one with
the page's address anyway. The page may load and call nothing but this server, and no other page may frame it:
the browser is told so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException

router = APIRouter(include_in_schema=False)

FOLDER = "console"
PATH = "/console/"
PAGE = "index.html"

_METHODS = ["GET", "HEAD"]
_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
)
_HEADERS = {
    "Content-Security-Policy": "; ".join(_POLICY),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Kept, but asked for again each time: a server that was upgraded must not be looked at through an old
    # page.
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """One file. `etag` is made from its content."""

    body: bytes
    media_type: str
    etag: str


@cache
def assets() -> Mapping[str, Asset]:
    """All files by their path under `/console/`. Nothing else is ever served, whatever path is asked for."""
    return dict(_read(files("kcontrol.adapters.http") / FOLDER, ""))


def is_console(path: str) -> bool:
    """Whether a path leads to the Console's own files, which hold no secrets."""
    return path in ("/", PATH.rstrip("/")) or path.startswith(PATH)


@router.api_route("/", methods=_METHODS)
async def root() -> RedirectResponse:
    """Whoever types the server's address gets the page."""
    return RedirectResponse(PATH.lstrip("/"))


@router.api_route(PATH.rstrip("/"), methods=_METHODS)
async def without_slash() -> RedirectResponse:
    """The page's own addresses are relative to the folder."""
    return RedirectResponse(PATH.lstrip("/"))


@router.api_route(PATH + "{name:path}", methods=_METHODS)
async def console(name: str, request: Request) -> Response:
    """The page, or one of its files."""
    asset = assets().get(name or PAGE)
    if asset is None:
        raise HTTPException(404, f"The Console has no file {name!r}.")
    headers = {**_HEADERS, "ETag": asset.etag}
    if request.headers.get("if-none-match") == asset.etag:
        return Response(status_code=304, headers=headers)
    return Response(asset.body, headers=headers, media_type=asset.media_type)


def _read(folder: Traversable, prefix: str) -> Iterator[tuple[str, Asset]]:
    for each in folder.iterdir():
        ending = each.name[each.name.rfind(".") :]
        if each.is_dir():
            yield from _read(each, f"{prefix}{each.name}/")
        elif ending in _MEDIA_TYPES:
            body = each.read_bytes()
            etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            yield f"{prefix}{each.name}", Asset(body, _MEDIA_TYPES[ending], etag)
