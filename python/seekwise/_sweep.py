"""Sweeps: on the cores of this machine, or on the workers of any executor."""

from __future__ import annotations

import concurrent.futures as futures
import json
import operator
import os
import platform
import re
import sys
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Optional, Union

from . import _seekwise
from ._errors import InvalidInputError, SeekwiseError, WorkerLostError
from ._run import preference_argument, several, threads_argument
from ._seekwise import Table
from ._trace import Path, Progress

#: A task that takes less than this is sent together with others, so that the engine's own work for each is small beside it.
_CHUNK_S = 0.5
#: More tasks than this are not sent together, however short they are: what a worker that dies had done is lost.
_MAX_CHUNK = 1000
#: How often the number of workers is asked for and progress reported.
_POLLED_S = 0.2
#: Plans that a process keeps, with the traces that it read last.
_KEPT_PLANS = 2


class SweepReport:
    """The best setting of every load and disk, and what it gains over the default. ``print`` shows what ``seekwise sweep report`` does.

    Attributes:
        objective: The figure by which settings are ranked.
        best: A dict per load and disk: ``setting``, ``default_value``, ``value``, ``gain_percent``, ``interval_percent`` (95%),
            ``held_out_percent``, …
    """

    def __init__(self, text: str, values: dict[str, Any]) -> None:
        self._text = text
        self._values = values
        self.objective: str = values["objective"]
        self.best: list[dict[str, Any]] = values["best"]

    def to_dict(self) -> dict[str, Any]:
        """As ``seekwise sweep report --json`` prints it."""
        plain: dict[str, Any] = json.loads(json.dumps(self._values))
        return plain

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<seekwise.SweepReport: by {self.objective}, {len(self.best)} loads on disks>"


class Sweep:
    """The data set of a sweep, finished or not. ``sw.Sweep(folder)`` opens one that is there; :func:`sweep` returns what it made.

    Attributes:
        folder: The folder of the Parquet files.
        cases: Cases of the shard that was run; ``None`` of a folder that was opened, as are the next four.
        run: Of them, those that were run now; the others were done before.
        failed: Of them, those that could not be run; the column ``error`` says why.
        first_error: Why the first could not.
        is_whole: Whether every file of the data set is there, those of other shards included.
    """

    def __init__(self, folder: Path, outcome: Optional[Mapping[str, Any]] = None) -> None:
        self.folder: str = os.fspath(folder)
        known = outcome or {}
        self.cases: Optional[int] = known.get("cases")
        self.run: Optional[int] = known.get("run")
        self.failed: Optional[int] = known.get("failed")
        self.first_error: Optional[str] = known.get("first_error")
        self.is_whole: Optional[bool] = known.get("is_whole")

    def table(self) -> Table:
        """Its rows so far, in the order of the cases (Arrow): the columns of ``docs/sweep.md``.

        All of it is in memory, about 0.5 KiB a row; ``polars.scan_parquet(f"{folder}/*.parquet")`` reads a large one in pieces.
        """
        return _seekwise.sweep_table(self.folder)

    def report(self, objective: Optional[str] = None) -> SweepReport:
        """The best setting of every load and disk.

        Args:
            objective: Rank settings by this figure (default: the plan's), such as ``"p99_ms"``.
        """
        text, values = _seekwise.sweep_report(self.folder, objective)
        return SweepReport(text, json.loads(values))

    def __repr__(self) -> str:
        done = "" if self.cases is None else f": {self.cases} cases, {self.run} of them run now, {self.failed} failed"
        return f"<seekwise.Sweep {self.folder}{done}>"


class VolumesReport:
    """Which volumes gain by which setting, and how much in all. ``print`` shows what ``seekwise sweep volumes`` does.

    Attributes:
        volumes: A dict per volume, with the columns of ``volumes.parquet``.
        gaining: Number of volumes that gain at least 2%.
        mean_gain_percent: The mean gain over all volumes with a verdict.
    """

    def __init__(self, text: str, values: dict[str, Any]) -> None:
        self._text = text
        self.volumes: list[dict[str, Any]] = values["volumes"]
        self.gaining: int = values["gaining"]
        self.mean_gain_percent: float = values["mean_gain_percent"]

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<seekwise.VolumesReport: {self.gaining} of {len(self.volumes)} volumes gain>"


def sweep_volumes(
    path: Path,
    output: Path,
    *,
    disk: Optional[str] = None,
    candidates: Sequence[str] = ("kernel",),
    host: Optional[Mapping[str, int]] = None,
    preference: Optional[Sequence[int]] = None,
    fit: str = "exact",
    same_devices: bool = False,
    top: int = 20,
    threads: Optional[int] = None,
    progress: Optional[Progress] = None,
) -> VolumesReport:
    """Characterise and advise every volume of a cloud's trace, or of a folder of traces, as ``seekwise sweep volumes`` does.

    Stopped at any moment, the same call continues where it was.

    Args:
        path: A trace with a volume in each line, or a folder of traces.
        output: The folder of ``volumes.parquet``, made if it does not exist.
        disk: The disk that each volume is run on by itself (default: volumes are judged as they were recorded).
        candidates: What there is to choose from.
        host: Tunables of the host.
        preference: Weights of throughput, response time and fairness.
        fit: ``"exact"``, or ``"compact"`` to leave out areas that a volume never touches.
        same_devices: Devices of one name are the same in all files of a folder.
        top: Volumes that the text lists.
        threads: Threads (default: one per core).
        progress: See :data:`Progress`.
    """
    keys = {
        "host": [f"{name}={value}" for name, value in (host or {}).items()], "candidates": several(candidates),
        "preference": preference_argument(preference), "fit": fit, "same_devices": same_devices,
    }
    text, values = _seekwise.sweep_volumes(os.fspath(path), disk, os.fspath(output), keys, top, threads_argument(threads), progress)
    return VolumesReport(text, json.loads(values))


def _call(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """What Ray runs: it takes functions written in Python only."""
    return fn(*args, **kwargs)


class RayExecutor(futures.Executor):
    """Runs functions as tasks of Ray. Ray is imported, and connected to (``ray.init()``) where it is not yet, when the first is.

    A task whose worker dies is run again, ``max_retries`` times at most; ``options`` go to ``ray.remote``, such as
    ``runtime_env={"pip": ["seekwise"]}``.
    """

    def __init__(self, *, max_retries: int = 3, **options: Any) -> None:
        self._options: dict[str, Any] = {"max_retries": max_retries, **options}
        self._remote: Any = None
        self._running: dict[futures.Future[Any], Any] = {}
        self._is_shut_down = False
        self._lock = threading.Lock()

    @staticmethod
    def _ray() -> Any:
        import ray  # type: ignore[import-not-found,import-untyped,unused-ignore]

        if not ray.is_initialized():
            ray.init()
        return ray

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> futures.Future[Any]:
        """Start a task. The future's ``cancel`` also takes it back from Ray, if it has not begun."""
        ray = self._ray()
        with self._lock:
            if self._is_shut_down:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if self._remote is None:
                self._remote = ray.remote(**self._options)(_call)
            reference = self._remote.remote(fn, *args, **kwargs)
        done: futures.Future[Any] = futures.Future()
        self._running[done] = reference

        def settle(theirs: futures.Future[Any]) -> None:
            self._running.pop(done, None)
            if not done.set_running_or_notify_cancel():
                return
            error = theirs.exception()
            if error is None:
                done.set_result(theirs.result())
            else:
                # What the function raised is inside Ray's own.
                done.set_exception(getattr(error, "cause", None) or error)

        def cancelled(ours: futures.Future[Any]) -> None:
            if ours.cancelled():
                ray.cancel(reference)

        done.add_done_callback(cancelled)
        reference.future().add_done_callback(settle)
        return done

    def workers(self) -> int:
        """Tasks of one CPU that the cluster can run at once."""
        return max(1, int(self._ray().cluster_resources().get("CPU", 1)))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more tasks. Ray itself goes on (``ray.shutdown()``)."""
        with self._lock:
            self._is_shut_down = True
        running = list(self._running)
        if cancel_futures:
            for future in running:
                future.cancel()
        if wait:
            futures.wait(running)


class _OtherFiles(Exception):
    """A worker finds other files than the plan's. Its argument is what it finds."""


#: What a task needs to know of its sweep: a name of its own, the plan's text and source, the folder of its paths, a digest of its files,
#: threads of a worker.
_Key = tuple[str, str, str, str, str, int]

_workers: OrderedDict[str, _seekwise.SweepWorker] = OrderedDict()
_workers_lock = threading.Lock()


def _forget() -> None:
    """In the child of a fork: what the parent's threads held at that moment stays held."""
    global _workers, _workers_lock
    _workers, _workers_lock = OrderedDict(), threading.Lock()


os.register_at_fork(after_in_child=_forget)


def _worker(key: _Key) -> _seekwise.SweepWorker:
    name, text, source, folder, identity, threads = key
    with _workers_lock:
        worker = _workers.get(name)
        if worker is None:
            try:
                plan = _seekwise.SweepPlan(text, source, folder)
            except SeekwiseError as error:
                raise InvalidInputError(
                    f"a worker on {platform.node()} cannot use the plan: {error}; workers read its files by path: put them where all can "
                    f"read them, and name that folder as worker_folder if its path differs there (here it is {folder})",
                    key="worker_folder",
                ) from None
            if plan.identity() != identity:
                raise _OtherFiles(plan.stored)
            worker = _workers[name] = plan.worker(threads)
            while len(_workers) > _KEPT_PLANS:
                _workers.popitem(last=False)
        return worker


def _run_tasks(key: _Key, tasks: list[int], known: bytes) -> tuple[bytes, float]:
    """In a worker: the rows of some tasks, and the seconds that they took."""
    worker = _worker(key)
    begun = time.monotonic()
    return worker.run(tasks, known), time.monotonic() - begun


class _Engine:
    """An executor, how many workers it has now, and how many tasks one of its processes runs at once."""

    def __init__(self, executor: Any) -> None:
        module = type(executor).__module__.split(".")[0]
        self._client: Any = None
        if getattr(executor, "__name__", None) == "ray":
            executor = RayExecutor()
        elif module == "distributed" and hasattr(executor, "get_executor"):
            self._client = executor
            # The same task may be sent again, after a worker was lost.
            executor = executor.get_executor(pure=False)
        elif module == "distributed":
            self._client = getattr(executor, "_client", None)
        if not isinstance(executor, futures.Executor):
            raise InvalidInputError(
                f"executor: {executor!r} should be an executor of concurrent.futures, a Client of Dask, ray, or None", key="executor"
            )
        self.executor: futures.Executor = executor
        threads = 1
        if isinstance(executor, futures.ThreadPoolExecutor):
            threads = self.workers()
        elif self._client is not None:
            threads = max(self._client.nthreads().values(), default=1)
        self.threads = threads

    def workers(self) -> int:
        if self._client is not None:
            return max(1, int(sum(self._client.nthreads().values())))
        if isinstance(self.executor, RayExecutor):
            return self.executor.workers()
        return int(getattr(self.executor, "_max_workers", None) or os.cpu_count() or 1)


#: Failures of an engine, by name: the engines are not imported for them.
_LOST = {"KilledWorker", "WorkerCrashedError", "NodeDiedError", "OwnerDiedError", "TerminatedWorkerError", "CommClosedError", "OutOfMemoryError"}


def _is_lost(error: BaseException) -> bool:
    return isinstance(error, futures.BrokenExecutor) or any(one.__name__ in _LOST for one in type(error).__mro__)


class _Remote:
    """A sweep that is run by the workers of an executor. This process alone writes."""

    def __init__(self, plan: _seekwise.SweepPlan, output: _seekwise.SweepOutput, engine: _Engine, folder: str, in_flight: Optional[int]) -> None:
        self._plan, self._output, self._engine, self._in_flight = plan, output, engine, in_flight
        self._key: _Key = (uuid.uuid4().hex, plan.text, plan.source, folder, plan.identity(), engine.threads)
        self._running: dict[futures.Future[tuple[bytes, float]], int] = {}
        #: Seconds of a task, as the last ones took.
        self._task_s: Optional[float] = None

    def run(self, progress: Optional[Progress]) -> None:
        cases, before = self._output.cases()
        told = None
        workers, looked = self._engine.workers(), time.monotonic()
        try:
            while True:
                if time.monotonic() - looked > _POLLED_S:
                    workers, looked = self._engine.workers(), time.monotonic()
                self._submit(workers)
                done = self._output.cases()[1]
                if progress is not None and done != told:
                    told = done
                    progress(done, cases, "cases")
                if not self._running:
                    return
                finished, _ = futures.wait(self._running, timeout=_POLLED_S, return_when=futures.FIRST_COMPLETED)
                for future in finished:
                    self._take(future)
        except BaseException as error:
            self._stop()
            if _is_lost(error):
                _, done = self._output.cases()
                raise WorkerLostError(
                    f"a worker was lost and its task with it ({type(error).__name__}: {error}): {done} of {cases} cases are done and kept; "
                    "the same call continues with a new executor"
                ) from error
            if isinstance(error, _OtherFiles):
                difference = self._plan.difference(str(error.args[0]))
                raise InvalidInputError(
                    f"a worker finds other files than the plan has here: {difference}; let worker_folder name the same files, and use one "
                    "version of seekwise",
                    key="worker_folder",
                ) from None
            raise
        finally:
            with _workers_lock:
                _workers.pop(self._key[0], None)

    def _submit(self, workers: int) -> None:
        # Two for each worker: while one is on its way back another is at hand.
        in_flight = self._in_flight or 2 * workers
        while len(self._running) < in_flight:
            left = self._output.left()
            if left == 0:
                return
            chunk = 1 if self._task_s is None else int(_CHUNK_S / max(self._task_s, 1e-6))
            # Smaller ones towards the end, so that all workers end together.
            chunk = max(1, min(chunk, _MAX_CHUNK, left // (2 * workers)))
            tasks, known = self._output.next(chunk)
            self._running[self._engine.executor.submit(_run_tasks, self._key, tasks, known)] = len(tasks)

    def _take(self, future: futures.Future[tuple[bytes, float]]) -> None:
        tasks = self._running.pop(future)
        rows, seconds = future.result()
        self._output.add(rows)
        self._task_s = seconds / tasks

    def _stop(self) -> None:
        """Takes back what has not begun, ends what runs in this process, and keeps what is done."""
        for future in self._running:
            future.cancel()
        worker = _workers.get(self._key[0])
        if worker is not None:
            worker.stop()
            futures.wait(self._running)
        for future in list(self._running):
            if future.done() and not future.cancelled() and future.exception() is None:
                self._take(future)


def _told(stream: Any) -> Progress:
    """Progress as a line that is written again and again."""
    begun = time.monotonic()
    first: list[int] = []
    last = [0.0]

    def tell(done: int, total: int, stage: str) -> None:
        if not first:
            first.append(done)
        now = time.monotonic()
        if last[0] == float("inf") or now - last[0] < _POLLED_S and done < total:
            return
        # The end is reported once.
        last[0] = now if done < total else float("inf")
        line = f"\r{done} of {total} {stage}"
        if done > first[0] and done < total:
            line += f", {(now - begun) / (done - first[0]) * (total - done):.0f} s left"
        stream.write(f"{line}{' ' * 12}" + ("\n" if done == total else ""))
        stream.flush()

    return tell


def _plain(value: Any) -> Any:
    """What JSON does not know: paths, ranges, numbers and arrays of numpy."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Iterable):
        return list(value)
    return operator.index(value)


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _without_none(one) for key, one in value.items() if one is not None}
    return value


def _read_plan(plan: Union[Path, Mapping[str, Any]], folder: Optional[Path]) -> tuple[_seekwise.SweepPlan, str]:
    """The plan, and the folder from which its paths are named."""
    named = os.fspath(folder) if folder is not None else ""
    if isinstance(plan, Mapping):
        try:
            text = json.dumps(_without_none(plan), default=_plain, allow_nan=False)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInputError(f"plan: {error}; its values are words, numbers, lists and dicts", key="plan") from None
        text = _seekwise.SweepPlan.toml(text)
        try:
            return _seekwise.SweepPlan(text, "plan", named), named
        except InvalidInputError as error:
            # A dict has no lines.
            raise InvalidInputError(re.sub(r"^plan:\d+: ", "plan: ", str(error)), key="plan") from None
    elif isinstance(plan, (str, os.PathLike)):
        path = os.fspath(plan)
        if "\n" not in path:
            if folder is not None:
                raise InvalidInputError("folder: is for a plan that is a text or a dict; a file's paths are named from its own folder", key="folder")
            return _seekwise.SweepPlan.read(path), os.path.dirname(path)
        text = path
    else:
        raise InvalidInputError(f"plan: {plan!r} should be the path of a TOML file, its text, or a dict", key="plan")
    return _seekwise.SweepPlan(text, "plan", named), named


def sweep(
    plan: Union[Path, Mapping[str, Any]],
    output: Path,
    *,
    executor: Optional[Any] = None,
    folder: Optional[Path] = None,
    worker_folder: Optional[Path] = None,
    shard: Optional[str] = None,
    threads: Optional[int] = None,
    in_flight: Optional[int] = None,
    progress: Union[bool, Progress, None] = None,
) -> Sweep:
    """Run loads on disks under settings, into one Parquet data set, as ``seekwise sweep`` does and with the same bytes.

    The same call continues a sweep that was stopped: a case that is done is not run again.

    Args:
        plan: The path of a plan (``docs/sweep.md``), its text, or the same as a dict
            (``{"loads": ["sda.parquet"], "disks": ["sata7200"], "host": {"nr_requests": [64, 256]}}``).
        output: The folder of the data set, made if it does not exist. Only this process writes there.
        executor: What runs the cases. ``None``: threads of this process. An executor of ``concurrent.futures`` (also loky's), a
            ``Client`` of Dask, ``ray``, or a :class:`RayExecutor`. Its workers need this version of the package, and read the plan's
            traces, job files and profiles by path.
        folder: The folder from which paths in a text or dict are named (default: the working directory).
        worker_folder: The same as workers see it, such as ``"."`` with Ray's ``working_dir`` (default: the same absolute path).
        shard: ``"I/N"``: only every N-th file from the I-th on.
        threads: Threads without an executor (default: one per core).
        in_flight: Tasks that are sent and not back yet (default: two for each worker). Short cases are sent together, half a second
            of work in a task; a Bayesian search of a load on a disk is one task.
        progress: See :data:`Progress`; ``True`` writes a line with the time left to ``sys.stderr``.

    Raises:
        InvalidInputError: A key of the plan is wrong, the folder holds another sweep, or workers see other files.
        WorkerLostError: A worker died and the executor does not start its task again (Dask and Ray do).
        KeyboardInterrupt: Ctrl-C: nothing more is sent; what is done stays done.
    """
    told: Optional[Progress] = _told(sys.stderr) if progress is True else progress or None
    engine = None if executor is None else _Engine(executor)
    for name, given, belongs in [("threads", threads, executor is None), ("in_flight", in_flight, executor is not None), ("worker_folder", worker_folder, executor is not None)]:
        if given is not None and not belongs:
            raise InvalidInputError(f"{name}: is {'for an executor' if executor is None else 'not for an executor, which has its own workers'}", key=name)
    if in_flight is not None and in_flight < 1:
        raise InvalidInputError(f"in_flight: {in_flight} should be at least 1", key="in_flight")
    threads = threads_argument(threads)
    read, named = _read_plan(plan, folder)
    if engine is None:
        done = Sweep(output, json.loads(read.run(os.fspath(output), shard, threads, told)))
        if told is not None and done.cases is not None:
            told(done.cases, done.cases, "cases")
        return done
    there = os.path.abspath(named) if worker_folder is None else os.fspath(worker_folder)
    taker = read.output(os.fspath(output), shard)
    try:
        _Remote(read, taker, engine, there, in_flight).run(told)
        return Sweep(output, json.loads(taker.finish()))
    finally:
        taker.close()
