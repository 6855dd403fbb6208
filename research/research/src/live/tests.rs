#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

use control::search::ioperf::Pattern;

use super::*;

#[test]
fn processes_share_the_device_out_and_none_reaches_beyond_it() {
    let pattern = Pattern { processes: 8, read_percent: 30, random_percent: 60, request_kib: 7 };
    for size_bytes in [64 << 20, 1 << 30, (8 << 30) + 12_345, 1 << 40] {
        let jobs = Jobs::of_pattern(&pattern, size_bytes, 2.0);
        assert!(jobs.part_bytes * 8 <= size_bytes && jobs.part_bytes > 0, "{size_bytes}: {}", jobs.part_bytes);
        let text = jobs.text("/dev/loop9");
        let wanted =
            ["filename=/dev/loop9\n", "runtime=2000000us\n", "rwmixread=30\n", "percentage_random=60\n", "bs=7k\n", "numjobs=8\n"];
        wanted.iter().for_each(|line| assert!(text.contains(line), "{line}: {text}"));
    }
}

#[test]
fn processes_that_run_at_once_add_up_second_by_second() {
    let logs = ["1000, 100, 0, 0, 0\n2001, 50, 0, 0, 0\n2001, 7, 1, 0, 0\n".to_owned(), "999, 10, 0, 0, 0\n".to_owned()];
    let kib = |rate: f64| rate * 1024.0;
    assert_eq!(total(5.0, &logs).unwrap(), [(6.0, kib(110.0)), (7.0, kib(57.0))]);
}

#[test]
fn the_mean_of_no_runs_is_none() {
    let run = |bytes_per_s| Overall { bytes_per_s, response_s: 1.0 };
    assert_eq!(mean(&[run(1.0), run(3.0)]), Some(run(2.0)));
    assert_eq!(mean(&[]), None);
}
