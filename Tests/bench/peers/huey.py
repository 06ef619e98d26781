import os

from huey import RedisHuey
from redis import Redis

queue = RedisHuey("peer", url="unix://" + os.environ["SOCKET"], results=False)
connection = Redis(unix_socket_path=os.environ["SOCKET"])


@queue.task()
def job():
    connection.lpush("ended", 1)


if __name__ == "__main__":
    import measure
    import peer

    measure.main(peer.job)
