//! The Python package: runs its tests (`python/tests`) by pytest with the module built by `cargo test`.
//!
//! Required packages are installed once, into a virtual environment under `target/tmp`; if that fails, the tests are skipped with a
//! message.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Packages that the tests import. Ray is not among it: it takes as long to install as all of these; `research/bars/scale --part sweep` has it.
const PACKAGES: &[&str] = &[
    "pytest",
    "pyarrow",
    "polars",
    "numpy",
    "gymnasium",
    "duckdb",
    "mypy",
    "nbclient",
    "ipykernel",
    "distributed",
    "loky",
    "pandas",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn temporary() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// Path of the interpreter of a virtual environment with [`PACKAGES`], or why there is none.
fn interpreter() -> Result<PathBuf, String> {
    let folder = temporary().join("python-environment");
    let (python, stamp) = (folder.join("bin/python"), folder.join("installed"));
    let wanted = PACKAGES.join(" ");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    let run = |command: &mut Command, what: &str| {
        let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{what}: {error}"))?;
        let last = String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned();
        if output.status.success() { Ok(()) } else { Err(format!("{what}: {last}")) }
    };
    run(Command::new("python3").args(["-c", "import sys; assert sys.version_info >= (3, 9)"]), "python3 3.9 or newer")?;
    run(Command::new("python3").args(["-m", "venv"]).arg(&folder), "python3 -m venv")?;
    let pip = || {
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"]);
        pip
    };
    run(pip().args(PACKAGES), "pip install")?;
    fs::write(&stamp, wanted).unwrap();
    Ok(python)
}

/// Creates a folder with sources and extension module, laid out as by a wheel.
fn package() -> PathBuf {
    let (folder, source) = (temporary().join("python-package"), root().join("python/seekwise"));
    let package = folder.join("seekwise");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&package).unwrap();
    for entry in fs::read_dir(&source).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            symlink(&path, package.join(path.file_name().unwrap())).unwrap();
        }
    }
    let test = std::env::current_exe().unwrap();
    symlink(test.with_file_name("lib_seekwise.so"), package.join("_seekwise.abi3.so")).unwrap();
    folder
}

#[test]
fn the_python_package_passes_its_own_tests() {
    let python = match interpreter() {
        Ok(python) => python,
        Err(why) => {
            eprintln!("skipped: the packages for the tests in Python are not to be had: {why}");
            return;
        }
    };
    let program = std::env::current_exe().unwrap().parent().unwrap().with_file_name("seekwise");
    let mut pytest = Command::new(python);
    pytest
        .args(["-m", "pytest", "--quiet", "--no-header", "-p", "no:cacheprovider", "-W", "error::DeprecationWarning:seekwise"])
        // The source folder has no extension module, and must not be found from the working directory.
        .current_dir(root().join("python/tests"))
        .env("PYTHONPATH", package())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("MYPY_CACHE_DIR", temporary().join("mypy"));
    if program.is_file() {
        pytest.env("SEEKWISE_PROGRAM", program);
    }
    let output = pytest.output().unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}{errors}");
    let last = text.lines().last().unwrap_or_default();
    println!("pytest: {last}");
}

#[test]
fn pyproject_and_documentation_name_the_same_package() {
    let project = fs::read_to_string(root().join("python/pyproject.toml")).unwrap();
    assert!(project.contains("name = \"seekwise\"") && project.contains("requires-python = \">=3.9\""));
    assert!(!project.contains("\ndependencies"), "no package is mandatory");
    let page = fs::read_to_string(root().join("docs/python.md")).unwrap();
    assert!(page.contains("Python 3.9 or newer"));
}
