"""The rows, their order, and the table. run.sh starts this script."""

import argparse
import collections
import dataclasses
import json
import os
import signal
import statistics
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(__file__), ".."))
import results
from stage import SERVER_ADDRESS, Stage
from tools import Tools

MTU, SEGMENT = 1500, 1448


@dataclasses.dataclass(frozen=True)
class Network:
    rtt: float
    """In milliseconds."""
    rate: float
    """In Mbit/s, including headers."""
    loss: float = 0
    """The percentage of the server's packets that are lost."""
    depth: float = 1
    """The size of the queue, in multiples of the bytes in flight during a round trip."""
    buffer: int = 0
    """The most that TCP may buffer for a connection at both ends, in bytes; 0 for the kernel's own value."""

    @property
    def queue(self):
        return max(200_000, int(self.rtt / 1e3 * self.rate * 1e6 / 8 * self.depth))


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    network: Network | None
    """None: loopback."""
    size: int
    url: str = "http://{host}/{file}"
    count: int = 1
    parallel: int = 50
    wget2: tuple = ()
    worker: tuple = ()
    is_synced: bool = True
    """Whether Haul syncs what it has written, as it does by default."""
    syncs_others: bool = False
    """Whether the files of the other programs are synced, too."""
    get: tuple = ()
    """Options of `haul get`."""
    about: str = ""
    """What the second table of docs/evaluate/performance.md calls the row, if it is there."""
    goal: float | None = None
    """The seconds to reach there."""

    def bytes_on_link(self):
        """The bytes as the client's device counts them. Where the link carries several segments at once, they share a
        header."""
        return self.size * self.count * (MTU / SEGMENT if self.network.loss else 1)

    def limit(self):
        """The least time that the link needs: a round trip to connect, one for the request, and the bytes with their
        headers."""
        if not self.network:
            return None
        trips = 3 if self.url.startswith("https") else 2
        return trips * self.network.rtt / 1e3 + self.size * self.count * MTU / SEGMENT * 8 / (self.network.rate * 1e6)


MANY = ("--slots", "128", "--connections-per-host", "50")
LOSSY = Network(rtt=50, rate=200, loss=0.5)
CLEAN = Network(rtt=50, rate=200)
FAR = Network(rtt=100, rate=1000)
WIDE = Network(rtt=100, rate=10_000)
TUNED = Network(rtt=100, rate=10_000, buffer=64 << 20)
MB = 1_000_000
ROWS = [
    Row("lossy-200", LOSSY, 200 * MB),
    Row("far-500", FAR, 500 * MB),
    Row("deep", Network(rtt=20, rate=50, depth=16), 100 * MB),
    Row("small", LOSSY, 50_000, "http://{host}/small/{file}", count=500, worker=MANY),
    Row("small-tls", LOSSY, 50_000, "https://{host}/small/{file}", count=500, worker=MANY),
    Row("tls", None, 1 << 30, "https://{host}/{file}"),
    Row("paced", Network(rtt=20, rate=500), 100 * MB, "http://{host}/paced/{file}"),
    Row("two", Network(rtt=20, rate=500), 50 * MB, "http://{host}/two/{file}"),
    Row("h2", Network(rtt=20, rate=500), 100 * MB, "https://{host}:8443/{file}"),
    Row("far-20", FAR, 20 * MB),
    Row("far-50", FAR, 50 * MB),
    Row("satellite", Network(rtt=200, rate=50), 20 * MB),
    Row("lossy-40", LOSSY, 40 * MB),
    Row("large", None, 1 << 30, is_synced=False),
    Row("large-synced", None, 1 << 30, syncs_others=True),
    Row("files", None, 10 << 10, "http://{host}/small/{file}", count=2000, worker=MANY, is_synced=False),
    Row("files-tls", None, 10 << 10, "https://{host}/small/{file}", count=2000, worker=MANY, is_synced=False),
    Row("start", None, 520, is_synced=False),
    Row("clean", CLEAN, 50_000, "http://{host}/small/{file}", count=500, about="500 files of 50 KB, 50 ms, no loss, synced by Haul alone"),
    Row("clean-tls", CLEAN, 50_000, "https://{host}/small/{file}", count=500, about="the same over TLS"),
    Row("wide", WIDE, 1000 * MB, is_synced=False, about="1 GB, 100 ms, 10 Gbit/s, not synced", goal=3.6),
    Row("wide-8", WIDE, 1000 * MB, is_synced=False, get=("-x", "8"), about="the same with `-x 8`", goal=2.6),
    Row("tuned", TUNED, 1000 * MB, is_synced=False, about="the same, and TCP may buffer 64 MiB for each connection", goal=3.6),
    Row("tuned-8", TUNED, 1000 * MB, is_synced=False, get=("-x", "8"), about="this with `-x 8`", goal=2.6),
]
# The rows of docs/evaluate/performance.md, and what the page says about them.
PUBLISHED = {
    "large": "1 GiB on one machine, not synced",
    "large-synced": "1 GiB on one machine, synced to the disk by all",
    "tls": "1 GiB over TLS on one machine, synced by Haul alone",
    "files": "2,000 files of 10 KiB on one machine, not synced",
    "files-tls": "the same over TLS",
    "small": "500 files of 50 KB, 50 ms, 200 Mbit/s, 0.5 % loss",
    "small-tls": "the same over TLS",
    "far-20": "20 MB, 100 ms, 1 Gbit/s",
    "far-50": "50 MB, 100 ms, 1 Gbit/s",
    "start": "one file of 520 bytes on one machine: the start and the end of the program",
}
TOOLS = ["curl", "aria2", "wget2", "get", "worker"]


def make_files(work, row):
    """Writes random files, and returns their names."""
    if row.count == 1:
        name = f"f{row.size}"
        if not os.path.exists(f"{work}/www/{name}"):
            subprocess.run(f"head -c {row.size} /dev/urandom >{work}/www/{name}", shell=True, check=True)
        return [name]
    os.makedirs(f"{work}/www/small", exist_ok=True)
    names = [f"s{n}" for n in range(row.count)]
    for name in names:
        with open(f"{work}/www/small/{name}", "wb") as file:
            file.write(os.urandom(row.size))
    return names


def measure(stage, tools, row, chosen, repeat, work):
    """Returns the seconds of each tool's turns. A turn that did not deliver the right bytes has no entry."""
    host = SERVER_ADDRESS if row.network else "127.0.0.1"
    urls = [row.url.format(host=host, file=name) for name in make_files(work, row)]
    seconds, notes = collections.defaultdict(list), collections.defaultdict(list)
    server = stage.client
    if not row.network:
        stage.client = stage.server
    for turn in range(repeat):
        # The tools begin the rounds alternately.
        for name in chosen[turn % len(chosen):] + chosen[:turn % len(chosen)]:
            if row.network:
                stage.connect(row.network)
            stage.forget_requests()
            before = stage.received() if row.network else 0
            outcome = tools.run(name, row, urls)
            beyond = (stage.received() - before) / row.bytes_on_link() - 1 if row.network else 0
            requests = stage.requests()
            refused = sum(status == "503" for status, _ in requests)
            connections = len({connection for _, connection in requests})
            if outcome.is_right:
                seconds[name].append(outcome.seconds)
            notes[name].append((beyond, connections, refused, outcome.cpu))
            print(f"  {row.name} {turn + 1}: {name} {outcome.seconds:.2f} s, {outcome.cpu:.2f} s of CPU, "
                  f"{100 * beyond:+.1f} % bytes, {connections} connections, {refused} refused"
                  f"{'' if outcome.is_right else ', NOT RIGHT'}", flush=True)
    stage.client = server
    tools.forget_files()
    if row.about:
        if any(len(seconds[name]) < repeat for name in chosen):
            raise SystemExit(f"{row.name}: a turn was not right, so it has no place in a table")
        others = {name: values for name, values in seconds.items() if name not in ("get", "worker") and values}
        results.keep(row.name, row.about, "s", seconds["get"], others, row.goal)
    report(row, chosen, seconds, notes, tools.limit)
    return dict(seconds)


def report(row, chosen, seconds, notes, most):
    medians = {name: statistics.median(values) for name, values in seconds.items() if values}
    others = {name: value for name, value in medians.items() if name not in ("get", "worker")}
    best = min(others.values(), default=None)
    limit = row.limit()
    print(f"{row.name}:" + (f" the link's own limit {limit:.2f} s" if limit else ""))
    for name in chosen:
        if name not in medians:
            print(f"  {name:7} never right within {most:.0f} s")
            continue
        value = medians[name]
        beyond, connections, refused, cpu = (statistics.median(column) for column in zip(*notes[name]))
        text = f"  {name:7} {value:7.2f} s ({min(seconds[name]):.2f} to {max(seconds[name]):.2f})"
        if best:
            text += f", {value / best:.2f} of the best"
        if limit:
            text += f", {value / limit:.2f} of the limit"
        text += f", {100 * beyond:+.1f} % bytes, {connections:.0f} connections, {refused:.0f} refused, {cpu:.2f} s of CPU"
        print(text, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("haul")
    parser.add_argument("work")
    parser.add_argument("--rows")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--limit", type=float, default=60, help="seconds after which a download is given up")
    parser.add_argument("--seed", type=int, default=1, help="of the losses")
    parser.add_argument("--no-check", action="store_true", help="do not measure the links themselves")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--publish", metavar="FILE", help="measure what docs/evaluate/performance.md shows, 6 rounds or more, "
                        "and write the figures to this JSON file. Refused while the machine has other work. With --rows only these "
                        "are measured, and replace those of the file")
    options = parser.parse_args()
    if options.list:
        return print("\n".join(row.name for row in ROWS))
    rows = {row.name: row for row in ROWS}
    if options.publish:
        results.refuse_load()
        options.repeat, options.no_check = max(6, options.repeat), True
        published = {"machine": results.describe_machine(options.haul), "rows": []}
        if options.rows:
            with open(options.publish) as file:
                published = json.load(file)
    names = options.rows.split(",") if options.rows else list(PUBLISHED if options.publish else rows)
    chosen = [rows[name] for name in names]
    stage = Stage(options.work, options.seed)
    tools = Tools(stage, options.haul, options.work, options.limit)

    def give_up(number, _):
        # An exception could come at any point, for example in the middle of waiting for a process.
        stage.abandon()
        os._exit(128 + number)

    signal.signal(signal.SIGTERM, give_up)
    signal.signal(signal.SIGINT, give_up)
    try:
        stage.open()
        if not options.no_check:
            for network in dict.fromkeys(row.network for row in chosen if row.network):
                print(f"link of {network.rtt} ms, {network.rate} Mbit/s, {network.loss} % loss, queue of {network.queue} bytes: "
                      f"measured {stage.measure(network)}", flush=True)
        for row in chosen:
            seconds = measure(stage, tools, row, options.tools.split(","), options.repeat, options.work)
            if options.publish:
                measured = {each["name"]: each for each in published["rows"]} | {
                    row.name: {"name": row.name, "about": PUBLISHED[row.name], "seconds": seconds}}
                published["rows"] = [measured[name] for name in PUBLISHED if name in measured]
                results.write(options.publish, published)
    finally:
        stage.close()


main()
