//! A value per stream, for a bounded number of streams, without allocation after construction.

use block::StreamId;

/// Base-2 logarithm of the number of groups. Choice: more cost memory for each window, fewer replace streams that are active; 64 groups of
/// eight hold 512 streams; not varied.
const GROUP_BITS: u32 = 6;
/// Number of groups. Derived: from [`GROUP_BITS`].
const GROUPS: usize = 1 << GROUP_BITS;
/// Slots per group: eight stream ids take half a cache line. Choice: more take longer to search, fewer replace streams that are active;
/// not varied.
const PLACES: usize = 8;

/// Maximum number of streams at a time. Each stream belongs to one of 64 groups of eight slots; a ninth stream of a group replaces the
/// least recently used one. Consecutive ids are distributed evenly over the groups, so that 512 of them all fit. Derived: groups times
/// slots.
pub const MAX_STREAMS: usize = GROUPS * PLACES;

/// A table from streams to values, whose order of iteration depends only on the calls.
///
/// ```
/// use observe::stream_table::StreamTable;
///
/// let mut requests: StreamTable<u64> = StreamTable::new();
/// for stream in [7, 9, 7] {
///     *requests.follow(stream).0 += 1;
/// }
/// assert_eq!((requests.get(7), requests.get(8)), (Some(&2), None));
/// ```
#[derive(Clone, Debug)]
pub struct StreamTable<T> {
    names: Box<[[StreamId; PLACES]]>,
    /// Number of slots in use in each group, from the first; they are only ever reassigned.
    taken: Box<[u8]>,
    values: Box<[T]>,
    /// The time of last use of each slot, as a count of uses.
    used: Box<[u64]>,
    uses: u64,
}

impl<T: Copy + Default> StreamTable<T> {
    /// An empty table.
    pub fn new() -> StreamTable<T> {
        StreamTable {
            names: Box::new([[0; PLACES]; GROUPS]),
            taken: Box::new([0; GROUPS]),
            values: vec![T::default(); MAX_STREAMS].into_boxed_slice(),
            used: Box::new([0; MAX_STREAMS]),
            uses: 0,
        }
    }

    /// Keeps only the streams for which `keeps`, which may modify the value, returns true.
    pub fn retain(&mut self, mut keeps: impl FnMut(&mut T) -> bool) {
        for group in 0..GROUPS {
            let first = group * PLACES;
            let mut kept = 0;
            for place in 0..usize::from(self.taken[group]) {
                if keeps(&mut self.values[first + place]) {
                    self.names[group].swap(kept, place);
                    self.values.swap(first + kept, first + place);
                    self.used.swap(first + kept, first + place);
                    kept += 1;
                }
            }
            self.taken[group] = kept as u8;
            self.values[first + kept..first + PLACES].fill(T::default());
        }
    }

    fn place(&self, group: usize, stream: StreamId) -> Option<usize> {
        let taken = usize::from(self.taken[group]);
        // Unused slots hold old ids; a valid one is always before them.
        let place = self.names[group].iter().position(|name| *name == stream).filter(|place| *place < taken)?;
        Some(group * PLACES + place)
    }

    /// The stream's value; `None` if it is not in the table.
    pub fn get(&self, stream: StreamId) -> Option<&T> {
        let place = self.place(group(stream), stream)?;
        Some(&self.values[place])
    }

    /// The same, mutable.
    pub fn get_mut(&mut self, stream: StreamId) -> Option<&mut T> {
        let place = self.place(group(stream), stream)?;
        Some(&mut self.values[place])
    }

    /// The stream's value, which becomes the most recently used one; and the value that was replaced to insert it, if any.
    pub fn follow(&mut self, stream: StreamId) -> (&mut T, Option<T>) {
        self.uses += 1;
        let group = group(stream);
        let (place, replaced) = match self.place(group, stream) {
            Some(place) => (place, None),
            None => self.take_place(group, stream),
        };
        self.used[place] = self.uses;
        (&mut self.values[place], replaced)
    }

    #[cold]
    fn take_place(&mut self, group: usize, stream: StreamId) -> (usize, Option<T>) {
        let first = group * PLACES;
        let taken = usize::from(self.taken[group]);
        let in_group = if taken < PLACES {
            self.taken[group] += 1;
            taken
        } else {
            (0..PLACES).min_by_key(|place| self.used[first + place]).unwrap_or(0)
        };
        self.names[group][in_group] = stream;
        let replaced = std::mem::take(&mut self.values[first + in_group]);
        (first + in_group, (taken == PLACES).then_some(replaced))
    }

    /// Every stream with its value.
    pub fn iter(&self) -> impl Iterator<Item = (StreamId, &T)> {
        (0..GROUPS).flat_map(move |group| {
            let taken = usize::from(self.taken[group]);
            self.names[group][..taken].iter().copied().zip(&self.values[group * PLACES..][..taken])
        })
    }

    /// All values.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.iter().map(|(_, value)| value)
    }
}

impl<T: Copy + Default> Default for StreamTable<T> {
    fn default() -> StreamTable<T> {
        StreamTable::new()
    }
}

/// Fibonacci hashing: the high bits of a product with 2^32 divided by the golden ratio.
fn group(stream: StreamId) -> usize {
    (stream.wrapping_mul(0x9e37_79b9) >> (32 - GROUP_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_consecutive_streams_as_there_are_places_keep_their_values() {
        for first in [0, 1_000_000, u32::MAX - MAX_STREAMS as u32] {
            let mut streams = StreamTable::new();
            for stream in first..first + MAX_STREAMS as u32 * 9 / 10 {
                *streams.follow(stream).0 = stream;
            }
            let kept = (first..).take(MAX_STREAMS * 9 / 10).filter(|stream| streams.get(*stream) == Some(stream));
            assert_eq!(kept.count(), MAX_STREAMS * 9 / 10);
            assert_eq!(streams.values().count(), MAX_STREAMS * 9 / 10);
        }
    }

    #[test]
    fn what_is_not_kept_makes_room_and_the_rest_keeps_its_values() {
        let mut streams = StreamTable::new();
        for stream in 0..MAX_STREAMS as u32 {
            *streams.follow(stream).0 = stream;
        }
        streams.retain(|value| {
            *value += 1;
            *value % 3 == 0
        });
        for stream in 0..MAX_STREAMS as u32 {
            let value = streams.get(stream).copied();
            assert_eq!(value, ((stream + 1) % 3 == 0 && value.is_some()).then_some(stream + 1));
        }
        assert!(streams.values().count() > MAX_STREAMS / 4);
        assert_eq!(streams.follow(1_000_000), (&mut 0, None));
        streams.retain(|_| false);
        assert_eq!(streams.values().count(), 0);
    }

    #[test]
    fn an_extra_stream_replaces_the_one_that_was_silent_longest() {
        let crowd: Vec<StreamId> = (0..).filter(|stream| group(*stream) == 5).take(PLACES + 1).collect();
        let mut streams = StreamTable::new();
        for stream in &crowd[..PLACES] {
            assert_eq!(streams.follow(*stream).1, None);
            *streams.get_mut(*stream).unwrap() = *stream;
        }
        streams.follow(crowd[0]);
        assert_eq!(streams.follow(crowd[PLACES]), (&mut 0, Some(crowd[1])));
        assert_eq!(streams.get(crowd[1]), None);
        assert_eq!(streams.get(crowd[0]), Some(&crowd[0]));
    }
}
