"""The faults by kind. Each fault returns at once or runs in a thread of its own, and undoes what it has stopped."""
import math
import random
import signal
import threading
import time
from collections import Counter

from resp import Redis, RedisError


class Faults:
    def __init__(self, run):
        self.run, self.random = run, random.Random(run.options.seed * 7919 + 1)
        self.injected, self.threads, self.overdue, self.broken = Counter(), [], 0, []
        self.redis_lock = threading.Lock()
        self.worker_count = len(run.workers)
        self.kinds = {
            "kill -9 a worker": (22, self.on_a_worker(self.kill)),
            "freeze a worker past its lease": (8, self.on_a_worker(self.freeze)),
            "stop a worker for a moment": (10, self.on_a_worker(self.stop_briefly)),
            "SIGTERM a worker, replace it": (14, self.on_a_worker(self.roll)),
            "a worker's clock jumps": (8, self.jump), "CLIENT KILL": (24, self.client_kill),
            "cut origin connections": (14, self.cut),
        }
        for kind, (weight, body) in run.topology.faults.items():
            self.kinds[kind] = (weight, lambda kind=kind, body=body: self.redis_fault(kind, body))
        self.kinds |= run.sources.faults
        for kind, (weight, body) in run.store.faults.items():
            self.kinds[kind] = (weight, lambda kind=kind, body=body: self.store_fault(kind, body))
        # Each kind occurs once before the random choice begins, so that a short run has all of them.
        self.due = self.random.sample(list(self.kinds), len(self.kinds))

    def inject(self):
        kind = self.due.pop() if self.due else self.random.choices(
            list(self.kinds), [weight for weight, _ in self.kinds.values()])[0]
        if self.kinds[kind][1]():
            self.injected[kind] += 1

    def settle(self):
        """Waits until every fault has ended."""
        for thread in self.threads:
            thread.join()

    def in_background(self, body, *arguments):
        self.threads = [thread for thread in self.threads if thread.is_alive()]
        self.threads.append(threading.Thread(target=body, args=arguments))
        self.threads[-1].start()

    def on_a_worker(self, body):
        def fault():
            worker = self.victim()
            if worker:
                body(worker)
            return worker is not None

        return fault

    def victim(self):
        """A worker without another fault, or None. One worker always stays untouched, so that it can recover the
        rest."""
        free = [worker for worker in self.run.workers if not worker.busy]
        if len(free) < 2:
            return None
        worker = self.random.choice(free)
        worker.busy = True
        return worker

    # Workers.

    def kill(self, worker):
        # The worker is stopped first, so that the bytes that it has read can be counted.
        worker.send(signal.SIGSTOP)
        time.sleep(0.05)
        runs = self.run.ledger.record_expected_losses(worker.name)
        self.run.ledger.refetched.record_kill(self.run.origin, runs)
        self.run.gates.kill(worker)
        pause, same = self.random.uniform(0, 3), self.random.random() < 0.6
        self.in_background(self.replace, worker, pause, same)

    def replace(self, worker, pause, same):
        time.sleep(pause)
        if not same:
            self.worker_count += 1
            index = self.run.workers.index(worker)
            self.run.retired.append(worker)
            worker = self.run.workers[index] = self.run.worker(f"w{self.worker_count}")
            worker.busy = True
        worker.start()
        worker.busy = False

    def freeze(self, worker):
        self.run.ledger.record_expected_losses(worker.name)
        self.stop_and_wake(worker, self.run.options.lease + self.random.uniform(1, 4))

    def stop_briefly(self, worker):
        self.stop_and_wake(worker, self.random.uniform(0.1, min(2.5, self.run.options.lease / 2)))

    def stop_and_wake(self, worker, seconds):
        def wake():
            time.sleep(seconds)
            worker.send(signal.SIGCONT)
            worker.busy = False

        worker.send(signal.SIGSTOP)
        self.in_background(wake)

    def roll(self, worker):
        same = self.random.random() < 0.6

        def roll():
            if worker.end(signal.SIGTERM, within=20):
                self.overdue += 1
            self.replace(worker, 0, same)

        self.in_background(roll)

    def jump(self):
        """Moves the clock at once by a minute to some days, forwards or backwards."""
        worker = self.random.choice(self.run.workers)
        worker.set_clock(self.random.choice([1, -1]) * math.exp(self.random.uniform(math.log(60), math.log(5 * 86400))))
        return True

    # Connections.

    def client_kill(self):
        try:
            redis = Redis(self.run.topology.locate, 1)
            clients = [line for line in redis.call("CLIENT", "LIST").splitlines() if " name=haul-" in line]
            ids = [line.split()[0][3:] for line in clients]
            chosen = self.random.sample(ids, min(len(ids), self.random.choice([1, 1, 2, 4, 50])))
            redis.calls([("CLIENT", "KILL", "ID", client) for client in chosen])
            redis.close()
            return bool(chosen)
        except (ConnectionError, RedisError):
            return False

    def cut(self):
        return self.run.origin.ask(f"/cut/{self.random.choice([1, 1, 2, 5])}") != "0"

    # Redis.

    def redis_fault(self, kind, body):
        """Only one of these faults runs at a time. It is counted once it was done."""
        if not self.redis_lock.acquire(blocking=False):
            return False

        def guarded():
            over = self.run.ledger.disturb()
            try:
                if body(over):
                    self.injected[kind] += 1
            except RuntimeError as error:
                self.broken.append(f"{kind}: {error}")
            finally:
                over()
                self.redis_lock.release()

        self.in_background(guarded)
        return False

    # The store.

    def store_fault(self, kind, body):
        """Any number of these faults run at a time. A fault is counted if it has affected a request."""

        def guarded():
            try:
                if body():
                    self.injected[kind] += 1
                elif not self.injected[kind]:
                    # No request came that the fault could affect. It must be tried again.
                    self.due.insert(0, kind)
            except (RuntimeError, OSError) as error:
                self.broken.append(f"{kind}: {error}")

        self.in_background(guarded)
        return False
