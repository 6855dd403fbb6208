//! Reads issued at a switch, for schedulers that classify processes by their start.
//!
//! bfq classifies processes by how they start, and when it becomes active all running ones appear to start at once. A few that start
//! together count as an application launch: they are favoured, none is served sequentially, and after 600 ms their queues are merged for
//! good. Many that start together count as a job, and each sequential reader gets its time slices. This many are simulated: in addition to
//! the running processes, enough threads read one page of the device each.

use std::time::Duration;

use block::LiveSwitch;

use crate::sysfs::Sysfs;
use crate::writer::Writer;

impl Writer {
    /// Starts as many reading threads as a newly active scheduler needs. Returns an error text, or `None`. If its tunables will be written
    /// (`is_tuned`), waits until they may be.
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
        Some(format!("{path}: cannot read: {trouble}; so {scheduler} treats running programs as programs that are being started"))
    }
}
