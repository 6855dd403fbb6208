"""The package as a whole: import, types, threads, forks, Ctrl-C, no output."""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pyarrow as pa
import pytest
from conftest import NAMED, many, requests

import seekwise as sw

ROOT = pathlib.Path(__file__).parents[1]


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_the_import_is_quick_and_starts_no_thread():
    code = (
        "import os, time; begin = time.process_time(); import seekwise; took = time.process_time() - begin;"
        "print(took, len(os.listdir('/proc/self/task')))"
    )
    took, threads = min(python(code).split() for _ in range(3))
    assert float(took) < 0.1 and threads == "1"


def test_nothing_is_mandatory_beside_the_package():
    code = "import sys; import seekwise; print([name for name in ('numpy', 'pyarrow', 'gymnasium', 'polars') if name in sys.modules])"
    assert python(code) == "[]\n"


def test_calls_leave_no_thread_behind_and_print_nothing(trace, capfd):
    before = len(os.listdir("/proc/self/task"))
    sw.compare(trace, schedulers=["none", "bfq"], disk="sata7200")
    sw.advise(trace, disk="sata7200", candidates=["none", "bfq"])
    assert len(os.listdir("/proc/self/task")) == before
    assert capfd.readouterr() == ("", "")


def child(queue, columns):
    trace = sw.Trace.from_arrow(pa.table(columns), **NAMED)
    queue.put(sw.compare(trace, schedulers=["none", "bfq"], disk="sata7200", threads=2).to_pylist())


def test_a_child_of_a_fork_works_after_its_parent_did(trace):
    rows = sw.compare(trace, schedulers=["none", "bfq"], disk="sata7200", threads=2).to_pylist()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue, requests()))
    process.start()
    assert queue.get(timeout=30) == rows
    process.join()


def test_a_fork_in_the_middle_of_another_thread_s_run_does_not_hang(trace):
    long = sw.Trace.from_arrow(pa.table(many(100_000)), **NAMED)
    runs = threading.Thread(target=lambda: sw.compare(long, disk="sata7200"))
    runs.start()
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        os._exit(0 if sw.simulate(trace).figures["iops"] > 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    runs.join()


def test_other_threads_run_during_a_simulation():
    long = sw.Trace.from_arrow(pa.table(many(100_000)), **NAMED)
    counted = 0
    is_over = threading.Event()

    def run():
        sw.simulate(long, disk="sata7200")
        is_over.set()

    thread = threading.Thread(target=run)
    thread.start()
    begin = time.thread_time()
    while not is_over.is_set():
        counted += 1
    thread.join()
    assert time.thread_time() - begin > 0.02 and counted > 1000


class Slow(sw.Scheduler):
    def __init__(self):
        self.queue = []

    def insert(self, now, request):
        self.queue.append(request)

    def pick(self, now):
        return self.queue.pop() if self.queue else None


@pytest.mark.parametrize("scheduler", ["bfq", Slow])
def test_ctrl_c_ends_a_run_within_a_fifth_of_a_second(scheduler):
    long = sw.Trace.from_arrow(pa.table(many(1_000_000, gap_us=100)), **NAMED)
    sent = []

    def interrupt():
        time.sleep(0.3)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        sw.simulate(long, disk="sata7200", scheduler=scheduler)
        pytest.skip("the run was over before Ctrl-C")
    took = time.monotonic() - sent[0]
    thread.join()
    # On a busy machine a thread may not be scheduled at once.
    assert took < 0.2 + 0.2 * os.getloadavg()[0] / (os.cpu_count() or 1)


def test_progress_is_told_and_what_it_raises_comes_out():
    long = sw.Trace.from_arrow(pa.table(many(300_000)), **NAMED)
    told = []
    sw.simulate(long, disk="sata7200", progress=lambda done, total, stage: told.append((done, total, stage)))
    assert {"replaying"} <= {stage for _, _, stage in told} and all(done <= total or total == 0 for done, total, _ in told)

    def refuse(done, total, stage):
        raise RuntimeError(stage)

    with pytest.raises(RuntimeError):
        sw.simulate(long, disk="sata7200", progress=refuse)


def test_the_types_hold_under_mypy_strict():
    pytest.importorskip("mypy")
    from mypy import api

    text, errors, code = api.run(["--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary", str(ROOT / "seekwise")])
    assert code == 0, text + errors


def test_the_stubs_are_those_of_the_module():
    pytest.importorskip("mypy")
    ran = subprocess.run([sys.executable, "-m", "mypy.stubtest", "seekwise._seekwise", "--ignore-missing-stub", "--ignore-positional-only"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_every_public_name_is_documented():
    for name in sw.__all__:
        value = getattr(sw, name)
        if callable(value) and not str(value).startswith("typing."):
            assert value.__doc__, name
