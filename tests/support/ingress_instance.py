"""An instance behind the ingress: a process of its own that can be told to misbehave.

`python ingress_instance.py PORT` counts the requests that it got and how many at once; stdlib only, ready within a
tenth of a second.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from urllib.parse import parse_qsl, urlsplit

seen = {"requests": 0, "now": 0, "most": 0, "probes": 0, "ready": int(os.environ.get("READY", "1"))}


async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer requests on a connection until either side has enough."""
    try:
        while await answer(reader, writer):
            await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass
    finally:
        writer.close()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Answer one request; False when the connection is to be closed."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    _, target, _ = head[0].split(" ")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    path, query = urlsplit(target).path, dict(parse_qsl(urlsplit(target).query))
    if path == "/health":
        seen["probes"] += 1
        reply(writer, 200 if seen["ready"] else 503, b"")
        return True
    if path == "/get-ready":
        seen["ready"] = 1
        reply(writer, 200, b"")
        return True
    if path == "/seen":
        reply(writer, 200, json.dumps(seen).encode())
        return True
    seen["requests"] += 1
    seen["now"] += 1
    seen["most"] = max(seen["most"], seen["now"])
    try:
        return await act(path.strip("/"), query, fields, reader, writer)
    finally:
        seen["now"] -= 1


async def act(
    action: str,
    query: dict[str, str],
    fields: dict[str, str],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> bool:
    """Do what the path says."""
    match action:
        case "stream":
            await stream_back(reader, writer)
        case "upgrade":
            writer.write(
                b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
                b"sec-websocket-accept: any\r\n\r\n"
            )
            while piece := await reader.read(1 << 16):
                writer.write(piece)
                await writer.drain()
            return False
        case "die":
            os._exit(3)
        case "cut":
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nthe beginning")
            await writer.drain()
            os._exit(3)
        case "sleep":
            await asyncio.sleep(int(query["ms"]) / 1000)
            reply(writer, 200, b"slept")
        case "status":
            reply(writer, int(query["code"]), b"as asked")
        case "big":
            writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {query['bytes']}\r\n\r\n".encode())
            for _ in range(int(query["bytes"]) >> 16):
                writer.write(b"x" * (1 << 16))
                await writer.drain()
        case _:
            body = await reader.readexactly(int(fields.get("content-length", "0")))
            reply(writer, 200, body or b"hello")
            return action != "bye"
    return True


async def stream_back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send each chunk back as it comes."""
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    while True:
        line = await reader.readline()
        writer.write(line + await reader.readexactly(int(line, 16) + 2))
        await writer.drain()
        if int(line, 16) == 0:
            return


def reply(writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
    """Write a whole answer."""
    writer.write(f"HTTP/1.1 {status} Whatever\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)


async def main() -> None:
    """Serve until TERM."""
    server = await asyncio.start_server(converse, "127.0.0.1", int(sys.argv[1]), backlog=4096)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await ended.wait()
    server.close()
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
