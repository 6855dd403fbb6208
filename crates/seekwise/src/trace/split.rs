//! `seekwise trace split-by-device`: writes one file per device of a trace.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::BufWriter;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use sim::trace::write::OutputFormat;
use sim::trace::{Order, TraceReader, TraceRequest};

use super::copy::{self, Copy, Source, stop_if_asked};
use super::counted;
use terminal::{self, eprint_line};

/// Arguments of `seekwise trace split-by-device`.
#[derive(clap::Args)]
pub struct SplitArguments {
    #[command(flatten)]
    source: Source,
    /// The folder to make, with a file for each device; at most 256
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// The format that is written
    #[arg(long = "as", value_name = "FORMAT", default_value = "parquet")]
    written_as: String,
}

/// Maximum number of devices: each has an open file, and a writer may buffer 15 MB.
const MAX_DEVICES: usize = 256;
/// Maximum length of a file name without its extension, in bytes.
const NAME_BYTES: usize = 100;

/// Runs the command.
pub fn run(args: &SplitArguments) -> anyhow::Result<()> {
    let format = copy::output_format(&args.folder, Some(&args.written_as), "--as")?;
    let folder = &args.folder;
    let is_taken = fs::symlink_metadata(folder).is_ok() && fs::read_dir(folder).map_or(true, |mut files| files.next().is_some());
    ensure!(!is_taken, "{}: is there already; name a new folder", folder.display());
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut opened = args.source.open(Order::FromZero)?;
    let (input, from) = args.source.of(&opened);
    let temporary = tempfile::Builder::new()
        .prefix(".seekwise-")
        .permissions(Permissions::from_mode(0o777))
        .tempdir_in(parent)
        .with_context(|| format!("cannot write into {}", parent.display()))?;
    let reader = opened.reader.as_mut();
    let mut parts = Parts { folder: temporary.path(), input, format, parts: BTreeMap::new(), names: Vec::new() };
    let bar = terminal::progress_bar(0, "requests");
    let mut requests: u64 = 0;
    while let Some(request) = reader.next_request() {
        parts.write(request?, reader)?;
        requests += 1;
        if requests.is_multiple_of(4096) {
            bar.set_position(requests);
            stop_if_asked()?;
        }
    }
    bar.finish_and_clear();
    ensure!(requests > 0, "{}: no request in it transfers data (format {from})", input.display());
    super::warn_of_skipped(input, reader.skipped());
    super::warn(input, reader);
    let Parts { parts, .. } = parts;
    let mut lines = Vec::new();
    for part in parts.into_values() {
        let name = folder.join(&part.name);
        lines.push(format!("{}: {}", name.display(), counted(part.copy.finish(0)?, "request")));
    }
    // The rename replaces an empty folder.
    fs::rename(temporary.path(), folder).with_context(|| format!("cannot write {}", folder.display()))?;
    // The folder was renamed, so nothing is left to remove.
    let _ = temporary.keep();
    lines.iter().for_each(|line| eprint_line(line));
    Ok(())
}

/// The files.
struct Parts<'a> {
    folder: &'a Path,
    input: &'a Path,
    format: &'static OutputFormat,
    parts: BTreeMap<u32, Part>,
    /// Names in use.
    names: Vec<String>,
}

struct Part {
    name: String,
    copy: Copy,
}

impl Parts<'_> {
    fn write(&mut self, request: TraceRequest, reader: &dyn TraceReader) -> anyhow::Result<()> {
        let device = request.device;
        if !self.parts.contains_key(&device) {
            let part = self.begin(device, reader)?;
            self.parts.insert(device, part);
        }
        let Some(part) = self.parts.get_mut(&device) else { return Ok(()) };
        part.copy.write(&request, reader)
    }

    fn begin(&mut self, device: u32, reader: &dyn TraceReader) -> anyhow::Result<Part> {
        if self.parts.len() == MAX_DEVICES {
            bail!("{}: has more than {MAX_DEVICES} devices: take those you need with trace filter --device", self.input.display());
        }
        let extension = self.format.extensions.first().copied().unwrap_or(self.format.name);
        let mut stem = file_stem(device, reader.device_name(device));
        while self.names.contains(&stem) {
            stem.push('_');
        }
        self.names.push(stem.clone());
        let name = format!("{stem}.{extension}");
        let path = self.folder.join(&name);
        let file = File::create_new(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let out = Box::new(BufWriter::new(file));
        let copy = Copy::begin(self.format, out, &copy::about(self.input, reader), Path::new(&name))?;
        Ok(Part { name, copy })
    }
}

/// Converts a device's name to a file name: `8,0` is kept, `/dev/sda` becomes `dev-sda`.
fn file_stem(device: u32, name: Option<&str>) -> String {
    let is_plain = |sign: char| sign.is_alphanumeric() || matches!(sign, '.' | ',' | '_' | '-' | '+' | ':');
    let plain: String = name.unwrap_or_default().chars().map(|sign| if is_plain(sign) { sign } else { '-' }).collect();
    let plain = plain.trim_matches(['-', '.']);
    if plain.is_empty() || plain.len() > NAME_BYTES { format!("device-{device}") } else { plain.to_owned() }
}
