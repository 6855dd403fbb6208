//! Figures that every record shares.

use report::record::ResponseFigures;
use sim::run::Responses;

/// `count` per second; 0 over no time.
pub fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

/// Quantiles and moments of response times, in milliseconds.
pub fn response_figures(responses: &Responses) -> ResponseFigures {
    let quantile = |q| responses.quantile(q).as_millis_f64();
    ResponseFigures {
        requests: responses.count(),
        mean_ms: responses.mean().as_millis_f64(),
        stdev_ms: responses.deviation().as_millis_f64(),
        min_ms: responses.min().as_millis_f64(),
        p50_ms: quantile(0.5),
        p95_ms: quantile(0.95),
        p99_ms: quantile(0.99),
        p999_ms: quantile(0.999),
        max_ms: responses.max().as_millis_f64(),
    }
}
