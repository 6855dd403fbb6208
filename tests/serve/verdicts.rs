//! Verdicts on guarantees are true: promises that the store breaks are not called kept, and each broken second has its cause.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::Served;
use super::client::{BLOCK, Client, Draw};

/// Clients of a volume, each with one read outstanding, and the size of the volumes.
const CLIENTS: u64 = 8;
const BYTES: u64 = 128 << 20;

impl Served {
    /// Reads at random by all clients for some seconds.
    fn reads(&self, volume: &str, seconds: f64) {
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                scope.spawn(move || {
                    let (mut draw, until) = (Draw(client + 1), Instant::now() + Duration::from_secs_f64(seconds));
                    let mut client = Client::open(&self.path("nbd"), volume).unwrap();
                    while Instant::now() < until {
                        assert_eq!(client.read(draw.below(BYTES / BLOCK) * BLOCK, BLOCK as u32).unwrap().0, 0);
                    }
                });
            }
        });
    }

    fn until_broken(&self, volume: &str) -> Value {
        let until = Instant::now() + Duration::from_secs(5);
        loop {
            let status = self.status(volume);
            if !status["broken_since"].is_null() {
                return status;
            }
            assert!(Instant::now() < until, "{status}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits for a verdict on the volume; returns its status.
    fn until_verdict(&self, volume: &str, verdict: &str) -> Value {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let status = self.status(volume);
            if status["verdict"] == verdict {
                return status;
            }
            assert!(Instant::now() < until, "{verdict}: {status}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// An old disk, and each volume alone.
#[test]
fn promises_that_the_store_cannot_keep_are_broken_by_it() {
    let served = Served::new("[[store]]\nname = 'host'\nemulated = 'hp_c2247a'\n");
    let promises = ["reservation_iops = 2000", "reference = 'ssd-dftl'", "latency_p99_ms = 1"];
    for (number, promise) in promises.iter().enumerate() {
        let name = format!("v{number}");
        served.does(&["create", &name, "--size", "128M", "--thick", "--unchecked", "--promise", promise]);
        served.reads(&name, 4.0);
        let status = served.until_broken(&name);
        assert!(status["because_of"].is_null() && status["missed"].is_string(), "{status}");
        let table = String::from_utf8(served.volume(&["status"]).stdout).unwrap();
        assert!(table.contains("BROKEN by the store: "), "{table}");
        let check = served.volume(&["check", &name]);
        let said = String::from_utf8_lossy(&check.stderr).into_owned();
        assert!(check.status.code() == Some(1) && said.contains("BROKEN by the store"), "{said}");
        let broken = served.until_verdict(&name, "not-asked");
        let seconds = |name: &str| broken[name].as_u64().unwrap();
        assert!(seconds("by_store_seconds") >= 2 && seconds("by_others_seconds") == 0, "{broken}");
        // The first second, and the last, are not whole.
        assert!(seconds("kept_seconds") <= 2, "{broken}");
    }
    served.refuses(&["check", "nothing"], "volume nothing: there is none");
}

#[test]
fn a_rate_that_is_served_is_kept_and_a_volume_that_pauses_does_not_ask() {
    let served = Served::new("[[store]]\nname = 'host'\nemulated = 'sata7200'\n");
    served.does(&["create", "a", "--size", "128M", "--thick", "--unchecked", "--promise", "reservation_iops = 40"]);
    served.reads("a", 5.0);
    let status = served.until_verdict("a", "not-asked");
    let seconds = |name: &str| status[name].as_u64().unwrap();
    assert_eq!((seconds("by_others_seconds"), seconds("by_store_seconds")), (0, 0), "{status}");
    assert!(seconds("kept_seconds") >= 2, "{status}");
    assert!(served.volume(&["check"]).status.success());
}
