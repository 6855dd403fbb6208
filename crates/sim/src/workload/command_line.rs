//! A pasted command line of fio as a job file (`parse_cmd_line` in fio's init.c).
//!
//! ```text
//! $ sudo fio --filename=/dev/vda --rw=randrw --name=a --bs=4k --name=b \     [global]            the options before the first name
//!       --bs=8k --output=log | tee x                                         filename=/dev/vda   which apply to all jobs
//!                                                                            rw=randrw
//!                                                                            [a]                 --name begins a job
//!                                                                            bs=4k
//!                                                                            [b]
//!                                                                            bs=8k
//! ```

use super::table;

/// Options of the program that do not change the I/O.
const OF_THE_PROGRAM: [&str; 21] = [
    "output",
    "output-format",
    "append-terse",
    "terse-version",
    "minimal",
    "eta",
    "eta-interval",
    "eta-newline",
    "status-interval",
    "bandwidth-log",
    "latency-log",
    "debug",
    "parse-only",
    "showcmd",
    "readonly",
    "inflate-log",
    "alloc-size",
    "warnings-fatal",
    "max-jobs",
    "idle-prof",
    "aux-path",
];

/// Those of the [`OF_THE_PROGRAM`] that have no value.
const SWITCHES: [&str; 6] = ["append-terse", "minimal", "parse-only", "showcmd", "readonly", "warnings-fatal"];

/// Options of the program that request anything else than running the jobs on the line.
const REFUSED: [&str; 17] = [
    "section",
    "profile",
    "server",
    "client",
    "daemonize",
    "remote-config",
    "trigger",
    "trigger-file",
    "trigger-timeout",
    "trigger-remote",
    "cpuclock-test",
    "crctest",
    "memcpytest",
    "merge-blktrace-only",
    "cmdhelp",
    "enghelp",
    "help",
];

/// Whether the first line that is neither blank nor a comment calls fio, optionally after a prompt, `sudo` or `time`. `#` and `;`
/// begin comments, as in job files.
///
/// ```
/// use sim::workload::is_command_line;
///
/// assert!(is_command_line("# a comment\n$ sudo /usr/bin/fio --name=a --rw=read --size=1g\n"));
/// assert!(!is_command_line("fio version 2 iolog\n"));
/// ```
pub fn is_command_line(text: &str) -> bool {
    let words: Vec<&str> = said(text).next().map_or("", |(_, line)| line).split_whitespace().collect();
    let first = before_arguments(words.iter().copied()).and_then(|number| words.get(number));
    // `fio version 2 iolog` is not a call.
    first.is_some_and(|word| word.starts_with('-') || *word == "\\")
}

/// The lines that are neither blank nor comments, with their numbers.
fn said(text: &str) -> impl Iterator<Item = (u32, &str)> {
    (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with(['#', ';']))
}

/// The number of words before fio's arguments; `None` if fio is not called.
fn before_arguments<'a>(words: impl Iterator<Item = &'a str>) -> Option<usize> {
    let mut behind_sudo = false;
    for (number, word) in words.enumerate() {
        if word == "fio" || word.ends_with("/fio") {
            return Some(number + 1);
        }
        let is_prompt = number == 0 && word.ends_with(['$', '#']);
        if !(is_prompt || matches!(word, "sudo" | "time") || behind_sudo && word.starts_with('-')) {
            return None;
        }
        behind_sudo |= word == "sudo";
    }
    None
}

/// The lines of the job file that corresponds to a command line, each with its line in `text`.
///
/// # Errors
/// The line, starting at 1, and the problem there.
pub(super) fn as_job_file(text: &str) -> Result<Vec<(u32, String)>, (u32, String)> {
    let words = words(text)?;
    let number = before_arguments(words.iter().map(|(_, word)| word.as_str())).unwrap_or(words.len());
    let (call, arguments) = words.split_at(number);
    let first = call.last().map_or(1, |(line, _)| *line);
    let mut lines = vec![(first, "[global]".to_owned())];
    let mut has_job = false;
    let mut rest = arguments.iter().peekable();
    while let Some((line, word)) = rest.next() {
        let line = *line;
        let option = word.strip_prefix("--").or(word.strip_prefix('-')).filter(|option| !option.is_empty());
        let option = option.ok_or_else(|| {
            (
                line,
                format!("`{word}` is not an option; it must be --KEY=VALUE. A job file is given itself, not on fio's command line"),
            )
        })?;
        let (key, mut value) = option.split_once('=').map_or((option, None), |(key, value)| (key, Some(value)));
        if REFUSED.contains(&key) {
            return Err((line, format!("`--{key}` is not supported on a command line; it must hold options of jobs only")));
        }
        let is_switch = SWITCHES.contains(&key) || table::is_flag(key);
        if value.is_none() && !is_switch {
            value = rest.next_if(|(_, next)| !next.starts_with('-')).map(|(_, next)| next.as_str());
        }
        if OF_THE_PROGRAM.contains(&key) {
            continue;
        }
        if let Some(letter) = value.and_then(|value| value.chars().find(|letter| matches!(letter, ';' | '#' | '\n' | '\r'))) {
            return Err((
                line,
                format!("{key}: a value with {letter:?} in it is not supported; job files have comments behind ; and #"),
            ));
        }
        let name = value.map(str::trim).filter(|name| !name.is_empty());
        lines.push((
            line,
            match (key, name) {
                ("name", None) => return Err((line, "`--name` needs a value: --name=…".to_owned())),
                ("name", Some(name)) if name.starts_with("global") => "[global]".to_owned(),
                ("name", Some(name)) => {
                    has_job = true;
                    format!("[{name}]")
                }
                (_, None) => value.map_or_else(|| key.to_owned(), |_| format!("{key}=")),
                (_, Some(value)) => format!("{key}={value}"),
            },
        ));
    }
    if !has_job {
        return Err((first, "the command line holds no job; fio starts one for each --name=…".to_owned()));
    }
    Ok(lines)
}

/// The words of the command, split as by a shell, each with its line. A pipe or redirection and all that follows is omitted.
fn words(text: &str) -> Result<Vec<(u32, String)>, (u32, String)> {
    let Some((first, _)) = said(text).next() else { return Ok(Vec::new()) };
    let mut found = Words { words: Vec::new(), word: None, line: first, quote: None };
    let mut lines = (1..).zip(text.lines()).skip(first as usize - 1);
    let mut is_left_out = false;
    for (number, line) in lines.by_ref() {
        found.line = number;
        // Lines copied from web pages may have blanks after a backslash.
        let line = line.trim_end();
        let goes_on = match is_left_out {
            true => line.ends_with('\\'),
            false => match found.add(line)? {
                End::Open => true,
                End::Command => false,
                End::Operator => {
                    is_left_out = true;
                    line.ends_with('\\')
                }
            },
        };
        if !goes_on {
            break;
        }
    }
    if let Some(quote) = found.quote {
        return Err((found.line, format!("a quotation mark {quote} is not closed")));
    }
    found.end_word();
    match lines.find(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with(['#', ';'])) {
        Some((number, more)) => Err((number, one_command(more))),
        None => Ok(found.words),
    }
}

fn one_command(more: &str) -> String {
    let more = more.trim();
    format!("`{more}` follows the command line; a file holds one command, and all lines but its last end with a \\")
}

/// The end of a line.
enum End {
    /// The command continues on the next line.
    Open,
    /// The command ends.
    Command,
    /// A pipe or a redirection ends fio's part of the command.
    Operator,
}

struct Words {
    words: Vec<(u32, String)>,
    /// The current word.
    word: Option<(u32, String)>,
    line: u32,
    quote: Option<char>,
}

impl Words {
    fn add(&mut self, line: &str) -> Result<End, (u32, String)> {
        let mut letters = line.chars().peekable();
        while let Some(letter) = letters.next() {
            match (self.quote, letter) {
                (Some('"') | None, '\\') if letters.peek().is_none() => return Ok(End::Open),
                (None, '\\') => self.push(letters.next()),
                (Some('"'), '\\') if letters.peek().is_some_and(|next| "\"\\$`".contains(*next)) => self.push(letters.next()),
                (Some(open), _) if open == letter => self.quote = None,
                (None, '"' | '\'') => {
                    self.quote = Some(letter);
                    self.push(None);
                }
                (None, ' ' | '\t') => self.end_word(),
                (None, '#') if self.word.is_none() => return Ok(End::Command),
                (None, '|' | '<' | '>') => {
                    // The 2 of `2>&1` is not an argument.
                    self.word.take_if(|(_, word)| letter == '>' && matches!(word.as_str(), "1" | "2"));
                    self.end_word();
                    return Ok(End::Operator);
                }
                (None, ';' | '&') => {
                    let more: String = letters.collect();
                    let more = more.trim_start_matches(['&', ' ', '\t']);
                    return if more.is_empty() { Ok(End::Command) } else { Err((self.line, one_command(more))) };
                }
                _ => self.push(Some(letter)),
            }
        }
        if self.quote.is_none() {
            return Ok(End::Command);
        }
        self.push(Some('\n'));
        Ok(End::Open)
    }

    /// Adds a letter to the current word, starting one if necessary.
    fn push(&mut self, letter: Option<char>) {
        let line = self.line;
        self.word.get_or_insert_with(|| (line, String::new())).1.extend(letter);
    }

    fn end_word(&mut self) {
        self.words.extend(self.word.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        as_job_file(text).unwrap().into_iter().map(|(_, line)| line).collect()
    }

    #[test]
    fn a_call_of_fio_is_distinguished_from_job_files_and_logs() {
        for text in [
            "fio --name=a",
            "$ fio -rw=read",
            "# as in the manual\n\n  sudo -E /usr/local/bin/fio --name a\n",
            "root@host:~# time fio --name=a",
            "fio \\\n --name=a",
        ] {
            assert!(is_command_line(text), "{text}");
        }
        for text in [
            "",
            "[j]\nrw=read",
            "# fio --name=a\n[j]",
            "fio version 2 iolog",
            "fio",
            "fio job.fio",
            "echo fio --name=a",
            "; fio --x",
        ] {
            assert!(!is_command_line(text), "{text}");
        }
    }

    #[test]
    fn options_before_the_first_name_hold_for_all_jobs() {
        let text = "$ sudo fio --rw randread -bs=8k --direct=1 --group_reporting --name=a --size=1m \\\n\
            --name b --output=log --minimal --size '2m' --description=\"x \\\"y\\\"\" --time_based 2>&1 | tee x\n";
        let expected = ["[global]", "rw=randread", "bs=8k", "direct=1", "group_reporting", "[a]", "size=1m", "[b]", "size=2m"];
        assert_eq!(lines(text), [&expected[..], &["description=x \"y\"", "time_based"]].concat());
        assert_eq!(lines("fio --name=a &\n"), ["[global]", "[a]"]);
        assert_eq!(lines("fio --name=global --bs=4k --name=a"), ["[global]", "[global]", "bs=4k", "[a]"]);
        let places: Vec<u32> =
            as_job_file("\nfio --rw=read \\\n --name=a \\\n --bs=4k").unwrap().iter().map(|line| line.0).collect();
        assert_eq!(places, [2, 2, 3, 4]);
    }

    #[test]
    fn errors_name_the_line_and_what_would_be_right() {
        for (text, line, words) in [
            ("fio --rw=read", 1, "holds no job; fio starts one for each --name=…"),
            ("fio --name=a job.fio", 1, "`job.fio` is not an option; it must be --KEY=VALUE"),
            ("fio --name=a \\\n --client=host", 2, "`--client` is not supported on a command line"),
            ("fio --name=a\n --rw=read", 2, "`--rw=read` follows the command line; a file holds one command"),
            ("fio --name=a | tee x \\\n -a\n\nfio --name=b", 4, "`fio --name=b` follows"),
            ("fio --name=a && fio --name=b", 1, "`fio --name=b` follows"),
            ("fio --name=a --filename='x", 1, "a quotation mark ' is not closed"),
            ("fio --name=a --filename='x;y'", 1, "filename: a value with ';' in it is not supported"),
            ("fio --name --rw=read", 1, "`--name` needs a value"),
        ] {
            let (at, message) = as_job_file(text).unwrap_err();
            assert_eq!(at, line, "{text}: {message}");
            assert!(message.contains(words), "{text}: {message}");
        }
    }
}
