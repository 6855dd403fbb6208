"""Sweeps: on threads of this process, and on the workers of executors; some workers die."""

from __future__ import annotations

import concurrent.futures as futures
import hashlib
import json
import multiprocessing
import os
import pathlib
import pickle
import secrets
import signal
import subprocess
import sys
import threading
import time

import pyarrow as pa
import pytest
from conftest import NAMED, requests
from test_run import JOB, program

import seekwise as sw

SHORT = JOB.replace("runtime=1\n", "runtime=100ms\n")
#: 2 loads, 2 disks, 6 settings, 2 seeds.
CASES = 48
PLAN = """
loads = ["sda.parquet", "two.fio"]
disks = ["sata7200", "nvme-tlc"]
schedulers = ["mq-deadline", "bfq"]
seeds = 2
[tunables.mq-deadline]
fifo_batch = [1, 16]
[host]
nr_requests = [64, 256]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A plan with its files, and the data set that the program's own engine makes of it."""
    folder = tmp_path_factory.mktemp("sweep")
    sw.Trace.from_arrow(pa.table(requests(300)), **NAMED).write(folder / "sda.parquet")
    (folder / "two.fio").write_text(SHORT)
    (folder / "plan.toml").write_text(PLAN)
    sw.sweep(folder / "plan.toml", folder / "whole")
    return folder


def data_set(folder: pathlib.Path) -> dict[str, str]:
    """Every file with its digest."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir()) if path.is_file()}


def test_a_sweep_has_the_bytes_and_the_report_of_the_program(folder, tmp_path):
    done = sw.sweep(folder / "plan.toml", tmp_path / "ours", threads=2)
    assert (done.cases, done.run, done.failed, done.first_error, done.is_whole) == (CASES, CASES, 0, None, True)
    program("sweep", str(folder / "plan.toml"), "--output", str(tmp_path / "program"))
    assert data_set(tmp_path / "ours") == data_set(tmp_path / "program") == data_set(folder / "whole")
    assert str(done.report("p99_ms")) == program("sweep", "report", str(tmp_path / "program"), "--objective", "p99_ms")
    assert done.report().to_dict() == json.loads(program("sweep", "report", str(tmp_path / "program"), "--json"))


def test_the_table_is_that_of_the_files(folder):
    import pyarrow.parquet as parquet

    table = pa.table(sw.Sweep(folder / "whole").table())
    read = pa.concat_tables([parquet.read_table(path) for path in sorted((folder / "whole").glob("*.parquet"))])
    assert table.to_pydict() == read.to_pydict() and table.column_names == read.column_names
    assert table["case"].to_pylist() == list(range(CASES))


def executors():
    spawn, fork = multiprocessing.get_context("spawn"), multiprocessing.get_context("fork")
    yield "threads", lambda: futures.ThreadPoolExecutor(3)
    yield "spawn", lambda: futures.ProcessPoolExecutor(2, mp_context=spawn)
    yield "fork", lambda: futures.ProcessPoolExecutor(2, mp_context=fork)
    yield "loky", lambda: pytest.importorskip("loky").ProcessPoolExecutor(2)


@pytest.mark.parametrize("executor", [make for _, make in executors()], ids=[name for name, _ in executors()])
def test_an_executor_makes_the_same_bytes(folder, tmp_path, executor):
    told = []
    with executor() as pool:
        done = sw.sweep(folder / "plan.toml", tmp_path / "out", executor=pool, progress=lambda *now: told.append(now))
    assert data_set(tmp_path / "out") == data_set(folder / "whole")
    assert done.run == CASES and told[-1] == (CASES, CASES, "cases") and done.is_whole
    assert [now[0] for now in told] == sorted(now[0] for now in told)


def as_dict(folder):
    return {
        "loads": [folder / "sda.parquet"], "disks": ("sata7200",), "schedulers": ["mq-deadline"], "seeds": 2, "objective": None,
        "tunables": {"mq-deadline": {"fifo_batch": range(1, 4)}},
    }


def test_a_plan_may_be_a_text_or_a_dict(folder, tmp_path):
    text = PLAN.replace("two.fio", "recipes/etcd").replace('loads = ["sda.parquet", ', "loads = [").replace("seeds = 2", "seeds = 1")
    assert sw.sweep(PLAN, tmp_path / "text", folder=folder).is_whole
    assert data_set(tmp_path / "text") == data_set(folder / "whole")
    done = sw.sweep(as_dict(folder), tmp_path / "dict")
    assert done.cases == 8 and {row["mq-deadline.fifo_batch"] for row in done.table().to_pylist()} == {1, 2, 3, 16}
    assert text.count("recipes/etcd") == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"disks": ["sata720"]}, "plan: disks: sata720: "),
        ({"host": {"nr_request": [3]}}, "nr_requests"),
        ({"seeds": float("nan")}, "plan: "),
        ({"loads": []}, "plan: loads: is empty"),
        ({"load": []}, "unknown field `load`"),
        ({"seeds": 2**70}, "plan: "),
        ({"loads": [object()]}, "plan: "),
    ],
)
def test_a_wrong_plan_is_refused_before_anything_is_made(folder, tmp_path, change, words):
    with pytest.raises(sw.InvalidInputError) as raised:
        sw.sweep({**as_dict(folder), **change}, tmp_path / "out")
    assert words in str(raised.value) and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ({"executor": 3}, "executor"), ({"executor": "ray"}, "executor"), ({"threads": 0}, "threads"), ({"in_flight": 2}, "in_flight"),
        ({"executor": futures.ThreadPoolExecutor(1), "in_flight": 0}, "in_flight"), ({"shard": "3/2"}, "shard"),
        ({"executor": futures.ThreadPoolExecutor(1), "threads": 2}, "threads"), ({"folder": "/"}, "folder"), ({"worker_folder": "/"}, "worker_folder"),
    ],
)
def test_wrong_arguments_of_a_sweep_are_refused(folder, tmp_path, arguments, key):
    with pytest.raises(sw.InvalidInputError) as raised:
        sw.sweep(folder / "plan.toml", tmp_path / "out", **arguments)
    assert raised.value.key == key and not (tmp_path / "out").exists()
    with pytest.raises(sw.InvalidInputError, match="holds the sweep of another plan"):
        sw.sweep(as_dict(folder), folder / "whole")


def test_a_search_is_run_by_an_executor_too_and_continues_in_the_middle(folder, tmp_path):
    plan = {"loads": [folder / "sda.parquet"], "disks": ["sata7200", "nvme-tlc"], "schedulers": ["mq-deadline"], "method": "bayesian", "points": 6}
    sw.sweep(plan, tmp_path / "whole", threads=1)

    class Enough(Exception):
        pass

    def refuse(done, total, stage):
        if done >= 3:
            raise Enough

    with pytest.raises(Enough):
        sw.sweep({**plan, "loads": [folder / "sda.parquet"]}, tmp_path / "out", threads=1, progress=refuse)
        pytest.skip("the sweep was over before it was stopped")
    with futures.ThreadPoolExecutor(2) as pool:
        done = sw.sweep(plan, tmp_path / "out", executor=pool)
    assert data_set(tmp_path / "out") == data_set(tmp_path / "whole") and done.cases == 12


def test_shards_of_executors_are_one_data_set(folder, tmp_path):
    with futures.ThreadPoolExecutor(2) as pool:
        assert not sw.sweep(folder / "plan.toml", tmp_path / "out", executor=pool, shard="1/2").is_whole
        assert sw.sweep(folder / "plan.toml", tmp_path / "out", executor=pool, shard="2/2").is_whole
    assert data_set(tmp_path / "out") == data_set(folder / "whole")


def test_a_case_that_cannot_be_run_has_the_same_words_wherever_it_is(folder, tmp_path, monkeypatch):
    big = {"ts": [0, 1], "off": [0, 2**50], "len": [4096] * 2, "rw": ["R", "W"]}
    sw.Trace.from_arrow(pa.table(big), time="ts", offset="off", size="len", op="rw").write(tmp_path / "big.parquet")
    (tmp_path / "plan.toml").write_text('loads = ["big.parquet"]\ndisks = ["sata7200"]\n')
    monkeypatch.chdir(tmp_path)
    near = sw.sweep("plan.toml", "near")
    with futures.ThreadPoolExecutor(1) as pool:
        far = sw.sweep(tmp_path / "plan.toml", tmp_path / "far", executor=pool)
    assert data_set(tmp_path / "near") == data_set(tmp_path / "far")
    assert near.failed == far.failed == near.cases and near.first_error == far.first_error and near.first_error.startswith("big.parquet on sata7200: the trace reaches")


#: Enough work for a worker to be killed in the middle.
def long_plan(folder):
    return {
        "loads": [folder / "sda.parquet"], "disks": ["sata7200"], "schedulers": ["mq-deadline"], "seeds": 10,
        "tunables": {"mq-deadline": {"fifo_batch": list(range(1, 26)), "read_expire": [100, 200, 300, 400]}},
    }


@pytest.fixture(scope="module")
def long(folder):
    done = sw.sweep(long_plan(folder), folder / "long")
    return done.cases, data_set(folder / "long")


class Killing:
    """Progress that kills a process once, when a part is done."""

    def __init__(self, of, at):
        self.of, self.at, self.killed = of, at, None

    def __call__(self, done, total, stage):
        if self.killed is None and self.at <= done < total:
            self.killed = self.of()
            os.kill(self.killed, signal.SIGKILL)


def test_a_killed_process_of_a_pool_raises_and_the_sweep_can_be_continued(folder, long, tmp_path):
    cases, expected = long
    with futures.ProcessPoolExecutor(2) as pool:
        killing = Killing(lambda: next(iter(pool._processes)), 50)
        with pytest.raises(sw.WorkerLostError, match=rf"BrokenProcessPool.* of {cases} cases are done and kept; the same call continues"):
            sw.sweep(long_plan(folder), tmp_path / "out", executor=pool, progress=killing)
    with futures.ProcessPoolExecutor(2) as pool:
        done = sw.sweep(long_plan(folder), tmp_path / "out", executor=pool)
    assert 0 < done.run < cases and data_set(tmp_path / "out") == expected


class LocalRayletDiedError(Exception):
    """Named as Ray's exception for a task whose node's raylet was killed."""


def test_a_killed_raylet_is_a_lost_worker(folder, tmp_path):
    class Raylet(futures.Executor):
        def submit(self, fn, /, *args, **kwargs):
            future = futures.Future()
            future.set_exception(LocalRayletDiedError("The task's local raylet died."))
            return future

    with pytest.raises(sw.WorkerLostError, match="LocalRayletDiedError.* cases are done and kept; the same call continues"):
        sw.sweep(folder / "plan.toml", tmp_path / "out", executor=Raylet())


def test_what_a_worker_cannot_read_is_named(folder, tmp_path):
    with futures.ThreadPoolExecutor(1) as pool:
        with pytest.raises(sw.InvalidInputError, match="a worker on .* cannot use the plan: .*sda.parquet") as raised:
            sw.sweep(folder / "plan.toml", tmp_path / "out", executor=pool, worker_folder=tmp_path)
        assert raised.value.key == "worker_folder"
        # The same names, but not the same files.
        (tmp_path / "two.fio").write_text(SHORT)
        (tmp_path / "sda.parquet").write_bytes(b"other")
        with pytest.raises(sw.InvalidInputError, match="a worker finds other files than the plan has here: loads: there .*5 bytes"):
            sw.sweep(folder / "plan.toml", tmp_path / "out", executor=pool, worker_folder=tmp_path)
        sw.sweep(folder / "plan.toml", tmp_path / "out", executor=pool, worker_folder=folder)
    assert data_set(tmp_path / "out") == data_set(folder / "whole")


def test_exceptions_go_between_processes():
    for error in [
        sw.InvalidInputError("m", key="k", file="f", line=3), sw.FileError(2, "No such file", "path"), sw.SeekwiseError("s"), sw.WorkerLostError("w"),
    ]:
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and str(again) == str(error) and again.__dict__ == error.__dict__


INTERRUPTED = """
import concurrent.futures, signal, sys, os, threading, time
import seekwise as sw
if __name__ == "__main__":
    plan, out, kind = sys.argv[1:]
    def told(done, total, stage):
        if done >= 20 and not sent:
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
    sent = []
    pools = {"threads": concurrent.futures.ThreadPoolExecutor, "processes": concurrent.futures.ProcessPoolExecutor}
    try:
        if kind == "none":
            sw.sweep(plan, out, progress=told)
        else:
            with pools[kind](2) as pool:
                sw.sweep(plan, out, executor=pool, progress=told)
    except KeyboardInterrupt:
        print(f"{time.monotonic() - sent[0]:.2f}")
"""


@pytest.mark.parametrize("kind", ["none", "threads", "processes"])
def test_ctrl_c_stops_a_sweep_which_goes_on_later(folder, long, tmp_path, kind):
    _, expected = long
    text = sw._seekwise.SweepPlan.toml(json.dumps({**long_plan(folder), "loads": [str(folder / "sda.parquet")]}))
    (tmp_path / "plan.toml").write_text(text)
    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    ran = subprocess.run([sys.executable, "interrupted.py", "plan.toml", "out", kind], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0 and ran.stderr == "" and float(ran.stdout) < 3, ran
    done = sw.sweep(long_plan(folder), tmp_path / "out")
    assert 0 < done.run < done.cases and data_set(tmp_path / "out") == expected


def test_a_sweep_in_threads_of_a_process_that_forks_does_not_hang(folder, long, tmp_path):
    with futures.ThreadPoolExecutor(2) as pool:
        runs = threading.Thread(target=lambda: sw.sweep(long_plan(folder), tmp_path / "parent", executor=pool))
        runs.start()
        pid = os.fork()
        if pid == 0:
            signal.alarm(30)
            with futures.ThreadPoolExecutor(1) as own:
                os._exit(0 if sw.sweep(as_dict(folder), tmp_path / "child", executor=own).is_whole else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        runs.join()
    assert data_set(tmp_path / "parent") == long[1]


def test_progress_can_be_a_line(folder, tmp_path, capfd):
    sw.sweep(as_dict(folder), tmp_path / "out", progress=True)
    out, err = capfd.readouterr()
    assert out == "" and err.endswith("\n") and "8 of 8 cases" in err
    sw.sweep(as_dict(folder), tmp_path / "silent")
    assert capfd.readouterr() == ("", "")


def test_dask_loses_a_worker_and_the_bytes_are_the_same(folder, long, tmp_path):
    distributed = pytest.importorskip("distributed")
    cases, expected = long
    settings = {"processes": True, "n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(**settings) as cluster, distributed.Client(cluster) as client:
        workers = [worker for worker in client.run(os.getpid).values()]
        killing = Killing(lambda: workers[0], 50)
        done = sw.sweep(long_plan(folder), tmp_path / "out", executor=client, progress=killing)
        assert killing.killed in workers and killing.killed not in client.run(os.getpid).values()
        assert done.run == cases and data_set(tmp_path / "out") == expected
        done = sw.sweep(folder / "plan.toml", tmp_path / "executor", executor=client.get_executor())
    assert data_set(tmp_path / "executor") == data_set(folder / "whole")


def test_ray_loses_a_worker_and_the_bytes_are_the_same(folder, long, tmp_path, monkeypatch):
    if os.environ.get("SEEKWISE_RAY") != "1":
        pytest.skip("ray takes too long to install and to start for every run: research/bars/scale --part sweep sets SEEKWISE_RAY=1")
    ray = pytest.importorskip("ray")
    # Else Ray makes one in the home directory.
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    cases, expected = long
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=50)
    try:
        pids = ray_processes(sw.RayExecutor())
        killing = Killing(lambda: busy(pids), 50)
        done = sw.sweep(long_plan(folder), tmp_path / "out", executor=ray, progress=killing)
        assert killing.killed in pids and done.run == cases
        assert data_set(tmp_path / "out") == expected
        with sw.RayExecutor() as pool:
            sw.sweep(folder / "plan.toml", tmp_path / "executor", executor=pool)
            with pytest.raises(ZeroDivisionError):
                pool.submit(divmod, 1, 0).result()
        assert data_set(tmp_path / "executor") == data_set(folder / "whole")
        with pytest.raises(RuntimeError, match="after shutdown"):
            pool.submit(divmod, 1, 1)
    finally:
        ray.shutdown()
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=50)
    try:
        with pytest.raises(sw.WorkerLostError):
            sw.sweep(long_plan(folder), tmp_path / "lost", executor=ray, progress=Killing(raylet, 50))
    finally:
        ray.shutdown()


def raylet():
    """The raylet that this process started."""
    def is_ours(process):
        name, rest = process.joinpath("cmdline").read_text().split("\0")[0], process.joinpath("stat").read_text().rpartition(")")[2]
        return name.endswith("/raylet") and int(rest.split()[1]) == os.getpid()

    return next(int(process.name) for process in pathlib.Path("/proc").iterdir() if process.name.isdigit() and is_ours(process))


def ray_processes(pool):
    """Both workers: a task that is too short may be run by one of them alone."""
    pids = set()
    until = time.monotonic() + 30
    while len(pids) < 2 and time.monotonic() < until:
        pids |= {future.result() for future in [pool.submit(os.getpid) for _ in range(8)]}
    return pids


def busy(pids):
    """The process that has used most processor time."""
    spent = lambda pid: sum(map(int, pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
    return max((pid for pid in pids if pathlib.Path(f"/proc/{pid}").exists()), key=spent)


def test_volumes_are_advised_as_by_the_program(folder, tmp_path):
    told = sw.sweep_volumes(folder / "sda.parquet", tmp_path / "ours", disk="sata7200", candidates=["none", "bfq"])
    theirs = program("sweep", "volumes", str(folder / "sda.parquet"), "--disk", "sata7200", "--candidates", "none;bfq", "--output", str(tmp_path / "theirs"))
    assert str(told) == theirs and len(told.volumes) == 1
    assert (tmp_path / "ours" / "volumes.parquet").read_bytes() == (tmp_path / "theirs" / "volumes.parquet").read_bytes()
