"""Advice, forecasts, and models of devices."""

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
    """What one stream is to get, before the load as a whole is looked at: one bound.

    Attributes:
        stream: A process's, job's or stream's name, or a stream's number.
        kind: ``"read"``, ``"write"`` or ``"fsync"``; ``None``: reads and writes together.
        mean_ms, p50_ms, p95_ms, p99_ms, p999_ms, max_ms: Bound on the response time, in ms.
        throughput_mb_s: Least throughput, in 10**6 bytes per second.
        iops: Least requests per second.
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
        """As ``seekwise advise --protect`` takes it: ``etcd:fsync:p99=10ms``."""
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
    """The setting to use, what it would bring, at whose cost, and how sure that is. ``print(advice)`` is the program's own text."""

    def __init__(self, values: dict[str, Any], text: str, udev: str, warnings: list[str]) -> None:
        self._values = values
        self._text = text
        self._udev = udev
        self.warnings = warnings

    @property
    def setting(self) -> str:
        """The recommended setting; the active one where no change is recommended."""
        setting: str = self._values["verdict"]["setting"]
        return setting

    @property
    def is_change(self) -> bool:
        """Whether it differs from the active setting."""
        return bool(self._values["verdict"]["is_change"])

    @property
    def verdict(self) -> str:
        """The recommendation in one or two sentences."""
        verdict: str = self._values["verdict"]["text"]
        return verdict

    def to_udev(self) -> str:
        """A udev rule that applies the setting, with comments, for ``/etc/udev/rules.d``."""
        return self._udev

    def to_dict(self) -> dict[str, Any]:
        """Everything, as ``seekwise advise --json`` prints it (``docs/reference/json.md``)."""
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
    """Advise on a setting for a load. A trace with response times is judged as it was recorded; all else is simulated.

    Args:
        load: See :data:`Load`.
        disk: Simulate the load on this disk. ``None``: a recorded trace is judged by its own times, a job file runs on
            ``sata7200``.
        scheduler: The active scheduler (default: what the trace says, else ``mq-deadline``).
        aim: What single streams are to get; see :class:`Aim`.
        candidates: What to choose from: names of sets (``"kernel"``, ``"kernel-tuned"``, ``"linux"``, ``"all"``) or settings.
        host: Tunables of the host: a number is how the host is set, a list of numbers is tried with every candidate.
        preference: Weights of throughput, response time and fairness (default: ``(2, 3, 1)``).
        device: Number of the device within a recorded trace (default: the one with the most requests).

    The other arguments are those of :func:`simulate`.
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
    """The twin's prediction for each candidate: load and device are inferred from the requests, and simulated.

    Returns:
        The best first: ``setting``, ``throughput_mb_s``, ``response_ms`` (mean), ``p99_by_bound`` (above 1 a stream starves),
        ``gain_percent`` over the active setting in merit, and ``error_percent``, its standard error. Empty where too little is
        known; then ``advise(...)`` says why.
    """
    advice = advise(
        load, disk=disk, scheduler=scheduler, candidates=candidates, preference=preference, device=device, threads=threads,
        progress=progress,
    )
    predictions: list[dict[str, Any]] = advice.to_dict()["candidates"]
    return predictions


@dataclass(frozen=True)
class FittedDisk:
    """A disk found in a trace's response times.

    Attributes:
        profile: Its profile in TOML, which ``disk=`` takes as it is.
        findings: ``name``, ``value``, ``number`` and ``unit`` of each parameter, ``uncertainty``, and the ``accesses`` it rests on.
        judged: Errors on requests that the fit has not seen: ``accesses``, ``mean_ms``, ``mean_error_ms``, ``demerit_ms``.
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
        device: Number of the device within it (default: the one with the most requests).
        capacity_bytes: The device's size (default: up to the last sector that was asked for).
    """
    sectors = None if capacity_bytes is None else capacity_bytes // 512
    profile, found = _seekwise.fit_disk(trace._native, device, sectors, progress)
    values = json.loads(found)
    return FittedDisk(profile, values["findings"], values["judged"])


class DeviceModel:
    """A regression tree of how long requests take on a device. Write it to a file, and ``disk=`` takes its path."""

    def __init__(self, text: str, about: dict[str, Any]) -> None:
        self._text = text
        #: ``device``, ``capacity_sectors``, ``leaves``, ``depth``, ``training``, and ``judged``: its errors on what it never saw.
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
    """Learn a model of a device: a disk as ``disk=`` takes it, or the path of a trace with response times.

    Args:
        sample: A trace of the load that it is for: 5,000 requests of it are learned from, the others judged by.
        requests: Requests of each trace of the training load, 500 to 1,000,000.
    """
    text, about = _seekwise.learn_device(
        os.fspath(device), None if sample is None else os.fspath(sample), requests, seed, threads_argument(threads), progress
    )
    return DeviceModel(text, json.loads(about))


class KnowledgeBase:
    """A knowledge base, for reading: what runs and agents saw and did. Each call sees what is in the file then."""

    def __init__(self, path: Path) -> None:
        self.path = os.fspath(path)
        self.summary()

    def summary(self) -> dict[str, Any]:
        """What it holds: ``runs``, ``windows``, ``decisions``, ``requests``, ``settings`` by device, ``models``, ``bytes``, …"""
        summary: dict[str, Any] = json.loads(_seekwise.knowledge_summary(self.path))
        return summary

    def windows(self, *, plant: Optional[str] = None, device: Optional[str] = None, setting: Optional[str] = None) -> Table:
        """A row per window: run, ``from_s``, ``to_s``, ``setting``, ``throughput_mb_s``, ``mean_response_ms``, ``merit``, …"""
        return _seekwise.knowledge_windows(self.path, plant, device, setting)

    def decisions(self, *, plant: Optional[str] = None, device: Optional[str] = None, setting: Optional[str] = None) -> Table:
        """A row per decision: run, ``at_s``, ``from``, ``to``, ``why``, ``expected_gain``, ``measured_gain``, ``refused``."""
        return _seekwise.knowledge_decisions(self.path, plant, device, setting)
