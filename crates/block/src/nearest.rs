//! Suggests the name that a misspelled word probably stands for.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Longer words are not compared, as no name is that long.
const MAX_LENGTH: usize = 64;

/// The nearest of `names` to `word`, the first one in case of a tie; `None` if none is near. A name is near if the edit distance is at most
/// a third of the longer word.
fn nearest_name<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.chars().take(MAX_LENGTH + 1).collect();
    let near = names.into_iter().filter_map(|name| {
        let letters: Vec<char> = name.chars().take(MAX_LENGTH + 1).collect();
        let distance = distance(&word, &letters);
        (distance <= word.len().max(letters.len()).div_ceil(3).min(word.len().saturating_sub(1))).then_some((distance, name))
    });
    near.min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// The suggestion at the end of an error about the unknown `word`; empty if no name is near.
pub fn did_you_mean<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest_name(word, names).map_or(String::new(), |name| format!("; did you mean {name}?"))
}

/// The optimal string alignment distance: the number of letters to insert, remove, replace, or swap with their neighbours. (The crate
/// `strsim` has it too, but needs std.)
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = Vec::with_capacity(b.len() + 1);
        row.push(i);
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            row.push(least);
        }
        before = core::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_name_is_recognised_and_a_distant_one_is_not() {
        let names = ["iodepth", "fsync", "rw", "bs", "read_ahead_kb", "rwmixread"];
        for (word, meant) in [
            ("iodpeth", Some("iodepth")),
            ("io_depth", Some("iodepth")),
            ("fsnyc", Some("fsync")),
            ("readahead_kb", Some("read_ahead_kb")),
            ("readahead", Some("read_ahead_kb")),
            ("rwmixreads", Some("rwmixread")),
            ("wr", Some("rw")),
            ("nfs_url", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest_name(word, names), meant, "{word}");
        }
        assert_eq!(nearest_name(&"x".repeat(10_000), names), None);
        assert_eq!(did_you_mean("fsnyc", names), "; did you mean fsync?");
        assert_eq!(did_you_mean("nfs_url", names), "");
    }
}
