//! The effects of a recommendation on single streams: the largest gains and losses, and alternatives for a stream.

use schemars::JsonSchema;
use serde::Serialize;

use crate::number::three_digits;
use crate::text::printable;

/// Maximum number of streams in a sentence.
const NAMED: usize = 3;
/// Minimum ratio of two times that is mentioned.
const WORTH: f64 = 1.1;
/// Minimum ratio by which another setting must serve a stream better to be mentioned.
const MENTIONED: f64 = 2.0;

/// An aim of the user.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Aimed {
    /// As it was given, such as `etcd:fsync:p99=10ms`.
    pub aim: String,
    /// The unit of the values.
    pub unit: String,
    /// The value under the active setting.
    pub active: f64,
    /// The value under the recommended one.
    pub recommended: f64,
    /// Whether the recommendation meets it.
    pub is_met: bool,
}

/// The service of one stream's requests of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Effect {
    /// The stream's, process's or job's name.
    pub stream: String,
    /// `read`, `write` or `fsync`.
    pub kind: String,
    /// Whether the figures under other settings are predicted, and not simulated in full.
    pub is_predicted: bool,
    /// Under the active setting.
    pub active: EffectFigures,
    /// Under the recommended one: the same where no change is recommended.
    pub recommended: EffectFigures,
    /// The setting under which this is served soonest of all that were simulated, if that is neither of the two.
    pub best: Option<(String, EffectFigures)>,
}

/// How requests of one kind are served.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct EffectFigures {
    /// 10^6 bytes per second.
    pub throughput_mb_s: f64,
    /// Mean response time.
    pub mean_ms: f64,
    /// 99 of 100 are at most this.
    pub p99_ms: f64,
}

impl EffectFigures {
    /// The logarithm of the factor by which these times are shorter than others: of the mean, or, if that hardly differs, of the
    /// p99.
    fn shorter_than(&self, other: &EffectFigures) -> f64 {
        let ratio = |this: f64, other: f64| if this > 0.0 && other > 0.0 { (other / this).ln() } else { 0.0 };
        let mean = ratio(self.mean_ms, other.mean_ms);
        if mean.abs() >= WORTH.ln() { mean } else { ratio(self.p99_ms, other.p99_ms) }
    }

    fn instead_of(&self, other: &EffectFigures) -> String {
        format!(
            "{} ms in the mean instead of {} (p99 {} instead of {})",
            three_digits(self.mean_ms),
            three_digits(other.mean_ms),
            three_digits(self.p99_ms),
            three_digits(other.p99_ms)
        )
    }
}

impl Effect {
    fn name(&self) -> String {
        format!("{} {}", printable(&self.stream), self.kind)
    }
}

/// Sentences about the aims and their results, then about the streams and kinds with the largest gains and losses.
pub(crate) fn sentences(aims: &[Aimed], effects: &[Effect], is_change: bool) -> Vec<String> {
    let aims = aims.iter().map(|aim| aimed(aim, is_change));
    let changes = if is_change { gains_and_losses(effects) } else { Vec::new() };
    aims.chain(changes).chain(better_elsewhere(effects)).collect()
}

fn aimed(aim: &Aimed, is_change: bool) -> String {
    let Aimed { aim, unit, active, recommended, is_met } = aim;
    let met = if *is_met { "met" } else { "not met" };
    let before = if is_change { format!(" instead of {}", three_digits(*active)) } else { String::new() };
    format!("Aim {}: {met}, {} {unit}{before}.", printable(aim), three_digits(*recommended))
}

fn gains_and_losses(effects: &[Effect]) -> Vec<String> {
    let mut changes: Vec<(f64, &Effect)> =
        effects.iter().map(|effect| (effect.recommended.shorter_than(&effect.active), effect)).collect();
    changes.sort_by(|a, b| b.0.total_cmp(&a.0));
    let text = |(_, effect): &(f64, &Effect)| {
        let predicted = if effect.is_predicted { "predicted " } else { "" };
        format!("{}, {predicted}{}", effect.name(), effect.recommended.instead_of(&effect.active))
    };
    let gain: Vec<String> = changes.iter().filter(|(change, _)| *change >= WORTH.ln()).take(NAMED).map(text).collect();
    let lose: Vec<String> = changes.iter().rev().filter(|(change, _)| *change <= -WORTH.ln()).take(NAMED).map(text).collect();
    let sentence = |(verb, named): (&str, Vec<String>)| (!named.is_empty()).then(|| format!("{verb} most: {}.", named.join("; ")));
    [("Gains", gain), ("Loses", lose)].into_iter().filter_map(sentence).collect()
}

/// Streams that another setting would serve much better than the recommendation.
fn better_elsewhere(effects: &[Effect]) -> Vec<String> {
    let mut better: Vec<(f64, &Effect, &str, &EffectFigures)> = effects
        .iter()
        .filter_map(|effect| {
            let (setting, best) = effect.best.as_ref()?;
            Some((best.shorter_than(&effect.recommended), effect, setting.as_str(), best))
        })
        .filter(|(shorter, ..)| *shorter >= MENTIONED.ln())
        .collect();
    better.sort_by(|a, b| b.0.total_cmp(&a.0));
    let one = |(_, effect, setting, best): (f64, &Effect, &str, &EffectFigures)| {
        format!("Under {}, {} would take {}", printable(setting), effect.name(), best.instead_of(&effect.recommended))
    };
    let Some((_, effect, _, best)) = better.first().copied() else { return Vec::new() };
    let aim = format!("--protect {}:{}:p99={}ms", printable(&effect.stream), effect.kind, rounded_up(best.p99_ms));
    let mut sentences: Vec<String> = better.into_iter().take(NAMED).map(|one_of| one(one_of) + ".").collect();
    sentences.push(format!("To decide by a stream, name its need, such as {aim}."));
    sentences
}

/// Rounds up to two significant digits; "1" for a value that is not positive and finite.
fn rounded_up(value: f64) -> String {
    if !value.is_finite() || value <= 0.0 {
        return "1".to_owned();
    }
    let exponent = value.log10().floor() as i32 - 1;
    let step = 10f64.powi(exponent);
    let decimals = usize::try_from(-exponent).unwrap_or(0);
    format!("{:.decimals$}", (value / step).ceil() * step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suggested_bound_has_two_digits_and_holds() {
        let rounded = [17.9, 0.1234, 940.1, 1.0, 0.0].map(rounded_up);
        assert_eq!(rounded, ["18", "0.13", "950", "1.0", "1"]);
    }
}
