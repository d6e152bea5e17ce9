"""Certificates and keys that a deployment names: read before anything is started, and refused where they stand."""

from __future__ import annotations

import os
import re
import ssl
from pathlib import Path

from towtank.design.include import Library
from towtank.design.problems import Problems
from towtank.design.tree import Mapping, Scalar
from towtank.design.validation import Path as KeyPath
from towtank.design.validation import joined
from towtank.platforms import placeholders
from towtank.platforms.transport import Tls

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_KEY = re.compile(rb"-----BEGIN (?:RSA |EC )?PRIVATE KEY-----")
_ENCRYPTED = re.compile(rb"-----BEGIN ENCRYPTED PRIVATE KEY-----|Proc-Type: 4,ENCRYPTED")
_MOST_BYTES = 4 << 20


def check_certificates(
    tls: Tls, section: Mapping, path: KeyPath, library: Library, problems: Problems
) -> None:
    """Say what cannot be used about the files of one `tls`.

    Parameters
    ----------
    tls : Tls
    section : Mapping
        The same as it stands in the file.
    path : tuple
        Its key path.
    library : Library
        Finds files in the experiment's folder; a missing one is said there.
    problems : Problems
    """
    found: dict[str, Path] = {}
    for key in ("ca", "cert", "key"):
        name = section.get(key)
        if not isinstance(name, Scalar) or name.value is None:
            continue
        here = joined((*path, key))
        place = (
            _key_file(name, here, library, problems)
            if key == "key"
            else library.find(name.text, name.place, here)
        )
        content = None if place is None else _read(place, name, here, problems)
        if place is None or content is None:
            continue
        reason = _unusable(content, is_key=key == "key")
        if reason:
            problems.add(name.place, here, f"{name.text!r} {reason}")
        else:
            found[key] = place
    if "cert" in found and "key" in found:
        reason = _mismatch(found["cert"], found["key"])
        name = section.get("key")
        if reason and isinstance(name, Scalar):
            problems.add(name.place, joined((*path, "key")), f"the key {name.text!r} {reason} {tls.cert!r}")


def _key_file(name: Scalar, path: str, library: Library, problems: Problems) -> Path | None:
    """Where a private key is; None when that is not known yet, or said."""
    text = name.text
    variables = placeholders.dotted([text], "env")
    if placeholders.names(text):
        values = {f"env.{v}": os.environ[v] for v in variables if v in os.environ}
        if len(values) != len(placeholders.names(text)):
            return None  # the platform's own check says which variable is not set
        text = placeholders.render(text, values)
    if not Path(text).is_absolute():
        return library.find(text, name.place, path)
    if not Path(text).is_file():
        problems.add(name.place, path, f"there is no file {name.text!r}")
        return None
    return Path(text)


def _read(place: Path, name: Scalar, path: str, problems: Problems) -> bytes | None:
    try:
        with place.open("rb") as stream:
            return stream.read(_MOST_BYTES)
    except OSError as error:
        problems.add(name.place, path, f"{name.text!r} cannot be read: {error.strerror or error}")
        return None


def _unusable(content: bytes, *, is_key: bool) -> str:
    """Why a file is no certificate, or no key; empty when it is one."""
    if is_key:
        if _ENCRYPTED.search(content):
            return "is encrypted; a key without a passphrase is needed"
        return "" if _KEY.search(content) else "holds no private key in PEM (-----BEGIN PRIVATE KEY-----)"
    blocks = _CERTIFICATE.findall(content)
    if not blocks:
        return "holds no certificate in PEM (-----BEGIN CERTIFICATE-----)"
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=b"\n".join(blocks).decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        return f"holds a certificate that cannot be read: {getattr(error, 'reason', None) or error}"
    return ""


def _mismatch(certificate: Path, key: Path) -> str:
    """Why a key cannot be used with a certificate; empty when it can."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key, password=lambda: "")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            return "does not belong to the certificate"
        return f"cannot be used ({error.reason or error}) with the certificate"
    return ""
