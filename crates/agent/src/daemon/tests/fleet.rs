//! Sharing with a fleet: data that leave the machine, data that are received, and rollouts.

use std::collections::BTreeMap;

use knowledge::Knowledge;

use super::*;
use crate::configuration::FleetSettings;
use crate::fleet::{Exchange, Job};

#[path = "../../../../knowledge/tests/knowledge/postgres.rs"]
mod postgres;

/// A controller that decides by an A/B test. Choice: few short trials, so that the tests are fast; not varied.
const SEARCH: &str = "mode = \"act\"\ncontroller = \"random:trials=4,child_ms=2000\"\nchanges_per_minute = 60\n";

/// A scene with sharing to an unreachable server, and its knowledge base.
fn sharing(configuration: &str) -> (Scene, std::path::PathBuf) {
    sharing_of(Scene::new(configuration))
}

fn sharing_of(mut scene: Scene) -> (Scene, std::path::PathBuf) {
    let file = scene.root.path().join(crate::learning::FILE);
    let exchange = Exchange { file: file.clone(), settings: FleetSettings::default(), machine_id: "/nowhere".into() };
    let memory = Memory::below(scene.root.path());
    let usual = Daemon::new(
        scene.moment(),
        (Sysfs::at(scene.root.path()), scene.root.path().to_owned()),
        Scope {
            configuration: Configuration::load(&Sources::Only(scene.root.path().join("agent.toml"))).unwrap(),
            named: Vec::new(),
            mode: None,
        },
        Box::new(Opener(scene.device.clone())),
        (Arc::default(), History::in_memory(100), scene.metrics.clone()),
    );
    scene.daemon = usual.remembering(memory).sharing(FleetLink::start(exchange, Nanos::ZERO).unwrap());
    scene.daemon.step(scene.moment());
    (scene, file)
}

fn rollout(scene: &mut Scene, setting: Option<&str>) {
    let wanted: BTreeMap<String, (String, String)> =
        setting.map(|setting| ("sda".to_owned(), ("autumn".to_owned(), setting.to_owned()))).into_iter().collect();
    let moment = scene.moment();
    scene.daemon.shared_by_others(moment, Reply { rollouts: Some(wanted), ..Reply::default() });
}

#[test]
fn measured_changes_are_recorded_and_name_no_device_process_or_path() {
    let (mut scene, file) = sharing(SEARCH);
    scene.adopt_kyber();
    let local = Knowledge::open(&file).unwrap();
    let outcomes = local.outcomes().unwrap();
    assert!(!outcomes.is_empty() && local.waiting_outcomes().unwrap() == outcomes.len() as u64, "{}", outcomes.len());
    for outcome in &outcomes {
        assert_eq!(outcome.problem(), None);
        assert!(outcome.load.contains_key("read_share") && outcome.from != outcome.to, "{outcome:?}");
        // Rows contain only these values.
        let text = format!("{outcome:?}");
        let root = scene.root.path().to_str().unwrap();
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        for word in ["sda", "8:0", root, "agent.toml", host.trim()] {
            assert!(word.len() < 3 || !text.contains(word), "{word} in {text}");
        }
    }
    // Without a server nothing is recorded.
    let mut alone = Scene::new(SEARCH);
    alone.adopt_kyber();
    assert!(!alone.root.path().join(crate::learning::FILE).exists());
}

#[test]
fn the_comparison_that_decided_is_the_only_figure_that_is_shown_stored_and_shared() {
    let (mut scene, file) = sharing(SEARCH);
    let verdict = scene.adopt_kyber();
    assert_eq!((verdict.setting.to_string().as_str(), verdict.over.to_string().as_str()), ("kyber", "mq-deadline"));
    assert_eq!((verdict.by, verdict.ruling), (control::Test::AbTest, control::Ruling::Kept));
    let measured = Measured::of(&verdict).unwrap();
    let status = scene.status();
    let shown = status.devices[0].verdict.clone().unwrap();
    assert_eq!((shown.gain_percent, shown.error_percent), (measured.gain_percent, measured.error_percent));
    assert_eq!((shown.samples, shown.stays, shown.test.as_str()), (verdict.samples, true, "A/B test"));
    let reason = status.devices[0].thoughts.last().unwrap();
    assert!(reason.contains(&format!("kyber was {} than", control::ab_test::percent(verdict.gain.mean))), "{reason}");
    let with_figures: Vec<Entry> = scene.daemon.history().entries().filter(|entry| entry.measured().is_some()).cloned().collect();
    let of_history: Vec<_> = with_figures.iter().map(|entry| (entry.to.as_str(), entry.measured().unwrap())).collect();
    assert_eq!(of_history, [("kyber", measured)], "neither trials nor returns from them");
    let text = scene.metrics.text();
    let series = "seekwise_measured_gain_ratios{device=\"sda\"} ";
    let gauge: f64 = text.lines().find_map(|line| line.strip_prefix(series)).unwrap().parse().unwrap();
    assert!((100.0 * gauge - measured.gain_percent).abs() < 1e-9, "{gauge}");
    let outcomes = Knowledge::open(&file).unwrap().outcomes().unwrap();
    let shared: Vec<_> = outcomes.iter().map(|one| (one.from.as_str(), one.to.as_str(), one.gain)).collect();
    assert_eq!(shared, [("mq-deadline", "kyber", verdict.gain)], "trials are no outcomes");
}

/// All rows of all tables on the server, as text, after a machine has shared its outcomes.
#[test]
fn rows_on_the_server_name_no_host_device_process_or_path() {
    let Some(server) = postgres::Server::shared() else { return };
    let address = server.database("rows");
    knowledge::Fleet::init(&address).unwrap();
    let (mut scene, file) = sharing(SEARCH);
    scene.adopt_kyber();
    let begin = "INSERT INTO seekwise.rollouts (name, kind, model, setting, stages, approve, state)
        SELECT 'autumn', kind, model, 'bfq', '1', false, 'running' FROM seekwise.outcomes LIMIT 1";
    let settings = FleetSettings { server: Some(address), rollouts: true, ..FleetSettings::default() };
    let exchange = Exchange { file: file.clone(), settings, machine_id: "/etc/machine-id".into() };
    let mut job = Job { unix_seconds: 1_700_000_000, ..Job::default() };
    for round in 0..2 {
        let devices = scene.daemon.devices.values_mut().map(|session| (session.name().to_owned(), session.share())).collect();
        job.devices = devices;
        let reply = exchange.run(&job);
        assert_eq!((reply.trouble, reply.delivered > 0), (None, round == 0));
        server.sql("postgres", "rows", if round == 0 { begin } else { "SELECT 1" }).unwrap();
        scene.pass(5, 5);
    }
    let all = "SELECT string_agg(query_to_xml('SELECT * FROM seekwise.' || tablename, true, true, '')::text, '') FROM pg_tables WHERE schemaname = 'seekwise'";
    let rows = server.sql("postgres", "rows", all).unwrap();
    let count = |table: &str| server.sql("postgres", "rows", &format!("SELECT count(*) > 0 FROM seekwise.{table}")).unwrap();
    assert_eq!((count("outcomes"), count("rollout_devices"), count("rollout_scores")), ("t".into(), "t".into(), "t".into()));
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let here = std::env::current_exe().unwrap();
    let program = here.file_name().unwrap().to_str().unwrap().to_owned();
    let root = scene.root.path().to_str().unwrap().to_owned();
    // A time such as 15:18:02 and a random name hold the same letters inside a word.
    let begins_a_word =
        |word: &str| rows.match_indices(word).any(|(at, _)| !rows[..at].ends_with(|before: char| before.is_ascii_alphanumeric()));
    assert!(begins_a_word("kyber") && !begins_a_word("yber"));
    for word in [
        read("/proc/sys/kernel/hostname"),
        read("/etc/machine-id"),
        root,
        program,
        "sda".into(),
        "8:0".into(),
        "agent.toml".into(),
        "knowledge.sqlite".into(),
    ] {
        assert!(word.len() < 3 || !begins_a_word(&word), "{word} in {rows}");
    }
    // Without the server settings stay and scores are queued; a rollout aborted meanwhile ends at the next exchange.
    let nowhere = FleetSettings { server: Some("postgresql://x@/y?host=/nowhere".into()), ..exchange.settings.clone() };
    let away = Exchange { settings: nowhere, ..exchange.clone() };
    job.devices = scene.daemon.devices.values_mut().map(|session| (session.name().to_owned(), session.share())).collect();
    let reply = away.run(&job);
    assert!(reply.rollouts.is_none() && !reply.outcomes.is_empty());
    assert!(reply.trouble.as_ref().is_some_and(|trouble| trouble.contains("cannot be reached")), "{:?}", reply.trouble);
    let waiting = || Knowledge::open(&file).unwrap().waiting_scores(0).unwrap().len();
    assert_eq!(waiting(), 1);
    server.sql("postgres", "rows", "UPDATE seekwise.rollouts SET state = 'aborted'").unwrap();
    let reply = exchange.run(&Job { devices: BTreeMap::new(), ..job });
    assert_eq!((reply.trouble, reply.rollouts, waiting()), (None, Some(BTreeMap::new()), 0));
}

#[test]
fn what_owners_chose_is_no_model_of_a_device() {
    let root = tempfile::tempdir().unwrap();
    let sysfs = Sysfs::at(root.path());
    for (name, files) in [
        ("sda", [("device/model", "ST4000NM0035"), ("device/rev", "TN03"), ("device/vendor", "ATA")]),
        ("sdb", [("device/model", "payroll-db"), ("device/rev", "4.0"), ("device/vendor", "LIO-ORG")]),
        ("loop0", [("loop/backing_file", "/home/ann/secret.img"), ("a", ""), ("b", "")]),
        ("dm-0", [("dm/name", "ann-secret"), ("dm/uuid", "LVM-x"), ("b", "")]),
    ] {
        for folder in ["device", "loop", "dm"] {
            fs::create_dir_all(root.path().join("sys/block").join(name).join(folder)).unwrap();
        }
        plug(root.path(), name, &files);
    }
    let types: Vec<String> =
        topology::devices(&sysfs).unwrap().iter().map(|device| format!("{:?}", device_type(&sysfs, device))).collect();
    let all = types.join("\n");
    assert!(all.contains("ST4000NM0035") && all.contains("TN03") && all.contains("scsi, rotational"), "{all}");
    for secret in ["payroll", "ann", "secret", "home", "LVM", "loop0", "dm-0", "sda", "sdb"] {
        assert!(!all.contains(secret), "{secret} in {all}");
    }
}

#[test]
fn a_rollout_sets_measures_and_gives_back() {
    let (mut scene, _) = sharing("mode = \"act\"\ncontroller = \"fixed\"");
    scene.pass(5, 5);
    rollout(&mut scene, Some("kyber"));
    assert_eq!(scene.device.scheduler(), "kyber");
    let set = scene.last(EntryKind::Set);
    assert!(set.why.contains("rollout autumn has chosen this device"), "{set:?}");
    scene.pass(5, 5);
    let session = scene.daemon.devices.values_mut().next().unwrap();
    let share = session.share();
    assert_eq!((share.active.as_deref(), share.note.as_str(), share.takes_part), (Some("autumn"), "", true));
    assert!(share.score.is_some_and(|(score, windows)| score.is_finite() && windows >= 4), "{share:?}");
    rollout(&mut scene, Some("kyber"));
    assert_eq!(scene.kinds().iter().filter(|kind| **kind == EntryKind::Set).count(), 1, "once");
    rollout(&mut scene, None);
    assert_eq!(scene.device.scheduler(), "mq-deadline");
    assert!(scene.last(EntryKind::Set).why.contains("rollout autumn is over for this device: back to mq-deadline"));
}

#[test]
fn a_rollout_leaves_the_tunables_that_it_does_not_name() {
    let scene = Scene::new("mode = \"act\"\ncontroller = \"fixed\"");
    scene.device.world().setting = Setting::parse("mq-deadline read_ahead_kb=1024").unwrap();
    let (mut scene, _) = sharing_of(scene);
    scene.pass(5, 5);
    rollout(&mut scene, Some("kyber"));
    assert_eq!(scene.device.setting().to_string(), "kyber read_ahead_kb=1024");
    rollout(&mut scene, None);
    assert_eq!(scene.device.setting().to_string(), "mq-deadline read_ahead_kb=1024");
}

#[test]
fn an_administrators_change_wins_over_a_rollout() {
    let (mut scene, _) = sharing("mode = \"act\"\ncontroller = \"fixed\"");
    scene.pass(5, 5);
    rollout(&mut scene, Some("kyber"));
    scene.pass(2, 5);
    scene.device.rival("bfq");
    scene.pass(2, 5);
    rollout(&mut scene, Some("kyber"));
    scene.pass(2, 5);
    assert_eq!(scene.device.scheduler(), "bfq");
    let session = scene.daemon.devices.values_mut().next().unwrap();
    let share = session.share();
    assert_eq!((share.active, share.note.as_str()), (None, "changed by an administrator"));
    rollout(&mut scene, None);
    assert_eq!(scene.device.scheduler(), "bfq", "what was there before does not come back over it");
}

#[test]
fn a_rollout_changes_nothing_that_the_configuration_does_not_allow() {
    for (configuration, note) in [
        ("mode = \"watch\"\ncontroller = \"fixed\"", ""),
        ("mode = \"act\"\ncontroller = \"fixed\"\nattributes = [\"read_ahead_kb\"]", "refused by the configuration or the applier"),
    ] {
        let (mut scene, _) = sharing(configuration);
        scene.pass(5, 5);
        rollout(&mut scene, Some("kyber"));
        scene.pass(2, 5);
        assert_eq!(scene.device.scheduler(), "mq-deadline", "{configuration}");
        let session = scene.daemon.devices.values_mut().next().unwrap();
        let share = session.share();
        assert_eq!((share.active, share.note.as_str()), (None, note), "{configuration}");
    }
    // Invalid settings from a server are ignored.
    let (mut scene, _) = sharing("mode = \"act\"\ncontroller = \"fixed\"");
    scene.pass(2, 5);
    for broken in ["bfq:slice_idle=-1", "rm -rf /", "", "elevator=noop"] {
        rollout(&mut scene, Some(broken));
        assert_eq!(scene.device.scheduler(), "mq-deadline", "{broken}");
    }
}
