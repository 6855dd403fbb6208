//! Processes in a closed loop, and a disk that is faster for sequential requests.

use block::{Insertion, Nanos, Op, Pick, Priority, PriorityClass, Request, Scheduler, StreamId};

/// Service time of a request of 8 sectors that begins where the last one ended, and of any other. Larger ones take longer by their
/// additional sectors.
const TRANSFER: Nanos = Nanos::from_micros(400);
const SEEK: Nanos = Nanos::from_micros(8_000);

/// A process in a closed loop: it thinks, issues a request, and waits for the completion.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    pub op: Op,
    pub sync: bool,
    pub priority: Priority,
    pub first_lba: u64,
    pub sectors: u32,
    /// From the end of one request to the start of the next.
    pub stride: u64,
    pub think: Nanos,
    /// Its number of requests in flight.
    pub at_once: u32,
    pub starts: Nanos,
}

impl Process {
    pub fn sequential_reader(first_lba: u64, think: Nanos) -> Process {
        let (priority, starts) = (Priority::DEFAULT, Nanos::ZERO);
        Process { op: Op::Read, sync: true, priority, first_lba, sectors: 8, stride: 0, think, at_once: 1, starts }
    }

    pub fn with_priority(self, class: PriorityClass, level: u8) -> Process {
        Process { priority: Priority { class, level }, ..self }
    }
}

/// The service time of a request after one that ended at `head`.
pub fn service_of(request: &Request, head: u64) -> Nanos {
    let longer = Nanos(TRANSFER.0 / 8 * u64::from(request.sectors.saturating_sub(8)));
    longer + if request.lba == head { TRANSFER } else { SEEK }
}

/// The result of a run.
#[derive(Default)]
pub struct Report {
    /// Number of requests served, by process.
    pub served: Vec<u64>,
    /// Streams in the order of service.
    pub order: Vec<StreamId>,
    pub seeks: u64,
    /// Stream, completion time and response time of each request, in order of service.
    pub done: Vec<(StreamId, Nanos, Nanos)>,
    /// The longest response time of each process.
    pub longest: Vec<Nanos>,
    /// Time for which the disk was idle though requests were queued.
    pub idle_while_waiting: Nanos,
}

impl Report {
    pub fn total(&self) -> u64 {
        self.served.iter().sum()
    }
}

struct Running {
    process: Process,
    next_lba: u64,
    /// Issue times of its next requests.
    issues: Vec<Nanos>,
}

/// Runs the processes (stream 1, 2, …) until `end` on a disk that serves one request at a time.
pub fn run(scheduler: &mut dyn Scheduler, processes: &[Process], end: Nanos) -> Report {
    run_slowed(scheduler, processes, end, 1)
}

/// The same on a disk that is slower by this factor.
pub fn run_slowed(scheduler: &mut dyn Scheduler, processes: &[Process], end: Nanos, slowness: u64) -> Report {
    let mut running: Vec<Running> = processes
        .iter()
        .map(|&process| Running { process, next_lba: process.first_lba, issues: vec![process.starts; process.at_once as usize] })
        .collect();
    let count = processes.len();
    let mut report = Report { served: vec![0; count], longest: vec![Nanos::ZERO; count], ..Report::default() };
    let (mut now, mut head, mut next_id) = (Nanos::ZERO, 0, 0);
    let mut at_disk: Option<(Nanos, Nanos, Request)> = None;
    let mut wake: Option<Nanos> = None;
    loop {
        let issue = running.iter().enumerate().flat_map(|(n, r)| r.issues.iter().map(move |&at| (at, n))).min();
        let times = [at_disk.map(|(done, ..)| done), issue.map(|(at, _)| at), wake];
        let Some(next) = times.into_iter().flatten().min().filter(|&next| next < end) else { return report };
        if at_disk.is_none() && wake.is_some() {
            report.idle_while_waiting += next - now;
        }
        now = now.max(next);
        if let Some((done, began, request)) = at_disk
            && done == next
        {
            at_disk = None;
            scheduler.completed(now, &request, now - began);
            let number = request.stream as usize - 1;
            report.served[number] += 1;
            report.order.push(request.stream);
            report.done.push((request.stream, now, now - request.arrival));
            report.longest[number] = report.longest[number].max(now - request.arrival);
            let think = running[number].process.think;
            running[number].issues.push(now + think);
        } else if let Some((at, number)) = issue
            && at == next
        {
            let running = &mut running[number];
            let due = running.issues.iter().position(|&issue| issue == at);
            due.map(|due| running.issues.swap_remove(due));
            let Process { op, sync, priority, stride, sectors, .. } = running.process;
            let request = Request {
                id: next_id,
                stream: number as StreamId + 1,
                op,
                sync,
                priority,
                sectors,
                lba: running.next_lba,
                arrival: now,
            };
            next_id += 1;
            running.next_lba += u64::from(sectors) + stride;
            assert_eq!(scheduler.insert(now, request), Insertion::Queued, "the disk is built without merging");
        }
        wake = None;
        if at_disk.is_none() {
            match scheduler.pick(now) {
                Pick::Go(request) => {
                    let service = Nanos(service_of(&request, head).0 * slowness);
                    report.seeks += u64::from(request.lba != head);
                    head = request.end();
                    at_disk = Some((now + service, now, request));
                }
                Pick::WaitUntil(time) => wake = Some(time),
                Pick::Empty => {}
            }
        }
    }
}
