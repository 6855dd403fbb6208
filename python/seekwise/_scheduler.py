"""Schedulers written in Python."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Optional, Union

from . import _seekwise
from ._errors import InvalidInputError
from ._seekwise import Request


@dataclass(frozen=True)
class Tunable:
    """An integer parameter of a scheduler, set as an attribute of the instance.

    Attributes:
        default: Value if none is given.
        min, max: Smallest and largest valid value.
        doc: One sentence for users, with the unit.
    """

    default: int
    min: int
    max: int
    doc: str = "A tunable."


class Scheduler:
    """Base class of schedulers written in Python. A scheduler decides which queued request is dispatched to the device next.

    Times are simulated nanoseconds (integers) and never decrease. Each run creates an instance, without arguments. For reproducible
    results, a scheduler must not read clocks, and must seed any random generator itself. Requests are not merged.

    ::

        class FirstComeFirstServed(sw.Scheduler):
            def __init__(self):
                self.queue = collections.deque()
            def insert(self, now, request):
                self.queue.append(request)
            def pick(self, now):
                return self.queue.popleft() if self.queue else None

        sw.check_scheduler(FirstComeFirstServed)
        sw.simulate(trace, disk="sata7200", scheduler=FirstComeFirstServed)

    An exception raised by a method ends the run and propagates unchanged.
    """

    #: Tunables by name. They are set as attributes of the instance after ``__init__`` and before the first request.
    tunables: ClassVar[Mapping[str, Tunable]] = {}
    #: Whether ``pick`` never idles the device (returns a time) while requests are queued; :func:`check_scheduler` verifies this.
    work_conserving: ClassVar[bool] = True

    def insert(self, now: int, request: Request) -> None:
        """A request arrives at ``now``; it stays queued until ``pick`` returns it."""
        raise NotImplementedError(f"{type(self).__name__}.insert(now, request) is missing")

    def pick(self, now: int) -> Optional[Union[Request, int]]:
        """The device can accept a request: remove the next request from the queue and return it.

        Return ``None`` if and only if the queue is empty. Return a time later than ``now`` to idle the device until then, or until
        a request arrives or completes.
        """
        raise NotImplementedError(f"{type(self).__name__}.pick(now) is missing")

    def completed(self, now: int, request: Request, service: int) -> None:
        """A dispatched request completes; ``service`` is the time since its dispatch in nanoseconds. Does nothing by default."""

    completed._does_nothing = True  # type: ignore[attr-defined]


#: A name with optional tunables, a class, or a class with values of its tunables.
SchedulerLike = Union[str, type[Scheduler], tuple[type[Scheduler], Mapping[str, int]]]

_numbers: dict[type[Scheduler], int] = {}


def _name(of: type[Scheduler]) -> str:
    """Name of a class as a scheduler: ``FirstComeFirstServed`` becomes ``first-come-first-served``."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", of.__name__).lower()
    return re.sub(r"[^a-z0-9_-]", "-", words).strip("-") or "scheduler"


def _number(of: type[Scheduler]) -> int:
    if not (isinstance(of, type) and issubclass(of, Scheduler)):
        raise InvalidInputError(
            f"scheduler: {of!r} should be a name such as 'bfq', or a class derived from seekwise.Scheduler", key="scheduler"
        )
    if of not in _numbers:
        tunables = []
        for name, tunable in of.tunables.items():
            if not isinstance(tunable, Tunable):
                raise InvalidInputError(
                    f"tunables: {name} of {of.__name__} is {tunable!r}; Tunable(default=…, min=…, max=…) is wanted", key="tunables"
                )
            doc = tunable.doc if tunable.doc.endswith(".") else tunable.doc + "."
            tunables.append((name, doc, tunable.min, tunable.max, tunable.default))
        summary = (of.__doc__ or "").strip().split("\n")[0] or "a scheduler in Python"
        _numbers[of] = _seekwise.register_scheduler(of, _name(of), summary, of.work_conserving, tunables)
    return _numbers[of]


def scheduler_argument(scheduler: SchedulerLike) -> Any:
    """Convert a scheduler to the form that the extension module expects."""
    if isinstance(scheduler, str):
        return scheduler
    if isinstance(scheduler, tuple):
        of, values = scheduler
        return _number(of), dict(values)
    return _number(scheduler), {}


def check_scheduler(scheduler: type[Scheduler], *, cases: int = 64) -> None:
    """Check that a class keeps the rules of all schedulers, on random arrival scripts with a fixed seed.

    1. No request is lost or dispatched twice.
    2. ``pick`` returns ``None`` if and only if the queue is empty.
    3. A returned time is later than ``now``, and is returned only if the class is not declared work-conserving.
    4. Idling ends in a dispatch eventually.
    5. A switch to another scheduler loses no request.
    6. The same input gives the same order.
    7. Tunables work at both ends of their ranges.

    Args:
        scheduler: The class.
        cases: Number of random scripts (default: 64).

    Raises:
        ConformanceError: A rule is broken. The message has the rule and the smallest script found to break it.
    """
    _seekwise.check_scheduler(_number(scheduler), cases)
