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
    let rates = [database.reservation_iops, database.limit_iops, database.limit_bytes_per_s];
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
    assert_eq!(database.limit_bytes_per_s.unwrap().get(), 20_500_000);
    assert_eq!((backup.jobs.join(" ").as_str(), backup.best_effort), ("backup", true));
    assert!(Contract::of_job_file("[a]\n; a comment\n", "t.fio").unwrap().is_none());
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
