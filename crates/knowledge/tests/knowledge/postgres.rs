//! A private PostgreSQL server for tests, with its own data folder and socket, removed with the test.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Timeout of the server's first answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Serialises changes of roles, which all databases of a server share: PostgreSQL refuses concurrent ones.
pub static ROLES: Mutex<()> = Mutex::new(());

pub struct Server {
    folder: TempDir,
    bin: PathBuf,
    /// Watchdog: ends the server when its standard input closes, which happens when this process ends.
    guard: Option<Child>,
    /// Whether the watchdog removes the folder, because the destructor of a static never runs.
    is_shared: bool,
    /// Additional options of the server.
    options: Vec<String>,
    /// TCP port; `None`: unix socket with the default port only.
    port: Option<u16>,
}

/// Folder of PostgreSQL's programs; `None` if not installed.
pub fn bin() -> Option<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::read_dir("/usr/lib/postgresql").ok()?.flatten().map(|entry| entry.path().join("bin")).collect();
    found.retain(|bin| bin.join("initdb").exists());
    found.sort();
    found.pop()
}

/// User that runs the server, by name and number: PostgreSQL refuses to run as root. `None` if that is the user of this process.
pub fn user() -> Option<(&'static str, u32)> {
    let number = |of: &[&str]| {
        let output = Command::new("id").args(of).output().ok().filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    if number(&["-u"])? == 0 { Some(("postgres", number(&["-u", "postgres"])?)) } else { None }
}

impl Server {
    /// Server shared by all tests of this process, one database per test; `None`, with a message, if PostgreSQL is not installed.
    pub fn shared() -> Option<&'static Server> {
        static SERVER: OnceLock<Option<Server>> = OnceLock::new();
        SERVER.get_or_init(|| Server::begin(true, |_| Vec::new())).as_ref()
    }

    /// Starts a server for one test, which may kill it; `None`, with a message, if PostgreSQL is not installed.
    pub fn start() -> Option<Server> {
        Server::begin(false, |_| Vec::new())
    }

    /// Starts a server that also listens on 127.0.0.1, with private files (name, contents) in its folder, and options in which `FOLDER` stands for that
    /// folder.
    pub fn listening(files: &[(&str, String)], options: &[&str]) -> Option<Server> {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Server::begin(false, |folder| {
            for (name, text) in files {
                let path = folder.join(name);
                fs::write(&path, text).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
                if let Some((_, number)) = user() {
                    chown(&path, Some(number), None).unwrap();
                }
            }
            let own = options.iter().map(|option| option.replace("FOLDER", folder.to_str().unwrap()));
            own.chain(["listen_addresses=127.0.0.1".to_owned(), format!("port={port}")]).collect()
        })
    }

    fn begin(is_shared: bool, options: impl FnOnce(&Path) -> Vec<String>) -> Option<Server> {
        let Some(bin) = bin() else {
            println!("skipped: no /usr/lib/postgresql/*/bin/initdb");
            return None;
        };
        let folder = tempfile::Builder::new().prefix("seekwise-pg-").tempdir().unwrap();
        if let Some((_, number)) = user() {
            chown(folder.path(), Some(number), None).unwrap();
        }
        let mut server = Server { folder, bin, guard: None, is_shared, options: Vec::new(), port: None };
        server.options = options(server.folder.path());
        server.port = server.options.iter().find_map(|option| option.strip_prefix("port=")?.parse().ok());
        let data = server.data();
        let made = server
            .as_user(&server.bin.join("initdb"))
            .args(["-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C", "-D"])
            .arg(&data)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        server.run();
        Some(server)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn as_user(&self, program: &Path) -> Command {
        let mut command = match user() {
            Some((name, _)) => {
                let mut command = Command::new("runuser");
                command.args(["-u", name, "--"]).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.current_dir("/");
        command
    }

    /// Starts the server process, also after a kill.
    pub fn run(&mut self) {
        self.end_guard();
        let began = Instant::now();
        loop {
            let script = "folder=$2; shared=$3; data=$1; shift 3; \"$0\" -D \"$data\" -k \"$folder\" -c listen_addresses= -c fsync=off -c max_connections=200 -c logging_collector=off \"$@\" >>\"$folder/log\" 2>&1 & \
                          pid=$!; cat >/dev/null; kill -INT $pid 2>/dev/null; wait $pid; [ -z \"$shared\" ] || rm -rf \"$folder\"";
            let mut command = self.as_user(Path::new("/bin/sh"));
            command.args(["-c", script]).arg(self.bin.join("postgres")).arg(self.data()).arg(self.folder.path());
            command.arg(if self.is_shared { "shared" } else { "" });
            command.args(self.options.iter().flat_map(|option| ["-c", option]));
            self.guard = Some(command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
            if self.answers_within(Duration::from_secs(10)) {
                return;
            }
            // Resources of a killed server may still be in use.
            self.end_guard();
            let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(began.elapsed() < PATIENCE, "the server does not start: {log}");
        }
    }

    #[allow(clippy::disallowed_methods, reason = "another program's readiness is waited for")]
    fn answers_within(&self, time: Duration) -> bool {
        let began = Instant::now();
        while began.elapsed() < time {
            let ready = Command::new(self.bin.join("pg_isready")).arg("-q").args(self.socket()).status().unwrap();
            if ready.success() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(30));
        }
        false
    }

    /// Kills the server without a shutdown, like a crash.
    pub fn kill(&mut self) {
        let pid = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        if let Some(pid) = pid.lines().next() {
            let _ = Command::new("kill").args(["-9", pid]).stderr(Stdio::null()).status();
        }
        self.end_guard();
    }

    fn end_guard(&mut self) {
        if let Some(mut guard) = self.guard.take() {
            drop(guard.stdin.take());
            let _ = guard.wait();
        }
    }

    /// Address of a database for a role.
    pub fn address(&self, role: &str, database: &str) -> PathBuf {
        let port = self.port.map_or_else(String::new, |port| format!("&port={port}"));
        PathBuf::from(format!("postgresql://{role}@/{database}?host={}{port}", self.folder.path().display()))
    }

    /// TCP port of the server.
    pub fn port(&self) -> u16 {
        self.port.unwrap()
    }

    /// Path of a file in its folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Text of its log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.file("log")).unwrap_or_default()
    }

    fn socket(&self) -> Vec<std::ffi::OsString> {
        let port = self.port.unwrap_or(5432).to_string();
        ["-h".into(), self.folder.path().into(), "-p".into(), port.into()].into()
    }

    /// Creates a database and returns its address for the superuser.
    pub fn database(&self, name: &str) -> PathBuf {
        self.sql("postgres", "postgres", &format!("CREATE DATABASE {name}")).unwrap();
        self.address("postgres", name)
    }

    /// Runs a statement; returns its result, one line per row, or the server's error message.
    pub fn sql(&self, role: &str, database: &str, statement: &str) -> Result<String, String> {
        let mut command = Command::new(self.bin.join("psql"));
        command.args(["-qAtX", "-v", "ON_ERROR_STOP=1", "-U", role]).args(self.socket()).args(["-c", statement, database]);
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end_guard();
    }
}
