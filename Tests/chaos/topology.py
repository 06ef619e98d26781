"""Where the jobs are kept: one Redis that restarts after its faults, or a primary that sentinels replace.

Both classes have `url` for the workers, `locate` for the run's own clients, `call_durably` for what must survive the next
fault, and `faults` (kind → weight and function). A fault blocks until the next one may come. It calls `over` when Redis
serves clients again, and returns False if it could not be done.
"""
import os
import random
import signal
import socket
import threading
import time

from processes import RedisServer, Sentinel
from resp import Redis, RedisError

SAFE = (ConnectionError, RedisError)


class Single:
    """A push is accepted when Redis has acknowledged it: `appendfsync always`."""

    FAULT_PERIOD, KEEPS_ACKNOWLEDGED = "while Redis had a fault", True

    def __init__(self, directory, lease, seed):
        self.server = RedisServer(directory, "redis", appendfsync="always")
        self.processes, self.lease, self.random = [self.server], lease, random.Random(seed)
        self.url = self.server.url
        self.faults = {
            "Redis kill -9, restart": (1, lambda over: self.restart(signal.SIGKILL)),
            "Redis SIGTERM, restart": (1, lambda over: self.restart(signal.SIGTERM)),
            "Redis stalls past the lease": (0.8, self.stall),
        }

    def start(self):
        self.server.start()

    def locate(self):
        return self.server.socket

    def call_durably(self, redis, *words):
        return redis.call(*words)

    def restart(self, number):
        self.server.end(number)
        time.sleep(self.random.uniform(0, 1.5))
        self.server.start()
        return True

    def stall(self, over):
        self.server.send(signal.SIGSTOP)
        time.sleep(self.lease + 1)
        self.server.send(signal.SIGCONT)
        return True


class Sentinels:
    """A push is accepted when every replica has it (`WAIT`). A failover promotes any of them."""

    FAULT_PERIOD, KEEPS_ACKNOWLEDGED = "while there was a failover", False
    NAME, DOWN_AFTER = "main", 1.0

    def __init__(self, directory, replicas, seed):
        self.random = random.Random(seed)
        ports = free_ports(replicas + 4)
        self.servers = [
            RedisServer(directory, f"redis{n}", port=port, **({"replicaof": f"127.0.0.1 {ports[0]}"} if n else {}))
            for n, port in enumerate(ports[:replicas + 1])]
        self.sentinels = [
            Sentinel(directory, f"sentinel{n}", port=port, sentinel=[
                f"monitor {self.NAME} 127.0.0.1 {ports[0]} 2",
                f"down-after-milliseconds {self.NAME} {self.DOWN_AFTER * 1000:.0f}",
                f"failover-timeout {self.NAME} 4000"])
            for n, port in enumerate(ports[replicas + 1:])]
        self.processes = self.servers + self.sentinels
        self.url = "redis+sentinel://" + ",".join(f"127.0.0.1:{s.port}" for s in self.sentinels) + "/" + self.NAME
        self.primary, self.replicas = self.servers[0], replicas
        self.faults = {
            "primary kill -9, failover": (1.5, lambda over: self.lose(signal.SIGKILL, over)),
            "primary stops, failover, wakes": (1.5, lambda over: self.lose(signal.SIGSTOP, over)),
            "SENTINEL FAILOVER": (1.5, self.ask),
        }

    def start(self):
        for process in self.servers:
            process.start()
        self.until(self.is_in_sync, 30, "the replicas do not follow")
        for process in self.sentinels:
            process.start()
        self.until(self.is_known, 30, "the sentinels do not find each other")
        threading.Thread(target=self.follow, daemon=True).start()

    def locate(self):
        return self.primary.socket

    def call_durably(self, redis, *words):
        """Raises ConnectionError if a replica lacks anything that this connection has seen so far."""
        reply, count = redis.calls([words, ("WAIT", self.replicas, 1000)])
        if isinstance(reply, RedisError):
            raise reply
        if count != self.replicas:
            redis.close()
            raise ConnectionError("a replica lacks it")
        return reply

    # What the sentinels report.

    def follow(self):
        sentinels = [Redis(("127.0.0.1", sentinel.port), 1) for sentinel in self.sentinels]
        while True:
            for sentinel in sentinels:
                try:
                    port = sentinel.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.NAME)[1]
                    self.primary = next(server for server in self.servers if server.port == int(port))
                    break
                except SAFE:
                    pass
            time.sleep(0.05)

    def is_known(self):
        """Whether every sentinel knows the others and all replicas."""
        for sentinel in self.sentinels:
            words = Redis(("127.0.0.1", sentinel.port), 1).call("SENTINEL", "MASTER", self.NAME)
            fields = dict(zip(words[::2], words[1::2]))
            if fields["num-other-sentinels"] != "2" or fields["num-slaves"] != str(self.replicas):
                return False
        return True

    def is_in_sync(self):
        """Whether the primary has all its replicas, and each lags by less than 1 MiB."""
        text = Redis(self.locate, 1).call("INFO", "replication")
        fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        states = [fields.get(f"slave{n}", "") for n in range(self.replicas)]
        return fields["role"] == "master" and all(
            "state=online" in state and int(fields["master_repl_offset"]) - int(state.split("offset=")[1].split(",")[0])
            < 1 << 20 for state in states)

    @staticmethod
    def until(condition, seconds, message=None):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if condition():
                    return True
            except SAFE:
                pass
            time.sleep(0.05)
        if message:
            raise RuntimeError(message)
        return False

    # Faults. None begins before the replicas are in sync. Otherwise no acknowledgement would be certain.

    def lose(self, number, over):
        old = self.primary
        if not self.until(self.is_in_sync, 1):
            return False
        old.end(number) if number == signal.SIGKILL else old.send(number)
        done = self.until(lambda: self.primary is not old, 20)
        over()
        time.sleep(self.random.uniform(0, 2))
        # In both cases the server believes that it is still the primary, until the sentinels reconfigure it.
        old.start() if number == signal.SIGKILL else old.send(signal.SIGCONT)
        self.until(self.is_in_sync, 60, "the old primary does not come back as a replica")
        return done

    def ask(self, over):
        old = self.primary
        if not self.until(self.is_in_sync, 1):
            return False
        try:
            Redis(("127.0.0.1", self.sentinels[0].port), 1).call("SENTINEL", "FAILOVER", self.NAME)
        except SAFE:
            return False  # A failover is in progress, or a sentinel does not know yet that the replica is well.
        # The sentinels may abandon the failover. Then nothing happened.
        done = self.until(lambda: self.primary is not old, 20)
        over()
        self.until(self.is_in_sync, 60, "the old primary does not come back as a replica")
        return done


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
