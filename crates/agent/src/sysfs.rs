//! The folders of the kernel's settings.
