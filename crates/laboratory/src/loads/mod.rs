//! Loads that are drawn: fio job files from a seed.

pub mod mix;

/// The job file with this runtime wherever it names one.
pub fn with_runtime(text: &str, seconds: u32) -> String {
    let line = |line: &str| match line.split_once('=') {
        Some((key, _)) if key.trim() == "runtime" => format!("runtime={seconds}\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn every_runtime_is_replaced_and_nothing_else() {
        assert_eq!(with_runtime("[a]\nruntime=60\nrw=read\n runtime = 5m", 7), "[a]\nruntime=7\nrw=read\nruntime=7\n");
    }

    #[test]
    fn what_is_drawn_is_a_job_file_and_the_same_again() {
        for number in 0..300 {
            let text = mix::text(1, number, 5);
            assert_eq!(text, mix::text(1, number, 5));
            sim::workload::Workload::parse(&text, "drawn").unwrap_or_else(|error| panic!("{error}\n{text}"));
        }
    }
}
