//! `flow`: jobs that keep fixed shares of the I/Os (fio's flow.c).

use super::job::Job;

/// All flows, and the jobs' parts of them.
pub(super) struct Flows {
    flows: Vec<Flow>,
    /// Each job's part; `None` if it has none.
    parts: Vec<Option<Part>>,
    /// Whether a job that was not admitted may be now.
    changed: bool,
}

struct Flow {
    id: u32,
    weight: u64,
    /// Number of I/Os of all parts, plus 1.
    ios: u64,
}

struct Part {
    flow: usize,
    weight: u64,
    ios: u64,
}

impl Flows {
    /// The flows of those `jobs` that `run`.
    pub(super) fn new(jobs: &[Job], runs: impl Fn(usize) -> bool) -> Flows {
        let mut flows: Vec<Flow> = Vec::new();
        let mut part = |(index, job): (usize, &Job)| {
            let (id, weight) = (job.options().flow.id, u64::from(job.options().flow.weight));
            if weight == 0 || !runs(index) {
                return None;
            }
            let flow = flows.iter().position(|flow| flow.id == id).unwrap_or(flows.len());
            if flow == flows.len() {
                flows.push(Flow { id, weight: 0, ios: 1 });
            }
            flows[flow].weight += weight;
            Some(Part { flow, weight, ios: 0 })
        };
        let parts = jobs.iter().enumerate().map(&mut part).collect();
        Flows { flows, parts, changed: false }
    }

    /// Whether the job may issue one more I/O, which is then counted: not if its share of the I/Os is above its share of the
    /// weight.
    pub(super) fn admits(&mut self, job: usize) -> bool {
        let Some(part) = &mut self.parts[job] else { return true };
        let flow = &mut self.flows[part.flow];
        if part.ios * flow.weight > part.weight * flow.ios {
            return false;
        }
        part.ios += 1;
        flow.ios += 1;
        self.changed = true;
        true
    }

    /// Removes a job that has ended; the others share without it.
    pub(super) fn leave(&mut self, job: usize) {
        if let Some(part) = self.parts[job].take() {
            let flow = &mut self.flows[part.flow];
            flow.weight -= part.weight;
            flow.ios -= part.ios;
            self.changed = true;
        }
    }

    /// Whether a job that was not admitted may be now; resets the flag.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }
}
