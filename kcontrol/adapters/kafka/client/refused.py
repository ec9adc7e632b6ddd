"""Finds out why a broker can't be connected to: whether it is away, or refuses us for good.

aiokafka logs a failed login and then says no more than that there is no connection, which is what a broker
that restarts looks like, too. So after a failure one more connection is made, only to see what becomes of it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any

from aiokafka import errors as kafka_errors
from aiokafka.conn import collect_hosts, create_conn
from aiokafka.protocol.metadata import MetadataRequest

from kcontrol.adapters.kafka.client.rights import principal_of
from kcontrol.errors import AccessError, KcontrolError
from kcontrol.settings.cluster import ClusterSettings

LOOK_TIMEOUT_S = 3.0
"""A broker that takes longer is away, not refusing."""

_LOGIN = (
    kafka_errors.SaslAuthenticationFailed,
    kafka_errors.AuthenticationFailedError,
    kafka_errors.AuthenticationMethodNotSupported,
    kafka_errors.UnsupportedSaslMechanismError,
    kafka_errors.IllegalSaslStateError,
)
_PASSING_TLS = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
"""The connection broke in the middle of the handshake, as it does when a broker goes down."""


async def raise_if_refused(settings: ClusterSettings, options: Mapping[str, Any]) -> None:
    """Return if no broker of the bootstrap addresses refuses us; it may be away, or be there again.

    options: those of `aiokafka_options`. Raises AccessError: the broker does not take the credentials, or one
    side does not trust the other's certificate. Raises KcontrolError that a token provider has raised.
    """
    if options["security_protocol"] == "PLAINTEXT":
        return
    arguments = {name: value for name, value in options.items() if name != "bootstrap_servers"}
    for host, port, _ in collect_hosts(settings.bootstrap_servers):
        try:
            async with asyncio.timeout(LOOK_TIMEOUT_S):
                connection = await create_conn(host, port, **arguments)
        except (kafka_errors.KafkaError, OSError, KcontrolError) as error:
            _raise_if_final(settings, f"{host}:{port}", error)
        else:
            try:
                if (
                    settings.client.get("sasl.mechanisms", settings.client.get("sasl.mechanism"))
                    == "OAUTHBEARER"
                ):
                    await _raise_if_token_refused(settings, f"{host}:{port}", connection)
            finally:
                connection.close()


async def _raise_if_token_refused(settings: ClusterSettings, address: str, connection: Any) -> None:
    """aiokafka does not read what the broker says to a token (RFC 7628, section 3.2.3); only the next request
    fails."""
    try:
        async with asyncio.timeout(LOOK_TIMEOUT_S):
            answer = await connection.send(MetadataRequest([]))
    except (kafka_errors.KafkaError, OSError):
        return
    if not answer.brokers:
        raise AccessError(
            f"Kafka at {address} does not accept {_login(settings)}: it does not trust whoever signed it, "
            "or it is for others, or has expired. Check the sasl.oauthbearer.* client settings."
        )


def _raise_if_final(settings: ClusterSettings, address: str, error: BaseException) -> None:
    for cause in _chain(error):
        if isinstance(cause, KcontrolError):
            raise cause
        if isinstance(cause, _LOGIN):
            raise AccessError(
                f"Kafka at {address} does not accept {_login(settings)}: {cause}. Check sasl.mechanisms, "
                "user name and password (or token) in the client settings, and that the broker knows this "
                "user."
            ) from error
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, _PASSING_TLS):
            raise AccessError(
                f"Kafka at {address}: TLS failed: {_reason(cause)}. Check security.protocol, "
                "ssl.ca.location (whom we trust) and ssl.certificate.location (whom the broker trusts) in "
                "the client settings."
            ) from error


def _login(settings: ClusterSettings) -> str:
    mechanism = settings.client.get("sasl.mechanisms") or settings.client.get("sasl.mechanism")
    return f"the login of {principal_of(settings.client).text} by {mechanism}"


def _reason(error: ssl.SSLError) -> str:
    return getattr(error, "verify_message", "") or error.reason or str(error)


def _chain(error: BaseException) -> list[BaseException]:
    """The error and what has led to it, outermost first."""
    found: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in found:
        found.append(current)
        current = current.__cause__ or current.__context__
    return found
