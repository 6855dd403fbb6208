//! The folder of a sweep.
//!
//! ```text
//! DIR/part-00000.parquet …   the data set: each file holds the cases of some tasks, and is there with all of them or not at all
//! DIR/_plan.json             the plan that it belongs to
//! DIR/_progress/*.log        cases that are done and whose file is not: a line each, with its checksum
//! ```
//! Tools that read folders of Parquet ignore names that begin with `_`. A case is done when its line is in the log. Files are written under
//! another name and renamed, so a killed sweep leaves whole files, and only the last line of a log can be torn: it is truncated.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use sha2::Digest;
use testbed::shipped;
use testbed::world::hexadecimal;

use super::log::{self, Log};
use super::plan::{Method, Plan};
use super::row::Row;
use super::table;

/// The version of the folder's layout.
const FORMAT: u32 = 1;
const PLAN: &str = "_plan.json";
const PROGRESS: &str = "_progress";

/// One machine's share of the work: the files whose number modulo `of` selects this shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Shard number, from 1 to `of`.
    pub number: u64,
    /// Number of shards.
    pub of: u64,
}

impl Shard {
    /// All of the work.
    pub const WHOLE: Shard = Shard { number: 1, of: 1 };

    /// Whether a file belongs to this shard.
    pub fn has(self, part: u64) -> bool {
        part % self.of == self.number - 1
    }
}

impl std::str::FromStr for Shard {
    type Err = String;

    /// Reads `I/N`.
    fn from_str(text: &str) -> Result<Shard, String> {
        let wanted = || "should be I/N, as 1/4: the first of four shards".to_owned();
        let (number, of) = text.split_once('/').ok_or_else(wanted)?;
        let shard = Shard { number: number.parse().map_err(|_| wanted())?, of: of.parse().map_err(|_| wanted())? };
        if (1..=shard.of).contains(&shard.number) && shard.of <= 100_000 { Ok(shard) } else { Err(wanted()) }
    }
}

/// The stored identity of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    format: u32,
    seekwise_version: String,
    method: String,
    /// Name and size, or digest, of each load.
    loads: Vec<(String, String)>,
    /// Name and digest of each disk.
    disks: Vec<(String, String)>,
    seeds: Vec<u64>,
    /// Baseline setting.
    pub default: String,
    settings: Vec<String>,
    tunables: Vec<String>,
    points: usize,
    /// Figure by which settings are ranked.
    pub objective: String,
    preference: String,
    replay: String,
    /// Number of files.
    pub parts: u64,
    /// Number of cases.
    pub cases: u64,
}

impl Stored {
    /// The identity of a plan.
    ///
    /// # Errors
    /// A load cannot be read.
    pub fn of(plan: &Plan) -> anyhow::Result<Stored> {
        let sha256 = |text: &str| hexadecimal(&sha2::Sha256::digest(text));
        let load = |load: &super::plan::PlannedLoad| -> anyhow::Result<(String, String)> {
            let known = match shipped::job_text(&load.path)? {
                Some((text, _)) => format!("sha256 {}", sha256(&text)),
                // Name and size only: a digest would mean reading the whole trace.
                None => {
                    let sizes =
                        sim::trace::files(&load.path).iter().map(|file| file.metadata().map_or(0, |file| file.len())).sum::<u64>();
                    format!("{sizes} bytes")
                }
            };
            Ok((load.name.clone(), known))
        };
        let tunable = |choice: &super::settings::Choice| {
            let owner = choice.scheduler.unwrap_or("host");
            format!("{owner}.{}: {:?} {:?}", choice.tunable.name, choice.range, choice.values)
        };
        Ok(Stored {
            format: FORMAT,
            seekwise_version: env!("CARGO_PKG_VERSION").to_owned(),
            method: serde_json::to_value(plan.method)?.as_str().unwrap_or_default().to_owned(),
            loads: plan.loads.iter().map(load).collect::<anyhow::Result<_>>()?,
            disks: plan.disks.iter().map(|disk| (disk.name.clone(), sha256(disk.world.profile.text()))).collect(),
            seeds: plan.seeds.clone(),
            default: plan.default.to_string(),
            settings: match plan.method {
                Method::Bayesian => plan.searched.bases().iter().map(ToString::to_string).collect(),
                _ => plan.settings.iter().map(ToString::to_string).collect(),
            },
            tunables: plan.searched.choices().iter().map(tunable).collect(),
            points: plan.points,
            objective: plan.objective.clone(),
            preference: plan.preference.to_string(),
            replay: format!("{:?}", plan.replay),
            parts: plan.parts(),
            cases: plan.cases(),
        })
    }

    /// Reads the identity stored in a folder.
    ///
    /// # Errors
    /// The folder holds no sweep.
    pub fn read(folder: &Path) -> anyhow::Result<Stored> {
        let path = folder.join(PLAN);
        let text = fs::read_to_string(&path).with_context(|| {
            format!(
                "{}: holds no sweep, as there is no {PLAN}; `seekwise sweep PLAN.toml --output DIR` makes one",
                folder.display()
            )
        })?;
        let stored: Stored = serde_json::from_str(&text).with_context(|| format!("{}: is damaged", path.display()))?;
        ensure!(stored.format == FORMAT, "{}: has format {}; this program reads {FORMAT}", path.display(), stored.format);
        Ok(stored)
    }

    /// The first key that differs, with both values; `None` if the plans are equal.
    ///
    /// # Errors
    /// Serialization fails.
    pub fn difference(&self, other: &Stored) -> anyhow::Result<Option<String>> {
        let (here, there) = (serde_json::to_value(self)?, serde_json::to_value(other)?);
        let (Some(here), Some(there)) = (here.as_object(), there.as_object()) else { return Ok(None) };
        let differs = here.iter().find(|(key, value)| there.get(*key) != Some(value));
        Ok(differs.map(|(key, value)| {
            let (value, other) = first_difference(value, there.get(key).unwrap_or(&serde_json::Value::Null));
            format!("{key}: there {other}, here {value}")
        }))
    }
}

/// The first differing entries of two lists, or the values themselves.
fn first_difference(here: &serde_json::Value, there: &serde_json::Value) -> (String, String) {
    let (Some(one), Some(other)) = (here.as_array(), there.as_array()) else { return (here.to_string(), there.to_string()) };
    let entry =
        |list: &[serde_json::Value], number: usize| list.get(number).map_or_else(|| "nothing more".to_owned(), ToString::to_string);
    let number = (0..one.len().max(other.len())).find(|&number| one.get(number) != other.get(number)).unwrap_or(0);
    (entry(one, number), entry(other, number))
}

/// The file name of a part.
pub fn part_name(part: u64) -> String {
    format!("part-{part:05}.parquet")
}

/// A completed file of the data set, not written yet.
pub struct PartFile {
    temporary: PathBuf,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl PartFile {
    /// Writes the file.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(self) -> anyhow::Result<()> {
        replace(&self.temporary, &self.path, &self.bytes).with_context(|| format!("--output {}", self.path.display()))
    }
}

/// The folder of a running shard.
pub struct Output {
    plan: Arc<Plan>,
    folder: PathBuf,
    shard: Shard,
    log: Log,
    /// Rows of incomplete parts, by case.
    rows: BTreeMap<u64, Row>,
    /// Missing cases of each part of this shard.
    missing: BTreeMap<u64, u64>,
    done: u64,
    failed: u64,
    first_error: Option<String>,
}

impl Output {
    /// Creates the folder or resumes the sweep in it.
    ///
    /// # Errors
    /// The folder holds other files or another plan's sweep, cannot be written, or another process is running this shard.
    pub fn open(folder: &Path, plan: &Arc<Plan>, shard: Shard) -> anyhow::Result<Output> {
        let of = || format!("--output {}", folder.display());
        let wanted = Stored::of(plan)?;
        if folder.join(PLAN).exists() {
            let found = Stored::read(folder).with_context(of)?;
            if let Some(difference) = wanted.difference(&found)? {
                bail!("{}: holds the sweep of another plan than {}: {difference}; name another folder", of(), plan.source);
            }
        } else {
            ensure!(!folder.exists() || folder.is_dir(), "{}: is a file; a folder is wanted", of());
            let is_empty = |mut files: fs::ReadDir| files.all(|file| file.is_ok_and(|file| file.file_name() == PROGRESS));
            ensure!(fs::read_dir(folder).map_or(true, is_empty), "{}: is not empty, and holds no sweep; name a new folder", of());
        }
        let progress = folder.join(PROGRESS);
        fs::create_dir_all(&progress).with_context(of)?;
        let path = progress.join(format!("shard-{}-of-{}.log", shard.number, shard.of));
        let mut rows: Vec<Row> = Vec::new();
        let per_task = plan.task_cases();
        let is_left = |row: &Row| row.case < plan.cases() && !folder.join(part_name(plan.part_of(row.case))).is_file();
        // Rows left by other shards, then our own.
        for entry in fs::read_dir(&progress).with_context(of)? {
            let other = entry.with_context(of)?.path();
            if other != path && other.extension().is_some_and(|extension| extension == "log") {
                let mut other = File::open(&other).with_context(of)?;
                log::read(&mut other, |row: Row| rows.extend(Some(row).filter(is_left))).with_context(of)?;
            }
        }
        let log = Log::open(&path, |row: Row| rows.extend(Some(row).filter(is_left))).with_context(of)?;
        let Some(log) = log else {
            bail!(
                "{}: another process is at shard {}/{} of this sweep; wait for it, or give another --shard",
                of(),
                shard.number,
                shard.of
            )
        };
        if !folder.join(PLAN).exists() {
            let text = serde_json::to_string_pretty(&wanted)? + "\n";
            let path = progress.join(format!("shard-{}-of-{}.plan", shard.number, shard.of));
            replace(&path, &folder.join(PLAN), text.as_bytes()).with_context(of)?;
        }
        let mut output = Output {
            plan: Arc::clone(plan),
            folder: folder.to_owned(),
            shard,
            log,
            rows: BTreeMap::new(),
            missing: BTreeMap::new(),
            done: 0,
            failed: 0,
            first_error: None,
        };
        for part in (0..plan.parts()).filter(|&part| shard.has(part)) {
            let tasks = plan.part(part);
            let cases = (tasks.end - tasks.start) * per_task;
            if folder.join(part_name(part)).is_file() {
                output.done += cases;
            } else {
                output.missing.insert(part, cases);
            }
        }
        rows.into_iter().for_each(|row| output.take(row));
        // An earlier process may have been killed after a part's last case and before its file was written.
        let complete: Vec<u64> = output.missing.iter().filter(|(_, missing)| **missing == 0).map(|(part, _)| *part).collect();
        complete.into_iter().try_for_each(|part| output.complete(part)?.write())?;
        Ok(output)
    }

    /// Adds a row unless it is present already or belongs to another shard.
    fn take(&mut self, row: Row) {
        let case = row.case;
        let Some(missing) = self.missing.get_mut(&self.plan.part_of(case)) else { return };
        if self.rows.contains_key(&case) {
            return;
        }
        *missing -= 1;
        self.done += 1;
        if let Some(error) = &row.error {
            self.failed += 1;
            let load = &self.plan.loads[self.plan.case(case).load].name;
            self.first_error
                .get_or_insert_with(|| if error.contains(load.as_str()) { error.clone() } else { format!("{load}: {error}") });
        }
        self.rows.insert(case, row);
    }

    /// Unfinished tasks of this shard, in order.
    pub fn tasks(&self) -> Vec<u64> {
        let is_left = |task: &u64| self.plan.task(*task).any(|case| !self.rows.contains_key(&case));
        self.missing.keys().flat_map(|&part| self.plan.part(part)).filter(is_left).collect()
    }

    /// The row of a completed case that is not in a file yet.
    pub fn row(&self, case: u64) -> Option<&Row> {
        self.rows.get(&case)
    }

    /// Number of completed cases of this shard.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Number of cases of this shard.
    pub fn cases(&self) -> u64 {
        let parts = (0..self.plan.parts()).filter(|&part| self.shard.has(part)).map(|part| self.plan.part(part));
        parts.map(|tasks| (tasks.end - tasks.start) * self.plan.task_cases()).sum()
    }

    /// Number of failed cases, without those in files written before this run, and the first error.
    pub fn failed(&self) -> (u64, Option<&str>) {
        (self.failed, self.first_error.as_deref())
    }

    /// Records the result of a case. Once this returns, the case is done even if the process is killed. If all cases of a file are done,
    /// the file is returned, to be written outside a lock.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn add(&mut self, row: Row) -> anyhow::Result<Option<PartFile>> {
        let part = self.plan.part_of(row.case);
        let of = |folder: &Path| format!("--output {}", folder.display());
        if self.rows.contains_key(&row.case) || !self.missing.contains_key(&part) {
            return Ok(None);
        }
        self.log.add(&row).with_context(|| of(&self.folder))?;
        self.take(row);
        (self.missing.get(&part) == Some(&0)).then(|| self.complete(part)).transpose()
    }

    /// Builds the file of a complete part.
    fn complete(&mut self, part: u64) -> anyhow::Result<PartFile> {
        let tasks = self.plan.part(part);
        let cases = self.plan.task(tasks.start).start..self.plan.task(tasks.end - 1).end;
        let rows: Vec<Row> = self.rows.range(cases).map(|(_, row)| row.clone()).collect();
        let bytes = table::bytes(&self.plan, &rows)?;
        rows.iter().for_each(|row| drop(self.rows.remove(&row.case)));
        self.missing.remove(&part);
        let temporary = format!("shard-{}-of-{}.{}", self.shard.number, self.shard.of, part_name(part));
        Ok(PartFile { temporary: self.folder.join(PROGRESS).join(temporary), path: self.folder.join(part_name(part)), bytes })
    }

    /// Removes the progress logs if all shards are complete. Returns whether they are.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn finish(self) -> anyhow::Result<bool> {
        let all: BTreeSet<u64> = (0..self.plan.parts()).collect();
        let is_done = all.iter().all(|&part| self.folder.join(part_name(part)).is_file());
        if is_done {
            let progress = self.folder.join(PROGRESS);
            match fs::remove_dir_all(&progress) {
                // Another shard that finished at the same time removed it.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                removed => removed.with_context(|| progress.display().to_string())?,
            }
        }
        Ok(is_done)
    }
}

/// Writes `temporary` and renames it to `path`, so that the file appears atomically.
pub(super) fn replace(temporary: &Path, path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut file = File::create(temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(temporary, path)?;
    Ok(())
}
