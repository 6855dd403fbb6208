//! Jobs: validates the options of a section and creates its `numjobs` jobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{Nanos, Priority, StreamId};

use super::error::WorkloadError;
use super::lines::{Complaint, Lines};
use super::options::{Amount, BlockSizes, DIRECTIONS, Engine, Options, SyncMode};
use super::sections::{MAX_JOBS, Section};

/// One process.
#[derive(Clone, Debug)]
pub struct Job {
    name: String,
    section: Arc<str>,
    line: u32,
    clone: u32,
    stream: StreamId,
    phase: u32,
    group: u32,
    report_row: u32,
    waits_for: Option<u32>,
    section_number: u32,
    options: Arc<Options>,
}

impl Job {
    /// The option `name`, or the section's name; with its number, as in `job.1`, if `numjobs` is more than one.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of its section, on which the names of its files are based.
    pub fn section(&self) -> &str {
        &self.section
    }

    /// The line of its section's header, starting at 1.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// Its number among the `numjobs` clones, from 0.
    pub fn clone_number(&self) -> u32 {
        self.clone
    }

    /// The stream its I/O belongs to: its index in [`Workload::jobs`](super::Workload::jobs).
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// The phase that it runs in, from 0: `stonewall` begins a new one, which starts when all earlier jobs have ended.
    pub fn phase(&self) -> u32 {
        self.phase
    }

    /// Its group, from 0: `stonewall` and `new_group` begin a new one. By default `exitall` ends the jobs of a group together.
    pub fn group(&self) -> u32 {
        self.group
    }

    /// Its row in a report, from 0: the jobs of a group with `group_reporting` share one, every other job has its own (fio:
    /// `__show_run_stats` in stat.c).
    pub fn report_row(&self) -> u32 {
        self.report_row
    }

    /// The options of its section and of the global sections before it.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The I/O priority: best effort, level 4, unless `prio` or `prioclass` is given.
    pub fn priority(&self) -> Priority {
        self.options.priority.of_job()
    }

    /// The maximum number of its I/Os in flight, over `files` files.
    pub(super) fn depth(&self, files: usize) -> u32 {
        self.options.queue.depth(files)
    }

    /// The section whose jobs must have ended before it starts, in addition to earlier phases; `None` if there is none.
    pub(super) fn waits_for(&self) -> Option<u32> {
        self.waits_for
    }

    /// The number of its section among the job sections, from 0.
    pub(super) fn section_number(&self) -> u32 {
        self.section_number
    }

    /// An error about the job.
    pub(super) fn fault(&self, source: &str, message: String) -> WorkloadError {
        WorkloadError { source_name: source.to_owned(), line: Some(self.line), message: format!("job {}: {message}", self.name) }
    }
}

/// Creates the jobs of all sections.
pub(super) fn jobs(sections: &[Section], lines: &Lines) -> Result<Vec<Job>, WorkloadError> {
    let fault = |(place, message): Complaint| lines.fault(Some(place), message);
    let (mut jobs, mut phase, mut group) = (Vec::new(), 0, 0);
    for (number, section) in sections.iter().enumerate() {
        let options = &section.options;
        check(section).map_err(fault)?;
        if number > 0 {
            phase += u32::from(options.together.stonewall);
            group += u32::from(options.together.stonewall || options.together.new_group);
        }
        let waits_for = waits_for(sections, number).map_err(fault)?;
        if options.together.clones as usize > MAX_JOBS - jobs.len() {
            let message = format!("numjobs: with these {} there are more than {MAX_JOBS} jobs in all", options.together.clones);
            return Err(fault((section.place_of(&["numjobs"]), message)));
        }
        let (shown, shared) = (options.name.as_deref().unwrap_or(&section.name), Arc::new(options.clone()));
        let section_name: Arc<str> = section.name.as_str().into();
        for clone in 0..options.together.clones {
            let name = if options.together.clones == 1 { shown.to_owned() } else { format!("{shown}.{clone}") };
            jobs.push(Job {
                name,
                section: section_name.clone(),
                line: section.line,
                clone,
                stream: jobs.len() as StreamId,
                phase,
                group,
                report_row: 0,
                waits_for,
                section_number: number as u32,
                options: shared.clone(),
            });
        }
    }
    number_report_rows(&mut jobs);
    check_flows(&jobs, sections).map_err(fault)?;
    check_steady(&jobs, sections).map_err(fault)?;
    Ok(jobs)
}

/// Numbers the report rows: a job begins a new row unless it is reported together with the previous one.
fn number_report_rows(jobs: &mut [Job]) {
    for index in 1..jobs.len() {
        let (before, job) = (&jobs[index - 1], &jobs[index]);
        let together = job.options.together.group_reporting && before.group == job.group;
        jobs[index].report_row = before.report_row + u32::from(!together);
    }
}

/// Rejects jobs of one flow that do not run at the same time: they would wait for each other forever, as in fio.
fn check_flows(jobs: &[Job], sections: &[Section]) -> Result<(), Complaint> {
    let mut first: BTreeMap<u32, &Job> = BTreeMap::new();
    for job in jobs.iter().filter(|job| job.options.flow.weight > 0) {
        let other = *first.entry(job.options.flow.id).or_insert(job);
        if other.phase != job.phase || other.waits_for != job.waits_for {
            let message = format!(
                "flow: {} and {} share flow_id={} but do not run at the same time, so that one waits for the other for ever; give \
                 them different flow_ids",
                other.name, job.name, job.options.flow.id
            );
            return Err((sections[job.section_number as usize].place_of(&["flow", "flow_id"]), message));
        }
    }
    Ok(())
}

/// Rejects different criteria within a group, as fio does: a group has one criterion.
fn check_steady(jobs: &[Job], sections: &[Section]) -> Result<(), Complaint> {
    let rule = |job: &Job| (job.options.steady.rule, job.options.steady.seconds, job.options.steady.ramp);
    let differ = |pair: &&[Job]| pair[0].group == pair[1].group && rule(&pair[0]) != rule(&pair[1]);
    let Some([before, job]) = jobs.windows(2).find(differ) else { return Ok(()) };
    let place = sections[job.section_number as usize].place_of(&["steadystate", "steadystate_duration"]);
    let message = format!("steadystate: {} and {} are of one group and must have the same; give new_group", before.name, job.name);
    Err((place, message))
}

/// The number of the section named by `wait_for`; `None` if the option is not given.
fn waits_for(sections: &[Section], number: usize) -> Result<Option<u32>, Complaint> {
    let section = &sections[number];
    let Some(name) = section.options.together.wait_for.as_deref() else { return Ok(None) };
    let mut named = (0..number).filter(|&earlier| sections[earlier].name == name);
    match (named.next(), named.next()) {
        (Some(earlier), None) => Ok(Some(earlier as u32)),
        (first, _) => {
            let found = if first.is_none() { "no job" } else { "several jobs" };
            let message = format!("wait_for: {found} above has the name `{name}`; it must name one job further up in the file");
            Err((section.place_of(&["wait_for"]), message))
        }
    }
}

/// Checks for conflicts between options of one section. An error names the line and a valid alternative.
fn check(section: &Section) -> Result<(), Complaint> {
    let options = &section.options;
    let fault = |keys: &[&str], message: &str| Err((section.place_of(keys), message.to_owned()));
    if options.length.time_based && options.length.runtime.is_none() {
        return fault(&["time_based", "runtime"], "time_based requires runtime");
    }
    if options.rate.bytes.iter().any(|&rate| rate > 0) && options.rate.ios.iter().any(|&rate| rate > 0) {
        return fault(&["rate", "rate_iops"], "rate and rate_iops exclude each other; leave one out");
    }
    if options.sync.mode == SyncMode::EachWrite && options.queue.direct {
        return fault(&["sync", "direct"], "sync=1 with direct=1 is not supported; the nearest is fsync=1 with direct=1");
    }
    if options.order.strided && options.order.zone_size == 0 {
        return fault(&["zonemode"], "zonemode: strided zones need their zonesize");
    }
    if options.order.strided && !options.order.is_uniform() {
        let message = "random_distribution with zonemode=strided is not supported; the nearest is random_distribution=zoned:…";
        return fault(&["random_distribution", "zonemode"], message);
    }
    if options.blocks.unaligned && options.queue.direct {
        return fault(&["bs_unaligned", "direct"], "bs_unaligned and direct=1 exclude each other: direct I/O is in whole sectors");
    }
    if matches!(options.files.size, Some(Amount::Bytes(0))) {
        return fault(&["size"], "size: 0 is out of range; it must be at least one block");
    }
    if options.think.every == Some(Nanos::ZERO) {
        return fault(&["thinktime_iotime"], "thinktime_iotime: 0 is out of range; it must be at least 1us");
    }
    let priorities = &options.priority.commands.rules;
    if priorities.iter().any(|rules| !rules.is_empty()) && !matches!(options.queue.engine, Engine::Libaio | Engine::IoUring) {
        let message =
            "cmdprio: only ioengine=libaio and io_uring give single I/Os a priority; the nearest supported option is prio";
        return fault(&["cmdprio_percentage", "cmdprio_bssplit", "ioengine"], message);
    }
    if options.steady.rule.is_some_and(|steady| steady.slope) && options.steady.seconds == 1 {
        return fault(&["steadystate_duration"], "steadystate_duration: a slope needs at least 2 seconds");
    }
    check_alignment(section)
}

/// Checks that sizes and offsets are whole sectors, as O_DIRECT requires.
fn check_alignment(section: &Section) -> Result<(), Complaint> {
    let options = &section.options;
    if !options.queue.direct || options.queue.engine == Engine::Null {
        return Ok(());
    }
    let whole = |value: u64, keys: &[&str]| {
        if value.is_multiple_of(512) {
            return Ok(());
        }
        Err((section.place_of(keys), format!("{}: {value} is not a multiple of 512, which direct=1 needs", keys[0])))
    };
    for direction in (0..DIRECTIONS).filter(|&direction| options.order.issues(direction)) {
        match &options.blocks.sizes[direction] {
            BlockSizes::Range(low, high) if low == high => whole(u64::from(*low), &["bs"])?,
            // Issued sizes are multiples of the smallest one.
            BlockSizes::Range(low, high) => {
                whole(u64::from(*low), &["bsrange"]).and_then(|()| whole(u64::from(*high), &["bsrange"]))?
            }
            BlockSizes::Split(sizes) => sizes.iter().try_for_each(|&(bytes, _)| whole(u64::from(bytes), &["bssplit"]))?,
        }
        whole(options.blocks.align[direction].unwrap_or(0), &["ba"])?;
    }
    for (amount, key) in [(options.files.offset, "offset"), (options.files.offset_increment, "offset_increment")] {
        if let Amount::Bytes(bytes) = amount {
            whole(bytes, &[key])?;
        }
    }
    whole(options.files.offset_align, &["offset_align"])?;
    whole(options.order.pattern.skip.unsigned_abs(), &["rw"])?;
    for (value, key) in
        [(options.order.zone_size, "zonesize"), (options.order.zone_range, "zonerange"), (options.order.zone_skip, "zoneskip")]
    {
        if options.order.strided {
            whole(value, &[key])?;
        }
    }
    Ok(())
}
