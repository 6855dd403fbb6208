//! A trace format of your own: lines of `milliseconds R|W sector sectors`, read one by one.
//!
//! ```text
//! cargo run --release -p seekwise-sim --example trace_reader
//! ```
//! To make it part of the program, put it into `crates/trace/src/` with a `FORMAT` that recognises its files, and add that to `ALL`.

use std::error::Error;
use std::io::BufRead;
use std::path::PathBuf;

use block::{Nanos, Op, Priority};
use sim::replay::Survey;
use sim::trace::{TraceError, TraceReader, TraceRequest};

/// Reads from anything that has lines. Only one line is in memory.
struct Simple<Input> {
    input: Input,
    /// The number of the last line, for messages.
    line: u64,
    /// The time of the first request: a trace begins at zero.
    begins: Option<f64>,
}

impl<Input: BufRead> Simple<Input> {
    fn new(input: Input) -> Simple<Input> {
        Simple { input, line: 0, begins: None }
    }

    /// The request of a line, or what is wrong with it.
    fn parse(&mut self, line: &str) -> Result<TraceRequest, String> {
        let [time, op, lba, sectors] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            return Err(format!("{line:?} should be: milliseconds R|W sector sectors"));
        };
        let time: f64 = time.parse().map_err(|_| format!("the time is {time}; it should be a number of milliseconds"))?;
        let begins = *self.begins.get_or_insert(time);
        let op = match op {
            "R" => Op::Read,
            "W" => Op::Write,
            _ => return Err(format!("the operation is {op}; it should be R or W")),
        };
        Ok(TraceRequest {
            arrival: Nanos((1e6 * (time - begins)).max(0.0) as u64),
            device: 0,
            lba: lba.parse().map_err(|_| format!("the sector is {lba}; it should be a whole number"))?,
            sectors: sectors.parse().map_err(|_| format!("there are {sectors} sectors; it should be a whole number"))?,
            op,
            sync: None,
            stream: 0,
            priority: Priority::DEFAULT,
            response: None,
            service: None,
        })
    }
}

impl<Input: BufRead + Send> TraceReader for Simple<Input> {
    fn next_request(&mut self) -> Option<Result<TraceRequest, TraceError>> {
        let mut line = String::new();
        self.line += 1;
        let path = PathBuf::from("simple");
        match self.input.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => {
                let position = self.line.to_string();
                Some(self.parse(&line).map_err(|message| TraceError::Damaged { path, position, message }))
            }
            Err(source) => Some(Err(TraceError::Io { path, source })),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let text = "10.0 R 2048 8\n10.5 W 4096 16\n12.0 R 2056 8\n";
    let mut reader = Simple::new(text.as_bytes());
    while let Some(request) = reader.next_request() {
        let request = request?;
        println!("{:?} {:?} of {} sectors from {}", request.arrival, request.op, request.sectors, request.lba);
    }
    // A survey reads all of it, as a replay needs it to find a place for the trace on a disk.
    if let Some(survey) = Survey::take(&mut Simple::new(text.as_bytes()), |_| true)? {
        println!("{} requests in {:?}", survey.requests, survey.duration);
    }
    Ok(())
}

#[test]
fn a_damaged_line_is_named() {
    let mut reader = Simple::new("10.0 R 2048 8\n11.0 X 1 1\n".as_bytes());
    assert!(reader.next_request().is_some_and(|request| request.is_ok_and(|request| request.lba == 2048)));
    let error = reader.next_request().and_then(Result::err).map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some("simple:2: the operation is X; it should be R or W"));
}
