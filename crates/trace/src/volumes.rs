//! Splits a trace by volume, in one pass and bounded memory: a cloud trace has thousands of volumes in one file.
//!
//! ```text
//!  request --> its volume's buffer --(all are full together)--> a temporary file without a name: chunks of one volume after the other
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use block::Nanos;

use super::sort::{RECORD_BYTES, decode, encode};
use super::{TraceError, TraceReader, TraceRequest};

/// Memory limit in bytes; buffers are flushed to the file when it is reached.
const BUFFERED: usize = 64 << 20;
/// Requests per read.
const BLOCK: usize = 1 << 12;
/// Requests between progress calls.
const CHECKED: u64 = 8192;

/// The requests of a trace, split by volume.
pub struct Volumes {
    file: File,
    volumes: BTreeMap<u32, Volume>,
}

#[derive(Default)]
struct Volume {
    name: Option<String>,
    requests: u64,
    /// Chunks in the file: byte offset and number of requests.
    chunks: Vec<(u64, usize)>,
    /// Requests not flushed to the file yet.
    buffer: Vec<u8>,
}

impl Volumes {
    /// Reads a whole trace. `each` is called periodically with the number of requests read and cancels by returning `false`.
    ///
    /// # Errors
    /// The trace cannot be read, or the temporary file in `folder` cannot be written.
    pub fn split(
        reader: &mut dyn TraceReader,
        folder: &Path,
        mut each: impl FnMut(u64) -> bool,
    ) -> Result<Option<Volumes>, TraceError> {
        let failed = |source| TraceError::Io { path: folder.to_owned(), source };
        let file = tempfile::tempfile_in(folder).map_err(failed)?;
        let mut volumes = Volumes { file, volumes: BTreeMap::new() };
        let (mut buffered, mut end, mut requests) = (0, 0, 0u64);
        while let Some(request) = reader.next_request().transpose()? {
            let volume = volumes.volumes.entry(request.device).or_default();
            if volume.requests == 0 {
                volume.name = reader.device_name(request.device).map(str::to_owned);
            }
            volume.requests += 1;
            volume.buffer.extend(encode(&request));
            buffered += RECORD_BYTES;
            if buffered >= BUFFERED {
                volumes.spill(&mut end).map_err(failed)?;
                buffered = 0;
            }
            requests += 1;
            if requests.is_multiple_of(CHECKED) && !each(requests) {
                return Ok(None);
            }
        }
        volumes.spill(&mut end).map_err(failed)?;
        Ok(Some(volumes))
    }

    fn spill(&mut self, end: &mut u64) -> io::Result<()> {
        let mut out = &self.file;
        for volume in self.volumes.values_mut().filter(|volume| !volume.buffer.is_empty()) {
            // Chunks are appended, so the offset is the end of the file.
            out.write_all(&volume.buffer)?;
            volume.chunks.push((*end, volume.buffer.len() / RECORD_BYTES));
            *end += volume.buffer.len() as u64;
            // Frees the buffer, since the next round may be of other volumes.
            volume.buffer = Vec::new();
        }
        Ok(())
    }

    /// Volume numbers, in order.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.volumes.keys().copied()
    }

    /// Name of a volume in the trace.
    pub fn name(&self, number: u32) -> Option<&str> {
        self.volumes.get(&number)?.name.as_deref()
    }

    /// The requests of a volume as a separate trace that starts at time zero, on device 0. Empty for an unknown volume number.
    pub fn reader(&self, number: u32) -> VolumeReader<'_> {
        let chunks = self.volumes.get(&number).map_or(&[][..], |volume| &volume.chunks);
        VolumeReader { file: &self.file, chunks, done: 0, block: Vec::new(), at: 0, begins: None }
    }
}

/// A reader of one volume.
pub struct VolumeReader<'a> {
    file: &'a File,
    chunks: &'a [(u64, usize)],
    /// Requests already read from the first chunk.
    done: usize,
    block: Vec<TraceRequest>,
    at: usize,
    begins: Option<Nanos>,
}

impl VolumeReader<'_> {
    fn fill(&mut self) -> io::Result<()> {
        (self.block, self.at) = (Vec::new(), 0);
        let Some(&(begins, requests)) = self.chunks.first() else { return Ok(()) };
        let count = (requests - self.done).min(BLOCK);
        let mut bytes = vec![0; count * RECORD_BYTES];
        self.file.read_exact_at(&mut bytes, begins + (self.done * RECORD_BYTES) as u64)?;
        self.block = bytes.chunks_exact(RECORD_BYTES).filter_map(|record| record.first_chunk()).map(decode).collect();
        self.done += count;
        if self.done == requests {
            (self.chunks, self.done) = (&self.chunks[1..], 0);
        }
        Ok(())
    }
}

impl TraceReader for VolumeReader<'_> {
    fn next_request(&mut self) -> Option<Result<TraceRequest, TraceError>> {
        if self.at == self.block.len()
            && let Err(source) = self.fill()
        {
            return Some(Err(TraceError::Io { path: std::env::temp_dir(), source }));
        }
        let request = *self.block.get(self.at)?;
        self.at += 1;
        let begins = *self.begins.get_or_insert(request.arrival);
        Some(Ok(TraceRequest { arrival: request.arrival - begins, device: 0, ..request }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OpenOptions, open};

    #[test]
    fn each_volume_has_its_requests_in_order_from_zero() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("volumes.csv");
        // In the format of Microsoft Research's traces: ticks of 100 ns, host, disk, offset and length in bytes.
        let mut text = String::new();
        for number in 0..30_000_u64 {
            text += &format!("{},vol{},0,Read,{},4096,100\n", 128_166_372_000_000_000 + 10_000 * number, number % 3, 4096 * number);
        }
        std::fs::write(&path, text).unwrap();
        let mut opened = open(&path, &OpenOptions::default()).unwrap();
        let volumes = Volumes::split(&mut *opened.reader, folder.path(), |_| true).unwrap().unwrap();
        let numbers: Vec<u32> = volumes.numbers().collect();
        assert_eq!(numbers.iter().map(|&number| volumes.name(number).unwrap()).collect::<Vec<_>>(), ["vol0.0", "vol1.0", "vol2.0"]);
        for (place, &number) in numbers.iter().enumerate() {
            let mut reader = volumes.reader(number);
            let requests: Vec<TraceRequest> = std::iter::from_fn(|| reader.next_request()).map(Result::unwrap).collect();
            assert_eq!(requests.len(), 10_000);
            for (at, request) in (0..).zip(&requests) {
                let expected = (Nanos::from_millis(3 * at), 8 * (3 * at + place as u64), 0);
                assert_eq!((request.arrival, request.lba, request.device), expected);
            }
        }
    }
}
