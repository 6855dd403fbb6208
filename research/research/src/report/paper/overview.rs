//! Every paper in one table: its statements, those reproduced, and results that are better here.

use anyhow::{Context, ensure};
use askama::Template;
use serde::Deserialize;

use super::{Counts, SCHEMA, Statement, StatementRow, Verdict, statement_row};

/// The fields of a replication's JSON that the overview uses.
#[derive(Clone, Debug, Deserialize)]
pub struct Overview {
    seekwise_version: String,
    name: String,
    authors: String,
    title: String,
    published: String,
    command: String,
    statements: Vec<Statement>,
}

impl Overview {
    /// Reads the JSON of `seekwise-lab paper run NAME --json`.
    ///
    /// # Errors
    /// The JSON has another format or schema version.
    pub fn read(json: &str) -> anyhow::Result<Overview> {
        #[derive(Deserialize)]
        struct Version {
            schema: u32,
        }
        let about = "the output of `seekwise-lab paper run PAPER --json FILE`";
        let version: Version = serde_json::from_str(json).with_context(|| format!("should be {about}"))?;
        ensure!(version.schema == SCHEMA, "schema: {} should be {SCHEMA}; run `seekwise-lab paper run` again", version.schema);
        serde_json::from_str(json).with_context(|| format!("should be {about}"))
    }

    fn counts(&self) -> Counts {
        Counts::of(&self.statements)
    }

    /// The papers as Markdown: a table of all, then the statements of each.
    pub fn markdown(all: &[Overview]) -> String {
        let mut text = String::from(
            "| paper | statements | reproduced | explained | missed | cannot be had | answered | aims | ours as good |\n|---|---|---|---|---|---|---|---|---|\n",
        );
        for paper in all {
            let counts = paper.counts();
            let with = |verdict| counts.with(verdict);
            text.push_str(&format!(
                "| [{}](#{}) | {} | {} | {} | {} | {} | {} | {} | {} |\n",
                paper.name,
                paper.name,
                paper.statements.len(),
                with(Verdict::Reproduced),
                with(Verdict::Explained),
                with(Verdict::Missed) + with(Verdict::NotRun),
                with(Verdict::CannotBeHad),
                counts.answered_percent().map_or_else(String::new, |percent| format!("{percent:.0}%")),
                counts.aims,
                counts.beaten
            ));
        }
        for paper in all {
            text.push_str(&format!("\n## {}\n{}, *{}*; {}.\n\n", paper.name, paper.authors, paper.title, paper.published));
            text.push_str("| statement | where | paper | as printed | ours | verdict |\n|---|---|---|---|---|---|\n");
            for row in paper.statements.iter().map(statement_row) {
                let reason = if row.reason.is_empty() { String::new() } else { format!(": {}", row.reason) };
                let cells = [
                    row.about.as_str(),
                    row.part.as_str(),
                    row.paper.as_str(),
                    row.printed.as_str(),
                    row.ours.as_str(),
                    &format!("{}{reason}", row.verdict),
                ];
                text.push_str(&format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | ")));
            }
        }
        text
    }

    /// The papers as one self-contained page.
    pub fn html(all: &[Overview]) -> String {
        let page = Page { papers: all.iter().map(Part::new).collect() };
        #[expect(clippy::expect_used, reason = "the template formats strings only, and writing to a String does not fail")]
        page.render().expect("the page's template formats strings only")
    }
}

#[derive(Template)]
#[template(path = "papers.html")]
struct Page<'a> {
    papers: Vec<Part<'a>>,
}

struct Part<'a> {
    paper: &'a Overview,
    counts: String,
    aims: String,
    statements: Vec<StatementRow>,
}

impl<'a> Part<'a> {
    fn new(paper: &'a Overview) -> Part<'a> {
        let counts = paper.counts();
        Part {
            paper,
            counts: counts.text(),
            aims: format!("{} of {}", counts.beaten, counts.aims),
            statements: paper.statements.iter().map(statement_row).collect(),
        }
    }
}
