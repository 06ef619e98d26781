import os

from arq import create_pool
from arq.connections import RedisSettings

settings = RedisSettings(unix_socket_path=os.environ["SOCKET"])
pool = None


async def job(context):
    await context["redis"].lpush("ended", 1)


async def push():
    global pool
    pool = pool or await create_pool(settings)
    await pool.enqueue_job("job")


class WorkerSettings:
    functions = [job]
    redis_settings = settings
    max_jobs = int(os.environ["SLOTS"])
    poll_delay = 0.05
    keep_result = 0


if __name__ == "__main__":
    import measure

    measure.main(push)
