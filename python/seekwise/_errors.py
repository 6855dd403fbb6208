"""The package's exceptions. Their messages are those of the program ``seekwise``, with arguments in the place of options."""

from __future__ import annotations

from typing import Optional


class SeekwiseError(Exception):
    """Base class of every exception of this package."""


class InvalidInputError(SeekwiseError, ValueError):
    """Input that is wrong: a damaged trace, an unknown scheduler, a value out of range.

    The message names what is wrong, where, and what would be right. The same as attributes, ``None`` where it does not apply:

    Attributes:
        key: The argument (``"scheduler"``, ``"host"``, ``"time"``).
        file: The file.
        line: The line of the file, from 1.
        row: The row of the dataframe, from 0.
        column: The column of the dataframe.
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
    """A file that the operating system refuses: ``errno``, ``strerror`` and ``filename`` are those of :class:`OSError`."""


class ConformanceError(SeekwiseError, AssertionError):
    """A scheduler breaks a rule that every scheduler must keep; the message has the rule and the smallest script that breaks it."""


class WorkerLostError(SeekwiseError):
    """A worker of an executor died with its task. What was done before is kept, and the same call continues."""
