//! A learned device as one self-contained HTML page: its model's errors and its tree.

use askama::Template;

use crate::curves::{CurvesPart, curves_part};
use crate::device_model::DeviceModel;
use crate::text::printable;

#[derive(Template)]
#[template(path = "device_model.html")]
struct Page {
    name: String,
    seekwise_version: String,
    summary: String,
    curves: Vec<CurvesPart>,
    text: String,
}

/// The page's text. The same model always gives the same bytes.
pub fn html(model: &DeviceModel) -> String {
    let page = Page {
        name: printable(&model.name),
        seekwise_version: model.seekwise_version.clone(),
        summary: printable(&model.summary),
        curves: model.curves.iter().map(curves_part).collect(),
        text: model.text.lines().map(|line| printable(line) + "\n").collect(),
    };
    #[expect(clippy::expect_used, reason = "the template formats strings only, and writing to a String does not fail")]
    page.render().expect("the page's template formats strings only")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curves::{Curves, Line, Plot, Quantity};

    #[test]
    fn a_page_has_the_curves_and_the_tree_and_escapes_names() {
        let line = Line { name: "requests".to_owned(), points: vec![(0.0, 0.0), (5.0, 60.0), (30.0, 100.0)] };
        let curves = Curves {
            id: String::new(),
            title: "other draws".to_owned(),
            method: "The share of errors that are no larger.".to_owned(),
            x: Quantity::ErrorPercent,
            y: Quantity::SharePercent,
            plots: vec![Plot { name: "one at a time".to_owned(), lines: vec![line] }],
        };
        let model = DeviceModel {
            name: "<disk>".to_owned(),
            seekwise_version: "1".to_owned(),
            summary: "from 10 requests".to_owned(),
            curves: vec![curves],
            text: "if sectors <= 8\n".to_owned(),
        };
        let page = html(&model);
        assert!(page.contains("<svg") && page.contains("error, %") && page.contains("one at a time"), "{page}");
        assert!(page.contains("if sectors &#60;= 8") && page.contains("&#60;disk&#62;") && !page.contains("<disk>"), "{page}");
    }
}
