//! `seekwise-applier`: serves requests to write settings until it is stopped, and then restores everything.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;

use applier::attribute;
use applier::cgroup::{self, Allowed};
use applier::log;
use applier::policy::{Policy, Sources};
use applier::sysfs::Sysfs;
use applier::{AtExit, Listen, MayKeep, Options, PROGRAM, Rules, serve};
use endpoint::notify::Notify;
use lexopt::{Arg, Parser, ValueExt as _};
use listenfd::ListenFd;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::User;

const HELP: &str = "\
Writes a closed list of settings of block devices for seekwise-agent, and puts them back when it ends

Usage: seekwise-applier [OPTIONS]

Options:
      --config <FILE>    Read this file and no other [default: /etc/seekwise/agent.toml and its drop-ins, else the vendor's]
      --socket <PATH>    Where to listen [default: the socket that systemd passes, else the configuration's]
      --journal <DIR>    Where the journal is [default: /var/lib/seekwise]
      --user <USER>      A user that is served besides root, by name or number; may be repeated
      --cgroup <NAME>    A unit or cgroup that may be limited besides those of the configuration; may be repeated
      --ends-with-stdin  End when standard input does: for a program that starts its own applier
      --quiet            Log only what fails
      --list             Print every file that it may write, with the range of its values, and end
  -h, --help             Print help
  -V, --version          Print version

Environment: SEEKWISE_LOG=off|error|warn|info|debug|trace [default: info]
Exit code: 0 when it was asked to stop, 1 if the system forbids something, 2 if the command line or the configuration is wrong
";

/// The command line.
#[derive(Debug)]
struct Arguments {
    config: Option<PathBuf>,
    socket: Option<PathBuf>,
    journal: PathBuf,
    users: Vec<String>,
    cgroups: Vec<String>,
    ends_with_stdin: bool,
    is_quiet: bool,
}

/// Why the program ends other than on request.
enum Failure {
    /// The command line, the environment or the configuration is wrong: exit code 2.
    Input(String),
    /// The system forbids something, or the journal cannot be used: exit code 1.
    Work(String),
}

fn main() -> ExitCode {
    let failure = match arguments(Parser::from_env()) {
        Ok(Asked::Text(text)) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Ok(Asked::Serve(arguments)) => run(&arguments),
        Err(error) => Err(Failure::Input(format!("{error}\nFor more information, try '--help'."))),
    };
    let (message, code) = match failure {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Input(message)) => (message, 2),
        Err(Failure::Work(message)) => (message, 1),
    };
    for line in message.lines() {
        eprintln!("{PROGRAM}: {}", endpoint::notify::printable(line));
    }
    ExitCode::from(code)
}

/// The action requested on the command line.
#[derive(Debug)]
enum Asked {
    Serve(Arguments),
    /// Print this text.
    Text(String),
}

fn arguments(mut parser: Parser) -> Result<Asked, lexopt::Error> {
    let journal = PathBuf::from("/var/lib/seekwise");
    let mut arguments = Arguments {
        config: None,
        socket: None,
        journal,
        users: Vec::new(),
        cgroups: Vec::new(),
        ends_with_stdin: false,
        is_quiet: false,
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("config") => arguments.config = Some(parser.value()?.into()),
            Arg::Long("socket") => arguments.socket = Some(parser.value()?.into()),
            Arg::Long("journal") => arguments.journal = parser.value()?.into(),
            Arg::Long("user") => arguments.users.push(parser.value()?.string()?),
            Arg::Long("cgroup") => arguments.cgroups.push(parser.value()?.string()?),
            Arg::Long("ends-with-stdin") => arguments.ends_with_stdin = true,
            Arg::Long("quiet") => arguments.is_quiet = true,
            Arg::Long("list") => return Ok(Asked::Text(list())),
            Arg::Long("help") | Arg::Short('h') => return Ok(Asked::Text(HELP.to_owned())),
            Arg::Long("version") | Arg::Short('V') => {
                return Ok(Asked::Text(format!("{PROGRAM} {}\n", env!("CARGO_PKG_VERSION"))));
            }
            _ => return Err(argument.unexpected()),
        }
    }
    Ok(Asked::Serve(arguments))
}

/// All files that may be written, one a line: the path, a tab, and the values. `*` stands for any device, `**` for the path of a cgroup.
fn list() -> String {
    let mut text = String::new();
    for attribute in attribute::all() {
        let path = match attribute.name.strip_prefix(attribute::MACHINE_PREFIX) {
            Some(name) => format!("/proc/sys/vm/{name}"),
            None => format!("/sys/block/*/queue/{}", attribute.name),
        };
        let values = attribute.range().map_or_else(
            || "a scheduler that the device offers".to_owned(),
            |(min, max)| {
                format!("{min} to {max}{}", attribute.scheduler().map_or_else(String::new, |owner| format!(", under {owner}")))
            },
        );
        text += &format!("{path}\t{values}\n");
    }
    for name in cgroup::attribute_names() {
        text += &format!("/sys/fs/cgroup/**/{name}\tthe line of one device, of a cgroup that is named\n");
    }
    text
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    log::open().map_err(Failure::Input)?;
    // Before there is a second thread, so that all threads have the signals blocked.
    let stop = stop(arguments.ends_with_stdin).map_err(|error| Failure::Work(format!("cannot wait for signals: {error}")))?;
    let sources = arguments.config.clone().map_or_else(|| Sources::Below(PathBuf::from("/")), Sources::Only);
    let policy = Policy::load(&sources).map_err(Failure::Input)?;
    let users = arguments.users.iter().map(|user| number(user)).collect::<Result<Vec<u32>, String>>().map_err(Failure::Input)?;
    let mut cgroups = policy.cgroups;
    for name in &arguments.cgroups {
        Allowed::check(name).map_err(|reason| Failure::Input(format!("--cgroup {name}: {reason}")))?;
        cgroups.names.push(name.clone());
    }
    let may_keep = MayKeep::by(move |device| {
        let policy = Policy::load(&sources)?;
        Ok(policy.exits.of(&Sysfs::real(), device) == AtExit::Keep)
    });
    let passed = ListenFd::from_env().take_unix_listener(0);
    let passed = passed.map_err(|error| Failure::Input(format!("the socket that systemd passes: {error}")))?;
    let listen = match (passed, &arguments.socket) {
        (Some(listener), None) => Listen::On(listener),
        (_, socket) => Listen::At(socket.clone().unwrap_or(policy.socket)),
    };
    let options = Options {
        journal: arguments.journal.clone(),
        listen,
        users,
        rules: Rules { machine: policy.may_touch_machine, cgroups, may_keep, ..Rules::default() },
        log: if arguments.is_quiet { |_| {} } else { log::info },
        details: log::debug,
        ..Options::new(stop)
    };
    let notify = Notify::from_environment().map_err(|error| Failure::Input(format!("NOTIFY_SOCKET: {error}")))?;
    notify.ready("ready to apply settings for seekwise-agent");
    serve(options).map_err(|error| Failure::Work(error.to_string()))?;
    notify.stopping();
    Ok(())
}

/// A descriptor that becomes readable or is closed when the program should end: standard input, or a signalfd for Ctrl-C and SIGTERM. No
/// signal ends the process directly, as everything is restored first.
fn stop(ends_with_stdin: bool) -> std::io::Result<OwnedFd> {
    let mut signals = SigSet::empty();
    [Signal::SIGTERM, Signal::SIGINT].into_iter().for_each(|signal| signals.add(signal));
    let mut blocked = signals;
    blocked.add(Signal::SIGHUP);
    blocked.thread_block()?;
    if ends_with_stdin {
        return std::io::stdin().as_fd().try_clone_to_owned();
    }
    SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC)?.as_fd().try_clone_to_owned()
}

/// The id of a user.
fn number(user: &str) -> Result<u32, String> {
    if let Ok(number) = user.parse() {
        return Ok(number);
    }
    let found = User::from_name(user).map_err(|error| format!("--user {user}: {error}"))?;
    Ok(found.ok_or_else(|| format!("--user {user}: there is no such user"))?.uid.as_raw())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    fn parsed(line: &str) -> Result<Asked, String> {
        arguments(Parser::from_args(line.split_whitespace())).map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_read_and_unknown_ones_are_refused_by_name() {
        let Ok(Asked::Serve(read)) = parsed("--user 12 --user=root --journal /j --quiet") else { panic!("not read") };
        assert_eq!((read.users, read.journal, read.is_quiet), (vec!["12".to_owned(), "root".to_owned()], "/j".into(), true));
        assert!(read.socket.is_none() && read.config.is_none() && !read.ends_with_stdin);
        assert!(parsed("--sokcet /s").unwrap_err().contains("--sokcet"));
        assert!(parsed("device").unwrap_err().contains("device"));
        assert!(parsed("--socket").unwrap_err().contains("--socket"));
    }

    #[test]
    fn the_list_has_every_file_once_and_no_other() {
        let Ok(Asked::Text(list)) = parsed("--list") else { panic!("no list") };
        let mut paths: Vec<&str> = list.lines().filter_map(|line| line.split('\t').next()).collect();
        assert_eq!(paths.len(), attribute::all().len() + cgroup::attribute_names().count());
        for path in ["/sys/block/*/queue/iosched/slice_idle", "/proc/sys/vm/swappiness", "/sys/fs/cgroup/**/io.max"] {
            assert!(paths.contains(&path), "{path}");
        }
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), list.lines().count(), "a file is listed twice");
    }

    #[test]
    fn help_names_every_option() {
        let Ok(Asked::Text(help)) = parsed("--help") else { panic!("no help") };
        for option in
            ["--config", "--socket", "--journal", "--user", "--cgroup", "--ends-with-stdin", "--quiet", "--list", "--version"]
        {
            assert!(help.contains(option), "{option}");
        }
        assert!(number("nobody-is-called-so").unwrap_err().contains("no such user") && number("7") == Ok(7));
    }
}
