use std::process::Command;

use crate::program::{configured_path, port, script, stdout_of};
use crate::test_service::TestService;

#[test]
#[ignore = "needs ioredis"]
fn ioredis_connects_pipelines_and_gets_errors() {
    let service = TestService::start();
    let mut node = Command::new("node");
    if let Some(modules) = configured_path("ioredis") {
        node.env("NODE_PATH", modules);
    }
    let stdout = stdout_of(node.arg(script("ioredis.js")).arg(port(service.resp)));
    assert!(stdout.starts_with("ioredis "), "{stdout}");
}
