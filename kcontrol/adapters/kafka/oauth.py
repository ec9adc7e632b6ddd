"""Bearer tokens for aiokafka by the OIDC client-credentials grant, as librdkafka gets them for itself.

librdkafka takes `sasl.oauthbearer.method=oidc` and the endpoint; aiokafka only takes an object that returns a token. This is
that object (RFC 6749, section 4.4).
"""

from __future__ import annotations

import asyncio
import json
import time
import urllib.error
import urllib.parse
import urllib.request

from aiokafka.abc import AbstractTokenProvider

from kcontrol.errors import ClusterError, ConfigurationError

_TIMEOUT_S = 15.0
_LIFETIME_USED = 0.8
"""A token is replaced after this share of its lifetime, as librdkafka does."""
_DEFAULT_LIFETIME_S = 60.0


class OidcTokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Fetches a token from `endpoint` and keeps it for most of its lifetime."""

    def __init__(self, endpoint: str, client_id: str, client_secret: str, scope: str) -> None:
        if urllib.parse.urlsplit(endpoint).scheme not in ("http", "https"):
            raise ConfigurationError(f"'sasl.oauthbearer.token.endpoint.url' is {endpoint!r}; it must be an http(s) address.")
        self._endpoint = endpoint
        form = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": client_secret}
        self._form = urllib.parse.urlencode({**form, "scope": scope} if scope else form).encode()
        self._token = ""
        self._expires_s = 0.0

    async def token(self) -> str:
        """A valid token. Raises ClusterError: the endpoint can't be reached or refuses."""
        if time.monotonic() >= self._expires_s:
            await asyncio.get_running_loop().run_in_executor(None, self._refresh)
        return self._token

    def _refresh(self) -> None:
        request = urllib.request.Request(self._endpoint, self._form, {"Accept": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
                answer = json.load(response)
            self._token = str(answer["access_token"])
            lifetime_s = float(answer.get("expires_in", _DEFAULT_LIFETIME_S))
        except (urllib.error.URLError, OSError, ValueError, KeyError) as error:
            raise ClusterError(f"No OAuth token from {self._endpoint}: {error!r}.") from error
        self._expires_s = time.monotonic() + lifetime_s * _LIFETIME_USED
