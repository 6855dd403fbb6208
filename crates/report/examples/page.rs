//! Writes the page of made-up records, to look at it in a browser: `cargo run -p seekwise-report --example page -- page.html`.

#[path = "../tests/report/fixture.rs"]
mod fixture;

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: page FILE.html")?;
    let mut records = fixture::six(4000);
    fixture::on_flash_through_memory(&mut records[5]);
    fixture::steer(&mut records[4], 30);
    let comparison = report::comparison::Comparison::new(&records)?;
    print!("{}", report::table::text(&comparison, Some(80), false));
    report::record::replace(Path::new(&path), report::page::html(&comparison).as_bytes())?;
    Ok(())
}
