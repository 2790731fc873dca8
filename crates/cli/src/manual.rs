//! Manual pages, rendered from the definition of the commands. Packages contain them.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::arguments::Cli;
use crate::exit::{Exit, Failure};

/// Exit codes and their meanings, as `Exit` documents them.
const EXIT_STATUS: [(Exit, &str); 4] = [
    (Exit::Done, "Success, or a positive result."),
    (Exit::No, "A negative result, for example an invalid policy."),
    (Exit::WrongUsage, "The arguments are invalid."),
    (Exit::Failed, "The command failed."),
];

/// Write the manual pages, one for each command
///
/// Packages contain them. After `cargo install`, write them to
/// ~/.local/share/man/man1.
#[derive(Debug, Args)]
pub(crate) struct ManualArguments {
    /// Directory to write the pages into; it is created if it is missing
    directory: PathBuf,
}

pub(crate) fn manual(arguments: &ManualArguments) -> Result<Exit, Failure> {
    let directory = &arguments.directory;
    let write = || {
        fs::create_dir_all(directory)?;
        pages().into_iter().try_for_each(|page| page.write(directory))
    };
    write().map_err(|error| Failure::failed(format!("cannot write pages to {}: {error}", directory.display())))?;
    Ok(Exit::Done)
}

/// A manual page.
struct ManualPage {
    /// The commands from the program on, joined with hyphens: `tollgate-keys-reset`.
    name: String,
    command: Command,
    /// The page of the command above, to which the page refers. Those below are its subcommands.
    above: Option<String>,
}

/// The pages of all commands.
fn pages() -> Vec<ManualPage> {
    // The subcommand `help` would have a page for every other command.
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let mut pages = Vec::new();
    add_pages(&program, None, &mut pages);
    pages
}

fn add_pages(command: &Command, above: Option<&str>, pages: &mut Vec<ManualPage>) {
    let name = above.map_or_else(|| command.get_name().to_owned(), |above| format!("{above}-{}", command.get_name()));
    pages.push(ManualPage { name: name.clone(), command: command.clone(), above: above.map(str::to_owned) });
    command.get_subcommands().for_each(|below| add_pages(below, Some(&name), pages));
}

impl ManualPage {
    fn write(self, directory: &Path) -> io::Result<()> {
        fs::write(directory.join(format!("{}.1", self.name)), self.render()?)
    }

    fn render(self) -> io::Result<Vec<u8>> {
        let has_subcommands = self.command.has_subcommands();
        let mut page = Vec::new();
        // Not by clap_mangen, which leaves an empty date out, so that the version would become the date. A date
        // would make each build different.
        let (title, version) = (self.name.to_uppercase(), env!("CARGO_PKG_VERSION"));
        writeln!(page, r#".TH "{title}" "1" "" "tollgate {version}" "Tollgate Manual""#)?;
        let man = Man::new(self.command);
        man.render_name_section(&mut page)?;
        man.render_synopsis_section(&mut page)?;
        man.render_description_section(&mut page)?;
        man.render_options_section(&mut page)?;
        if has_subcommands {
            man.render_subcommands_section(&mut page)?;
        }
        exit_status().to_writer(&mut page)?;
        self.above.map_or(Ok(()), |above| see_also(&above).to_writer(&mut page))?;
        Ok(page)
    }
}

fn exit_status() -> Roff {
    let mut section = Roff::new();
    section.control("SH", ["EXIT STATUS"]);
    for (exit, meaning) in EXIT_STATUS {
        section.control("TP", []);
        section.text([bold((exit as u8).to_string())]);
        section.text([roman(meaning)]);
    }
    section
}

fn see_also(above: &str) -> Roff {
    let mut section = Roff::new();
    section.control("SH", ["SEE ALSO"]);
    section.text([bold(above), roman("(1)")]);
    section
}
