//! Guards the Parquet library against untrusted files: bounds the memory that a page may make it allocate.
//!
//! The library trusts some numbers in a page's header: it allocates the uncompressed size, and a dictionary's number of values,
//! before reading the data. A file of 200 bytes could make it allocate 16 GiB.
//!
//! ```text
//!  file --> Chunk: the header's size, the page's length --> library --> Checked: dictionary, encoding --> column
//! ```

use std::fs::File;
use std::io::{BufReader, Chain, Cursor, Read, Seek, SeekFrom};
use std::sync::Arc;

use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

/// The largest page, in uncompressed bytes: one per column is in memory at once. Writers aim for 1 MiB.
const PAGE_BYTES: u64 = 16 << 20;
/// Enough for the three numbers at the beginning of a page's header and the field after them.
const HEADER_START_BYTES: u64 = 20;

/// The pages of one column chunk, checked.
pub(super) fn open(file: &Arc<Chunk>, column: &ColumnChunkMetaData, rows: usize) -> Result<Box<dyn PageReader>> {
    let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
    let inside = u64::try_from(start)
        .ok()
        .zip(u64::try_from(column.compressed_size()).ok())
        .and_then(|(start, length)| start.checked_add(length))
        .is_some_and(|end| end <= file.length);
    if !inside {
        return Err(wrong(format!(
            "its {} bytes from byte {start} on are not inside the file's {}",
            column.compressed_size(),
            file.length
        )));
    }
    Ok(Box::new(Checked { pages: SerializedPageReader::new(Arc::clone(file), column, rows, None)? }))
}

fn wrong(message: String) -> ParquetError {
    ParquetError::General(message)
}

/// The file as the library reads it: headers one by one with [`ChunkReader::get_read`], each followed by its data.
pub(super) struct Chunk {
    file: File,
    length: u64,
}

impl Chunk {
    pub(super) fn new(file: File, length: u64) -> Chunk {
        Chunk { file, length }
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    fn at(&self, start: u64) -> Result<BufReader<File>> {
        let mut file = self.file.try_clone()?;
        file.seek(SeekFrom::Start(start))?;
        Ok(BufReader::with_capacity(256, file))
    }
}

impl Length for Chunk {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Chunk {
    type T = Chain<Cursor<Vec<u8>>, BufReader<File>>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        let mut file = self.at(start)?;
        let mut beginning = Vec::with_capacity(HEADER_START_BYTES as usize);
        (&mut file).take(HEADER_START_BYTES).read_to_end(&mut beginning)?;
        match uncompressed_size(&beginning) {
            Some(0..=PAGE_BYTES) => Ok(Cursor::new(beginning).chain(file)),
            Some(size) => Err(wrong(format!("the page at byte {start} is {size} bytes large, more than {PAGE_BYTES}"))),
            None => Err(wrong(format!("there is no page header at byte {start}"))),
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<bytes::Bytes> {
        if start.checked_add(length as u64).is_none_or(|end| end > self.length) || length as u64 > 2 * PAGE_BYTES {
            return Err(wrong(format!("a page of {length} bytes at byte {start} is too large or ends behind the file")));
        }
        let mut data = Vec::with_capacity(length);
        self.at(start)?.take(length as u64).read_to_end(&mut data)?;
        if data.len() < length {
            return Err(wrong(format!("the file ends within the page at byte {start}")));
        }
        Ok(data.into())
    }
}

/// Whether the first page of a column chunk has a checksum, which the library then checks.
pub(super) fn has_checksum(file: &Chunk, column: &ColumnChunkMetaData) -> bool {
    let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
    let mut header = Vec::with_capacity(HEADER_START_BYTES as usize);
    let read = u64::try_from(start).ok().and_then(|start| file.at(start).ok());
    let read = read.and_then(|from| from.take(HEADER_START_BYTES).read_to_end(&mut header).ok());
    // Behind the compressed size.
    let (_type, _size, rest) = read.and_then(|_| first_fields(&header)).unwrap_or_default();
    let rest = rest.strip_prefix(&[NEXT_INTEGER]).and_then(varint).map(|(_, rest)| rest);
    rest.is_some_and(|rest| rest.first() == Some(&NEXT_INTEGER))
}

/// The first byte of each of the first fields of a page's header: next field, 32-bit integer.
const NEXT_INTEGER: u8 = 0x15;

/// The second field of a page's header.
fn uncompressed_size(header: &[u8]) -> Option<u64> {
    let (_type, zigzag, _) = first_fields(header)?;
    // Odd is negative.
    (zigzag % 2 == 0).then_some(zigzag / 2)
}

/// The first two fields of a page's header, its type and its uncompressed size, and the rest (the compressed size, a checksum if
/// there is one): Thrift's compact protocol, in which every writer gives the fields in their order. An integer is a zigzag varint.
fn first_fields(header: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (kind, rest) = varint(header.strip_prefix(&[NEXT_INTEGER])?)?;
    let (size, rest) = varint(rest.strip_prefix(&[NEXT_INTEGER])?)?;
    Some((kind, size, rest))
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (at, &byte) in bytes.iter().enumerate().take(5) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Some((value, &bytes[at + 1..]));
        }
    }
    None
}

/// Pages whose counts and encodings have been checked.
struct Checked {
    pages: SerializedPageReader<Chunk>,
}

impl Checked {
    fn check(page: Page) -> Result<Page> {
        // Every value of a dictionary takes at least one byte there.
        if page.is_dictionary_page() && page.num_values() as usize > page.buffer().len() {
            return Err(wrong(format!("a dictionary of {} bytes cannot hold {} values", page.buffer().len(), page.num_values())));
        }
        match page.encoding() {
            // The encodings that we and the common dataframe libraries use for these columns. Rarer ones are rejected because
            // some allocate by numbers in their data.
            Encoding::PLAIN | Encoding::RLE | Encoding::RLE_DICTIONARY | Encoding::DELTA_BINARY_PACKED => Ok(page),
            // Old writers' name for RLE_DICTIONARY.
            Encoding::PLAIN_DICTIONARY => Ok(page),
            other => {
                Err(wrong(format!("a page is encoded as {other}; understood are PLAIN, RLE, RLE_DICTIONARY, DELTA_BINARY_PACKED")))
            }
        }
    }
}

impl Iterator for Checked {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Checked {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.pages.get_next_page()?.map(Checked::check).transpose()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn chunk(bytes: &[u8]) -> Chunk {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Chunk::new(file, bytes.len() as u64)
    }

    #[test]
    fn a_page_that_would_be_larger_than_the_bound_is_refused_before_anything_is_allocated() {
        // A data page of 2^31 - 1 bytes, as zigzag varints: type 0, size, compressed size 16.
        let huge = [0x15, 0x00, 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0x15, 0x20];
        let error = chunk(&huge).get_read(0).err().unwrap().to_string();
        assert!(error.contains("the page at byte 0 is 2147483647 bytes large"), "{error}");
        let sound = [0x15, 0x00, 0x15, 0x40, 0x15, 0x20];
        assert!(chunk(&sound).get_read(0).is_ok());
    }

    #[test]
    fn a_page_of_negative_size_or_without_a_header_is_refused() {
        for bytes in [&[0x15, 0x00, 0x15, 0x01][..], &[0x15], &[0x15, 0x00, 0x15, 0x80, 0x80, 0x80, 0x80, 0x80], b"text"] {
            let error = chunk(bytes).get_read(0).err().unwrap().to_string();
            assert!(error.contains("there is no page header at byte 0"), "{error}");
        }
    }

    #[test]
    fn a_page_behind_the_file_is_refused() {
        let chunk = chunk(&[0; 100]);
        assert_eq!(chunk.get_bytes(90, 10).unwrap().len(), 10);
        assert!(chunk.get_bytes(90, 11).is_err());
        assert!(chunk.get_bytes(u64::MAX, 2).is_err());
    }

    #[test]
    fn a_dictionary_that_claims_more_values_than_it_has_bytes_is_refused() {
        let page =
            |num_values| Page::DictionaryPage { buf: vec![0; 16].into(), num_values, encoding: Encoding::PLAIN, is_sorted: false };
        assert!(Checked::check(page(16)).is_ok());
        let error = Checked::check(page(1 << 31)).err().unwrap().to_string();
        assert!(error.contains("a dictionary of 16 bytes cannot hold 2147483648 values"), "{error}");
    }
}
