//! The main loop: the only code that reads clocks and sleeps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use block::Nanos;
use progress::monitor::Monitor;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::Daemon;
use crate::control_socket::Server;
use crate::history::Entry;
use endpoint::notify::Notify;
use linux::clock::now;
use linux::topology::HotPlug;

/// Maximum sleep, because signals are checked in between. Choice: a longer one delays the exit, a shorter one wakes an idle machine;
/// not varied.
const LONGEST: Duration = Duration::from_millis(500);
/// Minimum sleep, so that events of a busy device are read in batches. Choice: a longer one delays decisions, a shorter one costs CPU time
/// for each batch; not varied.
pub const MIN_SLEEP: Duration = Duration::from_millis(20);

/// Inputs of the loop besides the devices.
pub struct LoopContext<'a> {
    /// The control socket; `None` if the daemon has none.
    pub control: Option<Server>,
    /// Hot-plug events; `None`: devices are polled every few seconds.
    pub hot_plug: Option<HotPlug>,
    /// systemd.
    pub notify: Notify,
    /// Set to stop the loop.
    pub stop: &'a AtomicBool,
    /// Time at which the loop ends; `None`: runs until stopped.
    pub lasts: Option<Duration>,
    /// Callback with the elapsed seconds.
    pub monitor: Option<&'a dyn Monitor>,
}

/// Runs until `stop` is set. Passes each entry of the history to `told`.
///
/// # Errors
/// An error of `told`. Settings are restored in any case.
pub fn run(daemon: &mut Daemon, context: &LoopContext, mut told: impl FnMut(&Entry) -> std::io::Result<()>) -> std::io::Result<()> {
    let began = now().at;
    let ends = context.lasts.map(|lasts| now().at + Nanos(lasts.as_nanos() as u64));
    let mut last = daemon.history().entries().next_back().map_or(0, |entry| entry.number);
    let mut lives = now().at;
    let outcome = loop {
        let moment = now();
        if context.hot_plug.as_ref().is_some_and(HotPlug::is_told) {
            daemon.devices_changed(moment);
        }
        daemon.step(moment);
        while let Some(asked) = context.control.as_ref().and_then(Server::asked) {
            let answer = daemon.answer(now(), &asked.ask, asked.is_privileged);
            asked.answer(answer);
        }
        let tells = daemon.history().entries().filter(|entry| entry.number > last).try_for_each(&mut told);
        last = daemon.history().entries().next_back().map_or(last, |entry| entry.number);
        if tells.is_err() || context.stop.load(Ordering::Relaxed) || ends.is_some_and(|ends| moment.at >= ends) {
            break tells;
        }
        if let Some(interval) = context.notify.interval().filter(|_| moment.at >= lives) {
            context.notify.lives();
            lives = moment.at + Nanos(interval.as_nanos() as u64 / 2);
        }
        if let Some(monitor) = context.monitor {
            monitor.progress((moment.at - began).0 / 1_000_000_000);
        }
        wait(daemon, context, ends);
    };
    context.notify.stopping();
    daemon.end(now());
    outcome
}

/// Sleeps until there are events, a client sends a request, or a window ends.
fn wait(daemon: &Daemon, context: &LoopContext, ends: Option<Nanos>) {
    let next = ends.map_or(daemon.next(), |ends| daemon.next().min(ends));
    let until = Duration::from_nanos((next - now().at).0).clamp(MIN_SLEEP, LONGEST);
    let Ok(timeout) = Timespec::try_from(until) else { return };
    let of_devices = daemon.sessions().flat_map(|watched| watched.source().fds());
    let fds: Vec<_> =
        of_devices.chain(context.control.as_ref().map(Server::fd)).chain(context.hot_plug.as_ref().map(HotPlug::fd)).collect();
    let mut polled: Vec<PollFd> = fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    match poll(&mut polled, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => {}
        // The pipe belongs to a device that is gone, which the next scan detects.
        Err(_) => std::thread::sleep(MIN_SLEEP),
    }
}
