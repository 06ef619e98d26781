import os

from redis import asyncio as redis
from saq.queue.redis import RedisQueue

connection = redis.Redis(unix_socket_path=os.environ["SOCKET"])
queue = RedisQueue(redis.Redis(unix_socket_path=os.environ["SOCKET"]))


async def job(context):
    await connection.lpush("ended", 1)


settings = {"queue": queue, "functions": [job], "concurrency": int(os.environ["SLOTS"])}

if __name__ == "__main__":
    import measure

    measure.main(lambda: queue.enqueue("job", ttl=-1))
