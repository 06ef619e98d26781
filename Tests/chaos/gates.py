"""The gate of a chaos run (docs/guides/gate.md): all workers have it. It writes down what it saw of each file, refuses
some files, and cannot judge others at first."""
import hashlib
import os
import shutil
import signal
import tempfile
import time

REFUSED, UNSURE = "-refused", "-unsure"
SCRIPT = r'''#!/bin/sh
# gate.sh DIRECTORY WORKER: the worker's name is there for whoever looks at the processes.
digest=$(sha256sum | cut -c 1-64)
case $GATE_ID in
*-refused) verdict=1 ;;
*-unsure) if mkdir "$1/$GATE_ID" 2>/dev/null; then verdict=3; else verdict=0; fi ;;
*2) sleep 0.3; verdict=0 ;;
*7) sleep 3; verdict=0 ;;
*) verdict=0 ;;
esac
printf '%s %s %s %s\n' "$GATE_ID" "$digest" "$GATE_BYTES" "$verdict" >>"$1/log"
[ "$verdict" -eq 0 ] || echo "verdict $verdict"
exit "$verdict"
'''


class Gates:
    RULES = "passed without the gate", "refused, and not as a refusal ends", "gates that outlived their worker"

    def __init__(self, share, directory, store, blob, pick, lacking, detached):
        self.share, self.store, self.blob, self.pick = share, store, blob, pick
        # Workers without their gate, and gates that leave the group of processes, by the numbers of workers: the ledger
        # must notice.
        self.lacking, self.detached = lacking, detached
        # In memory, because workers that share a bucket can write to no disk.
        self.directory = tempfile.mkdtemp(prefix="haul-gates-", dir="/dev/shm")
        self.script = os.path.join(directory, "gate.sh")
        self.appeared, self.outlived, self.refused, self.killed = set(), [], [], 0
        with open(self.script, "w") as script:
            script.write(SCRIPT)
        os.chmod(self.script, 0o755)

    def arguments(self, name, number):
        if self.lacking(number):
            return []
        command = "setsid -w" if self.detached(number) else "exec"
        return ["--gate", f"{command} {self.script} {self.directory} {name}", "--gate-limit", "8"]

    def name(self, id):
        """The id of a job that is not in a pair. By chance the gate knows by it that the file is to be refused."""
        number = self.pick.random()
        return id + (REFUSED if number < self.share / 2 else UNSURE if number < self.share else "")

    def give(self, job, spec):
        if job.kind == "download" and job.id.endswith(REFUSED):
            job.fails = True
            self.refused.append(job)

    def check(self):
        """Called again and again: a file that is refused never has its name."""
        self.appeared.update(job.id for job in self.refused[-6:] if self.store.is_there(job))

    def kill(self, worker):
        """Kills a worker, which is stopped. Its gates end with it."""
        self.killed += len(self.running(worker.name))
        worker.end(signal.SIGKILL)
        until = time.monotonic() + 0.5
        while self.running(worker.name):
            if time.monotonic() > until:
                self.outlived.append(f"of {worker.name}: {self.running(worker.name)}")
                return
            time.sleep(0.01)

    def running(self, worker):
        """The processes of the gates of a worker of this name."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as line:
                    words = line.read().decode(errors="replace").split("\0")
            except OSError:
                continue
            if self.script in words and worker in words:
                found.append(pid)
        return found

    def verdicts(self):
        """What the gate has said of each job: (digest, bytes, verdict)."""
        found = {}
        try:
            with open(os.path.join(self.directory, "log")) as log:
                for line in log:
                    id, *verdict = line.split()
                    found.setdefault(id, []).append(tuple(verdict))
        except FileNotFoundError:
            pass
        return found

    def judge(self, run, records):
        """`records` are the hashes of the accepted jobs by id."""
        found, verdicts, refused = [], self.verdicts(), [f"{id}: its file had its name" for id in sorted(self.appeared)]
        for id, fields in records.items():
            job = run.ledger.jobs[id]
            if job.kind != "download" or job.pair:
                continue
            if fields.get("state") == "completed":
                data = self.blob[job.offset:job.offset + job.size]
                right = hashlib.sha256(data).hexdigest(), str(job.size), "0"
                if right not in verdicts.get(id, []):
                    found.append(f"{id}: completed, and the gate has said {verdicts.get(id)} of {right}")
            if not id.endswith(REFUSED):
                continue
            if fields.get("state") == "failed" and fields.get("error") not in ("gate_refused", "http_404", "crash_loop"):
                refused.append(f"{id}: failed as {fields.get('error')}: {fields.get('message')}")
            if fields.get("error") == "gate_refused" and fields.get("message") != "verdict 1":
                refused.append(f"{id}: its message is {fields.get('message')}")
            if self.store.is_there(job):
                refused.append(f"{id}: its file is there")
        return dict(zip(self.RULES, (found, refused, self.outlived)))

    def stop(self):
        shutil.rmtree(self.directory, ignore_errors=True)

    def figures(self):
        verdicts = [verdict for all in self.verdicts().values() for *_, verdict in all]
        return {"verdicts of the gate: accepted, refused, failed": ", ".join(str(verdicts.count(v)) for v in "013"),
                "gates that were killed with their worker": self.killed}
