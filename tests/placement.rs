//! End-to-end tests of placement and guarantees.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::{self, PROGRAM, refused, succeeds};
use serde_json::Value;

fn file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// Sequentially read videos are on flash, and a search with random reads is on disks.
const HOUSE: &str = r#"
sample_s = 1.0
copy_mb_s = 3

[[array]]
name = "disks"
disk = "raid0:disk=atlas10k,disks=6,stripe_unit_kib=64"

[[array]]
name = "flash"
disk = "ssd-dftl"

[[volume]]
name = "films"
on = "flash"
reference = "barracuda"
mib = 64
load = { locality = 1.0, size_kib = 64, outstanding = 16 }

[[volume]]
name = "search"
on = "disks"
reference = "barracuda"
mib = 64
load = { locality = 0.0, size_kib = 8, outstanding = 8 }
"#;

#[test]
fn a_misplaced_volume_moves_for_a_reason_and_is_served_while_it_moves() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = file(folder.path(), "cluster.toml", HOUSE);
    let arguments = ["place", cluster.to_str().unwrap(), "--simulate", "--seconds", "3"];
    let said = succeeds(&arguments);
    assert!(said.contains("search takes") && said.contains("it is misplaced") && said.contains("1. "), "{said}");
    let json = succeeds(&[&arguments[..], &["--json"]].concat());
    let answer: Value = serde_json::from_str(&json).unwrap();
    let moved = answer["steps"].as_array().unwrap().iter().flat_map(|step| step["moves"].as_array().unwrap());
    assert!(moved.clone().any(|each| each["volume"] == "search" && each["to"] == "flash"), "{json}");
    let phases: Vec<&str> =
        answer["simulated"]["phases"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(phases, ["before", "during", "after"]);
    let mib: u64 = moved.map(|each| each["mib"].as_u64().unwrap()).sum();
    let (took, limit) = (&answer["simulated"]["copied_s"], &answer["simulated"]["copy_limit_mb_s"]);
    let planned = 2.0 + mib as f64 * 1.048_576 / limit.as_f64().unwrap();
    let took = took.as_f64().expect("the moves are done");
    assert!(took <= 1.1 * planned, "{took} s were taken to copy, {planned} s planned");
    assert!(answer["simulated"]["copied_mib"].as_f64().unwrap() >= mib as f64);
    for array in 0..2 {
        let sum: f64 = answer["volumes"].as_array().unwrap().iter().map(|one| one["shares_percent"][array].as_f64().unwrap()).sum();
        assert!((sum - 100.0).abs() < 1e-6, "a row of the matrix: {sum}");
    }
    let again = succeeds(&[&arguments[..], &["--json", "--threads", "1"]].concat());
    assert_eq!(json, again, "the same for every number of threads");
}

#[test]
fn what_is_wrong_with_a_house_is_said_by_line_and_key() {
    let folder = tempfile::tempdir().unwrap();
    let complains = |from: &str, to: &str, expected: &[&str]| {
        let cluster = file(folder.path(), "cluster.toml", &HOUSE.replacen(from, to, 1));
        let error = refused(&["place", cluster.to_str().unwrap()]);
        assert!(expected.iter().all(|part| error.contains(part)), "{to}: {error}");
    };
    complains("on = \"flash\"", "on = \"flahs\"", &["cluster.toml:15: on", "no array flahs", "flash"]);
    complains("mib = 64", "mib = 0", &["cluster.toml:17: mib: 0 should be 1"]);
    complains("reference = \"barracuda\"", "reference = \"baracuda\"", &["cluster.toml:16: reference", "barracuda"]);
    complains("sample_s = 1.0", "sample_s = 0.0", &["cluster.toml:2: sample_s: 0 should be 0.1 to 600"]);
    complains("size_kib = 64", "size_kib = 60", &["cluster.toml:18: load", "60 should be a power of two"]);
    complains("name = \"flash\"", "name = \"disks\"", &["cluster.toml:10: name", "array disks is there already"]);
    complains("mib = 64", "mib = 4096", &["reference disk holds"]);
    complains("locality = 1.0", "localty = 1.0", &["cluster.toml:18: load", "localty"]);
}

const TENANTS: &str = r#"
[[tenant]]
name = "shop"
jobs = ["shop"]
reference = "barracuda"

[[tenant]]
name = "bank"
jobs = ["bank"]
reference = "barracuda"
"#;

#[test]
fn a_new_volume_is_taken_in_only_if_no_guarantee_breaks_in_the_simulator() {
    const CROWDED: &str = r#"
[[array]]
name = "one"
disk = "atlas10k"

[[volume]]
name = "old"
on = "one"
reference = "barracuda"
mib = 64
load = { locality = 0.0, size_kib = 8 }

[[volume]]
name = "new"
reference = "hp_c2247a"
mib = 64
load = { locality = 1.0, size_kib = 64 }
"#;
    let folder = tempfile::tempdir().unwrap();
    let cluster = file(folder.path(), "cluster.toml", CROWDED);
    let json = succeeds(&["place", cluster.to_str().unwrap(), "--simulate", "--seconds", "5", "--json"]);
    let answer: Value = serde_json::from_str(&json).unwrap();
    let phases = answer["simulated"]["phases"].as_array().unwrap();
    let broken = |name: &str| {
        let phase = phases.iter().find(|phase| phase["name"] == name);
        phase.map_or(0, |phase| {
            phase["volumes"].as_array().unwrap().iter().filter(|got| got["broken"] != Value::Array(vec![])).count()
        })
    };
    let is_rejected = answer["rejected"].as_array().unwrap().iter().any(|why| why.as_str().unwrap().starts_with("new "));
    assert!(is_rejected || broken("after") <= broken("before"), "{json}");
}

#[test]
fn a_host_that_is_too_small_cannot_guarantee_and_names_its_need_and_capacity() {
    let folder = tempfile::tempdir().unwrap();
    let contract = file(folder.path(), "tenants.toml", TENANTS);
    let contract = contract.to_str().unwrap();
    let small = succeeds(&["guarantee", contract, "--disk", "barracuda", "--seconds", "2"]);
    three_lines(&small, "No: bad neighbours break ");
    let details = succeeds(&["guarantee", contract, "--disk", "barracuda", "--seconds", "2", "--details"]);
    assert!(details.lines().next() == small.lines().next() && details.contains("Demand of each guarantee on "), "{details}");
    assert!(details.contains("all at once, up to the first that breaks a guarantee:"), "{details}");
    let answer = |disk: &str| -> Value {
        serde_json::from_str(&succeeds(&["guarantee", contract, "--disk", disk, "--capacity-only", "--json"])).unwrap()
    };
    let (small, large) = (answer("barracuda"), answer("nvme-tlc"));
    assert_eq!((&small["can_be_guaranteed"], &large["can_be_guaranteed"]), (&Value::Bool(false), &Value::Bool(true)));
    assert!(small["needs"][0]["more"] == 0 && large["needs"][0]["more"].as_u64().unwrap() >= 1, "{large}");
    assert!(small["needs_percent"].as_f64().unwrap() >= 190.0, "two of the same disk need two: {small}");
}

#[test]
fn a_host_with_more_than_enough_keeps_promises_among_bad_neighbours() {
    let folder = tempfile::tempdir().unwrap();
    let contract = file(folder.path(), "tenants.toml", TENANTS);
    let said = succeeds(&["guarantee", contract.to_str().unwrap(), "--disk", "nvme-tlc", "--seconds", "2"]);
    three_lines(&said, "Yes: all 2 guarantees held in ");
}

/// Fails unless an answer is three lines: yes or no, the first guarantee to break, the best fit.
fn three_lines(said: &str, verdict: &str) {
    let lines: Vec<&str> = said.lines().collect();
    let [answer, first, fits] = lines[..] else { panic!("{said}") };
    assert!(answer.starts_with(verdict) && first.starts_with("First to break: ") && fits.starts_with("Would fit: "), "{said}");
}

/// Ten tenants: disks of their own, a reservation, limits, and three without a guarantee.
const TEN: [(&str, &str); 10] = [
    ("shop", "reference = \"hp_c2247a\""),
    ("bank", "reference = \"barracuda\""),
    ("mail", "reference = \"constant:request_ms=40,mb_s=5\""),
    ("wiki", "reference = \"constant:request_ms=100,mb_s=2\""),
    ("log", "reservation_iops = 10"),
    ("search", "reference = \"ibm18es\"\nlimit_iops = 20"),
    ("video", "reference = \"constant:request_ms=50,mb_s=4\"\nlimit_mb_s = 2"),
    ("build", "best_effort = true"),
    ("backup", "best_effort = true\nlimit_mb_s = 10"),
    ("test", "best_effort = true"),
];

#[test]
fn ten_tenants_are_answered_within_seconds_of_processor_time() {
    let folder = tempfile::tempdir().unwrap();
    let slow = |(number, (name, _)): (usize, (&str, &str))| match number {
        0..7 => (name.to_owned(), format!("reference = \"constant:request_ms={},mb_s=1\"", 140 + 20 * number)),
        _ => (name.to_owned(), "best_effort = true".to_owned()),
    };
    let mixed: Vec<(String, String)> = TEN.iter().map(|(name, keys)| ((*name).to_owned(), (*keys).to_owned())).collect();
    let slow: Vec<(String, String)> = TEN.into_iter().enumerate().map(slow).collect();
    let cases = [
        (&mixed, "sata7200", "No: bad neighbours break ", 15),
        (&slow, "sata7200", "Yes: all 7 guarantees held in ", 15),
        (&slow, "raid0:disk=atlas10k,disks=6", "Yes: all 7 guarantees held in ", 15),
        (&mixed, "nvme-tlc", "No: bad neighbours break ", 90),
    ];
    for (tenants, disk, verdict, seconds) in cases {
        let text: String =
            tenants.iter().map(|(name, keys)| format!("[[tenant]]\nname = \"{name}\"\njobs = [\"{name}\"]\n{keys}\n")).collect();
        let contract = file(folder.path(), "ten.toml", &text);
        // The kernel ends the program when its threads have used this many seconds together: a loaded machine changes nothing.
        let limited = Command::new("sh")
            .args([
                "-c",
                &format!("ulimit -t {seconds} && exec \"$0\" \"$@\""),
                PROGRAM,
                "guarantee",
                contract.to_str().unwrap(),
                "--disk",
                disk,
            ])
            .output()
            .unwrap();
        assert!(limited.status.success(), "{disk}: {} {}", limited.status, program::text(&limited.stderr));
        three_lines(&program::text(&limited.stdout), verdict);
    }
}

#[test]
fn a_refusal_ends_with_the_first_scenario_that_breaks_a_guarantee() {
    let folder = tempfile::tempdir().unwrap();
    let contract = file(folder.path(), "tenants.toml", TENANTS);
    let json = |threads: &str| {
        let arguments = ["guarantee", contract.to_str().unwrap(), "--disk", "barracuda", "--seconds", "2", "--threads", threads];
        succeeds(&[&arguments[..], &["--json"]].concat())
    };
    let answer: Value = serde_json::from_str(&json("1")).unwrap();
    let scenarios = answer["scenarios"].as_array().unwrap();
    let is_broken =
        |scenario: &Value| scenario["tenants"].as_array().unwrap().iter().any(|one| one["broken"] != Value::Array(vec![]));
    let broken: Vec<bool> = scenarios.iter().map(is_broken).collect();
    assert_eq!(broken.iter().position(|is| *is), Some(broken.len() - 1), "{broken:?}");
    assert_eq!(json("1"), json("3"), "the same for every number of threads");
    let kinds: Vec<&str> = answer["remedies"].as_array().unwrap().iter().map(|one| one["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["fewer tenants", "a smaller promise", "another of the shipped devices"]);
    assert_eq!(answer["remedies"][0]["helps"], "without bank: 1 of 2 guarantees");
}

/// A RAID 5 that is guaranteed twice over, and a disk that is too small for any of its volumes.
const OVERSOLD: &str = r#"
sample_s = 1.0

[[array]]
name = "r5"
disk = "raid5:disk=barracuda,disks=3,stripe_unit_kib=64"

[[array]]
name = "spare"
disk = "hp_c2247a"

[[volume]]
name = "mail"
on = "r5"
reference = "cheetah9LP"
mib = 512
load = { locality = 0.0, size_kib = 4, reads_percent = 0, outstanding = 8 }

[[volume]]
name = "bank"
on = "r5"
reference = "cheetah9LP"
mib = 512
load = { locality = 0.0, size_kib = 4, reads_percent = 0, outstanding = 8 }
"#;

#[test]
fn an_oversold_store_is_called_that_first_and_none_of_its_volumes_well_placed() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = file(folder.path(), "cluster.toml", OVERSOLD);
    let arguments = ["place", cluster.to_str().unwrap(), "--simulate", "--seconds", "5"];
    let said = succeeds(&arguments);
    assert!(said.starts_with("r5 is oversold: its guarantees need ") && !said.contains("well placed"), "{said}");
    assert!(said.contains("mail needs ") && said.contains("its guarantee breaks at "), "{said}");
    assert!(said.contains("No move is planned: no other array has room for a volume of an oversold one."), "{said}");
    let answer: Value = serde_json::from_str(&succeeds(&[&arguments[..], &["--json"]].concat())).unwrap();
    let oversold = &answer["oversold"][0];
    assert!(oversold["needs_percent"].as_f64() > oversold["capacity_percent"].as_f64(), "{oversold}");
    assert_eq!((&oversold["array"], &oversold["is_relieved"]), (&Value::from("r5"), &Value::Bool(false)));
    assert!(oversold["volumes"][0]["simulated_percent"].as_f64().unwrap() < 97.0, "{oversold}");
    assert!(answer["volumes"].as_array().unwrap().iter().all(|one| one["standing"] == "oversold"), "{}", answer["volumes"]);

    let relieved = OVERSOLD.replace("hp_c2247a", "nvme-tlc");
    let cluster = file(folder.path(), "cluster.toml", &relieved);
    let said = succeeds(&["place", cluster.to_str().unwrap()]);
    assert!(said.starts_with("r5 is oversold: ") && said.contains("After the moves below they need "), "{said}");
    assert!(said.contains(" goes from r5 to spare: ") && !said.contains("well placed"), "{said}");
}

#[test]
fn a_tenant_that_may_have_less_than_its_reference_disk_needs_less() {
    let folder = tempfile::tempdir().unwrap();
    let needs = |limit: &str| {
        let limited = TENANTS.replace("reference = \"barracuda\"", &format!("reference = \"barracuda\"\n{limit}"));
        let contract = file(folder.path(), "tenants.toml", &limited);
        let arguments = ["guarantee", contract.to_str().unwrap(), "--disk", "atlas10k", "--capacity-only", "--json"];
        let answer: Value = serde_json::from_str(&succeeds(&arguments)).unwrap();
        answer["needs_percent"].as_f64().unwrap()
    };
    let (unlimited, generous, by_both) = (needs(""), needs("limit_iops = 100000"), needs("limit_iops = 10\nlimit_mb_s = 1"));
    assert!((generous - unlimited).abs() < 1e-9, "{generous}% and {unlimited}%");
    assert!(by_both < unlimited / 2.0, "ten requests a second need {by_both}%, all that the disk can do {unlimited}%");
}

#[test]
fn a_reservation_of_bytes_is_refused_with_what_would_be_right() {
    let folder = tempfile::tempdir().unwrap();
    let contract = file(folder.path(), "tenants.toml", "[[tenant]]\nname = \"a\"\njobs = [\"x\"]\nreservation_mb_s = 3\n");
    let said = refused(&["guarantee", contract.to_str().unwrap(), "--disk", "atlas10k", "--capacity-only"]);
    assert!(said.contains("tenants.toml:1: tenant a: reservation_mb_s: ") && said.contains("constant:mb_s="), "{said}");
}
