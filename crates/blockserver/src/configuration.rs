//! The server's configuration: `/etc/seekwise/serve.toml`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::nbd::{Client, Origin};
use anyhow::{Context, bail, ensure};
use control::Setting;
use control::controller::ControllerChoice;
use guarantee::placement::PROMISES;
use serde::Deserialize;

use crate::access::{Access, Allow};

/// The configuration. Unknown keys are errors.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// The catalog: an SQLite file with the volumes and their extents.
    #[serde(default = "catalog")]
    pub catalog: PathBuf,
    /// Unix socket for `seekwise-serve volume`.
    #[serde(default = "control")]
    pub control: PathBuf,
    /// Files, block devices and emulated disks that hold the volumes; at least one.
    #[serde(rename = "store", default)]
    pub stores: Vec<Store>,
    /// Sockets and addresses on which clients connect; at least one.
    #[serde(rename = "listen", default)]
    pub listen: Vec<Listen>,
    /// Automatic moves; `None` disables them.
    pub moves: Option<Moves>,
    /// Address for Prometheus metrics, or `unix:` and a path; `None` disables them.
    pub metrics: Option<String>,
    /// Certificates; required if an entry of `listen` uses TLS.
    pub tls: Option<Tls>,
    /// Access rules. Without any, every client may open every volume.
    #[serde(rename = "allow", default)]
    pub allow: Vec<Allow>,
}

/// Automatic moves of volumes away from stores that cannot keep their guarantees.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moves {
    /// Whether moves are made.
    pub auto: bool,
    /// Maximum number of moves in 24 hours.
    #[serde(default = "one")]
    pub most_per_day: u32,
    /// Maximum allocated size of a volume to move.
    #[serde(default = "hundred_gib")]
    pub most_gib: u64,
    /// Copy rate.
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
    /// Maximum allocated size of a volume to move, in bytes.
    pub fn most_bytes(&self) -> u64 {
        self.most_gib.saturating_mul(1 << 30)
    }

    /// Copy rate.
    pub fn bytes_per_second(&self) -> u64 {
        self.pace_mib_s << 20
    }
}

/// TLS files, in PEM.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Certificate of the server with its intermediates.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Certificate authority of clients. If set, a client must present a certificate.
    pub client_ca: Option<PathBuf>,
    /// Certificate revocation lists for clients.
    pub client_crl: Option<PathBuf>,
}

/// Use of TLS by an entry of `listen`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UseTls {
    /// Not offered.
    #[default]
    Off,
    /// Offered.
    On,
    /// Required.
    Require,
}

fn catalog() -> PathBuf {
    PathBuf::from("/var/lib/seekwise-serve/serve.db")
}

fn control() -> PathBuf {
    PathBuf::from("/run/seekwise-serve/control.sock")
}

/// A file, block device or emulated disk that holds volumes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// Name: see [`is_name`].
    pub name: String,
    /// The file or block device. Exactly one of `path` and `emulated` is given.
    pub path: Option<PathBuf>,
    /// Disk to emulate, as for `--disk`. Data is kept in memory and lost at exit; requests take as long as on that disk.
    pub emulated: Option<String>,
    /// Model of the store's performance, as for `--disk`; required for admission control. An emulated disk is its own model.
    pub profile: Option<String>,
    /// Scheduler with its tunables. Default: `guarantee`.
    pub scheduler: Option<String>,
    /// Controller for those of scheduler, queue depth and read-ahead that are not configured; `None` disables tuning.
    pub controller: Option<String>,
    /// Maximum number of requests in flight, 1 to 1024. Default: [`DEPTH`], or that of the emulated disk.
    pub depth: Option<u32>,
    /// Maximum read-ahead for sequential readers, at most 1024. Default: 0, which disables it.
    pub read_ahead_kb: Option<u32>,
    /// Whether to bypass the page cache (`O_DIRECT`) if the file system supports it.
    #[serde(default = "yes")]
    pub direct: bool,
    /// Number of disks below the store that work in parallel, 1 to 1024.
    #[serde(default = "one")]
    pub disks: u32,
}

/// Maximum `read_ahead_kb`: the read-ahead buffer of a store holds two such chunks for each of eight readers.
const MOST_READ_AHEAD_KB: u32 = 1024;

fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
}

/// Default `depth`: the depth of a SATA drive's queue.
pub const DEPTH: u32 = 32;
/// Default copy rate of moves in bytes/s, that of the simulator's copier: 32 chunks, which take about a third of the time of a 7,200 rpm
/// disk.
pub const PACE: u64 = 8 << 20;

/// A socket or address on which clients connect: one of `unix`, `tcp` and `vhost_user`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// Unix socket for NBD.
    pub unix: Option<PathBuf>,
    /// Address and port for NBD.
    pub tcp: Option<SocketAddr>,
    /// Unix socket for a virtual machine monitor that uses vhost-user.
    pub vhost_user: Option<PathBuf>,
    /// Volume exported on a `vhost_user` socket.
    pub volume: Option<String>,
    /// Use of TLS.
    #[serde(default)]
    pub tls: UseTls,
}

impl Configuration {
    /// Reads and validates a file.
    ///
    /// # Errors
    /// The file cannot be read, or is invalid; the message names the line or key and the valid values.
    pub fn read(path: &Path) -> anyhow::Result<Configuration> {
        let text = std::fs::read_to_string(path).with_context(|| format!("{}: cannot be read", path.display()))?;
        Configuration::parse(&text).with_context(|| path.display().to_string())
    }

    /// Parses and validates the text of a configuration.
    ///
    /// # Errors
    /// The text is invalid: see [`read`](Configuration::read).
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

    /// Listener for Prometheus metrics; `None` if metrics are disabled.
    ///
    /// # Errors
    /// The address is malformed or not a loopback address.
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
                "listen: vhost_user: volume {volume}: needs a table [[allow]] without users: users of such a socket cannot be identified; its file mode restricts them"
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
            "listen: vhost_user: this program was built without it (cargo build -p seekwise-serve --features vhost-user)"
        );
        Ok(())
    }
}

impl Store {
    /// The configured or default scheduler with its tunables.
    ///
    /// # Errors
    /// The scheduler is unknown or one that learns, or a tunable is invalid.
    pub fn setting(&self) -> anyhow::Result<Setting> {
        let setting = Setting::parse_scheduler(self.scheduler.as_deref().unwrap_or(PROMISES))
            .with_context(|| format!("store {}: scheduler", self.name))?;
        ensure!(!setting.spec.learns(), "store {}: scheduler: {} learns, and learns nothing here", self.name, setting.spec.name);
        Ok(setting)
    }

    /// The configured controller with its tunables; `None` without one.
    ///
    /// # Errors
    /// The controller is unknown, or a tunable is invalid.
    pub fn controller(&self) -> anyhow::Result<Option<ControllerChoice>> {
        let parsed = self.controller.as_deref().map(twin::controller::parse).transpose();
        parsed.with_context(|| format!("store {}: controller", self.name))
    }
}

/// Whether a string is a valid name of a store or volume: 1 to 64 ASCII letters, digits, `.`, `_` and `-`, not beginning with `.` or `-`.
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
