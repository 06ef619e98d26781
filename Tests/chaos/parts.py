"""Which parts of an upload an object store lists: while the upload is completed or aborted, and after the gateway was
killed with SIGKILL.

  parts.py rgw|weed [KILLS]

SeaweedFS needs HAUL_WEED. Exit status: 0 if no acknowledged part was lost; 1 otherwise.
"""
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time

from processes import StoreServer
from s3 import S3, tree

PART = os.urandom(8 << 20)


def begin(s3, key):
    return tree(s3.fetch("POST", key, [("uploads", "")])[1]).findtext("UploadId")


def put(s3, key, upload, number):
    return s3.fetch("PUT", key, [("partNumber", number), ("uploadId", upload)], PART)[0]["ETag"].strip('"')


def at_its_end(host, key, is_completed):
    """The numbers of listed parts, in order, until the upload was gone."""
    s3, counts, has_ended = S3(host), [], threading.Event()
    upload = begin(s3, key)
    etags = {number: put(s3, key, upload, number) for number in range(1, 9)}

    def poll():
        own = S3(host)
        while not has_ended.is_set():
            parts = own.parts(key, upload)
            count = None if parts is None else len(parts)
            if counts[-1:] != [count]:
                counts.append(count)

    thread = threading.Thread(target=poll)
    thread.start()
    time.sleep(0.05)
    if is_completed:
        rows = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>" for number, etag in etags.items())
        s3.fetch("POST", key, [("uploadId", upload)], f"<CompleteMultipartUpload>{rows}</CompleteMultipartUpload>".encode())
    else:
        s3.fetch("DELETE", key, [("uploadId", upload)])
    time.sleep(0.1)
    has_ended.set()
    thread.join()
    return counts


def killed(server, key):
    """How many parts were acknowledged before a kill, and how many of them were gone after it."""
    acknowledged, s3 = {}, S3(server.host, 10)
    upload = begin(s3, key)

    def send(first):
        own = S3(server.host, 10)
        try:
            for number in range(first, first + 12):
                acknowledged[number] = put(own, key, upload, number)
        except ConnectionError:
            pass

    threads = [threading.Thread(target=send, args=(first,)) for first in (1, 21, 41)]
    for thread in threads:
        thread.start()
    time.sleep(random.uniform(0.3, 1.5))
    server.signal_gateway(signal.SIGKILL)
    for thread in threads:
        thread.join()
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            listed = S3(server.host, 5).parts(key, upload)
            break
        except ConnectionError:
            time.sleep(0.1)
    there = {number for number, _, etag in listed or [] if acknowledged.get(number) == etag}
    S3(server.host, 30).fetch("DELETE", key, [("uploadId", upload)])
    return len(acknowledged), len(acknowledged) - len(there)


def main():
    directory = tempfile.mkdtemp(prefix="haul-parts-")
    server = StoreServer(directory, sys.argv[1])
    try:
        server.start()
        for name, is_completed in (("completed", True), ("aborted", False)):
            seen = [at_its_end(server.host, f"{name}{number}", is_completed) for number in range(10)]
            print(f"{name}: listed 8 parts, then fewer, then no upload: {sum(len(counts) > 2 for counts in seen)} of 10; {seen}")
        kills = int(sys.argv[2]) if len(sys.argv) > 2 else 25
        found = [killed(server, f"killed{number}") for number in range(kills)]
        lost = sum(count for _, count in found)
        print(f"{kills} kills: {sum(count for count, _ in found)} parts acknowledged, {lost} lost")
    finally:
        server.end()
        shutil.rmtree(directory, ignore_errors=True)
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
