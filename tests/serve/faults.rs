//! Power cuts, and stores that fail, stall or are full, on the filesystem of `disk.rs`.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Served;
use super::client::{BLOCK, Client, Draw, Ledger};
use super::crash::{ledgers, times};
use super::disk::{Disk, Fault};

const STORE: u64 = 1 << 30;

/// A server with catalog and first store on a disk with fault injection, and the second store on an ordinary one.
struct OnDisk {
    served: Served,
    disk: Disk,
}

impl OnDisk {
    fn new(scheduler: &str, catalog: &str) -> Option<OnDisk> {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        std::fs::create_dir(at("disk")).unwrap();
        let disk = Disk::mount(&folder.path().join("disk"))?;
        for store in ["disk/one", "disk/two", "third"] {
            let file = std::fs::File::create(at(store)).unwrap();
            file.set_len(STORE).unwrap();
            file.sync_all().unwrap();
        }
        let store =
            |name: &str, file: &str| format!("[[store]]\nname = '{name}'\npath = '{}'\nscheduler = '{scheduler}'\n", at(file));
        let stores = [("one", "disk/one"), ("two", "disk/two"), ("third", "third")].map(|(name, file)| store(name, file));
        let text = format!(
            "catalog = '{}'\ncontrol = '{}'\n[[listen]]\nunix = '{}'\n{}",
            at(catalog),
            at("control"),
            at("nbd"),
            stores.concat()
        );
        std::fs::write(at("serve.toml"), text).unwrap();
        let mut served = Served { folder, server: None };
        served.start();
        Some(OnDisk { served, disk })
    }

    fn creates(&self, name: &str, store: &str) {
        let new = json!({"do": "create", "name": name, "store": store, "bytes": 256 << 20, "is_thick": false, "contract": "",
            "is_unchecked": true});
        assert_eq!(self.served.asks(&new), "done");
    }

    /// Stops the server before the disk is unmounted.
    fn end(mut self) {
        self.served.kill();
    }
}

/// Volumes "a" and "b" persist, and "a" is moved; "c" is created repeatedly in space that earlier ones have used.
fn cuts(count: u64, seed: u64) {
    let Some(mut on) = OnDisk::new("mq-deadline", "disk/serve.db") else { return };
    on.creates("a", "one");
    on.creates("b", "one");
    let volumes = ["a", "b", "c"];
    let mut draw = Draw(seed);
    // Two records each of "a" and "b", and one of "c" last.
    let new = |tag: u64| Ledger::new(tag, 8_000..8_000 + 512);
    let mut known: Vec<Ledger> = ledgers();
    let mut of_c = new(0xc000);
    let mut is_there = false;
    for round in 0..count {
        if is_there {
            assert_eq!(on.served.asks(&json!({"do": "delete", "name": "c"})), "done");
        }
        on.creates("c", "one");
        of_c = new(0xc001 + round);
        let from = on.served.volume_status("a")["store"].clone();
        if draw.below(2) == 0 && on.served.volume_status("a")["moving"].is_null() {
            let to = if from == "one" { "two" } else { "one" };
            assert_eq!(on.served.moves("a", to, 2 << 30), "done");
        }
        let pause = Duration::from_micros(5_000 + draw.below(120_000));
        let seed = draw.below(1 << 40);
        let (served, disk) = (&on.served, &on.disk);
        std::thread::scope(|scope| {
            let of_c = &mut of_c;
            let c = scope.spawn(move || {
                served.while_written(&volumes[2..], std::slice::from_mut(of_c), seed + 99, || std::thread::sleep(pause))
            });
            served.while_written(&volumes[..2], &mut known, seed, || {
                std::thread::sleep(pause);
                disk.cut(&mut draw);
                served.kill_now();
            });
            c.join().unwrap();
        });
        on.served.kill();
        on.disk.power_on();
        on.served.start();
        on.served.check(&volumes[..2], &mut known);
        // A volume that existed before the power cut exists after it.
        on.served.check(&volumes[2..], std::slice::from_mut(&mut of_c));
        on.served.wait_until_closed("c");
        is_there = true;
        if round % 50 == 49 {
            println!("{} power cuts", round + 1);
        }
    }
    known.push(of_c);
    let (checked, writes) = known.iter().fold((0, 0), |sum, ledger| (sum.0 + ledger.checked, sum.1 + ledger.writes));
    println!("{count} power cuts: {writes} writes acknowledged, {checked} blocks checked, none lost");
    assert!(checked > 10 * count && writes > 10 * count, "{checked} {writes}");
    on.end();
}

#[test]
fn what_was_flushed_is_there_after_power_cuts_at_random_moments() {
    cuts(5, 1);
}

#[test]
#[ignore = "takes minutes: research/bars/serve runs it"]
fn what_was_flushed_is_there_after_many_power_cuts() {
    cuts(times("CUTS", 200), times("SEED", 1));
}

/// Only the move itself flushes the destination.
#[test]
fn a_volume_that_has_moved_is_there_after_a_power_cut_right_then() {
    let Some(mut on) = OnDisk::new("none", "disk/serve.db") else { return };
    on.creates("a", "one");
    let (mut ledgers, mut draw) = (ledgers(), Draw(1));
    for to in ["two", "one"] {
        on.served.while_written(&["a"], &mut ledgers, draw.below(1 << 40), || std::thread::sleep(Duration::from_millis(50)));
        assert_eq!(Client::open(&on.served.path("nbd"), "a").unwrap().flush().unwrap(), 0);
        assert_eq!(on.served.moves("a", to, 8 << 30), "done");
        assert_eq!(on.served.wait_until_moved("a")["store"], to);
        on.disk.cut_keeping(&mut draw, 0);
        on.served.kill();
        on.disk.power_on();
        on.served.start();
        assert_eq!(on.served.volume_status("a")["store"], to);
        on.served.check(&["a"], &mut ledgers);
    }
    on.end();
}

/// Reads a block; returns the error, 0 for success.
fn reads(client: &mut Client, offset: u64) -> u32 {
    client.read(offset, BLOCK as u32).unwrap().0
}

#[test]
fn a_store_that_fails_fails_only_the_requests_concerned_and_recovers() {
    let Some(on) = OnDisk::new("mq-deadline", "serve.db") else { return };
    on.creates("bad", "one");
    on.creates("good", "third");
    let open = |name: &str| Client::open(&on.served.path("nbd"), name).unwrap();
    let (mut bad, mut good) = (open("bad"), open("good"));
    let data = vec![7; BLOCK as usize];
    for client in [&mut bad, &mut good] {
        assert_eq!(client.write(0, &data, true).unwrap() + client.write(4 << 20, &data, true).unwrap(), 0);
    }
    // The second extent of the store belongs to the volume, the first to the label.
    on.disk.set("one", Fault { fails: Some(68 << 20..(68 << 20) + 4096), ..Fault::default() });
    assert_eq!((reads(&mut bad, 4 << 20), bad.write(4 << 20, &data, false).unwrap()), (5, 5));
    assert_eq!((reads(&mut bad, 0), bad.write(0, &data, false).unwrap(), reads(&mut good, 4 << 20)), (0, 0, 0));
    let status = on.served.volume_status("bad");
    assert_eq!(status["failed_requests"], 2, "{status}");
    assert!(status["last_error"].as_str().unwrap().contains("Input/output error"), "{status}");
    assert_eq!(on.served.volume_status("good")["failed_requests"], 0);
    // Moving the volume away fails with a reason; so does moving another volume to this store.
    assert_eq!(on.served.moves("bad", "third", 1 << 30), "done");
    let failed = on.served.wait_until_moved("bad");
    let why = failed["move_failed"].as_str().unwrap_or_default();
    assert!(failed["store"] == "one" && why.contains("reading") && why.contains("store one"), "{failed}");
    // The store is full.
    on.disk.set("one", Fault { is_full: true, ..Fault::default() });
    assert_eq!((bad.write(0, &data, false).unwrap(), bad.write(100 << 20, &data, false).unwrap()), (28, 28));
    assert_eq!((reads(&mut bad, 0), good.write(100 << 20, &data, true).unwrap()), (0, 0));
    assert_eq!(on.served.moves("good", "one", 1 << 30), "done");
    let failed = on.served.wait_until_moved("good");
    assert!(failed["store"] == "third" && failed["move_failed"].as_str().unwrap().contains("writing"), "{failed}");
    assert_eq!(on.served.store_status("one")["free_bytes"].as_u64(), Some(STORE - (3 << 26)), "nothing is left of it");
    // The fault is cleared.
    on.disk.set("one", Fault::default());
    assert_eq!((bad.write(100 << 20, &data, true).unwrap(), reads(&mut bad, 4 << 20), bad.flush().unwrap()), (0, 0, 0));
    assert_eq!(on.served.moves("bad", "two", 4 << 30), "done");
    let moved = on.served.wait_until_moved("bad");
    assert!(moved["store"] == "two" && moved["move_failed"].is_null(), "{moved}");
    assert_eq!(bad.read(4 << 20, 4096).unwrap(), (0, data));
    on.end();
}

/// A stalled store blocks neither other stores nor commands that do not need it.
fn stalls(seconds: f64) {
    let Some(on) = OnDisk::new("youchoose", "serve.db") else { return };
    on.creates("slow", "one");
    on.creates("other", "third");
    on.creates("moves", "third");
    let open = |name: &str| {
        let client = Client::open(&on.served.path("nbd"), name).unwrap();
        client.timeout(Duration::from_secs(20).max(Duration::from_secs_f64(2.0 * seconds)));
        client
    };
    let (mut slow, mut other, mut moves) = (open("slow"), open("other"), open("moves"));
    let data = vec![7; BLOCK as usize];
    for client in [&mut slow, &mut other, &mut moves] {
        assert_eq!(client.write(0, &data, true).unwrap(), 0);
    }
    on.disk.set("one", Fault { stalls: true, ..Fault::default() });
    let begun = Instant::now();
    slow.send(1, 0, 0, BLOCK as u32, &data).unwrap();
    // A command that needs the store waits for it, without blocking others.
    let mut waits = UnixStream::connect(on.served.path("control")).unwrap();
    let thick = json!({"do": "create", "name": "thick", "store": "one", "bytes": 64 << 20, "is_thick": true, "contract": "", "is_unchecked": true});
    writeln!(waits, "{thick}").unwrap();
    // A move to the store stalls; its volume is still served.
    assert_eq!(on.served.moves("moves", "one", 1 << 30), "done");
    let mut longest = Duration::ZERO;
    let mut rounds = 0;
    let mut is_told = false;
    while begun.elapsed().as_secs_f64() < seconds {
        let at = Instant::now();
        assert_eq!(other.write(4096 * (rounds % 100), &data, true).unwrap(), 0);
        assert_eq!(moves.write(4096 * (rounds % 100), &data, false).unwrap(), 0);
        assert_eq!(reads(&mut moves, 0), 0);
        let status = on.served.volume_status("slow");
        is_told |= status["stalled_seconds"].as_u64().is_some_and(|seconds| seconds >= 3);
        on.creates(&format!("new-{rounds}"), "third");
        assert_eq!(on.served.asks(&json!({"do": "delete", "name": format!("new-{rounds}")})), "done");
        longest = longest.max(at.elapsed());
        rounds += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(longest < Duration::from_millis(1500), "{longest:?}");
    assert!(is_told, "{}", on.served.volume_status("slow"));
    // The move is being cancelled, as the status shows.
    let told = on.served.volume_status("moves");
    assert_eq!(told["moving"]["to"], "one", "{told}");
    on.disk.set("one", Fault::default());
    assert_eq!(slow.receive(0).unwrap().0, 0, "it goes on where it was");
    assert_eq!(on.served.wait_until_moved("moves")["store"], "one");
    assert_eq!(moves.read(0, 4096).unwrap(), (0, data));
    let mut answer = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(waits), &mut answer).unwrap();
    assert_eq!(answer.trim(), "\"done\"");
    let until = Instant::now() + Duration::from_secs(10);
    while on.served.volume_status("slow")["stalled_seconds"] != Value::Null {
        assert!(Instant::now() < until, "it answers again");
        std::thread::sleep(Duration::from_millis(20));
    }
    on.end();
}

#[test]
fn a_store_that_stalls_holds_up_only_its_own_volumes() {
    stalls(4.5);
}

#[test]
#[ignore = "takes 30 seconds: research/bars/serve runs it"]
fn a_store_that_stalls_for_30_seconds_holds_up_only_its_own_volumes() {
    stalls(30.0);
}

#[test]
fn a_catalog_that_is_damaged_is_refused_with_the_reason() {
    let mut served = Served::file("none");
    served.does(&["create", "a", "--size", "1G", "--thick"]);
    assert!(served.end().success());
    let (path, whole) = (served.path("serve.db"), std::fs::read(served.path("serve.db")).unwrap());
    let mut garbled = whole.clone();
    let names: Vec<usize> = (0..whole.len() - 4).filter(|at| &whole[*at..at + 4] == b"main").collect();
    garbled[*names.last().unwrap()] = b'x';
    for (what, bytes) in
        [("empty", &[][..]), ("truncated", &whole[..whole.len() / 2]), ("of something else", &[7; 5000]), ("garbled", &garbled)]
    {
        std::fs::write(&path, bytes).unwrap();
        let output = std::process::Command::new(super::PROGRAM).arg("--config").arg(served.path("serve.toml")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(2) && said.contains("serve.db") && said.contains("is damaged; restore it"),
            "{what}: {said}"
        );
    }
    std::fs::write(&path, whole).unwrap();
    served.start();
    assert_eq!(served.status("a")["allocated_bytes"], 1 << 30);
}
