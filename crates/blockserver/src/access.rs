//! Access control: which client may open which volume.

use std::net::IpAddr;
use std::sync::{PoisonError, RwLock};

use crate::nbd::{Client, Origin};
use anyhow::{Context, bail, ensure};
use serde::Deserialize;

/// An `[[allow]]` table: a client that meets all its conditions may open its volumes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allow {
    /// Patterns of volume names; `*` matches any characters.
    pub volumes: Vec<String>,
    /// Patterns of names in the client's certificate, the common name or an alternative name; `*` matches any characters.
    pub certificates: Option<Vec<String>>,
    /// Users of unix sockets, by name or number.
    pub users: Option<Vec<User>>,
    /// Addresses of TCP clients, or networks such as `10.1.0.0/16`.
    pub addresses: Option<Vec<String>>,
}

/// A user of this machine, by name or number.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum User {
    /// User id.
    Number(u32),
    /// User name.
    Name(String),
}

/// An address with the length of its network prefix.
#[derive(Clone, Copy, Debug)]
struct Network {
    address: IpAddr,
    bits: u32,
}

#[derive(Debug)]
struct Rule {
    volumes: Vec<String>,
    certificates: Option<Vec<String>>,
    users: Option<Vec<u32>>,
    networks: Option<Vec<Network>>,
}

/// Access rules. Without any, every client may open every volume.
#[derive(Debug, Default)]
pub struct Access {
    rules: RwLock<Vec<Rule>>,
}

fn rules(tables: &[Allow]) -> anyhow::Result<Vec<Rule>> {
    let named = |(number, table)| Rule::new(table).with_context(|| format!("allow: table {}", number + 1));
    tables.iter().enumerate().map(named).collect()
}

impl Access {
    /// Parses the tables of a configuration.
    ///
    /// # Errors
    /// A table is empty, contradicts itself, or names an unknown user or an invalid address.
    pub fn new(tables: &[Allow]) -> anyhow::Result<Access> {
        Ok(Access { rules: RwLock::new(rules(tables)?) })
    }

    /// Replaces the rules. Clients keep the volumes they have open.
    ///
    /// # Errors
    /// As [`new`](Access::new); the previous rules then stay.
    pub fn replace(&self, tables: &[Allow]) -> anyhow::Result<()> {
        let rules = rules(tables)?;
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
        Ok(())
    }

    /// Whether a client may open a volume.
    pub fn allows(&self, client: &Client, volume: &str) -> bool {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        rules.is_empty() || rules.iter().any(|rule| rule.is_met_by(client) && any(&rule.volumes, volume))
    }
}

impl Rule {
    fn new(table: &Allow) -> anyhow::Result<Rule> {
        let Allow { volumes, certificates, users, addresses } = table;
        ensure!(!volumes.is_empty(), "volumes: names none; \"*\" is every volume");
        for (key, list) in [("certificates", certificates), ("addresses", addresses)] {
            ensure!(list.as_ref().is_none_or(|list| !list.is_empty()), "{key}: is empty, which no client meets");
        }
        ensure!(
            users.is_none() || certificates.is_none() && addresses.is_none(),
            "users are of unix sockets, certificates and addresses of TCP: no client meets both; give them in tables of their own"
        );
        let users = users.as_ref().map(|users| users.iter().map(User::number).collect::<anyhow::Result<Vec<_>>>()).transpose()?;
        let networks =
            addresses.as_ref().map(|list| list.iter().map(|text| Network::parse(text)).collect::<anyhow::Result<Vec<_>>>());
        Ok(Rule { volumes: volumes.clone(), certificates: certificates.clone(), users, networks: networks.transpose()? })
    }

    fn is_met_by(&self, client: &Client) -> bool {
        let names = client.names.as_deref().unwrap_or_default();
        let has_name = |wanted: &Vec<String>| names.iter().any(|name| any(wanted, name));
        let is_user = |users: &Vec<u32>| matches!(client.origin, Origin::Unix(Some(user)) if users.contains(&user));
        let is_near = |networks: &Vec<Network>| match client.origin {
            Origin::Tcp(address) => networks.iter().any(|network| network.has(address.ip())),
            Origin::Unix(_) => false,
        };
        self.certificates.as_ref().is_none_or(has_name)
            && self.users.as_ref().is_none_or(is_user)
            && self.networks.as_ref().is_none_or(is_near)
    }
}

impl User {
    fn number(&self) -> anyhow::Result<u32> {
        match self {
            User::Number(number) => Ok(*number),
            User::Name(name) => match nix::unistd::User::from_name(name) {
                Ok(Some(user)) => Ok(user.uid.as_raw()),
                Ok(None) => bail!("users: {name:?}: this machine has no such user"),
                Err(error) => bail!("users: {name:?}: {error}"),
            },
        }
    }
}

impl Network {
    fn parse(text: &str) -> anyhow::Result<Network> {
        let wrong = || format!("addresses: {text:?}: should be an address, or a network such as 10.1.0.0/16");
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().with_context(wrong)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).with_context(wrong)?;
        ensure!(bits <= most, wrong());
        let network = Network { address: address.to_canonical(), bits };
        ensure!(network.masked(network.address) == network.whole(network.address), "{}: has bits behind the first {bits}", wrong());
        Ok(network)
    }

    /// The address as a 128-bit number, with an IPv4 address in the upper 32 bits.
    fn whole(&self, address: IpAddr) -> u128 {
        match address {
            IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
            IpAddr::V6(address) => address.to_bits(),
        }
    }

    fn masked(&self, address: IpAddr) -> u128 {
        self.whole(address) & u128::MAX.checked_shl(128 - self.bits).unwrap_or(0)
    }

    fn has(&self, address: IpAddr) -> bool {
        // An IPv4 client of an IPv6 socket has a mapped address.
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4() && self.masked(address) == self.masked(self.address)
    }
}

/// Whether a name matches any of the patterns.
fn any(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| is_like(pattern, name))
}

/// Whether a name matches a pattern, in which `*` matches any characters.
fn is_like(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(head) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let tail = parts.pop().unwrap_or_default();
    for part in parts {
        // The first match leaves most of the name for the parts that follow.
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    name.ends_with(tail)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    fn access(text: &str) -> anyhow::Result<Access> {
        #[derive(Deserialize)]
        struct Tables {
            allow: Vec<Allow>,
        }
        Access::new(&toml::from_str::<Tables>(text)?.allow)
    }

    #[test]
    fn a_client_opens_the_volumes_of_each_table_that_matches_it() {
        let access = access(
            "[[allow]]\nvolumes = ['web', 'db-*']\ncertificates = ['*.example.org']\naddresses = ['10.1.0.0/16', '2001:db8::/32']\n\
             [[allow]]\nvolumes = ['db-1']\nusers = ['root', 4711]\n[[allow]]\nvolumes = ['public']\n",
        )
        .unwrap();
        let tcp = |address: &str, names: Option<&str>| {
            let names = names.map(|name| vec!["CN".to_owned(), name.to_owned()]);
            Client { origin: Origin::Tcp(format!("{address}:1").parse().unwrap()), names }
        };
        let unix = |user| Client { origin: Origin::Unix(user), names: None };
        for (client, volume, may) in [
            (tcp("10.1.2.3", Some("a.example.org")), "web", true),
            (tcp("[2001:db8:1::1]", Some("a.example.org")), "db-7", true),
            (tcp("[::ffff:10.1.2.3]", Some("a.example.org")), "web", true),
            (tcp("10.2.2.3", Some("a.example.org")), "web", false),
            (tcp("10.1.2.3", Some("example.org")), "web", false),
            (tcp("10.1.2.3", Some("a.example.org.evil")), "web", false),
            (tcp("10.1.2.3", None), "web", false),
            (tcp("10.1.2.3", Some("a.example.org")), "other", false),
            (tcp("10.1.2.3", Some("a.example.org")), "a-db-7", false),
            (tcp("10.9.9.9", None), "public", true),
            (unix(Some(0)), "db-1", true),
            (unix(Some(4711)), "db-1", true),
            (unix(Some(4712)), "db-1", false),
            (unix(None), "db-1", false),
            (unix(Some(0)), "db-2", false),
        ] {
            assert_eq!(access.allows(&client, volume), may, "{client} {volume}");
        }
        assert!(Access::default().allows(&unix(None), "anything"), "without tables");
    }

    #[test]
    fn stars_stand_for_any_letters() {
        for (pattern, name, is) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("*", "x", true),
            ("a*", "a", true),
            ("a*", "ba", false),
            ("*a", "ba", true),
            ("*a", "ab", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(is_like(pattern, name), is, "{pattern} {name}");
        }
    }

    #[test]
    fn tables_that_no_client_could_meet_are_errors() {
        for (text, wanted) in [
            ("volumes = []", "table 1: volumes: names none"),
            ("volumes = ['a']\nusers = ['no-such-user-here']", "this machine has no such user"),
            ("volumes = ['a']\nusers = [0]\naddresses = ['10.0.0.1']", "no client meets both"),
            ("volumes = ['a']\naddresses = ['10.0.0.1/8']", "has bits behind the first 8"),
            ("volumes = ['a']\naddresses = ['10.0.0.0/33']", "should be an address, or a network"),
            ("volumes = ['a']\naddresses = ['here']", "should be an address, or a network"),
            ("volumes = ['a']\ncertificates = []", "certificates: is empty"),
        ] {
            let said = format!("{:#}", access(&format!("[[allow]]\n{text}")).unwrap_err());
            assert!(said.contains(wanted), "{said}");
        }
    }
}
