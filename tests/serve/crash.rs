//! Kills of the server while clients write: no durable write is lost, and volumes that are being moved stay consistent.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Served;
use super::client::{Client, Draw, Ledger};

/// Number of repetitions: from an environment variable, else a default.
pub fn times(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().unwrap())
}

impl Served {
    /// Sends a command directly over the control socket.
    pub fn asks(&self, command: &Value) -> Value {
        let mut stream = UnixStream::connect(self.path("control")).unwrap();
        stream.write_all(format!("{command}\n").as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    pub fn volume_status(&self, name: &str) -> Value {
        let answer = self.asks(&json!({"do": "status"}));
        let volumes = answer["status"]["volumes"].as_array().unwrap();
        volumes.iter().find(|volume| volume["name"] == name).unwrap().clone()
    }

    pub fn store_status(&self, name: &str) -> Value {
        let answer = self.asks(&json!({"do": "status"}));
        let stores = answer["status"]["stores"].as_array().unwrap();
        stores.iter().find(|store| store["name"] == name).unwrap().clone()
    }

    pub fn moves(&self, name: &str, to: &str, bytes_per_second: u64) -> Value {
        self.asks(&json!({"do": "move", "name": name, "to": to, "bytes_per_second": bytes_per_second, "is_unchecked": true}))
    }

    pub fn wait_until_moved(&self, name: &str) -> Value {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let status = self.volume_status(name);
            if status["moving"].is_null() {
                return status;
            }
            assert!(Instant::now() < until, "{status}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Runs writers until `during` returns; they may lose their connection by then.
    ///
    /// Returns whether all of them finished without an error.
    pub fn while_written(&self, volumes: &[&str], ledgers: &mut [Ledger], seed: u64, during: impl FnOnce()) -> bool {
        let (stop, failed, socket) = (AtomicBool::new(false), AtomicBool::new(false), self.path("nbd"));
        std::thread::scope(|scope| {
            for (number, ledger) in ledgers.iter_mut().enumerate() {
                let (stop, failed, socket, volume) = (&stop, &failed, &socket, volumes[number % volumes.len()]);
                scope.spawn(move || {
                    let worked =
                        Client::open(socket, volume).and_then(|mut client| ledger.work(&mut client, seed + number as u64, stop));
                    failed.fetch_or(worked.is_err(), Ordering::Relaxed);
                });
            }
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(during));
            stop.store(true, Ordering::Relaxed);
            if let Err(panic) = ended {
                std::panic::resume_unwind(panic);
            }
        });
        !failed.into_inner()
    }

    pub fn check(&self, volumes: &[&str], ledgers: &mut [Ledger]) {
        for (number, ledger) in ledgers.iter_mut().enumerate() {
            let mut client = Client::open(&self.path("nbd"), volumes[number % volumes.len()]).unwrap();
            ledger.check(&mut client).unwrap();
        }
    }

    /// Kills the server by SIGKILL.
    pub fn kill_now(&self) {
        let id = self.server.as_ref().unwrap().id();
        rustix::process::kill_process(rustix::process::Pid::from_raw(id as i32).unwrap(), rustix::process::Signal::KILL).unwrap();
    }
}

/// Records for two volumes with two writers each, over three extents per volume.
pub fn ledgers() -> Vec<Ledger> {
    let blocks = |writer: u64| {
        // The second pair straddles the border of two extents.
        let first = if writer < 2 { 64 } else { 16_384 - 256 };
        first + (writer % 2) * 1024..first + 512 + (writer % 2) * 1024
    };
    (0..4).map(|writer| Ledger::new(0x5ee0 + writer, blocks(writer))).collect()
}

fn kills(count: u64, seed: u64) {
    let mut served = Served::file("mq-deadline");
    let volumes = ["a", "b"];
    for volume in volumes {
        served.does(&["create", volume, "--size", "256M"]);
    }
    let (mut ledgers, mut draw) = (ledgers(), Draw(seed));
    for round in 0..count {
        let pause = Duration::from_micros(2_000 + draw.below(60_000));
        served.while_written(&volumes, &mut ledgers, draw.below(1 << 40), || {
            std::thread::sleep(pause);
            served.kill_now();
        });
        served.kill();
        served.start();
        served.check(&volumes, &mut ledgers);
        if round % 100 == 99 {
            println!("{} kills", round + 1);
        }
    }
    let (checked, writes) = ledgers.iter().fold((0, 0), |sum, ledger| (sum.0 + ledger.checked, sum.1 + ledger.writes));
    println!("{count} kills: {writes} writes acknowledged, {checked} blocks checked, none lost");
    assert!(checked > 10 * count && writes > 10 * count);
}

#[test]
fn what_was_acknowledged_as_durable_is_there_after_kills_at_random_moments() {
    kills(5, 1);
}

#[test]
#[ignore = "takes minutes: research/bars/serve runs it"]
fn what_was_acknowledged_as_durable_is_there_after_many_kills() {
    kills(times("KILLS", 1000), times("SEED", 1));
}

/// A server with two stores in files, and a volume on the first.
pub fn two_stores(scheduler: &str) -> Served {
    let served = Served::new(&format!(
        "[[store]]\nname = 'one'\npath = 'FOLDER/store'\nscheduler = '{scheduler}'\n\
         [[store]]\nname = 'two'\npath = 'FOLDER/store-2'\nscheduler = '{scheduler}'\n"
    ));
    served.does(&["create", "a", "--size", "256M", "--store", "one"]);
    served
}

/// Without the first extent and the last, which the label occupies.
const FREE: u64 = (2 << 30) - (2 << 26);

#[test]
fn a_volume_moves_while_it_is_written_and_is_the_same_at_the_other_store() {
    for scheduler in ["none", "youchoose"] {
        let served = two_stores(scheduler);
        let mut ledgers = ledgers();
        let all_done = served.while_written(&["a"], &mut ledgers, 7, || {
            for (number, to) in ["two", "one", "two"].into_iter().enumerate() {
                std::thread::sleep(Duration::from_millis(30));
                assert_eq!(served.moves("a", to, 8 << 30), "done");
                let refused = served.moves("a", to, 1 << 30);
                assert!(refused["refused"].as_str().is_none_or(|why| why.contains("is being moved") || why.contains("already")));
                let status = served.wait_until_moved("a");
                assert_eq!((status["store"].as_str(), &status["move_failed"]), (Some(to), &Value::Null), "{scheduler} {number}");
            }
        });
        assert!(all_done, "no request fails");
        served.check(&["a"], &mut ledgers);
        assert!(ledgers.iter().map(|ledger| ledger.writes).sum::<u64>() > 100);
        let [one, two] = ["one", "two"].map(|store| served.store_status(store)["free_bytes"].as_u64().unwrap());
        // Still thin: two of four extents are allocated.
        assert_eq!((one, two), (FREE, FREE - (2 << 26)), "its old extents are free");
    }
}

fn crashes_of_moves(count: u64, seed: u64) {
    let mut served = two_stores("mq-deadline");
    served.does(&["create", "b", "--size", "256M", "--store", "two"]);
    let volumes = ["a", "b"];
    let (mut ledgers, mut draw) = (ledgers(), Draw(seed));
    let (mut moved, mut killed) = (0, 0);
    served.while_written(&volumes, &mut ledgers, 3, || std::thread::sleep(Duration::from_millis(100)));
    for _ in 0..count {
        let from = served.volume_status("a")["store"].clone();
        let to = if from == "one" { "two" } else { "one" };
        // Some moves finish before the kill, some are interrupted, some are cancelled.
        // A third of the pauses are below 30 ms, in which a quiet machine moves the volume.
        let root = draw.below(500);
        let pause = Duration::from_micros(1_000 + root * root);
        let (cancels, kills) = (draw.below(4) == 0, draw.below(5) != 0);
        let seed = draw.below(1 << 40);
        served.while_written(&volumes, &mut ledgers, seed, || {
            if served.volume_status("a")["moving"].is_null() {
                assert_eq!(served.moves("a", to, 2 << 30), "done");
            }
            std::thread::sleep(pause);
            if cancels {
                let answer = served.asks(&json!({"do": "cancel-move", "name": "a"}));
                let is_late = ["not being moved", "already"].iter().any(|why| answer.to_string().contains(why));
                assert!(answer == "done" || is_late, "{answer}");
            }
            if kills {
                served.kill_now();
            }
        });
        if kills {
            killed += 1;
            served.kill();
            served.start();
        }
        served.check(&volumes, &mut ledgers);
        moved += u64::from(kills && served.volume_status("a")["store"] != from);
    }
    let status = served.wait_until_moved("a");
    served.check(&volumes, &mut ledgers);
    // Cancelled moves leave no space allocated.
    let allocated = |status: &Value| status["allocated_bytes"].as_u64().unwrap();
    let [one, two] = ["one", "two"].map(|store| served.store_status(store)["free_bytes"].as_u64().unwrap());
    assert_eq!(one + two, 2 * FREE - allocated(&status) - allocated(&served.volume_status("b")));
    println!("{killed} kills of {count} moves, {moved} of the kills after the end of the move: none lost");
    assert!(count < 50 || (moved > count / 8 && killed - moved > count / 8), "moments on both sides: {moved} of {killed}");
}

#[test]
fn a_volume_that_moves_is_whole_after_the_server_was_killed() {
    crashes_of_moves(5, 1);
}

#[test]
#[ignore = "takes minutes: research/bars/serve runs it"]
fn a_volume_that_moves_is_whole_after_many_kills() {
    crashes_of_moves(times("MOVE_KILLS", 125), times("SEED", 1));
}
