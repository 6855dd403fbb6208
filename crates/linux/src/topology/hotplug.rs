//! Notices when block devices are added, removed or changed: the kernel's uevents, which any user may receive.
//!
//! Source: `lib/kobject_uevent.c`. A message consists of a header such as `add@/devices/…/block/sda`, then lines such as `SUBSYSTEM=block`,
//! each terminated by a zero byte.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::{KOBJECT_UEVENT, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

/// The multicast group of the kernel's messages; udev sends its own to another one.
const KERNEL: u32 = 1;
/// Maximum length of a kernel message (`UEVENT_BUFFER_SIZE`, and the header).
const LONGEST: usize = 4 << 10;

/// A listener for uevents.
#[derive(Debug)]
pub struct HotPlug {
    socket: OwnedFd,
}

impl HotPlug {
    /// Starts listening.
    ///
    /// # Errors
    /// A sandbox forbids it.
    pub fn listen() -> io::Result<HotPlug> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(KOBJECT_UEVENT))?;
        bind(&socket, &SocketAddrNetlink::new(0, KERNEL))?;
        Ok(HotPlug { socket })
    }

    /// Whether there was a message about a block device since the last call; also `true` if messages were lost.
    pub fn is_told(&self) -> bool {
        let mut message = [0; LONGEST];
        let mut is_told = false;
        loop {
            match recv(&self.socket, &mut message, RecvFlags::empty()) {
                Ok((length, _)) => is_told |= is_of_block(&message[..length]),
                Err(Errno::INTR) => {}
                Err(Errno::NOBUFS) => is_told = true,
                Err(_) => return is_told,
            }
        }
    }

    /// Becomes readable when there is a message.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn is_of_block(message: &[u8]) -> bool {
    message.split(|&byte| byte == 0).any(|line| line == b"SUBSYSTEM=block")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_block_devices_are_distinguished_from_others() {
        assert!(is_of_block(b"add@/devices/virtual/block/loop9\0ACTION=add\0SUBSYSTEM=block\0SEQNUM=1\0"));
        assert!(!is_of_block(b"add@/devices/block\0ACTION=add\0SUBSYSTEM=net\0") && !is_of_block(b""));
    }
}
