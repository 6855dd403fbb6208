//! A connection after the handshake: requests in, replies out, each by a thread of its own.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use super::handshake::{ALLOCATION, Agreed, negotiate};
use super::stream::Stream;
use super::wire::{self, Format, Header};
use super::{Ask, Entrance, Export, Origin, error_code, pieces};
use crate::store::{Buffer, Kind, Replies};

/// A client that has more under way is not read from until replies have been sent.
const MOST_REQUESTS: usize = 256;
const MOST_BYTES: u64 = 64 << 20;
/// Replies up to this size are sent together.
const TOGETHER: usize = 256 << 10;
/// The most extents of a reply about allocation.
const MOST_EXTENTS: usize = 4096;

/// Serves a client until it goes.
///
/// # Errors
/// Of the connection, or the client does not speak the protocol.
pub fn serve<S: Stream>(stream: S, entrance: &dyn Entrance, origin: Origin) -> io::Result<()> {
    let Some((stream, agreed)) = negotiate(stream, entrance, origin)? else { return Ok(()) };
    let writer = stream.twin()?;
    let mut reader = BufReader::with_capacity(64 << 10, stream);
    let export = agreed.export.clone();
    if !export.begins() {
        return Err(io::Error::other("the export has gone"));
    }
    let connection = Arc::new(Connection::new(agreed.format));
    let sender = {
        let connection = connection.clone();
        thread::Builder::new().name("nbd-writer".to_owned()).spawn(move || connection.send(writer))
    };
    let sender = match sender {
        Ok(sender) => sender,
        Err(error) => {
            export.ends();
            return Err(error);
        }
    };
    let result = connection.receive(&mut reader, &agreed);
    connection.end();
    let _ = sender.join();
    export.ends();
    result
}

/// A request under way.
struct Asked {
    header: Header,
    /// The data that it holds here until it is answered.
    bytes: u64,
}

/// A reply that is to be sent: its head, and the data of a read.
struct Reply {
    head: Vec<u8>,
    data: Vec<Buffer>,
    /// What it frees.
    bytes: u64,
}

#[derive(Default)]
struct State {
    /// By a number of ours: the cookies of a client may repeat.
    asked: BTreeMap<u64, Asked>,
    next: u64,
    replies: Vec<Reply>,
    /// Under way or not yet sent.
    requests: usize,
    bytes: u64,
    /// Nothing more is read.
    is_ended: bool,
    /// Nothing more can be sent.
    is_broken: bool,
    /// The writer, or the reader, waits. Only then is it woken: a wake-up is a system call also if nothing waits for it.
    writer_waits: bool,
    reader_waits: bool,
}

/// The connection's two threads, and the store's, meet here.
struct Connection {
    format: Format,
    state: Mutex<State>,
    /// A reply is to be sent, or the end has come.
    to_send: Condvar,
    /// There is room for another request.
    has_room: Condvar,
}

impl Connection {
    fn new(format: Format) -> Connection {
        Connection { format, state: Mutex::default(), to_send: Condvar::new(), has_room: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn receive(self: &Arc<Self>, reader: &mut impl Read, agreed: &Agreed) -> io::Result<()> {
        let export = &*agreed.export;
        while let Some(header) = wire::read_request(reader, self.format == Format::Extended)? {
            if header.command == wire::CMD_DISC {
                return Ok(());
            }
            // Before its payload is read: a client that floods waits in its own socket.
            if !self.wait_for_room(export) {
                return Ok(());
            }
            self.request(reader, header, agreed, export)?;
        }
        Ok(())
    }

    /// Checks a request, reads its payload and passes it on.
    fn request(self: &Arc<Self>, reader: &mut impl Read, header: Header, agreed: &Agreed, export: &dyn Export) -> io::Result<()> {
        let [least, _, most] = export.block_bytes();
        let is_write = header.command == wire::CMD_WRITE;
        let has_payload = is_write || header.flags & wire::CMD_FLAG_PAYLOAD_LEN != 0;
        if has_payload && header.bytes > u64::from(wire::MAX_PAYLOAD) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a payload of more than 32 MiB"));
        }
        let fault = fault(&header, export, least, most, self.format);
        if let Some(error) = fault {
            if has_payload {
                io::copy(&mut reader.take(header.bytes), &mut io::sink())?;
            }
            self.take_on();
            self.reply(&header, 0, Err(error), Vec::new());
            return Ok(());
        }
        let kind = match header.command {
            wire::CMD_READ => Kind::Read,
            wire::CMD_WRITE => Kind::Write,
            wire::CMD_FLUSH => Kind::Flush,
            wire::CMD_TRIM => Kind::Trim,
            wire::CMD_WRITE_ZEROES if header.flags & wire::CMD_FLAG_NO_HOLE != 0 => Kind::Zero,
            wire::CMD_WRITE_ZEROES => Kind::Trim,
            wire::CMD_BLOCK_STATUS => {
                self.take_on();
                let answer = if agreed.tells_allocation { Ok(()) } else { Err(wire::EINVAL) };
                self.block_status(&header, answer, export);
                return Ok(());
            }
            // The server keeps nothing in advance: that it was asked is all there is to do.
            _ => {
                self.take_on();
                self.reply(&header, 0, Ok(()), Vec::new());
                return Ok(());
            }
        };
        let mut data = Vec::new();
        if is_write {
            let (boundary, longest) = export.cuts();
            for length in pieces(header.offset, header.bytes, boundary, longest) {
                let mut buffer = Buffer::new(length as usize);
                reader.read_exact(&mut buffer)?;
                data.push(buffer);
            }
        }
        let bytes = if matches!(kind, Kind::Read | Kind::Write) { header.bytes } else { 0 };
        let number = {
            let mut state = self.lock();
            state.requests += 1;
            state.bytes += bytes;
            state.next += 1;
            let number = state.next;
            state.asked.insert(number, Asked { header, bytes });
            number
        };
        let is_durable = header.flags & wire::CMD_FLAG_FUA != 0;
        let (offset, bytes) = if kind == Kind::Flush { (0, 0) } else { (header.offset, header.bytes) };
        export.submit(Ask { cookie: number, kind, offset, bytes, is_durable, data }, self.clone());
        Ok(())
    }

    fn block_status(&self, header: &Header, answer: Result<(), u32>, export: &dyn Export) {
        let mut head = Vec::new();
        match answer {
            Err(error) => self.format.failed(header, error, &mut head),
            Ok(()) => {
                // Without extended headers, lengths have 32 bits.
                let bytes =
                    if self.format == Format::Extended { header.bytes } else { header.bytes.min(u64::from(u32::MAX - 511)) };
                let mut extents = export.status(header.offset, bytes);
                extents.truncate(if header.flags & wire::CMD_FLAG_REQ_ONE != 0 { 1 } else { MOST_EXTENTS });
                self.format.status(header, ALLOCATION, &extents, &mut head);
            }
        }
        self.push(Reply { head, data: Vec::new(), bytes: 0 });
    }

    /// Waits until there is room; false if the connection is broken.
    fn wait_for_room(&self, export: &dyn Export) -> bool {
        let mut state = self.lock();
        let mut since = None;
        while !state.is_broken && (state.requests >= MOST_REQUESTS || state.bytes >= MOST_BYTES) {
            since.get_or_insert_with(Instant::now);
            state.reader_waits = true;
            state = self.has_room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(since) = since {
            export.held_back(since.elapsed());
        }
        !state.is_broken
    }

    /// A request that is answered at once.
    fn take_on(&self) {
        self.lock().requests += 1;
    }

    fn reply(&self, header: &Header, bytes: u64, result: Result<(), u32>, data: Vec<Buffer>) {
        let mut head = Vec::with_capacity(48);
        let is_read = header.command == wire::CMD_READ;
        match result {
            Ok(()) if is_read => self.format.data(header, &mut head),
            Ok(()) => self.format.done(header, &mut head),
            Err(error) => self.format.failed(header, error, &mut head),
        }
        let data = if result.is_ok() && is_read { data } else { Vec::new() };
        self.push(Reply { head, data, bytes });
    }

    fn push(&self, reply: Reply) {
        self.wake_writer(|state| state.replies.push(reply));
    }

    /// Changes the state, and wakes the writer if it waits.
    fn wake_writer(&self, change: impl FnOnce(&mut State)) {
        let waits = {
            let mut state = self.lock();
            change(&mut state);
            std::mem::take(&mut state.writer_waits)
        };
        if waits {
            self.to_send.notify_one();
        }
    }

    /// Nothing more is read: what is under way is answered still.
    fn end(&self) {
        self.wake_writer(|state| state.is_ended = true);
    }

    /// Sends replies until the end.
    fn send<S: Stream>(&self, mut stream: S) {
        let (mut replies, mut together) = (Vec::new(), Vec::with_capacity(TOGETHER));
        loop {
            {
                let mut state = self.lock();
                while state.replies.is_empty() && !(state.is_ended && state.requests == 0) {
                    state.writer_waits = true;
                    state = self.to_send.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                if state.replies.is_empty() {
                    return;
                }
                std::mem::swap(&mut state.replies, &mut replies);
            }
            let (count, bytes) = (replies.len(), replies.iter().map(|reply: &Reply| reply.bytes).sum::<u64>());
            let result = self.send_all(&mut stream, &mut replies, &mut together);
            let mut state = self.lock();
            state.requests -= count;
            state.bytes -= bytes;
            if result.is_err() && !state.is_broken {
                state.is_broken = true;
                // The reader may wait for a request that never comes.
                stream.hang_up();
            }
            let reader_waits = std::mem::take(&mut state.reader_waits);
            drop(state);
            if reader_waits {
                self.has_room.notify_one();
            }
        }
    }

    fn send_all(&self, stream: &mut impl Write, replies: &mut Vec<Reply>, together: &mut Vec<u8>) -> io::Result<()> {
        if self.lock().is_broken {
            replies.clear();
            return Ok(());
        }
        together.clear();
        for reply in replies.drain(..) {
            together.extend(&reply.head);
            for buffer in reply.data {
                if together.len() + buffer.len() > TOGETHER {
                    stream.write_all(together)?;
                    together.clear();
                }
                if buffer.len() > TOGETHER {
                    stream.write_all(&buffer)?;
                } else {
                    together.extend(&*buffer);
                }
            }
        }
        stream.write_all(together)?;
        stream.flush()
    }
}

impl Replies for Connection {
    fn done(&self, cookie: u64, result: io::Result<()>, buffers: Vec<Buffer>) {
        let Some(Asked { header, bytes }) = self.lock().asked.remove(&cookie) else { return };
        self.reply(&header, bytes, result.map_err(|error| error_code(&error)), buffers);
    }
}

/// What is wrong with a request, as an error of the protocol.
fn fault(header: &Header, export: &dyn Export, least: u32, most: u32, format: Format) -> Option<u32> {
    let is_known = |flags: u16| header.flags & !flags == 0;
    let payload = if format == Format::Extended { wire::CMD_FLAG_PAYLOAD_LEN } else { 0 };
    let (changes, known) = match header.command {
        wire::CMD_READ => {
            (false, is_known(wire::CMD_FLAG_DF) && (header.flags & wire::CMD_FLAG_DF == 0 || format != Format::Simple))
        }
        wire::CMD_WRITE => (true, is_known(wire::CMD_FLAG_FUA | payload)),
        wire::CMD_FLUSH => (false, is_known(wire::CMD_FLAG_FUA)),
        wire::CMD_TRIM => (true, is_known(wire::CMD_FLAG_FUA)),
        wire::CMD_CACHE => (false, is_known(0)),
        wire::CMD_WRITE_ZEROES => (true, is_known(wire::CMD_FLAG_FUA | wire::CMD_FLAG_NO_HOLE)),
        wire::CMD_BLOCK_STATUS => (false, is_known(wire::CMD_FLAG_REQ_ONE) && format != Format::Simple),
        _ => (false, false),
    };
    if !known {
        return Some(wire::EINVAL);
    }
    if changes && export.is_read_only() {
        return Some(wire::EPERM);
    }
    if header.command == wire::CMD_FLUSH {
        return (header.offset != 0 || header.bytes != 0).then_some(wire::EINVAL);
    }
    let moves_data = matches!(header.command, wire::CMD_READ | wire::CMD_WRITE);
    if moves_data && header.bytes > u64::from(most) {
        return Some(if header.command == wire::CMD_READ { wire::EOVERFLOW } else { wire::EINVAL });
    }
    let is_within = header.offset.checked_add(header.bytes).is_some_and(|end| end <= export.bytes());
    if !is_within {
        let grows = matches!(header.command, wire::CMD_WRITE | wire::CMD_WRITE_ZEROES);
        return Some(if grows { wire::ENOSPC } else { wire::EINVAL });
    }
    let least = u64::from(least);
    (header.bytes == 0 || !header.offset.is_multiple_of(least) || !header.bytes.is_multiple_of(least)).then_some(wire::EINVAL)
}
