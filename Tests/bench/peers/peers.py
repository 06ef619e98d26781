"""No-op jobs through RQ, Celery, dramatiq and arq with one worker process each, beside Haul with files of 1 KiB.

  peers.py HAUL DIRECTORY URL JOBS      started by run.sh; DIRECTORY has a venv for each peer, URL a file of 1 KiB

Each figure is jobs per second from the first push to the end of the last job. The worker runs before, and Redis is the
same server. A second figure is the CPU time of that server's process per job, for everything after the push. A third
one is the part of it in scripts or functions, if the queue uses any.
"""
import os
import signal
import subprocess
import sys
import textwrap
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "chaos"))
import origin as origin_module
from bus import key, until
from processes import Process, RedisServer, Worker
from resp import Redis
from stores import Directory

# For each peer: the module with the job, which also pushes N jobs, and the worker's command. Every job increments the
# same counter, so that the end is detected in the same way for all.
PEERS = {
    "rq": ("""
        import os, sys
        from redis import Redis
        connection = Redis(unix_socket_path=os.environ["SOCKET"])
        def job():
            connection.incr("done")
        if __name__ == "__main__":
            from rq import Queue
            import peer
            queue = Queue(connection=connection)
            queue.enqueue_many([Queue.prepare_data(peer.job, result_ttl=0) for _ in range(int(sys.argv[1]))])
     """, ["rq", "worker", "-w", "rq.worker.SimpleWorker", "--url", "unix://{socket}", "--quiet"]),
    "celery": ("""
        import os, sys
        from celery import Celery
        from redis import Redis
        app = Celery("peer", broker="redis+socket://" + os.environ["SOCKET"])
        app.conf.task_ignore_result = True
        app.conf.worker_prefetch_multiplier = 100
        connection = Redis(unix_socket_path=os.environ["SOCKET"])
        @app.task(name="job")
        def job():
            connection.incr("done")
        if __name__ == "__main__":
            for _ in range(int(sys.argv[1])):
                job.delay()
     """, ["celery", "-A", "peer", "worker", "--pool", "solo", "--without-gossip", "--without-mingle",
           "--without-heartbeat", "--loglevel", "ERROR"]),
    "dramatiq": ("""
        import os, sys
        import dramatiq
        from dramatiq.brokers.redis import RedisBroker
        from redis import Redis
        dramatiq.set_broker(RedisBroker(url="unix://" + os.environ["SOCKET"]))
        connection = Redis(unix_socket_path=os.environ["SOCKET"])
        @dramatiq.actor
        def job():
            connection.incr("done")
        if __name__ == "__main__":
            for _ in range(int(sys.argv[1])):
                job.send()
     """, ["dramatiq", "peer", "--processes", "1", "--threads", "8"]),
    "arq": ("""
        import asyncio, os, sys
        from arq import create_pool
        from arq.connections import RedisSettings
        settings = RedisSettings(unix_socket_path=os.environ["SOCKET"])
        async def job(context):
            await context["redis"].incr("done")
        class WorkerSettings:
            functions = [job]
            redis_settings = settings
            max_jobs = 100
            poll_delay = 0.05
            keep_result = 0
        async def main():
            pool = await create_pool(settings)
            for _ in range(int(sys.argv[1])):
                await pool.enqueue_job("job")
        if __name__ == "__main__":
            asyncio.run(main())
     """, ["arq", "peer.WorkerSettings"]),
}


def peer(name, directory, server, jobs):
    module, command = PEERS[name]
    folder = os.path.join(directory, name)
    with open(os.path.join(folder, "peer.py"), "w") as file:
        file.write(textwrap.dedent(module))
    environment = os.environ | {"SOCKET": server.socket, "PYTHONPATH": folder}
    programs = os.path.join(folder, "bin")
    worker = Process(
        [os.path.join(programs, command[0]), *(word.format(socket=server.socket) for word in command[1:])],
        os.path.join(folder, "log"), env=environment, cwd=folder,
        start_new_session=True)
    push = [os.path.join(programs, "python"), "peer.py"]
    redis = Redis(server.socket, 30)
    worker.start()
    try:
        subprocess.run([*push, "1"], env=environment, cwd=folder, check=True)
        until(lambda: redis.call("GET", "done") == "1")
        redis.call("SET", "done", 0)
        redis.call("CONFIG", "RESETSTAT")
        began, busy = time.monotonic(), server.cpu
        pusher = subprocess.Popen([*push, str(jobs)], env=environment, cwd=folder)
        until(lambda: redis.call("EXISTS", "done") and int(redis.call("GET", "done")) >= jobs, 0.01, 300)
        seconds, busy = time.monotonic() - began, server.cpu - busy
        pusher.wait(30)
        scripts = scripted(redis)
    finally:
        # This also ends the processes that the worker has started.
        os.killpg(worker.child.pid, signal.SIGKILL)
        worker.end()
        redis.call("FLUSHALL")
    return jobs / seconds, busy / jobs * 1e6, scripts / jobs


def haul(program, directory, server, url, jobs, durability):
    root = Directory(os.path.join(directory, "peers-" + durability))
    redis = Redis(server.socket, 30)
    worker = Worker(program, None, directory, "haul", server.url, root, 1, 32, 8)
    worker.command += ["--durability", durability]
    worker.start()
    try:
        until(lambda: worker.has_logged("working"))
        redis.call("CONFIG", "RESETSTAT")
        began, busy = time.monotonic(), server.cpu
        for n in range(jobs):
            redis.call("LPUSH", key("jobs"), f'{{"url":"{url}?{n}","id":"n{n}","path":"n/{n}"}}')
        until(lambda: redis.call("ZCARD", key("completed")) == jobs, 0.01, 300)
        seconds, busy = time.monotonic() - began, server.cpu - busy
        scripts = scripted(redis)
    finally:
        worker.end()
        redis.call("FLUSHALL")
        os.unlink(worker.log)
    return jobs / seconds, busy / jobs * 1e6, scripts / jobs


def scripted(redis):
    """The microseconds in scripts and functions since the last RESETSTAT."""
    return sum(
        int(line.split("usec=")[1].split(",")[0]) for line in redis.call("INFO", "commandstats").splitlines()
        if line.startswith(("cmdstat_fcall:", "cmdstat_eval:", "cmdstat_evalsha:")))


def cpu_text(busy, scripts):
    return f"{busy:.0f} µs of Redis' CPU each" + (f", {scripts:.0f} of them in scripts" if scripts else "")


def main():
    program, directory, url, jobs = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    server = RedisServer(directory, "redis")
    server.start()
    try:
        ours = {}
        for durability in ("disk", "process"):
            ours[durability], *busy = haul(program, directory, server, url, jobs, durability)
            print(f"peers: haul, files of 1 KiB, {durability}: {ours[durability]:.0f} jobs a second, {cpu_text(*busy)}", flush=True)
        for name in PEERS:
            rate, *busy = peer(name, directory, server, jobs)
            print(f"peers: {name}, no-op jobs: {rate:.0f} jobs a second, {cpu_text(*busy)}; haul is {ours['process'] / rate:.1f} times "
                  f"as fast with process, {ours['disk'] / rate:.1f} with disk", flush=True)
    finally:
        server.end()


if __name__ == "__main__":
    main()
