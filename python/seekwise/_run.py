"""Simulation and comparison."""

from __future__ import annotations

import json
import operator
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Optional, Union

from . import _seekwise
from ._errors import InvalidInputError
from ._scheduler import SchedulerLike, scheduler_argument
from ._seekwise import Table
from ._trace import Path, Progress, Trace

#: A trace, the path of a trace or fio job file, or the name of a workload that comes with the package.
Load = Union[Trace, Path]


class Figures(Mapping[str, Any]):
    """Figures of a run as a read-only mapping with attribute access: ``figures.response.p99_ms`` is
    ``figures["response"]["p99_ms"]``.

    Names are those of ``docs/reference/json.md`` and end in their unit. A figure that does not apply is ``None``.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        value = self._values[name]
        return Figures(value) if isinstance(value, dict) else value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no figure {name!r}; there are {', '.join(self._values)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Figures({self._values!r})"

    def to_dict(self) -> dict[str, Any]:
        """A copy as nested dicts."""
        plain: dict[str, Any] = json.loads(json.dumps(self._values))
        return plain


class Result:
    """Result of one simulation.

    Attributes:
        figures: Throughput in 10**6 bytes per second, response times in ms, utilisation, … (:class:`Figures`).
        streams: One row per stream, busiest first (Arrow): ``requests``, ``throughput_mb_s``, ``mean_ms``, ``p99_ms``, …
        requests: One row per request in order of arrival (Arrow), in the columns of :class:`Trace` with ``response_ns`` and
            ``service_ns``; ``None`` unless ``requests=True`` was given. Takes 60 to 100 bytes of memory per request.
        warnings: Limits to the validity of the figures, as sentences.
    """

    def __init__(self, record: dict[str, Any], streams: Table, requests: Optional[Table], warnings: list[str]) -> None:
        scheduler = record["scheduler"]
        scheduler["tunables"] = [pair for pair in scheduler["tunables"] if pair[0] != "python_class"]
        self._record = record
        self.figures = Figures(record["figures"])
        self.streams = streams
        self.requests = requests
        self.warnings: list[str] = warnings + record["warnings"]

    @property
    def scheduler(self) -> str:
        """The scheduler or controller, with its non-default tunables."""
        label: str = self._record["scheduler"]["label"]
        return label

    @property
    def disk(self) -> str:
        """The disk's name."""
        name: str = self._record["disk"]["name"]
        return name

    @property
    def tenants(self) -> Optional[list[dict[str, Any]]]:
        """Guarantees and results per tenant, in the keys of ``docs/reference/json.md``; ``None`` without a contract."""
        tenancy = self._record.get("tenants")
        return None if tenancy is None else tenancy["tenants"]

    @property
    def decisions(self) -> list[dict[str, Any]]:
        """The controller's decisions with their reasons; empty without a controller."""
        steering = self._record.get("steering")
        return [] if steering is None else list(steering["decisions"])

    def to_dict(self) -> dict[str, Any]:
        """The full record as ``seekwise simulate --json`` prints it."""
        plain: dict[str, Any] = json.loads(json.dumps(self._record))
        return plain

    def __repr__(self) -> str:
        figures = self.figures
        return (
            f"<seekwise.Result: {self.scheduler} on {self.disk}: {figures['throughput_mb_s']:.3g} MB/s, "
            f"mean {figures['response']['mean_ms']:.3g} ms, p99 {figures['response']['p99_ms']:.3g} ms>"
        )


@contextmanager
def _as_file(text_or_path: Optional[Path], suffix: str) -> Iterator[Optional[str]]:
    """Yield a path; text of several lines is written to a temporary file, which is removed on exit."""
    if text_or_path is None or "\n" not in os.fspath(text_or_path):
        yield None if text_or_path is None else os.fspath(text_or_path)
        return
    with tempfile.NamedTemporaryFile("w", suffix=suffix, encoding="utf-8") as file:
        file.write(os.fspath(text_or_path))
        file.flush()
        yield file.name


def _host(host: Optional[Mapping[str, int]]) -> list[str]:
    return [f"{name}={value}" for name, value in (host or {}).items()]


def whole_numbers(value: Union[int, Sequence[int]]) -> list[int]:
    """The integer or integers as a list; numpy integers are accepted."""
    return [operator.index(one) for one in (value if isinstance(value, Iterable) else [value])]


def several(values: Union[str, Iterable[Any]]) -> list[Any]:
    """A list; one word means itself, not its letters."""
    return [values] if isinstance(values, str) else list(values)


def threads_argument(threads: Optional[int]) -> Optional[int]:
    if threads is not None and not 1 <= operator.index(threads) <= 1024:
        raise InvalidInputError(f"threads: {threads} should be from 1 to 1024", key="threads")
    return threads


def preference_argument(preference: Optional[Sequence[int]]) -> Optional[str]:
    return None if preference is None else ",".join(str(weight) for weight in preference)


def load_argument(load: Load) -> Union[_seekwise.Trace, str]:
    return load._native if isinstance(load, Trace) else os.fspath(load)


def simulate(
    load: Load,
    *,
    disk: Path = "sata7200",
    scheduler: SchedulerLike = "mq-deadline",
    controller: Optional[str] = None,
    host: Optional[Mapping[str, int]] = None,
    seed: int = 1,
    closed: bool = False,
    speed: float = 1.0,
    fit: str = "exact",
    queue_depth: Optional[int] = None,
    queue_policy: Optional[str] = None,
    tenants: Optional[Path] = None,
    candidates: Sequence[str] = (),
    preference: Optional[Sequence[int]] = None,
    experience: Optional[Path] = None,
    knowledge_base: Optional[Path] = None,
    requests: bool = False,
    alone: bool = False,
    threads: Optional[int] = None,
    progress: Optional[Progress] = None,
) -> Result:
    """Simulate a load on a disk. The same input and seed give the same result, with any number of threads.

    Args:
        load: See :data:`Load`.
        disk: The name of a disk (:func:`disks`), the path of a profile or of a learned model, an array
            (``"raid5:disk=atlas10k,disks=5"``), or the text of a profile in TOML (default: ``"sata7200"``).
        scheduler: A name, optionally with tunables (``"kyber:read_lat_nsec=1000000"``), a class derived from
            :class:`Scheduler`, or ``(class, {"tunable": value})`` (default: ``"mq-deadline"``).
        controller: A controller that changes scheduler and settings during the run (:func:`controllers`), beginning with
            ``scheduler``. ``None`` (default): the setting stays fixed.
        host: Tunables of the host (:func:`host_tunables`). For a block trace only those of the queue have an effect.
        seed: Random seed of a job file (default: 1). Traces are deterministic and ignore it.
        closed: Closed-loop replay: issue each request of a trace its think time after the completion that its stream waited for,
            instead of at its recorded time (default: open loop).
        speed: Divide the arrival times of a trace by this factor (default: 1.0).
        fit: How a trace is fitted to the disk: ``"exact"`` (default), or ``"compact"`` to remove areas that it never accesses.
        queue_depth: Maximum number of requests outstanding at the disk, 1 to 1024 (default: the profile's).
        queue_policy: Order in which the disk serves its queue: ``"fifo"``, ``"sstf"`` or ``"sptf"`` (default: the profile's).
        tenants: A contract with tenants: the path of a TOML file, or its text (``docs/reference/tenants.md``).
        candidates: Settings among which the controller chooses.
        preference: The controller's weights of throughput, response time and fairness (default: ``(2, 3, 1)``).
        experience: A file of experience that the controller learns from.
        knowledge_base: A knowledge base that the controller reads and extends.
        requests: Keep every request with its times in ``Result.requests`` (default: no).
        alone: Also run each stream alone, to compute slowdown and fairness (default: no).
        threads: Threads (default: one per core).
        progress: See :data:`Progress`.

    Raises:
        InvalidInputError: An argument or a file is wrong.
        FileError: A file could not be opened.
        KeyboardInterrupt: Ctrl-C was pressed; raised within 0.2 s.
    """
    with _as_file(tenants, ".toml") as contract:
        keys = {
            "host": _host(host), "seed": seed, "closed": closed, "speed": speed, "fit": fit, "queue_depth": queue_depth,
            "queue_policy": queue_policy, "tenants": contract, "candidates": several(candidates),
            "preference": preference_argument(preference), "experience": experience, "knowledge_base": knowledge_base,
        }
        record, streams, kept, warnings = _seekwise.simulate(
            load_argument(load), os.fspath(disk), scheduler_argument(scheduler), controller, keys, requests, alone, threads_argument(threads), progress
        )
    return Result(json.loads(record), streams, kept, warnings)


def compare(
    load: Load,
    *,
    disk: Union[Path, Sequence[Path]] = "sata7200",
    schedulers: Sequence[SchedulerLike] = ("none", "mq-deadline", "kyber", "bfq"),
    controllers: Sequence[str] = (),
    host: Optional[Mapping[str, Union[int, Sequence[int]]]] = None,
    seeds: Iterable[int] = (1,),
    closed: bool = False,
    speed: float = 1.0,
    fit: str = "exact",
    queue_depth: Optional[int] = None,
    queue_policy: Optional[str] = None,
    tenants: Optional[Path] = None,
    candidates: Sequence[str] = (),
    preference: Optional[Sequence[int]] = None,
    alone: bool = False,
    threads: Optional[int] = None,
    progress: Optional[Progress] = None,
) -> Table:
    """Run a load under every combination of disks, schedulers, host settings and seeds.

    Arguments not listed are those of :func:`simulate`.

    Args:
        disk: One disk or several.
        schedulers: Schedulers to compare (default: ``none``, ``mq-deadline``, ``kyber`` and ``bfq``).
        controllers: Controllers to compare, each of which chooses among ``candidates`` (default: none).
        host: Values of the host's tunables. Lists are combined exhaustively (Cartesian product).
        seeds: Random seeds, one run for each (default: 1). A trace runs once, and its rows are repeated for each seed.

    Returns:
        A table in long format, one row per case and figure: columns ``disk``, ``scheduler``, one for each tunable of ``host``,
        ``seed``, ``figure`` (``throughput_mb_s``, ``response.p99_ms``, …) and ``value`` (null if the figure does not apply).
    """
    disks = [disk] if isinstance(disk, (str, os.PathLike)) else list(disk)
    varied = [(name, whole_numbers(value)) for name, value in (host or {}).items()]
    with _as_file(tenants, ".toml") as contract:
        keys = {
            "closed": closed, "speed": speed, "fit": fit, "queue_depth": queue_depth, "queue_policy": queue_policy,
            "tenants": contract, "candidates": several(candidates), "preference": preference_argument(preference),
        }
        table, _ = _seekwise.compare(
            load_argument(load), [os.fspath(one) for one in disks], [scheduler_argument(one) for one in several(schedulers)], several(controllers),
            varied, list(seeds), keys, alone, threads_argument(threads), progress,
        )
    return table


def _list(text: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(text)
    return listed


def disks() -> list[dict[str, Any]]:
    """The disks that come with the package.

    Each has ``name``, ``description``, ``capacity_bytes``, ``rotational``, ``queue_depth``, ``queue_policy`` (order in which queued
    requests are served), ``disks`` (number of members) and ``profile`` (TOML).
    """
    return _list(_seekwise.disks())


def disk(name_or_profile: Path) -> dict[str, Any]:
    """One disk, in the keys of :func:`disks`.

    Args:
        name_or_profile: A name, a path, an array (``"raid5:disk=atlas10k,disks=5"``), or the text of a profile.

    Raises:
        InvalidInputError: The profile is wrong; the message has the line.
    """
    one: dict[str, Any] = json.loads(_seekwise.disk(os.fspath(name_or_profile)))
    return one


def schedulers() -> list[dict[str, Any]]:
    """All schedulers: ``name``, ``summary``, ``source``, ``is_linux`` and ``tunables`` with their ranges."""
    return _list(_seekwise.schedulers())


def controllers() -> list[dict[str, Any]]:
    """All controllers: ``name``, ``summary``, ``source`` and ``tunables`` with their ranges."""
    return _list(_seekwise.controllers())


def host_tunables() -> list[dict[str, Any]]:
    """The tunables of the simulated host: ``name``, ``meaning``, ``min``, ``max`` and ``default``."""
    return _list(_seekwise.host_tunables())


def workloads() -> list[dict[str, Any]]:
    """The fio job files that come with the package: ``name``, ``summary``, ``source`` and ``job`` (their text)."""
    return _list(_seekwise.workloads())


def trace_formats() -> dict[str, list[dict[str, Any]]]:
    """Supported trace formats: the lists ``read`` and ``written``, with ``name`` and ``summary`` of each format."""
    formats: dict[str, list[dict[str, Any]]] = json.loads(_seekwise.trace_formats())
    return formats

