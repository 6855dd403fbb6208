//! `seekwise trace sort`, `slice`, `scale` and `filter`: transformations of traces.

use std::ops::{Range, RangeInclusive};

use anyhow::ensure;
use block::{Nanos, Op};
use sim::trace::change::{Change, Changed, Filter, Scale, Slice, Unique};
use sim::trace::{Order, TraceReader, sort};

use super::copy::{Destination, Source, stop_if_asked};
use crate::number;
use terminal::{self, Interrupted};

/// Arguments of `seekwise trace sort`.
#[derive(clap::Args)]
pub struct SortArgs {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    destination: Destination,
    /// Leave out a request that is equal to another at the same time, in place, size, direction and stream
    #[arg(long)]
    unique: bool,
}

/// Sorts a trace.
pub fn sort(args: &SortArgs) -> anyhow::Result<()> {
    let target = args.destination.begin()?;
    let opened = args.source.open(Order::OfTheFile)?;
    let from = args.source.of(&opened);
    let bar = terminal::progress_bar(0, "requests read");
    let sorted = sort::sort(opened.reader, &target.folder(), |requests| {
        bar.set_position(requests);
        stop_if_asked().is_ok()
    })?;
    bar.finish_and_clear();
    let sorted = sorted.ok_or(Interrupted)?;
    if args.unique {
        return target.write(&mut Changed::new(Box::new(sorted), from.0, Unique::default()), from);
    }
    let mut sorted = sorted;
    target.write(&mut sorted, from)
}

/// Arguments of `seekwise trace slice`.
#[derive(clap::Args)]
pub struct SliceArgs {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    destination: Destination,
    /// Keep requests that arrive this long after the trace's first request or later, as in 90s, 10min or 500ms
    #[arg(long, value_name = "TIME", value_parser = number::duration)]
    from: Option<Nanos>,
    /// Keep requests that arrive less than this long after it
    #[arg(long, value_name = "TIME", value_parser = number::duration)]
    to: Option<Nanos>,
    /// Keep the requests with these numbers, from 1 in order of arrival, as in 1000..2000 (both included), 1000.. or ..2000
    #[arg(long, value_name = "FROM..TO", value_parser = number::numbers)]
    requests: Option<RangeInclusive<u64>>,
}

/// Extracts a part of a trace.
pub fn slice(args: &SliceArgs) -> anyhow::Result<()> {
    let times = args.from.unwrap_or(Nanos::ZERO)..args.to.unwrap_or(Nanos::MAX);
    ensure!(times.start < times.end, "--to {}: is not after --from {}", times.end, times.start);
    let requests = args.requests.clone().unwrap_or(1..=u64::MAX);
    changed(&args.source, &args.destination, Slice::new(times, requests))
}

/// Arguments of `seekwise trace scale`.
#[derive(clap::Args)]
pub struct ScaleArgs {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    destination: Destination,
    /// Multiply the times of arrival: 0.5 makes the trace twice as fast. Recorded response times stay
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = number::factor)]
    time: f64,
    /// Multiply offsets, in areas of 1 MiB: within an area places stay, and so do sizes. Below 1 areas come to lie on others
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = number::factor)]
    space: f64,
}

/// Stretches or shrinks a trace.
pub fn scale(args: &ScaleArgs) -> anyhow::Result<()> {
    changed(&args.source, &args.destination, Scale { time: args.time, space: args.space })
}

/// Arguments of `seekwise trace filter`.
#[derive(clap::Args)]
pub struct FilterArgs {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    destination: Destination,
    /// Keep these operations; several with commas between
    #[arg(long, value_enum, value_name = "OP", value_delimiter = ',')]
    op: Vec<OpArgument>,
    /// Keep the stream (process, thread, volume) of this name or number (`seekwise trace info`); may be given several times
    #[arg(long, value_name = "NAME|NUMBER")]
    stream: Vec<String>,
    /// Keep the device of this name or number; may be given several times
    #[arg(long, value_name = "NAME|NUMBER")]
    device: Vec<String>,
    /// Keep requests that begin in this range of bytes, its end excluded, as in 0..10G or 1T..
    #[arg(long, value_name = "FROM..TO", value_parser = number::byte_range)]
    offset: Option<Range<u64>>,
    /// Keep requests of this size in bytes, both ends included, as in 4K..64K, 1M.. or ..512
    #[arg(long, value_name = "FROM..TO", value_parser = number::size_range)]
    size: Option<RangeInclusive<u64>>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum OpArgument {
    Read,
    Write,
    Discard,
}

/// Filters the requests of a trace.
pub fn filter(args: &FilterArgs) -> anyhow::Result<()> {
    let op = |op: &OpArgument| match op {
        OpArgument::Read => Op::Read,
        OpArgument::Write => Op::Write,
        OpArgument::Discard => Op::Discard,
    };
    let filter = Filter {
        ops: args.op.iter().map(op).collect(),
        streams: args.stream.clone(),
        devices: args.device.clone(),
        offset: args.offset.clone().unwrap_or(0..u64::MAX),
        size: args.size.clone().unwrap_or(0..=u64::MAX),
    };
    changed(&args.source, &args.destination, filter)
}

fn changed(source: &Source, destination: &Destination, change: impl Change) -> anyhow::Result<()> {
    let target = destination.begin()?;
    let opened = source.open(Order::FromZero)?;
    let from = source.of(&opened);
    let mut reader = Changed::new(opened.reader, from.0, change);
    let reader: &mut dyn TraceReader = &mut reader;
    target.write(reader, from)
}
