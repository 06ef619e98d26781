"""Clients of aria2 against `haul web --aria2`: aria2p, and the requests that AriaNg 1.3 makes. See aria2.sh."""

import json
import sys
import time

import aria2p
import websocket

from fleet import Fleet, eventually


def check(condition, what):
    if not condition:
        raise SystemExit(f"aria2.py: {what}")


def use(port, token):
    client = aria2p.Client(host="http://127.0.0.1", port=port, secret=token)
    api = aria2p.API(client)
    check(client.get_version()["version"], "the version")
    first = api.add_uris(["http://127.0.0.1:81/a?size=300000"], options={"out": "a.bin", "dir": "films"})
    eventually("the first download", lambda: api.get_download(first.gid).is_complete)
    done = api.get_download(first.gid)
    check(done.total_length == done.completed_length == 300000, f"the length {done.total_length}")
    check(str(done.files[0].path).endswith("films/a.bin"), f"the file {done.files[0].path}")

    slow = api.add_uris(["http://127.0.0.1:81/slow?size=3000000&rate=200000"], options={"split": "1"})
    eventually("the second download to run", lambda: api.get_download(slow.gid).is_active)
    check([each.gid for each in api.get_downloads() if each.is_active] == [slow.gid], "the active downloads")
    check(api.pause([api.get_download(slow.gid)])[0] is True, "the pause")
    eventually("the pause", lambda: api.get_download(slow.gid).is_paused)
    check(api.resume([api.get_download(slow.gid)])[0] is True, "the resumption")
    eventually("the download to run again", lambda: api.get_download(slow.gid).is_active)
    client.remove(slow.gid)
    eventually("the cancellation", lambda: api.get_download(slow.gid).is_removed)

    missing = api.add_uris(["http://127.0.0.1:81/missing"], options={"max-tries": "1"})
    eventually("the failure", lambda: api.get_download(missing.gid).has_failed)
    check(api.get_download(missing.gid).error_code == "3", f"the error {api.get_download(missing.gid).error_code}")
    stats = api.get_stats()
    check((stats.num_active, stats.num_stopped) == (0, 3), f"the counts {stats.num_active} {stats.num_stopped}")
    try:
        client.add_torrent("AA==", [])
        check(False, "a torrent was accepted")
    except aria2p.ClientException as error:
        check(error.code == 1, f"the code {error.code}")
    try:
        aria2p.Client(host="http://127.0.0.1", port=port, secret="wrong").get_version()
        check(False, "a wrong secret was accepted")
    except aria2p.ClientException as error:
        check("Unauthorized" in str(error), f"the refusal {error}")
    check(api.purge() is True, "the purge")
    eventually("the results to be removed", lambda: not api.get_downloads())


def main():
    fleet = Fleet(sys.argv[1], "--aria2", "default")
    try:
        use(fleet.port, fleet.token)
        notifications(fleet)
        ariang(fleet)
    finally:
        fleet.close()
    print("aria2p and the requests of AriaNg add, follow, pause, resume, retry and remove downloads of a fleet")


def notifications(fleet):
    """Notifications come through a WebSocket, after a call with the token."""
    socket = websocket.create_connection(f"ws://127.0.0.1:{fleet.port}/jsonrpc", timeout=20)

    def call(method, *params):
        socket.send(json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": [f"token:{fleet.token}", *params]}))

    call("aria2.getVersion")
    check("version" in json.loads(socket.recv())["result"], "the version through a WebSocket")
    time.sleep(0.6)  # The subscription begins with the next turn of the server.
    call("aria2.addUri", ["http://127.0.0.1:81/b?size=1000"])
    messages, deadline = [], time.monotonic() + 20
    while time.monotonic() < deadline and not any(each.get("method") == "aria2.onDownloadComplete" for each in messages):
        messages.append(json.loads(socket.recv()))
    gid = next(each["result"] for each in messages if each.get("id") == "aria2.addUri")
    check(any(each.get("params") == [{"gid": gid}] for each in messages if "method" in each), f"the notifications {messages}")
    socket.close()


class AriaNg:
    """The requests of AriaNg's pages through a WebSocket, in its order and with its parameters (aria2RpcService.js)."""

    BASIC = ["gid", "totalLength", "completedLength", "uploadSpeed", "downloadSpeed", "connections", "numSeeders",
             "seeder", "status", "errorCode", "verifiedLength", "verifyIntegrityPending"]
    FULL = BASIC + ["files", "bittorrent", "infoHash"]

    def __init__(self, fleet):
        self.token = f"token:{fleet.token}"
        # A page of a browser sends its origin, which is where AriaNg was loaded from.
        self.socket = websocket.create_connection(
            f"ws://127.0.0.1:{fleet.port}/jsonrpc", timeout=20, origin="http://ariang.example")
        self.count = 0

    def send(self, method, params):
        self.count += 1
        self.socket.send(json.dumps({"jsonrpc": "2.0", "method": method, "id": f"AriaNg_{self.count}", "params": params}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == f"AriaNg_{self.count}":
                check("error" not in message, f"{method}: {message}")
                return message["result"]

    def call(self, method, *params):
        return self.send(f"aria2.{method}", [self.token, *params])

    def together(self, *calls):
        methods = [{"methodName": f"aria2.{method}", "params": [self.token, *params]} for method, *params in calls]
        return [result[0] for result in self.send("system.multicall", [self.token, methods])]

    def lists(self):
        """Its three pages of downloads, which it reads again each second, as name, status and gid."""
        all = self.call("tellActive", self.FULL) + self.call("tellWaiting", 0, 1000, self.FULL) \
            + self.call("tellStopped", -1, 1000, self.FULL)
        for task in all:
            check(set(task) <= set(self.FULL), f"members that were not asked for: {task}")
            for number in ["totalLength", "completedLength", "uploadSpeed", "downloadSpeed", "connections"]:
                check(isinstance(task[number], str) and int(task[number]) >= 0, f"{number} of {task}")
            check(len(task["files"]) == 1 and task["files"][0]["uris"], f"the files of {task}")
        return {task["gid"]: (task["files"][0]["path"].split("/")[-1], task["status"]) for task in all}


def ariang(fleet):
    page = AriaNg(fleet)
    # What it reads when it is opened.
    check(set(page.call("getGlobalStat")) >= {"downloadSpeed", "uploadSpeed", "numActive", "numWaiting", "numStopped"}, "the counts")
    check(isinstance(page.call("getVersion")["enabledFeatures"], list), "the features")
    check(page.call("getSessionInfo")["sessionId"], "the session")
    options = page.call("getGlobalOption")
    check(all(isinstance(value, str) for value in options.values()), f"the options {options}")

    # Its page "New": each line of URLs is a download; "Download Later" adds it paused.
    later = page.call("addUri", ["http://127.0.0.1:81/later?size=4000"], {"out": "later.bin", "pause": "true"})
    eventually("the paused download", lambda: page.lists().get(later) == ("later.bin", "paused"))
    page.call("unpause", later)
    eventually("the download of later.bin", lambda: page.lists()[later][1] == "complete")

    # One download: its page asks for the status, and for the servers of an active one.
    slow = page.call("addUri", ["http://127.0.0.1:81/slow?size=3000000&rate=200000"], {"dir": "a/b", "out": "slow.bin", "split": "2"})
    eventually("the slow download", lambda: page.lists()[slow] == ("slow.bin", "active"))
    task, servers = page.together(("tellStatus", slow), ("getServers", slow))
    check(task["gid"] == slow and int(task["numPieces"]) >= 1 and task["bitfield"] and servers == [], f"the task {task}")
    check(page.call("getOption", slow) == {"dir": "a/b", "out": "slow.bin"}, "the options of a download")
    page.call("forcePause", slow)
    eventually("the pause", lambda: page.lists()[slow][1] == "paused")
    page.call("forceRemove", slow)
    eventually("the removal", lambda: page.lists()[slow][1] == "removed")

    # Its button "Retry": status and options together, then a new download of them, then the old result goes.
    failing = page.call("addUri", ["http://127.0.0.1:81/second?size=5000&sig=1"], {"dir": "a", "out": "second.bin", "max-tries": "1"})
    eventually("the failure", lambda: page.lists()[failing][1] == "error")
    task, options = page.together(("tellStatus", failing), ("getOption", failing))
    retried = page.call("addUri", [each["uri"] for each in task["files"][0]["uris"]], options)
    eventually("the download that was retried", lambda: page.lists()[retried] == ("second.bin", "complete"))
    check((fleet.work / "root/a/second.bin").stat().st_size == 5000, "the file that was retried")

    # Its buttons above the list.
    page.call("removeDownloadResult", later)
    page.call("changeGlobalOption", {"max-overall-download-limit": "1M", "max-concurrent-downloads": "20"})
    check(page.call("getGlobalOption")["max-concurrent-downloads"] == "20", "the changed option")
    page.call("forcePauseAll")
    page.call("unpauseAll")
    page.call("purgeDownloadResult")
    eventually("an empty list", lambda: not page.lists())
    page.call("saveSession")
    page.socket.close()


if __name__ == "__main__":
    main()
