//! How the kernel reaches an emulated disk. FUSE is there on almost every machine; where ublk or NBD are, a backend for them takes
//! its place behind the same two traits.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::disk::Disk;

/// Where the answer to one request goes. Exactly one of these is called.
pub trait Reply: Send + 'static {
    /// Answers a read.
    fn data(self, data: &[u8]);

    /// Answers everything else: it is done.
    fn done(self);

    /// Answers that it failed, with an errno.
    fn failed(self, error: &io::Error);
}

/// A way for the kernel to reach a disk.
pub trait Backend {
    /// How it answers.
    type Reply: Reply;

    /// Presents the disk and serves it, on threads of its own.
    ///
    /// # Errors
    /// What is missing on this machine.
    fn start(&self, disk: Arc<Disk<Self::Reply>>) -> io::Result<Box<dyn Serving>>;
}

/// A disk that is being served.
pub trait Serving: Send {
    /// The file or device that programs open.
    fn path(&self) -> PathBuf;

    /// Whether it has ended, because somebody unmounted or removed it.
    fn ended(&self) -> bool;
}
