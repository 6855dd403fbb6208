//! A client that sends the protocol byte by byte, and an export in memory.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::thread;

mod fuzz;
mod tls;

use proptest::prelude::*;

use super::*;

const BYTES: u64 = 1 << 20;

#[derive(Default)]
struct Memory {
    data: Mutex<Vec<u8>>,
    is_read_only: bool,
}

struct OneExport(Arc<Memory>);

impl Entrance for OneExport {
    fn exports<'a>(&'a self, _: &Client) -> Box<dyn Exports + 'a> {
        Box::new(OneExport(self.0.clone()))
    }
}

impl Exports for OneExport {
    fn list(&self) -> Vec<(String, String)> {
        vec![("m".to_owned(), "memory".to_owned())]
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Export>, String> {
        if name == "m" || name.is_empty() { Ok(self.0.clone()) } else { Err("there is none".to_owned()) }
    }
}

impl Export for Memory {
    fn name(&self) -> String {
        "m".to_owned()
    }

    fn description(&self) -> String {
        "memory".to_owned()
    }

    fn bytes(&self) -> u64 {
        BYTES
    }

    fn block_bytes(&self) -> [u32; 3] {
        [512, 4096, 1 << 20]
    }

    fn cuts(&self) -> (u64, u64) {
        (64 << 10, 16 << 10)
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn is_rotational(&self) -> bool {
        true
    }

    fn put(&self, ask: Ask, replies: Arc<dyn Replies>, _: &mut Batch) {
        let mut data = self.data.lock().unwrap();
        data.resize(BYTES as usize, 0);
        let range = ask.offset as usize..(ask.offset + ask.bytes) as usize;
        let mut buffers = Buffers::new();
        match ask.kind {
            Kind::Read => {
                let mut at = range.start;
                for length in pieces(ask.offset, ask.bytes, 64 << 10, 16 << 10) {
                    let mut buffer = crate::store::Buffer::new(length as usize);
                    buffer.copy_from_slice(&data[at..at + length as usize]);
                    at += length as usize;
                    buffers.push(buffer);
                }
            }
            Kind::Write => {
                let written: Vec<u8> = ask.data.iter().flat_map(|buffer| buffer.to_vec()).collect();
                data[range].copy_from_slice(&written);
            }
            Kind::Trim | Kind::Zero => data[range].fill(0),
            Kind::Flush => {}
        }
        replies.done(ask.cookie, Ok(()), buffers);
    }

    fn status(&self, _: u64, bytes: u64) -> Vec<(u64, bool)> {
        vec![(512, false), (bytes - 512, true)]
    }
}

/// The client's end of a connection; the server ends when it is dropped.
struct Talker(UnixStream);

impl Talker {
    fn of(memory: Memory) -> Talker {
        let (client, server) = UnixStream::pair().unwrap();
        thread::spawn(move || connection::serve(server, &OneExport(Arc::new(memory)), Origin::Unix(None)));
        Talker(client)
    }

    fn read(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn hello(&mut self) {
        let hello = self.read(18);
        assert_eq!((&hello[..8], wire::number(&hello[8..16]), wire::number(&hello[16..])), (&b"NBDMAGIC"[..], wire::IHAVEOPT, 3));
        self.0.write_all(&3_u32.to_be_bytes()).unwrap();
    }

    /// Sends an option, and returns all replies to it.
    fn option(&mut self, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let mut bytes = wire::IHAVEOPT.to_be_bytes().to_vec();
        bytes.extend(option.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        self.0.write_all(&bytes).unwrap();
        let mut replies = Vec::new();
        loop {
            let head = self.read(20);
            assert_eq!((wire::number(&head[..8]), wire::number(&head[8..12])), (wire::OPTION_REPLY, u64::from(option)));
            let kind = wire::number(&head[12..16]) as u32;
            replies.push((kind, self.read(wire::number(&head[16..]) as usize)));
            if kind == wire::REP_ACK || kind >> 31 == 1 {
                return replies;
            }
        }
    }

    /// Performs the handshake.
    fn go(&mut self, format: wire::Format) {
        self.hello();
        match format {
            wire::Format::Simple => {}
            wire::Format::Structured => drop(self.option(wire::OPT_STRUCTURED_REPLY, &[])),
            wire::Format::Extended => drop(self.option(wire::OPT_EXTENDED_HEADERS, &[])),
        }
        if format != wire::Format::Simple {
            let replies = self.option(wire::OPT_SET_META_CONTEXT, &question("m", &["base:allocation", "other:x"]));
            assert_eq!((replies.len(), &replies[0].1[4..]), (2, &b"base:allocation"[..]));
        }
        let replies = self.option(wire::OPT_GO, &[&question_name("m")[..], &[0, 0]].concat());
        assert_eq!(replies.last().unwrap().0, wire::REP_ACK);
    }

    fn ask(&mut self, format: wire::Format, (command, flags): (u16, u16), offset: u64, bytes: u64, payload: &[u8]) {
        let is_extended = format == wire::Format::Extended;
        let mut head = if is_extended { wire::EXTENDED_REQUEST } else { wire::REQUEST }.to_be_bytes().to_vec();
        head.extend(flags.to_be_bytes());
        head.extend(command.to_be_bytes());
        head.extend(77_u64.to_be_bytes());
        head.extend(offset.to_be_bytes());
        if is_extended {
            head.extend(bytes.to_be_bytes());
        } else {
            head.extend((bytes as u32).to_be_bytes());
        }
        head.extend(payload);
        self.0.write_all(&head).unwrap();
    }

    /// Reads a reply: the error code, or the data.
    fn reply(&mut self, format: wire::Format, bytes: usize) -> Result<Vec<u8>, u64> {
        let magic = wire::number(&self.read(4)) as u32;
        if magic == wire::SIMPLE_REPLY {
            let head = self.read(12);
            assert_eq!(wire::number(&head[4..]), 77);
            let error = wire::number(&head[..4]);
            return if error == 0 { Ok(self.read(bytes)) } else { Err(error) };
        }
        let is_extended = format == wire::Format::Extended;
        assert_eq!(magic, if is_extended { wire::EXTENDED_REPLY } else { wire::STRUCTURED_REPLY });
        let head = self.read(if is_extended { 28 } else { 16 });
        let length = wire::number(&head[if is_extended { 20 } else { 12 }..]) as usize;
        let payload = self.read(length);
        match wire::number(&head[2..4]) as u16 {
            wire::CHUNK_ERROR => Err(wire::number(&payload[..4])),
            wire::CHUNK_OFFSET_DATA => Ok(payload[8..].to_vec()),
            _ => Ok(payload),
        }
    }
}

fn question_name(name: &str) -> Vec<u8> {
    [&(name.len() as u32).to_be_bytes()[..], name.as_bytes()].concat()
}

fn question(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = question_name(name);
    data.extend((queries.len() as u32).to_be_bytes());
    queries.iter().for_each(|query| data.extend(question_name(query)));
    data
}

const FORMATS: [wire::Format; 3] = [wire::Format::Simple, wire::Format::Structured, wire::Format::Extended];

#[test]
fn data_that_is_written_is_read_in_every_format_of_replies() {
    for format in FORMATS {
        let mut client = Talker::of(Memory::default());
        client.go(format);
        let data: Vec<u8> = (0..200 * 512_u32).map(|at| (at % 251) as u8).collect();
        let payload = if format == wire::Format::Extended { wire::CMD_FLAG_PAYLOAD_LEN } else { 0 };
        client.ask(format, (wire::CMD_WRITE, payload | wire::CMD_FLAG_FUA), 60 << 10, data.len() as u64, &data);
        assert!(client.reply(format, 0).is_ok());
        client.ask(format, (wire::CMD_READ, 0), 60 << 10, data.len() as u64, &[]);
        assert_eq!(client.reply(format, data.len()).unwrap(), data, "{format:?}");
        client.ask(format, (wire::CMD_WRITE_ZEROES, wire::CMD_FLAG_NO_HOLE), 60 << 10, 1024, &[]);
        assert!(client.reply(format, 0).is_ok());
        client.ask(format, (wire::CMD_READ, 0), 60 << 10, 2048, &[]);
        let read = client.reply(format, 2048).unwrap();
        assert!(read[..1024].iter().all(|byte| *byte == 0) && read[1024..] == data[1024..2048]);
        client.ask(format, (wire::CMD_FLUSH, 0), 0, 0, &[]);
        assert!(client.reply(format, 0).is_ok());
        client.ask(format, (wire::CMD_BLOCK_STATUS, 0), 0, 4096, &[]);
        let status = client.reply(format, 0);
        match format {
            wire::Format::Simple => assert_eq!(status, Err(u64::from(wire::EINVAL)), "was not agreed on"),
            wire::Format::Structured => assert_eq!(status.unwrap()[4..], [0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 14, 0, 0, 0, 0, 3]),
            wire::Format::Extended => assert_eq!(status.unwrap().len(), 8 + 2 * 16),
        }
    }
}

#[test]
fn what_is_wrong_is_refused_with_the_right_error_and_the_connection_goes_on() {
    let write = |offset, bytes: u64| ((wire::CMD_WRITE, 0), offset, bytes);
    for (is_read_only, (command, offset, bytes), error) in [
        (false, ((wire::CMD_READ, 0), 1, 512), wire::EINVAL),
        (false, ((wire::CMD_READ, 0), 0, 100), wire::EINVAL),
        (false, ((wire::CMD_READ, 0), 0, 0), wire::EINVAL),
        (false, ((wire::CMD_READ, 0), BYTES, 512), wire::EINVAL),
        (false, ((wire::CMD_READ, 0), u64::MAX - 511, 512), wire::EINVAL),
        (false, ((wire::CMD_READ, 0), 0, 2 << 20), wire::EOVERFLOW),
        (false, ((wire::CMD_READ, wire::CMD_FLAG_FUA), 0, 512), wire::EINVAL),
        (false, ((99, 0), 0, 512), wire::EINVAL),
        (false, ((wire::CMD_FLUSH, 0), 512, 512), wire::EINVAL),
        (false, write(BYTES, 512), wire::ENOSPC),
        (false, write(3, 512), wire::EINVAL),
        (true, write(0, 512), wire::EPERM),
        (true, ((wire::CMD_TRIM, 0), 0, 512), wire::EPERM),
        (true, ((wire::CMD_WRITE_ZEROES, 0), 0, 512), wire::EPERM),
    ] {
        for format in FORMATS {
            let mut client = Talker::of(Memory { is_read_only, ..Memory::default() });
            client.go(format);
            let payload = if command.0 == wire::CMD_WRITE { vec![1; bytes as usize] } else { Vec::new() };
            client.ask(format, command, offset, bytes, &payload);
            assert_eq!(client.reply(format, 0), Err(u64::from(error)), "{command:?} {offset} {bytes} {format:?}");
            client.ask(format, (wire::CMD_READ, 0), 0, 512, &[]);
            assert_eq!(client.reply(format, 512).unwrap(), [0; 512]);
        }
    }
}

#[test]
fn options_are_answered_and_unknown_ones_refused() {
    let mut client = Talker::of(Memory::default());
    client.hello();
    let replies = client.option(wire::OPT_LIST, &[]);
    assert_eq!((replies[0].0, &replies[0].1[4..]), (wire::REP_SERVER, &b"mmemory"[..]));
    let kind = |client: &mut Talker, option: u32, data: &[u8]| client.option(option, data).last().unwrap().0;
    assert_eq!(kind(&mut client, wire::OPT_LIST, b"x"), wire::REP_ERR_INVALID);
    assert_eq!(kind(&mut client, wire::OPT_STARTTLS, &[]), wire::REP_ERR_UNSUP);
    assert_eq!(kind(&mut client, 4711, &[1; 1000]), wire::REP_ERR_UNSUP);
    assert_eq!(kind(&mut client, 4711, &vec![1; 70_000]), wire::REP_ERR_TOO_BIG);
    assert_eq!(kind(&mut client, wire::OPT_GO, &[&question_name("none")[..], &[0, 0]].concat()), wire::REP_ERR_UNKNOWN);
    assert_eq!(kind(&mut client, wire::OPT_GO, &question_name("m")), wire::REP_ERR_INVALID);
    assert_eq!(kind(&mut client, wire::OPT_INFO, &[0, 0, 0, 9, b'm']), wire::REP_ERR_INVALID);
    let before_structured = question("m", &["base:allocation"]);
    assert_eq!(kind(&mut client, wire::OPT_SET_META_CONTEXT, &before_structured), wire::REP_ERR_INVALID);
    assert_eq!(client.option(wire::OPT_LIST_META_CONTEXT, &question("m", &[])).len(), 2);
    let replies = client.option(wire::OPT_INFO, &[&question_name("m")[..], &[0, 1, 0, 1]].concat());
    assert!(replies.iter().any(|(_, data)| data[..] == [0, 1, b'm']), "{replies:?}");
    let export = &replies[0].1;
    assert_eq!(
        (wire::number(&export[2..10]), wire::number(&export[10..]) as u16 & wire::FLAG_ROTATIONAL),
        (BYTES, wire::FLAG_ROTATIONAL)
    );
    assert_eq!(kind(&mut client, wire::OPT_ABORT, &[]), wire::REP_ACK);
    assert_eq!(client.0.read(&mut [0; 1]).unwrap(), 0, "hangs up");
}

#[test]
fn a_client_that_reads_no_replies_is_not_read_from_for_ever() {
    let mut client = Talker::of(Memory::default());
    client.go(wire::Format::Simple);
    client.0.set_write_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
    let mut request = wire::REQUEST.to_be_bytes().to_vec();
    request.extend([0; 4]);
    request.extend([0; 16]);
    request.extend((1_u32 << 20).to_be_bytes());
    // The server accepts reads of 64 MiB; after that, requests of 28 bytes fill the socket's buffer.
    let mut sent = 0;
    while client.0.write_all(&request).is_ok() {
        sent += 1;
        assert!(sent < 100_000, "the server takes all");
    }
    drop(client);
}

#[test]
fn a_client_that_reads_late_gets_every_reply_whole_and_in_order() {
    for format in FORMATS {
        let data: Vec<u8> = (0..BYTES).map(|at| (at / 512 % 251) as u8).collect();
        let mut client = Talker::of(Memory { data: Mutex::new(data.clone()), ..Memory::default() });
        client.go(format);
        // 12 MiB exceed a socket's buffer; the lengths are odd numbers of sectors, so that sends end within heads and data.
        let length = |number: usize| 512 * (1 + number * 37 % 255);
        for number in 0..200 {
            client.ask(format, (wire::CMD_READ, 0), 512 * (number as u64 % 1000), length(number) as u64, &[]);
        }
        for number in 0..200 {
            let at = 512 * (number % 1000);
            assert_eq!(client.reply(format, length(number)).unwrap(), data[at..at + length(number)], "{format:?} {number}");
        }
    }
}

proptest! {
    /// No input of a client makes the server panic or hang; its replies do not matter.
    #[test]
    fn hostile_bytes_end_in_an_error(options in any::<bool>(), bytes in proptest::collection::vec(any::<u8>(), 0..600), option in 0_u32..14) {
        let (mut client, server) = UnixStream::pair().unwrap();
        let serving = thread::spawn(move || connection::serve(server, &OneExport(Arc::new(Memory::default())), Origin::Unix(None)));
        client.write_all(&3_u32.to_be_bytes()).unwrap();
        if options {
            let mut head = wire::IHAVEOPT.to_be_bytes().to_vec();
            head.extend(option.to_be_bytes());
            head.extend((bytes.len() as u32).to_be_bytes());
            client.write_all(&head).unwrap();
        } else {
            let mut go = wire::IHAVEOPT.to_be_bytes().to_vec();
            go.extend(wire::OPT_GO.to_be_bytes());
            go.extend(7_u32.to_be_bytes());
            go.extend([0, 0, 0, 1, b'm', 0, 0]);
            go.extend(wire::REQUEST.to_be_bytes());
            client.write_all(&go).unwrap();
        }
        let _ = client.write_all(&bytes);
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest);
        prop_assert!(serving.join().is_ok(), "panicked");
    }
}
