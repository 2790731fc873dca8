use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::FalseyValueParser;
use tollgate::policy::STARTER;

use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::log_info;

/// Write the starter policy, with comments
///
/// It allows each client address 60 requests a minute and denies no client.
/// Its comments show what else a policy can contain.
#[derive(Debug, Args)]
pub(crate) struct InitArguments {
    /// File to write; stdout without one, or with `-`
    file: Option<PathBuf>,

    /// Replace the file if it exists
    #[arg(long, env = "TOLLGATE_INIT_FORCE", hide_env_values = true, value_parser = FalseyValueParser::new())]
    force: bool,
}

pub(crate) fn init(arguments: &InitArguments) -> Result<Exit, Failure> {
    match &arguments.file {
        Some(file) if file != Path::new("-") => {
            write(file, arguments.force).map_err(|error| write_failure(file, &error))?;
            let file = file.display();
            log_info(format_args!("wrote {file}; `tollgate validate {file}` prints what it guarantees"));
        }
        _ => output::print(STARTER)?,
    }
    Ok(Exit::Done)
}

fn write(file: &Path, force: bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true);
    if force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    options.open(file)?.write_all(STARTER.as_bytes())
}

fn write_failure(file: &Path, error: &io::Error) -> Failure {
    let file = file.display();
    match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::failed(format!("{file} exists already"))
            .with_hint("choose another name, or replace the file with --force"),
        _ => Failure::failed(format!("cannot write {file}: {error}")),
    }
}
