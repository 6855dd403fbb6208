//! A paper's statements, and whether they are reproduced.

use serde::{Deserialize, Serialize};

use ::report::number;

/// A statement of the paper with a number or a name, next to the results of the paper's variant and of ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Statement {
    /// The figure, table or section that it belongs to: `fig-6`.
    pub part: String,
    /// The paper's section.
    pub section: String,
    /// Its subject.
    pub about: String,
    /// The paper's result in short: a number with its unit, or a name.
    pub paper: String,
    /// The quotation.
    pub quote: String,
    /// The result here of the algorithm and protocol as printed.
    pub printed: Option<String>,
    /// The result of our variant; `None` if it does not apply.
    pub ours: Option<String>,
    /// Whether the variant as printed reproduces the statement.
    pub verdict: Verdict,
    /// Why it is explained, missed or cannot be measured; empty if it is reproduced.
    pub reason: String,
    /// Our figure or table that shows the cause.
    pub shown_by: Option<String>,
    /// Whether our result is at least as good as the paper's; `None` if the statement is not a goal of the paper.
    pub beats: Option<bool>,
    /// Why our result is worse, if it is.
    pub behind: String,
}

/// Whether a statement is reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The variant as printed has the paper's result, within the spread.
    Reproduced,
    /// It has a different result, and a run shows why.
    Explained,
    /// It has a different result, and the cause is not shown.
    Missed,
    /// It cannot be measured here.
    CannotBeHad,
    /// It was not requested, so nothing was run for it.
    NotRun,
}

impl Verdict {
    /// Every verdict, in the order in which they are counted.
    pub const ALL: [Verdict; 5] = [Verdict::Reproduced, Verdict::Explained, Verdict::Missed, Verdict::CannotBeHad, Verdict::NotRun];

    /// Its name in words.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::Explained => "explained",
            Verdict::Missed => "missed",
            Verdict::CannotBeHad => "cannot be had",
            Verdict::NotRun => "not run",
        }
    }
}

impl Statement {
    /// The verdict, the subject and the three results: a line for a terminal.
    pub fn line(&self) -> String {
        let shown = |result: &Option<String>| result.clone().unwrap_or_else(|| number::MISSING.to_owned());
        let mut line = format!(
            "{:13} {}: {}: paper {}, as printed {}, ours {}",
            self.verdict.name(),
            self.part,
            self.about,
            self.paper,
            shown(&self.printed),
            shown(&self.ours)
        );
        if !self.reason.is_empty() {
            line.push_str(&format!("; {}", self.reason));
        }
        if let Some(shown_by) = &self.shown_by {
            line.push_str(&format!(" (see {shown_by})"));
        }
        line
    }
}

/// Numbers of statements by verdict, and of goals reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By verdict, as in [`Verdict::ALL`].
    pub verdicts: [usize; Verdict::ALL.len()],
    /// Number of statements about a goal.
    pub aims: usize,
    /// Number of goals for which our result is at least as good as the paper's.
    pub beaten: usize,
    /// Number of other goals for which a reason is given.
    pub behind: usize,
}

impl Counts {
    /// Counts over some statements.
    pub fn of(statements: &[Statement]) -> Counts {
        let mut counts = Counts::default();
        for statement in statements {
            let place = Verdict::ALL.iter().position(|verdict| *verdict == statement.verdict);
            place.into_iter().for_each(|place| counts.verdicts[place] += 1);
            let Some(beats) = statement.beats else { continue };
            counts.aims += 1;
            counts.beaten += usize::from(beats);
            counts.behind += usize::from(!beats && !statement.behind.is_empty());
        }
        counts
    }

    /// Number of statements with a verdict.
    pub fn with(&self, verdict: Verdict) -> usize {
        Verdict::ALL.iter().zip(self.verdicts).filter(|(other, _)| **other == verdict).map(|(_, count)| count).sum()
    }

    /// Share of statements reproduced or explained among those that can be measured and were run, in percent; `None` if there are none.
    pub fn answered_percent(&self) -> Option<f64> {
        let answered = self.with(Verdict::Reproduced) + self.with(Verdict::Explained);
        let all = answered + self.with(Verdict::Missed);
        (all > 0).then(|| 100.0 * answered as f64 / all as f64)
    }

    /// `12 reproduced, 3 explained, …`; verdicts without statements are omitted.
    pub fn text(&self) -> String {
        let named = Verdict::ALL.iter().zip(self.verdicts).filter(|(_, count)| *count > 0);
        named.map(|(verdict, count)| format!("{count} {}", verdict.name())).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_could_be_had_and_was_run_is_in_the_share() {
        let statement = |verdict, beats, behind: &str| Statement {
            part: "fig-6".to_owned(),
            section: "5".to_owned(),
            about: "accuracy".to_owned(),
            paper: "89%".to_owned(),
            quote: String::new(),
            printed: Some("93%".to_owned()),
            ours: None,
            verdict,
            reason: if verdict == Verdict::Explained { "one disk".to_owned() } else { String::new() },
            shown_by: None,
            beats,
            behind: behind.to_owned(),
        };
        let all = [
            statement(Verdict::Reproduced, Some(true), ""),
            statement(Verdict::Explained, Some(false), "too slow"),
            statement(Verdict::Missed, Some(false), ""),
            statement(Verdict::Missed, None, ""),
            statement(Verdict::CannotBeHad, None, ""),
            statement(Verdict::NotRun, None, ""),
        ];
        let counts = Counts::of(&all);
        assert_eq!((counts.answered_percent(), counts.aims, counts.beaten, counts.behind), (Some(50.0), 3, 1, 1));
        assert_eq!(counts.text(), "1 reproduced, 1 explained, 2 missed, 1 cannot be had, 1 not run");
        assert_eq!(Counts::of(&all[4..]).answered_percent(), None);
        assert_eq!(all[1].line(), "explained     fig-6: accuracy: paper 89%, as printed 93%, ours –; one disk");
    }
}
