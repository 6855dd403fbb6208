//! A connection after the handshake: requests in, replies out.
//!
//! A thread reads requests, as many as the socket has, and puts them to the export together. Replies are sent by the thread that has them,
//! in one system call for all that are ready, as far as the socket takes them without a wait; the rest is left to a second thread, which is
//! also the one that sends over streams that cannot say whether they would wait.

use std::io::{self, BufReader, IoSlice, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use slab::Slab;
use smallvec::SmallVec;

use super::handshake::{ALLOCATION, Agreed, negotiate};
use super::stream::Stream;
use super::wire::{self, Format, Header};
use super::{Ask, Entrance, Export, Origin, error_code, pieces};
use crate::store::{Batch, Buffer, Buffers, Kind, Replies};

/// A client that has more under way is not read from until replies have been sent.
const MOST_REQUESTS: usize = 256;
const MOST_BYTES: u64 = 64 << 20;
/// Requests that are put together, and their data: more save little, let the client wait for the first of them, and fall out of a
/// processor's cache between the disk and the socket.
const MOST_TOGETHER: usize = 16;
const BYTES_TOGETHER: u64 = 64 << 10;
/// What is read from the socket at once.
const INPUT: usize = 64 << 10;
/// A payload of which more than this is still in the socket is read past the input buffer.
const PAST_BUFFER: usize = 4096;
/// Parts of a system call that sends: heads and data of this many replies, about.
const MOST_PARTS: usize = 64;
/// A thread that sends replies of others after its own leaves them to the writer after this many times.
const MOST_ROUNDS: usize = 8;
/// The most extents of a reply about allocation.
const MOST_EXTENTS: usize = 4096;

/// Serves a client until it goes.
///
/// # Errors
/// Of the connection, or the client does not speak the protocol.
pub fn serve<S: Stream>(stream: S, entrance: &dyn Entrance, origin: Origin) -> io::Result<()> {
    let Some((stream, agreed)) = negotiate(stream, entrance, origin)? else { return Ok(()) };
    let writer = stream.twin()?;
    let mut reader = BufReader::with_capacity(INPUT, stream);
    let export = agreed.export.clone();
    let connection = Arc::new(Connection::new(agreed.format, writer.twin()?));
    if !export.begins() {
        return Err(io::Error::other("the export has gone"));
    }
    let sender = {
        let connection = connection.clone();
        thread::Builder::new().name("nbd-writer".to_owned()).spawn(move || connection.send_rest(writer))
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

/// A reply that is to be sent.
struct Reply {
    /// How long its head is.
    head: usize,
    /// The data of a read.
    data: Buffers,
}

/// Replies that are sent together.
#[derive(Default)]
struct Outgoing {
    /// Their heads, one after the other.
    heads: Vec<u8>,
    replies: Vec<Reply>,
    /// What they free.
    bytes: u64,
    /// How much of them is sent: whole replies, and bytes of the next one; and the heads of the whole ones.
    sent: usize,
    sent_bytes: usize,
    sent_heads: usize,
}

impl Outgoing {
    fn clear(&mut self) {
        self.heads.clear();
        self.replies.clear();
        (self.bytes, self.sent, self.sent_bytes, self.sent_heads) = (0, 0, 0, 0);
    }

    /// What is to be sent next.
    fn parts(&self) -> SmallVec<[IoSlice<'_>; MOST_PARTS]> {
        let (mut parts, mut skipped, mut head) = (SmallVec::new(), self.sent_bytes, self.sent_heads);
        for reply in &self.replies[self.sent..] {
            let bytes = std::iter::once(&self.heads[head..head + reply.head]).chain(reply.data.iter().map(|buffer| &buffer[..]));
            for part in bytes {
                let from = skipped.min(part.len());
                skipped -= from;
                if from < part.len() {
                    parts.push(IoSlice::new(&part[from..]));
                }
            }
            head += reply.head;
            if parts.len() >= MOST_PARTS - 1 {
                break;
            }
        }
        parts
    }

    /// This number of bytes more were sent.
    fn advance(&mut self, bytes: usize) {
        self.sent_bytes += bytes;
        while let Some(reply) = self.replies.get(self.sent) {
            let length = reply.head + reply.data.iter().map(|buffer| buffer.len()).sum::<usize>();
            if self.sent_bytes < length {
                return;
            }
            (self.sent, self.sent_bytes, self.sent_heads) = (self.sent + 1, self.sent_bytes - length, self.sent_heads + reply.head);
        }
    }

    fn is_sent(&self) -> bool {
        self.sent == self.replies.len()
    }
}

#[derive(Default)]
struct State {
    /// By a number of ours: the cookies of a client may repeat.
    asked: Slab<Asked>,
    /// Not yet being sent.
    replies: Outgoing,
    /// Empty; kept for the next ones.
    spare: Outgoing,
    /// A thread sends, and will look here again after it.
    is_sending: bool,
    /// What the socket did not take at once; for the writer, which then is the one that sends.
    rest: Option<Outgoing>,
    /// Under way or not yet sent.
    requests: usize,
    bytes: u64,
    /// Nothing more is read.
    is_ended: bool,
    /// Nothing more can be sent.
    is_broken: bool,
    /// The reader waits for room. Only then is it woken: a wake-up is a system call also if nothing waits for it.
    reader_waits: bool,
}

impl State {
    /// Takes what is to be sent; `None` if there is nothing, and then no thread sends.
    fn take(&mut self) -> Option<Outgoing> {
        self.is_sending = !self.replies.replies.is_empty();
        let spare = std::mem::take(&mut self.spare);
        self.is_sending.then(|| std::mem::replace(&mut self.replies, spare))
    }
}

/// The threads that read, answer and send meet here.
struct Connection<S> {
    format: Format,
    stream: S,
    state: Mutex<State>,
    /// The writer has something to do, or the end has come.
    to_send: Condvar,
    /// There is room for another request.
    has_room: Condvar,
}

impl<S: Stream> Connection<S> {
    fn new(format: Format, stream: S) -> Connection<S> {
        Connection { format, stream, state: Mutex::default(), to_send: Condvar::new(), has_room: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn receive(self: &Arc<Self>, reader: &mut BufReader<S>, agreed: &Agreed) -> io::Result<()> {
        let (mut batch, mut together, mut bytes) = (Batch::default(), 0, 0);
        let is_extended = self.format == Format::Extended;
        loop {
            // Before a wait for more.
            let is_enough = together >= MOST_TOGETHER || bytes >= BYTES_TOGETHER;
            if is_enough || reader.buffer().len() < wire::request_bytes(is_extended) {
                batch.run();
                self.flush();
                (together, bytes) = (0, 0);
            }
            let Some(header) = wire::read_request(reader, is_extended)? else { return Ok(()) };
            if header.command == wire::CMD_DISC {
                return Ok(());
            }
            // Before its payload is read: a client that floods waits in its own socket.
            if !self.wait_for_room(&mut batch, &*agreed.export) {
                return Ok(());
            }
            self.request(reader, header, agreed, &mut batch)?;
            (together, bytes) = (together + 1, bytes.saturating_add(header.bytes));
        }
    }

    /// Checks a request, reads its payload and passes it on.
    fn request(self: &Arc<Self>, reader: &mut BufReader<S>, header: Header, agreed: &Agreed, batch: &mut Batch) -> io::Result<()> {
        let export = &*agreed.export;
        let [least, _, most] = export.block_bytes();
        let is_write = header.command == wire::CMD_WRITE;
        let has_payload = is_write || header.flags & wire::CMD_FLAG_PAYLOAD_LEN != 0;
        if has_payload && header.bytes > u64::from(wire::MAX_PAYLOAD) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a payload of more than 32 MiB"));
        }
        if has_payload && (reader.buffer().len() as u64) < header.bytes {
            // What came before does not wait for the payload.
            batch.run();
            self.flush();
        }
        let fault = fault(&header, export, least, most, self.format);
        if let Some(error) = fault {
            if has_payload {
                io::copy(&mut reader.take(header.bytes), &mut io::sink())?;
            }
            self.answer(&header, Err(error));
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
                let answer = if agreed.tells_allocation { Ok(()) } else { Err(wire::EINVAL) };
                self.block_status(&header, answer, export);
                return Ok(());
            }
            // The server keeps nothing in advance: that it was asked is all there is to do.
            _ => {
                self.answer(&header, Ok(()));
                return Ok(());
            }
        };
        let mut data = Buffers::new();
        if is_write {
            let (boundary, longest) = export.cuts();
            for length in pieces(header.offset, header.bytes, boundary, longest) {
                let mut buffer = Buffer::dirty(length as usize);
                read_payload(reader, &mut buffer)?;
                data.push(buffer);
            }
        }
        let bytes = if matches!(kind, Kind::Read | Kind::Write) { header.bytes } else { 0 };
        let number = {
            let mut state = self.lock();
            state.requests += 1;
            state.bytes += bytes;
            state.asked.insert(Asked { header, bytes }) as u64
        };
        let is_durable = header.flags & wire::CMD_FLAG_FUA != 0;
        let (offset, bytes) = if kind == Kind::Flush { (0, 0) } else { (header.offset, header.bytes) };
        export.put(Ask { cookie: number, kind, offset, bytes, is_durable, data }, self.clone(), batch);
        Ok(())
    }

    fn block_status(&self, header: &Header, answer: Result<(), u32>, export: &dyn Export) {
        let extents = answer.map(|()| {
            // Without extended headers, lengths have 32 bits.
            let bytes = if self.format == Format::Extended { header.bytes } else { header.bytes.min(u64::from(u32::MAX - 511)) };
            let mut extents = export.status(header.offset, bytes);
            extents.truncate(if header.flags & wire::CMD_FLAG_REQ_ONE != 0 { 1 } else { MOST_EXTENTS });
            extents
        });
        let mut state = self.lock();
        state.requests += 1;
        state.reply(0, Buffers::new(), |head| match extents {
            Err(error) => self.format.failed(header, error, head),
            Ok(extents) => self.format.status(header, ALLOCATION, &extents, head),
        });
    }

    /// Waits until there is room; false if the connection is broken.
    fn wait_for_room(&self, batch: &mut Batch, export: &dyn Export) -> bool {
        let is_full = |state: &State| !state.is_broken && (state.requests >= MOST_REQUESTS || state.bytes >= MOST_BYTES);
        if is_full(&self.lock()) {
            batch.run();
            self.flush();
        }
        let (mut state, mut since) = (self.lock(), None);
        while is_full(&state) {
            since.get_or_insert_with(Instant::now);
            state.reader_waits = true;
            state = self.has_room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.reader_waits = false;
        if let Some(since) = since {
            export.held_back(since.elapsed());
        }
        !state.is_broken
    }

    /// Answers a request that is not put to the export.
    fn answer(&self, header: &Header, result: Result<(), u32>) {
        let mut state = self.lock();
        state.requests += 1;
        state.reply(0, Buffers::new(), |head| match result {
            Ok(()) => self.format.done(header, head),
            Err(error) => self.format.failed(header, error, head),
        });
    }

    /// Nothing more is read: what is under way is answered still.
    fn end(&self) {
        self.lock().is_ended = true;
        self.flush();
        self.to_send.notify_all();
    }

    /// These were sent, or cannot be.
    fn sent(&self, state: &mut State, mut outgoing: Outgoing) {
        state.requests -= outgoing.replies.len();
        state.bytes -= outgoing.bytes;
        outgoing.clear();
        state.spare = outgoing;
        if std::mem::take(&mut state.reader_waits) {
            self.has_room.notify_one();
        }
        if state.is_ended && state.requests == 0 {
            self.to_send.notify_all();
        }
    }

    fn broken(&self, state: &mut State) {
        if !state.is_broken {
            state.is_broken = true;
            // The reader may wait for a request that never comes.
            self.stream.hang_up();
        }
    }

    /// The writer: sends what the socket did not take at once.
    fn send_rest(&self, mut writer: S) {
        let mut state = self.lock();
        loop {
            while state.rest.is_none() {
                if state.is_ended && state.requests == 0 {
                    return;
                }
                state = self.to_send.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let mut next = state.rest.take();
            while let Some(mut outgoing) = next {
                let is_broken = state.is_broken;
                drop(state);
                let mut result = Ok(());
                while !is_broken && !outgoing.is_sent() && result.is_ok() {
                    let written = writer.write_vectored(&outgoing.parts());
                    result = match written {
                        Ok(0) => Err(io::ErrorKind::WriteZero.into()),
                        Ok(bytes) => {
                            outgoing.advance(bytes);
                            Ok(())
                        }
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
                        Err(error) => Err(error),
                    };
                }
                let result = result.and_then(|()| writer.flush());
                state = self.lock();
                if result.is_err() {
                    self.broken(&mut state);
                }
                self.sent(&mut state, outgoing);
                next = state.take();
            }
        }
    }
}

impl State {
    /// A reply is to be sent: `head` is written, and the data follows.
    fn reply(&mut self, bytes: u64, data: Buffers, head: impl FnOnce(&mut Vec<u8>)) {
        let outgoing = &mut self.replies;
        let before = outgoing.heads.len();
        head(&mut outgoing.heads);
        outgoing.replies.push(Reply { head: outgoing.heads.len() - before, data });
        outgoing.bytes += bytes;
    }
}

impl<S: Stream> Replies for Connection<S> {
    fn done(&self, cookie: u64, result: io::Result<()>, buffers: Buffers) {
        let mut state = self.lock();
        let Some(Asked { header, bytes }) = state.asked.try_remove(cookie as usize) else { return };
        let is_read = header.command == wire::CMD_READ;
        let data = if result.is_ok() && is_read { buffers } else { Buffers::new() };
        state.reply(bytes, data, |head| match result {
            Ok(()) if is_read => self.format.data(&header, head),
            Ok(()) => self.format.done(&header, head),
            Err(error) => self.format.failed(&header, error_code(&error), head),
        });
    }

    /// Sends what there is, if no other thread does: that one looks again when it has sent.
    fn flush(&self) {
        let mut state = self.lock();
        if state.is_sending {
            return;
        }
        let mut rounds = 0;
        while let Some(mut outgoing) = state.take() {
            let is_broken = state.is_broken;
            drop(state);
            rounds += 1;
            let mut result = if rounds > MOST_ROUNDS { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) };
            while !is_broken && !outgoing.is_sent() && result.is_ok() {
                let sent = self.stream.send_now(&outgoing.parts());
                result = sent.map(|bytes| outgoing.advance(bytes));
            }
            state = self.lock();
            match result {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    state.rest = Some(outgoing);
                    drop(state);
                    self.to_send.notify_all();
                    return;
                }
                Err(_) => self.broken(&mut state),
                Ok(()) => {}
            }
            self.sent(&mut state, outgoing);
        }
    }
}

/// Reads a payload, past the input buffer where most of it is still in the socket.
fn read_payload(reader: &mut BufReader<impl Read>, mut into: &mut [u8]) -> io::Result<()> {
    let there = reader.buffer().len().min(into.len());
    if into.len() - there < PAST_BUFFER {
        return reader.read_exact(into);
    }
    let (first, rest) = into.split_at_mut(there);
    reader.read_exact(first)?;
    into = rest;
    reader.get_mut().read_exact(into)
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
