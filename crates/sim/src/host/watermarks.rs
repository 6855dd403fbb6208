//! Watermarks of free memory.

/// Numbers of free pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Watermarks {
    /// Below this, an allocating process must reclaim first.
    pub min: u32,
    /// Below this, kswapd reclaims.
    pub low: u32,
    /// kswapd stops reclaiming here.
    pub high: u32,
}

impl Watermarks {
    /// `init_per_zone_wmark_min` and `__setup_per_zone_wmarks`, with Linux's `watermark_scale_factor` of 10.
    pub fn new(pages: u32) -> Watermarks {
        let kib = (u64::from(pages) * 4 * 16).isqrt().clamp(128, 262_144);
        let min = (kib / 4) as u32;
        let step = (min / 4).max((u64::from(pages) * 10 / 10_000) as u32);
        Watermarks { min, low: min + step, high: min + 2 * step }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watermarks_are_those_that_linux_prints() {
        // `min_free_kbytes` of 16 GiB is 16384 KiB; the watermarks are a tenth of a per cent apart.
        assert_eq!(Watermarks::new(1 << 22), Watermarks { min: 4096, low: 8290, high: 12484 });
        assert_eq!(Watermarks::new(1 << 12), Watermarks { min: 128, low: 160, high: 192 });
    }
}
