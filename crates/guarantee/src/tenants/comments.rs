//! Tenants in a job file's comments, which fio ignores:
//!
//! ```ini
//! [oltp]
//! ; seekwise: tenant=database weight=3 reference=barracuda
//! ```
//! A comment in a job's section assigns the job to a tenant. If a tenant has several jobs, one comment has its guarantee, the others
//! only its name.

use anyhow::{Context, bail, ensure};
use toml::Value;

use super::entry::Entry;

/// Prefix of such a comment, after the `;` or `#`.
const MARK: &str = "seekwise:";

/// The tenants of a job file's text, in order of their first jobs.
///
/// # Errors
/// A comment is outside a job's section, or its syntax is wrong.
pub(super) fn entries(text: &str, source: &str) -> anyhow::Result<Vec<Entry>> {
    let mut entries: Vec<(String, Entry, Vec<Value>)> = Vec::new();
    let mut section = None;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            section = Some(name);
        }
        let comment = line.strip_prefix([';', '#']).map(|comment| comment.trim_start_matches([';', '#']).trim_start());
        let Some(words) = comment.and_then(|comment| comment.strip_prefix(MARK)) else { continue };
        let at = || format!("{source}:{number}: seekwise");
        let job = section.filter(|name| *name != "global");
        let job = job.with_context(|| format!("{} stands in no job's section; put it below [NAME] of a job", at()))?;
        let keys = keys(words, number).with_context(at)?;
        add(&mut entries, job, keys, number).with_context(at)?;
    }
    let with_jobs = entries.into_iter().map(|(_, mut entry, jobs)| {
        entry.keys.push(("jobs".to_owned(), entry.line, Value::Array(jobs)));
        entry
    });
    Ok(with_jobs.collect())
}

/// Parses `key=value` pairs separated by blanks.
fn keys(words: &str, line: usize) -> anyhow::Result<Vec<(String, usize, Value)>> {
    let pairs = words.split_whitespace().map(|word| {
        let pair = word.split_once('=').filter(|(key, value)| !key.is_empty() && !value.is_empty());
        let (key, value) = pair.with_context(|| format!("`{word}` should be KEY=VALUE"))?;
        Ok((key.to_owned(), line, typed(value)))
    });
    let pairs: Vec<(String, usize, Value)> = pairs.collect::<anyhow::Result<_>>()?;
    for (position, (key, ..)) in pairs.iter().enumerate() {
        ensure!(!pairs[..position].iter().any(|(before, ..)| before == key), "{key}: is given twice; once is right");
        ensure!(key != "jobs", "jobs: the job is the one of the section");
        ensure!(key != "name", "name: is spelled tenant here");
    }
    Ok(pairs)
}

/// Parses a value without quotes.
fn typed(text: &str) -> Value {
    match text {
        "true" => Value::Boolean(true),
        "false" => Value::Boolean(false),
        _ => match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(whole), _) => Value::Integer(whole),
            (_, Ok(number)) => Value::Float(number),
            _ => Value::String(text.to_owned()),
        },
    }
}

/// Adds a job's comment to its tenant.
fn add(
    entries: &mut Vec<(String, Entry, Vec<Value>)>,
    job: &str,
    keys: Vec<(String, usize, Value)>,
    line: usize,
) -> anyhow::Result<()> {
    let (named, promised): (Vec<_>, Vec<_>) = keys.into_iter().partition(|(key, ..)| key == "tenant");
    let Some((_, _, name)) = named.into_iter().next() else { bail!("names no tenant; tenant=database") };
    let name = name.as_str().map_or_else(|| name.to_string(), str::to_owned);
    let job = Value::String(job.to_owned());
    let found = entries.iter().position(|(known, ..)| *known == name);
    let Some(position) = found else {
        let mut all = vec![("name".to_owned(), line, Value::String(name.clone()))];
        all.extend(promised);
        entries.push((name, Entry { line, keys: all }, vec![job]));
        return Ok(());
    };
    let (_, entry, jobs) = &mut entries[position];
    ensure!(!jobs.contains(&job), "tenant {name}: this job is its own already; one comment is right");
    for (key, line, value) in promised {
        let before = entry.keys.iter().find(|(known, ..)| *known == key);
        if let Some((_, at, _)) = before {
            bail!("tenant {name}: {key} is already set in line {at}; set it once");
        }
        entry.keys.push((key, line, value));
    }
    jobs.push(job);
    Ok(())
}
