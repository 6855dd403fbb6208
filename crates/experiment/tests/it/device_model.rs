//! Models of devices: trained, judged on held-out requests, kept in a file.

use block::tenants::ServiceModel as _;
use block::{Nanos, Op, Priority, Request};
use experiment::learned_device::{Options, train};
use progress::monitor::Quiet;
use sim::device::Device;
use sim::profile::DeviceOptions;
use testbed::learned::{load, register_learned_devices};
use testbed::pool::Workers;

#[test]
fn a_model_of_a_disk_knows_where_the_platter_stands_and_reads_back_as_the_same() {
    let quiet = Quiet::default();
    let options = Options { requests: 2_000, ..Options::default() };
    let trained = train("hp_c2247a", &options, Workers::new(&quiet, Some(2))).unwrap();
    let errors = &trained.judged[0].errors;
    // Without the platter's angle a fifth is the best there is.
    assert!(errors.requests.mean < 0.12, "{errors:?}");
    assert!(errors.windows[1].within[2] > 0.9, "{errors:?}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), trained.model.to_json().unwrap()).unwrap();
    let read = load(file.path()).unwrap();
    let (mut one, mut other) = (trained.model.begin(), read.begin());
    for number in 0..200u64 {
        let (op, lba) = (Op::Read, number * 7_919_003 % 2_000_000);
        let request =
            Request { id: 0, stream: 0, op, sync: true, priority: Priority::DEFAULT, sectors: 8, lba, arrival: Nanos::ZERO };
        let start = Nanos::from_millis(20 * number);
        assert_eq!(one.service_time(start, &request, 0), other.service_time(start, &request, 0));
    }
}

#[test]
fn where_many_wait_a_model_knows_what_the_order_of_a_queue_saves() {
    let quiet = Quiet::default();
    let options = Options { requests: 1_000, ..Options::default() };
    let trained = train("atlas10k", &options, Workers::new(&quiet, Some(2))).unwrap();
    let errors = &trained.judged[0].errors;
    assert!(errors.queued[1].within[4] > 0.9 && errors.queued[2].mean < 0.1, "{errors:?}");
}

/// When each of some reads and writes is done, one after the other.
fn ends(device: &mut dyn Device) -> Vec<Nanos> {
    let (mut now, mut done) = (Nanos::ZERO, Vec::new());
    let end = |number: u64| {
        let op = if number.is_multiple_of(4) { Op::Write } else { Op::Read };
        let lba = number * 7_919_003 % 2_000_000;
        device
            .submit(now, &Request { id: 0, stream: 0, op, sync: true, priority: Priority::DEFAULT, sectors: 8, lba, arrival: now });
        while done.is_empty() {
            now = device.wake_at().unwrap();
            device.advance(now, &mut done);
        }
        done.clear();
        now
    };
    (0..2_000).map(end).collect()
}

#[test]
fn the_file_of_a_model_is_a_disk_about_as_fast_as_the_one_it_was_learned_from() {
    let quiet = Quiet::default();
    let options = Options { requests: 2_000, ..Options::default() };
    let trained = train("hp_c2247a", &options, Workers::new(&quiet, Some(2))).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), trained.model.to_json().unwrap()).unwrap();
    register_learned_devices();
    let path = file.path().to_str().unwrap();
    let (learned, real) = (sim::profile::load(path).unwrap(), sim::profile::load("hp_c2247a").unwrap());
    assert_eq!((learned.name(), learned.capacity_sectors()), (real.name(), real.capacity_sectors()));
    assert!(learned.device().rotational() && learned.annotated().contains("A turn takes"), "{}", learned.annotated());
    let [learned, real] =
        [learned, real].map(|profile| ends(&mut *profile.build(DeviceOptions::default())).pop().unwrap().0 as f64);
    assert!((learned / real - 1.0).abs() < 0.1, "{learned} ns, really {real}");
    let array = sim::profile::load(&format!("raid0:disk={path},disks=2")).unwrap();
    assert_eq!(array.disks(), 2);
    std::fs::write(file.path(), "{\"schema\": \"seekwise-device-model 1\"}").unwrap();
    let error = sim::profile::load(path).unwrap_err().to_string();
    assert!(error.contains(path) && error.contains("this program reads"), "{error}");
}

#[test]
fn what_is_no_device_and_what_is_no_model_is_said_by_name() {
    let quiet = Quiet::default();
    let error = train("baracuda", &Options::default(), Workers::new(&quiet, None)).unwrap_err().to_string();
    assert!(error.contains("baracuda") && error.contains("barracuda"), "{error}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{\"schema\": \"something\"}").unwrap();
    let error = format!("{:#}", load(file.path()).unwrap_err());
    assert!(error.contains("seekwise-device-model 2"), "{error}");
}
