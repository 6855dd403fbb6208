//! `seekwise trace convert`.

use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Context, bail, ensure};
use sim::trace::write::{self, About, Losses, Out, OutputFormat};
use sim::trace::{Opened, TraceReader};

use super::counted;
use crate::arguments::ColumnsArgument;
use crate::whole_file::WholeFile;
use terminal::eprint_line;
use terminal::{self, Interrupted};

/// Arguments of `seekwise trace convert`.
#[derive(clap::Args)]
pub struct Args {
    /// The trace to read
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The trace to write; - is standard output, for text formats only
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// The format of IN (`seekwise trace formats`) [default: recognised by content]
    #[arg(long, value_name = "FORMAT")]
    from: Option<String>,
    #[command(flatten)]
    columns: ColumnsArgument,
    /// The format of OUT [default: by its extension]
    #[arg(long, value_name = "FORMAT")]
    to: Option<String>,
    /// Skip and count damaged records instead of stopping at the first
    #[arg(long)]
    skip_bad: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let format = output_format(&args.output, args.to.as_deref())?;
    let mut opened = super::open(&args.input, args.from.as_deref(), args.columns.get(), args.skip_bad)?;
    let about = About {
        program: format!("seekwise {}", env!("CARGO_PKG_VERSION")),
        source: args.input.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        device: opened.reader.recorded_device().cloned(),
    };
    if args.output == Path::new("-") {
        expect_text(format)?;
        return copy(&mut opened, format, &about, Box::new(BufWriter::new(io::stdout())), args);
    }
    let file = WholeFile::create(&args.output)?;
    copy(&mut opened, format, &about, Box::new(BufWriter::new(file.writer()?)), args)?;
    file.finish()
}

/// The format that is asked for, or that the file's name tells.
pub(super) fn output_format(output: &Path, to: Option<&str>) -> anyhow::Result<&'static OutputFormat> {
    let names = || write::ALL.iter().map(|format| format.name).collect::<Vec<_>>().join(", ");
    match to {
        Some(name) => write::named(name).with_context(|| format!("--to {name}: traces are written as {}", names())),
        None => write::by_extension(output)
            .with_context(|| format!("{}: the extension does not tell the format; give --to: {}", output.display(), names())),
    }
}

/// Refuses to write what is no text where a terminal may be.
pub(super) fn expect_text(format: &OutputFormat) -> anyhow::Result<()> {
    ensure!(format.is_text, "{} is not text and is not written to standard output: name a file", format.name);
    Ok(())
}

/// Copies all requests and reports what the output format could not hold.
fn copy(opened: &mut Opened, format: &'static OutputFormat, about: &About, out: Out, args: &Args) -> anyhow::Result<()> {
    let output = args.output.display();
    let reader: &mut dyn TraceReader = opened.reader.as_mut();
    let cannot_write = || format!("cannot write {output}");
    let mut writer = (format.create)(out, about).with_context(cannot_write)?;
    let mut losses = Losses::of(format);
    let bar = terminal::progress_bar(0, "requests");
    let mut requests: u64 = 0;
    while let Some(request) = reader.next_request() {
        let request = request?;
        losses.see(&request, reader);
        writer.write(&request, reader).with_context(cannot_write)?;
        requests += 1;
        if requests.is_multiple_of(4096) {
            bar.set_position(requests);
            if terminal::interrupted().load(Ordering::Relaxed) {
                return Err(Interrupted.into());
            }
        }
    }
    bar.finish_and_clear();
    if requests == 0 {
        bail!("{}: no request in it transfers data (format {})", args.input.display(), opened.format.name);
    }
    let note = writer.finish().with_context(cannot_write)?;
    super::warn_of_skipped(&args.input, reader.skipped());
    super::warn(&args.input, reader);
    let lost: Vec<&str> = losses.lost().map(write::Field::words).collect();
    if !lost.is_empty() {
        eprint_line(&format!("{output}: {} has no place for {}: left out", format.name, lost.join(", ")));
    }
    if let Some(note) = note {
        eprint_line(&format!("{output}: {note}"));
    }
    if args.output != Path::new("-") {
        eprint_line(&format!("{output}: {}, from {} to {}", counted(requests, "request"), opened.format.name, format.name));
    }
    Ok(())
}
