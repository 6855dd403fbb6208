//! User interface shared by the programs: standard output, progress bars, Ctrl-C, exit codes, manual pages and completions.

mod bar;
mod exit_code;
#[cfg(feature = "manual")]
pub mod manual;
pub mod size;

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, mpsc};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use progress::Monitor;
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

/// Name of the program in messages.
static PROGRAM: OnceLock<&'static str> = OnceLock::new();

/// Set by the first signal; the second one terminates the program.
static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Handlers that terminate the program on the second signal.
static SHUTDOWNS: Mutex<Vec<SigId>> = Mutex::new(Vec::new());

/// A person waits this long for Ctrl-C to have an effect before pressing it again.
const ANSWERED_WITHIN: Duration = Duration::from_millis(600);
/// Interval at which [`InterruptDeadline`] looks for an interrupt.
const POLLED: Duration = Duration::from_millis(20);

use exit_code::INTERRUPTED_EXIT_CODE;

pub use bar::progress_bar;
pub use exit_code::{exit_code, message};
pub use progress::{Failed, Interrupted, Suspended};

/// Initialises a program with this name, which prefixes its messages. Ctrl-C, SIGTERM and SIGHUP request the work to stop; the second one
/// terminates the program immediately.
pub fn begin(program: &'static str) {
    PROGRAM.get_or_init(|| program);
    let mut shutdowns = SHUTDOWNS.lock().unwrap_or_else(PoisonError::into_inner);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // In this order, so that the first signal does not find the flag set. Without handlers Ctrl-C still terminates the program, only less
        // cleanly, so errors are ignored.
        shutdowns.extend(flag::register_conditional_shutdown(signal, INTERRUPTED_EXIT_CODE.into(), INTERRUPTED.clone()));
        let _ = flag::register(signal, INTERRUPTED.clone());
    }
}

/// Ends the program with the message and exit code of [`Interrupted`] if it still works `ANSWERED_WITHIN` after an interrupt. For work that
/// writes nothing before it is done and has parts that cannot be stopped, such as a controller's decision. Dropping the guard disarms it.
pub struct InterruptDeadline {
    _armed: mpsc::Sender<()>,
}

impl InterruptDeadline {
    /// Arms it.
    pub fn begin() -> InterruptDeadline {
        let (armed, disarmed) = mpsc::channel::<()>();
        std::thread::spawn(move || {
            let mut since: Option<Instant> = None;
            while disarmed.recv_timeout(POLLED) == Err(mpsc::RecvTimeoutError::Timeout) {
                if interrupted().load(Ordering::Relaxed) && since.get_or_insert_with(Instant::now).elapsed() >= ANSWERED_WITHIN {
                    eprint_line(&Interrupted.to_string());
                    std::process::exit(INTERRUPTED_EXIT_CODE.into());
                }
            }
        });
        InterruptDeadline { _armed: armed }
    }
}

/// Disables termination by repeated Ctrl-C and SIGTERM: the program exits when its work is done.
pub fn outlive_interrupts() {
    SHUTDOWNS.lock().unwrap_or_else(PoisonError::into_inner).drain(..).for_each(|shutdown| {
        low_level::unregister(shutdown);
    });
}

/// The flag that long-running work polls.
pub fn interrupted() -> &'static AtomicBool {
    &INTERRUPTED
}

/// Prints a line on standard error, prefixed with the program's name. Errors of writing are ignored, as they cannot be reported.
pub fn eprint_line(text: &str) {
    let program = PROGRAM.get().copied().unwrap_or("seekwise");
    let _ = writeln!(io::stderr(), "{program}: {}", report::printable(text));
}

/// Writes to standard output. A closed pipe is returned as an error, which [`exit_code`] treats as success.
///
/// # Errors
/// It cannot be written to.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// The width of standard output in characters, and whether to use colour (respects `NO_COLOR` and the like). The width is taken from
/// `COLUMNS`, else from the terminal; `None` if neither is known, as in a pipe.
pub fn style() -> (Option<usize>, bool) {
    let terminal = console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
    (asked_columns().or(terminal), terminal.is_some() && console::colors_enabled())
}

/// Rows and columns of the terminal on standard output; `None` in a pipe, and if the terminal does not support moving the cursor
/// (`TERM=dumb`).
pub fn screen() -> Option<(usize, usize)> {
    let is_dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
    let (rows, columns) = console::Term::stdout().size_checked().filter(|_| !is_dumb)?;
    Some((rows.into(), asked_columns().unwrap_or(columns.into())))
}

/// The value of `COLUMNS`; `None` if it is not a positive number.
fn asked_columns() -> Option<usize> {
    std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok()).filter(|&columns| columns > 0)
}

/// Shows progress on the terminal.
#[derive(Default)]
pub struct Terminal {
    bar: Mutex<Option<ProgressBar>>,
}

impl Terminal {
    fn with(&self, act: impl FnOnce(&mut Option<ProgressBar>)) {
        act(&mut self.bar.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Monitor for Terminal {
    fn begin(&self, total: u64, what: &str) {
        self.with(|bar| *bar = Some(progress_bar(total, what)));
    }

    fn progress(&self, done: u64) {
        self.with(|bar| bar.iter().for_each(|bar| bar.set_position(done)));
    }

    fn end(&self) {
        self.with(|bar| bar.take().iter().for_each(ProgressBar::finish_and_clear));
    }

    fn warn(&self, text: &str) {
        eprint_line(text);
    }

    fn stop(&self) -> &AtomicBool {
        interrupted()
    }
}
