#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

use super::*;

const BOTH: &str = r#"
[[tenant]]
name = "database"
jobs = ["oltp", "log", 7]
volumes = [{ begin_mib = 0, mib = 4096 }, { begin_mib = 8192, mib = 1 }]
weight = 3
reference = "barracuda"
reservation_iops = 100
limit_iops = 500
limit_mb_s = 20.5

[[tenant]]
name = "backup"
jobs = ["backup"]
best_effort = true
"#;

fn error(text: &str) -> String {
    format!("{:#}", Contract::parse(text, "t.toml").unwrap_err())
}

fn comment_error(text: &str) -> String {
    format!("{:#}", Contract::of_job_file(text, "t.fio").unwrap_err())
}

#[test]
fn a_file_names_the_tenants_and_their_promises() {
    let contract = Contract::parse(BOTH, "t.toml").unwrap();
    let [database, backup] = &contract.promises[..] else { panic!("{contract:?}") };
    assert_eq!((database.name.as_str(), database.line, database.jobs.join(" ").as_str()), ("database", 2, "oltp log 7"));
    assert_eq!(database.volumes, [0..4096 * 2048, 8192 * 2048..8193 * 2048]);
    assert_eq!((database.weight, database.is_weighted, database.best_effort), (3, true, false));
    assert_eq!(database.reference.as_ref().unwrap().to_string(), "barracuda");
    let block::Rates { reservation, limit, .. } = database.rates;
    let rates = [reservation.iops, limit.iops, limit.bytes_per_s];
    assert_eq!(rates.map(|rate| rate.unwrap().get()), [100, 500, 20_500_000]);
    assert_eq!((backup.weight, backup.is_weighted, backup.best_effort), (1, false, true));
}

#[test]
fn comments_of_a_job_file_say_the_same() {
    let text = "[global]\nbs=8k\n[oltp]\n; seekwise: tenant=database weight=3 reference=barracuda\nrw=randread\n[log]\n\
                # seekwise: tenant=database limit_mb_s=20.5 volumes=0+4096,8192+1\n[other]\n[backup]\n;; seekwise: tenant=backup best_effort=true\n";
    let contract = Contract::of_job_file(text, "t.fio").unwrap().unwrap();
    let [database, backup] = &contract.promises[..] else { panic!("{contract:?}") };
    assert_eq!((database.jobs.join(" ").as_str(), database.weight, database.line), ("oltp log", 3, 4));
    assert_eq!(database.volumes, [0..4096 * 2048, 8192 * 2048..8193 * 2048]);
    assert_eq!(database.rates.limit.bytes_per_s.unwrap().get(), 20_500_000);
    assert_eq!((backup.jobs.join(" ").as_str(), backup.best_effort), ("backup", true));
    assert!(Contract::of_job_file("[a]\n; a comment\n", "t.fio").unwrap().is_none());
}

#[test]
fn rates_are_of_requests_and_of_bytes_of_reads_and_of_writes() {
    let text = "[[tenant]]\nname = \"a\"\njobs = [\"x\"]\nreservation_mb_s = 1.5\nlimit_read_iops = 10\nlimit_write_iops = 20\n\
                limit_read_mb_s = 30\nlimit_write_mb_s = 40\nlimit_burst_s = 0.5\nio_unit_kib = 64\nlatency_p99_ms = 20.5\n";
    let contract = Contract::parse(text, "t.toml").unwrap();
    let block::Rates { reservation, limit, read_limit, write_limit, burst, unit_bytes } = contract.promises[0].rates;
    assert_eq!((reservation, limit), (block::Rate::bytes_per_s(1_500_000), block::Rate::default()));
    let numbers = |rate: block::Rate| (rate.iops.unwrap().get(), rate.bytes_per_s.unwrap().get());
    assert_eq!((numbers(read_limit), numbers(write_limit)), ((10, 30_000_000), (20, 40_000_000)));
    assert_eq!((burst, unit_bytes.get()), (Some(Nanos::from_millis(500)), 65_536));
    assert_eq!(contract.promises[0].latency_p99, Some(Nanos(20_500_000)));
}

#[test]
fn what_is_wrong_with_a_value_is_said_with_line_tenant_key_and_what_would_be_right() {
    let with = |line: &str| error(&format!("[[tenant]]\nname = \"a\"\njobs = [\"x\"]\n{line}\n"));
    for (line, words) in [
        ("weight = 0", "t.toml:4: tenant a: weight: a weight of 0 is no share; 1 is the least"),
        ("weight = -3", "t.toml:4: tenant a: weight: -3 should be 1 to 10000"),
        ("weight = \"much\"", "weight: \"much\" should be a whole number"),
        ("wieght = 3", "t.toml:4: tenant a: wieght: there is no such key"),
        ("wieght = 3", "did you mean weight?"),
        ("reference = \"baracuda\"", "t.toml:4: tenant a: reference: baracuda: neither a file, nor one of the built-in disks"),
        ("reference = \"baracuda\"", "did you mean barracuda?"),
        ("reference = \"constant:request_ms=0\"", "`request_ms=0` should be request_ms=10 or mb_s=20"),
        ("volumes = [{ begin_mib = 0 }]", "should be pieces of the disk"),
        ("volumes = [{ begin_mib = 0, mib = 0 }]", "mib = 0 holds nothing; 1 is the least"),
        ("volumes = [{ begin_mib = -1, mib = 5 }]", "begin_mib = -1 should be 0 or more"),
        ("volumes = [{ begin_mib = 9223372036854775807, mib = 5 }]", "no disk is so large"),
        ("limit_mb_s = 0", "limit_mb_s: 0 should be 10^6 bytes a second, more than 0"),
        ("limit_iops = 0", "limit_iops: 0 should be requests a second, at least 1"),
        ("limit_iops = 5\nreservation_iops = 6", "reservation_iops = 6 is more than limit_iops = 5"),
        ("limit_mb_s = 5\nreservation_mb_s = 5.5", "reservation_mb_s = 5.5 is more than limit_mb_s = 5"),
        (
            "limit_read_iops = 5\nlimit_write_iops = 6\nreservation_iops = 12",
            "reservation_iops = 12 is more than limit_read_iops and limit_write_iops together allow, 11",
        ),
        ("limit_burst_s = 2", "limit_burst_s says how long an unused limit is saved up, but there is no limit"),
        ("limit_iops = 2\nlimit_burst_s = -1", "limit_burst_s: -1 should be seconds, 0 to 86400"),
        ("io_unit_kib = 0", "io_unit_kib: 0 should be KiB that count as one request, 1 to 1048576"),
        ("limit_read_iop = 3", "did you mean limit_read_iops?"),
        ("latency_p99_ms = 0", "latency_p99_ms: 0 should be milliseconds, 0.001 to 3600000"),
        ("best_effort = true\nlatency_p99_ms = 20", "but a bound of the response time is one"),
        ("best_effort = true\nreservation_mb_s = 20", "but a reservation is one"),
        ("best_effort = true\nreference = \"barracuda\"", "but a reference disk is one"),
        ("best_effort = 1", "best_effort: 1 should be true or false"),
    ] {
        let error = with(line);
        assert!(error.contains(words), "{line}: {error}");
    }
}

#[test]
fn what_is_wrong_with_the_file_is_said_with_its_line() {
    for (text, words) in [
        ("", "t.toml: names no tenant"),
        ("[[tenants]]\nname = \"a\"\n", "t.toml:1: unknown field `tenants`, expected `tenant`"),
        ("[[tenant]]\nname = \"a\n", "t.toml:2:"),
        ("[[tenant]]\njobs = [\"x\"]\n", "t.toml:1: tenant: has no name"),
        ("[[tenant]]\nname = 3\n", "t.toml:2: tenant: name: should be a word in quotes"),
        ("[[tenant]]\nname = \"a\"\n", "t.toml:1: tenant a: names neither jobs nor volumes"),
        ("[[tenant]]\nname = \"a\"\njobs = []\n", "should be names of jobs in brackets"),
        (&format!("{BOTH}[[tenant]]\nname = \"backup\"\njobs = [\"z\"]\n"), "tenant backup: is in line 12 already; name it once"),
    ] {
        let error = error(text);
        assert!(error.contains(words), "{text}: {error}");
    }
}

#[test]
fn what_is_wrong_with_a_comment_is_said_with_its_line() {
    for (text, words) in [
        ("; seekwise: tenant=a\n[x]\n", "t.fio:1: seekwise stands in no job's section"),
        ("[global]\n; seekwise: tenant=a\n", "t.fio:2: seekwise stands in no job's section"),
        ("[x]\n; seekwise: weight=3\n", "t.fio:2: seekwise: names no tenant"),
        ("[x]\n; seekwise: tenant\n", "`tenant` should be KEY=VALUE"),
        ("[x]\n; seekwise: tenant=a weight=0\n", "t.fio:2: tenant a: weight: a weight of 0 is no share"),
        ("[x]\n; seekwise: tenant=a wieght=1\n", "did you mean weight?"),
        ("[x]\n; seekwise: tenant=a weight=1 weight=2\n", "weight: is given twice"),
        ("[x]\n; seekwise: tenant=a jobs=y\n", "jobs: the job is the one of the section"),
        ("[x]\n; seekwise: tenant=a\n; seekwise: tenant=a\n", "t.fio:3: seekwise: tenant a: this job is its own already"),
        ("[x]\n; seekwise: tenant=a weight=1\n[y]\n; seekwise: tenant=a weight=2\n", "weight is already set in line 2"),
    ] {
        let error = comment_error(text);
        assert!(error.contains(words), "{text}: {error}");
    }
}
