//! Generates the page of features (docs/reference/features.md).

use std::fmt::Write;

use super::arrival::REQUEST_FEATURES;
use super::features::FEATURES;
use super::table::Feature;

/// Every feature with its unit and meaning, as Markdown.
pub fn features_page() -> String {
    let mut page = format!(
        "# Features\n\n\
         Printed by `seekwise-lab learn features`. The input of learners; a feature without a unit is a share, a ratio or a flag, and one\n\
         that has no value (the mean size of writes where nothing is written) is missing rather than zero.\n\n\
         Some features change with how fast the disk serves, and so with the active setting, above all where each request waits for\n\
         the answer to the one before (a closed loop): those have a *yes* under *service*. The others are the workload's own as long as\n\
         its streams are served alike; a stream served faster than others asks more often there, and weighs more in every mean.\n\n\
         512 streams are followed; one more takes the place of one that was silent long, and counts as new when it comes again.\n\n\
         ## Of a window\n\n{}\n\
         ## Of a request, when it arrives\n\n{}",
        table(FEATURES),
        table(REQUEST_FEATURES)
    );
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

fn table(features: &[Feature]) -> String {
    let mut table = String::from("| feature | unit | service | meaning |\n|---|---|---|---|\n");
    for Feature { name, unit, depends_on_service, doc } in features {
        // Writing to a String cannot fail.
        let _ = writeln!(table, "| `{name}` | {unit} | {} | {doc} |", if *depends_on_service { "yes" } else { "" });
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_features_is_current() {
        let kept = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/features.md")).unwrap();
        assert!(
            kept == features_page(),
            "docs/reference/features.md is out of date: run `seekwise-lab learn features >docs/reference/features.md`"
        );
    }

    #[test]
    fn every_feature_is_named_once_and_explained() {
        for features in [&FEATURES[..], REQUEST_FEATURES] {
            for (index, feature) in features.iter().enumerate() {
                assert!(features[..index].iter().all(|other| other.name != feature.name), "{}", feature.name);
                assert!(feature.doc.ends_with('.'), "{}", feature.name);
            }
        }
    }
}
