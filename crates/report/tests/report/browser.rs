//! The page in a real browser, where there is one.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::fixture;

/// The first of these that runs.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
const DEADLINE: Duration = Duration::from_secs(50);

/// The page as the browser renders it, once its scripts have run; its messages come first. `None` where there is no browser.
fn rendered(html: &str) -> Option<String> {
    let silent = |browser: &str| Command::new(browser).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let browser = BROWSERS.into_iter().find(|browser| silent(browser).is_ok_and(|status| status.success()))?;
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    let (out, messages) = (dir.path().join("out"), dir.path().join("messages"));
    std::fs::write(&page, html).unwrap();
    let mut child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-component-update"])
        .args(["--disable-background-networking", "--disable-sync", "--enable-logging=stderr", "--dump-dom"])
        .arg(format!("--user-data-dir={}", dir.path().join("profile").display()))
        .arg(format!("file://{}", page.display()))
        .stdout(std::fs::File::create(&out).unwrap())
        .stderr(std::fs::File::create(&messages).unwrap())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > DEADLINE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{browser} did not finish within {DEADLINE:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let read = |path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    let console: Vec<String> = read(&messages).lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
    assert!(console.is_empty(), "{console:?}");
    Some(read(&out))
}

/// The page in frames of these widths, and for each the result of the script for its window `f`, separated by blanks. The frames are in a page of
/// our own, because a browser's window does not get as narrow as a telephone.
fn in_frames(page: &str, widths: &[u32], script: &str) -> Option<String> {
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    let frame = |width: &u32| format!(r#"<iframe width="{width}" height="800" srcdoc="{page}"></iframe>"#);
    let frames: String = widths.iter().map(frame).collect();
    let html = format!(
        r#"<!doctype html><body>{frames}<script>onload = () => {{ document.body.innerHTML = Array.from(frames).map(f => [{script}].join('/')).join(' ') }}</script>"#
    );
    let dom = rendered(&html);
    if dom.is_none() {
        println!("skipped: none of {BROWSERS:?} is installed");
    }
    Some(dom?.split("<body>").nth(1)?.split("</body>").next()?.to_owned())
}

#[test]
fn the_page_of_advice_fits_a_telephone_without_scrolling_sideways_and_without_names_that_are_cut_off() {
    let page = report::page::advice::html(&crate::advice::long_names());
    // By how much the page is wider than its frame, how many names reach beyond it, and how many there are.
    let script = "f.document.documentElement.scrollWidth - f.document.documentElement.clientWidth, \
                  [...f.document.querySelectorAll('svg text')].map(text => text.getBoundingClientRect()) \
                  .filter(place => place.left < 0 || place.right > f.innerWidth).length, f.document.querySelectorAll('svg .row').length";
    if let Some(found) = in_frames(&page, &[390, 320, 1280], script) {
        assert_eq!(found, "0/0/25 0/0/25 0/0/25");
    }
}

#[test]
fn the_page_fits_a_telephone_and_a_desk_without_scrolling_sideways_and_without_errors() {
    let mut records = fixture::six(200);
    records[3].streams[2].name = Some("a-name-without-any-place-to-break-it".repeat(4));
    crate::fixture::steer(&mut records[5], 30);
    records[3].scheduler.label = "a_very_long_label=with,many=tunables,".repeat(4);
    let script = "f.innerWidth, f.document.documentElement.scrollWidth - f.document.documentElement.clientWidth, \
                  f.document.querySelectorAll('svg[role=img]').length, \
                  f.document.querySelector('table').scrollWidth - f.document.querySelector('.scroll').clientWidth";
    // Each frame's width, by how much its page is wider, how many plots it has, and by how much its first table is wider than its
    // place: on a telephone that is moved by hand, on a desk it fits.
    let Some(found) = in_frames(&crate::page::html(&records), &[390, 1280], script) else { return };
    let (telephone, desk) = found.split_once(' ').unwrap_or_default();
    assert!(telephone.starts_with("390/0/23/") && desk == "1280/0/23/0", "{found}");
}
