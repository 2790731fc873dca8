//! The files of `deploy`, with the addresses of a test.

use std::path::{Path, PathBuf};

/// The address of the proxy in front of the gateway, in the recipes.
const WRITTEN_PROXY: &str = "192.0.2.1";

/// The last part of the address of the proxy in front of the gateway, in tests.
pub(crate) const PROXY_HOST: u8 = 9;

/// A directory of `deploy`, and the replacements of a test.
pub(crate) struct Recipe {
    pub(crate) program: &'static str,
    /// The ports in the files, and the actual ones.
    pub(crate) ports: Vec<(u16, u16)>,
    /// A setting that the recipe leaves to the user: its text in the file, and the replacement.
    pub(crate) choice: (&'static str, &'static str),
}

impl Recipe {
    /// Writes the files into a directory. Panics if a text to replace does not occur.
    pub(crate) fn write(&self, directory: &Path) {
        let mut all = String::new();
        for file in std::fs::read_dir(deployed(self.program)).unwrap() {
            let file = file.unwrap().path();
            let written = std::fs::read_to_string(&file).unwrap();
            let text = with_ports(&behind_proxy(&written), &self.ports).replace(self.choice.0, self.choice.1);
            std::fs::write(directory.join(file.file_name().unwrap()), text).unwrap();
            if file.extension().is_none_or(|extension| extension != "md") {
                all.push_str(&written);
            }
        }
        for (port, _) in &self.ports {
            assert!(all.contains(&port.to_string()), "the recipe has no port {port}");
        }
        assert_eq!(all.matches(self.choice.0).count(), 1, "the recipe must contain {} once", self.choice.0);
    }
}

/// The last part of the address that is on the deny list.
pub(crate) const DENIED_HOST: u8 = 7;

/// A rule that allows one request an hour, and a second one with a warning.
const WARNED: &str = "  - { name: warned, when: { path: /warned }, key: client_ip, limit: 1/h, \
                      on_limit: [ { first: 1, action: warn }, { then: reject } ] }";

/// The policy of a recipe, with a denied address and a rule that warns.
pub(crate) fn policy(program: &str) -> String {
    let written = std::fs::read_to_string(deployed(program).join("policy.yaml")).unwrap();
    format!("{}{WARNED}\ndeny: {{ client_ip: 127.0.0.{DENIED_HOST} }}\n", behind_proxy(&written))
}

fn deployed(program: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(program)
}

/// The text with the address of the test's proxy in front of the gateway.
pub(crate) fn behind_proxy(text: &str) -> String {
    text.replace(WRITTEN_PROXY, &format!("127.0.0.{PROXY_HOST}"))
}

/// Replaces whole numbers, in one pass.
pub(crate) fn with_ports(text: &str, ports: &[(u16, u16)]) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: Option<u16> = rest[..digits].parse().ok();
        match ports.iter().find(|(written, _)| Some(*written) == number) {
            Some((_, port)) => replaced.push_str(&port.to_string()),
            None => replaced.push_str(&rest[..digits]),
        }
        rest = &rest[digits..];
        let others = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        replaced.push_str(&rest[..others]);
        rest = &rest[others..];
    }
    replaced
}

#[test]
fn only_whole_numbers_are_replaced() {
    let ports = [(8000, 18_080), (8080, 8000)];
    assert_eq!(with_ports("a:8000 b:8080; 18000 80801 8000", &ports), "a:18080 b:8000; 18000 80801 18080");
}
