//! Encrypted connections to a server, and passwords: refused connections, and secrets that are never shown.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use knowledge::{Fleet, Knowledge};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::{TempDir, tempdir};

use crate::postgres::{ROLES, Server};

/// A certificate authority.
struct Signer {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Signer {
    fn new(name: &str) -> Signer {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Signer { issuer: Issuer::new(params, key), certificate }
    }

    /// Issues a certificate for this name, with its key.
    fn sign(&self, name: &str) -> (String, String) {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

const PASSWORD: &str = "correct horse:battery\\staple";

struct Scene {
    server: Server,
    folder: TempDir,
    signer: Signer,
}

impl Scene {
    /// A server `db.example.org` that requires TLS with a password of `ann` and a certificate of `cert`; `open` may connect in any way.
    fn new() -> Option<Scene> {
        let (signer, folder) = (Signer::new("signer"), tempdir().unwrap());
        let (certificate, key) = signer.sign("db.example.org");
        let rules = "local all all trust\nhostssl all cert 127.0.0.1/32 cert\nhostssl all ann 127.0.0.1/32 scram-sha-256\nhost all open 127.0.0.1/32 trust\n";
        let files = [
            ("server.crt", certificate),
            ("server.key", key),
            ("ca.crt", signer.certificate.clone()),
            ("hba.conf", rules.to_owned()),
        ];
        let options = [
            "ssl=on",
            "ssl_cert_file=FOLDER/server.crt",
            "ssl_key_file=FOLDER/server.key",
            "ssl_ca_file=FOLDER/ca.crt",
            "hba_file=FOLDER/hba.conf",
            "log_statement=all",
            "log_connections=on",
        ];
        let server = Server::listening(&files, &options)?;
        server.database("fleet");
        let _alone = ROLES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Fleet::init(&server.address("postgres", "fleet")).unwrap();
        let quoted = PASSWORD.replace('\'', "''");
        let roles = format!(
            "CREATE ROLE ann LOGIN PASSWORD '{quoted}'; CREATE ROLE cert LOGIN; CREATE ROLE open LOGIN; GRANT seekwise_agent TO ann, cert, open"
        );
        server.sql("postgres", "fleet", &roles).unwrap();
        fs::write(folder.path().join("ca.crt"), &signer.certificate).unwrap();
        Some(Scene { server, folder, signer })
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// Address of a role, with a host name of the server that does not resolve to this machine.
    fn address(&self, role: &str, host: &str, more: &str) -> PathBuf {
        let ca = self.folder.path().join("ca.crt");
        let port = self.server.port();
        PathBuf::from(format!("postgresql://{role}@{host}:{port}/fleet?hostaddr=127.0.0.1&sslrootcert={}{more}", ca.display()))
    }

    fn is_encrypted(&self, address: &Path, password: Option<&str>) -> bool {
        Fleet::connect_with_password(address, password).unwrap().is_encrypted().unwrap()
    }
}

fn refusal(address: &Path, password: Option<&str>) -> String {
    let error = Fleet::connect_with_password(address, password).unwrap_err();
    let text = format!("{error}\n{error:?}");
    assert!(!text.contains(PASSWORD) && !text.contains("battery"), "{text}");
    text
}

#[test]
fn what_leaves_the_machine_is_encrypted_and_the_server_is_the_one_that_is_meant() {
    let Some(scene) = Scene::new() else { return };
    let host = "db.example.org";
    assert!(scene.is_encrypted(&scene.address("open", host, ""), None));
    assert!(scene.is_encrypted(&scene.address("open", host, "&sslmode=require"), None));
    assert!(!scene.is_encrypted(&scene.address("open", host, "&sslmode=disable"), None), "as it says");
    // A name that differs from the certificate's is rejected, unless only the signature is verified.
    let wrong = refusal(&scene.address("open", "db.example.net", ""), None);
    assert!(wrong.contains("not valid for name") && wrong.contains("hostaddr"), "{wrong}");
    assert!(scene.is_encrypted(&scene.address("open", "db.example.net", "&sslmode=verify-ca"), None));
    // Another certificate authority.
    let other = scene.file("other.crt", &Signer::new("other").certificate);
    for mode in ["", "&sslmode=require", "&sslmode=verify-ca"] {
        let address = scene.address("open", host, &format!("{mode}&sslrootcert={}", other.display()));
        let wrong = refusal(&address, None);
        assert!(wrong.contains("sslrootcert") && wrong.contains("cannot be reached"), "{mode}: {wrong}");
    }
    // Invalid files.
    for (more, says) in [
        ("&sslrootcert=/nowhere", "sslrootcert: /nowhere should hold certificates in PEM"),
        ("&sslcert=/nowhere", "sslcert without sslkey"),
        ("&sslkey=/nowhere", "sslkey without sslcert"),
        ("&sslmode=prefer", "would send plain text to another machine"),
        ("&sslmode=on", "sslmode should be verify-full"),
    ] {
        let wrong = refusal(&scene.address("open", host, more), None);
        assert!(wrong.contains(says), "{more}: {wrong}");
    }
    // No fallback to plain text for a server without TLS.
    let Some(plain) = Server::listening(&[], &[]) else { return };
    let address = PathBuf::from(format!("postgresql://postgres@{host}:{}/postgres?hostaddr=127.0.0.1", plain.port()));
    let wrong = refusal(&address, None);
    assert!(wrong.contains("sslmode=disable") && wrong.contains("does not encrypt"), "{wrong}");
}

#[test]
fn a_machine_shows_its_certificate() {
    let Some(scene) = Scene::new() else { return };
    let (certificate, key) = scene.signer.sign("cert");
    let (certificate, key) = (scene.file("own.crt", &certificate), scene.file("own.key", &key));
    let with = |certificate: &Path, key: &Path| format!("&sslcert={}&sslkey={}", certificate.display(), key.display());
    assert!(scene.is_encrypted(&scene.address("cert", "db.example.org", &with(&certificate, &key)), None));
    // No certificate, the certificate of another role, a mismatched key, and a key that other users may read.
    let none = refusal(&scene.address("cert", "db.example.org", ""), None);
    assert!(none.contains("certificate"), "{none}");
    let (theirs, their_key) = Signer::new("other").sign("cert");
    let theirs = with(&scene.file("their.crt", &theirs), &scene.file("their.key", &their_key));
    refusal(&scene.address("cert", "db.example.org", &theirs), None);
    let mixed =
        refusal(&scene.address("cert", "db.example.org", &with(&certificate, &scene.folder.path().join("their.key"))), None);
    assert!(mixed.contains("sslkey"), "{mixed}");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let open = refusal(&scene.address("cert", "db.example.org", &with(&certificate, &key)), None);
    assert!(open.contains("mode 644 lets other users read it"), "{open}");
}

#[test]
fn a_password_comes_from_a_file_and_is_nowhere_to_be_seen() {
    let Some(scene) = Scene::new() else { return };
    let host = "db.example.org";
    assert!(scene.is_encrypted(&scene.address("ann", host, ""), Some(PASSWORD)));
    let line = format!(
        "# of the fleet\nother:*:*:ann:wrong\n{host}:{}:fleet:ann:{}\n",
        scene.server.port(),
        PASSWORD.replace('\\', "\\\\").replace(':', "\\:")
    );
    let file = scene.file("passfile", &line);
    let with_file = scene.address("ann", host, &format!("&passfile={}", file.display()));
    assert!(scene.is_encrypted(&with_file, None));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    // A file owned by root may be readable by its group.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o604)).unwrap();
    let open = refusal(&with_file, None);
    assert!(open.contains("mode 604 lets other users read it; it should be 600"), "{open}");
    let missing = refusal(&scene.address("ann", host, "&passfile=/nowhere"), None);
    assert!(missing.contains("/nowhere: No such file"), "{missing}");
    // Wrong password, and no password.
    let wrong = refusal(&scene.address("ann", host, ""), Some("battery horse"));
    assert!(wrong.contains("password authentication failed"), "{wrong}");
    refusal(&scene.address("ann", host, ""), None);
    // A password in the address works and is never shown, also if the address is invalid.
    let encoded = "correct%20horse%3Abattery%5Cstaple";
    let within =
        |host: &str| PathBuf::from(scene.address("ann", host, "").to_str().unwrap().replace("ann@", &format!("ann:{encoded}@")));
    let fleet = Fleet::connect(&within(host)).unwrap();
    assert!(!format!("{fleet:?} {}", fleet.address().display()).contains("battery"));
    for broken in [
        within("db.example.net"),
        within("db.example.org:x"),
        PathBuf::from(within(host).to_str().unwrap().replace("postgresql", "postgresq")),
    ] {
        refusal(&broken, None);
        let error = Knowledge::open(&broken).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("battery"), "{error}");
    }
    // The server's log has it only in the statement that created it.
    let log = scene.server.log();
    assert!(log.lines().filter(|line| line.contains("battery")).all(|line| line.contains("CREATE ROLE ann")), "{log}");
}
