//! A trace file as a stream of decompressed bytes, with a look at its beginning.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use super::TraceError;

/// How much of the content is used to recognise formats.
const HEAD_BYTES: usize = 64 * 1024;
/// Size of one read from the file.
const READ_BYTES: usize = 256 * 1024;
/// Enough for any magic number.
const MAGIC_BYTES: usize = 10;
/// Memory limit for unpacking xz, in KiB: a dictionary of 128 MiB (`xz -9` uses 64) and the decoder's own.
const XZ_MEMORY_KIB: u32 = (128 << 10) + 1024;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// gzip (RFC 1952), of one or more members.
    Gzip,
    /// Zstandard (RFC 8878), of one or more frames, with a window of at most 128 MiB.
    Zstd,
    /// xz (The .xz File Format, 1.2.1), of one or more streams, with a dictionary of at most 128 MiB.
    Xz,
    /// bzip2, of one or more streams.
    Bzip2,
}

impl Compression {
    /// Recognises it by the magic number.
    fn of(start: &[u8]) -> Option<Compression> {
        match start {
            [0x1f, 0x8b, 8, ..] => Some(Compression::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Compression::Zstd),
            // A skippable frame, which some writers put first.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Compression::Zstd),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Compression::Xz),
            // Before the first block, or before the end of an empty one: pi and the square root of pi in decimal digits.
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..] => Some(Compression::Bzip2),
            [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, 0x38, 0x50, 0x90, ..] => Some(Compression::Bzip2),
            _ => None,
        }
    }

    /// Its usual name.
    pub fn name(self) -> &'static str {
        match self {
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
            Compression::Xz => "xz",
            Compression::Bzip2 => "bzip2",
        }
    }
}

/// An open trace file.
pub struct Input {
    /// Where it is: for messages, for formats of several files, and for formats that must seek.
    pub path: PathBuf,
    /// How the file is compressed, if it is.
    pub compression: Option<Compression>,
    /// The content, decompressed, from its beginning.
    pub stream: Box<dyn Read + Send>,
    head: Vec<u8>,
}

impl Input {
    /// Opens a file and reads its beginning.
    ///
    /// # Errors
    /// If the file is missing, unreadable, a directory or empty, or if compressed data is damaged at the very beginning.
    pub fn open(path: &Path) -> Result<Input, TraceError> {
        let io = |source| TraceError::Io { path: path.to_owned(), source };
        let file = File::open(path).map_err(io)?;
        if file.metadata().map_err(io)?.is_dir() {
            return Err(TraceError::Format { path: path.to_owned(), message: "is a directory; name a trace file".into() });
        }
        let mut file = BufReader::with_capacity(READ_BYTES, file);
        let start = beginning(&mut file, MAGIC_BYTES).map_err(io)?;
        let compression = Compression::of(&start);
        let whole = Cursor::new(start).chain(file);
        let mut stream: Box<dyn Read + Send> = match compression {
            None => Box::new(whole),
            Some(kind) => Box::new(Decompressed::new(kind, whole).map_err(io)?),
        };
        let head = beginning(&mut stream, HEAD_BYTES).map_err(|source| TraceError::Damaged {
            path: path.to_owned(),
            position: "1".into(),
            message: source.to_string(),
        })?;
        if head.is_empty() {
            return Err(TraceError::Format { path: path.to_owned(), message: "is empty; a trace has at least one request".into() });
        }
        let stream = Box::new(Cursor::new(head.clone()).chain(stream));
        Ok(Input { path: path.to_owned(), compression, stream, head })
    }

    /// The content's beginning.
    pub fn head(&self) -> Head<'_> {
        Head { bytes: &self.head, whole: self.head.len() < HEAD_BYTES }
    }

    /// The error for a file that is not of its format.
    pub fn not_of_format(&self, message: impl Into<String>) -> TraceError {
        TraceError::Format { path: self.path.clone(), message: message.into() }
    }
}

/// The first `count` bytes, or fewer if there are no more.
fn beginning(stream: &mut impl Read, count: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(count);
    stream.take(count as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Fills the buffer, or as much of it as there is data for.
pub(super) fn read_up_to(stream: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match stream.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// The error that ends a stream: damage if the compressed data is at fault, else the operating system's.
pub(super) fn stream_error(path: &Path, error: io::Error, position: impl ToString) -> TraceError {
    match error.raw_os_error() {
        Some(_) => TraceError::Io { path: path.to_owned(), source: error },
        None => TraceError::Damaged { path: path.to_owned(), position: position.to_string(), message: error.to_string() },
    }
}

/// The beginning of a trace's content, by which formats recognise it.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// Up to 64 KiB, decompressed.
    pub bytes: &'a [u8],
    /// Whether that is the whole content.
    pub whole: bool,
}

impl<'a> Head<'a> {
    /// The complete lines, at most 200, without line ends and byte order mark. A last line cut off by the limit is left out.
    pub fn lines(&self) -> impl Iterator<Item = &'a [u8]> {
        let end = match memchr::memrchr(b'\n', self.bytes) {
            Some(last) if !self.whole => last,
            _ => self.bytes.len(),
        };
        let text = &self.bytes[..end];
        let lines = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).split(|&byte| byte == b'\n').take(200);
        lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// A description of the content, for the error that no format matches.
    pub(super) fn describe(&self) -> String {
        let line = self.bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let shown = &line[..line.len().min(60)];
        let text = !self.bytes.contains(&0);
        let what = if text { "first line" } else { "a binary file, first bytes" };
        format!("{what} \"{}\"", shown.escape_ascii())
    }
}

/// Decompresses; errors give the position in the compressed file.
struct Decompressed<R: Read + Send> {
    kind: Compression,
    decoder: Decoder<R>,
}

enum Decoder<R: Read + Send> {
    Gzip(Box<flate2::bufread::MultiGzDecoder<BufReader<Counted<R>>>>),
    Zstd(zstd::stream::read::Decoder<'static, BufReader<Counted<R>>>),
    Xz(Box<lzma_rust2::XzReader<BufReader<Counted<R>>>>),
    Bzip2(bzip2::bufread::MultiBzDecoder<BufReader<Counted<R>>>),
}

impl<R: Read + Send> Decompressed<R> {
    fn new(kind: Compression, file: R) -> io::Result<Decompressed<R>> {
        let file = BufReader::with_capacity(READ_BYTES, Counted { file, bytes: 0 });
        let decoder = match kind {
            Compression::Gzip => Decoder::Gzip(Box::new(flate2::bufread::MultiGzDecoder::new(file))),
            Compression::Zstd => Decoder::Zstd(zstd::stream::read::Decoder::with_buffer(file)?),
            Compression::Xz => Decoder::Xz(Box::new(lzma_rust2::XzReader::new_mem_limit(file, true, XZ_MEMORY_KIB))),
            Compression::Bzip2 => Decoder::Bzip2(bzip2::bufread::MultiBzDecoder::new(file)),
        };
        Ok(Decompressed { kind, decoder })
    }

    /// How much of the compressed file the decoder has taken.
    fn position(&self) -> u64 {
        let file = match &self.decoder {
            Decoder::Gzip(decoder) => decoder.get_ref(),
            Decoder::Zstd(decoder) => decoder.get_ref(),
            Decoder::Xz(decoder) => decoder.inner(),
            Decoder::Bzip2(decoder) => decoder.get_ref(),
        };
        file.get_ref().bytes.saturating_sub(file.buffer().len() as u64)
    }
}

impl<R: Read + Send> Read for Decompressed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let result = match &mut self.decoder {
            Decoder::Gzip(decoder) => decoder.read(buffer),
            Decoder::Zstd(decoder) => decoder.read(buffer),
            Decoder::Xz(decoder) => decoder.read(buffer),
            Decoder::Bzip2(decoder) => decoder.read(buffer),
        };
        result.map_err(|error| {
            // The operating system's errors are not damage.
            if error.kind() == io::ErrorKind::Interrupted || error.raw_os_error().is_some() {
                return error;
            }
            let (name, position) = (self.kind.name(), self.position());
            let what = match error.kind() {
                io::ErrorKind::UnexpectedEof => format!("the {name} file ends too early, at its byte {position}"),
                _ => format!("the {name} data is damaged before byte {position} ({error})"),
            };
            io::Error::new(io::ErrorKind::InvalidData, what)
        })
    }
}

/// Counts the bytes that pass.
struct Counted<R> {
    file: R,
    bytes: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.bytes = self.bytes.saturating_add(count as u64);
        Ok(count)
    }
}
