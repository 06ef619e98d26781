"""The package: what is built, and the examples of its pages."""
import inspect
import os
import pathlib
import re
import subprocess
import zipfile

import haul_client as haul
import pytest
from haul_client import _clock, _core
from support import PYTHON, REPOSITORY, Origin, Server, Worker

PAGES = ["Sources/PythonClient/README.md", "docs/start/python.md"]


def examples(page):
    """The blocks of a page that are fenced as `python client`."""
    text = (REPOSITORY / page).read_text("utf-8")
    return re.findall(r"^```python client\n(.*?)^```$", text, re.S | re.M)


def version_of_haul():
    return re.search(r'text = "(.*)"', (REPOSITORY / "Sources/Contract/Version.swift").read_text()).group(1)


def test_pushes_share_a_millisecond_unless_they_follow_an_operation_or_a_push_of_the_same_job():
    order = _clock.TimestampOrder()

    def wait(now, pushed=None):
        return order.wait(now, order.latest, pushed)

    assert [wait(1000, [f"j{number}"]) for number in range(50)] == [0] * 50
    assert wait(1000, ["j7"]) > 0
    assert wait(1000) == 0 and wait(1000) == 0 and wait(1000, ["x"]) > 0
    assert wait(1001, ["j7"]) == 0
    assert wait(1001, [f"k{number}" for number in range(1000)]) == 0 and wait(1001, ["y"]) > 0
    assert wait(900) == 101
    # The replies to two calls may be read in another order.
    assert order.wait(1002, 1001, ["a"]) == 0 and order.wait(1001, 1001, ["b"]) > 0 and order.wait(1000, 1000, ["b"]) > 0
    # Another server's clock is used as it is.
    assert wait(2, ["x"]) == 0 and order.latest == 2


def test_the_client_and_the_readme_name_the_version_of_haul():
    assert haul.__version__ == version_of_haul()
    assert f"\nVersion {version_of_haul()}, " in (REPOSITORY / "README.md").read_text("utf-8")


def test_each_public_name_of_the_package_is_exported():
    public = {name for name, value in vars(haul).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert public == set(haul.__all__)


@pytest.mark.parametrize("version", ["4.3.4", "4.6.0", None])
def test_an_import_with_a_redis_py_that_is_too_old_says_so(version, tmp_path):
    (tmp_path / "redis").mkdir()
    (tmp_path / "redis/__init__.py").write_text(f"__version__ = {version!r}" if version else "")
    paths = [str(tmp_path), str(REPOSITORY / "Sources/PythonClient")]
    for module in ("haul_client", "haul_client.testing"):
        done = subprocess.run(
            [PYTHON, "-c", f"import {module}"], capture_output=True, text=True, timeout=60,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)})
        last = done.stderr.splitlines()[-1]
        assert last.startswith("ImportError: haul_client needs redis-py 5 or newer") and (version or "") in last, done.stderr


def test_the_client_knows_each_setting_of_a_queue():
    page = (REPOSITORY / "docs/operate/queues.md").read_text("utf-8")
    table = page.partition("<!-- generated: queue settings -->")[2].partition("<!-- end -->")[0]
    names = re.findall(r"^\| `([a-z_:]+)", table, re.M)
    assert len(names) > 12
    for name in names:
        value = True if name in ("paused", "quiet:") else 1000
        assert _core.setting_value(name, value) in ("1", "1000")


def test_two_builds_have_equal_bytes_and_the_version_of_haul(tmp_path):
    built = []
    for name in ("one", "two"):
        directory = tmp_path / name
        subprocess.run([REPOSITORY / "deploy/python.sh", directory], check=True, stdout=subprocess.PIPE, timeout=120)
        built.append({file.name: file.read_bytes() for file in directory.iterdir()})
    assert built[0] == built[1]
    version = version_of_haul()
    wheel = f"haul_client-{version}-py3-none-any.whl"
    assert set(built[0]) == {wheel, f"haul_client-{version}.tar.gz"}
    names = zipfile.ZipFile(tmp_path / "one" / wheel).namelist()
    assert {"haul_client/py.typed", "haul_client/_schema.py", "haul_client/testing.py"} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any("generate" in name or "__pycache__" in name for name in names)


def test_the_names_of_the_contract_stand_in_one_module():
    for file in (REPOSITORY / "Sources/PythonClient/haul_client").glob("*.py"):
        if file.name not in ("_contract.py", "_schema.py"):
            assert not re.search(r"settled_until|haul:\{", file.read_text("utf-8")), file.name


@pytest.mark.parametrize("page, number", [(page, n) for page in PAGES for n in range(len(examples(page)))])
def test_an_example_works(page, number, tmp_path):
    example = examples(page)[number]
    server, origin = Server(), Origin()
    worker = Worker(server)
    try:
        origin.gate.set()
        example = example.replace("https://example.org/small.bin", origin.url("/good"))
        example = example.replace("https://example.org", origin.url("")).replace("redis://127.0.0.1:6379", server.url)
        (tmp_path / "example.py").write_text(example)
        pathlib.Path(worker.root, "films").mkdir(exist_ok=True)
        pathlib.Path(worker.root, "films/film.bin").write_bytes(b"the film")
        done = subprocess.run(
            [PYTHON, "-W", "error", "example.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60,
            env={**os.environ, "HAUL_REDIS": server.url})
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stderr == ""
        for line in re.findall(r"#> (.*)", example):  # What the example says that it prints.
            assert line in done.stdout, done.stdout
    finally:
        worker.close()
        origin.shutdown()
        server.close()


def test_the_types_of_all_examples_are_right(tmp_path):
    # Each in a module of its own, since they define the same names.
    for page in PAGES:
        for number, example in enumerate(examples(page)):
            (tmp_path / f"{pathlib.Path(page).stem.lower()}_{number}.py").write_text(example)
    files = sorted(file.name for file in tmp_path.iterdir())
    assert len(files) >= 7
    types = subprocess.run(
        [PYTHON, "-m", "mypy", "--strict", *files], cwd=tmp_path, capture_output=True,
        text=True, timeout=120)
    assert types.returncode == 0, types.stdout
