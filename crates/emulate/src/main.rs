//! The program `seekwise-emulate`, also started as `seekwise emulate`: a block device for the kernel with the response times of a disk model.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use backing::{Backing, FileBacking, MemoryBacking};
use block::Nanos;
use clap::{CommandFactory as _, Parser};
use emulate::attach::{AttachRequest, Attached, Plan, Supervisor, recover, supervise};
use emulate::backend::{Backend as _, Serving};
use emulate::disk::Disk;
use emulate::fuse::{FILE, Fuse, FuseReply};
use emulate::null_device::NullDevice;
use seekwise::arguments::QueuePolicyArgument;
use seekwise::number;
use sim::device::Device;
use sim::profile::{DeviceOptions, Profile, load};
use terminal::{eprint_line, manual};

/// Name of the disk without service time.
const NONE: &str = "none";

/// Interval of checks of signals and state.
const LOOK: Duration = Duration::from_millis(50);

/// Interval of checks whether the machine keeps up.
const KEEPS_UP: Duration = Duration::from_secs(5);

/// Minimum interval between warnings that it does not.
const WARNS: Duration = Duration::from_secs(60);

/// Emulate a disk in real time: a file, or a block device, that is as fast as the disk's model
///
/// It holds data, at the model's pace by the wall clock, so that programs, file systems and the kernel's I/O schedulers
/// meet that disk. Runs until Ctrl-C or SIGTERM, then takes everything down and prints statistics (also on SIGUSR1): utilisation,
/// drive queue, service time, and by how much replies were later than the model wanted. SIGUSR2 makes it a new disk that holds the
/// same data, as soon as nothing is under way; then its path is printed again.
///
/// A supervising process takes everything down when this one is killed. If both are killed, `seekwise-emulate --recover` does. It
/// stays true to slow devices, such as hard disks, up to some thousand requests a second.
#[derive(Parser)]
#[command(name = "seekwise-emulate", version, max_term_width = 100, arg_required_else_help = true)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct Cli {
    #[command(flatten)]
    arguments: EmulateArguments,
    #[command(subcommand)]
    command: Option<Subcommand>,
}

/// The subcommands.
#[derive(clap::Subcommand)]
enum Subcommand {
    /// Print a shell completion script
    Completions(manual::Completions),
    /// Print this program's manual page, or write it to a folder
    Man(manual::ManualArguments),
}

/// Arguments of an emulated disk.
#[derive(clap::Args)]
struct EmulateArguments {
    /// An empty folder, where the file `disk` appears
    #[arg(value_name = "MOUNTPOINT", required_unless_present_any = ["recover", "supervise"])]
    mountpoint: Option<PathBuf>,
    /// The disk: a profile's name (`seekwise disk list`) or file, an array of disks such as
    /// `raid5:disk=atlas10k,disks=5,stripe_unit_kib=64`, or `none`, a device without service time
    #[arg(long, value_name = "NAME|FILE|ARRAY|none", default_value = "sata7200")]
    disk: String,
    /// How much of the disk there is, from its first sector on, as in `512M`, `16G` or `2T` (powers of 1024) [default: all of it, or
    /// what the file of --backing has]
    #[arg(long, value_name = "SIZE", value_parser = number::size)]
    size: Option<u64>,
    /// Number of requests the disk accepts at once [default: the profile's]
    #[arg(long, value_name = "REQUESTS", value_parser = number::within::<u32>(1..=1024, "requests"))]
    queue_depth: Option<u32>,
    /// The order in which the disk serves queued requests [default: the profile's]
    #[arg(long, value_enum)]
    queue_policy: Option<QueuePolicyArgument>,
    /// How many times as fast as the model the disk is. A disk of ten times the speed ranks `none`, `mq-deadline` and `kyber` as the
    /// disk itself does, if their times are set to a tenth; judge bfq at 1
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = number::speed_up)]
    scale: f64,
    /// Keep the data in this sparse file, created if there is none, for the next time; a flush reaches the
    /// machine's own disk [default: in memory, of which it takes as much as was written; gone at the end]
    #[arg(long, value_name = "FILE")]
    backing: Option<PathBuf>,
    /// Also set up a loop device with direct I/O on the file, its queue like the disk's, and print its name. At the end both are
    /// taken down and the queue's settings put back; unmount what is on it before, or it fails as if the disk was pulled. Needs root
    /// and losetup
    #[arg(long)]
    attach: bool,
    /// Do not subtract the overhead of the loop device and FUSE. Otherwise --attach measures it at the start, and replies leave that
    /// much earlier, so that programs see the disk's own times
    #[arg(long, requires = "attach", alias = "with-way")]
    no_overhead_compensation: bool,
    /// Print statistics as JSON: one line on standard output at the end, and on each SIGUSR1
    #[arg(long)]
    json: bool,
    /// Take down what emulated disks left behind that were killed together with their supervising processes, and do nothing else.
    /// Every start does it, too
    #[arg(long, exclusive = true)]
    recover: bool,
    /// Set up and take down for another process, by orders on standard input.
    #[arg(long, exclusive = true, hide = true)]
    supervise: bool,
}

fn main() -> ExitCode {
    seekwise::begin("seekwise-emulate");
    testbed::learned::register_learned_devices();
    let cli = seekwise::parse::<Cli>();
    let outcome = match cli.command {
        None => run(&cli.arguments),
        Some(Subcommand::Completions(arguments)) => manual::complete(&arguments, Cli::command()),
        Some(Subcommand::Man(arguments)) => manual::run(&arguments, Cli::command()),
    };
    terminal::exit_code(outcome)
}

fn run(args: &EmulateArguments) -> anyhow::Result<()> {
    if args.supervise {
        terminal::outlive_interrupts();
        supervise();
        return Ok(());
    }
    recover().iter().for_each(|text| eprint_line(text));
    match &args.mountpoint {
        Some(mountpoint) if !args.recover => emulate(args, mountpoint),
        _ => Ok(()),
    }
}

/// The emulated disk.
struct Model {
    /// Disk profile; `None` for the disk without service time.
    profile: Option<Profile>,
    options: DeviceOptions,
    size: u64,
}

impl Model {
    /// Builds the model; also returns the storage of its data.
    fn new(args: &EmulateArguments) -> anyhow::Result<(Model, Arc<dyn Backing>)> {
        let profile = if args.disk == NONE { None } else { Some(load(&args.disk)?) };
        let capacity = profile.as_ref().map_or(args.size.unwrap_or(0), |profile| profile.capacity_sectors() * 512);
        let (backing, size): (Arc<dyn Backing>, u64) = match &args.backing {
            None => (Arc::new(MemoryBacking::default()), args.size.unwrap_or(capacity)),
            Some(path) => {
                let kept = FileBacking::open(path, args.size, capacity).with_context(|| format!("--backing {}", path.display()))?;
                let size = kept.size();
                (Arc::new(kept), size)
            }
        };
        ensure!(size > 0, "--disk none: has no size of its own; give one with --size, as in --size 16G");
        ensure!(size.is_multiple_of(512), "size: {size} bytes are not whole sectors of 512");
        if let Some(profile) = &profile {
            ensure!(size <= capacity, "size: {size} bytes are more than {} has; {capacity} is the most", profile.name());
        }
        let options = DeviceOptions { queue_depth: args.queue_depth, queue_policy: args.queue_policy.map(Into::into) };
        Ok((Model { profile, options, size }, backing))
    }

    fn build(&self) -> Box<dyn Device> {
        match &self.profile {
            Some(profile) => profile.build(self.options),
            None => Box::new(NullDevice::new(self.size / 512)),
        }
    }

    fn is_rotational(&self) -> bool {
        self.profile.as_ref().is_some_and(|profile| profile.device().rotational())
    }
}

fn emulate(args: &EmulateArguments, mountpoint: &Path) -> anyhow::Result<()> {
    let place = mountpoint.canonicalize().with_context(|| format!("{}: create this folder first", mountpoint.display()))?;
    let mut entries = place.read_dir().with_context(|| mountpoint.display().to_string())?;
    ensure!(entries.next().is_none(), "{}: is not empty; name an empty folder", mountpoint.display());
    let (model, backing) = Model::new(args)?;
    let device = model.build();
    let measure = !args.no_overhead_compensation && args.disk != NONE;
    let wanted = AttachRequest { depth: u32::try_from(device.queue_depth())?, rotational: model.is_rotational(), measure };
    let source = format!("emulate-{}", std::process::id());
    let plan = Plan { source: source.clone(), file: place.join(FILE), mountpoint: place.clone() };

    let statistics_wanted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGUSR1, Arc::clone(&statistics_wanted)).context("SIGUSR1")?;
    let new_wanted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGUSR2, Arc::clone(&new_wanted)).context("SIGUSR2")?;
    let supervisor = Supervisor::start(supervising_process()?, &plan)?;
    // Only after the supervisor has started, which must keep its normal priority.
    let _latency = emulate::disk::raise_process_priority();
    let disk: Arc<Disk<FuseReply>> = Disk::start(device, model.size, args.scale, backing).context("cannot start a thread")?;
    let serving = match (Fuse { mountpoint: place, source }).start(Arc::clone(&disk)) {
        Ok(serving) => serving,
        Err(error) => {
            supervisor.finish();
            bail!(error);
        }
    };
    let path = serving.path().display().to_string();
    let supervisor = Some(supervisor);
    let mut run = Run { args, disk, model, serving, plan, path, supervisor, statistics_wanted, new_wanted };
    let outcome = run.attach(wanted).and_then(|()| run.until_asked_to_end());
    if let Some(supervisor) = run.supervisor.take() {
        supervisor.finish().iter().for_each(|text| eprint_line(text));
    }
    run.disk.stop();
    outcome?;
    run.show_statistics()
}

fn supervising_process() -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this program's own file")?);
    command.arg("--supervise");
    Ok(command)
}

/// A running emulation.
struct Run<'a> {
    args: &'a EmulateArguments,
    disk: Arc<Disk<FuseReply>>,
    model: Model,
    serving: Box<dyn Serving>,
    plan: Plan,
    /// Path of the file or loop device.
    path: String,
    supervisor: Option<Supervisor>,
    statistics_wanted: Arc<AtomicBool>,
    new_wanted: Arc<AtomicBool>,
}

impl Run<'_> {
    /// Sets up the loop device if requested, and prints the path of the disk.
    fn attach(&mut self, wanted: AttachRequest) -> anyhow::Result<()> {
        let Some(supervisor) = self.supervisor.as_mut().filter(|_| self.args.attach) else {
            return self.show_path();
        };
        self.disk.set_immediate(true);
        let attached = supervisor.attach(wanted)?;
        self.disk.set_immediate(false);
        self.disk.set_overhead(Nanos(attached.overhead_nanos.unwrap_or(0)));
        let Attached { device, depth, overhead_nanos } = attached;
        if depth != wanted.depth && self.args.disk != NONE {
            eprint_line(&format!(
                "{device}: Linux lets {depth} requests into the drive at once, and the drive takes {}",
                wanted.depth
            ));
        }
        if let Some(overhead) = overhead_nanos {
            eprint_line(&format!(
                "{device}: the transport overhead is {:.1} us, by which replies leave earlier",
                overhead as f64 / 1e3
            ));
        }
        self.path = device;
        self.show_path()
    }

    fn show_path(&self) -> anyhow::Result<()> {
        Ok(terminal::print(&format!("{}\n", self.path))?)
    }

    /// Serves until Ctrl-C, SIGTERM or an unmount.
    fn until_asked_to_end(&mut self) -> anyhow::Result<()> {
        let (mut asked, mut warned, mut renewed) = (Instant::now(), None::<Instant>, None);
        while !terminal::interrupted().load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
            if self.serving.ended() {
                bail!("{}: was unmounted by another process", self.plan.mountpoint.display());
            }
            if self.statistics_wanted.swap(false, Ordering::Relaxed) {
                self.show_statistics()?;
            }
            if self.new_wanted.swap(false, Ordering::Relaxed) {
                renewed = Some(self.model.build());
            }
            // The replacement waits until no request is outstanding.
            if let Some(device) = renewed.take() {
                match self.disk.replace_device(device) {
                    Ok(()) => self.show_path()?,
                    Err(device) => renewed = Some(device),
                }
            }
            if self.supervisor.as_mut().is_some_and(Supervisor::is_gone) {
                eprint_line("the supervising process was killed: starting another");
                self.supervisor = Some(Supervisor::start(supervising_process()?, &self.plan)?);
            }
            if asked.elapsed() >= KEEPS_UP {
                asked = Instant::now();
                let busy = self.disk.check_overload().filter(|_| self.args.disk != NONE);
                if let Some(busy) = busy.filter(|_| warned.is_none_or(|warned| warned.elapsed() >= WARNS)) {
                    warned = Some(Instant::now());
                    eprint_line(&busy.to_string());
                }
            }
        }
        Ok(())
    }

    fn show_statistics(&self) -> anyhow::Result<()> {
        let record = self.disk.record();
        if self.args.json {
            return Ok(terminal::print(&format!("{}\n", serde_json::to_string(&record)?))?);
        }
        record.to_string().lines().for_each(eprint_line);
        Ok(())
    }
}
