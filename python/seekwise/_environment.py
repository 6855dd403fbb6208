"""The gymnasium environment ``seekwise/Tune-v0``: an agent chooses the setting of a simulated disk for each window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy
from gymnasium import spaces
from gymnasium.core import Env

from . import _seekwise
from ._run import Load, load_argument, preference_argument
from ._trace import Path

#: Default candidates: the I/O schedulers of current Linux kernels.
CANDIDATES = ("none", "mq-deadline", "kyber", "bfq")
#: Rewards are clipped to ±20, a factor of e**20.
MOST = 20.0


class Tune(Env):  # type: ignore[misc, type-arg, unused-ignore]
    """Choose scheduler and settings of a disk under a load, window by window.

    *Observation*: the features of the last window, float32, in the order and units of ``docs/reference/features.md``
    (:attr:`features` has their names). A feature without a value is 0.

    *Action*: index of the candidate to apply in the next window.

    *Reward*: merit of the window (log of throughput, response time and fairness, weighted by ``preference``) minus the merit of the
    first window, which runs under ``initial``. 0.01 is one percent better; 0 if no request completed.

    An episode is one run of the load, ``truncated`` after ``max_windows``. The same seed and actions give the same episode. ``info``
    has ``setting``, ``at_s`` (end of the window), ``throughput_mb_s`` and ``waited_ms`` of the window.

    Args:
        load: A trace, a path, or the name of a workload that comes with the package.
        disk: See :func:`seekwise.simulate` (default: ``"sata7200"``).
        candidates: Settings, optionally with host tunables: ``"bfq:slice_idle=0 read_ahead_kb=1024"``. Default: ``none``,
            ``mq-deadline``, ``kyber`` and ``bfq``.
        initial: The setting of the first window (default: ``"mq-deadline"``).
        window_ms: Length of a window in simulated time, 10 to 3,600,000 ms (default: 1000).
        max_windows: Maximum number of windows per episode; ``None`` (default): the whole load.
        preference: Weights of throughput, response time and fairness (default: ``(2, 3, 1)``).
        host: Tunables of the host (:func:`seekwise.host_tunables`).
        closed, speed, fit: How a trace is replayed; see :func:`seekwise.simulate`.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(
        self,
        load: Load,
        disk: Path = "sata7200",
        *,
        candidates: Sequence[str] = CANDIDATES,
        initial: str = "mq-deadline",
        window_ms: int = 1000,
        max_windows: Optional[int] = None,
        preference: Optional[Sequence[int]] = None,
        host: Optional[Mapping[str, int]] = None,
        closed: bool = False,
        speed: float = 1.0,
        fit: str = "exact",
    ) -> None:
        self.candidates = tuple(candidates)
        self.features = tuple(name for name, _, _ in _seekwise.Tuned.features())
        self.observation_space = spaces.Box(-numpy.inf, numpy.inf, (len(self.features),), numpy.float32)
        self.action_space = spaces.Discrete(len(self.candidates))
        self._max_windows = max_windows
        keys = {
            "host": [f"{name}={value}" for name, value in (host or {}).items()], "closed": closed, "speed": speed, "fit": fit,
            "preference": preference_argument(preference), "seed": 1,
        }
        self._tuned = _seekwise.Tuned(load_argument(load), str(disk), list(candidates), initial, window_ms, keys, None)
        self._first: Optional[float] = None
        self._windows = 0
        self._last: Any = numpy.zeros(len(self.features), numpy.float32)

    def reset(self, *, seed: Optional[int] = None, options: Optional[dict[str, Any]] = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode. Without ``seed``, a new one is drawn from the environment's random generator."""
        super().reset(seed=seed)
        drawn = seed if seed is not None else int(self.np_random.integers(1, 2**31))
        window = self._tuned.reset(drawn)
        self._first, self._windows = None, 0
        if window is None:
            self._last = numpy.zeros(len(self.features), numpy.float32)
            return self._last.copy(), {"setting": "", "at_s": 0.0, "throughput_mb_s": 0.0, "waited_ms": 0.0}
        self._first = window[1]
        return self._seen(window)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Apply the candidate with this index and simulate one window. ``terminated`` once the load has ended."""
        window = self._tuned.step(int(action))
        if window is None:
            # The load ended within the window.
            return self._last.copy(), 0.0, True, False, {"setting": "", "at_s": 0.0, "throughput_mb_s": 0.0, "waited_ms": 0.0}
        self._windows += 1
        merit = window[1]
        if self._first is None:
            self._first = merit
        reward = 0.0 if merit is None or self._first is None else max(-MOST, min(MOST, merit - self._first))
        truncated = self._max_windows is not None and self._windows >= self._max_windows
        observation, info = self._seen(window)
        return observation, float(reward), False, truncated, info

    def close(self) -> None:
        """End the episode and join its thread."""
        self._tuned.close()

    def _seen(self, window: tuple[list[float], Optional[float], float, float, float, str]) -> tuple[Any, dict[str, Any]]:
        features, _, at_s, throughput_mb_s, waited_ms, setting = window
        self._last = numpy.nan_to_num(numpy.asarray(features, numpy.float32))
        waited = waited_ms if waited_ms == waited_ms else 0.0
        return self._last.copy(), {"setting": setting, "at_s": at_s, "throughput_mb_s": throughput_mb_s, "waited_ms": waited}

