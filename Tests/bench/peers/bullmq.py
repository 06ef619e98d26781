"""The Python edition of BullMQ, by its authors and with the same Lua scripts."""
import asyncio
import os

from bullmq import Queue, Worker
from redis import asyncio as redis

options = {"connection": "unix://" + os.environ["SOCKET"]}
queue = None


async def push():
    global queue
    queue = queue or Queue("peer", options)
    await queue.add("job", {}, {"removeOnComplete": True})


async def work():
    connection = redis.Redis(unix_socket_path=os.environ["SOCKET"])

    async def job(_job, _token):
        await connection.lpush("ended", 1)

    Worker("peer", job, options | {"concurrency": int(os.environ["SLOTS"])})
    await asyncio.Event().wait()


if __name__ == "__main__":
    import sys

    if sys.argv[1] == "work":
        asyncio.run(work())
    import measure

    measure.main(push)
