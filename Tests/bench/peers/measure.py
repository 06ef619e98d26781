"""What the program of each peer does, with its function that pushes a job.

  peer.py push N       pushes N jobs
  peer.py idle N       pushes N jobs, each after the end of the one before, and prints the median time of one in ms

Each job pushes onto the list `ended`, so that all peers are measured in the same way.
"""
import asyncio
import inspect
import os
import statistics
import sys
import time

from redis import Redis


def main(push):
    asyncio.run(run(push))


async def run(push):
    mode, count = sys.argv[1], int(sys.argv[2])
    redis = Redis(unix_socket_path=os.environ["SOCKET"])

    async def push_one():
        result = push()
        if inspect.isawaitable(result):
            await result

    if mode == "push":
        for _ in range(count):
            await push_one()
        return
    seconds = []
    for _ in range(count):
        time.sleep(0.05)  # The worker is idle again.
        began = time.perf_counter()
        await push_one()
        if redis.blpop("ended", 20) is None:
            sys.exit("a job did not end")
        seconds.append(time.perf_counter() - began)
    print(statistics.median(seconds) * 1000)
