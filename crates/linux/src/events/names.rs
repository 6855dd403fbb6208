//! Names of streams.

use std::collections::HashMap;

use block::StreamId;

/// Maximum number of remembered names: processes come and go for as long as the machine runs.
const MOST: usize = 65_536;

/// Size of the cache of recent names: the same few streams issue most requests.
const LATELY: usize = 64;
/// Length of a name, padded with zeroes.
const LENGTH: usize = 16;

/// The program names of streams.
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
    /// Sets the name of a stream's program.
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

    /// The name of a stream's program; `None` if it is unknown.
    pub(super) fn get(&self, stream: StreamId) -> Option<&str> {
        self.heard_lately(stream).or_else(|| self.by_stream.get(&stream).map(|name| &**name))
    }

    /// Looks up the cache without hashing, as names are needed for every request.
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
