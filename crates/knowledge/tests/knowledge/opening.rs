//! Files that are not a knowledge base are recognised and left unchanged.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use knowledge::{Filter, Form, Knowledge, Retention, Table};
use proptest::prelude::*;
use rusqlite::Connection;
use tempfile::tempdir;

use crate::fixture::{contents, filled};

/// The error message of opening the file, without its path; the same for every way of opening.
fn refusals(path: &Path) -> Vec<String> {
    let opened = [Knowledge::open(path), Knowledge::open_existing(path), Knowledge::open_to_read(path)];
    let name = format!("{}: ", path.display());
    let problem = |opened: Result<Knowledge, knowledge::KnowledgeError>| match opened {
        Ok(_) => "opened".to_owned(),
        Err(error) => error.to_string().strip_prefix(&name).unwrap().to_owned(),
    };
    opened.into_iter().map(problem).collect()
}

#[test]
fn other_files_are_refused_and_not_changed() {
    let folder = tempdir().unwrap();
    let job = folder.path().join("job.fio");
    fs::write(&job, "[global]\nrw=randread\nsize=1g\n".repeat(100)).unwrap();
    for said in refusals(&job) {
        assert_eq!(said, "is no database; a knowledge base is a file that seekwise wrote");
    }
    let short = folder.path().join("short");
    fs::write(&short, "x").unwrap();
    for said in refusals(&short) {
        assert_eq!(said, "is no database; a knowledge base is a file that seekwise wrote");
    }
    let other = folder.path().join("other.sqlite");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE songs (title TEXT)").unwrap();
    let bytes = fs::read(&other).unwrap();
    for said in refusals(&other) {
        assert_eq!(said, "is another program's database; a knowledge base is a file that seekwise wrote");
    }
    assert_eq!(fs::read(&other).unwrap(), bytes);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "nothing was created next to them");
}

#[test]
fn a_view_that_never_ends_and_a_foreign_trigger_are_refused() {
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
    let view = format!("DROP TRIGGER window_gone; DROP TABLE windows; CREATE VIEW windows AS {endless}");
    let trigger = format!("CREATE TRIGGER slow AFTER INSERT ON runs BEGIN SELECT max(i) FROM ({endless}); END");
    for harm in [view, trigger] {
        let folder = tempdir().unwrap();
        let path = folder.path().join("kb.sqlite");
        drop(filled(&path));
        assert_eq!(refusals(&path), ["opened"; 3], "with the trigger of its own");
        Connection::open(&path).unwrap().execute_batch(&harm).unwrap();
        for said in refusals(&path) {
            assert!(said.starts_with("has a view or a trigger that no knowledge base has"), "{said}");
        }
    }
}

/// The daemon's user owns the folder of its knowledge base, which root opens for `seekwise-agent learn`.
#[test]
fn root_follows_no_link_in_another_users_folder() {
    let folder = tempfile::tempdir().unwrap();
    if std::os::unix::fs::chown(folder.path(), Some(1), Some(1)).is_err() {
        return eprintln!("skipped: needs root");
    }
    let (outside, path) = (tempfile::tempdir().unwrap(), folder.path().join("knowledge.sqlite"));
    let (there, new) = (outside.path().join("roots.sqlite"), outside.path().join("new.sqlite"));
    Knowledge::open(&there).unwrap();
    for target in [&there, &new] {
        std::os::unix::fs::symlink(target, &path).unwrap();
        let error = Knowledge::open(&path).unwrap_err().to_string();
        assert!(error.contains("is a link in another user's folder"), "{error}");
        assert!(Knowledge::open_if_there(&path).is_err());
        std::fs::remove_file(&path).unwrap();
    }
    assert!(!new.exists(), "nothing was created behind the link");
    Knowledge::open(&path).unwrap();
    assert!(Knowledge::open_if_there(&path).unwrap().is_some(), "a file of its own is used");
}

/// SQLite finishes a transaction that a crash interrupted, and then deletes the file that its journal names as the super-journal.
#[test]
fn a_planted_journal_deletes_no_file_of_root() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("knowledge.sqlite");
    Knowledge::open(&path).unwrap();
    let owned_by_another = [folder.path(), &path].iter().all(|path| std::os::unix::fs::chown(path, Some(1), Some(1)).is_ok());
    if !owned_by_another {
        return eprintln!("skipped: needs root");
    }
    let outside = tempfile::tempdir().unwrap();
    let precious = outside.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    let database = fs::read(&path).unwrap();
    let page = u32::from(u16::from_be_bytes([database[16], database[17]]));
    let number = |number: u32| number.to_be_bytes();
    let magic = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    let pages = database.len() as u32 / page;
    let mut journal = [&magic[..], &number(0), &number(0), &number(pages), &number(512), &number(page)].concat();
    journal.resize(512, 0);
    let name = precious.to_str().unwrap().as_bytes();
    let sum = name.iter().map(|byte| u32::from(*byte)).sum();
    let lock_page = 0x4000_0000 / page + 1;
    journal.extend([&number(lock_page)[..], name, &number(name.len() as u32), &number(sum), &magic].concat());
    let planted = folder.path().join("knowledge.sqlite-journal");
    fs::write(&planted, journal).unwrap();
    std::os::unix::fs::chown(&planted, Some(1), Some(1)).unwrap();
    let opened = Knowledge::open(&path).map(drop);
    assert!(precious.exists(), "{opened:?}");
    assert!(opened.is_err() && !planted.exists(), "it was not taken for the journal of a crash: {opened:?}");
    Knowledge::open(&path).unwrap();
    let made = folder.path().join("new.sqlite");
    Knowledge::open(&made).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&fs::metadata(&made).unwrap()), 1, "the folder's owner can use it, too");
    let own = outside.path().join("own");
    fs::write(&own, "").unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&fs::metadata(&own).unwrap()), 0, "root is root again");
}

#[test]
fn folders_pipes_and_devices_are_refused_without_waiting() {
    let folder = tempdir().unwrap();
    assert_eq!(refusals(folder.path())[0], "is a folder; a knowledge base is a file");
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for path in [&pipe, Path::new("/dev/null")] {
        for said in refusals(path) {
            assert_eq!(said, "is a pipe or a device; a knowledge base is a file");
        }
    }
}

#[test]
fn only_opening_it_for_the_first_time_creates_a_file() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("kb");
    for opened in [Knowledge::open_existing(&path), Knowledge::open_to_read(&path)] {
        assert_eq!(opened.unwrap_err().to_string(), format!("{}: there is no such file", path.display()));
    }
    assert!(!path.exists());
    fs::write(&path, "").unwrap();
    assert!(Knowledge::open_to_read(&path).unwrap_err().to_string().contains("is empty"));
    Knowledge::open(&path).unwrap();
    Knowledge::open_to_read(&path).unwrap();
    assert_eq!(refusals(Path::new(""))[0], "there is no such file");
    assert!(refusals(Path::new("nowhere/kb"))[0].contains("there is no folder nowhere"));
}

#[test]
fn a_later_version_is_refused_and_says_so() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("kb");
    filled(&path);
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    for said in refusals(&path) {
        assert!(said.starts_with("has schema version 99, this seekwise knows those up to "), "{said}");
    }
}

#[test]
fn names_are_only_names() {
    let folder = tempdir().unwrap();
    for name in
        [&b":memory:"[..], b"file:kb?mode=memory", b"kb?immutable=1#x", b"%41 'a' \"b\"", b"\xff\xfe", "größe".as_bytes(), b"-wal"]
    {
        let path = folder.path().join(std::ffi::OsStr::from_bytes(name));
        let before = contents(&filled(&path));
        assert!(path.is_file(), "{name:?}");
        assert_eq!(contents(&Knowledge::open_to_read(&path).unwrap()), before);
    }
}

#[test]
fn reading_leaves_no_other_file_and_changes_nothing() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("kb");
    filled(&path);
    let bytes = fs::read(&path).unwrap();
    let mut knowledge = Knowledge::open_to_read(&path).unwrap();
    contents(&knowledge);
    assert!(knowledge.batch().is_err() && knowledge.prune(&Retention::default()).is_err());
    drop(knowledge);
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_symbolic_link_leads_to_the_file() {
    let folder = tempdir().unwrap();
    let (path, link): (PathBuf, PathBuf) = (folder.path().join("kb"), folder.path().join("link"));
    std::os::unix::fs::symlink("kb", &link).unwrap();
    filled(&link);
    assert!(path.is_file());
    assert_eq!(Knowledge::open_to_read(&path).unwrap().summary().unwrap().windows, 20);
}

proptest! {
    #![proptest_config(crate::fixture::cases(200))]

    #[test]
    fn a_damaged_file_gives_errors_and_never_a_panic(
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        length in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let folder = tempdir().unwrap();
        let path = folder.path().join("kb");
        drop(filled(&path));
        let mut bytes = fs::read(&path).unwrap();
        for (place, byte) in &places {
            let index = place.index(bytes.len());
            bytes[index] = *byte;
        }
        if is_cut {
            bytes.truncate(length.index(bytes.len()));
        }
        fs::write(&path, bytes).unwrap();
        let _ = use_it(&path);
    }
}

/// Performs every operation on a file.
fn use_it(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut knowledge = Knowledge::open(path)?;
    let all = Filter::default();
    let _ = knowledge.check();
    let _ = knowledge.summary();
    let _ = knowledge.latest_model("tree");
    knowledge.windows(&all).for_each(drop);
    knowledge.decisions(&all).for_each(drop);
    knowledge.requests(&all).for_each(drop);
    for table in Table::ALL {
        for form in [Form::Csv, Form::Json] {
            let _ = knowledge.export(table, form, std::io::sink(), &mut |_| true);
        }
    }
    let mut batch = knowledge.batch()?;
    batch.window(&crate::fixture::run(1), &crate::fixture::window(1000))?;
    batch.commit()?;
    knowledge.prune(&Retention { windows: 3, requests: 3, models: 1, max_mib: 0 })?;
    Ok(())
}
