#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

use std::fs;
use std::path::Path;

use applier::policy::Policy;

use super::*;
use ::protect::Promise;
use block::Nanos;
use linux::topology::DriverKind;

fn device(name: &str, model: &str) -> Device {
    Device {
        name: name.to_owned(),
        number: (8, 0),
        sequence: 1,
        kind: DriverKind::Scsi,
        model: Some(model.to_owned()),
        size_sectors: 1 << 20,
        rotational: true,
        partitions: Vec::new(),
        holders: Vec::new(),
        below: Vec::new(),
        has_queue: true,
        is_zoned: false,
        left_alone: None,
    }
}

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn load(root: &Path) -> Configuration {
    Configuration::load(&Sources::Below(root.to_owned())).unwrap_or_else(|error| panic!("{error}"))
}

/// The error message for a file with this text.
fn message(text: &str) -> String {
    let folder = folder(&[("a.toml", text)]);
    let error = Configuration::load(&Sources::Only(folder.path().join("a.toml"))).unwrap_err().to_string();
    error.strip_prefix(&format!("{}/", folder.path().display())).unwrap_or(&error).to_owned()
}

#[test]
fn without_a_file_it_watches_and_restores() {
    let folder = folder(&[]);
    let configuration = load(folder.path());
    let settings = configuration.settings(&device("sda", ""), None);
    assert_eq!((settings.mode, settings.exit), (Mode::Watch, AtExit::Restore));
    assert_eq!(settings.controller.label(), "seekwise");
    assert!(!configuration.acts() && configuration.metrics.is_none() && configuration.read.is_empty());
    assert!(settings.may_touch("iosched/fifo_batch") && !settings.may_touch("vm/swappiness"));
}

#[test]
fn etc_replaces_the_vendors_file_and_drop_ins_are_merged() {
    let folder = folder(&[
        ("usr/lib/seekwise/agent.toml", "mode = \"act\"\nhistory = 7\n"),
        ("etc/seekwise/agent.toml", "exit = \"keep\"\n"),
        ("usr/lib/seekwise/agent.toml.d/20-a.conf", "history = 20\n"),
        ("usr/lib/seekwise/agent.toml.d/30-b.conf", "history = 30\n"),
        ("run/seekwise/agent.toml.d/30-b.conf", "budget_permille = 3\n"),
        ("etc/seekwise/agent.toml.d/10-c.conf", "history = 10\n"),
        ("etc/seekwise/agent.toml.d/notes", "this is no drop-in"),
    ]);
    let configuration = load(folder.path());
    let settings = configuration.settings(&device("sda", ""), None);
    assert_eq!((settings.mode, settings.exit), (Mode::Watch, AtExit::Keep), "only one of the files is read");
    assert_eq!((configuration.history, configuration.budget_permille), (20, 3));
    let names: Vec<_> = configuration.read.iter().map(|path| path.strip_prefix(folder.path()).unwrap().to_owned()).collect();
    let expected = [
        "etc/seekwise/agent.toml",
        "etc/seekwise/agent.toml.d/10-c.conf",
        "usr/lib/seekwise/agent.toml.d/20-a.conf",
        "run/seekwise/agent.toml.d/30-b.conf",
    ];
    assert_eq!(names, expected.map(PathBuf::from));
    std::os::unix::fs::symlink("/dev/null", folder.path().join("etc/seekwise/agent.toml.d/20-a.conf")).unwrap();
    assert_eq!(load(folder.path()).history, 10, "a link to /dev/null disables the file of the same name");
}

#[test]
fn a_rule_must_match_in_all_given_keys_and_the_last_match_applies() {
    let rules = "\
        [[device]]\nname = \"sd*\"\nmode = \"act\"\npreference = \"3,2,1\"\n\
        [[device]]\nname = \"sd*\"\nmodel = \"ST*\"\nmode = \"leave-alone\"\n";
    let folder = folder(&[("etc/seekwise/agent.toml", rules)]);
    let configuration = load(folder.path());
    let mode = |name, model| configuration.settings(&device(name, model), None).mode;
    assert_eq!((mode("sda", "WDC"), mode("sda", "ST4000"), mode("vda", "ST4000")), (Mode::Act, Mode::LeaveAlone, Mode::Watch));
    assert_eq!(configuration.settings(&device("sda", "ST4000"), None).preference.to_string(), "3,2,1");
    assert!(configuration.acts());
}

#[test]
fn errors_name_file_line_key_value_and_what_would_be_right() {
    let wrong = [
        ("\nmode = \"on\"\n", "a.toml:2: mode = \"on\": should be \"watch\" or \"act\" or \"leave-alone\""),
        ("history = 0x0\n", "a.toml:1: history = 0x0: should be a whole number from 1 to 100000"),
        ("budget_permille = 2.5", "a.toml:1: budget_permille = 2.5: should be a whole number from 1 to 1000"),
        ("exit = 1", "a.toml:1: exit = 1: should be \"restore\" or \"keep\""),
        ("socket = \"here\"", "a.toml:1: socket = \"here\": should be an absolute path"),
        ("metrics = \"9750\"", "a.toml:1: metrics = \"9750\": should be an address and a port, as in \"127.0.0.1:9750\""),
        (
            "attributes = [\"schedular\"]",
            "a.toml:1: attributes = [\"schedular\"]: unknown attribute 'schedular'; did you mean scheduler?",
        ),
        ("attributes = []", "a.toml:1: attributes = []: should be a list of strings"),
        ("candidates = [\"cfq\"]", "a.toml:1: candidates = [\"cfq\"]: Linux has no cfq; it has none, mq-deadline, kyber, bfq"),
        ("candidates = [\"bfq:slice=1\"]", "a.toml:1: candidates = [\"bfq:slice=1\"]: bfq has no tunable 'slice'"),
        ("controller = \"magic\"", "a.toml:1: controller = \"magic\": there is no controller 'magic'; known are fixed"),
        ("preference = \"3,3,3\"", "a.toml:1: preference = \"3,3,3\": preference '3,3,3': the three add up to 9"),
        ("mod = \"act\"", "a.toml:1: mod: there is no such key; did you mean mode?; known are mode, controller"),
        ("[[device]]\nmode = \"act\"\n", "a.toml:1: device: selects no devices"),
        ("[[device]]\nname = \"sda\"\nhistory = 3\n", "a.toml:3: device: history: there is no such key"),
        ("[device]\nname = \"sda\"\n", "a.toml:1: device: should be tables, each below a line [[device]]"),
        ("[fleet]\nserver = \"db\"\n", "a.toml:2: server = \"db\": should begin with postgresql://"),
        ("[fleet]\nrollouts = 1\n", "a.toml:2: rollouts = 1: should be true or false"),
        ("[fleet]\nsever = \"x\"\n", "a.toml:2: fleet: sever: there is no such key; did you mean server?"),
        ("mode = \"act\"\nmode = \"act\"", "a.toml:2: duplicate key"),
        ("mode = ", "a.toml:1: "),
    ];
    for (text, expected) in wrong {
        let message = message(text);
        assert!(message.starts_with(expected), "{text:?}: {message}\nshould begin with {expected}");
    }
    let missing = Configuration::load(&Sources::Only(PathBuf::from("/no/such/file"))).unwrap_err();
    assert!(missing.to_string().starts_with("/no/such/file: "), "{missing}");
}

#[test]
fn a_scheduler_that_only_some_kernels_have_may_be_a_candidate() {
    let folder = folder(&[("etc/seekwise/agent.toml", "candidates = [\"kernel\", \"adios:batch_limit_read=8\"]\n")]);
    let candidates = load(folder.path()).settings(&device("sda", "WDC"), None).candidates.clone();
    assert_eq!(candidates.last().map(ToString::to_string).as_deref(), Some("adios:batch_limit_read=8"));
    assert_eq!(candidates.len(), block::KERNEL.len() + 1);
}

#[test]
fn the_vendors_file_names_every_key_with_its_default() {
    let text = vendor_file();
    let kept = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/agent.toml")).unwrap();
    assert!(kept == text, "packaging/agent.toml is out of date: run `seekwise-agent configuration --vendor >packaging/agent.toml`");
    // Without the comment signs, the result is the default configuration.
    let keys: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix('#').filter(|rest| rest.contains(" = ") && !rest.starts_with(' ')))
        .collect();
    let of_all: String = keys.iter().take_while(|line| !line.starts_with("name")).flat_map(|line| [line, "\n"]).collect();
    let folder = folder(&[("etc/seekwise/agent.toml", &of_all)]);
    let (said, unsaid) = (load(folder.path()), Configuration::default());
    let shown = |configuration: &Configuration| format!("{:?}", Configuration { read: Vec::new(), ..configuration.clone() });
    assert_eq!(shown(&said), shown(&unsaid));
    let policy = Policy::load(&Sources::Below(folder.path().to_owned())).unwrap();
    assert!(policy.socket == said.applier_socket && !policy.may_touch_machine, "the applier reads the same file");
}

#[test]
fn a_candidate_is_allowed_only_if_all_attributes_that_it_changes_are() {
    let settings = |attributes: &str| {
        let folder = folder(&[("etc/seekwise/agent.toml", &format!("attributes = {attributes}"))]);
        load(folder.path()).settings(&device("sda", ""), None)
    };
    let setting = |text: &str| Setting::parse(text).unwrap();
    let found = setting("mq-deadline:fifo_batch=4");
    let scheduler_only = settings("[\"scheduler\"]");
    assert!(scheduler_only.allows(&setting("bfq"), &found));
    assert!(!scheduler_only.allows(&setting("bfq:slice_idle=0"), &found));
    assert!(scheduler_only.allows(&found, &found) && !scheduler_only.allows(&setting("mq-deadline"), &found));
    assert!(!settings("[\"iosched/*\"]").allows(&setting("bfq"), &found));
    assert!(settings("[\"iosched/*\"]").allows(&setting("mq-deadline"), &found));
    assert!(!scheduler_only.allows(&setting("bfq read_ahead_kb=512"), &found));
}

#[test]
fn promises_are_read_and_a_later_file_replaces_its_namesake() {
    let folder = folder(&[
        (
            "etc/seekwise/agent.toml",
            "[[protect]]\nunit = \"postgresql.service\"\nread_p99_ms = 15\nfsync_p99_ms = 20.5\n\
             [[protect]]\nunit = \"4f2a\"\ndevice = \"sd*\"\nleast_iops = 200\nleast_mb_s = 0.5\n\
             share_percent = 40\nreference = \"sata7200\"\n\
             [limits]\nneighbours = [\"backup.service\"]\nfloor_mb_s = 3\n",
        ),
        ("etc/seekwise/agent.toml.d/1.conf", "[[protect]]\nunit = \"postgresql.service\"\nwrite_p99_ms = 9\n"),
    ]);
    let configuration = load(folder.path());
    let [container, postgres] = &configuration.promises[..] else { panic!("{:?}", configuration.promises) };
    assert_eq!(postgres.promise, Promise { write_p99: Some(Nanos::from_millis(9)), ..Promise::default() });
    assert!(
        postgres.is_about(&device("vda", "")) && !container.is_about(&device("vda", "")) && container.is_about(&device("sdb", ""))
    );
    assert_eq!((container.promise.least_iops, container.promise.least_bytes_per_s), (Some(200.0), Some(500_000.0)));
    let reference = container.promise.reference.as_ref().map(|reference| reference.name.as_str());
    assert_eq!((container.promise.share, reference), (Some(0.4), Some("sata7200")));
    assert_eq!((configuration.limits.neighbours.join(" "), configuration.limits.floor_mb_s), ("backup.service".to_owned(), 3));
    let cgroups = Policy::load(&Sources::Below(folder.path().to_owned())).unwrap().cgroups;
    assert_eq!(
        (cgroups.names, cgroups.floor_bytes_per_s),
        (vec!["backup.service".to_owned()], 3_000_000),
        "the applier reads the same"
    );
}

#[test]
fn errors_of_promises_name_the_line() {
    let wrong = [
        ("[[protect]]\nread_p99_ms = 5\n", "a.toml:1: protect: names no unit; set unit, as in unit = \"postgresql.service\""),
        ("\n[[protect]]\nunit = \"a\"\n", "a.toml:2: protect: promises a nothing; set for example read_p99_ms = 15"),
        ("[[protect]]\nunit = \"\"\n", "a.toml:2: unit = \"\": should be a unit, as in"),
        ("[[protect]]\nunit = \"a\"\nread_p99_ms = 0\n", "a.toml:3: read_p99_ms = 0: should be a number from 0.001 to 60000"),
        ("[[protect]]\nunit = \"a\"\nread_p99_ms = nan\n", "a.toml:3: read_p99_ms = nan: should be a number"),
        ("[[protect]]\nunit = \"a\"\nread_p99_ms = \"5ms\"\n", "a.toml:3: read_p99_ms = \"5ms\": should be a number"),
        ("[[protect]]\nunit = \"a\"\nleast_iops = -1\n", "a.toml:3: least_iops = -1: should be a number from 1 to"),
        ("[[protect]]\nunit = \"a\"\nshare_percent = 101\n", "a.toml:3: share_percent = 101: should be a number from 0.1 to 100"),
        (
            "[[protect]]\nunit = \"a\"\nreference = \"sata720\"\n",
            "a.toml:3: reference = \"sata720\": sata720: neither a file, nor one of the built-in disks (",
        ),
        ("[[protect]]\nunit = \"a\"\nreference = 7\n", "a.toml:3: reference = 7: should be"),
        (
            "[[protect]]\nunit = \"a\"\nread_p99 = 5\n",
            "a.toml:3: protect: read_p99: there is no such key; did you mean read_p99_ms?",
        ),
        ("[protect]\nunit = \"a\"\n", "a.toml:1: protect: should be tables, each below a line [[protect]]"),
        ("limits = 3\n", "a.toml:1: limits: should be a table below a line [limits]"),
        (
            "[limits]\nneighbours = [\"../etc\"]\n",
            "a.toml:2: neighbours = [\"../etc\"]: \"../etc\" should be a unit, as in \"backup.service\"",
        ),
        ("[limits]\nfloor_mb_s = 0\n", "a.toml:2: floor_mb_s = 0: should be a whole number from 1 to"),
        ("[limits]\nio_cost = 1\n", "a.toml:2: io_cost = 1: should be true or false"),
        ("[limits]\nneighbors = []\n", "a.toml:2: limits: neighbors: there is no such key; did you mean neighbours?"),
    ];
    for (text, expected) in wrong {
        let message = message(text);
        assert!(message.starts_with(expected), "{text:?}: {message}\nshould begin with {expected}");
    }
}

#[test]
fn learning_is_off_until_a_scratch_file_is_named() {
    assert!(load(folder(&[]).path()).learning.scratch.is_none());
    let named = load(folder(&[("etc/seekwise/agent.toml", "[learning]\nscratch = \"/srv/scratch\"\nhours = [\"Sat,Sun 08:00-20:00\"]\nidle_minutes = 0\ncontroller = \"random:trials=4\"\n")]).path());
    let learning = named.learning;
    assert_eq!(learning.scratch.unwrap().to_str(), Some("/srv/scratch"));
    assert_eq!((learning.hours[0].to_string().as_str(), learning.idle_minutes), ("Sat,Sun 08:00-20:00", 0));
    assert_eq!(learning.controller.label(), "random:trials=4");
}

#[test]
fn errors_of_learning_name_the_line() {
    let refused = |text: &str| {
        let folder = folder(&[("agent.toml", text)]);
        Configuration::load(&Sources::Only(folder.path().join("agent.toml"))).unwrap_err().to_string()
    };
    assert!(refused("[learning]\nscratch = \"here\"\n").contains(":2: scratch = \"here\": should be an absolute path"));
    let hours = refused("[learning]\n\nhours = [\"nights\"]\n");
    assert!(hours.contains(":3: hours = [\"nights\"]: 'nights' should be hours of the day, as in \"02:00-05:00\""), "{hours}");
    assert!(
        refused("[learning]\ncontroller = \"seekwise\"\n")
            .contains("seekwise is not a search controller; known: genetic, ioperf, random, bayes")
    );
    assert!(refused("[learning]\nscrach = \"/a\"\n").contains("learning: scrach: there is no such key; did you mean scratch?"));
    assert!(refused("learning = 5\n").contains("learning: should be a table below a line [learning]"));
}
