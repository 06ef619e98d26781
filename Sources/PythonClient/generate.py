#!/usr/bin/env python3
"""Writes haul_client/_schema.py: the types of jobs and events, from docs/reference/schema/element.json and event.json.

    generate.py            # writes the file
    generate.py --check    # compares it: status 1 if it is not what the schemas say
"""
import json
import keyword
import pathlib
import pprint
import sys

HERE = pathlib.Path(__file__).resolve().parent
SCHEMAS = HERE / "../../docs/reference/schema"
TARGET = HERE / "haul_client/_schema.py"

# What a schema cannot say in words: the message for a wrong value, as the workers write it.
ID = "must be 1 to 128 of the characters A-Z a-z 0-9 . _ : -"
PATH = (
    "must be relative, of at most 4096 bytes, without control characters; no part may be . or .., begin with .haul, "
    "or have more than 255 bytes"
)
ITEMS = "must be an object of at most 256 names and texts, numbers, true or false"
RULES = {
    "url": "must be an http or https URL with a valid host name, without spaces or control characters",
    "urls": "must be a list of 1 to 16 http or https URLs",
    "id": ID,
    "reply_to": ID,
    "path": PATH,
    "file": "must be the path of a file, as for path, without / at its end",
    "checksum": "must be sha256:, sha512:, sha1: or md5:, followed by the digest in hexadecimal digits",
    "content_type": "must be a media type, type/subtype, of at most 255 bytes",
    "method": "must be a method in capital letters: for a download not HEAD, for an upload PUT, POST or PATCH",
    "headers": "must be an object of at most 256 header names and texts, without the headers that the worker sets",
    "body": "must be a text",
    "body_base64": "must be base 64 of the standard alphabet, with its padding",
    "form": ITEMS,
    "query": ITEMS,
    "expect": 'must be a list of 1 to 16 statuses from 100 to 599, or ranges of them like "200-299"',
    "files": "must be a list of 1 to 64 objects with file, and perhaps name, type and filename",
    "group": ID,
    "batch": f"{ID}, or an object of a name, and perhaps size (from 1 to 100000) and reply_to",
    "webhook": "must be the name of a secret: 1 to 128 of the characters A-Z a-z 0-9 . _ : -",
    "notify": "must be False, or an object of url (at most 2048 bytes), secret (a name) and perhaps events (a list of "
    "completed, failed, cancelled, batch_ended)",
    "then": "must be a job, or a list of 1 to 8 jobs",
    "else": "must be a job, or a list of 1 to 8 jobs",
    "meta": "must be at most 4096 bytes of JSON",
    "json": "must be JSON",
    "at": "must be unix milliseconds like 1763712000000, not seconds, microseconds or nanoseconds",
}
KINDS = {
    "download": "A file that the workers fetch into their root.",
    "request": "An HTTP request that a worker sends; its result has the response.",
    "upload": "Files beneath the workers' --upload-from that a worker sends; its result has the response.",
}
# Fields for which the package takes more than the schema: it writes what the schema says.
WIDER = {("request", "body"): "Union[str, bytes, None]"}


def rule(name, spec):
    if name in RULES:
        return RULES[name]
    if "enum" in spec:
        return "must be " + " or ".join(spec["enum"])
    if spec.get("type") == "boolean":
        return "must be true or false"
    if spec.get("type") in ("integer", "number"):
        what = "a whole number" if spec["type"] == "integer" else "a number of seconds"
        return f"must be {what} from {spec['minimum']} to {spec['maximum']}"
    raise SystemExit(f"generate.py: no rule for the field {name}")


def python_type(spec, name=""):
    """The type of a value in Python."""
    if name in ("then", "else"):
        return "Steps"
    if "$ref" in spec:
        return "str"
    if "const" in spec:
        return "bool" if spec["const"] is True else f"Literal[{spec['const']!r}]"
    if "enum" in spec:
        return f"Literal[{', '.join(map(repr, spec['enum']))}]"
    if name == "batch" and "anyOf" in spec:
        return "Union[str, Batch]"
    if name == "notify":
        return "Union[Literal[False], Notify]"
    if name == "files":
        return "Sequence[Union[str, File]]"
    if "anyOf" in spec and name != "expect":
        return python_type(spec["anyOf"][0], name)
    kind = spec.get("type")
    if kind == "array":
        items = spec["items"]
        if "anyOf" in items:
            return f"Sequence[Union[{', '.join(python_type(each) for each in items['anyOf'])}]]"
        return f"Sequence[{python_type(items)}]"
    if kind == "object":
        return f"Mapping[str, {python_type(spec['additionalProperties'])}]"
    if isinstance(kind, list):
        return "Scalar"
    return {"string": "str", "integer": "int", "number": "float", "boolean": "bool", None: "JSON"}[kind]


def attribute(name):
    """The name of a field in Python, where a keyword gets an underscore."""
    return name + "_" if keyword.iskeyword(name) else name


def optional(kind):
    return kind if kind in ("JSON",) or kind.endswith("None]") else f"Optional[{kind}]"


def comment(text):
    text = text.rstrip(".") + "."
    lines, line = [], "    #:"
    for word in text.split():
        if len(line) + 1 + len(word) > 118:
            lines.append(line)
            line = "    #:"
        line += " " + word
    return lines + [line]


def plain(name, doc, properties, required):
    lines = ["@dataclass(frozen=True)", f"class {name}:", f'    """{doc}"""', ""]
    for field in [*required, *(each for each in properties if each not in required)]:
        spec = properties[field]
        kind = python_type(spec, field)
        if "description" in spec:
            lines += comment(spec["description"])
        lines.append(f"    {field}: {kind}" if field in required else f"    {field}: {optional(kind)} = None")
    return lines + ["", ""]


def jobs(schema):
    job = schema["$defs"]["job"]
    properties = {name: spec for name, spec in job["properties"].items() if name not in ("kind", "v")}
    described = {"batch": "A set of jobs that are counted together.", "files": "A file of an upload."}
    described["notify"] = "A webhook that reports the end of a job."
    lines = []
    batch = properties["batch"]["anyOf"][1]
    lines += plain("Batch", described["batch"], batch["properties"], batch["required"])
    notify = properties["notify"]["anyOf"][1]
    lines += plain("Notify", described["notify"], notify["properties"], notify["required"])
    file = properties["files"]["items"]
    lines += plain("File", described["files"], file["properties"], file["required"])
    branches = {"request": job["then"], "upload": job["else"]["then"], "download": job["else"]["else"]}
    allowed, headers = {}, {}
    for kind, doc in KINDS.items():
        without = set(branches[kind]["propertyNames"]["not"]["enum"])
        allowed[kind] = [name for name in properties if name not in without]
        headers[kind] = branches[kind]["properties"]["headers"]["propertyNames"]["pattern"]
        lines += ["@dataclass(frozen=True)", f"class {kind.capitalize()}:", f'    """{doc}"""', ""]
        lines += [f'    kind: ClassVar[Literal["{kind}"]] = "{kind}"']
        for name in allowed[kind]:
            spec = properties[name]
            lines += comment(spec.get("description", name))
            lines.append(f"    {attribute(name)}: {WIDER.get((kind, name)) or optional(python_type(spec, name))} = None")
        lines += ["", ""]
    lines += ["Job = Union[Download, Request, Upload]", ""]
    lines += ["#: Jobs that follow another one. A mapping has the names of the contract."]
    lines += ["Step = Union[Job, Mapping[str, Any]]", "Steps = Union[Step, Sequence[Step]]", ""]
    lines += ["#: The fields of each kind of job."]
    lines += ["FIELDS: Dict[str, FrozenSet[str]] = {"]
    for kind, names in allowed.items():
        text = pprint.pformat(names, width=106, compact=True).strip("[]").split("\n")
        lines += [f'    "{kind}": frozenset(', "        {", *(f"            {line.strip()}" for line in text)]
        lines[-1] += ","
        lines += ["        }", "    ),"]
    lines += ["}", "", "#: What each field must be, as a JSON Schema without annotations, and in words."]
    lines += ["RULES: Dict[str, Tuple[Dict[str, Any], str]] = {"]
    for name, spec in properties.items():
        lines.append(f"    {name!r}: (")
        lines += [f"        {line}" for line in pprint.pformat(bare(spec, schema), width=108, sort_dicts=False).split("\n")]
        lines[-1] += ","
        lines += [f"        {rule(name, spec)!r},", "    ),"]
    lines += ["}", "", "#: The names that headers of each kind of job may have."]
    lines += [f"HEADER_NAMES: Dict[str, str] = {pprint.pformat(headers, width=110)}", "", ""]
    return lines


def bare(spec, schema):
    """The schema without annotations and references."""
    if isinstance(spec, list):
        return [bare(each, schema) for each in spec]
    if not isinstance(spec, dict):
        return spec
    if "$ref" in spec:
        return bare(schema["$defs"][spec["$ref"].rsplit("/", 1)[1]], schema)
    return {
        name: {key: bare(value, schema) for key, value in each.items()} if name == "properties" else bare(each, schema)
        for name, each in spec.items()
        if name not in ("description", "examples", "title")
    }


def events(schema):
    common = {name: spec for name, spec in schema["properties"].items() if name not in ("v", "event")}
    names = [each["$ref"].rsplit("/", 1)[1] for each in schema["oneOf"]]
    lines = []
    for event in names:
        spec = schema["$defs"][event]
        own = {name: each for name, each in spec["properties"].items() if name != "event"}
        every = {**{name: each for name, each in common.items() if name != "batch" or event == "batch_ended"}, **own}
        required = [name for name in every if name in spec["required"] or name in schema["required"]]
        lines += ["@dataclass(frozen=True)", f"class {class_name(event)}:", f'    """{spec["description"]}"""', ""]
        lines += [f'    event: ClassVar[Literal["{event}"]] = "{event}"']
        for name in [*required, *(each for each in every if each not in required)]:
            each = every[name]
            kind = "Sequence[Mapping[str, JSON]]" if name == "files" else python_type(each)
            if "enum" in each:  # A later version may have further words.
                kind = "str"
            if "description" in each:
                lines += comment(each["description"])
            lines.append(f"    {name}: {kind}" if name in required else f"    {name}: {optional(kind)} = None")
        lines += ["", ""]
    lines += [f"Event = Union[\n    {(','+chr(10)+'    ').join(map(class_name, names))},\n]", ""]
    lines += ["#: The class of each kind of event.", "EVENTS: Dict[str, Type[Event]] = {"]
    lines += [f'    "{event}": {class_name(event)},' for event in names]
    return lines + ["}"]


def class_name(event):
    return "".join(part.capitalize() for part in event.split("_")) + "Event"


def generated():
    element, event = (json.loads((SCHEMAS / f"{name}.json").read_text("utf-8")) for name in ("element", "event"))
    lines = [
        '"""Jobs and events as docs/reference/schema says. generate.py writes this file: do not edit it."""',
        "",
        "from __future__ import annotations",
        "",
        "from dataclasses import dataclass",
        "from typing import Any, ClassVar, Dict, FrozenSet, Literal, Mapping, Optional, Sequence, Tuple, Type, Union",
        "",
        "#: Any value of JSON.",
        "JSON = Any",
        "#: A value of a query or a form.",
        "Scalar = Union[str, int, float, bool]",
        "",
        "",
    ]
    return "\n".join(lines + jobs(element) + events(event)) + "\n"


def main():
    text = generated()
    if sys.argv[1:] == ["--check"]:
        if not TARGET.exists() or TARGET.read_text("utf-8") != text:
            sys.exit(f"{TARGET.name} is not what docs/reference/schema says: run Sources/PythonClient/generate.py")
    else:
        TARGET.write_text(text, "utf-8")


main()
