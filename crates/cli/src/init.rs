use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use tollgate::policy::STARTER;

use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::say;

/// Write a commented policy to begin with
///
/// It lets every client address make 60 requests a minute and denies nobody;
/// its comments show what else a policy can say.
#[derive(Debug, Args)]
pub(crate) struct InitArguments {
    /// Where to write it; stdout without a name, or with `-`
    file: Option<PathBuf>,

    /// Replace the file if there is one
    #[arg(long)]
    force: bool,
}

pub(crate) fn init(arguments: &InitArguments) -> Result<Exit, Failure> {
    match &arguments.file {
        Some(file) if file != Path::new("-") => {
            write(file, arguments.force).map_err(|error| unwritten(file, &error))?;
            let file = file.display();
            say(format_args!("wrote {file}; `tollgate validate {file}` says what it promises"));
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

fn unwritten(file: &Path, error: &io::Error) -> Failure {
    let file = file.display();
    match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::failed(format!("{file} exists already"))
            .with_hint("choose another name, or replace it with --force"),
        _ => Failure::failed(format!("cannot write {file}: {error}")),
    }
}
