//! Schedulers from shared libraries, written in C or any language with its calling convention: `include/seekwise_scheduler.h`.
//!
//! ```text
//! elevator.so ─▶ load: declaration checked ─▶ SchedulerSpec ─▶ one instance per queue ─▶ insert, pick, completed
//!                                                                     │ an answer that breaks a rule
//!                                                  violation ◀────────┘ from then on requests go in order of arrival
//! ```
//! A library runs in this process with all of its rights: load only libraries that you trust.

mod interface;
mod scheduler;

use std::ffi::{CStr, c_char};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use block::check_declaration;
use block::{SchedulerSpec, Tunable, Unit, find};
use libloading::Library;

use interface::{Declaration, VERSION};

/// Why a library cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be opened.
    #[error("{}: {source}", path.display())]
    Library {
        /// The library.
        path: PathBuf,
        /// The reason of the dynamic loader.
        source: libloading::Error,
    },
    /// Its declaration is missing or invalid.
    #[error("{}: {problem}", path.display())]
    Declaration {
        /// The library.
        path: PathBuf,
        /// The problem, and a valid alternative.
        problem: String,
    },
}

/// A loaded library. It is never unloaded: its scheduler lives as long as the process.
struct Loaded {
    spec: &'static SchedulerSpec,
    declaration: &'static Declaration,
    /// First broken rule of any of its instances.
    violation: OnceLock<String>,
}

static LOADED: Mutex<Vec<&Loaded>> = Mutex::new(Vec::new());

/// Maximum number of tunables: several times as many as any scheduler has, and few enough to read a declaration that is damaged.
const MAX_TUNABLES: usize = 64;

/// The tunable that identifies the library: a specification's constructor is a plain function.
const LIBRARY: &str = "library";

/// Loads a scheduler for the lifetime of the process; a library that is loaded already is not loaded again. Its first tunable, `library`, has one value; the others are those of the declaration.
///
/// # Errors
/// The library cannot be opened or its declaration is invalid: another version, a missing function, a name that is taken.
pub fn load(path: &Path) -> Result<&'static SchedulerSpec, LoadError> {
    let failed = |source| LoadError::Library { path: path.to_owned(), source };
    // Without a separator the dynamic loader would search the system's folders.
    let file = if path.components().count() == 1 { Path::new(".").join(path) } else { path.to_owned() };
    // SAFETY: the caller trusts the library, whose initialisers run here.
    let library = Box::leak(Box::new(unsafe { Library::new(file) }.map_err(failed)?));
    // SAFETY: a library that defines this symbol declares it as in `seekwise_scheduler.h`; it is never unloaded. The version is
    // checked before any other field is read.
    let symbol = unsafe { library.get::<*const Declaration>(b"seekwise_scheduler\0") };
    let wrong = |problem| LoadError::Declaration { path: path.to_owned(), problem };
    let symbol = symbol.map_err(|_| wrong("it does not define seekwise_scheduler".to_owned()))?;
    // SAFETY: as above; the symbol of an object is its address.
    let declaration = unsafe { &**symbol };
    declare(declaration).map_err(wrong)
}

fn declare(declaration: &'static Declaration) -> Result<&'static SchedulerSpec, String> {
    if declaration.version != VERSION {
        return Err(format!("its interface has version {}; {VERSION} is known", declaration.version));
    }
    let functions = [
        ("create", declaration.create.is_some()),
        ("destroy", declaration.destroy.is_some()),
        ("insert", declaration.insert.is_some()),
        ("pick", declaration.pick.is_some()),
        ("retune", declaration.retune.is_some() || declaration.tunable_count == 0),
    ];
    if let Some((missing, _)) = functions.iter().find(|(_, is_there)| !is_there) {
        return Err(format!("the function {missing} is missing"));
    }
    let (name, summary) = (text("name", declaration.name)?, text("summary", declaration.summary)?);
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    // The dynamic loader opens a file once.
    if let Some(same) = loaded.iter().find(|other| std::ptr::eq(other.declaration, declaration)) {
        return Ok(same.spec);
    }
    if find(name).is_some() || loaded.iter().any(|other| other.spec.name == name) {
        return Err(format!("there is a scheduler {name} already; choose another name"));
    }
    let number = loaded.len() as i64;
    let mut tunables = vec![Tunable::new(Unit::Count, number..=number, number).named(LIBRARY, "The number of the library.")];
    if declaration.tunable_count > 0 && declaration.tunables.is_null() {
        return Err("tunables is NULL, but tunable_count is not 0".to_owned());
    }
    if declaration.tunable_count > MAX_TUNABLES {
        return Err(format!("tunable_count is {}; a scheduler may have {MAX_TUNABLES} tunables", declaration.tunable_count));
    }
    for index in 0..declaration.tunable_count {
        // SAFETY: the declaration has this many tunables.
        let tunable = unsafe { &*declaration.tunables.add(index) };
        let (name, doc) = (text("the name of a tunable", tunable.name)?, text("the doc of a tunable", tunable.doc)?);
        tunables.push(Tunable::new(Unit::Count, tunable.min..=tunable.max, tunable.initial).named(name, doc));
    }
    let spec = SchedulerSpec {
        name,
        summary,
        source: "a shared library",
        tunables: Vec::leak(tunables),
        work_conserving: declaration.work_conserving != 0,
        starvation_bound: None,
        knowledge: None,
        build: scheduler::build,
    };
    check_declaration(&spec)?;
    let spec = Box::leak(Box::new(spec));
    loaded.push(Box::leak(Box::new(Loaded { spec, declaration, violation: OnceLock::new() })));
    Ok(spec)
}

/// A string of the declaration, which lives as long as its library.
fn text(what: &str, text: *const c_char) -> Result<&'static str, String> {
    if text.is_null() {
        return Err(format!("{what} is NULL"));
    }
    // SAFETY: strings of a declaration end with a zero byte and are never freed.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| format!("{what} is not UTF-8"))
}

/// The first rule of the interface that an instance of this scheduler broke; `None` if none did, or it is not from a library. After a
/// violation the instance is no longer called and its requests go in order of arrival, so check this after a run.
pub fn violation(spec: &SchedulerSpec) -> Option<String> {
    let loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let of = loaded.iter().find(|loaded| std::ptr::eq(loaded.spec, spec))?;
    of.violation.get().cloned()
}

/// Checks all loaded schedulers for a [`violation`].
///
/// # Errors
/// The name of the first that broke a rule, and the rule.
pub fn check_all() -> Result<(), String> {
    let loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let broken = loaded.iter().find_map(|loaded| Some(format!("{}: {}", loaded.spec.name, loaded.violation.get()?)));
    broken.map_or(Ok(()), Err)
}

/// Checks a scheduler against the rules for all schedulers (`block::conformance`) and those of the interface, with `cases` random scripts
/// of arrivals.
///
/// # Errors
/// The rule that was broken.
#[cfg(feature = "conformance")]
pub fn check(spec: &'static SchedulerSpec, cases: u32) -> Result<(), String> {
    let outcome = block::conformance::conforms(spec, cases);
    violation(spec).map_or(outcome, Err)
}

#[cfg(test)]
mod tests;
