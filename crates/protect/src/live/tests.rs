#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

use std::fs;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use applier::ErrorKind;
use block::StreamId;
use linux::events::ObserveError;

use super::members::OTHERS;
use super::*;

/// Cgroup of the neighbour. Choice: the neighbour of the guides; not varied.
const BACKUP: &str = "/system.slice/backup.service";
/// Cgroup of the protected unit. Choice: the protected unit of the guides; not varied.
const MINE: &str = "/system.slice/postgresql.service";

/// Calls of a limiter, and its next result.
#[derive(Default)]
struct Asked {
    lines: Vec<String>,
    refuses: Option<ErrorKind>,
    refuses_check: Option<String>,
}

struct FakeLimiter(Arc<Mutex<Asked>>);

impl FakeLimiter {
    fn asked(&self, line: String) -> Result<(), ApplierError> {
        let mut asked = self.0.lock().unwrap();
        asked.lines.push(line);
        asked.refuses.map_or(Ok(()), |kind| Err(ApplierError::new(kind, "refused")))
    }
}

impl Limiter for FakeLimiter {
    fn check(&mut self, cgroup: &str) -> Result<(), ApplierError> {
        let refuses = self.0.lock().unwrap().refuses_check.clone().filter(|refused| refused == cgroup);
        refuses.map_or(Ok(()), |_| Err(ApplierError::new(ErrorKind::NotAllowed, "the controller io is not enabled for it")))
    }

    fn limit(&mut self, cgroup: &str, device: &str, limit: &Limit, _why: &str) -> Result<(), ApplierError> {
        self.asked(format!("{cgroup} {device} {}", text(limit)))
    }

    fn release(&mut self, cgroup: &str) -> Result<(), ApplierError> {
        self.0.lock().unwrap().lines.push(format!("release {cgroup}"));
        Ok(())
    }

    fn resume(&mut self, cgroup: &str) -> Result<(), ApplierError> {
        self.0.lock().unwrap().lines.push(format!("resume {cgroup}"));
        Ok(())
    }

    fn restore(&mut self, cgroup: &str) -> Result<String, ApplierError> {
        self.0.lock().unwrap().lines.push(format!("restore {cgroup}"));
        Ok("back".to_owned())
    }
}

/// A machine with cgroups and processes.
struct Machine {
    root: tempfile::TempDir,
    asked: Arc<Mutex<Asked>>,
}

impl Machine {
    fn new(cgroups: &[&str]) -> Machine {
        let machine = Machine { root: tempfile::tempdir().unwrap(), asked: Arc::default() };
        cgroups.iter().for_each(|path| machine.make(path));
        machine
    }

    fn place(&self, of: &str, path: &str) -> PathBuf {
        self.root.path().join(of).join(path.trim_start_matches('/'))
    }

    fn make(&self, path: &str) {
        fs::create_dir_all(self.place("cgroup", path)).unwrap();
    }

    fn process(&self, number: u32, cgroup: &str) {
        let folder = self.place("proc", &number.to_string());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("cgroup"), format!("4:memory:/elsewhere\n0::{cgroup}\n")).unwrap();
    }

    fn sysfs(&self) -> Sysfs {
        Sysfs::at(self.root.path())
    }

    fn cgroups(&self) -> Cgroups {
        Cgroups::at(&self.place("cgroup", ""))
    }

    fn processes(&self) -> Processes {
        Processes::new(&self.sysfs(), false)
    }

    fn protection(&self, unit: &str, neighbours: &[&str]) -> Protection {
        let limiter = Box::new(FakeLimiter(self.asked.clone()));
        let own = "/system.slice/seekwise-agent.service".to_owned();
        Protection::new(Nanos(0), ("sda", "8:0", 1 << 30), terms(unit, neighbours), (self.cgroups(), own), limiter)
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap().lines)
    }

    fn refuse(&self, kind: Option<ErrorKind>) {
        self.asked.lock().unwrap().refuses = kind;
    }
}

fn terms(unit: &str, neighbours: &[&str]) -> Terms {
    let promise = Promise { read_p99: Some(Nanos::from_millis(15)), least_iops: Some(200.0), ..Promise::default() };
    let promises = vec![(unit.to_owned(), promise)];
    Terms { promises, neighbours: neighbours.iter().map(|name| (*name).to_owned()).collect(), floor_bytes_per_s: 2_000_000 }
}

/// The member of a process.
fn member(protection: &mut Protection, processes: &mut Processes, now: Nanos, process: u32) -> Option<usize> {
    let unit = processes.unit(process, Some("program"), now);
    protection.attribution.of_unit(unit, processes, &protection.members)
}

fn at(milliseconds: u64) -> Nanos {
    Nanos::from_millis(milliseconds)
}

fn writes(mb: u64) -> Limit {
    Limit { write_bytes_per_s: Some(mb * 1_000_000), ..Limit::default() }
}

#[test]
fn a_slice_is_limited_as_a_whole_unless_a_promised_unit_or_the_agent_is_in_it() {
    let machine = Machine::new(&[
        MINE,
        BACKUP,
        "/system.slice/seekwise-agent.service",
        "/system.slice/nested.slice/a.service",
        "/user.slice/user-1.slice",
    ]);
    let limitable = |unit: &str, neighbours: &[&str]| {
        let mut lookup = Lookup::new(machine.cgroups(), "/system.slice/seekwise-agent.service".to_owned());
        let (members, missing) = lookup.find(&terms(unit, neighbours));
        assert!(missing.is_empty(), "{missing:?}");
        members.limitable()
    };
    assert_eq!(limitable("postgresql", &["user.slice"]), ["/user.slice"]);
    assert_eq!(limitable("postgresql", &["system.slice"]), [BACKUP, "/system.slice/nested.slice"]);
    assert_eq!(limitable("a.service", &["nested.slice", "backup.service"]), [BACKUP]);
    assert_eq!(limitable("postgresql", &["backup.service", "postgresql.service"]), [MINE, BACKUP], "named, it may be");
}

#[test]
fn a_process_belongs_to_the_innermost_member_with_its_cgroup() {
    let machine = Machine::new(&[MINE, BACKUP, "/user.slice/user-1.slice"]);
    machine.process(7, "/system.slice/postgresql.service/worker");
    machine.process(8, BACKUP);
    machine.process(9, "/system.slice/other.service");
    machine.process(10, "/user.slice/user-1.slice/session.scope");
    let mut protection = machine.protection("postgresql", &["backup.service", "user.slice"]);
    protection.step(at(0));
    let mut processes = machine.processes();
    let mut name = |now: Nanos, process| {
        let member = member(&mut protection, &mut processes, now, process).unwrap();
        protection.members.name(member)
    };
    assert_eq!(name(at(0), 7), "postgresql");
    assert_eq!((name(at(0), 8), name(at(0), 9)), (BACKUP.to_owned(), "other processes and write-back".to_owned()));
    assert_eq!((name(at(0), 10), name(at(0), 11)), ("/user.slice".to_owned(), "other processes and write-back".to_owned()));
    // A process that moves is detected; after it ends, its remaining requests keep their unit.
    machine.process(8, MINE);
    assert_eq!((name(at(1_900), 8), name(at(2_000), 8)), (BACKUP.to_owned(), "postgresql".to_owned()));
    fs::remove_dir_all(machine.place("proc", "8")).unwrap();
    assert_eq!(name(at(20_000), 8), "postgresql");
}

#[test]
fn a_limit_is_sent_again_each_second_so_that_a_restarted_service_has_it() {
    let machine = Machine::new(&[MINE, BACKUP]);
    let mut protection = machine.protection("postgresql", &["backup.service"]);
    assert!(protection.step(at(0)).is_empty());
    let mut told = Vec::new();
    protection.apply(BACKUP, writes(20), "a test", &mut told);
    assert_eq!(told, [Told::Limited(format!("{BACKUP} is limited to writes 20.0 MB/s: a test"))]);
    protection.apply(BACKUP, writes(10), "less", &mut told);
    assert_eq!(told[1], Told::Moved(format!("{BACKUP}: writes 10.0 MB/s now: less")));
    protection.apply(BACKUP, writes(1), "below the floor", &mut told);
    assert_eq!(protection.limits()[0].bytes_per_s, (None, Some(2_000_000)));
    protection.apply(BACKUP, writes(10), "less", &mut told);
    machine.take();
    // A cgroup that vanishes for a moment is not reported and limited again.
    machine.refuse(Some(ErrorKind::NoDevice));
    assert!(protection.step(at(1_000)).is_empty());
    machine.refuse(None);
    assert!(protection.step(at(1_500)).is_empty() && protection.step(at(2_000)).is_empty());
    assert_eq!(machine.take(), [format!("{BACKUP} sda writes 10.0 MB/s"), format!("{BACKUP} sda writes 10.0 MB/s")]);
    let limits = protection.limits();
    assert_eq!(
        (limits[0].limit.as_deref(), limits[0].bytes_per_s, limits[0].why.as_str()),
        (Some("writes 10.0 MB/s"), (None, Some(10_000_000)), "less")
    );
    let mut told = Vec::new();
    protection.apply(BACKUP, Limit::default(), "idle", &mut told);
    assert_eq!(told, [Told::Limited(format!("{BACKUP} is not limited any more: idle"))]);
    protection.apply(BACKUP, writes(10), "again", &mut told);
    machine.take();
    assert_eq!(protection.end(), [Told::Limited(format!("{BACKUP}: back"))]);
    assert!(protection.end().is_empty() && protection.step(at(9_000)).is_empty());
    assert_eq!(machine.take(), [format!("restore {BACKUP}")]);
}

#[test]
fn a_cgroup_that_another_program_limits_is_left_alone_until_it_is_resumed() {
    let machine = Machine::new(&[MINE, BACKUP]);
    let mut protection = machine.protection("postgresql", &["backup.service"]);
    protection.step(at(0));
    protection.apply(BACKUP, writes(20), "a test", &mut Vec::new());
    machine.take();
    machine.refuse(Some(ErrorKind::Foreign));
    let told = protection.step(at(1_000));
    let [Told::Conflict(conflict)] = &told[..] else { panic!("{told:?}") };
    assert!(conflict.contains(&format!("{BACKUP} is left alone until `seekwise-agent resume {BACKUP}`: refused")), "{conflict}");
    assert_eq!(machine.take(), [format!("{BACKUP} sda writes 20.0 MB/s"), format!("release {BACKUP}")]);
    machine.refuse(None);
    assert!(protection.step(at(5_000)).is_empty() && machine.take().is_empty());
    assert!(protection.members.limitable().is_empty() && protection.limits()[0].why == "refused");
    assert!(!protection.resume(MINE).unwrap() && protection.resume(BACKUP).unwrap());
    protection.step(at(5_100));
    assert_eq!(protection.members.limitable(), [BACKUP]);
    assert_eq!(machine.take(), [format!("resume {BACKUP}")]);
    assert!(protection.end().is_empty(), "it has no limit of ours");
}

#[test]
fn trouble_is_reported_once_and_a_unit_that_comes_later_is_found() {
    let machine = Machine::new(&[BACKUP, "/system.slice/build.service"]);
    machine.asked.lock().unwrap().refuses_check = Some("/system.slice/build.service".to_owned());
    let mut protection = machine.protection("postgresql", &["backup.service", "build.service"]);
    let told: Vec<String> = protection.step(at(0)).iter().map(|told| told.text().to_owned()).collect();
    assert!(told.len() == 2, "{told:?}");
    assert!(told[0].contains("build.service cannot be limited: the controller io is not enabled for it"), "{told:?}");
    assert!(told[1].contains("postgresql: no such unit"), "{told:?}");
    assert!(protection.step(at(2_000)).is_empty() && protection.promises().is_empty());
    machine.make(MINE);
    assert!(protection.step(at(4_000)).is_empty());
    let promises = protection.promises();
    assert_eq!(
        (promises[0].unit.as_str(), promises[0].promise.as_str()),
        ("postgresql", "read p99 15.0 ms, at least 200 requests/s")
    );
    // The applier is unreachable for a moment: the request is retried.
    machine.refuse(Some(ErrorKind::Unreachable));
    let mut told = Vec::new();
    protection.apply(BACKUP, writes(20), "a test", &mut told);
    assert!(matches!(&told[..], [Told::Trouble(_)]) && protection.applied.left_alone().len() == 1);
}

#[test]
fn a_unit_that_comes_below_a_slice_leaves_the_limits_of_others() {
    let machine = Machine::new(&[MINE, BACKUP, "/user.slice"]);
    let mut protection = machine.protection("postgresql", &["backup.service", "system.slice", "user.slice"]);
    protection.step(at(0));
    let mut told = Vec::new();
    protection.apply(BACKUP, writes(20), "a test", &mut told);
    machine.take();
    machine.make("/system.slice/docker-1.scope");
    assert!(protection.step(at(2_000)).is_empty(), "it is found, and no limit is lifted");
    assert_eq!(protection.members.limitable(), [BACKUP, "/user.slice", "/system.slice/docker-1.scope"]);
    assert_eq!(machine.take(), [format!("{BACKUP} sda writes 20.0 MB/s")]);
    let mut processes = machine.processes();
    machine.process(7, "/system.slice/docker-1.scope");
    assert_eq!(member(&mut protection, &mut processes, at(2_000), 7), protection.members.number("/system.slice/docker-1.scope"));
    // Observed before the scan.
    machine.process(8, "/system.slice/docker-2.scope");
    assert_eq!(member(&mut protection, &mut processes, at(2_500), 8), Some(OTHERS));
    machine.make("/system.slice/docker-2.scope");
    protection.step(at(4_000));
    assert_eq!(member(&mut protection, &mut processes, at(4_100), 8), protection.members.number("/system.slice/docker-2.scope"));
    fs::remove_dir(machine.place("cgroup", "/system.slice/docker-2.scope")).unwrap();
    machine.take();
    // A guarantee to a unit in a limitable slice: its siblings are limited instead of the slice.
    let promise = protection.terms.promises[0].1.clone();
    protection.terms.promises.push(("a.scope".to_owned(), promise));
    ["/user.slice/a.scope", "/user.slice/b.scope"].iter().for_each(|path| machine.make(path));
    assert!(protection.step(at(6_000)).is_empty());
    let scopes = ["/system.slice/docker-1.scope", "/system.slice/docker-2.scope", "/user.slice/b.scope"];
    assert_eq!(protection.members.limitable()[1..], scopes, "one that is gone may come back");
    assert_eq!(protection.promises().len(), 2);
    assert!(machine.take().iter().all(|line| line == &format!("{BACKUP} sda writes 20.0 MB/s")), "no limit was lifted");
}

/// An event source without events and names; tests pass events directly.
struct Silent;

impl EventSource for Silent {
    fn read(&mut self, _: &mut Vec<Event>) -> Result<(), ObserveError> {
        Ok(())
    }

    fn lost(&self) -> u64 {
        0
    }

    fn name(&self, _: StreamId) -> Option<&str> {
        None
    }

    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }
}

#[test]
fn a_promise_is_on_trial_until_the_unit_is_seen_alone_and_refused_with_the_figure_if_that_is_less() {
    let machine = Machine::new(&[MINE, BACKUP]);
    machine.process(7, MINE);
    let mut protection = machine.protection("postgresql", &["backup.service"]);
    let mut processes = machine.processes();
    let (mut told, mut number) = (Vec::new(), 0);
    let mut run = |protection: &mut Protection, to: u64| {
        // Sequential reads of 18 ms, above the guarantee of 15 ms.
        while number * 20 < to {
            let arrival = at(20 * number);
            let (op, priority) = (block::Op::Read, block::Priority::DEFAULT);
            let request = block::Request { id: 0, stream: 7, op, sync: true, priority, sectors: 16, lba: 16 * number, arrival };
            let completed = Event::Completed { request, dispatched: arrival, at: arrival + at(18) };
            protection.observe(&[Event::Queued(request), completed], &Silent, &mut processes);
            told.extend(protection.step(at(20 * number + 19)));
            number += 1;
        }
        protection.promises()[0].clone()
    };
    let status = run(&mut protection, 1_000);
    assert_eq!(status.admission, "on trial: what sda gives it with nothing else there is not known yet");
    let status = run(&mut protection, 5_000);
    let why = "on sda, with nothing else there its reads take 18.0 ms at the 99th percentile (measured in ";
    assert!(status.admission.starts_with(why), "{status:?}");
    assert!(status.admission.ends_with(" requests); 15.0 ms is not possible"), "{status:?}");
    assert_eq!(status.state, "refused");
    let sentence = told.last().unwrap().text();
    assert!(
        sentence.starts_with("the promise to postgresql (read p99 15.0 ms, at least 200 requests/s) is refused; on sda, "),
        "{sentence}"
    );
    assert!(machine.take().is_empty(), "nothing is limited");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "waits for the forecast of another thread, up to a deadline")]
fn what_a_unit_that_is_never_alone_would_get_is_forecast() {
    let machine = Machine::new(&[MINE, BACKUP]);
    [(7, MINE), (8, BACKUP)].iter().for_each(|(process, cgroup)| machine.process(*process, cgroup));
    let mut terms = terms("postgresql", &["backup.service"]);
    terms.promises[0].1 = Promise { read_p99: Some(at(1)), ..Promise::default() };
    let place = (machine.cgroups(), "/".to_owned());
    let mut processes = machine.processes();
    let mut protection =
        Protection::new(Nanos(0), ("sda", "8:0", 1 << 30), terms, place, Box::new(FakeLimiter(machine.asked.clone())));
    for number in 0..600 {
        // Both read at random, one after the other.
        let read = |stream: u32, from: u64| {
            let (op, priority, lba) = (block::Op::Read, block::Priority::DEFAULT, (number * 2 + from) * 7_919_003 % (1 << 29));
            let arrival = at(20 * number);
            let request = block::Request { id: 0, stream, op, sync: true, priority, sectors: 16, lba, arrival };
            let dispatched = arrival + at(9 * from);
            (request, Event::Completed { request, dispatched, at: dispatched + at(9) })
        };
        let ((one, first), (other, second)) = (read(7, 0), read(8, 1));
        protection.observe(&[Event::Queued(one), Event::Queued(other), first, second], &Silent, &mut processes);
        protection.step(at(20 * number + 19));
    }
    let begun = std::time::Instant::now();
    while protection.promises()[0].state != "refused" {
        assert!(begun.elapsed().as_secs() < 60, "{:?}", protection.promises());
        std::thread::sleep(std::time::Duration::from_millis(10));
        protection.step(at(12_000 + begun.elapsed().as_millis() as u64));
    }
    let status = &protection.promises()[0];
    assert!(
        status.admission.starts_with("on sda, with nothing else there its reads take ")
            && status.admission.contains(" (forecast from ")
    );
}
