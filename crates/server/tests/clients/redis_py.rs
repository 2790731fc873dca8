use std::process::Command;

use crate::program::{place, port, printed, script};
use crate::running::Running;

#[test]
#[ignore = "needs redis-py"]
fn it_connects_pipelines_and_is_told_what_is_wrong() {
    let service = Running::start();
    let mut python = Command::new("python3");
    if let Some(packages) = place("redis-py") {
        python.env("PYTHONPATH", packages);
    }
    let said = printed(python.arg(script("redis_py.py")).arg(port(service.resp)));
    assert!(said.starts_with("redis-py "), "{said}");
}
