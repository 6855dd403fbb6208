//! A Linux block device as something that a controller steers.
