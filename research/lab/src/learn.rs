//! `seekwise-lab learn`: gather experience; train, evaluate and show models.

mod gather;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Context as _, ensure};
use experiment::experience;
use observe::Preference;
use research::loads::mix;
use research::model::{self, ALL, Columns, Dataset, Evaluation, Learner, Model, ModelError, Options};

use seekwise::number;

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Print the features of windows and requests as a Markdown page (docs/reference/features.md)
    Features,
    /// Run workloads under every candidate and write the experience that controllers learn from
    Gather(gather::Args),
    /// Print a randomly generated job file, as `gather --random` runs them
    Draw {
        /// Number of the job file, from 0, in the order of `gather`
        number: u32,
        /// Random seed, see `gather --seed`
        #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = number::seed)]
        seed: u64,
        /// Runtime of its jobs in seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = number::within::<u32>(1..=86_400, "seconds"))]
        seconds: u32,
    },
    /// List the learners and their hyper-parameters
    List,
    /// Train a model on labelled rows
    Train(TrainArgs),
    /// Test a model on labelled rows
    Evaluate {
        /// The model
        model: PathBuf,
        /// CSV with a header line and the model's features, the last column being the class; or experience
        data: PathBuf,
        #[command(flatten)]
        columns: ColumnArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a model in readable form
    Show {
        /// The model
        model: PathBuf,
    },
}

/// Arguments of `seekwise-lab learn train`.
#[derive(clap::Args)]
pub struct TrainArgs {
    /// CSV with a header line, numeric features and the class in the last column; empty or ? for missing values. Or experience, as `gather`
    /// writes it (.json, .json.zst): the best setting of each case is its class
    data: PathBuf,
    /// Name of a learner; `all` tries every learner and keeps the best in cross-validation
    #[arg(long, value_name = "NAME|all", default_value = "all")]
    learner: String,
    #[command(flatten)]
    columns: ColumnArgs,
    /// Give every class the same total weight
    #[arg(long)]
    balanced: bool,
    /// Random seed
    #[arg(long, default_value_t = 1, value_parser = number::seed)]
    seed: u64,
    /// Set a hyper-parameter instead of searching for it; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    set: Vec<(String, f64)>,
    /// File for the model
    #[arg(short, long, value_name = "MODEL.json")]
    output: PathBuf,
}

/// Columns with special meaning.
#[derive(clap::Args)]
pub struct ColumnArgs {
    /// Column with the class [default: the last]
    #[arg(long, value_name = "COLUMN")]
    label: Option<String>,
    /// Column that groups rows, such as the windows of one run; cross-validation never splits a group
    #[arg(long, value_name = "COLUMN")]
    group: Option<String>,
    /// Column with the rows' weights
    #[arg(long, value_name = "COLUMN")]
    weight: Option<String>,
}

fn setting(text: &str) -> Result<(String, f64), String> {
    let wrong = || format!("'{text}' should be NAME=VALUE with a number, as in c=10");
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    Ok((name.to_owned(), value.parse().map_err(|_| wrong())?))
}

/// Runs the command.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Features => Ok(terminal::print(&observe::window::features_page())?),
        Command::Gather(args) => gather::run(&args),
        Command::Draw { number, seed, seconds } => Ok(terminal::print(&mix::text(seed, number, seconds))?),
        Command::List => Ok(terminal::print(&list()?)?),
        Command::Train(args) => train(&args),
        Command::Evaluate { model, data, columns, json } => evaluate(&model, &data, &columns, json),
        Command::Show { model } => Ok(terminal::print(&printable_lines(&load(&model)?.text()))?),
    }
}

/// Escapes names from a model's file, which are untrusted.
fn printable_lines(text: &str) -> String {
    text.lines().map(|line| report::printable(line) + "\n").collect()
}

fn list() -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    for learner in ALL {
        writeln!(text, "{:12} {}", learner.name(), learner.summary())?;
        for parameter in learner.parameters() {
            let candidates: Vec<String> = parameter.candidates.iter().map(f64::to_string).collect();
            writeln!(text, "  {:10} {}", parameter.name, parameter.doc)?;
            writeln!(text, "             {} to {}; tried: {}", parameter.min, parameter.max, candidates.join(", "))?;
        }
    }
    Ok(text)
}

fn read(path: &Path, columns: &ColumnArgs) -> anyhow::Result<Dataset> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    ensure!(!file.metadata()?.is_dir(), "{}: is a folder; should be a CSV file or experience", path.display());
    let ColumnArgs { label, group, weight } = columns;
    if path.extension().is_some_and(|extension| extension == "json" || extension == "zst") {
        let named = [("--label", label), ("--group", group), ("--weight", weight)];
        let named = named.into_iter().find(|(_, column)| column.is_some());
        ensure!(named.is_none(), "{}: experience has no columns: leave out {}", path.display(), named.map_or("", |(flag, _)| flag));
        let experience = experience::of_file(path).with_context(|| path.display().to_string())?;
        let all: Vec<usize> = (0..experience.settings.len()).collect();
        let data = model::dataset_among(&experience, &Preference::default(), &all);
        data.check().with_context(|| path.display().to_string())?;
        return Ok(data);
    }
    let columns = Columns { label: label.as_deref(), group: group.as_deref(), weight: weight.as_deref() };
    let data = model::read_csv(BufReader::new(file), &columns).map_err(|error| anyhow::anyhow!("{}:{error}", path.display()))?;
    data.check().with_context(|| path.display().to_string())?;
    Ok(data)
}

fn load(path: &Path) -> anyhow::Result<Model> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Model::from_json(&text).with_context(|| path.display().to_string())
}

fn train(args: &TrainArgs) -> anyhow::Result<()> {
    report::record::check_replaceable(&args.output).with_context(|| format!("--output {}", args.output.display()))?;
    let learners: Vec<&'static dyn Learner> =
        if args.learner == "all" { ALL.to_vec() } else { vec![model::learner(&args.learner).context("--learner")?] };
    let fixed: BTreeMap<String, f64> = args.set.iter().cloned().collect();
    ensure!(fixed.is_empty() || learners.len() == 1, "--set needs --learner NAME: learners have different hyper-parameters");
    let data = read(&args.data, &args.columns)?;
    let options = Options { balanced: args.balanced, seed: args.seed, fixed, ..Options::default() };
    let mut models = Vec::new();
    for learner in learners {
        models.push(train_one(&data, learner, &options)?);
    }
    let best = model::best(&models);
    report::record::replace(&args.output, models[best].to_json()?.as_bytes()).with_context(|| args.output.display().to_string())?;
    Ok(terminal::print(&outcome(&models, best, &args.output)?)?)
}

fn train_one(data: &Dataset, learner: &'static dyn Learner, options: &Options) -> anyhow::Result<Model> {
    let bar = terminal::progress_bar(1, learner.name());
    let trained = model::train(data, learner, options, &mut |done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
        !terminal::interrupted().load(Ordering::Relaxed)
    });
    bar.finish_and_clear();
    match trained {
        Err(ModelError::Interrupted) => Err(terminal::Interrupted.into()),
        trained => Ok(trained?),
    }
}

fn outcome(models: &[Model], best: usize, output: &Path) -> Result<String, std::fmt::Error> {
    let mut text = format!("{:12} {:>16} {:>12}  hyper-parameters\n", "learner", "cross-validated", "training");
    for (number, model) in models.iter().enumerate() {
        let training = model.training();
        let validated = training.cross_validated_accuracy.map_or("-".to_owned(), |accuracy| format!("{:.1}%", accuracy * 100.0));
        let parameters: Vec<String> = model.parameters().iter().map(|(name, value)| format!("{name}={value}")).collect();
        let name = model.learner().name();
        write!(text, "{name:12} {validated:>16} {:>11.1}%  {}", training.training_accuracy * 100.0, parameters.join(" "))?;
        writeln!(text, "{}", if number == best && models.len() > 1 { "  <- best" } else { "" })?;
    }
    writeln!(text, "wrote {}", output.display())?;
    Ok(text)
}

fn evaluate(model: &Path, data: &Path, columns: &ColumnArgs, json: bool) -> anyhow::Result<()> {
    let model = load(model)?;
    let rows = read(data, columns)?;
    let evaluation = Evaluation::of(&model, &rows).with_context(|| data.display().to_string())?;
    let text = if json { serde_json::to_string_pretty(&evaluation)? + "\n" } else { table(&model, &evaluation)? };
    Ok(terminal::print(&text)?)
}

fn table(model: &Model, evaluation: &Evaluation) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    let percent = |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{:.1}%", share * 100.0));
    let Evaluation { rows, accuracy, mean_confidence, classes, confusion } = evaluation;
    writeln!(
        text,
        "{}: {rows} rows, {:.1}% right, mean confidence {:.1}%\n",
        model.learner().name(),
        accuracy * 100.0,
        mean_confidence * 100.0
    )?;
    let width = classes.iter().map(|class| class.name.chars().count()).max().unwrap_or(0).clamp(5, 40);
    write!(text, "{:width$} {:>8} {:>8} {:>10}   confused with", "class", "rows", "recall", "precision")?;
    for number in 1..=classes.len() {
        write!(text, " {number:>6}")?;
    }
    writeln!(text)?;
    for (number, (class, taken)) in classes.iter().zip(confusion).enumerate() {
        let (recall, precision) = (percent(class.recall), percent(class.precision));
        write!(text, "{:width$} {:>8} {recall:>8} {precision:>10} {:>11}", report::printable(&class.name), class.rows, number + 1)?;
        for count in taken {
            write!(text, " {count:>6}")?;
        }
        writeln!(text)?;
    }
    Ok(text)
}
