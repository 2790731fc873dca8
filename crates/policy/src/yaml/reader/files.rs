//! Files and variables that a policy names.

use std::path::PathBuf;

use super::Reader;
use super::members::Members;
use crate::check::codes;
use crate::check::words::quoted;
use crate::yaml::NamedFile;
use crate::yaml::source::Span;
use crate::yaml::tree::Node;

impl Reader<'_> {
    /// The content of a file that is named relative to the policy.
    pub(super) fn file(&mut self, name: &str, span: Span) -> Option<(PathBuf, Vec<u8>)> {
        let Some(base_dir) = self.base_dir else {
            let message = format!("the file {} cannot be read here", quoted(name));
            let hint = "this policy was not read from a file, so nothing lies beside it";
            self.error(codes::UNREADABLE_FILE, span, message, hint);
            return None;
        };
        let path = base_dir.join(name);
        let (named, read) = NamedFile::read(path.clone());
        self.files.push(named);
        match read {
            Ok(bytes) => Some((path, bytes)),
            Err(why) => {
                let message = format!("the file {} cannot be read: {why}", quoted(&path.display().to_string()));
                let hint = "names of files are relative to the policy's own place";
                self.error(codes::UNREADABLE_FILE, span, message, hint);
                None
            }
        }
    }

    /// A key out of the variable or the file that a map names.
    pub(super) fn key(&mut self, members: &Members<'_>) -> Option<Vec<u8>> {
        let from_variable = members.get("key_env").and_then(|node| self.secret_variable(node));
        from_variable.or_else(|| members.get("key_file").and_then(|node| self.secret_file(node)))
    }

    /// A secret out of an environment variable. It is never shown.
    fn secret_variable(&mut self, node: &Node) -> Option<Vec<u8>> {
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
    fn secret_file(&mut self, node: &Node) -> Option<Vec<u8>> {
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
