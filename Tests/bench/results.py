"""The files of figures behind docs/evaluate/performance.md: where they were measured, and the rows.

    results.py begin FILE.json HAUL       starts a file for the second table, if the machine is quiet
    results.py is-quiet                   status 1 if it is not

A benchmark that measures a row of the second table calls `keep`. It writes to the file that $HAUL_BENCH_RESULTS names,
and nowhere without it."""

import json
import os
import subprocess
import sys

MAX_LOAD = 0.5
VERSIONS = {
    "curl": ["curl", "--version"], "aria2": ["aria2c", "--version"], "wget2": ["wget2", "--version"],
    "nginx": ["sh", "-c", "nginx -v 2>&1"], "Redis": ["redis-server", "--version"], "Linux": ["uname", "-r"],
}
MORE_VERSIONS = {"rclone": ["rclone", "--version"], "s5cmd": ["s5cmd", "version"], "aws": ["aws", "--version"]}


def refuse_load():
    """Ends the program if the machine has other work."""
    load = os.getloadavg()[0]
    if load > MAX_LOAD:
        sys.exit(f"the load of the machine is {load:.2f}, and figures of a machine with a load over {MAX_LOAD} are not "
                 "published: wait until nothing else runs")


def describe_machine(haul, more={}):
    """Where figures come from: what a reader needs to compare them with others."""
    def output(*command):
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()

    with open("/proc/cpuinfo") as file:
        processor = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown")
    with open("/proc/meminfo") as file:
        memory = int(file.readline().split()[1]) // 1_000_000
    versions = {"haul": output(haul, "--version")}
    for name, command in {**VERSIONS, **more}.items():
        versions[name] = next(iter(output(*command).splitlines()), "").split("(")[0].strip()
    return {
        "date": output("date", "-u", "+%Y-%m-%d"), "commit": output("git", "rev-parse", "--short=10", "HEAD"),
        # The pages of an earlier run change nothing that is measured.
        "changed": bool(output("git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/evaluate")),
        "processor": f"{os.cpu_count()} × {processor}", "memory": f"{memory} GB",
        "file_system": output("stat", "-f", "-c", "%T", os.environ.get("TMPDIR", "/tmp")),
        "load": round(os.getloadavg()[0], 2), "versions": versions,
    }


def write(path, results):
    with open(path, "w") as file:
        json.dump(results, file, indent=1)
        file.write("\n")


def keep(name, about, unit, haul, others=None, goal=None, more_is_better=False):
    """Keeps a row. `haul` has the values of all rounds, and `others` those of each other program. `goal` is the value to
    reach where no other program does the same."""
    path = os.environ.get("HAUL_BENCH_RESULTS")
    if not path:
        return
    with open(path) as file:
        results = json.load(file)
    digits = lambda values: [float(f"{value:.4g}") for value in values]
    row = {"name": name, "about": about, "unit": unit, "haul": digits(haul)}
    if others:
        row["others"] = {other: digits(values) for other, values in others.items()}
    if goal is not None:
        row["goal"] = goal
    if more_is_better:
        row["more_is_better"] = True
    results["rows"] = [each for each in results["rows"] if each["name"] != name] + [row]
    write(path, results)


if __name__ == "__main__":
    if sys.argv[1] == "is-quiet":
        sys.exit(os.getloadavg()[0] > MAX_LOAD)
    refuse_load()
    write(sys.argv[2], {"machine": describe_machine(sys.argv[3], MORE_VERSIONS), "rows": []})
