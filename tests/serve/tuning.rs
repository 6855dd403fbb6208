//! Stores tuned by a controller, reload of access tables, and kernels without io_uring.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::client::Client;
use super::{PROGRAM, Served, has, root};

impl Served {
    fn first_store(&self) -> Value {
        let status: Value = serde_json::from_slice(&self.volume(&["status", "--json"]).stdout).unwrap();
        status["stores"][0].clone()
    }

    fn reload(&self) -> std::process::Output {
        Command::new(PROGRAM).arg("reload").arg("--control").arg(self.path("control")).output().unwrap()
    }
}

#[test]
fn a_promise_takes_a_tuned_store_back_to_a_scheduler_that_keeps_it() {
    let served = Served::new("[[store]]\nname = 'main'\npath = 'FOLDER/store'\ncontroller = 'fixed'\nread_ahead_kb = 512\n");
    served.does(&["create", "a", "--size", "128M"]);
    let before = served.first_store();
    assert_eq!((before["tuned"]["controller"].as_str(), before["read_ahead_kb"].as_u64()), (Some("fixed"), Some(512)), "{before}");
    served.does(&["create", "b", "--size", "128M", "--promise", "weight = 2"]);
    let after = served.first_store();
    assert!(after["scheduler"] == "guarantee" && after["tuned"]["last"].as_str().unwrap().contains("have promises"), "{after}");
    let table = String::from_utf8(served.volume(&["status"]).stdout).unwrap();
    assert!(table.contains("read-ahead 512 KiB"), "{table}");
}

#[test]
fn tables_of_access_are_read_again_and_a_wrong_file_changes_nothing() {
    let served = Served::file("none");
    served.does(&["create", "a", "--size", "128M"]);
    let mut open = Client::open(&served.path("nbd"), "a").unwrap();
    let path = served.path("serve.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{text}\n[[allow]]\nvolumes = ['other']\n")).unwrap();
    assert!(Client::open(&served.path("nbd"), "a").is_ok(), "not before it is asked for");
    assert!(served.reload().status.success());
    assert!(Client::open(&served.path("nbd"), "a").is_err());
    assert_eq!(open.read(0, 4096).unwrap().0, 0, "open connections stay open");
    std::fs::write(&path, format!("{text}\n[[allow]]\nvolumes = []\n")).unwrap();
    let refused = served.reload();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains("allow: table 1: volumes: names none"), "{said}");
    assert!(Client::open(&served.path("nbd"), "a").is_err(), "the tables before are kept");
    std::fs::write(&path, text).unwrap();
    assert!(served.reload().status.success() && Client::open(&served.path("nbd"), "a").is_ok());
}

#[test]
fn where_io_uring_is_forbidden_threads_move_the_same_bytes() {
    if !has("qemu-io") || Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: needs qemu-io and python3");
        return;
    }
    let mut served = Served::new("[[store]]\nname = 'main'\npath = 'FOLDER/store'\n");
    served.does(&["create", "a", "--size", "128M"]);
    let usual = served.engine();
    served.qemu("a", &["write -P 7 0 1M", "write -z 64k 64k", "flush"]).unwrap();
    assert!(served.end().success());
    served.start_by(&[root().join("tests/serve/without-io-uring").to_str().unwrap()]);
    assert_eq!(served.engine(), "threads", "{usual} without the filter");
    served
        .qemu("a", &["read -P 7 0 64k", "read -P 0 64k 64k", "read -P 7 128k 896k", "write -P 9 1M 1M", "discard 0 64k"])
        .unwrap();
    assert!(served.end().success());
    served.start();
    assert_eq!(served.engine(), usual);
    served.qemu("a", &["read -P 0 0 128k", "read -P 7 128k 896k", "read -P 9 1M 1M"]).unwrap();
}

/// Four sequential readers on an emulated drive, where the controller finds that read-ahead pays.
#[test]
#[ignore = "takes two minutes by the wall clock: research/bars/serve --only tuning measures more"]
fn a_controller_finds_what_readers_in_order_gain_by() {
    let served = Served::new("[[store]]\nname = 'disk'\nemulated = 'sata7200'\ncontroller = 'seekwise'\n");
    for volume in ["a", "b", "c", "d"] {
        served.does(&["create", volume, "--size", "16G", "--thick"]);
    }
    let until = Instant::now() + Duration::from_secs(120);
    let readers = ["a", "b", "c", "d"].map(|volume| {
        let socket = served.path("nbd");
        std::thread::spawn(move || {
            let mut client = Client::open(&socket, volume).unwrap();
            let mut offset = 0;
            while Instant::now() < until {
                assert_eq!(client.read(offset, 65_536).unwrap().0, 0);
                offset = (offset + 65_536) % (16 << 30);
            }
        })
    });
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    let store = served.first_store();
    assert!(store["tuned"]["changes"].as_u64() > Some(0), "{store}");
    println!("{store}");
}
