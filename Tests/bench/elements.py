"""The cost of parsing one element in Redis, from its slow log. A real worker claims each element from a Redis of its
own.

  elements.py HAUL DIRECTORY       started by run.sh

Nothing is downloaded: the jobs have a delay of an hour, or are refused.
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "chaos"))
from processes import RedisServer, Worker
from resp import Redis
from stores import Directory

LARGEST = 16 << 10
ROUNDS = 15


def filled(scrap, size=LARGEST):
    """A job whose body repeats `scrap`, as large as an element may be."""
    begin, end = '{"url":"http://h/a","id":"x","delay":3600,"body":"', '"}'
    length = size - len(begin) - len(end)
    return begin + scrap * (length // len(scrap.encode())) + end


def job(member):
    return '{"url":"http://h/a","id":"x","delay":3600,' + member + "}"


CASES = {
    "of 120 bytes": job('"path":"reports/2026/a.bin","retries":3,"meta":{"customer":7}'),
    "ASCII": filled("a"),
    "Chinese": filled("中"),
    "Russian": filled("я"),
    "Hindi": filled("ह"),
    "Korean": filled("한"),
    "emoji": filled("😀"),
    "all of them alternately": filled("aé中ह한😀"),
    "escaped quotes": filled('\\"'),
    "escaped Chinese": filled("\\u4e2d"),
    "256 headers": job('"headers":{' + ",".join(f'"H{n}":"{"v" * 50}"' for n in range(256)) + "}"),
    "1,000 unknown fields": job(",".join(f'"f{n}":""' for n in range(1000))),
    "2,000 empty lists": job('"x":[' + "[]," * 1980 + "[]]"),
    "meta behind 800 of its name": job('"x":[' + ",".join(['{"meta":1}'] * 800) + '],"meta":2,"body":"' + "b" * 6000 + '"'),
    "256 KiB, refused": filled("a", 256 << 10),
    "10 MiB, refused": filled("a", 10 << 20),
}


def main(haul, directory):
    server = RedisServer(directory, "redis")
    server.start()
    redis = Redis(server.socket, 30)
    root = Directory(os.path.join(directory, "root"))
    worker = Worker(haul, None, directory, "w", server.url, root, 1, 1, 8)
    worker.start()
    redis.call("CONFIG", "SET", "slowlog-log-slower-than", "0", "slowlog-max-len", "1000")
    try:
        for name, element in CASES.items():
            pushes, claims = [], []
            for _ in range(ROUNDS):
                redis.call("SLOWLOG", "RESET")
                redis.call("LPUSH", "haul:{default}:jobs", element)
                claims.append(claimed(redis))
                pushes.append(most(redis, "LPUSH"))
                redis.call("DEL", "haul:{default}:rejected")
            claims.sort()
            print(f"element {name}: {len(element.encode())} bytes, claim median {claims[ROUNDS // 2] / 1000:.2f} ms, "
                  f"most {claims[-1] / 1000:.2f} ms; its LPUSH {sorted(pushes)[ROUNDS // 2] / 1000:.2f} ms")
    finally:
        worker.end()
        server.end()


def most(redis, command, function=""):
    """The longest call of a command, in µs. 0 if there was none."""
    times = [0]
    for entry in redis.call("SLOWLOG", "GET", "1000"):
        words = entry[3]
        if words[0].upper() == command and function in (words[1] if len(words) > 1 else ""):
            times.append(int(entry[2]))
    return max(times)


def claimed(redis):
    """The duration of the claim that emptied the queue, in µs."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if redis.call("LLEN", "haul:{default}:jobs") == 0 and redis.call("LLEN", "haul:{default}:held:w") == 0:
            longest = most(redis, "FCALL", "_claim")
            if longest:
                return longest
        time.sleep(0.01)
    raise SystemExit("an element was not claimed within 10 s")


main(*sys.argv[1:])
