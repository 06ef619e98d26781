#!/usr/bin/env python3
"""Says of each line of standard input whether a JSON Schema accepts it: "accepted", "refused" and the path, or "no JSON".

    validate.py SCHEMA [--closed] < LINES

--closed also refuses members that the schema does not name for this kind of event.
"""
import json
import sys

import jsonschema


class Twice(ValueError):
    """A name stands twice in an object."""


def members(pairs):
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise Twice
    return dict(pairs)


def no_number(word):
    raise ValueError(word)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    is_closed = "--closed" in sys.argv
    for line in sys.stdin.buffer:
        try:
            value = json.loads(line.decode("utf-8"), object_pairs_hook=members, parse_constant=no_number)
        except ValueError:
            print("no JSON")
            continue
        error = jsonschema.exceptions.best_match(validator.iter_errors(value))
        if error is not None:
            print("refused", "/".join(map(str, error.absolute_path)) or ".", error.message[:200].replace("\n", " "))
            continue
        if is_closed:
            known = {**schema["properties"], **schema["$defs"][value["event"]]["properties"]}
            unknown = set(value) - set(known)
            if unknown:
                print("refused", "/".join(sorted(unknown)), "is not in the schema")
                continue
        print("accepted")


main()
