"""Helpers shared by tests: small traces as dataframes and as files."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import seekwise as sw

pa = pytest.importorskip("pyarrow")


def requests(count: int = 2000, *, seed: int = 7, gap_us: int = 9000) -> dict[str, list]:
    """Random reads and writes of two processes, as columns."""
    draw = random.Random(seed)
    return {
        "ts": [gap_us * number for number in range(count)],
        "off": [4096 * draw.randrange(1 << 20) for _ in range(count)],
        "len": [4096 * draw.choice([1, 1, 2, 16]) for _ in range(count)],
        "rw": [draw.choice("RRW") for _ in range(count)],
        "pid": [draw.choice([4, 7]) for _ in range(count)],
    }


def many(count: int, *, gap_us: int = 9000) -> dict[str, list]:
    """Columns of 1,000 requests repeated, which are fast to create."""
    some = requests(1000)
    columns = {name: values * (count // 1000) for name, values in some.items()}
    return {**columns, "ts": list(range(0, gap_us * count, gap_us))}


NAMED = {"time": "ts", "unit": "us", "offset": "off", "size": "len", "op": "rw", "stream": "pid"}


@pytest.fixture
def table() -> "pa.Table":
    return pa.table(requests())


@pytest.fixture
def trace(table: "pa.Table") -> sw.Trace:
    return sw.Trace.from_arrow(table, **NAMED)


@pytest.fixture
def file(trace: sw.Trace, tmp_path: Path) -> Path:
    path = tmp_path / "sda.parquet"
    trace.write(path)
    return path
