"""A Redis client with only what the ledger needs: one blocking connection with timeouts."""
import socket


class RedisError(Exception):
    """An error reply."""


class Redis:
    """Replies are str, int, None or lists of these. After a failure the next call opens a new connection.

    `address` is a unix socket's path, a (host, port), or a function that returns one of these. If the address changes, the
    client opens a new connection.
    """

    def __init__(self, address, timeout=4.0):
        self.locate, self.timeout = address if callable(address) else lambda: address, timeout
        self.socket = self.buffer = self.address = None

    def call(self, *words):
        reply = self.calls([words])[0]
        if isinstance(reply, RedisError):
            raise reply
        return reply

    def calls(self, commands):
        """Sends commands in one write on one connection. Error replies are returned, and not raised."""
        try:
            address = self.locate()
            if self.address != address:
                self.close()
            if self.socket is None:
                self.socket = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
                self.socket.settimeout(self.timeout)
                self.socket.connect(address)
                self.buffer, self.address = self.socket.makefile("rb"), address
            self.socket.sendall(b"".join(encode(words) for words in commands))
            return [self.read() for _ in commands]
        except (OSError, ValueError) as error:
            self.close()
            raise ConnectionError(str(error)) from error

    def close(self):
        if self.socket is not None:
            self.socket.close()
        self.socket = self.buffer = self.address = None

    def read(self):
        line = self.buffer.readline()
        if not line.endswith(b"\r\n"):
            raise OSError("the connection ended")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return RedisError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            if rest == b"-1":
                return None
            data = self.buffer.read(int(rest) + 2)
            if len(data) != int(rest) + 2:
                raise OSError("the connection ended")
            return data[:-2].decode(errors="replace")
        return None if rest == b"-1" else [self.read() for _ in range(int(rest))]


def encode(words):
    parts = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def pairs(reply):
    return dict(zip(reply[::2], reply[1::2]))
