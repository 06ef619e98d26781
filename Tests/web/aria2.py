"""A client of aria2 against `haul web --aria2`. See aria2.sh."""

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
    finally:
        fleet.close()
    print("aria2p adds, follows, pauses, resumes and removes downloads of a fleet")


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


if __name__ == "__main__":
    main()
