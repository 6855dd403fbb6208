//! Why a host cannot be built.

use block::SettingError;

use crate::run::RunError;

/// Why a host cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A setting is out of range.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The device cannot hold the swap area.
    #[error("host: swap_mib={swap_mib} is more than the device, which has {device_mib} MiB")]
    SwapTooLarge {
        /// The setting.
        swap_mib: i64,
        /// The limit.
        device_mib: u64,
    },
    /// A file reaches into the swap area.
    #[error(
        "host: file '{file}' reaches into the swap area, the last {swap_mib} MiB of the device; end it before, or set a smaller swap_mib"
    )]
    FileInSwap {
        /// The file.
        file: String,
        /// Size of the swap area.
        swap_mib: i64,
    },
    /// The anonymous pages fit neither into memory nor into the swap area.
    #[error(
        "host: anonymous_mib={anonymous_mib} should be at most {most_mib}: memory_mib and swap_mib less the needs of files and the kernel"
    )]
    AnonymousTooLarge {
        /// The setting.
        anonymous_mib: i64,
        /// The maximum.
        most_mib: i64,
    },
}

impl From<HostError> for RunError {
    fn from(error: HostError) -> RunError {
        RunError::failed(error)
    }
}
