//! How true the simulator is: the same jobs by the real fio on the real kernel, and in the simulator.

use serde::Serialize;

use crate::number::three_digits;
use crate::text::{paragraph, printable};

/// The version of the JSON's layout.
pub const SCHEMA: u32 = 1;

/// Two schedulers differ if the real figures of one are this much larger.
const DIFFERS: f64 = 1.2;

/// The same jobs, really run and simulated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Truth {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The program's version.
    pub seekwise_version: String,
    /// The kernel's release.
    pub kernel: String,
    /// fio's version.
    pub fio: String,
    /// The block device that fio ran on.
    pub device: String,
    /// The profile that was simulated.
    pub disk: String,
    /// Requests the disk takes at once, and the order in which it serves them.
    pub queue: String,
    /// Seconds that are measured of each run.
    pub seconds: f64,
    /// Real runs of each.
    pub runs: u32,
    /// What came of it.
    pub rows: Vec<Row>,
    /// Sentences on what agrees, by [`Truth::agreement`].
    pub agreement: Vec<Agreement>,
}

/// One workload under one scheduler, in one direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The workload.
    pub workload: String,
    /// The scheduler, with its tunables.
    pub scheduler: String,
    /// `read` or `write`.
    pub direction: String,
    /// The real kernel's, by figure.
    pub real: [Spread; 3],
    /// The simulator's, by figure.
    pub simulated: [f64; 3],
}

/// The figures of a row, in their order.
pub const FIGURES: [&str; 3] = ["throughput_mb_s", "mean_ms", "p99_ms"];

/// What several runs gave.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Of the runs.
    pub median: f64,
    /// The least.
    pub low: f64,
    /// The most.
    pub high: f64,
}

impl Spread {
    /// Of at least one value; of none all is 0.
    pub fn of(mut values: Vec<f64>) -> Spread {
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = match values.len() {
            0 => 0.0,
            even if even % 2 == 0 => 0.5 * (values[middle - 1] + values[middle]),
            _ => values[middle],
        };
        Spread { median, low: values.first().copied().unwrap_or(0.0), high: values.last().copied().unwrap_or(0.0) }
    }
}

/// How far one figure agrees.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// One of [`FIGURES`].
    pub figure: String,
    /// The simulator's over the real one, less 1, without its sign: the median of all rows, in percent.
    pub off_median_percent: f64,
    /// The same, of the row that is off the most.
    pub off_worst_percent: f64,
    /// Pairs of schedulers under the same workload that differ by more than 20% on the real kernel.
    pub pairs: u32,
    /// Those of them that the simulator ranks alike.
    pub alike: u32,
    /// Kendall's tau over all pairs of schedulers under the same workload.
    pub tau: Option<f64>,
}

impl Truth {
    /// How far each figure agrees.
    pub fn agreement(rows: &[Row]) -> Vec<Agreement> {
        (0..FIGURES.len()).map(|figure| Agreement::of(rows, figure)).collect()
    }

    /// As JSON.
    ///
    /// # Errors
    /// Never for a record of this crate.
    pub fn to_json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// As a table for a terminal of so many characters, or a pipe.
    pub fn text(&self, width: Option<usize>) -> String {
        let mut out = String::new();
        let head = format!(
            "{} on Linux {} over {} beside {} in the simulator ({}); {} s of each, median of {} real runs.",
            self.fio,
            self.kernel,
            self.device,
            printable(&self.disk),
            self.queue,
            three_digits(self.seconds),
            self.runs
        );
        paragraph(&mut out, &head, width);
        let names = self.rows.iter().map(|row| row.scheduler.chars().count()).max().unwrap_or(0).max("scheduler".len());
        let columns = ["MB/s", "", "", "mean ms", "", "", "p99 ms", "", ""];
        let mut workload = "";
        for row in &self.rows {
            if row.workload != workload {
                workload = &row.workload;
                out.push_str(&format!("\n{workload}\n{:names$}        ", "scheduler"));
                for pair in columns.chunks(3) {
                    out.push_str(&format!("{:>10} {:>10} {:>6}", pair[0], "simulated", "ratio"));
                }
                out.push('\n');
            }
            out.push_str(&format!("{:names$}  {:5} ", printable(&row.scheduler), row.direction));
            for (real, simulated) in row.real.iter().zip(row.simulated) {
                let ratio = if real.median > 0.0 { format!("{:.2}", simulated / real.median) } else { "–".to_owned() };
                out.push_str(&format!("{:>10} {:>10} {ratio:>6}", three_digits(real.median), three_digits(simulated)));
            }
            out.push('\n');
        }
        out.push('\n');
        for agreement in &self.agreement {
            paragraph(&mut out, &agreement.sentence(), width);
        }
        out
    }
}

impl Agreement {
    fn of(rows: &[Row], figure: usize) -> Agreement {
        let is_there = |row: &&Row| row.real[figure].median > 0.0 && row.simulated[figure] > 0.0;
        let rows: Vec<&Row> = rows.iter().filter(is_there).collect();
        let off = rows.iter().map(|row| 100.0 * (row.simulated[figure] / row.real[figure].median - 1.0).abs()).collect();
        let Spread { median, high, .. } = Spread::of(off);
        let (mut pairs, mut alike, mut concordant, mut compared) = (0, 0, 0_i64, 0_i64);
        for (i, one) in rows.iter().enumerate() {
            for other in rows[i + 1..].iter().filter(|other| (&other.workload, &other.direction) == (&one.workload, &one.direction))
            {
                let real = other.real[figure].median / one.real[figure].median;
                let is_alike = (real > 1.0) == (other.simulated[figure] > one.simulated[figure]);
                compared += 1;
                concordant += if is_alike { 1 } else { -1 };
                if real.max(1.0 / real) > DIFFERS {
                    pairs += 1;
                    alike += u32::from(is_alike);
                }
            }
        }
        let tau = (compared > 0).then(|| concordant as f64 / compared as f64);
        let figure = FIGURES[figure].to_owned();
        Agreement { figure, off_median_percent: median, off_worst_percent: high, pairs, alike, tau }
    }

    fn sentence(&self) -> String {
        let tau = self.tau.map_or_else(|| "–".to_owned(), |tau| format!("{tau:.2}"));
        format!(
            "{}: off by {:.1}% in the median, {:.1}% at worst; of {} pairs of schedulers that differ by more than 20%, {} are ranked \
             alike; Kendall's tau over all pairs {tau}.",
            self.figure, self.off_median_percent, self.off_worst_percent, self.pairs, self.alike
        )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    fn row(workload: &str, scheduler: &str, real: f64, simulated: f64) -> Row {
        let real = [Spread::of(vec![real]); 3];
        let (workload, scheduler, direction) = (workload.to_owned(), scheduler.to_owned(), "read".to_owned());
        Row { workload, scheduler, direction, real, simulated: [simulated; 3] }
    }

    #[test]
    fn pairs_that_differ_are_ranked_within_their_workload() {
        let rows = [
            row("a", "none", 100.0, 110.0),
            row("a", "bfq", 200.0, 105.0),
            row("a", "kyber", 110.0, 130.0),
            row("b", "none", 1.0, 1.0),
            row("b", "bfq", 3.0, 2.0),
        ];
        let agreement = &Truth::agreement(&rows)[0];
        // In a: none and bfq differ and are ranked otherwise, bfq and kyber too; none and kyber are within 20% and alike. b is alike.
        assert_eq!((agreement.pairs, agreement.alike), (3, 1));
        assert_eq!(agreement.tau, Some(0.0));
        assert!((agreement.off_median_percent - 18.18).abs() < 0.01 && (agreement.off_worst_percent - 47.5).abs() < 1e-9);
    }

    #[test]
    fn the_middle_of_an_even_number_is_between_the_two() {
        assert_eq!(Spread::of(vec![4.0, 1.0, 2.0, 3.0]), Spread { median: 2.5, low: 1.0, high: 4.0 });
        assert_eq!(Spread::of(Vec::new()), Spread { median: 0.0, low: 0.0, high: 0.0 });
    }

    #[test]
    fn what_did_not_happen_is_not_compared() {
        let agreement = &Truth::agreement(&[row("a", "none", 0.0, 1.0), row("a", "bfq", 1.0, 1.0)])[0];
        assert_eq!((agreement.pairs, agreement.tau), (0, None));
    }
}
