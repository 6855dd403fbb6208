//! Candidates with their predictions, as a table for a terminal.

use crate::number::{MISSING, three_digits};
use crate::record::PredictionFigures;
use crate::text::{printable, shortened};

/// Width of the columns behind the candidate's name.
const FIGURES: usize = 43;
/// The name is cut only where it is longer.
const LONGEST_NAME: usize = 60;

/// A difference in percent as text, such as `+12.3%`, `-0.4%` or `+120%`; `–` if it is not finite.
///
/// ```
/// assert_eq!(report::gains::signed(12.34), "+12.3%");
/// assert_eq!(report::gains::signed(f64::NAN), "–");
/// ```
pub fn signed(percent: f64) -> String {
    if !percent.is_finite() {
        return MISSING.to_owned();
    }
    let decimals = usize::from(percent.abs() < 99.95);
    let text = format!("{percent:+.decimals$}%");
    if text == "-0.0%" { "+0.0%".to_owned() } else { text }
}

/// A difference in percent with its standard error, such as `+12.3% ± 3.0%`.
pub fn with_error(percent: f64, error_percent: f64) -> String {
    let error = signed(error_percent);
    format!("{} ± {}", signed(percent), error.trim_start_matches('+'))
}

/// The lines of the table, two of them headings. `note` is added to a setting's name in brackets, unless it is empty. `width` is the
/// terminal's in characters; `None`: names are not cut for it.
pub fn lines(
    predictions: &[&PredictionFigures],
    note: impl Fn(&PredictionFigures) -> &'static str,
    width: Option<usize>,
) -> Vec<String> {
    let label = |prediction: &PredictionFigures| match note(prediction) {
        "" => printable(&prediction.setting),
        note => format!("{} ({note})", printable(&prediction.setting)),
    };
    let labels: Vec<String> = predictions.iter().map(|prediction| label(prediction)).collect();
    let room = width.map_or(LONGEST_NAME, |width| width.saturating_sub(FIGURES)).clamp(16, LONGEST_NAME);
    let name = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0).clamp(9, room);
    let row = |label: &str, [throughput, response, tail, gain]: [&str; 4]| {
        format!("{:<name$}{throughput:>9}{response:>10}{tail:>8}{gain:>16}", shortened(label, name))
    };
    let mut lines = vec![row("", ["MB/s", "wait", "p99 by", "gain"]), row("candidate", ["", "mean ms", "bound", "± error"])];
    lines.extend(predictions.iter().zip(&labels).map(|(prediction, label)| {
        let PredictionFigures { throughput_mb_s, response_ms, p99_by_bound, gain_percent, error_percent, .. } = **prediction;
        let figures = [three_digits(throughput_mb_s), three_digits(response_ms), bound(p99_by_bound)];
        row(label, [&figures[0], &figures[1], &figures[2], &with_error(gain_percent, error_percent)])
    }));
    lines
}

/// Above 1 a stream starves: that is not to be rounded away.
fn bound(p99_by_bound: f64) -> String {
    match p99_by_bound {
        bound if !bound.is_finite() => "never".to_owned(),
        bound if bound > 1.0 => format!("{:.2}!", (bound * 100.0).ceil() / 100.0),
        bound => format!("{bound:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_carry_their_sign_and_as_many_digits_as_they_need() {
        let cases = [(12.34, "+12.3%"), (-0.04, "+0.0%"), (-3.25, "-3.2%"), (123.4, "+123%"), (99.96, "+100%"), (f64::NAN, "–")];
        for (percent, text) in cases {
            assert_eq!(signed(percent), text, "{percent}");
        }
        assert_eq!(with_error(12.34, 3.0), "+12.3% ± 3.0%");
    }

    #[test]
    fn a_candidate_that_starves_a_stream_is_marked() {
        assert_eq!([bound(0.999), bound(1.0), bound(1.001), bound(f64::NAN)], ["1.00", "1.00", "1.01!", "never"]);
    }
}
