import os

from celery import Celery
from redis import Redis

app = Celery("peer", broker="redis+socket://" + os.environ["SOCKET"])
app.conf.task_ignore_result = True
app.conf.worker_prefetch_multiplier = 100
connection = Redis(unix_socket_path=os.environ["SOCKET"])


@app.task(name="job")
def job():
    connection.lpush("ended", 1)


if __name__ == "__main__":
    import measure

    measure.main(job.delay)
