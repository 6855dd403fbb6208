//! Models of devices: trained, judged on what they never saw, kept in a file.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

use block::tenants::ServiceModel as _;
use block::{Nanos, Op, Priority, Request};
use laboratory::device_model::{Options, load, train};
use laboratory::monitor::Quiet;
use laboratory::pool::Crew;

#[test]
fn a_model_of_a_disk_knows_where_the_platter_stands_and_reads_back_as_the_same() {
    let quiet = Quiet::default();
    let options = Options { requests: 2_000, ..Options::default() };
    let trained = train("hp_c2247a", &options, Crew::new(&quiet, Some(2))).unwrap();
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
        assert_eq!(one.of(start, &request, 0), other.of(start, &request, 0));
    }
}

#[test]
fn what_is_no_device_and_what_is_no_model_is_said_by_name() {
    let quiet = Quiet::default();
    let error = train("baracuda", &Options::default(), Crew::new(&quiet, None)).unwrap_err().to_string();
    assert!(error.contains("baracuda") && error.contains("barracuda"), "{error}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{\"schema\": \"something\"}").unwrap();
    let error = format!("{:#}", load(file.path()).unwrap_err());
    assert!(error.contains("seekwise-device-model 1"), "{error}");
}
