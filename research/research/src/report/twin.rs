//! Accuracy of a twin's ranking of settings: predictions of its trials compared with real runs.

use serde::Serialize;

use ::report::text::{paragraph, printable};

/// The version of the JSON's layout.
pub const SCHEMA: u32 = 1;

/// The results for a number of loads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The program's version.
    pub seekwise_version: String,
    /// The command that reproduces it.
    pub command: String,
    /// Parameters: name and value.
    pub setup: Vec<(String, String)>,
    /// Results by load, or by phase of a load.
    pub loads: Vec<Ranking>,
    /// Loads for which no twin could be made: name and reason.
    pub without_twin: Vec<(String, String)>,
}

/// Ranking of the settings for a load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranking {
    /// The load, on its device.
    pub load: String,
    /// Requests observed by the twin.
    pub requests: u64,
    /// The twin's model of each stream.
    pub streams: Vec<Stream>,
    /// Pairs of settings, compared by the performance of requests.
    pub by_requests: Pairs,
    /// Pairs of settings, compared by merit: the performance of processes, with settings that starve a stream behind the others.
    pub by_merit: Pairs,
    /// Distance of the setting that the twin ranks first below the best, by merit.
    pub regret_percent: f64,
    /// Results by setting.
    pub settings: Vec<PredictionFigures>,
}

/// The twin's model of a stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stream {
    /// Its number.
    pub stream: u32,
    /// `closed`, `open` or `paced`.
    pub pace: &'static str,
    /// Number of requests.
    pub requests: u64,
    /// Number of concurrent requests.
    pub in_flight: u32,
    /// Think time after a completion; `None` if unknown.
    pub thought_ms: Option<f64>,
}

/// Agreement on the order of pairs of settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Pairs {
    /// Pairs that differ by more than 5% in real runs.
    pub differ: u64,
    /// Those among them that the twin ranks in the same order.
    pub alike: u64,
}

impl Pairs {
    fn percent(&self) -> f64 {
        100.0 * self.alike as f64 / self.differ as f64
    }
}

/// Prediction and result for one setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PredictionFigures {
    /// The setting.
    pub setting: String,
    /// Performance of requests in a real run.
    pub requests_measured: Outcome,
    /// Performance of requests in the twin.
    pub requests_promised: Outcome,
    /// Performance of processes in a real run; the same as of requests if no calls were recorded.
    pub measured: Outcome,
    /// Performance of processes in the twin.
    pub promised: Outcome,
    /// The largest ratio of a stream's p99 response time to its bound, in a real run; above 1 the stream starves.
    pub p99_by_bound_measured: f64,
    /// The same ratio in the twin.
    pub p99_by_bound_promised: f64,
}

/// Results of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Throughput in 10^6 bytes per second.
    pub mb_s: f64,
    /// Mean response time in milliseconds.
    pub response_ms: f64,
    /// Jain's index, 0 to 1.
    pub fairness: f64,
}

impl Report {
    /// The report as JSON.
    ///
    /// # Errors
    /// None for these types.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Totals over all loads.
    pub fn pairs(&self, of: fn(&Ranking) -> Pairs) -> Pairs {
        self.loads
            .iter()
            .map(of)
            .fold(Pairs::default(), |sum, pairs| Pairs { differ: sum.differ + pairs.differ, alike: sum.alike + pairs.alike })
    }

    /// The report as text for a terminal of this width, or a pipe.
    pub fn text(&self, width: Option<usize>) -> String {
        let mut text = String::new();
        for (name, value) in &self.setup {
            paragraph(&mut text, &printable(&format!("{name}: {value}")), width);
        }
        text += "\nsame order of pairs   regret\nby requests  by merit       %  load\n";
        text += &"─".repeat(width.unwrap_or(80).min(80));
        text.push('\n');
        let cell = |pairs: Pairs| if pairs.differ == 0 { "–".to_owned() } else { format!("{} of {}", pairs.alike, pairs.differ) };
        for one in &self.loads {
            let (requests, merit) = (cell(one.by_requests), cell(one.by_merit));
            text += &format!("{requests:>11}{merit:>10}{:>8.1}  {}\n", one.regret_percent, printable(&one.load));
        }
        for (load, reason) in &self.without_twin {
            paragraph(&mut text, &printable(&format!("No forecast for {load}: {reason}")), width);
        }
        text.push('\n');
        let (requests, merit) = (self.pairs(|one| one.by_requests), self.pairs(|one| one.by_merit));
        let regret = statistics::mean(self.loads.iter().map(|one| one.regret_percent)).unwrap_or(0.0);
        let share = |pairs: Pairs| match pairs.differ {
            0 => "no pairs differ".to_owned(),
            _ => format!("{} of {} pairs ({:.1}%)", pairs.alike, pairs.differ, pairs.percent()),
        };
        let summary = format!(
            "Pairs in the same order: by requests {}, by merit {}. Mean regret: {regret:.2}%.",
            share(requests),
            share(merit)
        );
        paragraph(&mut text, &summary, width);
        text + &format!("\nCommand: {}\n", printable(&self.command))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranking(differ: u64, alike: u64, regret_percent: f64) -> Ranking {
        let (pairs, load) = (Pairs { differ, alike }, "a load".to_owned());
        let (by_requests, by_merit) = (pairs, pairs);
        Ranking { load, requests: 9, streams: Vec::new(), by_requests, by_merit, regret_percent, settings: Vec::new() }
    }

    fn report(loads: Vec<Ranking>) -> Report {
        Report {
            schema: SCHEMA,
            seekwise_version: String::new(),
            command: "this".to_owned(),
            setup: Vec::new(),
            loads,
            without_twin: Vec::new(),
        }
    }

    #[test]
    fn the_pairs_of_all_loads_are_added_up() {
        let text = report(vec![ranking(10, 9, 1.0), ranking(0, 0, 0.0), ranking(10, 10, 2.0)]).text(Some(60));
        assert!(text.contains("19 of 20 pairs (95.0%)") && text.contains("regret: 1.00%"), "{text}");
        assert!(text.contains("          –         –     0.0  a load"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    }

    #[test]
    fn nothing_that_differs_is_said_to_be_so() {
        let text = report(vec![ranking(0, 0, 0.0)]).text(None);
        assert!(text.contains("no pairs differ") && !text.contains("NaN"), "{text}");
    }
}
