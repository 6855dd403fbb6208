//! Parses a server's address, `postgresql://user@host:port/database?parameters`, including parameters that the client library does not
//! support.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use postgres::Config;
use postgres::config::Host;

use super::tls::{Files, Names};
use crate::error::Problem;

/// Default port.
const PORT: u16 = 5432;

/// A parsed address.
pub(super) struct Address {
    /// Configuration of the client library.
    pub config: Config,
    /// TLS files and accepted names; `None`: plain text.
    pub tls: Option<(Files, Names)>,
    /// Password file named by the address; `None` if it names none.
    passfile: Option<PathBuf>,
}

impl Address {
    /// Parses an address. Connections to other machines are encrypted unless it has `sslmode=disable`.
    pub fn parse(path: &Path) -> Result<Address, Problem> {
        let text = path.to_str().ok_or_else(|| Problem::Address("is not text in UTF-8".to_owned()))?;
        if !text.starts_with("postgresql://") && !text.starts_with("postgres://") {
            return Err(Problem::Address("begins with neither postgresql:// nor postgres://".to_owned()));
        }
        let (base, query) = text.split_once('?').unwrap_or((text, ""));
        // The rest may be part of a password, which the library would print as an unknown option.
        if query.contains('@') {
            return Err(Problem::Address("? and @ within a password or a parameter should be written %3F and %40".to_owned()));
        }
        let (mut mode, mut files, mut passfile, mut rest) = (None, Files::default(), None, Vec::new());
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let value =
                percent_decode_str(value).decode_utf8().map_err(|_| Problem::Address(format!("{key} is not text in UTF-8")))?;
            match key {
                "sslmode" => mode = Some(value.into_owned()),
                "sslrootcert" if value == "system" => {}
                "sslrootcert" => files.roots = Some(PathBuf::from(&*value)),
                "sslcert" => files.certificate = Some(PathBuf::from(&*value)),
                "sslkey" => files.key = Some(PathBuf::from(&*value)),
                "passfile" => passfile = Some(PathBuf::from(&*value)),
                _ => rest.push(parameter),
            }
        }
        let plain = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
        let mut config: Config = plain.parse().map_err(|error: postgres::Error| {
            let reason = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            Problem::Address(reason)
        })?;
        let names = names(mode.as_deref(), is_local(&config))?;
        config.ssl_mode(if names.is_some() { postgres::config::SslMode::Require } else { postgres::config::SslMode::Disable });
        Ok(Address { config, tls: names.map(|names| (files, names)), passfile })
    }

    /// The address without password and parameters, for messages.
    pub fn shown(&self) -> PathBuf {
        let host = |host: &Host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(folder) => folder.display().to_string(),
        };
        let hosts: Vec<String> = self.config.get_hosts().iter().map(host).collect();
        let port = self.config.get_ports().first().map_or_else(String::new, |port| format!(":{port}"));
        let user = self.config.get_user().map_or_else(String::new, |user| format!("{user}@"));
        let name = self.config.get_dbname().map_or_else(String::new, |name| format!("/{name}"));
        PathBuf::from(format!("postgresql://{user}{}{port}{name}", hosts.join(",")))
    }

    /// Sets the password. Sources in order: `given`, the address, `PGPASSWORD`, the file named by `passfile`, the file named by `PGPASSFILE`,
    /// `~/.pgpass`.
    ///
    /// # Errors
    /// The file cannot be read, or is readable by other users.
    pub fn add_password(&mut self, given: Option<&str>) -> Result<(), Problem> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        if let Some(given) = given {
            self.config.password(given);
        }
        if self.config.get_password().is_some() {
            return Ok(());
        }
        if let Some(password) = variable("PGPASSWORD") {
            self.config.password(std::os::unix::ffi::OsStrExt::as_bytes(password.as_os_str()));
            return Ok(());
        }
        let named = self.passfile.clone().or_else(|| variable("PGPASSFILE").map(PathBuf::from));
        let usual = || variable("HOME").map(|home| PathBuf::from(home).join(".pgpass")).filter(|path| path.is_file());
        if let Some(path) = named.or_else(usual) {
            check_private(&path)?;
            let text = fs::read_to_string(&path).map_err(|error| of_file(&path, &error))?;
            if let Some(password) = text.lines().find_map(|line| self.password_in(line)) {
                self.config.password(password);
            }
        }
        Ok(())
    }

    /// The password of a line `host:port:database:user:password`; `None` if it does not match this server. `*` matches any value; `\`
    /// escapes `:` and `\`.
    fn password_in(&self, line: &str) -> Option<String> {
        let mut fields = vec![String::new()];
        let mut letters = line.chars();
        while let Some(letter) = letters.next() {
            if letter == ':' && fields.len() < 5 {
                fields.push(String::new());
            } else if let Some(field) = fields.last_mut() {
                field.extend(if letter == '\\' { letters.next() } else { Some(letter) });
            }
        }
        let [host, port, database, user, password] = <[String; 5]>::try_from(fields).ok().filter(|_| !line.starts_with('#'))?;
        let is = |field: &str, value: &str| field == "*" || field == value;
        let is_host = self.config.get_hosts().iter().any(|known| match known {
            Host::Tcp(name) => is(&host, name),
            Host::Unix(folder) => is(&host, "localhost") || is(&host, &folder.display().to_string()),
        });
        let own_port = self.config.get_ports().first().copied().unwrap_or(PORT).to_string();
        let own_user = self.config.get_user().unwrap_or_default();
        let own_database = self.config.get_dbname().unwrap_or(own_user);
        (is_host && is(&port, &own_port) && is(&database, own_database) && is(&user, own_user)).then_some(password)
    }
}

/// Accepted names of a certificate by `sslmode`; `None`: no encryption.
fn names(mode: Option<&str>, is_local: bool) -> Result<Option<Names>, Problem> {
    match mode {
        None | Some("allow" | "prefer") if is_local => Ok(None),
        Some("disable") => Ok(None),
        None | Some("require" | "verify-full") => Ok(Some(Names::OfHost)),
        Some("verify-ca") => Ok(Some(Names::Any)),
        Some(mode @ ("allow" | "prefer")) => Err(Problem::Address(format!(
            "sslmode={mode} would send plain text to another machine if that does not encrypt; say verify-full, or disable"
        ))),
        Some(_) => Err(Problem::Address("sslmode should be verify-full, verify-ca, require, prefer or disable".to_owned())),
    }
}

/// Whether all hosts of the address are this machine.
fn is_local(config: &Config) -> bool {
    let hosts = config.get_hosts().iter().all(|host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback()),
    });
    hosts && config.get_hostaddrs().iter().all(std::net::IpAddr::is_loopback)
}

/// Rejects a secret file that other users may read, like libpq: readable by its owner only, or by the group if root owns it.
pub(super) fn check_private(path: &Path) -> Result<(), Problem> {
    let about = fs::metadata(path).map_err(|error| of_file(path, &error))?;
    let allowed = if about.uid() == 0 { 0o740 } else { 0o700 };
    if about.mode() & 0o777 & !allowed != 0 {
        let mode = about.mode() & 0o777;
        return Err(Problem::Secret(format!("{}: mode {mode:o} lets other users read it; it should be 600", path.display())));
    }
    Ok(())
}

fn of_file(path: &Path, error: &io::Error) -> Problem {
    Problem::Secret(format!("{}: {error}", path.display()))
}

/// Path or address for messages. Omits everything between `://` and the host, also if the address is invalid.
pub(crate) fn without_password(path: &Path) -> PathBuf {
    if let Ok(address) = Address::parse(path)
        && !address.config.get_hosts().is_empty()
    {
        return address.shown();
    }
    match path.to_string_lossy().split_once("://") {
        Some((scheme, rest)) if rest.contains('@') || rest.contains('?') => PathBuf::from(format!("{scheme}://...")),
        _ => path.to_owned(),
    }
}

/// Whether an address contains a password, which other users can see in a command line.
pub(crate) fn holds_password(path: &Path) -> bool {
    Address::parse(path).is_ok_and(|address| address.config.get_password().is_some())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    fn parsed(text: &str) -> Result<Address, Problem> {
        Address::parse(Path::new(text))
    }

    #[test]
    fn an_address_is_shown_without_its_password() {
        let shown = |text: &str| without_password(Path::new(text)).display().to_string();
        assert_eq!(shown("postgresql://ann:secret@db:5433/fleet?sslmode=disable"), "postgresql://ann@db:5433/fleet");
        assert_eq!(shown("postgresql://ann@db/fleet?password=secret"), "postgresql://ann@db:5432/fleet");
        assert_eq!(shown("/srv/a@b.kb"), "/srv/a@b.kb");
        for wrong in [
            "postgresql://ann:secret@db:port/fleet",
            "postgresq://ann:secret@db/fleet",
            "postgresql:///x?password=secret&y",
            "postgresql://ann:a?secret@db/fleet",
            "postgresql://ann:?secret&b@db/fleet",
            "postgresql://ann:%zz?secret&b@db/fleet",
        ] {
            assert!(!shown(wrong).contains("secret"), "{}", shown(wrong));
            let error = parsed(wrong).err().unwrap().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
        let wrong = parsed("postgresql://ann@db:port/fleet").err().unwrap();
        assert!(wrong.to_string().contains("postgresql://user@host:5432/database"), "{wrong}");
    }

    #[test]
    fn only_what_stays_on_the_machine_is_plain_unless_it_is_said() {
        let names = |text: &str| parsed(text).unwrap().tls.map(|(_, names)| names);
        for local in
            ["postgresql:///x?host=/run/postgresql", "postgresql://localhost/x", "postgresql://[::1]/x", "postgresql://127.0.0.9/x"]
        {
            assert_eq!(names(local), None, "{local}");
            assert_eq!(
                names(&(local.to_owned() + if local.contains('?') { "&" } else { "?" } + "sslmode=require")),
                Some(Names::OfHost)
            );
        }
        for other in [
            "postgresql://db/x",
            "postgresql://10.0.0.5/x",
            "postgresql://localhost,db/x",
            "postgresql://localhost/x?hostaddr=10.0.0.5",
        ] {
            assert_eq!(names(other), Some(Names::OfHost), "{other}");
        }
        assert_eq!(names("postgresql://db/x?sslmode=disable"), None);
        assert_eq!(names("postgresql://db/x?sslmode=verify-ca&sslrootcert=/a%20b"), Some(Names::Any));
        assert_eq!(parsed("postgresql://db/x?sslrootcert=/a%20b").unwrap().tls.unwrap().0.roots, Some("/a b".into()));
        for wrong in ["prefer", "allow", "", "VERIFY"] {
            let error = parsed(&format!("postgresql://db/x?sslmode={wrong}")).err().unwrap().to_string();
            assert!(error.contains("verify-full"), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_line_of_a_password_file_is_for_a_host_port_database_and_user() {
        let of = |address: &str, line: &str| parsed(address).unwrap().password_in(line);
        let (db, socket) = ("postgresql://ann@db:5433/fleet", "postgresql://ann@/fleet?host=/run/x");
        assert_eq!(of(db, "db:5433:fleet:ann:se:c\\\\ret\\:").as_deref(), Some("se:c\\ret:"));
        assert_eq!(of(db, "*:*:*:*:x").as_deref(), Some("x"));
        for other in [
            "db:5432:fleet:ann:x",
            "db2:5433:fleet:ann:x",
            "db:5433:x:ann:x",
            "db:5433:fleet:bob:x",
            "#db:5433:fleet:ann:x",
            "",
            "db:5433:fleet",
        ] {
            assert_eq!(of(db, other), None, "{other}");
        }
        assert_eq!(of(socket, "localhost:5432:fleet:ann:x").as_deref(), Some("x"));
    }
}
