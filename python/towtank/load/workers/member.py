"""One worker of several: orders out, events in, and what is known of it."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from towtank.errors import EngineError
from towtank.load.events import Heard, Progress
from towtank.load.workers import frames, handshake
from towtank.load.workers.clock import ClockRelation, Exchange
from towtank.load.workers.places import Link
from towtank.load.workers.shipment import Shipment, pieces

QUESTIONS = 8
"""Of so many questions for the time the answer with the shortest way counts."""
_BETWEEN_QUESTIONS_S = 0.002


@dataclass
class _Download:
    """A log that is being fetched."""

    to: IO[bytes]
    bytes: int = 0
    crc32: int = 0
    whole: bool = False


class Member:
    """One worker.

    Parameters
    ----------
    number, of : int
        Which of how many.
    link : Link
    changed : Condition
        Guards what is known of all workers, and is notified when something new is.
    on_progress : callable
        Called from the reader thread; must not block.
    """

    def __init__(
        self, number: int, of: int, link: Link, changed: threading.Condition, on_progress: Callable[[], None]
    ) -> None:
        self.number = number
        self.of = of
        self.link = link
        self.heard = Heard()
        self.clock = ClockRelation()
        self.progress: Progress | None = None
        self.welcome: Mapping[str, Any] = {}
        self.refused: list[str] = []
        self.ended: Mapping[str, Any] | None = None
        self.lost: str | None = None
        self._changed = changed
        self._on_progress = on_progress
        self._sending = threading.Lock()
        self._answers = 0
        self._download: _Download | None = None
        self._finished = False
        self._reader = threading.Thread(target=self._read, name=f"worker-{number}", daemon=True)

    @property
    def name(self) -> str:
        """For people."""
        return f"worker {self.number} on {self.link.standing.where}"

    # --- orders ------------------------------------------------------------------------------------------------

    def greet(self) -> None:
        """Let each other know; from then on it is listened to.

        Raises
        ------
        EngineError
        """
        try:
            self.welcome = handshake.greet(self.link.connection, self.link.token)
        except EngineError as error:
            raise EngineError(
                f"{self.name}: {error.message}: {self.link.words()}", hint=error.hint
            ) from error
        self._reader.start()

    def send_job(self, job: Mapping[str, Any], shipment: Shipment) -> None:
        """Give it its part of a job, with all files that the job names."""
        content = json.dumps(job).encode()
        part = {"worker": self.number, "of": self.of}
        about = {"bytes": len(content), "crc32": zlib.crc32(content)}
        with self._sending:
            self._send({"do": "job", "job": about, "part": part, "files": shipment.announced()})
            for start in range(0, len(content), frames.PIECE_BYTES):
                frames.send_piece(self.link.connection, content[start : start + frames.PIECE_BYTES])
            for path in shipment.paths:
                for piece in pieces(path):
                    frames.send_piece(self.link.connection, piece)

    def ask_clock(self, questions: int = QUESTIONS) -> None:
        """Ask what time it is, some times in a row; answers are noted as they come."""
        for _ in range(questions):
            with self._sending:
                self._send({"do": "clock", "sent_ns": time.monotonic_ns()})
            time.sleep(_BETWEEN_QUESTIONS_S)

    @property
    def answers(self) -> int:
        """How often it has said what time it is."""
        return self._answers

    def start_at(self, our_ns: int) -> None:
        """Order the start at an instant of our monotonic clock."""
        self.order({"do": "start", "at_ns": our_ns + self.clock.offset_ns()})

    def stop(self) -> None:
        """Ask for an orderly end of its load; harmless when it has ended or was lost."""
        with contextlib.suppress(EngineError):
            self.order({"do": "stop"})

    def finish(self) -> None:
        """All was fetched: it may end."""
        self._finished = True
        with contextlib.suppress(EngineError):
            self.order({"do": "finish"})

    def fetch(self, log: Mapping[str, Any], folder: Path, wait: Callable[[Callable[[], bool]], None]) -> Path:
        """Fetch one log and check it; it then is in `folder`.

        Parameters
        ----------
        log : mapping
            As the worker announced it: `name`, `bytes`, `crc32`.
        folder : Path
        wait : callable
            Waits until something is so, or raises.

        Raises
        ------
        EngineError
            It came torn or damaged.
        """
        name = Path(str(log["name"])).name
        temporary = folder / f".{name}.part"
        with temporary.open("wb") as file:
            download = self._download = _Download(file)
            try:
                self.order({"do": "fetch", "name": name, "offset": 0})
                wait(lambda: download.whole)
            finally:
                with self._changed:
                    self._download = None
        if (download.bytes, download.crc32) != (log["bytes"], log["crc32"]):
            raise EngineError(
                f"{self.name}: {name} came with {download.bytes} bytes and the checksum {download.crc32:08x}; "
                f"{log['bytes']} bytes and {int(log['crc32']):08x} were announced"
            )
        return temporary.rename(folder / name)

    def order(self, message: Mapping[str, Any]) -> None:
        """Send one order.

        Raises
        ------
        EngineError
        """
        with self._sending:
            self._send(message)

    def close(self) -> None:
        """End the connection; the worker then ends its load. Idempotent."""
        self._finished = True
        with contextlib.suppress(OSError):
            self.link.connection.shutdown(socket.SHUT_RDWR)
        if self._reader.is_alive() and self._reader is not threading.current_thread():
            self._reader.join(5.0)
        self.link.connection.close()

    def _send(self, message: Mapping[str, Any]) -> None:
        try:
            frames.send_message(self.link.connection, message)
        except frames.ConnectionEnded as error:
            self._lose(error.message)
            raise EngineError(f"{self.name}: {error.message}") from error

    # --- events ------------------------------------------------------------------------------------------------

    def words(self) -> str:
        """Everything that it said about what went wrong."""
        said = [*self.refused, *self.heard.errors]
        message = (self.ended or {}).get("message")
        return "; ".join([*said, *([str(message)] if message else [])])

    def _read(self) -> None:
        """Reader thread: until the connection ends."""
        try:
            while True:
                is_message, content = frames.receive(self.link.connection)
                back_ns = time.monotonic_ns()
                if is_message:
                    self._take(content, back_ns)
                else:
                    self._keep(content)
        except frames.ConnectionEnded as error:
            self._lose(error.message)
        except OSError as error:
            self._lose(f"what it sent cannot be written: {error.strerror or error}")

    def _lose(self, why: str) -> None:
        with self._changed:
            if not self._finished and self.lost is None:
                self.lost = why
            self._changed.notify_all()

    def _keep(self, piece: bytes) -> None:
        with self._changed:
            download = self._download
        if download is not None:
            download.to.write(piece)
            download.crc32 = zlib.crc32(piece, download.crc32)
            download.bytes += len(piece)

    def _take(self, line: bytes, back_ns: int) -> None:
        with self._changed:
            event = _event(line)
            match event.get("event"):
                case "clock":
                    self._note_clock(event, back_ns)
                case "refused":
                    self.refused.append(str(event.get("message")))
                case "ended":
                    self.ended = event
                case "fetched":
                    if self._download is not None:
                        self._download.whole = True
                case "bye":
                    self._finished = True
                case _:
                    self.progress = self.heard.take(line) or self.progress
            is_progress = event.get("event") == "progress"
            self._changed.notify_all()
        if is_progress:
            self._on_progress()

    def _note_clock(self, event: Mapping[str, Any], back_ns: int) -> None:
        try:
            times = [int(event[key]) for key in ("sent_ns", "received_ns", "answered_ns")]
        except (KeyError, ValueError, TypeError) as error:
            self.heard.errors.append(f"its answer about the time makes no sense: {error!r}")
            return
        self.clock.add(Exchange(times[0], times[1], times[2], back_ns))
        self._answers += 1


def _event(line: bytes) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}
