//! The parameters of a fitted device, in words and numbers.

use std::fmt::Write as _;

use super::residual::Residual;

/// A parameter of the device.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Name of the parameter.
    pub name: &'static str,
    /// The value for display.
    pub value: String,
    /// The value as a number; `None` for a choice.
    pub number: Option<f64>,
    /// Unit of `number` and `uncertainty`; empty if there is none.
    pub unit: &'static str,
    /// Half the width of the 95% interval; `None` for a choice, or for the prior.
    pub uncertainty: Option<f64>,
    /// Number of accesses that it is based on; 0 for the prior.
    pub accesses: usize,
    /// The source if `accesses` is 0.
    pub source: &'static str,
}

const USUAL: &str = "not told by these requests: what is usual";

impl Finding {
    /// A number based on `accesses` accesses; 0 for the prior.
    pub fn number(name: &'static str, value: f64, unit: &'static str, uncertainty: f64, accesses: usize) -> Finding {
        let uncertainty = (accesses > 0).then_some(uncertainty);
        Finding { name, value: digits(value), number: Some(value), unit, uncertainty, accesses, source: USUAL }
    }

    /// A choice based on `accesses` accesses; 0 for the prior.
    pub fn choice(name: &'static str, value: &str, accesses: usize) -> Finding {
        Finding { name, value: value.to_owned(), number: None, unit: "", uncertainty: None, accesses, source: USUAL }
    }

    /// This finding with a source other than accesses.
    pub fn from(self, source: &'static str) -> Finding {
        Finding { source, ..self }
    }

    /// Value, uncertainty and unit for display.
    pub fn text(&self) -> String {
        let mut text = self.value.clone();
        if let Some(uncertainty) = self.uncertainty {
            text += &format!(" ± {}", digits(uncertainty));
        }
        if !self.unit.is_empty() {
            text += &format!(" {}", self.unit);
        }
        text
    }

    /// Whether it is based on any evidence rather than on the prior alone.
    pub fn is_told(&self) -> bool {
        self.accesses > 0 || self.source != USUAL
    }

    /// The evidence, for display.
    pub fn rests_on(&self) -> String {
        match self.accesses {
            0 => self.source.to_owned(),
            1 => "1 access".to_owned(),
            accesses => format!("{accesses} accesses"),
        }
    }
}

/// The number with four significant digits, but at most three decimals.
fn digits(value: f64) -> String {
    let decimals = (3.0 - value.abs().max(1e-9).log10().floor()).clamp(0.0, 3.0) as usize;
    format!("{value:.decimals$}")
}

/// The head of a fitted profile, as TOML comments.
pub fn head(findings: &[Finding], residual: Option<&Residual>) -> String {
    let mut head = String::from("# Fitted to the times at which requests were dispatched and completed.\n#\n");
    for finding in findings {
        let _ = writeln!(head, "# {:38} {:26} {}", finding.name, finding.text(), finding.rests_on());
    }
    if let Some(Residual { accesses, mean_ms, mean_error_ms, demerit_ms, by_op_ms: [reads, writes] }) = residual {
        let _ = write!(
            head,
            "#\n# On {accesses} accesses that it was not fitted to: mean {mean_ms:.3} ms, off by {mean_error_ms:+.3} ms; demerit \
             {demerit_ms:.3} ms, of reads {reads:.3}, of writes {writes:.3}.\n"
        );
    }
    head.push('\n');
    head
}
