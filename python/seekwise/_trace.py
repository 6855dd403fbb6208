"""Block traces: files of every format, and dataframes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional, Protocol, Union

from . import _seekwise
from ._errors import InvalidInputError

Path = Union[str, "os.PathLike[str]"]
#: Called with steps done, steps in all (0 where that is unknown) and the name of the stage, on the calling thread, some times a
#: second. What it raises ends the work and comes out.
Progress = Callable[[int, int, str], None]


class ArrowStream(Protocol):
    """Anything with an Arrow C stream: frames of polars, tables of pyarrow, relations of DuckDB, pandas 2.2 and later."""

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object: ...


class Trace:
    """A block trace: which requests a disk received, when and from which stream.

    :func:`read_trace` opens a file, :meth:`from_arrow` takes a dataframe. A trace of a file is read anew each time that it is
    used, in bounded memory; one of a dataframe shares its memory.

    It has an Arrow C stream, so ``polars.DataFrame(trace)``, ``pyarrow.table(trace)`` and ``duckdb.sql("from trace")`` read it, in
    batches of 65,536 requests. The columns are those of Seekwise's own store:

    ================== ============= ====================================================
    ``arrival_ns``     int64         since the first request, in nanoseconds
    ``device``         uint32        the disk within the trace, with ``device_name``
    ``lba``            int64         first sector, of 512 bytes
    ``sectors``        uint32        length in such sectors
    ``is_read``        boolean       else it is a write, or a discard (``is_discard``)
    ``sync``           boolean, null whether the issuer waits for it
    ``stream``         uint32        process, thread or volume, with ``stream_name``
    ``priority_class`` string        with ``priority_level``, as of ionice(1)
    ``response_ns``    int64, null   from arrival to completion, in nanoseconds
    ``service_ns``     int64, null   the part of it at the device
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
        """Make a trace of a dataframe. Times and offsets are shared with it where they are 64-bit integers, timestamps or durations.

        Without any column named, those of Seekwise's own store are meant (``arrival_ns``, ``lba``, ``sectors``, ``is_read``, …), as
        traces and ``Result.requests`` have them.

        Args:
            data: Anything with ``__arrow_c_stream__``: a frame of polars, a table of pyarrow, a relation of DuckDB, a :class:`Table`.
            time: Column of arrival times: integers or floats in ``unit``, or timestamps or durations. In any order.
            unit: ``"s"``, ``"ms"``, ``"us"`` or ``"ns"`` (default).
            offset: Column of the first byte of each request, an integer in ``offset_unit``.
            offset_unit: ``"bytes"`` (default) or ``"sectors"`` of 512 bytes.
            size: Column of the length, an integer in ``size_unit``. Requests of length 0 are left out.
            size_unit: ``"bytes"`` (default) or ``"sectors"`` of 512 bytes.
            op: Column of the operation: ``read``, ``write``, ``discard`` and what traces call them (``R``, ``W``, ``D``, ``trim``, …).
            read: What means a read there, if it is another word or a number.
            write: What means a write.
            stream: Column of the process, volume or thread: integers from 0 to 2**32 - 1, or strings.
            device: Column of the disk, likewise.
            response: Column of the time from arrival to completion; null where it is unknown.
            service: Column of the part of it at the device.
            response_unit: Unit of both (default: ``unit``).
            sync: Column of booleans: whether the issuer waits for the request.
            name: What messages and records call the trace.
            progress: See :data:`Progress`.

        Raises:
            InvalidInputError: A column is missing or a row is no request; ``row`` and ``column`` say where.
        """
        def word(value: Optional[Union[str, int, bool]]) -> Optional[str]:
            # As Arrow writes booleans.
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
        """Number of requests. Those of a file are counted once, by reading it."""
        return len(self._native)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return repr(self._native)

    @property
    def name(self) -> str:
        """The file's path, or the name that was given to a dataframe."""
        return self._native.name

    @property
    def format(self) -> str:
        """The file's format; ``"memory"`` for a dataframe."""
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

        Keys end in their unit; MB are 10**6 bytes, shares are from 0 to 1. The same as ``seekwise trace info --json``, and
        ``warnings``, sentences of why the trace may mean something else.
        """
        described: dict[str, Any] = json.loads(self._native._describe(streams, progress))
        return described

    def write(self, path: Path, *, format: Optional[str] = None, progress: Optional[Progress] = None) -> list[str]:
        """Write the trace, whole or not at all.

        Args:
            path: The file; its extension selects the format (``.parquet``, ``.csv``, ``.blkparse``, …).
            format: The format's name, if the extension does not say it (:func:`trace_formats`).
            progress: See :data:`Progress`.

        Returns:
            What the format could not hold, as sentences.
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
    """Open a block trace of any format that Seekwise reads (:func:`trace_formats`), unpacked or in gzip, zstd, xz or bzip2.

    The file is recognised here and read when it is used, in bounded memory.

    Args:
        path: The file; several files or folders are merged by time.
        format: The format's name; ``None``: recognised by content.
        columns: Which column of a CSV file is what: ``{"time": "ts", "offset": 2, "size": 3, "op": "kind", "time-unit": "us"}``.
        skip_bad: Pass damaged records over instead of raising.
        same_devices: Devices and streams of one name are the same in all of several files.

    Raises:
        InvalidInputError: It is no trace; ``file`` and ``line`` say where.
        FileError: The file cannot be opened.
    """
    several = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    described = None if columns is None else ",".join(f"{key}={value}" for key, value in columns.items())
    return Trace(_seekwise.open_trace([os.fspath(one) for one in several], format, described, skip_bad, same_devices))
