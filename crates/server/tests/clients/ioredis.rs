use std::process::Command;

use crate::program::{place, port, printed, script};
use crate::running::Running;

#[test]
#[ignore = "needs ioredis"]
fn it_connects_pipelines_and_is_told_what_is_wrong() {
    let service = Running::start();
    let mut node = Command::new("node");
    if let Some(modules) = place("ioredis") {
        node.env("NODE_PATH", modules);
    }
    let said = printed(node.arg(script("ioredis.js")).arg(port(service.resp)));
    assert!(said.starts_with("ioredis "), "{said}");
}
