"""ClusterSettings as the keyword arguments of each Kafka client, so that one set of settings configures them
all.

Settings have librdkafka's names. Each one that is known here is understood for every client; any other is
refused by name, because a security setting that one client ignores in silence is worse than none.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kcontrol.adapters.kafka.client.oauth import OidcEndpoint, TokenProvider, named_function
from kcontrol.errors import ConfigurationError
from kcontrol.settings.cluster import ClusterSettings

REQUEST_TIMEOUT_MS = 5_000
"""After so long without an answer a broker is taken to hang, and its connection is closed
(`socket.timeout.ms`)."""

CONNECT_TIMEOUT_MS = 10_000
"""For a connection with its handshakes, which may take a token from elsewhere
(`socket.connection.setup.timeout.ms`)."""

_ADMIN_TIMEOUT_MS = 10_000
"""As REQUEST_TIMEOUT_MS, of librdkafka, by which topics are looked at and made; a broker may take its time
for that."""

_REQUEST_SETTING, _CONNECT_SETTING = "socket.timeout.ms", "socket.connection.setup.timeout.ms"
_MIN_TIMEOUT_MS, _MAX_TIMEOUT_MS = 1_000, 300_000

TOKEN_PROVIDER = "sasl.oauthbearer.token.provider"
"""Ours, not librdkafka's: `package.module:function`, see `oauth.TokenFunction`."""

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
KNOWN_SETTINGS = frozenset(
    {
        "client.id",
        _REQUEST_SETTING,
        _CONNECT_SETTING,
        "security.protocol",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.extensions",
        TOKEN_PROVIDER,
        "https.ca.location",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
    }
)


class _NoLogins(logging.Filter):
    """aiokafka logs requests whole at DEBUG, a login's password or token too."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not any("SaslAuthenticate" in type(each).__name__ for each in record.args or ())


logging.getLogger("aiokafka.conn").addFilter(_NoLogins())


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a broker that says nothing is waited for, in ms: for an answer that it need
    not hold back, and to connect."""

    request_ms: int = REQUEST_TIMEOUT_MS
    connect_ms: int = CONNECT_TIMEOUT_MS

    @classmethod
    def of(cls, settings: ClusterSettings) -> Patience:
        """Of the client settings. Raises ConfigurationError naming the one that is no number of 1,000 to
        300,000."""
        request_ms = _timeout_ms(settings.client, _REQUEST_SETTING, REQUEST_TIMEOUT_MS)
        return cls(request_ms, _timeout_ms(settings.client, _CONNECT_SETTING, CONNECT_TIMEOUT_MS))


@dataclass(frozen=True, slots=True)
class Security:
    """How to speak to the cluster, checked. `ssl_context` is for the SSL protocols, the
    SASL fields for the SASL ones."""

    protocol: str
    ssl_context: ssl.SSLContext | None = field(repr=False)
    mechanism: str
    username: str = field(repr=False)
    password: str = field(repr=False)
    token_provider: TokenProvider | None = field(repr=False)


def security_of(settings: ClusterSettings) -> Security:
    """The security part of the settings. Raises ConfigurationError naming the setting
    that is unknown, wrong or missing."""
    client = settings.client
    for name in client:
        if name not in KNOWN_SETTINGS:
            known = ", ".join(sorted(KNOWN_SETTINGS))
            raise ConfigurationError(f"Unknown Kafka client setting {name!r}. Known ones are: {known}.")
    protocol = client.get("security.protocol", "PLAINTEXT").upper()
    _check_choice("security.protocol", protocol, _PROTOCOLS)
    context = _ssl_context(client) if protocol.endswith("SSL") else None
    if not protocol.startswith("SASL"):
        return Security(protocol, context, "", "", "", None)
    mechanism = client.get("sasl.mechanisms") or client.get("sasl.mechanism") or ""
    _check_choice("sasl.mechanisms", mechanism, _MECHANISMS)
    if mechanism == "OAUTHBEARER":
        return Security(protocol, context, mechanism, "", "", _token_provider(client))
    return Security(
        protocol, context, mechanism, _need(client, "sasl.username"), _need(client, "sasl.password"), None
    )


def aiokafka_options(settings: ClusterSettings) -> dict[str, Any]:
    """Keyword arguments for aiokafka's clients and connections."""
    security = security_of(settings)
    options: dict[str, Any] = {
        "bootstrap_servers": settings.bootstrap_servers,
        "client_id": settings.client.get("client.id", "kcontrol"),
        "security_protocol": security.protocol,
        "request_timeout_ms": Patience.of(settings).request_ms,
    }
    if security.ssl_context is not None:
        options["ssl_context"] = security.ssl_context
    if security.mechanism:
        options["sasl_mechanism"] = security.mechanism
    if security.token_provider is not None:
        options["sasl_oauth_token_provider"] = security.token_provider
    elif security.mechanism:
        options["sasl_plain_username"] = security.username
        options["sasl_plain_password"] = security.password
    return options


def confluent_options(settings: ClusterSettings) -> dict[str, Any]:
    """Settings for confluent-kafka's clients (librdkafka), which take them as they are."""
    security_of(settings)
    # A restarted broker is found again at once rather than after librdkafka's ten seconds.
    reconnect = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 1_000}
    waits = {_REQUEST_SETTING: _ADMIN_TIMEOUT_MS, _CONNECT_SETTING: Patience.of(settings).connect_ms}
    client = {name: value for name, value in settings.client.items() if name != TOKEN_PROVIDER}
    options: dict[str, Any] = {"client.id": "kcontrol", **reconnect, **waits, **client}
    options["bootstrap.servers"] = settings.bootstrap_servers
    dotted = settings.client.get(TOKEN_PROVIDER)
    if dotted:
        function = named_function(TOKEN_PROVIDER, dotted)
        options["oauth_cb"] = lambda _config: function()
    return options


def _timeout_ms(client: Mapping[str, str], name: str, default: int) -> int:
    text = client.get(name, str(default))
    if not (text.isascii() and text.isdigit()) or not _MIN_TIMEOUT_MS <= int(text) <= _MAX_TIMEOUT_MS:
        raise ConfigurationError(
            f"Kafka client setting {name!r} is {text!r}; it must be a number of milliseconds from "
            f"{_MIN_TIMEOUT_MS} to {_MAX_TIMEOUT_MS}."
        )
    return int(text)


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigurationError(
            f"Kafka client setting {name!r} is {value!r}; it must be one of {', '.join(choices)}."
        )


def _need(client: Mapping[str, str], name: str) -> str:
    value = client.get(name)
    if not value:
        raise ConfigurationError(
            f"Kafka client setting {name!r} is missing; {client.get('security.protocol')} needs it."
        )
    return value


def _token_provider(client: Mapping[str, str]) -> TokenProvider:
    extensions = _extensions(client.get("sasl.oauthbearer.extensions", ""))
    dotted = client.get(TOKEN_PROVIDER)
    if dotted:
        return TokenProvider(named_function(TOKEN_PROVIDER, dotted), extensions)
    if client.get("sasl.oauthbearer.method") != "oidc":
        raise ConfigurationError(
            "OAUTHBEARER needs the Kafka client setting 'sasl.oauthbearer.method' = 'oidc' with the token "
            f"endpoint, or {TOKEN_PROVIDER!r} = 'package.module:function'."
        )
    endpoint = OidcEndpoint(
        address=_need(client, "sasl.oauthbearer.token.endpoint.url"),
        client_id=_need(client, "sasl.oauthbearer.client.id"),
        client_secret=_need(client, "sasl.oauthbearer.client.secret"),
        scope=client.get("sasl.oauthbearer.scope", ""),
        authorities=_file(client, "https.ca.location"),
    )
    return TokenProvider(endpoint, extensions)


def _extensions(text: str) -> dict[str, str]:
    """`name=value,...`, as librdkafka takes them."""
    pairs = [part.partition("=") for part in text.split(",") if part]
    if any(not name or not equals for name, equals, _ in pairs):
        raise ConfigurationError(
            "Kafka client setting 'sasl.oauthbearer.extensions' must be name=value[,name=value...]."
        )
    return {name: value for name, _, value in pairs}


def _ssl_context(client: Mapping[str, str]) -> ssl.SSLContext:
    authority = _file(client, "ssl.ca.location")
    certificate = _file(client, "ssl.certificate.location")
    key = _file(client, "ssl.key.location")
    try:
        context = ssl.create_default_context(cafile=authority)
        if certificate:
            context.load_cert_chain(certificate, key, client.get("ssl.key.password", ""))
    except (ssl.SSLError, OSError) as error:
        raise ConfigurationError(
            f"The files of the ssl.* Kafka client settings can't be used: {error}."
        ) from error
    if client.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    if client.get("enable.ssl.certificate.verification", "true") == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _file(client: Mapping[str, str], name: str) -> str | None:
    value = client.get(name)
    if value and not Path(value).is_file():
        raise ConfigurationError(f"Kafka client setting {name!r} names {value!r}, which is not a file.")
    return value or None
