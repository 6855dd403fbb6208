"""The code of docs/python.md and the notebooks run."""

from __future__ import annotations

import pathlib
import re
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


def test_every_public_name_that_the_page_uses_is_there():
    import seekwise as sw

    page = (ROOT / "docs" / "python.md").read_text() + (ROOT / "python" / "README.md").read_text()
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
