//! The arithmetic behind each figure that Seekwise prints: every formula once, and tested against published values.
//!
//! | module | holds |
//! |---|---|
//! | [`sample`] | mean, variance, standard error and its interval of some values |
//! | [`quantile`] | median and quantiles, by named definitions |
//! | [`gain`] | differences of logarithms as per cent, and back |
//! | [`normal`], [`student`] | distribution functions and critical values |
//! | [`count`] | tests of counts: binomial, Fisher's exact, Poisson |
//! | [`bootstrap`] | intervals by resampling |
//!
//! All functions are pure: they know no clock and no random source, and the same values give the same bits. Streaming sums on the path of
//! each request (windows in `observe`, histograms in `sim`) are not here, since they must not keep their values.
//!
//! ```
//! use statistics::{gain, sample};
//!
//! // Differences of scores, which are logarithms, in four runs.
//! let gains = [0.20, 0.25, 0.15, 0.20];
//! let (mean, margin) = sample::mean_and_margin(&gains).ok_or("two values are needed")?;
//! assert_eq!(format!("{:.1}%", gain::percent(mean)), "22.1%");
//! assert!(mean - margin > 0.0, "significant at 95%");
//! # Ok::<(), &str>(())
//! ```

pub mod bootstrap;
pub mod count;
pub mod gain;
pub mod normal;
pub mod quantile;
pub mod sample;
pub mod student;

pub use gain::percent;
pub use quantile::{Rank, median};
pub use sample::mean;
