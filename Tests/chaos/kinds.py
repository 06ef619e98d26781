"""The jobs of a chaos run by kind: their fields, and the checks of requests and uploads at the origin."""
import base64
import hashlib
import math

KINDS = ("download", "request", "upload")


class Kinds:
    """Makes jobs, and checks those that the store cannot check."""

    def __init__(self, options, store, blob, pick):
        self.options, self.store, self.blob, self.sources = options, store, blob, []
        for number in range(16 if "upload" in options.kinds else 0):
            size = int(math.exp(pick.uniform(math.log(1024), math.log(8 << 20))))
            self.sources.append((f"src/{number}.bin", pick.randrange(len(blob) - size), size))

    def start(self):
        """Writes the files for uploads, before the first job."""
        for name, offset, size in self.sources:
            self.store.place(name, self.blob[offset:offset + size])

    def choose(self, pick):
        """Chooses a kind. Downloads are more frequent, since most things can break in them."""
        return pick.choices(self.options.kinds, [3 if kind == "download" else 2 for kind in self.options.kinds])[0]

    def make(self, pick, job):
        """Returns the members of the job's element."""
        return {"download": self.download, "request": self.request, "upload": self.upload}[job.kind](pick, job)

    def download(self, pick, job):
        large = pick.random() * 100 < self.options.large
        # Large files are fast, too. A kill of a smaller job can never lose more than the bound.
        least, most = (100 << 20, 256 << 20) if large else self.store.sizes(pick)
        small = pick.random() * 100 < self.options.small
        if small:
            least, most = 1024, 64 << 10
        job.size = int(math.exp(pick.uniform(math.log(least), math.log(most))))
        job.offset = pick.randrange(len(self.blob) - job.size)
        rate = 0 if pick.random() < 0.25 or small else max(2000, int(job.size / pick.uniform(0.5, 8)))
        paced_by_origin = pick.random() < 0.5
        job.source = f"/f/{job.offset}/{job.size}/{rate if paced_by_origin else 0}"
        spec = {"path": job.path}
        if rate and not paced_by_origin:
            spec["limit_rate"] = rate
        if pick.random() < 0.3:
            spec["checksum"] = "sha256:" + hashlib.sha256(self.blob[job.offset:job.offset + job.size]).hexdigest()
        return spec

    def request(self, pick, job):
        """A request. Some may be repeated, and some must not be."""
        size, wait = pick.randrange(20_000), int(math.exp(pick.uniform(math.log(5), math.log(5000))))
        job.offset, job.size = pick.randrange(len(self.blob) - size), size
        job.source = f"/r/{job.id}/{job.offset}/{size}/{wait}"
        spec = {"kind": "request", "method": pick.choice(["GET", "POST", "POST"])}
        if spec["method"] == "POST":
            spec["body"] = job.id
            job.is_once = pick.random() < 0.7
            if not job.is_once:
                spec["idempotent"] = True
        return spec

    def upload(self, pick, job):
        """One file by PUT, in a form or by tus, or several files one by one."""
        way, name = pick.choice(["put", "form", "tus", "tus", "each"]), "t"
        rate = 0 if pick.random() < 0.3 else int(math.exp(pick.uniform(math.log(200 << 10), math.log(8 << 20))))
        files = pick.sample(self.sources, 3 if way == "each" else 1)
        spec = {"kind": "upload", "file": files[0][0]}
        if way == "tus":
            spec["protocol"] = "tus"
        else:
            name = "u"
        job.source = f"/{name}/{job.id}/{rate}"
        if way == "form":
            spec = {"kind": "upload", "files": [{"file": files[0][0]}]}
            job.is_once = pick.random() < 0.5
            if not job.is_once:
                spec["idempotent"] = True
        if way == "each":
            spec = {"kind": "upload", "files": [{"file": file} for file, *_ in files], "each": True}
            job.source += "/"
        if way in ("put", "each") and pick.random() < 0.3:
            spec["content_digest"] = "sha-256"
        if pick.random() < 0.3:
            spec["limit_rate"] = 2 << 20
        job.files = [(job.source + (file.rpartition("/")[2] if way == "each" else ""), offset, size)
                     for file, offset, size in files]
        job.size = sum(size for *_, size in files)
        return spec

    def wrong(self, job, fields, kept):
        """What is wrong with a job that has ended."""
        isdone, found = fields["state"] == "completed", []
        if job.kind == "request":
            body = base64.b64decode(fields["body_base64"]) if "body_base64" in fields else fields.get("body", "").encode()
            if isdone and body != self.blob[job.offset:job.offset + job.size]:
                found.append(f"{job.id}: its response differs from what the origin has sent")
        for path, offset, size in job.files:
            wanted = [hashlib.sha256(self.blob[offset:offset + size]).hexdigest(), size]
            whole = kept.get(path, (0, 0, []))[2]
            if isdone and not whole:
                found.append(f"{job.id}: completed, and the origin has nothing at {path}")
            found += [f"{job.id}: {path} was at the origin with {count} other bytes"
                      for digest, count in whole if [digest, count] != wanted]
        return found

    @staticmethod
    def posts(job, kept):
        """How often the origin received a request that must not be sent twice."""
        return kept.get(job.source, (0,))[0] if job.is_once else 0

    @staticmethod
    def again(job, kept):
        """The protocol of an upload, and the bytes that the origin received more than once."""
        count = sum(max(0, kept.get(path, (0, 0))[1] - size) for path, _, size in job.files)
        return "tus" if job.source.startswith("/t/") else "others", count
