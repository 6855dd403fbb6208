//! Front doors with common clients: TLS, access control, metrics, hostile clients.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};

use super::{PROGRAM, Served, has};

/// A certificate authority; certificates are stored under the names that GnuTLS clients expect.
struct Signer(Issuer<'static, KeyPair>, String);

impl Signer {
    fn new() -> Signer {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "signer");
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Signer(Issuer::new(params, key), certificate)
    }

    /// Creates a folder with `ca-cert.pem`, `KIND-cert.pem` and `KIND-key.pem`.
    fn sign(&self, folder: &Path, kind: &str, name: &str) {
        std::fs::create_dir_all(folder).unwrap();
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.subject_alt_names.push(SanType::IpAddress([127, 0, 0, 1].into()));
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        std::fs::write(folder.join("ca-cert.pem"), &self.1).unwrap();
        std::fs::write(folder.join(format!("{kind}-cert.pem")), certificate.pem()).unwrap();
        std::fs::write(folder.join(format!("{kind}-key.pem")), key.serialize_pem()).unwrap();
    }
}

/// A free TCP port.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

/// A relay to a port that records the bytes of both directions.
fn relay(port: u16) -> (u16, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let here = listener.local_addr().unwrap().port();
    let seen = Arc::<Mutex<Vec<u8>>>::default();
    let copy = seen.clone();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), TcpStream::connect(("127.0.0.1", port)).unwrap());
            for (mut from, mut to) in [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)] {
                let copy = copy.clone();
                std::thread::spawn(move || {
                    let mut bytes = vec![0; 64 << 10];
                    while let Ok(count) = from.read(&mut bytes) {
                        copy.lock().unwrap().extend(&bytes[..count]);
                        if count == 0 || to.write_all(&bytes[..count]).is_err() {
                            break;
                        }
                    }
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    (here, seen)
}

#[test]
fn clients_of_gnutls_open_over_tls_the_volumes_that_their_certificates_may() {
    if !has("nbdinfo") || !has("qemu-img") || !has("qemu-io") {
        return;
    }
    let certificates = tempfile::tempdir().unwrap();
    let at = |name: &str| certificates.path().join(name);
    let signer = Signer::new();
    signer.sign(&at("server"), "server", "server");
    signer.sign(&at("web"), "client", "web.example.org");
    signer.sign(&at("other"), "client", "other.example.org");
    Signer::new().sign(&at("wrong"), "client", "web.example.org");
    // Trusts the server, but presents a certificate of an unknown authority.
    std::fs::copy(at("web/ca-cert.pem"), at("wrong/ca-cert.pem")).unwrap();
    let port = free_port();
    let user = rustix::process::getuid().as_raw();
    let served = Served::new(&format!(
        "[[listen]]\ntcp = '127.0.0.1:{port}'\ntls = 'require'\n[tls]\ncertificate = '{0}/server-cert.pem'\nkey = '{0}/server-key.pem'\n\
         client_ca = '{0}/ca-cert.pem'\n[[allow]]\nvolumes = ['web*']\ncertificates = ['web.example.org']\n\
         [[allow]]\nvolumes = ['private']\nusers = [{user}]\n[[store]]\nname = 'main'\npath = 'FOLDER/store'\n",
        at("server").display()
    ));
    for volume in ["web", "secret", "private"] {
        served.does(&["create", volume, "--size", "64M"]);
    }
    let info = |folder: &str, volume: &str, arguments: &[&str]| {
        let uri = format!("nbds://localhost:{port}/{volume}?tls-certificates={}", at(folder).display());
        Command::new("nbdinfo").args(arguments).arg(uri).output().unwrap()
    };
    let found = info("web", "web", &[]);
    assert!(found.status.success() && text(&found).contains("with TLS"), "{}", text(&found));
    let listed = text(&info("web", "", &["--list"]));
    assert!(listed.contains("export=\"web\"") && !listed.contains("secret") && !listed.contains("private"), "{listed}");
    for (folder, volume) in [("web", "secret"), ("web", "private"), ("other", "web"), ("wrong", "web")] {
        let refused = info(folder, volume, &[]);
        assert!(!refused.status.success(), "{folder} {volume}: {}", text(&refused));
    }
    // Without TLS no volume is listed, and a client that does not start TLS is rejected.
    for uri in [format!("nbd://localhost:{port}/web"), format!("nbd://localhost:{port}/")] {
        let plain = Command::new("nbdinfo").args(["--list", &uri]).output().unwrap();
        assert!(!plain.status.success() && !text(&plain).contains("secret"), "{}", text(&plain));
    }
    // QEMU through the recording relay.
    let (relayed, seen) = relay(port);
    let qemu = |program: &str, arguments: &[&str]| {
        let object = format!("tls-creds-x509,id=t,endpoint=client,dir={}", at("web").display());
        let image = format!("driver=nbd,server.type=inet,server.host=localhost,server.port={relayed},export=web,tls-creds=t");
        let mut command = Command::new(program);
        if program == "qemu-img" {
            command.args(arguments);
        }
        command.args(["--object", &object, "--image-opts", &image]);
        if program == "qemu-io" {
            command.args(arguments);
        }
        command.output().unwrap()
    };
    let size = qemu("qemu-img", &["info"]);
    assert!(size.status.success() && text(&size).contains("64 MiB"), "{}", text(&size));
    let io = qemu("qemu-io", &["-c", "write -P 90 0 8M", "-c", "read -P 90 0 8M", "-c", "read -P 0 8M 1M", "-c", "flush"]);
    assert!(io.status.success() && !text(&io).contains("verification failed"), "{}", text(&io));
    let seen = seen.lock().unwrap();
    assert!(seen.len() > 16 << 20 && !seen.windows(16).any(|window| window == [90; 16]), "data went in plain text");
    // Access by peer credentials of the socket, without TLS.
    served.qemu("private", &["write -P 1 0 4k", "read -P 1 0 4k"]).unwrap();
    assert!(served.qemu("web", &["read 0 4k"]).is_err());
}

#[test]
fn what_cannot_be_used_for_tls_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    Signer::new().sign(folder.path(), "server", "server");
    let other = folder.path().join("other");
    Signer::new().sign(&other, "server", "server");
    std::fs::File::create(folder.path().join("store")).unwrap().set_len(256 << 20).unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    for (certificate, key, wanted) in [
        (at("server-key.pem"), at("server-key.pem"), "server-key.pem: should hold certificates in PEM, and holds none"),
        (at("server-cert.pem"), at("store"), "store: should hold a private key in PEM"),
        (at("server-cert.pem"), at("other/server-key.pem"), "other/server-key.pem: should hold the key of "),
        (at("nothing"), at("server-key.pem"), "nothing: should hold certificates in PEM: "),
    ] {
        let text = format!(
            "catalog = '{}'\ncontrol = '{}'\n[[store]]\nname = 'a'\npath = '{}'\n[[listen]]\nunix = '{}'\ntls = 'require'\n[tls]\n\
             certificate = '{certificate}'\nkey = '{key}'\n",
            at("serve.db"),
            at("control"),
            at("store"),
            at("nbd")
        );
        std::fs::write(folder.path().join("serve.toml"), text).unwrap();
        let output = Command::new(PROGRAM).arg("--config").arg(folder.path().join("serve.toml")).output().unwrap();
        let said = self::text(&output);
        assert!(output.status.code() == Some(2) && said.contains(wanted), "{said}");
    }
}

/// Validates OpenMetrics text; returns the number of samples by name.
fn check_open_metrics(text: &str) -> Result<BTreeMap<String, usize>, String> {
    let body = text.strip_suffix("# EOF\n").ok_or("does not end with # EOF")?;
    let (mut samples, mut kinds) = (BTreeMap::<String, usize>::new(), BTreeMap::new());
    let (mut family, mut done, mut series) = (String::new(), BTreeSet::new(), BTreeSet::new());
    for line in body.lines() {
        let wrong = |why: &str| Err(format!("{why}: {line}"));
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.splitn(3, ' ');
            let (what, name, value) = (words.next().unwrap_or(""), words.next().unwrap_or(""), words.next().unwrap_or(""));
            if family != name {
                if !done.insert(name.to_owned()) {
                    return wrong("a family that is not together");
                }
                name.clone_into(&mut family);
            }
            match what {
                "TYPE" if ["counter", "gauge", "histogram", "info"].contains(&value) => {
                    drop(kinds.insert(name.to_owned(), value.to_owned()))
                }
                "UNIT" if name.ends_with(&format!("_{value}")) => {}
                "HELP" if !value.is_empty() => {}
                _ => return wrong("unknown metadata"),
            }
            continue;
        }
        let (key, value) = line.rsplit_once(' ').ok_or(format!("no value: {line}"))?;
        let number: f64 = value.parse().map_err(|_| format!("no number: {line}"))?;
        let (name, labels) = key.split_once('{').unwrap_or((key, "}"));
        let kind = kinds.get(&family).ok_or(format!("no type: {line}"))?;
        let suffix = name.strip_prefix(family.as_str()).ok_or(format!("not of its family {family}: {line}"))?;
        let right: &[&str] = match kind.as_str() {
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_sum", "_count"],
            "info" => &["_info"],
            _ => &[""],
        };
        if !right.contains(&suffix) {
            return wrong("a suffix that is not of its type");
        }
        if number.is_nan() || kind != "gauge" && number < 0.0 {
            return wrong("a value that cannot be");
        }
        let labels = labels.strip_suffix('}').ok_or(format!("no end of labels: {line}"))?;
        let names: Vec<&str> = labels
            .split("\",")
            .filter(|label| !label.is_empty())
            .map(|label| label.split_once("=\"").map_or("", |it| it.0))
            .collect();
        if names.iter().any(|name| name.is_empty()) || names.iter().collect::<BTreeSet<_>>().len() != names.len() {
            return wrong("labels that are wrong or twice");
        }
        if !series.insert(key.to_owned()) {
            return wrong("a series that is there twice");
        }
        *samples.entry(name.to_owned()).or_default() += 1;
    }
    Ok(samples)
}

/// Histogram buckets are cumulative, and the last equals the count.
fn check_histograms(text: &str) {
    let mut buckets = BTreeMap::<String, Vec<u64>>::new();
    let mut counts = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (key, value) = line.rsplit_once(' ').unwrap();
        if let Some((name, labels)) = key.split_once("_bucket{") {
            let of: Vec<&str> = labels.trim_end_matches('}').split(',').filter(|label| !label.starts_with("le=")).collect();
            buckets.entry(format!("{name}{{{}", of.join(","))).or_default().push(value.parse().unwrap());
        } else if let Some((name, labels)) = key.split_once("_count{") {
            counts.insert(format!("{name}{{{}", labels.trim_end_matches('}')), value.parse::<u64>().unwrap());
        }
    }
    assert!(!buckets.is_empty());
    for (series, buckets) in buckets {
        assert!(buckets.is_sorted() && buckets.last() == Some(&counts[&series]), "{series}: {buckets:?} {counts:?}");
    }
}

#[test]
fn metrics_are_open_metrics_under_load_and_the_dashboard_and_the_alerts_show_them() {
    if !has("qemu-io") {
        return;
    }
    let served = Served::new("metrics = 'unix:FOLDER/metrics'\n[[store]]\nname = 'disk'\nemulated = 'sata7200'\n");
    for volume in ["a", "b"] {
        served.does(&["create", volume, "--size", "16G", "--thick", "--promise", "reference = 'sata7200'", "--unchecked"]);
    }
    let scrape = || {
        let mut stream = UnixStream::connect(served.path("metrics")).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        body.to_owned()
    };
    let value = |text: &str, series: &str| -> f64 {
        let line = text.lines().find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')));
        line.unwrap_or_else(|| panic!("{series} is not in\n{text}")).rsplit(' ').next().unwrap().parse().unwrap()
    };
    served.qemu("a", &["write -P 7 0 1M", "flush"]).unwrap();
    let readers = ["a", "b"].map(|volume| served.reads_at_random(volume, 400));
    let until = Instant::now() + Duration::from_secs(20);
    // One disk cannot serve the load of two, so metrics of a violated guarantee appear.
    let under_load = loop {
        let text = scrape();
        check_open_metrics(&text).unwrap();
        check_histograms(&text);
        if text.contains("seekwise_serve_volume_broken_by{") {
            break text;
        }
        assert!(Instant::now() < until, "no promise is broken:\n{text}");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(
        under_load.contains("_volume_promise_broken{volume=\"a\",store=\"disk\"} 1")
            || under_load.contains("_volume_promise_broken{volume=\"b\",store=\"disk\"} 1"),
        "{under_load}"
    );
    assert!(value(&under_load, "seekwise_serve_store_busy_seconds_total{store=\"disk\"}") > 0.5, "{under_load}");
    for reader in readers {
        reader.join().unwrap();
    }
    std::thread::sleep(Duration::from_millis(1100));
    let text = scrape();
    for volume in ["a", "b"] {
        let of = |name: &str, operation: &str| {
            value(&text, &format!("seekwise_serve_volume_{name}{{volume=\"{volume}\",store=\"disk\",operation=\"{operation}\"}}"))
        };
        assert_eq!(of("requests_total", "read"), of("response_seconds_count", "read"), "{text}");
        assert_eq!(of("transferred_bytes_total", "read"), 400.0 * 4096.0);
    }
    assert_eq!(value(&text, "seekwise_serve_volume_response_seconds_count{volume=\"a\",store=\"disk\",operation=\"write\"}"), 1.0);
    // More than the 256 that a client may have in flight, each with a seek: the disk is slower than this client on a busy machine, too.
    let mut client = open(&served);
    let scattered = |number: u64| {
        let mut read = request(0, 512);
        read[16..24].copy_from_slice(&((number * 7_919 % 300) * (50 << 20)).to_be_bytes());
        read
    };
    client.write_all(&(0..300).flat_map(scattered).collect::<Vec<u8>>()).unwrap();
    client.read_exact(&mut vec![0; 300 * (16 + 512)]).unwrap();
    let text = scrape();
    assert!(value(&text, "seekwise_serve_volume_held_back_seconds_total{volume=\"a\",store=\"disk\"}") > 0.0, "{text}");
    assert_eq!(value(&text, "seekwise_serve_volume_clients{volume=\"a\",store=\"disk\"}"), 1.0);

    let there: BTreeSet<String> = check_open_metrics(&under_load).unwrap().into_keys().collect();
    let names = |text: &str| -> BTreeSet<String> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.filter(|word| word.starts_with("seekwise_serve_")).map(str::to_owned).collect()
    };
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let dashboard = std::fs::read_to_string(packaging.join("grafana/seekwise-serve.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let expressions =
        panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap()).map(|target| target["expr"].as_str().unwrap());
    assert_eq!(names(&expressions.collect::<Vec<_>>().join(" ")), there, "the dashboard shows every metric and no other");
    let rules = std::fs::read_to_string(packaging.join("prometheus/seekwise-serve.yml")).unwrap();
    let alerts: Vec<&str> =
        rules.lines().filter(|line| line.trim_start().starts_with("expr:") || line.contains("increase(")).collect();
    let alerted = names(&alerts.join(" "));
    assert!(alerted.len() >= 5 && alerted.is_subset(&there), "{alerted:?}");
}

/// A raw client after the handshake's greeting.
fn connect(served: &Served) -> UnixStream {
    let mut client = UnixStream::connect(served.path("nbd")).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    client.read_exact(&mut [0; 18]).unwrap();
    client.write_all(&[0, 0, 0, 3]).unwrap();
    client
}

/// A raw client that has opened volume `a`.
fn open(served: &Served) -> UnixStream {
    let mut client = connect(served);
    client.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\x01a").unwrap();
    client.read_exact(&mut [0; 10]).unwrap();
    client
}

/// Header of a request at offset 0, without data.
fn request(command: u16, bytes: u32) -> Vec<u8> {
    let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
    request.extend([0; 2]);
    request.extend(command.to_be_bytes());
    request.extend([0; 16]);
    request.extend(bytes.to_be_bytes());
    request
}

/// A user takes at most half of the places, and none from commands.
#[test]
fn a_user_with_very_many_connections_keeps_neither_others_nor_the_operator_out() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let served = Served::new(&format!(
        "[[store]]\nname = 'main'\npath = 'FOLDER/store'\nscheduler = 'none'\n[[listen]]\ntcp = '127.0.0.1:{port}'\n"
    ));
    served.does(&["create", "a", "--size", "64M"]);
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let rustix::process::Rlimit { maximum, .. } = limit;
    if maximum.is_some_and(|maximum| maximum < 8_448) {
        eprintln!("skipped: needs a limit of 8,448 open files");
        return;
    }
    rustix::process::setrlimit(rustix::process::Resource::Nofile, rustix::process::Rlimit { current: maximum, maximum }).unwrap();
    // The server has closed those beyond its limit when their first byte is missing.
    let idle: Vec<UnixStream> = (0..1100).map(|_| UnixStream::connect(served.path("nbd")).unwrap()).collect();
    let refused = idle.iter().filter(|client| {
        client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut client: &UnixStream = client;
        client.read(&mut [0; 18]).is_ok_and(|length| length == 0)
    });
    assert!(refused.count() >= 1100 - 1024, "a limit for one user");
    let begun = Instant::now();
    assert_eq!(served.status("a")["name"], "a");
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    let mut other = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut greeting = [0; 18];
    other.read_exact(&mut greeting).unwrap();
    assert!(greeting.starts_with(b"NBDMAGIC"));
}

#[test]
fn hostile_clients_keep_no_other_client_out() {
    let served = Served::file("none");
    served.does(&["create", "a", "--size", "64M"]);
    let resident_kib = || {
        let id = served.server.as_ref().unwrap().id();
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let before = resident_kib();
    // Clients that send nothing, or stop within an option, a request or its data.
    let mut silent: Vec<UnixStream> = (0..20).map(|_| UnixStream::connect(served.path("nbd")).unwrap()).collect();
    for _ in 0..20 {
        let mut client = connect(&served);
        client.write_all(b"IHAVEOPT\0\0\0\x07\0\0\x40\0").unwrap();
        silent.push(client);
        let mut client = open(&served);
        client.write_all(&request(1, 32 << 20)[..20]).unwrap();
        silent.push(client);
        let mut client = open(&served);
        client.write_all(&request(1, 1 << 20)).unwrap();
        client.write_all(&[7; 5000]).unwrap();
        silent.push(client);
    }
    // Clients that send requests and never read replies.
    let floods: Vec<UnixStream> = (0..4)
        .map(|_| {
            let mut client = open(&served);
            client.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
            let reads = request(0, 1 << 20).repeat(1000);
            while client.write_all(&reads).is_ok() {}
            client
        })
        .collect();
    // Invalid requests.
    for number in 0..20_u8 {
        let mut client = open(&served);
        let _ = client.write_all(&vec![number; 4000]);
    }
    let mut honest = open(&served);
    let begun = Instant::now();
    honest.write_all(&request(0, 4096)).unwrap();
    honest.read_exact(&mut [0; 16 + 4096]).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5), "an honest client waits {:?}", begun.elapsed());
    let grown_mib = (resident_kib() - before) / 1024;
    // 64 MiB per client that does not read, 1 MiB per client that stops within a request, 1 MiB per connection.
    let most_mib = 4 * 64 + 20 + 85;
    println!("memory grew by {grown_mib} MiB of at most {most_mib}");
    assert!(grown_mib <= most_mib);
    drop((silent, floods));
    served.wait_until_closed_but("a", 1);
    // A write with incomplete data changes nothing.
    honest.write_all(&request(0, 1 << 20)).unwrap();
    let mut data = vec![0; 16 + (1 << 20)];
    honest.read_exact(&mut data).unwrap();
    assert!(data[16..].iter().all(|byte| *byte == 0));
}
