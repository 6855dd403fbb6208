//! `seekwise-serve store`: labels of stores, while the server is stopped.

use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use serde::Serialize;

use crate::catalog::Catalog;
use crate::configuration::{Configuration, Store};
use crate::label::{self, Found, Known, Labelled, Uuid, Version};
use crate::server::stores::{self, Accept};
use crate::store::Medium;

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// List the labels of the stores, and the stores of the catalog
    List(List),
    /// Take a store as it is, though the catalog knows another, or none
    Adopt(Adopt),
    /// Make a new catalog from the labels of the stores
    Recover(Recover),
}

/// The configuration.
#[derive(Args)]
pub struct Configured {
    /// The configuration
    #[arg(long, value_name = "FILE", default_value = "/etc/seekwise/serve.toml")]
    config: PathBuf,
}

/// Arguments of `list`.
#[derive(Args)]
pub struct List {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    configured: Configured,
}

/// Arguments of `adopt`.
#[derive(Args)]
pub struct Adopt {
    /// The store's name in the configuration
    store: String,
    /// Begin an empty store on data that are of another program, or have a damaged label
    #[arg(long)]
    overwrite: bool,
    /// Remove volumes from the catalog that were on the store, and are not on it now
    #[arg(long)]
    give_up: bool,
    #[command(flatten)]
    configured: Configured,
}

/// Arguments of `recover`.
///
/// The server must be stopped, and all stores present. A catalog that is there is renamed, and kept.
#[derive(Args)]
pub struct Recover {
    #[command(flatten)]
    configured: Configured,
}

/// Runs a command.
///
/// # Errors
/// The configuration is invalid, a server is running, or the command is not possible.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::List(List { json, configured }) => list(&configured.read()?, *json),
        Command::Adopt(adopt) => adopt.run(),
        Command::Recover(Recover { configured }) => recover(&configured.read()?),
    }
}

impl Configured {
    fn read(&self) -> anyhow::Result<Configuration> {
        Configuration::read(&self.config)
    }
}

/// A store in a list.
#[derive(Serialize)]
struct Listed {
    /// Name in the configuration.
    name: String,
    path: PathBuf,
    /// UUID in the label; `None` without one.
    uuid: Option<String>,
    /// Number of changes of the label.
    generation: Option<u64>,
    /// Names of the volumes in the label.
    volumes: Vec<String>,
    /// UUID in the catalog; `None` if it does not know the store.
    known_uuid: Option<String>,
    known_generation: Option<u64>,
    /// Why the server would not start with it; `None` if it would.
    refused: Option<String>,
}

fn list(configuration: &Configuration, is_json: bool) -> anyhow::Result<()> {
    let path = &configuration.catalog;
    let is_there = path.try_exists().with_context(|| format!("catalog: {}", path.display()))?;
    let known = if is_there {
        let catalog = Catalog::open(path).with_context(|| format!("catalog: {}", path.display()))?;
        Some((catalog.uuid()?, catalog.stores()?))
    } else {
        None
    };
    let stores = configuration.stores.iter().filter_map(|store| Some((store, store.path.as_ref()?)));
    let listed = stores.map(|(store, path)| listed(store, path.clone(), known.as_ref())).collect::<anyhow::Result<Vec<_>>>()?;
    let text = if is_json { serde_json::to_string_pretty(&listed)? + "\n" } else { lines(&listed, is_there) };
    Ok(terminal::print(&text)?)
}

fn listed(store: &Store, path: PathBuf, known: Option<&(Uuid, Known)>) -> anyhow::Result<Listed> {
    let place = || format!("store {}: path: {}", store.name, path.display());
    let medium = Medium::open(&path, store.direct).with_context(place)?;
    let found = label::read(&medium, medium.bytes()).with_context(place)?;
    let refused = match known {
        Some((uuid, known)) => {
            label::identify(&store.name, *uuid, known, &found, medium.bytes()).err().map(|why| format!("{why:#}"))
        }
        None => match &found {
            Found::Labelled(_) => Some("there is no catalog; `seekwise-serve store recover` makes one from the stores".to_owned()),
            Found::Damaged(why) => Some(why.clone()),
            Found::Blank | Found::Foreign => None,
        },
    };
    let known = known.and_then(|(_, known)| known.get(&store.name).copied().flatten());
    let (uuid, generation, volumes) = match &found {
        Found::Labelled(labelled) => {
            let Labelled { label, .. } = &**labelled;
            let Version { store, generation, .. } = label.version();
            let volumes = label.volumes().into_iter().map(|volume| volume.name).collect();
            (Some(store.to_string()), Some(generation), volumes)
        }
        Found::Blank | Found::Foreign | Found::Damaged(_) => (None, None, Vec::new()),
    };
    let (known_uuid, known_generation) = (known.map(|known| known.store.to_string()), known.map(|known| known.generation));
    Ok(Listed { name: store.name.clone(), path, uuid, generation, volumes, known_uuid, known_generation, refused })
}

fn lines(listed: &[Listed], has_catalog: bool) -> String {
    let mut text = String::new();
    if !has_catalog {
        text += "there is no catalog\n";
    }
    let version = |uuid: &Option<String>, generation: Option<u64>| match (uuid, generation) {
        (Some(uuid), Some(generation)) => format!("{uuid} generation {generation}"),
        _ => "none".to_owned(),
    };
    for store in listed {
        text += &format!("store {}: {}\n", store.name, store.path.display());
        text += &format!("  label:   {}\n", version(&store.uuid, store.generation));
        text += &format!("  catalog: {}\n", version(&store.known_uuid, store.known_generation));
        text += &format!("  volumes: {}\n", if store.volumes.is_empty() { "none".to_owned() } else { store.volumes.join(", ") });
        if let Some(why) = &store.refused {
            text += &format!("  refused: {why}\n");
        }
    }
    text
}

impl Adopt {
    fn run(&self) -> anyhow::Result<()> {
        let configuration = self.configured.read()?;
        let names: Vec<&str> = configuration.stores.iter().map(|store| store.name.as_str()).collect();
        let there = configuration.stores.iter().find(|store| store.name == self.store);
        let Some(store) = there else {
            bail!("store {}: the configuration has none of this name; there are {}", self.store, names.join(", "))
        };
        ensure!(store.path.is_some(), "store {}: is an emulated disk, which has no label", self.store);
        let path = &configuration.catalog;
        let mut catalog = Catalog::open(path).with_context(|| format!("catalog: {}", path.display()))?;
        let accept = Accept::Adopted { store: &self.store, overwrites: self.overwrite, gives_up: self.give_up };
        let (_, volumes) = stores::open(&configuration, &mut catalog, &accept)?;
        let volumes: Vec<String> =
            volumes.into_iter().filter(|volume| volume.store == self.store).map(|volume| volume.name).collect();
        let volumes = if volumes.is_empty() { "no volumes".to_owned() } else { format!("volumes {}", volumes.join(", ")) };
        Ok(terminal::print(&format!("store {}: taken, with {volumes}\n", self.store))?)
    }
}

/// Makes a catalog from the stores. It has the UUID that the stores name, so that they stay its stores.
fn recover(configuration: &Configuration) -> anyhow::Result<()> {
    let path = &configuration.catalog;
    let mut uuid = None;
    for store in &configuration.stores {
        let Some(at) = &store.path else { continue };
        let place = || format!("store {}: path: {}", store.name, at.display());
        let medium = Medium::open(at, store.direct).with_context(place)?;
        let Found::Labelled(labelled) = label::read(&medium, medium.bytes()).with_context(place)? else { continue };
        let of_it = labelled.label.catalog();
        let other = *uuid.get_or_insert(of_it);
        ensure!(
            other == of_it,
            "{}: belongs to another catalog than the stores before it; recover without it, and adopt it then",
            place()
        );
    }
    let uuid = uuid.context("store: none has a label, so that nothing can be recovered")?;
    let mut kept = None;
    if path.try_exists().with_context(|| format!("catalog: {}", path.display()))? {
        kept = Some(keep(path).with_context(|| format!("catalog: {}", path.display()))?);
    }
    let mut catalog = Catalog::recreate(path, uuid).with_context(|| format!("catalog: {}", path.display()))?;
    let made = stores::open(configuration, &mut catalog, &Accept::Stores);
    drop(catalog);
    let volumes = match made {
        Ok((_, volumes)) => volumes,
        Err(error) => {
            // An empty catalog must not be taken for the right one.
            std::fs::remove_file(path)?;
            return Err(error);
        }
    };
    if let Some(kept) = kept {
        terminal::eprint_line(&format!("the catalog that was there is now {}", kept.display()));
    }
    let names: Vec<&str> = volumes.iter().map(|volume| volume.name.as_str()).collect();
    Ok(terminal::print(&format!("catalog {}: {} volumes: {}\n", path.display(), names.len(), names.join(", ")))?)
}

/// Renames a catalog with its logs to a name that is free. A catalog in use is left alone.
fn keep(path: &std::path::Path) -> anyhow::Result<PathBuf> {
    if let Err(error) = Catalog::open(path) {
        let text = format!("{error:#}");
        ensure!(!text.contains("another server uses it"), text);
    }
    let with = |text: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(text);
        PathBuf::from(name)
    };
    let number = (1..).find(|number| !with(&format!(".kept-{number}")).exists()).context("no name is free")?;
    for log in ["", "-wal", "-journal", "-shm"] {
        let from = with(log);
        if from.try_exists()? {
            std::fs::rename(&from, with(&format!(".kept-{number}{log}")))?;
        }
    }
    Ok(with(&format!(".kept-{number}")))
}
