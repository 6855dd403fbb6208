"""Sweeps, run on this machine's cores or on the workers of an executor."""

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

#: Minimum duration of a submission in seconds: shorter tasks are batched, so that the engine's overhead is small.
_CHUNK_S = 0.5
#: Maximum tasks per batch, because a worker that dies loses its whole batch.
_MAX_CHUNK = 1000
#: Interval in seconds of polling the number of workers and reporting progress.
_POLLED_S = 0.2
#: Plans cached per worker process, with the traces read last.
_KEPT_PLANS = 2


class SweepReport:
    """The best setting for every load and disk, with its gain over the default. ``print`` shows the report of ``seekwise sweep report``.

    Attributes:
        objective: Name of the figure that ranks settings.
        best: One dict per load and disk: ``setting``, ``default_value``, ``value``, ``gain_percent``, ``interval_percent`` (95%),
            ``held_out_percent``, …
    """

    def __init__(self, text: str, values: dict[str, Any]) -> None:
        self._text = text
        self._values = values
        self.objective: str = values["objective"]
        self.best: list[dict[str, Any]] = values["best"]

    def to_dict(self) -> dict[str, Any]:
        """The values of ``seekwise sweep report --json``."""
        plain: dict[str, Any] = json.loads(json.dumps(self._values))
        return plain

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<seekwise.SweepReport: by {self.objective}, {len(self.best)} loads on disks>"


class Sweep:
    """The data set of a sweep, finished or not. ``sw.Sweep(folder)`` opens an existing one; :func:`sweep` returns the one it wrote.

    Attributes:
        folder: The folder of the Parquet files.
        cases: Number of cases of the shard. This and the following attributes are ``None`` for an opened folder.
        run: Number of cases run by this call; the others were already finished.
        failed: Number of cases that failed; their errors are in the column ``error``.
        first_error: Error of the first failed case; ``None`` if none failed.
        is_whole: Whether all files of the data set exist, including those of other shards.
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
        """The rows written so far, in order of the cases (Arrow), with the columns of ``docs/sweep.md``.

        Loads the whole table into memory, about 0.5 KiB per row; ``polars.scan_parquet(f"{folder}/*.parquet")`` streams a large one.
        """
        return _seekwise.sweep_table(self.folder)

    def report(self, objective: Optional[str] = None) -> SweepReport:
        """Return the best setting for every load and disk.

        Args:
            objective: Figure that ranks settings, such as ``"p99_ms"`` (default: the plan's).
        """
        text, values = _seekwise.sweep_report(self.folder, objective)
        return SweepReport(text, json.loads(values))

    def __repr__(self) -> str:
        done = "" if self.cases is None else f": {self.cases} cases, {self.run} of them run now, {self.failed} failed"
        return f"<seekwise.Sweep {self.folder}{done}>"


class VolumesReport:
    """Recommended setting and gain of each volume. ``print`` shows the report of ``seekwise sweep volumes``.

    Attributes:
        volumes: One dict per volume, with the columns of ``volumes.parquet``.
        gaining: Number of volumes with a gain of at least 2%.
        mean_gain_percent: Mean gain of all volumes with a verdict.
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
    """Characterise every volume of a cloud trace or of a folder of traces, and recommend a setting for each.

    Equivalent to ``seekwise sweep volumes``. After an interruption the same call resumes.

    Args:
        path: A trace whose records name their volume, or a folder of traces.
        output: The folder of ``volumes.parquet``, created if it does not exist.
        disk: Simulate each volume alone on this disk. ``None`` (default): the device is inferred from recorded response times.
        candidates: Settings, or names of sets of settings (default: ``"kernel"``).
        host: Tunables of the host.
        preference: Weights of throughput, response time and fairness (default: ``(2, 3, 1)``).
        fit: ``"exact"`` (default), or ``"compact"`` to remove areas that a volume never accesses.
        same_devices: Identify devices of several files by name (default: those of each file are distinct).
        top: Maximum number of volumes in the printed report (default: 20).
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
    """Wrapper for Ray, which runs only functions written in Python."""
    return fn(*args, **kwargs)


class RayExecutor(futures.Executor):
    """An executor that runs functions as Ray tasks. The first task imports Ray and, if necessary, connects to it (``ray.init()``).

    Args:
        max_retries: How often a task whose worker died is retried (default: 3).
        options: Further options of ``ray.remote``, such as ``runtime_env={"pip": ["seekwise"]}``.
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
        """Submit a task. Cancelling its future also cancels the Ray task if that has not started."""
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
                # Ray wraps the function's exception in its own.
                done.set_exception(getattr(error, "cause", None) or error)

        def cancelled(ours: futures.Future[Any]) -> None:
            if ours.cancelled():
                ray.cancel(reference)

        done.add_done_callback(cancelled)
        reference.future().add_done_callback(settle)
        return done

    def workers(self) -> int:
        """Number of single-CPU tasks that the cluster can run concurrently."""
        return max(1, int(self._ray().cluster_resources().get("CPU", 1)))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more tasks. Ray itself keeps running; ``ray.shutdown()`` stops it."""
        with self._lock:
            self._is_shut_down = True
        running = list(self._running)
        if cancel_futures:
            for future in running:
                future.cancel()
        if wait:
            futures.wait(running)


class _OtherFiles(Exception):
    """A worker's files differ from the plan's. The argument describes the worker's files."""


#: Identifies a sweep to its workers: unique name, text and source of the plan, base folder of its paths, digest of its files,
#: threads per worker.
_Key = tuple[str, str, str, str, str, int]

_workers: OrderedDict[str, _seekwise.SweepWorker] = OrderedDict()
_workers_lock = threading.Lock()


def _forget() -> None:
    """Reset state in a forked child, where locks held by threads of the parent would stay locked."""
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
    """Run tasks in a worker. Returns their rows and the duration in seconds."""
    worker = _worker(key)
    begun = time.monotonic()
    return worker.run(tasks, known), time.monotonic() - begun


class _Engine:
    """An executor with its current number of workers, and the tasks per worker process."""

    def __init__(self, executor: Any) -> None:
        module = type(executor).__module__.split(".")[0]
        self._client: Any = None
        if getattr(executor, "__name__", None) == "ray":
            executor = RayExecutor()
        elif module == "distributed" and hasattr(executor, "get_executor"):
            self._client = executor
            # A task may be resubmitted after its worker was lost, so it must not be treated as pure.
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


#: Exceptions of engines for a lost worker or node, by name, so that the engines need not be imported. When Ray's raylet is killed, a
#: waiting task ends with LocalRayletDiedError.
_LOST = {
    "KilledWorker", "WorkerCrashedError", "NodeDiedError", "OwnerDiedError", "TerminatedWorkerError", "CommClosedError", "OutOfMemoryError",
    "LocalRayletDiedError", "ObjectLostError", "RaySystemError", "RpcError",
}


def _is_lost(error: BaseException) -> bool:
    return isinstance(error, futures.BrokenExecutor) or any(one.__name__ in _LOST for one in type(error).__mro__)


class _Remote:
    """A sweep run by the workers of an executor. Only this process writes output."""

    def __init__(self, plan: _seekwise.SweepPlan, output: _seekwise.SweepOutput, engine: _Engine, folder: str, in_flight: Optional[int]) -> None:
        self._plan, self._output, self._engine, self._in_flight = plan, output, engine, in_flight
        self._key: _Key = (uuid.uuid4().hex, plan.text, plan.source, folder, plan.identity(), engine.threads)
        self._running: dict[futures.Future[tuple[bytes, float]], int] = {}
        #: Mean duration of the last tasks, in seconds; ``None`` before the first result.
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
        # Two per worker, so that a worker need not wait for the next task.
        in_flight = self._in_flight or 2 * workers
        while len(self._running) < in_flight:
            left = self._output.left()
            if left == 0:
                return
            chunk = 1 if self._task_s is None else int(_CHUNK_S / max(self._task_s, 1e-6))
            # Smaller batches towards the end, so that workers finish together.
            chunk = max(1, min(chunk, _MAX_CHUNK, left // (2 * workers)))
            tasks, known = self._output.next(chunk)
            self._running[self._engine.executor.submit(_run_tasks, self._key, tasks, known)] = len(tasks)

    def _take(self, future: futures.Future[tuple[bytes, float]]) -> None:
        tasks = self._running.pop(future)
        rows, seconds = future.result()
        self._output.add(rows)
        self._task_s = seconds / tasks

    def _stop(self) -> None:
        """Cancel pending tasks, stop those of this process, and keep finished results."""
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
    """A progress callback that rewrites one line of ``stream``."""
    begun = time.monotonic()
    first: list[int] = []
    last = [0.0]

    def tell(done: int, total: int, stage: str) -> None:
        if not first:
            first.append(done)
        now = time.monotonic()
        if last[0] == float("inf") or now - last[0] < _POLLED_S and done < total:
            return
        # Report completion only once.
        last[0] = now if done < total else float("inf")
        line = f"\r{done} of {total} {stage}"
        if done > first[0] and done < total:
            line += f", {(now - begun) / (done - first[0]) * (total - done):.0f} s left"
        stream.write(f"{line}{' ' * 12}" + ("\n" if done == total else ""))
        stream.flush()

    return tell


def _plain(value: Any) -> Any:
    """Convert types unknown to JSON: paths, ranges, numpy numbers and arrays."""
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
    """Parse the plan. Returns it with the base folder of its relative paths."""
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
            # Drop the line number, which is meaningless for a dict.
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
    """Run loads on disks under settings and write the results to one Parquet data set, byte-identical to that of ``seekwise sweep``.

    After an interruption the same call resumes; finished cases are not run again.

    Args:
        plan: The path of a plan (``docs/sweep.md``), its text, or an equivalent dict
            (``{"loads": ["sda.parquet"], "disks": ["sata7200"], "host": {"nr_requests": [64, 256]}}``).
        output: The folder of the data set, created if it does not exist. Only this process writes there.
        executor: Runs the cases: an executor of ``concurrent.futures`` (or of loky), a Dask ``Client``, ``ray``, or a
            :class:`RayExecutor`. ``None`` (default): threads of this process. Workers need this version of the package, and read
            the plan's traces, job files and profiles by path.
        folder: Base folder of relative paths in a text or dict (default: the working directory).
        worker_folder: Path of that folder on workers, such as ``"."`` with Ray's ``working_dir`` (default: the same absolute path).
        shard: ``"I/N"``: run only every N-th file from the I-th on (default: all).
        threads: Threads without an executor (default: one per core).
        in_flight: Maximum number of outstanding tasks (default: two per worker). Short cases are batched to half a second of work
            per task; a Bayesian search for a load on a disk is one task.
        progress: See :data:`Progress`; ``True`` writes a line with the remaining time to ``sys.stderr``.

    Raises:
        InvalidInputError: The plan is invalid, the folder holds another sweep, or the workers' files differ.
        WorkerLostError: A worker died and the executor does not retry its task (Dask and Ray do).
        KeyboardInterrupt: Ctrl-C was pressed. No more tasks are submitted; finished cases are kept.
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
