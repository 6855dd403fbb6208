//! The commands `completions` and `man`: what shells and man(1) want to know, made from the command line's declaration.

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
pub struct Arguments {
    /// The command, word by word, as in `man trace convert` [default: the program itself]
    #[arg(value_name = "COMMAND", conflicts_with = "output")]
    command: Vec<String>,
    /// Write the pages of all commands to this folder, one file each, instead of printing one
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Prints what the shell reads to complete the commands and options of `program`.
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

/// For bash names that stand beside files are plain names: of others clap_complete takes the whole list for one.
fn without_hints(command: clap::Command) -> clap::Command {
    let plain = |argument: Arg| if names(&argument).is_empty() { argument } else { argument.value_hint(ValueHint::Unknown) };
    command.mut_args(plain).mut_subcommands(without_hints)
}

/// The names that an argument takes.
fn names(argument: &Arg) -> Vec<String> {
    argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect()
}

/// Whether it takes paths of files beside these names.
fn takes_files(argument: &Arg) -> bool {
    argument.get_value_hint() == ValueHint::FilePath
}

/// Where the script offers only the names of arguments that take files as well, offers both: bash does that by itself. `change` has
/// the two spellings.
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

/// Mends what clap_complete gets wrong for zsh: after several values of a positional argument it offers no options, and a colon in a value's
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

/// Adds the names of positional arguments, which clap_complete leaves out for fish. `above` are the words before the command's arguments.
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

/// Prints a page of `program`, or writes all of them. A hidden command has none.
///
/// # Errors
/// There is no such command or folder, or the page cannot be written.
pub fn run(arguments: &Arguments, mut program: clap::Command) -> anyhow::Result<()> {
    // Gives every command its full name, from which its page is named.
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

/// One page. `path` is the command's name, word by word, the program's first.
fn page(command: &clap::Command, path: &[String]) -> anyhow::Result<Vec<u8>> {
    let name = path.join("-");
    let mut text = Vec::new();
    // No date, so that the same program prints the same bytes.
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
