//! The commands of the program `seekwise`, shared with `seekwise-lab`: they parse arguments, call `experiment` and `guarantee`, and print.

pub mod advise;
pub mod arguments;
pub mod check;
pub mod compare;
pub mod controller;
pub mod disk;
pub mod guarantee;
pub mod host;
#[cfg(feature = "knowledge")]
pub mod kb;
pub mod learn;
pub mod library;
pub mod moved;
pub mod number;
pub mod offered;
pub mod output;
pub mod place;
pub mod programs;
pub mod protect;
pub mod records;
pub mod scheduler;
pub mod schema;
pub mod simulate;
pub mod sweep;
pub mod trace;
pub mod tunables;
pub mod whole_file;
pub mod workload;

/// Initialises a program with this name: installs handlers of Ctrl-C and SIGTERM that stop its work, including queries of knowledge bases.
pub fn begin(program: &'static str) {
    terminal::begin(program);
    #[cfg(feature = "knowledge")]
    knowledge::interrupt_on(terminal::interrupted());
}

/// Parses the command line; exits on an error. Every option accepts `-1` as a value, so that the error is about the value
/// and not about an unknown option.
pub fn parse<C: clap::CommandFactory + clap::FromArgMatches>() -> C {
    let mut command = takes_negative_numbers(C::command());
    C::from_arg_matches(&command.get_matches_mut()).unwrap_or_else(|error| error.format(&mut command).exit())
}

fn takes_negative_numbers(command: clap::Command) -> clap::Command {
    let is_option = |argument: &clap::Arg| argument.get_long().is_some() && argument.get_action().takes_values();
    command
        .mut_args(move |argument| if is_option(&argument) { argument.allow_negative_numbers(true) } else { argument })
        .mut_subcommands(takes_negative_numbers)
}

#[cfg(feature = "knowledge")]
/// Warns if an argument is an address with a password, which `ps` shows to other users.
pub fn warn_of_password() {
    if std::env::args_os().any(|argument| knowledge::Knowledge::holds_password(std::path::Path::new(&argument))) {
        terminal::eprint_line(
            "note: other users of this machine can see the password in the address while this runs; PGPASSWORD, passfile=FILE in the \
             address, or ~/.pgpass keep it from them",
        );
    }
}
