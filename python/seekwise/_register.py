"""Registers ``seekwise/Tune-v0`` with gymnasium without importing gymnasium; the packages may be imported in either order.

gymnasium 1 has no entry points for environments of other packages, and importing it takes longer than all of this package.
"""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Optional

NAME = "seekwise/Tune-v0"


def register() -> None:
    """Register the environment."""
    from gymnasium.envs import registration

    if NAME not in registration.registry:
        registration.register(NAME, entry_point="seekwise._environment:Tune")


class _Registering(Loader):
    """Wraps gymnasium's loader and registers the environment after the module has run."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> Optional[ModuleType]:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        register()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class _Finder(MetaPathFinder):
    """Import hook for gymnasium. Removes itself at the first import."""

    def find_spec(self, fullname: str, path: Any, target: Optional[ModuleType] = None) -> Optional[ModuleSpec]:
        if fullname != "gymnasium":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Registering(spec.loader)
        return spec


def watch() -> None:
    """Register the environment now if gymnasium is already imported, else on its import."""
    if "gymnasium" in sys.modules:
        register()
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
