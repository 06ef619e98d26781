"""Writes the published figures into docs/evaluate/performance.md.

    render.py FILE.json [--check]

FILE.json comes from `Tests/bench/networks/run.sh --publish`, and is the first table then, or from `Tests/bench/run.sh
publish`, and is the second. --check changes nothing, and fails unless the page shows these figures."""

import json
import math
import os
import re
import statistics
import sys
import textwrap

PAGE = os.path.join(os.path.dirname(__file__), "../../docs/evaluate/performance.md")
# What surrounds the first table, and the second.
BEGINS = ("<!-- The figures of Tests/bench/networks/run.sh begin here. -->", "<!-- The figures of Tests/bench/run.sh begin here. -->")
END = "<!-- They end here. -->"
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


def amount(value):
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.1 else 3
    return f"{value:,.{digits}f}"


def amounts(values, unit):
    middle, low, high = interval(values)
    text = f"{amount(middle)} {unit}".strip()
    return text if amount(low) == amount(high) else f"{text} ({amount(low)}–{amount(high)})"


def cells_of_second(row):
    """A row that has other programs is won or lost. One that has a value to reach has reached or missed it."""
    own, unit, is_more = statistics.median(row["haul"]), row["unit"], row.get("more_is_better", False)
    result = [row["about"]]
    if row.get("others"):
        medians = {name: statistics.median(values) for name, values in row["others"].items()}
        best = (max if is_more else min)(medians, key=medians.get)
        ratio = own / medians[best]
        won = verdict(1 / ratio if is_more else ratio)
        result += [f"{best} {amounts(row['others'][best], unit)}", amounts(row["haul"], unit), f"{ratio:.2f}, {won}"]
    else:
        result += ["", amounts(row["haul"], unit), ""]
    goal = row.get("goal")
    return result + ["" if goal is None else f"{amount(goal).removesuffix('.00').removesuffix('.0')}: " + ("reached" if own <= goal else "missed")]


def tables(results):
    """The number of the page's table that shows these figures, and its lines."""
    if "seconds" in results["rows"][0]:
        return 0, [
            "| workload | the best of curl, aria2 and wget2, s | `haul get`, s | of the best | a worker, s | of the best |",
            "| --- | --- | --- | --- | --- | --- |",
            *("| " + " | ".join(cells(row)) + " |" for row in results["rows"])]
    return 1, [
        "| what | the best other | Haul | of the best | to reach |", "| --- | --- | --- | --- | --- |",
        *("| " + " | ".join(cells_of_second(row)) + " |" for row in results["rows"])]


def origin_of(results, which):
    """Where and when the figures were measured."""
    machine = results["machine"]
    versions = ", ".join(
        f"{name} {re.search(r'[0-9]+([.][0-9]+)+', text)[0]}" for name, text in machine["versions"].items() if text)
    if which == 0:
        rounds = max(len(turns) for row in results["rows"] for turns in row["seconds"].values())
        what = f"Medians of {rounds} interleaved rounds, each with the interval that encloses the median with a probability of 95 %."
    else:
        what = "Medians, with the least and the most of the rounds in brackets where there were several."
    return textwrap.wrap(
        f"{what} {machine['date']}, commit `{machine['commit']}`{' with changes' if machine['changed'] else ''}, {machine['processor']}, {machine['memory']} of memory, "
        f"{machine['file_system']}, load {machine['load']} before the first round. {versions}.", 120)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        results = json.load(file)
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    which, lines = tables(results)
    before, rest = page.split(BEGINS[which])
    shown, after = rest.split(END, 1)
    wanted = "\n\n" + "\n".join([*lines, "", *origin_of(results, which)]) + "\n\n"
    if "--check" in sys.argv[2:]:
        if shown != wanted:
            sys.exit("docs/evaluate/performance.md does not show these figures: run Tests/bench/render.py")
        return
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(before + BEGINS[which] + wanted + END + after)


main()
