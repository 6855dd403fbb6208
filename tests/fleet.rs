//! `seekwise fleet`, and `seekwise kb` on a server: commands of the page, reports, and complete rollouts. Both on a PostgreSQL server of their own.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

#[path = "../crates/knowledge/tests/knowledge/postgres.rs"]
mod postgres;
mod program;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use control::ab_test::Estimate;
use control::fleet::DeviceType;
use knowledge::{Fleet, Knowledge, NewOutcome, Score};
use tempfile::tempdir;

use postgres::{ROLES, Server};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fleet.md");
/// Name of the server on the page.
const EXAMPLE: &str = "@db.example.org/fleet";
/// Its address over the unix socket.
const LOCAL: &str = "@%2Frun%2Fpostgresql/fleet";

fn seekwise(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(program::sibling("seekwise")).current_dir(folder).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// Lines of the page's code blocks in this language.
fn fences(kind: &str) -> Vec<String> {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let parts = page.split("```").skip(1).step_by(2);
    let ours = parts.filter_map(|part| part.strip_prefix(&format!("{kind}\n")));
    ours.flat_map(|part| part.lines().map(str::to_owned)).filter(|line| !line.is_empty()).collect()
}

fn init(address: &Path) -> Fleet {
    let _alone = ROLES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    Fleet::init(address).unwrap()
}

fn device() -> DeviceType {
    DeviceType { kind: "scsi, rotational".into(), model: "ST4000NM0035".into(), firmware: "TN03".into() }
}

fn outcome(to: &str, gain: f64) -> NewOutcome {
    let load = [("read_share", 1.0), ("sequential_share", 0.0), ("size_mean_bytes", 4096.0), ("streams", 4.0)];
    NewOutcome {
        day: 20_000,
        device: device(),
        load: load.map(|(name, value)| (name.to_owned(), value)).into(),
        preference: "2,3,1".into(),
        from: "mq-deadline".into(),
        to: to.into(),
        gain: Estimate { mean: gain, error: 0.02 },
    }
}

/// The role in an address of the page; `None` for another word.
fn role_of(word: &str) -> Option<&str> {
    let rest = word.strip_prefix("postgresql://")?;
    rest.strip_suffix(EXAMPLE).or_else(|| rest.strip_suffix(LOCAL))
}

#[test]
fn the_commands_of_the_page_work_against_a_server() {
    let Some(server) = Server::shared() else { return };
    let (admin, folder) = (server.database("page"), tempdir().unwrap());
    let alone = ROLES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut is_set_up = false;
    for line in fences("sh root").iter().filter(|line| line.starts_with("seekwise ")) {
        let words: Vec<String> = words(line)
            .into_iter()
            .map(|word| match role_of(&word) {
                Some("postgres") => admin.to_str().unwrap().to_owned(),
                Some(role) => server.address(role, "page").to_str().unwrap().to_owned(),
                None => word,
            })
            .collect();
        let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        let (code, _, error) = seekwise(folder.path(), &arguments);
        assert_eq!(code, 0, "{line}: {error}");
        if !is_set_up {
            fences("sql").iter().for_each(|statement| drop(server.sql("postgres", "page", statement).unwrap()));
            is_set_up = true;
        }
    }
    assert!(is_set_up, "the page has no commands");
    fences("sql end").iter().for_each(|statement| drop(server.sql("postgres", "page", statement).unwrap()));
    // The program executes the statements that it prints.
    let (_, roles, _) = seekwise(folder.path(), &["fleet", "init", "--print-roles"]);
    server.sql("postgres", "page", &roles).unwrap();
    drop(alone);
}

/// The page's steps for certificates, with a server that has them.
#[test]
fn the_certificates_of_the_page_let_a_machine_in() {
    let folder = tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    for line in fences("sh root").iter().filter(|line| line.starts_with("openssl ")) {
        let done = Command::new("sh").current_dir(folder.path()).args(["-c", line]).output();
        let Ok(done) = done else { return };
        if String::from_utf8_lossy(&done.stderr).contains("not found") {
            println!("skipped: no openssl");
            return;
        }
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    }
    let read = |name: &str| std::fs::read_to_string(file(name)).unwrap();
    let rules =
        "local all all trust\nhostssl all ray 127.0.0.0/8 scram-sha-256\nhostssl all +seekwise_agent 127.0.0.0/8 cert\n".to_owned();
    let files =
        [("server.crt", read("server.crt")), ("server.key", read("server.key")), ("ca.crt", read("ca.crt")), ("hba.conf", rules)];
    let options = [
        "ssl=on",
        "ssl_cert_file=FOLDER/server.crt",
        "ssl_key_file=FOLDER/server.key",
        "ssl_ca_file=FOLDER/ca.crt",
        "hba_file=FOLDER/hba.conf",
    ];
    let Some(server) = Server::listening(&files, &options) else { return };
    server.database("fleet");
    init(&server.address("postgres", "fleet"));
    fences("sql").iter().for_each(|statement| drop(server.sql("postgres", "fleet", statement).unwrap()));
    let address = |more: &str| {
        let (port, ca) = (server.port(), file("ca.crt"));
        let text =
            format!("postgresql://machine1@db.example.org:{port}/fleet?hostaddr=127.0.0.1&sslrootcert={}{more}", ca.display());
        PathBuf::from(text)
    };
    let own = format!("&sslcert={}&sslkey={}", file("machine1.crt").display(), file("machine1.key").display());
    assert!(Fleet::connect(&address(&own)).unwrap().is_encrypted().unwrap());
    let refused = Fleet::connect(&address("")).unwrap_err().to_string();
    assert!(refused.contains("certificate"), "{refused}");
    // People log in with a password, which their role does not have before the page sets it.
    let ray = |password: Option<&str>| {
        let text = address("").to_str().unwrap().replace("machine1@", "ray@");
        Fleet::connect_with_password(&PathBuf::from(text), password).map(drop).map_err(|error| error.to_string())
    };
    assert!(ray(Some("secret")).is_err_and(|error| error.contains("the password is wrong, or the role has none")));
    server.sql("postgres", "fleet", "ALTER ROLE ray PASSWORD 'secret'").unwrap();
    ray(Some("secret")).unwrap();
    if std::env::var_os("PGPASSWORD").is_none() && std::env::var_os("PGPASSFILE").is_none() {
        assert!(
            ray(None).is_err_and(|error| error.contains("none was given: set PGPASSWORD") && !error.contains("may not do this"))
        );
    }
}

/// Splits a line into words, with quotes.
fn words(line: &str) -> Vec<String> {
    let parts: Vec<&str> = line.split('"').collect();
    let plain = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let each =
        parts.iter().enumerate().flat_map(|(index, part)| if index % 2 == 1 { vec![(*part).to_owned()] } else { plain(part) });
    each.take_while(|word| word != "#").collect()
}

#[test]
fn a_knowledge_base_on_a_server_is_used_by_its_address_and_no_password_is_shown() {
    let Some(server) = Server::shared() else { return };
    let (address, folder) = (server.database("shared_kb"), tempdir().unwrap());
    let address = address.to_str().unwrap().replace("postgres@", "postgres:secret@");
    for arguments in [
        &["compare", "self-learning/http-server", "--queue-depth", "1", "--controller", "rotate", "--kb", "a.kb"][..],
        &["kb", "merge", &address, "a.kb"],
        &["kb", "info", &address],
        &["kb", "info", &address, "--json", "--check"],
        &["kb", "export", &address, "-o", "windows.csv"],
        &["kb", "import", &address, "windows.csv"],
        &["kb", "merge", "b.kb", &address],
        &["kb", "prune", &address],
        &["fleet", "report", &address],
    ] {
        let (code, out, error) = seekwise(folder.path(), arguments);
        assert_eq!(code, 0, "{arguments:?}: {error}");
        assert!(!out.contains("secret") && !error.contains("secret"), "{arguments:?}: {out}{error}");
        let is_warned = error.contains("other users of this machine can see the password");
        assert_eq!(is_warned, arguments.contains(&address.as_str()), "{arguments:?}: {error}");
    }
    let without = address.replace("postgres:secret@", "postgres@");
    assert!(!seekwise(folder.path(), &["kb", "info", &without]).2.contains("password"));
    let export = |from: &str| seekwise(folder.path(), &["kb", "export", from]).1;
    assert!(export("a.kb").lines().count() > 10 && export("a.kb") == export(&address) && export("b.kb") == export(&address));
    let (code, _, error) = seekwise(folder.path(), &["kb", "info", "postgresql://ann:secret@/nothing?host=/nowhere"]);
    assert!(code == 2 && error.contains("cannot be reached") && !error.contains("secret"), "{code}: {error}");
    let (code, _, error) = seekwise(folder.path(), &["kb", "info", "postgresql://ann:secret@host:port/x"]);
    assert!(
        code == 2 && error.contains("it should be as postgresql://user@host:5432/database") && !error.contains("secret"),
        "{error}"
    );
    let (code, _, error) = seekwise(folder.path(), &["fleet", "init", "a.kb"]);
    assert!(code == 2 && error.contains("a.kb is no server"), "{error}");
}

#[test]
fn the_report_has_intervals_over_machines() {
    let Some(server) = Server::shared() else { return };
    let (address, folder) = (server.database("report"), tempdir().unwrap());
    let mut fleet = init(&address);
    for (machine, gain) in [0.1, 0.2, 0.3, 0.2].into_iter().enumerate() {
        let mut local = Knowledge::open(&folder.path().join(format!("{machine}"))).unwrap();
        local.record_outcome(&outcome("bfq", gain)).unwrap();
        local.exchange(&mut fleet, &[device()]).unwrap();
    }
    let address = address.to_str().unwrap();
    let (_, text, _) = seekwise(folder.path(), &["fleet", "report", address]);
    assert!(text.contains("ST4000NM0035, scsi, rotational: random reads, below 16 KiB, 2 to 8 streams"), "{text}");
    assert!(text.contains("+22.1%") && text.contains("+7.3% to +39.1%") && text.contains("mq-deadline → bfq"), "{text}");
    let (_, json, _) = seekwise(folder.path(), &["fleet", "report", address, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["effects"][0]["machines"], &json["broken_rows"]), (&4.into(), &0.into()));
    let (_, text, _) = seekwise(folder.path(), &["fleet", "report", address, "--machines", "5"]);
    assert_eq!(text, "no outcomes\n");
}

/// Simulated agents of eight devices.
struct Agents {
    fleet: Fleet,
    machines: Vec<[u8; 16]>,
    rounds: u64,
}

impl Agents {
    /// Enrols every device and reports a score for each, increased by `gain` for chosen devices. Returns the number of chosen devices.
    fn report(&mut self, name: &str, gain: f64) -> usize {
        let rollout = self.fleet.rollout(name).unwrap().unwrap();
        self.rounds += 1;
        let mut chosen = 0;
        for (number, machine) in self.machines.iter().enumerate() {
            let is_chosen = self.fleet.take_part(&rollout, machine, machine).unwrap();
            chosen += usize::from(is_chosen);
            let noise = 0.01 * ((number as u64 * 5 + self.rounds * 3) % 7) as f64;
            let mut id = *machine;
            id[..8].copy_from_slice(&self.rounds.to_be_bytes());
            let score = number as f64 + noise + if is_chosen { gain } else { 0.0 };
            let score = Score { id, is_treated: is_chosen, score, windows: 60, note: String::new(), age_s: 0.0 };
            // Reporting is idempotent.
            for _ in 0..2 {
                self.fleet.report_scores(&rollout, machine, std::slice::from_ref(&score)).unwrap();
            }
        }
        chosen
    }
}

#[test]
fn a_rollout_widens_step_by_step_waits_for_people_and_is_taken_back_where_it_harms() {
    let Some(server) = Server::shared() else { return };
    let (address, folder) = (server.database("rollout"), tempdir().unwrap());
    let fleet = init(&address);
    let mut agents = Agents { fleet, machines: (1..=8).map(|number| [number; 16]).collect(), rounds: 0 };
    let address = address.to_str().unwrap();
    let say = |words: &[&str]| {
        let arguments = [&["fleet", "rollout"], words].concat();
        let (code, out, error) = seekwise(folder.path(), &arguments);
        assert!(code == 0 || code == 2, "{error}");
        format!("{out}{error}")
    };
    let start = |name: &str, more: &[&str]| {
        let usual = [
            "start",
            address,
            name,
            "--kind",
            "scsi, rotational",
            "--model",
            "ST4000NM0035",
            "--setting",
            "bfq",
            "--stages",
            "2,50%,100%",
        ];
        say(&[&usual[..], more].concat())
    };
    assert!(start("good", &["--approve"]).contains("begun for bfq"));
    assert!(start("good", &[]).contains("there is a rollout good already"));
    assert!(say(&["step", address, "good"]).contains("no device takes part yet"));
    (0..3).for_each(|_| assert_eq!(agents.report("good", 0.0), 0));
    assert!(say(&["step", address, "good"]).contains("stage 1 of 3: 2 of 2 devices chosen"));
    assert!(say(&["step", address, "good"]).contains("no device has 3 scores before and 3 with the setting yet"));
    (0..4).for_each(|_| assert_eq!(agents.report("good", 0.3), 2));
    let waits = say(&["step", address, "good"]);
    assert!(
        waits.contains("waiting: ") && waits.contains("better") && waits.contains("on 2 devices, compared with 6 others"),
        "{waits}"
    );
    assert!(say(&["step", address, "good"]).contains("waiting"), "it waits for a person");
    assert!(say(&["approve", address, "good"]).contains("approved for stage 2"));
    assert!(say(&["approve", address, "good"]).contains("good is running, and does not wait for approval"));
    assert!(say(&["pause", address, "good"]).contains("paused") && say(&["step", address, "good"]).contains("paused"));
    assert!(say(&["resume", address, "good"]).contains("running"));
    assert!(say(&["step", address, "good"]).contains("4 of 4 devices chosen"));
    (0..4).for_each(|_| assert_eq!(agents.report("good", 0.3), 4));
    assert!(say(&["step", address, "good"]).contains("waiting") && say(&["approve", address, "good"]).contains("stage 3"));
    say(&["step", address, "good"]);
    (0..4).for_each(|_| assert_eq!(agents.report("good", 0.3), 8));
    assert!(say(&["step", address, "good"]).contains("done: "));
    assert!(say(&["list", address]).contains("good: done, stage 3 of 3 (2,50%,100%), bfq on ST4000NM0035"));
    let json: BTreeMap<String, serde_json::Value> = serde_json::from_str(&say(&["show", address, "good", "--json"])).unwrap();
    assert_eq!((&json["devices"], &json["chosen"], &json["state"]), (&8.into(), &8.into(), &"done".into()));
    // A harmful setting is reverted after the first stage.
    start("bad", &[]);
    for _ in 0..3 {
        agents.report("bad", 0.0);
    }
    say(&["step", address, "bad"]);
    (0..4).for_each(|_| assert_eq!(agents.report("bad", -0.3), 2));
    assert!(say(&["step", address, "bad"]).contains("aborted: taken back: "));
    assert!(
        say(&["abort", address, "bad"])
            .contains("bad is aborted; only what is running or waiting or paused or done can be aborted")
    );
    assert!(say(&["show", address, "nothing"]).contains("no rollout nothing; known are good, bad"));
    let refused =
        |kind: &str, stages: &str| say(&["start", address, "wrong", "--kind", kind, "--setting", "bfq", "--stages", stages]);
    assert!(refused("scsi, rotational", "0").contains("should be a number of devices"));
    assert!(refused("scsi, rotational", "5,1").contains("stages grow, as in 1,5,25%,100%"));
    assert!(refused("harddisk", "1,5").contains("no device is of this kind; name one as `seekwise fleet report` prints it"));
    assert!(!say(&["list", address]).contains("wrong"), "a refused rollout begins not");
}

/// The configuration keys on the page for password and network are valid.
#[test]
fn the_pages_configuration_is_the_agents() {
    let text = fences("toml").join("\n");
    for key in ["server", "rollouts"] {
        assert!(text.contains(key), "{text}");
    }
    let path: PathBuf = PAGE.into();
    assert!(path.is_file());
}
