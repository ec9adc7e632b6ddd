"""The operations over any number of planes, built and described once: that takes half a second, as long as many requests."""

from __future__ import annotations

from copy import copy
from functools import cache
from typing import cast

from fastapi import FastAPI
from starlette.datastructures import State
from starlette.types import ASGIApp

from kcontrol.adapters.http.access import AccessToken
from kcontrol.adapters.http.app import guarded, make_api
from kcontrol.adapters.http.limits import HttpLimits
from kcontrol.adapters.http.plane import Plane


def api_of(plane: Plane) -> FastAPI:
    """As `make_api` makes them, with the same routes for all: of what it makes only the plane is one's own."""
    api = copy(_made())
    api.state = State()
    api.state.plane = plane
    return api


def app_of(plane: Plane, limits: HttpLimits, token: AccessToken | None) -> ASGIApp:
    """As `make_app` makes it, of these operations."""
    return guarded(api_of(plane), plane, limits, token)


@cache
def _made() -> FastAPI:
    api = make_api(cast(Plane, None))
    api.openapi()  # Each asks it what may be asked, and would make one of its own.
    return api
