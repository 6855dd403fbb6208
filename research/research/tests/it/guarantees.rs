//! Guarantees on drawn hosts, at a size that takes seconds; `tests/bars/guarantees` has the rest.

use experiment::comparison::regime::scheduler;
use guarantee::placement::PROMISES;
use guarantee::tenants::{Contract, Reference, TenantGuarantee};
use progress::monitor::Quiet;
use research::guarantees::admission::admission;
use research::guarantees::feasible::{self, Schedules, Tried};
use research::guarantees::first_second::first_second;
use research::guarantees::loads::KINDS;
use research::guarantees::{bars, draw, files, rates};
use research::worlds::Which;
use sim::run::Watch;
use testbed::chance::source;
use testbed::jobs::JobsLoad;
use testbed::load::Load as _;
use testbed::pool::Workers;
use testbed::world::World;

#[test]
fn a_tenant_alone_on_its_reference_disk_has_the_performance_of_no_scheduler() {
    let quiet = Quiet::default();
    let pair = [PROMISES, "none"].map(|name| scheduler(name).unwrap());
    let numbers: Vec<u32> = (0..40).collect();
    for result in bars::alone(Which::Learn, 7, &numbers, &pair, Workers::new(&quiet, Some(2))).unwrap() {
        assert!(result.throughput >= 0.99 && result.p99 <= 1.05, "{result:?}");
    }
}

#[test]
fn contracts_are_the_same_for_any_number_of_threads() {
    let quiet = Quiet::default();
    let schedulers = [PROMISES, "none"].map(|name| scheduler(name).unwrap());
    let run =
        |threads| bars::contracts(Which::Learn, 1, &[2, 3, 5], &schedulers, None, Workers::new(&quiet, Some(threads))).unwrap();
    for (one, two) in run(1).iter().zip(&run(2)) {
        assert_eq!(one.text, two.text);
        assert_eq!(
            one.outcomes.iter().map(|o| o.bytes.clone()).collect::<Vec<_>>(),
            two.outcomes.iter().map(|o| o.bytes.clone()).collect::<Vec<_>>()
        );
        assert!(one.broken(0).1 > 0, "each has a guarantee");
    }
}

#[test]
fn every_kind_of_load_parses_and_is_the_same_again() {
    let world = World::new("sata7200", None, None).unwrap();
    for kind in KINDS {
        for number in 0..20 {
            let section = kind.draw(&mut source(kind.name, 1, number));
            assert_eq!(section, kind.draw(&mut source(kind.name, 1, number)), "{}", kind.name);
            for options in [section.text(512), section.at_random(512)] {
                let text = format!("[global]\ntime_based\nruntime=1\n[one]\n{options}");
                let load = JobsLoad::new(&text, kind.name, 1, &world).unwrap_or_else(|error| panic!("{error:#}\n{text}"));
                assert_eq!(load.stream_count(), section.jobs as usize, "{text}");
            }
            let is_paced = section.text(512) != section.at_random(512);
            assert!(is_paced || section.pace.is_empty(), "{section:?}");
        }
    }
}

/// Whether a schedule keeps a contract of two tenants on a hard disk, each with this reference disk, and the demand of both.
fn is_kept(request_ms: f64) -> (bool, f64) {
    let world = World::new("sata7200", None, None).unwrap();
    let watch = Watch::default();
    let reader = (KINDS.iter().find(|kind| kind.name == "random-reader").unwrap(), "reader");
    let log = (KINDS.iter().find(|kind| kind.name == "sync-log").unwrap(), "log");
    let loads = [reader, log].map(|(kind, name)| (kind.draw(&mut source("kept", 1, 0)), name));
    let sections = loads.iter().map(|(section, name)| format!("[{name}]\n{}", section.text(1000)));
    let text = format!("[global]\ntime_based\nruntime=10\n{}", sections.collect::<String>());
    let load = JobsLoad::new(&text, "kept", 1, &world).unwrap();
    let reference = Reference::parse(&format!("constant:request_ms={request_ms}")).unwrap();
    let promise = |name| TenantGuarantee { reference: Some(reference.clone()), ..TenantGuarantee::new(name, &[name]) };
    let contract = draw::of_promises(loads.iter().map(|(_, name)| promise(*name)).collect());
    let tenants: Vec<_> = loads
        .iter()
        .enumerate()
        .map(|(tenant, (section, _))| {
            let rate = feasible::host_rate(section, 2000, &world, 1, &watch).unwrap();
            Some(feasible::guaranteed((&load, &world), (&contract, tenant), &reference, (section, rate), &watch).unwrap())
        })
        .collect();
    let tried = Schedules::new(&world, &load, &watch).try_all(&contract, &tenants).unwrap();
    (matches!(tried, Tried::Kept(_)), tenants.iter().flatten().map(|tenant| tenant.demand).sum())
}

#[test]
fn an_easy_contract_can_be_kept_and_an_impossible_one_cannot() {
    let (easy, little) = is_kept(100.0);
    assert!(easy && little < 0.7, "{little}");
    let (impossible, much) = is_kept(2.0);
    assert!(!impossible && much > 1.0, "{much}");
}

#[test]
fn contracts_are_written_as_files_that_can_be_run() {
    let (quiet, folder) = (Quiet::default(), tempfile::tempdir().unwrap());
    let workers = Workers::new(&quiet, Some(1));
    let drawn = draw::contract(Which::Learn, 1, 4, &workers.watch()).unwrap();
    files::write(&drawn, 1, folder.path()).unwrap();
    let disk = folder.path().join("disk.toml");
    let profile = sim::profile::load(disk.to_str().unwrap()).unwrap();
    assert_eq!(profile.name(), drawn.host.world.profile.name());
    let text = std::fs::read_to_string(folder.path().join("job.fio")).unwrap();
    let contract = Contract::of_job_file(&text, "job.fio").unwrap().unwrap();
    let guaranteed = |contract: &Contract| contract.promises.iter().map(|promise| promise.reference.is_some()).collect::<Vec<_>>();
    assert_eq!(guaranteed(&contract), guaranteed(&drawn.contract));
}

#[test]
fn of_drawn_contracts_the_default_scheduler_keeps_more_than_none() {
    let quiet = Quiet::default();
    let schedulers = [PROMISES, "none"].map(|name| scheduler(name).unwrap());
    let numbers: Vec<u32> = (0..8).collect();
    let all = bars::contracts(Which::Learn, 7, &numbers, &schedulers, None, Workers::new(&quiet, Some(2))).unwrap();
    let broken = |position: usize| all.iter().map(|result| result.broken(position).0).sum::<usize>();
    assert!(2 * broken(0) <= broken(1), "{} and without a scheduler {} broken", broken(0), broken(1));
    assert!(all.iter().all(|result| result.demand <= feasible::MOST_DEMAND && result.broken(0).1 > 0));
}

#[test]
fn first_seconds_are_the_same_again() {
    let quiet = Quiet::default();
    let schedulers = [PROMISES, "none"].map(|name| scheduler(name).unwrap());
    let run = || first_second(Which::Learn, 1, &[0, 1], &schedulers, Workers::new(&quiet, Some(1))).unwrap();
    let (one, two) = (run(), run());
    assert!(one.iter().zip(&two).all(|(one, two)| one.load == two.load && one.outcomes == two.outcomes), "{one:?} {two:?}");
}

#[test]
fn no_limit_is_exceeded_in_any_second_and_nearly_no_reservation_missed() {
    let quiet = Quiet::default();
    let schedulers = [PROMISES, "none"].map(|name| scheduler(name).unwrap());
    let numbers: Vec<u32> = (0..24).collect();
    let all = rates::rates(Which::Learn, 7, &numbers, 0.7, &schedulers, Workers::new(&quiet, Some(2))).unwrap();
    let broken = |position: usize, is_limit: bool| all.iter().map(|result| result.broken(position, is_limit).0).sum::<usize>();
    assert_eq!(broken(0, true), 0, "limits");
    assert!(broken(0, false) <= 1, "{} reservations", broken(0, false));
    assert!(broken(1, true) >= 10 && broken(1, false) >= 10, "without a scheduler: {} and {}", broken(1, true), broken(1, false));
}

#[test]
fn what_is_refused_breaks_again_and_what_is_admitted_is_kept() {
    let quiet = Quiet::default();
    let all = admission(Which::Learn, 7, &[1, 2, 4, 5], Workers::new(&quiet, Some(2))).unwrap();
    let admitted: Vec<bool> = all.iter().map(|result| result.answer.can_be_guaranteed()).collect();
    assert_eq!(admitted, [false, true, false, false]);
    assert!(all.iter().all(|result| result.is_right()), "{:?}", all.iter().map(|result| &result.broken).collect::<Vec<_>>());
}
