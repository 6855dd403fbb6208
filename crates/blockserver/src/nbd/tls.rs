//! TLS: certificates from files, and a stream that one thread can read while another writes.
//!
//! ```text
//! reader thread ─▶ socket ─▶ [arrived] ─▶ session ─▶ plain text
//! writer thread ─▶ plain text ─▶ session ─▶ [records, in order] ─▶ socket
//! ```
//! Neither waits for the socket while it holds the session's lock, so that a client that sends nothing still gets its replies.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use x509_cert::Certificate;
use x509_cert::der::asn1::{Ia5StringRef, ObjectIdentifier, PrintableStringRef, TeletexStringRef, Utf8StringRef};
use x509_cert::der::{Any, Decode as _};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use super::stream::{Stream, Until};

/// Size of the input buffer: two records of maximum size.
const ARRIVED: usize = 33 << 10;
/// Maximum plain text encrypted at once: four records.
const SEALED: usize = 64 << 10;
/// Timeout for sending a last alert to a client that may not be reading.
const FAREWELL: Duration = Duration::from_millis(200);
/// `commonName`, of X.520.
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// Files in PEM: the server's identity, and the client certificates that it trusts.
#[derive(Clone, Debug)]
pub struct Files {
    /// The server's certificate, followed by intermediate certificates.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// CAs of client certificates. A client without a certificate is then refused. `None`: clients are not asked for one.
    pub client_ca: Option<PathBuf>,
    /// Certificate revocation lists (CRLs) of these CAs.
    pub revoked: Option<PathBuf>,
}

/// TLS configuration of a server. Changed files are read again, so that a certificate can be renewed while clients are served.
pub struct Tls {
    files: Files,
    current: Mutex<(Stamps, Arc<ServerConfig>)>,
}

/// Modification time and size of each file; `None` if it cannot be read.
type Stamps = Vec<Option<(SystemTime, u64)>>;

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// Names the file, and what is wrong with it.
    pub fn open(files: Files) -> Result<Tls, String> {
        let current = Mutex::new((files.stamps(), files.read()?));
        Ok(Tls { files, current })
    }

    /// The current configuration. If changed files cannot be read, the previous one stays in use and the error is returned as well.
    fn config(&self) -> (Arc<ServerConfig>, Option<String>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = self.files.stamps();
        let mut complaint = None;
        if current.0 != stamps {
            match self.files.read() {
                Ok(config) => *current = (stamps, config),
                Err(error) => complaint = Some(error),
            }
        }
        (current.1.clone(), complaint)
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.fmt(formatter)
    }
}

impl Files {
    fn stamps(&self) -> Stamps {
        let files = [Some(&self.certificate), Some(&self.key), self.client_ca.as_ref(), self.revoked.as_ref()];
        let stamp = |path: &PathBuf| {
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        };
        files.into_iter().flatten().map(stamp).collect()
    }

    fn read(&self) -> Result<Arc<ServerConfig>, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let certificates = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| of(&self.key, "a private key in PEM", &error))?;
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in self::certificates(path)? {
                    roots.add(certificate).map_err(|error| of(path, "certificates of signers", &error))?;
                }
                let mut verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                if let Some(path) = &self.revoked {
                    let lists = CertificateRevocationListDer::pem_file_iter(path).and_then(Iterator::collect);
                    let lists: Vec<CertificateRevocationListDer<'static>> =
                        lists.map_err(|error| of(path, "revocation lists in PEM", &error))?;
                    // An expired list is better than none. Certificates of a CA without a list count as not revoked.
                    verifier = verifier.with_crls(lists).allow_unknown_revocation_status().only_check_end_entity_revocation();
                }
                builder.with_client_cert_verifier(verifier.build().map_err(|error| of(path, "certificates of signers", &error))?)
            }
        };
        let mut config = builder
            .with_single_cert(certificates, key)
            .map_err(|error| of(&self.key, &format!("the key of {}", self.certificate.display()), &error))?;
        // No resumption: a resumed session would outlive a revocation.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| of(path, "certificates in PEM", &error))?;
    if found.is_empty() { Err(format!("{}: should hold certificates in PEM, and holds none", path.display())) } else { Ok(found) }
}

fn of(path: &Path, wanted: &str, error: &dyn fmt::Display) -> String {
    format!("{}: should hold {wanted}: {error}", path.display())
}

/// A stream in plain text or under TLS.
pub enum Secured<S: Stream> {
    /// In plain text.
    Plain(S),
    /// Under TLS.
    Tls(TlsStream<S>),
}

/// Result of starting TLS.
pub(super) struct Begun<S: Stream> {
    pub stream: Secured<S>,
    /// Names in the client's certificate; `None` if it was not asked for one.
    pub names: Option<Vec<String>>,
    /// What is wrong with changed files.
    pub complaint: Option<String>,
}

impl<S: Stream> Secured<S> {
    /// Performs the TLS handshake as the server.
    ///
    /// # Errors
    /// The connection failed; the client does not speak TLS, or its certificate is not trusted.
    pub(super) fn begin(self, tls: &Tls, deadline: Instant) -> io::Result<Begun<S>> {
        let Secured::Plain(mut stream) = self else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "TLS has begun already"));
        };
        let (config, complaint) = tls.config();
        let mut session = ServerConnection::new(config).map_err(io::Error::other)?;
        // Not needed: a limited amount is encrypted at once, and then sent.
        session.set_buffer_limit(None);
        let mut until = Until { stream: &mut stream, deadline };
        while session.is_handshaking() {
            session.complete_io(&mut until)?;
        }
        let names = session.peer_certificates().and_then(<[_]>::first).map(|certificate| names(certificate)).transpose()?;
        let shared = Arc::new(Shared { session: Mutex::new(session), arrived: Mutex::default(), sealed: Mutex::default() });
        let stream = Secured::Tls(TlsStream { stream, shared, says_farewell: true });
        Ok(Begun { stream, names, complaint })
    }
}

/// Names in a certificate: the subject's common names, and all alternative names that are text or IP addresses.
fn names(certificate: &[u8]) -> io::Result<Vec<String>> {
    let wrong = |error| io::Error::new(io::ErrorKind::InvalidData, format!("the client's certificate: {error}"));
    let certificate = Certificate::from_der(certificate).map_err(wrong)?.tbs_certificate;
    let mut names: Vec<String> = Vec::new();
    let attributes = certificate.subject.0.iter().flat_map(|name| name.0.iter());
    names.extend(attributes.filter(|attribute| attribute.oid == COMMON_NAME).filter_map(|attribute| text(&attribute.value)));
    if let Some((_, SubjectAltName(alternatives))) = certificate.get::<SubjectAltName>().map_err(wrong)? {
        names.extend(alternatives.iter().filter_map(|name| match name {
            GeneralName::DnsName(name) | GeneralName::Rfc822Name(name) | GeneralName::UniformResourceIdentifier(name) => {
                Some(name.as_str().to_owned())
            }
            GeneralName::IpAddress(address) => match address.as_bytes().len() {
                4 => <[u8; 4]>::try_from(address.as_bytes()).ok().map(|it| std::net::Ipv4Addr::from(it).to_string()),
                _ => <[u8; 16]>::try_from(address.as_bytes()).ok().map(|it| std::net::Ipv6Addr::from(it).to_string()),
            },
            _ => None,
        }));
    }
    Ok(names)
}

fn text(value: &Any) -> Option<String> {
    let as_text = |text: &str| text.to_owned();
    let utf8 = value.decode_as::<Utf8StringRef<'_>>().map(|text| as_text(text.as_str()));
    let printable = || value.decode_as::<PrintableStringRef<'_>>().map(|text| as_text(text.as_str()));
    let ascii = || value.decode_as::<Ia5StringRef<'_>>().map(|text| as_text(text.as_str()));
    let teletex = || value.decode_as::<TeletexStringRef<'_>>().map(|text| as_text(text.as_str()));
    utf8.or_else(|_| printable()).or_else(|_| ascii()).or_else(|_| teletex()).ok()
}

/// Bytes read from the socket and not yet taken by the session.
struct Arrived {
    bytes: Box<[u8]>,
    from: usize,
    to: usize,
}

impl Default for Arrived {
    fn default() -> Arrived {
        Arrived { bytes: vec![0; ARRIVED].into_boxed_slice(), from: 0, to: 0 }
    }
}

struct Shared {
    session: Mutex<ServerConnection>,
    /// Held by the reading thread.
    arrived: Mutex<Arrived>,
    /// Records to send; locked until they are sent, to keep their order.
    sealed: Mutex<Vec<u8>>,
}

impl Shared {
    fn session(&self) -> MutexGuard<'_, ServerConnection> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Encrypts data with `seal`, and sends it together with the session's own messages.
    fn send(&self, stream: &mut impl Write, seal: impl FnOnce(&mut ServerConnection) -> io::Result<()>) -> io::Result<()> {
        let mut sealed = self.sealed.lock().unwrap_or_else(PoisonError::into_inner);
        sealed.clear();
        {
            let mut session = self.session();
            seal(&mut session)?;
            while session.wants_write() {
                session.write_tls(&mut *sealed)?;
            }
        }
        stream.write_all(&sealed)
    }
}

/// A handle of a stream under TLS.
pub struct TlsStream<S: Stream> {
    stream: S,
    shared: Arc<Shared>,
    /// Sends a close_notify alert when dropped.
    says_farewell: bool,
}

impl<S: Stream> TlsStream<S> {
    /// Passes received bytes to the session. Fails if they are not valid TLS.
    fn open(&mut self, arrived: &mut Arrived) -> io::Result<()> {
        let result = {
            let mut session = self.shared.session();
            let mut rest = &arrived.bytes[arrived.from..arrived.to];
            let taken = session.read_tls(&mut rest)?;
            arrived.from += taken;
            session.process_new_packets()
        };
        let Err(error) = result else { return Ok(()) };
        // Try to send the alert that tells the client why.
        let _ = self.stream.limit(Some(FAREWELL));
        let _ = self.shared.send(&mut self.stream, |_| Ok(()));
        Err(io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

impl<S: Stream> Read for TlsStream<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let shared = self.shared.clone();
        let mut arrived = shared.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match shared.session().reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            if arrived.from == arrived.to {
                let count = self.stream.read(&mut arrived.bytes)?;
                (arrived.from, arrived.to) = (0, count);
            }
            // Also at the end of the input: the session knows whether it was closed properly.
            self.open(&mut arrived)?;
        }
    }
}

impl<S: Stream> Write for TlsStream<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part = &bytes[..bytes.len().min(SEALED)];
        self.shared.send(&mut self.stream, |session| session.writer().write_all(part))?;
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl<S: Stream> Drop for TlsStream<S> {
    fn drop(&mut self) {
        if self.says_farewell && self.stream.limit(Some(FAREWELL)).is_ok() {
            // The client may have gone.
            let _ = self.shared.send(&mut self.stream, |session| {
                session.send_close_notify();
                Ok(())
            });
        }
    }
}

impl<S: Stream> Stream for TlsStream<S> {
    fn twin(&self) -> io::Result<Self> {
        Ok(TlsStream { stream: self.stream.twin()?, shared: self.shared.clone(), says_farewell: false })
    }

    fn hang_up(&self) {
        self.stream.hang_up();
    }

    fn take_no_more(&self) {
        self.stream.take_no_more();
    }

    fn limit(&self, wait: Option<Duration>) -> io::Result<()> {
        self.stream.limit(wait)
    }
}

macro_rules! either {
    ($self:expr, $stream:ident => $does:expr) => {
        match $self {
            Secured::Plain($stream) => $does,
            Secured::Tls($stream) => $does,
        }
    };
}

impl<S: Stream> Read for Secured<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        either!(self, stream => stream.read(buffer))
    }

    fn read_vectored(&mut self, buffers: &mut [io::IoSliceMut<'_>]) -> io::Result<usize> {
        either!(self, stream => stream.read_vectored(buffers))
    }
}

impl<S: Stream> Write for Secured<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        either!(self, stream => stream.write(bytes))
    }

    fn write_vectored(&mut self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
        either!(self, stream => stream.write_vectored(parts))
    }

    fn flush(&mut self) -> io::Result<()> {
        either!(self, stream => stream.flush())
    }
}

impl<S: Stream> Stream for Secured<S> {
    fn twin(&self) -> io::Result<Self> {
        Ok(match self {
            Secured::Plain(stream) => Secured::Plain(stream.twin()?),
            Secured::Tls(stream) => Secured::Tls(stream.twin()?),
        })
    }

    fn hang_up(&self) {
        either!(self, stream => stream.hang_up());
    }

    fn take_no_more(&self) {
        either!(self, stream => stream.take_no_more());
    }

    fn limit(&self, wait: Option<Duration>) -> io::Result<()> {
        either!(self, stream => stream.limit(wait))
    }

    fn send_now(&self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
        either!(self, stream => stream.send_now(parts))
    }
}
