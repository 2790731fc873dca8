//! The charts that pages show are those that their commands draw.

use std::fs;
use std::path::Path;

use crate::pages::repository;

/// Compares the charts that a session has drawn with those in `docs/charts`. `TOLLGATE_WRITE_OUTPUTS=1` rewrites them;
/// review the changes.
pub(super) fn check(page: &str, directory: &Path) -> Result<(), String> {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "svg") {
            check_chart(page, &path)?;
        }
    }
    Ok(())
}

fn check_chart(page: &str, drawn: &Path) -> Result<(), String> {
    let stored = repository().join("docs/charts").join(drawn.file_name().unwrap());
    if std::env::var_os("TOLLGATE_WRITE_OUTPUTS").is_some() {
        fs::copy(drawn, &stored).unwrap();
    }
    let is_same = fs::read(&stored).is_ok_and(|chart| chart == fs::read(drawn).unwrap());
    if is_same { Ok(()) } else { Err(format!("{page}: draws another chart than {}", stored.display())) }
}
