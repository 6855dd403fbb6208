//! Report of admission control: whether a host can meet guarantees to tenants.

use serde::Serialize;

use crate::number::three_digits;
use crate::placement::GotFigures;
pub use crate::record::{NeedKind, NeedParts};
use crate::text::{paragraph, printable};

/// The version of the JSON's layout.
pub const SCHEMA: u32 = 1;

/// Maximum number of kinds of guarantees of which a sentence says how many more would fit.
const MORE: usize = 3;

/// The result of admission control.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Guarantee {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The program's version.
    pub seekwise_version: String,
    /// The file with the tenants and their guarantees.
    pub contract: String,
    /// The host.
    pub host: String,
    /// The scheduler.
    pub scheduler: String,
    /// The random seed.
    pub seed: u64,
    /// Share of the host, in percent, that all guarantees need together in the worst case.
    pub needs_percent: f64,
    /// Its parts.
    pub parts: NeedParts,
    /// Demand by reference disk.
    pub needs: Vec<NeedFigures>,
    /// Number of tenants without a reference disk.
    pub without_reference: u64,
    /// The guarantee with the least slack in these scenarios; `None` without simulation or guarantees.
    pub slack: Option<SlackFigures>,
    /// The lowest speed of the host, in percent, at which the scenarios with the least slack break no guarantee either; `None` if
    /// that was not determined.
    pub kept_at_percent: Option<f64>,
    /// The results of the scenarios; if a guarantee breaks, up to the first that breaks one.
    pub scenarios: Vec<ScenarioFigures>,
    /// Remedies for refused guarantees, each confirmed by the same admission control.
    pub remedies: Vec<RemedyFigures>,
}

/// A kind of remedy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RemedyFigures {
    /// The kind: `fewer tenants`, `a limit on tenants without a guarantee`, `a smaller promise`, `another of the shipped devices`.
    pub kind: String,
    /// The remedy that would be admitted, as the end of a sentence; `None` if none of those tried would.
    pub helps: Option<String>,
    /// Remedies that were tried before and would not be admitted.
    pub tried: Vec<String>,
}

/// Demand of guarantees with one reference disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NeedFigures {
    /// The disk.
    pub reference: String,
    /// Number of tenants with this reference disk.
    pub tenants: u64,
    /// Share of the host, in percent, that each needs with the worst-case pattern: of its work or its time, whichever is more.
    pub needs_percent: f64,
    /// Its parts.
    pub parts: NeedParts,
    /// The share that each needs with the best-case pattern.
    pub easiest_percent: f64,
    /// The worst-case pattern as text.
    pub pattern: String,
    /// Number of additional guarantees of this disk that fit.
    pub more: u64,
}

/// The guarantee with the least slack.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SlackFigures {
    /// The tenant.
    pub tenant: String,
    /// The scenario.
    pub scenario: String,
    /// `throughput` or `p99 response time`.
    pub of: String,
    /// Distance to its bound in percent; negative if the guarantee is broken.
    pub slack_percent: f64,
}

/// A simulation of all tenants together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScenarioFigures {
    /// Its name.
    pub name: String,
    /// Its length in seconds.
    pub lasts_s: f64,
    /// For each tenant, its load as text.
    pub does: Vec<String>,
    /// For each tenant, its service.
    pub tenants: Vec<GotFigures>,
}

impl Guarantee {
    /// Whether the tenants are admitted: no scenario broke a guarantee; without scenarios, whether they fit by the capacity
    /// check.
    pub fn can_be_guaranteed(&self) -> bool {
        if self.scenarios.is_empty() { self.fits() } else { self.broken().next().is_none() }
    }

    /// Number of tenants, with and without a reference disk.
    pub fn tenants(&self) -> u64 {
        self.needs.iter().map(|need| need.tenants).sum::<u64>() + self.without_reference
    }

    fn fits(&self) -> bool {
        self.needs_percent <= 100.0 + 1e-6
    }

    fn broken(&self) -> impl Iterator<Item = (&ScenarioFigures, usize, &GotFigures)> {
        self.scenarios.iter().flat_map(|scenario| scenario.broken().map(move |(number, tenant)| (scenario, number, tenant)))
    }

    /// The result as JSON, with the verdict.
    ///
    /// # Errors
    /// Never, for numbers and names.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        #[derive(Serialize)]
        struct Answered<'a> {
            can_be_guaranteed: bool,
            #[serde(flatten)]
            guarantee: &'a Guarantee,
        }
        let answered = Answered { can_be_guaranteed: self.can_be_guaranteed(), guarantee: self };
        Ok(serde_json::to_string_pretty(&answered)? + "\n")
    }

    /// Three lines for a terminal of this width, or for a pipe: yes or no, the guarantee that breaks first, and the best fit. With details
    /// the demand of each guarantee and the results of the scenarios follow.
    pub fn text(&self, width: Option<usize>, has_details: bool) -> String {
        let mut text = String::new();
        let say = |text: &mut String, sentence: &str| paragraph(text, &printable(sentence), width);
        [self.answer(), self.first_to_break(), self.would_fit()].iter().for_each(|line| say(&mut text, line));
        if !has_details {
            return text;
        }
        self.remedies.iter().filter(|remedy| remedy.helps.is_none()).for_each(|remedy| say(&mut text, &remedy.text()));
        text.push('\n');
        say(
            &mut text,
            &format!("In the worst case of each, added up, the guarantees need {} ({}).", self.demand(), self.parts.text()),
        );
        say(&mut text, &format!("Demand of each guarantee on {}, with its worst-case pattern:", self.host));
        for need in &self.needs {
            let count = if need.tenants == 1 { String::new() } else { format!("{} times ", need.tenants) };
            say(
                &mut text,
                &format!(
                    "{count}{}: needs {:.1}% of the host with {} ({}; best case {:.1}%); {} more would fit",
                    need.reference,
                    need.needs_percent,
                    need.pattern,
                    need.parts.text(),
                    need.easiest_percent,
                    need.more
                ),
            );
        }
        if self.without_reference > 0 {
            say(&mut text, &format!("{} tenants have no reference disk and get the remaining capacity.", self.without_reference));
        }
        if !self.scenarios.is_empty() {
            text.push('\n');
            let until = if self.can_be_guaranteed() { "" } else { ", up to the first that breaks a guarantee" };
            say(&mut text, &format!("In the simulator, under {}, all at once{until}:", self.scheduler));
            self.scenarios.iter().for_each(|scenario| scenario.say(&mut text, width));
        }
        text
    }

    /// The part of the host that the guarantees need, and its cause, as the end of a sentence.
    fn demand(&self) -> String {
        format!("{}% of the host, by {}", three_digits(self.needs_percent), self.parts.cause())
    }

    /// Yes or no, and by what.
    fn answer(&self) -> String {
        let needs = self.demand();
        let all: u64 = self.needs.iter().map(|need| need.tenants).sum();
        match (self.can_be_guaranteed(), self.scenarios.len()) {
            _ if self.needs.is_empty() => "Yes: no guarantee depends on the host.".to_owned(),
            (true, 0) => format!("Yes, by the capacity check alone: the guarantees need at most {needs}."),
            (false, 0) => format!("No, by the capacity check alone: the guarantees need {needs}, in the worst case."),
            (true, scenarios) => format!("Yes: {} held in {scenarios} scenarios with bad neighbours.", guarantees(all, all)),
            (false, _) => format!("No: bad neighbours break {}.", guarantees(self.broken().count() as u64, all)),
        }
    }

    /// The guarantee that breaks first, or would.
    fn first_to_break(&self) -> String {
        if let Some((scenario, number, tenant)) = self.first_broken() {
            return format!("First to break: {}, {}.", tenant.volume, circumstances(scenario, number, tenant));
        }
        if let Some(slack) = &self.slack {
            // A figure beyond its bound that chance explains breaks nothing.
            let side = if slack.slack_percent < 0.0 { "worse than its bound, within chance" } else { "better than its bound" };
            return format!(
                "First to break: {}, whose {} is {:.1}% {side} ({}).",
                slack.tenant,
                slack.of,
                slack.slack_percent.abs(),
                slack.scenario
            );
        }
        match self.needs.iter().max_by(|one, other| one.needs_percent.total_cmp(&other.needs_percent)) {
            Some(need) => format!(
                "First to break: {}, with the largest need: {:.1}% of the host, with {}.",
                need.reference, need.needs_percent, need.pattern
            ),
            None => "First to break: none; shares and remaining capacity are always available.".to_owned(),
        }
    }

    /// Contracts that would fit instead, or in addition.
    fn would_fit(&self) -> String {
        if self.needs.is_empty() {
            return "Would fit: any number of tenants without a guarantee.".to_owned();
        }
        if !self.can_be_guaranteed() {
            let helps: Vec<&str> = self.remedies.iter().filter_map(|remedy| remedy.helps.as_deref()).collect();
            let kinds: Vec<&str> = self.remedies.iter().map(|remedy| remedy.kind.as_str()).collect();
            return match (helps.is_empty(), kinds.is_empty()) {
                (false, _) => format!("Would fit: {}.", helps.join("; or ")),
                (true, false) => format!("Would fit: none of the changes tried ({}).", kinds.join(", ")),
                (true, true) => "Would fit: nothing was tried.".to_owned(),
            };
        }
        let slower = match self.kept_at_percent {
            None => String::new(),
            Some(kept) if kept >= 100.0 => "all of them on a host of this speed, on none of 90%; ".to_owned(),
            Some(kept) => format!("all of them on a host of {}% of the speed; ", three_digits(kept)),
        };
        let mut more: Vec<&NeedFigures> = self.needs.iter().filter(|need| need.more > 0).collect();
        more.sort_by_key(|need| std::cmp::Reverse(need.more));
        let more: Vec<String> = more.iter().take(MORE).map(|need| format!("{} more of {}", need.more, need.reference)).collect();
        let more = if more.is_empty() { "no more".to_owned() } else { more.join(" or ") };
        format!("Would fit: {slower}by the capacity check {more}.")
    }

    /// The broken guarantee with the least slack.
    fn first_broken(&self) -> Option<(&ScenarioFigures, usize, &GotFigures)> {
        let worst = self.slack.as_ref().and_then(|slack| {
            self.broken().find(|(scenario, _, tenant)| scenario.name == slack.scenario && tenant.volume == slack.tenant)
        });
        worst.or_else(|| self.broken().next())
    }

    /// The verdict in a sentence or two.
    pub fn verdict(&self) -> String {
        let needs = self.demand();
        let (parts, scenarios) = (self.parts.text(), self.scenarios.len());
        match (self.fits(), self.first_broken()) {
            _ if self.needs.is_empty() => {
                "Admit: no guarantee depends on the host. Shares and remaining capacity are always available.".to_owned()
            }
            (true, None) if self.scenarios.is_empty() => format!(
                "Admit, by the capacity check alone: the guarantees need at most {needs} ({parts}). No scenario was simulated."
            ),
            (false, None) if self.scenarios.is_empty() => {
                format!("Refuse, by the capacity check alone: the guarantees need {needs}, in the worst case ({parts}).")
            }
            (_, None) => format!(
                "Admit: none of the guarantees was broken in {scenarios} scenarios with bad neighbours{}. In the worst case of each, added up, they need {needs} ({parts}).",
                self.reserve()
            ),
            (fits, Some((scenario, number, tenant))) => {
                let capacity = if fits { "They fit by capacity" } else { "By capacity they do not fit" };
                format!(
                    "Refuse: bad neighbours break {} of {} guarantees in the simulator. The guarantee of {} breaks first, {}. {capacity}: they need {needs} ({parts}).",
                    self.broken().count(),
                    self.promises(),
                    tenant.volume,
                    circumstances(scenario, number, tenant)
                )
            }
        }
    }

    /// The host's headroom, as the end of a sentence.
    fn reserve(&self) -> String {
        match self.kept_at_percent {
            None => String::new(),
            Some(kept) if kept >= 100.0 => ", but a host of nine tenths of the speed breaks one: nothing is to spare".to_owned(),
            Some(kept) => format!(", nor on a host of {}% of the speed", three_digits(kept)),
        }
    }

    /// Number of guarantees in the scenarios that broke any.
    fn promises(&self) -> usize {
        let broken = self.scenarios.iter().filter(|scenario| scenario.is_broken());
        broken.map(|scenario| scenario.tenants.iter().filter(|tenant| tenant.reference.is_some()).count()).sum()
    }
}

/// A number of guarantees out of all, as part of a sentence.
fn guarantees(number: u64, all: u64) -> String {
    match (number, all) {
        (1, 1) => "the guarantee".to_owned(),
        (number, all) if number == all => format!("all {all} guarantees"),
        (number, all) => format!("{number} of {all} guarantees"),
    }
}

/// The load with which a tenant's guarantee breaks, those of the others, and the broken figures, as the end of a sentence.
fn circumstances(scenario: &ScenarioFigures, number: usize, tenant: &GotFigures) -> String {
    let does = scenario.does.get(number).map_or("", String::as_str);
    format!("with {does}{}: {}", with_neighbours(scenario, number), tenant.broken.join("; "))
}

/// The other tenants of a scenario with their loads, as the end of a sentence.
fn with_neighbours(scenario: &ScenarioFigures, number: usize) -> String {
    let others = scenario.tenants.iter().zip(&scenario.does).enumerate().filter(|(other, _)| *other != number);
    let mut others: Vec<String> = others.map(|(_, (tenant, does))| format!("{} ({does})", tenant.volume)).collect();
    let more = others.len().saturating_sub(3);
    others.truncate(3);
    match (others.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!(" beside {}", others.join(" and ")),
        (false, more) => format!(" beside {} and {more} more", others.join(", ")),
    }
}

impl RemedyFigures {
    /// The remedy as a sentence.
    pub fn text(&self) -> String {
        let RemedyFigures { kind, helps, tried } = self;
        match helps {
            Some(helps) => format!("They would be admitted {helps} (simulated)."),
            None if tried.is_empty() => format!("Nothing was found to try of {kind}."),
            None => format!("Of {kind}, none of those tried would do: {}.", tried.join(", ")),
        }
    }
}

impl ScenarioFigures {
    /// Whether a guarantee is broken.
    pub fn is_broken(&self) -> bool {
        self.broken().next().is_some()
    }

    /// The tenants whose guarantees are broken, each with its number.
    fn broken(&self) -> impl Iterator<Item = (usize, &GotFigures)> {
        self.tenants.iter().enumerate().filter(|(_, tenant)| !tenant.broken.is_empty())
    }

    fn say(&self, text: &mut String, width: Option<usize>) {
        let broken: Vec<(usize, &GotFigures)> = self.broken().collect();
        let verdict = if broken.is_empty() { "kept".to_owned() } else { format!("{} broken", broken.len()) };
        paragraph(text, &printable(&format!("{} ({} s): {verdict}", self.name, three_digits(self.lasts_s))), width);
        for (number, tenant) in broken.iter().take(10) {
            let does = self.does.get(*number).map_or("", String::as_str);
            paragraph(text, &printable(&format!("  {} ({does}): {}", tenant.volume, tenant.broken.join("; "))), width);
        }
        if broken.len() > 10 {
            text.push_str(&format!("  and {} more\n", broken.len() - 10));
        }
    }
}
