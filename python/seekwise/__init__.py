"""Seekwise: simulate disks under every I/O scheduler, compare settings, and get advice.

::

    import seekwise as sw
    trace = sw.read_trace("sda.parquet")
    result = sw.simulate(trace, disk="nvme-tlc", scheduler="kyber:read_lat_nsec=1000000")
    print(result.figures.response.p99_ms)

Traces and tables are exchanged with dataframe libraries through the Arrow C stream. The package prints nothing and releases the
GIL during long calls. Calls start threads as needed and join them before they return. The exception is the gymnasium environment
``seekwise/Tune-v0``, which keeps one thread between steps; after a fork its ``step()`` raises until ``reset()`` is called.
"""

from . import _register
from ._advice import Advice, Aim, DeviceModel, FittedDisk, KnowledgeBase, advise, fit_disk, forecast, learn_device
from ._errors import ConformanceError, FileError, InvalidInputError, SeekwiseError, WorkerLostError
from ._run import (
    Figures,
    Load,
    Result,
    compare,
    controllers,
    disk,
    disks,
    host_tunables,
    schedulers,
    simulate,
    trace_formats,
    workloads,
)
from ._scheduler import Scheduler, SchedulerLike, Tunable, check_scheduler
from ._seekwise import Request, Table, __version__
from ._sweep import RayExecutor, Sweep, SweepReport, VolumesReport, sweep, sweep_volumes
from ._trace import ArrowStream, Progress, Trace, read_trace

_register.watch()

__all__ = [
    "Advice",
    "Aim",
    "ArrowStream",
    "ConformanceError",
    "DeviceModel",
    "Figures",
    "FileError",
    "FittedDisk",
    "InvalidInputError",
    "KnowledgeBase",
    "Load",
    "Progress",
    "RayExecutor",
    "Request",
    "Result",
    "Scheduler",
    "SchedulerLike",
    "SeekwiseError",
    "Sweep",
    "SweepReport",
    "Table",
    "Trace",
    "Tunable",
    "VolumesReport",
    "WorkerLostError",
    "__version__",
    "advise",
    "check_scheduler",
    "compare",
    "controllers",
    "disk",
    "disks",
    "fit_disk",
    "forecast",
    "host_tunables",
    "learn_device",
    "read_trace",
    "schedulers",
    "simulate",
    "sweep",
    "sweep_volumes",
    "trace_formats",
    "workloads",
]
