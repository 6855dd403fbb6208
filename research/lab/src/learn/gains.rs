//! `seekwise-lab learn gains`: models of the gains of settings.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use anyhow::Context as _;
use experiment::gain_model;
use experiment::pool::Workers;
use research::gains::Rows;
use research::gains::gather::Recipe;
use research::gains::grow::Growth;
use research::gains::page::page;

use seekwise::number;
use seekwise::whole_file::WholeFile;
use terminal::Terminal;

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Run drawn loads of the training world, each on a drawn device of its own, under every setting; append what each gained
    Gather(GatherArgs),
    /// Train a model on gathered rows
    Train(TrainArgs),
    /// Print the page about a model (docs/reference/gain-model.md)
    Manual {
        /// The model [default: the built-in one]
        model: Option<PathBuf>,
    },
}

/// Arguments of `seekwise-lab learn gains gather`.
#[derive(clap::Args)]
pub struct GatherArgs {
    /// Number of loads, each on a device of its own
    #[arg(long, value_name = "N", value_parser = number::within::<u32>(1..=1_000_000, "loads"))]
    cases: u32,
    /// Runtime of each load
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = number::within::<u32>(16..=3_600, "seconds"))]
    seconds: u32,
    /// Seed of all draws
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = number::seed)]
    seed: u64,
    /// Number of loads to run in parallel [default: one per core]
    #[arg(long, value_name = "N", value_parser = number::within::<u16>(1..=1024, "threads"))]
    threads: Option<u16>,
    /// CSV file for the rows; one of an interrupted gathering is continued
    #[arg(short, long, value_name = "ROWS.csv")]
    output: PathBuf,
}

/// Arguments of `seekwise-lab learn gains train`.
#[derive(clap::Args)]
pub struct TrainArgs {
    /// The rows
    rows: PathBuf,
    /// Number of trees
    #[arg(long, value_name = "N", default_value_t = Growth::default().trees, value_parser = number::within::<u32>(1..=1_000, "trees"))]
    trees: u32,
    /// Least number of rows on either side of a split
    #[arg(long, value_name = "N", default_value_t = Growth::default().min_rows, value_parser = number::within::<u32>(1..=10_000, "rows"))]
    min_rows: u32,
    /// Random seed
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = number::seed)]
    seed: u64,
    /// Number of trees to grow in parallel [default: one per core]
    #[arg(long, value_name = "N", value_parser = number::within::<u16>(1..=1024, "threads"))]
    threads: Option<u16>,
    /// File for the model; compressed if the name ends in .zst
    #[arg(short, long, value_name = "MODEL.json[.zst]")]
    output: PathBuf,
}

/// Runs the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Gather(args) => gather(args),
        Command::Train(args) => train(args),
        Command::Manual { model } => Ok(terminal::print(&page(&*gain_model::load(model.as_deref())?))?),
    }
}

fn gather(args: &GatherArgs) -> anyhow::Result<()> {
    let GatherArgs { cases, seconds, seed, threads, output } = args;
    let recipe = Recipe { cases: *cases, seed: *seed, seconds: *seconds };
    let terminal = Terminal::default();
    let ran = recipe.gather(output, Workers::new(&terminal, threads.map(usize::from)))?;
    eprintln!("{ran} loads were run; {cases} are in {}", output.display());
    Ok(())
}

fn train(args: &TrainArgs) -> anyhow::Result<()> {
    let TrainArgs { rows: path, trees, min_rows, seed, threads, output } = args;
    let file = WholeFile::create(output)?;
    let name = || path.display().to_string();
    let rows = Rows::read(BufReader::new(File::open(path).with_context(name)?)).with_context(name)?;
    let terminal = Terminal::default();
    let growth = Growth { trees: *trees, min_rows: *min_rows, seed: *seed, ..Growth::default() };
    let model = research::gains::train::train(&rows, &growth, Workers::new(&terminal, threads.map(usize::from)))?;
    file.write_all(&gain_model::encode(output, &model)?)?;
    Ok(terminal::print(&page(&model))?)
}
