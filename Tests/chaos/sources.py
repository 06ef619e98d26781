"""Private sources of a chaos run (docs/guides/sources.md): downloads from a bucket of the origin, with credentials that
only the workers have, and that are replaced during the run. The origin verifies each signature (bucket.py)."""
import mmap
import os
import secrets

BUCKET, PROFILE = "films", "films"


class Sources:
    RULES = "requests signed wrongly", "credentials that got out"

    def __init__(self, share, directory, origin, pick, foreign):
        self.share, self.directory, self.origin, self.pick, self.count = share, directory, origin, pick, 0
        # A worker with another secret, by its number: the ledger must notice.
        self.foreign = foreign
        self.file = os.path.join(directory, "credentials")
        self.secrets = []
        self.faults = {"credentials of a source change": (4, self.replace)}

    def start(self):
        self.write(self.new_secret())

    def new_secret(self):
        self.secrets.append("secret" + secrets.token_hex(16))
        return ",".join(self.secrets[-2:])

    def replace(self):
        """A fault. The bucket accepts both secrets until the file has the new one, and then the new one alone."""
        self.write(self.new_secret())
        return True

    def write(self, accepted):
        self.origin.ask("/secrets/" + accepted)
        for name, secret in ((self.file, self.secrets[-1]), (self.file + "-foreign", "foreign")):
            with open(name + "-new", "w") as file:
                file.write(f"[{PROFILE}]\naws_access_key_id = testkey\naws_secret_access_key = {secret}\n"
                           f"endpoint_url = {self.origin.url}\nregion = us-east-1\n")
            os.rename(name + "-new", name)
        self.origin.ask("/secrets/" + self.secrets[-1])

    def arguments(self, name, number):
        return ["--source", f"s3://{BUCKET}={PROFILE}"]

    def environment(self, number):
        return {"AWS_SHARED_CREDENTIALS_FILE": self.file + "-foreign" * self.foreign(number)}

    def give(self, job, spec):
        """Makes some downloads those of objects."""
        if job.kind != "download" or job.pair or self.pick.random() >= self.share:
            return
        self.count += 1
        spec["url"] = f"s3://{BUCKET}{job.source}"
        job.source = f"/{BUCKET}{job.source}"

    def judge(self, run, records):
        signed = run.origin.read("/bucket")
        return dict(zip(self.RULES, (
            signed["wrong"], signed["leaked"] + self.leaks(run))))

    def leaks(self, run):
        """The files of the run that have a secret: logs, append-only files of Redis, finished files."""
        words = [secret.encode() for secret in [*self.secrets, run.webhooks.secret]]
        found = []
        for folder, _, names in os.walk(self.directory):
            for name in names:
                path = os.path.join(folder, name)
                # blob and the files that are made of it are random, and the secrets themselves are in two places.
                is_known = name.startswith(("credentials", "webhook-secret")) or name == "blob" or not os.path.isfile(path)
                if is_known or name.endswith((".bin", ".socket")):
                    continue
                # A server of objects keeps them in a file of many GB.
                if not 0 < os.path.getsize(path) < 1 << 30:
                    continue
                with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
                    found += [f"{os.path.relpath(path, self.directory)} has a secret" for word in words if text.find(word) >= 0]
        return found

    def figures(self):
        signed = self.origin.read("/bucket")
        return {"downloads of objects, requests, refused once": f"{self.count}, {signed['right']}, {signed['renewed']}"}
