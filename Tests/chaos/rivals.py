"""Pairs of downloads for one name: both have a checksum, and `if_exists` says which one may have the name.

A job that is completed under `fail` or `reuse` has the name for itself, even if both have the same bytes. Under `rename`
each has a name of its own, and under `overwrite` the file is that of a completed job. In no case has a file other
bytes, and nothing changes once both jobs have ended.
"""
import hashlib

from ledger import Job, Q
from resp import pairs

POLICIES = ("fail", "reuse", "overwrite", "rename")


class Pair:
    def __init__(self, number, policy, is_same):
        self.number, self.policy, self.is_same = number, policy, is_same
        self.path = f"p{number % 8}/pair-{number}.bin"
        self.jobs = []
        # The digests of the files by name, when both jobs had just ended.
        self.first = None
        self.events = []


class Rivals:
    def __init__(self, store, blob, share):
        self.store, self.blob, self.share, self.all = store, blob, share, []

    def make(self, pick, id):
        """A job of a pair and the members of its element; None for all other jobs. The two of a pair follow each
        other."""
        pair = self.all[-1] if self.all and len(self.all[-1].jobs) == 1 else None
        if not pair:
            if pick.random() >= self.share:
                return None
            pair = Pair(len(self.all) + 1, pick.choice(POLICIES), pick.random() < 0.2)
            self.all.append(pair)
        job = Job(id, pair.path, 0, 0, None, None)
        job.pair = pair
        if pair.jobs and pair.is_same:
            job.offset, job.size = pair.jobs[0].offset, pair.jobs[0].size
        else:
            # Both are small or both are large: a large file's name is claimed, and a small one's is not.
            least, most = self.store.sizes_of_pairs(pair.number)
            job.size = pick.randrange(least, most)
            job.offset = pick.randrange(len(self.blob) - job.size)
        rate = int(job.size / pick.uniform(0.3, 4))
        job.source = f"/f/{job.offset}/{job.size}/{rate}?{len(pair.jobs)}"
        pair.jobs.append(job)
        return job, {"path": pair.path, "if_exists": pair.policy, "checksum": "sha256:" + self.digest(job)}

    def receive(self, job, event):
        if job.pair and event["event"] != "progress":
            details = " ".join(str(event[name]) for name in ("why", "worker", "file", "error") if name in event)
            job.pair.events.append(f"{event['at'] / 1000:.3f} {job.id} {event['event']} {details}")

    def history(self, pair, names):
        """What the pair went through: the events of its jobs and the requests for its names."""
        return "\n".join(["", *pair.events, *(f"{name} {line}" for name in sorted(names) for line in self.store.requests(name))])

    def digest(self, job):
        return hashlib.sha256(self.blob[job.offset:job.offset + job.size]).hexdigest()

    def files(self, pair, records):
        """The digests of the files that the pair may have, by name."""
        names = {pair.path} | {fields["file"] for fields in records if "file" in fields}
        found = {name: self.store.read(name) for name in names}
        return {name: hashlib.sha256(data).hexdigest() for name, data in found.items() if data is not None}

    @staticmethod
    def records(redis, pair):
        return [pairs(redis.call("HGETALL", Q + "job:" + job.id)) for job in pair.jobs]

    def check(self, redis):
        """Records the files of pairs whose jobs have both just ended."""
        for pair in self.all[-40:]:
            if pair.first is not None or len(pair.jobs) < 2:
                continue
            records = self.records(redis, pair)
            if all(fields.get("state") in ("completed", "failed", "cancelled") for fields in records):
                pair.first = self.files(pair, records)

    def wrong(self, redis):
        """What is wrong at the end."""
        found = []
        for pair in self.all:
            before = len(found)
            if len(pair.jobs) < 2:
                continue
            records = self.records(redis, pair)
            states = [fields.get("state", "lost") for fields in records]
            files, digests = self.files(pair, records), [self.digest(job) for job in pair.jobs]
            subject = f"{' and '.join(job.id for job in pair.jobs)} ({pair.policy}{', same bytes' * pair.is_same}, {', '.join(states)})"
            found += [f"{subject}: {name} has other bytes" for name, digest in files.items() if digest not in digests]
            done = [number for number, state in enumerate(states) if state == "completed"]
            names = [records[number].get("file") for number in done]
            if pair.policy != "rename" and any(name != pair.path for name in names):
                found.append(f"{subject}: completed as {names}")
            if pair.policy != "overwrite" and len(set(names)) < len(names):
                found.append(f"{subject}: both are completed as {names[0]}")
            for number in done:
                has = files.get(records[number].get("file"))
                if has != digests[number] and not (pair.policy == "overwrite" and has in digests):
                    found.append(f"{subject}: {pair.jobs[number].id} is completed, and its file is not there")
            if pair.policy == "overwrite" and len(done) == 2 and files.get(pair.path) not in digests:
                found.append(f"{subject}: no file is there")
            is_steered = any(job.cancelled or job.pushed_again or job.continuations for job in pair.jobs)
            if [fields.get("error") for fields in records] == ["file_exists", "file_exists"] and not is_steered:
                found.append(f"{subject}: each failed because of the other")
            if pair.first is not None and pair.first != files and not is_steered:
                found.append(f"{subject}: the files have changed after the end of both, from {pair.first} to {files}")
            if len(found) > before:
                found[-1] += self.history(pair, {pair.path, *files, *filter(None, names)}).replace("\n", "\n    ")
        return found

    @staticmethod
    def may_fail(job, error):
        return error == "file_exists" and job.pair.policy in ("fail", "reuse")
