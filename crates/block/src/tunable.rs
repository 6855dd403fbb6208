//! A parameter that somebody may set, declared once: parser, help, manual page and the search space of a tuner come from here.

/// What a tunable's number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Thousandths of a second.
    Milliseconds,
    /// Hundredths of a second.
    Centiseconds,
    /// 1,024 bytes.
    Kibibytes,
    /// 1,048,576 bytes.
    Mebibytes,
    /// 512-byte sectors.
    Sectors,
    /// Hundredths of something.
    Percent,
    /// How often in a second.
    PerSecond,
    /// Things: requests, batches, a factor.
    Count,
    /// 0 is off, 1 is on.
    Flag,
}

impl Unit {
    /// The unit as it is printed behind a number; empty for counts and flags.
    pub const fn symbol(self) -> &'static str {
        match self {
            Unit::Milliseconds => "ms",
            Unit::Centiseconds => "cs",
            Unit::Kibibytes => "KiB",
            Unit::Mebibytes => "MiB",
            Unit::Sectors => "sectors",
            Unit::Percent => "%",
            Unit::PerSecond => "per second",
            Unit::Count | Unit::Flag => "",
        }
    }
}

/// How a search should step through a tunable's range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences matter equally.
    Linear,
    /// Equal ratios matter equally.
    Logarithmic,
}

/// One parameter: its name as Linux spells it where Linux has it, its unit, its range and what it does.
#[derive(Clone, Copy, Debug)]
pub struct Tunable {
    /// Linux's name where it has one.
    pub name: &'static str,
    /// What the number counts.
    pub unit: Unit,
    /// The smallest value allowed.
    pub min: i64,
    /// The largest value allowed.
    pub max: i64,
    /// The value of the source.
    pub default: i64,
    /// How a search should step.
    pub scale: Scale,
    /// One or two sentences for the person who sets it.
    pub doc: &'static str,
}
