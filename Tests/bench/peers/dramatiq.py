import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from redis import Redis

dramatiq.set_broker(RedisBroker(url="unix://" + os.environ["SOCKET"]))
connection = Redis(unix_socket_path=os.environ["SOCKET"])


@dramatiq.actor
def job():
    connection.lpush("ended", 1)


if __name__ == "__main__":
    import measure

    measure.main(job.send)
