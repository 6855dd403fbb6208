//! `seekwise kb export` and `seekwise kb import`.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::builder::PossibleValuesParser;
use knowledge::{ExchangeError, Form, Knowledge, Table};

use super::{came_in, counted, interrupted_exchange, receive, watched};
use crate::whole_file::WholeFile;
use terminal::eprint_line;

/// Arguments of `seekwise kb export`.
#[derive(clap::Args)]
pub struct ExportArgs {
    /// The knowledge base: a file, or a server as postgresql://user@host/database
    file: PathBuf,
    /// The table to export
    #[arg(long, default_value = "windows", value_name = "TABLE", value_parser = PossibleValuesParser::new(Table::ALL.map(Table::name)))]
    table: String,
    /// The file to write, ending in .csv or .json [default: standard output]
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Write JSON regardless of the file's extension
    #[arg(long, conflicts_with = "training")]
    json: bool,
    /// Write windows as training data: CSV of the features, with the setting as the class in the last column
    #[arg(long)]
    training: bool,
}

/// Arguments of `seekwise kb import`.
#[derive(clap::Args)]
pub struct ImportArgs {
    /// The knowledge base; created if it does not exist
    file: PathBuf,
    /// The table as CSV; its first line tells which table it is
    #[arg(value_name = "IN.csv")]
    input: PathBuf,
}

/// Runs `export`.
pub fn export(args: &ExportArgs) -> anyhow::Result<()> {
    let table = Table::ALL.into_iter().find(|table| table.name() == args.table).context("clap let an unknown table pass")?;
    let form = form(args)?;
    ensure!(form != Form::Training || table == Table::Windows, "--training: only windows are training data, not {}", args.table);
    let knowledge = Knowledge::open_to_read(&args.file)?;
    match args.output.as_deref().filter(|path| *path != Path::new("-")) {
        None => write(&knowledge, table, form, io::stdout().lock(), "standard output").map(drop),
        Some(path) => {
            let file = WholeFile::create(path)?;
            let rows = write(&knowledge, table, form, file.writer()?, &path.display().to_string())?;
            file.finish()?;
            eprint_line(&format!("{}: {}", path.display(), counted(rows, "row")));
            Ok(())
        }
    }
}

fn write(knowledge: &Knowledge, table: Table, form: Form, out: impl Write, name: &str) -> anyhow::Result<u64> {
    watched(|proceed| match knowledge.export(table, form, BufWriter::new(out), proceed) {
        Err(ExchangeError::Write(error)) => Err(error).with_context(|| format!("cannot write {name}")),
        result => result.map_err(interrupted_exchange),
    })
}

fn form(args: &ExportArgs) -> anyhow::Result<Form> {
    let ending = |ending: &str| {
        let name = args.output.as_deref().and_then(Path::extension);
        name.is_some_and(|name| name.eq_ignore_ascii_case(ending))
    };
    let to_file = args.output.as_deref().is_some_and(|path| path != Path::new("-"));
    match args {
        ExportArgs { training: true, .. } if ending("json") => bail!("--training: learners read CSV, not JSON"),
        ExportArgs { training: true, .. } => Ok(Form::Training),
        ExportArgs { json: true, .. } => Ok(Form::Json),
        _ if ending("json") => Ok(Form::Json),
        ExportArgs { output: Some(path), .. } if to_file && !ending("csv") => {
            bail!("-o {}: the name should end with .csv or .json, which selects the format", path.display())
        }
        _ => Ok(Form::Csv),
    }
}

/// Runs `import`.
pub fn import(args: &ImportArgs) -> anyhow::Result<()> {
    let text = open_text(&args.input)?;
    let (name, imported) =
        receive(&args.file, |knowledge, proceed| knowledge.import(&args.input, text, proceed).map_err(interrupted_exchange))?;
    eprint_line(&format!("{name}: {}: {}", imported.table.name(), came_in(imported.new, imported.known)));
    Ok(())
}

/// Opens a table's text. Errors for a knowledge base, JSON, a folder or a pipe say what to do instead.
fn open_text(path: &Path) -> anyhow::Result<File> {
    let name = || path.display().to_string();
    let about = fs::metadata(path).with_context(name)?;
    ensure!(!about.is_dir(), "{} is a folder: name a file that `seekwise kb export` wrote", path.display());
    ensure!(about.is_file(), "{} is a pipe or a device: name a file that `seekwise kb export` wrote", path.display());
    let mut file = File::open(path).with_context(name)?;
    let mut begin = Vec::new();
    Read::by_ref(&mut file).take(16).read_to_end(&mut begin).with_context(name)?;
    file.rewind().with_context(name)?;
    ensure!(!begin.starts_with(b"SQLite format 3\0"), "{}: is a knowledge base: use `seekwise kb merge`", path.display());
    let is_json = [&b"[\n{"[..], b"[{", b"[]"].iter().any(|json| begin.starts_with(json));
    ensure!(!is_json, "{}: is JSON, which is for other programs: export it as CSV", path.display());
    Ok(file)
}
