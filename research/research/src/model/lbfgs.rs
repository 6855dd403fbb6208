//! Minimizes a smooth convex function: limited-memory BFGS (Nocedal and Wright, "Numerical Optimization", algorithm 7.5).

use std::collections::VecDeque;

/// Number of steps from which the curvature is estimated.
const MEMORY: usize = 10;

/// Number of times a step is halved before it is abandoned.
const HALVINGS: usize = 40;

struct Pair {
    step: Vec<f64>,
    change: Vec<f64>,
    /// Reciprocal of their inner product.
    rho: f64,
}

/// Descends from `point` until every component of the gradient is within `tolerance`, no step decreases the value, or `iterations` are done.
/// `function` writes the gradient and returns the value.
pub fn minimise(mut point: Vec<f64>, tolerance: f64, iterations: usize, function: impl Fn(&[f64], &mut [f64]) -> f64) -> Vec<f64> {
    let mut gradient = vec![0.0; point.len()];
    let mut value = function(&point, &mut gradient);
    let mut memory: VecDeque<Pair> = VecDeque::new();
    for _ in 0..iterations {
        if gradient.iter().all(|part| part.abs() <= tolerance) {
            break;
        }
        let mut direction = downhill(&gradient, &memory);
        let mut slope = dot(&direction, &gradient);
        if slope >= 0.0 {
            memory.clear();
            direction = gradient.iter().map(|part| -part).collect();
            slope = -dot(&gradient, &gradient);
        }
        // The curvature is unknown at first: limit the step to length 1.
        let mut length = if memory.is_empty() { 1.0f64.min(1.0 / (-slope).sqrt()) } else { 1.0 };
        let mut next = vec![0.0; point.len()];
        let mut next_gradient = vec![0.0; point.len()];
        let accepted = (0..HALVINGS).find_map(|_| {
            next.iter_mut().zip(&point).zip(&direction).for_each(|((next, point), part)| *next = point + length * part);
            let reached = function(&next, &mut next_gradient);
            let is_lower = reached <= value + 1e-4 * length * slope;
            length *= 0.5;
            is_lower.then_some(reached)
        });
        let Some(reached) = accepted else { break };
        let step: Vec<f64> = next.iter().zip(&point).map(|(next, point)| next - point).collect();
        let change: Vec<f64> = next_gradient.iter().zip(&gradient).map(|(next, before)| next - before).collect();
        let product = dot(&step, &change);
        if product > 1e-12 * dot(&change, &change) {
            memory.push_back(Pair { step, change, rho: 1.0 / product });
        }
        if memory.len() > MEMORY {
            memory.pop_front();
        }
        (point, gradient, value) = (next, next_gradient, reached);
    }
    point
}

/// The two-loop recursion: minus the inverse curvature times the gradient.
fn downhill(gradient: &[f64], memory: &VecDeque<Pair>) -> Vec<f64> {
    let mut direction: Vec<f64> = gradient.iter().map(|part| -part).collect();
    let mut alphas = Vec::with_capacity(memory.len());
    for pair in memory.iter().rev() {
        let alpha = pair.rho * dot(&pair.step, &direction);
        add(&mut direction, -alpha, &pair.change);
        alphas.push(alpha);
    }
    if let Some(last) = memory.back() {
        let scale = 1.0 / (last.rho * dot(&last.change, &last.change));
        direction.iter_mut().for_each(|part| *part *= scale);
    }
    for (pair, alpha) in memory.iter().zip(alphas.iter().rev()) {
        let beta = pair.rho * dot(&pair.change, &direction);
        add(&mut direction, alpha - beta, &pair.step);
    }
    direction
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(to: &mut [f64], factor: f64, what: &[f64]) {
    to.iter_mut().zip(what).for_each(|(to, what)| *to += factor * what);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bottom_of_a_long_narrow_valley_is_found() {
        let found = minimise(vec![5.0, -7.0, 2.0], 1e-9, 200, |point, gradient| {
            let factors = [1.0, 100.0, 10_000.0];
            for ((slot, x), factor) in gradient.iter_mut().zip(point).zip(factors) {
                *slot = factor * (x - 1.0);
            }
            point.iter().zip(factors).map(|(x, factor)| 0.5 * factor * (x - 1.0) * (x - 1.0)).sum()
        });
        assert!(found.iter().all(|x| (x - 1.0).abs() < 1e-6), "{found:?}");
    }
}
