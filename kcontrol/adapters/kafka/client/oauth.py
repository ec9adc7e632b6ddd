"""Bearer tokens for aiokafka, as librdkafka gets them for itself: from an OIDC endpoint, or from a user's
function.

librdkafka takes `sasl.oauthbearer.method=oidc` and the endpoint, or a function that it calls when a token
runs out; aiokafka only takes an object that returns a token. This is that object (RFC 6749, section 4.4: the
client-credentials grant).
"""

from __future__ import annotations

import asyncio
import importlib
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError

from kcontrol.errors import AccessError, ConfigurationError, RetriableError

TokenFunction = Callable[[], tuple[str, float]]
"""Returns a token and when it expires, in seconds since 1970. May block; is called in a thread."""

_TIMEOUT_S = 15.0
_LIFETIME_USED = 0.8
"""A token is replaced after this share of its lifetime, as librdkafka does."""
_DEFAULT_LIFETIME_S = 60.0
_REFUSED_BELOW = 500
"""Statuses of HTTP from here on say that the endpoint has a problem; those from 400 on, that we have."""
_MAX_ANSWER_BYTES = 1 << 20


class TokenRefusedError(AccessError, KafkaError):  # type: ignore[misc]
    """There is no token for us. Of aiokafka's kind too, so that it takes it for a connection that failed."""

    __str__ = Exception.__str__


class TokenUnreachableError(RetriableError, KafkaError):  # type: ignore[misc]
    """Nobody answers who would give a token."""

    __str__ = Exception.__str__


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Keeps a token for most of its lifetime. extensions: SASL extensions that go with it (KIP-342)."""

    def __init__(self, fetch: TokenFunction, extensions: Mapping[str, str] | None = None) -> None:
        self._fetch = fetch
        self._extensions = dict(extensions or {})
        self._token = ""
        self._renew_at_s = 0.0

    async def token(self) -> str:
        """A valid token. Raises TokenRefusedError or TokenUnreachableError."""
        if time.monotonic() >= self._renew_at_s:
            self._token, expires_s = await asyncio.get_running_loop().run_in_executor(None, self._fetch)
            self._renew_at_s = time.monotonic() + max(0.0, expires_s - time.time()) * _LIFETIME_USED
        return self._token

    def extensions(self) -> dict[str, str]:
        """As aiokafka wants them."""
        return self._extensions


class OidcEndpoint:
    """Fetches tokens from an OAuth endpoint by the client-credentials grant. Shows no secret.

    authorities: a file with the certificates that vouch for the endpoint; None: those that this machine
    trusts.
    """

    def __init__(
        self, address: str, client_id: str, client_secret: str, scope: str, authorities: str | None = None
    ) -> None:
        parts = urllib.parse.urlsplit(address)
        if parts.scheme not in ("http", "https") or "@" in parts.netloc:
            raise ConfigurationError(
                "'sasl.oauthbearer.token.endpoint.url' must be an http(s) address without a user name "
                "or password in it"
            )
        self._address = address
        self._shown = f"{parts.scheme}://{parts.netloc}{parts.path}"
        form = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": client_secret}
        self._form = urllib.parse.urlencode({**form, "scope": scope} if scope else form).encode()
        self._context = ssl.create_default_context(cafile=authorities) if parts.scheme == "https" else None

    def __call__(self) -> tuple[str, float]:
        """See `TokenFunction`. Raises TokenRefusedError: the endpoint does not know us.
        TokenUnreachableError."""
        request = urllib.request.Request(self._address, self._form, {"Accept": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=self._context) as response:
                answer = json.loads(response.read(_MAX_ANSWER_BYTES))
            return str(answer["access_token"]), time.time() + float(
                answer.get("expires_in", _DEFAULT_LIFETIME_S)
            )
        except urllib.error.HTTPError as error:
            if error.code < _REFUSED_BELOW:
                raise TokenRefusedError(
                    f"{self._shown} gives no OAuth token: it answers {error.code} {error.reason}. Check "
                    "sasl.oauthbearer.client.id, client.secret and scope in the client settings."
                ) from None
            raise TokenUnreachableError(
                f"no OAuth token from {self._shown}: it answers {error.code}"
            ) from None
        except (OSError, ValueError) as error:
            raise TokenUnreachableError(f"no OAuth token from {self._shown}: {error}") from error
        except (KeyError, TypeError) as error:
            raise TokenRefusedError(
                f"{self._shown} gives no OAuth token: its answer has no access_token"
            ) from error


def named_function(setting: str, dotted: str) -> TokenFunction:
    """The function that a setting names as `package.module:function`; its errors are said as ours.

    Raises ConfigurationError: there is no such function in this process.
    """
    module, _, name = dotted.partition(":")
    try:
        function = getattr(importlib.import_module(module), name) if name else None
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"{setting!r} is {dotted!r}, which can't be imported here ({error}); it must be installed "
            "wherever kcontrol and Spark's executors run"
        ) from error
    if not callable(function):
        raise ConfigurationError(f"{setting!r} is {dotted!r}; it must be package.module:function")
    return _Named(dotted, function)


class _Named:
    def __init__(self, dotted: str, function: Callable[[], Any]) -> None:
        self._dotted = dotted
        self._function = function

    def __call__(self) -> tuple[str, float]:
        try:
            token, expires_s = self._function()
            return str(token), float(expires_s)
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises; its words may hold what nobody must see
            raise TokenRefusedError(
                f"{self._dotted} gives no OAuth token: it raised {type(error).__name__}; it must return "
                "(token, when it expires in seconds since 1970)"
            ) from None
