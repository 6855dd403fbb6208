//! Shell patterns of udev, tuned and tmpfiles: `*`, `?`, `[a-z]`, `[!a-z]`.

/// Whether a pattern matches the whole text.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut place) = (0, 0);
    // Position after the last star, and end of its match so far.
    let mut star: Option<(usize, usize)> = None;
    while place < text.len() {
        if pattern.get(at) == Some(&'*') {
            at += 1;
            star = Some((at, place));
        } else if let Some(next) = one(&pattern, at, text[place]) {
            (at, place) = (next, place + 1);
        } else if let Some((behind, reached)) = star {
            star = Some((behind, reached + 1));
            (at, place) = (behind, reached + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|&c| c == '*')
}

/// Whether one of several patterns matches, separated by `|`.
pub fn any_matches(patterns: &str, text: &str) -> bool {
    patterns.split('|').any(|pattern| matches(pattern, text))
}

/// Position after the pattern element at `at`, if that matches the character; `None` if not.
fn one(pattern: &[char], at: usize, c: char) -> Option<usize> {
    match *pattern.get(at)? {
        '?' => Some(at + 1),
        '[' => match class(&pattern[at + 1..], c) {
            Some((is_in, length)) => is_in.then_some(at + 1 + length),
            None => (c == '[').then_some(at + 1),
        },
        '\\' if at + 1 < pattern.len() => (pattern[at + 1] == c).then_some(at + 2),
        other => (other == c).then_some(at + 1),
    }
}

/// Whether a class contains the character, and its length including brackets; `None` if it is unterminated.
fn class(class: &[char], c: char) -> Option<(bool, usize)> {
    let is_negated = matches!(class.first(), Some('!' | '^'));
    let begin = usize::from(is_negated);
    // A bracket at the beginning is literal.
    let end = begin + 1 + class.get(begin + 1..)?.iter().position(|&c| c == ']')?;
    let (members, mut at, mut is_in) = (&class[begin..end], 0, false);
    while at < members.len() {
        if at + 2 < members.len() && members[at + 1] == '-' {
            is_in |= (members[at]..=members[at + 2]).contains(&c);
            at += 3;
        } else {
            is_in |= members[at] == c;
            at += 1;
        }
    }
    Some((is_in != is_negated, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_marks_and_classes_match_as_in_a_shell() {
        for (pattern, yes, no) in [
            ("sd[a-z]", "sda", "sda1"),
            ("sd[!a-c]", "sdd", "sda"),
            ("nvme[0-9]*n?", "nvme10n1", "nvme0n10"),
            ("*a*b*", "xaxbx", "xbxax"),
            ("", "", "x"),
            ("[]x]", "]", "y"),
            ("a[", "a[", "ab"),
            ("\\*", "*", "x"),
            ("loop*", "loop", "lop"),
        ] {
            assert!(matches(pattern, yes), "{pattern} {yes}");
            assert!(!matches(pattern, no), "{pattern} {no}");
        }
        assert!(any_matches("sd*|nvme*", "nvme0n1") && !any_matches("sd*|nvme*", "vda"));
        assert!(!matches(&"a*".repeat(2_000), &"a".repeat(1_000)), "in reasonable time");
    }
}
