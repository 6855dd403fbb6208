//! Patterns with `*` and `?`, as in shells.

/// A pattern for names: `*` stands for any characters, `?` for one.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
pub struct Pattern(String);

impl Pattern {
    /// Any text is a valid pattern.
    pub fn new(text: &str) -> Pattern {
        Pattern(text.to_owned())
    }

    /// The pattern as given.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether the whole name matches. White space at the ends of the name is ignored.
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name): (Vec<char>, Vec<char>) = (self.0.chars().collect(), name.trim().chars().collect());
        // Backtracking to the last `*` is enough: its position, and the end of the part of the name that it matches so far.
        let (mut at, mut of_name, mut star) = (0, 0, None);
        while of_name < name.len() {
            match pattern.get(at) {
                Some('*') => {
                    star = Some((at, of_name));
                    at += 1;
                }
                Some(&one) if one == '?' || one == name[of_name] => (at, of_name) = (at + 1, of_name + 1),
                _ => match star {
                    Some((position, end)) => {
                        star = Some((position, end + 1));
                        (at, of_name) = (position + 1, end + 1);
                    }
                    None => return false,
                },
            }
        }
        pattern[at..].iter().all(|&one| one == '*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters_and_a_question_mark_for_one() {
        let matches = |pattern: &str, name: &str| Pattern::new(pattern).matches(name);
        for (pattern, name) in
            [("sd*", "sda"), ("*", ""), ("nvme?n1", "nvme0n1"), ("ST*-1*A", "ST4000-1xAA"), ("vda", "vda"), ("a*b*c", "abxbc")]
        {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("sd?", "sda1"), ("", "sda"), ("sd*a", "sdb"), ("nvme?n1", "nvmen1"), ("a*b", "abc")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
        assert!(matches("ST4000*", "ST4000DM004    "), "sysfs pads a model with blanks");
    }
}
