//! Files and variables that a policy names.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::Reader;
use crate::check::codes;
use crate::check::words::quoted;
use crate::yaml::MAX_FILE_BYTES;
use crate::yaml::source::Span;
use crate::yaml::tree::Node;

impl Reader<'_> {
    /// The content of a file that is named relative to the policy.
    pub(super) fn file(&mut self, name: &str, span: Span) -> Option<(PathBuf, Vec<u8>)> {
        let Some(base_dir) = self.base_dir else {
            let message = format!("the file {} cannot be read here", quoted(name));
            self.error(
                codes::UNREADABLE_FILE,
                span,
                message,
                "this policy was not read from a file, so nothing lies beside it",
            );
            return None;
        };
        let path = base_dir.join(name);
        match read_file(&path) {
            Ok(bytes) => Some((path, bytes)),
            Err(why) => {
                let message = format!("the file {} cannot be read: {why}", quoted(&path.display().to_string()));
                self.error(
                    codes::UNREADABLE_FILE,
                    span,
                    message,
                    "names of files are relative to the policy's own place",
                );
                None
            }
        }
    }

    /// A secret out of an environment variable. It is never shown.
    pub(super) fn secret_variable(&mut self, node: &Node) -> Option<Vec<u8>> {
        let name = self.text(node, "the name of an environment variable")?;
        // These would panic or find nothing.
        let is_name = !name.contains(['=', '\0']);
        let value = is_name.then(|| std::env::var_os(&name)).flatten();
        let Some(value) = value.filter(|value| !value.is_empty()) else {
            let message = format!("the environment variable {} is not set, or is empty", quoted(&name));
            self.error(codes::MISSING_SECRET, node.span, message, "set it before the program starts");
            return None;
        };
        Some(value.into_encoded_bytes())
    }

    /// A secret out of a file, without the line end that editors put behind it.
    pub(super) fn secret_file(&mut self, node: &Node) -> Option<Vec<u8>> {
        let name = self.text(node, "the name of a file")?;
        let (path, mut bytes) = self.file(&name, node.span)?;
        let end = bytes.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |at| at + 1);
        bytes.truncate(end);
        if bytes.is_empty() {
            let message = format!("the file {} is empty", quoted(&path.display().to_string()));
            self.error(codes::MISSING_SECRET, node.span, message, "put the key into it");
            return None;
        }
        Some(bytes)
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let io = |error: std::io::Error| error.to_string();
    let file = File::open(path).map_err(io)?;
    // A pipe or a device might never end.
    if !file.metadata().map_err(io)?.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > MAX_FILE_BYTES { Err("it is larger than 4 MiB".to_owned()) } else { Ok(bytes) }
}
