//! The block server with common clients: libnbd, QEMU and fio. Tests of clients that are not installed are skipped with a message.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

#[path = "serve/doors.rs"]
mod doors;
#[path = "serve/machine.rs"]
mod machine;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

#[path = "serve/client.rs"]
mod client;
#[path = "serve/crash.rs"]
mod crash;
#[path = "serve/disk.rs"]
mod disk;
#[path = "serve/faults.rs"]
mod faults;
#[path = "serve/moves.rs"]
mod moves;
#[path = "serve/space.rs"]
mod space;
#[path = "serve/stores.rs"]
mod stores;
#[path = "serve/tuning.rs"]
mod tuning;
#[path = "serve/verdicts.rs"]
mod verdicts;

const PROGRAM: &str = env!("CARGO_BIN_EXE_seekwise-serve");

/// A running server in a temporary folder.
struct Served {
    folder: tempfile::TempDir,
    server: Option<Child>,
}

impl Served {
    /// Starts a server with these stores in its configuration.
    fn new(stores: &str) -> Served {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let text = format!(
            "catalog = '{}'\ncontrol = '{}'\n{}\n[[listen]]\nunix = '{}'\n",
            at("serve.db"),
            at("control"),
            stores.replace("FOLDER", &folder.path().display().to_string()),
            at("nbd")
        );
        std::fs::write(folder.path().join("serve.toml"), text).unwrap();
        for (store, size) in [("store", 2 << 30), ("store-2", 2 << 30), ("small-1", 256 << 20), ("small-2", 256 << 20)] {
            std::fs::File::create(folder.path().join(store)).unwrap().set_len(size).unwrap();
        }
        let mut served = Served { folder, server: None };
        served.start();
        served
    }

    fn file(scheduler: &str) -> Served {
        Served::new(&format!("[[store]]\nname = 'main'\npath = 'FOLDER/store'\nscheduler = '{scheduler}'\n"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start(&mut self) {
        self.start_by(&[]);
    }

    /// By another program, whose arguments it is.
    fn start_by(&mut self, starter: &[&str]) {
        self.try_start_by(starter).unwrap_or_else(|(_, said)| panic!("the server ended: {said}"));
    }

    /// As above; an error is the exit code and the output of a server that ended.
    fn try_start_by(&mut self, starter: &[&str]) -> Result<(), (Option<i32>, String)> {
        let config = self.path("serve.toml");
        let mut words = starter.iter().copied().chain([PROGRAM]);
        let mut command = Command::new(words.next().unwrap());
        let server = command.args(words).arg("--config").arg(config).stderr(Stdio::piped()).stdin(Stdio::null()).spawn();
        let mut server = server.unwrap();
        let mut said = String::new();
        let mut lines = BufReader::new(server.stderr.take().unwrap());
        while !said.contains("ready") {
            if lines.read_line(&mut said).unwrap() == 0 {
                return Err((server.wait().unwrap().code(), said));
            }
        }
        // Drain its output, so that it never blocks.
        std::thread::spawn(move || lines.read_to_string(&mut String::new()));
        self.server = Some(server);
        Ok(())
    }

    fn kill(&mut self) {
        let mut server = self.server.take().unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
    }

    /// Stops it by a signal, as a user would.
    fn end(&mut self) -> std::process::ExitStatus {
        let mut server = self.server.take().unwrap();
        let kill = Command::new("kill").arg(server.id().to_string()).status().unwrap();
        assert!(kill.success());
        server.wait().unwrap()
    }

    fn volume(&self, arguments: &[&str]) -> Output {
        Command::new(PROGRAM).arg("volume").args(arguments).arg("--control").arg(self.path("control")).output().unwrap()
    }

    fn does(&self, arguments: &[&str]) {
        let output = self.volume(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn refuses(&self, arguments: &[&str], reason: &str) {
        let output = self.volume(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(reason), "{arguments:?}: {said}");
    }

    fn status(&self, volume: &str) -> Value {
        let output = self.volume(&["status", "--json"]);
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        let volumes = status["volumes"].as_array().unwrap();
        volumes.iter().find(|it| it["name"] == volume).cloned().unwrap_or(Value::Null)
    }

    /// Name of the I/O engine of the first store.
    fn engine(&self) -> String {
        let status: Value = serde_json::from_slice(&self.volume(&["status", "--json"]).stdout).unwrap();
        status["stores"][0]["engine"].as_str().unwrap().to_owned()
    }

    fn uri(&self, volume: &str) -> String {
        format!("nbd+unix:///{volume}?socket={}", self.path("nbd").display())
    }

    /// Runs qemu-io on a volume; the error is its message.
    fn qemu(&self, volume: &str, commands: &[&str]) -> Result<(), String> {
        let mut qemu = Command::new("qemu-io");
        qemu.args(["-f", "raw"]);
        commands.iter().for_each(|command| {
            qemu.args(["-c", command]);
        });
        let output = qemu.arg(self.uri(volume)).output().unwrap();
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        let fails = !output.status.success() || said.contains("failed") || said.contains("verification");
        if fails { Err(said) } else { Ok(()) }
    }
}

impl Served {
    /// Waits until the server has noticed that a client has disconnected.
    fn wait_until_closed(&self, volume: &str) {
        self.wait_until_closed_but(volume, 0);
    }

    /// As above, while other clients stay connected.
    fn wait_until_closed_but(&self, volume: &str, staying: u64) {
        let until = Instant::now() + Duration::from_secs(20);
        while self.status(volume)["clients"] != staying {
            assert!(Instant::now() < until, "the client stays: {}", self.status(volume));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Issues concurrent 4 KiB reads across a volume of 16 GiB; returns the time of the last completion.
    fn reads_at_random(&self, volume: &str, count: u64) -> std::thread::JoinHandle<Instant> {
        let mut qemu = Command::new("qemu-io");
        qemu.args(["-f", "raw"]);
        for number in 0..count {
            qemu.args(["-c", &format!("aio_read -q {} 4k", number * 7919 % 65_521 * (256 << 10))]);
        }
        qemu.args(["-c", "aio_flush"]).arg(self.uri(volume)).stdout(Stdio::null()).stderr(Stdio::null());
        std::thread::spawn(move || {
            assert!(qemu.status().unwrap().success());
            Instant::now()
        })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// Root folder of the project.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Whether a program is installed.
fn has(client: &str) -> bool {
    let found = Command::new(client).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("skipped: needs {client} (apt-get install qemu-utils qemu-system-x86 libnbd-bin fio)");
    }
    found
}

#[test]
fn what_a_client_writes_is_there_after_the_server_was_ended_and_after_it_was_killed() {
    if !has("qemu-io") {
        return;
    }
    let mut served = Served::file("youchoose");
    served.does(&["create", "a", "--size", "512M"]);
    served.does(&["create", "b", "--size", "512M", "--promise", "weight = 3", "--promise", "reservation_iops = 10"]);
    served.qemu("a", &["write -P 7 60M 10M", "read -P 7 60M 10M", "read -P 0 0 60M", "write -z 62M 64k"]).unwrap();
    served.qemu("b", &["read -P 0 0 512M", "write -f -P 9 130M 1M"]).unwrap();
    assert!(served.end().success());
    assert!(!served.path("nbd").exists(), "the socket is removed");
    served.start();
    served.qemu("a", &["read -P 7 60M 2M", "read -P 0 62M 64k", "read -P 7 63M 7M", "discard 63M 1M", "read -P 0 63M 1M"]).unwrap();
    for round in 1..=8 {
        served.qemu("b", &[&format!("write -f -P {round} {round}M 3M"), &format!("write -P {round} 200M 64k"), "flush"]).unwrap();
        served.kill();
        served.start();
        served
            .qemu("b", &["read -P 9 130M 1M", &format!("read -P {round} {round}M 3M"), &format!("read -P {round} 200M 64k")])
            .unwrap();
    }
    assert!(["io_uring", "threads"].contains(&served.engine().as_str()), "{}", served.engine());
    let status = served.status("b");
    assert_eq!(
        (&status["allocated_bytes"], &status["contract"]),
        (&Value::from(3_u64 << 26), &"weight = 3\nreservation_iops = 10".into())
    );
}

#[test]
fn requests_under_way_are_answered_before_the_server_ends() {
    let mut served = Served::new("[[store]]\nname = 'disk'\nemulated = 'sata7200'\nscheduler = 'none'\n");
    served.does(&["create", "a", "--size", "16G", "--thick"]);
    assert_eq!(served.engine(), "memory");
    let mut client = UnixStream::connect(served.path("nbd")).unwrap();
    client.read_exact(&mut [0; 18]).unwrap();
    client.write_all(&[0, 0, 0, 3]).unwrap();
    client.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\x01a").unwrap();
    client.read_exact(&mut [0; 10]).unwrap();
    // Long seeks, so that they take a while.
    let mut asked = Vec::new();
    for number in 0..256_u64 {
        asked.extend(0x2560_9513_u32.to_be_bytes());
        asked.extend([0; 4]);
        asked.extend(number.to_be_bytes());
        asked.extend((number * 7919 % 4093 * (4 << 20)).to_be_bytes());
        asked.extend(512_u32.to_be_bytes());
    }
    client.write_all(&asked).unwrap();
    // 256 are in flight at once, and the server checks ten times per second whether to stop.
    let mut reply = [0; 16 + 512];
    client.read_exact(&mut reply).unwrap();
    let replies = std::thread::spawn(move || {
        for _ in 1..256 {
            client.read_exact(&mut reply).unwrap();
            assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
        }
        assert_eq!(client.read(&mut reply).unwrap(), 0);
    });
    assert!(served.end().success());
    replies.join().unwrap();
}

#[test]
fn a_new_volume_never_shows_what_another_one_left() {
    if !has("qemu-io") {
        return;
    }
    let served = Served::file("mq-deadline");
    served.does(&["create", "old", "--size", "1G", "--thick"]);
    served.qemu("old", &["write -P 5 0 200M"]).unwrap();
    served.wait_until_closed("old");
    served.does(&["delete", "old"]);
    served.does(&["create", "new", "--size", "1G"]);
    served.qemu("new", &["write -P 1 100M 4k", "read -P 0 0 100M", "read -P 1 100M 4k", "read -P 0 101M 100M"]).unwrap();
    served.wait_until_closed("new");
    served.does(&["resize", "new", "--size", "64M", "--shrink"]);
    served.does(&["resize", "new", "--size", "256M"]);
    served.qemu("new", &["write -P 2 200M 4k", "read -P 0 64M 128M", "read -P 0 201M 8M"]).unwrap();
}

#[test]
fn commands_that_cannot_be_carried_out_are_refused_with_the_reason() {
    let served = Served::file("none");
    served.does(&["create", "a", "--size", "1G"]);
    served.refuses(&["create", "a", "--size", "1G"], "volume a: there is one of this name already");
    served.refuses(&["create", "../a", "--size", "1G"], "letters, digits");
    served.refuses(&["create", "b", "--size", "4G", "--thick"], "needs 64 extents of 64 MiB, and store main has 30 free");
    served.refuses(&["create", "b", "--size", "4097"], "should be a multiple of 512");
    served.refuses(&["create", "b", "--size", "1G", "--store", "other"], "store other: there is none; there are main");
    served.refuses(&["create", "b", "--size", "1G", "--promise", "wieght = 2"], "weight");
    served.refuses(&["create", "b", "--size", "1G", "--promise", "weight = 0"], "a weight of 0 is no share");
    served.refuses(&["create", "b", "--size", "1G", "--promise", "x = 1\n[[tenant]]\nname = 'z'"], "volume b");
    served.refuses(&["resize", "a", "--size", "512M"], "--shrink allows it");
    served.refuses(&["delete", "c"], "volume c: there is none");
    assert_eq!(served.status("b"), Value::Null);
    // A volume cannot be deleted while a client has it open.
    let mut client = UnixStream::connect(served.path("nbd")).unwrap();
    let mut hello = [0; 18];
    client.read_exact(&mut hello).unwrap();
    client.write_all(&[0, 0, 0, 3]).unwrap();
    client.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\x01a").unwrap();
    client.read_exact(&mut [0; 10]).unwrap();
    served.refuses(&["delete", "a"], "volume a: is open (1 clients)");
    served.refuses(&["resize", "a", "--size", "512M", "--shrink"], "is open, and cannot become smaller");
    drop(client);
    served.wait_until_closed("a");
    served.does(&["delete", "a"]);
}

#[test]
fn clients_of_libnbd_and_fio_find_what_they_expect() {
    if !has("nbdinfo") || !has("nbdcopy") || !has("qemu-io") {
        return;
    }
    let served = Served::file("kyber");
    served.does(&["create", "a", "--size", "192M"]);
    let info = |arguments: &[&str]| {
        let output = Command::new("nbdinfo").args(arguments).arg(served.uri("a")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let json: Value = serde_json::from_str(&info(&["--json"])).unwrap();
    let export = &json["exports"][0];
    assert_eq!(
        (&export["export-size"], &export["can_multi_conn"], &export["can_fua"]),
        (&(192 << 20).into(), &true.into(), &true.into())
    );
    served.qemu("a", &["write -P 3 64M 64M"]).unwrap();
    let map: Value = serde_json::from_str(&info(&["--map", "--json"])).unwrap();
    let parts: Vec<(u64, u64)> =
        map.as_array().unwrap().iter().map(|part| (part["length"].as_u64().unwrap(), part["type"].as_u64().unwrap())).collect();
    assert_eq!(parts, [(64 << 20, 3), (64 << 20, 0), (64 << 20, 3)]);
    let (image, back) = (served.path("image"), served.path("back"));
    let mut data = Vec::new();
    for page in 1..=192_usize << 8 {
        // Write zeros in pieces of 1 MiB, because a file with many small holes takes long to delete.
        data.resize(4096 * page, (page % 255) as u8 * (page / 256 % 7).min(1) as u8);
    }
    std::fs::write(&image, &data).unwrap();
    for (from, to) in [(image.display().to_string(), served.uri("a")), (served.uri("a"), back.display().to_string())] {
        let output = Command::new("nbdcopy").args([&from, &to]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(std::fs::read(&back).unwrap() == data, "a copy of a copy is the same");
    if has("fio") {
        let fio = Command::new("fio")
            .args(["--name=x", "--ioengine=nbd", "--rw=randwrite", "--bs=4k", "--iodepth=32", "--size=16M", "--verify=crc32c"])
            .arg(format!("--uri={}", served.uri("a")))
            .current_dir(served.folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&fio.stderr).into_owned();
        assert!(fio.status.success() || said.contains("engine nbd not loadable"), "{said}");
    }
}

#[test]
fn of_two_volumes_that_read_at_random_the_one_with_nine_times_the_weight_is_done_first() {
    if !has("qemu-io") {
        return;
    }
    let ratio = |scheduler: &str| {
        let served = Served::new(&format!("[[store]]\nname = 'disk'\nemulated = 'sata7200'\nscheduler = '{scheduler}'\n"));
        // Larger than the disk's cache; a thin volume without extents does not access the disk.
        for (volume, weight) in [("database", "weight = 9"), ("flood", "weight = 1")] {
            served.does(&["create", volume, "--size", "16G", "--thick", "--promise", weight]);
        }
        let begun = Instant::now();
        let both = ["database", "flood"].map(|volume| served.reads_at_random(volume, 300));
        let [database, flood] = both.map(|reader| reader.join().unwrap() - begun);
        flood.as_secs_f64() / database.as_secs_f64()
    };
    let (shared, unshared) = (ratio("fairio"), ratio("none"));
    println!("the flood takes {shared:.2} times as long as the database; without shares {unshared:.2}");
    // With nine tenths of the disk it completes after 300/0.9 of 600 reads.
    assert!(shared > 1.4 && shared > 1.2 * unshared, "{shared} {unshared}");
}

#[test]
fn a_broken_promise_is_reported_with_the_volume_that_is_the_cause() {
    if !has("qemu-io") {
        return;
    }
    let served = Served::new("[[store]]\nname = 'disk'\nemulated = 'sata7200'\n");
    // Both have a guarantee of the whole disk.
    for volume in ["a", "b"] {
        served.does(&["create", volume, "--size", "16G", "--thick", "--promise", "reference = 'sata7200'", "--unchecked"]);
    }
    served.reads_at_random("a", 200).join().unwrap();
    std::thread::sleep(Duration::from_millis(1200));
    let alone = served.status("a");
    assert!(alone["judged"].as_u64() >= Some(100) && alone["broken_since"].is_null(), "{alone}");
    let both = ["a", "b"].map(|volume| served.reads_at_random(volume, 600));
    let until = Instant::now() + Duration::from_secs(20);
    let broken = loop {
        let found = [("a", "b"), ("b", "a")].into_iter().find(|(volume, _)| !served.status(volume)["broken_since"].is_null());
        if found.is_some() || Instant::now() > until {
            break found;
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let (volume, other) = broken.expect("one disk cannot do the work of two");
    assert_eq!(served.status(volume)["because_of"], other, "{}", served.status(volume));
    let table = String::from_utf8(served.volume(&["status"]).stdout).unwrap();
    assert!(table.contains(&format!("BROKEN because of {other}")), "{table}");
    for reader in both {
        reader.join().unwrap();
    }
}

#[test]
fn a_promise_that_the_store_cannot_keep_is_refused_with_the_reason() {
    let served = Served::new(
        "[[store]]\nname = 'disk'\nemulated = 'atlas10k'\n[[store]]\nname = 'file'\npath = 'FOLDER/store'\n\
         [[store]]\nname = 'like'\npath = 'FOLDER/store-2'\nprofile = 'ssd-dftl'\n",
    );
    served.does(&["create", "a", "--store", "disk", "--size", "1G", "--promise", "reference = 'barracuda'"]);
    served.refuses(
        &["create", "b", "--store", "disk", "--size", "1G", "--promise", "reservation_iops = 10"],
        "volume b: store disk cannot keep its promises then: Refuse",
    );
    assert_eq!(served.status("b"), Value::Null, "nothing is left of it");
    served.refuses(&["promise", "a", "--promise", "reservation_iops = 1000"], "volume a: store disk cannot keep its promises then");
    assert_eq!(served.status("a")["contract"], "reference = 'barracuda'", "the promise stays");
    // A volume without a guarantee may violate those of others.
    served.refuses(&["create", "b", "--store", "disk", "--size", "1G"], "cannot keep its promises then");
    served.does(&["create", "b", "--store", "disk", "--size", "1G", "--unchecked"]);
    served.does(&["create", "c", "--store", "like", "--size", "1G", "--promise", "reference = 'barracuda'"]);
    let noted = served.volume(&["create", "d", "--store", "file", "--size", "1G", "--promise", "reference = 'barracuda'"]);
    let said = String::from_utf8_lossy(&noted.stderr);
    assert!(noted.status.success() && said.contains("were not checked"), "{said}");
}

#[test]
fn wrong_configurations_and_rival_servers_are_refused() {
    let served = Served::file("none");
    let starts = |text: &str| {
        let path = served.path("other.toml");
        std::fs::write(&path, text).unwrap();
        let output = Command::new(PROGRAM).arg("--config").arg(&path).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let own = std::fs::read_to_string(served.path("serve.toml")).unwrap();
    let (code, said) = starts(&own);
    assert!(code == Some(2) && said.contains("serve.db"), "{said}");
    let (code, said) = starts(&own.replace("serve.db", "other.db"));
    assert!(code == Some(2) && said.contains("another process serves this store"), "{said}");
    let other = own.replace("serve.db", "third.db").replace("/store'", "/store-2'");
    let (code, said) = starts(&other);
    assert!(code == Some(2) && said.contains("another server answers here"), "{said}");
    let (code, said) = starts(&other.replace("/store-2'", "/store-3'"));
    assert!(code == Some(2) && said.contains("store main: path: ") && said.contains("No such file"), "{said}");
    let (code, said) = starts("[[stores]]");
    assert!(code == Some(2) && said.contains("other.toml: line 1: unknown field `stores`"), "{said}");
    let missing = Command::new(PROGRAM).args(["--config", "/nowhere/serve.toml"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(2));
    let alone = Command::new(PROGRAM).args(["volume", "status", "--control", "/nowhere/socket"]).output().unwrap();
    assert!(alone.status.code() == Some(2) && String::from_utf8_lossy(&alone.stderr).contains("no server answers"));
}

#[test]
fn every_rule_of_the_protocol_is_kept() {
    if !has("python3") {
        return;
    }
    let served = Served::file("youchoose");
    served.does(&["create", "a", "--size", "192M"]);
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/nbd-conformance");
    let output = Command::new(&suite).args(["--json", &served.uri("a")]).output().unwrap();
    let results: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert!(results.len() > 40, "{}", String::from_utf8_lossy(&output.stderr));
    for result in &results {
        let may_skip = result["name"] == "read_only";
        assert!(result["verdict"] == "kept" || may_skip && result["verdict"] == "skipped", "{result}");
    }
    // The message explains why the address is not a server.
    let nothing = Command::new(&suite).arg("nbd+unix:///a?socket=/nowhere").output().unwrap();
    assert!(nothing.status.code() == Some(2) && String::from_utf8_lossy(&nothing.stderr).contains("no NBD server answers"));
}

/// The first commands of the page, pasted as they are, on a machine of any speed.
#[test]
fn the_quick_start_works() {
    if !has("qemu-io") {
        return;
    }
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/serve.md")).unwrap();
    let commands = page.split("```sh root\n").nth(1).unwrap().split("```").next().unwrap();
    let script = commands.to_owned() + "kill %1; wait\n";
    for _ in 0..12 {
        let output = pasted(tempfile::tempdir().unwrap().path(), &script);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("read 1048576/1048576") && said.contains("web"), "{said}{output:?}");
    }
}

/// Runs commands in a folder with the programs in the path.
fn pasted(folder: &Path, script: &str) -> Output {
    let programs = Path::new(PROGRAM).parent().unwrap().display().to_string();
    let mut shell = Command::new("bash");
    shell.args(["-e", "-m", "-c", script]).current_dir(folder);
    shell.env("PATH", format!("{programs}:{}", std::env::var("PATH").unwrap())).output().unwrap()
}

#[test]
fn a_server_in_the_background_is_ready_when_the_command_ends_and_says_why_it_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let script = "truncate -s 1G store.img
printf '%s\n' 'catalog = \"serve.db\"' 'control = \"serve.sock\"' '[[store]]' 'name = \"main\"' 'path = \"store.img\"' '[[listen]]' 'unix = \"nbd.sock\"' > serve.toml
seekwise-serve --config serve.toml --daemonize --log serve.log
seekwise-serve volume create web --size 64M --control serve.sock --wait 0
[ -S nbd.sock ]
seekwise-serve --config serve.toml --daemonize --log serve.log
";
    let output = pasted(folder.path(), script);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("another server uses it"), "{output:?}");
    let is_it = |process: &u32| std::fs::read_link(format!("/proc/{process}/cwd")).is_ok_and(|at| at == folder.path());
    let processes = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let server: Vec<u32> = processes.filter(is_it).collect();
    assert_eq!(server.len(), 1, "one server, and none that was refused");
    assert!(Command::new("kill").arg(server[0].to_string()).status().unwrap().success());
    while is_it(&server[0]) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = pasted(folder.path(), "seekwise-serve volume status --control serve.sock --wait 0");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("serve.sock: no server answers"), "{output:?}");
}
