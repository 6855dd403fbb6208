//! The page in a real browser, where there is one.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::fixture;

/// The first of these that runs.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
const DEADLINE: Duration = Duration::from_secs(50);

/// What the browser makes of the page, once its scripts have run; its messages come first. `None` where there is no browser.
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

#[test]
fn the_page_fits_a_telephone_and_a_desk_without_scrolling_sideways_and_without_errors() {
    let mut records = fixture::six(200);
    records[3].streams[2].name = Some("a-name-without-any-place-to-break-it".repeat(4));
    crate::fixture::steer(&mut records[5], 30);
    records[3].scheduler.label = "a_very_long_label=with,many=tunables,".repeat(4);
    let page = crate::page::html(&records).replace('&', "&amp;").replace('"', "&quot;");
    // Two frames in a page of our own, because a browser's window does not get as narrow as a telephone.
    let frames = format!(
        r#"<!doctype html><body><iframe width="390" height="800" srcdoc="{page}"></iframe><iframe width="1280" height="800" srcdoc="{page}"></iframe>
<script>onload = () => {{ document.body.innerHTML = [0, 1].map(i => frames[i]).map(f => [f.innerWidth, f.document.documentElement.scrollWidth - f.document.documentElement.clientWidth,
  f.document.querySelectorAll('svg[role=img]').length, f.document.querySelector('table').scrollWidth - f.document.querySelector('.scroll').clientWidth].join('/')).join(' ') }}</script>"#
    );
    // Each frame's width, by how much its page is wider, how many plots it has, and by how much its first table is wider than its
    // place: on a telephone that is moved by hand, on a desk it fits.
    let Some(dom) = rendered(&frames) else {
        println!("skipped: none of {BROWSERS:?} is installed");
        return;
    };
    let found = dom.split("<body>").nth(1).and_then(|rest| rest.split("</body>").next()).unwrap_or_default();
    let (telephone, desk) = found.split_once(' ').unwrap_or_default();
    assert!(telephone.starts_with("390/0/23/") && desk == "1280/0/23/0", "{found}");
}
