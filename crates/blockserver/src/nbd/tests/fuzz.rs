//! Fuzzing with invalid input, a million cases in the long form: nothing panics, and replies are well-formed.

use std::io::{self, Cursor, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Once};

use proptest::collection::vec;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::tls::Guarded;
use super::*;
use crate::nbd::handshake::negotiate;
use crate::nbd::stream::Stream;
use crate::nbd::wire::Format;

/// Cases of each test by default; the long form has a million.
const CASES: u32 = 2_000;

/// A client with fixed input, which keeps the replies.
struct Script {
    input: Cursor<Vec<u8>>,
    output: Arc<Mutex<Vec<u8>>>,
}

impl Script {
    fn new(input: Vec<u8>) -> (Script, Arc<Mutex<Vec<u8>>>) {
        let output = Arc::<Mutex<Vec<u8>>>::default();
        (Script { input: Cursor::new(input), output: output.clone() }, output)
    }
}

impl Read for Script {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.input.read(buffer)
    }
}

impl Write for Script {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for Script {
    fn twin(&self) -> io::Result<Script> {
        Ok(Script { input: Cursor::default(), output: self.output.clone() })
    }

    fn hang_up(&self) {}

    fn take_no_more(&self) {}

    fn limit(&self, _: Option<std::time::Duration>) -> io::Result<()> {
        Ok(())
    }
}

static MEMORY: LazyLock<Arc<Memory>> = LazyLock::new(Arc::default);
static GUARDED: LazyLock<[Arc<Guarded>; 2]> = LazyLock::new(|| [Guarded::new(false), Guarded::new(true)]);
/// Panics of threads whose result is not checked.
static PANICS: AtomicUsize = AtomicUsize::new(0);

fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if thread::current().name() == Some("nbd-writer") {
                PANICS.fetch_add(1, Ordering::Relaxed);
            }
            before(panic);
        }));
    });
}

/// A number that is usually small, sometimes at a limit, and sometimes arbitrary.
fn any_length() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..64_u64,
        2 => prop::sample::select(vec![512, 4096, 1 << 20, (1 << 20) + 512, 32 << 20, (32 << 20) + 1, u64::from(u32::MAX), u64::MAX, u64::MAX - 511]),
        1 => any::<u64>(),
    ]
}

/// An option that is valid or nearly so.
fn any_option() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![Just(b"m".to_vec()), Just(Vec::new()), vec(any::<u8>(), 0..6), Just(b"none".to_vec())];
    let parts = (name, vec(prop_oneof![Just(b"base:allocation".to_vec()), Just(b"base:".to_vec()), vec(any::<u8>(), 0..8)], 0..3));
    let data = prop_oneof![
        2 => Just(Vec::new()),
        2 => vec(any::<u8>(), 0..40),
        3 => parts.clone().prop_map(|(name, queries)| {
            let queries: Vec<String> = queries.iter().map(|query| String::from_utf8_lossy(query).into_owned()).collect();
            question(&String::from_utf8_lossy(&name), &queries.iter().map(String::as_str).collect::<Vec<_>>())
        }),
        3 => parts.prop_map(|(name, queries)| {
            let mut data = (name.len() as u32).to_be_bytes().to_vec();
            data.extend(name);
            data.extend((queries.len() as u16).to_be_bytes());
            (0..queries.len()).for_each(|number| data.extend((number as u16).to_be_bytes()));
            data
        }),
        1 => Just(vec![7; 70_000]),
    ];
    let wrong_length = prop_oneof![12 => Just(None), 1 => any_length().prop_map(Some)];
    let wrong_magic = prop::bool::weighted(0.02);
    let option = prop_oneof![20 => 0..13_u32, 1 => any::<u32>()];
    (option, data, wrong_length, wrong_magic).prop_map(|(option, data, length, is_wrong)| {
        let mut bytes = (if is_wrong { 1 } else { wire::IHAVEOPT }).to_be_bytes().to_vec();
        bytes.extend(option.to_be_bytes());
        bytes.extend((length.unwrap_or(data.len() as u64) as u32).to_be_bytes());
        bytes.extend(data);
        bytes
    })
}

/// A request with its data that is valid or nearly so.
fn any_request(is_extended: bool) -> impl Strategy<Value = Vec<u8>> {
    let offset = prop_oneof![3 => (0..2048_u64).prop_map(|sector| 512 * sector), 2 => any_length()];
    let length = prop_oneof![3 => (0..64_u64).prop_map(|sectors| 512 * sectors), 2 => any_length()];
    let flags = prop_oneof![3 => Just(0), 2 => (0..7_u16).prop_map(|bit| 1 << bit), 1 => any::<u16>()];
    let command = prop_oneof![20 => 0..9_u16, 1 => any::<u16>()];
    (command, flags, offset, length, any::<u64>(), prop::bool::weighted(0.9), prop::bool::weighted(0.02)).prop_map(
        move |(command, flags, offset, length, cookie, has_data, is_wrong)| {
            let magic = if is_extended { wire::EXTENDED_REQUEST } else { wire::REQUEST };
            let mut bytes = (if is_wrong { 1 } else { magic }).to_be_bytes().to_vec();
            bytes.extend(flags.to_be_bytes());
            bytes.extend(command.to_be_bytes());
            bytes.extend(cookie.to_be_bytes());
            bytes.extend(offset.to_be_bytes());
            if is_extended {
                bytes.extend(length.to_be_bytes());
            } else {
                bytes.extend((length as u32).to_be_bytes());
            }
            if has_data && command == wire::CMD_WRITE && length <= 1 << 16 {
                bytes.resize(bytes.len() + length as usize, 0x5a);
            }
            bytes
        },
    )
}

/// Bytes that may be corrupted or truncated.
fn spoilt(bytes: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let changes = prop_oneof![3 => Just(Vec::new()), 2 => vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)];
    let cut = prop_oneof![3 => Just(None), 1 => any::<prop::sample::Index>().prop_map(Some)];
    (bytes, changes, cut).prop_map(|(mut bytes, changes, cut)| {
        if bytes.is_empty() {
            return bytes;
        }
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        bytes
    })
}

/// Checks the replies to options, up to the first output of another format: after the choice of an export.
fn check_option_replies(output: &[u8]) -> Result<(), TestCaseError> {
    prop_assert_eq!(&output[..8], b"NBDMAGIC");
    let mut rest = &output[18..];
    while rest.len() >= 20 && wire::number(&rest[..8]) == wire::OPTION_REPLY {
        let length = wire::number(&rest[16..20]) as usize;
        prop_assert!(20 + length <= rest.len(), "a reply that is shorter than it says");
        rest = &rest[20 + length..];
    }
    // The answer to NBD_OPT_EXPORT_NAME, or an alert of TLS.
    prop_assert!(rest.is_empty() || rest.len() == 10 || rest.len() == 134 || rest[0] == 21, "{rest:?}");
    Ok(())
}

fn fuzz_handshake(cases: u32) {
    let options = vec(prop_oneof![12 => any_option(), 1 => vec(any::<u8>(), 0..40)], 0..12).prop_map(|options| options.concat());
    let flags = prop_oneof![8 => Just(3_u32), 1 => any::<u32>()];
    let bytes = (flags, options).prop_map(|(flags, options)| [&flags.to_be_bytes()[..], &options].concat());
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let result = runner.run(&(0..3_usize, spoilt(bytes)), |(entrance, bytes)| {
        let (script, output) = Script::new(bytes);
        let open = OneExport(MEMORY.clone());
        let entrance: &dyn Entrance = if entrance == 0 { &open } else { &*GUARDED[entrance - 1] };
        let _ = negotiate(script, entrance, Origin::Unix(None));
        check_option_replies(&output.lock().unwrap())
    });
    result.unwrap();
    // Drop the clients recorded by these cases.
    GUARDED.iter().for_each(|guarded| guarded.seen.lock().unwrap().clear());
}

/// Checks that replies are complete and belong to requests that were sent.
fn check_replies(mut rest: &[u8], format: Format, sent: &[u8]) -> Result<(), TestCaseError> {
    while !rest.is_empty() {
        prop_assert!(rest.len() >= 16);
        let magic = wire::number(&rest[..4]) as u32;
        let cookie_of = |at: usize| &rest[at..at + 8];
        let (cookie, length) = match magic {
            wire::SIMPLE_REPLY => {
                // Only the request knows the length of the data, so this reply is the last that is checked.
                prop_assert!(sent.windows(8).any(|window| window == cookie_of(8)), "a cookie that was not sent");
                return Ok(());
            }
            wire::STRUCTURED_REPLY if format == Format::Structured => (cookie_of(8), 20 + wire::number(&rest[16..20]) as usize),
            wire::EXTENDED_REPLY if format == Format::Extended => (cookie_of(8), 32 + wire::number(&rest[24..32]) as usize),
            _ => return Err(TestCaseError::fail(format!("no reply: {:?}", &rest[..16]))),
        };
        prop_assert!(sent.windows(8).any(|window| window == cookie), "a cookie that was not sent");
        prop_assert!(length <= rest.len(), "a reply that is shorter than it says");
        rest = &rest[length..];
    }
    Ok(())
}

fn fuzz_transmission(cases: u32) {
    count_panics();
    let format = prop::sample::select(FORMATS.to_vec());
    let input = format.prop_flat_map(|format| {
        let requests =
            vec(prop_oneof![12 => any_request(format == Format::Extended).boxed(), 1 => vec(any::<u8>(), 0..40).boxed()], 0..12);
        (Just(format), spoilt(requests.prop_map(|requests| requests.concat())))
    });
    let option = |option: u32, data: &[u8]| {
        let mut bytes = wire::IHAVEOPT.to_be_bytes().to_vec();
        bytes.extend(option.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        bytes
    };
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let result = runner.run(&input, |(format, requests)| {
        let mut bytes = 3_u32.to_be_bytes().to_vec();
        match format {
            Format::Simple => {}
            Format::Structured => bytes.extend(option(wire::OPT_STRUCTURED_REPLY, &[])),
            Format::Extended => bytes.extend(option(wire::OPT_EXTENDED_HEADERS, &[])),
        }
        if format != Format::Simple {
            bytes.extend(option(wire::OPT_SET_META_CONTEXT, &question("m", &["base:allocation"])));
        }
        bytes.extend(option(wire::OPT_EXPORT_NAME, b"m"));
        bytes.extend(&requests);
        let (script, output) = Script::new(bytes);
        let _ = connection::serve(script, &OneExport(MEMORY.clone()), Origin::Unix(None));
        let output = output.lock().unwrap();
        // The greeting, the replies to the options, and the size and flags of the export.
        let mut at = 18;
        while output.len() >= at + 20 && wire::number(&output[at..at + 8]) == wire::OPTION_REPLY {
            at += 20 + wire::number(&output[at + 16..at + 20]) as usize;
        }
        check_replies(&output[at + 10..], format, &requests)?;
        prop_assert_eq!(PANICS.load(Ordering::Relaxed), 0, "the writer panicked");
        Ok(())
    });
    result.unwrap();
}

#[test]
fn any_bytes_in_the_handshake_are_answered_in_good_form() {
    fuzz_handshake(CASES);
}

#[test]
fn any_bytes_in_the_transmission_are_answered_in_good_form() {
    fuzz_transmission(CASES);
}

#[test]
#[ignore = "takes minutes"]
fn a_million_inputs_are_answered_in_good_form() {
    fuzz_handshake(500_000);
    fuzz_transmission(500_000);
}
