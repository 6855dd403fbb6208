//! Pasted command lines of fio.

use proptest::prelude::*;
use sim::workload::{Options, Workload};

fn options(text: &str) -> Vec<(String, Options)> {
    let workload = Workload::parse(text, "t").unwrap_or_else(|error| panic!("{error}\n{text}"));
    workload.jobs().iter().map(|job| (job.name().to_owned(), job.options().clone())).collect()
}

#[test]
fn a_command_line_is_the_job_file_of_its_options() {
    let file = "[global]\nfilename=/dev/sdb\nrw=randrw\ndirect=1\n[a]\nbs=4k\nnumjobs=2\ntime_based\nruntime=60\n[b]\nbs=64k\n";
    for text in [
        "fio --filename=/dev/sdb --rw=randrw --direct=1 --name=a --bs=4k --numjobs=2 --time_based --runtime=60 --name=b --bs=64k\n",
        "$ sudo fio -filename=/dev/sdb -rw=randrw -direct=1 -name=a -bs=4k -numjobs=2 -time_based -runtime=60 -name=b -bs=64k",
        "# a database\nfio --filename /dev/sdb --rw=randrw --direct=1 \\\n  --name=a --bs=4k --numjobs=2 --time_based --runtime=60 \\\n\
         --name=b --bs=64k --output-format=json --output out | tee log\n",
        "root@db:~# /usr/bin/fio --name=global --filename=/dev/sdb --rw=\"randrw\" --direct=1 --minimal --name=a --bs=4k --numjobs=2 \\  \n\
         --time_based --runtime='60' --name=b --bs=64k > out 2>&1\n",
    ] {
        assert_eq!(options(text), options(file), "{text}");
    }
}

#[test]
fn its_text_is_a_job_file_that_means_the_same() {
    let text = "fio --rw=read --size=1m --name=a --name=b --size=2m";
    let workload = Workload::parse(text, "t").unwrap();
    assert_eq!(workload.text(), "[global]\nrw=read\nsize=1m\n[a]\n[b]\nsize=2m\n");
    assert_eq!(options(workload.text()), options(text));
}

#[test]
fn errors_name_the_line_of_the_option() {
    for (text, words) in [
        ("fio --name=a --bs=4x\n", "t:1: bs: `4x` has the unknown unit `x`"),
        ("\nfio --name=a \\\n --iodpeth=4\n", "t:3: there is no option `iodpeth`; did you mean iodepth?"),
        ("fio --name=a --rw\n", "t:1: `rw` needs a value"),
        ("fio --name=a --size=\n", "t:1: `size` has no value after the ="),
        ("fio --name=a \\\n--rate=1m \\\n--rate_iops=10", "t:3: rate and rate_iops exclude each other"),
        ("fio --name=a --size='${SIZE}'", "t:1: size: the environment variable SIZE is not set"),
        ("fio --rw=read --size=1m", "t:1: the command line holds no job"),
        ("fio --name=a --section=b", "t:1: `--section` is not supported on a command line"),
    ] {
        let error = Workload::parse(text, "t").unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
    let long = format!("fio --name=a --description={}", "x".repeat(300 << 10));
    assert!(Workload::parse(&long, "t").unwrap_err().to_string().contains("are too many for a command line; at most 262144"));
}

/// The case of a user's, where it is at hand: `shared/cases` next to the workspace.
#[test]
fn a_command_line_from_a_forum_is_read() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/cases/field/37-fio-cmdline.txt");
    let Ok(text) = std::fs::read_to_string(path) else { return println!("skipped: {path} is not at hand") };
    let jobs = options(&text);
    assert_eq!(jobs.len(), 4);
    assert!(jobs.iter().all(|(name, options)| name.starts_with("iops.") && options.queue.direct && options.length.time_based));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn no_command_line_makes_it_panic(words in prop::collection::vec(prop_oneof![
        "--(name|rw|bs|size|thread|output|minimal)(=[a-z0-9]{0,4})?",
        "[-a-z=0-9'\"\\\\|>;&#\n ]{0,8}",
        ".{0,8}",
    ], 0..12)) {
        let _ = Workload::parse(&format!("fio --name=a {}", words.join(" ")), "fuzz");
    }
}
