//! Output of `iostat -x` as samples of counters.
//!
//! ```text
//! Device   r/s   rkB/s  rrqm/s  %rrqm r_await rareq-sz  w/s ...   f/s f_await  aqu-sz  %util
//! sda   1234.0 98765.0     0.0   0.00   78.50    80.04  2.0 ...  0.00    0.00   96.78  99.20
//! ```
//! Columns are found by name, as in sysstat 10 to 12. Of several reports the first is skipped: it is a mean since boot. The interval of
//! reports is not printed: `REPORT` is assumed, and only means are used.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use block::Nanos;
use control::Setting;
use control::target::Bounds;
use observe::Preference;
use observe::counters::{Done, Sample};
use progress::Monitor;
use report::advice::Advice;
use twin::counters::Known;

use super::counted::{CounterAdviceRequest, advise};
use crate::comparison::regime;

/// Assumed interval of a report.
const REPORT: Nanos = Nanos::from_millis(60_000);
/// Maximum size of a file, and the size of the head in which the format is recognised.
const MAX_BYTES: u64 = 16 << 20;
const HEAD_BYTES: u64 = 64 << 10;
/// Assumed size of the device, in sectors: 1 TiB.
const CAPACITY: u64 = 1 << 31;

/// The reports about the busiest device.
#[derive(Debug)]
pub struct Iostat {
    device: String,
    reports: Vec<Report>,
    /// Whether there is only one report, which is a mean since boot.
    is_since_boot: bool,
    others: usize,
}

/// Rates per second, of reads, writes, discards and flushes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Report {
    kinds: [Rates; 4],
    util: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Rates {
    requests: f64,
    merged: f64,
    sectors: f64,
    await_ms: f64,
}

/// By kind, the columns for requests, merged requests, kB, MB and sectors, and the mean response time in ms.
const COLUMNS: [[&str; 6]; 4] = [
    ["r/s", "rrqm/s", "rkB/s", "rMB/s", "rsec/s", "r_await"],
    ["w/s", "wrqm/s", "wkB/s", "wMB/s", "wsec/s", "w_await"],
    ["d/s", "drqm/s", "dkB/s", "dMB/s", "dsec/s", "d_await"],
    ["f/s", "", "", "", "", "f_await"],
];

impl Iostat {
    /// Reads a file; `None` if it is not output of iostat.
    ///
    /// # Errors
    /// It is output of iostat, but a number is malformed or a column is missing.
    pub fn read(path: &Path) -> anyhow::Result<Option<Iostat>> {
        let is_file = std::fs::metadata(path).is_ok_and(|about| about.is_file());
        let Some(file) = is_file.then(|| File::open(path).ok()).flatten() else { return Ok(None) };
        let mut head = Vec::new();
        file.take(HEAD_BYTES).read_to_end(&mut head).with_context(|| path.display().to_string())?;
        if !String::from_utf8_lossy(&head).lines().any(is_heading) {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
            .with_context(|| path.display().to_string())?;
        ensure!(bytes.len() as u64 <= MAX_BYTES, "{}: is longer than the 16 MiB of iostat's output that are read", path.display());
        parse(&String::from_utf8_lossy(&bytes)).map(Some).with_context(|| path.display().to_string())
    }

    /// Recommends a setting, or to keep the active one, from these counters.
    ///
    /// # Errors
    /// A candidate has host tunables, or the work was interrupted.
    pub fn advise(
        &self,
        active: Option<Setting>,
        (candidates, preference): (&[Setting], Preference),
        monitor: &dyn Monitor,
    ) -> anyhow::Result<Advice> {
        let is_named = active.is_some();
        let active = match active {
            Some(active) => active,
            None => regime::scheduler(regime::FOUND)?,
        };
        if let Some(setting) = candidates.iter().find(|setting| !setting.host.is_empty()) {
            bail!("--candidates {setting}: tunables of the host are not judged here; name a scheduler with its own tunables");
        }
        let (name, samples, known) = (self.device.clone(), self.samples(), self.known());
        let request = CounterAdviceRequest { name, samples: &samples, known: &known, active: &active, candidates, preference };
        let mut advice = advise(&request, monitor)?;
        advice.load = format!("{}, as iostat counted it", self.device);
        "iostat's counters alone".clone_into(&mut advice.source);
        let mut note = |text: String| advice.notes.push(text);
        if self.is_since_boot {
            note("A single report may be the mean since the machine was started, with peaks and pauses in one: `iostat -x 10 6` has six of \
                  ten seconds."
                .to_owned());
        }
        if self.others > 0 {
            note(format!("Judged is {}, which is the busiest; {} other devices are in the file.", self.device, self.others));
        }
        if !is_named {
            note(format!("The active scheduler is not in it; {active} is assumed. --scheduler names another."));
        }
        note("Not in it either: the device's kind, size, queue depth and write cache, how long each report counted (60 s are assumed, of \
              which only means are used), and single requests: neither streams, nor their order, nor the slowest. So the advice rests on \
              hypotheses that count alike. `seekwise advise DEVICE` as root sees all that."
            .to_owned());
        Ok(advice)
    }

    /// Counters with these rates.
    fn samples(&self) -> Vec<Sample> {
        let mut samples = vec![Sample::default()];
        for report in &self.reports {
            let mut next = samples.last().copied().unwrap_or_default();
            next.at += REPORT;
            next.busy += Nanos((REPORT.0 as f64 * report.util) as u64);
            for (done, rates) in
                [&mut next.read, &mut next.write, &mut next.discard, &mut next.flush].into_iter().zip(&report.kinds)
            {
                add(done, rates);
            }
            samples.push(next);
        }
        samples
    }

    fn known(&self) -> Known {
        let flushes = self.reports.iter().any(|report| report.kinds[3].requests > 0.0);
        let limits = block::Limits::default();
        let bounds = Bounds { capacity_sectors: CAPACITY, limits, nr_requests: 256, read_ahead_kib: None };
        Known { bounds, rotational: None, depth: None, write_cache: flushes.then_some(true) }
    }
}

fn add(done: &mut Done, rates: &Rates) {
    let seconds = REPORT.as_secs_f64();
    let requests = (rates.requests * seconds).round();
    done.requests += requests as u64;
    done.merged += (rates.merged * seconds).round() as u64;
    done.sectors += (rates.sectors * seconds).round() as u64;
    done.waited += Nanos((requests * rates.await_ms * 1e6) as u64);
}

fn is_heading(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    matches!(words.first(), Some(&("Device" | "Device:"))) && words.contains(&"r/s") && words.contains(&"w/s")
}

fn parse(text: &str) -> anyhow::Result<Iostat> {
    // The devices of each report.
    let mut reports: Vec<Vec<(String, Report)>> = Vec::new();
    let mut heading: Option<Vec<&str>> = None;
    for (number, line) in text.lines().enumerate() {
        if is_heading(line) {
            heading = Some(line.split_whitespace().collect());
            reports.push(Vec::new());
            continue;
        }
        if line.trim().is_empty() {
            heading = None;
        }
        let (Some(heading), Some(report)) = (&heading, reports.last_mut()) else { continue };
        report.push(row(heading, line).with_context(|| format!("line {}", number + 1))?);
    }
    let is_since_boot = reports.len() == 1;
    if !is_since_boot {
        reports.remove(0);
    }
    let busiest = || {
        let all = reports.iter().flatten();
        let requests = |(name, _): &&(String, Report)| {
            let of = reports.iter().flatten().filter(|(other, _)| other == name);
            of.map(|(_, report)| report.kinds.iter().map(|rates| rates.requests).sum::<f64>()).sum::<f64>()
        };
        all.max_by(|a, b| requests(a).total_cmp(&requests(b))).map(|(name, _)| name.clone())
    };
    let device = busiest().context("has a heading of iostat -x and no line of a device below it")?;
    let names: std::collections::BTreeSet<&str> = reports.iter().flatten().map(|(name, _)| name.as_str()).collect();
    let others = names.len() - 1;
    let reports = reports.iter().flatten().filter(|(name, _)| *name == device).map(|(_, report)| *report).collect();
    Ok(Iostat { device, reports, is_since_boot, others })
}

/// Parses the line of a device.
fn row(heading: &[&str], line: &str) -> anyhow::Result<(String, Report)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    ensure!(fields.len() == heading.len(), "has {} fields, the heading {}: paste it whole", fields.len(), heading.len());
    let number = |name: &str| -> anyhow::Result<Option<f64>> {
        let Some(at) = heading.iter().position(|column| *column == name) else { return Ok(None) };
        // Some locales have a decimal comma.
        let value =
            fields[at].replace(',', ".").parse::<f64>().ok().filter(|value| value.is_finite() && (0.0..1e12).contains(value));
        value.map(Some).with_context(|| format!("{name} is {:?}, not a number from 0 to 10^12", fields[at]))
    };
    let mut report = Report::default();
    // Versions before 12 have no columns for flushes, and some have one response time for reads and writes.
    let of_all = number("await")?;
    for (rates, [requests, merged, kib, mib, sectors, response]) in report.kinds.iter_mut().zip(COLUMNS) {
        rates.requests = number(requests)?.unwrap_or_default();
        rates.merged = number(merged)?.unwrap_or_default();
        let sizes = [(number(kib)?, 2.0), (number(mib)?, 2048.0), (number(sectors)?, 1.0)];
        rates.sectors = sizes.into_iter().find_map(|(size, sectors)| Some(size? * sectors)).unwrap_or_default();
        rates.await_ms = number(response)?.or(of_all).unwrap_or_default();
        let is_transfer = !kib.is_empty();
        ensure!(!is_transfer || rates.requests == 0.0 || rates.sectors > 0.0, "has {requests} without {kib}: use iostat -x");
    }
    report.util = number("%util")?.context("has no %util: use iostat -x")? / 100.0;
    ensure!(number("r_await")?.or(of_all).is_some(), "has no r_await: use iostat -x");
    Ok((fields[0].trim_end_matches(':').to_owned(), Report { util: report.util.min(1.0), ..report }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = "Linux 6.8.0 (h)  10/01/2026  _x86_64_ (8 CPU)\n\n\
        Device r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await wareq-sz f/s f_await aqu-sz %util\n\
        sda 100.00 800.00 25.0 20.0 12.50 8.00 10.0 40.0 0.0 0.00 2.00 4.00 1.00 5.00 1.27 60.00\n\
        sdb 1.00 4.00 0.0 0.0 1.00 4.00 0.0 0.0 0.0 0.00 0.00 0.00 0.00 0.00 0.00 0.10\n";

    #[test]
    fn a_pasted_report_becomes_counters_with_its_rates() {
        let iostat = parse(NEW).unwrap();
        assert_eq!((&*iostat.device, iostat.reports.len(), iostat.is_since_boot, iostat.others), ("sda", 1, true, 1));
        let [before, after] = iostat.samples()[..] else { panic!("two samples") };
        let rates = after.since(&before);
        let read = rates.read;
        assert_eq!((read.requests_per_s, read.mean_bytes, read.merged_share), (100.0, Some(8192.0), 0.2));
        assert_eq!((read.mean_response, rates.write.requests_per_s), (Some(Nanos(12_500_000)), 10.0));
        assert_eq!((rates.busy_share, rates.flush.requests_per_s), (0.6, 1.0));
        assert_eq!(iostat.known().write_cache, Some(true), "flushes imply a cache");
    }

    #[test]
    fn of_several_reports_the_first_is_left_out_and_older_columns_are_read() {
        let old = |rate: &str| {
            format!(
                "Device:  rrqm/s wrqm/s r/s w/s rMB/s wMB/s avgrq-sz avgqu-sz await r_await w_await svctm %util\n\
                 vda 0,00 0,00 {rate} 0,00 1,00 0,00 8,00 1,00 3,00 3,00 0,00 1,00 99,00\n\n"
            )
        };
        let iostat = parse(&[old("1,00"), old("256,00"), old("128,00")].concat()).unwrap();
        let rates = iostat.reports.iter().map(|report| report.kinds[0]).collect::<Vec<_>>();
        assert_eq!(
            rates.iter().map(|rates| (rates.requests, rates.sectors, rates.await_ms)).collect::<Vec<_>>(),
            [(256.0, 2048.0, 3.0), (128.0, 2048.0, 3.0)]
        );
    }

    #[test]
    fn a_line_that_is_cut_or_wrong_is_named() {
        let error = |text: String| format!("{:#}", parse(&text).unwrap_err());
        assert_eq!(error(NEW.replace(" 1.27 60.00", "")), "line 4: has 15 fields, the heading 17: paste it whole");
        assert_eq!(error(NEW.replace("12.50", "fast")), "line 4: r_await is \"fast\", not a number from 0 to 10^12");
        assert_eq!(error(NEW.replace("12.50", "-1")), "line 4: r_await is \"-1\", not a number from 0 to 10^12");
        assert_eq!(error(NEW.replace("%util", "%busy")), "line 4: has no %util: use iostat -x");
        let only = NEW.lines().nth(2).unwrap().to_owned();
        assert_eq!(error(only), "has a heading of iostat -x and no line of a device below it");
    }
}
