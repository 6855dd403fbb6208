//! The page, as text.

use report::comparison::Comparison;
use report::record::Record;
use roxmltree::Document;

use crate::fixture;

pub fn html(records: &[Record]) -> String {
    report::page::html(&Comparison::new(records).unwrap())
}

/// Parses the page as XML, which is stricter than a browser, and checks the rules for every page.
pub fn checked(html: &str) -> Document<'_> {
    let xml = html.strip_prefix("<!doctype html>").unwrap();
    let page = Document::parse(xml).unwrap_or_else(|error| {
        panic!("{error}: {:?}", xml.lines().nth(error.pos().row as usize - 1).map(|line| &line[..line.len().min(300)]))
    });
    for node in page.descendants().filter(|node| node.is_element()) {
        assert!(
            !["script", "iframe", "img", "object", "embed", "link", "base", "form"].contains(&node.tag_name().name()),
            "{node:?}"
        );
        for attribute in node.attributes() {
            let (name, value) = (attribute.name(), attribute.value());
            assert!(!name.starts_with("on") && name != "style", "{name}={value}");
            assert!(!["href", "src", "srcset", "action", "data"].contains(&name) || value.starts_with('#'), "{name}={value}");
            if ["d", "x", "y", "transform", "viewBox"].contains(&name) {
                assert!(!value.contains("NaN") && !value.contains("inf"), "{name}={value}");
            }
        }
    }
    for forbidden in ["http", "url(", "@import"] {
        let style = page.descendants().find(|node| node.has_tag_name("style")).unwrap().text().unwrap();
        assert!(!style.contains(forbidden), "{forbidden}");
    }
    page
}

#[test]
fn the_page_is_well_formed_small_and_needs_nothing_from_outside() {
    let html = html(&fixture::six(4000));
    let page = checked(&html);
    assert!(!html.contains("http"));
    assert!(html.len() < 2_000_000, "{} bytes", html.len());
    let plots = page.descendants().filter(|node| node.attribute("role") == Some("img")).count();
    assert_eq!(plots, 2 + 3 * 6 + 2, "distribution and tail; three for each scheduler; slowdown and response time of streams");
}

#[test]
fn eighteen_lines_differ_by_colour_or_dash_as_the_legend_shows_and_some_have_their_names_at_their_ends() {
    let mut records: Vec<Record> = (0..3).flat_map(|_| fixture::six(10)).collect();
    for (number, record) in records.iter_mut().enumerate() {
        record.position = number as u32;
        record.scheduler.label = format!("{} {number}", record.scheduler.name);
    }
    let html = html(&records);
    let page = checked(&html);
    let class = |node: &roxmltree::Node| node.attribute("class").unwrap_or_default().to_owned();
    let legend = page.descendants().find(|node| class(node) == "legend").unwrap();
    let mut keys: Vec<String> = legend
        .children()
        .filter(|node| node.is_element())
        .map(|key| {
            assert!(key.descendants().any(|node| class(&node) == format!("line {}", class(&key))), "the legend shows the dash");
            class(&key)
        })
        .collect();
    let of_first = keys[0].clone();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 18);
    let labels: Vec<_> = page.descendants().filter(|node| class(node).starts_with("label ")).collect();
    assert!(labels.iter().any(|label| class(label) == format!("label {of_first}") && label.text() == Some("noop 0")), "{labels:?}");
    // Three lines of each kind are the same, and have one label.
    assert!(labels.len() <= 6, "{labels:?}");
}

#[test]
fn predictions_of_changes_are_drawn_with_their_errors_against_results() {
    let mut records = fixture::six(10);
    fixture::steer(&mut records[1], 10);
    assert!(!html(&records).contains("Predicted and measured gains"), "no predictions");
    fixture::rest_on_evidence(&mut records[1]);
    let html = html(&records);
    let page = checked(&html);
    let has = |node: &roxmltree::Node, word: &str| node.attribute("aria-label").is_some_and(|label| label.contains(word));
    let panel = page.descendants().find(|node| has(node, "Predicted and measured gains")).unwrap();
    assert!(has(&panel, "0 of 3 within two errors"), "{:?}", panel.attribute("aria-label"));
    let of = |class: &str| {
        let of_class = |node: &roxmltree::Node| node.attribute("class").is_some_and(|classes| classes.ends_with(class));
        panel.descendants().filter(of_class).collect::<Vec<_>>()
    };
    assert_eq!((of("bar promise").len(), of("mark promised").len(), of("mark measured").len()), (3, 3, 3));
    let tip = |class: &str| {
        panel
            .descendants()
            .filter(|node| node.parent().is_some_and(|parent| parent.attribute("class") == Some(class)))
            .filter_map(|node| node.text())
            .map(str::to_owned)
            .next()
            .unwrap_or_default()
    };
    assert!(tip("mark promised").ends_with("predicted +12.5% ± 3.0%"), "{}", tip("mark promised"));
    assert!(tip("mark measured").ends_with("measured -3.2%"), "{}", tip("mark measured"));
    assert!(html.contains("<td>+12.5% ± 3.0%</td>"));
}

#[test]
fn a_controllers_decisions_have_a_strip_and_a_table() {
    let mut records = fixture::six(10);
    fixture::steer(&mut records[1], 10);
    let html = html(&records);
    let page = checked(&html);
    let strips: Vec<_> = page
        .descendants()
        .filter(|node| node.attribute("aria-label").is_some_and(|label| label.contains("Active settings")))
        .collect();
    assert_eq!(strips.len(), 1);
    let bars: Vec<_> =
        strips[0].descendants().filter(|node| node.attribute("class").is_some_and(|class| class.starts_with("bar "))).collect();
    assert_eq!(bars.len(), 3, "a row for each setting that was active");
    // noop has the colour of its own row; it was active from the beginning, and from the ninth window to the end.
    let noop = bars.iter().find(|bar| bar.descendants().any(|node| node.text() == Some("noop"))).unwrap();
    assert_eq!(noop.attribute("class"), Some("bar c0 d0"));
    assert_eq!(noop.attribute("d").unwrap().matches('M').count(), 2);
    for expected in [
        "Decisions of the controllers",
        "1225.800",
        "+12.5%",
        "-3.25%",
        "changed the setting 3 times",
        "refused: host has no tunable",
    ] {
        assert!(html.contains(expected), "{expected}");
    }
    assert!(!self::html(&fixture::six(10)).contains("Decisions of the controllers"));
}

#[test]
fn decisions_without_end_and_with_odd_times_keep_the_page_small() {
    let mut records = fixture::six(10);
    fixture::steer(&mut records[0], 50_000);
    fixture::steer(&mut records[2], 40);
    let steering = records[2].steering.as_mut().unwrap();
    for (n, decision) in steering.decisions.iter_mut().enumerate() {
        decision.to = format!("setting {n}");
        decision.at_s = [f64::NAN, f64::INFINITY, -1.0, 1e300, 7.0][n % 5];
        decision.measured_gain_percent = Some(f64::NAN);
    }
    let html = html(&records);
    checked(&html);
    assert!(html.len() < 1_000_000, "{} bytes", html.len());
    assert!(html.contains("more changes are not shown") && html.contains("30 others"));
}

#[test]
fn the_same_records_give_the_same_bytes() {
    assert_eq!(html(&fixture::six(500)), html(&fixture::six(500)));
}

#[test]
fn the_page_has_the_tables_figures_and_marks_and_the_verdict() {
    let records = fixture::six(10);
    let comparison = Comparison::new(&records).unwrap();
    let html = html(&records);
    let page = checked(&html);
    let text =
        |node: roxmltree::Node| node.descendants().filter_map(|node| node.is_text().then(|| node.text())?).collect::<String>();
    let rows: Vec<_> = page.descendants().filter(|node| node.attribute("class") == Some("swatched")).collect();
    assert_eq!(rows.len(), records.len());
    for (i, (row, record)) in rows.iter().zip(&records).enumerate() {
        assert_eq!(text(*row), record.scheduler.label);
        let cells: Vec<_> = row.next_siblings().filter(|node| node.has_tag_name("td")).collect();
        assert_eq!(cells.len(), comparison.figures().len());
        for (cell, figure) in cells.iter().zip(comparison.figures()) {
            let best = comparison.best(figure)[i];
            assert_eq!(text(*cell), format!("{}{}", figure.text(record), if best { "*" } else { "" }), "{}", figure.key);
            assert_eq!(cell.attribute("class") == Some("best"), best);
        }
    }
    let whole = text(page.root());
    for part in report::verdict::parts(&comparison) {
        assert!(whole.contains(&part.text), "{}", part.text);
    }
    for expected in
        [&records[0].trace.sha256, &records[0].disk.sha256, &records[0].warnings[0], "seekwise 0.1.0", "read_expire = 200"]
    {
        assert!(whole.contains(expected), "{expected}");
    }
}

#[test]
fn names_that_others_chose_are_shown_and_not_obeyed() {
    let evil = "</title></style><script>alert(1)</script>\"'&<b>\u{0}\u{1b}\u{202e}]]>";
    let mut records = fixture::six(10);
    for record in &mut records {
        record.scheduler.label.push_str(evil);
        record.scheduler.tunables.push((evil.to_owned(), 1.into()));
        record.warnings.push(evil.to_owned());
        for text in [&mut record.trace.name, &mut record.trace.format, &mut record.trace.sha256, &mut record.replay.mode] {
            *text = evil.to_owned();
        }
        for text in [&mut record.disk.name, &mut record.disk.description, &mut record.disk.sha256, &mut record.seekwise_version] {
            *text = evil.to_owned();
        }
        record.streams.iter_mut().for_each(|stream| stream.name = Some(evil.to_owned()));
    }
    let html = html(&records);
    checked(&html);
    assert!(html.contains("alert(1)") && !html.contains("<script") && !html.contains('\u{202e}') && !html.contains('\u{1b}'));
}

#[test]
fn odd_numbers_neither_panic_nor_reach_the_drawing() {
    for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, -1.0, 0.0, f64::MIN_POSITIVE, 1e-9, 1e14] {
        let mut records = fixture::six(20);
        for record in &mut records[..2] {
            let curves = &mut record.curves;
            curves.bin_s = odd;
            curves.response_cdf.iter_mut().step_by(3).for_each(|point| *point = (odd, odd));
            curves.throughput_mb_s.iter_mut().step_by(2).for_each(|value| *value = odd);
            curves.response_mean_ms.iter_mut().step_by(5).for_each(|value| *value = Some(odd));
            curves.response_max_ms[7] = Some(odd);
            curves.sample[3].dispatched_s = odd;
            curves.sample[4].lba = u64::MAX;
            record.streams[0].slowdown = Some(odd);
            record.streams[1].mean_ms = odd;
            let figures = &mut record.figures;
            (figures.duration_s, figures.iops, figures.mean_seek_cylinders, figures.throughput_mb_s) = (odd, odd, Some(odd), odd);
            figures.response.mean_ms = odd;
            figures.response.requests = u64::MAX;
            record.disk.capacity_sectors = u64::MAX;
        }
        records.iter_mut().for_each(|record| record.replay.speed = 1e300);
        checked(&html(&records));
    }
}

#[test]
fn records_without_curves_or_streams_make_a_page_without_those_plots() {
    let mut records = fixture::six(0);
    for record in &mut records {
        record.curves = report::record::Curves {
            response_cdf: Vec::new(),
            bin_s: 0.0,
            throughput_mb_s: Vec::new(),
            response_mean_ms: Vec::new(),
            response_max_ms: Vec::new(),
            sample: Vec::new(),
        };
        record.streams.clear();
    }
    let html = html(&records[..1]);
    let page = checked(&html);
    assert_eq!(page.descendants().filter(|node| node.attribute("role") == Some("img")).count(), 0);
    assert!(html.contains("Only noop was run, so there is nothing to compare it with."));
}

#[test]
fn many_schedulers_points_bins_and_streams_keep_the_page_small() {
    let six = fixture::six(40_000);
    let mut records: Vec<Record> = (0..20)
        .map(|i| {
            let mut record = six[i % 6].clone();
            record.scheduler.label = format!("scheduler {i}");
            let streams = record.streams.clone();
            for id in 0..2000 {
                let mut stream = streams[0].clone();
                stream.stream = id;
                record.streams.push(stream);
            }
            let curves = &mut record.curves;
            curves.throughput_mb_s = (0..50_000).map(|bin| f64::from(bin % 97)).collect();
            curves.response_cdf = (0..50_000).map(|i| (1.0 + f64::from(i % 1000), f64::from(i) / 50_000.0)).collect();
            record
        })
        .collect();
    records[3].figures.scheduler_cpu_ns_per_request = None;
    let html = html(&records);
    checked(&html);
    assert!(html.len() < 3_000_000, "{} bytes", html.len());
    assert!(html.contains("less busy streams are not shown"));
}

#[test]
fn the_way_over_the_disk_is_shown_where_schedulers_take_different_ways_and_nowhere_else() {
    let records = fixture::six(1000);
    let html = html(&records);
    let page = checked(&html);
    let panels: Vec<_> = page
        .descendants()
        .filter(|node| node.attribute("aria-label").is_some_and(|label| label.starts_with("Order of service")))
        .collect();
    assert_eq!(panels.len(), records.len());
    // A point for each of the same 64 requests.
    let ways: Vec<&str> = panels
        .iter()
        .map(|panel| panel.descendants().find(|node| node.attribute("class").is_some_and(|class| class.contains("way"))).unwrap())
        .map(|way| way.attribute("d").unwrap())
        .collect();
    assert!(ways.iter().all(|way| way.matches(['M', 'L']).count() == 64), "{ways:?}");
    assert_ne!(ways[0], ways[1], "noop and sstf serve in different orders");
    assert!(html.contains("64 requests of each run, issued one after another"));
    let mut other = fixture::six(1000);
    let sample = other[0].curves.sample.clone();
    other[1..].iter_mut().for_each(|record| {
        record.curves.sample = sample.clone();
        record.curves.sample.iter_mut().for_each(|point| point.dispatched_s = (point.number * 37 % 64) as f64);
    });
    assert!(self::html(&other).contains("The same 64 requests, issued one after another"));
    let mut same = fixture::six(1000);
    let sample = same[0].curves.sample.clone();
    same.iter_mut().for_each(|record| record.curves.sample = sample.clone());
    assert!(!self::html(&same).contains("<h2>Seeks</h2>"));
}

#[test]
fn no_table_of_streams_has_more_columns_than_fit_on_a_screen() {
    let mut records = fixture::six(10);
    for record in records.clone() {
        for scheduler in 0..3 {
            let mut record = record.clone();
            record.scheduler.label = format!("{} read_ahead_kb={scheduler}024", record.scheduler.label);
            record.position = records.len() as u32;
            records.push(record);
        }
    }
    let html = html(&records);
    let page = checked(&html);
    let headings = |row: &roxmltree::Node| row.children().filter(|cell| cell.attribute("class") == Some("name")).count();
    let rows = page.descendants().filter(|node| node.has_tag_name("tr")).map(|row| headings(&row));
    let columns: Vec<usize> = rows.filter(|columns| *columns > 0).collect();
    // Each scheduler is in one of the tables, with its response time and its slowdown.
    assert!(columns.len() > 1 && columns.iter().sum::<usize>() == 2 * records.len(), "{columns:?}");
    assert!(columns.iter().all(|columns| *columns <= 14), "{columns:?}");
}
