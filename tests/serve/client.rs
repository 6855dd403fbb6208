//! A client that records its writes, and detects acknowledged writes that are missing after a crash.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Block size in bytes, the smallest write of the client.
pub const BLOCK: u64 = 4096;

const FUA: u16 = 1;

/// Seeded random generator.
pub struct Draw(pub u64);

impl Draw {
    /// Random number below `most`.
    pub fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % most.max(1)
    }
}

/// A connection with at most one outstanding request.
pub struct Client(UnixStream);

impl Client {
    pub fn open(socket: &Path, volume: &str) -> io::Result<Client> {
        let mut stream = UnixStream::connect(socket)?;
        stream.read_exact(&mut [0; 18])?;
        let mut hello = vec![0, 0, 0, 3];
        hello.extend(b"IHAVEOPT\0\0\0\x01");
        hello.extend((volume.len() as u32).to_be_bytes());
        hello.extend(volume.as_bytes());
        stream.write_all(&hello)?;
        stream.read_exact(&mut [0; 10])?;
        Ok(Client(stream))
    }

    pub fn send(&mut self, command: u16, flags: u16, offset: u64, bytes: u32, payload: &[u8]) -> io::Result<()> {
        let mut request = Vec::with_capacity(28 + payload.len());
        request.extend(0x2560_9513_u32.to_be_bytes());
        request.extend(flags.to_be_bytes());
        request.extend(command.to_be_bytes());
        request.extend([7; 8]);
        request.extend(offset.to_be_bytes());
        request.extend(bytes.to_be_bytes());
        request.extend(payload);
        self.0.write_all(&request)
    }

    /// Receives a reply: its error (0 for success), and the data of a read.
    pub fn receive(&mut self, read: u32) -> io::Result<(u32, Vec<u8>)> {
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply)?;
        assert_eq!(reply[..4], [0x67, 0x44, 0x66, 0x98]);
        let error = u32::from_be_bytes([reply[4], reply[5], reply[6], reply[7]]);
        let mut data = vec![0; if error == 0 { read as usize } else { 0 }];
        self.0.read_exact(&mut data)?;
        Ok((error, data))
    }

    fn ask(&mut self, command: u16, flags: u16, offset: u64, bytes: u32, payload: &[u8]) -> io::Result<(u32, Vec<u8>)> {
        self.send(command, flags, offset, bytes, payload)?;
        self.receive(if command == 0 { bytes } else { 0 })
    }

    pub fn read(&mut self, offset: u64, bytes: u32) -> io::Result<(u32, Vec<u8>)> {
        self.ask(0, 0, offset, bytes, &[])
    }

    /// Writes; returns the error of the reply, 0 for success.
    pub fn write(&mut self, offset: u64, data: &[u8], is_durable: bool) -> io::Result<u32> {
        Ok(self.ask(1, u16::from(is_durable) * FUA, offset, data.len() as u32, data)?.0)
    }

    pub fn flush(&mut self) -> io::Result<u32> {
        Ok(self.ask(3, 0, 0, 0, &[])?.0)
    }

    /// Trims, or writes zeros.
    fn zero(&mut self, trims: bool, offset: u64, bytes: u32, is_durable: bool) -> io::Result<u32> {
        Ok(self.ask(if trims { 4 } else { 6 }, u16::from(is_durable) * FUA, offset, bytes, &[])?.0)
    }

    pub fn timeout(&self, timeout: std::time::Duration) {
        self.0.set_read_timeout(Some(timeout)).unwrap();
    }
}

/// Converts an error of a reply to an I/O error, which ends the work like a lost connection.
fn fine(error: u32) -> io::Result<()> {
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error as i32)) }
}

/// Versions that a block may hold: those sent, in order, since the last one known to be durable. Version 0 is zeros.
struct Block {
    sent: Vec<u64>,
    durable: usize,
    /// Index in `sent` of the last acknowledged version, which a read must return.
    acknowledged: usize,
}

/// One writer's record of its part of a volume.
pub struct Ledger {
    tag: u64,
    /// Range of the writer's own blocks.
    blocks: std::ops::Range<u64>,
    known: BTreeMap<u64, Block>,
    next: u64,
    pub checked: u64,
    /// Number of acknowledged writes.
    pub writes: u64,
}

impl Ledger {
    /// A record for blocks that have no other writer. `tag` identifies volume and writer.
    pub fn new(tag: u64, blocks: std::ops::Range<u64>) -> Ledger {
        Ledger { tag, blocks, known: BTreeMap::new(), next: 1, checked: 0, writes: 0 }
    }

    fn fill(&self, block: u64, version: u64, into: &mut Vec<u8>) {
        for _ in 0..BLOCK / 16 {
            into.extend((self.tag << 32 | block).to_be_bytes());
            into.extend(version.to_be_bytes());
        }
    }

    fn sent(&mut self, block: u64, version: u64) {
        let known = self.known.entry(block).or_insert_with(|| Block { sent: vec![0], durable: 0, acknowledged: 0 });
        known.sent.push(version);
    }

    /// Writes, zeroes, trims, flushes and reads until stopped or disconnected.
    pub fn work(&mut self, client: &mut Client, seed: u64, stop: &AtomicBool) -> io::Result<()> {
        let mut draw = Draw(seed);
        let mut unflushed: BTreeMap<u64, usize> = BTreeMap::new();
        while !stop.load(Ordering::Relaxed) {
            let length = if draw.below(4) == 0 { 1 + draw.below(16) } else { 1 };
            let first = self.blocks.start + draw.below(self.blocks.end - self.blocks.start);
            let run = first..(first + length).min(self.blocks.end);
            let (offset, bytes) = (first * BLOCK, (run.end - run.start) * BLOCK);
            let what = draw.below(10);
            if what == 0 {
                fine(client.flush()?)?;
                for (block, place) in std::mem::take(&mut unflushed) {
                    let known = self.known.get_mut(&block).unwrap();
                    known.durable = known.durable.max(place);
                }
                continue;
            }
            if what == 1 {
                let (error, data) = client.read(offset, bytes as u32)?;
                fine(error)?;
                for (block, data) in run.zip(data.chunks(BLOCK as usize)) {
                    let wanted = self.known.get(&block).map_or(0, |known| known.sent[known.acknowledged]);
                    self.expect(block, data, &[wanted], "was acknowledged last");
                }
                continue;
            }
            let is_durable = draw.below(3) == 0;
            let version = if what < 4 { 0 } else { self.next };
            self.next += 1;
            let mut data = Vec::new();
            for block in run.clone() {
                self.fill(block, version, &mut data);
                self.sent(block, version);
            }
            let error = match what {
                2 | 3 => client.zero(what == 2, offset, bytes as u32, is_durable)?,
                _ => client.write(offset, &data, is_durable)?,
            };
            fine(error)?;
            self.writes += 1;
            for block in run {
                let known = self.known.get_mut(&block).unwrap();
                known.acknowledged = known.sent.len() - 1;
                if is_durable {
                    known.durable = known.acknowledged;
                    unflushed.remove(&block);
                } else {
                    unflushed.insert(block, known.acknowledged);
                }
            }
        }
        Ok(())
    }

    fn expect(&self, block: u64, data: &[u8], versions: &[u64], why: &str) {
        // An outstanding write may be torn at sector boundaries.
        for sector in data.chunks(512) {
            let found = u64::from_be_bytes(sector[8..16].try_into().unwrap());
            let mut whole = Vec::new();
            self.fill(block, found, &mut whole);
            let is_whole = if found == 0 { sector.iter().all(|byte| *byte == 0) } else { sector == &whole[..512] };
            assert!(is_whole, "writer {:x}, block {block}: something else is there: {:x?}", self.tag, &sector[..32]);
            let has = versions.contains(&found);
            assert!(has, "writer {:x}, block {block}: version {found} is there, of {versions:?} that {why}", self.tag);
        }
    }

    /// Reads all blocks back and records their versions. Each must be the last durable version or a newer one.
    pub fn check(&mut self, client: &mut Client) -> io::Result<()> {
        for block in self.known.keys().copied().collect::<Vec<_>>() {
            let known = &self.known[&block];
            // Blocks unchanged since the last check are read only occasionally.
            if known.sent.len() == 1 && block % 16 != self.next % 16 {
                continue;
            }
            let (error, data) = client.read(block * BLOCK, BLOCK as u32)?;
            assert_eq!(error, 0);
            self.expect(block, &data, &known.sent[known.durable..], "are durable, or newer");
            self.checked += 1;
            let is_torn = data.chunks(512).any(|sector| sector != &data[..512]);
            let found = u64::from_be_bytes(data[8..16].try_into().unwrap());
            if is_torn {
                // Overwrite a torn block, so that its content is known again.
                let (mut data, version) = (Vec::new(), self.next);
                self.next += 1;
                self.fill(block, version, &mut data);
                assert_eq!(client.write(block * BLOCK, &data, true)?, 0);
                self.known.insert(block, Block { sent: vec![version], durable: 0, acknowledged: 0 });
            } else {
                self.known.insert(block, Block { sent: vec![found], durable: 0, acknowledged: 0 });
            }
        }
        Ok(())
    }
}
