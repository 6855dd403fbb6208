//! `seekwise learn`: measures the device parameters that the kernel needs.

mod iocost;

use anyhow::Result;

use crate::moved;

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Measure the figures of io.cost.model and io.cost.qos for a block device, or infer them from a trace of one
    ///
    /// A block device (/dev/sda) is probed for --for seconds, as root: it is read everywhere, and written only in a scratch file on one of its
    /// filesystems, which is gone afterwards, also after Ctrl-C. Nothing is set. Do it while nothing else uses the device; what others
    /// transferred meanwhile is shown. To a trace with completion times a device is fitted and probed in the simulator.
    ///
    /// The model is the device's performance with 64 outstanding requests, under its current scheduler: bytes per second of sequential requests
    /// of 512 KiB, and sequential and random requests of 4 KiB per second. Writes count as done when they are on the medium (a flush ends each
    /// sample). Where random reads of the whole device are slower than those of the scratch file, as on disks that turn, reads are those of the
    /// device, and writes are scaled as reads are. Each error is half of the 95% interval over five rounds.
    ///
    /// rlat and wlat are the 95th percentile of response times of random reads and writes at the lowest queue depth that has 95% of the
    /// highest throughput: with more requests outstanding than that, latency grows and nothing is gained. rpct and wpct are 95. min is the
    /// lowest rate, in time of the model per second, at which the device served mixed and larger random requests, errors included: so far the
    /// kernel may slow the model down where latencies are missed. max is 100: faster than the device is, weights would have no effect. Loads of
    /// the table with over 100% are slowed down to that.
    Iocost(Box<iocost::IocostArguments>),
    /// Commands that have moved.
    #[command(external_subcommand)]
    Moved(Vec<String>),
}

/// Runs the command.
///
/// # Errors
/// Wrong arguments, the device cannot be probed, or an interruption.
pub fn run(command: &Command) -> Result<()> {
    match command {
        Command::Iocost(args) => iocost::run(args),
        Command::Moved(words) => moved::learn(words),
    }
}
