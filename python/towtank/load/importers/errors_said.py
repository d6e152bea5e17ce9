"""What other tools say of a request that got no answer, in the words of docs/formats.md §2."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

_WORDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (outcome, re.compile(pattern, re.IGNORECASE))
    for outcome, pattern in (
        ("dns", r"no such host|name or service not known|name resolution|getaddrinfo|lookup .*: "),
        ("refused", r"connection refused|ECONNREFUSED|errno 111"),
        ("reset", r"reset by peer|ECONNRESET|connection reset|errno 104|broken pipe"),
        ("unreachable", r"unreachable|no route to host"),
        (
            "timeout:connect",
            r"dial(ing)?[^:]*: .*(timeout|timed out)|connect(ion)? time(d )?out|ConnectTimeout",
        ),
        ("timeout:unknown", r"time(d )?[- ]?out|deadline exceeded|ReadTimeout"),
        ("tls", r"\btls\b|x509|certificate|\bssl\b|handshake"),
        ("closed", r"\bEOF\b|connection (was )?closed|RemoteDisconnected|disconnected|server closed"),
        ("protocol", r"malformed|bad status line|invalid header|protocol error|BadStatusLine"),
    )
)
UNKNOWN = "error"
"""A failure that the tool's own words do not tell apart; its class is `error`."""


def outcome_of(said: str) -> str:
    """Outcome that a tool's error text means.

    >>> outcome_of('Get "http://127.0.0.1:1/": dial tcp 127.0.0.1:1: connect: connection refused')
    'refused'
    """
    return next((outcome for outcome, pattern in _WORDS if pattern.search(said)), UNKNOWN)


def outcomes_of(said: pa.Array) -> pa.Array:
    """`outcome_of` a column; each different text is looked at once."""
    encoded = pc.dictionary_encode(said)
    texts: Iterable[str | None] = encoded.dictionary.to_pylist()
    words = pa.array([outcome_of(text or "") for text in texts], pa.string())
    return pa.DictionaryArray.from_arrays(encoded.indices, words).dictionary_decode()
