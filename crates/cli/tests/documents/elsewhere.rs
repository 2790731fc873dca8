//! Blocks and commands that other tests run. Each is in one place only.

use crate::blocks::{Block, blocks};
use crate::pages::{names, text};

/// Blocks of a page that another test compares, runs, or makes the same calls as: the page, the language, how the blocks begin, and the test.
const BLOCKS: [(&str, &str, &str, &str); 9] = [
    ("README.md", "rust", "", "crates/tollgate/tests/readme.rs"),
    ("README.md", "console", "HTTP/1.1 429", "crates/tollgate/tests/readme.rs"),
    ("docs/policy.md", "yaml", "", "crates/policy/tests/example_policies.rs"),
    ("docs/policy-messages.md", "yaml", "", "crates/policy/tests/messages.rs"),
    ("docs/clients.md", "python", "", "crates/server/tests/clients/limited_api.rs"),
    ("docs/clients.md", "javascript", "", "crates/server/tests/clients/limited_api.rs"),
    ("docs/clients.md", "sh", "", "crates/server/tests/clients/limited_api.rs"),
    ("docs/workbench.md", "console", "", "crates/cli/tests/workbench/calibrate.rs"),
    ("docs/redis.md", "rust", "", "crates/tollgate/tests/redis.rs"),
];

/// Beginnings of commands that other tests run, with the test, because they need other programs, or a terminal.
const COMMANDS: [(&str, &str); 7] = [
    ("envoy -c ", "crates/cli/tests/gateways/envoy.rs"),
    ("haproxy -f ", "crates/cli/tests/gateways/haproxy.rs"),
    ("nginx -p ", "crates/cli/tests/gateways/nginx.rs"),
    ("caddy run ", "crates/cli/tests/gateways/caddy.rs"),
    ("traefik --configFile", "crates/cli/tests/gateways/traefik.rs"),
    ("tollgate top", "crates/cli/tests/program/top.rs"),
    ("scripts/test", "scripts/test"),
];

/// Whether another test runs the block.
pub(crate) fn has_block(page: &str, block: &Block) -> bool {
    BLOCKS.iter().any(|(of, language, beginning, _)| {
        *of == page && *language == block.language && block.text.starts_with(beginning)
    })
}

/// Whether another test runs the command.
pub(crate) fn has_command(command: &str) -> bool {
    COMMANDS.iter().any(|(beginning, _)| command.starts_with(beginning))
}

#[test]
fn every_exception_is_needed() {
    let pages: Vec<(String, String)> = names().into_iter().map(|name| (name.clone(), text(&name))).collect();
    for (page, language, beginning, _) in BLOCKS {
        let is_it = |block: &Block| block.language == language && block.text.starts_with(beginning);
        assert!(blocks(&text(page)).iter().any(is_it), "{page} has no such block of {language}");
    }
    for (beginning, _) in COMMANDS {
        let has_it =
            |page: &(String, String)| page.1.lines().any(|line| line.trim_start_matches("$ ").starts_with(beginning));
        assert!(pages.iter().any(has_it), "no page has the command {beginning}");
    }
}

#[test]
fn files_of_the_other_tests_exist() {
    let repository = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for file in BLOCKS.iter().map(|block| block.3).chain(COMMANDS.map(|command| command.1)) {
        assert!(repository.join(file).exists(), "{file}");
    }
}
