//! The interface between the kernel and an emulated disk. FUSE is available on almost every machine; a backend for ublk or NBD can
//! implement the same traits.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::disk::{Disk, Reply};

/// Presents a disk to the kernel.
pub trait Backend {
    /// The type of its replies.
    type Reply: Reply;

    /// Presents the disk and serves it on its own threads.
    ///
    /// # Errors
    /// A prerequisite is missing on this machine; the error names it.
    fn start(&self, disk: Arc<Disk<Self::Reply>>) -> io::Result<Box<dyn Serving>>;
}

/// A disk that is being served.
pub trait Serving: Send {
    /// The file or device for programs to open.
    fn path(&self) -> PathBuf;

    /// Whether serving has ended, by an unmount or a removal.
    fn ended(&self) -> bool;
}
