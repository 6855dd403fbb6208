//! Starts a private applier as a child process if none is running.

use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use applier::{ApplierError, Client, ErrorKind, PROGRAM};
use tracing::{info, warn};

/// Startup timeout: the applier first reads its journal, and may restore settings. Choice: a shorter one fails on a busy machine;
/// not varied.
const STARTS: Duration = Duration::from_secs(30);

/// Path of the program `seekwise-applier`, in the folder of the running program.
///
/// # Errors
/// It does not exist; the message has the path.
pub fn program() -> Result<PathBuf, ApplierError> {
    let missing = |message| ApplierError::new(ErrorKind::Unreachable, message);
    let own = std::env::current_exe().map_err(|error| missing(format!("cannot find this program's own file: {error}")))?;
    let path = own.with_file_name(PROGRAM);
    if path.is_file() {
        return Ok(path);
    }
    let folder = own.parent().map_or_else(String::new, |folder| folder.display().to_string());
    Err(missing(format!("{PROGRAM} is missing, which sets devices and puts everything back; it was looked for in {folder}")))
}

/// An applier as a child process. It is restarted if it is killed, because settings may have to be restored. When this is dropped or
/// its owner is killed, the applier's standard input closes, and the applier restores settings and exits.
pub struct OwnApplier {
    input: Arc<Mutex<Option<ChildStdin>>>,
    watches: Option<JoinHandle<()>>,
}

impl OwnApplier {
    /// Runs `command`, which must be `seekwise-applier --ends-with-stdin` with this socket, and waits until it listens.
    ///
    /// # Errors
    /// [`ErrorKind::Unreachable`]: it cannot be started, or exited.
    pub fn start(mut command: Command, socket: &Path) -> Result<OwnApplier, ApplierError> {
        let unreachable = |message: String| ApplierError::new(ErrorKind::Unreachable, message);
        command.stdin(Stdio::piped()).env_remove("NOTIFY_SOCKET");
        let program = command.get_program().to_string_lossy().into_owned();
        let cannot = |error| unreachable(format!("{program}: the applier cannot be started: {error}"));
        let mut child = command.spawn().map_err(cannot)?;
        let began = Instant::now();
        while Client::connect(socket).is_err() {
            if let Some(status) = child.try_wait().map_err(cannot)? {
                return Err(unreachable(format!("the applier ended at once ({status}); it said why")));
            }
            if began.elapsed() > STARTS {
                let _ = child.kill();
                return Err(unreachable(format!("{}: the applier does not listen", socket.display())));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        info!("started an applier of its own at {}", socket.display());
        let input = Arc::new(Mutex::new(child.stdin.take()));
        let shared = input.clone();
        let watch = move || watch_over(child, command, &shared);
        let watches = std::thread::Builder::new().name("applier".to_owned()).spawn(watch).map_err(cannot)?;
        Ok(OwnApplier { input, watches: Some(watches) })
    }
}

/// Waits for the child, and restarts it on an unexpected exit.
fn watch_over(mut child: Child, mut command: Command, input: &Mutex<Option<ChildStdin>>) {
    loop {
        let ended = child.wait();
        let mut input = input.lock().unwrap_or_else(PoisonError::into_inner);
        if input.is_none() {
            return;
        }
        let ended = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
        if !rustix::process::geteuid().is_root() {
            warn!(
                "the applier ended ({ended}), and this process may not start another; as root, `seekwise-agent restore` puts everything back"
            );
            return;
        }
        warn!("the applier ended ({ended}): starting another");
        match command.spawn() {
            Ok(another) => child = another,
            Err(error) => {
                warn!("the applier cannot be started: {error}");
                return;
            }
        }
        *input = child.stdin.take();
    }
}

impl Drop for OwnApplier {
    fn drop(&mut self) {
        drop(self.input.lock().unwrap_or_else(PoisonError::into_inner).take());
        // A panic was already printed.
        let _ = self.watches.take().map(JoinHandle::join);
    }
}
