//! TLS with misbehaving clients.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::*;
use crate::nbd::tls::{Files, Tls};

/// A certificate authority.
struct Signer {
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
}

impl Signer {
    fn new() -> Signer {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "signer");
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Signer { issuer: Issuer::new(params, key), certificate }
    }

    /// Issues a certificate for a server at `localhost`, or for a client.
    fn sign(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.subject_alt_names.push(SanType::URI("spiffe://here/web".try_into().unwrap()));
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }
}

pub(super) struct Guarded {
    folder: tempfile::TempDir,
    signer: Signer,
    tls: Tls,
    is_required: bool,
    memory: Arc<Memory>,
    pub(super) seen: Mutex<Vec<Client>>,
    notes: Mutex<Vec<String>>,
}

impl Entrance for Guarded {
    fn exports<'a>(&'a self, client: &Client) -> Box<dyn Exports + 'a> {
        self.seen.lock().unwrap().push(client.clone());
        Box::new(OneExport(self.memory.clone()))
    }

    fn security(&self) -> Security<'_> {
        if self.is_required { Security::Required(&self.tls) } else { Security::Offered(&self.tls) }
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn note(&self, text: &str) {
        self.notes.lock().unwrap().push(text.to_owned());
    }
}

impl Guarded {
    pub(super) fn new(is_required: bool) -> Arc<Guarded> {
        let (folder, signer) = (tempfile::tempdir().unwrap(), Signer::new());
        let at = |name: &str| folder.path().join(name);
        let (certificate, key) = signer.sign("server");
        std::fs::write(at("ca"), signer.certificate.pem()).unwrap();
        std::fs::write(at("certificate"), certificate.pem()).unwrap();
        std::fs::write(at("key"), key.serialize_pem()).unwrap();
        let files = Files { certificate: at("certificate"), key: at("key"), client_ca: Some(at("ca")), revoked: None };
        let tls = Tls::open(files).unwrap();
        let memory = Arc::new(Memory::default());
        Arc::new(Guarded { folder, signer, tls, is_required, memory, seen: Mutex::default(), notes: Mutex::default() })
    }

    /// A client in plain text, and the result of its connection.
    fn connect(self: &Arc<Self>) -> (Talker, thread::JoinHandle<io::Result<()>>) {
        let (client, server) = UnixStream::pair().unwrap();
        let guarded = self.clone();
        (Talker(client), thread::spawn(move || connection::serve(server, &*guarded, Origin::Unix(Some(7)))))
    }

    fn config(&self, signed: Option<(rcgen::Certificate, KeyPair)>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.signer.certificate.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        Arc::new(match signed {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
                builder.with_client_auth_cert(vec![CertificateDer::from(certificate)], key).unwrap()
            }
        })
    }

    /// Starts TLS on a connection.
    fn secure(
        &self,
        mut client: Talker,
        signed: Option<(rcgen::Certificate, KeyPair)>,
    ) -> io::Result<StreamOwned<ClientConnection, UnixStream>> {
        assert_eq!(client.option(wire::OPT_STARTTLS, &[]).last().unwrap().0, wire::REP_ACK);
        let mut session = ClientConnection::new(self.config(signed), ServerName::try_from("localhost").unwrap()).unwrap();
        while session.is_handshaking() {
            session.complete_io(&mut client.0)?;
        }
        Ok(StreamOwned::new(session, client.0))
    }
}

fn option(stream: &mut impl io::Write, option: u32, data: &[u8]) -> io::Result<()> {
    let mut bytes = wire::IHAVEOPT.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    stream.write_all(&bytes)?;
    stream.flush()
}

fn reply(stream: &mut impl io::Read) -> io::Result<(u32, Vec<u8>)> {
    let mut head = [0; 20];
    stream.read_exact(&mut head)?;
    let mut data = vec![0; wire::number(&head[16..]) as usize];
    stream.read_exact(&mut data)?;
    Ok((wire::number(&head[12..16]) as u32, data))
}

#[test]
fn data_goes_both_ways_under_tls_and_the_names_of_the_certificate_are_known() {
    let guarded = Guarded::new(true);
    let (mut client, served) = guarded.connect();
    client.hello();
    // No option can be negotiated before TLS.
    assert_eq!(client.option(wire::OPT_STRUCTURED_REPLY, &[])[0].0, wire::REP_ERR_TLS_REQD);
    let mut stream = guarded.secure(client, Some(guarded.signer.sign("web"))).unwrap();
    option(&mut stream, wire::OPT_STARTTLS, &[]).unwrap();
    assert_eq!(reply(&mut stream).unwrap().0, wire::REP_ERR_INVALID, "TLS in TLS");
    option(&mut stream, wire::OPT_GO, &[&question_name("m")[..], &[0, 0]].concat()).unwrap();
    while reply(&mut stream).unwrap().0 != wire::REP_ACK {}
    let seen = guarded.seen.lock().unwrap().clone();
    let names = ["web", "localhost", "spiffe://here/web"].map(str::to_owned).to_vec();
    assert_eq!(seen.last().unwrap(), &Client { origin: Origin::Unix(Some(7)), names: Some(names) });
    // Requests are sent while the client reads no replies: the reading and writing threads must not wait for each other.
    let data: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
    let request = |command: u16, cookie: u64| {
        let mut head = wire::REQUEST.to_be_bytes().to_vec();
        head.extend([0, 0]);
        head.extend(command.to_be_bytes());
        head.extend(cookie.to_be_bytes());
        head.extend(0_u64.to_be_bytes());
        head.extend((BYTES as u32).to_be_bytes());
        head
    };
    stream.write_all(&request(wire::CMD_WRITE, 1)).unwrap();
    stream.write_all(&data).unwrap();
    let mut simple = [0; 16];
    stream.read_exact(&mut simple).unwrap();
    for cookie in 0..20 {
        stream.write_all(&request(wire::CMD_READ, cookie)).unwrap();
    }
    stream.conn.refresh_traffic_keys().unwrap();
    for _ in 0..20 {
        stream.read_exact(&mut simple).unwrap();
        let mut back = vec![0; data.len()];
        stream.read_exact(&mut back).unwrap();
        assert!(simple[4..8] == [0; 4] && back == data);
    }
    stream.write_all(&request(wire::CMD_DISC, 0)).unwrap();
    served.join().unwrap().unwrap();
    assert_eq!(stream.read(&mut simple).unwrap(), 0, "the server says that it ends");
}

#[test]
fn where_tls_is_required_nothing_is_answered_without_it() {
    let guarded = Guarded::new(true);
    let (mut client, served) = guarded.connect();
    client.hello();
    let go = [&question_name("m")[..], &[0, 0]].concat();
    for (option, data) in [
        (wire::OPT_LIST, &[][..]),
        (wire::OPT_GO, &go),
        (wire::OPT_INFO, &go),
        (wire::OPT_LIST_META_CONTEXT, &question("m", &[])),
        (wire::OPT_EXTENDED_HEADERS, &[]),
        (4711, &[]),
    ] {
        let replies = client.option(option, data);
        assert_eq!(replies.iter().map(|reply| reply.0).collect::<Vec<_>>(), [wire::REP_ERR_TLS_REQD]);
    }
    option(&mut client.0, wire::OPT_EXPORT_NAME, b"m").unwrap();
    assert_eq!(client.0.read(&mut [0; 1]).unwrap(), 0, "hangs up");
    assert!(served.join().unwrap().is_err());
    // Where TLS is optional, options negotiated in plain text are void.
    let guarded = Guarded::new(false);
    let (mut client, _) = guarded.connect();
    client.hello();
    assert_eq!(client.option(wire::OPT_STRUCTURED_REPLY, &[])[0].0, wire::REP_ACK);
    let mut stream = guarded.secure(client, Some(guarded.signer.sign("web"))).unwrap();
    option(&mut stream, wire::OPT_SET_META_CONTEXT, &question("m", &["base:allocation"])).unwrap();
    assert_eq!(reply(&mut stream).unwrap().0, wire::REP_ERR_INVALID);
}

/// A common vulnerability in other protocols: plain text injected after STARTTLS was executed as if it had been sent under TLS.
#[test]
fn what_is_sent_in_plain_text_behind_a_request_for_tls_is_not_executed() {
    let guarded = Guarded::new(true);
    let (mut client, served) = guarded.connect();
    client.hello();
    let mut bytes = Vec::new();
    option(&mut bytes, wire::OPT_STARTTLS, &[]).unwrap();
    option(&mut bytes, wire::OPT_LIST, &[]).unwrap();
    option(&mut bytes, wire::OPT_GO, &[&question_name("m")[..], &[0, 0]].concat()).unwrap();
    client.0.write_all(&bytes).unwrap();
    assert_eq!(reply(&mut client.0).unwrap().0, wire::REP_ACK, "of STARTTLS");
    let mut rest = Vec::new();
    let _ = client.0.read_to_end(&mut rest);
    // At most an alert: a record of type 21.
    assert!(rest.is_empty() || rest[0] == 21 && rest.len() < 20, "{rest:?}");
    assert!(served.join().unwrap().is_err());
}

#[test]
fn clients_that_are_not_believed_are_hung_up_on() {
    let guarded = Guarded::new(false);
    for signed in [None, Some(Signer::new().sign("web"))] {
        let (mut client, served) = guarded.connect();
        client.hello();
        // In TLS 1.3 a client learns of the refusal with the first reply.
        let refused = guarded.secure(client, signed).and_then(|mut stream| {
            option(&mut stream, wire::OPT_LIST, &[])?;
            reply(&mut stream)
        });
        assert!(refused.is_err());
        assert!(served.join().unwrap().is_err());
    }
    assert!(guarded.seen.lock().unwrap().iter().all(|client| client.names.is_none()));
}

#[test]
fn bytes_that_are_no_tls_or_that_were_changed_end_the_connection() {
    let guarded = Guarded::new(true);
    let (mut client, served) = guarded.connect();
    client.hello();
    let mut stream = guarded.secure(client, Some(guarded.signer.sign("web"))).unwrap();
    option(&mut stream, wire::OPT_GO, &[&question_name("m")[..], &[0, 0]].concat()).unwrap();
    while reply(&mut stream).unwrap().0 != wire::REP_ACK {}
    // A record that was not encrypted with the session's key.
    stream.sock.write_all(&[23, 3, 3, 0, 40]).unwrap();
    stream.sock.write_all(&[7; 40]).unwrap();
    assert!(served.join().unwrap().is_err());
    let mut rest = Vec::new();
    let _ = stream.sock.read_to_end(&mut rest);
    assert!(rest.first().is_none_or(|kind| *kind == 21 || *kind == 23), "{rest:?}");
}

#[test]
fn renewed_certificates_are_used_and_broken_ones_are_not() {
    let guarded = Guarded::new(true);
    let serial = || {
        let (mut client, served) = guarded.connect();
        client.hello();
        let stream = guarded.secure(client, Some(guarded.signer.sign("web"))).unwrap();
        let certificate = stream.conn.peer_certificates().unwrap()[0].to_vec();
        drop(stream);
        let _ = served.join().unwrap();
        certificate
    };
    let first = serial();
    assert_eq!(serial(), first);
    let (certificate, key) = guarded.signer.sign("renewed");
    let at = |name: &str| guarded.folder.path().join(name);
    std::fs::write(at("key"), key.serialize_pem() + "\n").unwrap();
    std::fs::write(at("certificate"), certificate.pem() + "\n").unwrap();
    let second = serial();
    assert_eq!(second, certificate.der().to_vec());
    std::fs::write(at("certificate"), "nonsense").unwrap();
    assert_eq!(serial(), second);
    let notes = guarded.notes.lock().unwrap().clone();
    assert!(notes[0].contains("certificate: should hold certificates in PEM"), "{notes:?}");
}

#[test]
fn a_client_that_drips_bytes_is_hung_up_on_after_the_time_of_a_handshake() {
    struct Impatient(OneExport);
    impl Entrance for Impatient {
        fn exports<'a>(&'a self, client: &Client) -> Box<dyn Exports + 'a> {
            self.0.exports(client)
        }

        fn patience(&self) -> Duration {
            Duration::from_millis(200)
        }
    }
    let (mut client, server) = UnixStream::pair().unwrap();
    let begun = Instant::now();
    let served =
        thread::spawn(move || connection::serve(server, &Impatient(OneExport(Arc::new(Memory::default()))), Origin::Unix(None)));
    let mut bytes = 3_u32.to_be_bytes().to_vec();
    (0..100).for_each(|_| option(&mut bytes, wire::OPT_LIST, &[]).unwrap());
    let mut sent = 0;
    while sent < bytes.len() && client.write_all(&bytes[sent..=sent]).is_ok() {
        sent += 1;
        thread::sleep(Duration::from_millis(5));
    }
    let error = served.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert!(begun.elapsed() < Duration::from_secs(8) && sent < bytes.len());
}
