//! `seekwise-lab field`: the agent on an emulated disk with ext4, under the real kernel and fio, compared with fixed settings; and a live switch to
//! bfq under running readers.
//!
//! Needs root, /dev/fuse, loop devices, fio and ext4; skipped with a message otherwise.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

mod emulated;

use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use applier::journal::Journal;
use applier::sysfs::{RealFiles, Sysfs};
use applier::{Moment, Rules, Scope, SetRequest, Writer};
use emulated::{can_run, emulate, seekwise, signal, text, until};
use serde_json::Value;

/// Serialises tests, because results depend on milliseconds.
static ALONE: Mutex<()> = Mutex::new(());

fn field(arguments: &[&str]) -> Output {
    Command::new(seekwise().with_file_name("seekwise-lab")).args(["field"]).args(arguments).output().unwrap()
}

fn loops() -> String {
    text(&Command::new("losetup").arg("-a").output().unwrap().stdout)
}

/// Pages and log of a database, as in Table 4 of the paper on self-learning disk scheduling, in a small file.
const DATABASE: &str = "[pages]\nrw=randrw\nrwmixread=70\nbs=8k\niodepth=16\nsize=900m\n[log]\nrw=write\nbs=8k\nsize=64m\noffset=900m\nthinktime=2ms\n";
/// FFSB's random reads.
const READERS: &str = "[reader]\nrw=randread\nbs=4k\nnumjobs=4\nsize=900m\n";

#[test]
fn the_agent_tends_a_disk_through_loads_that_change_and_everything_is_put_back() {
    let lacks = |program: &str| Command::new(program).arg("--version").output().is_err();
    if !can_run(&[(lacks("fio"), "fio"), (lacks("mkfs.ext4"), "mkfs.ext4")]) {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let job = |name: &str, jobs: &str| {
        let path = folder.path().join(name);
        fs::write(&path, jobs).unwrap();
        path.display().to_string()
    };
    let mix = format!("{},{}", job("database.fio", DATABASE), job("readers.fio", READERS));
    let before = loops();
    let of_the_disk = ["--disk", "sata7200", "--queue-depth", "4", "--queue-policy", "fifo", "--ext4=1G"];
    let of_the_load =
        ["--workloads", "none", "--mix", &mix, "--scheduler", "mq-deadline", "--seconds", "12", "--rounds", "1", "--json"];
    let output = field(&[&of_the_disk[..], &of_the_load].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(loops(), before, "the disk is still there");
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    let pair = &record["pairs"][0];
    let merit = |number: usize| pair["served"][number]["rounds"][0]["merit"].as_f64().unwrap();
    assert_eq!((&pair["served"][0]["setting"], &pair["served"][1]["setting"]), (&"mq-deadline".into(), &"agent".into()), "{pair}");
    // `none` halves the log's latency and does not change the rest: 6% of merit, the most that any scheduler gains here. Other tests run at
    // the same time.
    assert!(merit(1) > merit(0) - 0.1, "the agent did harm: {pair:#}");
    let changes = pair["changes"][0].as_array().unwrap();
    // One trial and its end: in twelve seconds there is no more to gain.
    assert!(changes.len() <= 2, "the agent tries what cannot pay: {pair:#}");
}

/// A process that is killed on drop.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        signal(self.0.id(), "-INT");
        let _ = self.0.wait();
    }
}

#[test]
fn readers_in_order_get_several_times_as_much_when_bfq_takes_them_over() {
    let lacks = |program: &str| Command::new(program).arg("--version").output().is_err();
    if !can_run(&[(lacks("fio"), "fio")]) {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let backing = folder.path().join("backing");
    fs::create_dir(&backing).unwrap();
    let disk = ["--disk", "sata7200", "--queue-depth", "4", "--queue-policy", "fifo", "--size", "8G"];
    let (emulator, place) = emulate(&disk, &backing);
    let _emulator = Ends(emulator);
    let name = place.trim_start_matches("/dev/").to_owned();
    let sectors = || {
        let counts = fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
        counts.split_whitespace().nth(2).unwrap().parse::<u64>().unwrap()
    };
    let rate_mb_s = |seconds: f64| {
        let (before, began) = (sectors(), Instant::now());
        std::thread::sleep(Duration::from_secs_f64(seconds));
        512e-6 * (sectors() - before) as f64 / began.elapsed().as_secs_f64()
    };

    let mut files = RealFiles;
    let journal = Journal::open(&mut files, &folder.path().join("journal")).unwrap();
    let mut writer = Writer::new(Sysfs::real(), Box::new(files), journal, Rules::default());
    let mut set = |scheduler: &str| {
        let values = vec![("scheduler".to_owned(), scheduler.to_owned())];
        let wanted = SetRequest { scope: Scope::Device(name.clone()), values, expected: Vec::new(), why: "a test".to_owned() };
        writer.set(Moment::default(), &wanted).unwrap()
    };
    set("mq-deadline");
    let job = format!(
        "--name=reader --filename={place} --numjobs=4 --rw=read --bs=128k --direct=1 --size=1g --offset_increment=2g --time_based --runtime=60"
    );
    let _readers = Ends(Command::new("fio").args(job.split(' ')).stdout(Stdio::null()).spawn().unwrap());
    let idle = sectors();
    until("fio reads", || sectors() > idle);
    // 20 and 165 alone; a plain write to sysfs leaves it at 20. bfq depends on milliseconds, so a busy machine may spoil a
    // live switch; two successes of five suffice.
    let mut rates = Vec::new();
    while rates.iter().filter(|(before, after)| *after > 3.0 * before).count() < 2 {
        assert!(rates.len() < 5, "MB/s before and after: {rates:.1?}");
        set("mq-deadline");
        std::thread::sleep(Duration::from_secs(1));
        let before = rate_mb_s(1.5);
        set("bfq");
        std::thread::sleep(Duration::from_secs(1));
        rates.push((before, rate_mb_s(1.5)));
    }
    writer.end().unwrap();
}

#[test]
fn what_cannot_be_tried_is_refused() {
    let refused = |arguments: &[&str]| {
        let output = field(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stderr)
    };
    if !seekwise().exists() {
        eprintln!("skipped: needs the program seekwise next to seekwise-agent (cargo build -p seekwise)");
        return;
    }
    assert!(refused(&["--workloads", "none"]).contains("--workloads none: requires --mix"));
    assert!(refused(&["--mix", "database"]).contains("--mix database: should be at least two workloads"));
    assert!(refused(&["--workloads", "no-such"]).contains("--workloads no-such: unknown workload; known: random-reads, "));
    assert!(refused(&["--scheduler", "cfq"]).contains("--scheduler cfq"));
    assert!(refused(&["--scheduler", "bfq dirty_ratio=5"]).contains("dirty_ratio"), "devices share the page cache");
    assert!(refused(&["--ext4=much"]).contains("--ext4"));
}
