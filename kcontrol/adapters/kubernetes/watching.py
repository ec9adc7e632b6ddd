"""News of objects, by kopf's watches: they reconnect, and begin anew where the API server has forgotten what was.

News is a hint that something is worth a look. What is said in it is not used: it may be old.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any

from kcontrol.adapters.kubernetes.library import load_kopf
from kcontrol.core.kubernetes.resources import APP_LABELS, GROUP, VERSION

_WATCH_S = 60
"""So long at most a watch lasts: one whose connection hangs is made anew. The API server takes whole seconds only."""
_OWN = ("pipelines", "consistentregions", "consistentregionoperators")


class _News:
    """Which changes are worth a look: not those of a status, which the operator writes itself."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._known: dict[str, tuple[object, ...]] = {}

    async def __call__(self, type: str | None, body: Mapping[str, Any], **_: object) -> None:
        """As kopf calls it. type: None where an object is seen for the first time."""
        meta = body["metadata"]
        seen = (
            meta.get("generation"),
            meta.get("deletionTimestamp"),
            tuple(meta.get("finalizers", ())),
            (body.get("status") or {}).get("phase") if body["kind"] == "Pod" else None,
        )
        uid = meta["uid"]
        if type == "DELETED":
            self._known.pop(uid, None)
        elif self._known.get(uid) == seen:
            return
        else:
            self._known[uid] = seen
        self._changed()


async def watch(
    namespaces: Collection[str],
    changed: Callable[[], None],
    stop: asyncio.Event,
    ready: asyncio.Event,
    liveness: str | None,
) -> None:
    """Until `stop`. namespaces: (): all. changed: is called when a custom resource, a pod of kcontrol's or a StatefulSet is
    added, changed or deleted. liveness: a URL to answer at."""
    kopf = load_kopf()
    registry, settings = kopf.OperatorRegistry(), kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.watching.server_timeout = _WATCH_S
    settings.watching.client_timeout = 2 * _WATCH_S
    settings.networking.request_timeout = _WATCH_S
    news = _News(changed)
    for plural in _OWN:
        kopf.on.event(GROUP, VERSION, plural, registry=registry)(news.__call__)
    for group, plural in (("", "pods"), ("apps", "statefulsets")):
        kopf.on.event(group, "v1", plural, labels=APP_LABELS, registry=registry)(news.__call__)
    for login in (kopf.login_with_service_account, kopf.login_with_kubeconfig):
        kopf.on.login(registry=registry, id=login.__name__)(login)
    await kopf.operator(
        registry=registry,
        settings=settings,
        standalone=True,
        clusterwide=not namespaces,
        namespaces=tuple(namespaces),
        stop_flag=stop,
        ready_flag=ready,
        liveness_endpoint=liveness,
    )
