//! The applier on a real kernel, with a private loop device. Tests are skipped with a message if none can be created.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use applier::attribute::{self, State};
use applier::sysfs::{RealFiles, Sysfs};
use applier::{self, Client, ErrorKind, Listen, Options, Scope};
use linux::events::{EventSource, Tracepoints};
use linux::topology::HotPlug;
use observe::Event;

/// A loop device over a sparse file, detached on drop.
struct Loop {
    name: String,
    folder: tempfile::TempDir,
    /// Original settings: a loop device keeps its settings when it is detached.
    found: State,
    turns: String,
}

impl Loop {
    /// Creates a loop device; `None`, with a message, if this is not possible.
    fn new() -> Option<Loop> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("disk");
        fs::File::create(&file).unwrap().set_len(256 << 20).unwrap();
        let made = Command::new("losetup").args(["--find", "--show"]).arg(&file).output();
        match made {
            Ok(made) if made.status.success() => {
                let name = String::from_utf8(made.stdout).unwrap().trim().strip_prefix("/dev/").unwrap().to_owned();
                let found = State::read(&RealFiles, &Sysfs::real(), &name).unwrap();
                let turns = fs::read_to_string(Sysfs::real().queue(&name).join("rotational")).unwrap();
                Some(Loop { name, folder, found, turns })
            }
            Ok(made) => skip(&String::from_utf8_lossy(&made.stderr)),
            Err(error) => skip(&error.to_string()),
        }
    }

    fn state(&self) -> State {
        State::read(&RealFiles, &Sysfs::real(), &self.name).unwrap()
    }

    fn echo(&self, value: &str, name: &str) {
        fs::write(Sysfs::real().queue(&self.name).join(name), value).unwrap();
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Starts an applier process and waits until it answers.
    fn applier(&self, through: &[&str]) -> Applier {
        let exe = std::env::current_exe().unwrap();
        let mut command = through.first().map_or_else(|| Command::new(&exe), Command::new);
        if !through.is_empty() {
            command.args(&through[1..]).arg(&exe);
        }
        let arguments = ["the_applier_as_a_process", "--exact", "--ignored", "--nocapture"];
        command.args(arguments).env(FOLDER, self.folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().unwrap();
        let applier = Applier { process };
        let began = Instant::now();
        // It answers after it has restored what an earlier one left.
        while Client::connect(&self.socket()).and_then(|mut client| client.originals(None)).is_err() {
            assert!(began.elapsed() < Duration::from_secs(30), "the applier does not answer");
            std::thread::sleep(Duration::from_millis(1));
        }
        applier
    }

    fn client(&self) -> Client {
        Client::connect(&self.socket()).unwrap()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let echo = |value: &str, name: &str| fs::write(Sysfs::real().queue(&self.name).join(name), value);
        let _ = echo(&self.turns, "rotational");
        for attribute in attribute::all() {
            let found = self.found.get(&attribute.name);
            if found != self.state().get(&attribute.name) {
                let _ = found.map(|found| echo(found, &attribute.name));
            }
        }
        let _ = Command::new("losetup").arg("--detach").arg(format!("/dev/{}", self.name)).status();
    }
}

fn skip<T>(why: &str) -> Option<T> {
    eprintln!("skipped: no loop device can be made here: {}", why.trim());
    None
}

const FOLDER: &str = "SEEKWISE_TEST_FOLDER";
const DEVICE: &str = "SEEKWISE_TEST_DEVICE";
/// The user whom the applier serves besides root.
const PERMITTED: u32 = 65_533;

/// A process that is killed on drop.
struct Applier {
    process: Child,
}

impl Applier {
    /// Kills it by SIGKILL.
    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Applier {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
#[ignore = "is a process of other tests"]
fn the_applier_as_a_process() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let (_stop, ends) = UnixStream::pair().unwrap();
    let (journal, listen) = (folder.join("journal"), Listen::At(folder.join("socket")));
    let options = Options { journal, listen, users: vec![PERMITTED], ..Options::new(OwnedFd::from(ends)) };
    applier::serve(options).unwrap();
}

#[test]
#[ignore = "is a process of other tests"]
fn a_client_as_a_process() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let socket = Path::new(&folder).join("socket");
    println!("answer: {}", Client::connect(&socket).unwrap().originals(None).unwrap_err());
    let _silent: Vec<UnixStream> = (0..4).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    println!("answer: {}", Client::connect(&socket).unwrap().originals(None).unwrap_err());
    println!("holding");
    let _ = std::io::stdin().read(&mut [0]);
}

/// Starts a program that was just copied. While another thread of this process starts one, that process has the copy open for writing.
fn spawned(command: &mut Command) -> Child {
    let began = Instant::now();
    loop {
        match command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy && began.elapsed() < Duration::from_secs(20) => {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return other.unwrap(),
        }
    }
}

/// The answers that a client as a process printed before it holds its connections.
fn answers_of(client: &mut Child) -> Vec<String> {
    let lines = BufReader::new(client.stdout.take().unwrap()).lines().map(Result::unwrap);
    lines.take_while(|line| !line.contains("holding")).filter(|line| line.contains("answer: ")).collect()
}

/// `"scheduler=bfq nomerges=2"`
fn pairs(text: &str) -> Vec<(String, String)> {
    let pair = |word: &str| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())).unwrap();
    text.split(' ').map(pair).collect()
}

const SETTINGS: &[&str] = &[
    "scheduler=bfq iosched/slice_idle=0 iosched/timeout_sync=500 read_ahead_kb=1024 nr_requests=64",
    "scheduler=kyber nr_requests=8 iosched/read_lat_nsec=5000000",
    "max_sectors_kb=256 nomerges=2 rq_affinity=2",
    "scheduler=none",
    "scheduler=mq-deadline iosched/fifo_batch=1 iosched/write_expire=1",
    "nr_requests=32 iosched/async_depth=5",
    "scheduler=bfq iosched/strict_guarantees=1 max_sectors_kb=1024",
];

/// The driver's queue depth, which sysfs does not show; `None` if debugfs cannot be mounted.
fn hidden_depth(device: &Loop) -> Option<String> {
    let place = tempfile::tempdir().unwrap();
    rustix::mount::mount("debugfs", place.path(), "debugfs", rustix::mount::MountFlags::empty(), None).ok()?;
    let text = fs::read_to_string(place.path().join("block").join(&device.name).join("hctx0/tags"));
    rustix::mount::unmount(place.path(), rustix::mount::UnmountFlags::empty()).unwrap();
    text.ok()?.lines().find_map(|line| line.strip_prefix("depth=").map(str::to_owned))
}

#[test]
fn a_real_kernels_settings_are_set_watched_and_put_back() {
    let Some(device) = Loop::new() else { return };
    for original in ["none", "mq-deadline", "bfq"] {
        device.echo(original, "scheduler");
        if original != "none" {
            device.echo("100", "nr_requests");
        }
        device.echo("96", "read_ahead_kb");
        let (before, depth) = (device.state(), hidden_depth(&device));
        let _applier = device.applier(&[]);
        let mut client = device.client();
        let can = client.can(&device.name).unwrap();
        assert_eq!(device.state(), before, "the proof changes nothing");
        assert_eq!(can.iter().filter(|can| can.refused.is_some()).count(), usize::from(original == "none"), "{can:#?}");
        for text in SETTINGS {
            let changed = client.set(Scope::Device(device.name.clone()), &pairs(text), "a test").unwrap();
            let foreign = client.foreign(&device.name).unwrap();
            assert!(foreign.is_empty(), "{original} {text}: {foreign:?}");
            let stall = changed.iter().find(|change| change.attribute == "scheduler").map(|change| change.stall_microseconds);
            assert!(stall.is_none_or(|stall| stall > 100), "{stall:?} for a switch");
        }
        let restored = client.restore(Some(&device.name)).unwrap();
        assert_eq!(device.state(), before, "{original}: {restored:#?}");
        assert_eq!(hidden_depth(&device), depth, "{original}");
    }
}

/// Applies writes to the fake and to the real kernel, and compares results and refusals.
const WRITES: &[&str] = &[
    "scheduler=mq-deadline",
    "nr_requests=2",
    "nr_requests=3000",
    "nr_requests=100",
    "iosched/write_expire=1",
    "iosched/read_expire=77",
    "iosched/async_depth=5",
    "nr_requests=64",
    "scheduler=mq-deadline",
    "read_ahead_kb=65",
    "max_sectors_kb=2",
    "max_sectors_kb=512",
    "read_ahead_kb=64",
    "max_sectors_kb=0",
    "nomerges=3",
    "wbt_lat_usec=-2",
    "wbt_lat_usec=-1",
    "wbt_lat_usec=7000",
    "scheduler=bfq",
    "iosched/timeout_sync=10",
    "iosched/low_latency=5",
    "iosched/back_seek_penalty=0",
    "iosched/slice_idle_us=1500",
    "iosched/slice_idle=0",
    "iosched/strict_guarantees=1",
    "wbt_lat_usec=0",
    "scheduler=kyber",
    "iosched/read_lat_nsec=5000000",
    "scheduler=cfq",
    "scheduler=none",
    "nr_requests=200",
];

#[test]
fn the_kernel_in_memory_has_the_manners_of_the_real_one() {
    let Some(device) = Loop::new() else { return };
    for (name, value) in
        [("scheduler", "none"), ("rotational", "0"), ("max_sectors_kb", "0"), ("nomerges", "0"), ("rq_affinity", "1")]
    {
        device.echo(value, name);
    }
    device.echo("128", "read_ahead_kb");
    device.echo("9000", "wbt_lat_usec");
    let before = device.state();
    let machine = support::kernel::Machine::new();
    let mut disk = support::kernel::Disk::new("", 1);
    (disk.tags, disk.tags_in_use) = (before.tags.unwrap(), before.tags.unwrap());
    (disk.max_hw_sectors_kb, disk.rotational, disk.read_ahead_kb) = (before.largest_request_kib.unwrap(), false, 128);
    machine.plug(disk);
    machine.echo("9000", "wbt_lat_usec");
    machine.echo("none", "scheduler");
    let (files, _) = machine.process(support::kernel::Fault::Nothing);
    for write in WRITES {
        let (name, value) = write.split_once('=').unwrap();
        let real = fs::write(Sysfs::real().queue(&device.name).join(name), value).is_ok();
        assert_eq!(machine.try_echo(value, name), real, "{write}: whether it is taken");
        let in_memory = State::read(&files, &Sysfs::real(), "sda").unwrap().values;
        assert_eq!(in_memory, device.state().values, "{write}");
    }
}

#[test]
fn killed_many_times_on_a_real_kernel_every_original_comes_back() {
    const KILLS: u64 = 40;
    let Some(device) = Loop::new() else { return };
    device.echo("mq-deadline", "scheduler");
    for (name, value) in
        [("nr_requests", "100"), ("iosched/fifo_batch", "7"), ("iosched/async_depth", "33"), ("read_ahead_kb", "96")]
    {
        device.echo(value, name);
    }
    let (before, depth) = (device.state(), hidden_depth(&device));
    let mut interrupted = 0;
    for number in 0..KILLS {
        let mut applier = device.applier(&[]);
        assert_eq!(device.state(), before, "after {number} kills");
        let mut client = device.client();
        let name = device.name.clone();
        let setting = std::thread::spawn(move || {
            SETTINGS.iter().cycle().find_map(|text| client.set(Scope::Device(name.clone()), &pairs(text), "a test").err())
        });
        // Spread over the duration of several settings, so that each kind of write is interrupted.
        std::thread::sleep(Duration::from_micros(number * 7919 % 150_000));
        applier.kill();
        interrupted += u64::from(device.state() != before);
        let error = setting.join().unwrap().unwrap();
        assert_eq!(error.kind, ErrorKind::Unreachable, "{error}");
    }
    let _last = device.applier(&[]);
    assert_eq!(device.state(), before);
    assert_eq!(hidden_depth(&device), depth);
    assert!(interrupted > KILLS / 2, "only {interrupted} kills left anything to put back");
}

#[test]
fn root_without_any_capability_is_enough() {
    let Some(device) = Loop::new() else { return };
    let setpriv = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"];
    if !Command::new("setpriv").arg("--version").output().is_ok_and(|done| done.status.success()) {
        return eprintln!("skipped: there is no setpriv");
    }
    let before = device.state();
    let _applier = device.applier(&setpriv);
    let mut client = device.client();
    client.can(&device.name).unwrap();
    client.set(Scope::Device(device.name.clone()), &pairs("scheduler=bfq read_ahead_kb=64"), "a test").unwrap();
    client.restore(None).unwrap();
    assert_eq!(device.state(), before);
}

#[test]
fn a_sandbox_that_makes_sysfs_read_only_is_found_out_at_once() {
    let Some(device) = Loop::new() else { return };
    let sandbox = ["unshare", "--mount", "sh", "-c", "mount -o remount,ro,bind /sys && exec \"$0\" \"$@\""];
    if !Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success()) {
        return eprintln!("skipped: no mount namespace can be made");
    }
    let before = device.state();
    let _applier = device.applier(&sandbox);
    let error = device.client().can(&device.name).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Forbidden);
    assert!(error.message.contains("ProtectKernelTunables"), "{error}");
    let forbidden = device.client().set(Scope::Device(device.name.clone()), &pairs("nomerges=2"), "a test");
    assert_eq!(forbidden.unwrap_err().kind, ErrorKind::Forbidden);
    assert_eq!(device.state(), before);
}

#[test]
fn a_full_disk_under_the_journal_is_named_and_what_was_set_comes_back() {
    let Some(device) = Loop::new() else { return };
    if !Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success()) {
        return eprintln!("skipped: no mount namespace can be made");
    }
    fs::create_dir(device.folder.path().join("journal")).unwrap();
    let mount = format!("mount -t tmpfs -o size=16k,mode=700 tmpfs \"${FOLDER}/journal\" && exec \"$0\" \"$@\"");
    let before = device.state();
    let applier = device.applier(&["unshare", "--mount", "sh", "-c", &mount]);
    let mut client = device.client();
    client.set(Scope::Device(device.name.clone()), &pairs("scheduler=kyber"), "a test").unwrap();
    let set = device.state();
    // The applier's view.
    let journal = Path::new("/proc")
        .join(applier.process.id().to_string())
        .join("root")
        .join(device.folder.path().strip_prefix("/").unwrap());
    fs::write(journal.join("journal/filler"), vec![1; 64 << 10]).unwrap_err();
    let error = client.set(Scope::Device(device.name.clone()), &pairs("scheduler=bfq"), "a test").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Journal);
    assert!(error.message.contains("No space left on device"), "{error}");
    assert_eq!(device.state(), set, "nothing is half set");
    client.restore(None).unwrap();
    assert_eq!(device.state(), before);
}

#[test]
fn other_users_are_not_served() {
    let Some(device) = Loop::new() else { return };
    let _applier = device.applier(&[]);
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(device.folder.path(), open).unwrap();
    // A path that cannot be executed.
    let exe = device.folder.path().join("client");
    fs::copy(std::env::current_exe().unwrap(), &exe).unwrap();
    let mut client = Command::new(exe);
    client.args(["a_client_as_a_process", "--exact", "--ignored", "--nocapture"]).env(FOLDER, device.folder.path());
    let mut client = spawned(client.uid(65_534).gid(65_534));
    let answers = answers_of(&mut client);
    assert!(answers[0].contains("does not serve user 65534"), "{answers:?}");
    // It is closed before, while, or after the request is written.
    let is_closed = ["closed the connection", "reset", "Broken pipe"].iter().any(|why| answers[1].contains(why));
    assert!(is_closed, "four at a time: {answers:?}");
    device.client().originals(None).expect("root is served");
    client.kill().unwrap();
    client.wait().unwrap();
}

#[test]
fn the_kernel_says_when_a_device_comes() {
    let hot_plug = match HotPlug::listen() {
        Ok(hot_plug) => hot_plug,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let Some(_device) = Loop::new() else { return };
    let began = Instant::now();
    while !hot_plug.is_told() {
        assert!(began.elapsed() < Duration::from_secs(20), "nothing was said");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_trace_comes_through_the_socket_and_ends_with_the_connection() {
    let Some(device) = Loop::new() else { return };
    let mut applier = device.applier(&[]);
    let mut client = device.client();
    let lent = match client.tracepoints(&device.name) {
        Ok(lent) => lent,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let instances = || {
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let tracefs = mounts.lines().find(|line| line.contains(" tracefs ")).unwrap().split(' ').nth(1).unwrap();
        let names = fs::read_dir(Path::new(tracefs).join("instances")).unwrap();
        let own = format!("seekwise-{}-", applier.process.id());
        names.filter(|name| name.as_ref().unwrap().file_name().to_string_lossy().starts_with(&own)).count()
    };
    assert_eq!(instances(), 1);
    let devices = linux::topology::devices(&Sysfs::real()).unwrap();
    let found = devices.iter().find(|found| found.name == device.name).unwrap();
    let mut source = Tracepoints::of_pipes(&Sysfs::real(), found, lent.pipes, &lent.formats).unwrap();
    let read = ["bs=4k", "count=50", "iflag=direct", "of=/dev/null", "status=none"];
    assert!(Command::new("dd").arg(format!("if=/dev/{}", device.name)).args(read).status().unwrap().success());
    let mut events = Vec::new();
    let began = Instant::now();
    let completed = |events: &[Event]| events.iter().filter(|event| matches!(event, Event::Completed { .. })).count();
    while completed(&events) < 50 {
        assert!(began.elapsed() < Duration::from_secs(20), "{} of 50 requests were seen", completed(&events));
        source.read(&mut events).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(source);
    drop(client);
    let began = Instant::now();
    while instances() > 0 {
        assert!(began.elapsed() < Duration::from_secs(20), "the trace is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
    applier.kill();
}

/// A client that a taken-over daemon could be: as a permitted user it holds as many connections as it gets, and asks for more.
#[test]
#[ignore = "is a process of other tests"]
fn a_greedy_client_as_a_process() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let device = std::env::var(DEVICE).unwrap();
    let socket = Path::new(&folder).join("socket");
    let mut clients: Vec<Client> = (0..32).map(|_| Client::connect(&socket).unwrap()).collect();
    clients.iter_mut().for_each(|client| {
        client.originals(None).unwrap();
    });
    println!("answer: {:?}", Client::connect(&socket).and_then(|mut client| client.originals(None)).map_err(|error| error.kind));
    let greedy = &mut clients[0];
    for name in ["..", ".", "../../etc", "/dev/sda", ""] {
        println!("answer: {name:?}: {:?}", greedy.tracepoints(name).map(|_| ()).map_err(|error| error.kind));
    }
    if greedy.tracepoints(&device).is_ok() {
        let other = fs::read_dir("/sys/block").unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let other = other.into_iter().find(|name| *name != device).unwrap();
        println!("answer: second trace: {}", greedy.tracepoints(&other).map(|_| ()).unwrap_err());
    }
    let long = "x".repeat(300 << 10);
    println!("answer: long: {:?}", clients[1].set(Scope::Device(device), &[(long, String::new())], "").map_err(|error| error.kind));
    println!("holding");
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn a_client_that_takes_all_it_gets_is_bounded_and_keeps_root_from_nothing() {
    let Some(device) = Loop::new() else { return };
    let _applier = device.applier(&[]);
    fs::set_permissions(device.folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let exe = device.folder.path().join("client");
    fs::copy(std::env::current_exe().unwrap(), &exe).unwrap();
    let mut client = Command::new(exe);
    client.args(["a_greedy_client_as_a_process", "--exact", "--ignored", "--nocapture"]);
    client.env(FOLDER, device.folder.path()).env(DEVICE, &device.name).uid(PERMITTED).gid(PERMITTED);
    let mut client = spawned(&mut client);
    let lines = BufReader::new(client.stdout.take().unwrap()).lines().map(Result::unwrap);
    let answers: Vec<String> =
        lines.take_while(|line| !line.contains("holding")).filter(|line| line.contains("answer: ")).collect();
    let said = answers.join("\n");
    assert!(said.contains("answer: Err(Unreachable)"), "the 33rd connection is turned away:\n{said}");
    assert_eq!(answers.iter().filter(|line| line.contains("Ok(")).count(), 0, "{said}");
    assert_eq!(answers.iter().filter(|line| line.contains("answer: \"")).count(), 5, "{said}");
    assert!(said.contains("long: Err("), "{said}");
    if !said.contains("second trace: ") {
        eprintln!("skipped: the part with traces needs tracefs");
    } else {
        assert!(said.contains("open another connection for another device"), "{said}");
    }
    // Meanwhile root is served.
    let mut root = device.client();
    let before = device.state();
    root.set(Scope::Device(device.name.clone()), &pairs("read_ahead_kb=64"), "a test").unwrap();
    root.restore(None).unwrap();
    assert_eq!(device.state(), before);
    client.kill().unwrap();
    client.wait().unwrap();
}
