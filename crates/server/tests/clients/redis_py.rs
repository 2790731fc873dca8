use std::process::Command;

use crate::program::{configured_path, port, script, stdout_of};
use crate::test_service::TestService;

#[test]
#[ignore = "needs redis-py"]
fn redis_py_connects_pipelines_and_gets_errors() {
    let service = TestService::start();
    let mut python = Command::new("python3");
    if let Some(packages) = configured_path("redis-py") {
        python.env("PYTHONPATH", packages);
    }
    let stdout = stdout_of(python.arg(script("redis_py.py")).arg(port(service.resp)));
    assert!(stdout.starts_with("redis-py "), "{stdout}");
}
