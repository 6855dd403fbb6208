//! The Debian package: it is built by one command, installs into a scratch root and enables nothing; checks units and dashboard, the container
//! image, and that the install page covers every program.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use agent::history::{Entry, EntryKind};
use agent::metrics::Metrics;
use agent::units::{Behind, Times, UnitRow, UnitTable};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn has(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        eprintln!("skipped: needs {program}");
    }
    is_there
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_package_installs_all_programs_and_enables_nothing() {
    let agent = Path::new(env!("CARGO_BIN_EXE_seekwise-agent"));
    let programs = agent.parent().unwrap();
    if !has("dpkg-deb") {
        return;
    }
    for program in ["seekwise", "seekwise-applier", "seekwise-serve", "seekwise-fleet"] {
        if !programs.join(program).exists() {
            eprintln!("skipped: needs the program {program} next to seekwise-agent (cargo build -p {program})");
            return;
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let built = Command::new(root().join("packaging/build-deb"))
        .arg(folder.path())
        .env("PROGRAMS", programs)
        .env("COMPRESSION", "-Zgzip -z1")
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", text(&built.stderr));
    let package = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let installed = folder.path().join("root");
    let unpacked = Command::new("dpkg-deb").arg("-x").arg(&package).arg(&installed).status().unwrap();
    assert!(unpacked.success());
    for file in [
        "usr/bin/seekwise",
        "usr/bin/seekwise-agent",
        "usr/bin/seekwise-applier",
        "usr/bin/seekwise-serve",
        "usr/bin/seekwise-fleet",
        "usr/lib/systemd/system/seekwise-serve.service",
        "usr/share/man/man1/seekwise-serve-volume-create.1.gz",
        "usr/share/doc/seekwise/serve.md",
        "usr/share/doc/seekwise/reference/block-server.md",
        "usr/lib/seekwise/agent.toml",
        "usr/lib/systemd/system/seekwise-agent.service",
        "usr/lib/systemd/system/seekwise-applier.service",
        "usr/lib/systemd/system/seekwise-applier.socket",
        "usr/lib/sysusers.d/seekwise.conf",
        "usr/lib/tmpfiles.d/seekwise.conf",
        "usr/share/man/man1/seekwise-agent.1.gz",
        "usr/share/man/man1/seekwise-advise.1.gz",
        "usr/share/bash-completion/completions/seekwise-agent",
        "usr/share/doc/seekwise/agent.md",
        "usr/share/doc/seekwise/copyright",
        "usr/share/seekwise/grafana/seekwise.json",
        "usr/share/seekwise/grafana/seekwise-serve.json",
        "usr/share/seekwise/prometheus/seekwise-serve.yml",
    ] {
        assert!(installed.join(file).is_file(), "{file} is missing");
    }
    let field = Command::new("dpkg-deb").arg("--field").arg(&package).arg("Depends").output().unwrap();
    let depends = text(&field.stdout);
    assert!(depends.contains("libc6 (>= 2.") && depends.contains("libgcc-s1 (>= "), "{depends}");
    // A unit is enabled by a link below /etc or a preset.
    assert!(!installed.join("etc").exists() && !installed.join("usr/lib/systemd/system-preset").exists());
    let scripts = folder.path().join("control");
    assert!(Command::new("dpkg-deb").arg("-e").arg(&package).arg(&scripts).status().unwrap().success());
    for script in ["postinst", "prerm", "postrm"] {
        let script = fs::read_to_string(scripts.join(script)).unwrap();
        assert!(!script.contains("systemctl enable") && !script.contains("systemctl start"), "{script}");
    }
    let version = Command::new(installed.join("usr/bin/seekwise-agent")).arg("--version").output().unwrap();
    assert!(version.status.success());
    let mode = "mode = \"watch\"";
    assert!(fs::read_to_string(installed.join("usr/lib/seekwise/agent.toml")).unwrap().contains(&format!("#{mode}")));
}

/// The part of a page below a heading, up to the next one of the same level.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let begin = page.find(heading).unwrap_or_else(|| panic!("no {heading}")) + heading.len();
    let level = heading.trim_start().split(' ').next().unwrap();
    page[begin..].split(&format!("\n{level} ")).next().unwrap()
}

/// Arguments of all lines of a page that begin with this command.
fn arguments<'a>(page: &'a str, command: &str) -> Vec<&'a str> {
    let lines = page.lines().filter_map(|line| line.trim().strip_prefix(command));
    lines.flat_map(str::split_whitespace).filter(|word| !word.starts_with('-')).collect()
}

#[test]
fn the_install_page_installs_and_removes_every_program_that_the_readme_names() {
    let (readme, page) = ["README.md", "docs/install.md"].map(|page| fs::read_to_string(root().join(page)).unwrap()).into();
    // These commands start programs of their own.
    let readme = readme.replace("`seekwise fleet`", "`seekwise-fleet`").replace("`seekwise serve`", "`seekwise-serve`");
    let readme = readme.replace("`seekwise emulate`", "`seekwise-emulate`");
    let table = section(&readme, "\n## Tasks\n");
    let programs: BTreeSet<&str> = table
        .lines()
        .filter_map(|row| row.split('|').nth(2))
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .filter_map(|command| command.split(' ').next())
        .filter(|program| program.starts_with("seekwise"))
        .collect();
    assert!(programs.len() >= 4, "{programs:?}");
    let source = section(&page, "\n## From source\n");
    let (mut installed, mut packages) = (BTreeSet::new(), BTreeSet::new());
    for folder in arguments(source, "cargo install ") {
        let manifest: toml::Table = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap().parse().unwrap();
        let name = manifest["package"]["name"].as_str().unwrap();
        let bins = manifest.get("bin").and_then(toml::Value::as_array).cloned().unwrap_or_default();
        installed.extend(bins.iter().map(|bin| bin["name"].as_str().unwrap().to_owned()));
        if bins.is_empty() {
            installed.insert(name.to_owned());
        }
        packages.insert(name.to_owned());
    }
    let missing: Vec<_> = programs.iter().filter(|program| !installed.contains(**program)).collect();
    assert!(missing.is_empty(), "docs/install.md does not install {missing:?} of README.md");
    let removed: BTreeSet<String> = arguments(source, "cargo uninstall ").into_iter().map(str::to_owned).collect();
    assert_eq!(removed, packages, "docs/install.md removes other packages than it installs");
    assert_eq!((arguments(source, "pip install "), arguments(source, "pip uninstall ")), (vec!["./python"], vec!["seekwise"]));
    let copied: BTreeSet<String> = installed.iter().map(|program| format!("/usr/local/bin/{program}")).collect();
    let removed = arguments(section(&page, "\n## Static programs\n"), "rm ").into_iter().map(str::to_owned).collect();
    assert_eq!(copied, removed, "static programs");
}

/// The SHA-256 of a file, in hexadecimal digits.
fn digest(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().unwrap();
    text(&output.stdout).split(' ').next().unwrap().to_owned()
}

#[test]
fn the_container_image_has_static_programs_only_and_digests_that_are_right() {
    if !has("python3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // The header of a program for x86-64 with one program header of this type; 3 names the dynamic loader.
    let program = |kind: u8| {
        let mut bytes = [0; 120];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (bytes[18], bytes[32], bytes[54], bytes[56], bytes[64]) = (0x3e, 64, 56, 1, kind);
        bytes
    };
    for name in fs::read_to_string(root().join("packaging/programs")).unwrap().lines() {
        fs::write(folder.path().join(name), program(1)).unwrap();
    }
    let image = folder.path().join("image.tar");
    let make = || Command::new(root().join("packaging/image")).arg(folder.path()).arg(&image).output().unwrap();
    let made = make();
    assert!(made.status.success(), "{}", text(&made.stderr));
    let first = digest(&image);
    let layout = folder.path().join("layout");
    fs::create_dir(&layout).unwrap();
    assert!(Command::new("tar").arg("-xf").arg(&image).arg("-C").arg(&layout).status().unwrap().success());
    let json = |path: &Path| serde_json::from_slice::<serde_json::Value>(&fs::read(path).unwrap()).unwrap();
    let blob = |of: &serde_json::Value| {
        let name = of["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap().to_owned();
        let path = layout.join("blobs/sha256").join(&name);
        assert_eq!((digest(&path), fs::metadata(&path).unwrap().len()), (name, of["size"].as_u64().unwrap()));
        path
    };
    let manifest = json(&blob(&json(&layout.join("index.json"))["manifests"][0]));
    let configuration = json(&blob(&manifest["config"]));
    assert_eq!(configuration["config"]["Entrypoint"][0], "/usr/bin/seekwise");
    let listed = Command::new("tar").arg("-tzf").arg(blob(&manifest["layers"][0])).output().unwrap();
    assert!(text(&listed.stdout).lines().any(|path| path == "usr/bin/seekwise-serve"), "{}", text(&listed.stdout));
    assert!(make().status.success());
    assert_eq!(digest(&image), first, "the same programs give the same bytes");
    fs::write(folder.path().join("seekwise-agent"), program(3)).unwrap();
    let refused = make();
    assert!(!refused.status.success() && text(&refused.stderr).contains("needs a dynamic loader"), "{}", text(&refused.stderr));
}

#[test]
fn crates_that_release_optimises_little_are_optimised_fully_in_packages() {
    // Link-time optimisation takes the level of the program's own crate, and packages inherit the levels of a release.
    let manifest: toml::Table = fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap();
    let levels = |profile: &str| manifest["profile"][profile]["package"].as_table().unwrap().clone();
    let (release, dist) = (levels("release"), levels("dist"));
    for package in release.keys().filter(|package| package.starts_with("seekwise")) {
        let level = dist.get(package).and_then(|own| own.get("opt-level")).and_then(toml::Value::as_integer);
        assert_eq!(level, Some(3), "[profile.dist.package] {package}");
    }
}

#[test]
fn all_units_are_hardened_and_known_to_systemd() {
    if !has("systemd-analyze") {
        return;
    }
    for unit in ["seekwise-agent.service", "seekwise-applier.service", "seekwise-serve.service"] {
        let path = root().join("packaging/systemd").join(unit);
        let output = Command::new("systemd-analyze").args(["security", "--offline=true"]).arg(&path).output().unwrap();
        let said = text(&output.stdout);
        let exposure = said.lines().find(|line| line.contains("Overall exposure level")).unwrap_or_else(|| panic!("{said}"));
        let number: f64 = exposure.split(": ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!(number <= 2.0, "{exposure}");
        let verified = Command::new("systemd-analyze").arg("verify").arg(&path).output().unwrap();
        // The program and its manual page are not installed here.
        let complaints = text(&verified.stderr);
        let complaints: Vec<&str> = complaints.lines().filter(|line| line.contains(unit) && !line.contains("Command ")).collect();
        assert!(complaints.is_empty(), "{complaints:?}");
    }
}

#[test]
fn the_dashboard_shows_every_metric_and_no_other() {
    let page = fs::read_to_string(root().join("packaging/grafana/seekwise.json")).unwrap();
    let page: serde_json::Value = serde_json::from_str(&page).unwrap();
    let expressions: Vec<&str> = page["panels"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap())
        .map(|target| target["expr"].as_str().unwrap())
        .collect();
    let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let names = |text: &str| -> BTreeSet<String> {
        text.split(|c: char| !is_of_a_name(c)).filter(|word| word.starts_with("seekwise_")).map(str::to_owned).collect()
    };
    let shown: BTreeSet<String> = expressions.iter().flat_map(|expression| names(expression)).collect();
    // All metrics of a device that was monitored and changed. Counters have the suffix `_total`, the version `_info`.
    let metrics = Metrics::new();
    metrics.begins("sda");
    metrics.happened(&Entry::new("sda", EntryKind::Set, "none", "bfq", "because"));
    metrics.measured("sda", 1.0);
    let times = Some(Times { p50_ms: 1.0, p99_ms: 2.0 });
    let behind = vec![Behind { unit: "backup.service".to_owned(), share_percent: 50.0 }];
    let unit =
        UnitRow { unit: "postgresql.service".to_owned(), read: times, write: times, fsync: times, behind, ..UnitRow::default() };
    metrics.units("sda", &UnitTable { seconds: 10.0, units: vec![unit] });
    let there: BTreeSet<String> = metrics
        .text()
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .map(|line| {
            let (name, kind) = line.split_once(' ').unwrap();
            let suffix = [("counter", "_total"), ("info", "_info")].into_iter().find(|(of, _)| *of == kind);
            format!("{name}{}", suffix.map_or("", |(_, suffix)| suffix))
        })
        .collect();
    assert_eq!(shown, there);
}
