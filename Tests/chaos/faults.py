"""The faults, by kind. Each returns at once or runs in a thread of its own; what it stopped, it wakes again."""
import random
import signal
import threading
import time
from collections import Counter

from resp import Redis, RedisError

WEIGHTS = {
    "kill -9 a worker": 22, "freeze a worker past its lease": 8, "stop a worker for a moment": 10,
    "SIGTERM a worker, replace it": 14, "CLIENT KILL": 24, "cut origin connections": 14,
    "Redis kill -9, restart": 1, "Redis SIGTERM, restart": 1, "Redis stalls past the lease": 0.8,
}


class Faults:
    def __init__(self, run):
        self.run, self.random = run, random.Random(run.options.seed * 7919 + 1)
        self.injected, self.threads, self.overdue = Counter(), [], 0
        self.redis_lock = threading.Lock()
        self.names = len(run.workers)

    def inject(self):
        kind = self.random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        done = getattr(self, METHODS[kind])()
        if done:
            self.injected[kind] += 1
        return done

    def settle(self):
        """Waits for every fault to be over."""
        for thread in self.threads:
            thread.join()

    def later(self, body, *arguments):
        self.threads = [thread for thread in self.threads if thread.is_alive()]
        self.threads.append(threading.Thread(target=body, args=arguments))
        self.threads[-1].start()

    def victim(self):
        """A worker that no other fault has in hand; one always stays alone, so that somebody can recover the rest."""
        free = [worker for worker in self.run.workers if not worker.busy]
        if len(free) < 2:
            return None
        worker = self.random.choice(free)
        worker.busy = True
        return worker

    # Workers.

    def kill(self):
        worker = self.victim()
        if not worker:
            return False
        self.run.ledger.losing(worker.name)
        worker.end(signal.SIGKILL)
        pause, same = self.random.uniform(0, 3), self.random.random() < 0.6
        self.later(self.replace, worker, pause, same)
        return True

    def replace(self, worker, pause, same):
        time.sleep(pause)
        if not same:
            self.names += 1
            index = self.run.workers.index(worker)
            self.run.retired.append(worker)
            worker = self.run.workers[index] = self.run.worker(f"w{self.names}")
            worker.busy = True
        worker.start()
        worker.busy = False

    def freeze(self):
        worker = self.victim()
        if not worker:
            return False
        self.run.ledger.losing(worker.name)
        self.stop_and_wake(worker, self.run.options.lease + self.random.uniform(1, 4))
        return True

    def blink(self):
        worker = self.victim()
        if not worker:
            return False
        self.stop_and_wake(worker, self.random.uniform(0.1, min(2.5, self.run.options.lease / 2)))
        return True

    def stop_and_wake(self, worker, seconds):
        def wake():
            time.sleep(seconds)
            worker.send(signal.SIGCONT)
            worker.busy = False

        worker.send(signal.SIGSTOP)
        self.later(wake)

    def roll(self):
        worker = self.victim()
        if not worker:
            return False
        same = self.random.random() < 0.6

        def roll():
            if worker.end(signal.SIGTERM, within=20):
                self.overdue += 1
            self.replace(worker, 0, same)

        self.later(roll)
        return True

    # Connections.

    def client_kill(self):
        try:
            redis = Redis(self.run.redis.socket, 1)
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

    def redis_kill(self):
        return self.redis_fault(lambda: self.restart(signal.SIGKILL))

    def redis_term(self):
        return self.redis_fault(lambda: self.restart(signal.SIGTERM))

    def redis_stall(self):
        def stall():
            self.run.redis.send(signal.SIGSTOP)
            time.sleep(self.run.options.lease + 1)
            self.run.redis.send(signal.SIGCONT)

        return self.redis_fault(stall)

    def restart(self, number):
        pause = self.random.uniform(0, 1.5)
        self.run.redis.end(number)
        time.sleep(pause)
        self.run.redis.start()

    def redis_fault(self, body):
        if not self.redis_lock.acquire(blocking=False):
            return False

        def guarded():
            try:
                self.run.ledger.disturbed()
                body()
            finally:
                self.redis_lock.release()

        self.later(guarded)
        return True


METHODS = dict(zip(WEIGHTS, (
    "kill", "freeze", "blink", "roll", "client_kill", "cut", "redis_kill", "redis_term", "redis_stall")))
