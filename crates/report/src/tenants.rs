//! Guarantees and results of tenants as text, for terminal and page.

use crate::number::{MISSING, grouped, three_digits};
use crate::record::{ChanceFigures, GuaranteeFigures, Record, ReferenceFigures, Tenancy, TenantFigures};
use crate::text::{paragraph, printable, shortened};

/// Maximum number of tenants shown, those with broken guarantees first.
const ROWS: usize = 50;
/// Longest name of a tenant in the table.
const NAME: usize = 24;
/// The columns after the name.
pub(crate) const HEADINGS: [&str; 9] =
    ["requests", "active s", "MB/s", "IOPS", "p50 ms", "p99 ms", "p99.9 ms", "longest ms", "disk time"];

/// The tenants section of a run's report, for a terminal of this width.
pub(crate) fn text(tenancy: &Tenancy, width: Option<usize>) -> String {
    let mut out = String::new();
    paragraph(&mut out, &format!("Tenants of {}", printable(&tenancy.contract)), width);
    let shown = shown(tenancy);
    let rows: Vec<(String, [String; 9])> = shown.iter().flat_map(|tenant| rows(tenancy, tenant)).collect();
    let name_width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).max("tenant".len());
    let mut line = |name: &str, cells: &[String; 9]| {
        let cells: String = cells.iter().map(|cell| format!(" {cell:>10}")).collect();
        out.push_str(format!("{name:name_width$}{cells}").trim_end());
        out.push('\n');
    };
    line("tenant", &HEADINGS.map(str::to_owned));
    rows.iter().for_each(|(name, cells)| line(name, cells));
    if tenancy.tenants.len() > shown.len() {
        out.push_str(&format!("and {} more\n", grouped((tenancy.tenants.len() - shown.len()) as u64)));
    }
    out.push('\n');
    for sentence in sentences(tenancy) {
        paragraph(&mut out, &sentence, width);
    }
    out
}

/// A line for each run: the number of kept guarantees, and the tenant with the worst one.
pub(crate) fn lines(records: &[Record]) -> Vec<String> {
    let one = |record: &Record| {
        let (label, tenancy) = (printable(&record.scheduler.label), record.tenants.as_ref()?);
        Some(format!("{label}: {}.", in_a_line(tenancy)))
    };
    let mut tenancies = records.iter().filter_map(|record| record.tenants.as_ref());
    // A run that kept all guarantees shows that they can be kept.
    let shown = tenancies.clone().find(|tenancy| is_kept(tenancy)).or(tenancies.next());
    let capacity = shown.and_then(of_capacity);
    capacity.into_iter().chain(records.iter().filter_map(one)).collect()
}

fn in_a_line(tenancy: &Tenancy) -> String {
    let broken = tenancy.tenants.iter().filter(|tenant| !tenant.broken.is_empty()).count();
    let Some(worst) = tenancy.tenants.iter().min_by(|a, b| standing(a).total_cmp(&standing(b))) else { return String::new() };
    let promised = tenancy.tenants.iter().filter(|tenant| has_promise(tenant)).count();
    let name = printable(&worst.name);
    let got = format!("guarantees of {} of {promised} tenants kept", promised - broken);
    match worst.broken.split_first() {
        Some((first, rest)) => {
            let more = if rest.is_empty() { String::new() } else { format!(", and {} more", rest.len()) };
            format!("{got}; worst {name}: {first}{more}")
        }
        None if promised == 0 => "no tenant has a guarantee".to_owned(),
        None => format!("{got}{}", margin(worst).map_or_else(String::new, |margin| format!("; closest {name}: {margin}"))),
    }
}

/// A rank by how well a tenant's guarantees were kept: lower is worse, and tenants with a broken guarantee come first.
fn standing(tenant: &TenantFigures) -> f64 {
    let ratios = tenant.reference.iter().flat_map(|figures| [figures.throughput_ratio, 1.0 / figures.p99_ratio]);
    let share = tenant.share.iter().filter(|_| tenant.promised.is_weighted).map(|share| share.got_percent / share.promised_percent);
    let worst = ratios.chain(share).filter(|value| value.is_finite()).fold(f64::MAX, f64::min);
    // Tenants with a broken guarantee sort before all others.
    if tenant.broken.is_empty() { worst.max(0.0) + 1e6 } else { worst.min(1e6) }
}

fn has_promise(tenant: &TenantFigures) -> bool {
    let promised = &tenant.promised;
    promised.is_weighted || promised.reference.is_some() || !rates(promised).is_empty() || promised.latency_p99_ms.is_some()
}

fn margin(tenant: &TenantFigures) -> Option<String> {
    let percent = |ratio: f64| format!("{}%", three_digits(100.0 * ratio));
    match (&tenant.reference, &tenant.promised.reference, &tenant.share) {
        (Some(figures), Some(disk), _) => {
            let (throughput, p99) = (percent(figures.throughput_ratio), three_digits(figures.p99_ratio));
            Some(format!("{throughput} of {}’s throughput, {p99} times its p99", printable(disk)))
        }
        (_, _, Some(share)) if tenant.promised.is_weighted => {
            let (got, promised) = (three_digits(share.got_percent), three_digits(share.promised_percent));
            Some(format!("{got}% of the disk’s time for a share of {promised}%"))
        }
        _ => None,
    }
}

/// The tenants to show: at most [`ROWS`], those with broken guarantees first, in the contract's order.
pub(crate) fn shown(tenancy: &Tenancy) -> Vec<&TenantFigures> {
    let mut tenants: Vec<(usize, &TenantFigures)> = tenancy.tenants.iter().enumerate().collect();
    tenants.sort_by_key(|(number, tenant)| (tenant.broken.is_empty(), *number));
    tenants.truncate(ROWS);
    tenants.sort_by_key(|(number, _)| *number);
    tenants.into_iter().map(|(_, tenant)| tenant).collect()
}

/// A tenant's row, followed by that of its reference disk.
pub(crate) fn rows(tenancy: &Tenancy, tenant: &TenantFigures) -> Vec<(String, [String; 9])> {
    let disk_time: f64 = tenancy.tenants.iter().filter_map(|tenant| tenant.disk_time_s).sum();
    let response = &tenant.response;
    let share = tenant.disk_time_s.filter(|_| disk_time > 0.0).map(|time| format!("{}%", three_digits(100.0 * time / disk_time)));
    let cells = [
        grouped(tenant.requests),
        three_digits(tenant.wanted_s),
        three_digits(tenant.throughput_mb_s),
        three_digits(tenant.iops),
        three_digits(response.p50_ms),
        three_digits(response.p99_ms),
        three_digits(response.p999_ms),
        three_digits(response.max_ms),
        share.unwrap_or_else(|| MISSING.to_owned()),
    ];
    let mut rows = vec![(shortened(&printable(&tenant.name), NAME), cells)];
    if let (Some(figures), Some(disk)) = (&tenant.reference, &tenant.promised.reference) {
        rows.push((shortened(&format!("  on {}", printable(disk)), NAME), of_reference(figures)));
    }
    rows
}

fn of_reference(figures: &ReferenceFigures) -> [String; 9] {
    let ReferenceFigures { response, throughput_mb_s, wanted_s, .. } = figures;
    let iops = if *wanted_s > 0.0 { response.requests as f64 / wanted_s } else { 0.0 };
    let [wanted, throughput, iops, p50, p99, p999, max] =
        [*wanted_s, *throughput_mb_s, iops, response.p50_ms, response.p99_ms, response.p999_ms, response.max_ms].map(three_digits);
    [grouped(response.requests), wanted, throughput, iops, p50, p99, p999, max, MISSING.to_owned()]
}

/// The statements about the shown tenants (guarantee, and whether it was kept) and about the disk.
pub(crate) fn sentences(tenancy: &Tenancy) -> Vec<String> {
    let mut sentences: Vec<String> = shown(tenancy).into_iter().map(of_tenant).collect();
    sentences.extend(of_capacity(tenancy));
    if tenancy.others_requests > 0 {
        let requests = grouped(tenancy.others_requests);
        sentences.push(format!("{requests} requests belong to no tenant and have no guarantee."));
    }
    if tenancy.tenants.iter().any(|tenant| tenant.share.is_some()) {
        let seconds = three_digits(tenancy.all_wanted_s);
        sentences.push(format!("Shares of the disk’s time are over the {seconds} s in which every tenant was active."));
    }
    if tenancy.idle_while_waiting_s > 0.0 {
        let seconds = three_digits(tenancy.idle_while_waiting_s);
        sentences.push(format!("The disk was idle as a whole for {seconds} s while requests waited."));
    } else if tenancy.idle_while_waiting_s == 0.0 {
        sentences.push("The disk was never idle as a whole while requests waited.".to_owned());
    }
    sentences
}

fn of_tenant(tenant: &TenantFigures) -> String {
    let name = printable(&tenant.name);
    let mut parts = vec![format!("{name}: {}", promised(tenant))];
    parts.push(match (tenant.requests, tenant.broken.is_empty()) {
        (0, _) => "no requests".to_owned(),
        (_, true) if has_promise(tenant) => "kept".to_owned(),
        (_, true) => "no guarantee to keep".to_owned(),
        (_, false) => format!("BROKEN: {}", tenant.broken.iter().map(|broken| printable(broken)).collect::<Vec<_>>().join("; ")),
    });
    parts.extend(tenant.reference.as_ref().map(reference_text));
    if let Some(share) = &tenant.share {
        let (got, promised) = (three_digits(share.got_percent), three_digits(share.promised_percent));
        parts.push(format!("{got}% of the disk’s time, {promised}% by weight"));
    }
    format!("{}.", parts.join(". "))
}

/// The reservation and the limits of a tenant as text.
fn rates(promised: &GuaranteeFigures) -> Vec<String> {
    let requests = [
        ("at least", promised.reservation_iops, "requests"),
        ("at most", promised.limit_iops, "requests"),
        ("at most", promised.limit_read_iops, "reads"),
        ("at most", promised.limit_write_iops, "writes"),
    ];
    let bytes = [
        ("at least", promised.reservation_mb_s, ""),
        ("at most", promised.limit_mb_s, ""),
        ("at most", promised.limit_read_mb_s, " of reads"),
        ("at most", promised.limit_write_mb_s, " of writes"),
    ];
    let requests =
        requests.into_iter().filter_map(|(bound, rate, what)| Some(format!("{bound} {} {what} a second", grouped(rate?))));
    let bytes = bytes.into_iter().filter_map(|(bound, rate, what)| Some(format!("{bound} {} MB/s{what}", three_digits(rate?))));
    requests.chain(bytes).collect()
}

/// The guarantee of a tenant as text.
pub(crate) fn promised(tenant: &TenantFigures) -> String {
    let promised = &tenant.promised;
    let parts = [
        promised.reference.as_ref().map(|disk| format!("at least as fast as {} alone", printable(disk))),
        promised.is_weighted.then(|| format!("weight {}", promised.weight)),
        promised.latency_p99_ms.map(|ms| format!("a p99 response time of at most {} ms", three_digits(ms))),
        promised.best_effort.then(|| "best effort".to_owned()),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().chain(rates(promised)).collect();
    match parts.as_slice() {
        [] => "no guarantee".to_owned(),
        [only] if promised.best_effort => only.clone(),
        parts => format!("guaranteed {}", parts.join(", ")),
    }
}

/// The comparison with the reference disk as text.
fn reference_text(figures: &ReferenceFigures) -> String {
    let windows = figures.windows.iter().filter(|window| window.windows > 0).map(|window| {
        let (violated, windows) = (grouped(window.violated), grouped(window.windows));
        format!("{violated} of {windows} of {} s", three_digits(window.window_s))
    });
    let windows: Vec<String> = windows.collect();
    let mut parts = vec![format!(
        "{}% of the throughput and {} times the p99 response time",
        three_digits(100.0 * figures.throughput_ratio),
        three_digits(figures.p99_ratio)
    )];
    if !windows.is_empty() {
        parts.push(format!("windows with less than 95%: {}", windows.join(", ")));
    }
    parts.push(by_chance(&figures.chance));
    parts.push(format!("at most {} s lost over any period", three_digits(figures.lost_s)));
    let recovery = &figures.recovery;
    if recovery.returns > 0 {
        let recovered = recovery.longest_s.map(|longest| format!("as fast as there within {} s", three_digits(longest)));
        let never = (recovery.never > 0).then(|| format!("never as fast after {}", grouped(recovery.never)));
        let came: Vec<String> = [recovered, never].into_iter().flatten().collect();
        let times = if recovery.returns == 1 { "once".to_owned() } else { format!("{} times", grouped(recovery.returns)) };
        parts.push(format!("{times} active after a pause: {}", came.join(", ")));
    }
    parts.join("; ")
}

/// Tolerance in percentage points: measured capacity within this of 100% fits.
const ROUNDING: f64 = 0.5;

/// The variation of the reference disk by chance, as text.
fn by_chance(chance: &ChanceFigures) -> String {
    let (throughput, p99) = (three_digits(100.0 * chance.throughput_ratio), three_digits(chance.p99_ratio));
    let windows = match chance.windows {
        0 => String::new(),
        windows => format!(", {} of {} windows of 1 s", grouped(chance.violated), grouped(windows)),
    };
    format!("chance alone makes {throughput}%, {p99} times{windows}")
}

/// Whether the guarantees of all reference disks were kept.
fn is_kept(tenancy: &Tenancy) -> bool {
    tenancy.tenants.iter().all(|tenant| tenant.reference.is_none() || tenant.broken.is_empty())
}

/// The statement on whether the guarantees fit on the disk; `None` if no tenant has a reference disk.
pub(crate) fn of_capacity(tenancy: &Tenancy) -> Option<String> {
    let capacity = tenancy.capacity.as_ref()?;
    let (needs, parts) = (three_digits(capacity.needs_percent), capacity.parts.text());
    Some(if capacity.needs_percent <= 100.0 + ROUNDING {
        format!("To be as fast as its tenants’ reference disks, this disk needs {needs}% of its capacity ({parts}).")
    } else if is_kept(tenancy) {
        format!(
            "To be as fast as its tenants’ reference disks whatever the order of requests, this disk would need {needs}% of its capacity ({parts}). Here all guarantees were kept."
        )
    } else {
        format!(
            "Guarantees do not fit: they need {needs}% of this disk’s capacity, by {} ({parts}). Use a faster disk, slower reference disks or fewer tenants.",
            capacity.parts.cause()
        )
    })
}
