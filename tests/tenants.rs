//! End-to-end tests of tenants: contracts, guarantees and reports.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::program::{refused, succeeds};
use serde_json::Value;

/// Results per tenant of a simulation.
fn tenancy(arguments: &[&str]) -> Value {
    let record: Value = serde_json::from_str(&succeeds(&[&["simulate", "--json"], arguments].concat())).unwrap();
    record["tenants"].clone()
}

fn tenant<'a>(tenancy: &'a Value, name: &str) -> &'a Value {
    tenancy["tenants"].as_array().unwrap().iter().find(|tenant| tenant["name"] == name).unwrap()
}

fn broken(tenant: &Value) -> Vec<&str> {
    tenant["broken"].as_array().unwrap().iter().map(|broken| broken.as_str().unwrap()).collect()
}

fn file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// A database with random reads, and a neighbour whose many outstanding requests starve others.
const FLOOD: &str = "[global]\nruntime=10\ntime_based\ndirect=1\nioengine=libaio\nrw=randread\n[database]\nbs=8k\nsize=512m\niodepth=2\n\
                     [flood]\nbs=64k\nsize=4g\niodepth=128\n";

/// The guarantees to both.
const PROMISES: &str = "[[tenant]]\nname = \"customer\"\njobs = [\"database\"]\nreference = \"barracuda\"\n\
                        [[tenant]]\nname = \"other\"\njobs = [\"flood\"]\nbest_effort = true\n";

#[test]
fn a_promise_that_a_flood_breaks_is_reported_as_broken_and_alone_it_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (flood, promises) = (file(folder.path(), "flood.fio", FLOOD), file(folder.path(), "promises.toml", PROMISES));
    let (flood, promises) = (flood.to_str().unwrap(), promises.to_str().unwrap());
    let arguments = [flood, "--tenants", promises, "--scheduler", "noop"];
    let flooded = tenancy(&arguments);
    let customer = tenant(&flooded, "customer");
    let broken_promises = broken(customer);
    assert!(broken_promises.iter().any(|broken| broken.contains("of the throughput that it has on barracuda")), "{customer}");
    assert!(broken_promises.iter().any(|broken| broken.contains("windows of 1 s")), "{customer}");
    assert!(broken_promises.iter().any(|broken| broken.contains("p99 response time is")), "{customer}");
    assert!(customer["reference"]["throughput_ratio"].as_f64().unwrap() < 0.5, "{customer}");
    let second = &customer["reference"]["windows"][1];
    assert!(second["windows"].as_u64() >= Some(9) && second["violated"] == second["windows"], "{second}");
    assert!(broken(tenant(&flooded, "other")).is_empty(), "it has no guarantee");
    assert!(flooded["capacity"]["needs_percent"].as_f64().unwrap() < 100.0, "the disk could have kept it: {flooded}");
    let printed = succeeds(&[&["simulate"], &arguments[..]].concat());
    assert!(printed.contains("customer: guaranteed at least as fast as barracuda alone. BROKEN: it got"), "{printed}");

    // The same guarantee without the neighbour.
    let quiet = FLOOD.split("[flood]").next().unwrap();
    let (quiet, one) = (
        file(folder.path(), "quiet.fio", quiet),
        file(folder.path(), "one.toml", PROMISES.split("[[tenant]]\nname = \"other\"").next().unwrap()),
    );
    let alone = tenancy(&[quiet.to_str().unwrap(), "--tenants", one.to_str().unwrap(), "--scheduler", "noop"]);
    assert!(broken(tenant(&alone, "customer")).is_empty(), "{alone}");
}

#[test]
fn a_disk_is_exactly_as_good_as_itself() {
    let folder = tempfile::tempdir().unwrap();
    let job = file(
        folder.path(),
        "one.fio",
        "[global]\nruntime=6\ntime_based\ndirect=1\n[a]\n; seekwise: tenant=a reference=atlas10k\nrw=randread\nbs=8k\nsize=1g\nthinktime=3000\n",
    );
    // A job file without comments has no tenants.
    let tenancy_here = tenancy(&[job.to_str().unwrap(), "--disk", "atlas10k", "--scheduler", "clook"]);
    let figures = &tenant(&tenancy_here, "a")["reference"];
    // Alone on the reference disk, the file is at another position: at the beginning.
    let ratio = figures["throughput_ratio"].as_f64().unwrap();
    assert!((0.9..1.1).contains(&ratio), "{figures}");
    assert_eq!(figures["recovery"]["returns"], 1);
}

#[test]
fn schedulers_are_compared_by_kept_promises() {
    let folder = tempfile::tempdir().unwrap();
    let (flood, promises) = (file(folder.path(), "flood.fio", FLOOD), file(folder.path(), "promises.toml", PROMISES));
    let page = folder.path().join("page.html");
    let arguments = [
        "compare",
        flood.to_str().unwrap(),
        "--tenants",
        promises.to_str().unwrap(),
        "--scheduler",
        "noop",
        "--scheduler",
        "clook",
    ];
    let printed = succeeds(&[&arguments[..], &["--html", page.to_str().unwrap()]].concat());
    for scheduler in ["noop", "clook"] {
        let line = format!("{scheduler}: guarantees of 0 of 1 tenants kept; worst customer: it got ");
        assert!(printed.contains(&line), "{printed}");
    }
    let html = std::fs::read_to_string(page).unwrap();
    for words in
        ["<h2>Tenants</h2>", "customer: guaranteed at least as fast as barracuda alone", "guarantees broken.", "on barracuda"]
    {
        assert!(html.contains(words), "the page lacks {words}");
    }
    let one = succeeds(&[&arguments[..], &["--threads", "1", "--json"]].concat());
    assert_eq!(one, succeeds(&[&arguments[..], &["--threads", "4", "--json"]].concat()), "the same bytes on any number of threads");
}

#[test]
fn a_host_that_cannot_do_it_is_said_not_to() {
    let folder = tempfile::tempdir().unwrap();
    let mut job =
        String::from("[global]\nruntime=5\ntime_based\ndirect=1\nioengine=libaio\nrw=randread\nbs=8k\nsize=256m\niodepth=4\n");
    for number in 0..4 {
        writeln!(job, "[volume-{number}]\n; seekwise: tenant=t{number} reference=barracuda").unwrap();
    }
    let job = file(folder.path(), "four.fio", &job);
    let printed = succeeds(&["simulate", job.to_str().unwrap(), "--disk", "barracuda"]);
    assert!(printed.contains("Guarantees do not fit: they need "), "{printed}");
    assert!(printed.contains("% of this disk’s capacity"), "{printed}");
}

#[test]
fn write_back_counts_for_the_writing_tenant_and_its_share() {
    let tenancy = tenancy(&["tenants/weighted-shares", "--scheduler", "fairio"]);
    for (name, weight, promised) in [("gold", 3, 50.0), ("silver", 2, 100.0 / 3.0), ("bronze", 1, 100.0 / 6.0)] {
        let tenant = tenant(&tenancy, name);
        assert_eq!(tenant["promised"]["weight"], weight);
        let share = |key: &str| tenant["share"][key].as_f64().unwrap();
        assert!((share("promised_percent") - promised).abs() < 1e-9, "{tenant}");
        assert!((share("got_percent") - promised).abs() < 1.0 && broken(tenant).is_empty(), "{name}: {}", tenant["share"]);
    }
    assert_eq!(tenancy["others_requests"], 0);
    // noop does not enforce the shares.
    let shared = succeeds(&["compare", "tenants/weighted-shares", "--scheduler", "noop"]);
    assert!(shared.contains("tenants kept; worst "), "{shared}");
}

#[test]
fn limits_and_reservations_are_judged_by_the_second() {
    let folder = tempfile::tempdir().unwrap();
    let job = file(
        folder.path(),
        "rates.fio",
        "[global]\nruntime=5\ntime_based\ndirect=1\nrw=randread\nbs=4k\nsize=256m\n[a]\n; seekwise: tenant=fast limit_iops=20\n\
         [b]\n; seekwise: tenant=slow reservation_iops=5000\n",
    );
    let tenancy = tenancy(&[job.to_str().unwrap(), "--scheduler", "noop"]);
    let said = |name| broken(tenant(&tenancy, name)).join(" ");
    assert!(said("fast").contains("more than its limit of 20 requests a second"), "{}", said("fast"));
    assert!(said("slow").contains("less than 95% of 5000 requests"), "{}", said("slow"));
}

/// Violated guarantees of the tenants of two jobs, each given as comment and lines, and the text for a terminal.
fn broken_of_two(scheduler: &str, [one, two]: [(&str, &str); 2]) -> ([String; 2], String) {
    let folder = tempfile::tempdir().unwrap();
    let section = |name: &str, (terms, job): (&str, &str)| format!("[{name}]\n; seekwise: tenant={name} {terms}\n{job}\n");
    let head = "[global]\nruntime=10\ntime_based\ndirect=1\nioengine=libaio\nrw=randread\nbs=4k\nsize=256m\n";
    let job = file(folder.path(), "two.fio", &[head, &section("one", one), &section("two", two)].concat());
    let arguments = [job.to_str().unwrap(), "--scheduler", scheduler];
    let tenancy = tenancy(&arguments);
    let broken = ["one", "two"].map(|name| broken(tenant(&tenancy, name)).join("; "));
    (broken, succeeds(&[&["simulate"], &arguments[..]].concat()))
}

#[test]
fn a_tenant_at_its_own_limit_is_not_judged_by_its_share() {
    let flood = ("weight=1", "iodepth=32");
    let (broken, _) = broken_of_two("fairio", [("weight=1 limit_iops=10", "iodepth=4"), flood]);
    assert_eq!(broken, ["", ""]);
    let (broken, _) = broken_of_two("noop", [("weight=1 limit_iops=1000", "iodepth=1"), flood]);
    assert!(broken[0].contains("its share is 50.0%"), "it is far from its limit: {broken:?}");
}

#[test]
fn the_capacity_that_a_tenant_needs_is_counted_within_its_limits() {
    let needs = |limits: &str| {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("{}; seekwise: tenant=one reference=barracuda {limits}\n", FLOOD.replace("4g", "1g"));
        let job = file(folder.path(), "limited.fio", &text);
        let tenancy = tenancy(&[job.to_str().unwrap(), "--scheduler", "mclock"]);
        tenancy["capacity"]["needs_percent"].as_f64().unwrap()
    };
    let unlimited = needs("");
    assert!(needs("limit_read_iops=2") < unlimited / 4.0 && needs("limit_iops=2") < unlimited / 4.0, "{unlimited}");
    assert!((needs("limit_write_iops=2") - unlimited).abs() < 1e-9, "it writes nothing");
}

#[test]
fn a_bound_of_the_p99_response_time_is_judged_and_printed() {
    let jobs = [("latency_p99_ms=20", "iodepth=1"), ("latency_p99_ms=60000", "iodepth=32")];
    let (broken, printed) = broken_of_two("noop", jobs);
    assert!(broken[0].contains("its p99 response time is ") && broken[0].ends_with("at most 20 ms is guaranteed"), "{broken:?}");
    assert_eq!(broken[1], "");
    assert!(printed.contains("one: guaranteed a p99 response time of at most 20.0 ms. BROKEN: "), "{printed}");
}

#[test]
fn a_reservation_is_judged_in_seconds_in_which_the_tenant_asked_all_the_time() {
    let flood = ("best_effort=true", "iodepth=32");
    let (broken, _) = broken_of_two("noop", [("reservation_iops=1000", "iodepth=1"), flood]);
    assert!(broken[0].contains("of 10 seconds it got less than 95% of 1000 requests"), "{broken:?}");
    let (broken, _) = broken_of_two("noop", [("reservation_iops=1000", "iodepth=1\nthinktime=20000"), flood]);
    assert_eq!(broken[0], "", "it pauses in every second");
}

#[test]
fn large_requests_count_as_several_and_writes_have_a_limit_of_their_own() {
    let one = ("limit_iops=8", "iodepth=2\nbs=1m");
    let two = ("limit_write_iops=20 limit_read_iops=100000", "rw=randrw\niodepth=2");
    let (broken, printed) = broken_of_two("mclock", [one, two]);
    assert_eq!(broken, ["", ""], "two of 1 MiB in a second are eight of 256 KiB");
    assert!(printed.contains("at most 20 writes a second"), "{printed}");
    let (broken, _) = broken_of_two("noop", [one, two]);
    assert!(broken[0].contains("more than its limit of 8 requests a second"), "{broken:?}");
    assert!(broken[1].contains("more than its limit of 20 writes a second") && !broken[1].contains("reads"), "{broken:?}");
}

#[test]
fn streams_of_a_trace_and_pieces_of_a_disk_are_tenants_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut lines = String::from("time_us,stream,op,lba,sectors,sync\n");
    for n in 0..600u64 {
        let (stream, lba) = if n % 2 == 0 { (1, 1_000 + n * 16) } else { (2, 3_000_000 + (n * 7919) % 1_000_000) };
        writeln!(lines, "{},{stream},R,{lba},16,1", n * 10_000).unwrap();
    }
    let trace = file(folder.path(), "two.csv", &lines);
    let promises = file(
        folder.path(),
        "two.toml",
        "[[tenant]]\nname = \"one\"\njobs = [1]\nreference = \"barracuda\"\n\
         [[tenant]]\nname = \"place\"\nvolumes = [{ begin_mib = 1024, mib = 1024 }]\nreference = \"constant:request_ms=20\"\n",
    );
    let tenancy = tenancy(&[trace.to_str().unwrap(), "--tenants", promises.to_str().unwrap()]);
    for name in ["one", "place"] {
        let tenant = tenant(&tenancy, name);
        assert_eq!((&tenant["requests"], &tenant["reference"]["response"]["requests"]), (&300.into(), &300.into()), "{tenant}");
        assert!(broken(tenant).is_empty(), "{tenant}");
    }
    assert_eq!(tenancy["others_requests"], 0);
}

#[test]
fn what_is_wrong_is_said_with_what_would_be_right() {
    let folder = tempfile::tempdir().unwrap();
    let flood = file(folder.path(), "flood.fio", FLOOD);
    let wrong = |promises: &str| {
        let promises = file(folder.path(), "promises.toml", promises);
        refused(&["simulate", flood.to_str().unwrap(), "--tenants", promises.to_str().unwrap()])
    };
    for (promises, words) in [
        (PROMISES.replace("\"database\"", "\"databse\""), "tenant customer: jobs: "),
        (PROMISES.replace("\"database\"", "\"databse\""), "has no job or stream databse (database, flood); did you mean database?"),
        (PROMISES.replace("\"flood\"", "\"database\""), "tenant other: jobs: database is tenant customer's already"),
        (
            PROMISES.replace("\"barracuda\"", "\"baracuda\""),
            "tenant customer: reference: baracuda: neither a file, nor one of the built-in disks",
        ),
        (
            PROMISES
                .replace("jobs = [\"flood\"]", "jobs = [\"flood\"]\nreference = \"barracuda\"")
                .replace("best_effort = true", ""),
            "tenant other: reference: barracuda holds 2006 MiB, and the tenant has 4096 MiB",
        ),
        (
            PROMISES.replace("best_effort = true", "volumes = [{ begin_mib = 5000000, mib = 1 }]"),
            "tenant other: volumes: ends at 5000001 MiB, and sata7200 holds",
        ),
        (
            PROMISES.replace("best_effort = true", "volumes = [{ begin_mib = 0, mib = 9 }, { begin_mib = 8, mib = 1 }]"),
            "tenants other and other: both volumes hold sector 16384",
        ),
        (
            PROMISES.replace("jobs = [\"flood\"]", "volumes = [{ begin_mib = 0, mib = 1 }]"),
            "flood.fio runs jobs, and the tenant names none of them; jobs = [\"database\"]",
        ),
        (PROMISES.replace("best_effort = true", "weight = 0"), "tenant other: weight: a weight of 0 is no share; 1 is the least"),
    ] {
        let said = wrong(&promises);
        assert!(said.contains(words), "{promises}\n{said}");
    }
    // Detected only by the reference run.
    let far = file(folder.path(), "far.csv", "time_us,stream,op,lba,sectors,sync\n0,1,R,8000000,8,1\n");
    let promises = file(folder.path(), "far.toml", "[[tenant]]\nname = \"a\"\njobs = [1]\nreference = \"barracuda\"\n");
    let said = refused(&["simulate", far.to_str().unwrap(), "--tenants", promises.to_str().unwrap()]);
    assert!(said.contains("sector 8000000 is beyond the tenant's reference disk of 4110000 sectors"), "{said}");
    let missing = refused(&["simulate", flood.to_str().unwrap(), "--tenants", "missing.toml"]);
    assert!(missing.contains("missing.toml: cannot be read"), "{missing}");
    let comments = file(folder.path(), "comments.fio", &FLOOD.replace("[flood]", "[flood]\n; seekwise: tenant=x wieght=3\n"));
    let said = refused(&["compare", comments.to_str().unwrap()]);
    assert!(
        said.contains("comments.fio:12: tenant x: wieght: there is no such key") && said.contains("did you mean weight?"),
        "{said}"
    );
}
