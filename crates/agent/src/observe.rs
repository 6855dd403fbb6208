//! What a block device is asked, and when it was done.
