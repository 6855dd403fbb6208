"""The package's exceptions. Messages are those of the command ``seekwise``, with argument names instead of options."""

from __future__ import annotations

from typing import Optional


class SeekwiseError(Exception):
    """Base class of every exception of this package."""


class InvalidInputError(SeekwiseError, ValueError):
    """Invalid input: a damaged trace, an unknown scheduler, a value out of range.

    The message names the error, its location and the valid values. The location is also available as attributes, each ``None``
    if it does not apply.

    Attributes:
        key: Name of the argument (``"scheduler"``, ``"host"``, ``"time"``).
        file: Path of the file.
        line: Line of the file, from 1.
        row: Row of the dataframe, from 0.
        column: Column of the dataframe.
    """

    def __init__(
        self,
        message: str,
        *,
        key: Optional[str] = None,
        file: Optional[str] = None,
        line: Optional[int] = None,
        row: Optional[int] = None,
        column: Optional[str] = None,
    ) -> None:
        super().__init__(message)
        self.key = key
        self.file = file
        self.line = line
        self.row = row
        self.column = column


class FileError(SeekwiseError, OSError):
    """A file could not be accessed. ``errno``, ``strerror`` and ``filename`` are those of :class:`OSError`."""


class ConformanceError(SeekwiseError, AssertionError):
    """A scheduler violates a rule of :func:`check_scheduler`. The message has the rule and the smallest script found to break it."""


class WorkerLostError(SeekwiseError):
    """A worker of an executor died with its task. What was done before is kept, and the same call continues."""
