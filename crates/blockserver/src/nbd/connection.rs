//! The transmission phase of a connection: requests in, replies out.
//!
//! One thread reads requests, as many as the socket holds, and submits them to the export in batches. Replies are sent by the thread that
//! completes them: all that are ready in one system call, as far as the socket accepts them without blocking. The rest is left to a second
//! thread, the writer, which also sends everything on streams without non-blocking writes.

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

/// Limits of a client's requests and data in flight. Beyond them it is not read from until replies have been sent.
const MOST_REQUESTS: usize = 256;
const MOST_BYTES: u64 = 64 << 20;
/// Limits of a batch: requests, and their data. Larger batches save little, delay the first request, and fall out of a processor's cache
/// between the disk and the socket.
const MOST_TOGETHER: usize = 16;
const BYTES_TOGETHER: u64 = 64 << 10;
/// Size of the input buffer.
const INPUT: usize = 64 << 10;
/// A payload with at least this much still in the socket is read directly, bypassing the input buffer.
const PAST_BUFFER: usize = 4096;
/// Approximate number of slices (heads and data of replies) per sending system call.
const MOST_PARTS: usize = 64;
/// Rounds after which a thread that sends other threads' replies after its own leaves them to the writer.
const MOST_ROUNDS: usize = 8;
/// Maximum extents in a block status reply.
const MOST_EXTENTS: usize = 4096;

/// Serves a client until it disconnects.
///
/// # Errors
/// The connection failed; the client violates the protocol; or the export has gone.
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

/// A request in flight.
struct Asked {
    header: Header,
    /// Bytes of data that it keeps in memory until it is answered.
    bytes: u64,
}

/// A reply to send.
struct Reply {
    /// Length of its head.
    head: usize,
    /// Data of a read.
    data: Buffers,
}

/// Replies to send together.
#[derive(Default)]
struct Outgoing {
    /// Their heads, concatenated.
    heads: Vec<u8>,
    replies: Vec<Reply>,
    /// Bytes of their requests' data, freed when they are sent.
    bytes: u64,
    /// Progress: complete replies, bytes of the next one, and bytes of the heads of the complete ones.
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

    /// The slices to send next.
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

    /// Records that this many more bytes were sent.
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
    /// Requests in flight, by numbers of our own because a client's cookies may repeat.
    asked: Slab<Asked>,
    /// Replies that no thread is sending yet.
    replies: Outgoing,
    /// Empty; kept for reuse.
    spare: Outgoing,
    /// A thread is sending, and checks `replies` again afterwards.
    is_sending: bool,
    /// What the socket did not accept at once; taken by the writer, which is then the sending thread.
    rest: Option<Outgoing>,
    /// Requests in flight or whose replies are not sent, and their data in bytes.
    requests: usize,
    bytes: u64,
    /// No more requests are read.
    is_ended: bool,
    /// Nothing can be sent any more.
    is_broken: bool,
    /// The reader waits for room. It is woken only then, because a wake-up is a system call even if no thread waits.
    reader_waits: bool,
}

impl State {
    /// Takes the replies to send and marks the connection as sending; `None` if there are none, and then no thread is sending.
    fn take(&mut self) -> Option<Outgoing> {
        self.is_sending = !self.replies.replies.is_empty();
        let spare = std::mem::take(&mut self.spare);
        self.is_sending.then(|| std::mem::replace(&mut self.replies, spare))
    }
}

/// State shared by the threads that read, complete and send.
struct Connection<S> {
    format: Format,
    stream: S,
    state: Mutex<State>,
    /// Wakes the writer: it has something to send, or the connection ends.
    to_send: Condvar,
    /// Wakes the reader: there is room for another request.
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
            // Start the batch when it is full, and before waiting for more input.
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
            // Before the payload is read, so that back-pressure reaches the client's socket.
            if !self.wait_for_room(&mut batch, &*agreed.export) {
                return Ok(());
            }
            self.request(reader, header, agreed, &mut batch)?;
            (together, bytes) = (together + 1, bytes.saturating_add(header.bytes));
        }
    }

    /// Validates a request, reads its payload and submits it.
    fn request(self: &Arc<Self>, reader: &mut BufReader<S>, header: Header, agreed: &Agreed, batch: &mut Batch) -> io::Result<()> {
        let export = &*agreed.export;
        let [least, _, most] = export.block_bytes();
        let is_write = header.command == wire::CMD_WRITE;
        let has_payload = is_write || header.flags & wire::CMD_FLAG_PAYLOAD_LEN != 0;
        if has_payload && header.bytes > u64::from(wire::MAX_PAYLOAD) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a payload of more than 32 MiB"));
        }
        if has_payload && (reader.buffer().len() as u64) < header.bytes {
            // Earlier requests do not wait for the payload.
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
            // NBD_CMD_CACHE: nothing is prefetched, so it succeeds at once.
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

    /// Waits until another request may be accepted; false if the connection is broken.
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

    /// Answers a request that is not submitted to the export.
    fn answer(&self, header: &Header, result: Result<(), u32>) {
        let mut state = self.lock();
        state.requests += 1;
        state.reply(0, Buffers::new(), |head| match result {
            Ok(()) => self.format.done(header, head),
            Err(error) => self.format.failed(header, error, head),
        });
    }

    /// Ends reading. Requests in flight are still answered.
    fn end(&self) {
        self.lock().is_ended = true;
        self.flush();
        self.to_send.notify_all();
    }

    /// Releases replies that were sent or cannot be sent.
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

    /// The writer thread: sends what the socket did not accept at once.
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
    /// Queues a reply: `head` appends its head, which `data` follows.
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

    /// Sends the queued replies, unless another thread is sending: that one checks again afterwards.
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

/// Reads a payload, bypassing the input buffer if much of it is still in the socket.
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

/// Validates a request. Returns the protocol's error code, or `None` if it is valid.
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
