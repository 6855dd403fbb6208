//! `seekwise-agent` under the real kernel: it monitors and tunes an emulated disk, and restores it after kills and interference.
//!
//! Needs root, /dev/fuse, loop devices, losetup and tracefs; skipped with a message otherwise. Only the device created here is
//! used.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

mod commands;
mod emulated;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use emulated::{Disk, Place, agent, can_run, signal, text, until};

impl Place {
    /// Starts the daemon for this device and waits until it answers.
    fn act(&self, device: &str) -> Daemon {
        self.act_with(&[device])
    }

    fn act_with(&self, arguments: &[&str]) -> Daemon {
        let log = fs::File::create(self.path("log")).unwrap();
        let mut command = self.command(&["act", "--journal", &self.path("journal")]);
        let mut child = command.args(arguments).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        until("the daemon answers", || {
            assert!(child.try_wait().unwrap().is_none(), "the daemon ended:\n{}", self.log());
            self.run(&["status"]).status.success()
        });
        Daemon { child }
    }

    fn status(&self) -> Value {
        let output = self.run(&["status", "--json"]);
        assert!(output.status.success(), "{}\n{}", text(&output.stderr), self.log());
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Text of the metrics.
    fn metrics(&self) -> String {
        let mut stream = UnixStream::connect(self.path("metrics.sock")).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

/// A running daemon; killed if a test fails.
struct Daemon {
    child: Child,
}

impl Daemon {
    fn applier(&self) -> u32 {
        let mut found = None;
        until("there is an applier", || {
            let path = format!("/proc/{0}/task/{0}/children", self.child.id());
            let direct = fs::read_to_string(path).unwrap_or_default();
            // A restarted process is the child of another thread.
            let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap().flatten();
            let of_tasks: String =
                tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok()).collect::<Vec<_>>().join(" ");
            found = format!("{direct} {of_tasks}").split_whitespace().next().map(|process| process.parse().unwrap());
            found.is_some()
        });
        found.unwrap()
    }

    fn end(mut self) {
        signal(self.child.id(), "-TERM");
        assert!(self.child.wait().unwrap().success());
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A controller that changes the scheduler every second, independently of the load.
const ROTATES: &str = "controller = \"rotate:window_ms=1000\"\ncandidates = [\"kernel\"]\nchanges_per_minute = 60\n";

#[test]
fn whoever_is_killed_or_interferes_the_disk_ends_as_it_should() {
    if !can_run(&[]) {
        return;
    }
    let mut disk = Disk::new();
    let place = Place::new(ROTATES);
    let (name, before, found) = (disk.name.clone(), disk.settings(), disk.scheduler());
    let is_as_before = |disk: &Disk| disk.settings() == before;
    let is_changed = |disk: &Disk| disk.scheduler() != found;

    watching_changes_nothing(&place, &disk);
    assert!(is_as_before(&disk), "watching changed something");

    let daemon = place.act(&name);
    until("something is set", || is_changed(&disk));
    until("requests are seen", || place.status()["devices"][0]["requests"].as_u64().unwrap() > 100);
    assert_eq!(place.status()["devices"][0]["state"], "tuned");
    assert!(place.metrics().contains(&format!("seekwise_changes_total{{device=\"{name}\",reason=\"controller\"}}")));
    daemon.end();
    assert!(is_as_before(&disk), "at the end everything is put back:\n{}{}", disk.differences(&before), place.log());

    let daemon = place.act(&name);
    until("something is set", || is_changed(&disk));
    daemon.kill();
    until("the applier puts everything back after the daemon was killed", || is_as_before(&disk));

    let daemon = place.act(&name);
    until("something is set", || is_changed(&disk));
    signal(daemon.applier(), "-KILL");
    until("another applier is started", || place.log().contains("starting another"));
    until("it goes on", || place.status()["devices"][0]["state"] == "tuned" && is_changed(&disk));
    daemon.end();
    assert!(is_as_before(&disk), "after another applier:\n{}{}", disk.differences(&before), place.log());

    let daemon = place.act(&name);
    until("something is set", || is_changed(&disk));
    let applier = daemon.applier();
    // Kill both at once: neither can react to the death of the other.
    signal(daemon.child.id(), "-STOP");
    signal(applier, "-KILL");
    daemon.kill();
    assert!(is_changed(&disk), "nobody could put it back");
    let restored = place.run(&["restore", "--journal", &place.path("journal")]);
    assert!(restored.status.success(), "{}", text(&restored.stderr));
    assert!(is_as_before(&disk), "{}{}{}", disk.differences(&before), text(&restored.stdout), text(&restored.stderr));

    // Without traced requests another controller is used, whose first decision takes longer than a test.
    let daemon = place.act_with(&[&name, "--counters"]);
    until("requests are counted", || place.status()["devices"][0]["requests"].as_u64().unwrap() > 100);
    let status = place.status();
    assert_eq!(status["devices"][0]["state"], "tuned", "{status}");
    assert!(status["devices"][0]["blind"].as_str().unwrap().contains("counters alone"), "{status}");
    daemon.end();
    assert!(is_as_before(&disk), "by counters:\n{}{}", disk.differences(&before), place.log());

    a_rival_wins(&place, &disk);

    let daemon = place.act(&name);
    until("it is watched", || place.status()["devices"][0]["device"] == name.as_str());
    disk.pull_out();
    until("it notices that the disk is gone", || place.status()["devices"].as_array().unwrap().is_empty());
    daemon.end();
    let history = place.run(&["history", "--device", &name]);
    assert!(text(&history.stdout).contains("no longer monitored"), "{}", text(&history.stdout));
}

fn watching_changes_nothing(place: &Place, disk: &Disk) {
    let output = place.run(&["watch", &disk.name, "--for", "4"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    for words in [format!("{} is watched by rotate", disk.name), format!("{}: would set ", disk.name), "requests traced".to_owned()]
    {
        assert!(said.contains(&words), "{words} is missing in\n{said}{}", text(&output.stderr));
    }
}

fn a_rival_wins(place: &Place, disk: &Disk) {
    let name = &disk.name;
    let daemon = place.act(name);
    until("something is set", || disk.scheduler() != "none");
    until("the rival writes a missing attribute", || {
        let other = if disk.scheduler() == "kyber" { "bfq" } else { "kyber" };
        fs::write(disk.queue().join("scheduler"), other).unwrap();
        std::thread::sleep(Duration::from_millis(1500));
        place.status()["devices"][0]["state"] == "stood down"
    });
    let theirs = disk.scheduler();
    let verified = place.run(&["verify"]);
    assert_eq!(verified.status.code(), Some(1), "{}{}", text(&verified.stdout), text(&verified.stderr));
    let said = text(&verified.stdout);
    assert!(said.contains(&format!("scheduler is {theirs}, and the agent had set")), "{said}");
    assert!(text(&place.run(&["status"]).stdout).contains(&format!("`seekwise-agent resume {name}`")));
    assert!(place.metrics().contains(&format!("seekwise_conflicts_total{{device=\"{name}\"}} 1")));
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(disk.scheduler(), theirs, "external changes stay");
    let resumed = place.run(&["resume", name]);
    assert!(resumed.status.success(), "{}", text(&resumed.stderr));
    until("it tunes again", || disk.scheduler() != theirs);
    daemon.end();
    assert_eq!(disk.scheduler(), theirs, "the values at resume are the originals now");
}

/// A client of the applier, with the protocol that a daemon speaks.
struct TakenOver(BufReader<UnixStream>);

impl TakenOver {
    fn new(socket: &str) -> TakenOver {
        let mut stream = None;
        until("the applier listens", || {
            stream = UnixStream::connect(socket).ok();
            stream.is_some()
        });
        TakenOver(BufReader::new(stream.unwrap()))
    }

    fn ask(&mut self, request: &Value) -> String {
        self.0.get_mut().write_all(format!("{request}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        self.0.read_line(&mut answer).unwrap();
        answer
    }
}

/// A daemon that was taken over sets something, claims that the administrator changed it, resumes, wants it to stay, and tells root that
/// nothing is to be restored.
#[test]
fn whatever_a_daemon_claims_restore_restores() {
    if !can_run(&[]) {
        return;
    }
    let disk = Disk::new();
    let (place, before, name) = (Place::new(""), disk.settings(), disk.name.as_str());
    let options =
        [["--socket", &place.path("applier.sock")], ["--journal", &place.path("journal")], ["--config", &place.path("agent.toml")]];
    let mut command = Command::new(emulated::applier());
    let mut applier = command.args(options.concat()).stderr(Stdio::null()).spawn().unwrap();
    let mut client = TakenOver::new(&place.path("applier.sock"));
    let set = json!({"set": {"device": name, "values": [["read_ahead_kb", "0"]], "why": "evil"}});
    for request in [
        set,
        json!({"release": {"device": name, "changed": [["read_ahead_kb", "77"]]}}),
        json!({"resume": {"device": name}}),
        json!({"at_exit": {"device": name, "policy": "keep"}}),
    ] {
        client.ask(&request);
    }
    assert!(disk.differences(&before).contains("read_ahead_kb"), "it was set");
    let daemon = UnixListener::bind(place.path("agent.sock")).unwrap();
    for (claim, said) in
        [("{\"done\":[]}", "The daemon had left:"), ("{\"refused\":\"I may not\"}", "(I may not)"), ("", "did not restore")]
    {
        let restored = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut root, _) = daemon.accept().unwrap();
                BufReader::new(&root).read_line(&mut String::new()).unwrap();
                root.write_all(format!("{claim}\n").as_bytes()).unwrap();
            });
            place.run(&["restore", "--journal", &place.path("journal")])
        });
        assert!(
            restored.status.success() && text(&restored.stdout).contains(said),
            "{}{}",
            text(&restored.stdout),
            text(&restored.stderr)
        );
        assert!(disk.settings() == before, "{}", disk.differences(&before));
        client.ask(&json!({"set": {"device": name, "values": [["read_ahead_kb", "0"]], "why": "evil"}}));
    }
    signal(applier.id(), "-TERM");
    assert!(applier.wait().unwrap().success());
    assert!(disk.settings() == before, "keeping was the client's wish alone: {}", disk.differences(&before));
}

/// Connects as fast as it can as user 65534 on 16 threads until it is killed, asks, and does not wait for a reply.
const FLOOD: &str = r#"
import os, socket, sys, threading, time
os.setgroups([]); os.setgid(65534); os.setuid(65534)
end = time.monotonic() + float(sys.argv[2])
def flood():
    while time.monotonic() < end:
        try:
            with socket.socket(socket.AF_UNIX) as stream:
                stream.connect(sys.argv[1]); stream.sendall(b'"verify"\n')
        except OSError:
            pass
threads = [threading.Thread(target=flood) for _ in range(16)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
"#;

#[test]
fn a_flood_of_an_unprivileged_user_keeps_root_from_nothing() {
    if !can_run(&[(Command::new("python3").arg("--version").output().is_err(), "python3")]) {
        return;
    }
    let disk = Disk::new();
    let place = Place::new(ROTATES);
    let (before, found) = (disk.settings(), disk.scheduler());
    let daemon = place.act(&disk.name);
    fs::set_permissions(Path::new(&place.path("")), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    until("something is set", || disk.scheduler() != found);
    let mut flood = Command::new("python3").args(["-c", FLOOD, &place.path("agent.sock"), "60"]).spawn().unwrap();
    let threads = || fs::read_dir(format!("/proc/{}/task", daemon.child.id())).unwrap().count();
    std::thread::sleep(Duration::from_secs(1));
    let mut times: Vec<Duration> = Vec::new();
    let mut most = 0;
    while times.len() < 10 {
        let begin = std::time::Instant::now();
        place.status();
        times.push(begin.elapsed());
        most = most.max(threads());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(matches!(flood.try_wait(), Ok(None)), "the flood lasts");
    let restored = place.run(&["restore"]);
    assert!(restored.status.success() && disk.settings() == before, "{}{}", text(&restored.stderr), disk.differences(&before));
    flood.kill().unwrap();
    flood.wait().unwrap();
    times.sort();
    eprintln!("root's status took {:?} in the median and {:?} at most; {most} threads", times[5], times[9]);
    // The busy machine that runs many tests at once takes its share of this.
    assert!(times[5] < Duration::from_millis(500), "{times:?}");
    // Sixteen of each kind of client, and the daemon's own.
    assert!(most <= 16 + 16 + 8, "{most} threads");
    daemon.end();
}

#[test]
fn what_is_wrong_on_the_command_line_or_in_the_configuration_is_refused() {
    let refused = |arguments: &[&str], config: &str| {
        let place = Place::new(config);
        let output = place.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty());
        text(&output.stderr)
    };
    assert!(refused(&["watch", "no-such-disk"], "").contains("no-such-disk: is no block device; there are"));
    assert!(refused(&["status"], "mod = 1\n").contains("agent.toml:5: mod: there is no such key; did you mean mode?"));
    assert!(refused(&["advise", "/dev/no-such-disk", "--for", "9"], "").contains("has moved: it is `seekwise advise` now"));
    assert!(refused(&["watch", "--for", "0"], "").contains("--for"));
    let place = Place::new("");
    for arguments in [&["status"][..], &["verify"], &["resume", "x"]] {
        let output = place.run(arguments);
        let code = if arguments[0] == "resume" { 2 } else { 1 };
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
    }
    assert!(text(&place.run(&["status"]).stderr).contains("no daemon is running"));
    assert!(text(&place.run(&["history"]).stdout).contains("The history is empty."));
    let unknown = place.run(&["explain", "sda-00000000"]);
    assert!(text(&unknown.stderr).contains("sda-00000000: no such recommendation or history entry"));
}

#[test]
fn a_journal_of_garbage_is_named_kept_and_harms_nothing() {
    let place = Place::new("");
    let journal = Path::new(&place.path("journal")).to_owned();
    fs::create_dir(&journal).unwrap();
    fs::set_permissions(&journal, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let device = fs::read_dir("/sys/block").unwrap().next().unwrap().unwrap().file_name().into_string().unwrap();
    fs::write(journal.join(format!("{device}.journal")), b"\xff\x00garbage\n{}\n").unwrap();
    let restored = place.run(&["restore", "--journal", &place.path("journal")]);
    assert_eq!(restored.status.code(), Some(1), "{}", text(&restored.stdout));
    let said = text(&restored.stderr);
    let copy = format!("a copy is in {}/{device}.damaged-1", place.path("journal"));
    assert!(said.contains(&format!("{device}.journal line 1: ")) && said.contains(&copy), "{said}");
}

#[test]
fn manual_pages_and_completions_leave_out_what_is_hidden() {
    let folder = tempfile::tempdir().unwrap();
    let status = Command::new(agent()).args(["man", "--output"]).arg(folder.path()).status().unwrap();
    assert!(status.success());
    assert!(folder.path().join("seekwise-agent.1").exists() && folder.path().join("seekwise-agent-restore.1").exists());
    assert!(!folder.path().join("seekwise-agent-applier.1").exists() && !folder.path().join("seekwise-agent-advise.1").exists());
    let page = fs::read_to_string(folder.path().join("seekwise-agent-watch.1")).unwrap();
    assert!(page.contains(".TH SEEKWISE-AGENT-WATCH 1") && page.contains("\\-\\-counters"), "{page}");
    let completions = Command::new(agent()).args(["completions", "bash"]).output().unwrap();
    assert!(text(&completions.stdout).contains("_seekwise-agent") || text(&completions.stdout).contains("_seekwise__agent"));
}

#[test]
fn the_commands_of_the_administrators_page_are_the_programs() {
    let shown = commands::of("docs/guide/administrator.md");
    let commands: Vec<Vec<&str>> = shown.iter().map(|shown| shown.command.split_whitespace().collect()).collect();
    let ours: Vec<&Vec<&str>> = commands.iter().filter(|command| command[0] == "seekwise-agent").collect();
    assert!(ours.len() >= 9, "the page shows only {} commands", ours.len());
    for command in ours {
        let help = Command::new(agent()).args([command[1], "--help"]).output().unwrap();
        assert!(help.status.success(), "there is no command {}", command[1]);
        let help = text(&help.stdout);
        let options = command.iter().filter(|word| word.starts_with("--"));
        options.for_each(|option| assert!(help.contains(option), "{command:?}: there is no option {option}"));
    }
    // Commands of the page that need neither root nor a disk.
    let place = Place::new("");
    for command in commands.iter().filter(|command| command[0] == "seekwise-agent") {
        let is_harmless = matches!(command[1..], ["configuration", ..] | ["history"]);
        if is_harmless {
            let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
            let output = place.command(&command[1..]).current_dir(root).output().unwrap();
            assert!(output.status.success() && !output.stdout.is_empty(), "{command:?}: {}", text(&output.stderr));
        }
    }
    for (command, file) in [("packaging/build-deb", "packaging/build-deb"), ("dpkg", "packaging/deb/postinst")] {
        assert!(commands.iter().any(|words| words[0] == command), "{command}");
        assert!(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(file).exists());
    }
    let units: Vec<&str> = commands.iter().filter(|words| words[0] == "systemctl").flatten().copied().collect();
    for unit in units.iter().filter(|word| word.contains('.')) {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd")).join(unit);
        assert!(path.exists(), "there is no unit {unit}");
    }
}
