//! The commands `completions` and `man`: what shells and man(1) want to know, made from the command line's declaration.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
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
    clap_complete::generate(arguments.shell, &mut program, name, &mut text);
    print(text)
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
