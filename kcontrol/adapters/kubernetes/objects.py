"""Objects in Kubernetes, as JSON, read and written one at a time, each request within a deadline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from kcontrol.adapters.kubernetes.library import load_lightkube
from kcontrol.core.kubernetes.resources import GROUP, PIPELINE, REGION, REGION_OPERATOR, VERSION, Manifest
from kcontrol.errors import AccessError, ConfigurationError, NotFoundError, RetriableError

MANAGER = "kcontrol-operator"
"""Whose fields are, in an object, those that are applied here."""
_AGAIN = frozenset({408, 409, 425, 429})
_DENIED = frozenset({401, 403})
_MISSING = 404
_SERVER = 500
_KINDS = {
    PIPELINE: (GROUP, VERSION, "pipelines"),
    REGION: (GROUP, VERSION, "consistentregions"),
    REGION_OPERATOR: (GROUP, VERSION, "consistentregionoperators"),
    "StatefulSet": ("apps", "v1", "statefulsets"),
    "Deployment": ("apps", "v1", "deployments"),
    "PodDisruptionBudget": ("policy", "v1", "poddisruptionbudgets"),
    "ConfigMap": ("", "v1", "configmaps"),
    "Service": ("", "v1", "services"),
    "Pod": ("", "v1", "pods"),
}


class KubernetesObjects:
    """As the service account of its pod, or as KUBECONFIG says. Raises ConfigurationError: neither is there, or lightkube is
    not.

    Methods raise RetriableError: another try may succeed. AccessError: it is not allowed. ConfigurationError: the API server
    refuses the object.
    """

    def __init__(self, timeout_s: float) -> None:
        self._lightkube = kube = load_lightkube()
        make = kube.generic_resource.create_namespaced_resource
        try:
            # The timeout is one of httpx2, which takes a number for each of its parts.
            self._client = kube.AsyncClient(timeout=timeout_s, field_manager=MANAGER)
        except kube.ConfigError as error:
            raise ConfigurationError(
                f"Kubernetes can't be reached: {error}. Run it as a pod with a service account, or set KUBECONFIG"
            ) from error
        self._kinds = {kind: make(*where[:2], kind, where[2]) for kind, where in _KINDS.items()}

    async def __aenter__(self) -> KubernetesObjects:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def get(self, kind: str, namespace: str, name: str) -> Manifest | None:
        """None: there is none."""
        with self._told(kind, name):
            try:
                found = await self._client.get(self._kinds[kind], name, namespace=namespace)
            except self._lightkube.ApiError as error:
                if error.status.code == _MISSING:
                    return None
                raise
            return self._plain(kind, found)

    async def list(
        self, kind: str, namespace: str | None, labels: Mapping[str, str] | None = None
    ) -> list[Manifest]:
        """namespace None: of all. labels: that they have."""
        where = "*" if namespace is None else namespace
        with self._told(kind, "all"):
            found = self._client.list(self._kinds[kind], namespace=where, labels=labels)
            return [self._plain(kind, each) async for each in found]

    async def apply(self, manifest: Manifest) -> None:
        """By server-side apply: fields that others have written stay theirs, and those that are no longer said go."""
        meta = manifest["metadata"]
        with self._told(manifest["kind"], meta["name"]):
            await self._client.patch(
                self._kinds[manifest["kind"]],
                meta["name"],
                manifest,
                namespace=meta["namespace"],
                patch_type=self._lightkube.types.PatchType.APPLY,
                force=True,
            )

    async def put_status(self, resource: Manifest, status: Manifest) -> None:
        """Only of this version of it, which becomes the new one: what has been read and is old writes nothing."""
        await self._patch(self._kinds[resource["kind"]].Status, resource, {"status": status})

    async def set_finalizers(self, resource: Manifest, finalizers: Sequence[str]) -> None:
        """As `put_status`."""
        patch = {"metadata": {"finalizers": list(finalizers)}}
        await self._patch(self._kinds[resource["kind"]], resource, patch)

    async def _patch(self, where: Any, resource: Manifest, patch: Manifest) -> None:
        kind, meta = resource["kind"], resource["metadata"]
        own = {**patch.get("metadata", {}), "resourceVersion": meta["resourceVersion"]}
        with self._told(kind, meta["name"]):
            found = await self._client.patch(
                where,
                meta["name"],
                {**patch, "metadata": own},
                namespace=meta["namespace"],
                patch_type=self._lightkube.types.PatchType.MERGE,
            )
        resource.update(self._plain(kind, found))

    def _plain(self, kind: str, found: Any) -> Manifest:
        plain: Manifest = found.to_dict()
        # Items of a list don't say what they are.
        api = self._kinds[kind]._api_info.resource.api_version  # noqa: SLF001 - lightkube has no other name for it
        return {**plain, "kind": kind, "apiVersion": api}

    @contextmanager
    def _told(self, kind: str, name: str) -> Iterator[None]:
        kube = self._lightkube
        try:
            yield
        except kube.ApiError as error:
            code, text = error.status.code or _SERVER, " ".join(str(error).split())
            what = f"Kubernetes, {kind} {name}: {text}"
            if code in _DENIED:
                raise AccessError(f"{what}: see docker/kubernetes/operator/rbac.yaml") from error
            if code == _MISSING:
                raise NotFoundError(what) from error
            if code in _AGAIN or code >= _SERVER:
                raise RetriableError(what) from error
            raise ConfigurationError(what) from error
        except (kube.LoadResourceError, OSError, *_transport_errors()) as error:
            raise RetriableError(f"Kubernetes does not answer: {type(error).__name__}: {error}") from error


def _transport_errors() -> tuple[type[Exception], ...]:
    """lightkube lets those of its HTTP client through."""
    from httpx2 import HTTPError

    return (HTTPError,)
