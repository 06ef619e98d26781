"""What a process costs that downloads one small file, beside curl, wget2 and aria2: time, CPU and counts.

  start.py HAUL DIRECTORY URL [RUNS]      started by run.sh; URL is a file of 520 bytes

The programs take turns, so that other work on the machine is in all figures alike. Each run begins with an empty
directory and without a download log. The least of all runs is what the program needs, the median what it took here.
"""
import os
import re
import shutil
import subprocess
import sys
import time


def programs(haul, url):
    known = {
        "curl": ["curl", "-sO", url], "wget2": ["wget2", "-q", url], "aria2": ["aria2c", "-q", "--no-conf", url],
        "haul get": [haul, "get", "-q", url], "haul get, process": [haul, "get", "-q", "--durability", "process", url],
        "haul call": [haul, "call", "-o", "f", url], "haul --version": [haul, "--version"],
    }
    return {name: [shutil.which(command[0]), *command[1:]] for name, command in known.items() if shutil.which(command[0])}


class Place:
    """A directory that is empty at each start."""

    def __init__(self, directory):
        self.directory = directory
        self.environment = {**os.environ, "HOME": directory, "XDG_STATE_HOME": directory + "/state"}
        self.environment.pop("XDG_CONFIG_HOME", None)

    def clear(self):
        shutil.rmtree(self.directory, ignore_errors=True)
        os.mkdir(self.directory)
        os.chdir(self.directory)

    def run(self, command):
        """The milliseconds of one run by the clock and of CPU, and its page faults."""
        self.clear()
        begun = time.monotonic()
        child = os.posix_spawn(command[0], command, self.environment, file_actions=[
            (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
        _, status, usage = os.wait4(child, 0)
        seconds = time.monotonic() - begun
        if status:
            raise SystemExit(f"{' '.join(command)}: status {status}")
        return seconds * 1e3, (usage.ru_utime + usage.ru_stime) * 1e3, usage.ru_minflt

    def count(self, command):
        """System calls, threads, shared libraries and symbol relocations."""
        counts = []
        if shutil.which("strace"):
            self.clear()
            subprocess.run(["strace", "-f", "-qq", "-o", "trace", *command], env=self.environment, stdout=subprocess.DEVNULL)
            with open("trace") as file:
                calls = [line for line in file if re.match(r"\d+ +\w+\(", line)]
            counts += [f"{len(calls)} system calls", f"{sum('clone' in call for call in calls)} threads"]
        self.clear()
        loader = {**self.environment, "LD_DEBUG": "statistics,files", "LD_DEBUG_OUTPUT": self.directory + "/loader"}
        subprocess.run(command, env=loader, stdout=subprocess.DEVNULL)
        text = "".join(open(name).read() for name in os.listdir(".") if name.startswith("loader."))
        symbols, relative = (re.search(rf"number of {kind}relocations: (\d+)", text)[1] for kind in ("", "relative "))
        counts += [f"{text.count('calling init:')} libraries", f"{symbols} relocations by name, {relative} relative"]
        return ", ".join(counts)


def main():
    haul, directory, url, runs = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3], int((sys.argv + ["200"])[4])
    place, commands = Place(os.path.join(directory, "start")), programs(haul, url)
    figures = {name: [] for name in commands}
    for turn in range(runs):
        names = list(commands)
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            figures[name].append(place.run(commands[name]))
    for name, runs in figures.items():
        wall, cpu, faults = (sorted(column) for column in zip(*runs))
        middle = len(runs) // 2
        print(f"start: {name}: least {wall[0]:.1f} ms and {cpu[0]:.1f} of CPU, median {wall[middle]:.1f} and {cpu[middle]:.1f}, "
              f"{faults[middle]} page faults; {place.count(commands[name])}", flush=True)
    os.chdir(directory)


main()
