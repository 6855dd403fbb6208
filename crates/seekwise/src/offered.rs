//! Values for shell completion: built-in disks, schedulers, controllers, candidates, formats and jobs. The lists are used by completions
//! only; commands also accept files, and names with tunables.

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, ValueHint};
use control::candidates;
use control::controller::ControllerSpec;
use device_model::sched;
use sim::{profile, trace};
use testbed::shipped;

/// The command line with names as the possible values of its arguments.
pub fn with_values(command: Command, controllers: &[&'static ControllerSpec]) -> Command {
    let group = command.get_name().to_owned();
    command.mut_subcommands(|subcommand| {
        let subcommand = subcommand.mut_args(|argument| with_names(&group, argument, controllers));
        with_values(subcommand, controllers)
    })
}

fn with_names(group: &str, argument: Arg, controllers: &[&'static ControllerSpec]) -> Arg {
    let names = names(group, &argument, controllers);
    if names.is_empty() {
        return argument;
    }
    // For these arguments shells also complete paths.
    let takes_files = matches!((group, argument.get_id().as_str()), (_, "disk" | "load" | "workload") | ("workload", "name"));
    let hint = if takes_files { ValueHint::FilePath } else { ValueHint::Other };
    argument.value_hint(hint).value_parser(PossibleValuesParser::new(names))
}

/// Names that an argument accepts. `group` is the parent of the argument's command.
fn names(group: &str, argument: &Arg, controllers: &[&'static ControllerSpec]) -> Vec<&'static str> {
    let schedulers = || sched::all().map(|spec| spec.name);
    let controllers = || controllers.iter().map(|spec| spec.name);
    match (group, argument.get_id().as_str()) {
        (_, "disk") => profile::BUILT_IN.iter().map(|(name, _)| *name).collect(),
        (_, "scheduler" | "schedulers") | ("scheduler", "name") => schedulers().collect(),
        (_, "controller" | "controllers") | ("controller", "name") => controllers().collect(),
        (_, "candidates") => candidates::SETS.iter().map(|set| set.name).chain(schedulers()).collect(),
        (_, "format") => trace::ALL.iter().map(|format| format.name).collect(),
        (_, "load" | "workload") | ("workload", "name") => shipped::ALL.iter().map(|(name, _)| *name).collect(),
        _ => Vec::new(),
    }
}
