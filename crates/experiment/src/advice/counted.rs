//! Advice from counters alone, without requests: errors cover every load and device that fit the counters.

use control::Setting;
use observe::Preference;
use observe::counters::Sample;
use report::advice::{Advice, Verdict};
use statistics::percent;
use twin::counters::{Counted, Ensemble, Judgement, Judges, Known};

use super::linux;
use super::text::{leave_alone, nothing_known, text_with_error};
use crate::comparison::prediction as on_record;
use progress::monitor::Monitor;

/// Input of [`advise`].
pub struct CounterAdviceRequest<'a> {
    /// Name of the device.
    pub name: String,
    /// Samples of its counters.
    pub samples: &'a [Sample],
    /// The device's attributes in sysfs.
    pub known: &'a Known,
    /// The active setting.
    pub active: &'a Setting,
    /// The settings to choose from.
    pub candidates: &'a [Setting],
    /// Weights for the score.
    pub preference: Preference,
}

/// Recommends a setting, or to keep the active one. Uses all cores.
///
/// # Errors
/// The work was interrupted.
pub fn advise(request: &CounterAdviceRequest, monitor: &dyn Monitor) -> anyhow::Result<Advice> {
    let CounterAdviceRequest { name, samples, known, active, candidates, preference } = request;
    let lasts_s = match (samples.first(), samples.last()) {
        (Some(first), Some(last)) => (last.at - first.at).as_secs_f64(),
        _ => 0.0,
    };
    let load = format!("{name}, counted for {lasts_s:.0} s");
    let mut advice = nothing_known(load, "counters alone".to_owned(), lasts_s, (active, &preference.to_string()));
    let counted = match Counted::of(samples) {
        Ok(counted) => counted,
        Err(error) => {
            advice.verdict = leave_alone(active, format!("{error}, and no scheduler has a choice."));
            return Ok(advice);
        }
    };
    (advice.requests, advice.busy_s) = (counted.requests, counted.busy_s);
    advice.sure.push(said(&counted));
    let mut ensemble = Ensemble::new(&counted, known, active, 1);
    monitor.begin(0, "drawing loads with these counters, rounds:");
    let mut rounds = 0;
    while !ensemble.is_done() {
        monitor.check()?;
        ensemble.round();
        rounds += 1;
        monitor.progress(rounds);
    }
    monitor.end();
    let judges = Judges { counted: &counted, known, active, candidates, preference: *preference };
    monitor.begin(0, "trying every candidate on loads with these counters");
    let judgement = judges.judge(&ensemble);
    monitor.end();
    monitor.check()?;
    match judgement {
        Ok(judgement) => judge(&mut advice, &judgement, active),
        Err(unlike) => advice.verdict = leave_alone(active, format!("{unlike}.")),
    }
    Ok(advice)
}

fn judge(advice: &mut Advice, judgement: &Judgement, active: &Setting) {
    advice.candidates = judgement.predictions.iter().map(on_record).collect();
    let facts = judgement.facts.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join("; ");
    let what =
        format!("{} hypotheses of load and device count like it, eight of ten of them within: {facts}.", judgement.hypotheses);
    advice.sure.push(what);
    let mut others = judgement.predictions.iter().filter(|one| one.setting != *active && !one.starves());
    if let Some(best) = judgement.sure(active) {
        let predicted = text_with_error(best);
        advice.verdict = Verdict {
            setting: best.setting.to_string(),
            is_change: true,
            text: format!("Use {} instead of {active}: all that counts like this promises {predicted}.", best.setting),
            cost: Vec::new(),
        };
        advice.udev = linux::rule(&best.setting, active, Some(&best.setting).filter(|setting| linux::has(setting)));
        return;
    }
    advice.verdict = match others.next() {
        None => leave_alone(active, "by counters every other candidate may let a stream starve.".to_owned()),
        Some(best) => {
            let predicted = text_with_error(best);
            leave_alone(
                active,
                format!("loads with these counters disagree on a better setting. The best other is {}: {predicted}.", best.setting),
            )
        }
    };
}

/// The counters as a sentence.
fn said(counted: &Counted) -> String {
    let Counted { read, write, .. } = counted;
    let side = |name: &str, side: &twin::counters::Side| {
        format!(
            "{:.0} {name}/s of {:.1} KiB, {:.0}% merged, answered after {:.3} ms",
            side.requests_per_s,
            side.mean_bytes / 1024.0,
            100.0 * side.merged_share,
            1e3 * side.response_s
        )
    };
    let sides = [("reads", read), ("writes", write)].into_iter().filter(|(_, side)| side.requests_per_s > 0.0);
    let sides: Vec<String> = sides.map(|(name, one)| side(name, one)).collect();
    format!(
        "Counted while it was busy: {}; {:.1} flushes/s; {:.1} under way in the mean; something under way {:.0}% of the time; requests \
         per second varied by {:.0}%.",
        sides.join("; "),
        counted.flushes_per_s,
        counted.in_flight(),
        100.0 * counted.busy_share,
        percent((1.0 + counted.varies).ln())
    )
}
