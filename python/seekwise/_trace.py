"""Block traces: files of every format, and dataframes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional, Protocol, Union

from . import _seekwise
from ._errors import InvalidInputError

Path = Union[str, "os.PathLike[str]"]
#: Progress callback ``(steps done, total steps or 0 if unknown, name of the stage)``, called on the calling thread several times
#: per second. An exception that it raises cancels the work and propagates.
Progress = Callable[[int, int, str], None]


class ArrowStream(Protocol):
    """Anything with an Arrow C stream: frames of polars, tables of pyarrow, relations of DuckDB, pandas 2.2 and later."""

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object: ...


class Trace:
    """A block trace: requests with their arrival times and streams.

    :func:`read_trace` opens a file, :meth:`from_arrow` converts a dataframe. A file is streamed in bounded memory on each use; a
    trace made from a dataframe shares its memory.

    A trace exports the Arrow C stream in batches of 65,536 requests, for ``polars.DataFrame(trace)``, ``pyarrow.table(trace)`` and
    ``duckdb.sql("from trace")``. Columns are those of Seekwise's own trace format:

    ================== ============= ====================================================
    ``arrival_ns``     int64         time since the first request, in nanoseconds
    ``device``         uint32        number of the disk; name in ``device_name``
    ``lba``            int64         first 512-byte sector
    ``sectors``        uint32        length in 512-byte sectors
    ``is_read``        boolean       false: a write, or a discard (``is_discard``)
    ``sync``           boolean, null whether the issuer waits for completion
    ``stream``         uint32        process, thread or volume; name in ``stream_name``
    ``priority_class`` string        as in ionice(1); level in ``priority_level``
    ``response_ns``    int64, null   arrival to completion, in nanoseconds
    ``service_ns``     int64, null   time at the device, in nanoseconds
    ================== ============= ====================================================
    """

    __slots__ = ("_native",)

    def __init__(self, native: _seekwise.Trace) -> None:
        self._native = native

    @classmethod
    def from_arrow(
        cls,
        data: ArrowStream,
        *,
        time: Optional[str] = None,
        unit: Optional[str] = None,
        offset: Optional[str] = None,
        offset_unit: Optional[str] = None,
        size: Optional[str] = None,
        size_unit: Optional[str] = None,
        op: Optional[str] = None,
        read: Optional[Union[str, int, bool]] = None,
        write: Optional[Union[str, int, bool]] = None,
        stream: Optional[str] = None,
        device: Optional[str] = None,
        response: Optional[str] = None,
        service: Optional[str] = None,
        response_unit: Optional[str] = None,
        sync: Optional[str] = None,
        name: str = "dataframe",
        progress: Optional[Progress] = None,
    ) -> Trace:
        """Make a trace from a dataframe. 64-bit integer, timestamp and duration columns of times and offsets are shared, not copied.

        If no column is named, the columns of :class:`Trace` and ``Result.requests`` are expected (``arrival_ns``, ``lba``,
        ``sectors``, ``is_read``, …); otherwise ``time``, ``offset``, ``size`` and ``op`` are required.

        Args:
            data: An object with ``__arrow_c_stream__``: a polars frame, a pyarrow table, a DuckDB relation, a :class:`Table`.
            time: Column of arrival times: integers or floats in ``unit``, or timestamps or durations. Need not be sorted.
            unit: ``"s"``, ``"ms"``, ``"us"`` or ``"ns"`` (default).
            offset: Column of the first byte of each request, an integer in ``offset_unit``.
            offset_unit: ``"bytes"`` (default) or ``"sectors"`` of 512 bytes.
            size: Column of the length, an integer in ``size_unit``. Requests of length 0 are skipped.
            size_unit: ``"bytes"`` (default) or ``"sectors"`` of 512 bytes.
            op: Column of the operation: ``read``, ``write``, ``discard`` and common aliases (``R``, ``W``, ``D``, ``trim``, …).
            read: Value of ``op`` that means a read, if not one of these words. Required for numbers and booleans.
            write: Value of ``op`` that means a write. Required for numbers.
            stream: Column of the process, volume or thread: integers from 0 to 2**32 - 1, or strings.
            device: Column of the disk: integers from 0 to 2**32 - 1, or strings.
            response: Column of response times, from arrival to completion; null if unknown.
            service: Column of service times, the part of the response time spent at the device; null if unknown.
            response_unit: Unit of ``response`` and ``service`` (default: ``unit``).
            sync: Boolean column: whether the issuer waits for completion.
            name: Name of the trace in messages and records.
            progress: See :data:`Progress`.

        Raises:
            InvalidInputError: A column is missing, or a row is not a valid request; see ``row`` and ``column`` of the exception.
        """
        def word(value: Optional[Union[str, int, bool]]) -> Optional[str]:
            # Arrow formats booleans in lower case.
            return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)

        if not (hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")):
            raise InvalidInputError(
                f"data: {type(data).__name__} has no Arrow C stream; a frame of polars (collected), pandas or DuckDB, or a table of pyarrow is wanted",
                key="data",
            )
        given = {
            "time": time, "unit": unit, "offset": offset, "offset_unit": offset_unit, "size": size, "size_unit": size_unit, "op": op,
            "read": word(read), "write": word(write), "stream": stream, "device": device, "response": response, "service": service,
            "response_unit": response_unit, "sync": sync,
        }
        keys = {key: value for key, value in given.items() if value is not None}
        return cls(_seekwise.trace_from_arrow(data, name, keys, progress))

    def __len__(self) -> int:
        """Number of requests. The first call reads the whole file."""
        return len(self._native)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return repr(self._native)

    @property
    def name(self) -> str:
        """Path of the file, or the name given to :meth:`from_arrow`."""
        return self._native.name

    @property
    def format(self) -> str:
        """Name of the file's format; ``"memory"`` for a dataframe."""
        return self._native.format

    @property
    def schema(self) -> dict[str, str]:
        """Column names with their Arrow types."""
        return self._native.schema

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        """The Arrow C stream (PyCapsule interface)."""
        return self._native.__arrow_c_stream__(requested_schema)

    def describe(self, *, streams: int = 10, progress: Optional[Progress] = None) -> dict[str, Any]:
        """Characterise the trace in one pass: operations, sizes, rates, sequentiality, footprint, concurrency, the busiest streams.

        Args:
            streams: Maximum number of streams to list (default: 10).
            progress: See :data:`Progress`.

        Returns:
            The values of ``seekwise trace info --json``, and ``warnings``, reasons why the figures may mislead, as sentences. Keys
            end in their unit; MB are 10**6 bytes, shares are from 0 to 1.
        """
        described: dict[str, Any] = json.loads(self._native._describe(streams, progress))
        return described

    def write(self, path: Path, *, format: Optional[str] = None, progress: Optional[Progress] = None) -> list[str]:
        """Write the trace to a file, atomically: on failure an existing file is unchanged.

        Args:
            path: The file to write. Its extension selects the format (``.parquet``, ``.csv``, ``.blkparse``, …).
            format: Name of the format (:func:`trace_formats`); ``None``: selected by the extension.
            progress: See :data:`Progress`.

        Returns:
            Information that the format could not hold, as sentences.
        """
        _, lost = self._native._write(os.fspath(path), format, progress)
        return lost


def read_trace(
    path: Union[Path, Sequence[Path]],
    *,
    format: Optional[str] = None,
    columns: Optional[Mapping[str, Union[str, int]]] = None,
    skip_bad: bool = False,
    same_devices: bool = False,
) -> Trace:
    """Open a block trace in any supported format (:func:`trace_formats`), plain or compressed by gzip, zstd, xz or bzip2.

    The format is detected now; the contents are streamed in bounded memory on each use.

    Args:
        path: A file, or several files or folders, which are merged by time.
        format: Name of the format; ``None`` (default): detected from the contents.
        columns: Roles of the columns of a CSV file: ``{"time": "ts", "offset": 2, "size": 3, "op": "kind", "time-unit": "us"}``.
        skip_bad: Skip damaged records instead of raising (default: no).
        same_devices: Identify devices and streams of several files by name (default: those of each file are distinct).

    Raises:
        InvalidInputError: The file is not a valid trace; see ``file`` and ``line`` of the exception.
        FileError: The file cannot be opened.
    """
    several = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    if columns is not None and not isinstance(columns, Mapping):
        raise InvalidInputError(f"columns: {columns!r} should be a dict of roles and columns, as {{'time': 'ts', 'offset': 2}}", key="columns")
    described = None if columns is None else ",".join(f"{key}={value}" for key, value in columns.items())
    return Trace(_seekwise.open_trace([os.fspath(one) for one in several], format, described, skip_bad, same_devices))
