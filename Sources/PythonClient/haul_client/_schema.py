"""Jobs and events as docs/reference/schema says. generate.py writes this file: do not edit it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Dict, FrozenSet, Literal, Mapping, Optional, Sequence, Tuple, Type, Union

#: Any value of JSON.
JSON = Any
#: A value of a query or a form.
Scalar = Union[str, int, float, bool]


@dataclass(frozen=True)
class Batch:
    """A set of jobs that are counted together."""

    name: str
    #: The final number of members.
    size: Optional[int] = None
    #: The batch's final event is pushed onto this list of replies.
    reply_to: Optional[str] = None


@dataclass(frozen=True)
class Notify:
    """A webhook that reports the end of a job."""

    #: Where the event goes.
    url: str
    #: The name of the workers' secret with which the request is signed.
    secret: str
    #: Which ends are reported; all of them by default. batch_ended only has an effect in a default.
    events: Optional[Sequence[Literal['completed', 'failed', 'cancelled', 'batch_ended']]] = None


@dataclass(frozen=True)
class File:
    """A file of an upload."""

    file: str
    name: Optional[str] = None
    filename: Optional[str] = None
    type: Optional[str] = None


@dataclass(frozen=True)
class Download:
    """A file that the workers fetch into their root."""

    kind: ClassVar[Literal["download"]] = "download"
    #: http or https, at most 8192 bytes, without spaces or control characters. The host is a name of letters, digits,
    #: - and _ between dots, an international name, an IPv4 address of four decimal numbers without leading zeros, or
    #: an IPv6 address in brackets; the port is from 1 to 65535. user:password@ before the host signs in, by Basic or
    #: Digest authentication (MD5, SHA-256), at this host and nowhere else. The last @ before the path ends the
    #: sign-in, which contains no %00. A download may also name an object of a bucket, s3://BUCKET/KEY, perhaps with
    #: ?versionId=ID after the key, which is percent-encoded; a worker reads the buckets that its operator has
    #: allowed. A job has url or urls.
    url: Optional[str] = None
    #: Mirrors of one entity, best first. With a checksum, or if each mirror sends the same Repr-Digest, all of them
    #: are used at once. Otherwise they are alternatives: when one fails, the next is tried from the start.
    urls: Optional[Sequence[str]] = None
    #: The job's identity. Without it, it is derived from the URL and the path, or from the whole element; a job with
    #: a body needs one.
    id: Optional[str] = None
    #: Where the file goes, relative to the workers' root; it ends in / for a directory. Without it the name in
    #: Content-Disposition, else the last part of the URL, with .gz, .br, .zst and so on behind it if the server sent
    #: the file compressed without being asked to.
    path: Optional[str] = None
    #: What is done if another file has the name.
    if_exists: Optional[Literal['reuse', 'overwrite', 'rename', 'fail']] = None
    #: Seconds for which a completed file, or a response, is used without asking the server.
    fresh_for: Optional[float] = None
    #: The digest of the file in hexadecimal. Without it the file is checked by the server's Repr-Digest,
    #: Content-Digest or Content-MD5, if the server sends one.
    checksum: Optional[str] = None
    #: Bytes that the file must have. A body without a known length is stopped when it exceeds them.
    size: Optional[int] = None
    #: The media type that the file must have. Parameters do not count.
    content_type: Optional[str] = None
    #: The request's method. A download may not have HEAD, since it brings no file; its GET must be answered by 200 or
    #: 203, another method by any 2xx with a body, and only a GET is fetched in parts, continued and retried. An
    #: upload has PUT, POST or PATCH. Without it a download is a GET, a request a GET or, with a body, a POST, an
    #: upload a PUT or, of files in one body, a POST.
    method: Optional[str] = None
    #: Header fields of the request: names and texts. Without a User-Agent of its own a job sends Haul/ and its
    #: version. A redirect to another origin gets none of them but User-Agent. A download may not have Range,
    #: Accept-Encoding or names that begin with If-; requests and uploads may not have Expect; no job may have Host,
    #: Content-Length, Transfer-Encoding or Connection.
    headers: Optional[Mapping[str, str]] = None
    #: The request's body, as text. A job with a body needs an id.
    body: Optional[str] = None
    #: The maximum number of connections for this file. More join only while they make it faster, and only if the
    #: entity can be recognized again: by a strong validator, a checksum or the server's digest. Without it the
    #: worker's --connections.
    connections: Optional[int] = None
    #: Bytes per second, over all of the job's connections.
    limit_rate: Optional[int] = None
    #: A larger file makes the job fail as too_large.
    max_bytes: Optional[int] = None
    #: Bytes per second, averaged over 30 seconds. A slower attempt fails as too_slow, and counts as failed however
    #: many bytes it has brought. Time in which limits of Haul or the disk slow the job does not count.
    min_speed: Optional[int] = None
    #: How many failed attempts in a row may follow the first one. An attempt that gains 64 KiB that can be continued,
    #: of a short file a sixteenth, does not count and resets the counter.
    retries: Optional[int] = None
    #: Seconds until the connection must be established.
    connect_timeout: Optional[float] = None
    #: Seconds without a byte, after which the attempt fails as stalled.
    stall_timeout: Optional[float] = None
    #: Seconds before the job may start. They count from at, or from when a worker took the push if that was earlier
    #: or at is absent.
    delay: Optional[float] = None
    #: Seconds by which the job must be done, even if it is paused, running or waiting. They count as those of delay,
    #: and after a retry by hand from the retry.
    deadline: Optional[float] = None
    #: The final event is pushed onto this list of replies.
    reply_to: Optional[str] = None
    #: The set of jobs with which this one is counted.
    batch: Optional[Union[str, Batch]] = None
    #: The group, such as a tenant, with which the job takes turns for slots: docs/guides/groups.md. All jobs without
    #: one are one more group.
    group: Optional[str] = None
    #: A webhook: a signed request that reports the job's end. false: none, even if the queue's defaults have one.
    #: docs/guides/webhooks.md says how it is sent and verified.
    notify: Optional[Union[Literal[False], Notify]] = None
    #: Jobs that are pushed when this one has completed: one, or a list of up to 8. Their texts may have ${id},
    #: ${bytes} and, after a download, ${file} and ${checksum}. docs/guides/next-steps.md has the rules.
    then: Optional[Steps] = None
    #: Jobs that are pushed when this one has failed, as for then. Their texts may have ${id} and ${error}.
    else_: Optional[Steps] = None
    #: Any JSON of at most 4096 bytes, repeated byte for byte in every event but progress. A valid traceparent in it
    #: (W3C Trace Context, version 00) is also in the workers' log lines and in the requests to the origin of the
    #: job's URL, unless headers has one.
    meta: JSON = None
    #: Unix milliseconds of the push. A push whose at is not later than the end of the job's last run is a duplicate,
    #: and so is a repeated one.
    at: Optional[int] = None


@dataclass(frozen=True)
class Request:
    """An HTTP request that a worker sends; its result has the response."""

    kind: ClassVar[Literal["request"]] = "request"
    #: http or https, at most 8192 bytes, without spaces or control characters. The host is a name of letters, digits,
    #: - and _ between dots, an international name, an IPv4 address of four decimal numbers without leading zeros, or
    #: an IPv6 address in brackets; the port is from 1 to 65535. user:password@ before the host signs in, by Basic or
    #: Digest authentication (MD5, SHA-256), at this host and nowhere else. The last @ before the path ends the
    #: sign-in, which contains no %00. A download may also name an object of a bucket, s3://BUCKET/KEY, perhaps with
    #: ?versionId=ID after the key, which is percent-encoded; a worker reads the buckets that its operator has
    #: allowed. A job has url or urls.
    url: Optional[str] = None
    #: The job's identity. Without it, it is derived from the URL and the path, or from the whole element; a job with
    #: a body needs one.
    id: Optional[str] = None
    #: Seconds for which a completed file, or a response, is used without asking the server.
    fresh_for: Optional[float] = None
    #: The request's method. A download may not have HEAD, since it brings no file; its GET must be answered by 200 or
    #: 203, another method by any 2xx with a body, and only a GET is fetched in parts, continued and retried. An
    #: upload has PUT, POST or PATCH. Without it a download is a GET, a request a GET or, with a body, a POST, an
    #: upload a PUT or, of files in one body, a POST.
    method: Optional[str] = None
    #: Header fields of the request: names and texts. Without a User-Agent of its own a job sends Haul/ and its
    #: version. A redirect to another origin gets none of them but User-Agent. A download may not have Range,
    #: Accept-Encoding or names that begin with If-; requests and uploads may not have Expect; no job may have Host,
    #: Content-Length, Transfer-Encoding or Connection.
    headers: Optional[Mapping[str, str]] = None
    #: The request's body, as text. A job with a body needs an id.
    body: Union[str, bytes, None] = None
    #: The request's body, as JSON, sent byte for byte as it is written here. It sets Content-Type, unless headers
    #: does.
    json: JSON = None
    #: The request's body, as a form: names and texts. Of an upload: further fields of the body that has the files,
    #: not with each.
    form: Optional[Mapping[str, Scalar]] = None
    #: The request's body, in base 64, for bytes that are not UTF-8. A request has at most one of body, json, form and
    #: body_base64.
    body_base64: Optional[str] = None
    #: Added to the URL's query: names and texts.
    query: Optional[Mapping[str, Scalar]] = None
    #: Statuses that count as success. Any other status makes the job fail as http_NNN, with the response.
    expect: Optional[Sequence[Union[int, str]]] = None
    #: Bytes of the response's body. A longer one makes the job fail as too_large.
    max_response: Optional[int] = None
    #: The server recognizes a repetition by its Idempotency-Key, which is set to the job's id, so the request may be
    #: sent again. With `each`, every version of every file has a key of its own.
    idempotent: Optional[bool] = None
    #: The name of the workers' secret with which the request is signed as a webhook, by Standard Webhooks. It is sent
    #: again for a day, and gets none of the queue's defaults. docs/guides/webhooks.md has the rules.
    webhook: Optional[str] = None
    #: Bytes per second, over all of the job's connections.
    limit_rate: Optional[int] = None
    #: How many failed attempts in a row may follow the first one. An attempt that gains 64 KiB that can be continued,
    #: of a short file a sixteenth, does not count and resets the counter.
    retries: Optional[int] = None
    #: Seconds until the connection must be established.
    connect_timeout: Optional[float] = None
    #: Seconds without a byte, after which the attempt fails as stalled.
    stall_timeout: Optional[float] = None
    #: Seconds before the job may start. They count from at, or from when a worker took the push if that was earlier
    #: or at is absent.
    delay: Optional[float] = None
    #: Seconds by which the job must be done, even if it is paused, running or waiting. They count as those of delay,
    #: and after a retry by hand from the retry.
    deadline: Optional[float] = None
    #: The final event is pushed onto this list of replies.
    reply_to: Optional[str] = None
    #: The set of jobs with which this one is counted.
    batch: Optional[Union[str, Batch]] = None
    #: The group, such as a tenant, with which the job takes turns for slots: docs/guides/groups.md. All jobs without
    #: one are one more group.
    group: Optional[str] = None
    #: A webhook: a signed request that reports the job's end. false: none, even if the queue's defaults have one.
    #: docs/guides/webhooks.md says how it is sent and verified.
    notify: Optional[Union[Literal[False], Notify]] = None
    #: Jobs that are pushed when this one has completed: one, or a list of up to 8. Their texts may have ${id},
    #: ${bytes} and, after a download, ${file} and ${checksum}. docs/guides/next-steps.md has the rules.
    then: Optional[Steps] = None
    #: Jobs that are pushed when this one has failed, as for then. Their texts may have ${id} and ${error}.
    else_: Optional[Steps] = None
    #: Any JSON of at most 4096 bytes, repeated byte for byte in every event but progress. A valid traceparent in it
    #: (W3C Trace Context, version 00) is also in the workers' log lines and in the requests to the origin of the
    #: job's URL, unless headers has one.
    meta: JSON = None
    #: Unix milliseconds of the push. A push whose at is not later than the end of the job's last run is a duplicate,
    #: and so is a repeated one.
    at: Optional[int] = None


@dataclass(frozen=True)
class Upload:
    """Files beneath the workers' --upload-from that a worker sends; its result has the response."""

    kind: ClassVar[Literal["upload"]] = "upload"
    #: http or https, at most 8192 bytes, without spaces or control characters. The host is a name of letters, digits,
    #: - and _ between dots, an international name, an IPv4 address of four decimal numbers without leading zeros, or
    #: an IPv6 address in brackets; the port is from 1 to 65535. user:password@ before the host signs in, by Basic or
    #: Digest authentication (MD5, SHA-256), at this host and nowhere else. The last @ before the path ends the
    #: sign-in, which contains no %00. A download may also name an object of a bucket, s3://BUCKET/KEY, perhaps with
    #: ?versionId=ID after the key, which is percent-encoded; a worker reads the buckets that its operator has
    #: allowed. A job has url or urls.
    url: Optional[str] = None
    #: The job's identity. Without it, it is derived from the URL and the path, or from the whole element; a job with
    #: a body needs one.
    id: Optional[str] = None
    #: The request's method. A download may not have HEAD, since it brings no file; its GET must be answered by 200 or
    #: 203, another method by any 2xx with a body, and only a GET is fetched in parts, continued and retried. An
    #: upload has PUT, POST or PATCH. Without it a download is a GET, a request a GET or, with a body, a POST, an
    #: upload a PUT or, of files in one body, a POST.
    method: Optional[str] = None
    #: Header fields of the request: names and texts. Without a User-Agent of its own a job sends Haul/ and its
    #: version. A redirect to another origin gets none of them but User-Agent. A download may not have Range,
    #: Accept-Encoding or names that begin with If-; requests and uploads may not have Expect; no job may have Host,
    #: Content-Length, Transfer-Encoding or Connection.
    headers: Optional[Mapping[str, str]] = None
    #: The request's body, as a form: names and texts. Of an upload: further fields of the body that has the files,
    #: not with each.
    form: Optional[Mapping[str, Scalar]] = None
    #: Added to the URL's query: names and texts.
    query: Optional[Mapping[str, Scalar]] = None
    #: Statuses that count as success. Any other status makes the job fail as http_NNN, with the response.
    expect: Optional[Sequence[Union[int, str]]] = None
    #: Bytes of the response's body. A longer one makes the job fail as too_large.
    max_response: Optional[int] = None
    #: The server recognizes a repetition by its Idempotency-Key, which is set to the job's id, so the request may be
    #: sent again. With `each`, every version of every file has a key of its own.
    idempotent: Optional[bool] = None
    #: The file beneath the workers' --upload-from that is sent as the body. If the path of url ends in /, its name is
    #: added. An upload has file or files.
    file: Optional[str] = None
    #: Several files. Together they are one body, multipart/form-data, or with each the bodies of requests of their
    #: own. Of each one name is the form field (file by default), type its media type (application/octet-stream by
    #: default) and filename the name that is sent.
    files: Optional[Sequence[Union[str, File]]] = None
    #: Each of the files is sent as the body of a separate request. By PUT their URLs must differ, because each
    #: request replaces what its URL has.
    each: Optional[bool] = None
    #: Resumable upload protocol. Only `tus`, which needs file and excludes method, expect, idempotent and
    #: content_digest; url is where uploads are created.
    protocol: Optional[Literal['tus']] = None
    #: The digest that is sent with each body, in Content-Digest (RFC 9530). The files are read once more for it.
    content_digest: Optional[Literal['sha-256', 'sha-512']] = None
    #: Bytes per second, over all of the job's connections.
    limit_rate: Optional[int] = None
    #: How many failed attempts in a row may follow the first one. An attempt that gains 64 KiB that can be continued,
    #: of a short file a sixteenth, does not count and resets the counter.
    retries: Optional[int] = None
    #: Seconds until the connection must be established.
    connect_timeout: Optional[float] = None
    #: Seconds without a byte, after which the attempt fails as stalled.
    stall_timeout: Optional[float] = None
    #: Seconds before the job may start. They count from at, or from when a worker took the push if that was earlier
    #: or at is absent.
    delay: Optional[float] = None
    #: Seconds by which the job must be done, even if it is paused, running or waiting. They count as those of delay,
    #: and after a retry by hand from the retry.
    deadline: Optional[float] = None
    #: The final event is pushed onto this list of replies.
    reply_to: Optional[str] = None
    #: The set of jobs with which this one is counted.
    batch: Optional[Union[str, Batch]] = None
    #: The group, such as a tenant, with which the job takes turns for slots: docs/guides/groups.md. All jobs without
    #: one are one more group.
    group: Optional[str] = None
    #: A webhook: a signed request that reports the job's end. false: none, even if the queue's defaults have one.
    #: docs/guides/webhooks.md says how it is sent and verified.
    notify: Optional[Union[Literal[False], Notify]] = None
    #: Jobs that are pushed when this one has completed: one, or a list of up to 8. Their texts may have ${id},
    #: ${bytes} and, after a download, ${file} and ${checksum}. docs/guides/next-steps.md has the rules.
    then: Optional[Steps] = None
    #: Jobs that are pushed when this one has failed, as for then. Their texts may have ${id} and ${error}.
    else_: Optional[Steps] = None
    #: Any JSON of at most 4096 bytes, repeated byte for byte in every event but progress. A valid traceparent in it
    #: (W3C Trace Context, version 00) is also in the workers' log lines and in the requests to the origin of the
    #: job's URL, unless headers has one.
    meta: JSON = None
    #: Unix milliseconds of the push. A push whose at is not later than the end of the job's last run is a duplicate,
    #: and so is a repeated one.
    at: Optional[int] = None


Job = Union[Download, Request, Upload]

#: Jobs that follow another one. A mapping has the names of the contract.
Step = Union[Job, Mapping[str, Any]]
Steps = Union[Step, Sequence[Step]]

#: The fields of each kind of job.
FIELDS: Dict[str, FrozenSet[str]] = {
    "download": frozenset(
        {
            'url', 'urls', 'id', 'path', 'if_exists', 'fresh_for', 'checksum', 'size', 'content_type', 'method',
            'headers', 'body', 'connections', 'limit_rate', 'max_bytes', 'min_speed', 'retries', 'connect_timeout',
            'stall_timeout', 'delay', 'deadline', 'reply_to', 'batch', 'group', 'notify', 'then', 'else', 'meta',
            'at',
        }
    ),
    "request": frozenset(
        {
            'url', 'id', 'fresh_for', 'method', 'headers', 'body', 'json', 'form', 'body_base64', 'query', 'expect',
            'max_response', 'idempotent', 'webhook', 'limit_rate', 'retries', 'connect_timeout', 'stall_timeout',
            'delay', 'deadline', 'reply_to', 'batch', 'group', 'notify', 'then', 'else', 'meta', 'at',
        }
    ),
    "upload": frozenset(
        {
            'url', 'id', 'method', 'headers', 'form', 'query', 'expect', 'max_response', 'idempotent', 'file',
            'files', 'each', 'protocol', 'content_digest', 'limit_rate', 'retries', 'connect_timeout',
            'stall_timeout', 'delay', 'deadline', 'reply_to', 'batch', 'group', 'notify', 'then', 'else', 'meta',
            'at',
        }
    ),
}

#: What each field must be, as a JSON Schema without annotations, and in words.
RULES: Dict[str, Tuple[Dict[str, Any], str]] = {
    'url': (
        {'type': 'string',
         'pattern': '^(?:[Hh][Tt][Tt][Pp][Ss]?://(?![/?#])(?![^/?#]*@(?:[/?#]|$))[^\\u0000-\\u0020\\u007f]+|s3://[A-Za-z0-9][A-Za-z0-9._-]{2,62}/[^\\u0000-\\u0020\\u007f?#]+(?:[?]versionId=[^\\u0000-\\u0020\\u007f?#&]+)?)$(?!\\n)'},
        'must be an http or https URL with a valid host name, without spaces or control characters',
    ),
    'urls': (
        {'type': 'array',
         'minItems': 1,
         'maxItems': 16,
         'items': {'type': 'string',
                   'pattern': '^(?:[Hh][Tt][Tt][Pp][Ss]?://(?![/?#])(?![^/?#]*@(?:[/?#]|$))[^\\u0000-\\u0020\\u007f]+|s3://[A-Za-z0-9][A-Za-z0-9._-]{2,62}/[^\\u0000-\\u0020\\u007f?#]+(?:[?]versionId=[^\\u0000-\\u0020\\u007f?#&]+)?)$(?!\\n)'}},
        'must be a list of 1 to 16 http or https URLs',
    ),
    'id': (
        {'type': 'string', 'pattern': '^[A-Za-z0-9._:-]{1,128}$(?!\\n)'},
        'must be 1 to 128 of the characters A-Z a-z 0-9 . _ : -',
    ),
    'path': (
        {'type': 'string',
         'minLength': 1,
         'maxLength': 4096,
         'pattern': '^(?!/)(?!(?:.*/)?\\.{1,2}(?:/|$))(?!(?:.*/)?\\.[hH][aA][uU][lL])(?!.*[^/]{256})[^\\u0000-\\u001f\\u007f]+$(?!\\n)'},
        'must be relative, of at most 4096 bytes, without control characters; no part may be . or .., begin with .haul, or have more than 255 bytes',
    ),
    'if_exists': (
        {'enum': ['reuse', 'overwrite', 'rename', 'fail'], 'default': 'reuse'},
        'must be reuse or overwrite or rename or fail',
    ),
    'fresh_for': (
        {'type': 'number', 'minimum': 0, 'maximum': 10000000000, 'default': 0},
        'must be a number of seconds from 0 to 10000000000',
    ),
    'checksum': (
        {'type': 'string',
         'pattern': '^(?:sha256:[0-9A-Fa-f]{64}|sha512:[0-9A-Fa-f]{128}|sha1:[0-9A-Fa-f]{40}|md5:[0-9A-Fa-f]{32})$(?!\\n)'},
        'must be sha256:, sha512:, sha1: or md5:, followed by the digest in hexadecimal digits',
    ),
    'size': (
        {'type': 'integer', 'minimum': 0, 'maximum': 9007199254740991},
        'must be a whole number from 0 to 9007199254740991',
    ),
    'content_type': (
        {'type': 'string',
         'maxLength': 255,
         'pattern': "^[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+[ "
                    '\\t]*(?:;[^\\u0000-\\u001f\\u007f]*)?$(?!\\n)'},
        'must be a media type, type/subtype, of at most 255 bytes',
    ),
    'method': (
        {'type': 'string', 'pattern': '^[A-Z]{1,20}$(?!\\n)'},
        'must be a method in capital letters: for a download not HEAD, for an upload PUT, POST or PATCH',
    ),
    'headers': (
        {'anyOf': [{'type': 'object',
                    'maxProperties': 256,
                    'additionalProperties': {'type': 'string', 'pattern': '^[^\\u0000\\n\\r]*$(?!\\n)'},
                    'propertyNames': {'pattern': '^[!-9;-~]+$(?!\\n)'}},
                   {'type': 'array', 'maxItems': 0, 'items': {}}]},
        'must be an object of at most 256 header names and texts, without the headers that the worker sets',
    ),
    'body': (
        {'type': 'string', 'maxLength': 16384},
        'must be a text',
    ),
    'json': (
        {},
        'must be JSON',
    ),
    'form': (
        {'anyOf': [{'type': 'object',
                    'maxProperties': 256,
                    'additionalProperties': {'type': ['string', 'number', 'boolean']}},
                   {'type': 'array', 'maxItems': 0, 'items': {}}]},
        'must be an object of at most 256 names and texts, numbers, true or false',
    ),
    'body_base64': (
        {'type': 'string',
         'pattern': '^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$(?!\\n)'},
        'must be base 64 of the standard alphabet, with its padding',
    ),
    'query': (
        {'anyOf': [{'type': 'object',
                    'maxProperties': 256,
                    'additionalProperties': {'type': ['string', 'number', 'boolean']}},
                   {'type': 'array', 'maxItems': 0, 'items': {}}]},
        'must be an object of at most 256 names and texts, numbers, true or false',
    ),
    'expect': (
        {'type': 'array',
         'minItems': 1,
         'maxItems': 16,
         'items': {'anyOf': [{'type': 'integer', 'minimum': 100, 'maximum': 599},
                             {'type': 'string', 'pattern': '^[1-5][0-9]{2}-[1-5][0-9]{2}$(?!\\n)'}]},
         'default': ['200-299']},
        'must be a list of 1 to 16 statuses from 100 to 599, or ranges of them like "200-299"',
    ),
    'max_response': (
        {'type': 'integer', 'minimum': 0, 'maximum': 1048576, 'default': 65536},
        'must be a whole number from 0 to 1048576',
    ),
    'idempotent': (
        {'type': 'boolean', 'default': False},
        'must be true or false',
    ),
    'webhook': (
        {'type': 'string', 'pattern': '^[A-Za-z0-9._:-]{1,128}$(?!\\n)'},
        'must be the name of a secret: 1 to 128 of the characters A-Z a-z 0-9 . _ : -',
    ),
    'file': (
        {'type': 'string',
         'minLength': 1,
         'maxLength': 4096,
         'pattern': '^(?!/)(?!.*/$)(?!(?:.*/)?\\.{1,2}(?:/|$))(?!(?:.*/)?\\.[hH][aA][uU][lL])(?!.*[^/]{256})[^\\u0000-\\u001f\\u007f]+$(?!\\n)'},
        'must be the path of a file, as for path, without / at its end',
    ),
    'files': (
        {'type': 'array',
         'minItems': 1,
         'maxItems': 64,
         'items': {'type': 'object',
                   'required': ['file'],
                   'properties': {'file': {'type': 'string',
                                           'minLength': 1,
                                           'maxLength': 4096,
                                           'pattern': '^(?!/)(?!.*/$)(?!(?:.*/)?\\.{1,2}(?:/|$))(?!(?:.*/)?\\.[hH][aA][uU][lL])(?!.*[^/]{256})[^\\u0000-\\u001f\\u007f]+$(?!\\n)'},
                                  'name': {'type': 'string',
                                           'minLength': 1,
                                           'maxLength': 255,
                                           'pattern': '^[^\\u0000-\\u001f\\u007f]+$(?!\\n)'},
                                  'filename': {'type': 'string',
                                               'minLength': 1,
                                               'maxLength': 255,
                                               'pattern': '^[^\\u0000-\\u001f\\u007f]+$(?!\\n)'},
                                  'type': {'type': 'string',
                                           'maxLength': 255,
                                           'pattern': "^[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+[ "
                                                      '\\t]*(?:;[^\\u0000-\\u001f\\u007f]*)?$(?!\\n)'}},
                   'additionalProperties': False}},
        'must be a list of 1 to 64 objects with file, and perhaps name, type and filename',
    ),
    'each': (
        {'type': 'boolean', 'default': False},
        'must be true or false',
    ),
    'protocol': (
        {'enum': ['tus']},
        'must be tus',
    ),
    'content_digest': (
        {'enum': ['sha-256', 'sha-512']},
        'must be sha-256 or sha-512',
    ),
    'connections': (
        {'type': 'integer', 'minimum': 1, 'maximum': 16},
        'must be a whole number from 1 to 16',
    ),
    'limit_rate': (
        {'type': 'integer', 'minimum': 1, 'maximum': 9007199254740991},
        'must be a whole number from 1 to 9007199254740991',
    ),
    'max_bytes': (
        {'type': 'integer', 'minimum': 0, 'maximum': 9007199254740991},
        'must be a whole number from 0 to 9007199254740991',
    ),
    'min_speed': (
        {'type': 'integer', 'minimum': 0, 'maximum': 9007199254740991},
        'must be a whole number from 0 to 9007199254740991',
    ),
    'retries': (
        {'type': 'integer', 'minimum': 0, 'maximum': 1000, 'default': 5},
        'must be a whole number from 0 to 1000',
    ),
    'connect_timeout': (
        {'type': 'number', 'minimum': 0.1, 'maximum': 86400, 'default': 15},
        'must be a number of seconds from 0.1 to 86400',
    ),
    'stall_timeout': (
        {'type': 'number', 'minimum': 0.1, 'maximum': 86400, 'default': 60},
        'must be a number of seconds from 0.1 to 86400',
    ),
    'delay': (
        {'type': 'number', 'minimum': 0, 'maximum': 10000000000},
        'must be a number of seconds from 0 to 10000000000',
    ),
    'deadline': (
        {'type': 'number', 'minimum': 0, 'maximum': 10000000000},
        'must be a number of seconds from 0 to 10000000000',
    ),
    'reply_to': (
        {'type': 'string', 'pattern': '^[A-Za-z0-9._:-]{1,128}$(?!\\n)'},
        'must be 1 to 128 of the characters A-Z a-z 0-9 . _ : -',
    ),
    'batch': (
        {'anyOf': [{'type': 'string', 'pattern': '^[A-Za-z0-9._:-]{1,128}$(?!\\n)'},
                   {'type': 'object',
                    'required': ['name'],
                    'additionalProperties': False,
                    'properties': {'name': {'type': 'string', 'pattern': '^[A-Za-z0-9._:-]{1,128}$(?!\\n)'},
                                   'size': {'type': 'integer', 'minimum': 1, 'maximum': 100000},
                                   'reply_to': {'type': 'string', 'pattern': '^[A-Za-z0-9._:-]{1,128}$(?!\\n)'}}}]},
        'must be 1 to 128 of the characters A-Z a-z 0-9 . _ : -, or an object of a name, and perhaps size (from 1 to 100000) and reply_to',
    ),
    'group': (
        {'type': 'string', 'pattern': '^[A-Za-z0-9._:-]{1,128}$(?!\\n)'},
        'must be 1 to 128 of the characters A-Z a-z 0-9 . _ : -',
    ),
    'notify': (
        {'anyOf': [{'const': False},
                   {'type': 'object',
                    'required': ['url', 'secret'],
                    'additionalProperties': False,
                    'properties': {'url': {'type': 'string',
                                           'pattern': '^[Hh][Tt][Tt][Pp][Ss]?://(?![/?#])(?![^/?#]*@(?:[/?#]|$))[^\\u0000-\\u0020\\u007f]+$(?!\\n)'},
                                   'secret': {'type': 'string', 'pattern': '^[A-Za-z0-9._:-]{1,128}$(?!\\n)'},
                                   'events': {'type': 'array',
                                              'minItems': 1,
                                              'maxItems': 4,
                                              'items': {'enum': ['completed',
                                                                 'failed',
                                                                 'cancelled',
                                                                 'batch_ended']}}}}]},
        'must be False, or an object of url (at most 2048 bytes), secret (a name) and perhaps events (a list of completed, failed, cancelled, batch_ended)',
    ),
    'then': (
        {'anyOf': [{'type': 'object', 'minProperties': 1},
                   {'type': 'array',
                    'minItems': 1,
                    'maxItems': 8,
                    'items': {'type': 'object', 'minProperties': 1}}]},
        'must be a job, or a list of 1 to 8 jobs',
    ),
    'else': (
        {'anyOf': [{'type': 'object', 'minProperties': 1},
                   {'type': 'array',
                    'minItems': 1,
                    'maxItems': 8,
                    'items': {'type': 'object', 'minProperties': 1}}]},
        'must be a job, or a list of 1 to 8 jobs',
    ),
    'meta': (
        {},
        'must be at most 4096 bytes of JSON',
    ),
    'at': (
        {'type': 'integer', 'minimum': 1000000000000, 'maximum': 99999999999999},
        'must be unix milliseconds like 1763712000000, not seconds, microseconds or nanoseconds',
    ),
}

#: The names that headers of each kind of job may have.
HEADER_NAMES: Dict[str, str] = {'download': '^(?!(?:[Rr][Aa][Nn][Gg][Ee]|[Aa][Cc][Cc][Ee][Pp][Tt]-[Ee][Nn][Cc][Oo][Dd][Ii][Nn][Gg]|[Hh][Oo][Ss][Tt]|[Cc][Oo][Nn][Tt][Ee][Nn][Tt]-[Ll][Ee][Nn][Gg][Tt][Hh]|[Tt][Rr][Aa][Nn][Ss][Ff][Ee][Rr]-[Ee][Nn][Cc][Oo][Dd][Ii][Nn][Gg]|[Cc][Oo][Nn][Nn][Ee][Cc][Tt][Ii][Oo][Nn])$)(?![Ii][Ff]-)[!-9;-~]+$(?!\\n)',
 'request': '^(?!(?:[Hh][Oo][Ss][Tt]|[Cc][Oo][Nn][Tt][Ee][Nn][Tt]-[Ll][Ee][Nn][Gg][Tt][Hh]|[Tt][Rr][Aa][Nn][Ss][Ff][Ee][Rr]-[Ee][Nn][Cc][Oo][Dd][Ii][Nn][Gg]|[Cc][Oo][Nn][Nn][Ee][Cc][Tt][Ii][Oo][Nn]|[Ee][Xx][Pp][Ee][Cc][Tt])$)',
 'upload': '^(?!(?:[Hh][Oo][Ss][Tt]|[Cc][Oo][Nn][Tt][Ee][Nn][Tt]-[Ll][Ee][Nn][Gg][Tt][Hh]|[Tt][Rr][Aa][Nn][Ss][Ff][Ee][Rr]-[Ee][Nn][Cc][Oo][Dd][Ii][Nn][Gg]|[Cc][Oo][Nn][Nn][Ee][Cc][Tt][Ii][Oo][Nn]|[Ee][Xx][Pp][Ee][Cc][Tt])$)'}


@dataclass(frozen=True)
class StartedEvent:
    """A run has its first response from the server."""

    event: ClassVar[Literal["started"]] = "started"
    #: The job's id; `unknown` if a rejected element has no valid one.
    id: str
    #: The queue's name, or that of its partition.
    queue: str
    #: Grows when data may have been lost.
    epoch: int
    #: Grows with every event of the job.
    seq: int
    #: Unix milliseconds by Redis' clock.
    at: int
    #: 1 for the first.
    attempt: int
    #: Whether a pause or a lost worker keeps the bytes.
    resumable: bool
    #: The worker that published it.
    worker: Optional[str] = None
    #: The job's `meta`.
    meta: JSON = None
    #: Bytes of the whole file. Absent if the server did not send the length.
    total: Optional[int] = None


@dataclass(frozen=True)
class ResumedEvent:
    """A run continues from existing bytes."""

    event: ClassVar[Literal["resumed"]] = "resumed"
    #: The job's id; `unknown` if a rejected element has no valid one.
    id: str
    #: The queue's name, or that of its partition.
    queue: str
    #: Grows when data may have been lost.
    epoch: int
    #: Grows with every event of the job.
    seq: int
    #: Unix milliseconds by Redis' clock.
    at: int
    #: Existing bytes.
    offset: int
    #: The worker that published it.
    worker: Optional[str] = None
    #: The job's `meta`.
    meta: JSON = None
    #: Bytes of the whole file. Absent if the server did not send the length.
    total: Optional[int] = None


@dataclass(frozen=True)
class ProgressEvent:
    """Once a second while bytes arrive."""

    event: ClassVar[Literal["progress"]] = "progress"
    #: The job's id; `unknown` if a rejected element has no valid one.
    id: str
    #: The queue's name, or that of its partition.
    queue: str
    #: Grows when data may have been lost.
    epoch: int
    #: Grows with every event of the job.
    seq: int
    #: Unix milliseconds by Redis' clock.
    at: int
    #: Received bytes; of an upload, sent bytes.
    received: int
    #: Bytes per second over the last 5 seconds.
    speed: int
    #: Bytes per second of this attempt, without resumed bytes.
    average: int
    #: Connections that fetch the file.
    connections: int
    #: The worker that published it.
    worker: Optional[str] = None
    #: The job's `meta`.
    meta: JSON = None
    #: Bytes of the whole file. Absent if the server did not send the length.
    total: Optional[int] = None
    #: received / total.
    fraction: Optional[float] = None
    #: Seconds left at this speed.
    eta: Optional[float] = None


@dataclass(frozen=True)
class RestartedEvent:
    """The bytes so far were dropped."""

    event: ClassVar[Literal["restarted"]] = "restarted"
    #: The job's id; `unknown` if a rejected element has no valid one.
    id: str
    #: The queue's name, or that of its partition.
    queue: str
    #: Grows when data may have been lost.
    epoch: int
    #: Grows with every event of the job.
    seq: int
    #: Unix milliseconds by Redis' clock.
    at: int
    #: Why, in words.
    why: str
    #: The worker that published it.
    worker: Optional[str] = None
    #: The job's `meta`.
    meta: JSON = None


@dataclass(frozen=True)
class WaitingEvent:
    """The job waits for a disk, an object store, its host or its gate."""

    event: ClassVar[Literal["waiting"]] = "waiting"
    #: The job's id; `unknown` if a rejected element has no valid one.
    id: str
    #: The queue's name, or that of its partition.
    queue: str
    #: Grows when data may have been lost.
    epoch: int
    #: Grows with every event of the job.
    seq: int
    #: Unix milliseconds by Redis' clock.
    at: int
    why: str
    #: The worker that published it.
    worker: Optional[str] = None
    #: The job's `meta`.
    meta: JSON = None


@dataclass(frozen=True)
class RetryingEvent:
    """An attempt failed. Another one follows."""

    event: ClassVar[Literal["retrying"]] = "retrying"
    #: The job's id; `unknown` if a rejected element has no valid one.
    id: str
    #: The queue's name, or that of its partition.
    queue: str
    #: Grows when data may have been lost.
    epoch: int
    #: Grows with every event of the job.
    seq: int
    #: Unix milliseconds by Redis' clock.
    at: int
    error: str
    #: A sentence for a person.
    message: str
    #: Seconds until the next attempt.
    delay: float
    #: The worker that published it.
    worker: Optional[str] = None
    #: The job's `meta`.
    meta: JSON = None


@dataclass(frozen=True)
class QueuedEvent:
    """A delay or a wait has ended."""

    event: ClassVar[Literal["queued"]] = "queued"
    #: The job's id; `unknown` if a rejected element has no valid one.
    id: str
    #: The queue's name, or that of its partition.
    queue: str
    #: Grows when data may have been lost.
    epoch: int
    #: Grows with every event of the job.
    seq: int
    #: Unix milliseconds by Redis' clock.
    at: int
    #: The worker that published it.
    worker: Optional[str] = None
    #: The job's `meta`.
    meta: JSON = None


@dataclass(frozen=True)
class RequeuedEvent:
    """The job returned to the queue."""

    event: ClassVar[Literal["requeued"]] = "requeued"
    #: The job's id; `unknown` if a rejected element has no valid one.
    id: str
    #: The queue's name, or that of its partition.
    queue: str
    #: Grows when data may have been lost.
    epoch: int
    #: Grows with every event of the job.
    seq: int
    #: Unix milliseconds by Redis' clock.
    at: int
    why: str
    #: The worker that published it.
    worker: Optional[str] = None
    #: The job's `meta`.
    meta: JSON = None


@dataclass(frozen=True)
class PausedEvent:
    """A control operation paused the job."""

    event: ClassVar[Literal["paused"]] = "paused"
    #: The job's id; `unknown` if a rejected element has no valid one.
    id: str
    #: The queue's name, or that of its partition.
    queue: str
    #: Grows when data may have been lost.
    epoch: int
    #: Grows with every event of the job.
    seq: int
    #: Unix milliseconds by Redis' clock.
    at: int
    #: The worker that published it.
    worker: Optional[str] = None
    #: The job's `meta`.
    meta: JSON = None


@dataclass(frozen=True)
class CancelledEvent:
    """A control operation cancelled the job."""

    event: ClassVar[Literal["cancelled"]] = "cancelled"
    #: The job's id; `unknown` if a rejected element has no valid one.
    id: str
    #: The queue's name, or that of its partition.
    queue: str
    #: Grows when data may have been lost.
    epoch: int
    #: Grows with every event of the job.
    seq: int
    #: Unix milliseconds by Redis' clock.
    at: int
    #: The worker that published it.
    worker: Optional[str] = None
    #: The job's `meta`.
    meta: JSON = None


@dataclass(frozen=True)
class CompletedEvent:
    """The file is complete, or the response was received."""

    event: ClassVar[Literal["completed"]] = "completed"
    #: The job's id; `unknown` if a rejected element has no valid one.
    id: str
    #: The queue's name, or that of its partition.
    queue: str
    #: Grows when data may have been lost.
    epoch: int
    #: Grows with every event of the job.
    seq: int
    #: Unix milliseconds by Redis' clock.
    at: int
    #: The size of the file, or of the response's body; of an upload, that of the files.
    bytes: int
    #: How long the run took.
    seconds: float
    #: The worker that published it.
    worker: Optional[str] = None
    #: The job's `meta`.
    meta: JSON = None
    #: Relative to the workers' root.
    file: Optional[str] = None
    #: The digest that the file was checked against.
    checksum: Optional[str] = None
    #: The ETag of the file, or of the response.
    etag: Optional[str] = None
    #: The existing file, or response, was still valid.
    unchanged: Optional[bool] = None
    #: Too few replicas have confirmed the completion.
    unreplicated: Optional[bool] = None
    #: The status of a server's response to a request or an upload.
    status: Optional[int] = None
    #: Its header fields: names in lower case, and texts.
    headers: Optional[Mapping[str, str]] = None
    #: Its body, if it is UTF-8 without zero bytes.
    body: Optional[str] = None
    #: Its body in base 64, if it is not UTF-8 or has zero bytes.
    body_base64: Optional[str] = None
    #: The header fields and the body are no longer kept.
    response_dropped: Optional[bool] = None
    #: Of an upload in several requests: the result for each file.
    files: Optional[Sequence[Mapping[str, JSON]]] = None


@dataclass(frozen=True)
class FailedEvent:
    """The job ended with an error."""

    event: ClassVar[Literal["failed"]] = "failed"
    #: The job's id; `unknown` if a rejected element has no valid one.
    id: str
    #: The queue's name, or that of its partition.
    queue: str
    #: Grows when data may have been lost.
    epoch: int
    #: Grows with every event of the job.
    seq: int
    #: Unix milliseconds by Redis' clock.
    at: int
    error: str
    #: A sentence for a person.
    message: str
    #: Whether the same job may succeed later.
    retryable: bool
    #: The worker that published it.
    worker: Optional[str] = None
    #: The job's `meta`.
    meta: JSON = None
    #: Received bytes; of an upload, sent bytes.
    received: Optional[int] = None
    #: The status of a server's response to a request or an upload.
    status: Optional[int] = None
    #: Its header fields: names in lower case, and texts.
    headers: Optional[Mapping[str, str]] = None
    #: Its body, if it is UTF-8 without zero bytes.
    body: Optional[str] = None
    #: Its body in base 64, if it is not UTF-8 or has zero bytes.
    body_base64: Optional[str] = None
    #: The header fields and the body are no longer kept.
    response_dropped: Optional[bool] = None
    #: Of an upload in several requests: the result for each file.
    files: Optional[Sequence[Mapping[str, JSON]]] = None


@dataclass(frozen=True)
class DuplicateEvent:
    """A push started nothing, because the job is known."""

    event: ClassVar[Literal["duplicate"]] = "duplicate"
    #: The job's id; `unknown` if a rejected element has no valid one.
    id: str
    #: The queue's name, or that of its partition.
    queue: str
    #: Grows when data may have been lost.
    epoch: int
    #: Grows with every event of the job.
    seq: int
    #: Unix milliseconds by Redis' clock.
    at: int
    state: str
    #: The reason, from the table in docs/reference/events.md.
    reason: str
    #: The worker that published it.
    worker: Optional[str] = None
    #: The job's `meta`.
    meta: JSON = None
    #: The push's `at`.
    made: Optional[int] = None
    #: The time that the push's `at` would have to exceed.
    since: Optional[int] = None


@dataclass(frozen=True)
class WarningEvent:
    """Something that the job's producer or an operator should know."""

    event: ClassVar[Literal["warning"]] = "warning"
    #: The job's id; `unknown` if a rejected element has no valid one.
    id: str
    #: The queue's name, or that of its partition.
    queue: str
    #: Grows when data may have been lost.
    epoch: int
    #: Grows with every event of the job.
    seq: int
    #: Unix milliseconds by Redis' clock.
    at: int
    #: A sentence for a person.
    message: str
    #: The worker that published it.
    worker: Optional[str] = None
    #: The job's `meta`.
    meta: JSON = None


@dataclass(frozen=True)
class RejectedEvent:
    """An element was not a valid job."""

    event: ClassVar[Literal["rejected"]] = "rejected"
    #: The job's id; `unknown` if a rejected element has no valid one.
    id: str
    #: The queue's name, or that of its partition.
    queue: str
    #: Unix milliseconds by Redis' clock.
    at: int
    #: The reason, which begins with the field's name.
    reason: str
    #: Grows when data may have been lost.
    epoch: Optional[int] = None
    #: Grows with every event of the job.
    seq: Optional[int] = None
    #: The worker that published it.
    worker: Optional[str] = None
    #: The job's `meta`.
    meta: JSON = None


@dataclass(frozen=True)
class BatchEndedEvent:
    """All members of a batch have ended."""

    event: ClassVar[Literal["batch_ended"]] = "batch_ended"
    #: The queue's name, or that of its partition.
    queue: str
    #: Grows when data may have been lost.
    epoch: int
    #: Grows with every event of the job.
    seq: int
    #: Unix milliseconds by Redis' clock.
    at: int
    #: The batch's name.
    batch: str
    #: How often the batch has ended.
    round: int
    #: The number of members that its pushes announced.
    size: int
    #: Members that are completed.
    completed: int
    #: Members that have failed.
    failed: int
    #: Members that were cancelled.
    cancelled: int
    #: Elements that were not valid jobs.
    rejected: int
    #: The job's id; `unknown` if a rejected element has no valid one.
    id: Optional[str] = None
    #: The worker that published it.
    worker: Optional[str] = None
    #: The job's `meta`.
    meta: JSON = None


Event = Union[
    StartedEvent,
    ResumedEvent,
    ProgressEvent,
    RestartedEvent,
    WaitingEvent,
    RetryingEvent,
    QueuedEvent,
    RequeuedEvent,
    PausedEvent,
    CancelledEvent,
    CompletedEvent,
    FailedEvent,
    DuplicateEvent,
    WarningEvent,
    RejectedEvent,
    BatchEndedEvent,
]

#: The class of each kind of event.
EVENTS: Dict[str, Type[Event]] = {
    "started": StartedEvent,
    "resumed": ResumedEvent,
    "progress": ProgressEvent,
    "restarted": RestartedEvent,
    "waiting": WaitingEvent,
    "retrying": RetryingEvent,
    "queued": QueuedEvent,
    "requeued": RequeuedEvent,
    "paused": PausedEvent,
    "cancelled": CancelledEvent,
    "completed": CompletedEvent,
    "failed": FailedEvent,
    "duplicate": DuplicateEvent,
    "warning": WarningEvent,
    "rejected": RejectedEvent,
    "batch_ended": BatchEndedEvent,
}
