//! Checks that the permitted attributes can be set.

use crate::attribute::{Attribute, MACHINE, MAX_SECTORS, NONE, NR_REQUESTS, Owner, SCHEDULER, State, WRITE_BACK_THROTTLE, all};
use crate::cgroup::is_cgroup;
use crate::error::{ApplierError, ErrorKind};
use crate::protocol::Can;
use crate::sysfs::SysfsError;
use crate::writer::{Writer, whole};

impl Writer {
    /// Writes the current value of each attribute and reads it back. Returns the permitted values. If writing even the same value would
    /// have side effects, the file is only opened for writing.
    ///
    /// # Errors
    /// There is no such device; the journal cannot be written; the system forbids writing one of them, as a sandbox does for all.
    pub fn can(&mut self, device: &str) -> Result<Vec<Can>, ApplierError> {
        if is_cgroup(device) {
            return self.can_cgroup(device);
        }
        let known = self.known(device)?;
        whole(&known.damage)?;
        self.store(device, &known.records)?;
        let state = self.state(device)?;
        if device == MACHINE && !self.rules.machine {
            let message = "the machine's own settings are only changed if the administrator allows it";
            return Err(ApplierError::new(ErrorKind::NotAllowed, format_args!("{device}: {message}")));
        }
        self.other_writers(device);
        let mut can = Vec::new();
        for (attribute, value) in all().iter().filter_map(|attribute| Some((attribute, state.get(&attribute.name)?))) {
            let refused = self.prove(device, attribute, value, &state)?;
            let words = if attribute.name == SCHEDULER { state.offered.clone() } else { Vec::new() };
            let (attribute, range) = (attribute.name.clone(), state.range(attribute));
            can.push(Can { attribute, value: value.to_owned(), range, words, refused });
        }
        Ok(can)
    }

    /// Why an attribute cannot be set at present; `None` if it can.
    fn prove(&mut self, device: &str, attribute: &Attribute, value: &str, state: &State) -> Result<Option<String>, ApplierError> {
        if attribute.name == NR_REQUESTS && state.scheduler() == NONE {
            self.open(device, attribute)?;
            return Ok(state.check(attribute, value, NONE).err());
        }
        if attribute.name == NR_REQUESTS && value.parse().is_ok_and(|requests: u64| requests < MIN_NR_REQUESTS) {
            self.open(device, attribute)?;
            return Ok(Some(format!("it is {value}, and the kernel takes at least {MIN_NR_REQUESTS}")));
        }
        if leaves_traces(attribute, value) {
            self.open(device, attribute)?;
            return Ok(None);
        }
        match self.write(device, attribute, value) {
            Err(error) if error.kind == ErrorKind::Kernel => Ok(Some(error.message)),
            Err(error) => Err(error),
            Ok(_) => {
                let now = self.value(device, attribute)?;
                let same = now.as_deref() == Some(value);
                Ok((!same).then(|| format!("it is {} after {value} was written", now.as_deref().unwrap_or("not there"))))
            }
        }
    }

    fn open(&self, device: &str, attribute: &Attribute) -> Result<(), ApplierError> {
        let path = attribute.path(&self.sysfs, device);
        self.files.may_set(&path).map_err(|error| self.system(device, SysfsError::writing(&path, "anything", error)))
    }
}

/// The smallest number of requests that the kernel takes; a smaller one, which a device with few tags has by itself, becomes this when it is
/// written. Source: `BLKDEV_MIN_RQ` in `block/blk.h`, and `queue_requests_store` in `block/blk-sysfs.c`.
const MIN_NR_REQUESTS: u64 = 4;

/// Whether writing the same value again has side effects, visible or not: `none` sets the number of requests to that of the driver's tags,
/// even if it was active; the target of write-back throttling then counts as set by hand, and the maximum request size, too; idling loses
/// its microseconds; and a ratio of 0 replaces bytes.
fn leaves_traces(attribute: &Attribute, value: &str) -> bool {
    matches!(attribute.name.as_str(), WRITE_BACK_THROTTLE | MAX_SECTORS)
        || (attribute.name == SCHEDULER && value == NONE)
        || attribute.is_view()
        || (attribute.owner == Owner::Machine && attribute.counterpart().is_some() && value == "0")
}
