//! The commands `completions` and `man`, generated from the declaration of the command line.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::{Arg, ValueHint};
use clap_complete::Shell;
use clap_mangen::Man;

/// Arguments of `completions`.
#[derive(clap::Args)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

/// Arguments of `man`.
#[derive(clap::Args)]
pub struct ManualArguments {
    /// The command, word by word, as in `man trace convert` [default: the program itself]
    #[arg(value_name = "COMMAND", conflicts_with = "output")]
    command: Vec<String>,
    /// Write the pages of all commands to this folder, one file each, instead of printing one
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Prints the shell's completion script for the commands and options of `program`.
///
/// # Errors
/// Standard output cannot be written to.
pub fn complete(arguments: &Completions, mut program: clap::Command) -> anyhow::Result<()> {
    let (mut text, name) = (Vec::new(), program.get_name().to_owned());
    if arguments.shell == Shell::Bash {
        program = without_hints(program);
    }
    clap_complete::generate(arguments.shell, &mut program, name.as_str(), &mut text);
    let mut text = String::from_utf8(text)?;
    match arguments.shell {
        Shell::Fish => {
            with_files(&program, &mut text, &|names| {
                let list = names.iter().map(|name| format!("{name}\\t''")).collect::<Vec<_>>().join("\n");
                (format!("-r -f -a \"{list}\""), format!("-r -F -a \"{list}\""))
            });
            add_positional(&program, (&name, &mut Vec::new()), &mut text);
        }
        Shell::Zsh => {
            // A colon ends the action, unless it is escaped.
            with_files(&program, &mut text, &|names| {
                let list = names.join(" ");
                (format!(":({list})'"), format!(":{{_alternative \"names\\:name\\:({list})\" \"files\\:file\\:_files\"}}'"))
            });
            mend_for_zsh(&program, &mut text);
        }
        _ => {}
    }
    Ok(crate::print(&text)?)
}

/// Removes hints from arguments with names, for bash: clap_complete would treat the list of names as one word.
fn without_hints(command: clap::Command) -> clap::Command {
    let plain = |argument: Arg| if names(&argument).is_empty() { argument } else { argument.value_hint(ValueHint::Unknown) };
    command.mut_args(plain).mut_subcommands(without_hints)
}

/// The possible values of an argument.
fn names(argument: &Arg) -> Vec<String> {
    argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect()
}

/// Whether it accepts paths of files as well as its names.
fn takes_files(argument: &Arg) -> bool {
    argument.get_value_hint() == ValueHint::FilePath
}

/// Extends the completion of arguments that accept both names and files, as the script offers only names; bash needs no change. `change`
/// returns the two spellings.
fn with_files(command: &clap::Command, text: &mut String, change: &dyn Fn(&[String]) -> (String, String)) {
    for argument in command.get_arguments().filter(|argument| takes_files(argument)) {
        let names = names(argument);
        if !names.is_empty() {
            let (before, after) = change(&names);
            *text = text.replace(&before, &after);
        }
    }
    command.get_subcommands().for_each(|command| with_files(command, text, change));
}

/// Fixes zsh scripts of clap_complete: after several values of a positional argument options are not offered, and a colon in a value's
/// name ends it, so that nothing is offered for the value.
fn mend_for_zsh(command: &clap::Command, text: &mut String) {
    for argument in command.get_arguments() {
        let id = argument.get_id();
        if argument.is_positional() {
            *text = text.replace(&format!("'*::{id} -- "), &format!("'*:{id} -- "));
        }
        for name in argument.get_value_names().unwrap_or_default().iter().filter(|name| name.contains(':')) {
            *text = text.replace(&format!("]:{name}:"), &format!("]:{}:", name.replace(':', "\\:")));
        }
    }
    command.get_subcommands().for_each(|command| mend_for_zsh(command, text));
}

/// Adds the values of positional arguments, which clap_complete omits for fish. `above` are the words before the command's arguments.
fn add_positional(command: &clap::Command, (program, above): (&str, &mut Vec<String>), text: &mut String) {
    for argument in command.get_positionals().filter(|argument| !names(argument).is_empty()) {
        let function = program.replace('-', "_");
        let condition = match &above[..] {
            [first] => format!("__fish_{function}_using_subcommand {first}"),
            [first, second] => format!("__fish_{function}_using_subcommand {first}; and __fish_seen_subcommand_from {second}"),
            _ => continue,
        };
        let only_names = if takes_files(argument) { "" } else { " -f" };
        *text += &format!("complete -c {program} -n \"{condition}\"{only_names} -a \"{}\"\n", names(argument).join(" "));
    }
    for command in command.get_subcommands().filter(|command| command.get_name() != "help" && !command.is_hide_set()) {
        above.push(command.get_name().to_owned());
        add_positional(command, (program, above), text);
        above.pop();
    }
}

/// Prints a page of `program`, or writes all of them. Hidden commands have none.
///
/// # Errors
/// The command or folder does not exist, or the page cannot be written.
pub fn run(arguments: &ManualArguments, mut program: clap::Command) -> anyhow::Result<()> {
    // Sets the full name of every command, from which the name of its page is derived.
    program.build();
    if let Some(folder) = &arguments.output {
        ensure!(folder.is_dir(), "--output {}: there is no such folder", folder.display());
        return write(&program, &[program.get_name().to_owned()], folder);
    }
    let mut command = &program;
    for name in &arguments.command {
        command = match command.find_subcommand(name) {
            Some(found) => found,
            None => bail!("{}: there is no such command (see `{} --help`)", arguments.command.join(" "), program.get_name()),
        };
    }
    let path: Vec<String> = std::iter::once(program.get_name().to_owned()).chain(arguments.command.iter().cloned()).collect();
    print(page(command, &path)?)
}

fn print(text: Vec<u8>) -> anyhow::Result<()> {
    Ok(crate::print(&String::from_utf8(text)?)?)
}

/// A manual page. `path` is the command's name, word by word, beginning with the program.
fn page(command: &clap::Command, path: &[String]) -> anyhow::Result<Vec<u8>> {
    let name = path.join("-");
    let mut text = Vec::new();
    // Without a date, so that the output is reproducible.
    Man::new(command.clone().disable_help_subcommand(true)).title(name.to_uppercase()).source("Seekwise").render(&mut text)?;
    Ok(text)
}

fn write(command: &clap::Command, path: &[String], folder: &Path) -> anyhow::Result<()> {
    let file = folder.join(path.join("-") + ".1");
    report::record::replace(&file, &page(command, path)?).with_context(|| file.display().to_string())?;
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help" && !sub.is_hide_set()) {
        write(sub, &[path, &[sub.get_name().to_owned()]].concat(), folder)?;
    }
    Ok(())
}
