//! Listeners: sockets and addresses on which clients connect.

use std::fs::Permissions;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::nbd::stream::Stream;
use crate::nbd::tls::Tls;
use crate::nbd::{Client, Entrance, Export, Exports, Origin, Security, connection};
use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle, socket_peercred};
use rustix::process::{Resource, getrlimit};

use crate::access::Access;
use crate::control::{self, Ruled};
use crate::server::Server;

/// Interval at which a listener checks whether it is closed.
const LOOKS: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Maximum number of connected clients: each has two threads and [`DESCRIPTORS`]. Half of them may be of one peer.
const MOST_CLIENTS: usize = 2048;
/// Maximum number of connections to the control socket, which clients do not take places from.
const MOST_OPERATORS: usize = 64;
/// File descriptors of a client.
const DESCRIPTORS: u64 = 4;
/// File descriptors that are not for clients: stores, catalog, listeners and commands.
const OTHER_DESCRIPTORS: u64 = 256;
/// Maximum time to wait for outstanding requests when the server ends.
const FAREWELL: Duration = Duration::from_secs(30);

/// Idle time after which a TCP connection is probed (keep-alive).
const IDLE: Duration = Duration::from_secs(60);

/// Context of a listener: the volumes, access rules and TLS.
#[derive(Clone)]
pub struct Gate {
    /// Volumes.
    pub server: Arc<Server>,
    /// Access rules.
    pub access: Arc<Access>,
    /// TLS; `None` if it is not offered.
    pub tls: Option<Arc<Tls>>,
    /// Whether clients must use TLS.
    pub requires_tls: bool,
}

impl Entrance for Gate {
    fn exports<'a>(&'a self, client: &Client) -> Box<dyn Exports + 'a> {
        Box::new(Open { server: &self.server, access: &self.access, client: client.clone() })
    }

    fn security(&self) -> Security<'_> {
        match &self.tls {
            None => Security::Plain,
            Some(tls) if self.requires_tls => Security::Required(tls),
            Some(tls) => Security::Offered(tls),
        }
    }

    fn note(&self, text: &str) {
        tracing::error!("tls: {text}; the certificates that were read before are used");
    }
}

/// The volumes that one client may open.
struct Open<'a> {
    server: &'a Server,
    access: &'a Access,
    client: Client,
}

impl Exports for Open<'_> {
    fn list(&self) -> Vec<(String, String)> {
        let mut volumes = self.server.list();
        volumes.retain(|(name, _)| self.access.allows(&self.client, name));
        volumes
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Export>, String> {
        // The empty name stands for the only volume that the client may open.
        let name = match name {
            "" => match <[_; 1]>::try_from(self.list()) {
                Ok([(only, _)]) => only,
                Err(_) => String::new(),
            },
            name => name.to_owned(),
        };
        if !self.access.allows(&self.client, &name) {
            tracing::warn!(client = %self.client, volume = ?name, "a client was refused a volume that no [[allow]] opens to it");
            // As for a volume that does not exist, so that the client does not learn of this one.
            return Err("there is no volume of this name".to_owned());
        }
        self.server.open(&name)
    }
}

/// Owner of a connection, for the limits of their number.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Peer {
    /// A user of this machine; `None` if unknown.
    User(Option<u32>),
    /// Another machine.
    Machine(IpAddr),
    /// A client of the control socket.
    Operator,
}

/// Connections by their numbers, with the functions that shut them down.
type Streams = std::collections::BTreeMap<u64, (Peer, Box<dyn FnOnce() + Send>)>;

/// The connected clients.
#[derive(Default)]
struct Clients {
    open: Mutex<(u64, Streams)>,
    gone: Condvar,
}

impl Clients {
    /// Adds a client, with the function that shuts it down, and returns its number.
    ///
    /// # Errors
    /// There are too many, or too many of this peer: the limit.
    fn add(&self, peer: Peer, end: Box<dyn FnOnce() + Send>) -> Result<u64, usize> {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX).saturating_sub(OTHER_DESCRIPTORS);
        let most = usize::try_from(descriptors / DESCRIPTORS).unwrap_or(MOST_CLIENTS).clamp(2, MOST_CLIENTS);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let of_peer = open.1.values().filter(|(other, _)| *other == peer).count();
        let (there, most) = match peer {
            Peer::Operator => (of_peer, MOST_OPERATORS),
            // The other half is for peers that are not there yet.
            _ if of_peer >= most / 2 => (of_peer, most / 2),
            _ => (open.1.values().filter(|(other, _)| *other != Peer::Operator).count(), most),
        };
        if there >= most {
            return Err(most);
        }
        open.0 += 1;
        let number = open.0;
        open.1.insert(number, (peer, end));
        Ok(number)
    }

    fn remove(&self, number: u64) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&number);
        self.gone.notify_all();
    }

    /// Stops reading requests from all clients, and waits until they are disconnected, at most [`FAREWELL`].
    fn end(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let numbers: Vec<u64> = open.1.keys().copied().collect();
        for number in numbers {
            if let Some((_, end)) = open.1.get_mut(&number) {
                std::mem::replace(end, Box::new(|| ()))();
            }
        }
        let _ = self.gone.wait_timeout_while(open, FAREWELL, |open| !open.1.is_empty());
    }
}

/// All listeners. [`Doors::close`] ends them.
pub struct Doors {
    is_closed: Arc<AtomicBool>,
    clients: Arc<Clients>,
    threads: Vec<JoinHandle<()>>,
    /// Threads of vhost-user sockets, which end only when their client does.
    vhost_threads: Vec<JoinHandle<()>>,
    sockets: Vec<PathBuf>,
}

impl Doors {
    /// No listeners.
    pub fn new() -> Doors {
        Doors {
            is_closed: Arc::default(),
            clients: Arc::default(),
            threads: Vec::new(),
            vhost_threads: Vec::new(),
            sockets: Vec::new(),
        }
    }

    /// Serves volumes on a unix socket with mode 0660.
    ///
    /// # Errors
    /// The socket cannot be created, or another server answers on it.
    pub fn unix(&mut self, path: &Path, gate: Gate) -> anyhow::Result<()> {
        let listener = self.bind(path, 0o660)?;
        let user = |stream: &UnixStream| socket_peercred(stream).ok().map(|peer| peer.uid.as_raw());
        self.listen(
            listener,
            UnixListener::accept,
            move |stream| Some(Peer::User(user(stream))),
            move |stream: UnixStream| {
                let origin = Origin::Unix(user(&stream));
                connection::serve(stream, &gate, origin)
            },
        )
    }

    /// Serves volumes on a TCP address.
    ///
    /// # Errors
    /// The address is in use or not local.
    pub fn tcp(&mut self, address: SocketAddr, gate: Gate) -> anyhow::Result<()> {
        let listener = TcpListener::bind(address).with_context(|| format!("listen: tcp = {address}"))?;
        let machine = |stream: &TcpStream| Some(Peer::Machine(stream.peer_addr().ok()?.ip()));
        self.listen(listener, TcpListener::accept, machine, move |stream: TcpStream| {
            let origin = Origin::Tcp(stream.peer_addr()?);
            stream.set_nodelay(true)?;
            // Detects clients whose machine went down without closing the connection.
            set_socket_keepalive(&stream, true)?;
            set_tcp_keepidle(&stream, IDLE)?;
            connection::serve(stream, &gate, origin)
        })
    }

    /// Serves a volume over vhost-user on a unix socket with mode 0660.
    ///
    /// # Errors
    /// The socket cannot be created, or another server answers on it.
    #[cfg(feature = "vhost-user")]
    pub fn vhost_user(&mut self, path: &Path, volume: &str, server: &Arc<Server>) -> anyhow::Result<()> {
        let listener = self.bind(path, 0o660)?;
        let (is_closed, clients, server, volume) =
            (self.is_closed.clone(), self.clients.clone(), server.clone(), volume.to_owned());
        let thread = thread::Builder::new().name("vhost-user-door".to_owned()).spawn(move || {
            let open = || {
                let opened = server.open(&volume);
                if opened.is_err() {
                    tracing::warn!(volume, "a virtual machine was refused: there is no such volume");
                }
                opened
            };
            let result = crate::vhost::serve(
                listener,
                open,
                || is_closed.load(Ordering::Relaxed),
                |end| clients.add(Peer::User(None), end).ok(),
                |number| clients.remove(number),
            );
            if let Err(error) = result {
                tracing::error!(%error, "vhost-user");
            }
        })?;
        self.vhost_threads.push(thread);
        Ok(())
    }

    /// Accepts commands on a unix socket with mode 0600.
    ///
    /// # Errors
    /// The socket cannot be created, or another server answers on it.
    pub fn control(&mut self, path: &Path, ruled: Ruled) -> anyhow::Result<()> {
        let listener = self.bind(path, 0o600)?;
        self.listen(listener, UnixListener::accept, |_| Some(Peer::Operator), move |stream| control::answer(stream, &ruled))
    }

    fn bind(&mut self, path: &Path, mode: u32) -> anyhow::Result<UnixListener> {
        let at = || path.display().to_string();
        if UnixStream::connect(path).is_ok() {
            bail!("{}: another server answers here", at());
        }
        // A stale socket of a killed server.
        if std::fs::symlink_metadata(path).is_ok_and(|metadata| std::os::unix::fs::FileTypeExt::is_socket(&metadata.file_type())) {
            std::fs::remove_file(path).with_context(at)?;
        }
        // Restricts the socket until its mode is set.
        let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
        let listener = UnixListener::bind(path).with_context(at);
        rustix::process::umask(before);
        let listener = listener?;
        std::fs::set_permissions(path, Permissions::from_mode(mode)).with_context(at)?;
        self.sockets.push(path.to_owned());
        Ok(listener)
    }

    fn listen<L, S, A>(
        &mut self,
        listener: L,
        accept: impl Fn(&L) -> io::Result<(S, A)> + Send + 'static,
        peer: impl Fn(&S) -> Option<Peer> + Send + 'static,
        serve: impl Fn(S) -> io::Result<()> + Clone + Send + 'static,
    ) -> anyhow::Result<()>
    where
        L: AsFd + Send + 'static,
        S: Stream,
    {
        let (is_closed, clients) = (self.is_closed.clone(), self.clients.clone());
        let thread = thread::Builder::new().name("door".to_owned()).spawn(move || {
            while !is_closed.load(Ordering::Relaxed) {
                let mut polled = [PollFd::new(&listener, PollFlags::IN)];
                if !matches!(poll(&mut polled, Some(&LOOKS)), Ok(ready) if ready > 0) {
                    continue;
                }
                match accept(&listener) {
                    Ok((stream, _)) => {
                        // A peer without address has gone.
                        if let Some(peer) = peer(&stream) {
                            take_on(stream, peer, &clients, serve.clone());
                        }
                    }
                    Err(error) => {
                        // Out of file descriptors, for example: an immediate retry would be a busy loop.
                        tracing::warn!(%error, "cannot accept");
                        thread::sleep(Duration::from_millis(100));
                    }
                }
            }
        })?;
        self.threads.push(thread);
        Ok(())
    }

    /// Closes the listeners, stops reading requests, waits for the outstanding ones and removes the sockets.
    pub fn close(mut self) {
        self.is_closed.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.clients.end();
        for thread in self.vhost_threads.drain(..) {
            let _ = thread.join();
        }
        for socket in &self.sockets {
            let _ = std::fs::remove_file(socket);
        }
    }
}

impl Default for Doors {
    fn default() -> Doors {
        Doors::new()
    }
}

/// Serves a client in a new thread.
fn take_on<S: Stream>(stream: S, peer: Peer, clients: &Arc<Clients>, serve: impl FnOnce(S) -> io::Result<()> + Send + 'static) {
    let Ok(twin) = stream.twin() else { return };
    let number = match clients.add(peer.clone(), Box::new(move || twin.take_no_more())) {
        Ok(number) => number,
        Err(most) => {
            tracing::warn!(?peer, "a client was refused: there are {most} already");
            return;
        }
    };
    let of_thread = clients.clone();
    let started = thread::Builder::new().name("client".to_owned()).spawn(move || {
        if let Err(error) = serve(stream) {
            tracing::info!(%error, "a client was hung up on");
        }
        of_thread.remove(number);
    });
    if started.is_err() {
        clients.remove(number);
    }
}
