"""A proxy between haul and a server that limits the rate of each connection."""
import socket
import threading
import time


class Pacer:
    def __init__(self, port):
        self.target = port
        self.rate = None
        self.connections = 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        self.listener.close()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        try:
            server = socket.create_connection(("127.0.0.1", self.target), 10)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        # A small buffer, so that few bytes wait here that haul has not received.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 << 10)
        threading.Thread(target=self.copy, args=(client, server, False), daemon=True).start()
        self.copy(server, client, True)
        client.close()
        server.close()

    def copy(self, source, sink, is_paced):
        try:
            while piece := source.recv(16 << 10):
                sink.sendall(piece)
                if is_paced and self.rate:
                    time.sleep(len(piece) / self.rate)
        except OSError:
            pass
        # The end of one direction ends the other one: a truncated response must not wait.
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
