"""Small jobs a second by one queue, and by a queue of partitions over several Redis servers of a cluster on this machine.

    partitions.py HAUL DIRECTORY NGINX_URL [JOBS]       started by run.sh; NGINX_URL has /k of 1 KiB

All processes share the machine's cores, so the CPU of each is printed: that of the busiest server says how many jobs a
second the servers could do if everything else had cores of its own.
"""
import binascii
import json
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "chaos"))
from processes import RedisServer, Worker
from resp import Redis
from stores import Directory
from topology import free_ports

SLOTS = 16384
# Servers and partitions of each run. The first one is a queue without partitions on a server that is no cluster.
SHAPES = ((1, 1), (1, 8), (2, 8), (3, 12))


class Cluster:
    """Servers with equal shares of the slots."""

    def __init__(self, directory, count, is_cluster):
        ports, self.servers = free_ports(count * 2), []
        for number in range(count):
            settings = {"cluster-enabled": "yes", "cluster-port": ports[count + number]} if is_cluster else {}
            self.servers.append(RedisServer(directory, f"redis-{number}", ports[number], **settings))
        for server in self.servers:
            server.start()
        self.clients = [Redis(server.socket, 60) for server in self.servers]
        self.url = f"redis://127.0.0.1:{ports[0]}"
        if not is_cluster:
            return
        self.url = "redis+cluster://" + ",".join(f"127.0.0.1:{port}" for port in ports[:count])
        for number, client in enumerate(self.clients):
            client.call("CLUSTER", "ADDSLOTSRANGE", self.first(number), self.first(number + 1) - 1)
            client.call("CLUSTER", "MEET", "127.0.0.1", ports[0], ports[count])
        until(lambda: all("cluster_state:ok" in client.call("CLUSTER", "INFO") for client in self.clients))

    def first(self, number):
        return SLOTS * number // len(self.servers)

    def owner(self, tag):
        """The number of the server of a queue."""
        slot = binascii.crc_hqx(tag.encode(), 0) % SLOTS
        return next(n for n in range(len(self.servers)) if slot < self.first(n + 1))

    def stop(self):
        for server in self.servers:
            server.end(signal.SIGKILL)


def until(condition, within=600):
    end = time.monotonic() + within
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.02)


def measure(haul, directory, nginx, servers, partitions, jobs):
    directory = os.path.join(directory, f"shape-{servers}-{partitions}-{time.monotonic_ns()}")
    os.makedirs(directory)
    cluster = Cluster(directory, servers, partitions > 1)
    queue = "films" if partitions == 1 else f"films#{partitions}"
    names = [queue] if partitions == 1 else [f"films#{n}of{partitions}" for n in range(partitions)]
    homes = [cluster.owner(name) for name in names]
    waiting = [[] for _ in names]
    for number in range(jobs):
        id = f"k{number}"
        element = json.dumps({"id": id, "kind": "request", "method": "GET", "url": nginx + "/k"})
        waiting[binascii.crc_hqx(id.encode(), 0) % partitions].append(element)
    for name, home, elements in zip(names, homes, waiting):
        for start in range(0, len(elements), 500):
            cluster.clients[home].call("LPUSH", f"haul:{{{name}}}:jobs", *elements[start:start + 500])
    before = [server.cpu for server in cluster.servers]
    workers = [Worker(haul, None, directory, f"p{n}", cluster.url, Directory(os.path.join(directory, "root")), n, 64, 8)
               for n in range(2)]
    for worker in workers:
        worker.command += ["--queue", queue, "--connections-per-host", "256"]
        worker.start()

    def ended():
        return sum(cluster.clients[home].call("ZCARD", f"haul:{{{name}}}:completed") for name, home in zip(names, homes))

    try:
        until(lambda: ended() > jobs // 10)
        first, began, spent, own = ended(), time.monotonic(), [s.cpu for s in cluster.servers], [w.cpu for w in workers]
        until(lambda: ended() >= jobs * 9 // 10)
        done, seconds = ended() - first, time.monotonic() - began
        redis = [(server.cpu - cpu) / done * 1e6 for server, cpu in zip(cluster.servers, spent)]
        worker_cpu = sum(worker.cpu - cpu for worker, cpu in zip(workers, own)) / done * 1e6
    finally:
        for worker in workers:
            worker.end(signal.SIGKILL)
        cluster.stop()
    return done / seconds, sum(redis), max(redis), worker_cpu, [homes.count(n) for n in range(servers)]


def main():
    haul, directory, nginx, *rest = sys.argv[1:]
    jobs = int(rest[0]) if rest else 20_000
    results = {shape: [] for shape in SHAPES}
    # Alternately, so that other work on the machine meets all of them.
    for _ in range(3):
        for shape in SHAPES:
            results[shape].append(measure(haul, directory, nginx, *shape, jobs))
    print(f"partitions: {jobs} requests of 1 KiB, two workers of 64 slots, {os.cpu_count()} cores, medians of 3 runs, "
          f"load {os.getloadavg()[0]:.0f}")
    for (servers, partitions), runs in results.items():
        speed, redis, busiest, worker, spread = sorted(runs)[1]
        print(f"partitions: {partitions} on {servers} servers ({', '.join(map(str, spread))}): {speed:.0f} jobs/s; CPU for "
              f"each job: {redis:.0f} µs of all servers, {busiest:.0f} µs of the busiest (at most {1e6 / busiest:.0f} jobs/s), "
              f"{worker:.0f} µs of the workers")


if __name__ == "__main__":
    main()
