//! The user's preference: UP = (t, r, q) of the paper ("Self-Learning Disk Scheduling", section 3.1).

use std::fmt;
use std::str::FromStr;

/// The importance of throughput, response time and quality of service (here fairness between streams): each 1 to 3, larger is
/// more important, with a sum of 6 or 7. As text: `2,3,1`.
///
/// ```
/// let preference: observe::Preference = "3,2,1".parse()?;
/// assert_eq!(preference.weights(), [0.5, 1.0 / 3.0, 1.0 / 6.0]);
/// # Ok::<(), observe::PreferenceError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preference {
    throughput: u8,
    response: u8,
    fairness: u8,
}

/// Why three numbers are not a valid preference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PreferenceError {
    /// Not three whole numbers separated by commas.
    #[error("preference '{0}' should be three whole numbers with commas between, as in 2,2,2: throughput, response time, fairness")]
    Form(String),
    /// One of them is not 1, 2 or 3.
    #[error("preference '{text}': {name} {value} should be 1, 2 or 3")]
    Range {
        /// The text.
        text: String,
        /// Which of the three.
        name: &'static str,
        /// Its value.
        value: u8,
    },
    /// Their sum is not 6 or 7.
    #[error("preference '{text}': the three add up to {sum}; they should add up to 6 or 7")]
    Sum {
        /// The text.
        text: String,
        /// The sum.
        sum: u8,
    },
}

impl Preference {
    /// Throughput, response time, fairness.
    ///
    /// # Errors
    /// One is not 1, 2 or 3, or their sum is not 6 or 7.
    pub fn new(throughput: u8, response: u8, fairness: u8) -> Result<Preference, PreferenceError> {
        let text = format!("{throughput},{response},{fairness}");
        for (name, value) in [("throughput", throughput), ("response time", response), ("fairness", fairness)] {
            if !(1..=3).contains(&value) {
                return Err(PreferenceError::Range { text, name, value });
            }
        }
        match throughput + response + fairness {
            6 | 7 => Ok(Preference { throughput, response, fairness }),
            sum => Err(PreferenceError::Sum { text, sum }),
        }
    }

    /// Weights of throughput, response time and fairness in a score; they add up to 1.
    pub fn weights(&self) -> [f64; 3] {
        let sum = f64::from(self.throughput + self.response + self.fairness);
        [self.throughput, self.response, self.fairness].map(|share| f64::from(share) / sum)
    }
}

impl Default for Preference {
    /// Response time before throughput before fairness.
    fn default() -> Preference {
        Preference { throughput: 2, response: 3, fairness: 1 }
    }
}

impl FromStr for Preference {
    type Err = PreferenceError;

    fn from_str(text: &str) -> Result<Preference, PreferenceError> {
        let form = || PreferenceError::Form(text.to_owned());
        let numbers = text.split(',').map(|number| number.trim().parse()).collect::<Result<Vec<u8>, _>>().map_err(|_| form())?;
        let &[throughput, response, fairness] = numbers.as_slice() else { return Err(form()) };
        Preference::new(throughput, response, fairness)
    }
}

impl fmt::Display for Preference {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{},{},{}", self.throughput, self.response, self.fairness)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_numbers_from_1_to_3_that_add_up_to_6_or_7_are_a_preference() {
        for text in ["3,2,1", "3,2,2", "2,2,2", "1,2,3", "3,3,1"] {
            assert_eq!(text.parse::<Preference>().unwrap().to_string(), text);
        }
        assert_eq!("3,2,1".parse::<Preference>().unwrap().weights(), [0.5, 1.0 / 3.0, 1.0 / 6.0]);
    }

    #[test]
    fn invalid_preferences_are_refused_with_the_valid_values() {
        let message = |text: &str| text.parse::<Preference>().unwrap_err().to_string();
        assert!(message("3,2").contains("three whole numbers"));
        assert!(message("a,b,c").contains("three whole numbers"));
        assert_eq!(message("4,1,1"), "preference '4,1,1': throughput 4 should be 1, 2 or 3");
        assert_eq!(message("3,3,0"), "preference '3,3,0': fairness 0 should be 1, 2 or 3");
        assert_eq!(message("1,1,1"), "preference '1,1,1': the three add up to 3; they should add up to 6 or 7");
        assert_eq!(message("3,3,3"), "preference '3,3,3': the three add up to 9; they should add up to 6 or 7");
    }
}
