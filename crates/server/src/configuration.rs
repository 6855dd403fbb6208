//! The server's configuration: `/etc/seekwise/serve.toml`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use control::Setting;
use control::controller::ControllerChoice;
use serde::Deserialize;
use serve::nbd::{Client, Origin};

use crate::access::{Access, Allow};

/// What is served, and where.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// The file with what volumes there are.
    #[serde(default = "catalog")]
    pub catalog: PathBuf,
    /// The socket for `seekwise-serve volume`.
    #[serde(default = "control")]
    pub control: PathBuf,
    /// Where data is.
    #[serde(rename = "store", default)]
    pub stores: Vec<Store>,
    /// Where clients connect.
    #[serde(rename = "listen", default)]
    pub listen: Vec<Listen>,
    /// Moves that the server makes without being asked; absent: none.
    pub moves: Option<Moves>,
    /// Where metrics for Prometheus are: an address, or `unix:` and a path; without it there are none.
    pub metrics: Option<String>,
    /// Certificates for those places that use TLS.
    pub tls: Option<Tls>,
    /// Which client may open which volume; without a table every client every volume.
    #[serde(rename = "allow", default)]
    pub allow: Vec<Allow>,
}

/// Moves that the server makes without being asked, when a store cannot keep its promises.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moves {
    /// Whether it does.
    pub auto: bool,
    /// How many in 24 hours.
    #[serde(default = "one")]
    pub most_per_day: u32,
    /// The largest volume, by what it has of its store.
    #[serde(default = "hundred_gib")]
    pub most_gib: u64,
    /// How fast volumes are copied.
    #[serde(default = "pace")]
    pub pace_mib_s: u64,
}

fn hundred_gib() -> u64 {
    100
}

fn pace() -> u64 {
    PACE >> 20
}

impl Moves {
    /// The largest volume, by what it has of its store.
    pub fn most_bytes(&self) -> u64 {
        self.most_gib.saturating_mul(1 << 30)
    }

    /// How fast volumes are copied.
    pub fn bytes_per_second(&self) -> u64 {
        self.pace_mib_s << 20
    }
}

/// Files in PEM.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The server's certificate, and those between it and a root.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Who signs certificates of clients: then a client has to show one.
    pub client_ca: Option<PathBuf>,
    /// Certificates of clients that are revoked.
    pub client_crl: Option<PathBuf>,
}

/// Whether TLS is used at a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UseTls {
    /// It is not offered.
    #[default]
    Off,
    /// Clients may use it.
    On,
    /// Clients have to use it.
    Require,
}

fn catalog() -> PathBuf {
    PathBuf::from("/var/lib/seekwise-serve/serve.db")
}

fn control() -> PathBuf {
    PathBuf::from("/run/seekwise-serve/control.sock")
}

/// A file or block device that holds volumes, or a disk that is emulated.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// What people call it.
    pub name: String,
    /// The file or block device.
    pub path: Option<PathBuf>,
    /// A disk as `--disk` names it: its data is in memory and gone at the end, replies take as long as on that disk.
    pub emulated: Option<String>,
    /// The disk that the store is like, as `--disk` names it: promises are checked against it. Of an emulated disk itself.
    pub profile: Option<String>,
    /// The scheduler with its tunables.
    pub scheduler: Option<String>,
    /// Controller of the scheduler, queue depth and read-ahead that the configuration does not set; `None` disables tuning.
    pub controller: Option<String>,
    /// Requests at the device at the same time; of an emulated disk its own.
    pub depth: Option<u32>,
    /// How far the server reads ahead of clients that read in order; absent or 0: not at all.
    pub read_ahead_kb: Option<u32>,
    /// Whether the page cache is bypassed, where the file system allows it.
    #[serde(default = "yes")]
    pub direct: bool,
    /// Disks below it that serve at the same time.
    #[serde(default = "one")]
    pub disks: u32,
}

/// The scheduler if none is given: it keeps promises.
const SCHEDULER: &str = "youchoose";
/// The largest `read_ahead_kb`: two chunks of it for eight readers are all that is held of a store.
const MOST_READ_AHEAD_KB: u32 = 1024;

fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
}

/// What `depth` is if it is not given: what a SATA drive's queue holds.
pub const DEPTH: u32 = 32;
/// The default pace of moves, in bytes a second, as of the simulator's copier: 32 chunks, which cost a 7,200 rpm disk about a third of its
/// time.
pub const PACE: u64 = 8 << 20;

/// A place where clients connect: one of the three.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// A unix socket.
    pub unix: Option<PathBuf>,
    /// An address and a port.
    pub tcp: Option<SocketAddr>,
    /// A unix socket for a virtual machine's monitor, by vhost-user.
    pub vhost_user: Option<PathBuf>,
    /// The volume at such a socket.
    pub volume: Option<String>,
    /// Whether clients may or have to use TLS.
    #[serde(default)]
    pub tls: UseTls,
}

impl Configuration {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// It cannot be read; or what is wrong, with its line or key, and what would be right.
    pub fn read(path: &Path) -> anyhow::Result<Configuration> {
        let text = std::fs::read_to_string(path).with_context(|| format!("{}: cannot be read", path.display()))?;
        Configuration::parse(&text).with_context(|| path.display().to_string())
    }

    /// The same of a text.
    ///
    /// # Errors
    /// As [`read`](Configuration::read).
    pub fn parse(text: &str) -> anyhow::Result<Configuration> {
        let configuration: Configuration = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1;
            anyhow::anyhow!("line {line}: {}", error.message().trim().replace('\n', " "))
        })?;
        configuration.check()?;
        Ok(configuration)
    }

    fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.stores.is_empty(), "store: there is none; a table [[store]] with name and path names one");
        ensure!(
            !self.listen.is_empty(),
            "listen: there is none; a table [[listen]] with unix = \"/run/seekwise-serve/nbd.sock\" names one"
        );
        for (number, store) in self.stores.iter().enumerate() {
            let key = |key: &str| format!("store {}: {key}", store.name);
            ensure!(is_name(&store.name), "store {:?}: name: letters, digits, '.', '_' and '-' are right, at most 64", store.name);
            ensure!(self.stores[..number].iter().all(|other| other.name != store.name), "{}: is named twice", key("name"));
            ensure!(store.path.is_some() != store.emulated.is_some(), "{}: give either path or emulated", key("path"));
            ensure!(store.depth.is_none_or(|depth| (1..=1024).contains(&depth)), "{}: should be 1 to 1024", key("depth"));
            ensure!((1..=1024).contains(&store.disks), "{}: should be 1 to 1024", key("disks"));
            if let Some(disk) = &store.emulated {
                ensure!(store.depth.is_none(), "{}: an emulated disk has its own", key("depth"));
                sim::profile::load(disk).with_context(|| key("emulated"))?;
            }
            if let Some(disk) = &store.profile {
                ensure!(store.emulated.is_none(), "{}: an emulated disk is its own", key("profile"));
                sim::profile::load(disk).with_context(|| key("profile"))?;
            }
            let most = MOST_READ_AHEAD_KB;
            ensure!(store.read_ahead_kb.is_none_or(|kib| kib <= most), "{}: should be 0 to {most}", key("read_ahead_kb"));
            store.setting()?;
            store.controller()?;
        }
        if let Some(moves) = &self.moves {
            ensure!((1..=1000).contains(&moves.most_per_day), "moves: most_per_day: should be 1 to 1000");
            ensure!((1..=1 << 20).contains(&moves.most_gib), "moves: most_gib: should be 1 to {}", 1 << 20);
            ensure!((1..=1 << 20).contains(&moves.pace_mib_s), "moves: pace_mib_s: should be 1 to {}", 1 << 20);
        }
        self.check_doors()
    }

    /// Where metrics for Prometheus are; `None`: there are none.
    ///
    /// # Errors
    /// It is no place, or not of this machine.
    pub fn metrics(&self) -> anyhow::Result<Option<endpoint::metrics::Listen>> {
        let Some(text) = &self.metrics else { return Ok(None) };
        let listen = text.parse().map_err(|wanted| anyhow::anyhow!("metrics = {text:?}: {wanted}"))?;
        if let endpoint::metrics::Listen::Tcp(address) = &listen {
            ensure!(
                address.ip().is_loopback(),
                "metrics = {text:?}: should be an address of this machine, as in \"127.0.0.1:9751\""
            );
        }
        Ok(Some(listen))
    }

    fn check_doors(&self) -> anyhow::Result<()> {
        self.metrics()?;
        let client_ca = self.tls.as_ref().and_then(|tls| tls.client_ca.as_ref());
        for listen in &self.listen {
            if listen.vhost_user.is_some() {
                listen.check_vhost_user()?;
                continue;
            }
            ensure!(listen.volume.is_none(), "listen: volume: is of a place with vhost_user; clients of NBD choose one");
            match (&listen.unix, &listen.tcp) {
                (Some(_), None) => {}
                (None, Some(address)) if address.ip().is_loopback() => {}
                (None, Some(_)) if listen.tls == UseTls::Require && client_ca.is_some() => {}
                (None, Some(address)) => bail!(
                    "listen: tcp = \"{address}\": without certificates of clients only addresses of this machine are served, such as \
                     127.0.0.1:10809; others need tls = \"require\" here and client_ca in the table [tls]"
                ),
                _ => bail!("listen: give either unix, tcp or vhost_user in each table"),
            }
            ensure!(listen.tls == UseTls::Off || self.tls.is_some(), "listen: tls: needs a table [tls] with certificate and key");
        }
        if let Some(tls) = &self.tls {
            ensure!(
                self.listen.iter().any(|listen| listen.tls != UseTls::Off),
                "tls: no table [[listen]] uses it: tls = \"require\""
            );
            ensure!(tls.client_crl.is_none() || client_ca.is_some(), "tls: client_crl: needs client_ca");
        }
        let access = Access::new(&self.allow)?;
        for volume in self.listen.iter().filter_map(|listen| listen.volume.as_ref()) {
            let monitor = Client { origin: Origin::Unix(None), names: None };
            ensure!(
                access.allows(&monitor, volume),
                "listen: vhost_user: volume {volume}: needs a table [[allow]] without users: who opens such a socket is not known; its mode says who may"
            );
        }
        for (number, allow) in self.allow.iter().enumerate() {
            ensure!(
                allow.certificates.is_none() || client_ca.is_some(),
                "allow: table {}: certificates: clients show none without client_ca in the table [tls]",
                number + 1
            );
        }
        Ok(())
    }
}

impl Listen {
    fn check_vhost_user(&self) -> anyhow::Result<()> {
        let is_alone = self.unix.is_none() && self.tcp.is_none() && self.tls == UseTls::Off;
        ensure!(is_alone, "listen: vhost_user: goes with volume only");
        ensure!(self.volume.as_deref().is_some_and(is_name), "listen: vhost_user: needs volume, the name of the disk's volume");
        ensure!(
            cfg!(feature = "vhost-user"),
            "listen: vhost_user: this program was built without it (cargo build -p seekwise-server --features vhost-user)"
        );
        Ok(())
    }
}

impl Store {
    /// The scheduler with its tunables.
    ///
    /// # Errors
    /// There is no such scheduler, or a tunable is wrong.
    pub fn setting(&self) -> anyhow::Result<Setting> {
        let setting = Setting::parse_scheduler(self.scheduler.as_deref().unwrap_or(SCHEDULER))
            .with_context(|| format!("store {}: scheduler", self.name))?;
        ensure!(!setting.spec.learns(), "store {}: scheduler: {} learns, and learns nothing here", self.name, setting.spec.name);
        Ok(setting)
    }

    /// The controller with its tunables; `None` if there is none.
    ///
    /// # Errors
    /// There is no such controller, or a tunable is wrong.
    pub fn controller(&self) -> anyhow::Result<Option<ControllerChoice>> {
        let parsed = self.controller.as_deref().map(twin::controller::parse).transpose();
        parsed.with_context(|| format!("store {}: controller", self.name))
    }
}

/// Whether something can be a name, also in a path and in NBD.
pub fn is_name(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    (1..=64).contains(&name.len()) && name.chars().all(is_letter) && !name.starts_with(['.', '-'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let of = |text: &str| format!("{:#}", Configuration::parse(text).unwrap_err());
        let listen = "[[listen]]\nunix = 'a.sock'\n";
        let store = |more: &str| format!("{listen}[[store]]\nname = 'a'\n{more}\n");
        for (text, wanted) in [
            ("", "store: there is none"),
            ("[[store]]\nname = 'a'\npath = 'x'", "listen: there is none"),
            ("\ncolour = 'x'", "line 2: unknown field `colour`"),
            (&store(""), "store a: path: give either path or emulated"),
            (&store("path = 'x'\nemulated = 'sata7200'"), "give either path or emulated"),
            (&store("emulated = 'sata7201'"), "store a: emulated"),
            (&store("path = 'x'\nscheduler = 'youchose'"), "store a: scheduler"),
            (&store("path = 'x'\ndepth = 0"), "store a: depth: should be 1 to 1024"),
            (&store("path = 'x'\ncontroller = 'seekwize'"), "store a: controller: there is no controller 'seekwize'"),
            (&store("path = 'x'\nread_ahead_kb = 1025"), "store a: read_ahead_kb: should be 0 to 1024"),
            ("[[listen]]\ntcp = '192.0.2.1:10809'\n[[store]]\nname = 'a'\npath = 'x'", "without certificates of clients"),
            (
                "[[listen]]\ntcp = '192.0.2.1:1'\ntls = 'require'\n[tls]\ncertificate = 'c'\nkey = 'k'\n[[store]]\nname = 'a'\npath = 'x'",
                "without certificates of clients",
            ),
            ("[[listen]]\nunix = 'a'\ntls = 'maybe'\n[[store]]\nname = 'a'\npath = 'x'", "unknown variant `maybe`"),
            ("[[listen]]\nunix = 'a'\ntls = 'on'\n[[store]]\nname = 'a'\npath = 'x'", "needs a table [tls]"),
            ("metrics = '9751'\n[[listen]]\nunix = 'a'\n[[store]]\nname = 'a'\npath = 'x'", "should be an address and a port"),
            ("metrics = '0.0.0.0:1'\n[[listen]]\nunix = 'a'\n[[store]]\nname = 'a'\npath = 'x'", "an address of this machine"),
            ("[[listen]]\nvhost_user = 'a'\n[[store]]\nname = 'a'\npath = 'x'", "needs volume"),
            ("[[listen]]\nvhost_user = 'a'\ntcp = '127.0.0.1:1'\n[[store]]\nname = 'a'\npath = 'x'", "goes with volume only"),
            ("[[listen]]\nunix = 'a'\nvolume = 'b'\n[[store]]\nname = 'a'\npath = 'x'", "clients of NBD choose one"),
            (&store("path = 'x'\n[tls]\ncertificate = 'c'\nkey = 'k'"), "no table [[listen]] uses it"),
            (&store("path = 'x'\n[[allow]]\nvolumes = ['a']\ncertificates = ['b']"), "clients show none without client_ca"),
            ("[[listen]]\n[[store]]\nname = 'a'\npath = 'x'", "give either unix, tcp or vhost_user"),
            (&format!("{listen}[[store]]\nname = '../a'\npath = 'x'"), "letters, digits"),
            (&store("path = 'x'\n[moves]\nauto = true\npace_mib_s = 0"), "moves: pace_mib_s: should be 1 to"),
            (&store("path = 'x'\n[moves]\nauto = true\nmost = 1"), "unknown field `most`"),
        ] {
            assert!(of(text).contains(wanted), "{}", of(text));
        }
        assert!(Configuration::parse(&store("path = 'x'")).is_ok());
    }
}
