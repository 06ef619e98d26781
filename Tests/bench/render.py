"""Writes the published figures into docs/evaluate/performance.md.

    render.py FILE.json [--check]

FILE.json comes from `run.sh --publish`. --check changes nothing, and fails unless the page shows these figures."""

import json
import math
import os
import re
import statistics
import sys
import textwrap

PAGE = os.path.join(os.path.dirname(__file__), "../../../docs/evaluate/performance.md")
BEGIN, END = "<!-- The figures of Tests/bench/networks/render.py begin here. -->", "<!-- They end here. -->"
OTHERS = ("curl", "aria2", "wget2")


def interval(values):
    """The median, and the narrowest pair of values that encloses the true median with at least 95 % probability (by the
    binomial distribution). Fewer than six values have no such pair: then all of them are enclosed."""
    values, count = sorted(values), len(values)
    skip, tail = 0, 0.5 ** count
    while 2 * (tail + math.comb(count, skip + 1) * 0.5 ** count) <= 0.05:
        skip += 1
        tail += math.comb(count, skip) * 0.5 ** count
    return statistics.median(values), values[skip], values[-1 - skip]


def seconds(values):
    middle, low, high = interval(values)
    digits = 3 if middle < 0.1 else 2
    return f"{middle:.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


def verdict(ratio):
    return "**won**" if ratio < 0.97 else "lost" if ratio > 1.03 else "equal"


def cells(row):
    turns = row["seconds"]
    medians = {name: statistics.median(turns[name]) for name in OTHERS if turns.get(name)}
    best = min(medians, key=medians.get)
    result = [row["about"], f"{best} {seconds(turns[best])}"]
    for name in ("get", "worker"):
        ratio = statistics.median(turns[name]) / medians[best]
        result += [seconds(turns[name]), f"{ratio:.2f}, {verdict(ratio)}"]
    return result


def render(results):
    machine = results["machine"]
    versions = ", ".join(
        f"{name} {re.search(r'[0-9]+([.][0-9]+)+', text)[0]}" for name, text in machine["versions"].items() if text)
    rounds = max(len(turns) for row in results["rows"] for turns in row["seconds"].values())
    about = (
        f"Medians of {rounds} interleaved rounds, each with the interval that encloses the median with a probability of 95 %. "
        f"{machine['date']}, commit `{machine['commit']}`, {machine['processor']}, {machine['memory']} of memory, "
        f"{machine['file_system']}, load {machine['load']} before the first round. {versions}.")
    return "\n".join([
        "| workload | the best of curl, aria2 and wget2, s | `haul get`, s | of the best | a worker, s | of the best |",
        "| --- | --- | --- | --- | --- | --- |",
        *("| " + " | ".join(cells(row)) + " |" for row in results["rows"]),
        "", *textwrap.wrap(about, 120)])


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        results = json.load(file)
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    before, rest = page.split(BEGIN)
    shown, after = rest.split(END)
    wanted = f"\n\n{render(results)}\n\n"
    if "--check" in sys.argv[2:]:
        if shown != wanted:
            sys.exit("docs/evaluate/performance.md does not show these figures: run Tests/bench/networks/render.py")
        return
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(before + BEGIN + wanted + END + after)


main()
