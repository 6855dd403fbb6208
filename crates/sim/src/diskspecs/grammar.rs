//! A parser for DiskSim 4's parameter files (`libparam`). The result is a tree with line numbers.
//!
//! ```text
//! file  = (block | "source" path | "instantiate" list "as" word | "topology" …)*
//! block = type name? "{" (key "=" value ","?)* "}"
//! value = number | word … | block | "[" (value ","?)* "]" | "source" path
//! ```
//! Keys are words with spaces, dots, slashes and parentheses; `#` starts a comment.

use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Maximum nesting of blocks and lists; DiskSim's own files use six levels.
const MAX_DEPTH: usize = 64;
/// Maximum nesting of files.
const MAX_SOURCES: usize = 16;
/// Maximum number of values in all files of one import.
const MAX_VALUES: usize = 8 << 20;

/// A position in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At {
    /// File.
    pub file: Rc<PathBuf>,
    /// Line, starting at 1.
    pub line: usize,
}

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// A value and its position.
#[derive(Clone, Debug)]
pub struct Value {
    /// Its position.
    pub at: At,
    /// The value.
    pub kind: ValueKind,
}

/// The kinds of values.
#[derive(Clone, Debug)]
pub enum ValueKind {
    /// A number.
    Number(f64),
    /// One or more words.
    Word(String),
    /// A block.
    Block(Block),
    /// A list.
    List(Vec<Value>),
}

/// A block: type and entries.
#[derive(Clone, Debug)]
pub struct Block {
    /// Its type, such as `disksim_disk`.
    pub kind: String,
    /// Its name; empty if it has none.
    pub name: String,
    /// Position of its start.
    pub at: At,
    /// Keys and values in order.
    pub entries: Vec<(String, Value)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Text(String),
    Sign(u8),
}

/// The files of one import.
#[derive(Default)]
pub struct Sources {
    open: Vec<PathBuf>,
    values: usize,
}

impl Sources {
    /// Parses a file and all files that it includes with `source`.
    ///
    /// # Errors
    /// A file cannot be read or is not valid.
    pub fn file(&mut self, path: &Path, depth: usize) -> Result<Vec<Block>, String> {
        let canonical = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if self.open.contains(&canonical) || self.open.len() >= MAX_SOURCES {
            return Err(format!("{}: names itself with `source`, or more than {MAX_SOURCES} files deep", path.display()));
        }
        let text = crate::profile::read_text(path).map_err(|error| format!("{}: {error}", path.display()))?;
        self.open.push(canonical);
        let blocks = self.text(&text, path, depth);
        self.open.pop();
        blocks
    }

    /// Parses text as if it were the file `path`.
    ///
    /// # Errors
    /// As [`file`](Sources::file).
    pub fn text(&mut self, text: &str, path: &Path, depth: usize) -> Result<Vec<Block>, String> {
        let file = Rc::new(path.to_owned());
        let tokens = tokens(text);
        let mut parser = Parser { sources: self, tokens: &tokens, next: 0, file };
        parser.top_level(depth)
    }
}

struct Parser<'a> {
    sources: &'a mut Sources,
    tokens: &'a [(usize, Token)],
    next: usize,
    file: Rc<PathBuf>,
}

fn tokens(text: &str) -> Vec<(usize, Token)> {
    let mut tokens = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let mut rest = line;
        while let Some(position) = rest.find(['{', '}', '[', ']', '=', ',']) {
            push_text(&mut tokens, index + 1, &rest[..position]);
            tokens.push((index + 1, Token::Sign(rest.as_bytes()[position])));
            rest = &rest[position + 1..];
        }
        push_text(&mut tokens, index + 1, rest);
    }
    tokens
}

fn push_text(tokens: &mut Vec<(usize, Token)>, line: usize, text: &str) {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.is_empty() {
        return;
    }
    // Words continue across line ends until the next sign.
    match tokens.last_mut() {
        Some((_, Token::Text(before))) => {
            before.push(' ');
            before.push_str(&words);
        }
        _ => tokens.push((line, Token::Text(words))),
    }
}

impl Parser<'_> {
    fn at(&self) -> At {
        let line = self.tokens.get(self.next).or(self.tokens.last()).map_or(1, |(line, _)| *line);
        At { file: self.file.clone(), line }
    }

    fn error<T>(&self, what: &str) -> Result<T, String> {
        Err(format!("{}: {what}", self.at()))
    }

    fn take(&mut self, sign: u8) -> bool {
        let found = matches!(self.tokens.get(self.next), Some((_, Token::Sign(s))) if *s == sign);
        self.next += usize::from(found);
        found
    }

    fn text(&mut self) -> Option<String> {
        match self.tokens.get(self.next) {
            Some((_, Token::Text(text))) => {
                self.next += 1;
                Some(text.clone())
            }
            _ => None,
        }
    }

    fn top_level(&mut self, depth: usize) -> Result<Vec<Block>, String> {
        let mut blocks = Vec::new();
        // Statements have no terminator: the words after one may begin the next.
        let mut words: Vec<String> = Vec::new();
        while self.next < self.tokens.len() || !words.is_empty() {
            let at = self.at();
            if words.is_empty() {
                let Some(text) = self.text() else { return self.error("a block should begin here: `type name {`") };
                words = text.split(' ').map(str::to_owned).collect();
            }
            match words[0].as_str() {
                "source" if words.len() >= 2 => {
                    blocks.extend(self.source(&words[1], depth)?);
                    words.drain(..2);
                }
                // `instantiate [ a, b ] as C` and `topology driver d [ … ]` do not describe disks.
                "instantiate" | "topology" => {
                    if !self.take(b'[') {
                        return self.error(&format!("`[` should follow `{}`", words.join(" ")));
                    }
                    self.list(depth + 1)?;
                    let behind = if words[0] == "instantiate" { self.text().unwrap_or_default() } else { String::new() };
                    words = behind.split(' ').skip(2).map(str::to_owned).collect();
                }
                _ => {
                    if !self.take(b'{') {
                        return self.error(&format!("`{{` should follow `{}`", words.join(" ")));
                    }
                    blocks.push(self.block(words[0].clone(), words[1..].join(" "), at, depth + 1)?);
                    words.clear();
                }
            }
        }
        Ok(blocks)
    }

    fn source(&mut self, name: &str, depth: usize) -> Result<Vec<Block>, String> {
        self.check_depth(depth)?;
        let directory = self.file.parent().unwrap_or(Path::new("")).to_owned();
        let at = self.at();
        self.sources.file(&directory.join(name), depth + 1).map_err(|error| format!("{at}: source: {error}"))
    }

    fn check_depth(&mut self, depth: usize) -> Result<(), String> {
        if depth > MAX_DEPTH { self.error(&format!("nested more than {MAX_DEPTH} deep")) } else { Ok(()) }
    }

    fn block(&mut self, kind: String, name: String, at: At, depth: usize) -> Result<Block, String> {
        self.check_depth(depth)?;
        let mut entries: Vec<(String, Value)> = Vec::new();
        loop {
            if self.take(b'}') {
                return Ok(Block { kind, name, at, entries });
            }
            if self.take(b',') {
                continue;
            }
            let Some(key) = self.text() else {
                return self.error(&format!("a key or `}}` should stand here, in the block `{kind}`"));
            };
            if !self.take(b'=') {
                return self.error(&format!("`=` should follow `{key}`"));
            }
            if entries.iter().any(|(known, _)| *known == key) {
                return self.error(&format!("`{key}` is set twice in the block `{kind}`"));
            }
            let value = self.value(depth)?;
            entries.push((key, value));
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        self.sources.values += 1;
        if self.sources.values > MAX_VALUES {
            return self.error(&format!("more than {MAX_VALUES} values"));
        }
        let at = self.at();
        if self.take(b'[') {
            return Ok(Value { kind: ValueKind::List(self.list(depth + 1)?), at });
        }
        let Some(text) = self.text() else { return self.error("a value should stand here") };
        if let Some(name) = text.strip_prefix("source ") {
            let mut blocks = self.source(name, depth)?;
            return match (blocks.pop(), blocks.is_empty()) {
                (Some(block), true) => Ok(Value { at, kind: ValueKind::Block(block) }),
                _ => Err(format!("{at}: source: {name} should hold exactly one block")),
            };
        }
        if self.take(b'{') {
            let (kind, name) = text.split_once(' ').unwrap_or((&text, ""));
            return Ok(Value { kind: ValueKind::Block(self.block(kind.to_owned(), name.to_owned(), at.clone(), depth + 1)?), at });
        }
        let kind = text.parse::<f64>().map_or_else(|_| ValueKind::Word(text), ValueKind::Number);
        Ok(Value { at, kind })
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Value>, String> {
        self.check_depth(depth)?;
        let mut values = Vec::new();
        loop {
            if self.take(b']') {
                return Ok(values);
            }
            if self.take(b',') {
                continue;
            }
            if self.next >= self.tokens.len() {
                return self.error("`]` is missing");
            }
            values.push(self.value(depth)?);
        }
    }
}
