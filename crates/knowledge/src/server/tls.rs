//! TLS to a PostgreSQL server: verification of the server, and the client certificate.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::Problem;

/// PEM files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Files {
    /// Trusted root certificates; `None`: those of the system.
    pub roots: Option<PathBuf>,
    /// Client certificate; `None`: no client authentication.
    pub certificate: Option<PathBuf>,
    /// Private key of the client certificate.
    pub key: Option<PathBuf>,
}

/// Accepted names of a server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    /// Only the host of the address.
    OfHost,
    /// Any name; only the signature is verified.
    Any,
}

/// Builds a TLS connector from the files.
///
/// # Errors
/// A file is invalid; the message names it and the problem.
pub(super) fn connector(files: &Files, names: Names) -> Result<MakeRustlsConnect, Problem> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = Arc::new(roots(files.roots.as_deref())?);
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider.clone())
        .build()
        .map_err(|error| Problem::Tls(format!("sslrootcert: {error}")))?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Problem::Tls(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { of_signers: verifier, names }));
    let config = match (&files.certificate, &files.key) {
        (None, None) => builder.with_no_client_auth(),
        (Some(certificate), Some(key)) => {
            let certificates = certificates(certificate, "sslcert")?;
            let read = PrivateKeyDer::from_pem_file(key).map_err(|error| of("sslkey", key, "a private key in PEM", &error))?;
            builder
                .with_client_auth_cert(certificates, read)
                .map_err(|error| of("sslkey", key, &format!("the key of {}", certificate.display()), &error))?
        }
        (Some(_), None) => return Err(Problem::Tls("sslcert without sslkey, which should name its private key".to_owned())),
        (None, Some(_)) => return Err(Problem::Tls("sslkey without sslcert, which should name its certificate".to_owned())),
    };
    Ok(MakeRustlsConnect::new(config))
}

fn roots(path: Option<&Path>) -> Result<RootCertStore, Problem> {
    let mut roots = RootCertStore::empty();
    match path {
        Some(path) => {
            for certificate in certificates(path, "sslrootcert")? {
                roots.add(certificate).map_err(|error| of("sslrootcert", path, "certificates of signers", &error))?;
            }
        }
        // Old roots of the system that cannot be parsed are skipped.
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        let reason = "this system trusts no signer of certificates: name the signer of the server's with sslrootcert=FILE";
        return Err(Problem::Tls(reason.to_owned()));
    }
    Ok(roots)
}

fn certificates(path: &Path, key: &str) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(found) if found.is_empty() => Err(of(key, path, "certificates in PEM", &"it holds none")),
        Ok(found) => Ok(found),
        Err(error) => Err(of(key, path, "certificates in PEM", &error)),
    }
}

fn of(key: &str, path: &Path, wanted: &str, error: &dyn fmt::Display) -> Problem {
    Problem::Tls(format!("{key}: {} should hold {wanted}: {error}", path.display()))
}

/// Verifies the signature of a certificate and, unless any name is accepted, its name.
#[derive(Debug)]
struct Verifier {
    of_signers: Arc<WebPkiServerVerifier>,
    names: Names,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        // Names are checked last, so a certificate that fails by its name is otherwise valid.
        match self.of_signers.verify_server_cert(certificate, between, name, stapled, now) {
            Err(rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) if self.names == Names::Any => {
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.of_signers.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.of_signers.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.of_signers.supported_verify_schemes()
    }
}
