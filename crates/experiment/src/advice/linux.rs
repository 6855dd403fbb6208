//! A setting as a udev rule.

use control::Setting;

use super::udev;

/// Path of the rule.
const FILE: &str = "/etc/udev/rules.d/60-seekwise.rules";

/// Path for tunables of memory management.
pub(super) const SYSCTL_FILE: &str = "/etc/sysctl.d/60-seekwise.conf";

/// Whether only the kernels of some distributions have it.
fn is_out_of_tree(setting: &Setting) -> bool {
    block::OUT_OF_TREE.iter().any(|spec| spec.name == setting.spec.name)
}

/// Whether current mainline Linux has it.
pub fn has(setting: &Setting) -> bool {
    block::linux_name(setting.spec.name).is_some() && !is_out_of_tree(setting)
}

/// Lines of the rule. `instead` is the best setting that Linux has, if it is better than the active one.
pub fn rule(use_it: &Setting, active: &Setting, instead: Option<&Setting>) -> Vec<String> {
    if use_it == active {
        return vec!["# Nothing is to be changed: no rule for udev is needed.".to_owned()];
    }
    if has(use_it) {
        return lines(use_it);
    }
    let name = use_it.spec.name;
    let mut text = if is_out_of_tree(use_it) {
        let mut text = vec![format!("# {name} is not in mainline Linux. Where /sys/block/sdX/queue/scheduler lists it:")];
        text.extend(lines(use_it));
        text
    } else {
        vec![
            format!(
                "# Linux has no equivalent of {name} since version 5.0: it has none, mq-deadline (which came of deadline), kyber"
            ),
            "# and bfq.".to_owned(),
        ]
    };
    match instead {
        Some(setting) => {
            text.push(format!("# The best that mainline Linux has is {setting}:"));
            text.extend(lines(setting));
        }
        None if is_out_of_tree(use_it) => {}
        None => text.push(format!("# Of these, nothing is sure to be better than {active}.")),
    }
    text
}

/// The attributes that differ from their defaults under a setting, in the order of writing.
pub(super) struct Attributes {
    /// Of the disk: paths below its folder in `/sys/block`, the scheduler first.
    pub queue: Vec<(String, String)>,
    /// Of the machine: names below `/proc/sys/vm`.
    pub memory: Vec<(String, String)>,
}

impl Attributes {
    pub(super) fn of(setting: &Setting) -> Attributes {
        let scheduler = block::linux_name(setting.spec.name).unwrap_or_default();
        let mut queue = vec![("queue/scheduler".to_owned(), scheduler.to_owned())];
        let tunables = setting.spec.tunables.iter().zip(&setting.values).filter(|(tunable, value)| tunable.default != **value);
        queue.extend(tunables.map(|(tunable, value)| (format!("queue/iosched/{}", tunable.name), value.to_string())));
        let (of_queue, of_memory): (Vec<_>, Vec<_>) =
            setting.host.iter().partition(|(name, _)| block::QUEUE_TUNABLES.contains(&name.as_str()));
        queue.extend(of_queue.into_iter().map(|(name, value)| (format!("queue/{name}"), value.to_string())));
        let memory = of_memory.into_iter().map(|(name, value)| (name.clone(), value.to_string())).collect();
        Attributes { queue, memory }
    }
}

fn lines(setting: &Setting) -> Vec<String> {
    let Attributes { queue, memory } = Attributes::of(setting);
    let rule = udev::rule(&udev::condition(udev::ANY_DISK, None), queue);
    let mut lines = vec![format!("# {FILE}, with the disk's name for {}:", udev::ANY_DISK), rule];
    if !memory.is_empty() {
        // As comments, so that the whole output can be pasted into the rules file.
        lines.push(format!("# and into {SYSCTL_FILE}, for all disks:"));
        lines.extend(memory.into_iter().map(|(name, value)| format!("# vm.{name} = {value}")));
    }
    lines
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    fn of(use_it: &str, instead: Option<&str>) -> String {
        let setting = |text: &str| Setting::parse(text).unwrap();
        rule(&setting(use_it), &setting("deadline"), instead.map(setting).as_ref()).join("\n")
    }

    #[test]
    fn a_rule_carries_linuxs_names_and_the_tunables_that_are_set() {
        let rule = of("deadline:fifo_batch=1,read_expire=100", None);
        let expected = "KERNEL==\"sdX\", ATTR{queue/scheduler}=\"mq-deadline\", ATTR{queue/iosched/read_expire}=\"100\", ATTR{queue/iosched/fifo_batch}=\"1\"";
        assert!(rule.ends_with(expected), "{rule}");
        assert!(of("kyber:read_lat_nsec=5000000", None).ends_with("\"kyber\", ATTR{queue/iosched/read_lat_nsec}=\"5000000\""));
        assert!(of("kyber read_ahead_kb=1024", None).ends_with("\"kyber\", ATTR{queue/read_ahead_kb}=\"1024\""));
        let both = of("kyber dirty_bytes=16777216 nr_requests=64", None);
        assert!(
            both.contains("ATTR{queue/nr_requests}=\"64\"\n# and into") && both.ends_with("\n# vm.dirty_bytes = 16777216"),
            "{both}"
        );
        assert!(of("noop", None).contains("ATTR{queue/scheduler}=\"none\""));
        assert!(!of("deadline", None).contains("ATTR"));
    }

    #[test]
    fn where_linux_has_no_equivalent_the_best_that_it_has_is_named_if_it_is_better() {
        let rule = of("cfq", Some("noop"));
        assert!(rule.contains("no equivalent of cfq") && rule.contains("\"none\"") && !rule.contains("\"bfq\""), "{rule}");
        let rule = of("cfq", None);
        assert!(rule.contains("nothing is sure to be better than deadline") && !rule.contains("ATTR"), "{rule}");
    }

    #[test]
    fn a_scheduler_out_of_tree_is_named_as_such_and_so_is_the_best_of_mainline() {
        let rule = of("adios:batch_limit_read=8", Some("kyber"));
        assert!(
            rule.contains("adios is not in mainline Linux") && rule.contains("ATTR{queue/iosched/batch_limit_read}=\"8\""),
            "{rule}"
        );
        assert!(rule.ends_with("ATTR{queue/scheduler}=\"kyber\""), "{rule}");
    }
}
