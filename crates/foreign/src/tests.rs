//! Libraries compiled from `examples/elevator.c` and from faulty variants of it.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

use std::process::Command;

use super::*;

/// Compiles the example with some text replaced; `None` without a C compiler.
fn compiled(folder: &Path, name: &str, changes: &[(&str, &str)]) -> Option<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut source = std::fs::read_to_string(crates.join("../../examples/elevator.c")).unwrap();
    for (from, to) in changes {
        assert!(source.contains(from), "{from}");
        source = source.replacen(from, to, 1);
    }
    let (code, library) = (folder.join(format!("{name}.c")), folder.join(format!("{name}.so")));
    std::fs::write(&code, source.replace("elevator-c", name)).unwrap();
    let compile = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror", "-I"];
    let output = Command::new("cc").args(compile).arg(crates.join("include")).arg("-o").args([&library, &code]).output();
    let Ok(output) = output else {
        eprintln!("skipped: there is no C compiler");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(library)
}

#[test]
fn a_scheduler_in_c_keeps_every_rule_and_serves_as_its_declaration_says() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = compiled(folder.path(), "good", &[]) else { return };
    let spec = load(&library).unwrap();
    assert_eq!((spec.name, spec.work_conserving, spec.tunables[1].name), ("good", true, "patience_ms"));
    check(spec, 64).unwrap();
    let (again, values) = block::parse_among([spec].into_iter(), "good:patience_ms=20").unwrap();
    assert!(std::ptr::eq(again, spec) && values[1] == 20);
    assert!(std::ptr::eq(load(&library).unwrap(), spec), "a second time");
    let copy = folder.path().join("copy.so");
    std::fs::copy(&library, &copy).unwrap();
    assert!(load(&copy).unwrap_err().to_string().contains("there is a scheduler good already"));
}

#[test]
fn answers_that_break_a_rule_are_found_and_harm_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let dispatch = "return SEEKWISE_DISPATCH;";
    let faults = [
        ("twice", "elevator->count--;", "if (now_ns % 3) elevator->count--; else return SEEKWISE_DISPATCH;", "which is not queued"),
        ("stranger", dispatch, "*id += 1u << 30; return SEEKWISE_DISPATCH;", "which is not queued"),
        ("forgets", dispatch, "elevator->count = 0; return SEEKWISE_DISPATCH;", "nothing is queued, but"),
        (
            "waits",
            "size_t best = 0, i;",
            "size_t best = 0, i; if (elevator->count) { *until_ns = now_ns; return SEEKWISE_WAIT; }",
            "it may wait",
        ),
        (
            "pretends",
            "size_t best = 0, i;",
            "size_t best = 0, i; if (elevator->count == 1) { *until_ns = now_ns + 1000; return SEEKWISE_WAIT; }",
            "but the declaration says work_conserving = 1",
        ),
        ("mumbles", dispatch, "return 7;", "pick returned 7"),
        ("poor", "calloc(1, sizeof(*elevator))", "values[0] ? NULL : calloc(1, 1)", "create returned NULL"),
    ];
    for (name, from, to, rule) in faults {
        let Some(library) = compiled(folder.path(), name, &[(from, to)]) else { return };
        let problem = check(load(&library).unwrap(), 32).unwrap_err();
        assert!(problem.contains(rule), "{name}: {problem}");
    }
}

#[test]
fn an_invalid_declaration_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let name = ".name = \"elevator-c\"";
    let faults = [
        ("newer", ".version = SEEKWISE_SCHEDULER_VERSION", ".version = 2", "version 2; 1 is known"),
        ("unable", "\t.pick = pick,", "\t.pick = 0 ? pick : NULL,", "the function pick is missing"),
        ("nameless", name, ".name = NULL", "name is NULL"),
        ("taken", name, ".name = \"bfq\"", "there is a scheduler bfq already"),
        ("shouts", name, ".name = \"Shouts\"", "should be lower-case"),
        ("countless", ".tunable_count = ", ".tunable_count = 1000000000 + ", "a scheduler may have 64 tunables"),
        ("reversed", "1, 10000, 500", "10, 1, 500", "should be from 10 to 1"),
        (
            "symbol",
            "const struct seekwise_scheduler seekwise_scheduler",
            "const struct seekwise_scheduler another",
            "seekwise_scheduler",
        ),
    ];
    for (name, from, to, reason) in faults {
        let changes = [
            (from, to),
            (
                "#include \"seekwise_scheduler.h\"",
                "#include \"seekwise_scheduler.h\"\nextern const struct seekwise_scheduler another;",
            ),
        ];
        let Some(library) = compiled(folder.path(), name, &changes) else { return };
        let error = load(&library).unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains(&format!("{name}.so")), "{name}: {error}");
    }
    std::fs::write(folder.path().join("text.so"), "no library").unwrap();
    assert!(load(&folder.path().join("text.so")).unwrap_err().to_string().contains("text.so"));
    assert!(load(Path::new("absent.so")).unwrap_err().to_string().contains("absent.so"));
}
