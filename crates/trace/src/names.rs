//! Names of streams and devices, in memory bounded for any trace.

use std::collections::BTreeMap;

use super::lines;

/// How many different names a trace may use, and how much memory they may take.
const NAMES: usize = 1 << 20;
const NAME_BYTES: usize = 64 << 20;

/// Numbers names in order of first appearance.
#[derive(Default)]
pub(super) struct Names {
    numbers: BTreeMap<Box<str>, u32>,
    names: Vec<Box<str>>,
    bytes: usize,
    last: u32,
}

impl Names {
    /// The name's number.
    pub(super) fn number(&mut self, name: &[u8]) -> Result<u32, String> {
        // A trace without names has the empty one everywhere. `memcmp` on two empty slices may cost more than all else of a line: the
        // C library reads them under a mask that is all zeros, and where the address is on no page, as an empty slice's is, the
        // processor takes hundreds of cycles to find out that nothing was read.
        if name.is_empty() && self.names.len() == 1 && self.names[0].is_empty() {
            return Ok(0);
        }
        // Runs of the same name are common.
        if self.names.get(self.last as usize).is_some_and(|last| last.as_bytes() == name) {
            return Ok(self.last);
        }
        let name = String::from_utf8_lossy(name);
        if let Some(&number) = self.numbers.get(&*name) {
            self.last = number;
            return Ok(number);
        }
        self.bytes = self.bytes.saturating_add(name.len());
        if self.names.len() >= NAMES || self.bytes > NAME_BYTES {
            return Err(format!(
                "{} is one name too many: a trace may use {NAMES} of {NAME_BYTES} bytes together",
                lines::show(name.as_bytes())
            ));
        }
        let number = u32::try_from(self.names.len()).map_err(|_| "too many names".to_owned())?;
        self.numbers.insert(name.as_ref().into(), number);
        self.names.push(name.into());
        self.last = number;
        Ok(number)
    }

    /// The name of a number.
    pub(super) fn name(&self, number: u32) -> Option<&str> {
        self.names.get(number as usize).map(|name| &**name)
    }
}

/// Names of things that have numbers of their own, such as processes. The last name given to a number counts.
#[derive(Default)]
pub(super) struct NamesByNumber {
    names: BTreeMap<u32, Box<str>>,
    bytes: usize,
}

impl NamesByNumber {
    /// Stores a name. Beyond the limit, further numbers stay nameless: names are for display only.
    pub(super) fn learn(&mut self, number: u32, name: &[u8]) {
        let known = self.names.get(&number);
        if name.is_empty() || known.is_some_and(|known| known.as_bytes() == name) {
            return;
        }
        if known.is_none() && self.names.len() >= NAMES || self.bytes.saturating_add(name.len()) > NAME_BYTES {
            return;
        }
        let old = self.names.insert(number, String::from_utf8_lossy(name).into());
        self.bytes = self.bytes.saturating_add(name.len()).saturating_sub(old.map_or(0, |name| name.len()));
    }

    /// The name of a number.
    pub(super) fn name(&self, number: u32) -> Option<&str> {
        self.names.get(&number).map(|name| &**name)
    }
}
