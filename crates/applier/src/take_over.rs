//! What a scheduler sees of the processes that it takes over.
//!
//! bfq judges a process by how it begins, and under it all that run already begin at the moment when it becomes active. It takes a few that
//! begin together for an application that is being started, favours them, and so reads none of them in order; after 600 ms it makes one
//! queue of them, for good. Many that begin together it takes for a job, and gives each that reads in order its time. So it is shown many:
//! in addition to those that run, as many threads each read one page of the device.

use std::time::Duration;

use block::LiveSwitch;

use crate::sysfs::Sysfs;
use crate::writer::Writer;

impl Writer {
    /// Makes as many threads read as a scheduler that just became active needs to see. Returns what prevented it. Waits until its tunables
    /// may be written, if some will be.
    pub(crate) fn take_over(&self, device: &str, scheduler: &str, is_tuned: bool) -> Option<String> {
        let spec = block::of_linux().find(|spec| spec.name == scheduler)?;
        let LiveSwitch { min_readers: readers, settle_time: settles, .. } = spec.live_switch();
        if readers == 0 {
            return None;
        }
        let path = self.sysfs.dev().join(Sysfs::file_name(device));
        let wait = if is_tuned { Duration::from_nanos(settles.0) } else { Duration::ZERO };
        let trouble = self.files.read_at_once(&path, readers, wait).err()?;
        let path = path.display();
        Some(format!("{path}: cannot read: {trouble}; so {scheduler} takes what runs already for programs that are being started"))
    }
}
