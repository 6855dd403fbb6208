//! One plot as SVG: a frame with two axes and its content.
//!
//! ```text
//!   name ................ note      name: the scheduler, its direct label
//!   y title
//!   100 ┤ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─
//!       │  marks, clipped by the
//!     0 ┼───────┬───────┬──────     axes' own ends
//!       0      10      20
//!                        x title
//! ```
//! Colours, fonts and line widths come from the page's style sheet through class names, so that dark mode, print and the page's
//! font apply. Coordinates have one decimal: a tenth of a pixel.

use std::fmt::Write;

use super::scale::{Scale, drawable};
use crate::text::shortened;

/// An axis: its scale, title and tick format.
pub struct Axis {
    /// The scale.
    pub scale: Scale,
    /// The quantity with its unit.
    pub title: &'static str,
    /// A tick's text.
    pub tick: fn(f64) -> String,
}

/// Sizes in the units of the SVG, about a pixel each.
#[derive(Clone, Copy)]
pub struct Size {
    /// The whole panel.
    pub width: f64,
    /// The whole panel.
    pub height: f64,
    /// Room left of the axis for the ticks' text.
    pub left: f64,
}

/// A value's mark.
pub struct Mark {
    /// The classes that give it its colour.
    pub class: String,
    /// The path around its middle, (0, 0).
    pub outline: &'static str,
    /// Its place along the x axis.
    pub value: f64,
    /// The tooltip.
    pub tip: String,
}

const RIGHT: f64 = 14.0;
const TOP: f64 = 46.0;
const BOTTOM: f64 = 44.0;
/// Points closer than this to the last one drawn would not be visible.
const NEAR: f64 = 0.4;
/// Generous width of a character of the name and of the note: the reader's font is unknown.
const NAME_CHARACTER: f64 = 8.2;
const NOTE_CHARACTER: f64 = 7.0;
/// Factor by which a note is larger on a telephone.
const LARGE: f64 = 1.25;
/// Width of a character of a line's label, the height of one, and its distance from the line's end.
const LABEL_CHARACTER: f64 = 6.2;
const LABEL_HEIGHT: f64 = 12.0;
const LABEL_GAP: f64 = 5.0;

/// A plot under construction.
pub struct Panel<'a> {
    size: Size,
    x: &'a Axis,
    y: Option<&'a Axis>,
    body: String,
    labels: Vec<Area>,
}

/// The place of a label: left, right, top and bottom.
type Area = (f64, f64, f64, f64);

impl<'a> Panel<'a> {
    /// An empty frame with grid and ticks. Without a y axis the rows are up to the caller: see [`Panel::row`].
    pub fn new(size: Size, x: &'a Axis, y: Option<&'a Axis>) -> Self {
        let mut panel = Self { size, x, y, body: String::new(), labels: Vec::new() };
        panel.draw_axes();
        panel
    }

    fn right(&self) -> f64 {
        self.size.width - RIGHT
    }

    fn bottom(&self) -> f64 {
        self.size.height - BOTTOM
    }

    fn at_x(&self, value: f64) -> f64 {
        self.size.left + self.x.scale.place(value) * (self.right() - self.size.left)
    }

    fn at(&self, (x, y): (f64, f64)) -> Option<(f64, f64)> {
        let y_place = self.y.map_or(0.0, |axis| axis.scale.place(y));
        (drawable(x) && drawable(y)).then(|| (self.at_x(x), self.bottom() - y_place * (self.bottom() - TOP)))
    }

    fn draw_axes(&mut self) {
        let (left, right, bottom) = (self.size.left, self.right(), self.bottom());
        let mut grid = String::new();
        for tick in self.x.scale.ticks() {
            let x = self.at_x(tick);
            moved(&mut grid, (x, TOP));
            grid.push_str(&format!("V{}", rounded(bottom)));
            self.text((x, bottom + 17.0), "tick mid", &(self.x.tick)(tick));
        }
        self.text((right, bottom + 36.0), "axis-title end", self.x.title);
        if let Some(axis) = self.y {
            for tick in axis.scale.ticks() {
                let y = bottom - axis.scale.place(tick) * (bottom - TOP);
                moved(&mut grid, (left, y));
                grid.push_str(&format!("H{}", rounded(right)));
                self.text((left - 6.0, y + 4.0), "tick end", &(axis.tick)(tick));
            }
            self.text((0.0, TOP - 13.0), "axis-title", axis.title);
        }
        self.path("grid", &grid, "");
        self.path("frame", &format!("M{} {}H{}", rounded(left), rounded(bottom), rounded(right)), "");
    }

    /// A line through the points, with a gap at each `None` and each point off the scale.
    pub fn line(&mut self, class: &str, points: impl Iterator<Item = Option<(f64, f64)>>, tip: &str) {
        let path = self.line_path(points);
        self.path(&format!("line {class}"), &path, tip);
    }

    /// The path of [`Panel::line`], for use in several panels of the same axes.
    pub fn line_path(&self, points: impl Iterator<Item = Option<(f64, f64)>>) -> String {
        let mut path = String::new();
        let mut last: Option<(f64, f64)> = None;
        let mut skipped = None;
        for point in points {
            let Some(to) = point.and_then(|point| self.at(point)) else {
                draw_skipped(&mut path, &mut skipped);
                last = None;
                continue;
            };
            match last {
                None => {
                    moved(&mut path, to);
                    // A line of zero length is a dot, which makes a lone point visible.
                    path.push_str("h0");
                }
                Some(from) if (from.0 - to.0).abs() < NEAR && (from.1 - to.1).abs() < NEAR => {
                    skipped = Some(to);
                    continue;
                }
                Some(_) => {
                    draw_skipped(&mut path, &mut skipped);
                    drawn(&mut path, to);
                }
            }
            last = Some(to);
            skipped = None;
        }
        draw_skipped(&mut path, &mut skipped);
        path
    }

    /// Writes a line's name to the right of its end, or above it at the edge of the frame, unless it would cover another line's.
    pub fn label_end(&mut self, class: &str, end: (f64, f64), name: &str) {
        let Some((x, y)) = self.at(end) else { return };
        let width = name.chars().count() as f64 * LABEL_CHARACTER;
        let right = (x + LABEL_GAP, y + LABEL_HEIGHT / 3.0);
        let place = if right.0 + width <= self.right() { right } else { (self.right() - width, y - LABEL_GAP) };
        let (left, right, top, bottom) = (place.0, place.0 + width, place.1 - LABEL_HEIGHT, place.1);
        let covers = |other: &Area| left < other.1 && other.0 < right && top < other.3 && other.2 < bottom;
        if left >= self.size.left && top >= TOP && bottom <= self.bottom() && !self.labels.iter().any(covers) {
            self.labels.push((left, right, top, bottom));
            self.text(place, &format!("label {class}"), name);
        }
    }

    /// Dots; those that coincide are drawn once.
    pub fn dots(&mut self, class: &str, points: impl Iterator<Item = (f64, f64)>, tip: &str) {
        let tenths = |(x, y): (f64, f64)| ((x * 10.0).round() as i64, (y * 10.0).round() as i64);
        let mut places: Vec<(i64, i64)> = points.filter_map(|point| self.at(point)).map(tenths).collect();
        places.sort_unstable();
        places.dedup();
        let mut path = String::new();
        for (x, y) in places {
            moved(&mut path, (x as f64 / 10.0, y as f64 / 10.0));
            path.push_str("h0");
        }
        self.path(&format!("dots {class}"), &path, tip);
    }

    /// A named row of a dot plot, `row` of `rows`: marks on a line from the smallest to the largest.
    pub fn row(&mut self, (row, rows): (usize, usize), name: &str, marks: &[Mark]) {
        let marks: Vec<&Mark> = marks.iter().filter(|mark| drawable(mark.value)).collect();
        let y = TOP + (self.bottom() - TOP) * (row as f64 + 0.5) / rows as f64;
        let places: Vec<f64> = marks.iter().map(|mark| self.at_x(mark.value)).collect();
        let (min, max) = places.iter().fold((f64::MAX, f64::MIN), |(min, max), &x| (min.min(x), max.max(x)));
        self.text((self.size.left - 10.0, y + 4.0), "tick row end", name);
        if places.len() > 1 {
            self.path("span", &format!("M{} {}H{}", rounded(min), rounded(y), rounded(max)), "");
        }
        for mark in marks {
            self.mark_at((self.at_x(mark.value), y), mark);
        }
    }

    /// A named row, `row` of `rows`, of bars from one value to another along the x axis.
    pub fn bars(&mut self, (row, rows): (usize, usize), name: &str, class: &str, bars: &[(f64, f64)]) {
        let y = TOP + (self.bottom() - TOP) * (row as f64 + 0.5) / rows as f64;
        let room = ((self.size.left - 10.0) / NOTE_CHARACTER).max(4.0) as usize;
        self.text((self.size.left - 10.0, y + 4.0), "tick row end", &shortened(name, room));
        let (mut path, mut end) = (String::new(), f64::MIN);
        for &(from, to) in bars.iter().filter(|(from, to)| drawable(*from) && drawable(*to)) {
            let (from, to) = (rounded(self.at_x(from)), rounded(self.at_x(to)));
            // A bar too short to be visible next to another only adds bytes.
            if to > end || path.is_empty() {
                moved(&mut path, (from, y));
                let _ = write!(path, "H{to}");
                end = to;
            }
        }
        self.path(&format!("bar {class}"), &path, name);
    }

    /// A mark at its value along the x axis and the given one along the y axis.
    pub fn mark(&mut self, mark: &Mark, y: f64) {
        if let Some(place) = self.at((mark.value, y)) {
            self.mark_at(place, mark);
        }
    }

    fn mark_at(&mut self, (x, y): (f64, f64), mark: &Mark) {
        let (x, y, class, outline, tip) = (rounded(x), rounded(y), &mark.class, mark.outline, escaped(&mark.tip));
        let _ = write!(
            self.body,
            r#"<path class="mark {class}" transform="translate({x} {y})" d="{outline}"><title>{tip}</title></path>"#
        );
    }

    /// Puts finished SVG into the panel.
    pub fn raw(&mut self, svg: &str) {
        self.body.push_str(svg);
    }

    /// The finished SVG. `name` is above the panel at its left, `note` at its right; `description` is for screen readers.
    pub fn finish(mut self, class: &str, name: &str, note: &str, description: &str) -> String {
        let note = shortened(note, (self.right() / NOTE_CHARACTER / LARGE).max(4.0) as usize);
        let room = self.right() - note.chars().count() as f64 * NOTE_CHARACTER;
        let name = shortened(name, (room / NAME_CHARACTER).max(4.0) as usize);
        self.text((0.0, 14.0), &format!("name {class}"), &name);
        self.text((self.right(), 14.0), "note end", &note);
        let (width, height, label, body) = (self.size.width, self.size.height, escaped(description), self.body);
        format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\">{body}</svg>\n")
    }

    fn text(&mut self, (x, y): (f64, f64), class: &str, text: &str) {
        if !text.is_empty() {
            let (x, y, text) = (rounded(x), rounded(y), escaped(text));
            let _ = write!(self.body, r#"<text class="{class}" x="{x}" y="{y}">{text}</text>"#);
        }
    }

    fn path(&mut self, class: &str, path: &str, tip: &str) {
        if path.is_empty() {
            return;
        }
        let tip = if tip.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(tip)) };
        let _ = write!(self.body, r#"<path class="{class}" d="{path}">{tip}</path>"#);
    }
}

fn draw_skipped(path: &mut String, skipped: &mut Option<(f64, f64)>) {
    if let Some(point) = skipped.take() {
        drawn(path, point);
    }
}

fn moved(path: &mut String, (x, y): (f64, f64)) {
    let _ = write!(path, "M{} {}", rounded(x), rounded(y));
}

fn drawn(path: &mut String, (x, y): (f64, f64)) {
    let _ = write!(path, "L{} {}", rounded(x), rounded(y));
}

/// One decimal at most.
fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Text escaped for XML, in an element or between double quotes.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}
