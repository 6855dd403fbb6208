//! The job files of `workloads/`: all are built in, valid for the real fio, and issue the same requests in fio and in the simulator.
//!
//! ```text
//!  workloads/PAPER/NAME.fio --bounded--+--> sim::workload --------------------------> requests of each job --+
//!                                      |                                                                     +--> same?
//!                                      +--one section per process--> fio --write_iolog--> requests of each job --+
//! ```
//! Times are ignored: streams are compared in order of issue. Options that only pace a job (rates, think times, delays) are
//! removed, and a job limited only by time is limited by number (see [`Section::bound`]). All others end by themselves, and their counts
//! must agree. Deterministic streams must be equal request by request; for random ones the statistics are compared.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use block::Op;
use sim::host::Action;
use sim::workload::Workload;

/// Number of requests of a job that is otherwise limited by time. A share of 50% then has a standard error of 0.35%.
const REQUESTS: u64 = 20_000;

/// Minimum size of files of random jobs, in multiples of the job's total bytes: after a restart the same offsets are drawn again, which
/// adds no information.
const ROOM: u64 = 64;

/// Tolerance of shares and, relative, of counts. For short jobs, the larger difference expected by chance at [`SIGNIFICANCE`]
/// applies.
const TOLERANCE: f64 = 0.02;

/// Probability of a false positive per test. Some hundred jobs are compared; seeds are fixed on both sides, so the result is
/// reproducible.
const SIGNIFICANCE: f64 = 0.0001;

/// Standard errors by which a normal variable deviates with probability [`SIGNIFICANCE`].
const STANDARD_ERRORS: f64 = 3.89;

/// Maximum bytes for which fio uses real files with O_DIRECT; beyond, its `null` engine is used.
const REAL_BYTES: u64 = 128 << 20;

/// Capacity of the disk in sectors, larger than any workload: 64 TiB.
const CAPACITY: u64 = 128 << 30;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads")
}

/// Sorted names of the job files in the folder.
fn names() -> Vec<String> {
    let mut names = Vec::new();
    for paper in std::fs::read_dir(folder()).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_dir()) {
        for file in std::fs::read_dir(paper.path()).unwrap() {
            let path = file.unwrap().path();
            assert_eq!(path.extension().unwrap(), "fio", "{} is no job file", path.display());
            let (paper, stem) = (paper.file_name(), path.file_stem().unwrap());
            names.push(format!("{}/{}", paper.to_str().unwrap(), stem.to_str().unwrap()));
        }
    }
    names.sort();
    names
}

fn text(name: &str) -> String {
    std::fs::read_to_string(folder().join(format!("{name}.fio"))).unwrap()
}

fn seekwise(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_seekwise")).args(arguments).output().unwrap()
}

/// Output of a run that must succeed.
fn printed(arguments: &[&str]) -> String {
    let output = seekwise(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Error message of a run that must fail with bad input.
fn complaint(arguments: &[&str]) -> String {
    let output = seekwise(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn fio_is_here() -> bool {
    let here = Command::new("fio").arg("--version").output().is_ok_and(|output| output.status.success());
    if !here {
        eprintln!("skipped: fio is not installed");
    }
    here
}

#[test]
fn every_job_file_of_the_folder_comes_with_the_program() {
    let list = printed(&["workload", "list"]);
    let listed: Vec<&str> = list.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next()).collect();
    assert_eq!(listed, names());
    for name in names() {
        assert_eq!(printed(&["workload", "show", &name]), text(&name), "{name}");
    }
}

#[test]
fn every_job_file_states_its_purpose_and_source() {
    for name in names() {
        let text = text(&name);
        let head: Vec<&str> = text.lines().take_while(|line| line.starts_with('#')).collect();
        assert!((10..=100).contains(&head[0].len()), "{name}: the summary is {:?}", head[0]);
        assert!(head[1].starts_with("# From: ") && head[1].contains("; "), "{name}: {:?}", head[1]);
        assert!(
            head.iter().any(|line| line.contains("Given: ") || line.contains("Stand-in for ")),
            "{name}: names no given figures"
        );
        assert!(text.lines().all(|line| line.len() <= 132), "{name}: a line is too long");
    }
}

#[test]
fn fio_takes_every_job_file() {
    if !fio_is_here() {
        return;
    }
    for name in names() {
        let output = Command::new("fio").arg("--parse-only").arg(folder().join(format!("{name}.fio"))).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{name}: {said}");
    }
}

#[test]
fn the_mixes_of_ioperf_are_the_first_of_their_seeds() {
    for name in names().iter().filter(|name| name.starts_with("ioperf/")) {
        let seed = name.strip_prefix("ioperf/mix-").unwrap();
        assert_eq!(printed(&["workload", "random", "--seed", seed]), text(name), "{name}");
    }
}

#[test]
fn as_many_random_mixes_as_may_be_asked_for_are_taken_by_fio_and_by_us() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mixes.fio");
    let path = path.to_str().unwrap();
    assert_eq!(printed(&["workload", "random", "--count", "512", "--output", path]), "");
    let text = std::fs::read_to_string(path).unwrap();
    assert_eq!(text, printed(&["workload", "random", "--count", "512"]));
    Workload::parse(&text, path).unwrap();
    if fio_is_here() {
        let output = Command::new("fio").args(["--parse-only", path]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn fio_replays_the_requests_that_the_program_prints() {
    let of_job = ["--job", "change", "--limit", "300"];
    let log = printed(&[&["workload", "requests", "genetic/metadata"][..], &of_job].concat());
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines[0], "fio version 2 iolog");
    let count = |action: &str| lines.iter().filter(|line| line.split(' ').nth(1) == Some(action)).count();
    assert_eq!(count("read") + count("write") + count("sync"), 300);
    assert!(count("read") > 50 && count("write") > 30 && count("sync") > 100, "{log}");
    assert_eq!((count("add"), count("open")), (count("close"), count("close")));
    if !fio_is_here() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("log"), &log).unwrap();
    let job = ["--name=replay", "--read_iolog=log", "--ioengine=null", "--output-format=terse"];
    let output = Command::new("fio").current_dir(folder.path()).args(job).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = String::from_utf8(output.stdout).unwrap();
    // Fields of fio's terse report, version 3: KiB read and KiB written.
    let kib = |field: usize| report.split(';').nth(field).unwrap().parse::<usize>().unwrap();
    assert_eq!((kib(5), kib(46)), (4 * count("read"), 4 * count("write")), "{report}");
}

#[test]
fn a_job_file_may_use_the_environment_and_files_next_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("parts")).unwrap();
    std::fs::write(path("job.fio"), "[j]\nsize=${SIZE}\ninclude parts/rest\n").unwrap();
    std::fs::write(path("parts/rest"), "rw=write\ninclude more\n").unwrap();
    std::fs::write(path("parts/more"), "bs=8k ; a comment\n").unwrap();
    let job = path("job.fio");
    let requests = |size: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seekwise"));
        command.args(["workload", "requests"]).arg(&job).env("SIZE", size).output().unwrap()
    };
    let log = String::from_utf8(requests("16k").stdout).unwrap();
    assert!(log.contains("j.0.0 write 0 8192\nj.0.0 write 8192 8192\nj.0.0 close"), "{log}");
    let said = |output: Output| String::from_utf8(output.stderr).unwrap();
    assert!(said(requests("")).contains("job.fio:2: size: the environment variable SIZE is not set"));
    std::fs::write(path("parts/more"), "\nbs=8x\n").unwrap();
    assert!(said(requests("16k")).contains("parts/more:2: bs: `8x` has the unknown unit"));
    std::fs::remove_file(path("parts/more")).unwrap();
    assert!(said(requests("16k")).contains("parts/rest:2: include: "));
}

#[test]
fn what_cannot_be_meant_is_refused_with_what_could() {
    assert!(complaint(&["workload", "show", "genetic/metdata"]).contains("did you mean genetic/metadata?"));
    assert!(
        complaint(&["workload", "requests", "genetic/metadata", "--job", "change", "--disk", "atlsa10k"])
            .contains("did you mean atlas10k?")
    );
    // The beginning of a disk's name is the nearest to it.
    assert!(complaint(&["simulate", "genetic/metadata", "--disk", "sata"]).contains("did you mean sata7200 or raid5-5x-sata7200?"));
    assert!(complaint(&["simulate", "genetic/metadata", "--disk", "ssd"]).contains("did you mean ssd-dftl?"));
    assert!(!complaint(&["workload", "show", "nonsense"]).contains("did you mean"));
    assert!(complaint(&["workload", "show", "self-learning/web"]).contains("seekwise workload list"));
    assert!(complaint(&["workload", "random", "--count", "513"]).contains("give 1 to 512"));
    let said = complaint(&["workload", "requests", "youchoose/locality-0", "--job", "locality"]);
    assert!(said.contains("--job locality") && said.contains("locality-0"), "{said}");
    assert!(complaint(&["workload", "requests", "fairio/illustration-2"]).contains("--job (class-2, class-1.00, "));
    assert!(
        complaint(&["workload", "requests", "fairio/ior1", "--disk", "atlas10k", "--job", "class-1.3"])
            .contains("12884901888 bytes")
    );
    assert!(complaint(&["workload", "random", "--output", "/nonexistent/mixes.fio"]).contains("/nonexistent"));
}

#[test]
fn every_workload_fits_a_disk_of_9_gb_unless_its_paper_asks_for_more() {
    let capacity = sim::profile::load("atlas10k").unwrap().capacity_sectors();
    let larger = |name: &String| Workload::parse(&text(name), name).unwrap().place(capacity, 0).is_err();
    assert_eq!(names().into_iter().filter(larger).collect::<Vec<_>>(), ["fairio/ior1", "fairio/ior2", "fairio/ior3"]);
}

#[test]
fn the_illustrations_of_fairio_are_exactly_as_their_paper_gives_them() {
    const BLOCK: u64 = 512;
    for name in ["fairio/illustration-1", "fairio/illustration-2"] {
        let file = JobFile::parse(&text(name));
        let streams: Vec<(String, Stream)> = file.processes().map(|job| job.name).zip(ours(&file, name)).collect();
        let class = |number: u64| -> Vec<Asked> {
            let of_class = streams.iter().filter(|(job, _)| job.starts_with(&format!("class-{number}")));
            of_class.flat_map(|(_, stream)| stream.requests.clone()).collect()
        };
        let (one, two) = (class(1), class(2));
        assert_eq!((one.len(), two.len()), (10_000, 10_000), "{name}");
        assert!(one.iter().chain(&two).all(|request| !request.write));
        assert!((0..).zip(&two).all(|(j, request)| (request.offset, request.bytes) == (j * 128 * BLOCK, 128 * BLOCK)));
        if name.ends_with('1') {
            assert!(one.iter().all(|request| request.bytes == 128 * BLOCK));
            continue;
        }
        let mut offset = 0;
        for (j, request) in (0..).zip(&one) {
            let blocks = 16 + 10 * (j / 100);
            assert_eq!((request.offset, request.bytes), (offset * BLOCK, blocks * BLOCK), "request {j}");
            offset += blocks + 10 * (1 + j / 100);
        }
    }
}

#[test]
fn fio_and_we_agree_on_the_workloads_of_self_learning() {
    agree("self-learning/");
}

#[test]
fn fio_and_we_agree_on_the_workloads_of_genetic() {
    agree("genetic/");
}

#[test]
fn fio_and_we_agree_on_the_workloads_of_ioperf() {
    agree("ioperf/");
}

#[test]
fn fio_and_we_agree_on_the_workloads_of_youchoose() {
    agree("youchoose/");
}

#[test]
fn fio_and_we_agree_on_the_workloads_of_fairio() {
    agree("fairio/");
}

#[test]
fn fio_and_we_agree_on_the_workloads_of_recipes() {
    agree("recipes/");
}

#[test]
fn fio_and_we_agree_on_the_workloads_of_tenants() {
    agree("tenants/");
}

#[test]
fn fio_asks_the_same_of_a_file_and_of_its_null_engine() {
    if !fio_is_here() || !Engine::files_are_possible() {
        return;
    }
    for name in ["self-learning/typical-database", "youchoose/locality-50", "self-learning/linux-compilation"] {
        let file = JobFile::bounded(&text(name));
        let (real, null) = (fios(&file, Engine::Files), fios(&file, Engine::Null));
        assert!(real.iter().all(|stream| stream.requests.len() > 500), "{name}");
        assert!(real == null, "{name}: fio's engines differ, so that `null` cannot stand in for a disk");
    }
}

/// Compares all job files of a paper and reports every difference.
fn agree(paper: &str) {
    if !fio_is_here() {
        return;
    }
    let mut complaints = String::new();
    let mut jobs = 0;
    for name in names().iter().filter(|name| name.starts_with(paper)) {
        let file = JobFile::bounded(&text(name));
        let ours = ours(&file, name);
        let engine = Engine::for_streams(&ours);
        let fios = fios(&file, engine);
        assert_eq!(ours.len(), fios.len(), "{name}: processes");
        assert_eq!(ours.len(), Workload::parse(&text(name), name).unwrap().jobs().len(), "{name}: processes");
        for ((ours, fios), process) in ours.iter().zip(&fios).zip(file.processes()) {
            jobs += 1;
            for difference in differences(ours, fios, &process) {
                writeln!(complaints, "{name} [{}] ({engine:?}): {difference}", process.name).unwrap();
            }
        }
    }
    assert!(jobs >= 5, "only {jobs} jobs were compared");
    assert!(complaints.is_empty(), "ours, fio's:\n{complaints}");
    println!("{paper}: {jobs} jobs agree");
}

/// A job file, parsed only as far as needed to give every process its own section, and thus its own log.
struct JobFile {
    sections: Vec<Section>,
}

#[derive(Clone)]
struct Section {
    name: String,
    /// Keys and values, those of [global] first.
    options: Vec<(String, String)>,
}

impl Section {
    fn value(&self, key: &str) -> Option<&str> {
        self.options.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    fn set(&mut self, key: &str, value: String) {
        self.options.retain(|(name, _)| name != key);
        self.options.push((key.to_owned(), value));
    }

    fn remove(&mut self, key: &str) -> bool {
        let before = self.options.len();
        self.options.retain(|(name, _)| name != key);
        self.options.len() < before
    }

    fn bytes(&self, key: &str) -> Option<u64> {
        self.value(key).map(bytes)
    }

    /// Mean size of requests, in bytes.
    fn mean(&self) -> u64 {
        let Some(split) = self.value("bssplit") else { return self.bytes("bs").unwrap() };
        let parts = split.split(':').map(|part| part.split_once('/').unwrap());
        parts.map(|(size, percent)| bytes(size) * percent.parse::<u64>().unwrap()).sum::<u64>() / 100
    }

    fn is_by_chance(&self) -> bool {
        self.value("rw").unwrap().contains("rand") || self.value("bssplit").is_some()
    }

    /// Whether the stream is deterministic and must be equal request by request.
    fn is_certain(&self) -> bool {
        let direction = self.value("rw").unwrap().split(':').next().unwrap();
        let in_order = self.value("nrfiles").is_none() || self.value("file_service_type") == Some("sequential");
        matches!(direction, "read" | "write") && self.value("bssplit").is_none() && in_order
    }

    /// Removes options that only pace the job, and limits it by number if it was limited only by time.
    fn bound(&mut self) {
        for pace in ["runtime", "rate", "rate_iops", "thinktime", "startdelay"] {
            self.remove(pace);
        }
        if !self.remove("time_based") {
            return;
        }
        let by_chance = self.is_by_chance();
        if by_chance && self.value("nrfiles").is_some() {
            // It ends after one pass over all files.
            return;
        }
        self.set("number_ios", REQUESTS.to_string());
        // A job that has ended, or whose sequential requests have reached the end of its files, starts over.
        self.set("io_size", "1t".to_owned());
        while by_chance && self.bytes("size").unwrap() < ROOM * REQUESTS * self.mean() {
            for key in ["size", "offset_increment"] {
                if let Some(bytes) = self.bytes(key) {
                    self.set(key, (bytes * 2).to_string());
                }
            }
        }
    }

    fn text(&self) -> String {
        let options = self.options.iter();
        let lines = options.map(|(key, value)| if value.is_empty() { format!("{key}\n") } else { format!("{key}={value}\n") });
        format!("[{}]\n{}", self.name, lines.collect::<String>())
    }

    /// Files used by fio, with their sizes.
    fn files(&self) -> Vec<(String, u64)> {
        let count: u64 = self.value("nrfiles").map_or(1, |value| value.parse().unwrap());
        let (size, offset) = (self.bytes("size").unwrap(), self.bytes("offset").unwrap_or(0));
        let each = self.bytes("filesize").unwrap_or(offset + size / count);
        match self.value("filename") {
            Some(file) => vec![(file.to_owned(), each)],
            None => (0..count).map(|file| (format!("{}.0.{file}", self.name), each)).collect(),
        }
    }
}

/// Parses a number with a unit in the syntax of job files.
fn bytes(value: &str) -> u64 {
    let digits = value.trim_end_matches(['k', 'm', 'g']);
    let unit = match &value[digits.len()..] {
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => 0,
    };
    digits.parse::<u64>().unwrap() << unit
}

impl JobFile {
    /// Without time: see [`Section::bound`].
    fn bounded(text: &str) -> JobFile {
        let mut file = JobFile::parse(text);
        file.sections.iter_mut().for_each(Section::bound);
        file
    }

    fn parse(text: &str) -> JobFile {
        let mut global = Vec::new();
        let mut sections: Vec<Section> = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(name) = line.strip_prefix('[') {
                let name = name.strip_suffix(']').unwrap();
                if name != "global" {
                    sections.push(Section { name: name.to_owned(), options: global.clone() });
                }
                continue;
            }
            let (key, value) = line.split_once('=').unwrap_or((line, ""));
            let options = sections.last_mut().map_or(&mut global, |section| &mut section.options);
            options.push((key.to_owned(), value.to_owned()));
        }
        JobFile { sections }
    }

    /// Formats the job file.
    fn text(&self) -> String {
        self.sections.iter().map(Section::text).collect()
    }

    /// Splits jobs into one section per process.
    fn processes(&self) -> impl Iterator<Item = Section> {
        self.sections.iter().flat_map(|section| {
            let count: u64 = section.value("numjobs").map_or(1, |value| value.parse().unwrap());
            (0..count).map(move |number| {
                let mut process = section.clone();
                process.set("numjobs", "1".to_owned());
                if count > 1 {
                    process.name = format!("{}.{number}", section.name);
                }
                if let Some(step) = section.bytes("offset_increment") {
                    process.set("offset_increment", "0".to_owned());
                    process.set("offset", (section.bytes("offset").unwrap_or(0) + number * step).to_string());
                }
                process
            })
        })
    }
}

/// Statistics of the requests of a job.
#[derive(Debug, Default, PartialEq)]
struct Stream {
    requests: Vec<Asked>,
    syncs: u64,
}

impl Stream {
    /// Syncs per request since the first write; before it there is nothing to sync.
    fn syncs_per_write(&self) -> f64 {
        let unsynced = self.requests.iter().take_while(|request| !request.write).count();
        self.syncs as f64 / (self.requests.len() - unsynced).max(1) as f64
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Asked {
    write: bool,
    file: usize,
    offset: u64,
    bytes: u64,
}

/// Streams of a job file in the simulator, one per process.
fn ours(file: &JobFile, name: &str) -> Vec<Stream> {
    let workload = Workload::parse(&file.text(), name).unwrap();
    let placed = workload.place(CAPACITY, 0).unwrap();
    (0..workload.jobs().len())
        .map(|job| {
            let mut stream = Stream::default();
            for action in placed.requests(job) {
                match action {
                    Action::Access { op, file, offset, bytes, .. } => {
                        stream.requests.push(Asked { write: op == Op::Write, file: file as usize, offset, bytes: u64::from(bytes) })
                    }
                    Action::Sync { .. } => stream.syncs += 1,
                    // fio does not log these.
                    Action::Invalidate { .. } => {}
                }
                assert!(stream.requests.len() < 1_000_000, "{name}: job {job} has no end");
            }
            stream
        })
        .collect()
}

/// Storage used by the real fio.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Engine {
    /// Files opened with O_DIRECT; sparse, since only fio's sequence of requests matters.
    Files,
    /// No storage, for jobs that would take long.
    Null,
}

impl Engine {
    fn for_streams(streams: &[Stream]) -> Engine {
        let bytes: u64 = streams.iter().flat_map(|stream| &stream.requests).map(|request| request.bytes).sum();
        let syncs: u64 = streams.iter().map(|stream| stream.syncs).sum();
        if bytes <= REAL_BYTES && syncs <= 100 && Engine::files_are_possible() { Engine::Files } else { Engine::Null }
    }

    /// Whether the filesystem of temporary files supports O_DIRECT.
    fn files_are_possible() -> bool {
        static POSSIBLE: LazyLock<bool> = LazyLock::new(|| {
            let folder = tempfile::tempdir().unwrap();
            let job = ["--name=probe", "--rw=write", "--size=4k", "--direct=1", "--output=report"];
            let possible = Command::new("fio").current_dir(folder.path()).args(job).status().unwrap().success();
            if !possible {
                eprintln!("{} takes no O_DIRECT: everything runs on fio's null engine", std::env::temp_dir().display());
            }
            possible
        });
        *POSSIBLE
    }
}

/// Streams of a job file in fio, one per process.
fn fios(file: &JobFile, engine: Engine) -> Vec<Stream> {
    let folder = tempfile::tempdir().unwrap();
    let mut job_file = String::new();
    let mut logs = Vec::new();
    for (number, mut process) in file.processes().enumerate() {
        let log = folder.path().join(format!("{number}.log"));
        process.set("write_iolog", log.to_str().unwrap().to_owned());
        if engine == Engine::Null {
            process.set("ioengine", "null".to_owned());
            // A full queue rejects requests, and fio 3.33 then logs them twice. The depth affects only times.
            process.set("iodepth", "1".to_owned());
        } else {
            process.set("direct", "1".to_owned());
            for (name, bytes) in process.files() {
                let file = std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(folder.path().join(name));
                let file = file.unwrap();
                file.set_len(bytes.max(file.metadata().unwrap().len())).unwrap();
            }
        }
        job_file += &process.text();
        logs.push((log, process.files()));
    }
    let path = folder.path().join("job.fio");
    std::fs::write(&path, job_file).unwrap();
    let output = Command::new("fio").current_dir(folder.path()).arg("--output=report").arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    logs.iter().map(|(log, files)| logged(log, files)).collect()
}

/// Parses an fio log of version 3: time, file, action, offset, length.
fn logged(log: &Path, files: &[(String, u64)]) -> Stream {
    let text = std::fs::read_to_string(log).unwrap();
    let numbers: BTreeMap<&str, usize> = files.iter().enumerate().map(|(number, (name, _))| (name.as_str(), number)).collect();
    let mut stream = Stream::default();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(' ').collect();
        match fields[..] {
            [_, _, "add" | "open" | "close"] => {}
            [_, _, "sync" | "datasync", ..] => stream.syncs += 1,
            [_, name, action @ ("read" | "write"), offset, bytes] => stream.requests.push(Asked {
                write: action == "write",
                file: numbers[name],
                offset: offset.parse().unwrap(),
                bytes: bytes.parse().unwrap(),
            }),
            _ => panic!("{}: unknown line {line:?}", log.display()),
        }
    }
    stream
}

/// Differences between two streams beyond those expected by chance.
fn differences(ours: &Stream, fios: &Stream, process: &Section) -> Vec<String> {
    if process.is_certain() {
        return first_difference(ours, fios).into_iter().collect();
    }
    let mut found = Vec::new();
    let mut compare = |what: &str, ours: f64, fios: f64, limit: f64| {
        if (ours - fios).abs() > limit {
            found.push(format!("{what}: {ours:.4}, {fios:.4}"));
        }
    };
    let count = fios.requests.len() as f64;
    compare("requests", ours.requests.len() as f64, count, TOLERANCE * count);
    compare("syncs", ours.syncs_per_write(), fios.syncs_per_write(), TOLERANCE);
    compare("files", files(ours) as f64, files(fios) as f64, 0.0);
    let mut compare_shares = |what: &str, ours: f64, fios: f64| {
        let mean = (ours + fios) / 2.0;
        compare(what, ours, fios, TOLERANCE.max(STANDARD_ERRORS * (2.0 * mean * (1.0 - mean) / count).sqrt()));
    };
    compare_shares("share of reads", share(ours, |request| !request.write), share(fios, |request| !request.write));
    compare_shares("share of sequential requests", sequential(ours), sequential(fios));
    let sizes: BTreeSet<u64> = ours.requests.iter().chain(&fios.requests).map(|request| request.bytes).collect();
    for size in sizes {
        let of_size = |request: &Asked| request.bytes == size;
        compare_shares(&format!("share of {size} bytes"), share(ours, of_size), share(fios, of_size));
    }
    let popular = process.value("random_distribution").is_some();
    let (what, places): (_, fn(&Stream) -> Vec<u64>) = if popular { ("popularity", popularity) } else { ("offsets", offsets) };
    // Only the first request of a sequential run is drawn. Runs of geometric length with continuation probability `s` are
    // equivalent to (1 - s) / (1 + s) times as many independent draws.
    let s = if process.is_by_chance() { sequential(fios) } else { 0.0 };
    let (distance, limit) = kolmogorov_smirnov(places(ours), places(fios), (1.0 - s) / (1.0 + s));
    if distance > limit {
        found.push(format!("{what}: the distributions are {distance:.4} apart, and chance allows {limit:.4}"));
    }
    found
}

/// First difference between two deterministic streams.
fn first_difference(ours: &Stream, fios: &Stream) -> Option<String> {
    let plain = |stream: &Stream| -> Vec<(bool, u64, u64)> {
        let places = offsets(stream).into_iter();
        places.zip(&stream.requests).map(|(place, request)| (request.write, place, request.bytes)).collect()
    };
    let (a, b) = (plain(ours), plain(fios));
    if let Some(number) = (0..a.len().max(b.len())).find(|number| a.get(*number) != b.get(*number)) {
        let (a, b) = (ours.requests.get(number), fios.requests.get(number));
        return Some(format!("request {number}: {a:?}, {b:?}"));
    }
    (ours.syncs != fios.syncs).then(|| format!("syncs: {}, {}", ours.syncs, fios.syncs))
}

fn share(stream: &Stream, of: impl Fn(&Asked) -> bool) -> f64 {
    stream.requests.iter().filter(|request| of(request)).count() as f64 / stream.requests.len() as f64
}

fn files(stream: &Stream) -> usize {
    stream.requests.iter().map(|request| request.file).collect::<BTreeSet<_>>().len()
}

/// Share of requests that begin at the end of the file's last request in the same direction.
fn sequential(stream: &Stream) -> f64 {
    let mut ends = BTreeMap::new();
    let follows =
        |request: &&Asked| ends.insert((request.file, request.write), request.offset + request.bytes) == Some(request.offset);
    stream.requests.iter().filter(follows).count() as f64 / stream.requests.len() as f64
}

/// Offset of each request in its concatenated files.
fn offsets(stream: &Stream) -> Vec<u64> {
    let numbers: BTreeSet<usize> = stream.requests.iter().map(|request| request.file).collect();
    let ranks: BTreeMap<usize, u64> = numbers.into_iter().zip(0..).collect();
    stream.requests.iter().map(|request| (ranks[&request.file] << 40) + request.offset).collect()
}

/// Popularity rank of each request's offset: the number of offsets accessed more often. The location of popular offsets depends
/// on the seed, which differs between both sides; their popularity does not.
fn popularity(stream: &Stream) -> Vec<u64> {
    let mut counts = BTreeMap::<u64, u64>::new();
    offsets(stream).into_iter().for_each(|place| *counts.entry(place).or_default() += 1);
    let mut counts: Vec<u64> = counts.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts.iter().zip(0..).flat_map(|(count, rank)| std::iter::repeat_n(rank, *count as usize)).collect()
}

/// Kolmogorov-Smirnov distance of two samples, and its limit at [`SIGNIFICANCE`] if the samples are equivalent to this multiple of
/// their size of independent draws.
fn kolmogorov_smirnov(mut a: Vec<u64>, mut b: Vec<u64>, worth: f64) -> (f64, f64) {
    a.sort_unstable();
    b.sort_unstable();
    let (m, n) = (a.len() as f64, b.len() as f64);
    let below = |sample: &[u64], value: u64| sample.partition_point(|other| *other <= value) as f64;
    let distance = a.iter().chain(&b).map(|value| (below(&a, *value) / m - below(&b, *value) / n).abs()).fold(0.0, f64::max);
    (distance, (-(SIGNIFICANCE / 2.0).ln() / 2.0 * (m + n) / (m * n * worth)).sqrt())
}
