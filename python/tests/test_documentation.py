"""Runs the code of docs/python.md and the notebooks."""

from __future__ import annotations

import os
import pathlib
import re
import secrets
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "python" / "notebooks").glob("*.ipynb"))


def test_the_code_of_the_page_runs_from_top_to_bottom(tmp_path):
    for library in ("polars", "duckdb", "pyarrow", "gymnasium"):
        pytest.importorskip(library)
    page = (ROOT / "docs" / "python.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 8
    ran = subprocess.run([sys.executable, "-c", "\n".join(blocks)], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "columns" not in ran.stderr and ran.stderr == ""


def blocks_on_a_cluster() -> dict[str, str]:
    """The programs of docs/sweep.md, by what runs them."""
    page = (ROOT / "docs" / "sweep.md").read_text()
    section = page.partition("## On a cluster\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    return dict(zip(("concurrent.futures", "distributed", "ray"), blocks, strict=True)) if sys.version_info >= (3, 10) else {}


@pytest.mark.parametrize("engine", ["concurrent.futures", "distributed", "ray"])
def test_a_program_on_a_cluster_makes_the_data_set_of_one_machine(engine, tmp_path):
    if engine == "ray" and os.environ.get("SEEKWISE_RAY") != "1":
        pytest.skip("ray takes too long to install and to start for every run: research/bars/scale --part sweep sets SEEKWISE_RAY=1")
    pytest.importorskip(engine)
    import seekwise as sw

    block = blocks_on_a_cluster()[engine]
    assert re.search(rf"\b{re.escape(engine)}\b", block)
    (tmp_path / "sweep.toml").write_text('loads = ["recipes/etcd"]\ndisks = ["cloud-volume"]\nschedulers = ["none"]\nseeds = 2\n')
    (tmp_path / "program.py").write_text(block)
    # Else Ray makes a token in the home directory.
    surroundings = {**os.environ, "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    ran = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, env=surroundings)
    assert ran.returncode == 0, ran.stderr
    outputs = re.findall(r'sw\.sweep\("sweep\.toml", "([a-z-]+)"', block)
    sw.sweep(tmp_path / "sweep.toml", tmp_path / "here")
    read = lambda name: {path.name: path.read_bytes() for path in (tmp_path / name).glob("*.parquet")}
    assert outputs and all(read(output) == read("here") for output in outputs)


def test_every_public_name_that_the_page_uses_is_there():
    import seekwise as sw

    page = "".join((ROOT / page).read_text() for page in ("docs/python.md", "docs/sweep.md", "python/README.md"))
    for name in set(re.findall(r"\bsw\.([A-Za-z_]+)", page)):
        assert hasattr(sw, name), name


def test_notebooks_hold_no_output():
    import json

    assert len(NOTEBOOKS) == 3
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text())["cells"]
        assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells if cell["cell_type"] == "code"), path


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path):
    pytest.importorskip("polars")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
