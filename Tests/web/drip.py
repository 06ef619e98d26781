"""An origin for a fleet with many jobs and few bytes. Each body arrives in drops, so that a thousand of them cost
almost nothing. It is a separate program, so that it does not delay the measuring one.

  python3 Tests/web/drip.py PORT

It listens on 127.0.0.1 to 127.0.0.4, so that failing hosts differ from others. `/missing…` is 404.
`?size=BYTES&drop=BYTES&every=SECONDS` defines the body. Without `every` the whole body is sent at once.
"""

import asyncio
import re
import sys
import urllib.parse

HOSTS = ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"]


async def answer(reader, writer):
    while True:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        method, target, _ = head.split(" ", 2)
        if not await respond(writer, method, target, head):
            return


async def respond(writer, method, target, head):
    """Sends one response. Returns False if the connection ends with it."""
    parts = urllib.parse.urlsplit(target)
    if parts.path.startswith("/missing"):
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        return True
    query = dict(urllib.parse.parse_qsl(parts.query))
    size, drop, every = int(query.get("size", 100_000)), int(query.get("drop", 4096)), float(query.get("every", 0))
    first, last, line = 0, size, "200 OK"
    wanted = re.search(r"\r\nRange: bytes=(\d+)-(\d*)\r\n", head, re.IGNORECASE)
    if wanted:
        first, last = int(wanted[1]), min(size, int(wanted[2]) + 1) if wanted[2] else size
        if first >= size:
            writer.write(b"HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\n\r\n")
            return True
        line = "206 Partial Content"
    ranged = f"Content-Range: bytes {first}-{last - 1}/{size}\r\n" if wanted else ""
    writer.write(f'HTTP/1.1 {line}\r\n{ranged}Content-Length: {last - first}\r\nAccept-Ranges: bytes\r\nETag: "drip-{size}"\r\n\r\n'.encode())
    if method == "HEAD":
        return True
    while first < last:
        count = min(drop if every else 65_536, last - first)
        writer.write(b"h" * count)
        await writer.drain()
        first += count
        if every and first < last:
            await asyncio.sleep(every)
    return True


async def serve(reader, writer):
    try:
        await answer(reader, writer)
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def main():
    server = await asyncio.start_server(serve, HOSTS, int(sys.argv[1]), backlog=2000)
    await server.serve_forever()


asyncio.run(main())
