//! A parameter, declared once: parser, help, manual page, search space of a tuner and the field in the code are derived from the
//! declaration.
//!
//! ```
//! block::tunables! {
//!     /// The tunables of a scheduler.
//!     struct Values {
//!         /// How long the device may be kept idle.
//!         longest_wait: block::Nanos = block::Tunable::new(block::Unit::Milliseconds, 0..=100, 8),
//!         /// Whether a request may join the front of a waiting one.
//!         front_merges: bool = block::Tunable::flag(true),
//!     }
//! }
//! assert_eq!(Values::TUNABLES[0].name, "longest_wait");
//! assert_eq!(Values::of(&[3, 0]).longest_wait, block::Nanos::from_millis(3));
//! ```

use core::ops::RangeInclusive;

use crate::Nanos;

/// Unit of a tunable's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// 10⁻⁹ seconds.
    Nanoseconds,
    /// 10⁻⁶ seconds.
    Microseconds,
    /// 10⁻³ seconds.
    Milliseconds,
    /// 10⁻² seconds.
    Centiseconds,
    /// 1,024 bytes.
    Kibibytes,
    /// 1,048,576 bytes.
    Mebibytes,
    /// 512-byte sectors.
    Sectors,
    /// Percent.
    Percent,
    /// Hundredths of a percent; users write percent with up to two decimals, as in the kernel (`cgroup_parse_float`).
    PercentHundredths,
    /// Per second.
    PerSecond,
    /// A count: requests, batches, a factor.
    Count,
    /// 0 is off, 1 is on.
    Flag,
    /// Index of a word in this list; users write the word.
    OneOf(&'static [&'static str]),
}

impl Unit {
    /// The unit as printed after a number; empty for counts, flags and words.
    pub const fn symbol(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "ns",
            Unit::Microseconds => "µs",
            Unit::Milliseconds => "ms",
            Unit::Centiseconds => "cs",
            Unit::Kibibytes => "KiB",
            Unit::Mebibytes => "MiB",
            Unit::Sectors => "sectors",
            Unit::Percent | Unit::PercentHundredths => "%",
            Unit::PerSecond => "per second",
            Unit::Count | Unit::Flag | Unit::OneOf(_) => "",
        }
    }
}

/// How a search divides a tunable's range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences are equal steps.
    Linear,
    /// Equal ratios are equal steps.
    Logarithmic,
}

/// A parameter: name, unit, range, default and documentation.
#[derive(Clone, Copy, Debug)]
pub struct Tunable {
    /// The name; Linux's own if there is one.
    pub name: &'static str,
    /// The unit of its value.
    pub unit: Unit,
    /// The smallest valid value.
    pub min: i64,
    /// The largest valid value.
    pub max: i64,
    /// The default, as in the paper or kernel file.
    pub default: i64,
    /// How a search divides its range.
    pub scale: Scale,
    /// One or two sentences for users.
    pub doc: &'static str,
}

impl Tunable {
    /// A number in a range with linear scale. [`tunables!`](crate::tunables) adds name and documentation.
    pub const fn new(unit: Unit, range: RangeInclusive<i64>, default: i64) -> Tunable {
        Tunable { name: "", unit, min: *range.start(), max: *range.end(), default, scale: Scale::Linear, doc: "" }
    }

    /// A flag.
    pub const fn flag(default: bool) -> Tunable {
        Tunable::new(Unit::Flag, 0..=1, default as i64)
    }

    /// One of several words.
    ///
    /// # Panics
    /// The default is not one of them; a compile-time error in a constant.
    pub const fn one_of(words: &'static [&'static str], default: &str) -> Tunable {
        let mut place = 0;
        while !equal(words[place], default) {
            place += 1;
        }
        Tunable::new(Unit::OneOf(words), 0..=words.len() as i64 - 1, place as i64)
    }

    /// Sets a logarithmic scale.
    pub const fn logarithmic(self) -> Tunable {
        Tunable { scale: Scale::Logarithmic, ..self }
    }

    /// Sets the name and, unless empty, the documentation.
    pub const fn named(self, name: &'static str, doc: &'static str) -> Tunable {
        let doc = if doc.is_empty() { self.doc } else { doc.trim_ascii() };
        Tunable { name, doc, ..self }
    }
}

/// Splits the tunables before the one with this name, which becomes the first of the second part.
///
/// # Panics
/// There is none with this name; a compile-time error in a constant.
pub const fn split_before(tunables: &'static [Tunable], name: &str) -> (&'static [Tunable], &'static [Tunable]) {
    let mut index = 0;
    while !equal(tunables[index].name, name) {
        index += 1;
    }
    tunables.split_at(index)
}

/// `==` for constants.
const fn equal(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut index = 0;
    while index < a.len() && index < b.len() && a[index] == b[index] {
        index += 1;
    }
    index == a.len() && index == b.len()
}

/// The type of a field that holds a tunable's value in a struct made by [`tunables!`](crate::tunables).
pub trait TunableValue {
    /// The value for a number in the tunable's range.
    fn from_number(number: i64, unit: Unit) -> Self;

    /// The number for the value.
    fn number(&self, unit: Unit) -> i64;
}

impl TunableValue for i64 {
    fn from_number(number: i64, _unit: Unit) -> i64 {
        number
    }

    fn number(&self, _unit: Unit) -> i64 {
        *self
    }
}

impl TunableValue for u64 {
    fn from_number(number: i64, _unit: Unit) -> u64 {
        u64::try_from(number).unwrap_or(0)
    }

    fn number(&self, _unit: Unit) -> i64 {
        i64::try_from(*self).unwrap_or(i64::MAX)
    }
}

impl TunableValue for u32 {
    fn from_number(number: i64, _unit: Unit) -> u32 {
        u32::try_from(number.max(0)).unwrap_or(u32::MAX)
    }

    fn number(&self, _unit: Unit) -> i64 {
        i64::from(*self)
    }
}

impl TunableValue for bool {
    fn from_number(number: i64, _unit: Unit) -> bool {
        number != 0
    }

    fn number(&self, _unit: Unit) -> i64 {
        i64::from(*self)
    }
}

/// Percentages as fractions: 50% is 0.5.
impl TunableValue for f64 {
    fn from_number(number: i64, unit: Unit) -> f64 {
        number as f64 / percent_scale(unit)
    }

    fn number(&self, unit: Unit) -> i64 {
        let number = self * percent_scale(unit);
        // There is no rounding function without std, and no tunable is negative.
        (number + 0.5) as i64
    }
}

/// The number that represents 100% in a unit.
const fn percent_scale(unit: Unit) -> f64 {
    match unit {
        Unit::Percent => 100.0,
        Unit::PercentHundredths => 10_000.0,
        _ => 1.0,
    }
}

/// A duration, in any unit.
impl TunableValue for Nanos {
    fn from_number(number: i64, unit: Unit) -> Nanos {
        Nanos(u64::from_number(number, unit).saturating_mul(nanoseconds(unit)))
    }

    fn number(&self, unit: Unit) -> i64 {
        (self.0 / nanoseconds(unit)).number(unit)
    }
}

const fn nanoseconds(unit: Unit) -> u64 {
    match unit {
        Unit::Nanoseconds => 1,
        Unit::Microseconds => 1_000,
        Unit::Milliseconds => 1_000_000,
        Unit::Centiseconds => 10_000_000,
        _ => 1,
    }
}

/// 0 is `None`, other numbers are `Some`.
impl<T: TunableValue> TunableValue for Option<T> {
    fn from_number(number: i64, unit: Unit) -> Option<T> {
        (number != 0).then(|| T::from_number(number, unit))
    }

    fn number(&self, unit: Unit) -> i64 {
        self.as_ref().map_or(0, |value| value.number(unit))
    }
}

/// Declares a struct with one field per tunable, the constant `TUNABLES`, `of` (from a slice of numbers), and `values` (back to numbers).
///
/// A field is `name: Type = Tunable`, where the type is a [`TunableValue`] and the doc comment is the tunable's documentation. The tunable
/// has the name of the field, or the one after `as`. A tunable shared by several structs is declared as a constant, with its documentation.
#[macro_export]
macro_rules! tunables {
    (
        $(#[$attribute:meta])*
        $visible:vis struct $Values:ident {
            $(
                $(#[doc = $doc:literal])*
                $field_visible:vis $field:ident $(as $name:literal)? : $Type:ty = $tunable:expr
            ),* $(,)?
        }
    ) => {
        $(#[$attribute])*
        $visible struct $Values {
            $(
                #[doc = concat!("The tunable `", $crate::tunables!(@name $field $($name)?), "`. ", $($doc),*)]
                $field_visible $field: $Type
            ),*
        }

        impl $Values {
            /// The declarations, in the order of the fields.
            $visible const TUNABLES: &'static [$crate::Tunable] =
                &[$($tunable.named($crate::tunables!(@name $field $($name)?), concat!($($doc),*))),*];

            /// From numbers in the order of the tunables and within their ranges. Missing ones get their defaults.
            $visible fn of(values: &[i64]) -> $Values {
                let mut numbers = values.iter().copied();
                let mut tunables = Self::TUNABLES.iter();
                $(
                    let tunable = tunables.next();
                    let (unit, default) = tunable.map_or(($crate::Unit::Count, 0), |tunable| (tunable.unit, tunable.default));
                    let $field = <$Type as $crate::TunableValue>::from_number(numbers.next().unwrap_or(default), unit);
                )*
                $Values { $($field),* }
            }

            /// The values as numbers.
            #[allow(dead_code, reason = "not every unit is asked")]
            $visible fn values(&self) -> [i64; Self::TUNABLES.len()] {
                let mut values = [0; Self::TUNABLES.len()];
                let mut places = Self::TUNABLES.iter().zip(&mut values);
                $(
                    if let Some((tunable, place)) = places.next() {
                        *place = $crate::TunableValue::number(&self.$field, tunable.unit);
                    }
                )*
                values
            }
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
}

/// Declares an enumeration whose variants are written as words: the values of a tunable with [`Unit::OneOf`].
#[macro_export]
macro_rules! words {
    (
        $(#[$attribute:meta])*
        $visible:vis enum $Words:ident {
            $($(#[$of_variant:meta])* $Variant:ident = $word:literal),* $(,)?
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visible enum $Words {
            $($(#[$of_variant])* $Variant),*
        }

        impl $Words {
            /// The words, in the order of the variants.
            $visible const WORDS: &'static [&'static str] = &[$($word),*];
            const VARIANTS: &'static [$Words] = &[$($Words::$Variant),*];
        }

        impl $crate::TunableValue for $Words {
            fn from_number(number: i64, _unit: $crate::Unit) -> $Words {
                let place = usize::try_from(number).unwrap_or(0).min($Words::VARIANTS.len() - 1);
                $Words::VARIANTS[place]
            }

            fn number(&self, _unit: $crate::Unit) -> i64 {
                *self as i64
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    words! {
        /// The order of service.
        enum First {
            /// The oldest.
            Oldest = "oldest",
            /// The nearest.
            Nearest = "nearest",
        }
    }

    const SHARED: Tunable = Tunable::new(Unit::Percent, 0..=100, 70).named("", "Declared elsewhere.");

    tunables! {
        /// One of each kind.
        struct Values {
            /// A span
            /// of time.
            span: Nanos = Tunable::new(Unit::Centiseconds, 0..=500, 3).logarithmic(),
            share: f64 = SHARED,
            /// May be off.
            limit as "the-limit": Option<u64> = Tunable::new(Unit::Count, 0..=9, 0),
            /// Words.
            first: First = Tunable::one_of(First::WORDS, "nearest"),
            /// A flag.
            flag: bool = Tunable::flag(true),
        }
    }

    #[test]
    fn each_field_is_declared_once_with_its_name_and_documentation() {
        let all: std::vec::Vec<_> = Values::TUNABLES.iter().map(|tunable| (tunable.name, tunable.doc, tunable.default)).collect();
        let expected = [
            ("span", "A span of time.", 3),
            ("share", "Declared elsewhere.", 70),
            ("the-limit", "May be off.", 0),
            ("first", "Words.", 1),
            ("flag", "A flag.", 1),
        ];
        assert_eq!(all, expected);
        assert_eq!(Values::TUNABLES[0].scale, Scale::Logarithmic);
        let (before, after) = split_before(Values::TUNABLES, "the-limit");
        assert_eq!((before.len(), after.len()), (2, 3));
    }

    #[test]
    fn numbers_become_typed_values_and_numbers_again() {
        let values = Values::of(&[7, 25, 4, 0, 0]);
        assert_eq!((values.span, values.share), (Nanos::from_millis(70), 0.25));
        assert_eq!((values.limit, values.first, values.flag), (Some(4), First::Oldest, false));
        assert_eq!(values.values(), [7, 25, 4, 0, 0]);
        assert_eq!(Values::of(&[1]).values(), [1, 70, 0, 1, 1], "a missing value has its default");
        assert_eq!(Values::of(&[]).limit, None);
        for percent in 0..=100 {
            assert_eq!(Values::of(&[0, percent]).values()[1], percent);
        }
    }
}
