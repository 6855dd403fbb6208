//! The lines of a job file: without comments, with those of included files, and with variables replaced (fio's HOWTO, "Job file
//! format", "Environment variables", "Reserved keywords").

use super::command_line;
use super::error::WorkloadError;

/// Maximum length in bytes of a job file, including included files.
const LONGEST: usize = 256 << 10;

/// Maximum depth of includes.
const MAX_INCLUDE_DEPTH: usize = 16;

/// The page size of the simulated host.
const PAGE_SIZE: &str = "4096";

/// Keywords for properties that the simulated host does not have.
const MACHINE_KEYWORDS: [&str; 2] = ["$ncpus", "$mb_memory"];

/// The environment of a job file: variables and included files.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use sim::workload::{Surroundings, Workload};
///
/// struct Variables;
///
/// impl Surroundings for Variables {
///     fn variable(&self, name: &str) -> Option<String> {
///         (name == "SIZE").then(|| "64m".to_owned())
///     }
///
///     fn include(&self, file: &str, _includer: &str) -> Result<(String, String), String> {
///         Err(format!("{file} does not exist"))
///     }
/// }
///
/// let workload = Workload::parse_in("[j]\nrw=read\nsize=${SIZE}\n", "job.fio", &Variables)?;
/// assert_eq!(workload.jobs().len(), 1);
/// # Ok(())
/// # }
/// ```
pub trait Surroundings {
    /// The environment variable `name`, for `${name}`; `None` if it is not set.
    fn variable(&self, name: &str) -> Option<String>;

    /// Name and text of the file that `include file` refers to in the job file `includer`.
    ///
    /// # Errors
    /// The file does not exist; the message names the files tried.
    fn include(&self, file: &str, includer: &str) -> Result<(String, String), String>;
}

/// No environment: job files without variables and includes.
pub struct Alone;

impl Surroundings for Alone {
    fn variable(&self, _name: &str) -> Option<String> {
        None
    }

    fn include(&self, file: &str, _includer: &str) -> Result<(String, String), String> {
        Err(format!("{file} cannot be included here; copy its lines into this file"))
    }
}

/// A position in the job file or an included one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Index into [`Lines::sources`].
    source: usize,
    /// The line, starting at 1.
    pub(super) line: u32,
}

impl Place {
    /// A line of the job file itself.
    pub(super) fn at(line: u32) -> Place {
        Place { source: 0, line }
    }
}

/// An error and its position.
pub(super) type Complaint = (Place, String);

/// A line that is not empty.
pub(super) struct Line {
    pub(super) place: Place,
    pub(super) text: String,
    /// An unset environment variable that leaves the option without a value.
    pub(super) missing: Option<String>,
}

/// All lines in order.
pub(super) struct Lines {
    pub(super) lines: Vec<Line>,
    /// The names of the job file and of included files.
    sources: Vec<String>,
    /// Whether any file was included or variable replaced.
    changed: bool,
    bytes: usize,
}

impl Lines {
    /// Reads `text`; `source` is its name in errors.
    pub(super) fn read(text: &str, source: &str, surroundings: &dyn Surroundings) -> Result<Lines, WorkloadError> {
        let mut lines = Lines { lines: Vec::new(), sources: vec![source.to_owned()], changed: false, bytes: 0 };
        let added = match command_line::is_command_line(text) {
            true => lines.add_command_line(text, surroundings),
            false => lines.add(text, 0, &mut Vec::new(), surroundings),
        };
        match added {
            Ok(()) => Ok(lines),
            Err((Place { line: 0, .. }, message)) => Err(lines.fault(None, message)),
            Err((place, message)) => Err(lines.fault(Some(place), message)),
        }
    }

    /// An error at a position, or about the whole file.
    pub(super) fn fault(&self, place: Option<Place>, message: String) -> WorkloadError {
        let source_name = self.sources[place.map_or(0, |place| place.source)].clone();
        WorkloadError { source_name, line: place.map(|place| place.line), message }
    }

    /// The lines as one text; `None` if no file was included and no variable replaced.
    pub(super) fn text(&self) -> Option<String> {
        self.changed.then(|| self.lines.iter().flat_map(|line| [line.text.as_str(), "\n"]).collect())
    }

    /// Adds the job file that corresponds to a command line.
    fn add_command_line(&mut self, text: &str, surroundings: &dyn Surroundings) -> Result<(), Complaint> {
        if text.len() > LONGEST {
            return Err((
                Place::at(0),
                format!("{} bytes are too many for a command line; at most {LONGEST} are read", text.len()),
            ));
        }
        self.changed = true;
        for (line, text) in command_line::as_job_file(text).map_err(|(line, message)| (Place::at(line), message))? {
            let place = Place::at(line);
            let replaced =
                if text.starts_with('[') { None } else { replace(&text, surroundings).map_err(|message| (place, message))? };
            let (text, missing) = replaced.unwrap_or((text, None));
            self.lines.push(Line { place, text, missing });
        }
        Ok(())
    }

    fn add(
        &mut self,
        text: &str,
        source: usize,
        includers: &mut Vec<usize>,
        surroundings: &dyn Surroundings,
    ) -> Result<(), Complaint> {
        self.bytes += text.len();
        if self.bytes > LONGEST {
            let message = format!("{} bytes are too many for a job file; at most {LONGEST} are read", self.bytes);
            return Err((Place { source, line: 0 }, message));
        }
        for (number, line) in (1..).zip(text.lines()) {
            let place = Place { source, line: number };
            let line = without_comment(line);
            if let Some(file) = line.strip_prefix("include").filter(|file| file.starts_with([' ', '\t'])) {
                self.include(file.trim(), place, includers, surroundings)?;
            } else if source > 0 && line.starts_with('[') {
                return Err((place, format!("`{line}`: a file that is included cannot hold sections")));
            } else if !line.is_empty() {
                let replaced = replace(line, surroundings).map_err(|message| (place, message))?;
                self.changed |= replaced.is_some();
                let (text, missing) = replaced.unwrap_or_else(|| (line.to_owned(), None));
                self.lines.push(Line { place, text, missing });
            }
        }
        Ok(())
    }

    fn include(
        &mut self,
        file: &str,
        place: Place,
        includers: &mut Vec<usize>,
        surroundings: &dyn Surroundings,
    ) -> Result<(), Complaint> {
        if includers.len() == MAX_INCLUDE_DEPTH {
            return Err((place, format!("include {file}: files include each other more than {MAX_INCLUDE_DEPTH} deep")));
        }
        let found = surroundings.include(file, &self.sources[place.source]);
        let (name, text) = found.map_err(|message| (place, format!("include: {message}")))?;
        self.changed = true;
        self.sources.push(name);
        includers.push(place.source);
        let added = self.add(&text, self.sources.len() - 1, includers, surroundings);
        includers.pop();
        // An error about a whole included file is reported at the line that includes it.
        added.map_err(|(at, message)| if at.line == 0 { (place, message) } else { (at, message) })
    }
}

/// Removes a comment: `;` or `#` begins one anywhere in a line, as in fio.
fn without_comment(line: &str) -> &str {
    line.find([';', '#']).map_or(line, |at| &line[..at]).trim()
}

/// A line, and the unset variable that leaves it without a value.
type Replaced = (String, Option<String>);

/// Replaces variables after the `=`; `None` if there are none.
fn replace(line: &str, surroundings: &dyn Surroundings) -> Result<Option<Replaced>, String> {
    let Some((key, value)) = line.split_once('=').filter(|(_, value)| value.contains('$')) else { return Ok(None) };
    let name = key.trim();
    if let Some(word) = MACHINE_KEYWORDS.into_iter().find(|word| value.contains(word)) {
        return Err(format!("{name}: `{word}` depends on the machine, and the simulated one has none; write the number itself"));
    }
    let (mut replaced, mut missing) = (String::new(), None);
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("${") {
        let (variable, behind) = after.split_once('}').ok_or_else(|| format!("{name}: `${{{after}` has no closing brace"))?;
        let found = surroundings.variable(variable).unwrap_or_default();
        if found.is_empty() {
            missing = Some(variable);
        }
        replaced.push_str(before);
        replaced.push_str(&found);
        rest = behind;
    }
    replaced.push_str(rest);
    let missing = missing.filter(|_| replaced.trim().is_empty()).map(str::to_owned);
    if replaced.contains(['\n', '\r']) {
        return Err(format!("{name}: an environment variable in it holds more than one line"));
    }
    let replaced = with_page_size(replaced);
    Ok((replaced != value).then(|| (format!("{key}={replaced}"), missing)))
}

/// Replaces `$pagesize`; the result becomes an expression if it is arithmetic.
fn with_page_size(value: String) -> String {
    if !value.contains("$pagesize") {
        return value;
    }
    let value = value.replace("$pagesize", PAGE_SIZE);
    let is_sum =
        |text: &str| text.contains(['+', '-', '*', '/']) && text.chars().all(|c| c.is_ascii_digit() || "+-*/ ".contains(c));
    if is_sum(&value) { format!("({value})") } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Here;

    impl Surroundings for Here {
        fn variable(&self, name: &str) -> Option<String> {
            [("SIZE", "64m"), ("LINES", "a\nb")].into_iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
        }

        fn include(&self, file: &str, includer: &str) -> Result<(String, String), String> {
            match file {
                "a" => Ok(("a.fio".to_owned(), "bs=8k\ninclude b\n".to_owned())),
                "b" => Ok((format!("b of {includer}"), "direct=1\n".to_owned())),
                "sections" => Ok(("s".to_owned(), "\n[x]\n".to_owned())),
                "itself" => Ok(("i".to_owned(), "include itself\n".to_owned())),
                "huge" => Ok(("h".to_owned(), "x".repeat(LONGEST))),
                _ => Err(format!("{file} is missing")),
            }
        }
    }

    fn text(text: &str) -> Result<Option<String>, String> {
        Lines::read(text, "t", &Here).map(|lines| lines.text()).map_err(|error| error.to_string())
    }

    #[test]
    fn included_lines_and_variables_come_in_place() {
        assert_eq!(text("[j] ; c\nsize=1m"), Ok(None));
        assert_eq!(
            text("[j] ; c\nsize=${SIZE}\ninclude a\nrw=read").unwrap().unwrap(),
            "[j]\nsize=64m\nbs=8k\ndirect=1\nrw=read\n"
        );
        let lines = Lines::read("[j]\ninclude a\n", "t", &Here).unwrap();
        assert_eq!(lines.sources, ["t", "a.fio", "b of a.fio"]);
        // An unset variable is replaced by nothing, as in fio.
        assert_eq!(text("[j]\nfilename=a${NO}b").unwrap().unwrap(), "[j]\nfilename=ab\n");
        assert_eq!(text("[j]\nbs=2*$pagesize").unwrap().unwrap(), "[j]\nbs=(2*4096)\n");
        assert_eq!(text("[j]\nfilename=x-$pagesize").unwrap().unwrap(), "[j]\nfilename=x-4096\n");
    }

    #[test]
    fn errors_name_file_and_line() {
        for (line, words) in [
            ("size=${SIZE", "t:2: size: `${SIZE` has no closing brace"),
            ("size=${LINES}", "more than one line"),
            ("size=8*$mb_memory", "`$mb_memory` depends on the machine"),
            ("include nothing", "t:2: include: nothing is missing"),
            ("include sections", "s:2: `[x]`: a file that is included cannot hold sections"),
            ("include itself", "more than 16 deep"),
            ("include huge", "t:2: 262"),
        ] {
            let error = text(&format!("[j]\n{line}\n")).unwrap_err();
            assert!(error.contains(words), "{line}: {error}");
        }
        let lines = Lines::read("[j]\nsize=${SIZE}\n", "t", &Alone).unwrap();
        assert_eq!(lines.lines[1].missing.as_deref(), Some("SIZE"));
    }
}
