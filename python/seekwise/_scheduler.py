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
    """A whole number that can be set when a scheduler is chosen, and is then an attribute of the instance."""

    default: int
    min: int
    max: int
    doc: str = "A tunable."


class Scheduler:
    """Base class of schedulers written in Python: decide which request goes to the device next.

    Times are whole nanoseconds of the simulation and never run backwards. An instance is made, without arguments, for each run. A
    scheduler must not read clocks or draw from a random source without a seed of its own, so that results can be repeated.
    Requests are not merged under it.

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

    What a method raises ends the run and comes out as it is.
    """

    #: Tunables by name; set before the first request as attributes of the instance, after ``__init__``.
    tunables: ClassVar[Mapping[str, Tunable]] = {}
    #: Whether ``pick`` never returns a time while requests are queued. :func:`check_scheduler` holds the class to it.
    work_conserving: ClassVar[bool] = True

    def insert(self, now: int, request: Request) -> None:
        """A request arrives at ``now``. It is queued until ``pick`` returns it."""
        raise NotImplementedError(f"{type(self).__name__}.insert(now, request) is missing")

    def pick(self, now: int) -> Optional[Union[Request, int]]:
        """The device has room: return the queued request that goes next, which leaves the queue.

        Return ``None`` if and only if nothing is queued; a time later than ``now`` leaves the device idle until then, or until a
        request arrives or completes.
        """
        raise NotImplementedError(f"{type(self).__name__}.pick(now) is missing")

    def completed(self, now: int, request: Request, service: int) -> None:
        """A request that was picked is done; ``service`` is the time since then in nanoseconds. Does nothing by default."""

    completed._does_nothing = True  # type: ignore[attr-defined]


#: A scheduler's text, a class, or a class with values of its tunables.
SchedulerLike = Union[str, type[Scheduler], tuple[type[Scheduler], Mapping[str, int]]]

_numbers: dict[type[Scheduler], int] = {}


def _name(of: type[Scheduler]) -> str:
    """``FirstComeFirstServed`` is called ``first-come-first-served``."""
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
    """As the extension module takes it."""
    if isinstance(scheduler, str):
        return scheduler
    if isinstance(scheduler, tuple):
        of, values = scheduler
        return _number(of), dict(values)
    return _number(scheduler), {}


def check_scheduler(scheduler: type[Scheduler], *, cases: int = 64) -> None:
    """Hold a class against the rules for every scheduler, on random scripts of arrivals with a fixed seed.

    No request is lost or served twice; ``None`` is returned if and only if nothing waits; a time is later than now, and only if the
    class is not declared work-conserving; waiting leads to a request eventually; a switch to another scheduler loses nothing; the
    same input gives the same order; tunables work at both ends of their ranges.

    Args:
        scheduler: The class.
        cases: Random scripts.

    Raises:
        ConformanceError: A rule is broken; the message has it, and the smallest script that was found to break it.
    """
    _seekwise.check_scheduler(_number(scheduler), cases)
