"""As much of S3 as the ledger and the proxy need: signatures (version 4), and one blocking connection."""
import base64
import hashlib
import hmac
import http.client
import time
import urllib.parse
import xml.etree.ElementTree as ElementTree

KEY, SECRET, REGION, BUCKET = "testkey", "testsecret", "us-east-1", "test"
UNSIGNED = "UNSIGNED-PAYLOAD"


def encode(text):
    return urllib.parse.quote(text, safe="-_.~")


def authorization(method, path, query, headers, names, secret=SECRET):
    """The value of the field. `path` and `query` are as sent. `headers` has lower-case names, and `names` are those to
    sign."""
    canonical = "\n".join([
        method, path, "&".join(sorted(query.split("&"))) if query else "",
        *(f"{name}:{' '.join(headers[name].split())}" for name in names), "", ";".join(names),
        headers["x-amz-content-sha256"]])
    date = headers["x-amz-date"]
    scope = f"{date[:8]}/{REGION}/s3/aws4_request"
    key = ("AWS4" + secret).encode()
    for word in scope.split("/"):
        key = hmac.digest(key, word.encode(), "sha256")
    text = f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    signature = hmac.new(key, text.encode(), "sha256").hexdigest()
    return f"AWS4-HMAC-SHA256 Credential={KEY}/{scope}, SignedHeaders={';'.join(names)}, Signature={signature}"


def amazon_time(seconds):
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(seconds))


class S3:
    """A client. Raises ConnectionError while the store does not answer."""

    def __init__(self, host, timeout=30):
        self.host, self.timeout, self.connection = host, timeout, None

    def ask(self, method, key="", query=(), body=b""):
        """The status, the header fields and the body of the response."""
        path = f"/{BUCKET}" + ("/" + urllib.parse.quote(key, safe="/-_.~") if key else "")
        text = "&".join(f"{encode(name)}={encode(str(value))}" for name, value in query)
        headers = {"host": self.host, "x-amz-content-sha256": UNSIGNED, "x-amz-date": amazon_time(time.time())}
        if body:
            headers["content-md5"] = base64.b64encode(hashlib.md5(body).digest()).decode()
        headers["authorization"] = authorization(method, path, text, headers, sorted(headers))
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection(self.host, timeout=self.timeout)
            self.connection.request(method, path + ("?" + text if text else ""), body=body or None,
                                    headers=headers)
            answer = self.connection.getresponse()
            return answer.status, answer.headers, answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise ConnectionError(str(error)) from error

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def fetch(self, *words, absent=(404,)):
        """The header fields and the body of a successful response. None if there is no such thing."""
        status, headers, body = self.ask(*words)
        if status in absent:
            return None
        if not 200 <= status < 300:
            raise ConnectionError(f"{words[0]} {words[1:]}: {status} {body[:200]}")
        return headers, body

    def get(self, key):
        """The content of an object. None if there is no such object."""
        answer = self.fetch("GET", key)
        return answer and answer[1]

    def head(self, key):
        answer = self.fetch("HEAD", key)
        return answer and answer[0]

    def delete(self, key):
        self.fetch("DELETE", key)

    def list(self, prefix):
        """(key, size, ETag) of each object."""
        found, token = [], None
        while True:
            query = [("list-type", 2), ("prefix", prefix)] + ([("continuation-token", token)] if token else [])
            root = tree(self.fetch("GET", "", query)[1])
            found += [(each["Key"], int(each["Size"]), each["ETag"].strip('"')) for each in rows(root, "Contents")]
            token = root.findtext("NextContinuationToken")
            if not token:
                return found

    def uploads(self, prefix):
        """(key, id) of unfinished uploads, of the first thousand."""
        root = tree(self.fetch("GET", "", [("uploads", ""), ("prefix", prefix)])[1])
        return [(each["Key"], each["UploadId"]) for each in rows(root, "Upload")]

    def parts(self, key, upload):
        """(number, size, ETag) of each part. None if there is no such upload."""
        answer = self.fetch("GET", key, [("uploadId", upload)])
        return answer and [(int(each["PartNumber"]), int(each["Size"]), each["ETag"].strip('"'))
                           for each in rows(tree(answer[1]), "Part")]


def tree(text):
    root = ElementTree.fromstring(text)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


def rows(root, name):
    return [{field.tag: field.text or "" for field in element} for element in root.findall(name)]
