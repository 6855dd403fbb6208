//! The handshake, from the greeting to the choice of an export.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Instant;

use super::stream::{Stream, Until};
use super::tls::{Secured, Tls};
use super::wire::{self, Format, number, option_reply};
use super::{Client, Entrance, Export, Exports, Origin, Security};

/// Maximum data of an option; more is skipped and answered with NBD_REP_ERR_TOO_BIG.
const MAX_OPTION: u32 = 64 << 10;
/// Data of an option beyond which the connection is closed.
const MAX_SKIPPED: u32 = 16 << 20;
/// Maximum options of a client, so that no connection stays in the handshake without end.
const MAX_OPTIONS: usize = 1000;

/// Result of a handshake.
pub struct Agreed {
    /// The chosen export.
    pub export: Arc<dyn Export>,
    /// Format of replies.
    pub format: Format,
    /// Whether the client selected the metadata context `base:allocation` for this export.
    pub tells_allocation: bool,
}

/// Id of the metadata context `base:allocation` in replies.
pub const ALLOCATION: u32 = 1;

/// Negotiates until an export is chosen; `None` if the client ends the handshake properly. Also returns the stream, which may be under TLS
/// now.
///
/// Input is not buffered, so that what a client sends after NBD_OPT_STARTTLS is never taken for plain text.
///
/// # Errors
/// The connection failed; the client violates the protocol, or exceeds the time limit.
pub fn negotiate<S: Stream>(stream: S, entrance: &dyn Entrance, origin: Origin) -> io::Result<Option<(Secured<S>, Agreed)>> {
    let deadline = Instant::now() + entrance.patience();
    let mut stream = Secured::Plain(stream);
    let mut client = Client { origin, names: None };
    let has_no_zeroes = greet(&mut Until { stream: &mut stream, deadline })?;
    let mut options_left = MAX_OPTIONS;
    loop {
        let exports = entrance.exports(&client);
        let (starts_tls, is_closed) = match (&stream, entrance.security()) {
            (Secured::Tls(_), _) | (_, Security::Plain) => (None, false),
            (Secured::Plain(_), Security::Offered(tls)) => (Some(tls), false),
            (Secured::Plain(_), Security::Required(tls)) => (Some(tls), true),
        };
        // What was negotiated in plain text is void under TLS.
        let mut talk = Talk {
            is_encrypted: matches!(stream, Secured::Tls(_)),
            stream: Until { stream: &mut stream, deadline },
            exports: &*exports,
            starts_tls,
            is_closed,
            has_no_zeroes,
            format: Format::Simple,
            context_of: None,
            export: None,
        };
        match talk.run(&mut options_left)? {
            Next::Tls(tls) => {
                let begun = stream.begin(tls, deadline)?;
                begun.complaint.iter().for_each(|complaint| entrance.note(complaint));
                (stream, client.names) = (begun.stream, begun.names);
            }
            Next::Transmission => {
                let Talk { export, context_of, format, .. } = talk;
                let Some(export) = export else { return Ok(None) };
                let tells_allocation = context_of.is_some_and(|name| name == export.name());
                stream.limit(None)?;
                return Ok(Some((stream, Agreed { export, format, tells_allocation })));
            }
            Next::Option | Next::End => return Ok(None),
        }
    }
}

/// Sends the greeting. Returns whether the client wants no padding after an export's size (NBD_FLAG_C_NO_ZEROES).
fn greet(stream: &mut (impl Read + Write)) -> io::Result<bool> {
    let mut hello = Vec::new();
    hello.extend(wire::NBDMAGIC.to_be_bytes());
    hello.extend(wire::IHAVEOPT.to_be_bytes());
    hello.extend((wire::FIXED_NEWSTYLE | wire::NO_ZEROES).to_be_bytes());
    send(stream, &hello)?;
    let flags = read_number(stream, 4)?;
    if flags & !u64::from(wire::FIXED_NEWSTYLE | wire::NO_ZEROES) != 0 || flags & u64::from(wire::FIXED_NEWSTYLE) == 0 {
        return Err(broken("client flags: only fixed newstyle and no zeroes are known"));
    }
    Ok(flags & u64::from(wire::NO_ZEROES) != 0)
}

enum Next<'a> {
    Option,
    Tls(&'a Tls),
    End,
    Transmission,
}

struct Talk<'s, 'a, S: Stream> {
    stream: Until<'s, Secured<S>>,
    is_encrypted: bool,
    exports: &'s dyn Exports,
    /// TLS that the client may start.
    starts_tls: Option<&'a Tls>,
    /// TLS is required and not established: options other than NBD_OPT_STARTTLS and NBD_OPT_ABORT are refused.
    is_closed: bool,
    has_no_zeroes: bool,
    format: Format,
    /// Export that the client selected `base:allocation` for.
    context_of: Option<String>,
    export: Option<Arc<dyn Export>>,
}

impl<'a, S: Stream> Talk<'_, 'a, S> {
    /// Answers options until one ends this phase.
    fn run(&mut self, options_left: &mut usize) -> io::Result<Next<'a>> {
        while *options_left > 0 {
            *options_left -= 1;
            if read_number(&mut self.stream, 8)? != wire::IHAVEOPT {
                return Err(broken("no option: wrong magic number"));
            }
            let (option, length) = (read_number(&mut self.stream, 4)? as u32, read_number(&mut self.stream, 4)? as u32);
            if length > MAX_OPTION {
                if length > MAX_SKIPPED || option == wire::OPT_EXPORT_NAME {
                    return Err(broken("an option of this length is refused"));
                }
                io::copy(&mut (&mut self.stream).take(u64::from(length)), &mut io::sink())?;
                self.reply(option, wire::REP_ERR_TOO_BIG, b"at most 65536 bytes")?;
                continue;
            }
            let mut data = vec![0; length as usize];
            self.stream.read_exact(&mut data)?;
            match self.option(option, &data)? {
                Next::Option => {}
                next => return Ok(next),
            }
        }
        Err(broken("too many options"))
    }

    fn start_tls(&mut self, data: &[u8]) -> io::Result<Next<'a>> {
        let option = wire::OPT_STARTTLS;
        match self.starts_tls {
            _ if !data.is_empty() => self.reply(option, wire::REP_ERR_INVALID, b"this option has no data")?,
            _ if self.is_encrypted => self.reply(option, wire::REP_ERR_INVALID, b"TLS has begun already")?,
            None => self.reply(option, wire::REP_ERR_UNSUP, b"TLS is not offered here")?,
            Some(tls) => {
                self.reply(option, wire::REP_ACK, &[])?;
                return Ok(Next::Tls(tls));
            }
        }
        Ok(Next::Option)
    }

    fn option(&mut self, option: u32, data: &[u8]) -> io::Result<Next<'a>> {
        match option {
            wire::OPT_STARTTLS => return self.start_tls(data),
            wire::OPT_EXPORT_NAME if self.is_closed => return Err(broken("TLS is required, and has not begun")),
            wire::OPT_EXPORT_NAME => return self.export_name(data),
            wire::OPT_ABORT => {
                // The client may be gone already.
                let _ = self.reply(option, wire::REP_ACK, &[]);
                return Ok(Next::End);
            }
            _ if self.is_closed => {
                self.reply(option, wire::REP_ERR_TLS_REQD, b"TLS is required: begin it with NBD_OPT_STARTTLS")?
            }
            wire::OPT_LIST if data.is_empty() => self.list()?,
            wire::OPT_STRUCTURED_REPLY if data.is_empty() && self.format == Format::Extended => {
                self.reply(option, wire::REP_ERR_EXT_HEADER_REQD, b"extended headers are agreed on")?;
            }
            wire::OPT_STRUCTURED_REPLY | wire::OPT_EXTENDED_HEADERS if data.is_empty() => {
                if option == wire::OPT_EXTENDED_HEADERS {
                    self.format = Format::Extended;
                } else if self.format == Format::Simple {
                    self.format = Format::Structured;
                }
                self.reply(option, wire::REP_ACK, &[])?;
            }
            wire::OPT_LIST | wire::OPT_STRUCTURED_REPLY | wire::OPT_EXTENDED_HEADERS => {
                self.reply(option, wire::REP_ERR_INVALID, b"this option has no data")?;
            }
            wire::OPT_INFO | wire::OPT_GO => return self.info(option, data),
            wire::OPT_LIST_META_CONTEXT | wire::OPT_SET_META_CONTEXT => self.meta_context(option, data)?,
            _ => self.reply(option, wire::REP_ERR_UNSUP, b"unknown option")?,
        }
        Ok(Next::Option)
    }

    fn list(&mut self) -> io::Result<()> {
        for (name, description) in self.exports.list() {
            let mut data = (name.len() as u32).to_be_bytes().to_vec();
            data.extend(name.as_bytes());
            data.extend(description.as_bytes());
            self.reply(wire::OPT_LIST, wire::REP_SERVER, &data)?;
        }
        self.reply(wire::OPT_LIST, wire::REP_ACK, &[])
    }

    /// NBD_OPT_EXPORT_NAME, which can only be refused by closing the connection.
    fn export_name(&mut self, data: &[u8]) -> io::Result<Next<'a>> {
        let name = std::str::from_utf8(data).map_err(|_| broken("the name of an export is no UTF-8"))?;
        let export = self.exports.open(name).map_err(|reason| broken(&reason))?;
        let mut answer = export.bytes().to_be_bytes().to_vec();
        answer.extend(flags(&*export).to_be_bytes());
        if !self.has_no_zeroes {
            answer.extend([0; 124]);
        }
        send(&mut self.stream, &answer)?;
        self.export = Some(export);
        Ok(Next::Transmission)
    }

    fn info(&mut self, option: u32, data: &[u8]) -> io::Result<Next<'a>> {
        let Some((name, rest)) = name(data) else {
            self.reply(option, wire::REP_ERR_INVALID, b"length and name do not agree")?;
            return Ok(Next::Option);
        };
        let count = rest.get(..2).map_or(0, number) as usize;
        if rest.len() != 2 + 2 * count {
            self.reply(option, wire::REP_ERR_INVALID, b"number of questions and length do not agree")?;
            return Ok(Next::Option);
        }
        let export = match self.exports.open(&name) {
            Ok(export) => export,
            Err(reason) => {
                self.reply(option, wire::REP_ERR_UNKNOWN, reason.as_bytes())?;
                return Ok(Next::Option);
            }
        };
        let mut answer = wire::INFO_EXPORT.to_be_bytes().to_vec();
        answer.extend(export.bytes().to_be_bytes());
        answer.extend(flags(&*export).to_be_bytes());
        self.reply(option, wire::REP_INFO, &answer)?;
        // Always sent, as the protocol recommends.
        let mut answer = wire::INFO_BLOCK_SIZE.to_be_bytes().to_vec();
        export.block_bytes().into_iter().for_each(|bytes| answer.extend(bytes.to_be_bytes()));
        self.reply(option, wire::REP_INFO, &answer)?;
        for asked in rest[2..].chunks_exact(2).map(|asked| number(asked) as u16) {
            let text = match asked {
                wire::INFO_NAME => export.name(),
                wire::INFO_DESCRIPTION => export.description(),
                _ => continue,
            };
            let mut answer = asked.to_be_bytes().to_vec();
            answer.extend(text.as_bytes());
            self.reply(option, wire::REP_INFO, &answer)?;
        }
        self.reply(option, wire::REP_ACK, &[])?;
        if option == wire::OPT_INFO {
            return Ok(Next::Option);
        }
        self.export = Some(export);
        Ok(Next::Transmission)
    }

    fn meta_context(&mut self, option: u32, data: &[u8]) -> io::Result<()> {
        let is_set = option == wire::OPT_SET_META_CONTEXT;
        if is_set {
            self.context_of = None;
            if self.format == Format::Simple {
                return self.reply(option, wire::REP_ERR_INVALID, b"structured replies have to be agreed on before");
            }
        }
        let Some((name, queries)) = name(data).and_then(|(name, rest)| Some((name, queries(rest)?))) else {
            return self.reply(option, wire::REP_ERR_INVALID, b"lengths do not agree");
        };
        let export = match self.exports.open(&name) {
            Ok(export) => export,
            Err(reason) => return self.reply(option, wire::REP_ERR_UNKNOWN, reason.as_bytes()),
        };
        let lists_all = !is_set && queries.is_empty();
        let is_asked = |query: &&[u8]| *query == wire::BASE_ALLOCATION.as_bytes() || !is_set && *query == b"base:";
        if lists_all || queries.iter().any(is_asked) {
            let mut answer = if is_set { ALLOCATION } else { 0 }.to_be_bytes().to_vec();
            answer.extend(wire::BASE_ALLOCATION.as_bytes());
            self.reply(option, wire::REP_META_CONTEXT, &answer)?;
            if is_set {
                // Not `name`, which is empty for the default export.
                self.context_of = Some(export.name());
            }
        }
        self.reply(option, wire::REP_ACK, &[])
    }

    fn reply(&mut self, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
        send(&mut self.stream, &option_reply(option, kind, data))
    }
}

/// Transmission flags of an export.
fn flags(export: &dyn Export) -> u16 {
    let always =
        wire::FLAG_HAS_FLAGS | wire::FLAG_SEND_FLUSH | wire::FLAG_CAN_MULTI_CONN | wire::FLAG_SEND_DF | wire::FLAG_SEND_CACHE;
    let rotational = if export.is_rotational() { wire::FLAG_ROTATIONAL } else { 0 };
    let writes = if export.is_read_only() {
        wire::FLAG_READ_ONLY
    } else {
        wire::FLAG_SEND_FUA | wire::FLAG_SEND_TRIM | wire::FLAG_SEND_WRITE_ZEROES
    };
    always | rotational | writes
}

/// Parses a name prefixed by its length; returns it and the remaining bytes. `None` if it is malformed or too long.
fn name(data: &[u8]) -> Option<(String, &[u8])> {
    let length = number(data.get(..4)?) as usize;
    let rest = &data[4..];
    if length > wire::MAX_NAME {
        return None;
    }
    let name = std::str::from_utf8(rest.get(..length)?).ok()?.to_owned();
    Some((name, &rest[length..]))
}

fn queries(data: &[u8]) -> Option<Vec<&[u8]>> {
    let count = number(data.get(..4)?);
    let mut rest = &data[4..];
    let mut queries = Vec::new();
    for _ in 0..count {
        let length = number(rest.get(..4)?) as usize;
        queries.push(rest[4..].get(..length)?);
        rest = &rest[4 + length..];
    }
    rest.is_empty().then_some(queries)
}

fn read_number(reader: &mut impl Read, bytes: usize) -> io::Result<u64> {
    let mut buffer = [0; 8];
    reader.read_exact(&mut buffer[..bytes])?;
    Ok(number(&buffer[..bytes]))
}

fn send(writer: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    writer.write_all(bytes)?;
    writer.flush()
}

fn broken(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.to_owned())
}
