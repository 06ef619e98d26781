"""Tests the policy and the lifecycle rule of docs/guides/buckets.md on radosgw, which enforces both.

With all actions of the policy no request of a worker is refused. Without any one of them some request is. An abandoned
upload is gone after the rule's time. policy.sh starts this script.
"""
import argparse
import hashlib
import json
import os
import re
import signal
import subprocess
import time

import origin as origin_module
from bench import carry_out
from ledger import Q
from processes import Origin, Proxy, RedisServer, StoreServer, Worker
from resp import Redis
from s3 import S3, tree
from topology import free_ports

USER, KEY, SECRET = "worker", "workerkey", "workersecret"
DOCS = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "guides", "buckets.md")


def policy_of(text):
    """The policy of the page, for our bucket and user."""
    policy = json.loads(re.search(r"```json\n(.*?)```", text, re.S)[1].replace("films/in", "test/in").replace(":::films", ":::test"))
    for statement in policy["Statement"]:
        statement["Principal"] = {"AWS": [f"arn:aws:iam:::user/{USER}"]}
    return policy


class PolicyStore:
    """A worker's store, with credentials that have the rights of the policy."""

    def __init__(self, proxy):
        self.proxy, self.prefix = proxy, ["env", "-u", "AWS_PROFILE"]

    def options(self, number):
        return ["--store", "s3://test/in", "--upload-from", "s3://test/in", "--s3-endpoint", self.proxy.url]

    def environment(self, number):
        return {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_EC2_METADATA_DISABLED": "true"}


class Trial:
    def __init__(self, options, directory):
        self.options, self.directory, self.number = options, directory, 0
        blob = os.path.join(directory, "blob")
        origin_module.make_blob(blob, 1, 32 << 20)
        with open(blob, "rb") as file:
            self.blob = file.read()
        # A day of the rule lasts two seconds.
        os.environ["HAUL_LIFECYCLE_DAY"] = "2"
        self.redis_server, self.server = RedisServer(directory, "redis"), StoreServer(directory, "rgw")
        self.origin, self.proxy = Origin(directory, blob), Proxy(directory, self.server, free_ports(1)[0])
        self.worker = None

    def go(self):
        for process in (self.redis_server, self.server, self.origin, self.proxy):
            process.start()
        self.redis, self.s3 = Redis(self.redis_server.socket), S3(self.server.host)
        self.admin("user", "create", "--uid", USER, "--display-name", USER, "--access-key", KEY, "--secret-key", SECRET)
        with open(DOCS) as file:
            text = file.read()
        policy, wrong = policy_of(text), []
        if self.refused(policy, "all of it"):
            wrong.append("the policy does not allow all that a worker does")
        for statement in policy["Statement"]:
            for action in statement["Action"]:
                # Removing the action is not enough: the owner of an object may read it by its access list. So the
                # action is denied.
                denied = {"Statement": [*policy["Statement"], statement | {"Effect": "Deny", "Action": [action]}]}
                if not self.refused(policy | denied, "without " + action):
                    wrong.append(f"{action} is of no use")
        if not self.lifecycle(re.search(r"```xml\n(.*?)```", text, re.S)[1]):
            wrong.append("the lifecycle rule ends no upload")
        for problem in wrong:
            print("  wrong:", problem)
        return not wrong

    def admin(self, *words):
        conf = os.path.join(self.server.directory, "ceph.conf")
        subprocess.run(["radosgw-admin", *words], env=os.environ | {"CEPH_CONF": conf, "CEPH_ARGS": ""}, check=True,
                       timeout=60, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    # The policy.

    def refused(self, policy, what):
        """Whether any request was refused, while a worker did everything that it does."""
        status, _, body = self.s3.ask("PUT", "", [("policy", "")], json.dumps(policy).encode())
        if status not in (200, 204):
            raise RuntimeError(f"the policy was not accepted: {status} {body}")
        before, ends = json.loads(self.proxy.ask("/-/refused")), self.work()
        after = json.loads(self.proxy.ask("/-/refused"))
        found = {kind: count - before.get(kind, 0) for kind, count in after.items() if count > before.get(kind, 0)}
        print(f"{what:<42} {', '.join(ends)}; refused: {found or 'nothing'}", flush=True)
        return found

    def work(self):
        """Runs a short file, one that is in the way of another, a large one with a checksum, one that is paused, and
        one that is cancelled."""
        self.number += 1
        jobs = {}
        with_worker = self.start()
        digest = hashlib.sha256(self.blob[:20 << 20]).hexdigest()
        for name, size, more in (("short", 1000, {}), ("taken", 1000, {"path": "same"}),
                                 ("renamed", 1000, {"path": "same", "if_exists": "rename"}),
                                 ("checked", 20 << 20, {"checksum": "sha256:" + digest}),
                                 ("paused", 20 << 20, {"limit_rate": 5 << 20}), ("cancelled", 20 << 20, {"limit_rate": 5 << 20})):
            id = f"{name}-{self.number}"
            spec = {"url": f"{self.origin.url}/f/0/{size}/0", "id": id, "path": id, "retries": 0, **more}
            if "path" in more:
                spec["path"] += f"-{self.number}"
            jobs[name] = id
            self.redis.call("LPUSH", Q + "jobs", json.dumps(spec))
        time.sleep(2.5)
        self.redis.call("HSET", Q + "want", jobs["paused"], "paused", jobs["cancelled"], "cancelled")
        self.until(lambda: self.state(jobs["paused"]) in ("paused", "failed", "completed"), 15)
        with_worker.end(signal.SIGTERM, 15)
        with_worker = self.start()
        self.redis.call("HSET", Q + "want", jobs["paused"], "running")
        self.until(lambda: all(self.state(id) in ("completed", "failed", "cancelled") for id in jobs.values()), 15)
        with_worker.end(signal.SIGTERM, 15)
        ends = [f"{name} {self.state(id)}" for name, id in jobs.items() if self.state(id) != "completed"]
        for id in jobs.values():
            self.redis.call("HSET", Q + "want", id, "removed")
        return ends

    def start(self):
        self.worker = Worker(self.options.haul, None, self.directory, f"w{self.number}", self.redis_server.url,
                             PolicyStore(self.proxy), 1, 8, 4)
        self.worker.start()
        return self.worker

    def state(self, id):
        return self.redis.call("HGET", Q + "job:" + id, "state")

    def until(self, condition, seconds):
        end = time.monotonic() + seconds
        while not condition() and time.monotonic() < end:
            time.sleep(0.05)

    # The rule.

    def lifecycle(self, rule):
        status, _, body = self.s3.ask("PUT", "", [("lifecycle", "")], rule.encode())
        if status != 200:
            raise RuntimeError(f"the rule was not accepted: {status} {body}")
        created = self.s3.ask("POST", "in/half", [("uploads", "")])
        upload = tree(created[2]).findtext("UploadId")
        began, is_there = time.monotonic(), lambda: upload in [id for _, id in self.s3.uploads("in/")]
        if not is_there():
            raise RuntimeError("no upload was begun")
        while is_there() and time.monotonic() - began < 120:
            self.admin("lc", "process")
            time.sleep(1)
        print(f"an upload that no worker ends, with the rule: {'still there' if is_there() else 'gone'} after "
              f"{time.monotonic() - began:.0f} s of 2 s each day", flush=True)
        return not is_there()

    def stop(self):
        for process in [self.worker, self.proxy, self.server, self.origin, self.redis_server]:
            if process and process.is_up:
                process.end(signal.SIGKILL)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("haul", help="the program under test")
    parser.add_argument("--keep", action="store_true", help="keep the directory")
    carry_out(Trial, parser.parse_args(), "haul-policy-")


if __name__ == "__main__":
    main()
