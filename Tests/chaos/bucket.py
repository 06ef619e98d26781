"""The private bucket of a chaos run's origin: `/films/…` is an object, and only requests that are signed rightly get it.

`/secrets/A,B` sets the secrets that are accepted. `/bucket` returns how many requests were signed rightly, how many with
a secret that had been replaced, and which requests were signed wrongly, or had credentials without being for the bucket.
"""
import calendar
import json
import re
import threading
import time

import s3

PREFIX, TOLERANCE = "/films/", 900
lock = threading.Lock()
accepted, former = [], []
counts, wrong, leaked = {"right": 0, "renewed": 0}, [], []


def set_secrets(text):
    with lock:
        former.extend(accepted)
        accepted[:] = text.split(",")


def found():
    with lock:
        return json.dumps({**counts, "wrong": wrong, "leaked": leaked})


def refusal(method, path, headers):
    """The status and the code of S3 with which the bucket refuses a request; None if it may read the object."""
    names = re.search("SignedHeaders=([^,]*)", headers.get("Authorization") or "")
    if not names:
        return 403, "AccessDenied"
    lower = {name.lower(): value for name, value in headers.items()}
    at = calendar.timegm(time.strptime(lower["x-amz-date"], "%Y%m%dT%H%M%SZ"))
    if abs(time.time() - at) > TOLERANCE:
        return 403, "RequestTimeTooSkewed"
    path, _, query = path.partition("?")

    def is_by(secret):
        right = s3.authorization(method, path, query, lower, names[1].split(";"), secret)
        return lower["authorization"].partition("Signature=")[2] == right.partition("Signature=")[2]

    with lock:
        if any(map(is_by, accepted)):
            counts["right"] += 1
            return None
        if any(map(is_by, former)):
            counts["renewed"] += 1
            return 403, "InvalidAccessKeyId"
        wrong.append(f"{method} {path} by {lower['authorization']}")
        return 403, "SignatureDoesNotMatch"


def record_credentials(path, headers):
    """Records credentials in a request that is for no bucket."""
    names = [name for name in headers.keys() if name.lower() == "authorization" or name.lower().startswith("x-amz-")]
    if names and not path.startswith(PREFIX):
        with lock:
            leaked.append(f"{path} has {names}")
