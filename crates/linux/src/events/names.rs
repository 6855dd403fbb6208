//! Streams' names.

use std::collections::HashMap;

use block::StreamId;

/// How many are remembered: the machine's processes come and go for as long as it runs.
const MOST: usize = 65_536;

/// How many were heard of lately: the same few ask most of the time.
const LATELY: usize = 64;
/// Characters of a name, with zeroes behind it.
const LENGTH: usize = 16;

/// The programs behind streams.
pub(super) struct Names {
    by_stream: HashMap<StreamId, Box<str>>,
    lately: [(StreamId, [u8; LENGTH]); LATELY],
}

impl Default for Names {
    fn default() -> Names {
        Names { by_stream: HashMap::new(), lately: [(0, [0; LENGTH]); LATELY] }
    }
}

impl Names {
    /// A stream's program is called so.
    pub(super) fn learn(&mut self, stream: StreamId, name: &[u8]) {
        let mut full = [0; LENGTH];
        let length = name.len().min(LENGTH);
        full[..length].copy_from_slice(&name[..length]);
        let lately = &mut self.lately[stream as usize % LATELY];
        if *lately == (stream, full) {
            return;
        }
        *lately = (stream, full);
        if name.is_empty() || self.by_stream.get(&stream).is_some_and(|known| known.as_bytes() == name) {
            return;
        }
        if self.by_stream.len() >= MOST {
            self.by_stream.clear();
        }
        self.by_stream.insert(stream, String::from_utf8_lossy(name).into());
    }

    /// A stream's name.
    pub(super) fn get(&self, stream: StreamId) -> Option<&str> {
        self.heard_lately(stream).or_else(|| self.by_stream.get(&stream).map(|name| &**name))
    }

    /// Without a hash, for names are asked for with every request.
    fn heard_lately(&self, stream: StreamId) -> Option<&str> {
        let (other, full) = &self.lately[stream as usize % LATELY];
        if *other != stream {
            return None;
        }
        let length = full.iter().position(|&byte| byte == 0).unwrap_or(LENGTH);
        std::str::from_utf8(&full[..length]).ok().filter(|name| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_latest_that_was_heard_and_stays_where_others_were_heard_since() {
        let mut names = Names::default();
        let other = 7 + LATELY as u32;
        names.learn(7, b"bash");
        names.learn(7, b"tar");
        names.learn(other, b"kworker/u8:1-fl");
        assert_eq!((names.get(7), names.get(other)), (Some("tar"), Some("kworker/u8:1-fl")));
        names.learn(7, b"");
        assert_eq!(names.get(7), Some("tar"), "an event without a name");
        names.learn(other, b"caf\xe9");
        assert_eq!(names.get(other), Some("caf\u{fffd}"));
        assert_eq!((names.get(0), Names::default().get(7)), (None, None));
    }
}
