//! Moves of volumes by commands, and migration plans.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::Served;
use super::client::Client;
use super::crash::two_stores;

fn table(served: &Served) -> String {
    String::from_utf8(served.volume(&["status"]).stdout).unwrap()
}

#[test]
fn moves_are_refused_with_the_reason_cancelled_and_begun_again_after_a_crash() {
    let mut served = two_stores("none");
    let data = vec![9; 1 << 20];
    let mut client = Client::open(&served.path("nbd"), "a").unwrap();
    for extent in 0..4 {
        assert_eq!(client.write(extent << 26, &data, true).unwrap(), 0);
    }
    served.refuses(&["move", "a", "--to", "three"], "store three: there is none; there are one, two");
    served.refuses(&["move", "a", "--to", "one"], "volume a: is on store one already");
    served.refuses(&["move", "a", "--cancel"], "volume a: is not being moved");
    served.refuses(&["move", "c", "--to", "two"], "volume c: there is none");
    served.does(&["create", "b", "--size", "1792M", "--store", "two", "--thick"]);
    served.refuses(&["move", "a", "--to", "two"], "volume a: has 4 extents of 64 MiB, and store two has 2 free");
    served.does(&["delete", "b"]);
    served.does(&["move", "a", "--to", "two", "--pace", "1M"]);
    assert!(table(&served).contains("a moves to two: "), "{}", table(&served));
    served.refuses(&["move", "a", "--to", "two"], "is being moved to store two");
    served.refuses(&["resize", "a", "--size", "1G"], "is being moved to store two");
    // The destination already has a guarantee, which is also checked.
    served.does(&["promise", "a", "--promise", "weight = 2", "--unchecked"]);
    drop(client);
    served.wait_until_closed("a");
    served.refuses(&["delete", "a"], "is being moved to store two");
    served.kill();
    served.start();
    assert_eq!(served.status("a")["moving"]["to"], "two", "it is begun again");
    served.does(&["move", "a", "--cancel"]);
    let status = served.status("a");
    assert_eq!((&status["moving"], &status["store"]), (&Value::Null, &"one".into()));
    assert_eq!(served.store_status("two")["free_bytes"], (2_u64 << 30) - (2 << 26), "nothing is left there");
    served.kill();
    served.start();
    assert_eq!(served.status("a")["moving"], Value::Null, "it stays cancelled");
    served.does(&["move", "a", "--to", "two", "--pace", "4G"]);
    assert_eq!(served.wait_until_moved("a")["store"], "two");
    served.kill();
    served.start();
    assert_eq!((&served.status("a")["store"], &served.status("a")["contract"]), (&"two".into(), &"weight = 2".into()));
    let mut client = Client::open(&served.path("nbd"), "a").unwrap();
    for extent in 0..4 {
        assert!(client.read(extent << 26, 1 << 20).unwrap() == (0, data.clone()));
        assert_eq!(client.read((extent << 26) + (1 << 20), 1 << 20).unwrap(), (0, vec![0; 1 << 20]));
    }
}

/// Shrinking discards data: after growing again the range reads as zeros, also within the last extent.
#[test]
fn a_volume_that_was_smaller_shows_zeros_where_it_was_larger() {
    let served = Served::file("none");
    served.does(&["create", "a", "--size", "100M"]);
    let write = |offset: u64| {
        let mut client = Client::open(&served.path("nbd"), "a").unwrap();
        assert_eq!(client.write(offset, &[5; 4096], true).unwrap(), 0);
    };
    write(0);
    write(90 << 20);
    write(70 << 20);
    served.wait_until_closed("a");
    served.does(&["resize", "a", "--size", "80M", "--shrink"]);
    served.does(&["resize", "a", "--size", "120M"]);
    let mut client = Client::open(&served.path("nbd"), "a").unwrap();
    assert_eq!(client.read(90 << 20, 4096).unwrap(), (0, vec![0; 4096]));
    assert_eq!(client.read(70 << 20, 4096).unwrap(), (0, vec![5; 4096]));
}

const TWO_DISKS: &str = "[[store]]\nname = 'disk'\nemulated = 'sata7200'\nscheduler = 'none'\n\
                         [[store]]\nname = 'other'\nemulated = 'sata7200'\nscheduler = 'none'\n";

/// Each guarantee can be met alone, but not both.
fn two_promises(served: &Served) {
    for volume in ["a", "b"] {
        served.does(&["create", volume, "--size", "1G", "--store", "disk", "--promise", "reservation_iops = 50", "--unchecked"]);
    }
}

fn plan(served: &Served, arguments: &[&str]) -> String {
    let mut plan = std::process::Command::new(super::PROGRAM);
    let output = plan.arg("plan").args(arguments).arg("--control").arg(served.path("control")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_plan_says_that_nothing_is_to_be_moved_or_cannot_be_known() {
    let served = Served::new(TWO_DISKS);
    assert_eq!(plan(&served, &[]), "every store can keep its guarantees\n");
    let served = two_stores("none");
    served.does(&["promise", "a", "--promise", "reservation_iops = 50"]);
    let said = plan(&served, &["--apply"]);
    assert!(said.contains("store one: the configuration names no profile that it is like\n"), "{said}");
}

#[test]
#[ignore = "takes seconds of simulation: research/bars/serve runs it"]
fn a_plan_names_the_move_with_which_stores_keep_their_promises_and_makes_it() {
    let served = Served::new(TWO_DISKS);
    two_promises(&served);
    let said = plan(&served, &["--apply", "--pace", "1M"]);
    assert!(said.contains("a: from disk to other, 0 MiB: store disk cannot keep its promises: "), "{said}");
    assert!(said.contains("begun;"), "{said}");
    assert_eq!(served.wait_until_moved("a")["store"], "other");
}

#[test]
#[ignore = "takes seconds of simulation: research/bars/serve runs it"]
fn a_plan_is_made_without_being_asked_within_its_limits() {
    let served = Served::new(&format!("{TWO_DISKS}[moves]\nauto = true\nmost_per_day = 1\npace_mib_s = 1\n"));
    two_promises(&served);
    let until = Instant::now() + Duration::from_secs(300);
    while served.volume_status("a")["store"] != "other" {
        assert!(Instant::now() < until, "{}", served.volume_status("a"));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(served.volume_status("b")["store"], "disk");
}

/// The page's commands for a store on another machine, in order.
#[test]
fn a_store_may_be_an_export_of_another_server() {
    let is_there = |name: &str| std::process::Command::new(name).arg("--version").output().is_ok();
    let tools = ["nbdkit", "nbdfuse", "qemu-io"];
    if let Some(missing) = tools.into_iter().find(|tool| !is_there(tool)) {
        eprintln!("skipped: needs {missing} (apt-get install nbdkit libnbd-bin qemu-utils)");
        return;
    }
    if std::fs::File::open("/dev/fuse").is_err() {
        eprintln!("skipped: needs FUSE");
        return;
    }
    let page = std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/serve.md")).unwrap();
    let commands = page.split("## More than one machine").nth(1).unwrap().split("```sh root\n").nth(1).unwrap();
    // Retry, where a user would wait a moment.
    let mut waits = ["[ -S far.sock ]", "[ -e far/store ]", "[ -S nbd.sock ]"].into_iter();
    let mut script = String::from("trap 'kill $(jobs -p) 2>/dev/null; sleep 0.2; umount -l far 2>/dev/null' EXIT\n");
    for line in commands.split("```").next().unwrap().lines() {
        script += &format!("{line}\n");
        if line.ends_with(" &") {
            script += &format!("while ! {}; do sleep 0.05; done\n", waits.next().unwrap());
        }
    }
    // Read from the remote server's file after that server was killed.
    script += "kill -9 %3; wait %3 2>/dev/null || true; rm nbd.sock\nseekwise-serve --config serve.toml &\nwhile ! [ -S nbd.sock ]; do sleep 0.05; done\n\
               qemu-io -f raw -c 'read -P 7 0 1M' 'nbd+unix:///web?socket=nbd.sock'\n";
    let folder = tempfile::tempdir().unwrap();
    let programs = std::path::Path::new(super::PROGRAM).parent().unwrap().display().to_string();
    let output = std::process::Command::new("timeout")
        .args(["60", "bash", "-e", "-m", "-c", &script])
        .current_dir(folder.path())
        .env("PATH", format!("{programs}:{}", std::env::var("PATH").unwrap()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.matches("read 1048576/1048576").count() == 2, "{said}{output:?}");
}
