"""Joining the lines that k6 writes about one request, column by column.

A request is the lines from one `http_reqs` to the next. Each metric must be there once, with the tags of the
first line: so a file that was sorted, filtered or glued together is refused and never joined wrongly.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from towtank.load.importers import base
from towtank.load.importers.base import Bools, Floats, int32, micros, refuse
from towtank.load.importers.instants import instant_us
from towtank.load.importers.text import MOST

FIRST = "http_reqs"
TIMES = (
    "http_req_duration", "http_req_blocked", "http_req_connecting", "http_req_tls_handshaking", "http_req_sending",
    "http_req_waiting", "http_req_receiving",
)  # fmt: skip
FAILED = "http_req_failed"
TAGS = ("error_code", "expected_response", "method", "name", "proto", "status", "url")
NEEDED = ("metric_name", "timestamp", "metric_value", "name", "status", "url", "method")
_METRICS = (FIRST, *TIMES, FAILED)
_DROPPED, _CHECKS = "dropped_iterations", "checks"
_NO_CONNECTION = {"1211": "timeout:connect", "1212": "refused", "1050": "timeout:unknown", "1220": "reset"}
_FAMILIES = (
    (1100, "dns"), (1200, "unreachable"), (1300, "tls"), (1400, "check:status"), (1600, "protocol"), (1700, "error"),
)  # fmt: skip
"""k6's error codes by hundreds, from its documentation: DNS, TCP, TLS, 4xx and 5xx, HTTP/2."""
_MS = 1e3

Ints = npt.NDArray[np.int64]


class Pivot:
    """Makes rows of lines.

    Parameters
    ----------
    path : Path
        For messages.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: pa.Table | None = None
        self._seen = 0
        self.precision_us = 1
        self.dropped_iterations = 0
        self.failed_checks = 0

    def take(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take lines in the order of the file; give the requests that are whole."""
        metric = pc.dictionary_encode(batch.column("metric_name"))
        known = metric.dictionary.to_pylist()
        codes = np.asarray(metric.indices)
        values = batch.column("metric_value").to_numpy(zero_copy_only=False)
        if not np.all(np.abs(values) <= MOST):  # nan is not
            raise self._broken("a line near it whose value is no number, or far too large a one")
        self.dropped_iterations += round(float(values[_is(codes, known, _DROPPED)].sum()))
        self.failed_checks += int((values[_is(codes, known, _CHECKS)] == 0).sum())
        places = np.array(
            [_METRICS.index(name) if name in _METRICS else -1 for name in known], dtype=np.int64
        )
        here = places[codes]
        wanted = here >= 0
        lines = (
            pa.Table.from_batches([batch])
            .filter(pa.array(wanted))
            .append_column("place", pa.array(here[wanted]))
        )
        if self._held is not None:
            lines = pa.concat_tables([self._held, lines])
        begins = np.flatnonzero(np.asarray(lines["place"]) == 0)
        if lines.num_rows and (begins.size == 0 or begins[0] != 0):
            raise self._broken("a request begins without its line `http_reqs`")
        last = int(begins[-1]) if begins.size else 0
        self._held = lines.slice(last).combine_chunks()
        if last:
            yield self._join(lines.slice(0, last))

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Give the last request."""
        if self._held is not None and self._held.num_rows:
            yield self._join(self._held)
        self._held = None

    def _join(self, lines: pa.Table) -> pa.RecordBatch:
        place = np.asarray(lines["place"])
        begins = np.flatnonzero(place == 0)
        number = np.cumsum(place == 0) - 1
        times = {name: self._values(lines, place, number, begins.size, name) for name in TIMES}
        self._check_tags(lines, begins, number)
        firsts = lines.take(pa.array(begins))
        self._seen += begins.size
        return self._rows(firsts, times)

    def _values(self, lines: pa.Table, place: Ints, number: Ints, requests: int, name: str) -> Floats:
        """Value of a metric for each request; there must be exactly one."""
        chosen = place == _METRICS.index(name)
        counts = np.bincount(number[chosen], minlength=requests)
        if np.any(counts != 1):
            which = int(np.flatnonzero(counts != 1)[0])
            what = "no" if counts[which] == 0 else "more than one"
            raise self._broken(f"{what} line `{name}`", which)
        values = np.zeros(requests)
        values[number[chosen]] = lines["metric_value"].to_numpy()[chosen]
        if np.any(values < 0):
            which = int(np.flatnonzero(values < 0)[0])
            raise self._broken(f"the value {values[which]} of `{name}`; allowed are numbers from 0", which)
        return values

    def _check_tags(self, lines: pa.Table, begins: Ints, number: Ints) -> None:
        for name in ("timestamp", "status", "url", "name", "method"):
            codes = np.asarray(pc.dictionary_encode(lines[name].combine_chunks()).indices)
            differs = np.flatnonzero(codes != codes[begins][number])
            if differs.size:
                raise self._broken(f"lines with different values of `{name}`", int(number[differs[0]]))

    def _rows(self, firsts: pa.Table, times: dict[str, Floats]) -> pa.RecordBatch:
        def text(name: str) -> pa.Array:
            if name not in firsts.column_names:
                return pa.repeat(pa.scalar(""), firsts.num_rows)
            return firsts[name].combine_chunks()

        status = self._status(text("status"))
        duration, blocked, connecting, tls, _, waiting, receiving = (times[name] for name in TIMES)
        total = micros(blocked + duration, per_second=_MS)
        answered = (status > 0) & (waiting > 0)
        after = np.minimum(micros(receiving, per_second=_MS), total)
        steps, targets = base.steps_and_targets(text("method"), text("url"), text("name"))
        return base.rows(
            {
                "start_us": self._ends(text("timestamp")) - total,
                "connect_us": int32(micros(connecting, per_second=_MS), connecting == 0),
                "tls_us": int32(micros(tls, per_second=_MS), tls == 0),
                "ttfb_us": int32(total - after, ~answered),
                # without a connection k6 measures nothing, and writes 0
                "after_ttfb_us": int32(np.where(answered, after, total), (status == 0) & (total == 0)),
                "status": pa.array(status.astype(np.int32), mask=status == 0),
                "outcome": _outcomes(status, text("error_code"), text("expected_response")),
                "step": steps,
                "target": targets,
                "http_version": _version(text("proto")),
                "reused": pa.array(connecting == 0, mask=status == 0),
            }
        )

    def _status(self, said: pa.Array) -> Ints:
        try:
            codes: Ints = pc.cast(pc.if_else(pc.equal(said, ""), "0", said), pa.int64()).to_numpy()
        except pa.ArrowException as error:
            raise self._broken(f"a status that is no number ({error})") from error
        return codes

    def _ends(self, said: pa.Array) -> Ints:
        """Instants; each different one is read once."""
        encoded = pc.dictionary_encode(said)
        found = np.zeros(len(encoded.dictionary), dtype=np.int64)
        for index, text in enumerate(encoded.dictionary.to_pylist()):
            try:
                found[index], precision = instant_us(text)
            except ValueError as error:
                raise self._broken(str(error)) from error
            self.precision_us = max(self.precision_us, precision)
        ends: Ints = found[np.asarray(encoded.indices)]
        return ends

    def _broken(self, what: str, which: int = 0) -> Exception:
        at = self._seen + which + 1
        return refuse(
            self._path,
            f"request {at:,} (counted by its lines `http_reqs`) has {what}",
            hint="is the file cut off, sorted, filtered, or several glued together? Give it as k6 wrote it; "
            "nothing was imported",
        )


def _is(codes: npt.NDArray[np.int32], known: list[str], name: str) -> Bools:
    """Where a metric stands."""
    found: Bools = codes == (known.index(name) if name in known else len(known))
    return found


def _version(proto: pa.Array) -> pa.Array:
    """``HTTP/1.1`` and ``HTTP/2.0`` in the words of our own rows; nothing where there was no answer."""
    number = pc.replace_substring(pc.replace_substring(proto, "HTTP/", ""), "2.0", "2")
    return pc.if_else(pc.equal(number, ""), pa.scalar(None, pa.string()), number)


def _outcomes(status: Ints, codes: pa.Array, expected: pa.Array) -> pa.Array:
    """What k6 expected decides of an answer; without one, its error code does."""
    no_answer = pa.array(status == 0)
    encoded = pc.dictionary_encode(codes)
    words = pa.array([_failure(code) for code in encoded.dictionary.to_pylist()], pa.string())
    failed = pa.DictionaryArray.from_arrays(encoded.indices, words).dictionary_decode()
    plain = base.status_outcomes(status)
    by_script = pc.if_else(
        pc.equal(expected, "true"), "answered", pc.if_else(pc.equal(expected, "false"), "check:status", plain)
    )
    return pc.if_else(no_answer, failed, by_script)


def _failure(code: str) -> str:
    """Outcome of a request without an answer.

    >>> _failure("1212"), _failure("1101"), _failure("")
    ('refused', 'dns', 'error')
    """
    if code in _NO_CONNECTION:
        return _NO_CONNECTION[code]
    if not code.isdecimal() or int(code) < _FAMILIES[0][0]:
        return "error"
    known = [word for least, word in _FAMILIES if int(code) >= least]
    return "error" if known[-1] == "check:status" else known[-1]
