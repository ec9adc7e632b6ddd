"""The address of a webhook, and its secrets: what is refused, and what is never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcontrol.adapters.webhook.address import WebhookAddress, read_secrets, signature, tls
from kcontrol.errors import ConfigurationError


def test_its_name_has_nothing_of_its_query() -> None:
    address = WebhookAddress("https://hooks.example.com:8443/in/orders?token=abc")
    assert (address.name, str(address)) == (
        "hooks.example.com:8443/in/orders",
        "webhook hooks.example.com:8443/in/orders",
    )


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("ftp://here/x", "is no URL: give https://HOST/PATH"),
        ("https:///x", "is no URL"),
        ("https://here:port/x", "is no URL"),
        ("https://ann:geheim@here/x", "has a user in it"),
        ("https://here/x#part", "has a fragment"),
    ],
)
def test_what_is_no_address_is_refused(url: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence) as refused:
        WebhookAddress(url)
    assert "geheim" not in str(refused.value)


def test_bodies_are_signed_as_standard_webhooks_have_it(tmp_path: Path) -> None:
    """The example of its specification."""
    file = tmp_path / "key"
    file.write_text("whsec_plJ3nmyCDGBKInavdOK15jsl\n")
    key = read_secrets(None, file).key
    body = b'{"event_type":"ping","data":{"success":true}}'
    assert (
        signature(key, "msg_loFOjxBNrRLzqYUf", 1_731_705_121, body)
        == "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0="
    )


def test_headers_are_read_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text("Authorization: Bearer geheim\n\nX-Team:  a:b \n")
    secrets = read_secrets(file, None)
    assert secrets.headers == {"Authorization": "Bearer geheim", "X-Team": "a:b"}
    assert "geheim" not in repr(secrets)


@pytest.mark.parametrize(
    ("headers", "key", "sentence"),
    [
        ("Authorization Bearer geheim", None, "line 1: give NAME: VALUE"),
        ("A: b\nIdempotency-Key: geheim", None, "line 2: Idempotency-Key is set for each request"),
        ("A: ge\x07heim", None, "characters that a header can't have"),
        (None, "", "its first line is empty"),
        (None, "whsec_%%%", "there is no base64"),
    ],
)
def test_files_that_can_not_be_used_are_refused(
    tmp_path: Path, headers: str | None, key: str | None, sentence: str
) -> None:
    files: list[Path | None] = []
    for name, text in (("headers", headers), ("key", key)):
        files.append(None if text is None else tmp_path / name)
        if text is not None:
            (tmp_path / name).write_text(text)
    with pytest.raises(ConfigurationError, match=sentence) as refused:
        read_secrets(*files)
    assert "geheim" not in str(refused.value)


def test_files_that_are_not_there_are_told(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    for call in (
        lambda: read_secrets(missing, None),
        lambda: read_secrets(None, missing),
        lambda: tls(missing, None, None),
        lambda: tls(None, missing, missing),
        lambda: tls(None, missing, None),
    ):
        with pytest.raises(ConfigurationError, match=r"can't be (read|used)|need each other"):
            call()
