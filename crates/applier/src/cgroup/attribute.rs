//! The closed list of cgroup files with a line per device, and the permitted values of a line.

/// The permitted values of a key.
#[derive(Debug)]
enum Value {
    /// A number in this range, or this word if there is one.
    Number(f64, f64, Option<&'static str>),
    /// One of these words.
    Words(&'static [&'static str]),
}

/// A file with a line per device.
#[derive(Debug)]
pub(crate) struct Attribute {
    /// The file's name.
    pub(crate) name: &'static str,
    /// Whether only the root cgroup has it; otherwise all cgroups except the root have it.
    pub(crate) is_of_root: bool,
    /// The value for a device without a line, as it is written.
    default: &'static str,
    /// Keys of a line, for example `rbps=1000000`; the key is empty if a line is a single value.
    keys: &'static [(&'static str, Value)],
}

/// More than any device, and exact in a `f64`.
const MOST: f64 = (1_u64 << 53) as f64;
const LIMIT: Value = Value::Number(1.0, MOST, Some("max"));
/// The kernel cuts off at 2^32 - 1, which means no limit (`tg_set_limit`).
const REQUESTS: Value = Value::Number(1.0, 4_294_967_294.0, Some("max"));
const COUNT: Value = Value::Number(1.0, MOST, None);
const PERCENT: Value = Value::Number(0.0, 100.0, None);
/// The speed of a device in percent: from `VRATE_MIN_PPM` to `VRATE_MAX_PPM` (`block/blk-iocost.c`).
const SPEED: Value = Value::Number(1.0, 10_000.0, None);
const CONTROL: Value = Value::Words(&["auto", "user"]);

/// The file with limits.
const LIMITS: &str = "io.max";

/// All files, in the order of lists.
static ALL: [Attribute; 5] = [
    Attribute {
        name: LIMITS,
        is_of_root: false,
        default: "rbps=max wbps=max riops=max wiops=max",
        keys: &[("rbps", LIMIT), ("wbps", LIMIT), ("riops", REQUESTS), ("wiops", REQUESTS)],
    },
    Attribute {
        name: "io.weight",
        is_of_root: false,
        default: "default",
        keys: &[("", Value::Number(1.0, 10_000.0, Some("default")))],
    },
    Attribute {
        name: "io.bfq.weight",
        is_of_root: false,
        default: "default",
        keys: &[("", Value::Number(1.0, 1_000.0, Some("default")))],
    },
    Attribute {
        name: "io.cost.qos",
        is_of_root: true,
        default: "enable=0 ctrl=auto",
        keys: &[
            ("enable", Value::Number(0.0, 1.0, None)),
            ("ctrl", CONTROL),
            ("rpct", PERCENT),
            ("rlat", COUNT),
            ("wpct", PERCENT),
            ("wlat", COUNT),
            ("min", SPEED),
            ("max", SPEED),
        ],
    },
    Attribute {
        name: "io.cost.model",
        is_of_root: true,
        default: "ctrl=auto",
        keys: &[
            ("ctrl", CONTROL),
            ("model", Value::Words(&["linear"])),
            ("rbps", COUNT),
            ("rseqiops", COUNT),
            ("rrandiops", COUNT),
            ("wbps", COUNT),
            ("wseqiops", COUNT),
            ("wrandiops", COUNT),
        ],
    },
];

/// The names of the files.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|attribute| attribute.name)
}

/// The files of the root cgroup, or of any other.
pub(crate) fn all(of_root: bool) -> impl Iterator<Item = &'static Attribute> {
    ALL.iter().filter(move |attribute| attribute.is_of_root == of_root)
}

/// Parses the file and the device of a name such as `io.max sda`.
///
/// # Errors
/// The text lists the known files.
pub(crate) fn parse(name: &str, of_root: bool) -> Result<(&'static Attribute, &str), String> {
    let (file, device) = name.split_once(' ').unwrap_or((name, ""));
    let found = all(of_root).find(|attribute| attribute.name == file);
    let is_device = !device.is_empty() && !device.starts_with('.') && !device.contains(['/', ' ', '\0', '\n']);
    found.filter(|_| is_device).map(|attribute| (attribute, device)).ok_or_else(|| {
        let known: Vec<String> = all(of_root).map(|attribute| format!("{} DEVICE", attribute.name)).collect();
        format!("{name:?} is not an attribute that can be set there; known are {}", known.join(", "))
    })
}

/// Keys and values of a line; the key is empty if the line is a single value.
fn pairs(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.split_whitespace().map(|word| word.split_once('=').unwrap_or(("", word)))
}

impl Attribute {
    /// Checks a value. The error names the allowed form.
    pub(crate) fn check(&self, value: &str) -> Result<(), String> {
        let name = self.name;
        let mut seen = Vec::new();
        for (key, given) in pairs(value) {
            let Some((_, allowed)) = self.keys.iter().find(|(known, _)| *known == key) else {
                return Err(format!("{name}: {value:?} should be as in {:?}", self.default));
            };
            if seen.contains(&key) {
                return Err(format!("{name}: {key} is given twice in {value:?}; once is right"));
            }
            seen.push(key);
            let right = match allowed {
                Value::Words(words) if words.contains(&given) => continue,
                Value::Words(words) => words.join(" or "),
                Value::Number(_, _, Some(word)) if *word == given => continue,
                Value::Number(least, most, word) => {
                    let is_plain = given.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
                    if is_plain && given.parse().is_ok_and(|number: f64| (*least..=*most).contains(&number)) {
                        continue;
                    }
                    let or = word.map_or_else(String::new, |word| format!(", or {word}"));
                    format!("a number from {least} to {most}{or}")
                }
            };
            return Err(format!("{name}: {key}{}{given} should be {right}", if key.is_empty() { "" } else { "=" }));
        }
        if seen.is_empty() { Err(format!("{name}: is empty; should be as in {:?}", self.default)) } else { Ok(()) }
    }

    /// The value for the device with this number, for example `8:0`, in the file's text.
    pub(crate) fn value(&self, text: &str, number: &str) -> String {
        let mut lines = text.lines().filter_map(|line| line.trim().split_once(' '));
        let line = lines.find(|(device, _)| *device == number).map_or(self.default, |(_, line)| line);
        self.canonical(line)
    }

    /// The value in a form that can be written: parameters chosen by the kernel are left out, as writing them would make them the user's
    /// (`ioc_qos_write`).
    fn canonical(&self, line: &str) -> String {
        let is_auto = pairs(line).any(|pair| pair == ("ctrl", "auto"));
        let kept = line.split_whitespace().filter(|word| !is_auto || word.starts_with("ctrl=") || word.starts_with("enable="));
        kept.collect::<Vec<_>>().join(" ")
    }

    /// The complete value after this is written: keys that are not given keep their values.
    pub(crate) fn merged(&self, before: &str, given: &str) -> String {
        let of = |line: &'static (&'static str, Value), from: &str| {
            pairs(from).find(|(key, _)| *key == line.0).map(|(_, value)| value.to_owned())
        };
        let word = |key: &'static (&'static str, Value)| {
            let value = of(key, given).or_else(|| of(key, before))?;
            Some(if key.0.is_empty() { value } else { format!("{}={value}", key.0) })
        };
        self.canonical(&self.keys.iter().filter_map(word).collect::<Vec<_>>().join(" "))
    }

    /// The tighter of two values, limit by limit; for attributes other than limits, `given`.
    pub(crate) fn tightened(&self, given: &str, original: &str) -> String {
        if self.name != LIMITS {
            return given.to_owned();
        }
        let limit = |text: &str| text.parse().unwrap_or(f64::INFINITY);
        let of = |key: &str| pairs(original).find(|(of, _)| *of == key).map_or("max", |(_, value)| value);
        let tighter = |(key, value)| format!("{key}={}", if limit(of(key)) < limit(value) { of(key) } else { value });
        pairs(given).map(tighter).collect::<Vec<_>>().join(" ")
    }

    /// Whether the kernel shows `written` as `now`: it may format numbers differently, and add keys.
    pub(crate) fn is(&self, written: &str, now: &str) -> bool {
        pairs(written).all(|(key, value)| {
            let mut there = pairs(now).filter(|(of, _)| *of == key);
            there.any(|(_, now)| {
                now == value || matches!((now.parse(), value.parse()), (Ok::<f64, _>(a), Ok::<f64, _>(b)) if a == b)
            })
        })
    }

    /// The lowest limit in bytes per second of a value; `None` if it has none.
    pub(crate) fn least_bytes_per_s(&self, value: &str) -> Option<u64> {
        let limits = pairs(value).filter(|(key, _)| self.name == LIMITS && matches!(*key, "rbps" | "wbps"));
        limits.filter_map(|(_, limit)| limit.parse().ok()).min()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    fn of(name: &str) -> &'static Attribute {
        ALL.iter().find(|attribute| attribute.name == name).unwrap()
    }

    #[test]
    fn of_a_file_only_the_devices_own_line_is_read() {
        let text = "8:0 rbps=1 wbps=max riops=max wiops=max\n8:16 rbps=max wbps=2 riops=max wiops=max";
        assert_eq!(of("io.max").value(text, "8:16"), "rbps=max wbps=2 riops=max wiops=max");
        assert_eq!(of("io.max").value(text, "8:1"), "rbps=max wbps=max riops=max wiops=max");
        assert_eq!(of("io.weight").value("default 100\n8:0 50", "8:0"), "50");
        assert_eq!(of("io.weight").value("default 100\n8:0 50", "8:1"), "default");
    }

    #[test]
    fn what_the_kernel_chooses_by_itself_is_not_written_back_as_chosen_by_hand() {
        let line = "254:0 enable=0 ctrl=auto rpct=0.00 rlat=250000 wpct=0.00 wlat=250000 min=1.00 max=10000.00";
        assert_eq!(of("io.cost.qos").value(line, "254:0"), "enable=0 ctrl=auto");
        let user = "254:0 enable=1 ctrl=user rpct=95.00 rlat=7500 wpct=0.00 wlat=250000 min=50.00 max=150.00";
        assert_eq!(of("io.cost.qos").value(user, "254:0"), user.split_once(' ').unwrap().1);
        assert!(of("io.cost.qos").is("ctrl=user rpct=95", user) && !of("io.cost.qos").is("rpct=94", user));
        assert_eq!(of("io.cost.model").value("254:0 ctrl=auto model=linear rbps=1", "254:0"), "ctrl=auto");
    }

    #[test]
    fn keys_that_are_not_given_stay() {
        let merged = of("io.max").merged("rbps=5 wbps=max riops=max wiops=max", "wbps=7");
        assert_eq!(merged, "rbps=5 wbps=7 riops=max wiops=max");
        assert_eq!(of("io.weight").merged("default", "50"), "50");
        assert_eq!(of("io.cost.qos").merged("enable=0 ctrl=auto", "enable=1"), "enable=1 ctrl=auto");
    }

    #[test]
    fn a_limit_is_never_looser_than_the_one_before_the_agents() {
        let original = "rbps=max wbps=50000000 riops=100 wiops=max";
        let tightened = |given: &str| of("io.max").tightened(given, original);
        assert_eq!(tightened("rbps=5 wbps=60000000 riops=max wiops=7"), "rbps=5 wbps=50000000 riops=100 wiops=7");
        assert_eq!(tightened("rbps=max wbps=max riops=max wiops=max"), original);
        assert_eq!(of("io.weight").tightened("50", "20"), "50");
    }

    #[test]
    fn values_are_checked_and_the_error_says_what_is_right() {
        for (name, value) in
            [("io.max", "rbps=1000000 wiops=max"), ("io.weight", "default"), ("io.weight", "10000"), ("io.cost.qos", "rpct=95.5")]
        {
            assert_eq!(of(name).check(value), Ok(()), "{name} {value}");
        }
        let wrong = [
            ("io.max", "", "io.max: is empty; should be as in \"rbps=max wbps=max riops=max wiops=max\""),
            ("io.max", "rbps=0", "rbps=0 should be a number from 1 to 9007199254740992, or max"),
            ("io.max", "rbps=inf", "rbps=inf should be a number"),
            ("io.max", "rbps=1e6", "rbps=1e6 should be a number"),
            ("io.max", "rbps=-1", "rbps=-1 should be a number"),
            ("io.max", "rbps=1 rbps=2", "rbps is given twice"),
            ("io.max", "8:16 rbps=1", "should be as in"),
            ("io.max", "rbps=1\n8:16 rbps=1", "should be as in"),
            ("io.weight", "0", "io.weight: 0 should be a number from 1 to 10000, or default"),
            ("io.bfq.weight", "1001", "should be a number from 1 to 1000"),
            ("io.cost.qos", "ctrl=me", "ctrl=me should be auto or user"),
        ];
        for (name, value, words) in wrong {
            let error = of(name).check(value).unwrap_err();
            assert!(error.contains(words), "{name} {value:?}: {error}");
        }
        assert!(parse("io.max", false).unwrap_err().contains("io.max DEVICE, io.weight DEVICE"));
        for bad in ["io.max ../sda", "io.max sda vda", "io.latency sda", "cgroup.procs sda", "io.cost.qos sda", "io.max sda\n"] {
            assert!(parse(bad, false).is_err(), "{bad:?}");
        }
        assert!(parse("io.cost.qos sda", true).is_ok() && parse("io.max sda", true).is_err());
    }
}
