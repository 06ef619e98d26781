#!/usr/bin/env python3
"""Runs the tasks of tasks.txt: what people do with curl, wget and aria2, typed to haul as they would type it.

  Tests/tasks/run.py .build/release/haul              # all, some ten seconds
  Tests/tasks/run.py -v .build/release/haul 'proxy'   # those whose titles match, with all that haul prints

Each task has a directory, a home and servers of its own. It prints the tasks that fail, and the status is 1 then.
"""

import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

import server

HERE = os.path.dirname(os.path.abspath(__file__))


def read_tasks():
    """The title, the script and the checks of each task."""
    tasks = []
    with open(os.path.join(HERE, "tasks.txt")) as file:
        for line in file:
            mark, _, text = line.rstrip("\n").partition(" ")
            if mark == "#":
                tasks.append((text, [], []))
            elif mark in ("$", ">"):
                tasks[-1][1 if mark == "$" else 2].append(text)
            elif line.strip() and tasks:
                raise SystemExit(f"tasks.txt: a line begins with neither #, $ nor >: {line}")
    return tasks


def run(task, haul, root, certificates, pin):
    """Returns what is wrong, or nothing, and what the script printed."""
    title, script, checks = task
    place = tempfile.mkdtemp(dir=root)
    directory, home = os.path.join(place, "files"), os.path.join(place, "home")
    os.mkdir(directory), os.mkdir(home)
    origin = server.Origin(place, certificates)
    programs = os.path.join(root, "bin")
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}", "HOME": home, "LANG": "C.UTF-8", "F": f"{root}/expected",
        "CA": f"{certificates}/ca.pem", "CERT": f"{certificates}/client.pem", "KEY": f"{certificates}/client.key",
        "PIN": pin, "TASK": place, **origin.variables}

    def bash(text, **more):
        return subprocess.run(["bash", "-c", text], cwd=directory, env={**environment, **more}, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=60)
    try:
        result = bash("\n".join(script))
        out, err = result.stdout.decode(errors="replace"), result.stderr.decode(errors="replace")
        with open(os.path.join(place, "out"), "wb") as file:
            file.write(result.stdout)
        with open(os.path.join(place, "err"), "wb") as file:
            file.write(result.stderr)
        printed = f"    status {result.returncode}\n" + "".join(f"    | {line}\n" for line in (out + err).splitlines()[:20])
        if not any("status" in check for check in checks) and result.returncode != 0:
            return f"status {result.returncode}", printed
        for check in checks:
            done = bash(f"out=$(tr -d '\\0' <../out) err=$(tr -d '\\0' <../err)\n{check}", status=str(result.returncode))
            if done.returncode:
                return f"not so: {check}", printed + f"    files: {sorted(os.listdir(directory))}\n"
        return None, printed
    except subprocess.TimeoutExpired:
        return "it does not end", ""
    finally:
        origin.close()


def main():
    words = sys.argv[1:]
    verbose = words[:1] == ["-v"]
    haul, *wanted = words[verbose:]
    tasks = [task for task in read_tasks() if not wanted or any(re.search(word, task[0]) for word in wanted)]
    root = tempfile.mkdtemp(prefix="haul-tasks-")
    try:
        certificates = os.path.join(root, "certificates")
        for name in ("bin", "expected", "certificates"):
            os.mkdir(os.path.join(root, name))
        os.symlink(os.path.abspath(haul), os.path.join(root, "bin", "haul"))
        for name, body in server.FILES.items():
            with open(os.path.join(root, "expected", name), "wb") as file:
                file.write(body)
        server.make_certificates(certificates)
        pin = subprocess.run(
            "openssl x509 -in server.pem -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64",
            shell=True, check=True, capture_output=True, text=True, cwd=certificates).stdout.strip()
        failed = 0
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            results = pool.map(lambda task: run(task, haul, root, certificates, pin), tasks)
            for (title, script, _), (trouble, printed) in zip(tasks, results):
                failed += trouble is not None
                if trouble or verbose:
                    print(f"{'FAILED' if trouble else 'right'}: {title}\n    " + "\n    ".join(f"$ {line}" for line in script))
                    print(printed + (f"    {trouble}\n" if trouble else ""), flush=True)
        print(f"{len(tasks) - failed} of {len(tasks)} tasks are right")
        return failed > 0 or not tasks
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    sys.exit(main())
