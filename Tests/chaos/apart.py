"""Two workers in network namespaces of their own, which share nothing but Redis and a bucket. They hand a large file to
each other, and lose their network link to the bucket or to Redis. apart.sh starts this script in a network namespace.

Each worker has three links, one to each server. So one link can be cut without either side noticing.
"""
import argparse
import json
import mmap
import os
import signal
import subprocess
import time

import origin as origin_module
from bench import carry_out
from ledger import Q
from processes import Origin, Proxy, RedisServer, StoreServer, Worker
from resp import Redis, pairs
from s3 import S3
from stores import Bucket
from topology import free_ports

SERVERS = {"redis": 1, "store": 2, "origin": 3}
KINDS = {"radosgw": "rgw", "seaweedfs": "weed"}


def ip(*words):
    subprocess.run(["ip", *words], check=True)


class Machine:
    """A namespace with a link to each server, in the role of a worker's store."""

    def __init__(self, name, number, endpoint):
        self.name, self.number, self.endpoint = name, number, endpoint
        self.prefix = ["ip", "netns", "exec", name, "unshare", "--mount", "sh", "-c", Bucket.READ_ONLY, "worker"]
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")
        for server, index in SERVERS.items():
            net, near, far = f"10.77.{10 * number + index}", f"{name}-{server}", f"to-{server}"
            ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", name)
            ip("addr", "add", f"{net}.1/30", "dev", near)
            ip("-n", name, "addr", "add", f"{net}.2/30", "dev", far)
            ip("link", "set", near, "up")
            ip("-n", name, "link", "set", far, "up")
            ip("-n", name, "route", "add", address(server), "via", f"{net}.1")

    def cut(self, server, is_cut):
        """Packets are lost without any error."""
        ip("link", "set", f"{self.name}-{server}", "down" if is_cut else "up")

    def options(self, number):
        return ["--store", "s3://test/in", "--upload-from", "s3://test/in", "--s3-endpoint", self.endpoint, "--allow-address", "10.77.0.0/16"]

    def environment(self, number):
        return {"AWS_ACCESS_KEY_ID": "testkey", "AWS_SECRET_ACCESS_KEY": "testsecret",
                "AWS_EC2_METADATA_DISABLED": "true", "HOME": "/nonexistent"}


def address(server):
    return f"10.77.0.{SERVERS[server]}"


class Bench:
    def __init__(self, options, directory):
        self.options, self.directory, self.wrong = options, directory, []
        for server in SERVERS:
            ip("addr", "add", address(server) + "/32", "dev", "lo")
        blob = os.path.join(directory, "blob")
        self.size = options.size << 20
        origin_module.make_blob(blob, options.seed, self.size)
        with open(blob, "rb") as file:
            self.blob = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        redis, proxy = free_ports(2)
        self.redis_server = RedisServer(directory, "redis", port=redis, bind="0.0.0.0", **{"protected-mode": "no"})
        self.server, self.origin = StoreServer(directory, KINDS[options.server]), Origin(directory, blob, "0.0.0.0")
        self.proxy = Proxy(directory, self.server, proxy, "0.0.0.0")
        self.workers = []
        for number, name in enumerate(("here", "there"), 1):
            machine = Machine(name, number, f"http://{address('store')}:{proxy}")
            worker = Worker(options.haul, None, directory, name, f"redis://{address('redis')}:{redis}", machine, number, 3, 4)
            worker.machine = machine
            self.workers.append(worker)

    def go(self):
        for process in (self.redis_server, self.server, self.proxy, self.origin):
            process.start()
        port = self.origin.url.rpartition(":")[2]
        self.files = f"http://{address('origin')}:{port}"
        self.redis, self.s3 = Redis(self.redis_server.socket), S3(self.server.host, 120)
        here, there = self.workers
        here.start()
        self.until(lambda: self.redis.call("ZCARD", Q + "workers") == 1, 20, "no worker")
        for number in range(self.options.rounds):
            for way in (self.by_sigterm, self.by_pause, self.by_kill)[:3]:
                self.hand_over(f"{way.__name__[3:]}-{number}", way, here, there)
                here, there = there, here
        there.start()
        for number in range(self.options.cuts):
            for server in ("store", "redis"):
                for seconds in (3, 12):
                    self.cut(f"cut-{server}-{seconds}-{number}", server, seconds)
        self.sweep()
        for problem in self.wrong:
            print("  wrong:", problem)
        print("wrong:", len(self.wrong))
        return not self.wrong

    # Handovers: one worker does the first part, the other one the rest.

    def hand_over(self, id, way, here, there):
        began = time.monotonic()
        self.push(id)
        self.until(lambda: self.bytes(id) > self.size * 0.4, 120, f"{id}: no 40 %")
        way(id, here)
        there.start()
        self.redis.call("HSET", Q + "want", id, "running")
        self.finish(id, began, {there.name})

    def by_sigterm(self, id, worker):
        worker.end(signal.SIGTERM)

    def by_pause(self, id, worker):
        self.redis.call("HSET", Q + "want", id, "paused")
        self.until(lambda: self.field(id, "state") == "paused", 20, f"{id}: not paused")
        worker.end(signal.SIGTERM)

    def by_kill(self, id, worker):
        worker.end(signal.SIGKILL)

    # Links that are cut.

    def cut(self, id, server, seconds):
        began = time.monotonic()
        self.push(id)
        self.until(lambda: self.bytes(id) > self.size * 0.2, 120, f"{id}: no 20 %")
        name = self.field(id, "worker")
        machine = next(worker.machine for worker in self.workers if worker.name == name)
        machine.cut(server, True)
        time.sleep(seconds)
        machine.cut(server, False)
        self.finish(id, began, {worker.name for worker in self.workers}, f"cut from {name}")

    # Helpers.

    def push(self, id):
        spec = {"url": f"{self.files}/f/0/{self.size}/0?{id}", "id": id, "path": id, "retries": 50,
                "limit_rate": self.options.rate << 20, "reply_to": "all"}
        self.redis.call("LPUSH", Q + "jobs", json.dumps(spec))

    def finish(self, id, began, workers, note=""):
        self.until(lambda: self.field(id, "state") in ("completed", "failed"), 240, f"{id}: no end")
        seconds, last = time.monotonic() - began, self.field(id, "worker")
        if self.field(id, "state") != "completed":
            self.wrong.append(f"{id}: {self.field(id, 'state')}, {self.field(id, 'message')}")
        # The store closes a connection that was idle for as long as a transfer takes.
        self.s3.close()
        data = self.s3.get("in/" + id)
        if data != self.blob[:self.size]:
            self.wrong.append(f"{id}: the object has {len(data or b'')} bytes, and not the right ones")
        if workers and last and last not in workers:
            self.wrong.append(f"{id}: finished by {last}")
        final_events = [event["event"] for event in map(json.loads, self.redis.call("LRANGE", Q + "reply:all", 0, -1))
                if event["id"] == id]
        if final_events != ["completed"]:
            self.wrong.append(f"{id}: its final events are {final_events}")
        self.s3.delete("in/" + id)
        sent = sum(count for path, count in json.loads(
            self.origin.ask("/stats")).items() if path.endswith("?" + id)) - self.size
        print(f"{id:<16} {seconds:6.1f} s, {sent / 1048576:6.1f} MiB sent twice by the origin {note}", flush=True)

    def sweep(self):
        left = lambda: ([key for key, *_ in self.s3.list("in/.haul/") if key != "in/.haul/probe"], self.s3.uploads("in/"))
        self.until(lambda: left() == ([], []), 20, "hidden objects and uploads are left")
        if left() != ([], []):
            self.wrong.append(str(left()))

    def field(self, id, name):
        return self.redis.call("HGET", Q + "job:" + id, name)

    def bytes(self, id):
        return sum(int(count) for count in pairs(self.redis.call("HGETALL", Q + "offsets:" + id)).values())

    def until(self, condition, seconds, problem):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                self.wrong.append(problem)
                return
            time.sleep(0.05)

    def stop(self):
        for process in [*self.workers, self.proxy, self.server, self.redis_server, self.origin]:
            if process.is_up:
                process.end(signal.SIGKILL)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("haul", help="the program under test")
    parser.add_argument("--server", choices=list(KINDS), default="radosgw")
    parser.add_argument("--size", type=int, default=1024, help="of each file: MiB")
    parser.add_argument("--rate", type=int, default=80, help="of each job: MiB per second")
    parser.add_argument("--rounds", type=int, default=1, help="of three ways to hand over")
    parser.add_argument("--cuts", type=int, default=1, help="rounds of four cuts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep the directory")
    carry_out(Bench, parser.parse_args(), "haul-apart-")


if __name__ == "__main__":
    main()
