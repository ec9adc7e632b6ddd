"""One set of settings for every client: translated, checked, and never shown."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from aiokafka.protocol.admin import SaslAuthenticateRequest, SaslAuthenticateRequest_v0

from kcontrol.adapters.kafka.client import oauth
from kcontrol.adapters.kafka.client.oauth import OidcEndpoint, TokenProvider
from kcontrol.adapters.kafka.client.options import aiokafka_options, confluent_options, security_of
from kcontrol.errors import AccessError, ConfigurationError, RetriableError
from kcontrol.settings.cluster import ClusterSettings
from tests.support.patience import HANG_S

SCRAM = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanisms": "SCRAM-SHA-512",
    "sasl.username": "flights",
    "sasl.password": "t0p-secret",
}


def _settings(**client: str) -> ClusterSettings:
    return ClusterSettings(bootstrap_servers="127.0.0.1:9092", client=client)


def test_without_settings_nothing_is_added() -> None:
    assert aiokafka_options(_settings()) == {
        "bootstrap_servers": "127.0.0.1:9092",
        "client_id": "kcontrol",
        "security_protocol": "PLAINTEXT",
        "request_timeout_ms": 5_000,
    }
    assert confluent_options(_settings())["bootstrap.servers"] == "127.0.0.1:9092"


def test_sasl_over_ssl_reaches_both_clients() -> None:
    settings = _settings(**SCRAM)
    options = aiokafka_options(settings)
    assert isinstance(options["ssl_context"], ssl.SSLContext)
    assert options["ssl_context"].check_hostname
    assert {name: value for name, value in options.items() if name.startswith("sasl")} == {
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "flights",
        "sasl_plain_password": "t0p-secret",
    }
    assert SCRAM.items() <= confluent_options(settings).items()


def test_secrets_are_not_shown() -> None:
    settings = _settings(**SCRAM)
    assert "t0p-secret" not in repr(settings)
    assert "t0p-secret" not in repr(security_of(settings))


@pytest.mark.parametrize(
    ("client", "said"),
    [
        ({"ssl.ca.path": "x"}, "Unknown Kafka client setting 'ssl.ca.path'"),
        ({"security.protocol": "TLS"}, "'security.protocol' is 'TLS'; it must be one of PLAINTEXT"),
        ({"security.protocol": "SASL_SSL"}, "'sasl.mechanisms' is ''"),
        ({**SCRAM, "sasl.mechanisms": "GSSAPI"}, "'sasl.mechanisms' is 'GSSAPI'"),
        ({**SCRAM, "sasl.password": ""}, "'sasl.password' is missing"),
        (
            {"security.protocol": "SSL", "ssl.ca.location": "/nowhere.pem"},
            "'ssl.ca.location' names '/nowhere.pem'",
        ),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "OAUTHBEARER"},
            "needs the Kafka client setting 'sasl.oauthbearer.method' = 'oidc'",
        ),
    ],
)
def test_what_is_wrong_is_named(client: dict[str, str], said: str) -> None:
    for translate in (aiokafka_options, confluent_options):
        with pytest.raises(ConfigurationError) as raised:
            translate(_settings(**client))
        assert said in str(raised.value)


def test_a_certificate_file_that_is_none_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(ConfigurationError, match=r"ssl\.\* Kafka client settings"):
        aiokafka_options(
            _settings(**{"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "ca.pem")})
        )


def test_verification_can_be_switched_off() -> None:
    options = aiokafka_options(
        _settings(**{"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"})
    )
    assert options["ssl_context"].verify_mode is ssl.CERT_NONE


@pytest.fixture
def token_endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[str]]]:
    """Its address, and the forms that were posted to it."""
    forms: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            forms.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"access_token": f"token-{len(forms)}", "expires_in": 3600}).encode())

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    monkeypatch.setattr(oauth, "_TIMEOUT_S", HANG_S)
    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/token", forms
    server.shutdown()
    server.server_close()


def test_oauth_tokens_come_from_the_endpoint_and_are_kept(token_endpoint: tuple[str, list[str]]) -> None:
    address, forms = token_endpoint
    client = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "s/e&cret",
        "sasl.oauthbearer.token.endpoint.url": address,
    }
    provider = aiokafka_options(_settings(**client))["sasl_oauth_token_provider"]

    async def twice() -> list[str]:
        return [await provider.token(), await provider.token()]

    assert asyncio.run(twice()) == ["token-1", "token-1"]
    assert forms == ["grant_type=client_credentials&client_id=me&client_secret=s%2Fe%26cret"]


def test_an_endpoint_that_does_not_answer_is_named() -> None:
    provider = TokenProvider(OidcEndpoint("http://127.0.0.1:9/token", "me", "secret", ""))
    with pytest.raises(RetriableError, match=r"127\.0\.0\.1:9/token"):
        asyncio.run(provider.token())


@pytest.mark.parametrize(
    "address", ["ftp://host/token", "http://me:t0p-secret@host/token", "host/t0p-secret"]
)
def test_an_endpoint_that_is_no_address_is_refused_and_not_shown(address: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"must be an http\(s\) address without a user name"
    ) as raised:
        OidcEndpoint(address, "me", "secret", "")
    assert "t0p-secret" not in str(raised.value)


def lent_token() -> tuple[str, float]:
    """A user's function."""
    return "lent", time.time() + 3_600


def broken_token() -> tuple[str, float]:
    """One that fails, and says more than it should."""
    raise ValueError("t0p-secret")


def test_a_function_of_the_users_gives_tokens_to_both_clients() -> None:
    client = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.token.provider": f"{__name__}:lent_token",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=p",
    }
    provider = aiokafka_options(_settings(**client))["sasl_oauth_token_provider"]
    assert asyncio.run(provider.token()) == "lent"
    assert provider.extensions() == {"logicalCluster": "lkc-1", "identityPoolId": "p"}
    options = confluent_options(_settings(**client))
    assert options["oauth_cb"]("")[0] == "lent"
    assert "sasl.oauthbearer.token.provider" not in options


def test_a_function_that_fails_is_named_and_its_words_are_kept_back() -> None:
    client = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.token.provider": f"{__name__}:broken_token",
    }
    with pytest.raises(
        AccessError, match=r":broken_token gives no OAuth token: it raised ValueError"
    ) as raised:
        asyncio.run(aiokafka_options(_settings(**client))["sasl_oauth_token_provider"].token())
    assert "t0p-secret" not in str(raised.value)


@pytest.mark.parametrize("dotted", ["no_such_module:token", "json:nothing", "json", "json:__name__", ":x"])
def test_a_function_that_is_not_there_is_named(dotted: str) -> None:
    client = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.token.provider": dotted,
    }
    with pytest.raises(ConfigurationError, match=f"'sasl.oauthbearer.token.provider' is {dotted!r}"):
        aiokafka_options(_settings(**client))


def test_aiokafka_never_logs_a_login(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    log = logging.getLogger("aiokafka.conn")
    log.debug(
        "Request to %s:%d %d: %s",
        "host",
        9092,
        1,
        SaslAuthenticateRequest(b"t0p-secret").build(SaslAuthenticateRequest_v0),
    )
    log.debug("Request to %s:%d %d: %s", "host", 9092, 2, "something else")
    assert [record.args[-1] for record in caplog.records if record.args] == ["something else"]
