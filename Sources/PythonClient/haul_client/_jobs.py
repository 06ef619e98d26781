"""Jobs as elements of the list: written, checked, and with their ids."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import ipaddress
import json
import re
from typing import Any, Dict, Mapping, NamedTuple, Optional

from . import _contract as contract
from ._errors import InvalidJob
from ._schema import FIELDS, HEADER_NAMES, RULES, Batch, Download, File, Job, Notify, Request, Upload


class Element(NamedTuple):
    """A checked job, ready to be pushed."""

    id: str
    #: Unix ms. None if the job has none yet.
    at: Optional[int]
    fields: Dict[str, Any]

    def made(self, at: int) -> Element:
        """The same element with its id and `at` in front, so that even the beginning of a rejected one shows them."""
        fields = {"id": self.id, "at": at, **{k: v for k, v in self.fields.items() if k not in ("id", "at")}}
        return Element(self.id, at, fields)

    @property
    def place(self) -> str:
        """The name that leads to the job's partition: members of a batch are together."""
        batch = self.fields.get("batch")
        return str(batch["name"] if isinstance(batch, dict) else batch or self.id)

    @property
    def text(self) -> str:
        return checked_text(self.fields)


def element(job: Job, reply_to: Optional[str] = None) -> Element:
    """Writes and checks a job. Raises InvalidJob with the name of the field, as a worker would reject it."""
    fields = written(job)
    if reply_to is not None:
        fields.setdefault("reply_to", reply_to)
    check(fields)
    # A job without an `at` gets one later, which must not change its id.
    id = fields.get("id") or derived_id(fields)
    return Element(id, fields.get("at"), fields)


def scheduled(job: Job, name: str, reply_to: Optional[str] = None) -> Dict[str, Any]:
    """The job of a schedule, checked with the id that a run may have. Raises InvalidJob as `element` does."""
    fields = written(job)
    for own in ("id", "at"):
        if own in fields:
            raise InvalidJob(own, "is made for each run, so the job of a schedule must not have it")
    if reply_to is not None:
        fields.setdefault("reply_to", reply_to)
    check({"id": name, **fields})
    return fields


def written(job: Job) -> Dict[str, Any]:
    fields: Dict[str, Any] = {}
    if job.kind != "download":
        fields["kind"] = job.kind
    for field in dataclasses.fields(job):
        value = getattr(job, field.name)
        if value is None:
            continue
        if field.name == "body" and isinstance(value, (bytes, bytearray)):
            fields["body_base64"] = base64.b64encode(value).decode()
        elif isinstance(value, (Batch, Notify)):
            fields[field.name] = {k: v for k, v in dataclasses.asdict(value).items() if v is not None}
        elif field.name == "files" and isinstance(value, (list, tuple)):
            fields[field.name] = [_file(each) for each in value]
        elif field.name in ("then", "else_"):
            steps = [_step(each) for each in (value if isinstance(value, (list, tuple)) else [value])]
            fields[field.name.rstrip("_")] = steps[0] if len(steps) == 1 else steps
        elif isinstance(value, tuple):
            fields[field.name] = list(value)
        elif isinstance(value, Mapping):
            fields[field.name] = dict(value)
        else:
            fields[field.name] = value
    return fields


def _file(value: Any) -> Any:
    if isinstance(value, File):
        return {name: each for name, each in dataclasses.asdict(value).items() if each is not None}
    return {"file": value} if isinstance(value, str) else value


def _step(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return written(value) if isinstance(value, (Download, Request, Upload)) else value


def derived_id(fields: Dict[str, Any], text: Optional[str] = None) -> str:
    """The id of a job that names none: docs/reference/bus.md, "Default ids". `text` is the element, if it was pushed."""
    if any(name in fields for name in ("method", "headers", "urls")) or fields.get("kind", "download") != "download":
        text = text or to_json(fields)
    else:
        text = fields["url"] + "\n" + fields.get("path", "")
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:16]


def masked_url(url: str) -> str:
    """A URL as jobs' hashes have it."""
    address, query, _ = url.partition("#")[0].partition("?")
    scheme, separator, rest = address.partition("://")
    authority, slash, path = rest.partition("/")
    return scheme + separator + authority.rpartition("@")[2] + slash + path + ("?[masked]" if query else "")


def url_digest(url: str) -> str:
    """The digest by which a URL is found. It is also the id of a download that has nothing but this URL."""
    return hashlib.sha1((url + "\n").encode(), usedforsecurity=False).hexdigest()[:16]


def to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def check(fields: Dict[str, Any]) -> None:
    """Checks a job as a worker does. Of unknown fields only limits are an error; the classes of jobs have none."""
    kind = fields.get("kind", "download")
    if kind not in FIELDS:
        raise InvalidJob("kind", "must be " + " or ".join(FIELDS))
    checked_text(fields)
    for name, (schema, rule) in RULES.items():  # In the order of the contract.
        if name not in fields:
            continue
        if name not in FIELDS[kind]:
            raise InvalidJob(name, f"is not a field of {'an' if kind == 'upload' else 'a'} {kind}")
        if not _fits(fields[name], schema) or not _more(name, fields[name], kind):
            raise InvalidJob(name, rule + _shown(name, fields[name]))
    for name in sorted(fields):
        if is_unknown_limit(name):
            raise InvalidJob(name, "is not known to this version, and limits (max_, min_, limit_) are not ignored")
    if "url" not in fields and "urls" not in fields:
        raise InvalidJob("url", "is missing")
    for name in STEP_NAMES:
        _check_steps(name, fields.get(name, []), kind)
    if kind == "upload":
        _check_upload(fields)
    else:
        bodies = sum(name in fields for name in ("body", "json", "form", "body_base64"))
        if bodies > 1:
            raise InvalidJob("body", "must be the only one of body, json, form and body_base64")
        if bodies and "id" not in fields:
            raise InvalidJob("id", "is required with a body")


#: What steps may refer to, each with a value for checks.
STEP_NAMES = {
    "then": {"id": "id", "file": "file", "bytes": "1", "checksum": "sha256:" + "0" * 64},
    "else": {"id": "id", "error": "connect"},
}


def _check_steps(name: str, steps: Any, kind: str) -> None:
    """Checks steps as they would be with examples of the results."""
    values = {
        each: value for each, value in STEP_NAMES[name].items() if kind == "download" or each not in ("file", "checksum")
    }
    many = isinstance(steps, (list, tuple))
    for number, step in enumerate(steps if many else [steps], 1):
        location = f"number {number}: " if many and len(steps) > 1 else ""
        try:
            filled = {each: value if each in STEP_NAMES else _filled(each, value, values) for each, value in step.items()}
            if "at" in step:
                raise InvalidJob("at", "is not a field of a step")
            check({"id": "id", **filled})
        except InvalidJob as error:
            raise InvalidJob(name, f"{location}{error.field or 'element'}: {error.reason}") from None


def _filled(field: str, value: Any, values: Mapping[str, str]) -> Any:
    def replace(found: re.Match[str]) -> str:
        if found.group(1) not in values:
            known = ", ".join(sorted(values))
            raise InvalidJob(field, f"has {found.group()}, and a step may only refer to {known} here")
        return values[found.group(1)]

    # checked_text() has written the value before.
    return json.loads(re.sub(r"\$\{([a-z_]+)\}", replace, to_json(value)))


def is_unknown_limit(name: str) -> bool:
    return name not in RULES and name.startswith(("limit_", "max_", "min_"))


def checked_text(fields: Dict[str, Any]) -> str:
    """The element as JSON of a size that workers accept."""
    for name, value in fields.items():
        try:
            to_json(value).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidJob(name, f"must be JSON: {error}") from None
        if _depth(value) >= contract.MAX_DEPTH:
            raise InvalidJob(name, f"must be nested at most {contract.MAX_DEPTH} deep")
    text = to_json(fields)
    if len(text.encode()) > contract.MAX_ELEMENT:
        raise InvalidJob(None, f"must be at most {contract.MAX_ELEMENT} bytes, not {len(text.encode())}")
    if len(re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)) > contract.MAX_SKELETON:
        raise InvalidJob(None, f"must be at most {contract.MAX_SKELETON} bytes besides its texts")
    return text


def _check_upload(fields: Dict[str, Any]) -> None:
    def has(*names: str) -> bool:
        return any(name in fields for name in names)

    if has("file") == has("files"):
        raise InvalidJob("file", "is required, or files instead of it")
    if has("each") and not has("files"):
        raise InvalidJob("each", "requires files")
    if has("form") and (not has("files") or fields.get("each") is True):
        raise InvalidJob("form", "requires files that are sent in one body")
    if has("protocol") and has("files", "method", "expect", "idempotent", "content_digest"):
        raise InvalidJob("protocol", "requires file, and no method, expect, idempotent or content_digest")


def _depth(value: Any) -> int:
    if isinstance(value, Mapping):
        return 1 + max((_depth(each) for each in value.values()), default=0)
    if isinstance(value, (list, tuple)):
        return 1 + max((_depth(each) for each in value), default=0)
    return 0


#: Values of these fields may be secret.
_SECRET = {"headers", "body", "json", "form", "body_base64", "query", "then", "else", "meta"}


def _shown(name: str, value: Any) -> str:
    """The given value for a message, without secrets."""
    if name in _SECRET:
        return ""
    text = re.sub(r"//[^/\s]*@", "//[masked]@", re.sub(r"\?[^'\s]*", "?[masked]", repr(value)))
    return f", not {text if len(text) <= 120 else text[:117] + '...'}"


_TYPES: Dict[str, Any] = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": (list, tuple)}


def _is(value: Any, name: str) -> bool:
    if name == "object":
        return isinstance(value, Mapping)
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name])


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether a JSON Schema accepts a value, as far as docs/reference/schema/element.json goes."""
    if "anyOf" in schema:
        return any(_fits(value, each) for each in schema["anyOf"])
    if "const" in schema:
        return bool(value == schema["const"])
    if "enum" in schema:
        return value in schema["enum"]
    types = schema.get("type")
    if types is not None and not any(_is(value, name) for name in ([types] if isinstance(types, str) else types)):
        return False
    if isinstance(value, str):
        return (
            schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
            and re.search(schema.get("pattern", ""), value) is not None
        )
    if isinstance(value, Mapping):
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        names = schema.get("propertyNames", {})
        return (
            all(name in value for name in schema.get("required", ()))
            and schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value))
            and all(isinstance(name, str) and re.search(names.get("pattern", ""), name) for name in value)
            and all(
                _fits(each, known[name]) if name in known else isinstance(others, dict) and _fits(each, others) or others is True
                for name, each in value.items()
            )
        )
    if isinstance(value, (list, tuple)):
        return (
            schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
            and all(_fits(each, schema.get("items", {})) for each in value)
        )
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
    return True


def _more(name: str, value: Any, kind: str) -> bool:
    """What the schema does not say of a field whose value it accepts."""
    if name in ("url", "urls"):
        return all(
            is_url(each) or kind == "download" and is_object(each) for each in ([value] if name == "url" else value)
        )
    if name in ("path", "file"):
        return len(value.encode("utf-8", "replace")) <= 4096 and all(
            len(part.encode("utf-8", "replace")) <= 255 for part in value.split("/")
        )
    if name == "method":
        return not (kind == "download" and value == "HEAD") and (kind != "upload" or value in ("PUT", "POST", "PATCH"))
    if name == "headers":
        return all(re.search(HEADER_NAMES[kind], each) for each in value)
    if name == "notify" and value:
        return is_url(value["url"]) and len(value["url"].encode("utf-8", "replace")) <= 2048
    if name == "meta":
        try:
            return len(to_json(value).encode()) <= contract.MAX_META
        except (TypeError, ValueError, RecursionError):
            return False
    return True


_NAME = re.compile(r"[A-Za-z0-9_-]+|[A-Za-z0-9_\-\u0080-\U0010ffff]+")


def is_object(url: str) -> bool:
    """Whether a URL is that of an object of a bucket, which downloads may have. The schema has the rest of the rule."""
    return url.startswith("s3://") and len(url.encode("utf-8", "replace")) <= 8192


def is_url(url: str) -> bool:
    """The rule of docs/reference/fields.md for a URL. Only a worker knows which international names can exist."""
    found = re.match(r"(?i:https?)://([^/?#]*)", url)
    if found is None or len(url.encode("utf-8", "replace")) > 8192 or re.search(r"[\x00-\x20\x7f]", url):
        return False
    user, at, authority = found.group(1).rpartition("@")
    if "%00" in user:
        return False
    split = re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?", authority)
    if split is None or split.group(2) and not 1 <= int(split.group(2)) <= 65535:
        return False
    host = split.group(1)
    try:
        if host.startswith("["):
            ipaddress.IPv6Address(re.sub(r"%.{1,17}$", "", host[1:-1]))
            return True
        name = host[:-1] if host.endswith(".") else host
        labels = name.split(".")
        if not all(_NAME.fullmatch(label) for label in labels) or len(host.encode("utf-8", "replace")) > 254:
            return False
        if host.isascii() and any(len(label) > 63 for label in labels):
            return False
        if re.fullmatch(r"[0-9]+|0[xX][0-9A-Fa-f]*", labels[-1]):
            ipaddress.IPv4Address(name)
        return True
    except ValueError:
        return False
