//! Text traces: reads lines in bounded memory and parses their numbers and names.

use std::io::{self, Read};
use std::path::PathBuf;

use block::{Nanos, StreamId};

use super::input::stream_error;
use super::order::{Records, Sorted, Window};
use super::{Head, Input, OpenOptions, TraceError, TraceReader};

/// The longest line, in bytes. Valid lines, a path and a few numbers, are far shorter.
const LINE_BYTES: usize = 64 * 1024;
/// Size of one read; a line must fit.
const BUFFER_BYTES: usize = 4 * LINE_BYTES;

/// A parser for the lines of one format. Errors state the problem and a valid alternative.
pub(super) trait Parser: Send {
    /// Takes the next line and pushes the requests it completes.
    fn line(&mut self, line: &[u8], out: &mut Window) -> Result<(), String>;
    /// Called after the last line: pushes requests held back.
    fn end(&mut self, _out: &mut Window) -> Result<(), String> {
        Ok(())
    }
    /// See [`TraceReader::warnings`].
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
    /// See [`TraceReader::stream_name`].
    fn stream_name(&self, _stream: StreamId) -> Option<&str> {
        None
    }
    /// See [`TraceReader::device_name`].
    fn device_name(&self, _device: u32) -> Option<&str> {
        None
    }
}

/// Opens a text trace.
pub(super) fn open<P: Parser + 'static>(input: Input, options: &OpenOptions, parser: P) -> Box<dyn TraceReader> {
    let records = Text { lines: Lines::new(input), parser, skip_bad: options.skip_bad, skipped: 0 };
    Box::new(Sorted::new(records, options))
}

/// Whether most of the first lines are of this parser's format: one damaged line must not hide it, nor one matching line suggest
/// it. A heading is sufficient by itself.
pub(super) fn detect(head: &Head<'_>, mut parser: impl Parser) -> bool {
    let (mut good, mut bad) = (0, 0);
    let mut out = Window::default();
    for line in head.lines().filter(|line| !line.trim_ascii().is_empty()) {
        match parser.line(line, &mut out) {
            Ok(()) => good += 1,
            Err(_) => bad += 1,
        }
    }
    good > bad
}

/// The records of a text file.
struct Text<P> {
    lines: Lines,
    parser: P,
    skip_bad: bool,
    skipped: u64,
}

impl<P: Parser> Records for Text<P> {
    fn advance(&mut self, out: &mut Window) -> Result<bool, TraceError> {
        let outcome = match self.lines.next() {
            Err(error) => return Err(self.lines.failed(error)),
            Ok(None) => return self.parser.end(out).map(|()| false).map_err(|message| self.damaged(message)),
            Ok(Some(Line::Text(line))) if line.trim_ascii().is_empty() => Ok(()),
            Ok(Some(Line::Text(line))) => self.parser.line(line, out),
            Ok(Some(Line::TooLong)) => Err(format!("the line is longer than {LINE_BYTES} bytes, which no valid line is")),
        };
        match outcome {
            Ok(()) => {}
            Err(_) if self.skip_bad => self.skipped += 1,
            Err(message) => return Err(self.damaged(message)),
        }
        Ok(true)
    }

    fn damaged(&self, message: String) -> TraceError {
        TraceError::Damaged { path: self.lines.path.clone(), position: self.lines.number.to_string(), message }
    }

    fn position(&self) -> String {
        format!("line {}", self.lines.number)
    }

    fn skipped(&self) -> u64 {
        self.skipped
    }

    fn warnings(&self) -> Vec<String> {
        self.parser.warnings()
    }

    fn stream_name(&self, stream: StreamId) -> Option<&str> {
        self.parser.stream_name(stream)
    }

    fn device_name(&self, device: u32) -> Option<&str> {
        self.parser.device_name(device)
    }
}

/// A line, or the fact that it is too long.
enum Line<'a> {
    Text(&'a [u8]),
    TooLong,
}

/// Splits a stream into lines.
struct Lines {
    path: PathBuf,
    stream: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// The part of the buffer not yet returned.
    start: usize,
    end: usize,
    ended: bool,
    /// The number of the line last returned, from 1.
    number: u64,
}

impl Lines {
    fn new(input: Input) -> Lines {
        Lines { path: input.path, stream: input.stream, buffer: vec![0; BUFFER_BYTES], start: 0, end: 0, ended: false, number: 0 }
    }

    /// The next line without its end (LF or CR LF) and, if it is the first, without a byte order mark.
    fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        let mut searched = 0;
        let mut too_long = false;
        loop {
            let found = memchr::memchr(b'\n', &self.buffer[self.start + searched..self.end]);
            let (line, next) = match found {
                Some(at) => (self.start + searched + at, self.start + searched + at + 1),
                None if self.ended && self.start == self.end && !too_long => return Ok(None),
                None if self.ended => (self.end, self.end),
                None => {
                    searched = self.end - self.start;
                    if searched > LINE_BYTES {
                        too_long = true;
                        (self.start, searched) = (self.end, 0);
                    }
                    self.read_more()?;
                    continue;
                }
            };
            let start = std::mem::replace(&mut self.start, next);
            self.number += 1;
            if too_long || line - start > LINE_BYTES {
                return Ok(Some(Line::TooLong));
            }
            let text = without_line_end(&self.buffer[start..line]);
            let text = if self.number == 1 { text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text) } else { text };
            return Ok(Some(Line::Text(text)));
        }
    }

    /// Moves the remainder to the buffer's front and reads after it.
    fn read_more(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        loop {
            match self.stream.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }

    /// The error that ends the file.
    fn failed(&self, error: io::Error) -> TraceError {
        stream_error(&self.path, error, self.number + 1)
    }
}

fn without_line_end(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The line's first `N` fields, separated by `separator`, and its total number of fields.
pub(super) fn split<const N: usize>(line: &[u8], separator: u8) -> ([&[u8]; N], usize) {
    let mut fields: [&[u8]; N] = [&[]; N];
    let mut count = 0;
    let mut start = 0;
    let ends = line.iter().enumerate().filter(|&(_, &byte)| byte == separator).map(|(at, _)| at);
    for end in ends.chain(std::iter::once(line.len())) {
        if let Some(field) = fields.get_mut(count) {
            *field = line[start..end].trim_ascii();
        }
        count += 1;
        start = end + 1;
    }
    (fields, count)
}

/// The line's first `N` words, between blanks, and its total number of words.
pub(super) fn words<const N: usize>(line: &[u8]) -> ([&[u8]; N], usize) {
    let mut words: [&[u8]; N] = [&[]; N];
    let mut count = 0;
    let mut rest = line.trim_ascii_start();
    while !rest.is_empty() {
        let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        if let Some(word) = words.get_mut(count) {
            *word = &rest[..end];
        }
        count += 1;
        rest = rest[end..].trim_ascii_start();
    }
    (words, count)
}

/// Takes the last `N` words from a line, as many as there are, and counts them; the line keeps the text before them.
pub(super) fn last_words<'a, const N: usize>(line: &mut &'a [u8]) -> ([&'a [u8]; N], usize) {
    let mut words: [&[u8]; N] = [&[]; N];
    let mut count = 0;
    for word in words.iter_mut().rev() {
        let text = line.trim_ascii_end();
        if text.is_empty() {
            break;
        }
        let start = text.iter().rposition(u8::is_ascii_whitespace).map_or(0, |blank| blank + 1);
        (*line, *word) = text.split_at(start);
        count += 1;
    }
    (words, count)
}

/// The rest of a line after its first `count` words, without the blanks around it.
pub(super) fn after_words(line: &[u8], count: usize) -> &[u8] {
    let mut rest = line.trim_ascii();
    for _ in 0..count {
        let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        rest = rest[end..].trim_ascii_start();
    }
    rest
}

/// Whether this line is the column heading that some copies of a trace begin with.
pub(super) fn is_heading(line: &[u8], heading: &[u8]) -> bool {
    line.first().is_some_and(u8::is_ascii_alphabetic) && line.trim_ascii().eq_ignore_ascii_case(heading)
}

/// A field for a message: escaped and shortened.
pub(super) fn show(field: &[u8]) -> String {
    let shown = &field[..field.len().min(60)];
    format!("\"{}{}\"", shown.escape_ascii(), if field.len() > 60 { "..." } else { "" })
}

/// A whole number of at least 0.
pub(super) fn unsigned(field: &[u8], what: &str) -> Result<u64, String> {
    let mut value: u64 = 0;
    for &byte in field {
        let next =
            if byte.is_ascii_digit() { value.checked_mul(10).and_then(|v| v.checked_add(u64::from(byte - b'0'))) } else { None };
        value = next.ok_or_else(|| not_unsigned(field, what))?;
    }
    if field.is_empty() { Err(not_unsigned(field, what)) } else { Ok(value) }
}

#[cold]
fn not_unsigned(field: &[u8], what: &str) -> String {
    format!("{what} is {}, not a whole number from 0 to 2^64 - 1", show(field))
}

/// A whole number from 0 to 2^32 - 1.
pub(super) fn unsigned_32(field: &[u8], what: &str) -> Result<u32, String> {
    u32::try_from(unsigned(field, what)?).map_err(|_| format!("{what} is {}, beyond 2^32 - 1", show(field)))
}

/// A time with or without a decimal point, rounded to the nanosecond. `digits` gives its unit: 9 for seconds, 6 for milliseconds,
/// 3 for microseconds, 0 for nanoseconds.
pub(super) fn time(field: &[u8], digits: usize, what: &str) -> Result<Nanos, String> {
    decimal(field, digits).or_else(|| exponential(field, digits)).map(Nanos).ok_or_else(|| {
        let unit = ["ns", "", "", "us", "", "", "ms", "", "", "s"].get(digits).copied().unwrap_or_default();
        format!("{what} is {}, not a time in {unit} from 0 to 2^64 ns", show(field))
    })
}

/// `12.345` with `digits` = 6 is 12345000; digits beyond that round.
fn decimal(field: &[u8], digits: usize) -> Option<u64> {
    let (whole, fraction) = match memchr::memchr(b'.', field) {
        Some(point) => (&field[..point], &field[point + 1..]),
        None => (field, &field[..0]),
    };
    if whole.is_empty() && fraction.is_empty() || !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let mut value: u64 = 0;
    for &byte in whole.iter().chain(fraction.iter().take(digits)) {
        if !byte.is_ascii_digit() {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
    }
    for _ in fraction.len()..digits {
        value = value.checked_mul(10)?;
    }
    let up = fraction.get(digits).is_some_and(|&digit| digit >= b'5');
    value.checked_add(u64::from(up))
}

/// `1.2e-3`: floating-point notation, which some programs print.
fn exponential(field: &[u8], digits: usize) -> Option<u64> {
    if !field.iter().any(|byte| matches!(byte, b'e' | b'E')) {
        return None;
    }
    let value: f64 = std::str::from_utf8(field).ok()?.parse().ok()?;
    let nanos = value * [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9].get(digits)?;
    // 2^64 is exact as a floating-point number; -0.0 and tiny negatives of rounding are not times.
    (0.0..18_446_744_073_709_551_616.0).contains(&nanos).then_some((nanos + 0.5) as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(crate::cases::cases(256))]

        #[test]
        fn a_decimal_is_rounded_to_the_digits_that_count(nanos in 0..u64::MAX / 10, digits in 0..10usize, more in 0..100u64) {
            let unit = 10_u64.pow(digits as u32);
            let (whole, fraction) = (nanos / unit, nanos % unit);
            let text = if digits == 0 { format!("{whole}.{more:02}") } else { format!("{whole}.{fraction:0digits$}{more:02}") };
            prop_assert_eq!(decimal(text.as_bytes(), digits), Some(nanos + u64::from(more >= 50)), "{}", text);
            prop_assert_eq!(decimal(whole.to_string().as_bytes(), digits), Some(whole * unit));
        }

        #[test]
        fn words_are_separated_by_blanks(line in "[ a-c\\t]{0,20}") {
            let (words, count) = words::<3>(line.as_bytes());
            let expected: Vec<&[u8]> = line.split_ascii_whitespace().map(str::as_bytes).collect();
            prop_assert_eq!(count, expected.len());
            prop_assert_eq!(&words[..count.min(3)], &expected[..count.min(3)]);
            let mut rest = line.as_bytes();
            let (last, count) = last_words::<3>(&mut rest);
            let before = expected.len() - count;
            prop_assert_eq!(count, expected.len().min(3));
            prop_assert_eq!(&last[3 - count..], &expected[before..]);
            prop_assert_eq!(super::words::<0>(rest).1, before);
            prop_assert_eq!(super::words::<0>(after_words(line.as_bytes(), 2)).1, expected.len().saturating_sub(2));
        }
    }

    #[test]
    fn text_that_is_no_decimal_is_rejected() {
        for text in ["", ".", "1.2.3", "-1", "+1", "1a", "18446744073709551616", "1,5"] {
            assert_eq!(decimal(text.as_bytes(), 0), None, "{text}");
        }
        assert_eq!(decimal(b"18446744073709551615", 1), None, "beyond 2^64 in the finer unit");
        assert_eq!(
            (decimal(b".5", 3), decimal(b"5.", 3), decimal(b"18446744073709551615", 0)),
            (Some(500), Some(5_000), Some(u64::MAX))
        );
    }
}
