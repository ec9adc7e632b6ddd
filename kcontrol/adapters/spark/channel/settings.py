"""Limits of the side channel and its certificate, from Spark's configuration of the application.

With executors on other hosts the channel is encrypted: unless certificate and key are given, the driver makes
a certificate for the incarnation of the application with Java's keytool, and its fingerprint travels with the
address and the secret. A client trusts that fingerprint and nothing else, so no authority is needed.
"""

from __future__ import annotations

import base64
import os
import secrets
import ssl
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from kcontrol.adapters.spark import internals
from kcontrol.adapters.spark.channel.link import fingerprint_of
from kcontrol.errors import SparkSettingError
from kcontrol.settings.scratch import scratch_directory

PREFIX = "spark.kcontrol.channel."
_ALIAS = "kcontrol"
_PASSWORD = "STORE_PASSWORD"
"""The variable of keytool's environment that holds the password of its store."""
_KEYTOOL_TIMEOUT_S = 60.0
_VALID_DAYS = 3_650


@dataclass(frozen=True, slots=True)
class ChannelLimits:
    """What the driver does for connections. Each is a setting of Spark's (PREFIX and the name in the
    comment)."""

    handshake_s: float = 10.0
    """handshakeSeconds: a peer must have proven itself by then."""
    most_strangers: int = 64
    """maxStrangers: connections that have not proven themselves yet; one more ends the oldest of them."""
    most_peers: int = 10_000
    """maxConnections: that have; one more is turned away."""
    message_bytes: int = 16 * 1024 * 1024
    """maxMessageBytes: of a peer that has. A division of 100,000 splits fits."""
    turn_s: float = 150.0
    """turnSeconds: how long a writer may have a turn in a partition. A batch that is not acknowledged ends the
    attempt long before, so nobody has one for so long but a process that hangs."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """What the driver proves itself with. context: for its side of TLS."""

    context: ssl.SSLContext
    fingerprint: str


def limits_of(setting: Callable[[str], str | None]) -> ChannelLimits:
    """The limits that Spark's configuration gives. setting: by name, None for one that is not set.

    Raises SparkSettingError for a value that is no number above 0.
    """
    names = ("handshakeSeconds", "maxStrangers", "maxConnections", "maxMessageBytes", "turnSeconds")
    defaults = ChannelLimits()
    values = (
        *(defaults.handshake_s, defaults.most_strangers, defaults.most_peers, defaults.message_bytes),
        defaults.turn_s,
    )
    found: list[Any] = []
    for name, default in zip(names, values, strict=True):
        text = setting(PREFIX + name)
        try:
            value = default if text is None else type(default)(text)
        except ValueError:
            value = 0
        if not 0 < value < 1 << 31:
            raise SparkSettingError(f"Spark setting {PREFIX + name} is {text!r}: it must be a number above 0")
        found.append(value)
    return ChannelLimits(*found)


def certificate_of(spark: SparkSession, *, elsewhere: bool) -> Certificate | None:
    """The certificate of this application, None if its channel is not encrypted.
    elsewhere: tasks may run on other hosts.

    Raises SparkSettingError for settings that don't fit, and when none can be made.
    """
    conf = spark.sparkContext.getConf()
    wanted = conf.get(PREFIX + "tls", "auto")
    if wanted not in ("auto", "true", "false"):
        raise SparkSettingError(f"Spark setting {PREFIX}tls is {wanted!r}: it must be auto, true or false")
    certificate, key = conf.get(PREFIX + "certificate"), conf.get(PREFIX + "key")
    if (certificate is None) != (key is None):
        raise SparkSettingError(
            f"Spark settings {PREFIX}certificate and {PREFIX}key need each other: give both, as PEM files"
        )
    if wanted == "false" or (wanted == "auto" and not elsewhere and certificate is None):
        return None
    if certificate is not None and key is not None:
        return load_certificate(Path(certificate), Path(key))
    return _made(spark)


def load_certificate(certificate: Path, key: Path) -> Certificate:
    """From PEM files, the driver's own certificate first. Raises SparkSettingError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_cert_chain(certificate, key)
        first, _, _ = certificate.read_text(encoding="ascii").partition("-----END CERTIFICATE-----")
        own = first[first.index("-----BEGIN CERTIFICATE-----") :] + "-----END CERTIFICATE-----\n"
    except (OSError, ValueError) as error:
        raise SparkSettingError(
            f"the side channel's certificate {certificate} and key {key} can't be used: {error}"
        ) from error
    return Certificate(context, fingerprint_of(ssl.PEM_cert_to_DER_cert(own)))


def client_context() -> ssl.SSLContext:
    """For a client, which compares the fingerprint itself once the connection stands and before it says
    anything."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _made(spark: SparkSession) -> Certificate:
    """Keytool makes key and certificate, and the JVM of the driver reads the key,
    because Python can do neither."""
    jvm = internals.jvm(spark)
    password = secrets.token_hex(16)
    keytool = str(Path(str(jvm.java.lang.System.getProperty("java.home"))) / "bin" / "keytool")
    with scratch_directory("channel") as directory:
        store = str(directory / "store.p12")
        _run(
            *(
                keytool,
                "-genkeypair",
                "-alias",
                _ALIAS,
                "-keyalg",
                "EC",
                "-groupname",
                "secp256r1",
                "-dname",
                "CN=kcontrol",
            ),
            *(
                "-validity",
                str(_VALID_DAYS),
                "-storetype",
                "PKCS12",
                "-keystore",
                store,
                "-storepass:env",
                _PASSWORD,
            ),
            password=password,
        )
        own = _run(
            *(
                keytool,
                "-exportcert",
                "-rfc",
                "-alias",
                _ALIAS,
                "-keystore",
                store,
                "-storepass:env",
                _PASSWORD,
            ),
            password=password,
        )
        files = directory / "cert.pem", directory / "key.pem"
        for path, text in zip(files, (own, _key_of(jvm, store, password)), strict=True):
            path.touch(mode=0o600)
            path.write_text(text, encoding="ascii")
        return load_certificate(*files)


def _key_of(jvm: Any, store: str, password: str) -> str:
    """The private key in a PKCS#12 store, as PEM."""
    # A char[]; py4j would make a text of Python's out of Java's.
    letters = jvm.java.nio.charset.StandardCharsets.US_ASCII.decode(
        jvm.java.nio.ByteBuffer.wrap(password.encode())
    ).array()
    keys = jvm.java.security.KeyStore.getInstance("PKCS12")
    stream = jvm.java.io.FileInputStream(store)
    try:
        keys.load(stream, letters)
    finally:
        stream.close()
    # The key's own class belongs to a module that lets nobody ask it.
    kind = jvm.java.lang.Class.forName("java.security.spec.PKCS8EncodedKeySpec")
    key = (
        jvm.java.security.KeyFactory.getInstance("EC")
        .getKeySpec(keys.getKey(_ALIAS, letters), kind)
        .getEncoded()
    )
    text = base64.encodebytes(bytes(key)).decode("ascii")
    return f"-----BEGIN PRIVATE KEY-----\n{text}-----END PRIVATE KEY-----\n"


def _run(*command: str, password: str) -> str:
    environment = {**os.environ, _PASSWORD: password}
    try:
        done = subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True, timeout=_KEYTOOL_TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stdout", None) or error
        raise SparkSettingError(
            f"the side channel to executors can't be encrypted: keytool failed: {said}. Give a certificate "
            f"with {PREFIX}certificate and {PREFIX}key (PEM files), or set {PREFIX}tls=false if the network "
            "is trusted"
        ) from error
    return done.stdout
