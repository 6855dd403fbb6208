"""Recommendations, forecasts, device models and the knowledge base."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

from . import _seekwise
from ._errors import InvalidInputError
from ._run import Load, load_argument, preference_argument, several, threads_argument, whole_numbers
from ._seekwise import Table
from ._trace import Path, Progress, Trace


@dataclass(frozen=True)
class Aim:
    """A performance target for one stream, which takes precedence over the merit of the whole load. Set exactly one bound.

    Attributes:
        stream: Name of a process, job or stream, or a stream number.
        kind: ``"read"``, ``"write"`` or ``"fsync"``; ``None`` (default): reads and writes together.
        mean_ms, p50_ms, p95_ms, p99_ms, p999_ms, max_ms: Upper bound on the response time, in ms.
        throughput_mb_s: Lower bound on the throughput, in 10**6 bytes per second.
        iops: Lower bound on requests per second.
    """

    stream: Union[str, int]
    kind: Optional[str] = None
    mean_ms: Optional[float] = None
    p50_ms: Optional[float] = None
    p95_ms: Optional[float] = None
    p99_ms: Optional[float] = None
    p999_ms: Optional[float] = None
    max_ms: Optional[float] = None
    throughput_mb_s: Optional[float] = None
    iops: Optional[float] = None

    def __str__(self) -> str:
        """The syntax of ``seekwise advise --protect``: ``etcd:fsync:p99=10ms``.

        Raises:
            InvalidInputError: Not exactly one bound is set.
        """
        bounds = [
            ("mean", self.mean_ms, "ms"), ("p50", self.p50_ms, "ms"), ("p95", self.p95_ms, "ms"), ("p99", self.p99_ms, "ms"),
            ("p99.9", self.p999_ms, "ms"), ("max", self.max_ms, "ms"), ("throughput", self.throughput_mb_s, "MB/s"),
            ("iops", self.iops, ""),
        ]
        given = [(name, value, unit) for name, value, unit in bounds if value is not None]
        if len(given) != 1:
            raise InvalidInputError(f"aim: stream {self.stream!r} has {len(given)} bounds; give one, as in p99_ms=10", key="aim")
        name, value, unit = given[0]
        kind = "" if self.kind is None else f":{self.kind}"
        return f"{self.stream}{kind}:{name}={value}{unit}"


class Advice:
    """A recommended setting, its predicted gain with a confidence interval, and the streams that slow down.

    ``print(advice)`` prints the report of ``seekwise advise``.

    Attributes:
        warnings: Reasons to distrust the recommendation, as sentences.
    """

    def __init__(self, values: dict[str, Any], text: str, udev: str, warnings: list[str]) -> None:
        self._values = values
        self._text = text
        self._udev = udev
        self.warnings = warnings

    @property
    def setting(self) -> str:
        """The recommended setting; the active setting if no change is recommended."""
        setting: str = self._values["verdict"]["setting"]
        return setting

    @property
    def is_change(self) -> bool:
        """Whether a change from the active setting is recommended."""
        return bool(self._values["verdict"]["is_change"])

    @property
    def verdict(self) -> str:
        """The recommendation in one or two sentences."""
        verdict: str = self._values["verdict"]["text"]
        return verdict

    def to_udev(self) -> str:
        """A udev rule, with comments, that applies the setting; for a file in ``/etc/udev/rules.d``."""
        return self._udev

    def to_dict(self) -> dict[str, Any]:
        """The full report as ``seekwise advise --json`` prints it (``docs/reference/json.md``)."""
        plain: dict[str, Any] = json.loads(json.dumps(self._values))
        return plain

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<seekwise.Advice: {self.verdict}>"


def advise(
    load: Load,
    *,
    disk: Optional[Path] = None,
    scheduler: Optional[str] = None,
    aim: Union[Aim, str, Sequence[Union[Aim, str]]] = (),
    candidates: Sequence[str] = (),
    host: Optional[Mapping[str, Union[int, Sequence[int]]]] = None,
    preference: Optional[Sequence[int]] = None,
    device: Optional[int] = None,
    seed: int = 1,
    closed: bool = False,
    speed: float = 1.0,
    fit: str = "exact",
    queue_depth: Optional[int] = None,
    queue_policy: Optional[str] = None,
    threads: Optional[int] = None,
    progress: Optional[Progress] = None,
) -> Advice:
    """Recommend a setting for a load.

    Without ``disk``, load and device are inferred from a trace with response times. Any other load is simulated.

    Args:
        load: See :data:`Load`.
        disk: The disk to simulate the load on; see :func:`simulate`. ``None`` (default): the device is inferred from the response
            times of a trace; a job file runs on ``sata7200``.
        scheduler: The active scheduler (default: the one recorded in the trace, else ``mq-deadline``).
        aim: Performance targets of single streams, as :class:`Aim` or in the syntax of ``--protect``.
        candidates: Settings, or names of sets of settings (``"kernel"``, ``"kernel-tuned"``, ``"linux"``, ``"all"``). Default:
            ``"kernel-tuned"``, or ``"kernel"`` if ``host`` is given.
        host: Tunables of the host. A number is the host's present value; each number of a list is combined with every candidate.
        preference: Weights of throughput, response time and fairness (default: ``(2, 3, 1)``).
        device: Number of the device within a recorded trace (default: the one with the most requests).

    The other arguments are those of :func:`simulate`.

    Raises:
        InvalidInputError: An argument or a file is wrong.
    """
    aims = [aim] if isinstance(aim, (Aim, str)) else list(aim)
    tried = {name: whole_numbers(value) for name, value in (host or {}).items()}
    is_tried = {name: isinstance(value, Iterable) for name, value in (host or {}).items()}
    fixed = [f"{name}={values[0]}" for name, values in tried.items() if not is_tried[name]]
    varied = [(name, values) for name, values in tried.items() if is_tried[name]]
    keys = {
        "host": fixed, "seed": seed, "closed": closed, "speed": speed, "fit": fit, "queue_depth": queue_depth,
        "queue_policy": queue_policy, "candidates": several(candidates), "preference": preference_argument(preference),
    }
    values, text, udev, warnings = _seekwise.advise(
        load_argument(load), None if disk is None else os.fspath(disk), scheduler, [str(one) for one in aims], varied, device, keys,
        threads_argument(threads), progress,
    )
    return Advice(json.loads(values), text, udev, warnings)


def forecast(
    load: Load,
    *,
    candidates: Sequence[str] = ("kernel-tuned",),
    scheduler: Optional[str] = None,
    disk: Optional[Path] = None,
    preference: Optional[Sequence[int]] = None,
    device: Optional[int] = None,
    threads: Optional[int] = None,
    progress: Optional[Progress] = None,
) -> list[dict[str, Any]]:
    """Predict the performance of each candidate. Load and device are inferred from the requests and simulated.

    Returns:
        One dict per candidate, best first: ``setting``, ``throughput_mb_s``, ``response_ms`` (mean), ``p99_by_bound`` (above 1 a
        stream starves), ``gain_percent`` (merit relative to the active setting) and ``error_percent`` (standard error of the gain).
        Empty if the data do not suffice for a forecast; the text of ``advise(...)`` gives the reason.
    """
    advice = advise(
        load, disk=disk, scheduler=scheduler, candidates=candidates, preference=preference, device=device, threads=threads,
        progress=progress,
    )
    predictions: list[dict[str, Any]] = advice.to_dict()["candidates"]
    return predictions


@dataclass(frozen=True)
class FittedDisk:
    """A disk profile inferred from the response times of a trace.

    Attributes:
        profile: The profile in TOML, a valid value of ``disk=``.
        findings: One dict per parameter: ``name``, ``value``, ``number``, ``unit``, ``uncertainty``, and ``accesses`` (number of
            samples of the estimate).
        judged: Errors on held-out requests: ``accesses``, ``mean_ms``, ``mean_error_ms``, ``demerit_ms``.
    """

    profile: str
    findings: list[dict[str, Any]]
    judged: dict[str, Any]


def fit_disk(
    trace: Trace, *, device: Optional[int] = None, capacity_bytes: Optional[int] = None, progress: Optional[Progress] = None
) -> FittedDisk:
    """Fit a disk profile to the response times of a trace.

    Args:
        trace: A trace with response times.
        device: Number of the device within the trace (default: the one with the most requests).
        capacity_bytes: Capacity of the device (default: up to the last sector accessed).
        progress: See :data:`Progress`.
    """
    sectors = None if capacity_bytes is None else capacity_bytes // 512
    profile, found = _seekwise.fit_disk(trace._native, device, sectors, progress)
    values = json.loads(found)
    return FittedDisk(profile, values["findings"], values["judged"])


class DeviceModel:
    """A regression tree that predicts service times of a device. The path of its file is a valid value of ``disk=``."""

    def __init__(self, text: str, about: dict[str, Any]) -> None:
        self._text = text
        #: ``device``, ``capacity_sectors``, ``leaves``, ``depth``, ``training``, and ``judged`` (errors on held-out requests).
        self.about = about

    def write(self, path: Path) -> None:
        """Write the model as JSON."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._text)

    def __repr__(self) -> str:
        return f"<seekwise.DeviceModel of {self.about['device']}: {self.about['leaves']} leaves>"


def learn_device(
    device: Path,
    *,
    sample: Optional[Path] = None,
    requests: int = 10_000,
    seed: int = 1,
    threads: Optional[int] = None,
    progress: Optional[Progress] = None,
) -> DeviceModel:
    """Train a model of a device.

    Args:
        device: A disk as for ``disk=`` of :func:`simulate`, or the path of a trace with response times.
        sample: Path of a trace of the target workload: 5,000 of its requests are used for training, the rest for validation.
        requests: Number of requests in each trace of the training workload, 500 to 1,000,000.
        seed: Seed of the training workload.
        threads: Threads (default: one per core).
        progress: See :data:`Progress`.
    """
    text, about = _seekwise.learn_device(
        os.fspath(device), None if sample is None else os.fspath(sample), requests, seed, threads_argument(threads), progress
    )
    return DeviceModel(text, json.loads(about))


class KnowledgeBase:
    """Read access to a knowledge base: workload windows and decisions recorded by simulations and agents.

    Each call reads the current content of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = os.fspath(path)
        self.summary()

    def summary(self) -> dict[str, Any]:
        """Contents: numbers of ``runs``, ``windows``, ``decisions`` and ``requests``, ``settings`` by device, ``models``, ``bytes``, …"""
        summary: dict[str, Any] = json.loads(_seekwise.knowledge_summary(self.path))
        return summary

    def windows(self, *, plant: Optional[str] = None, device: Optional[str] = None, setting: Optional[str] = None) -> Table:
        """A row per window: run, ``from_s``, ``to_s``, ``setting``, ``throughput_mb_s``, ``mean_response_ms``, ``merit``, …"""
        return _seekwise.knowledge_windows(self.path, plant, device, setting)

    def decisions(self, *, plant: Optional[str] = None, device: Optional[str] = None, setting: Optional[str] = None) -> Table:
        """A row per decision: run, ``at_s``, ``from``, ``to``, ``why``, ``expected_gain``, ``measured_gain``, ``refused``."""
        return _seekwise.knowledge_decisions(self.path, plant, device, setting)
