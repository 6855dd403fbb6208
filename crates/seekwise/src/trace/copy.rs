//! Reads a trace according to options and writes it atomically.

use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Context, bail, ensure};
use sim::trace::write::{self, About, Losses, Out, OutputFormat, TraceWriter};
use sim::trace::{self, OpenOptions, Opened, Order, TraceReader, TraceRequest};

use super::counted;
use crate::arguments::ColumnsArgument;
use crate::whole_file::WholeFile;
use terminal::{self, Interrupted, eprint_line};

/// The trace that is read.
#[derive(clap::Args)]
pub struct Source {
    /// The trace to read
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    #[command(flatten)]
    options: ReadOptions,
}

/// How traces are read.
#[derive(clap::Args)]
pub struct ReadOptions {
    /// The format that is read (`seekwise trace formats`) [default: recognised by content]
    #[arg(long)]
    pub format: Option<String>,
    #[command(flatten)]
    columns: ColumnsArgument,
    /// Skip and count damaged records instead of stopping at the first
    #[arg(long)]
    pub skip_bad: bool,
}

impl Source {
    /// Opens it.
    pub fn open(&self, order: Order) -> anyhow::Result<Opened> {
        self.options.open(&self.input, order)
    }

    /// The path, and the name of the format for messages.
    pub fn of(&self, opened: &Opened) -> (&Path, &'static str) {
        (&self.input, opened.format.name)
    }
}

impl ReadOptions {
    /// Opens a trace.
    pub fn open(&self, path: &Path, order: Order) -> anyhow::Result<Opened> {
        let (format, columns) = (self.format.clone(), self.columns.get().cloned());
        Ok(trace::open(path, &OpenOptions { format, columns, skip_bad: self.skip_bad, order, ..OpenOptions::default() })?)
    }
}

/// The trace that is written.
#[derive(clap::Args)]
pub struct Destination {
    /// The trace to write; - is standard output, for text formats only
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// The format that is written [default: by the extension of OUT]
    #[arg(long = "as", value_name = "FORMAT")]
    written_as: Option<String>,
}

impl Destination {
    /// Checks that the output can be written, before any work is done.
    pub fn begin(&self) -> anyhow::Result<Target> {
        Target::begin(&self.output, self.written_as.as_deref(), "--as")
    }
}

/// A trace that is about to be written.
pub struct Target {
    output: PathBuf,
    format: &'static OutputFormat,
    /// `None`: standard output.
    file: Option<WholeFile>,
}

impl Target {
    /// Checks that the output can be written, before any work is done. `option` is the name of the option for the format.
    pub fn begin(output: &Path, format: Option<&str>, option: &str) -> anyhow::Result<Target> {
        let format = output_format(output, format, option)?;
        let file = if output == Path::new("-") {
            expect_text(format)?;
            None
        } else {
            Some(WholeFile::create(output)?)
        };
        Ok(Target { output: output.to_owned(), format, file })
    }

    /// Folder of the output; for standard output, the folder for temporary files.
    pub fn folder(&self) -> PathBuf {
        let folder = self.output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if self.file.is_some() { folder.to_owned() } else { std::env::temp_dir() }
    }

    /// Writes all requests of a reader, and reports information that the output format cannot hold. `input` and `from` are path and format read.
    pub fn write(self, reader: &mut dyn TraceReader, (input, from): (&Path, &str)) -> anyhow::Result<()> {
        let Target { output, format, file } = self;
        let out: Out = match &file {
            Some(file) => Box::new(BufWriter::new(file.writer()?)),
            None => Box::new(BufWriter::new(io::stdout())),
        };
        let mut copy = Copy::begin(format, out, &about(input, reader), &output)?;
        let bar = terminal::progress_bar(0, "requests");
        while let Some(request) = reader.next_request() {
            copy.write(&request?, reader)?;
            if copy.requests.is_multiple_of(4096) {
                bar.set_position(copy.requests);
                stop_if_asked()?;
            }
        }
        bar.finish_and_clear();
        super::warn_of_skipped(input, reader.skipped());
        super::warn(input, reader);
        let requests = copy.finish(reader.omitted() - reader.empty().count)?;
        if requests == 0 {
            bail!("{}: no request in it is written (format {from})", input.display());
        }
        if let Some(file) = file {
            file.finish()?;
            eprint_line(&format!("{}: {}, from {from} to {}", output.display(), counted(requests, "request"), format.name));
        }
        Ok(())
    }
}

/// Fails if Ctrl-C was pressed.
pub fn stop_if_asked() -> Result<(), Interrupted> {
    if terminal::interrupted().load(Ordering::Relaxed) { Err(Interrupted) } else { Ok(()) }
}

/// Name and version of this program, for the header of a recording.
pub fn program() -> String {
    format!("seekwise {}", env!("CARGO_PKG_VERSION"))
}

/// Origin of a trace: this program, and the input file.
pub fn about(input: &Path, reader: &dyn TraceReader) -> About {
    About {
        program: program(),
        source: input.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        device: reader.recorded_device().cloned(),
    }
}

/// A trace being written, with the information that its format cannot hold.
pub struct Copy {
    output: PathBuf,
    format: &'static OutputFormat,
    writer: Box<dyn TraceWriter>,
    losses: Losses,
    /// Number of requests written.
    pub requests: u64,
}

impl Copy {
    /// Begins a trace; `output` is its name for messages.
    pub fn begin(format: &'static OutputFormat, out: Out, about: &About, output: &Path) -> anyhow::Result<Copy> {
        let writer = (format.create)(out, about).with_context(|| cannot_write(output))?;
        Ok(Copy { output: output.to_owned(), format, writer, losses: Losses::of(format), requests: 0 })
    }

    /// Writes a request, if the format can represent it.
    pub fn write(&mut self, request: &TraceRequest, names: &dyn TraceReader) -> anyhow::Result<()> {
        self.losses.see(request, names);
        if self.format.holds(request) {
            self.writer.write(request, names).with_context(|| cannot_write(&self.output))?;
            self.requests += 1;
        }
        Ok(())
    }

    /// Completes the trace, reports lost information, and returns the number of requests written. `flushes` is the number of flushes and other
    /// commands without sectors in the input, which no format can hold.
    pub fn finish(self, flushes: u64) -> anyhow::Result<u64> {
        let Copy { output, format, writer, losses, requests } = self;
        let note = writer.finish().with_context(|| cannot_write(&output))?;
        let flushes = (flushes > 0).then(|| format!("{} (flushes and the like)", counted(flushes, "empty command")));
        let lost: Vec<String> = losses.lost().map(|field| field.words().to_owned()).chain(flushes).collect();
        if !lost.is_empty() {
            eprint_line(&format!("{}: {} has no place for {}: left out", output.display(), format.name, lost.join(", ")));
        }
        if let Some(note) = note {
            eprint_line(&format!("{}: {note}", output.display()));
        }
        Ok(requests)
    }
}

fn cannot_write(output: &Path) -> String {
    format!("cannot write {}", output.display())
}

/// The format given by this option, else the one of the file's extension.
pub fn output_format(output: &Path, name: Option<&str>, option: &str) -> anyhow::Result<&'static OutputFormat> {
    let names = || write::ALL.iter().map(|format| format.name);
    let list = || names().collect::<Vec<_>>().join(", ");
    match name {
        Some(name) => write::named(name).with_context(|| {
            let meant = block::did_you_mean(name, names());
            format!("{option} {name}: traces are written as {}{meant}", list())
        }),
        None => write::by_extension(output)
            .with_context(|| format!("{}: the extension does not tell the format; give {option}: {}", output.display(), list())),
    }
}

/// Rejects binary formats on standard output.
pub fn expect_text(format: &OutputFormat) -> anyhow::Result<()> {
    ensure!(format.is_text, "{} is not text and is not written to standard output: name a file", format.name);
    Ok(())
}
