//! The agent on the real kernel compared with constant settings: fio on a block device, the same jobs for the same time under each.

use serde::Serialize;

use super::validation::Spread;
use ::report::gains::signed;
use ::report::number::{MISSING, three_digits};
use ::report::text::{paragraph, printable};
use statistics::gain::of_percent;

/// The version of the JSON's layout.
pub const SCHEMA: u32 = 2;

/// Largest acceptable loss of a pair, in percent.
const HARM_PERCENT: f64 = -2.0;

/// Results of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Got {
    /// Throughput in MB/s, reads and writes together.
    pub throughput_mb_s: f64,
    /// Mean response time in ms, of reads and writes together.
    pub mean_ms: f64,
    /// p99 response time of reads in ms; `None` if nothing was read.
    pub read_p99_ms: Option<f64>,
    /// p99 response time of fsync and fdatasync in ms; `None` if neither was called.
    pub fsync_p99_ms: Option<f64>,
    /// Merit of throughput and response time, as a logarithm: a difference of 0.01 is one percent.
    pub merit: f64,
}

/// Results of a load under a constant setting or the agent: one [`Got`] per round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Served {
    /// The setting, or [`AGENT`].
    pub setting: String,
    /// In the order of the rounds.
    pub rounds: Vec<Got>,
}

/// Stands for the agent in the list of settings.
pub const AGENT: &str = "agent";

/// A load on a device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// The device.
    pub disk: String,
    /// The load; for a mix, its parts in order.
    pub load: String,
    /// Whether the load is a mix, which changes.
    pub is_mix: bool,
    /// Results by setting; the first is Linux's default, the last the agent.
    pub served: Vec<Served>,
    /// Actions of the agent in each round, in order.
    pub changes: Vec<Vec<AgentChange>>,
}

/// An action of the agent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AgentChange {
    /// Whole seconds since it began to observe the device.
    pub at_s: u64,
    /// The kind of action, as in its history: `set` for an applied setting, including trials.
    pub kind: String,
    /// The setting concerned.
    pub to: String,
    /// Its reason.
    pub why: String,
    /// The gain measured afterwards, in percent; `None` if it was not measured.
    pub measured_percent: Option<f64>,
}

impl AgentChange {
    /// As a sentence.
    fn text(&self) -> String {
        let AgentChange { at_s, kind, to, why, measured_percent } = self;
        let measured = measured_percent.map_or_else(String::new, |percent| format!("; measured {}", signed(percent)));
        format!("{at_s} s: {kind} {to}: {why}{measured}")
    }
}

/// A mean over rounds, with half the width of its 95% confidence interval, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gain {
    /// The mean.
    pub percent: f64,
    /// Half the width of the interval; `None` for a single round.
    pub interval_percent: Option<f64>,
}

impl Gain {
    /// From differences of logarithms.
    fn of(differences: Vec<f64>) -> Gain {
        let mean = statistics::mean(differences.iter().copied()).unwrap_or(0.0);
        let interval_percent = Spread::of(differences).interval.map(|interval| 100.0 * interval);
        Gain { percent: statistics::percent(mean), interval_percent }
    }

    fn is_harm(&self) -> bool {
        self.percent < HARM_PERCENT
    }

    fn is_significant_regression(&self) -> bool {
        self.interval_percent.is_some_and(|interval| self.percent + interval < HARM_PERCENT)
    }

    fn text(&self) -> String {
        let interval = self.interval_percent.map_or_else(String::new, |interval| format!(" ±{}", three_digits(interval)));
        signed(self.percent) + &interval
    }
}

/// A figure whose gains are reported.
#[derive(Clone, Copy)]
enum Figure {
    Merit,
    Throughput,
    ReadP99,
    FsyncP99,
}

impl Figure {
    /// The figure as a logarithm; `None` if it was not measured.
    fn of(self, got: &Got) -> Option<f64> {
        match self {
            Figure::Merit => Some(got.merit),
            Figure::Throughput => Some(got.throughput_mb_s.ln()),
            Figure::ReadP99 => got.read_p99_ms.map(f64::ln),
            Figure::FsyncP99 => got.fsync_p99_ms.map(f64::ln),
        }
        .filter(|value| value.is_finite())
    }
}

impl Pair {
    fn gain(&self, served: &Served, figure: Figure) -> Option<Gain> {
        let differences: Vec<f64> = self.differences(served, figure).into_iter().flatten().collect();
        (!differences.is_empty()).then(|| Gain::of(differences))
    }

    /// Difference of a setting from the first one in each round, in logarithms.
    fn differences(&self, served: &Served, figure: Figure) -> Vec<Option<f64>> {
        let standard = self.served.first().map_or(&[][..], |standard| &standard.rounds);
        let rounds = served.rounds.iter().zip(standard);
        rounds.map(|(got, standard)| Some(figure.of(got)? - figure.of(standard)?)).collect()
    }

    fn agent(&self) -> Option<&Served> {
        self.served.iter().find(|served| served.setting == AGENT)
    }

    /// Results under constant settings.
    fn constant(&self) -> impl Iterator<Item = &Served> {
        self.served.iter().filter(|served| served.setting != AGENT)
    }

    /// The best constant setting and its gain in merit. Among similar settings the luckiest appears best: with more settings and fewer rounds, its
    /// gain is overestimated more.
    fn best(&self) -> Option<(&Served, Gain)> {
        let gains = self.constant().filter_map(|served| Some((served, self.gain(served, Figure::Merit)?)));
        gains.max_by(|a, b| a.1.percent.total_cmp(&b.1.percent))
    }

    /// Gain in merit, as a logarithm, of the setting that is the best in the other rounds, which excludes selection bias. `None` for a single
    /// round.
    fn best_of_other_rounds(&self) -> Option<f64> {
        let gains: Vec<Vec<f64>> =
            self.constant().filter_map(|served| self.differences(served, Figure::Merit).into_iter().collect()).collect();
        let rounds = gains.first().map(Vec::len).filter(|rounds| *rounds > 1)?;
        let in_round = |round: usize| {
            let others = |gains: &[f64]| gains.iter().sum::<f64>() - gains[round];
            gains.iter().max_by(|a, b| others(a).total_cmp(&others(b))).map_or(0.0, |best| best[round])
        };
        Some((0..rounds).map(in_round).sum::<f64>() / rounds as f64)
    }
}

/// Field trials.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Field {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The program's version.
    pub seekwise_version: String,
    /// The kernel's release.
    pub kernel: String,
    /// fio's version.
    pub fio: String,
    /// Measured seconds per load, or per part of a mix.
    pub seconds: f64,
    /// Number of rounds.
    pub rounds: u32,
    /// Results by load and device.
    pub pairs: Vec<Pair>,
}

impl Field {
    /// As JSON.
    ///
    /// # Errors
    /// None for these types.
    pub fn to_json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// As tables for a terminal of this width, or a pipe.
    pub fn text(&self, width: Option<usize>) -> String {
        let mut out = String::new();
        let head = format!(
            "{} on Linux {}: {} s of each load under every setting, {} round{}; losses while the agent learns are included. Gains are relative to \
             {}, ± their 95% confidence interval.",
            self.fio,
            self.kernel,
            three_digits(self.seconds),
            self.rounds,
            if self.rounds == 1 { "" } else { "s" },
            self.pairs.first().and_then(|pair| pair.served.first()).map_or("the first", |served| &served.setting)
        );
        paragraph(&mut out, &head, width);
        for pair in &self.pairs {
            out.push_str(&format!("\n{} on {}\n", printable(&pair.load), printable(&pair.disk)));
            pair.table(&mut out);
        }
        out.push('\n');
        self.verdict().iter().for_each(|sentence| paragraph(&mut out, sentence, width));
        out
    }

    /// The conclusions as sentences.
    pub fn verdict(&self) -> Vec<String> {
        let (mixes, single): (Vec<&Pair>, Vec<&Pair>) = self.pairs.iter().partition(|pair| pair.is_mix);
        let mut sentences = Vec::new();
        if !single.is_empty() {
            sentences.push(harm(&single));
            sentences.extend(share_of_best(&single));
        }
        sentences.extend(mixes.iter().filter_map(|pair| pair.verdict()));
        sentences
    }
}

fn harm(pairs: &[&Pair]) -> String {
    let count = |figure: Figure, is: fn(&Gain) -> bool| {
        let gains = pairs.iter().filter_map(|pair| pair.gain(pair.agent()?, figure));
        gains.filter(is).count()
    };
    let worst = |figure: Figure| {
        let gains = pairs.iter().filter_map(|pair| Some((pair, pair.gain(pair.agent()?, figure)?)));
        let worst = gains.min_by(|a, b| a.1.percent.total_cmp(&b.1.percent));
        worst.map_or_else(
            || MISSING.to_owned(),
            |(pair, gain)| format!("{} ({} on {})", gain.text(), printable(&pair.load), printable(&pair.disk)),
        )
    };
    format!(
        "Of {} pairs of load and device the agent is on average more than 2% below the default for {} in merit and for {} in throughput, \
         significantly (95%) for {} and {}; at worst {} in merit, {} in throughput.",
        pairs.len(),
        count(Figure::Merit, Gain::is_harm),
        count(Figure::Throughput, Gain::is_harm),
        count(Figure::Merit, Gain::is_significant_regression),
        count(Figure::Throughput, Gain::is_significant_regression),
        worst(Figure::Merit),
        worst(Figure::Throughput)
    )
}

/// The agent's gain as a share of the best setting's.
fn share_of_best(pairs: &[&Pair]) -> Option<String> {
    let mean = |of: &dyn Fn(&Pair) -> Option<f64>| pairs.iter().filter_map(|pair| of(pair)).sum::<f64>() / pairs.len() as f64;
    let agent = mean(&|pair| Some(of_percent(pair.gain(pair.agent()?, Figure::Merit)?.percent)));
    let best = mean(&|pair| Some(of_percent(pair.best()?.1.percent)));
    let gain = |mean: f64| signed(statistics::percent(mean));
    let share = |of: f64| format!("{} (agent: {:.0}% of it)", gain(of), 100.0 * agent / of);
    (best > 0.0).then(|| {
        let foreseen = mean(&Pair::best_of_other_rounds);
        let by_others =
            if foreseen > 0.0 { format!(", best setting of the other rounds {}", share(foreseen)) } else { String::new() };
        format!(
            "Mean gain in merit over pairs: agent {}, best setting of each pair in hindsight {}{by_others}.",
            gain(agent),
            share(best)
        )
    })
}

impl Pair {
    fn table(&self, out: &mut String) {
        let names = self.served.iter().map(|served| served.setting.chars().count()).max().unwrap_or(0).max("setting".len());
        out.push_str(&format!(
            "{:names$}  {:>9} {:>9} {:>11} {:>12}  {:>15} {:>15} {:>15} {:>15}\n",
            "setting", "MB/s", "mean ms", "read p99 ms", "fsync p99 ms", "merit", "throughput", "read p99", "fsync p99"
        ));
        for served in &self.served {
            let median = |of: fn(&Got) -> Option<f64>| {
                let values: Vec<f64> = served.rounds.iter().filter_map(of).collect();
                if values.is_empty() { MISSING.to_owned() } else { three_digits(Spread::of(values).median) }
            };
            let gain = |figure: Figure| self.gain(served, figure).map_or_else(|| MISSING.to_owned(), |gain| gain.text());
            out.push_str(&format!(
                "{:names$}  {:>9} {:>9} {:>11} {:>12}  {:>15} {:>15} {:>15} {:>15}\n",
                printable(&served.setting),
                median(|got| Some(got.throughput_mb_s)),
                median(|got| Some(got.mean_ms)),
                median(|got| got.read_p99_ms),
                median(|got| got.fsync_p99_ms),
                gain(Figure::Merit),
                gain(Figure::Throughput),
                gain(Figure::ReadP99),
                gain(Figure::FsyncP99)
            ));
        }
        for (round, changes) in self.changes.iter().enumerate() {
            for change in changes {
                out.push_str(&format!("  round {}: {}\n", round + 1, printable(&change.text())));
            }
        }
    }

    /// The conclusion about a mix.
    fn verdict(&self) -> Option<String> {
        let agent = self.agent()?;
        let text = |figure: Figure| self.gain(agent, figure).map_or_else(|| MISSING.to_owned(), |gain| gain.text());
        let (best, gain) = self.best()?;
        Some(format!(
            "For the mix on {}, the agent gains {} in merit, {} in throughput and {} in p99 response time of reads over the default; the best \
             fixed setting, {}, gains {} in merit.",
            printable(&self.disk),
            text(Figure::Merit),
            text(Figure::Throughput),
            text(Figure::ReadP99),
            printable(&best.setting),
            gain.text()
        ))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    fn served(setting: &str, throughputs: &[f64]) -> Served {
        let got = |throughput: &f64| Got {
            throughput_mb_s: *throughput,
            mean_ms: 100.0 / throughput,
            read_p99_ms: None,
            fsync_p99_ms: None,
            merit: throughput.ln(),
        };
        Served { setting: setting.to_owned(), rounds: throughputs.iter().map(got).collect() }
    }

    fn field(pairs: &[[&[f64]; 3]]) -> Field {
        let pair = |[default, other, agent]: &[&[f64]; 3]| Pair {
            disk: "disk".to_owned(),
            load: "load".to_owned(),
            is_mix: false,
            served: vec![served("mq-deadline", default), served("bfq", other), served(AGENT, agent)],
            changes: Vec::new(),
        };
        Field {
            schema: SCHEMA,
            seekwise_version: String::new(),
            kernel: "6".to_owned(),
            fio: "fio".to_owned(),
            seconds: 3.0,
            rounds: 2,
            pairs: pairs.iter().map(pair).collect(),
        }
    }

    #[test]
    fn harm_is_counted_and_distinguished_from_chance() {
        let steady: [&[f64]; 3] = [&[100.0, 100.0], &[100.0, 100.0], &[90.0, 90.1]];
        let noisy: [&[f64]; 3] = [&[100.0, 100.0], &[100.0, 100.0], &[70.0, 110.0]];
        let verdict = &field(&[steady, noisy, [&[1.0], &[1.0], &[1.0]]]).verdict()[0];
        assert!(verdict.contains("Of 3 pairs") && verdict.contains("for 2 in merit"), "{verdict}");
        assert!(verdict.contains("significantly (95%) for 1 and 1"), "{verdict}");
    }

    #[test]
    fn the_share_of_the_possible_gain_is_of_logarithms() {
        let half: [&[f64]; 3] = [&[100.0], &[400.0], &[200.0]];
        let verdict = field(&[half]).verdict();
        assert!(verdict[1].contains("agent +100%") && verdict[1].ends_with("+300% (agent: 50% of it)."), "{verdict:?}");
    }

    #[test]
    fn the_best_setting_of_a_round_is_judged_by_the_other_rounds() {
        let lucky: [&[f64]; 3] = [&[100.0, 100.0, 100.0], &[130.0, 80.0, 95.0], &[100.0, 100.0, 100.0]];
        let good: [&[f64]; 3] = [&[100.0, 100.0, 100.0], &[200.0, 200.0, 200.0], &[200.0, 200.0, 200.0]];
        let by_others = |pair: [&[f64]; 3]| field(&[pair]).pairs[0].best_of_other_rounds().unwrap();
        // In the second round it is chosen by the first and third, and loses.
        assert!(by_others(lucky) < -0.05, "{}", by_others(lucky));
        assert!((by_others(good) - 2f64.ln()).abs() < 1e-9);
        let verdict = field(&[good]).verdict();
        assert!(
            verdict[1].ends_with("+100% (agent: 100% of it), best setting of the other rounds +100% (agent: 100% of it)."),
            "{verdict:?}"
        );
    }

    #[test]
    fn gains_are_of_the_same_round() {
        let drifts: [&[f64]; 3] = [&[100.0, 50.0], &[100.0, 50.0], &[110.0, 55.0]];
        let field = field(&[drifts]);
        let gain = field.pairs[0].gain(field.pairs[0].agent().unwrap(), Figure::Throughput).unwrap();
        assert!((gain.percent - 10.0).abs() < 1e-9 && gain.interval_percent.unwrap() < 1e-9, "{gain:?}");
    }
}
