//! The folder of a sweep.
//!
//! ```text
//! DIR/part-00000.parquet …   the data set: each file holds the cases of some tasks, and is there with all of them or not at all
//! DIR/_plan.json             the plan that it belongs to
//! DIR/_progress/*.log        cases that are done and whose file is not: a line each, with its checksum
//! ```
//! Tools that read folders of Parquet leave out names that begin with `_`. A case is done when its line is in the log. Files are made
//! under another name and renamed, so a killed sweep leaves whole files, and at most the last line of a log is torn: it is cut off.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use sha2::Digest;

use super::log::{self, Log};
use super::plan::{Method, Plan};
use super::row::Row;
use super::table;
use crate::shipped;
use crate::world::hexadecimal;

/// The version of the folder's layout.
const FORMAT: u32 = 1;
const PLAN: &str = "_plan.json";
const PROGRESS: &str = "_progress";

/// A part of the work for one of several machines: the files whose numbers leave this rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 1 to `of`.
    pub number: u64,
    /// How many there are.
    pub of: u64,
}

impl Shard {
    /// All of the work.
    pub const WHOLE: Shard = Shard { number: 1, of: 1 };

    /// Whether a file is this shard's.
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

/// What tells a plan from others, beside its results.
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
    /// The setting with which others are compared.
    pub default: String,
    settings: Vec<String>,
    tunables: Vec<String>,
    points: usize,
    /// The figure by which settings are ranked.
    pub objective: String,
    preference: String,
    replay: String,
    /// Number of files.
    pub parts: u64,
    /// Number of cases.
    pub cases: u64,
}

impl Stored {
    /// That of a plan.
    ///
    /// # Errors
    /// A load cannot be read.
    pub fn of(plan: &Plan) -> anyhow::Result<Stored> {
        let sha256 = |text: &str| hexadecimal(&sha2::Sha256::digest(text));
        let load = |load: &super::plan::PlannedLoad| -> anyhow::Result<(String, String)> {
            let known = match shipped::job_text(&load.path)? {
                Some((text, _)) => format!("sha256 {}", sha256(&text)),
                // A digest of every trace would take as long as reading it.
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

    /// Reads that of a folder.
    ///
    /// # Errors
    /// It holds no sweep.
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

    /// The first key in which another differs, with both values.
    ///
    /// # Errors
    /// None that is known.
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

/// Of lists the first entries that differ.
fn first_difference(here: &serde_json::Value, there: &serde_json::Value) -> (String, String) {
    let (Some(one), Some(other)) = (here.as_array(), there.as_array()) else { return (here.to_string(), there.to_string()) };
    let entry =
        |list: &[serde_json::Value], number: usize| list.get(number).map_or_else(|| "nothing more".to_owned(), ToString::to_string);
    let number = (0..one.len().max(other.len())).find(|&number| one.get(number) != other.get(number)).unwrap_or(0);
    (entry(one, number), entry(other, number))
}

/// The file of a part.
pub fn part_name(part: u64) -> String {
    format!("part-{part:05}.parquet")
}

/// A file of the data set that is not written yet.
pub struct PartFile {
    temporary: PathBuf,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl PartFile {
    /// Writes it.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(self) -> anyhow::Result<()> {
        replace(&self.temporary, &self.path, &self.bytes).with_context(|| format!("--output {}", self.path.display()))
    }
}

/// The folder while a shard of the sweep is run.
pub struct Output {
    plan: Arc<Plan>,
    folder: PathBuf,
    shard: Shard,
    log: Log,
    /// Of parts that are not complete.
    rows: BTreeMap<u64, Row>,
    /// Cases that are missing of each part of this shard.
    missing: BTreeMap<u64, u64>,
    done: u64,
    failed: u64,
    first_error: Option<String>,
}

impl Output {
    /// Makes the folder, or goes on with the one that is there.
    ///
    /// # Errors
    /// It holds something else, another plan's sweep, or cannot be written; or another process is at the same shard.
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
        // What others left, then our own.
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
        // It may have been killed between a part's last case and its file.
        let complete: Vec<u64> = output.missing.iter().filter(|(_, missing)| **missing == 0).map(|(part, _)| *part).collect();
        complete.into_iter().try_for_each(|part| output.complete(part)?.write())?;
        Ok(output)
    }

    /// Takes over a row, if it is this shard's and not there already.
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

    /// Tasks of this shard that are not done, in order.
    pub fn tasks(&self) -> Vec<u64> {
        let is_left = |task: &u64| self.plan.task(*task).any(|case| !self.rows.contains_key(&case));
        self.missing.keys().flat_map(|&part| self.plan.part(part)).filter(is_left).collect()
    }

    /// The row of a case that is done and not in a file yet.
    pub fn row(&self, case: u64) -> Option<&Row> {
        self.rows.get(&case)
    }

    /// Cases of this shard that are done.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Cases of this shard.
    pub fn cases(&self) -> u64 {
        let parts = (0..self.plan.parts()).filter(|&part| self.shard.has(part)).map(|part| self.plan.part(part));
        parts.map(|tasks| (tasks.end - tasks.start) * self.plan.task_cases()).sum()
    }

    /// Cases that could not be run, of those that were not in a file at the beginning, and why the first could not.
    pub fn failed(&self) -> (u64, Option<&str>) {
        (self.failed, self.first_error.as_deref())
    }

    /// Takes down the result of a case. Once this returns, the case is done, whatever becomes of the process. If all cases of a file are there,
    /// the file is returned, to be written without holding up others.
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

    /// The file of a part whose cases are all there.
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

    /// Removes what was needed to go on, if the whole sweep is done: of all shards.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn finish(self) -> anyhow::Result<bool> {
        let all: BTreeSet<u64> = (0..self.plan.parts()).collect();
        let is_done = all.iter().all(|&part| self.folder.join(part_name(part)).is_file());
        if is_done {
            let progress = self.folder.join(PROGRESS);
            match fs::remove_dir_all(&progress) {
                // Another shard that ended at the same time removed it.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                removed => removed.with_context(|| progress.display().to_string())?,
            }
        }
        Ok(is_done)
    }
}

/// Writes a file under one name and gives it the other, so that it is there whole or not at all.
pub(super) fn replace(temporary: &Path, path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut file = File::create(temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(temporary, path)?;
    Ok(())
}
