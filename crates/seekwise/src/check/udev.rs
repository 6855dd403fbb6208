//! udev rules that set queue attributes (udev(7)).
//!
//! ```text
//! ACTION=="add|change", KERNEL=="sd*", ATTR{queue/rotational}=="1", ATTR{queue/scheduler}="bfq"
//! └────────────────────────── conditions ─────────────────────────┘ └───── assignment ────────┘
//! ```
//! Rules are evaluated for each whole disk as on a change event, with `GOTO` and `LABEL`, properties set by earlier rules, and those in udev's
//! database. Conditions that need the running udev, such as the output of programs, stay undecided.

use std::collections::BTreeMap;

use super::pattern::any_matches;
use super::root::{Origin, Root, Text};
use super::setting::{Disk, Found, Setting, Tool, attribute_key};

/// Folders in order of precedence.
const FOLDERS: &[&str] =
    &["/etc/udev/rules.d", "/run/udev/rules.d", "/usr/local/lib/udev/rules.d", "/usr/lib/udev/rules.d", "/lib/udev/rules.d"];

/// A part of a rule, as in `ATTR{queue/scheduler}="bfq"`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    key: String,
    /// Text in braces; empty if there are none.
    attribute: String,
    operator: &'static str,
    value: String,
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Part { key, attribute, operator, value } = self;
        if attribute.is_empty() {
            write!(f, "{key}{operator}\"{value}\"")
        } else {
            write!(f, "{key}{{{attribute}}}{operator}\"{value}\"")
        }
    }
}

impl Part {
    fn is_condition(&self) -> bool {
        matches!(self.operator, "==" | "!=") || matches!(self.key.as_str(), "PROGRAM" | "IMPORT" | "TEST")
    }

    /// Settings made by an assignment: an attribute, or an `echo` into its file by a `RUN` program.
    fn sets(&self) -> Option<(String, String)> {
        match self.key.as_str() {
            _ if self.is_condition() => None,
            "ATTR" => Some((attribute_key(&self.attribute)?.to_owned(), self.value.clone())),
            "RUN" => echoed(&self.value),
            _ => None,
        }
    }
}

/// Parses a command such as `echo bfq > /sys$DEVPATH/queue/scheduler`.
fn echoed(command: &str) -> Option<(String, String)> {
    let (_, rest) = command.split_once("echo ")?;
    let (value, path) = rest.split_once('>')?;
    let path = path.split_whitespace().next()?.trim_matches(['\'', '"', ';']);
    let (of_device, attribute) = path.split_once("/queue/")?;
    let is_own = ["$DEVPATH", "%p", "$devpath", "%k", "$kernel", "$name"].iter().any(|name| of_device.ends_with(name));
    is_own.then(|| (attribute.to_owned(), value.trim().trim_matches(['\'', '"']).to_owned()))
}

struct Rule {
    origin: Origin,
    parts: Vec<Part>,
}

/// Result of a condition.
enum Truth {
    Yes,
    No,
    Unknown,
}

impl From<bool> for Truth {
    fn from(holds: bool) -> Truth {
        if holds { Truth::Yes } else { Truth::No }
    }
}

/// Collects the settings made by rules.
pub fn read(root: &Root, disks: &[Disk], found: &mut Found) {
    let texts = root.drop_ins(FOLDERS, ".rules", &mut found.warnings);
    let files: Vec<Vec<Rule>> = texts.iter().map(|text| rules(text, &mut found.warnings)).collect();
    let mut reasons: BTreeMap<Origin, Vec<String>> = BTreeMap::new();
    for disk in disks {
        let properties = properties(disk);
        let has_database = !properties.is_empty();
        let mut player = Player { disk, properties, has_database, found: &mut *found, reasons: &mut reasons };
        files.iter().for_each(|rules| player.play(rules));
    }
    for rule in files.iter().flatten() {
        if found.settings.iter().any(|setting| setting.origin == rule.origin) {
            continue;
        }
        let mut why = reasons.remove(&rule.origin).unwrap_or_default();
        why.dedup();
        let why = match why.as_slice() {
            [only] => only.clone(),
            _ => "no device here matches its conditions".to_owned(),
        };
        for (key, value) in rule.parts.iter().filter_map(Part::sets) {
            found.unmatched.push((Setting::new(Tool::Udev, rule.origin.clone(), None, &key, &value), why.clone()));
        }
    }
}

/// Properties of a device from udev's database.
fn properties(disk: &Disk) -> BTreeMap<String, String> {
    let (major, minor) = disk.device.number;
    let text = disk.root.attribute(&format!("/run/udev/data/b{major}:{minor}")).unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.strip_prefix("E:")?.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Evaluates rules for one device.
struct Player<'a, 'b> {
    disk: &'a Disk<'a>,
    properties: BTreeMap<String, String>,
    /// Whether udev's database has the device; then missing properties are empty rather than unknown.
    has_database: bool,
    found: &'b mut Found,
    /// Why rules had no effect on devices.
    reasons: &'b mut BTreeMap<Origin, Vec<String>>,
}

impl Player<'_, '_> {
    fn play(&mut self, rules: &[Rule]) {
        let mut skips_to: Option<(&str, &Origin)> = None;
        for rule in rules {
            if let Some((label, from)) = skips_to {
                if !rule.parts.iter().any(|part| part.key == "LABEL" && part.value == label) {
                    self.passed_over(rule, format!("line {} goes to {label:?} before it", from.line));
                    continue;
                }
                skips_to = None;
            }
            if let Some(target) = self.apply(rule) {
                skips_to = Some((target, &rule.origin));
            }
        }
    }

    fn passed_over(&mut self, rule: &Rule, why: String) {
        if rule.parts.iter().any(|part| part.sets().is_some()) {
            self.reasons.entry(rule.origin.clone()).or_default().push(why);
        }
    }

    /// Applies a rule if its conditions hold. Returns the label of its `GOTO`, if any.
    fn apply<'r>(&mut self, rule: &'r Rule) -> Option<&'r str> {
        let mut open = None;
        for part in rule.parts.iter().filter(|part| part.is_condition()) {
            match self.holds(part) {
                Truth::Yes => {}
                Truth::No => {
                    self.passed_over(rule, format!("no device here matches {part}"));
                    return None;
                }
                Truth::Unknown => open = Some(part.to_string()),
            }
        }
        for part in rule.parts.iter().filter(|part| !part.is_condition()) {
            if part.key == "ENV" && open.is_none() {
                self.properties.insert(part.attribute.clone(), part.value.clone());
            }
            if let Some((key, value)) = part.sets() {
                let setting = Setting::new(Tool::Udev, rule.origin.clone(), Some(self.disk.name()), &key, &value);
                self.found.settings.push(Setting { condition: open.clone(), ..setting });
            }
        }
        let target = rule.parts.iter().find(|part| part.key == "GOTO").map(|part| part.value.as_str());
        target.filter(|_| open.is_none())
    }

    fn holds(&self, part: &Part) -> Truth {
        let equal = |text: &str| Truth::from(any_matches(&part.value, text) == (part.operator == "=="));
        match part.key.as_str() {
            // The rule applies to add or change events.
            "ACTION" if part.operator == "==" => {
                Truth::from(["add", "change"].iter().any(|action| any_matches(&part.value, action)))
            }
            "ACTION" => Truth::from(["add", "change"].iter().any(|action| !any_matches(&part.value, action))),
            "SUBSYSTEM" => equal("block"),
            "SUBSYSTEMS" if part.operator == "==" && any_matches(&part.value, "block") => Truth::Yes,
            "KERNEL" | "NAME" => equal(self.disk.name()),
            "KERNELS" if part.operator == "==" && any_matches(&part.value, self.disk.name()) => Truth::Yes,
            "DEVPATH" => Truth::Unknown,
            "ENV" => match part.attribute.as_str() {
                "DEVTYPE" => equal("disk"),
                "DEVNAME" => equal(&format!("/dev/{}", self.disk.name().replace('!', "/"))),
                "ACTION" | "SUBSYSTEM" => {
                    self.holds(&Part { key: part.attribute.clone(), attribute: String::new(), ..part.clone() })
                }
                name => match self.properties.get(name) {
                    Some(value) => equal(value),
                    None if !self.has_database => Truth::Unknown,
                    None => equal(""),
                },
            },
            // A missing attribute matches nothing.
            "ATTR" => self.disk.attribute(&part.attribute).map_or(Truth::No, |value| equal(&value)),
            "ATTRS" => {
                let paths = [part.attribute.clone(), format!("device/{}", part.attribute)];
                match paths.iter().find_map(|path| self.disk.attribute(path)) {
                    Some(value) => equal(&value),
                    None => Truth::Unknown,
                }
            }
            "TEST" => {
                let path = if part.value.starts_with('/') { part.value.clone() } else { self.disk.path(&part.value) };
                let exists = self.disk.root.target_name(&path).is_some();
                Truth::from(exists == (part.operator != "!="))
            }
            _ => Truth::Unknown,
        }
    }
}

fn rules(text: &Text, warnings: &mut Vec<String>) -> Vec<Rule> {
    let mut rules = Vec::new();
    for (origin, line) in text.continued_lines() {
        match parts(&line) {
            Ok(parts) => rules.push(Rule { origin, parts }),
            Err(wrong) => warnings.push(format!("{origin}: {wrong}; udev ignores the rule")),
        }
    }
    rules
}

/// Splits a rule into its parts.
fn parts(line: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut rest = line.trim_start_matches([',', ' ', '\t']);
    while !rest.is_empty() {
        let (part, behind) = part(rest)?;
        parts.push(part);
        rest = behind.trim_start_matches([',', ' ', '\t']);
    }
    Ok(parts)
}

/// Splits off the first part; also returns the rest.
fn part(text: &str) -> Result<(Part, &str), String> {
    let shown = |text: &str| text.chars().take(40).collect::<String>();
    let end = text.find(|c: char| !c.is_ascii_uppercase() && c != '_').unwrap_or(text.len());
    let (key, rest) = text.split_at(end);
    if key.is_empty() {
        return Err(format!("{:?} should be a key in capital letters, as in KERNEL==\"sd*\"", shown(text)));
    }
    let (attribute, rest) = match rest.strip_prefix('{') {
        Some(inner) => inner.split_once('}').ok_or_else(|| format!("{key}{{ has no closing brace"))?,
        None => ("", rest),
    };
    let rest = rest.trim_start();
    let operators = ["==", "!=", "+=", "-=", ":=", "="];
    let operator = operators.into_iter().find(|operator| rest.starts_with(operator));
    let operator =
        operator.ok_or_else(|| format!("{key} is followed by {:?}; should be one of {}", shown(rest), operators.join(" ")))?;
    let rest = rest[operator.len()..].trim_start();
    let rest = rest.strip_prefix(['e', 'i']).filter(|rest| rest.starts_with('"')).unwrap_or(rest);
    let Some(inner) = rest.strip_prefix('"') else {
        return Err(format!("the value of {key} is {:?}; should be in quotation marks", shown(rest)));
    };
    let mut value = String::new();
    let mut is_escaped = false;
    for (at, c) in inner.char_indices() {
        match c {
            '"' if !is_escaped => {
                let part = Part { key: key.to_owned(), attribute: attribute.to_owned(), operator, value };
                return Ok((part, &inner[at + 1..]));
            }
            '"' => {
                value.pop();
                value.push(c);
            }
            _ => value.push(c),
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    Err(format!("the value of {key} has no closing quotation mark"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn a_rule_is_taken_apart() {
        let parts =
            parts(r#"ACTION=="add|change",KERNEL=="sd*" , ATTR{queue/scheduler} = "bfq", RUN+="/bin/sh -c \"echo x\"""#).unwrap();
        let texts: Vec<String> = parts.iter().map(Part::to_string).collect();
        let expected =
            [r#"ACTION=="add|change""#, r#"KERNEL=="sd*""#, r#"ATTR{queue/scheduler}="bfq""#, r#"RUN+="/bin/sh -c "echo x"""#];
        assert_eq!(texts, expected);
    }

    #[test]
    fn what_is_no_rule_is_named() {
        for (line, wrong) in [
            ("kernel==\"sda\"", "capital letters"),
            ("KERNEL\"sda\"", "should be one of =="),
            ("KERNEL==sda", "in quotation marks"),
            ("KERNEL==\"sda", "no closing quotation mark"),
            ("ATTR{queue/scheduler=\"x\"", "no closing brace"),
        ] {
            assert!(parts(line).unwrap_err().contains(wrong), "{line}: {:?}", parts(line));
        }
    }

    #[test]
    fn an_echo_into_the_devices_own_attribute_is_a_setting() {
        let adios = "/bin/sh -c 'modprobe -b adios; echo adios > /sys$DEVPATH/queue/scheduler'";
        assert_eq!(echoed(adios), Some(("scheduler".to_owned(), "adios".to_owned())));
        assert_eq!(echoed("/bin/sh -c 'echo 1 > /sys/module/x/queue/y'"), None);
        assert_eq!(echoed("/usr/bin/true"), None);
    }
}
