"""Why Haul has no FTP and no SFTP: what these protocols say of two versions of a file. See ftp.sh.

A server has a file. It is replaced by another of the same size within the same second, as a nightly build may be that is
published twice. A client that continues has only what the protocol says to decide whether its bytes are of the same
version. This program reads that before and after, and joins the halves as a client that trusts it would.
"""

import asyncio
import ftplib
import logging
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import asyncssh
from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler
from pyftpdlib.servers import FTPServer

SIZE = 1_000_000


def check(condition, what):
    if not condition:
        raise SystemExit(f"ftp.py: {what}")


def replace(file, byte):
    """Replaces the file as STOR and a write through SFTP do, in its place."""
    file.write_bytes(byte * SIZE)


def in_one_second(file, fetch):
    """Replaces the file between two fetches, all within one second of the clock."""
    while True:
        while time.time() % 1 > 0.1:
            time.sleep(0.01)
        began = int(time.time())
        replace(file, b"1")
        first = fetch(0, SIZE // 2)
        replace(file, b"2")
        second = fetch(SIZE // 2, SIZE)
        if int(time.time()) == began:
            return first, second


class FTP:
    def __init__(self, folder):
        authorizer = DummyAuthorizer()
        authorizer.add_anonymous(str(folder))
        handler = type("Handler", (FTPHandler,), {"authorizer": authorizer})
        self.server = FTPServer(("127.0.0.1", 0), handler)
        self.port = self.server.socket.getsockname()[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"handle_exit": False}, daemon=True).start()

    def fetch(self, start, end):
        """A range with everything that RFC 3659 has to identify a version, the optional fact `unique` included."""
        client = ftplib.FTP()
        client.connect("127.0.0.1", self.port, timeout=20)
        client.login()
        facts = dict(next(facts for name, facts in client.mlsd() if name == "file.bin"))
        client.voidcmd("TYPE I")
        metadata = {"SIZE": client.size("file.bin"), "MDTM": client.voidcmd("MDTM file.bin")[4:],
                "MLSD": {name: facts[name] for name in ("size", "modify", "unique") if name in facts}}
        data = bytearray()
        with client.transfercmd("RETR file.bin", start) as connection:
            while len(data) < end - start and (piece := connection.recv(1 << 16)):
                data += piece
        client.close()
        return metadata, bytes(data[:end - start])


class SFTP:
    def __init__(self, folder):
        self.folder, self.loop = folder, asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.port = self.run(self.serve())

    def run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(20)

    async def serve(self):
        class Open(asyncssh.SSHServer):
            def begin_auth(self, username):
                return False

        folder = str(self.folder)

        class Files(asyncssh.SFTPServer):
            def __init__(self, channel):
                super().__init__(channel, chroot=folder)

        server = await asyncssh.listen(
            "127.0.0.1", 0, server_factory=Open, server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
            sftp_factory=Files)
        return server.get_port()

    def fetch(self, start, end):
        return self.run(self.read(start, end))

    async def read(self, start, end):
        """A range with the attributes of version 3 of the protocol, which OpenSSH and libssh2 speak."""
        async with asyncssh.connect("127.0.0.1", self.port, known_hosts=None, username="a") as connection:
            async with connection.start_sftp_client(sftp_version=3) as client:
                async with client.open("/file.bin", "rb") as file:
                    attributes = await file.stat()
                    metadata = {"size": attributes.size, "mtime": int(attributes.mtime)}
                    return metadata, await file.read(end - start, start)


def main():
    logging.disable()
    with tempfile.TemporaryDirectory(prefix="haul-ftp-") as name:
        folder = pathlib.Path(name)
        replace(folder / "file.bin", b"0")
        for protocol in (FTP(folder), SFTP(folder)):
            kind = type(protocol).__name__
            (before, first), (after, second) = in_one_second(folder / "file.bin", protocol.fetch)
            check(len(first + second) == SIZE and set(first) != set(second), f"{kind}: the halves are not of two versions")
            check(before == after, f"{kind} told the versions apart: {before} and {after}")
            print(f"{kind}: two versions of {SIZE} bytes, and one identity: {before}")
        tools(folder)


def tools(folder):
    """What the tools that have FTP make of it: they continue with the other version, and report success."""
    protocol = FTP(folder)
    url = f"ftp://127.0.0.1:{protocol.port}/file.bin"
    for tool, command in {"curl": ["curl", "-sS", "-C", "-", "-o"], "wget": ["wget", "-q", "-c", "-O"],
                          "aria2": ["aria2c", "-q", "-c", "--allow-overwrite=true", "--file-allocation=none", "-d", str(folder / "out"), "-o"]}.items():
        (folder / "out").mkdir(exist_ok=True)
        out = folder / "out" / f"{tool}.bin"
        out.write_bytes(b"1" * (SIZE // 2))
        replace(folder / "file.bin", b"2")
        name = out.name if tool == "aria2" else str(out)
        status = subprocess.run([*command, name, url], stdin=subprocess.DEVNULL).returncode
        kinds = sorted(set(out.read_bytes()))
        print(f"{tool}: status {status}, {'a mixture of both versions' if len(kinds) == 2 else 'one version'}")
        check(out.stat().st_size == SIZE, f"{tool}: {out.stat().st_size} bytes")


if __name__ == "__main__":
    sys.exit(main())
