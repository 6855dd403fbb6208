//! Requests in order of arrival that are read from any place, again and again, in bounded memory.
//!
//! ```text
//!  push --> up to 2^18 in memory --> a temporary file without a name --> read from the first that arrives at a time
//! ```
//! Few requests never leave memory.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use block::Nanos;

use super::sort::{RECORD_BYTES, decode, encode};
use super::{TraceError, TraceRequest};

/// Requests in memory before they go to the file: 20 MB.
const IN_MEMORY: usize = 1 << 18;
/// Requests that are read at once. Divides [`IN_MEMORY`].
const BLOCK: usize = 1 << 10;

/// The requests.
pub struct Numbered {
    /// The folder of the temporary file.
    folder: PathBuf,
    /// The first ones, if they are many.
    file: Option<File>,
    /// The arrival of the first of each block in the file.
    arrivals: Vec<Nanos>,
    /// The others.
    latest: Vec<TraceRequest>,
    limit: usize,
}

impl Default for Numbered {
    fn default() -> Numbered {
        Numbered { folder: std::env::temp_dir(), file: None, arrivals: Vec::new(), latest: Vec::new(), limit: IN_MEMORY }
    }
}

impl Numbered {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.in_file() + self.latest.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn in_file(&self) -> usize {
        self.arrivals.len() * BLOCK
    }

    /// Adds a request, which arrives no earlier than the one before.
    ///
    /// # Errors
    /// The temporary file cannot be written.
    pub fn push(&mut self, request: TraceRequest) -> Result<(), TraceError> {
        if self.latest.len() == self.limit {
            self.spill().map_err(|source| TraceError::Io { path: self.folder.clone(), source })?;
        }
        self.latest.push(request);
        Ok(())
    }

    fn spill(&mut self) -> io::Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => tempfile::tempfile_in(&self.folder)?,
        };
        // Written one after the other, so that its place is the end.
        let mut out = BufWriter::new(&file);
        for request in &self.latest {
            out.write_all(&encode(request))?;
        }
        out.flush()?;
        drop(out);
        self.arrivals.extend(self.latest.iter().step_by(BLOCK).map(|request| request.arrival));
        self.latest.clear();
        self.file = Some(file);
        Ok(())
    }

    /// Reads them from this number on.
    pub fn from(&self, number: usize) -> Numbers<'_> {
        Numbers { requests: self, next: number, block: Vec::new(), begins: 0 }
    }

    /// Reads those that arrive at this time or later.
    pub fn since(&self, arrival: Nanos) -> impl Iterator<Item = Result<TraceRequest, TraceError>> {
        let blocks = self.arrivals.partition_point(|first| *first < arrival);
        // In the last block that begins earlier.
        let from = self.from(blocks.saturating_sub(1) * BLOCK);
        from.skip_while(move |request| request.as_ref().is_ok_and(|request| request.arrival < arrival))
    }

    fn block(&self, number: usize) -> io::Result<Vec<TraceRequest>> {
        let Some(file) = &self.file else { return Ok(Vec::new()) };
        let mut bytes = vec![0; BLOCK * RECORD_BYTES];
        file.read_exact_at(&mut bytes, (number * BLOCK * RECORD_BYTES) as u64)?;
        Ok(bytes.chunks_exact(RECORD_BYTES).filter_map(|record| record.first_chunk()).map(decode).collect())
    }
}

/// Reads requests.
pub struct Numbers<'a> {
    requests: &'a Numbered,
    next: usize,
    /// A block of the file, and the number of its first request.
    block: Vec<TraceRequest>,
    begins: usize,
}

impl Iterator for Numbers<'_> {
    type Item = Result<TraceRequest, TraceError>;

    fn next(&mut self) -> Option<Result<TraceRequest, TraceError>> {
        let Numbers { requests, next, .. } = *self;
        self.next += 1;
        if let Some(behind) = next.checked_sub(requests.in_file()) {
            return requests.latest.get(behind).copied().map(Ok);
        }
        if self.block.is_empty() || !(self.begins..self.begins + BLOCK).contains(&next) {
            self.begins = next / BLOCK * BLOCK;
            match requests.block(next / BLOCK) {
                Ok(block) => self.block = block,
                Err(source) => return Some(Err(TraceError::Io { path: requests.folder.clone(), source })),
            }
        }
        self.block.get(next - self.begins).copied().map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(number: usize) -> TraceRequest {
        // Three at a time.
        TraceRequest { arrival: Nanos(number as u64 / 3 * 10), lba: number as u64, ..decode(&[0; RECORD_BYTES]) }
    }

    fn numbered(count: usize, limit: usize) -> Numbered {
        let mut numbered = Numbered { limit, ..Numbered::default() };
        (0..count).for_each(|number| numbered.push(request(number)).unwrap());
        numbered
    }

    fn numbers(read: impl Iterator<Item = Result<TraceRequest, TraceError>>) -> Vec<u64> {
        read.map(|request| request.unwrap().lba).collect()
    }

    #[test]
    fn requests_are_read_from_any_number_and_any_time_whether_in_memory_or_in_a_file() {
        for (count, limit) in [(0, BLOCK), (5_000, IN_MEMORY), (5_000, BLOCK), (5_000, 2 * BLOCK), (4 * BLOCK, BLOCK)] {
            let numbered = numbered(count, limit);
            assert_eq!(numbered.len(), count);
            assert!(numbered.latest.len() <= limit);
            for from in [0, 1, BLOCK - 1, BLOCK, 3_000, 4_999, 6_000] {
                assert_eq!(numbers(numbered.from(from)), (from as u64..count as u64).collect::<Vec<_>>(), "{count} {limit} {from}");
            }
            for at in [0, 1, 10, 3_410, 3_415, 12_340, 1 << 40] {
                let first = (0..count as u64).find(|number| number / 3 * 10 >= at).unwrap_or(count as u64);
                assert_eq!(numbers(numbered.since(Nanos(at))), (first..count as u64).collect::<Vec<_>>(), "{count} {limit} {at}");
            }
        }
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let mut numbered = Numbered { limit: BLOCK, folder: PathBuf::from("/nonexistent"), ..Numbered::default() };
        let pushed: Result<Vec<()>, TraceError> = (0..2_000).map(|number| numbered.push(request(number))).collect();
        assert!(pushed.unwrap_err().to_string().starts_with("/nonexistent: "));
    }
}
