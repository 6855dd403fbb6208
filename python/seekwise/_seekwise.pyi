"""The extension module. Use the functions of ``seekwise`` instead: these take positional arguments and return JSON."""

from collections.abc import Callable
from typing import Any, Optional, final

__version__: str

_Progress = Optional[Callable[[int, int, str], object]]
_Window = tuple[list[float], Optional[float], float, float, float, str]

@final
class Table:
    """A table in memory. ``polars.DataFrame(table)``, ``pyarrow.table(table)`` and DuckDB read it without a copy."""

    def __len__(self) -> int: ...
    @property
    def schema(self) -> dict[str, str]:
        """Column names with their Arrow types."""
    @property
    def columns(self) -> list[str]:
        """Column names."""
    def to_pylist(self) -> list[dict[str, Any]]:
        """One dict per row. For small tables; dataframe libraries share the memory instead of copying it."""
    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        """The Arrow C stream (PyCapsule interface)."""

@final
class Request:
    """A request in the queue of a scheduler."""

    @property
    def id(self) -> int:
        """Identifies the request while it is outstanding; reused after its completion."""
    @property
    def stream(self) -> int:
        """Number of the stream (process, volume, job) that issued it."""
    @property
    def op(self) -> str:
        """``"read"``, ``"write"`` or ``"discard"``."""
    @property
    def is_read(self) -> bool:
        """Whether it is a read."""
    @property
    def sync(self) -> bool:
        """Whether the issuer waits for completion."""
    @property
    def priority_class(self) -> str:
        """``"realtime"``, ``"best-effort"`` or ``"idle"``, as in ionice(1)."""
    @property
    def priority_level(self) -> int:
        """Level within the class: 0 (highest) to 7 (lowest)."""
    @property
    def lba(self) -> int:
        """First 512-byte sector."""
    @property
    def sectors(self) -> int:
        """Length in 512-byte sectors."""
    @property
    def end(self) -> int:
        """The sector after the last one, ``lba + sectors``."""
    @property
    def arrival_ns(self) -> int:
        """Time of arrival at the queue, in simulated nanoseconds."""

@final
class Trace:
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    @property
    def name(self) -> str: ...
    @property
    def format(self) -> str: ...
    @property
    def schema(self) -> dict[str, str]: ...
    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object: ...
    def _describe(self, top: int, progress: _Progress) -> str: ...
    def _write(self, path: str, format: Optional[str], progress: _Progress) -> tuple[int, list[str]]: ...

@final
class Tuned:
    def __new__(
        cls,
        load: object,
        disk: str,
        candidates: list[str],
        initial: str,
        window_ms: int,
        keys: dict[str, Any],
        progress: _Progress,
    ) -> Tuned: ...
    def reset(self, seed: int) -> Optional[_Window]: ...
    def step(self, action: int) -> Optional[_Window]: ...
    def close(self) -> None: ...
    @staticmethod
    def features() -> list[tuple[str, str, str]]: ...

@final
class SweepPlan:
    def __new__(cls, text: str, source: str, folder: str) -> SweepPlan: ...
    @staticmethod
    def read(path: str) -> SweepPlan: ...
    @staticmethod
    def toml(json: str) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def stored(self) -> str: ...
    def identity(self) -> str: ...
    def difference(self, stored: str) -> Optional[str]: ...
    def run(self, folder: str, shard: Optional[str], threads: Optional[int], progress: _Progress) -> str: ...
    def output(self, folder: str, shard: Optional[str]) -> SweepOutput: ...
    def worker(self, threads: int) -> SweepWorker: ...

@final
class SweepOutput:
    def next(self, count: int) -> tuple[list[int], bytes]: ...
    def left(self) -> int: ...
    def cases(self) -> tuple[int, int]: ...
    def add(self, rows: bytes) -> None: ...
    def finish(self) -> str: ...
    def close(self) -> None: ...

@final
class SweepWorker:
    def run(self, tasks: list[int], known: bytes) -> bytes: ...
    def stop(self) -> None: ...

def sweep_table(folder: str) -> Table: ...
def sweep_report(folder: str, objective: Optional[str]) -> tuple[str, str]: ...
def sweep_volumes(
    load: object,
    disk: Optional[str],
    output: str,
    keys: dict[str, Any],
    top: int,
    threads: Optional[int],
    progress: _Progress,
) -> tuple[str, str]: ...
def open_trace(
    paths: list[str], format: Optional[str], columns: Optional[str], skip_bad: bool, same_devices: bool
) -> Trace: ...
def trace_from_arrow(data: object, name: str, keys: dict[str, Any], progress: _Progress) -> Trace: ...
def trace_formats() -> str: ...
def simulate(
    load: object,
    disk: str,
    scheduler: object,
    controller: Optional[str],
    keys: dict[str, Any],
    requests: bool,
    alone: bool,
    threads: Optional[int],
    progress: _Progress,
) -> tuple[str, Table, Optional[Table], list[str]]: ...
def compare(
    load: object,
    disks: list[str],
    schedulers: list[Any],
    controllers: list[str],
    host: list[tuple[str, list[int]]],
    seeds: list[int],
    keys: dict[str, Any],
    alone: bool,
    threads: Optional[int],
    progress: _Progress,
) -> tuple[Table, list[str]]: ...
def advise(
    load: object,
    disk: Optional[str],
    scheduler: Optional[str],
    aims: list[str],
    host: list[tuple[str, list[int]]],
    device: Optional[int],
    keys: dict[str, Any],
    threads: Optional[int],
    progress: _Progress,
) -> tuple[str, str, str, list[str]]: ...
def fit_disk(
    load: object, device: Optional[int], capacity_sectors: Optional[int], progress: _Progress
) -> tuple[str, str]: ...
def learn_device(
    device: str, sample: Optional[str], requests: int, seed: int, threads: Optional[int], progress: _Progress
) -> tuple[str, str]: ...
def disks() -> str: ...
def disk(name: str) -> str: ...
def schedulers() -> str: ...
def controllers() -> str: ...
def host_tunables() -> str: ...
def workloads() -> str: ...
def knowledge_summary(path: str) -> str: ...
def knowledge_windows(
    path: str, plant: Optional[str], device: Optional[str], setting: Optional[str]
) -> Table: ...
def knowledge_decisions(
    path: str, plant: Optional[str], device: Optional[str], setting: Optional[str]
) -> Table: ...
def register_scheduler(
    of: Any, name: str, summary: str, work_conserving: bool, tunables: list[tuple[str, str, int, int, int]]
) -> int: ...
def check_scheduler(number: int, cases: int) -> None: ...
