"""Columns of a request's row, the same for every way in which rows come to be (docs/formats.md, 2)."""

from __future__ import annotations

import pyarrow as pa

REQUESTS = pa.schema(
    [
        ("scheduled_us", pa.int64()),
        ("lag_us", pa.int32()),
        ("wait_us", pa.int32()),
        ("dns_us", pa.int32()),
        ("connect_us", pa.int32()),
        ("tls_us", pa.int32()),
        ("ttfb_us", pa.int32()),
        ("after_ttfb_us", pa.int32()),
        ("status", pa.int32()),
        ("outcome", pa.string()),
        ("bytes_out", pa.int64()),
        ("bytes_in", pa.int64()),
        ("workload", pa.string()),
        ("step", pa.string()),
        ("target", pa.string()),
        ("instance", pa.string()),
        ("user", pa.int32()),
        ("iteration", pa.int32()),
        ("worker", pa.int32()),
        ("attempt", pa.int32()),
        ("http_version", pa.string()),
        ("redirects", pa.int32()),
        ("reused", pa.bool_()),
        ("warmup", pa.bool_()),
        ("cold", pa.bool_()),
    ]
)
"""One row a request, sorted by `scheduled_us`."""
