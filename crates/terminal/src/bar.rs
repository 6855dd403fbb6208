//! Progress bars that fit the terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// Characters of `{percent:>3}%`, of `, {eta} left`, of `{human_pos}` up to ten digits, and of ` ({elapsed})` within a day.
const PERCENT: usize = 4;
const LEFT: usize = 11;
const POSITION: usize = 13;
const ELAPSED: usize = 11;
/// Minimum width: a shorter bar shows less than its percentage.
const MIN_BAR: usize = 5;

/// A progress bar on standard error, drawn only on a terminal. `total` 0 makes a spinner.
pub fn progress_bar(total: u64, what: &str) -> ProgressBar {
    let terminal = console::Term::stderr().size_checked().map(|(_, columns)| usize::from(columns));
    bar(total, what, crate::asked_columns().into_iter().chain(terminal).min())
}

/// The bar for a terminal of this width, if that is known.
fn bar(total: u64, what: &str, columns: Option<usize>) -> ProgressBar {
    let bar = if total == 0 { ProgressBar::new_spinner() } else { ProgressBar::new(total) };
    // If the template were invalid, the default style is used.
    if let Ok(style) = ProgressStyle::with_template(&template(total == 0, what.chars().count(), columns)) {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar
}

/// The template of a bar or spinner whose message has this number of characters. The figures come first: if there is too little room,
/// the bar and the time are omitted, then the message is truncated.
fn template(is_spinner: bool, message: usize, columns: Option<usize>) -> String {
    // Some terminals wrap at the last column.
    let room = columns.unwrap_or(usize::MAX).saturating_sub(1);
    if is_spinner {
        let figures = 2 + POSITION;
        return match room.saturating_sub(figures) {
            0..2 => "{human_pos}".to_owned(),
            left if left > message + ELAPSED => "{spinner} {msg} {human_pos} ({elapsed})".to_owned(),
            left => format!("{{spinner}} {{msg:{}!}} {{human_pos}}", message.min(left - 1)),
        };
    }
    if columns.is_none() {
        return "{msg} {wide_bar} {percent:>3}%, {eta} left".to_owned();
    }
    match room.saturating_sub(message + PERCENT + LEFT + 2) {
        bar if bar >= MIN_BAR => format!("{{msg}} {{bar:{bar}}} {{percent:>3}}%, {{eta}} left"),
        _ if room > PERCENT + 2 => format!("{{msg:{}!}} {{percent:>3}}%", message.min(room - PERCENT - 1)),
        _ => "{percent:>3}%".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use indicatif::{ProgressDrawTarget, TermLike};

    use super::*;

    /// A terminal that records its output.
    #[derive(Clone, Debug)]
    struct Paper {
        columns: u16,
        written: Arc<Mutex<Vec<String>>>,
    }

    impl Paper {
        fn write(&self, text: &str) -> io::Result<()> {
            self.written.lock().unwrap().push(text.to_owned());
            Ok(())
        }
    }

    impl TermLike for Paper {
        fn width(&self) -> u16 {
            self.columns
        }
        fn move_cursor_up(&self, _n: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _n: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _n: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _n: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.write(text)
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Output of a bar at the beginning, in the middle and at its end, trimmed.
    fn drawn(total: u64, what: &str, columns: u16) -> Vec<String> {
        let paper = Paper { columns, written: Arc::default() };
        let bar = bar(total, what, Some(columns.into()));
        bar.set_draw_target(ProgressDrawTarget::term_like(Box::new(paper.clone())));
        for position in [0, 1_234_567_890 / 2, 1_234_567_890] {
            bar.set_position(position);
            bar.tick();
        }
        let written = paper.written.lock().unwrap();
        written.iter().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).collect()
    }

    #[test]
    fn a_bar_fits_the_terminal_and_keeps_its_figure() {
        for what in ["rows", "forecasts from counters, loads:", "evaluation of controllers on drawn workloads and devices, runs:"] {
            for columns in [8, 20, 40, 80, 200] {
                for (total, figure) in [(1_234_567_890, "50%"), (0, "617,283,945")] {
                    let drawn = drawn(total, what, columns);
                    let longest = drawn.iter().map(|text| text.chars().count()).max().unwrap();
                    assert!(longest <= usize::from(columns) || columns == 8, "{columns} columns: {drawn:#?}");
                    assert!(drawn.iter().any(|text| text.contains(figure)), "{columns} columns: {drawn:#?}");
                }
            }
        }
    }

    #[test]
    fn room_shows_in_the_bar_and_the_whole_message() {
        let last = |columns| drawn(1_234_567_890, "forecasts from counters, loads:", columns).pop().unwrap();
        assert_eq!(last(20), "forecasts from 100%");
        assert_eq!(last(40), "forecasts from counters, loads: 100%");
        assert!(last(80).starts_with("forecasts from counters, loads: ███") && last(80).ends_with(" left"), "{}", last(80));
        let spun = |columns| drawn(0, "requests", columns).pop().unwrap();
        assert!(spun(20).ends_with("req 1,234,567,890") && spun(80).ends_with(')'), "{} and {}", spun(20), spun(80));
    }
}
