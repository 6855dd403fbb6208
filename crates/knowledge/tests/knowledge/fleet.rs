//! Shared outcomes: nothing is lost or duplicated, and roles cannot exceed their rights.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use control::ab_test::Estimate;
use control::fleet::{DeviceType, FleetOutcome};
use knowledge::{Filter, Fleet, Form, Knowledge, NewOutcome, Problem, Retention, Score, Table};
use rand::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use tempfile::tempdir;

use crate::fixture::{decision, model, request, run, window};
use crate::helper;
use crate::postgres::{ROLES, Server, user};

pub fn device() -> DeviceType {
    DeviceType { kind: "scsi, rotational".into(), model: "ST4000NM".into(), firmware: "0001".into() }
}

pub fn new_outcome(number: u64) -> NewOutcome {
    let load = BTreeMap::from([("read_share".to_owned(), 0.5), ("size_mean_bytes".to_owned(), number as f32)]);
    NewOutcome {
        day: 20_000,
        device: device(),
        load,
        preference: "2,3,1".into(),
        from: "mq-deadline".into(),
        to: "bfq".into(),
        gain: Estimate { mean: 0.25, error: 0.05 },
    }
}

/// A database with tables and login roles: agents `ann` and `bob`, reader `ray`, operator `olga`.
pub fn fleet(server: &Server, name: &str) -> PathBuf {
    let address = server.database(name);
    let _alone = ROLES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    Fleet::init(&address).unwrap();
    let roles = "DO $$ BEGIN
        CREATE ROLE ann LOGIN; CREATE ROLE bob LOGIN; CREATE ROLE ray LOGIN; CREATE ROLE olga LOGIN;
        GRANT seekwise_agent TO ann, bob; GRANT seekwise_reader TO ray; GRANT seekwise_operator TO olga;
      EXCEPTION WHEN duplicate_object THEN NULL; END $$";
    server.sql("postgres", name, roles).unwrap();
    address
}

#[test]
fn a_knowledge_base_on_a_server_holds_what_a_file_holds() {
    let Some(server) = Server::shared() else { return };
    let (address, folder) = (server.database("kb"), tempdir().unwrap());
    let file = folder.path().join("kb");
    let export = |knowledge: &Knowledge, table: Table, form: Form| {
        let mut text = Vec::new();
        knowledge.export(table, form, &mut text, &mut |_| true).unwrap();
        String::from_utf8(text).unwrap()
    };
    let fill = |path: &Path| {
        let mut knowledge = Knowledge::open(path).unwrap();
        let mut batch = knowledge.batch().unwrap();
        for number in 0..1500 {
            assert!(batch.window(&run(number / 500), &window(number)).unwrap());
            assert!(batch.decision(&run(number / 500), &decision(number)).unwrap());
            assert!(batch.request(&run(number / 500), &request(number)).unwrap());
            assert!(!batch.window(&run(number / 500), &window(number)).unwrap(), "known already");
        }
        assert!(batch.model(&model("m", 1)).unwrap() && !batch.model(&model("m", 1)).unwrap());
        batch.commit().unwrap();
        knowledge
    };
    let (mut here, mut there) = (fill(&file), fill(&address));
    let compare = |here: &Knowledge, there: &Knowledge| {
        for table in Table::ALL {
            for form in [Form::Csv, Form::Json] {
                assert_eq!(export(here, table, form), export(there, table, form), "{}", table.name());
            }
        }
        assert_eq!(here.experience().unwrap(), there.experience().unwrap());
        let (mut ours, mut theirs) = (here.summary().unwrap(), there.summary().unwrap());
        (ours.bytes, theirs.bytes) = (0, 0);
        assert_eq!(ours, theirs);
    };
    compare(&here, &there);
    let filter = Filter { device: Some(run(1).device), ..Filter::default() };
    assert_eq!(here.windows(&filter).count(), there.windows(&filter).count());
    // Merge in both directions, then once more.
    let other = server.database("other");
    let mut copy = Knowledge::open(&other).unwrap();
    assert!(copy.merge(&[Knowledge::open_to_read(&file).unwrap()], &mut |_| true).unwrap().new > 4000);
    compare(&here, &copy);
    assert_eq!(here.merge(&[Knowledge::open_to_read(&address).unwrap()], &mut |_| true).unwrap().new, 0);
    assert!(copy.merge(&[Knowledge::open_to_read(&other).unwrap()], &mut |_| true).is_err(), "into itself");
    let csv = export(&here, Table::Decisions, Form::Csv);
    assert_eq!(there.import(Path::new("x.csv"), csv.as_bytes(), &mut |_| true).unwrap().new, 0);
    let kept = Retention { windows: 100, requests: 50, models: 1, max_mib: 256 };
    let (ours, theirs) = (here.prune(&kept).unwrap(), there.prune(&kept).unwrap());
    assert_eq!((ours.windows, ours.decisions, ours.requests), (theirs.windows, theirs.decisions, theirs.requests));
    assert!(ours.windows > 0);
    compare(&here, &there);
    // Uncommitted rows are rolled back.
    drop(there.batch().and_then(|mut batch| batch.window(&run(9), &window(0)).map(|_| ())));
    compare(&here, &there);
    assert!(Knowledge::open_to_read(&server.database("empty")).unwrap_err().to_string().contains("seekwise fleet init"));
}

#[test]
fn only_what_a_server_confirmed_leaves_the_outbox() {
    let Some(server) = Server::start() else { return };
    let (address, folder) = (fleet(&server, "fleet"), tempdir().unwrap());
    let mut local = Knowledge::open(&folder.path().join("kb")).unwrap();
    (0..450).for_each(|number| local.record_outcome(&new_outcome(number)).unwrap());
    let ann = server.address("ann", "fleet");
    let exchanged = local.exchange(&mut Fleet::connect(&ann).unwrap(), &[device()]).unwrap();
    assert_eq!((exchanged.delivered, exchanged.refused, exchanged.known), (450, 0, 0));
    assert_eq!(local.waiting_outcomes().unwrap(), 0);
    // Another machine pulls them; the first does not pull its own.
    let mut other = Knowledge::open(&folder.path().join("other")).unwrap();
    other.record_outcome(&new_outcome(7)).unwrap();
    let bob = server.address("bob", "fleet");
    let mut connected = Fleet::connect(&bob).unwrap();
    assert_eq!(other.exchange(&mut connected, &[device()]).unwrap().known, 450);
    assert_eq!(other.outcomes().unwrap().iter().filter(|outcome| outcome.writer == "ann").count(), 450);
    assert_eq!(local.exchange(&mut Fleet::connect(&ann).unwrap(), &[device()]).unwrap().known, 1);
    // A restarted server has all confirmed outcomes; the rest is delivered afterwards.
    drop(server);
    other.record_outcome(&new_outcome(8)).unwrap();
    let failed = other.exchange(&mut connected, &[device()]).unwrap_err();
    assert!(matches!(failed.problem, Problem::Unreachable(_)), "{failed:?}");
    let refused = Fleet::connect(&bob).unwrap_err();
    assert!(matches!(refused.problem, Problem::Unreachable(_)) && refused.to_string().contains("cannot be reached"), "{refused}");
    assert_eq!((other.waiting_outcomes().unwrap(), other.outcomes().unwrap().len()), (1, 452), "it goes on with its own rows");
    drop(address);
}

#[test]
fn roles_decide_the_tables_that_may_be_written() {
    let Some(server) = Server::shared() else { return };
    let folder = tempdir().unwrap();
    fleet(server, "roles");
    let mut local = Knowledge::open(&folder.path().join("kb")).unwrap();
    local.record_outcome(&new_outcome(1)).unwrap();
    local.exchange(&mut Fleet::connect(&server.address("ann", "roles")).unwrap(), &[]).unwrap();
    server
        .sql(
            "olga",
            "roles",
            "INSERT INTO seekwise.rollouts (name, kind, model, setting, stages, approve, state)
        VALUES ('bfq', 'scsi, rotational', 'ST4000NM', 'bfq', '1', false, 'running')",
        )
        .unwrap();
    server
        .sql(
            "ann",
            "roles",
            "INSERT INTO seekwise.rollout_devices (rollout, device, machine)
        SELECT 1, decode(md5('ann'), 'hex'), machine FROM seekwise.machines",
        )
        .unwrap();
    let values = "day, kind, model, firmware, load, preference, from_setting, to_setting, gain, error, program";
    let row = "1, 'k', 'm', 'f', '{}', '2,3,1', 'none', 'bfq', 9, 0, 'x'";
    let refused: &[(&str, &str, String)] = &[
        ("bob", "another's machine", format!("INSERT INTO seekwise.outcomes (id, machine, {values}) SELECT decode(md5('1'), 'hex'), machine, {row} FROM seekwise.machines")),
        ("bob", "in another's name", format!("INSERT INTO seekwise.outcomes (id, machine, writer, {values}) SELECT decode(md5('1'), 'hex'), machine, 'ann', {row} FROM seekwise.machines")),
        ("bob", "a machine in another's name", "INSERT INTO seekwise.machines (machine, writer) VALUES (decode(md5('1'), 'hex'), 'ann')".into()),
        ("bob", "a changed row", "UPDATE seekwise.outcomes SET gain = 9".into()),
        ("ann", "a changed row of its own", "UPDATE seekwise.outcomes SET gain = 9".into()),
        ("ann", "a deleted row", "DELETE FROM seekwise.outcomes".into()),
        ("ann", "an emptied table", "TRUNCATE seekwise.outcomes CASCADE".into()),
        ("ann", "a rollout", "INSERT INTO seekwise.rollouts (name, kind, model, setting, stages, approve, state) VALUES ('x', 'k', 'm', 'none', '1', false, 'done')".into()),
        ("ann", "a rollout's state", "UPDATE seekwise.rollouts SET state = 'done'".into()),
        ("ann", "a place in a rollout", "INSERT INTO seekwise.rollout_members SELECT rollout, device, 0 FROM seekwise.rollout_devices".into()),
        ("bob", "another's device in a rollout", "INSERT INTO seekwise.rollout_devices (rollout, device, machine) SELECT 1, decode(md5('x'), 'hex'), machine FROM seekwise.machines".into()),
        ("bob", "another's score", "INSERT INTO seekwise.rollout_scores (rollout, device, id, treated, score, windows) SELECT rollout, device, device, true, 1, 1 FROM seekwise.rollout_devices".into()),
        ("ann", "rows of runs", "INSERT INTO seekwise.runs (id, began_s, plant, device, source, program) VALUES (decode(md5('x'), 'hex'), 0, '', '', '', '')".into()),
        ("ann", "rows of runs, read", "SELECT * FROM seekwise.runs".into()),
        ("ann", "a table", "CREATE TABLE seekwise.mine (x int)".into()),
        ("ann", "the version", "UPDATE seekwise.schema_version SET oldest_writer = 99".into()),
        ("ann", "no protection", "ALTER TABLE seekwise.outcomes DISABLE ROW LEVEL SECURITY".into()),
        ("ray", "a reader's row", format!("INSERT INTO seekwise.outcomes (id, machine, {values}) SELECT decode(md5('1'), 'hex'), machine, {row} FROM seekwise.machines")),
        ("olga", "an operator's outcome", format!("INSERT INTO seekwise.outcomes (id, machine, {values}) SELECT decode(md5('1'), 'hex'), machine, {row} FROM seekwise.machines")),
        ("olga", "another setting of a rollout", "UPDATE seekwise.rollouts SET setting = 'none'".into()),
        ("ann", "a gain beyond all bounds", format!("INSERT INTO seekwise.outcomes (id, machine, {values}) SELECT decode(md5('1'), 'hex'), machine, 1, 'k', 'm', 'f', '{{}}', '2,3,1', 'none', 'bfq', 'NaN', 0, 'x' FROM seekwise.machines")),
    ];
    for (role, what, statement) in refused {
        let said = server.sql(role, "roles", statement);
        assert!(
            said.as_ref().is_err_and(|why| ["permission denied", "row-level security", "violates", "must be owner"]
                .iter()
                .any(|word| why.contains(word))),
            "{role}: {what}: {said:?}"
        );
    }
    assert_eq!(server.sql("ray", "roles", "SELECT writer, gain FROM seekwise.outcomes").unwrap(), "ann|0.25");
    // bob's agent cannot write rows for ann's machine.
    local.record_outcome(&new_outcome(2)).unwrap();
    let denied = local.exchange(&mut Fleet::connect(&server.address("bob", "roles")).unwrap(), &[]).unwrap_err();
    assert!(matches!(&denied.problem, Problem::OtherMachine(role) if role == "ann"), "{denied:?}");
    assert_eq!(local.waiting_outcomes().unwrap(), 1, "it still waits for the right role");
    assert!(Fleet::connect(&server.address("mallory", "roles")).is_err());
}

#[test]
fn programs_of_earlier_and_later_versions_get_both_versions() {
    let Some(server) = Server::shared() else { return };
    fleet(server, "versions");
    let folder = tempdir().unwrap();
    let mut local = Knowledge::open(&folder.path().join("kb")).unwrap();
    local.record_outcome(&new_outcome(1)).unwrap();
    let ann = server.address("ann", "versions");
    let version = |version: u32, oldest: u32| {
        let statement = format!("UPDATE seekwise.schema_version SET version = {version}, oldest_writer = {oldest}");
        server.sql("postgres", "versions", &statement).unwrap();
    };
    // A later server with an additional column.
    server.sql("postgres", "versions", "ALTER TABLE seekwise.outcomes ADD COLUMN kernel TEXT NOT NULL DEFAULT ''").unwrap();
    version(9, 2);
    assert_eq!(local.exchange(&mut Fleet::connect(&ann).unwrap(), &[device()]).unwrap().delivered, 1);
    local.record_outcome(&new_outcome(2)).unwrap();
    version(9, 9);
    let old = Fleet::connect(&ann).unwrap_err().to_string();
    assert!(old.contains("takes rows of programs that know schema version 9 or later, this one knows 3: update seekwise"), "{old}");
    version(1, 1);
    let new = Fleet::connect(&ann).unwrap_err().to_string();
    assert!(new.contains("has schema version 1, this program writes 3: run `seekwise fleet init`"), "{new}");
    assert_eq!(local.waiting_outcomes().unwrap(), 1, "rows recorded meanwhile wait");
    version(3, 2);
    assert_eq!(local.exchange(&mut Fleet::connect(&ann).unwrap(), &[device()]).unwrap().delivered, 1);
}

/// Statements sent by programs of schema version 2.
const OF_VERSION_2: [&str; 2] = [
    "INSERT INTO seekwise.outcomes (id, machine, day, kind, model, firmware, load, preference, from_setting, to_setting, gain, error, program)
     SELECT decode(md5('old'), 'hex'), machine, 20000, 'scsi, rotational', 'ST4000NM', '1', '{}', '2,3,1', 'none', 'bfq', 0.1, 0.05, 'seekwise 0.1.0'
     FROM seekwise.machines ON CONFLICT (id) DO NOTHING",
    "INSERT INTO seekwise.rollout_scores (rollout, device, id, treated, score, windows, note)
     SELECT rollout, device, decode(md5('old'), 'hex'), false, 1.5, 60, '' FROM seekwise.rollout_devices ON CONFLICT DO NOTHING",
];

#[test]
fn an_upgrade_of_the_server_before_or_after_the_agents_loses_nothing() {
    let Some(server) = Server::shared() else { return };
    let address = fleet(server, "upgrade");
    let folder = tempdir().unwrap();
    let mut local = Knowledge::open(&folder.path().join("kb")).unwrap();
    local.record_outcome(&new_outcome(1)).unwrap();
    let ann = server.address("ann", "upgrade");
    let begin = "INSERT INTO seekwise.rollouts (name, kind, model, setting, stages, approve, state) VALUES ('x', 'k', 'm', 'bfq', '1', false, 'running')";
    server.sql("olga", "upgrade", begin).unwrap();
    // Agents are updated first: this program with a server of version 2.
    let back = "ALTER TABLE seekwise.outcomes DROP COLUMN written; DROP INDEX seekwise.outcomes_by_writer;
        ALTER TABLE seekwise.rollout_scores DROP COLUMN age_s; UPDATE seekwise.schema_version SET version = 2";
    server.sql("postgres", "upgrade", back).unwrap();
    let mut connected = Fleet::connect(&ann).unwrap();
    assert_eq!(local.exchange(&mut connected, &[device()]).unwrap().delivered, 1);
    let rollout = connected.rollout("x").unwrap().unwrap();
    let score =
        |number: u8, age_s: f64| Score { id: [number; 16], is_treated: false, score: 1.0, windows: 9, note: String::new(), age_s };
    connected.take_part(&rollout, &local.machine().unwrap(), &[1; 16]).unwrap();
    connected.report_scores(&rollout, &[1; 16], &[score(1, 0.0)]).unwrap();
    let reader = Fleet::connect(&server.address("ray", "upgrade")).unwrap();
    assert_eq!(reader.members(&rollout).unwrap()[0].scores.len(), 1);
    // Then the server: rows are kept, and old and new agents work at the same time.
    let init = {
        let _alone = ROLES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Fleet::init(&address)
    };
    init.unwrap();
    for statement in OF_VERSION_2 {
        server.sql("ann", "upgrade", statement).unwrap();
        server.sql("ann", "upgrade", statement).unwrap();
    }
    let mut connected = Fleet::connect(&ann).unwrap();
    connected.report_scores(&rollout, &[1; 16], &[score(2, 3_600.0)]).unwrap();
    let scores = Fleet::connect(&server.address("ray", "upgrade")).unwrap().members(&rollout).unwrap().remove(0).scores;
    assert_eq!(scores.len(), 3);
    assert!(scores[1].at_s - scores[0].at_s > 3_500.0, "one that came late counts when it was measured: {scores:?}");
    assert_eq!(Fleet::connect(&ann).unwrap().outcomes().unwrap().len(), 2);
    let mut other = Knowledge::open(&folder.path().join("other")).unwrap();
    assert_eq!(other.exchange(&mut Fleet::connect(&server.address("bob", "upgrade")).unwrap(), &[device()]).unwrap().known, 2);
}

/// Outcomes pulled by bob from a server with this number of rows of ann, after mallory has flooded it with as many.
fn pull_during_a_flood(server: &Server, name: &str, rows: u64) -> (Vec<FleetOutcome>, Duration) {
    fleet(server, name);
    let flood = format!(
        "INSERT INTO seekwise.machines (machine, writer) SELECT decode(md5(writer || n), 'hex'), writer
           FROM (VALUES ('ann'), ('mallory')) AS roles(writer), generate_series(1, 100) n;
         INSERT INTO seekwise.outcomes (id, machine, writer, day, kind, model, firmware, load, preference, from_setting, to_setting, gain, error, program)
         SELECT decode(md5(model || writer || n), 'hex'), decode(md5(writer || (1 + n % 100)), 'hex'), writer, 99999, 'scsi, rotational', model,
           '1', '{{\"read_share\": 0.5}}', '2,3,1', 'none', 'bfq', 0.1, 0.05, 'x'
         FROM (VALUES ('ann', 'ST4000NM'), ('ann', 'WD40'), ('mallory', 'ST4000NM')) AS roles(writer, model), generate_series(1, {rows}) n
         ON CONFLICT DO NOTHING;
         ANALYZE seekwise.outcomes"
    );
    server.sql("postgres", name, &flood).unwrap();
    let mut connected = Fleet::connect(&server.address("bob", name)).unwrap();
    let began = Instant::now();
    let found = connected.outcomes_of(&device(), &[9; 16], 1_000).unwrap();
    (found, began.elapsed())
}

#[test]
fn a_pull_is_bounded_and_no_role_crowds_out_the_others() {
    let Some(server) = Server::shared() else { return };
    let (found, took) = pull_during_a_flood(server, "flood", 3_000);
    let of = |writer: &str| found.iter().filter(|one| one.writer == writer && one.device.model == "ST4000NM").count();
    assert_eq!((of("ann"), of("mallory"), found.len()), (500, 500, 1_250));
    assert!(took < Duration::from_secs(5), "{took:?}");
    // Uses an index regardless of the number of rows.
    let plan =
        "EXPLAIN SELECT * FROM seekwise.outcomes o WHERE o.kind = 'scsi, rotational' AND o.model = 'ST4000NM' AND o.writer = 'ann'
        ORDER BY o.outcome DESC LIMIT 500";
    let plan = server.sql("bob", "flood", plan).unwrap();
    assert!(plan.contains("Index") && !plan.contains("Seq Scan"), "{plan}");
    // Outcomes that are old by the server's clock are not pulled, regardless of the day given by machines.
    server.sql("postgres", "flood", "UPDATE seekwise.outcomes SET written = CURRENT_DATE - 731 WHERE writer = 'mallory'").unwrap();
    let found = Fleet::connect(&server.address("bob", "flood")).unwrap().outcomes_of(&device(), &[9; 16], 1_000).unwrap();
    assert!(found.len() > 500 && found.iter().all(|one| one.writer == "ann"));
}

#[test]
#[ignore = "half a minute; research/bars/scale runs it"]
fn a_pull_from_three_million_rows_is_fast() {
    let Some(server) = Server::start() else { return };
    let (found, took) = pull_during_a_flood(&server, "million", 1_000_000);
    println!("seconds to pull {} of 3000000 rows: {:.3}", found.len(), took.as_secs_f64());
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn a_copied_image_and_a_reinstalled_agent_are_machines_of_their_own() {
    let folder = tempdir().unwrap();
    let (here, there) = (folder.path().join("here"), folder.path().join("there"));
    let mut local = Knowledge::open(&here).unwrap();
    assert!(!local.claim("host one").unwrap() && !local.claim("host one").unwrap());
    (0..3).for_each(|number| local.record_outcome(&new_outcome(number)).unwrap());
    let (machine, disk) = (local.machine().unwrap(), local.device_id("sda").unwrap());
    drop(local);
    std::fs::copy(&here, &there).unwrap();
    let mut copy = Knowledge::open(&there).unwrap();
    assert!(copy.claim("host two").unwrap(), "it is noticed");
    assert!(copy.machine().unwrap() != machine && copy.device_id("sda").unwrap() != disk);
    assert!(!copy.claim("host two").unwrap(), "once");
    let bytes = std::fs::read(&there).unwrap();
    assert!(!bytes.windows(8).any(|found| found == b"host two"), "the id of the host is not kept");
    // Outcomes queued in both files reach the server once, and both continue.
    let Some(server) = Server::shared() else { return };
    fleet(server, "copies");
    let mut local = Knowledge::open(&here).unwrap();
    assert!(!local.claim("host one").unwrap());
    for (knowledge, role) in [(&mut copy, "bob"), (&mut local, "ann")] {
        knowledge.record_outcome(&new_outcome(9)).unwrap();
        knowledge.exchange(&mut Fleet::connect(&server.address(role, "copies")).unwrap(), &[device()]).unwrap();
        assert_eq!(knowledge.waiting_outcomes().unwrap(), 0, "{role}");
    }
    assert_eq!(server.sql("ray", "copies", "SELECT count(*), count(DISTINCT machine) FROM seekwise.outcomes").unwrap(), "5|2");
    // A reinstalled agent has a new file; earlier rows of its role belong to another machine.
    let mut fresh = Knowledge::open(&folder.path().join("fresh")).unwrap();
    fresh.record_outcome(&new_outcome(1)).unwrap();
    let known = fresh.exchange(&mut Fleet::connect(&server.address("ann", "copies")).unwrap(), &[device()]).unwrap().known;
    assert_eq!(known, 5);
}

#[test]
fn scores_wait_for_the_server_over_a_restart() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("kb");
    let score = |number: u16| {
        let mut id = [0; 16];
        id[..2].copy_from_slice(&number.to_be_bytes());
        Score { id, is_treated: true, score: 1.5, windows: 60, note: "only watched".into(), age_s: 0.0 }
    };
    let mut local = Knowledge::open(&path).unwrap();
    local.take_part(&[("autumn".to_owned(), [1; 16])]).unwrap();
    local.keep_score("autumn", &[1; 16], &score(1), 1_000).unwrap();
    drop(local);
    let mut local = Knowledge::open(&path).unwrap();
    let waiting = local.waiting_scores(1_600).unwrap();
    assert_eq!((waiting.len(), &waiting[0].score), (1, &Score { age_s: 600.0, ..score(1) }));
    assert_eq!(local.waiting_scores(10).unwrap()[0].score.age_s, 0.0, "a clock that was set back");
    (2..=1_500).for_each(|number| local.keep_score("autumn", &[1; 16], &score(number), 2_000).unwrap());
    let waiting = local.waiting_scores(2_000).unwrap();
    assert_eq!((waiting.len(), waiting[0].score.id), (1_000, score(501).id), "the newest are kept");
    local.forget_score(&score(501).id).unwrap();
    assert_eq!(local.waiting_scores(2_000).unwrap().len(), 999);
    local.take_part(&[]).unwrap();
    assert_eq!(local.waiting_scores(2_000).unwrap(), [], "of a rollout that is over nothing waits");
}

#[test]
fn a_server_that_cannot_take_rows_says_why_and_they_wait() {
    let Some(server) = Server::shared() else { return };
    fleet(server, "ill");
    let folder = tempdir().unwrap();
    let mut local = Knowledge::open(&folder.path().join("kb")).unwrap();
    local.record_outcome(&new_outcome(1)).unwrap();
    let ann = server.address("ann", "ill");
    let mut refuse = |database: &str, statement: &str, says: &str| {
        server.sql("postgres", database, statement).unwrap();
        let done = Fleet::connect(&ann).and_then(|mut fleet| local.exchange(&mut fleet, &[device()]));
        let error = done.unwrap_err().to_string();
        assert!(error.contains(says), "{statement}: {error}");
        assert_eq!(local.waiting_outcomes().unwrap(), 1, "{statement}");
    };
    refuse("postgres", "ALTER DATABASE ill SET default_transaction_read_only = on", "read-only transaction");
    server.sql("postgres", "postgres", "ALTER DATABASE ill RESET default_transaction_read_only").unwrap();
    refuse(
        "ill",
        "REVOKE INSERT (gain) ON seekwise.outcomes FROM seekwise_agent",
        "permission denied for table outcomes: the role may not do this",
    );
    refuse("ill", "REVOKE USAGE ON SCHEMA seekwise FROM seekwise_agent", "the role may not do this");
    let renamed =
        "GRANT USAGE ON SCHEMA seekwise TO seekwise_agent; ALTER TABLE seekwise.schema_version RENAME COLUMN version TO number";
    refuse("ill", renamed, "another application made");
    refuse(
        "ill",
        "DROP TABLE seekwise.schema_version; CREATE TABLE seekwise.schema_version (name TEXT); GRANT SELECT ON seekwise.schema_version TO PUBLIC",
        "another application made",
    );
    refuse("ill", "DROP SCHEMA seekwise CASCADE", "run `seekwise fleet init`");
    // An invalid local row does not block the others.
    let broken = rusqlite::Connection::open(folder.path().join("kb")).unwrap();
    broken.execute("UPDATE outcomes SET load = 'no json'", []).unwrap();
    drop(broken);
    fleet_again(server, "ill");
    local.record_outcome(&new_outcome(2)).unwrap();
    let done = local.exchange(&mut Fleet::connect(&ann).unwrap(), &[device()]).unwrap();
    assert_eq!((done.delivered, done.refused, local.waiting_outcomes().unwrap()), (1, 1, 0));
}

/// A disk of a megabyte that belongs to the server's user.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None`, with a message, if it cannot be mounted.
    fn mount() -> Option<SmallDisk> {
        let folder = tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(folder.path()).stderr(Stdio::null());
        let Some((_, number)) = user().filter(|_| mount.status().is_ok_and(|status| status.success())) else {
            println!("skipped: a disk can be mounted by root only");
            return None;
        };
        // The server must be able to reach the folder.
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::chown(folder.path(), Some(number), None).unwrap();
        Some(SmallDisk(folder))
    }

    /// Writes a file that takes all space that is left.
    fn fill(&self) -> PathBuf {
        let path = self.0.path().join("full");
        let mut file = std::fs::File::create(&path).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The server may still have files of it open.
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn outcomes_wait_while_the_disk_of_the_server_is_full() {
    let Some(server) = Server::shared() else { return };
    let Some(disk) = SmallDisk::mount() else { return };
    fleet(server, "crowded");
    let place = disk.0.path().display();
    server.sql("postgres", "crowded", &format!("CREATE TABLESPACE small LOCATION '{place}'")).unwrap();
    server.sql("postgres", "crowded", "ALTER TABLE seekwise.outcomes SET TABLESPACE small").unwrap();
    let folder = tempdir().unwrap();
    let mut local = Knowledge::open(&folder.path().join("kb")).unwrap();
    (0..3).for_each(|number| local.record_outcome(&new_outcome(number)).unwrap());
    let full = disk.fill();
    let mut exchange =
        || Fleet::connect(&server.address("ann", "crowded")).and_then(|mut fleet| local.exchange(&mut fleet, &[device()]));
    let error = exchange().unwrap_err();
    assert!(error.to_string().contains("the server's disk is full"), "{error}");
    std::fs::remove_file(full).unwrap();
    let exchanged = exchange().unwrap();
    assert_eq!((exchanged.delivered, exchanged.refused, local.waiting_outcomes().unwrap()), (3, 0, 0));
    assert_eq!(server.sql("postgres", "crowded", "SELECT count(*) FROM seekwise.outcomes").unwrap(), "3");
}

fn fleet_again(server: &Server, name: &str) {
    let _alone = ROLES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    Fleet::init(&server.address("postgres", name)).unwrap();
}

#[test]
fn a_row_that_the_server_refuses_keeps_none_other_from_it() {
    let Some(server) = Server::shared() else { return };
    fleet(server, "refusing");
    server.sql("postgres", "refusing", "ALTER TABLE seekwise.outcomes ADD CHECK (load NOT LIKE '%13.0%')").unwrap();
    let folder = tempdir().unwrap();
    let mut local = Knowledge::open(&folder.path().join("kb")).unwrap();
    (10..20).for_each(|number| local.record_outcome(&new_outcome(number)).unwrap());
    let exchanged = local.exchange(&mut Fleet::connect(&server.address("ann", "refusing")).unwrap(), &[device()]).unwrap();
    assert_eq!((exchanged.delivered, exchanged.refused, local.waiting_outcomes().unwrap()), (9, 1, 0));
    assert!(exchanged.reason.is_some_and(|reason| reason.contains("violates check constraint")));
    let broken = NewOutcome { gain: Estimate { mean: f64::NAN, error: 0.0 }, ..new_outcome(1) };
    assert!(local.record_outcome(&broken).unwrap_err().to_string().contains("should be within"), "not even kept");
}

/// An outcome with a key that its gain holds.
fn keyed(key: u64) -> NewOutcome {
    let outcome = new_outcome(key);
    NewOutcome { gain: Estimate { mean: key as f64 / KEYS as f64, ..outcome.gain }, ..outcome }
}

fn key(outcome: &FleetOutcome) -> u64 {
    (outcome.gain.mean * KEYS as f64).round() as u64
}

/// More than all keys.
const KEYS: u64 = 1_000_000_000;
/// More than the keys of one process.
const KEYS_PER_RUN: u64 = 1_000_000;

/// Records outcomes and delivers them whenever the server is reachable, until killed. A task of [`helper`].
#[allow(
    clippy::disallowed_methods,
    reason = "slow enough that a restart of the server does not fill the queue, from which old outcomes are dropped"
)]
pub fn live_as_agent(path: &Path, run: u64, address: &Path) {
    let mut local = Knowledge::open(path).unwrap();
    for number in 0..KEYS_PER_RUN {
        let key = run * KEYS_PER_RUN + number;
        local.record_outcome(&keyed(key)).unwrap();
        helper::say(&format!("committed {key}"));
        std::thread::sleep(Duration::from_millis(1));
        if number % 3 == 0
            && let Ok(mut fleet) = Fleet::connect(address)
        {
            let _ = local.exchange(&mut fleet, &[device()]);
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the moment of the kill is to be any, not one that the program offers")]
fn survive(kills: u64) {
    let Some(mut server) = Server::start() else { return };
    fleet(&server, "fleet");
    let address = server.address("ann", "fleet");
    let folder = tempdir().unwrap();
    let path = folder.path().join("kb");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(44);
    let mut said = BTreeSet::new();
    for round in 0..kills {
        let mut child: Child =
            helper::command(&[], "agent", &path, round).env("KNOWLEDGE_SERVER", &address).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let listener = std::thread::spawn(move || {
            out.lines()
                .map_while(Result::ok)
                .filter_map(|line| line.strip_prefix("committed ")?.parse::<u64>().ok())
                .collect::<BTreeSet<_>>()
        });
        std::thread::sleep(Duration::from_millis(random.random_range(0..250)));
        if round % 2 == 1 {
            server.kill();
            std::thread::sleep(Duration::from_millis(random.random_range(0..100)));
            server.run();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        said.extend(listener.join().unwrap());
    }
    let mut local = Knowledge::open(&path).unwrap();
    local.exchange(&mut Fleet::connect(&address).unwrap(), &[device()]).unwrap();
    let ours: Vec<FleetOutcome> = local.outcomes().unwrap();
    let theirs = Fleet::connect(&server.address("ray", "fleet")).unwrap().outcomes().unwrap();
    println!("{kills} kills, {} outcomes recorded, {} on the server", said.len(), theirs.len());
    let ids: BTreeSet<_> = theirs.iter().map(|outcome| outcome.id).collect();
    let keys: BTreeSet<u64> = theirs.iter().map(key).collect();
    assert_eq!((ids.len(), keys.len()), (theirs.len(), theirs.len()), "each is there once");
    assert!(said.is_subset(&keys), "lost: {:?}", said.difference(&keys).collect::<Vec<_>>());
    // A process may be killed after a commit and before it says so.
    assert!(keys.difference(&said).count() as u64 <= kills);
    // The file keeps a limited number of those delivered.
    assert!(ours.iter().all(|outcome| ids.contains(&outcome.id)));
    assert!(said.len() as u64 > kills, "only {} outcomes: the test saw too little", said.len());
}

#[test]
fn nothing_is_lost_and_nothing_there_twice_over_kills_of_either_side() {
    survive(10);
}

#[test]
#[ignore = "two minutes; research/bars/scale runs it"]
fn nothing_is_lost_and_nothing_there_twice_over_200_kills_of_either_side() {
    survive(200);
}

#[test]
#[ignore = "a minute; research/bars/scale runs it"]
fn a_thousand_agents_deliver_to_one_server() {
    const AGENTS: u64 = 1000;
    const OUTCOMES: u64 = 100;
    let Some(server) = Server::start() else { return };
    fleet(&server, "fleet");
    let address = server.address("ann", "fleet");
    let folder = tempdir().unwrap();
    let paths: Vec<PathBuf> = (0..AGENTS).map(|agent| folder.path().join(format!("{agent}"))).collect();
    for path in &paths {
        let mut local = Knowledge::open(path).unwrap();
        (0..OUTCOMES).for_each(|number| local.record_outcome(&new_outcome(number)).unwrap());
    }
    let (began, next, delivered) = (Instant::now(), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    let mut local = Knowledge::open(path).unwrap();
                    let exchanged = local.exchange(&mut Fleet::connect(&address).unwrap(), &[]).unwrap();
                    delivered.fetch_add(exchanged.delivered, Ordering::Relaxed);
                }
            });
        }
    });
    let seconds = began.elapsed().as_secs_f64();
    let count = server.sql("ray", "fleet", "SELECT count(*), count(DISTINCT machine) FROM seekwise.outcomes").unwrap();
    assert_eq!(count, format!("{}|{AGENTS}", AGENTS * OUTCOMES));
    // A second exchange pulls the outcomes of the others.
    let mut local = Knowledge::open(&paths[0]).unwrap();
    let began = Instant::now();
    let known = local.exchange(&mut Fleet::connect(&address).unwrap(), &[device()]).unwrap().known;
    println!("outcomes delivered per second: {:.0}", delivered.load(Ordering::Relaxed) as f64 / seconds);
    println!("seconds to pull {known} outcomes: {:.2}", began.elapsed().as_secs_f64());
}
