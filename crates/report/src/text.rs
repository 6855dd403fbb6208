//! Sanitises untrusted names for display, and wraps text.

/// Removes characters that move a terminal's cursor, are forbidden in a page, or reverse the writing direction: a stream's name
/// is chosen by the process itself.
pub fn printable(name: &str) -> String {
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
    };
    name.chars().map(|c| if hidden(c) { '\u{fffd}' } else { c }).collect()
}

/// At most `limit` characters, the last an ellipsis if some were cut.
pub fn shortened(name: &str, limit: usize) -> String {
    if name.chars().count() <= limit {
        return name.to_owned();
    }
    let mut short: String = name.chars().take(limit.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Breaks text into lines of at most `width` characters, between words if possible.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        if length > 0 && length + 1 + word.len() > width {
            lines.push(std::mem::take(&mut line));
            length = 0;
        }
        while word.len() > width {
            let rest = word.split_off(width);
            lines.push(word.into_iter().collect());
            word = rest;
        }
        if length > 0 {
            line.push(' ');
            length += 1;
        }
        length += word.len();
        line.extend(word);
    }
    if length > 0 || lines.is_empty() {
        lines.push(line);
    }
    lines
}

/// Adds a paragraph in lines of at most `width` characters; `None` keeps it on one line.
pub fn paragraph(out: &mut String, text: &str, width: Option<usize>) {
    for line in wrapped(text, width.unwrap_or(usize::MAX)) {
        out.push_str(&line);
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_inside_a_word_that_is_too_long() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
        assert_eq!(wrapped("a abcdef", 3), ["a", "abc", "def"]);
        assert_eq!(wrapped("", 3), [""]);
    }

    #[test]
    fn names_lose_what_would_move_the_cursor_or_turn_the_writing() {
        assert_eq!(printable("a\u{1b}[2Jb\u{202e}c\n"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}");
        assert_eq!(printable("Käse <b>"), "Käse <b>");
    }
}
